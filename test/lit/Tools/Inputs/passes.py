"""Runs each pass of te-opt alone on each of the files, and fails where one ends other than a tool should.

passes.py FILE...
"""

import re
import subprocess
import sys


def run(*arguments):
    return subprocess.run(["te-opt", *arguments], capture_output=True, text=True)


names = set(re.findall(r"^ +--(te-[a-z-]+) ", run("--help-hidden").stdout, re.MULTILINE))
passes = sorted(names - {"te-training-pipeline"})
assert len(passes) > 30, passes
wrong = 0
for name in passes:
    for file in sys.argv[1:]:
        result = run(f"--{name}", "-o", "/dev/null", file)
        if result.returncode not in (0, 1, 2) or (result.returncode and "error: " not in result.stderr):
            wrong += 1
            print(f"--{name} {file} ends with {result.returncode}: {result.stderr}")
print(f"{len(passes)} passes, {wrong} are wrong")
sys.exit(wrong != 0)
