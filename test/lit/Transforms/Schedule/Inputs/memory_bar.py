"""Compares the arena of every quantised training step with the high-precision one.

Usage: memory_bar.py STEP.mlir VJP

A quantised step saves casts of its weights from the forward to the backward, which
is all that it may need beyond the high-precision step. Its arena must be smaller
than that step's plus one FP8 byte for each element of every weight. The scales of
the casts are not added, which makes the limit stricter.
"""

import json
import re
import subprocess
import sys

RECIPES = ["float8_current_scaling", "float8_block_scaling"]
OVERRIDES = ["none", "high_precision", "dequantized"]
CONFIGURATIONS = [("high_precision", "none")] + [(r, o) for r in RECIPES for o in OVERRIDES]


def weight_cast_bytes(path):
    """One byte for each element of the arguments marked te.weight."""
    with open(path) as file:
        shapes = re.findall(r"tensor<(\d+)x(\d+)x\w+> \{[^}]*te\.weight", file.read())
    return sum(int(rows) * int(columns) for rows, columns in shapes)


def arena_bytes(path, vjp, recipe, override):
    options = f"--te-training-pipeline=recipe={recipe} vjp={vjp}"
    if recipe != "high_precision":
        options += f" backward-override={override}"
    report = subprocess.run(
        ["te-opt", path, options, "--te-report=memory", "--te-report-format=json"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (step,) = json.loads(report)["memory"]
    return step["arena_bytes"]


def main():
    path, vjp = sys.argv[1:]
    casts = weight_cast_bytes(path)
    assert casts > 0, "the step has no weights"
    arenas = {c: arena_bytes(path, vjp, *c) for c in CONFIGURATIONS}
    bar = arenas[CONFIGURATIONS[0]] + casts
    print(f"bar: {bar} bytes, {bar - casts} of the high-precision arena and {casts} of weight casts")
    failed = 0
    for (recipe, override), arena in arenas.items():
        ok = recipe == "high_precision" or arena < bar
        failed += not ok
        print(f"{recipe:24}{override:16}{arena:>14}{arena / bar:7.3f}  {'ok' if ok else 'FAILED'}")
    print(f"memory-bar: {len(arenas)} configurations, {failed} failed")
    return failed != 0


sys.exit(main())
