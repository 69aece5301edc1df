"""Fusions change no bit of any result.

The gradients of a block and three training steps are computed under every recipe and override, with and without fusions. The
test checks that the compiled programs differ where they should. transposes_are_exact.py tests transposes.
"""

import numpy as np
from harness import INPUTS, MODES, compile_to, expect, expect_same, finish, run
from models import mlp_arrays, train_arrays

MLP, TRAIN, STEPS = INPUTS / "mlp.mlir", INPUTS / "train.mlir", 3
VARIANTS = ("fuse=false", "fuse=false transpose-policy=eager")
mlp = mlp_arrays(np.random.default_rng(7))
state, feed = train_arrays(np.random.default_rng(8))
train = state | {name: values[:STEPS] for name, values in feed.items()}


FORWARD, BACKWARD, AMAX = "te.activation_quantize", "te.activation_backward_quantize", " amax tensor<f32>"
ROUNDED = "rounded = bf16"
# An activation that the backward reads in high precision is not fused.
FUSIONS = [set(), {AMAX}, {AMAX}, {AMAX}, {FORWARD, BACKWARD, ROUNDED}, set(), {FORWARD, ROUNDED}]


def fusions(program):
    """Matches what only fusions create: two ops, an amax as the result of another op, and casts that round first."""
    return {mark for mark in (FORWARD, BACKWARD, AMAX, ROUNDED) if mark in program}


def differentiated(mode):
    """The text of the last function of both modules, which has the backward."""
    programs = compile_to(MLP, "fuse", f"vjp=mlp {mode}"), compile_to(TRAIN, "fuse", mode)
    return "".join(program.rsplit("func.func", 1)[1] for program in programs)


for mode, wanted in [*zip(MODES, FUSIONS), ("recipe=delayed_scaling", {FORWARD, BACKWARD, AMAX, ROUNDED})]:
    fused, unfused = (differentiated(f"{mode}{more}") for more in ("", " fuse=false"))
    expect(fusions(fused) == wanted, f"{mode}: {fusions(fused)} is what is fused, not {wanted}")
    expect(not fusions(unfused), f"{mode}: nothing is fused with fuse=false")
    gradients, steps = run(MLP, "mlp", mlp, mode, vjp=True), run(TRAIN, "step", train, mode, steps=STEPS)
    for variant in VARIANTS:
        found = run(MLP, "mlp", mlp, f"{mode} {variant}", vjp=True)
        expect_same(found, gradients, sorted(gradients), f"{mode}, {variant}: gradients")
        found = run(TRAIN, "step", train, f"{mode} {variant}", steps=STEPS)
        expect_same(found, steps, sorted(steps), f"{mode}, {variant}: training")
finish("fuse-is-exact")
