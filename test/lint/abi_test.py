#!/usr/bin/env python3
"""`abi.py --update` writes the locks only if nothing is left for a person to decide.

Each case changes a copy of the files that abi.py reads."""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from lint import ROOT, finish

PAGE, TYPES = "docs/generated/kernels.md", "include/TEDialect/Runtime/te_runtime_types.h"
LOCKS = "test/lint/abi.lock", "test/lint/kernels.lock"
# Of the page, the section of one kernel: its hash, and words of its description.
SECTION = r"(?s)(### amax\n.*?Hash of the row: `)(\w+)(`)"


@contextlib.contextmanager
def copy():
    with tempfile.TemporaryDirectory() as folder:
        for part in (
            "include/TEDialect/Runtime",
            "lib/Runtime",
            "test/unit/Conformance",
            "test/lint",
            "docs/generated",
        ):
            shutil.copytree(ROOT / part, pathlib.Path(folder, part))
        yield pathlib.Path(folder)


def edit(tree, path, pattern, replacement):
    text, count = re.subn(pattern, replacement, (tree / path).read_text(), count=1)
    assert count == 1, f"{path} has no {pattern}"
    (tree / path).write_text(text)


def passes(tree, *arguments):
    return subprocess.run([sys.executable, tree / "test/lint/abi.py", *arguments], capture_output=True).returncode == 0


def describe(tree):
    edit(tree, PAGE, r"### amax\n\n", "### amax\n\nAnother sentence.\n\n")


def raise_meaning(tree):
    describe(tree)
    edit(tree, PAGE, SECTION, r"\g<1>0123456789abcdef\3")


def add_field(tree):
    edit(tree, TYPES, "int32_t num_plans;", "int32_t num_plans, more;")


def raise_version(tree):
    add_field(tree)
    edit(tree, TYPES, r"(#define TE_RT_VERSION \d+)", r"\g<1>0")


def drop_enumerator(tree):
    edit(tree, TYPES, r"TE_RT_GELU = 0,", "")


# What changes, the options, and whether --update takes it.
CASES = [
    (describe, [], False),
    (describe, ["--same-meaning"], True),
    (raise_meaning, [], True),
    (add_field, [], False),
    (add_field, ["--same-meaning"], False),
    (raise_version, [], True),
    (drop_enumerator, ["--same-meaning"], False),
]
problems = []
for change, options, accepted in CASES:
    name = " ".join([change.__name__, *options])
    with copy() as tree:
        locks = [(tree / lock).read_bytes() for lock in LOCKS]
        change(tree)
        if passes(tree, "--update", *options) != accepted:
            problems.append(f"{name}: expected --update {'to accept' if accepted else 'to refuse'} the change")
        written = locks != [(tree / lock).read_bytes() for lock in LOCKS]
        if written != accepted or (accepted and not passes(tree)):
            problems.append(f"{name}: expected the locks {'to have the change' if accepted else 'to stay'}")
sys.exit(finish(problems, len(CASES), "changes of the ABI are noted or refused"))
