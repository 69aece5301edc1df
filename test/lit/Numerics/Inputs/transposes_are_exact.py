"""Transpose policies change no bit of any result.

Three micro-batches with one set of weights, the gradients of a block, and training steps run under every recipe and override, with
every policy. The budgets are the bytes of residuals, plus more or fewer bytes for columns. Policies that give the same program run
once. The number of transposes is checked, so that the programs do differ.
"""

import os
import re
import subprocess

import numpy as np
from harness import ALL_MODES, INPUTS, MODES, compile_to, expect, expect_same, finish, normal, run
from models import mlp_arrays, train_arrays

MICRO, MLP, TRAIN = (INPUTS / f"{name}.mlir" for name in ("micro_batches", "mlp", "train"))
SGD = INPUTS.parents[3] / "docs" / "examples" / "sgd.mlir"
# The bytes of the columns of 'up', the larger of the two weights, for recipes that transpose.
SMALLEST = {
    "float8_current_scaling": 128 * 96 + 4,
    "float8_block_scaling": 128 * 96 + 1 * 4 * 4,
    "delayed_scaling": 128 * 96 + 4,
    "nvfp4_block_scaling": 128 * 96 // 2 + 128 * 8 + 4,
}
# The same with the columns of 'down', for any of these recipes.
BOTH = 2 * 128 * 96


def micro_arrays(rng):
    arrays = {f"x{i}": normal(rng, 64, 96) for i in range(3)} | {
        f"dy{i}": normal(rng, 64, 96, scale=0.01) for i in range(3)
    }
    arrays |= {
        "gamma": normal(rng, 96),
        "up": rng.normal(0, 0.1, (128, 96)).astype(np.float32),
        "down": rng.normal(0, 0.1, (96, 64)).astype(np.float32),
    }
    arrays["x0"][:, 5], arrays["x1"][0, :8], arrays["up"][:32, :64], arrays["dy1"][3] = 0, 0x8000, 0, 1
    return arrays


def sgd_arrays(rng):
    return {"x": normal(rng, 64, 32), "w": normal(rng, 16, 32), "target": normal(rng, 64, 16)}


def compare(module, entry, arrays, mode, policies, vjp=False, steps=1):
    """Runs each distinct program of `policies` and compares it with the first.

    Returns the number of transposes for each policy.
    """
    transposes, results = {}, {}
    for policy in policies:
        options = f"{mode} transpose-policy={policy}"
        program = compile_to(module, "fuse", f"vjp={entry} {options}" if vjp else options)
        transposes[policy] = len(re.findall(r"te\.transpose", program))
        if program not in results:
            results[program] = run(module, entry, arrays, options, vjp=vjp, steps=steps)
        first = next(iter(results.values()))
        expect_same(results[program], first, sorted(first), f"{module.name}, {options}")
    return transposes


def residual_bytes(module, mode):
    """The bytes that a step saves for its backward, from its remark."""
    done = subprocess.run(
        [
            "te-opt",
            str(module),
            f"--te-training-pipeline={mode} transpose-policy=budget transpose-budget={10**9} compile-to=quantize",
            "--remarks-filter=te-materialize-transposes",
            "-o",
            os.devnull,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return 10**9 - int(re.search(r"to save, (\d+) are left", done.stdout + done.stderr)[1])


rng = np.random.default_rng(11)
micro, mlp, sgd = micro_arrays(rng), mlp_arrays(rng), sgd_arrays(rng)
state, feed = train_arrays(rng)
train = state | {name: values[:2] for name, values in feed.items()}
ALWAYS = ["on-demand", "cached", "eager"]

for mode in ALL_MODES:
    overridden = "override=high" in mode or "override=dequantized" in mode
    smallest = 0 if overridden else SMALLEST.get(re.match(r"recipe=(\w+)", mode)[1], 0)
    held = residual_bytes(MICRO, mode)
    budgets = [f"budget transpose-budget={held + bytes}" for bytes in (smallest, BOTH, 10**9)]
    found = compare(MICRO, "step", micro, mode, ALWAYS + budgets)
    wanted = [6, 2, 0] if smallest else [0, 0, 0]
    expect([found[policy] for policy in ALWAYS] == wanted, f"{mode}: transposes are {found}, not {wanted}")
    made = [found[policy] for policy in budgets]
    if smallest:
        expect(6 > made[0] > made[1] >= made[2] == 0, f"{mode}: a larger budget makes fewer transposes, not {made}")
    compare(TRAIN, "step", train, mode, ALWAYS, steps=2)
    if mode in MODES:
        compare(MLP, "mlp", mlp, mode, ALWAYS, vjp=True)
        compare(SGD, "step", sgd, mode, ALWAYS, steps=2)
finish("transposes-are-exact")
