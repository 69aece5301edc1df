#!/usr/bin/env python3
"""Every labelled constraint is enforced, and tested.

A constraint is a line '(<op>-cN) ...' in a .td file. It must be named in a
comment of a verifier (`// <op>-cN`), or beside the trait that enforces it
(`/*<op>-cN*/`), and in a test: as a function `@<op>_cN...` or in a comment. A
label that no .td file declares is an error too. Labels of one op count from 1
without gaps.
"""

import re
import sys

from lint import ROOT, finish, read

LABEL = re.compile(r"\b([a-z]\w*)-c(\d+)\b")
# Labels of constraints that passes enforce have the name of the pass.
declared, enforced, tested = {}, set(), set()

for path in sorted((ROOT / "include").rglob("*.td")):
    text = read(path)
    for op, number in re.findall(r"\(([a-z]\w*)-c(\d+)\)", text):
        declared.setdefault(f"{op}-c{number}", path.relative_to(ROOT))
    for comment in re.findall(r"/\*.*?\*/", text, re.S):
        enforced.update(match[0] for match in LABEL.finditer(comment))
for path in (ROOT / "lib").rglob("*.cpp"):
    for comment in re.findall(r"//.*", read(path)):
        enforced.update(match[0] for match in LABEL.finditer(comment))
for folder, pattern in (("test/lit", "*.mlir"), ("test/unit", "*.cpp")):
    for path in (ROOT / folder).rglob(pattern):
        text = read(path)
        tested.update(match[0] for match in LABEL.finditer(text))
        for op, number in re.findall(r"@([a-z]\w*?)_c(\d+)(?![0-9])", text):
            tested.add(f"{op}-c{number}")

problems = []
for label, path in declared.items():
    if label not in enforced:
        problems.append(f"{path}: no verifier or trait names {label}")
    if label not in tested:
        problems.append(f"{path}: no test names {label}")
    op, number = label.rsplit("-c", 1)
    if int(number) > 1 and f"{op}-c{int(number) - 1}" not in declared:
        problems.append(f"{path}: {label} has no {op}-c{int(number) - 1} before it")
for label in sorted(enforced - declared.keys()):
    problems.append(f"a comment names {label}, which no .td file declares")
sys.exit(finish(problems, len(declared), "constraints are enforced and tested"))
