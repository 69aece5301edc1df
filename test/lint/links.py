#!/usr/bin/env python3
"""Every link of a Markdown page leads to a file of the repository. Sources name only pages
that exist, and comments of the runtime only files that exist."""

import re
import sys

from lint import ROOT, finish, read, tracked

files = {path.resolve() for path in tracked()}
folders = {parent for path in files for parent in path.parents}
problems, count = [], 0
for page in tracked("*.md"):
    for number, line in enumerate(read(page).splitlines(), 1):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            path = (page.parent / target).resolve()
            if path not in files and path not in folders:
                problems.append(f"{page.relative_to(ROOT)}:{number}: no such file: {target}")
for source in tracked("*.py", "*.cpp", "*.h", "*.td", "*.cu", "*.cuh", "*.sh", "*.txt", "*.cmake", "*.test", "*.mlir"):
    for number, line in enumerate(read(source).splitlines(), 1):
        for target in re.findall(r"\bdocs/[\w./-]+\.md\b", line):
            count += 1
            if ROOT / target not in files:
                problems.append(f"{source.relative_to(ROOT)}:{number}: no such page: {target}")

names = {"/" + path.relative_to(ROOT).as_posix() for path in tracked()}
for path in tracked("*.h", "*.cpp", "*.cu", "*.cuh", "*.inc"):
    source = path.relative_to(ROOT).as_posix()
    if "/Runtime/" not in source:
        continue
    for number, line in enumerate(read(path).splitlines(), 1):
        comment = line[line.find("//") :] if "//" in line else ""
        for name in re.findall(r"(?<![<\w./])[\w/]*\w\.(?:cuh?|cpp|h|inc|td|py)\b", comment):
            count += 1
            if not any(known.endswith("/" + name) for known in names):
                problems.append(f"{source}:{number}: a comment names a file that does not exist: {name}")
sys.exit(finish(problems, count, "links lead to files"))
