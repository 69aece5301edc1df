"""Modules of TransformerEngine on an H200, recorded, against the same modules compiled by us.

Parameters, inputs and cotangents are the recorded ones; y and all gradients are compared. What may differ, and by how much:

* Sums. Theirs run on tensor cores in an order of their own. Of bf16 operands, in an f32 accumulator that truncates: within 2 K u S
  of the true sum, u = 2^-24 and S = sum |a b|, and ours within K u S. Of FP8 operands, 32 products and the accumulator at a time
  are aligned to the largest of them, of which about 14 bits are kept: 33 terms lose up to 2^-13 of it, K / 32 times. M is the
  largest product or difference of two prefixes of the sum, which no partial sum exceeds.
* Rounding to bf16. Two values at most e apart round to values at most e + 1 ulp apart.
* What follows from a difference: through a product with |other operand|, through swiglu and its gradient with the absolute
  derivatives, through the norm's backward, which is linear.
  These bounds hold element by element, for everything but what is quantised *after* it differed. There the worst case is that
  all values move by a whole step of the format, which is no bound at all; so differences are taken as independent. Every one of
  the n terms that a tensor core cuts by less than a unit adds a variance of unit^2 / 3, and rounding to steps of s turns a
  difference of d into one of s with probability d / s, a variance of d (s + d). Variances go through products like squares; the
  Frobenius norm of the whole difference is at most twice the root of their sum, the 2 for what is not independent.
  Only a LayerNormMLP whose recipe quantises has such results.
* Their fused activation takes the amax of f32 values, ours of the bf16 ones that are cast: under current scaling the scales of
  fc2's input differ by up to 2^-8, which is a difference 2^-8 |a| in front of the cast and one of 2^-8 |result| behind it. The
  last part gives fc2 their amax, and then it is no worse than under block scaling, whose casts see the same values as theirs.
* Ties of the norm. A sum of K squares in f32, in any order, is within K u of the true one, so its root is within K / 2 u; the
  reciprocal root and two products add less than 4 u. Both norms are thus within (K / 2 + 4) u |n| of the true one before they are
  rounded to bf16, and where a tie is that near, theirs may be the neighbour beyond it. These elements, about one of 256, have a
  worst difference of one ulp. Rounding to FP8 is monotone, so a cast of one with the same scale is between the casts of the two.
"""

import json
import os
import pathlib
import sys

import numpy as np
from harness import expect, finish, from_bf16, run, to_bf16
from te_model import block_scaling, tensor_scaling
from te_model.formats import FP8
from te_model.tensor_scaling import amax, compute_scale

ROOT = pathlib.Path(__file__).parents[4]
GOLDEN = pathlib.Path(os.environ.get("TE_GOLDEN_DIR") or ROOT.parent / "shared" / "golden")
RECIPES = {"bf16": "high_precision", "current": "float8_current_scaling", "block": "float8_block_scaling"}
T, K, N, U, EPSILON = 128, 256, 384, 2.0**-24, 1e-5


def tensor(*shape):
    return f"tensor<{''.join(f'{n}x' for n in shape)}bf16>"


def module(kind):
    def argument(name, *shape):
        return f'%{name}: {tensor(*shape)} {{te.name = "{name}"}}'

    x, lines, layer = tensor(T, K), [], "%x"
    arguments = [argument("x", T, K)]
    if kind != "Linear":
        arguments.append(argument("layer_norm_weight", K))
        lines.append(f"  %n = te.rms_norm %x, %layer_norm_weight {{epsilon = 1.0e-5 : f32}} : {x}, {tensor(K)}")
        layer = "%n"
    if kind == "LayerNormMLP":
        y, h, a, w1, w2 = x, tensor(T, 2 * N), tensor(T, N), tensor(2 * N, K), tensor(K, N)
        arguments += [argument("fc1_weight", 2 * N, K), argument("fc2_weight", K, N)]
        lines += [
            f"  %h = te.linear {layer}, %fc1_weight : {x}, {w1} -> {h}",
            f"  %a = te.activation <swiglu> %h : {h} -> {a}",
            f"  %y = te.linear %a, %fc2_weight : {a}, {w2} -> {y}",
        ]
    else:
        y, w = tensor(T, N), tensor(N, K)
        arguments += [argument("weight", N, K), argument("bias", N)]
        lines.append(f"  %y = te.linear {layer}, %weight bias %bias : {tensor(N)} : {x}, {w} -> {y}")
    return "\n".join(
        [f'func.func @f({", ".join(arguments)}) -> ({y} {{te.name = "y"}}) {{', *lines, f"  return %y : {y}", "}", ""]
    )


