#!/usr/bin/env python3
"""Files of the repository are small and clean, and do not depend on a machine.

Except for data in docs and test/golden, no file has more than 256 kB. C++ sources have a header line, and no tabs or
trailing blanks. No file has merge conflict markers, paths of a certain machine
or the address of a package registry. Files that begin with #! are executable.
sizes.py checks the number of lines.
"""

import os
import re
import sys

from lint import ROOT, finish, read, tracked

# The patterns are split into pieces, so that they do not match this file.
PLACES = re.compile(
    "|".join(
        [
            "/ro" + "ot/",
            "/wo" + "rk/",
            "/ho" + r"me/\w",
            r"(?<![\w$}])/t" + r"mp/\w",
            "deb.deb" + "ian.org",
            "pypi." + "org",
            "files.python" + "hosted",
        ]
    )
)

problems, count = [], 0
for path in tracked():
    name = path.relative_to(ROOT).as_posix()
    count += 1
    if path.stat().st_size > 256 * 1024 and not name.startswith(("docs/results/", "docs/images/", "test/golden/")):
        problems.append(f"{name}: {path.stat().st_size // 1024} kB; expected at most 256")
    if name.endswith((".orig", ".rej")):
        problems.append(f"{name}: a leftover of a merge")
    try:
        text = read(path)
    except UnicodeDecodeError:
        continue
    lines = text.split("\n")
    if text.startswith("#!") and not os.access(path, os.X_OK):
        problems.append(f"{name}: begins with '#!' and is not executable")
    for number, line in enumerate(lines, 1):
        if place := PLACES.search(line):
            problems.append(f"{name}:{number}: names a place of one machine or a registry: {place[0]}")
        if re.match(r"(<<<<<<<|>>>>>>>) ", line):
            problems.append(f"{name}:{number}: a leftover of a merge")
    if name.endswith((".cpp", ".h", ".cu", ".cuh", ".inc", ".td")):
        file = path.name
        if not re.match(rf"//===- {re.escape(file)} - \S.* -+===//", lines[0]):
            problems.append(f"{name}:1: expected '//===- {file} - purpose ---===//'")
        for number, line in enumerate(lines, 1):
            if "\t" in line or line != line.rstrip():
                problems.append(f"{name}:{number}: a tab or a trailing blank")
sys.exit(finish(problems, count, "files are clean"))
