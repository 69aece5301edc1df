"""Checks of tensors outside of a region: their expected form, and whether a step can use their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from te_mlir import arrays
from te_mlir.dtypes import BY_NAME
from te_mlir.errors import ArgumentError
from te_mlir.torch.states import Part

#: A function that returns the addresses of tensors.
addresses_of = arrays.torch_addresses()


def dtype_name(dtype: torch.dtype) -> str:
    """The name of an element type: "bfloat16" for `torch.bfloat16`."""
    return str(dtype)[6:]


def torch_to_te(dtype: torch.dtype) -> str | None:
    """The name of an element type in the dialect; None if the dialect does not have it."""
    name = dtype_name(dtype)
    return name if name in BY_NAME and BY_NAME[name].bytes > 1 else None


class Spec(NamedTuple):
    """A tensor outside of a region: its name, sizes and element type, and whether it needs a gradient.

    part: if it is a part of a parameter, which one. Rows are read in place; columns are copied in each call. parts: if
    it is a parameter of which layers read parts, these. constant: whether it is a result that no gradient goes through.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    weight: bool = False
    differentiable: bool = False
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    constant: bool = False

    @property
    def is_copy(self) -> bool:
        return self.part is not None and self.part.axis == 1


def check(spec: Spec, tensor: torch.Tensor, device: torch.device, role: str = "argument") -> None:
    """Raises ArgumentError, naming the argument, unless the step can use the tensor's memory."""
    if tensor.is_neg():
        raise ArgumentError(f"{role} '{spec.name}': {arrays.NEGATED}")
    if tensor.dtype is not spec.dtype:
        raise ArgumentError(
            f"{role} '{spec.name}': expected elements of {dtype_name(spec.dtype)}, but got {dtype_name(tensor.dtype)}"
        )
    if tensor.shape != spec.shape:
        raise ArgumentError(f"{role} '{spec.name}': expected shape {list(spec.shape)}, but got {list(tensor.shape)}")
    if tensor.device != device:
        raise ArgumentError(f"{role} '{spec.name}': expected memory of '{device}', but got '{tensor.device}'")
    if not tensor.is_contiguous():
        raise ArgumentError(
            f"{role} '{spec.name}': expected a row-major tensor without gaps, but got strides "
            f"{list(tensor.stride())}; call .contiguous()"
        )
    if is_traceable_wrapper_subclass(tensor):
        raise ArgumentError(f"{role} '{spec.name}': expected a tensor in memory, but got a {type(tensor).__name__}")
    pointer = tensor.data_ptr()
    if pointer == 0 and tensor.numel():
        raise ArgumentError(
            f"{role} '{spec.name}': expected a tensor with memory, but its storage was freed or resized"
        )
    count, held = tensor.numel() * tensor.itemsize, tensor.untyped_storage().nbytes()
    if tensor.storage_offset() * tensor.itemsize + count > held:
        raise ArgumentError(
            f"{role} '{spec.name}': expected memory of {count} bytes, but its storage was resized to {held}"
        )
    if pointer % 16:
        raise ArgumentError(f"{role} '{spec.name}': expected memory aligned to 16 bytes, but got address {pointer:#x}")


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy if its elements are not stored in order at an address that kernels can read."""
    inner = tensor.contiguous().resolve_neg()
    return inner.clone() if inner.data_ptr() % 16 else inner


def refuse_duals(specs: Sequence[Spec], tensors: Sequence[torch.Tensor]) -> None:
    """Raises ArgumentError for a tensor that forward-mode differentiation gave a tangent."""
    for spec, tensor in zip(specs, tensors):
        if forward_ad.unpack_dual(tensor).tangent is not None:
            raise ArgumentError(
                f"argument '{spec.name}': expected no tangent, but got one (forward-mode differentiation); "
                "te supports only backward differentiation"
            )
