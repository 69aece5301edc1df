#!/usr/bin/env python3
"""The kernel list is the single source of the runtime's ABI.

Each row of te_runtime_kernels.inc has a reference implementation, a plan of the
cuda backend and a case of the conformance suite. A kernel may change at any
time: compiled modules name the kernels they use with the hashes of their rows.
A change of the calling convention, which is the shared structs and the functions
that are not kernels, must raise TE_RT_VERSION: abi.lock has the digest of one
version, and the enumerators, which are only ever added. kernels.lock has a digest
of each kernel's description beside its hash, so that a changed description asks
whether the kernel's meaning changed.

`abi.py --update` writes both, unless a person has to decide first: it refuses a
changed calling convention under the same version, and a changed description under
the same hash. `--same-meaning` says that no changed description changes what a
launch computes.
"""

import hashlib
import re
import sys

from lint import ROOT, finish, read

RUNTIME = ROOT / "include/TEDialect/Runtime"
LOCK = ROOT / "test/lint/abi.lock"
DESCRIPTIONS = ROOT / "test/lint/kernels.lock"


def without_comments(text):
    return re.sub(r"//.*|/\*(?:.|\n)*?\*/", "", text)


def sources(folder, *patterns):
    return "\n".join(read(path) for pattern in patterns for path in (ROOT / folder).rglob(pattern))


rows = re.findall(r"^TE_RT_KERNEL\((\w+),", without_comments(read(RUNTIME / "te_runtime_kernels.inc")), re.M)
problems = []
reference = sources("lib/Runtime/Reference", "*.cpp")
cuda = sources("lib/Runtime", "Kernels/**/*.cpp", "Cuda/*.cpp", "Gemm/*.cpp", "Attention/*.cpp")
conformance = sources("test/unit/Conformance", "*.cpp", "*.h")
for name in rows:
    if not re.search(rf"\b(?:void|Status) {name}\(const {name}_params\b|\b{name}_params &", reference):
        problems.append(f"{name}: no reference implementation in lib/Runtime/Reference")
    if not re.search(rf"\bplan_{name}\(", cuda):
        problems.append(f"{name}: no plan of the cuda backend")
    if not re.search(rf"\b{name}\b|{name}_params", conformance):
        problems.append(f"{name}: the conformance suite does not name it")

types = without_comments(read(RUNTIME / "te_runtime_types.h"))
version = re.search(r"#define TE_RT_VERSION (\d+)", types)[1]
enumerators = [
    f"{name} = {value}"
    for body in re.findall(r"enum \w+ \{(.*?)\}", types, re.S)
    for name, value in re.findall(r"(\w+) = (\w+)", body)
]
convention = re.sub(r"typedef enum \w+ \{.*?\} \w+;", "", types.replace(f"TE_RT_VERSION {version}", ""), flags=re.S)
convention += without_comments(read(RUNTIME / "te_runtime_compiled.h"))


def digest_of(text):
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def described():
    """The sections of the page of kernels: {name: (hash of the row, digest of its description)}; conventions have no hash."""
    found = {}
    for section in re.split(r"^##(?=#? )", read(ROOT / "docs/generated/kernels.md"), flags=re.M)[1:]:
        title, _, text = section.lstrip("# ").partition("\n")
        row = re.search(r"Hash of the row: `(\w+)`", text)
        if text.strip() and title.replace(" ", "-") not in found:  # A family may be called like a convention.
            found[title.replace(" ", "-")] = (row[1] if row else "-", digest_of(text.split("\n| parameter |")[0]))
    return found


digest = digest_of(convention)
descriptions = described()
lock = "\n".join([f"{version} {digest}", *enumerators]) + "\n"
locked, *known = LOCK.read_text().splitlines()
undecided, stale = [], []
if locked.split()[0] == version and locked != f"{version} {digest}":
    undecided.append(f"the calling convention changed: raise TE_RT_VERSION (now {version}), then run abi.py --update")
elif locked != f"{version} {digest}" or set(enumerators) > set(known):
    stale.append("abi.lock is out of date: run abi.py --update")
undecided += [
    f"expected the enumerator '{each}' to stay as it is, but it is gone or has another number; if no kernel takes it any more, delete its line of abi.lock"
    for each in known
    if each not in enumerators
]
before = {name: (row, text) for name, row, text in map(str.split, read(DESCRIPTIONS).splitlines())}
for name, (row, text) in descriptions.items():
    if before.get(name) == (row, text):
        continue
    if name in before and before[name][0] == row and "--same-meaning" not in sys.argv[1:]:
        undecided.append(
            f"{name}: its description changed and its hash did not. If a launch computes something else than before, "
            "raise 'Meaning' of every kernel that this concerns and run abi.py --update; otherwise run "
            "abi.py --update --same-meaning"
        )
    else:
        stale.append(f"{name}: kernels.lock is out of date: run abi.py --update")
if "--update" in sys.argv[1:] and not undecided:
    LOCK.write_text(lock)
    DESCRIPTIONS.write_text("".join(f"{name} {row} {text}\n" for name, (row, text) in descriptions.items()))
    stale = []
problems += undecided + stale
sys.exit(finish(problems, len(rows), "kernels: on both backends, in the conformance suite"))
