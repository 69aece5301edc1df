"""y, dx, dw and db of a linear layer, from only its input, its weight and the gradient of its result.

It follows docs/how_it_works/numerics.md: casts are those of the other modules, and GEMMs add in f32 in the order of increasing k,
with one rounding for each operation. `override` determines the operands of the backward: casts for the backward ("none"), the
tensors ("high_precision"), or the casts of the forward, dequantised to the type of the tensors ("dequantized").
"""

from dataclasses import dataclass

import numpy as np

from . import block_scaling, mxfp8, nvfp4, tensor_scaling
from .formats import E2M1, E4M3, E5M2, load, store
from .layouts import unpack
from .tensor_scaling import Scaled

#: The options of each recipe that change casts, with their defaults.
OPTIONS = {
    "high_precision": {},
    "float8_current_scaling": {"fp8_format": "hybrid", "pow2_scales": False, "amax_epsilon": 0.0},
    "delayed_scaling": {"fp8_format": "hybrid"},
    "float8_block_scaling": {
        "fp8_format": "e4m3",
        "pow2_scales": True,
        "amax_epsilon": 0.0,
        "x_block_dim": 1,
        "w_block_dim": 2,
        "grad_block_dim": 1,
    },
    "mxfp8_block_scaling": {"fp8_format": "e4m3", "w_2d": False},
    "nvfp4_block_scaling": {"w_2d": True, "hadamard": True},
}
#: The elements along k that have one scale, and are summed before it is applied.
SLICE = {"float8_block_scaling": 128, "mxfp8_block_scaling": 32, "nvfp4_block_scaling": 16}
_BLOCK_DIM = {"x": "x_block_dim", "w": "w_block_dim", "dy": "grad_block_dim"}


def _sum(a, b):
    """The rows of `a` times the rows of `b`. Every product and sum is rounded to f32."""
    total = np.zeros((a.shape[0], b.shape[0]), np.float32)
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            total = total + a[:, k, None] * b[None, :, k]
    return total


def _fma(a, b, c):
    """a * b + c of f32, rounded once.

    In f64 the product is exact. If the sum is not, its last bit is set, so that the second rounding sees that there is a rest.
    """
    product, c = a.astype(np.float64) * b, c.astype(np.float64)
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part)
    even = total.view(np.int64) & 1 == 0
    odd = np.where(rest > 0, np.nextafter(total, np.inf), np.nextafter(total, -np.inf))
    return np.where((rest != 0) & np.isfinite(total) & even, odd, total).astype(np.float32)


def sliced_sum(a, b, width, fuse):
    """The same for (codes, scales), both [rows, k], in slices of k that are summed separately and then scaled. Rounding is before
    the second scale, which is then a part of the addition, or after both scales."""
    (left, left_scale), (right, right_scale) = a, b
    total = np.zeros((left.shape[0], right.shape[0]), np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, left.shape[1], width):
            part = _sum(left[:, start : start + width], right[:, start : start + width])
            first, second = left_scale[:, start, None], right_scale[None, :, start]
            if fuse == "left":
                total = _fma(part * first, second, total)
            elif fuse == "right":
                total = _fma(part * second, first, total)
            else:
                total = total + (part.astype(np.float64) * first * second).astype(np.float32)
    return total


def column_sum(dy):
    """The sum of rows in order, in chunks of 128 rows."""
    chunks = []
    with np.errstate(all="ignore"):
        for start in range(0, dy.shape[0], 128):
            chunk = np.zeros(dy.shape[1], np.float32)
            for row in dy[start : start + 128]:
                chunk = chunk + row
            chunks.append(chunk)
        total = np.zeros(dy.shape[1], np.float32)
        for chunk in chunks:
            total = total + chunk
    return total