def ulp(x):
    """The spacing of bf16 numbers at x."""
    return np.exp2(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-126))) - 7)


def stepped(variance, step):
    """The variance of a difference after rounding to multiples of `step`."""
    off = np.sqrt(variance)
    return off * (step + off)


class Estimate:
    """A matrix as te computes it, and bounds of the difference: `worst` (infinite if there is only a `variance`)."""

    def __init__(self, value, worst=0.0, variance=0.0, shift=0.0):
        self.value = np.asarray(value, np.float64)
        self.worst, self.variance = (np.broadcast_to(np.float64(e), self.value.shape) for e in (worst, variance))
        self.shift = shift

    def rounded(self):
        step = ulp(self.value)
        return Estimate(self.value, self.worst + step, stepped(self.variance, step), self.shift)

    @property
    def T(self):
        return Estimate(self.value.T, self.worst.T, self.variance.T, self.shift)


class Recipe:
    def __init__(self, name, override):
        self.name, self.override = name, override

    def operand(self, x, axis, weight=False, gradient=False, backward=False, shift=0.0):
        """The operand of a GEMM for the bf16 matrix `x`."""
        if self.name == "bf16" or backward and (gradient and self.override or self.override == "high_precision"):
            return x
        element = "f8E5M2" if gradient and self.name == "current" else "f8E4M3FN"
        values, format = x.value.astype(np.float32), FP8[element]

        def cast(values):
            return self.cast(values.astype(np.float32), format, axis, weight, backward)

        value, scale = cast(values)
        if not x.worst.any() and not shift:
            return Estimate(value)
        if not shift and np.all(x.worst <= ulp(x.value)):
            ends = [cast(np.copysign(np.abs(x.value) + e, x.value)) for e in (-x.worst, x.worst)]
            if all(np.array_equal(end[1], scale) for end in ends):
                worst = np.max([np.abs(end[0] - value) for end in ends], axis=0)
                return Estimate(value, worst, worst**2)
        # The largest element determines the scale of a tensor, so its error affects every element.
        if self.name == "current":
            at = np.unravel_index(np.argmax(np.abs(values)), values.shape)
            shift += np.sqrt(x.variance[at]) / np.abs(x.value[at])
        mantissa, smallest = (2, 2.0**-16) if element == "f8E5M2" else (3, 2.0**-9)
        step = np.maximum(2.0**-mantissa * np.abs(values), smallest * amax(values) / format.max)
        return Estimate(value, np.inf, stepped((np.sqrt(x.variance) + shift * np.abs(values)) ** 2, step), shift)

    def cast(self, values, format, axis, weight, backward):
        """The values that a GEMM multiplies for an f32 matrix, and the scales of its cast."""
        scheme = "block_128x128" if weight else "block_1x128"
        if backward and self.override:
            axis = 1
        if self.name == "current":
            q = tensor_scaling.quantize(values, format, axis, compute_scale(amax(values), format.max))
            value = tensor_scaling.dequantize(q, format, axis).astype(np.float64)
        else:
            q = block_scaling.quantize(values, format, scheme, axis, "bf16", pow2=True)
            value = block_scaling.dequantize(q, format, scheme, axis).astype(np.float64)
        if backward and self.override:
            value = from_bf16(to_bf16(value)).astype(np.float64)
        return value, q.scale

    def product(self, a, b, backward=False, bias=0.0):
        """a[m, k] b[n, k] as bf16."""
        left, right = a.value, b.value
        finite = [np.where(np.isfinite(e.worst), e.worst, 0) for e in (a, b)]
        moved = finite[0] @ np.abs(right).T + np.abs(left) @ finite[1].T
        size = np.abs(left) @ np.abs(right).T + moved
        error = typical = 3 * left.shape[1] * U * size
        if self.name != "bf16" and not (backward and self.override):
            prefix, low, high, most = (np.zeros(size.shape) for _ in range(4))
            for k in range(left.shape[1]):
                term = np.outer(left[:, k], right[:, k])
                prefix += term
                np.minimum(low, prefix, out=low)
                np.maximum(high, prefix, out=high)
                np.maximum(most, np.abs(term), out=most)
            terms, unit = -(-left.shape[1] // 32) * 33, 2.0**-13 * (np.maximum(high - low, most) + 2 * moved)
            error, typical = error + terms * unit, typical + np.sqrt(terms / 3) * unit
        exact = np.isfinite(a.worst).all() and np.isfinite(b.worst).all()
        worst = a.worst @ np.abs(right).T + np.abs(left) @ b.worst.T + error if exact else np.inf
        variance = a.variance @ (right**2).T + left**2 @ b.variance.T + typical**2
        return Estimate(left @ right.T + bias, worst, variance, a.shift + b.shift).rounded()


def beyond_ties(bits, exact):
    """The other bf16 value that a norm near `exact`, the true value, may be rounded to; else te's own."""
    value = from_bf16(bits).astype(np.float64)
    size, true, step = np.abs(value), np.copysign(exact, value * exact), ulp(value)
    # The spacing is half as large below a power of two.
    below = np.where(size == np.exp2(np.floor(np.log2(np.maximum(size, 2.0**-126)))), step / 2, step)
    near = (K / 2 + 4) * U * np.abs(exact)
    other = np.where(
        true + near >= size + step / 2, size + step, np.where(true - near <= size - below / 2, size - below, size)
    )
    return np.copysign(other, value)


def norm_backward(dn, x, gamma):
    """dx and dgamma. The projection in dx does not increase the norm of a row."""
    r = 1 / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPSILON)
    h = r * x

    def dx(d):
        return r * (gamma * d - h * np.mean(gamma * d * h, axis=1, keepdims=True))

    worst = r * (np.abs(gamma) * dn.worst + np.abs(h) * np.mean(np.abs(gamma * h) * dn.worst, axis=1, keepdims=True))
    return (
        Estimate(dx(dn.value), worst, (r * gamma) ** 2 * dn.variance, dn.shift).rounded(),
        Estimate((dn.value * h).sum(0), (dn.worst * np.abs(h)).sum(0), (dn.variance * h**2).sum(0), dn.shift).rounded(),
    )


