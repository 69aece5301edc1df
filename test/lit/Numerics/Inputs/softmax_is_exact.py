"""te.softmax and its gradient have the bits of their definition.

The definition is written here in f32, with lane sums; only the exponentials come from a program. Types, rows of any length, and
numbers that are zero, infinite or NaN.
"""

import numpy as np
from harness import expect, finish, run, to_bf16

TYPES = ("f32", "bf16", "f16")
#: Rows of a part of the lanes and of several rounds, in whole runs of 16 bytes and not, in registers, in shared memory and longer.
SHAPES = (
    (0, 8),
    (3, 0),
    (1, 1),
    (5, 7),
    (9, 64),
    (3, 255),
    (6, 257),
    (4, 1000),
    (2, 2048),
    (2, 4096),
    (2, 5001),
    (1, 20000),
)


def store(values, element):
    return {"f32": lambda x: x, "f16": lambda x: x.astype(np.float16), "bf16": to_bf16}[element](
        values.astype(np.float32)
    )


def load(stored):
    return (stored.astype(np.uint32) << 16).view(np.float32) if stored.dtype == np.uint16 else stored.astype(np.float32)


def bits(stored):
    """The bits of an array, with one NaN for all."""
    return np.where(np.isnan(load(stored)), 0x7FFF, stored.view(f"u{stored.dtype.itemsize}"))


def lane_sum(x):
    lanes = np.zeros((len(x), 256), np.float32)
    for begin in range(0, x.shape[1], 256):
        part = x[:, begin : begin + 256]
        lanes[:, : part.shape[1]] += part
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes


def exp(x):
    shape = f"tensor<{x.size}xf32>"
    text = f"""func.func @f(%x: {shape} {{te.name = "x"}}) -> ({shape} {{te.name = "y"}}) {{
  %y = math.exp %x : {shape}
  return %y : {shape}
}}"""
    return run(text, "f", {"x": x.reshape(-1)})["y"].reshape(x.shape)


def softmax(x, scale):
    s = np.float32(scale) * load(x)
    largest = np.max(s, axis=1, keepdims=True, initial=-np.inf)
    e = exp(s - largest)
    return e * (np.float32(1) / lane_sum(e))


def gradient(dy, y, scale):
    y, dy = load(y), load(dy)
    return (np.float32(scale) * y) * (dy - lane_sum(dy * y))


def both(x, dy, element, scale):
    """y and dx of a program, and the gradient of its y by the definition."""
    shape = f"tensor<{x.shape[0]}x{x.shape[1]}x{element}>"
    text = f"""func.func @f(%x: {shape} {{te.name = "x"}}) -> ({shape} {{te.name = "y"}}) {{
  %y = te.softmax %x {{scale = {scale:.6e} : f32}} : {shape}
  return %y : {shape}
}}"""
    found = run(text, "f", {"x": x, "grad.y": dy}, vjp=True)
    return found["y"], found["grad.x"]


def check(x, dy, element, scale, what):
    y, dx = both(x, dy, element, scale)
    expect(np.array_equal(bits(y), bits(store(softmax(x, scale), element))), f"{what}: y")
    expect(np.array_equal(bits(dx), bits(store(gradient(dy, y, scale), element))), f"{what}: dx")


np.seterr(all="ignore")
rng = np.random.default_rng(0)
scales = (1.0, 0.125, -3.0)
for number, (rows, cols) in enumerate(SHAPES):
    for element in TYPES:
        x, dy = rng.normal(0, 4, (2, rows, cols)).astype(np.float32)
        if rows > 2 and cols:
            x[0, rng.integers(cols)] = rng.choice([np.nan, np.inf, -0.0, 1e-40, 3e4])
            x[1, :: 3 if cols > 3 else 1] = -np.inf
            dy[2, 0] = rng.choice([np.nan, np.inf, 0.0])
        scale = scales[number % 3]
        check(store(x, element), store(dy, element), element, scale, f"{rows}x{cols} {element} times {scale}")

inf, nan = np.inf, np.nan
for element in TYPES:
    for scale, given, wanted in (
        (0.5, [-inf, 2, -inf, 2], [0, 0.5, 0, 0.5]),
        (0.5, [-inf, -inf, -inf, -inf], [nan] * 4),
        (0.5, [nan, 1, 2, 3], [nan] * 4),
        (0.5, [inf, 1, 2, 3], [nan] * 4),
        (0.5, [-inf, -inf, 7, -inf], [0, 0, 1, 0]),
        (0.5, [-400, -inf, -400, -inf], [0.5, 0, 0.5, 0]),
        (-3.0, [inf, 2, inf, 2], [0, 0.5, 0, 0.5]),
        (-3.0, [-inf, 2, 3, 4], [nan] * 4),
        (0.0, [1, -2, 3, 40], [0.25] * 4),
    ):
        x, dy = store(np.array([given]), element), store(np.array([[7, 1, -3, 2]]), element)
        y, _ = both(x, dy, element, scale)
        expect(
            np.array_equal(bits(y), bits(store(np.array([wanted]), element))),
            f"{scale} {given} {element}: y is {load(y)}",
        )
finish("softmax-is-exact")