class Recipe:
    """The casts and the quantised GEMMs of one recipe, for tensors of `type`.

    scales: those of "x", "w" and "dy" under delayed scaling. options: those of `OPTIONS` that do not have their default.
    """

    def __init__(self, name, scales=None, options=None, type="bf16"):
        self.name, self.scales, self.type = name, scales, type
        self.options = OPTIONS[name] | (options or {})

    def _format(self, role):
        return E5M2 if role == "dy" and self.options["fp8_format"] == "hybrid" else E4M3

    def _scheme(self, role):
        """That of a tensor under block scaling."""
        return "block_128x128" if self.options[_BLOCK_DIM[role]] == 2 else "block_1x128"

    def _tensor_scale(self, x, role):
        if self.name == "delayed_scaling" and self.scales:
            return np.float32(self.scales[role])
        largest, options = tensor_scaling.amax(x), self.options
        pow2, epsilon = options.get("pow2_scales", False), options.get("amax_epsilon", 0.0)
        return tensor_scaling.compute_scale(largest, self._format(role).max, pow2, epsilon)

    def cast(self, x, role, axis):
        """(codes, scales, factor of the tensor) of a GEMM's operand. The first two are matrices like x; None if there is none."""
        options = self.options
        if self.name in ("float8_current_scaling", "delayed_scaling"):
            format = self._format(role)
            q = tensor_scaling.quantize(x, format, axis, self._tensor_scale(x, role))
            codes = format.decode(q.data)
            return codes if axis == 1 else codes.T, None, q.scale[0]

        def apart(decode, q, one):
            """Codes are dequantised with scales of one, and scales with codes of one."""
            with np.errstate(all="ignore"):
                scales = decode(Scaled(np.full_like(q.data, one), q.scale, q.amax))
            return scales

        if self.name == "float8_block_scaling":
            format, scheme = self._format(role), self._scheme(role)
            pow2, epsilon = options["pow2_scales"], options["amax_epsilon"]
            q = block_scaling.quantize(x, format, scheme, axis, self.type, pow2, epsilon)
            codes = format.decode(q.data)
            one = format.encode(np.float32(1)).item()
            scales = apart(lambda q: block_scaling.dequantize(q, format, scheme, axis), q, one)
            return codes if axis == 1 else codes.T, scales, None
        if self.name == "mxfp8_block_scaling":
            format = self._format(role)
            q = mxfp8.quantize(x, format, "mx_32x32" if role == "w" and options["w_2d"] else "mx_1x32", axis)
            one = format.encode(np.float32(1)).item()
            return format.decode(q.data), apart(lambda q: mxfp8.dequantize(q, format, axis), q, one), None
        scheme = "nv_16x16" if role == "w" and options["w_2d"] else "nv_1x16"
        if axis == 0 and role != "w" and options["hadamard"]:
            x = nvfp4.hadamard(x)
        largest = tensor_scaling.amax(x).reshape(1)
        q = nvfp4.quantize(x, scheme, axis, largest)
        codes = E2M1.decode(unpack(q.data))
        return (
            codes if axis == 1 else codes.T,
            apart(lambda q: nvfp4.dequantize(q, axis, with_amax=False), q, 0x22),
            largest,
        )

    def decode(self, x, role):
        """The operand `x` of the forward, rounded to the type of the tensors."""
        codes, scales, factor = self.cast(x, role, 1)
        with np.errstate(all="ignore"):
            if self.name == "nvfp4_block_scaling":
                scales = scales * factor * (np.float32(1) / np.float32(6 * 448))
            return load(store(codes * (factor if scales is None else scales), self.type), self.type)

    def _fuses(self, left, right):
        """Whose scale is applied first, before the other one is a part of the addition."""
        if self.name != "float8_block_scaling":
            return None
        return "right" if self._scheme(left) == "block_128x128" and self._scheme(right) == "block_1x128" else "left"

    def quantised(self, a, b, bias=None):
        """The GEMM of two operands (x, role, axis), as the array of a file."""
        (left, left_scale, fa), (right, right_scale, fb) = self.cast(*a), self.cast(*b)
        if a[2] == 0:
            left, left_scale = left.T, None if left_scale is None else left_scale.T
        if b[2] == 0:
            right, right_scale = right.T, None if right_scale is None else right_scale.T
        with np.errstate(all="ignore"):
            if left_scale is None:
                total = _sum(left, right) * (fa * fb)
            else:
                operands = (left, left_scale), (right, right_scale)
                total = sliced_sum(*operands, SLICE[self.name], self._fuses(a[1], b[1]))
                if fa is not None:
                    total = total * nvfp4.alpha(fa, fb)
            # The bias is bf16, whatever the type of the result.
            return store(total if bias is None else total + load(store(bias, "bf16"), "bf16"), self.type)


@dataclass(frozen=True)
class Custom:
    """A recipe of its own for each GEMM. decoded: the tensors ("x", "w", "dy") whose second cast reads what the first one made."""

    fprop: Recipe
    dgrad: Recipe
    wgrad: Recipe
    decoded: frozenset = frozenset()

    @property
    def type(self):
        return self.fprop.type


def _of_override(recipe, override):
    """The recipes of the three GEMMs of a layer."""
    if not isinstance(recipe, Custom):
        recipe = Custom(recipe, recipe, recipe)
    if override == "none":
        return recipe
    high = Recipe("high_precision", type=recipe.type)
    return Custom(recipe.fprop, high, high, frozenset({"x", "w"} if override == "dequantized" else ()))


def _product(recipe, a, b, bias=None):
    """The GEMM of two operands (x, role, axis), as the array of a file."""
    if recipe.name != "high_precision":
        return recipe.quantised(a, b, bias)
    left, right = (x if axis == 1 else x.T for x, _, axis in (a, b))
    total = _sum(left, right)
    return store(total if bias is None else total + bias, recipe.type)


def linear(recipe, override, x, w, bias, dy, transposed=False):
    """(y, dx, dw, db) as the arrays of a file (bf16 as its bits), from f32 arrays; db is None without a bias.

    w and dw are [outputs, inputs]; transposed: a program has w as [inputs, outputs], so that x is the left operand of dw.
    """
    own = _of_override(recipe, override)
    first = {"x": own.fprop, "w": own.fprop, "dy": own.dgrad}
    second = {
        role: first[role].decode(tensor, role)
        if role in own.decoded and first[role].name != "high_precision"
        else tensor
        for role, tensor in (("x", x), ("w", w), ("dy", dy))
    }
    y = _product(own.fprop, (x, "x", 1), (w, "w", 1), bias)
    dx = _product(own.dgrad, (dy, "dy", 1), (second["w"], "w", 0))
    factors = (second["dy"], "dy", 0), (second["x"], "x", 0)
    dw = _product(own.wgrad, *reversed(factors)).T if transposed else _product(own.wgrad, *factors)
    return y, dx, dw, None if bias is None else store(column_sum(dy), own.type)
