#!/usr/bin/env python3
"""Every ```mlir example of the dialect's .td files is in test/lit/Docs.

Those files are run by the lit suite, so an example that no longer parses or
verifies fails a test. White space is ignored when comparing.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def squeeze(text: str) -> str:
    return " ".join(text.split())


def main() -> int:
    executed = squeeze(" ".join(path.read_text() for path in (ROOT / "test/lit/Docs").glob("*.mlir")))
    missing, total = [], 0
    for path in sorted((ROOT / "include").rglob("*.td")):
        if path.name == "Passes.td":
            continue  # pass examples are checked by pass_docs.py
        for block in re.findall(r"```mlir\n(.*?)```", path.read_text(), re.S):
            for example in re.split(r"\n(?=\s*(?:#|!))", block):
                total += 1
                if squeeze(example) not in executed:
                    missing.append(
                        f"{path.relative_to(ROOT)}: example is not in test/lit/Docs: {squeeze(example)[:90]}"
                    )
    print("\n".join(missing) or f"{total} examples are executed")
    return 1 if missing or not total else 0


if __name__ == "__main__":
    sys.exit(main())
