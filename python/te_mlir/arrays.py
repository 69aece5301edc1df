"""Pointers to arrays of other libraries, and memory of te_mlir as arrays of other libraries.

`view` describes an array without copying it: arrays of PyTorch and NumPy by their own
attributes, which is fast, and any other by DLPack. This module imports neither framework:
if an array is theirs, they are loaded already.
"""

from __future__ import annotations

import collections
import ctypes
import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from te_mlir.dtypes import BY_NAME, DLPACK_NAMES, DType
from te_mlir.errors import ArgumentError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13


class View(NamedTuple):
    """The memory of an array.

    device: DLPack's (type, index). owner: an object that keeps the memory alive while it is used.
    readonly: whether its library forbids writing to it.
    """

    pointer: int
    dtype: str
    shape: tuple[int, ...]
    contiguous: bool
    device: tuple[int, int]
    owner: Any
    readonly: bool = False


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManagedTensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [
    ("dl_tensor", _DLTensor),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _Deleter),
]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    ]


#: Flags of a versioned tensor: it is read-only, or it is a copy that no one else uses.
_READ_ONLY_OR_COPIED = 3

_api = ctypes.PyDLL(None)  # Not ctypes.pythonapi, because other modules change its declarations.
_api.PyCapsule_IsValid.restype = ctypes.c_int
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    if strides is None or 0 in shape:
        return True
    wanted = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != wanted:
            return False
        wanted *= size
    return True


#: The error for a tensor whose memory has the negatives of its elements.
NEGATED = "expected a tensor whose memory holds its elements, but got one with the negative bit; call .resolve_neg()"


def _torch_view(tensor: Any, torch: Any) -> View:
    if tensor.layout is not torch.strided or tensor.is_meta:
        raise ArgumentError(f"expected a dense tensor in memory, but got one of {tensor.layout} on {tensor.device}")
    if tensor.is_neg():
        raise ArgumentError(NEGATED)
    pointer = tensor.data_ptr()
    if pointer == 0 and tensor.numel() != 0:
        raise ArgumentError("expected a tensor with memory, but its storage was freed or resized to 0 bytes")
    count, held = tensor.numel() * tensor.itemsize, tensor.untyped_storage().nbytes()
    if tensor.storage_offset() * tensor.itemsize + count > held:
        raise ArgumentError(f"expected memory of {count} bytes, but its storage was resized to {held}")
    device = tensor.device
    return View(
        pointer,
        str(tensor.dtype)[6:],
        tuple(tensor.shape),
        tensor.is_contiguous(),
        (CPU, 0) if device.type == "cpu" else (CUDA if device.type == "cuda" else -1, device.index or 0),
        tensor,
    )


def torch_part() -> Callable[..., Any]:
    """A function (tensor, sizes, strides, first element) that returns a tensor in its memory; fast if PyTorch has one."""
    guards = sys.modules["torch"]._C._dynamo.guards

    def part(tensor: Any, sizes: Sequence[int], strides: Sequence[int], first: int) -> Any:
        return tensor.detach().as_strided(sizes, strides, tensor.storage_offset() + first)

    return getattr(guards, "_reinterpret_tensor", part)


def torch_guard(tensors: tuple[Any, ...]) -> Callable[..., bool] | None:
    """A function that checks in one call whether tensors are like these, except for their memory.

    It compares class, element type, sizes, strides, device and negative bit. None if this PyTorch has no such
    function, or if there are no tensors.
    """
    try:
        from torch._C._dynamo.guards import TensorGuards

        sizes: Any = [list(t.shape) for t in tensors]
        strides: Any = [list(t.stride()) for t in tensors]
        return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    except Exception:  # It is not a part of PyTorch's API; after any error, the slow way is used.
        return None


def torch_addresses() -> Callable[[Iterable[Any]], list[int]]:
    """A function that returns the addresses of tensors: 0.1 us for each, because it calls no Python code."""
    address = sys.modules["torch"].Tensor.data_ptr
    return lambda tensors: list(map(address, tensors))


def changed(before: Sequence[Any], now: Sequence[Any]) -> list[int]:
    """The indices at which `now` differs from `before`."""
    return list(itertools.compress(itertools.count(), map(operator.ne, before, now)))


