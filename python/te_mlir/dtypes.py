"""Element types, with the numbers of the runtime, the names of ml_dtypes and the codes of DLPack."""

from __future__ import annotations

from typing import NamedTuple


class DType(NamedTuple):
    """One element type of the runtime.

    code: its te_rt_dtype. name: its name in NumPy with ml_dtypes. mlir: its name in MLIR.
    bytes: the size of one stored element; two FP4 elements share one byte. dlpack: its
    (type code, bits) in DLPack.
    """

    code: int
    name: str
    mlir: str
    bytes: int
    dlpack: tuple[int, int]


DTYPES = (
    DType(0, "float32", "f32", 4, (2, 32)),
    DType(1, "bfloat16", "bf16", 2, (4, 16)),
    DType(2, "float16", "f16", 2, (2, 16)),
    DType(3, "float8_e4m3fn", "f8E4M3FN", 1, (10, 8)),
    DType(4, "float8_e5m2", "f8E5M2", 1, (12, 8)),
    DType(5, "int32", "i32", 4, (0, 32)),
    DType(6, "float4_e2m1fn", "f4E2M1FN", 1, (1, 8)),
    DType(7, "float8_e8m0fnu", "f8E8M0FNU", 1, (14, 8)),
)

BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in DTYPES}
BY_MLIR: dict[str, DType] = {dtype.mlir: dtype for dtype in DTYPES}

#: The names of DLPack's (type code, bits), for messages; some of them are not supported.
DLPACK_NAMES = {
    **{dtype.dlpack: dtype.name for dtype in DTYPES if dtype.name != "float4_e2m1fn"},
    (0, 8): "int8",
    (0, 16): "int16",
    (0, 64): "int64",
    (1, 8): "uint8",
    (1, 16): "uint16",
    (1, 32): "uint32",
    (1, 64): "uint64",
    (2, 64): "float64",
    (6, 8): "bool",
}


def matches(dtype: DType, name: str) -> bool:
    """Whether elements `name` of an array can be `dtype`; 8-bit floats and FP4 may be raw bytes."""
    return name == dtype.name or (name == "uint8" and dtype.bytes == 1)


def float_text(value: float) -> str:
    """A float literal that MLIR rounds to the nearest value of its type."""
    text = repr(float(value))
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


#: The bits of infinity and of a NaN, and the smallest number that is rounded to infinity.
_BEYOND = {
    "float32": (0x7F800000, 0x7FC00000, (2 - 2.0**-24) * 2.0**127),
    "bfloat16": (0x7F80, 0x7FC0, (2 - 2.0**-8) * 2.0**127),
    "float16": (0x7C00, 0x7E00, (2 - 2.0**-11) * 2.0**15),
}


def constant_text(value: float, dtype: str) -> str:
    """Like float_text, but also for infinities and NaN, which have no decimal literal."""
    infinity, nan, least = _BEYOND.get(dtype, (0, 0, float("inf")))
    if dtype not in _BEYOND or abs(value) < least:
        return float_text(value)
    bits = nan if value != value else infinity
    sign = 1 << (31 if dtype == "float32" else 15) if value < 0 else 0
    return f"0x{bits | sign:0{8 if dtype == 'float32' else 4}X}"
