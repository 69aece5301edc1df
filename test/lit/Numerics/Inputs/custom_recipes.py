"""Custom recipes of te-run compared with the model in test/model: each GEMM multiplies the casts of its own recipe.

The model casts and dequantises the operands of each GEMM. The GEMM is then a sum of K exact products, so its result is within
(K + 8) u of the sum of magnitudes (see cast_products.py), plus the rounding to bf16. A wrong source, format or axis causes a
larger error: the test counts the elements that would fail with the wrong tensor.
"""

import numpy as np
from harness import expect, expect_same, finish, run
from te_model import block_scaling, delayed, mxfp8, nvfp4, tensor_scaling
from te_model.formats import E4M3, E5M2, bf16_bits, bf16_values

M, N, K = 64, 96, 160
SHAPES = {"x": (M, K), "w": (N, K), "grad.y": (M, N)}
MODULE = f"""func.func @layer(%x: tensor<{M}x{K}xbf16> {{te.name = "x"}}, %w: tensor<{N}x{K}xbf16> {{te.name = "w", te.weight}})
    -> (tensor<{M}x{N}xbf16> {{te.name = "y"}}) attributes {{te.recipe = #te.recipe<RECIPE>}} {{
  %y = te.linear %x, %w : tensor<{M}x{K}xbf16>, tensor<{N}x{K}xbf16> -> tensor<{M}x{N}xbf16>
  return %y : tensor<{M}x{N}xbf16>
}}
"""
TARGET = "target=reference"


def per_tensor(scale_of):
    return lambda x, format, axis: tensor_scaling.dequantize(
        tensor_scaling.quantize(x, format, axis, scale_of(x, format)), format, axis
    )


def block(x, format, axis, scheme="block_1x128"):
    return block_scaling.dequantize(block_scaling.quantize(x, format, scheme, axis, "bf16", True), format, scheme, axis)


def mx(x, format, axis):
    return mxfp8.dequantize(mxfp8.quantize(x, format, "mx_1x32", axis), format, axis)


def nv(x, scheme, axis, rows=False):
    largest = nvfp4.amax_rows(x) if rows else tensor_scaling.amax(x).reshape(1)
    exact = nvfp4.dequantize(nvfp4.quantize(x, scheme, axis, largest), axis, 448, with_amax=False)
    return exact.astype(np.float64) * (largest.astype(np.float64) / (6 * 448))[:, None]


current = per_tensor(lambda x, format: tensor_scaling.compute_scale(tensor_scaling.amax(x), format.max))
first_step = per_tensor(lambda x, format: np.float32(1))
#: For each recipe: (its text, a function that casts a tensor for a role and an axis).
HIGH = (None, lambda x, role, axis: x)
CURRENT = ("float8_current_scaling", lambda x, role, axis: current(x, E5M2 if role == "grad.y" else E4M3, axis))
DELAYED = (
    "delayed_scaling, {amax_history_len = 3}",
    lambda x, role, axis: first_step(x, E5M2 if role == "grad.y" else E4M3, axis),
)
BLOCK = (
    "float8_block_scaling",
    lambda x, role, axis: block(x, E4M3, axis, "block_128x128" if role == "w" else "block_1x128"),
)
MX = ("mxfp8_block_scaling", lambda x, role, axis: mx(x, E4M3, axis))
NV = (
    "nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false}",
    lambda x, role, axis: nv(x, "nv_16x16" if role == "w" else "nv_1x16", axis),
)
NV_LINES = (
    "nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false, w_2d = false}",
    lambda x, role, axis: nv(x, "nv_1x16", axis),
)
NV_HADAMARD = (
    "nvfp4_block_scaling, {stochastic_rounding = false}",
    lambda x, role, axis: nv(nvfp4.hadamard(x), "nv_1x16", axis),
)
ROWS = "nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false, row_scaled_activation = true"
NV_ROWS = (ROWS + "}", lambda x, role, axis: nv(x, "nv_16x16" if role == "w" else "nv_1x16", axis, rows=role == "x"))

#: (GEMM, its operands a and b as (tensor, axis of the cast)).
GEMMS = (
    ("fprop", "y", ("x", 1), ("w", 1)),
    ("dgrad", "grad.x", ("grad.y", 1), ("w", 0)),
    ("wgrad", "grad.w", ("grad.y", 0), ("x", 0)),
)
SOURCES = {"x": "x_col_source", "w": "w_col_source", "grad.y": "grad_col_source"}
#: The GEMM whose recipe casts the rows of a tensor.
ROW_READER = {"x": 0, "w": 0, "grad.y": 1}

#: What the zoo of recipes has, and more: (title, recipes of fprop, dgrad, wgrad, tensors whose columns are of the decoded rows).
PRESETS = (
    ("bf16 forward, MXFP8 backward", (HIGH, MX, MX), ()),
    ("MXFP8 forward, NVFP4 backward", (MX, NV, NV), ("w",)),
    ("NVFP4 with weights along lines", (NV_LINES, NV_LINES, NV_HADAMARD), ("w",)),
    ("MXFP8 forward, decoded backward", (MX, HIGH, HIGH), ("x", "w")),
    ("row-scaled forward, MXFP8 backward", (NV_ROWS, MX, MX), ("x",)),
    ("row-scaled forward, bf16 backward", (NV_ROWS, HIGH, HIGH), ()),
    ("delayed, current and blocks", (DELAYED, CURRENT, BLOCK), ("x",)),
    ("delayed except wgrad", (DELAYED, DELAYED, MX), ("grad.y",)),
    ("delayed in all", (DELAYED, DELAYED, DELAYED), ()),
)


