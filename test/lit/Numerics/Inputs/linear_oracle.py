"""Computes y, dx, dw and db of a linear layer from only its input, its weight and the gradient of its result.

It follows docs/how_it_works/numerics.md: casts are those of te_model, and GEMMs add in f32 in the order of increasing k, with one
rounding for each operation. `override` determines the operands of the backward: casts for the backward ("none"), the tensors
("high_precision"), or the casts of the forward, dequantised to bf16 ("dequantized").
"""

import numpy as np
from harness import from_bf16, to_bf16
from te_model import block_scaling, mxfp8, nvfp4, tensor_scaling
from te_model.formats import E2M1, E4M3, E5M2
from te_model.layouts import unpack
from te_model.tensor_scaling import Scaled


def _round(x):
    return from_bf16(to_bf16(x))


def _sum(a, b):
    """The rows of `a` times the rows of `b`. Every product and sum is rounded to f32."""
    total = np.zeros((a.shape[0], b.shape[0]), np.float32)
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            total = total + a[:, k, None] * b[None, :, k]
    return total


def _fma(a, b, c):
    """a * b + c, rounded once. `b` is a power of two, so a * b is exact unless it exceeds the range of f32."""
    exact = a.astype(np.float64) * b
    product = exact.astype(np.float32)
    return np.where((product == exact) | np.isnan(exact), product + c, (exact + c).astype(np.float32))


def sliced_sum(a, b, width, fuse):
    """The same for (codes, scales), both [rows, k], in slices of k that are summed separately and then scaled. Rounding is before
    the second scale, which is then a part of the addition, or after both scales."""
    (left, left_scale), (right, right_scale) = a, b
    total = np.zeros((left.shape[0], right.shape[0]), np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, left.shape[1], width):
            part = _sum(left[:, start : start + width], right[:, start : start + width])
            first, second = left_scale[:, start, None], right_scale[None, :, start]
            if fuse:
                total = _fma(part * first, second, total)
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
    """The casts and the quantised GEMMs of one recipe, with its default options."""

    def __init__(self, name, scales=None):
        self.name, self.scales = name, scales

    def cast(self, x, role, axis):
        """(codes, scales, factor of the tensor) of a GEMM's operand. The first two are matrices like x; None if there is none."""
        if self.name in ("float8_current_scaling", "delayed_scaling"):
            format = E5M2 if role == "dy" else E4M3
            scale = (
                np.float32(self.scales[role])
                if self.scales
                else tensor_scaling.compute_scale(tensor_scaling.amax(x), format.max)
            )
            q = tensor_scaling.quantize(x, format, axis, scale)
            codes = format.decode(q.data)
            return codes if axis == 1 else codes.T, None, q.scale[0]

        def apart(decode, q, one):
            """Codes are dequantised with scales of one, and scales with codes of one."""
            with np.errstate(all="ignore"):
                scales = decode(Scaled(np.full_like(q.data, one), q.scale, q.amax))
            return scales

        if self.name == "float8_block_scaling":
            scheme = "block_128x128" if role == "w" else "block_1x128"
            q = block_scaling.quantize(x, E4M3, scheme, axis, "bf16", pow2=True)
            codes = E4M3.decode(q.data)
            return (
                codes if axis == 1 else codes.T,
                apart(lambda q: block_scaling.dequantize(q, E4M3, scheme, axis), q, 0x38),
                None,
            )
        if self.name == "mxfp8_block_scaling":
            q = mxfp8.quantize(x, E4M3, "mx_1x32", axis)
            return E4M3.decode(q.data), apart(lambda q: mxfp8.dequantize(q, E4M3, axis), q, 0x38), None
        scheme = "nv_16x16" if role == "w" else "nv_1x16"
        if axis == 0 and role != "w":
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
        """The operand `x` of the forward, as bf16."""
        codes, scales, factor = self.cast(x, role, 1)
        with np.errstate(all="ignore"):
            if self.name == "nvfp4_block_scaling":
                scales = scales * factor * (np.float32(1) / np.float32(6 * 448))
            return _round(codes * (factor if scales is None else scales))

    def quantised(self, a, b, bias=None):
        """The GEMM of two operands (x, role, axis), in bf16 bits."""
        (left, left_scale, fa), (right, right_scale, fb) = self.cast(*a), self.cast(*b)
        if a[2] == 0:
            left, left_scale = left.T, None if left_scale is None else left_scale.T
        if b[2] == 0:
            right, right_scale = right.T, None if right_scale is None else right_scale.T
        with np.errstate(all="ignore"):
            if left_scale is None:
                total = _sum(left, right) * (fa * fb)
            else:
                width = {"float8_block_scaling": 128, "mxfp8_block_scaling": 32, "nvfp4_block_scaling": 16}[self.name]
                total = sliced_sum((left, left_scale), (right, right_scale), width, fuse=width == 128)
                if fa is not None:
                    total = total * nvfp4.alpha(fa, fb)
            return to_bf16(total if bias is None else total + bias)


def linear(recipe, override, x, w, bias, dy):
    """(y, dx, dw, db) in bf16 bits, from f32 arrays; db is None without a bias."""
    db = None if bias is None else to_bf16(column_sum(dy))
    if recipe.name == "high_precision":
        total = _sum(x, w)
        y = to_bf16(total if bias is None else total + bias)
    else:
        y = recipe.quantised((x, "x", 1), (w, "w", 1), bias)
    if recipe.name != "high_precision" and override == "none":
        return (y, recipe.quantised((dy, "dy", 1), (w, "w", 0)), recipe.quantised((dy, "dy", 0), (x, "x", 0)), db)
    if recipe.name != "high_precision" and override == "dequantized":
        x, w = recipe.decode(x, "x"), recipe.decode(w, "w")
    return y, to_bf16(_sum(dy, w.T)), to_bf16(_sum(dy.T, x.T)), db
