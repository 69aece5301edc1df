"""Checks of the devices, streams and arrays of a call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from te_mlir import arrays
from te_mlir.dtypes import DType, matches
from te_mlir.errors import ArgumentError

_DEVICES = {arrays.CPU: "the CPU", arrays.CUDA: "CUDA device", arrays.CUDA_HOST: "pinned memory"}


def device_text(device: tuple[int, int]) -> str:
    text = _DEVICES.get(device[0], f"device type {device[0]}")
    return f"{text} {device[1]}" if device[0] == arrays.CUDA else text


def current_stream(device: tuple[int, int]) -> int:
    """The current stream of PyTorch or CuPy on a device; without them 0, the context's own stream.

    The legacy default stream of CUDA is 1.
    """
    if device[0] != arrays.CUDA:
        return 0
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return torch_stream(device)()
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        return cupy.cuda.get_current_stream().ptr or 1
    return 0


def torch_stream(device: tuple[int, int]) -> Callable[[], int]:
    """A function that returns PyTorch's current stream on a device, once PyTorch uses it; 0 on a CPU."""
    torch: Any = sys.modules["torch"]
    if device[0] != arrays.CUDA:
        return lambda: 0
    raw, index = getattr(torch._C, "_cuda_getCurrentRawStream", None), device[1]
    if raw is None:
        return lambda: torch.cuda.current_stream(index).cuda_stream or 1
    return lambda: raw(index) or 1


def torch_stream_of(device: Any) -> Callable[[], int]:
    """Does what torch_stream does, for a torch.device."""
    return torch_stream((arrays.CUDA if device.type == "cuda" else arrays.CPU, device.index or 0))


def torch_place(device: Any) -> tuple[int, int]:
    """The DLPack device of a torch.device; raises ArgumentError if te has no backend for it."""
    kind = {"cpu": arrays.CPU, "cuda": arrays.CUDA}.get(device.type)
    if kind is None:
        hint = "; give them memory by to_empty(device='cpu'), and then values" if device.type == "meta" else ""
        raise ArgumentError(f"expected tensors on 'cpu' or 'cuda', but got tensors on '{device}'{hint}")
    return kind, device.index or 0


def torch_recording(device: Any) -> Callable[[], bool]:
    """A function that returns whether PyTorch records a CUDA graph on the current stream; a graph has its own memory."""
    if device.type != "cuda":
        return bool
    return getattr(sys.modules["torch"]._C, "_cuda_isCurrentStreamCapturing", lambda: True)


def stream_handle(stream: Any, device: tuple[int, int]) -> int:
    """The CUstream of PyTorch's or CuPy's stream, or of a number, for work on `device`; raises ArgumentError.

    A number is not checked here; the runtime reports an invalid one.
    """
    if device[0] != arrays.CUDA:
        if stream == 0:
            return 0
        raise ArgumentError(f"argument 'stream': expected none for {device_text(device)}, but got {stream!r}")
    if isinstance(stream, int):
        return stream
    handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
    if handle is None:
        raise ArgumentError(f"argument 'stream': expected a CUDA stream or its address, but got {stream!r}")
    place = getattr(stream, "device", None)
    index = getattr(stream, "device_id", -1) if place is None else getattr(place, "index", place)
    if index not in (-1, None, device[1]):
        raise ArgumentError(
            f"argument 'stream': expected a stream of {device_text(device)}, but got one of CUDA device {index}"
        )
    return handle or 1


def check_view(
    name: str,
    dtype: DType,
    shape: tuple[int, ...],
    view: arrays.View,
    device: tuple[int, int],
    what: str = "argument",
) -> None:
    """Raises ArgumentError, naming the argument, unless `view` has this element type, shape, device and layout."""
    if not matches(dtype, view.dtype):
        raise ArgumentError(f"{what} '{name}': expected elements of {dtype.name}, but got {view.dtype}")
    if view.shape != shape:
        raise ArgumentError(f"{what} '{name}': expected shape {list(shape)}, but got {list(view.shape)}")
    if view.device != device:
        # Pinned and managed memory can be used by the host and by the device.
        host = view.device[0] in (arrays.CUDA_HOST, arrays.CUDA_MANAGED)
        if not host:
            raise ArgumentError(
                f"{what} '{name}': expected memory of {device_text(device)}, but got {device_text(view.device)}"
            )
    if not view.contiguous:
        raise ArgumentError(
            f"{what} '{name}': expected a row-major array without gaps, but got strides; "
            "call .contiguous() (torch) or ascontiguousarray (NumPy)"
        )
    if view.pointer % 16:
        raise ArgumentError(f"{what} '{name}': expected memory aligned to 16 bytes, but got address {view.pointer:#x}")
