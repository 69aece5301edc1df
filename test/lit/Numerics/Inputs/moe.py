"""docs/examples/moe.mlir with every recipe: forward and gradients compared with a numpy model.

In high precision, the errors are small. Under a recipe, the errors of casts accumulate, so only the cosine of the gradients is
compared. Routing is exact, because the router is in high precision: no token may change its experts. Rows that te.permute pads
must not affect results: other random weights of experts without tokens give the same bytes.
"""

import numpy as np
from harness import INPUTS, expect, finish, from_bf16, modes, normal, run, same_bytes, to_bf16

MODULE = INPUTS.parents[3] / "docs" / "examples" / "moe.mlir"
T, C, E, K = 64, 64, 8, 2
rng = np.random.default_rng(5)


def draw(*shape, scale=1.0):
    return to_bf16(rng.normal(0, scale, shape))


arrays = {
    "x": draw(T, C),
    "router": draw(E, C, scale=0.5),
    "up": draw(E, 2 * C, C, scale=0.15),
    "down": draw(E, C, C, scale=0.15),
    "shared_up": draw(2 * C, C, scale=0.15),
    "shared_down": draw(C, C, scale=0.15),
    "grad.y": draw(T, C, scale=0.1),
}
# No token chooses the last expert.
arrays["router"][E - 1] = 0
arrays["x"][:, 0] = to_bf16(np.float32(4))
arrays["router"][: E - 1, 0] = to_bf16(np.float32(2))


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def swiglu(z):
    a, b = np.split(z, 2, axis=-1)
    return a * sigmoid(a) * b


def model(values, chosen=None):
    """(y in f64, the chosen experts)."""
    x = values["x"]
    logits = x @ values["router"].T
    scores = np.exp(logits - logits.max(1, keepdims=True))
    scores /= scores.sum(1, keepdims=True)
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :K] if chosen is None else chosen
    probs = np.take_along_axis(scores, ids, 1)
    probs = probs / probs.sum(1, keepdims=True)
    y = swiglu(x @ values["shared_up"].T) @ values["shared_down"].T
    for j in range(K):
        hidden = swiglu(np.einsum("tc,thc->th", x, values["up"][ids[:, j]]))
        y = y + probs[:, j : j + 1] * np.einsum("th,tch->tc", hidden, values["down"][ids[:, j]])
    return y, ids


exact = {name: from_bf16(bits).astype(np.float64) for name, bits in arrays.items()}
wanted, chosen = model(exact)
expect(E - 1 not in chosen, "one expert has no token")


def directional(name, direction):
    """d loss / d name along `direction`, by central differences in f64."""
    step = 1e-6
    moved = [dict(exact, **{name: exact[name] + s * step * direction}) for s in (1, -1)]
    losses = [(model(values, chosen)[0] * exact["grad.y"]).sum() for values in moved]
    return (losses[0] - losses[1]) / (2 * step)


for mode in modes(turn=1):
    found = run(MODULE, "moe", arrays, mode, vjp=True)
    y = from_bf16(found["y"]).astype(np.float64)
    error = np.linalg.norm(y - wanted) / np.linalg.norm(wanted)
    # bf16 has an error of 2^-9 in each of about ten roundings; 4-bit casts have an error of about a tenth.
    limit = 0.02 if mode == "recipe=high_precision" else 0.5 if "nvfp4" in mode else 0.15
    expect(error < limit, f"{mode}: y errs by {error:.3g}")
    for name in ("x", "router", "up", "down", "shared_up", "shared_down"):
        gradient = from_bf16(found[f"grad.{name}"]).astype(np.float64)
        along = gradient / np.linalg.norm(gradient)
        slope, size = directional(name, along), np.linalg.norm(gradient)
        expect(
            abs(slope / size - 1) < (0.03 if mode == "recipe=high_precision" else 0.6),
            f"{mode}: the slope along grad.{name} is {slope:.4g}, its size {size:.4g}",
        )
    for name in ("up", "down"):
        expect(not found[f"grad.{name}"][E - 1].any(), f"{mode}: an expert without tokens has no gradient in {name}")
    other = dict(arrays, up=arrays["up"].copy(), down=arrays["down"].copy())
    other["up"][E - 1], other["down"][E - 1] = normal(rng, 2 * C, C), normal(rng, C, C)
    again = run(MODULE, "moe", other, mode, vjp=True)
    for name in ("y", "grad.x", "grad.up", "grad.router"):
        expect(same_bytes(found[name], again[name]), f"{mode}: '{name}' does not depend on an expert without tokens")
finish("moe")
