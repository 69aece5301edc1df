"""Converts integers of PyTorch to the int32 indices that te takes, in as few calls of PyTorch as possible.

Each call costs the host some us, and more if other code has filled the caches. Labels that a loss
shifts by one are padded, sliced, made contiguous and converted in one write.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.fx import Graph, Node

from te_mlir import arrays, devices, makers
from te_mlir.torch import graph as capture
from te_mlir.torch.tensors import dense

_LOWEST, _HIGHEST = -(2**31), 2**31 - 1
_part = arrays.torch_part()
#: Returns the number of users of a storage; None if this PyTorch does not count the users of a tensor.
_holders: Any = getattr(torch._C, "_storage_Use_Count", None) if hasattr(torch.Tensor, "_use_count") else None


def clamped(index: int) -> int:
    """The int32 that Indices converts an integer to."""
    return min(max(index, _LOWEST), _HIGHEST)


class Indices:
    """Converts integers to int32 in one dimension. Integers out of the range of int32 stay out of the range of every table.

    shift: the first `shift` elements of the last dimension are dropped, and as many `fill` are
    appended. If the memory of the last call has no other users, such as a backward, a call writes
    to it again. Recorded launches then find it at the same address, and the `fill` is there already.
    """

    def __init__(self, shift: int = 0, fill: int = 0) -> None:
        self.shift, self.fill = shift, clamped(fill)
        self._kind: Any = None
        #: The result of the last call, the view to write to, and its key: the stream, and whether in inference mode.
        self._made: Any = None
        self._to: Any = None
        self._key: Any = None
        #: Its storage, and the numbers of users of both while there was no other user.
        self._storage: Any = None
        self._counts: tuple[int, ...] = ()

    def _plan(self, given: torch.Tensor) -> None:
        """Stores everything that is the same for all tensors like `given`."""
        self._kind, self._made = (given.shape, given.stride(), given.device), None
        self._make = makers.TorchMaker([((given.numel(),), torch.int32, False)], given.device)
        self._stream, self._recording = devices.torch_stream_of(given.device), devices.torch_recording(given.device)
        made = torch.empty(given.shape, dtype=torch.int32, device="meta")
        kept = given.shape[-1] - self.shift if self.shift else 0
        parts = [(given, self.shift, kept), (made, 0, kept)]
        #: (sizes, strides, first element) of the part to read and of the part to write.
        self._parts = []
        for tensor, first, count in parts:
            part = tensor.narrow(-1, first, count) if self.shift else tensor
            start = part.storage_offset() - tensor.storage_offset()
            self._parts.append((tuple(part.shape), part.stride(), start))
        # The bounds are tensors, because with numbers as bounds, clamp can write only the type that it reads.
        self._bounds = tuple(torch.tensor(bound, device=given.device) for bound in (_LOWEST, _HIGHEST))

    def _holders(self, made: Any) -> tuple[int, ...]:
        """The numbers of users of the tensor and its storage, in Python and in C++."""
        storage = self._storage
        return sys.getrefcount(made), made._use_count(), sys.getrefcount(storage), _holders(storage._cdata)

    def __call__(self, given: torch.Tensor) -> torch.Tensor:
        if given.dtype is torch.int32 and not self.shift:
            return dense(given).view(-1)
        if self._kind != (given.shape, given.stride(), given.device):
            self._plan(given)
        key, recording = (self._stream(), torch.is_inference_mode_enabled()), self._recording()
        read, written = self._parts
        source, made, to = _part(given, *read) if self.shift else given, self._made, self._to
        if made is None or recording or key != self._key or self._holders(made) != self._counts:
            made = self._make()[0]
            to = _part(made, *written)
            if self.shift:
                made.fill_(self.fill)
            if not recording and _holders is not None:
                self._made, self._to, self._key = made, to, key
                self._storage = made.untyped_storage()
                self._counts = self._holders(made)
        if given.dtype is torch.int64:
            torch.clamp(source, *self._bounds, out=to)
        else:
            to.copy_(source)
        return made


def source_of(node: Node, graph: Graph) -> tuple[Node, Indices] | None:
    """If `node` is an argument or a shifted argument: the argument, and the Indices that compute the node from it."""
    if capture.writes(graph):
        return None
    found: Any = node
    while isinstance(found, Node) and str(found.target) in _SAME_ORDER and _is_same(found, found.args[0]):
        found = found.args[0]
    shift = capture.shift_of(found) if isinstance(found, Node) else None
    if shift is None:
        return None
    inner, count, fill = shift
    if inner.op != "placeholder" or inner.meta["val"].dtype not in (torch.int64, torch.int32) or fill != int(fill):
        return None
    return inner, Indices(count, int(fill))


#: Ops whose result has the elements of their operand in its order.
_SAME_ORDER = {
    f"aten.{name}"
    for name in ("view.default", "reshape.default", "contiguous.default", "to.dtype", "to.device", "to.dtype_layout")
}


def _is_same(node: Node, source: Any) -> bool:
    """Whether both have the same element type and device."""
    if not isinstance(source, Node):
        return False
    value, before = node.meta["val"], source.meta["val"]
    return bool(value.dtype == before.dtype and value.device == before.device)
