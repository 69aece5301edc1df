"""Arrays of other libraries as pointers, and results in the caller's kind of array.

`view` looks at an array without copying: PyTorch's and NumPy's by their own
attributes, which is fast, any other by DLPack. Neither framework is imported
here: an array that is theirs shows that they are loaded.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import operator
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from te_mlir.dtypes import BY_NAME, DLPACK_NAMES, DType
from te_mlir.errors import ArgumentError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13


class View(NamedTuple):
    """Where an array lies.

    device: DLPack's (type, index). owner: what keeps the memory while it is used.
    readonly: nobody may write there, as its library says.
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


#: Flags of a versioned one: it may not be written, or it is a copy that nobody else sees.
_READ_ONLY_OR_COPIED = 3

_api = ctypes.PyDLL(None)  # Not the one of ctypes, whose declarations others change.
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


#: Of a tensor whose memory holds the negatives of its elements.
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


#: Gradients of up to so many bytes share an allocation: PyTorch's allocator takes those from blocks of its own as well.
SHARED_BYTES = 1 << 20
#: Where they begin in it, as allocations of a GPU do.
_ALIGNMENT = 512
#: So many tensors whose rows are alike are made faster by one call than by one each.
_SPLIT = 6
#: For so many addresses of a block the pointers are kept: a slice of an array is written one by one.
_ADDRESSES = 16