def combine(value, *parts):
    """A function of estimates. parts: (its derivative, estimate)."""
    worst = sum(np.abs(d) * e.worst for d, e in parts) if all(np.isfinite(e.worst).all() for _, e in parts) else np.inf
    return Estimate(value, worst, sum(d**2 * e.variance for d, e in parts), max(e.shift for _, e in parts)).rounded()


def linear_backward(recipe, dy, x, w, shift=0.0):
    options = {"backward": True}
    dx = recipe.product(
        recipe.operand(dy, 1, gradient=True, **options), recipe.operand(w, 0, weight=True, **options).T, **options
    )
    dw = recipe.product(
        recipe.operand(dy, 0, gradient=True, **options).T, recipe.operand(x, 0, shift=shift, **options).T, **options
    )
    return dx, dw


def estimate(kind, recipe, golden, fused_amax=True):
    """Every result of the module. fused_amax: their activation's amax is not that of the tensor that is cast."""
    x, dy = Estimate(golden["x"]), Estimate(golden["dy"])
    result, n = {}, x
    if kind != "Linear":
        gamma = golden["p.layer_norm_weight"].astype(np.float64)
        rms = np.sqrt(np.mean(x.value**2, axis=1, keepdims=True) + EPSILON)
        value = from_bf16(golden["normalised"]).astype(np.float64)
        apart = np.abs(beyond_ties(golden["normalised"], gamma * x.value / rms) - value)
        n = Estimate(value, apart, apart**2)
        expect(np.all(np.abs(n.value - gamma * x.value / rms) <= ulp(n.value)), f"{kind}: the norm is the norm")

    def forward(a, w, shift=0.0, bias=0.0):
        return recipe.product(recipe.operand(a, 1, shift=shift), recipe.operand(w, 1, weight=True), bias=bias)

    if kind == "LayerNormMLP":
        w1, w2 = Estimate(golden["p.fc1_weight"]), Estimate(golden["p.fc2_weight"])
        h = forward(n, w1)
        p, g = (Estimate(h.value[:, part], h.worst[:, part], h.variance[:, part]) for part in (np.s_[:N], np.s_[N:]))
        s = 1 / (1 + np.exp(-p.value))
        silu, slope = p.value * s, p.value * s * (1 - s) + s
        a = combine(silu * g.value, (slope * g.value, p), (silu, g))
        shift = 2.0**-8 if recipe.name == "current" and fused_amax else 0.0
        result["y"] = forward(a, w2, shift)
        da, result["grad.fc2_weight"] = linear_backward(recipe, dy, a, w2, shift)
        # |silu''| is at most 1/2.
        first = combine(
            slope * g.value * da.value, (slope * g.value, da), (g.value * da.value / 2, p), (slope * da.value, g)
        )
        second = combine(silu * da.value, (silu, da), (slope * da.value, p))
        dh = Estimate(
            *(np.hstack([getattr(first, part), getattr(second, part)]) for part in ("value", "worst", "variance"))
        )
        dn, result["grad.fc1_weight"] = linear_backward(recipe, dh, n, w1)
    else:
        w = Estimate(golden["p.weight"])
        result["y"] = forward(n, w, bias=golden["p.bias"])
        dn, result["grad.weight"] = linear_backward(recipe, dy, n, w)
        total = dy.value.sum(0)
        result["grad.bias"] = Estimate(total, 2 * T * U * np.abs(dy.value).sum(0)).rounded()
    if kind == "Linear":
        result["grad.x"] = dn
    else:
        result["grad.x"], result["grad.layer_norm_weight"] = norm_backward(dn, x.value, gamma)
    return result