def recipe_text(recipes, decoded):
    options = [f"{gemm[0]} = #te.recipe<{recipe[0]}>" for gemm, recipe in zip(GEMMS, recipes) if recipe[0]]
    return f"custom, {{{', '.join(options + [f'{SOURCES[name]} = rowwise_dequantized' for name in decoded])}}}"


def operand(tensors, recipes, gemm, name, axis, decoded):
    """The tensor as the GEMM reads it."""
    x, rows = tensors[name], recipes[ROW_READER[name]]
    if axis == 0 and name in decoded and rows is not HIGH:
        x = bf16_values(bf16_bits(rows[1](x, name, 1).astype(np.float32)))
    return recipes[gemm][1](x, name, axis).astype(np.float64)


def check(title, recipes, decoded, arrays):
    tensors = {name: bf16_values(bits) for name, bits in arrays.items()}
    found = run(MODULE.replace("RECIPE", recipe_text(recipes, decoded)), "layer", arrays, TARGET, vjp=True)
    for gemm, (label, result, *reads) in enumerate(GEMMS):
        values = [operand(tensors, recipes, gemm, *read, decoded) for read in reads]
        a, b = (value if axis == 1 else value.T for value, (_, axis) in zip(values, reads))
        wanted = a @ b.T
        bound = (a.shape[1] + 8) * 2.0**-24 * (np.abs(a) @ np.abs(b).T)
        bound += 2.0**-8 * (np.abs(wanted) + bound)
        got = bf16_values(found[result]).astype(np.float64)
        expect((np.abs(got - wanted) <= bound).all(), f"{title}: {label} is the product of its own casts")
        name, axis = reads[1]
        if recipes[gemm] is HIGH and name not in decoded:
            continue
        # The result with the wrong source, or without the cast.
        others = [tensors[name].astype(np.float64)]
        if (
            axis == 0
            and recipes[ROW_READER[name]] is not HIGH
            and recipes[gemm] is not HIGH
            and recipes[gemm] is not recipes[ROW_READER[name]]
        ):
            others.append(operand(tensors, recipes, gemm, name, axis, set(decoded) ^ {name}))
        for other in others:
            far = np.abs(got - a @ (other if axis == 1 else other.T).T) > bound
            # Formats multiplied by powers of two share a grid, so few elements differ there.
            expect(
                far.mean() > 0.001,
                f"{title}: {label} tells the sources of '{name}' apart, in {far.mean():.3f} of the elements",
            )
    return found


def states(found, arrays, title):
    """Checks that each slot of a delayed GEMM is updated once, with the first step's amax."""
    for slot, name, format in (("w.x", "x", E4M3), ("w.w", "w", E4M3), ("w.dy", "grad.y", E5M2)):
        if f"{slot}.scale" not in found:
            continue
        largest = tensor_scaling.amax(bf16_values(arrays[name]))
        history, scale = delayed.update(largest, np.zeros(3, np.float32), np.float32(1), format.max, "max")
        expect(
            found[f"{slot}.scale"].tobytes() == np.asarray(scale).tobytes()
            and found[f"{slot}.amax_history"].tobytes() == np.asarray(history).tobytes(),
            f"{title}: the states of '{slot}'",
        )


rng = np.random.default_rng(31)
arrays = {
    name: bf16_bits((rng.normal(size=shape) * np.exp2(rng.integers(-3, 4, (shape[0], 1)))).astype(np.float32))
    for name, shape in SHAPES.items()
}
for title, recipes, decoded in PRESETS:
    found = check(title, recipes, decoded, arrays)
    states(found, arrays, title)
    kept = {name for name in found if name.endswith(".scale")}
    wanted = {"delayed, current and blocks": {"w.x.scale", "w.w.scale"}}.get(
        title, {"w.x.scale", "w.w.scale", "w.dy.scale"} if recipes[0] is DELAYED else set()
    )
    expect(kept == wanted, f"{title}: has the states {sorted(kept)}")

# A custom recipe can specify for each GEMM what a backward override specifies for all GEMMs of the backward.
results = ("y", "grad.x", "grad.w")
for title, custom, same in (
    ("decoded", recipe_text((MX, HIGH, HIGH), ("x", "w")), "mxfp8_block_scaling, {backward_override = dequantized}"),
    ("high precision", recipe_text((NV_ROWS, HIGH, HIGH), ()), ROWS + ", backward_override = high_precision}"),
    ("one recipe", recipe_text((BLOCK, BLOCK, BLOCK), ()), "float8_block_scaling"),
):
    expect_same(
        run(MODULE.replace("RECIPE", custom), "layer", arrays, TARGET, vjp=True),
        run(MODULE.replace("RECIPE", same), "layer", arrays, TARGET, vjp=True),
        results,
        f"custom as {title}",
    )
finish("custom-recipes")
