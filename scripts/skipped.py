#!/usr/bin/env python3
"""Prints what the last run of ctest skipped, and why: entries of ctest, tests of GoogleTest, pytest and lit.

skipped.py BUILD...
"""

import collections
import pathlib
import re
import sys

LIT = pathlib.Path(__file__).resolve().parents[1] / "test" / "lit"


def entries(log):
    """(The name, the output) of each entry of ctest in its log."""
    for found in re.finditer(r"^\d+/\d+ Testing: (.*)\n(?:.*\n)*?Output:\n-+\n((?:.*\n)*?)<end of output>", log, re.M):
        yield found[1], found[2]


def required(test):
    """What a test of lit requires, by its own lines."""
    path = LIT / test
    lines = re.findall(r"(REQUIRES|UNSUPPORTED): *(.*)", path.read_text()) if path.exists() else []
    return "; ".join(f"{word.lower()} {what}" for word, what in lines) or "unsupported"


def skipped(output):
    """The reason of each test that was skipped."""
    yield from re.findall(r"^skipped: (.*)", output, re.M)
    # GoogleTest: the message is between the place and the name.
    for text in re.findall(r": Skipped\n((?:.*\n)*?)\[  SKIPPED \] .*\(\d+ ms\)", output):
        yield " ".join(text.split())
    for count, reason in re.findall(r"^SKIPPED \[(\d+)\] \S+: (.*)", output, re.M):
        yield from [reason] * int(count)
    for tests in re.findall(r"^Unsupported Tests \(\d+\):\n((?:  .*\n)*)", output, re.M):
        yield from (required(test) for test in re.findall(r":: (\S+)", tests))


def report(log):
    """One line for each entry and reason, with the number of tests."""
    found = collections.Counter((name, reason) for name, output in entries(log) for reason in skipped(output))
    return [f"{count:4} {name}: {reason}" for (name, reason), count in sorted(found.items())]


if __name__ == "__main__":
    if not sys.argv[1:] or {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(__doc__)
    for build in sys.argv[1:]:
        log = pathlib.Path(build) / "Testing" / "Temporary" / "LastTest.log"
        lines = report(log.read_text(errors="replace")) if log.exists() else [f"no {log}"]
        print(f"== {pathlib.Path(build).name}: {'skipped' if lines else 'nothing is skipped'}", *lines, sep="\n")
