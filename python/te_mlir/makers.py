"""Creates arrays for the results of a step, in the caller's kind of array.

This module imports no framework: if a tensor or device is PyTorch's, PyTorch is loaded already.
"""

from __future__ import annotations

import ctypes
import math
import operator
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

from te_mlir import arrays, devices
from te_mlir.dtypes import DType

#: Gradients of at most so many bytes share an allocation. PyTorch's allocator also takes such sizes from shared blocks.
SHARED_BYTES = 1 << 20
#: The alignment of each of them, which is that of allocations on a GPU.
_ALIGNMENT = 512
#: From so many tensors with equal rows on, splitting one tensor is faster than one call for each.
_SPLIT = 6
#: The number of addresses of a block for which the pointers are cached, because computing them is slow.
_ADDRESSES = 16


class _Block:
    """An allocation that tensors of one type share, and how it is divided.

    size, strides: those of the allocation, whose rows are those of the first group. groups: (size, strides, first
    element, number of rows of each) for tensors with equal rows; the first group has None as sizes, and its last part
    is the rest of the block. single: (size, strides, first element) of each other tensor. runs: (index, index after
    the last, first bytes) for tensors whose pointers follow one another. written: the bytes of the pointers of each
    run, for recent addresses, because allocators alternate between few addresses. seen: the pointers and the address
    that were written last.
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
        # The block is never empty, so that each tensor has an address.
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
        """Writes the addresses of the tensors in a block at `address`; pointers: an array of ctypes."""
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


#: Results of at most so many bytes, such as losses, share an allocation with those of so many calls.
_SLOT_BYTES, _SLOTS = 64, 64


class _Slots:
    """Memory for one small tensor of type `dtype` in each of many calls; no slot is used twice.

    On a GPU, an allocation costs the host more than the rest of creating a tensor. An allocation belongs to one stream,
    so another stream gets its own slots, and a CUDA graph that PyTorch records gets its own memory.
    """

    def __init__(self, dtype: Any, device: Any) -> None:
        torch: Any = sys.modules["torch"]
        size = _SLOTS * _SLOT_BYTES // dtype.itemsize
        self._allocate = lambda count: torch.empty(size * count // _SLOTS, dtype=dtype, device=device)
        self._step = _SLOT_BYTES // dtype.itemsize
        self._recording = devices.torch_recording(device)
        #: Memory, its storage, the stream, and the free slots, in one tuple, because several threads may take slots.
        self._left: tuple[Any, Any, int, list[int]] = (None, (), 0, [])

    def take(self, stream: int) -> tuple[Any, int]:
        """A tensor, and the first element of a slot in it, for work on this stream."""
        memory, storage, before, slots = self._left
        if self._recording():
            return self._allocate(1), 0
        # A caller that got a part of a storage may have resized it.
        if before != stream or len(storage) != _SLOTS * _SLOT_BYTES:
            slots = []
        try:
            return memory, slots.pop()
        except IndexError:
            memory = self._allocate(_SLOTS)
            slots = list(range(0, _SLOTS * self._step, self._step))
            self._left = memory, memory.untyped_storage(), stream, slots
            return memory, slots.pop()


class _Empty:
    """How to create tensors on a device."""

    def __init__(self, device: Any) -> None:
        torch: Any = sys.modules["torch"]
        self._index = device.index or 0
        self._slow = lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device=device)
        # The function that torch.compile's code calls. It parses no arguments, does not dispatch, and uses the current device.
        self._quick: Any = getattr(torch._C._dynamo.guards, f"_empty_strided_{device.type}", self._slow)
        self._current: Callable[[], int] | None = None
        if device.type == "cuda":
            self._current = getattr(torch._C, "_cuda_getDevice", lambda: -1)

    def function(self) -> Any:
        """A function (size, strides, dtype), for use before the current device changes."""
        return self._quick if self._current is None or self._current() == self._index else self._slow


def torch_block(size: int, dtype: Any, device: Any) -> Callable[[], Any]:
    """A function that creates a flat tensor of `size` bytes."""
    empty, shape = _Empty(device), (size // dtype.itemsize,)
    return lambda: empty.function()(shape, (1,), dtype)


class TorchMaker:
    """Creates row-major tensors of PyTorch, with the same shapes and types in each call.

    kinds: (shape, torch.dtype, shares) of each. places: the indices of their pointers, which no other tensor has. null:
    the pointer of a tensor without memory.
    Tensors that share and have at most SHARED_BYTES are in one allocation for each type, because allocations take most
    of the time of a call. They are not views, and have version counters of their own. Their memory is freed with the
    last of them. Small tensors of several calls share an allocation in the same way.
    """

    def __init__(
        self,
        kinds: Sequence[tuple[tuple[int, ...], Any, bool]],
        device: Any,
        places: Sequence[int] = (),
        null: int = 0,
    ) -> None:
        torch: Any = sys.modules["torch"]
        self._null, self._empty = null, _Empty(device)
        self._stream = devices.torch_stream_of(device)
        self._view: Any = getattr(torch._C._dynamo.guards, "_reinterpret_tensor", None)
        self._split = torch.unsafe_split_with_sizes
        kinds = [(tuple(shape), dtype, shares) for shape, dtype, shares in kinds]
        shared: dict[Any, dict[Any, list[int]]] = {}
        for kind, (shape, dtype, shares) in enumerate(kinds):
            size = math.prod(shape) * dtype.itemsize
            if shares and self._view is not None and size <= SHARED_BYTES:
                # Tensors with equal rows that need no padding are created by one split.
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
        #: (size, strides, dtype, index, slots if it is small) of tensors that do not share.
        self._alone = []
        for kind in alone:
            shape, dtype, _ = kinds[kind]
            small = self._view is not None and 0 < math.prod(shape) * dtype.itemsize <= _SLOT_BYTES
            slots = _Slots(dtype, device) if small else None
            self._alone.append((shape, _strides(shape), dtype, places[kind] if places else -1, slots))
        order += alone
        #: The numbers of the tensors, in the order in which `unsorted` returns them.
        self.order = order
        back = sorted(range(len(order)), key=order.__getitem__)
        self._sort = None if back == sorted(back) else operator.itemgetter(*back)

    def __call__(self, pointers: Any = None, stream: int | None = None) -> list[Any]:
        """Creates the tensors, in the order of `kinds`, and writes their addresses to `pointers`, at `places`.

        stream: the stream that uses them, if it is not the current one.
        """
        made = self.unsorted(pointers, self._stream() if stream is None else stream)
        return made if self._sort is None else list(self._sort(made))

    def unsorted(self, pointers: Any, stream: int) -> list[Any]:
        """Does what a call does, with the tensors in the order of `order`."""
        empty = self._empty.function()
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


class TorchParts:
    """Creates row-major tensors of PyTorch at fixed places of a block of memory, which is freed with the last of them.

    kinds: (shape, torch.dtype, first byte) of each. Like tensors of TorchMaker that share an allocation, they are not
    views, and have version counters of their own.
    """

    def __init__(self, kinds: Sequence[tuple[tuple[int, ...], Any, int]]) -> None:
        self._part = arrays.torch_part()
        #: The element types. A block of the first one is used without a view of it.
        self.dtypes = list(dict.fromkeys(dtype for _, dtype, _ in kinds))
        self._kinds = [
            (self.dtypes.index(dtype), tuple(shape), _strides(shape), first // dtype.itemsize)
            for shape, dtype, first in kinds
        ]

    def __call__(self, block: Any) -> list[Any]:
        """The tensors, in the order of `kinds`; block: a flat tensor of any type."""
        typed = [block if block.dtype is dtype else block.view(dtype) for dtype in self.dtypes]
        part = self._part
        return [part(typed[index], size, strides, first) for index, size, strides, first in self._kinds]


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(max(extent, 1) for extent in shape[axis + 1 :]) for axis in range(len(shape)))


#: Creates arrays for each (shape, element type, whether it may share memory).
Maker = Callable[[Sequence[tuple[tuple[int, ...], DType, bool]]], Sequence[Any]]


def maker_like(given: Sequence[Any], context: Any) -> Maker:
    """A function that creates results, as arrays of the library of the first known array of `given`.

    Known are PyTorch and NumPy. Otherwise, results are te_mlir.Tensor, which every library with DLPack can use.
    """
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    for array in given:
        if torch is not None and isinstance(array, torch.Tensor):
            device = array.device
            return lambda kinds: TorchMaker(
                [(shape, arrays.torch_dtype(d), shares) for shape, d, shares in kinds], device
            )()
        if numpy is not None and isinstance(array, numpy.ndarray):
            return lambda kinds: [_aligned(numpy, shape, dtype) for shape, dtype, _ in kinds]
    return lambda kinds: [context.empty(shape, dtype.name) for shape, dtype, _ in kinds]


def _aligned(numpy: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """A NumPy array whose memory is aligned to 64 bytes; NumPy itself guarantees only 16."""
    kind = arrays.numpy_dtype(dtype)
    count = 1
    for size in shape:
        count *= size
    raw = numpy.empty(count * kind.itemsize + 64, numpy.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * kind.itemsize].view(kind).reshape(shape)