def _dlpack_tensor(array: Any, options: dict[str, Any]) -> tuple[Any, _DLTensor, bool]:
    """A capsule, the tensor in it, and whether the tensor is read-only."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **options)
    except TypeError:
        # The library supports only versions before DLPack 1.0.
        capsule = array.__dlpack__(**options)
    if _api.PyCapsule_IsValid(capsule, b"dltensor"):
        old = ctypes.cast(_api.PyCapsule_GetPointer(capsule, b"dltensor"), ctypes.POINTER(_DLManagedTensor))
        # Arrays of JAX are read-only but are not marked as such.
        jax = sys.modules.get("jax")
        return capsule, old.contents.dl_tensor, jax is not None and isinstance(array, jax.Array)
    if not _api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        raise ArgumentError("expected a DLPack capsule called 'dltensor' or 'dltensor_versioned'")
    address = _api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    new = ctypes.cast(address, ctypes.POINTER(_DLManagedTensorVersioned)).contents
    if new.major != 1:
        raise ArgumentError(f"expected an array of DLPack 1, but got DLPack {new.major}.{new.minor}")
    return capsule, new.dl_tensor, bool(new.flags & _READ_ONLY_OR_COPIED)


def _dlpack_view(array: Any, stream: int | None) -> View:
    kind, index = array.__dlpack_device__()
    device = (int(kind), int(index))
    capsule, tensor, readonly = _dlpack_tensor(array, {} if device[0] == CPU else {"stream": stream})
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    element = (tensor.dtype.code, tensor.dtype.bits)
    return View(
        (tensor.data or 0) + tensor.byte_offset,
        DLPACK_NAMES.get(element, f"DLPack type {element}"),
        shape,
        _is_contiguous(shape, strides),
        device,
        # The capsule is not consumed: its own destructor frees its tensor.
        capsule,
        readonly,
    )


def view(array: Any, stream: int | None = None) -> View:
    """The memory of `array`; raises ArgumentError if it is not an array in memory.

    stream: the CUDA stream that will read it, for arrays that are read by DLPack.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _torch_view(array, torch)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return View(
            array.ctypes.data,
            array.dtype.name,
            array.shape,
            array.flags.c_contiguous,
            (CPU, 0),
            array,
            not array.flags.writeable,
        )
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return _dlpack_view(array, stream)
    raise ArgumentError(f"expected an array with DLPack (torch, NumPy, CuPy, te_mlir), but got {type(array).__name__}")


def torch_dtype(dtype: DType) -> Any:
    """The torch.dtype of elements `dtype`; uint8 for types that torch does not have in this form."""
    torch = sys.modules["torch"]
    return torch.uint8 if dtype.name == "float4_e2m1fn" else getattr(torch, dtype.name)


def numpy_dtype(dtype: DType) -> Any:
    """The numpy.dtype of elements `dtype`; raw unsigned integers without ml_dtypes."""
    import numpy

    if dtype.name in ("float32", "float16", "int32"):
        return numpy.dtype(dtype.name)
    try:
        import ml_dtypes
    except ImportError:
        return numpy.dtype(numpy.uint16 if dtype.bytes == 2 else numpy.uint8)
    return numpy.dtype(numpy.uint8 if dtype.name == "float4_e2m1fn" else getattr(ml_dtypes, dtype.name))


# Export: a managed tensor stays in `_exported` until its consumer runs the deleter. When Python ends, consumers may be
# destroyed after this module, so the deleter is never freed and looks up no names.
_exported: dict[int, Any] = {}
#: The addresses of tensors whose capsules were not taken when this was last looked at.
_offered: collections.deque[int] = collections.deque()


@_Deleter
def _release(managed: Any, exported: Any = _exported, addressof: Any = ctypes.addressof) -> None:
    exported.pop(addressof(managed.contents), None)


ctypes.pythonapi.Py_IncRef(ctypes.py_object(_release))


def _drop_refused() -> None:
    """Frees the tensors whose capsules a consumer dropped without taking them.

    A destructor of the capsule cannot do this: a consumer that refuses an element type, as NumPy does, drops the capsule
    while its error is set, and a function of ctypes would lose that error.
    """
    for _ in range(len(_offered)):
        address = _offered.popleft()
        exported = _exported.get(address)
        if exported is None or not _api.PyCapsule_IsValid(exported[0], b"dltensor"):
            continue
        # References: that of the tuple, and the argument.
        if sys.getrefcount(exported[0]) <= 2:
            _exported.pop(address, None)
        else:
            _offered.append(address)


def export(pointer: int, dtype: DType, shape: tuple[int, ...], device: tuple[int, int], owner: Any) -> Any:
    """A DLPack capsule of memory that `owner` keeps alive.

    If nobody takes the capsule, the memory is free after the next export.
    """
    _drop_refused()
    managed = _DLManagedTensor()
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    tensor = managed.dl_tensor
    tensor.data, tensor.device = pointer, _DLDevice(*device)
    tensor.ndim, tensor.shape, tensor.strides = len(shape), extents, None
    tensor.dtype = _DLDataType(dtype.dlpack[0], dtype.dlpack[1], 1)
    tensor.byte_offset = 0
    managed.deleter = _release
    address = ctypes.addressof(managed)
    capsule = _api.PyCapsule_New(address, b"dltensor", None)
    _exported[address] = (capsule, managed, extents, owner)
    _offered.append(address)
    return capsule


def named(name: str) -> DType:
    """The element type `name`; raises ArgumentError if the runtime does not have it."""
    if name not in BY_NAME:
        raise ArgumentError(f"expected an element type of {', '.join(BY_NAME)}, but got '{name}'")
    return BY_NAME[name]