def compare(claim, ours, theirs, bound):
    """Prints the number of equal elements, and the largest difference divided by its bound."""
    equal, a, b = (
        np.count_nonzero(ours == theirs),
        from_bf16(ours).astype(np.float64),
        from_bf16(theirs).astype(np.float64),
    )
    if np.isfinite(bound.worst).all():
        # In a larger binade, one ulp is two of those below.
        ratio, kind = (
            np.max(np.abs(a - b) / (bound.worst + ulp(np.maximum(np.abs(a), np.abs(b))) - ulp(bound.value))),
            "element",
        )
    else:
        limit = 2 * np.sqrt(bound.variance.sum()) + bound.shift * np.linalg.norm(b)
        ratio, kind = np.linalg.norm(a - b) / limit, f"norm {limit / np.linalg.norm(b):.1e},"
    print(f"{claim}: {equal} of {ours.size} bit-equal, {kind} difference / bound {ratio:.3f}")
    expect(np.isfinite(ratio) and ratio <= 1, f"{claim}: the difference is within its bound")
    return equal


if not (GOLDEN / "modules_1.npz").exists():
    sys.exit(
        "recipes-golden: no golden vectors: neither TE_GOLDEN_DIR nor shared/golden beside the checkout has modules_1.npz"
    )


def fc2_with_their_amax(arrays):
    """y of a LayerNormMLP under current scaling, the scale of fc2's input made from the f32 activation; and how far the
    amax of the two is apart."""
    x, h, a, w1, w2 = tensor(T, K), tensor(T, 2 * N), tensor(T, N), tensor(2 * N, K), tensor(K, N)
    qa, qw = (f"!te.scaled<{rows}x{N}xf8E4M3FN, per_tensor, contract = 1>" for rows in (T, K))
    text = f"""func.func @f(%x: {x} {{te.name = "x"}}, %g: {tensor(K)} {{te.name = "layer_norm_weight"}},
    %w1: {w1} {{te.name = "fc1_weight"}}, %w2: {w2} {{te.name = "fc2_weight"}}, %amax: tensor<f32> {{te.name = "amax"}})
    -> ({x} {{te.name = "y"}}, {h} {{te.name = "h"}}, tensor<f32> {{te.name = "rounded"}}) {{
  %n = te.rms_norm %x, %g {{epsilon = 1.0e-5 : f32}} : {x}, {tensor(K)}
  %h = te.linear %n, %w1 : {x}, {w1} -> {h}
  %a = te.activation <swiglu> %h : {h} -> {a}
  %rounded = te.amax %a : {a}
  %s = te.compute_scale %amax for f8E4M3FN
  %qa = te.quantize %a scale %s : {a} -> {qa}
  %wmax = te.amax %w2 : {w2}
  %ws = te.compute_scale %wmax for f8E4M3FN
  %qw = te.quantize %w2 scale %ws : {w2} -> {qw}
  %y = te.scaled_matmul %qa, %qw fast_accumulation = true : {qa}, {qw} -> {x}
  return %y, %h, %rounded : {x}, {h}, tensor<f32>
}}
"""
    mode, arrays = "recipe=float8_current_scaling", {k: v for k, v in arrays.items() if k != "grad.y"}
    h = from_bf16(run(text, "f", arrays | {"amax": np.float32(1)}, mode)["h"])
    one = np.float32(1)
    fused = np.abs(h[:, :N] * (one / (one + np.exp(-h[:, :N]))) * h[:, N:]).max()
    found = run(text, "f", arrays | {"amax": fused}, mode)
    return found["y"], fused, found["rounded"]


