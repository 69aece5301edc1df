"""Products of casts: what te.scaled_matmul makes of quantised operands is the product of their decoded elements, within a
derived bound. Elements and scales are those of the model of test/model."""

import numpy as np
from harness import expect, finish, run
from te_model import block_scaling, tensor_scaling
from te_model.formats import E4M3, bf16_bits, bf16_values


def product(rng, scheme_a, scheme_b):
    """A product of quantised operands is that of their decoded elements: f32 sums of K products, K / 128 scalings of 3
    roundings, one rounding of the result, so within (K + 8) u of the sum of magnitudes. Slices of k differ in size, so that
    no scale can stand for another."""
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
            lines += [f"  %m{name} = te.amax %{name} : {matrix}", f"  %s{name} = te.compute_scale %m{name} for f8E4M3FN"]
        else:
            decoded.append(block_scaling.dequantize(block_scaling.quantize(x, E4M3, scheme, 1, "bf16"), E4M3, scheme, 1))
        lines.append(f"  %q{name} = te.quantize %{name}{f' scale %s{name}' * (scheme == 'per_tensor')} : {matrix} -> {types[-1][1]}")
    out = f"tensor<{rows}x{columns}xf32>"
    lines.append(f"  %y = te.scaled_matmul %qa, %qb fast_accumulation = false : {types[0][1]}, {types[1][1]} -> {out}")
    arguments = ", ".join(f'%{name}: {types[i][0]} {{te.name = "{name}"}}' for i, name in enumerate("ab"))
    text = "\n".join([f'func.func @f({arguments}) -> ({out} {{te.name = "y"}}) {{', *lines, f"  return %y : {out}", "}", ""])
    left, right = (x.astype(np.float64) for x in decoded)
    bound = (inner + 8) * 2.0**-24 * (np.abs(left) @ np.abs(right).T)
    error = np.abs(run(text, "f", {"a": a_bits, "b": b_bits})["y"] - left @ right.T)
    expect((error <= bound).all(), f"{scheme_a} times {scheme_b}: the largest error is {np.max(error / bound):.3f} of its bound")


rng = np.random.default_rng(11)
for schemes in (("per_tensor", "per_tensor"), ("block_1x128", "block_1x128"), ("block_1x128", "block_128x128"),
                ("block_128x128", "block_1x128")):
    product(rng, *schemes)
finish("cast-products")
