"""Checks that several texts have every option that an error lists: options.py ERROR TEXT..."""

import pathlib
import re
import sys

error, *texts = map(pathlib.Path, sys.argv[1:])
known = re.findall(r"'([a-z-]+)'", error.read_text().split("there are")[1])
missing = [
    f"{text}: '{option}'"
    for text in texts
    for option in known
    if not re.search(rf"(?<![\w-]){option}(?![\w-])", text.read_text())
]
print("\n".join(missing) or f"{len(known)} options are in {' and '.join(map(str, texts))}")
sys.exit(bool(missing))
