"""The gradient of docs/examples/llama_layer.mlir, with every recipe.

The claims hold bit for bit:

* y and the loss do not depend on the backward override.
* Tokens do not depend on other sequences or on later tokens. If every quantised block is inside a row, y of a token has the same
  bytes for any later tokens; in a per-tensor recipe, the scale depends on all tokens. The gradient of x is zero after the last
  token whose target counts. NVFP4 rounds gradients stochastically and has one amax for a tensor, but zeros stay zeros.
* The tables are constants, so their gradient is zero.
"""

import pathlib
import sys

import numpy as np
from harness import ALL_MODES, expect, finish, from_bf16, run, to_bf16

LAYER = pathlib.Path(sys.argv[2])
TOKENS, SEQUENCE, HIDDEN, FFN, VOCABULARY, PAIRS = 256, 128, 256, 512, 384, 32
LAST = 40  # the last position of the first sequence whose target counts
rng = np.random.default_rng(23)


def draw(*shape, size=1.0):
    return to_bf16((size * rng.normal(size=shape)).astype(np.float32))


angles = np.arange(SEQUENCE)[:, None] * 1e4 ** -(np.arange(PAIRS) / PAIRS)
targets = rng.integers(0, VOCABULARY, TOKENS).astype(np.int32)
targets[LAST + 1 :] = -100
arrays = {
    "x": draw(TOKENS, HIDDEN),
    "targets": targets,
    "cos": np.cos(angles).astype(np.float32),
    "sin": np.sin(angles).astype(np.float32),
    "attention_norm": draw(HIDDEN),
    "ffn_norm": draw(HIDDEN),
    "wq": draw(256, HIDDEN, size=0.1),
    "wk": draw(128, HIDDEN, size=0.1),
    "wv": draw(128, HIDDEN, size=0.06),
    "wo": draw(HIDDEN, 256, size=0.06),
    "gate_up": draw(2 * FFN, HIDDEN, size=0.06),
    "down": draw(HIDDEN, FFN, size=0.04),
    "head": draw(VOCABULARY, HIDDEN, size=0.06),
}
later = dict(arrays, x=arrays["x"].copy())
later["x"][LAST + 1 :] = draw(TOKENS - LAST - 1, HIDDEN)
gradients = [name for name in arrays if name != "targets"]
cotangent = {"grad.loss": np.float32(1), "grad.y": np.zeros((TOKENS, HIDDEN), np.uint16)}

forwards = {}
for mode in ALL_MODES:
    out = run(LAYER, "layer", arrays | cotangent, pipeline=mode, vjp=True)
    recipe = mode.split()[0]
    expect(np.isfinite(out["loss"]) and 1 < out["loss"] < 20, f"{mode}: the loss is {out['loss']}")
    first = forwards.setdefault(recipe, out)
    for name in ("y", "loss"):
        expect(first[name].tobytes() == out[name].tobytes(), f"{mode}: '{name}' does not depend on the override")
    for name in gradients:
        gradient = out[f"grad.{name}"]
        gradient = gradient if name in ("cos", "sin") else from_bf16(gradient)
        expect(np.isfinite(gradient).all(), f"{mode}: 'grad.{name}' is finite")
        expect(np.any(gradient) == (name not in ("cos", "sin")), f"{mode}: 'grad.{name}' is zero for a table alone")
    dx = from_bf16(out["grad.x"])
    expect(np.any(dx[LAST]), f"{mode}: the last token that counts has a gradient")
    expect(not np.any(dx[LAST + 1 :]), f"{mode}: tokens that nobody who counts sees have no gradient")

for mode in ("recipe=high_precision", "recipe=float8_block_scaling", "recipe=mxfp8_block_scaling target=reference"):
    other = run(LAYER, "layer", later | cotangent, pipeline=mode, vjp=True)
    y = forwards[mode.split()[0]]["y"]
    expect(y[: LAST + 1].tobytes() == other["y"][: LAST + 1].tobytes(), f"{mode}: no token sees a later one")
    expect(y[LAST + 1].tobytes() != other["y"][LAST + 1].tobytes(), f"{mode}: the later tokens did change")

finish("llama-layer")