vectors = np.load(GOLDEN / "modules_1.npz")
cases = [case for case in json.loads((GOLDEN / "modules_1.json").read_text()) if "module" in case]
equal = elements = 0
for case in cases:
    title, kind, recipe = case["case"], case["module"], Recipe(case["recipe"], case["override"])
    bits = {key.split("/")[1]: vectors[key] for key in vectors.files if key.startswith(title + "/")}
    parameters = {name[2:]: array for name, array in bits.items() if name.startswith("p.")}
    arrays = {"x": bits["x"], "grad.y": bits["dy"]} | parameters
    mode = f"recipe={RECIPES[recipe.name]}" + f" backward-override={recipe.override}" * bool(recipe.override)
    found = run(module(kind), "f", arrays, mode, vjp=True)
    golden = {name: from_bf16(array) for name, array in bits.items()}
    if kind != "Linear":
        norm = f"""func.func @n(%x: {tensor(T, K)} {{te.name = "x"}}, %g: {tensor(K)} {{te.name = "g"}})
    -> ({tensor(T, K)} {{te.name = "n"}}) {{
  %n = te.rms_norm %x, %g {{epsilon = 1.0e-5 : f32}} : {tensor(T, K)}, {tensor(K)}
  return %n : {tensor(T, K)}
}}
"""
        golden["normalised"] = run(norm, "n", {"x": bits["x"], "g": bits["p.layer_norm_weight"]})["n"]
    theirs = {"y": bits["y"], "grad.x": bits["dx"]} | {f"grad.{name}": bits[f"g.{name}"] for name in parameters}
    bounds = estimate(kind, recipe, golden)
    expect(set(theirs) == set(found) == set(bounds), f"{title}: every result is compared")
    for name, wanted in theirs.items():
        equal += compare(f"{title} {name}", found[name], wanted, bounds[name])
        elements += wanted.size
    if kind == "LayerNormMLP" and recipe.name == "current":
        y, fused, rounded = fc2_with_their_amax(arrays)
        expect(
            abs(fused - rounded) <= 2.0**-8 * fused, f"{title}: the amax before rounding is {fused}, after it {rounded}"
        )
        bound = estimate(kind, recipe, golden, fused_amax=False)["y"]
        same, apart = np.count_nonzero(y == bits["y"]), np.count_nonzero(found["y"] == bits["y"])
        compare(f"{title} y with an amax of {fused} for {rounded}", y, bits["y"], bound)
        expect(
            same > 2 * apart,
            f"{title}: the amax explains most differences: {apart} elements bit-equal, {same} with theirs",
        )
    if kind == "LayerNormLinear" and not recipe.override:
        # A norm that rounds every one of these ties the other way is within the bounds, too.
        x, gamma = golden["x"].astype(np.float64), golden["p.layer_norm_weight"].astype(np.float64)
        exact = gamma * x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPSILON)
        others = to_bf16(beyond_ties(golden["normalised"], exact).astype(np.float32))
        ties = np.count_nonzero(others != golden["normalised"])
        expect(0 < ties < 4 * T, f"{title}: there are some ties, but {ties}")
        given = {"x": others, "grad.y": bits["dy"], "weight": bits["p.weight"], "bias": bits["p.bias"]}
        moved = run(module("Linear"), "f", given, mode, vjp=True)
        for name in ("y", "grad.weight"):
            compare(f"{title} {name} with {ties} ties the other way", found[name], moved[name], bounds[name])
print(
    f"recipes-golden: {len(cases)} modules, {equal} of {elements} elements bit-equal ({100 * equal / elements:.1f} %)"
)
finish("recipes-golden")
