"""te.scaled_matmul of quantised operands is the matrix product of their dequantised elements, within a derived bound. Elements
and scales are those of the model in test/model."""

import numpy as np
from harness import expect, finish, run
from te_model import block_scaling, mxfp8, nvfp4, tensor_scaling
from te_model.formats import E4M3, bf16_bits, bf16_values


def product(rng, scheme_a, scheme_b):
    """Compares GEMMs of quantised operands with the product of their dequantised elements. There are f32 sums of K products,
    K / 128 scalings with 3 roundings each, and one rounding of the result, so the error is within (K + 8) u of the sum of
    magnitudes. Slices of k have different magnitudes, so that a wrong scale is noticed."""
    rows, columns, inner = 40, 48, 304
    sizes = np.exp2(4.0 * (np.arange(inner) // 128) - rng.integers(0, 3, inner))
    a, b = (rng.normal(size=(n, inner)) * sizes * np.exp2(rng.integers(-4, 5, (n, 1))) for n in (rows, columns))
    a_bits, b_bits = bf16_bits(a), bf16_bits(b / sizes**2)
    lines, types, decoded = [], [], []
    for name, x, scheme in (("a", bf16_values(a_bits), scheme_a), ("b", bf16_values(b_bits), scheme_b)):
        matrix = f"tensor<{x.shape[0]}x{inner}xbf16>"
        types.append((matrix, f"!te.scaled<{x.shape[0]}x{inner}xf8E4M3FN, {scheme}, contract = 1>"))
        if scheme == "per_tensor":
            scale = tensor_scaling.compute_scale(tensor_scaling.amax(x), E4M3.max)
            decoded.append(tensor_scaling.dequantize(tensor_scaling.quantize(x, E4M3, 1, scale), E4M3, 1))
            lines += [
                f"  %m{name} = te.amax %{name} : {matrix}",
                f"  %s{name} = te.compute_scale %m{name} for f8E4M3FN",
            ]
        else:
            decoded.append(
                block_scaling.dequantize(block_scaling.quantize(x, E4M3, scheme, 1, "bf16"), E4M3, scheme, 1)
            )
        lines.append(
            f"  %q{name} = te.quantize %{name}{f' scale %s{name}' * (scheme == 'per_tensor')} : {matrix} -> {types[-1][1]}"
        )
    out = f"tensor<{rows}x{columns}xf32>"
    lines.append(f"  %y = te.scaled_matmul %qa, %qb fast_accumulation = false : {types[0][1]}, {types[1][1]} -> {out}")
    arguments = ", ".join(f'%{name}: {types[i][0]} {{te.name = "{name}"}}' for i, name in enumerate("ab"))
    text = "\n".join(
        [f'func.func @f({arguments}) -> ({out} {{te.name = "y"}}) {{', *lines, f"  return %y : {out}", "}", ""]
    )
    left, right = (x.astype(np.float64) for x in decoded)
    bound = (inner + 8) * 2.0**-24 * (np.abs(left) @ np.abs(right).T)
    error = np.abs(run(text, "f", {"a": a_bits, "b": b_bits})["y"] - left @ right.T)
    expect(
        (error <= bound).all(),
        f"{scheme_a} times {scheme_b}: the largest error is {np.max(error / bound):.3f} of its bound",
    )


def decode(x, scheme, flags, axis):
    """The exact values of a cast, in f64. The factors are not multiplied in f32."""
    if scheme.startswith("mx"):
        return mxfp8.dequantize(mxfp8.quantize(x, E4M3, scheme, axis), E4M3, axis).astype(np.float64)
    largest = nvfp4.amax_rows(x) if "row_scaled" in flags else tensor_scaling.amax(x).reshape(1)
    scale_max = 256 if "256" in flags else 448
    exact = nvfp4.dequantize(nvfp4.quantize(x, scheme, axis, largest, scale_max), axis, scale_max, with_amax=False)
    return exact.astype(np.float64) * (largest.astype(np.float64) / (6 * scale_max))[:, None]


def small_block_product(rng, schemes, axis, flags=("", ""), swizzle=False, emulate=False):
    """Like the above for blocks of 32 and 16: K / 16 slices, each with 16 sums, 2 scalings and 1 sum, and 5 roundings that
    involve alpha, so the error is also within (K + 8) u. emulate: nv operands are dequantised without their amaxes, exactly in
    bf16, and te.matmul with alpha has K sums and the same 5 roundings."""
    outer, inner = (64, 96), 320
    # FP4 has few magnitudes, and a square block has one scale for 16 rows.
    steep, far = (1, 1) if schemes[0].startswith("nv") else (2, 4)
    sizes = np.exp2(1.0 * steep * (np.arange(inner) // 64) - rng.integers(0, steep + 1, inner))
    arrays, arguments, lines, types, decoded = {}, [], [], [], []
    for i, name in enumerate("ab"):
        x = (
            rng.normal(size=(outer[i], inner))
            * (sizes if name == "a" else 1 / sizes)
            * np.exp2(rng.integers(-far, far + 1, (outer[i], 1)))
        )
        arrays[name] = bf16_bits(np.ascontiguousarray(x if axis == 1 else x.T))
        shape = arrays[name].shape
        matrix = f"tensor<{shape[0]}x{shape[1]}xbf16>"
        arguments.append(f'%{name}: {matrix} {{te.name = "{name}"}}')
        nv, rows = schemes[i].startswith("nv"), "row_scaled" in flags[i]
        element = "f4E2M1FN" if nv else "f8E4M3FN"
        if nv:
            lines.append(
                f"  %m{name} = te.amax{f'_rows %{name} : {matrix} -> tensor<{shape[0]}xf32>' if rows else f' %{name} : {matrix}'}"
            )
        cast = f"!te.scaled<{shape[0]}x{shape[1]}x{element}, {schemes[i]}{flags[i]}, contract = {axis}>"
        lines.append(f"  %q{name} = te.quantize %{name}{f' amax %m{name}' * nv} : {matrix} -> {cast}")
        types.append(cast)
        if swizzle:
            types[i] = cast.replace(", contract", ", swizzled, contract")
            lines.append(f"  %s{name} = te.swizzle_scales %q{name} : {cast} -> {types[i]}")
        if emulate:
            lines.append(f"  %d{name} = te.dequantize %q{name} {{without_amax}} : {cast} -> {matrix}")
        value = decode(bf16_values(arrays[name]), schemes[i], flags[i], axis)
        decoded.append(value if axis == 1 else value.T)
    out = f"tensor<{outer[0]}x{outer[1]}xf32>"
    if emulate:
        matrices = [f"tensor<{arrays[name].shape[0]}x{arrays[name].shape[1]}xbf16>" for name in "ab"]
        lines += [
            f"  %alpha = te.nvfp4_alpha %qa, %qb : {types[0]}, {types[1]}",
            f"  %y = te.matmul %da, %db alpha %alpha contract = [{axis}, {axis}] : {matrices[0]}, {matrices[1]} -> {out}",
        ]
    else:
        side = "s" if swizzle else "q"
        lines.append(
            f"  %y = te.scaled_matmul %{side}a, %{side}b fast_accumulation = false : {types[0]}, {types[1]} -> {out}"
        )
    text = "\n".join(
        [
            f'func.func @f({", ".join(arguments)}) -> ({out} {{te.name = "y"}}) {{',
            *lines,
            f"  return %y : {out}",
            "}",
            "",
        ]
    )
    left, right = decoded
    bound = (inner + 8) * 2.0**-24 * (np.abs(left) @ np.abs(right).T)
    error = np.abs(run(text, "f", arrays)["y"] - left @ right.T)
    expect(
        (error <= bound).all(),
        f"{schemes} axis {axis} {flags} swizzled {swizzle} emulated {emulate}: the largest error is "
        f"{np.max(error / bound):.3f} of its bound",
    )
    expect(all((x != 0).mean() > 0.7 for x in decoded), f"{schemes} axis {axis}: most elements count")


rng = np.random.default_rng(11)
for schemes in (
    ("per_tensor", "per_tensor"),
    ("block_1x128", "block_1x128"),
    ("block_1x128", "block_128x128"),
    ("block_128x128", "block_1x128"),
):
    product(rng, *schemes)
for axis in (1, 0):
    for schemes in (("mx_1x32", "mx_1x32"), ("mx_1x32", "mx_32x32"), ("nv_1x16", "nv_1x16"), ("nv_1x16", "nv_16x16")):
        for swizzle in (False, True):
            small_block_product(rng, schemes, axis, swizzle=swizzle)
small_block_product(rng, ("nv_1x16", "nv_1x16"), 1, (", row_scaled", ""))
small_block_product(rng, ("nv_1x16", "nv_16x16"), 1, (", row_scaled, scale_max_256", ", scale_max_256"), swizzle=True)
small_block_product(rng, ("nv_1x16", "nv_16x16"), 1, (", scale_max_256", ""))
for axis in (1, 0):
    small_block_product(rng, ("nv_1x16", "nv_16x16"), axis, ("", ", scale_max_256"), emulate=True)
finish("cast-products")