class _Block:
    """An allocation that tensors of one type share, and how it is taken apart.

    size, strides: of the allocation, whose rows are those of the first group. groups: (size, strides, first element,
    rows of each) of tensors whose rows are alike; None for the sizes of the first, whose last part is the rest of the
    block. single: (size, strides, first element) of each other tensor. runs: (place, place behind, first bytes) of
    tensors whose pointers follow each other. written: of the addresses of late, the bytes of the pointers of each run,
    as allocators give few addresses in turn. seen: the pointers that were written last, and for which address.
    """

    def __init__(self, dtype: Any, members: Sequence[tuple[Any, list[int]]], kinds: Any, places: Sequence[int]) -> None:
        self.dtype = dtype
        self.groups: list[tuple[Any, Any, int, list[int]]] = []
        self.single: list[tuple[Any, Any, int]] = []
        starts: dict[int, int] = {}
        end = 0
        for rows, group in members:
            begin = end
            for kind in group:
                shape = kinds[kind][0]
                if rows is None:
                    self.single.append((shape, _strides(shape), end // dtype.itemsize))
                starts[kind] = end
                end += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
            if rows is not None:
                counts = [kinds[kind][0][0] for kind in group]
                size = (sum(counts), *rows)
                self.groups.append((size, _strides(size), begin // dtype.itemsize, counts))
        # Never empty, so that each has an address.
        elements = max(end, _ALIGNMENT) // dtype.itemsize
        self.size: tuple[int, ...] = (elements,)
        if self.groups:
            (count, *rows), _, _, counts = self.groups[0]
            self.size = (-(-elements // math.prod(rows)), *rows)
            self.groups[0] = None, None, 0, [*counts, self.size[0] - count]
        self.strides = _strides(self.size)
        self.runs: list[tuple[int, int, list[int]]] = []
        for place, start in sorted((places[kind], start) for kind, start in starts.items()) if places else ():
            if self.runs and self.runs[-1][1] == place:
                first, _, before = self.runs[-1]
                self.runs[-1] = first, place + 1, [*before, start]
            else:
                self.runs.append((place, place + 1, [start]))
        self.written: dict[int, list[tuple[int, bytes]]] = {}
        self.seen: tuple[Any, int] = (None, 0)

    def point(self, pointers: Any, address: int) -> None:
        """Writes where the tensors lie in a block at `address`; pointers: an array of ctypes."""
        written = self.written.get(address)
        if written is None:
            if len(self.written) >= _ADDRESSES:
                self.written = {}
            written = self.written[address] = [
                (8 * begin, struct.pack(f"{end - begin}Q", *(address + start for start in starts)))
                for begin, end, starts in self.runs
            ]
        for begin, text in written:
            ctypes.memmove(ctypes.addressof(pointers) + begin, text, len(text))
        self.seen = pointers, address


#: Results of up to so many bytes, such as losses, of so many calls share an allocation.
_SLOT_BYTES, _SLOTS = 64, 64


class _Slots:
    """Memory for a small tensor of elements `dtype` of each of many calls; none is used twice.

    On a GPU an allocation costs the host more than the rest of what makes a tensor. What is allocated is of one stream,
    so another one gets slots of its own, and a CUDA graph that PyTorch records gets memory of its own.
    """

    def __init__(self, dtype: Any, device: Any) -> None:
        torch: Any = sys.modules["torch"]
        size = _SLOTS * _SLOT_BYTES // dtype.itemsize
        self._allocate = lambda count: torch.empty(size * count // _SLOTS, dtype=dtype, device=device)
        self._step = _SLOT_BYTES // dtype.itemsize
        self._recording = torch_recording(device)
        #: Memory, its storage, the stream, and slots that are left: at once, as several threads may take one.
        self._left: tuple[Any, Any, int, list[int]] = (None, (), 0, [])

    def take(self, stream: int) -> tuple[Any, int]:
        """A tensor, and the first element of the slot in it, for work on this stream."""
        memory, storage, before, slots = self._left
        if self._recording():
            return self._allocate(1), 0
        # A storage may have been resized by who got a part of it.
        if before != stream or len(storage) != _SLOTS * _SLOT_BYTES:
            slots = []
        try:
            return memory, slots.pop()
        except IndexError:
            memory = self._allocate(_SLOTS)
            slots = list(range(0, _SLOTS * self._step, self._step))
            self._left = memory, memory.untyped_storage(), stream, slots
            return memory, slots.pop()


class TorchMaker:
    """Makes new row-major tensors of PyTorch, of the same shapes and types in each call.

    kinds: (shape, torch.dtype, shares) of each. places: of their pointers, which are nobody else's; null: the pointer
    of what has no memory.
    Those that share, of up to SHARED_BYTES, lie in one allocation for each type, because allocations are most of what
    a call costs. They are no views, and have version counters of their own; their memory is free when the last of
    them is. So are small ones of several calls.
    """

    def __init__(
        self,
        kinds: Sequence[tuple[tuple[int, ...], Any, bool]],
        device: Any,
        places: Sequence[int] = (),
        null: int = 0,
    ) -> None:
        torch: Any = sys.modules["torch"]
        guards = torch._C._dynamo.guards
        self._index, self._null = device.index or 0, null
        self._slow = lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device=device)
        # What torch.compile's own code calls: it neither parses arguments nor dispatches, and takes the current device.
        self._quick = getattr(guards, f"_empty_strided_{device.type}", self._slow)
        self._current: Callable[[], int] | None = None
        if device.type == "cuda":
            self._current = getattr(torch._C, "_cuda_getDevice", lambda: -1)
        self._stream = torch_stream_of(device)
        self._view: Any = getattr(guards, "_reinterpret_tensor", None)
        self._split = torch.unsafe_split_with_sizes
        kinds = [(tuple(shape), dtype, shares) for shape, dtype, shares in kinds]
        shared: dict[Any, dict[Any, list[int]]] = {}
        for kind, (shape, dtype, shares) in enumerate(kinds):
            size = math.prod(shape) * dtype.itemsize
            if shares and self._view is not None and size <= SHARED_BYTES:
                # Tensors whose rows are alike, and fill their places, are taken apart by one call.
                rows = shape[1:] if shape and size and size % _ALIGNMENT == 0 else None
                shared.setdefault(dtype, {}).setdefault(rows, []).append(kind)
        self._blocks: list[_Block] = []
        order: list[int] = []
        for dtype, groups in shared.items():
            if sum(map(len, groups.values())) == 1:
                continue
            members = [group for group in groups.items() if group[0] is not None and len(group[1]) >= _SPLIT]
            rest = sorted(kind for group in groups.items() if group not in members for kind in group[1])
            if rest:
                members.append((None, rest))
            self._blocks.append(_Block(dtype, members, kinds, places))
            order += [kind for _, group in members for kind in group]
        alone = [kind for kind in range(len(kinds)) if kind not in order]
        #: (size, strides, dtype, place, where its memory is from, if it is small).
        self._alone = []
        for kind in alone:
            shape, dtype, _ = kinds[kind]
            small = self._view is not None and 0 < math.prod(shape) * dtype.itemsize <= _SLOT_BYTES
            slots = _Slots(dtype, device) if small else None
            self._alone.append((shape, _strides(shape), dtype, places[kind] if places else -1, slots))
        order += alone
        #: The numbers of the tensors, as `unsorted` gives them.
        self.order = order
        back = sorted(range(len(order)), key=order.__getitem__)
        self._sort = None if back == sorted(back) else operator.itemgetter(*back)

    def __call__(self, pointers: Any = None, stream: int | None = None) -> list[Any]:
        """The tensors, in the order of `kinds`; their addresses go to `pointers`, at `places`.

        stream: that they are for, if it is not the current one.
        """
        made = self.unsorted(pointers, self._stream() if stream is None else stream)
        return made if self._sort is None else list(self._sort(made))

    def unsorted(self, pointers: Any, stream: int) -> list[Any]:
        """As a call, in the order of `order`."""
        empty: Any = self._quick
        if self._current is not None and self._current() != self._index:
            empty = self._slow
        made: list[Any] = []
        view, split = self._view, self._split
        for block in self._blocks:
            memory = empty(block.size, block.strides, block.dtype)
            for size, strides, first, counts in block.groups:
                if size is None:
                    made += split(memory, counts)
                    made.pop()
                else:
                    made += split(view(memory, size, strides, first), counts)
            for size, strides, first in block.single:
                made.append(view(memory, size, strides, first))
            address, seen = memory.data_ptr(), block.seen
            if seen[1] != address or seen[0] is not pointers:
                block.point(pointers, address)
        for size, strides, dtype, place, slots in self._alone:
            if slots is None:
                tensor = empty(size, strides, dtype)
            else:
                memory, first = slots.take(stream)
                tensor = view(memory, size, strides, first)
            made.append(tensor)
            if place >= 0:
                pointers[place] = tensor.data_ptr() or self._null
        return made


def torch_part() -> Callable[..., Any]:
    """A function (tensor, sizes, strides, first element) to a tensor in its memory; quick, where PyTorch has one."""
    guards = sys.modules["torch"]._C._dynamo.guards

    def part(tensor: Any, sizes: Sequence[int], strides: Sequence[int], first: int) -> Any:
        return tensor.detach().as_strided(sizes, strides, tensor.storage_offset() + first)

    return getattr(guards, "_reinterpret_tensor", part)


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(max(extent, 1) for extent in shape[axis + 1 :]) for axis in range(len(shape)))


def torch_guard(tensors: tuple[Any, ...]) -> Callable[..., bool] | None:
    """Whether other tensors are like these, in one call: class, elements, sizes, strides, device, negative bit.

    None where this PyTorch cannot tell, or where there are none. It says nothing of memory.
    """
    try:
        from torch._C._dynamo.guards import TensorGuards

        sizes: Any = [list(t.shape) for t in tensors]
        strides: Any = [list(t.stride()) for t in tensors]
        return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    except Exception:  # Not a part of PyTorch's API: whatever it says, the slow way is there.
        return None


def torch_addresses() -> Callable[[Iterable[Any]], list[int]]:
    """A function from tensors to where they lie: 0.1 us each, as calls without Python between."""
    address = sys.modules["torch"].Tensor.data_ptr
    return lambda tensors: list(map(address, tensors))


def changed(before: Sequence[Any], now: Sequence[Any]) -> list[int]:
    """Places of what is not as before."""
    return list(itertools.compress(itertools.count(), map(operator.ne, before, now)))


def torch_stream(device: tuple[int, int]) -> Callable[[], int]:
    """A function to the stream that PyTorch works on there, once it has begun to; 0 on a CPU."""
    torch: Any = sys.modules["torch"]
    if device[0] != CUDA:
        return lambda: 0
    raw, index = getattr(torch._C, "_cuda_getCurrentRawStream", None), device[1]
    if raw is None:
        return lambda: torch.cuda.current_stream(index).cuda_stream or 1
    return lambda: raw(index) or 1


def torch_stream_of(device: Any) -> Callable[[], int]:
    """As torch_stream, of PyTorch's device."""
    return torch_stream((CUDA if device.type == "cuda" else CPU, device.index or 0))


def torch_recording(device: Any) -> Callable[[], bool]:
    """A function to whether PyTorch records a CUDA graph on the current stream, which has memory of its own."""
    if device.type != "cuda":
        return bool
    return getattr(sys.modules["torch"]._C, "_cuda_isCurrentStreamCapturing", lambda: True)


def _dlpack_tensor(array: Any, options: dict[str, Any]) -> tuple[Any, _DLTensor, bool]:
    """A capsule, the tensor in it, and whether that may not be written."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **options)
    except TypeError:
        # Of a library from before DLPack 1.0.
        capsule = array.__dlpack__(**options)
    if _api.PyCapsule_IsValid(capsule, b"dltensor"):
        old = ctypes.cast(_api.PyCapsule_GetPointer(capsule, b"dltensor"), ctypes.POINTER(_DLManagedTensor))
        # JAX's may not be written, and do not say so.
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
        # Not consumed: the capsule's own destructor frees what it holds.
        capsule,
        readonly,
    )


def view(array: Any, stream: int | None = None) -> View:
    """Where `array` lies; raises ArgumentError where it is no array in memory.

    stream: the CUDA stream that will read it, for arrays that come by DLPack.
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
    """The torch.dtype of elements `dtype`; uint8 for types that torch stores otherwise."""
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


#: Makes new arrays of these (shape, elements, whether it may share memory).
Maker = Callable[[Sequence[tuple[tuple[int, ...], DType, bool]]], Sequence[Any]]


def maker_like(arrays: list[Any], context: Any) -> Maker:
    """What makes results: arrays of the library of the first of `arrays` that is known.

    PyTorch's and NumPy's where such an array is given; else te_mlir.Tensor, which
    every DLPack library takes.
    """
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    for array in arrays:
        if torch is not None and isinstance(array, torch.Tensor):
            device = array.device
            return lambda kinds: TorchMaker([(shape, torch_dtype(d), shares) for shape, d, shares in kinds], device)()
        if numpy is not None and isinstance(array, numpy.ndarray):
            return lambda kinds: [_aligned(numpy, shape, dtype) for shape, dtype, _ in kinds]
    return lambda kinds: [context.empty(shape, dtype.name) for shape, dtype, _ in kinds]


def _aligned(numpy: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """A NumPy array whose memory is aligned to 64 bytes; NumPy itself promises 16."""
    kind = numpy_dtype(dtype)
    count = 1
    for size in shape:
        count *= size
    raw = numpy.empty(count * kind.itemsize + 64, numpy.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * kind.itemsize].view(kind).reshape(shape)


# Export: a managed tensor lives in `_exported` until its consumer's deleter runs. Consumers may go after this module
# when Python ends, so what they call is never freed and has no names to look up.
_exported: dict[int, Any] = {}


@_Deleter
def _release(managed: Any, exported: Any = _exported, addressof: Any = ctypes.addressof) -> None:
    exported.pop(addressof(managed.contents), None)


_CapsuleDestructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api_valid = ctypes.PyDLL(None).PyCapsule_IsValid
_api_valid.restype, _api_valid.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
_api_pointer = ctypes.PyDLL(None).PyCapsule_GetPointer
_api_pointer.restype, _api_pointer.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]


@_CapsuleDestructor
def _drop_capsule(
    capsule: int, exported: Any = _exported, valid: Any = _api_valid, pointer: Any = _api_pointer
) -> None:
    # A consumer renames the capsule and calls the deleter itself.
    if valid(capsule, b"dltensor"):
        exported.pop(pointer(capsule, b"dltensor"), None)


for _callback in (_release, _drop_capsule):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


def export(pointer: int, dtype: DType, shape: tuple[int, ...], device: tuple[int, int], owner: Any) -> Any:
    """A DLPack capsule of memory that `owner` keeps."""
    managed = _DLManagedTensor()
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    tensor = managed.dl_tensor
    tensor.data, tensor.device = pointer, _DLDevice(*device)
    tensor.ndim, tensor.shape, tensor.strides = len(shape), extents, None
    tensor.dtype = _DLDataType(dtype.dlpack[0], dtype.dlpack[1], 1)
    tensor.byte_offset = 0
    managed.deleter = _release
    address = ctypes.addressof(managed)
    _exported[address] = (managed, extents, owner)
    return _api.PyCapsule_New(address, b"dltensor", ctypes.cast(_drop_capsule, ctypes.c_void_p))


def named(name: str) -> DType:
    """The element type `name`; raises ArgumentError for one that the runtime lacks."""
    if name not in BY_NAME:
        raise ArgumentError(f"expected an element type of {', '.join(BY_NAME)}, but got '{name}'")
    return BY_NAME[name]
