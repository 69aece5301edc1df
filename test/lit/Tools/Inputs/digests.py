"""Digests of results of many steps on the reference backend."""

import subprocess
import sys

import numpy as np

model, training, folder = sys.argv[1:]
RECIPES = (
    "high_precision",
    "delayed_scaling",
    "float8_current_scaling",
    "float8_block_scaling",
    "mxfp8_block_scaling",
    "nvfp4_block_scaling",
)


def digests(program, entry, steps, *options):
    """By result, the digest of each step."""
    output = f"{folder}/out.npz"
    command = ["te-run", program, f"--entry={entry}", f"--steps={steps}", "--backend=reference", "--seed=3", "--quiet"]
    subprocess.run([*command, "--digests", f"--outputs={output}", *options], check=True)
    with np.load(output) as arrays:
        return {name: arrays[name] for name in arrays if name.endswith(".digests")}


for recipe in RECIPES:
    runs = [digests(model, "loss", 100, f"--pipeline=recipe={recipe}")["loss.digests"] for _ in range(2)]
    assert (runs[0] == runs[1]).all(), f"{recipe}: two processes differ"
    print(f"{recipe}: {sum(map(len, runs))} runs, {len(set(np.concatenate(runs)))} different")
eager = digests(training, "step", 1000)
replayed = digests(training, "step", 1000, "--graph")
assert eager.keys() == replayed.keys() and len(set(eager["w.digests"])) > 900
print(f"sgd.mlir: 1000 steps, {sum(int((eager[name] != replayed[name]).sum()) for name in eager)} different")
