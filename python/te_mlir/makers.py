"""New arrays for what a step makes, in the caller's kind of array.

No framework is imported here: a tensor or device that is PyTorch's shows that it is loaded.
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
        self._recording = devices.torch_recording(device)
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
        self._stream = devices.torch_stream_of(device)
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


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(max(extent, 1) for extent in shape[axis + 1 :]) for axis in range(len(shape)))


#: Makes new arrays of these (shape, elements, whether it may share memory).
Maker = Callable[[Sequence[tuple[tuple[int, ...], DType, bool]]], Sequence[Any]]


def maker_like(given: Sequence[Any], context: Any) -> Maker:
    """What makes results: arrays of the library of the first of `given` that is known.

    PyTorch's and NumPy's where such an array is given; else te_mlir.Tensor, which
    every DLPack library takes.
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
    """A NumPy array whose memory is aligned to 64 bytes; NumPy itself promises 16."""
    kind = arrays.numpy_dtype(dtype)
    count = 1
    for size in shape:
        count *= size
    raw = numpy.empty(count * kind.itemsize + 64, numpy.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * kind.itemsize].view(kind).reshape(shape)
