"""Casts of te-run against the definitions of quantizers.py: zero mismatches.

Every combination of source type, format, scheme, axis and scale option, on shapes with short blocks, and on values where
quantisers go wrong: zeros of both signs, infinities, NaN, subnormals, values that straddle a tie, blocks of nothing but zeros,
magnitudes whose scale overflows, and per-tensor scales that are no powers of two. Products of the casts come last.
"""

import itertools

import numpy as np
from harness import expect, finish, from_bf16, run, to_bf16
from quantizers import FORMATS, MAX_FINITE, amax, compute_scale, dequantize, quantize

compared = {"elements": 0}


def encode(values, source):
    """An array for the file, and the exact float32 values that it holds."""
    with np.errstate(over="ignore"):
        if source == "bf16":
            bits = to_bf16(values)
            return bits, from_bf16(bits)
        array = values.astype(np.float16 if source == "f16" else np.float32)
    return array, array.astype(np.float32)


def same(found, wanted, claim, mask=None):
    """Equal bits, but any NaN for NaN; only where `mask` is set."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return expect(False, f"{claim}: {found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}")
    equal = (found.view(f"u{found.itemsize}") == wanted.view(f"u{found.itemsize}"))
    if found.dtype.kind == "f":
        equal |= np.isnan(found) & np.isnan(wanted)
    equal = equal if mask is None else equal[mask]
    compared["elements"] += equal.size
    return expect(equal.all(), f"{claim}: {equal.size - np.count_nonzero(equal)} of {equal.size} elements differ")


class Module:
    """One function that returns everything about one matrix."""

    def __init__(self, shape, source):
        self.matrix, self.lines, self.results = f"tensor<{shape[0]}x{shape[1]}x{source}>", [], []

    def op(self, value, text):
        self.lines.append(f"    {value} = {text}")

    def result(self, value, type):
        self.results.append((value, type, value[1:]))

    def text(self):
        names = ", ".join(f'{type} {{te.name = "{name}"}}' for _, type, name in self.results)
        arguments = f'%x: {self.matrix} {{te.name = "x"}}, %given: tensor<f32> {{te.name = "given"}}'
        return "\n".join([f"func.func @casts({arguments}) -> ({names}) {{", *self.lines,
                          f"    return {', '.join(v for v, _, _ in self.results)} : {', '.join(t for _, t, _ in self.results)}", "}", ""])


def check(values, source, given):
    array, x = encode(values, source)
    module, checks = Module(x.shape, source), []
    shape = f"{x.shape[0]}x{x.shape[1]}"
    module.op("%amax", f"te.amax %x : {module.matrix}")
    module.result("%amax", "tensor<f32>")
    checks.append(("amax", lambda: amax(x), None))

    def cast(name, element, scheme, pow2, axis, text, **options):
        type = f"!te.scaled<{shape}x{element}, {scheme}{', pow2' if pow2 else ''}, contract = {axis}>"
        module.op(name, f"te.quantize %x{text} : {module.matrix} -> {type}")
        module.result(name, type)
        wanted = quantize(x, source, element, scheme, axis, pow2=pow2, **options)
        checks.append((f"{name[1:]}.data", lambda: wanted[0], None))
        checks.append((f"{name[1:]}.scale", lambda: wanted[1], wanted[2]))
        for out in ("bf16", "f16", "f32"):
            back = f"{name}_{out}"
            module.op(back, f"te.dequantize {name} : {type} -> tensor<{shape}x{out}>")
            module.result(back, f"tensor<{shape}x{out}>")
            checks.append((back[1:], lambda out=out: encode(dequantize(*wanted[:2], element, scheme, axis), out)[0], None))
        if axis == 1 and scheme != "block_1x128":
            column = type.replace("contract = 1", "contract = 0")
            module.op(f"{name}_t", f"te.transpose {name} : {type} -> {column}")
            module.result(f"{name}_t", column)
            other = quantize(x, source, element, scheme, 0, pow2=pow2, **options)
            checks.append((f"{name[1:]}_t.data", lambda: other[0], None))
            checks.append((f"{name[1:]}_t.scale", lambda: other[1], other[2]))

    for element, pow2, epsilon in itertools.product(FORMATS, (False, True), (0.0, 0.125)):
        tag = f"{element[2:]}{'_pow2' * pow2}{'_eps' * (epsilon > 0)}"
        attributes = f" {{amax_epsilon = {epsilon} : f32{', pow2_scales = true' * pow2}}}"
        scale = compute_scale(amax(x), FORMATS[element].max, pow2, epsilon)
        module.op(f"%scale_{tag}", f"te.compute_scale %amax for {element}{attributes}")
        module.result(f"%scale_{tag}", "tensor<f32>")
        checks.append((f"scale_{tag}", lambda scale=scale: scale, None))
        for axis in (0, 1):
            cast(f"%tensor_{tag}_{axis}", element, "per_tensor", pow2, axis, f" scale %scale_{tag}", scale=scale)
            for scheme in ("block_1x128", "block_128x128"):
                cast(f"%{scheme}_{tag}_{axis}", element, scheme, pow2, axis,
                     f" {{amax_epsilon = {epsilon} : f32}}" if epsilon else "", epsilon=epsilon)
    for element, axis in itertools.product(FORMATS, (0, 1)):
        cast(f"%given_{element[2:]}_{axis}", element, "per_tensor", False, axis, " scale %given", scale=given)
    found = run(module.text(), "casts", {"x": array, "given": np.float32(given)})
    for name, wanted, mask in checks:
        same(found[name], np.asarray(wanted()), f"{source} {shape} scale {given}: '{name}'", mask)


def matrix(rng, rows, columns, source):
    """Ordinary numbers, some of every awkward kind, and blocks of one kind only."""
    largest, x = float(MAX_FINITE[source]), rng.normal(size=(rows, columns))
    x *= np.exp2(rng.integers(-30, 12, (rows, 1)))
    smallest = {"bf16": 2.0**-133, "f16": 2.0**-24, "f32": 2.0**-149}[source]
    for kind in (0.0, -0.0, smallest, -3 * smallest, np.inf, -np.inf, np.nan, largest, -largest):
        x[rng.random(x.shape) < 0.004] = kind
    # Ties of both formats, and their neighbours, once the scale is a power of two.
    ties = np.outer([1.0625, 1.125, 1.1875, 0.5, 1.25, 448, 464, 57344, 61440], np.exp2(np.arange(-18.0, 4)))
    some = rng.random(x.shape) < 0.2
    x[some] = rng.choice(ties.ravel(), some.sum()) * rng.choice([-1, 1, 1 + 2.0**-7], some.sum())
    x[rows // 3] = 0.0
    x[rows // 2, : min(columns, 128)] = rng.integers(1, 4, min(columns, 128)) * smallest
    return x


rng = np.random.default_rng(11)
for source, (rows, columns) in itertools.product(MAX_FINITE, ((5, 7), (131, 133), (1, 300))):
    x = matrix(rng, rows, columns, source)
    finite = np.where(np.isfinite(x), x, 1.0)
    check(x, source, 7.3)
    check(finite / 3, source, 2.0**-9)
check(np.zeros((3, 130)), "bf16", 0.1)
check(np.full((2, 129), np.nan), "f32", 1e-30)
check(np.full((130, 2), 2.0**-149), "f32", 3e38)
check(np.full((4, 4), 2.0**-133), "bf16", 1.0)
check(np.array([[448.0, 464.0, 480.0, 0.0146484375, 0.0009765625, 2.0**-10, 1.5 * 2.0**-9, -448.1, -0.0, 2.0**-17]]), "f32", 1.0)

def product(rng, scheme_a, scheme_b):
    """A product of quantised operands is that of their decoded elements: f32 sums of K products, K / 128 scalings of 3
    roundings, one rounding of the result, so within (K + 8) u of the sum of magnitudes. Slices of k differ in size, so that
    no scale can stand for another."""
    rows, columns, inner = 40, 48, 304
    sizes = np.exp2(4.0 * (np.arange(inner) // 128) - rng.integers(0, 3, inner))
    a, b = (rng.normal(size=(n, inner)) * sizes * np.exp2(rng.integers(-4, 5, (n, 1))) for n in (rows, columns))
    (a_bits, a), (b_bits, b) = encode(a, "bf16"), encode(b / sizes**2, "bf16")
    lines, types, decoded = [], [], []
    for name, x, scheme in (("a", a, scheme_a), ("b", b, scheme_b)):
        matrix = f"tensor<{x.shape[0]}x{inner}xbf16>"
        types.append((matrix, f"!te.scaled<{x.shape[0]}x{inner}xf8E4M3FN, {scheme}, contract = 1>"))
        scale = compute_scale(amax(x), 448) if scheme == "per_tensor" else None
        if scale is not None:
            lines += [f"  %m{name} = te.amax %{name} : {matrix}", f"  %s{name} = te.compute_scale %m{name} for f8E4M3FN"]
        lines.append(f"  %q{name} = te.quantize %{name}{f' scale %s{name}' * (scale is not None)} : {matrix} -> {types[-1][1]}")
        decoded.append(dequantize(*quantize(x, "bf16", "f8E4M3FN", scheme, 1, scale=scale)[:2], "f8E4M3FN", scheme, 1))
    out = f"tensor<{rows}x{columns}xf32>"
    lines.append(f"  %y = te.scaled_matmul %qa, %qb fast_accumulation = false : {types[0][1]}, {types[1][1]} -> {out}")
    arguments = ", ".join(f'%{name}: {types[i][0]} {{te.name = "{name}"}}' for i, name in enumerate("ab"))
    text = "\n".join([f'func.func @f({arguments}) -> ({out} {{te.name = "y"}}) {{', *lines, f"  return %y : {out}", "}", ""])
    left, right = (x.astype(np.float64) for x in decoded)
    bound = (inner + 8) * 2.0**-24 * (np.abs(left) @ np.abs(right).T)
    error = np.abs(run(text, "f", {"a": a_bits, "b": b_bits})["y"] - left @ right.T)
    expect((error <= bound).all(), f"{scheme_a} times {scheme_b}: the largest error is {np.max(error / bound):.3f} of its bound")


for schemes in (("per_tensor", "per_tensor"), ("block_1x128", "block_1x128"), ("block_1x128", "block_128x128"),
                ("block_128x128", "block_1x128")):
    product(rng, *schemes)
print(f"exact-quantise: {compared['elements']} elements and scales compared")
finish("exact-quantise")
