"""docs/examples/gpt_mlp.mlir with every recipe and override, forward and backward.

The result in high precision is compared with a float64 model that rounds to bf16 where the program rounds. A value v with an error
of at most e from float32 arithmetic may round like v - e or like v + e. The model uses the middle of these two, and half of their
distance, which is nearly always 0, as the error. With u = 2^-24, a GEMM of n terms rounds their magnitudes n + 2 times, and an
error e of its input becomes e |w|. The norm is within 64u of 1, h and beta. gelu has slopes below 1.13 and is within 16u |h|.

The gradient of the last bias is the sum of the rows of the cotangent, which no recipe casts. Its bits are those of the sum in the
documented order for every recipe. Fusions change no bit.
"""

import numpy as np
from harness import INPUTS, expect, expect_same, finish, from_bf16, modes, run, to_bf16

MODULE = INPUTS.parents[3] / "docs" / "examples" / "gpt_mlp.mlir"
U = 2.0**-24
rng = np.random.default_rng(5)


def draw(*shape, scale=1.0, mean=0.0):
    return to_bf16((mean + scale * rng.normal(size=shape)).astype(np.float32))


arrays = {
    "x": draw(128, 256, mean=0.25),
    "gamma": draw(256, scale=0.1, mean=1),
    "beta": draw(256, scale=0.1),
    "w1": draw(1024, 256, scale=0.06),
    "b1": draw(1024, scale=0.1),
    "w2": draw(256, 1024, scale=0.03),
    "b2": draw(256, scale=0.1),
    "grad.y": draw(128, 256),
}
names = ["y"] + [f"grad.{name}" for name in ("x", "gamma", "beta", "w1", "b1", "w2", "b2")]


def rounded(value, error):
    low, high = (from_bf16(to_bf16((value + side * error).astype(np.float32))).astype(np.float64) for side in (-1, 1))
    return (low + high) / 2, (high - low) / 2


def expected(v):
    """(y, its error bound) in float64."""
    d = v["x"] - v["x"].mean(axis=1, keepdims=True)
    scaled = v["gamma"] * d / np.sqrt((d * d).mean(axis=1, keepdims=True) + float(np.float32(1e-5)))
    n, error = rounded(scaled + v["beta"], 64 * U * (1 + np.abs(scaled) + np.abs(v["beta"])))

    def linear(a, error, w, bias):
        size = np.abs(a) @ np.abs(w).T + np.abs(bias)
        return rounded(a @ w.T + bias, error @ np.abs(w).T + (w.shape[1] + 2) * U * size)

    h, error = linear(n, error, v["w1"], v["b1"])
    a, error = rounded(
        h * (0.5 + 0.5 * np.tanh(h * (0.79788456 + 0.03567741 * h * h))), 1.13 * error + 16 * U * np.abs(h)
    )
    o, error = linear(a, error, v["w2"], v["b2"])
    return rounded(v["x"] + o, error)


def column_sum(dy):
    """The sum of rows in order, in float32; 128 rows form a chunk."""
    total = np.zeros(dy.shape[1], np.float32)
    for row in dy:
        total = total + row
    return to_bf16(total)


wide = {name: from_bf16(value).astype(np.float64) for name, value in arrays.items()}
plain = None
for mode in modes():
    found, unfused = (run(MODULE, "gpt_mlp", arrays, f"{mode}{more}", vjp=True) for more in ("", " fuse=false"))
    expect_same(unfused, found, names, f"{mode}: fusions change no bit")
    expect(
        all(np.isfinite(from_bf16(found[name])).all() and from_bf16(found[name]).any() for name in names),
        f"{mode}: results are numbers",
    )
    expect(
        found["grad.b2"].tobytes() == column_sum(from_bf16(arrays["grad.y"])).tobytes(),
        f"{mode}: the gradient of the last bias",
    )
    if plain is None:
        plain = found
        y, bound = expected(wide)
        error = np.abs(from_bf16(found["y"]) - y)
        expect((error <= bound).all(), f"{mode}: y is off by {error.max():.3g}")
        expect(bound.mean() < 0.01 * np.abs(y).mean(), f"{mode}: the bound {bound.mean():.3g} says something")
    else:
        expect(found["y"].tobytes() != plain["y"].tobytes(), f"{mode}: the forward is quantised")
        expect((found["grad.w1"].tobytes() != plain["grad.w1"].tobytes()), f"{mode}: so is what the backward reads")
finish("gpt-mlp")
