"""The smallest budget that an error names is sufficient, and one byte less is not.

    smallest_budget.py EXAMPLES     needs te-opt in PATH

The budgets are those of the arena (`memory-budget`), of values saved for the backward (`remat=budget:`), and of these with columns
of weights (`transpose-policy=budget`). Every example that can be differentiated is tested, with recipes that save different values.
"""

import pathlib
import re
import subprocess
import sys

SMALLEST = re.compile(r"the smallest 'budget' that works is (\d+)")
RECIPES = ("high_precision", "float8_current_scaling", "float8_block_scaling", "mxfp8_block_scaling")
BUDGETS = {
    "memory-budget": "memory-budget={}",
    "remat": "remat=budget:{}",
    "transposes": "transpose-policy=budget transpose-budget={}",
}
counts = {"claims": 0, "failed": 0, "budgets": 0}


def expect(holds, claim):
    counts["claims"] += 1
    if not holds:
        counts["failed"] += 1
        print(f"FAILED: {claim}")


def compile(path, options, *more):
    return subprocess.run(
        ["te-opt", str(path), f"--te-training-pipeline={options}", "-o", "/dev/null", *more],
        capture_output=True,
        text=True,
    )


for path in sorted(pathlib.Path(sys.argv[1]).glob("*.mlir")):
    text = path.read_text()
    # The others are steps without vjp, or programs with an error.
    if "te.vjp" in text or path.stem in ("overflow", "double_amax", "stages", "sgd", "tensor_parallel"):
        continue
    entry = re.search(r"func\.func @(\w+)", text)[1]
    for recipe in RECIPES:
        step = f"vjp={entry} recipe={recipe} target=reference"
        for kind, option in BUDGETS.items():
            first = compile(path, f"{step} {option.format(1)}")
            refused = SMALLEST.search(first.stderr)
            if not refused:
                # There are no temporaries, or all values can be recomputed from arguments.
                expect(first.returncode == 0, f"{path.name}, {recipe}: {kind} of one byte")
                continue
            smallest = int(refused[1])
            counts["budgets"] += 1
            expect(
                compile(path, f"{step} {option.format(smallest)}").returncode == 0,
                f"{path.name}, {recipe}: {kind} of {smallest} bytes",
            )
            less = compile(path, f"{step} {option.format(smallest - 1)}")
            expect(
                less.returncode == 1 and SMALLEST.search(less.stderr)[1] == str(smallest),
                f"{path.name}, {recipe}: {kind} of {smallest - 1} bytes is refused for {smallest}",
            )
print(f"smallest-budget: {counts['claims']} claims, {counts['failed']} failed, {counts['budgets']} budgets")
sys.exit(counts["failed"] != 0)
