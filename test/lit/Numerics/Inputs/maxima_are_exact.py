"""linalg.reduce with arith.maximumf and arith.minimumf, and its gradient, have the bits of their definition.

A maximum is NaN if an element is, and +0 is larger than -0. Elements that equal it, as 0 and -0 do, have equal shares of the gradient; a NaN
has none. Rows have one element or many, odd numbers of them, and zeros, -0, subnormal numbers, infinity and NaN.
"""

import numpy as np
from harness import expect, finish, forget_last_run, run, to_bf16

#: Sizes and the dimensions that are reduced: of short and long rows, of long rows that are divided, of all and of no elements.
CASES = (
    ((7,), [0]),
    ((1, 1), [1]),
    ((5, 1), [1]),
    ((6, 2), [1]),
    ((5, 7), [1]),
    ((9, 64), [1]),
    ((4, 255), [1]),
    ((3, 2500), [1]),
    ((2, 5001), [1]),
    ((1, 9973), [1]),
    ((1, 20000), [0, 1]),
    ((100, 130), [0, 1]),
    ((40, 6), [0]),
    ((2, 33, 5), [0, 2]),
    ((3, 5, 7), [1]),
    ((4, 3, 50), [1, 2]),
    ((0, 8), [1]),
    ((3, 0), [1]),
)
MAXIMUM, MINIMUM = "arith.maximumf", "arith.minimumf"
KINDS = ("normal", "ties", "special", "zeros", "infinite")


def program(op, shape, axes, element):
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    type_of = lambda sizes, element: f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"
    wide, given, made = type_of(shape, "f32"), type_of(shape, element), type_of(kept, "f32")
    first = "0xFF800000" if op == MAXIMUM else "0x7F800000"
    widened = f"%w = arith.extf %x : {given} to {wide}" if element != "f32" else ""
    return f"""func.func @f(%x: {given} {{te.name = "x"}}) -> ({made} {{te.name = "y"}}) {{
  {widened}
  %init = arith.constant dense<{first}> : {made}
  %y = linalg.reduce {{ {op} }} ins(%{"w" if widened else "x"} : {wide}) outs(%init : {made}) dimensions = {axes}
  return %y : {made}
}}"""


def ordered(x):
    """Integers in the order of the numbers, with -0 before +0."""
    found = x.view(np.int32).astype(np.int64)
    return np.where(found < 0, -(found & 0x7FFFFFFF) - 1, found)


def numbers_of(order):
    return np.where(order < 0, (-(order + 1)) | 0x80000000, order).astype(np.uint32).view(np.float32)


def definition(op, x, axes, dy):
    """The result and the gradient."""
    axes, first = tuple(axes), np.float32(-np.inf if op == MAXIMUM else np.inf)
    find, start = (np.max, ordered(first[None])[0]) if op == MAXIMUM else (np.min, ordered(first[None])[0])
    y = numbers_of(find(ordered(x), axes, keepdims=True, initial=start))
    y = np.where(np.isnan(x).any(axes, keepdims=True), np.float32(np.nan), y)
    equal = x == y
    with np.errstate(all="ignore"):
        share = dy.reshape(y.shape) / equal.sum(axes, keepdims=True).astype(np.float32)
    return y.reshape(dy.shape), np.where(equal, share, np.float32(0))


def bits(values):
    """The bits of f32, with one NaN for all."""
    return np.where(np.isnan(values), np.uint32(0x7FC00000), np.ascontiguousarray(values, np.float32).view(np.uint32))


rng = np.random.default_rng(0)
special = np.array([0.0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, 3e38], np.float32)
for number, (shape, axes) in enumerate(CASES):
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    for op in (MAXIMUM, MINIMUM):
        element = ("f32", "bf16")[number % 2]
        for kind in KINDS:
            x = rng.normal(0, 1, shape).astype(np.float32)
            if kind == "ties":
                x = np.round(x)
            elif kind == "special":
                x = np.where(rng.random(shape) < 0.1, rng.choice(special, shape), x)
            elif kind == "zeros":
                x = np.where(rng.random(shape) < 0.5, np.float32(0), np.float32(-0.0))
            elif kind == "infinite":
                x = np.full(shape, -np.inf if op == MAXIMUM else np.inf, np.float32)
            dy = rng.normal(0, 1, kept).astype(np.float32)
            narrow = to_bf16(x) if element == "bf16" else x
            x = (narrow.astype(np.uint32) << 16).view(np.float32) if element == "bf16" else x
            y, dx = definition(op, x, axes, dy)
            # Values do not change how ops are fused: two of their kinds suffice without fusion.
            both = kind in ("special", KINDS[number % len(KINDS)])
            for fuse in ("true", "false")[: 1 + both]:
                found = run(
                    program(op, shape, axes, element), "f", {"x": narrow, "grad.y": dy}, f"fuse={fuse}", vjp=True
                )
                claim = f"{op} of {shape} along {axes} ({kind}, {element}, fuse={fuse})"
                wanted = to_bf16(dx) if element == "bf16" else bits(dx)
                gradient = found["grad.x"] if element == "bf16" else bits(found["grad.x"])
                expect(np.array_equal(bits(found["y"]), bits(y)), claim)
                expect(np.array_equal(gradient, wanted), f"gradient of {claim}")
                forget_last_run()
finish("maxima-are-exact")
