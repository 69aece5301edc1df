#!/usr/bin/env python3
"""With --help, every script of scripts/ prints its first comment, and does nothing else.

Scripts with arguments exit with 2 and print one line if an argument is wrong.
"""

import pathlib
import subprocess
import sys

from lint import ROOT, finish

WRONG = {
    "build_wheel.sh": ["build/absent"],
    "configure.sh": ["debug"],
    "format.sh": ["--fx"],
    "gpu_check.sh": [],
    "parallel_check.sh": ["out", "2", "colectives"],
    "setup.sh": ["--cude"],
}


def run(script: pathlib.Path, arguments: "list[str]") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["bash", str(script), *arguments], capture_output=True, text=True, timeout=20)


problems, count = [], 0
for script in sorted((ROOT / "scripts").glob("*.sh")):
    count += 1
    first = script.read_text().splitlines()[1].removeprefix("# ")
    asked = run(script, ["--help"])
    if asked.returncode != 0 or not asked.stdout.startswith(first):
        problems.append(
            f"{script.name}: --help: expected '{first}...', but got '{asked.stdout[:80]}{asked.stderr[:80]}'"
        )
    if script.name in WRONG:
        refused = run(script, WRONG[script.name])
        if refused.returncode != 2 or not refused.stderr.startswith(f"{script.name}: expected"):
            problems.append(
                f"{script.name} {WRONG[script.name]}: expected to be refused, but got {refused.stderr[:200]!r}"
            )
sys.exit(finish(problems, count, "scripts explain themselves"))
