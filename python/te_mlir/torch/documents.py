"""Finds the documents that the attention mask of packed or padded rows divides a batch into.

A mask of a long sequence is large, so `rows_of` reads it a few times, and writes one copy of its bytes. All else works on
a few numbers for each query. Nothing here waits for the device except where it says so.

The host reads the number of documents in each call, because a program has room for some. What needs no number, as
padding, it reads only in the first call of a program on a GPU. In later calls, the device itself checks it: boundaries of
other documents than those of the program are negative, which is an error of te.attention.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad


def seen_by(mask: torch.Tensor) -> torch.Tensor:
    """The keys that each query sees: those where a mask is true, or where it adds 0."""
    return mask if mask.dtype is torch.bool else mask == 0


def hides(mask: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Whether a mask hides the keys that are not seen: bool []. It hides a score if it is bool or adds -1e4 or less."""
    if mask.dtype is torch.bool:
        return torch.ones((), dtype=torch.bool, device=mask.device)
    return ((mask <= -1e4) != seen).all()


class Rows(NamedTuple):
    """What the queries of a batch see. Sizes: [rows, sequence] where no other is given.

    first, last, keys: the first and the last key that a query sees, and their number. last is -1 if there is none.
    itself, previous: whether it sees its own key, and the one before its own ([rows, sequence - 1], from query 1).
    readers: for each key, the number of queries that see it. hides: as the function, bool [].
    own: whether each row of the batch has its own mask.
    """

    first: torch.Tensor
    last: torch.Tensor
    keys: torch.Tensor
    itself: torch.Tensor
    previous: torch.Tensor
    readers: torch.Tensor
    hides: torch.Tensor
    own: bool

    def without_unmasked(self, causal: bool) -> Rows:
        """Padding on the left of causal rows sees no key, although transformers may let it see every key."""
        if not causal:
            return self
        every = (self.keys == self.keys.shape[-1]).cumprod(-1).bool()
        # The first query is padding if it sees later keys, and the last one is a token if it does not see all keys.
        unmasked = every & (self.last[:, :1] > 0) & ~every[:, -1:]
        return self._replace(
            last=self.last.masked_fill(unmasked, -1),
            keys=self.keys.masked_fill(unmasked, 0),
            itself=self.itself & ~unmasked,
            previous=self.previous & ~unmasked[:, 1:],
            readers=self.readers - unmasked.sum(-1, keepdim=True),
        )


def _sum(keys: torch.Tensor, axis: int) -> torch.Tensor:
    """The sums of zeros and ones over an axis, most of them added as bytes: PyTorch makes each an int64 before it adds."""
    part = math.gcd(keys.shape[axis], 128)
    return keys.unflatten(axis, (-1, part)).sum(axis, dtype=torch.uint8).sum(axis)


def rows_of(mask: torch.Tensor, batches: Sequence[int], sequence: int) -> Rows | None:
    """What the queries of a batch see; None if the mask differs between heads.

    batches: the sizes of the axes before those of queries and keys, of which the rows are made; 1 for axes of heads.
    """
    shape = (*batches, sequence, sequence)
    sizes = (1,) * (len(shape) - mask.dim()) + tuple(mask.shape)
    if len(sizes) > len(shape) or any(a not in (1, b) for a, b in zip(sizes, shape)):
        return None
    seen = seen_by(mask)
    masked = sizes[: len(batches)]

    def every(numbers: torch.Tensor) -> torch.Tensor:
        """The numbers of all rows, which may share a mask."""
        size = numbers.shape[-1]
        return numbers.reshape(*masked, size).expand(*batches, size).reshape(math.prod(batches), size)

    keys = seen.expand(*masked, sequence, sequence).reshape(math.prod(masked), sequence, sequence).view(torch.uint8)
    count = _sum(keys, -1)
    return Rows(
        first=every(keys.argmax(-1)),
        last=every(torch.where(count > 0, sequence - 1 - keys.flip(-1).argmax(-1), -1)),
        keys=every(count),
        itself=every(keys.diagonal(dim1=1, dim2=2) != 0),
        previous=every(keys.diagonal(offset=-1, dim1=1, dim2=2) != 0),
        readers=every(_sum(keys, -2)),
        hides=hides(mask, seen),
        own=masked == tuple(batches),
    )


def left_of(rows: Rows) -> int:
    """The largest number of keys before its own that a query of a causal mask sees, among those that see their own.

    It waits for the device.
    """
    rows = rows.without_unmasked(causal=True)
    before = torch.arange(rows.first.shape[-1], device=rows.first.device) - rows.first
    return max(int(before.where(rows.itself, 0).max()), 0)


class Documents(NamedTuple):
    """The documents of a batch.

    starts: whether a document starts at a query, bool [rows, sequence]. seeing: whether a query sees a key; the result of
    another one is 0; bool [rows, sequence]. facts: whether the mask is one of documents, their number, and whether a
    query sees no key, int64 [3].
    """

    starts: torch.Tensor
    seeing: torch.Tensor
    facts: torch.Tensor

    @staticmethod
    def of(starts: torch.Tensor, seeing: torch.Tensor, fits: torch.Tensor) -> Documents:
        return Documents(starts, seeing, torch.stack([fits, starts.sum(), ~seeing.all()]))


def documents_in(rows: Rows, padded: bool, causal: bool, left: int | None) -> Documents:
    """The documents that have exactly this mask, if there are such documents.

    padded: whether rows may have padding. causal, left: whether documents are causal, and the number of keys before its
    own that a query sees (None: all).

    Padding is a query that does not see its own key, if no query sees this key. Consecutive padding is also a document,
    in which te.attention computes something else than PyTorch does. All other queries see exactly the keys of their
    document.
    """
    rows = rows.without_unmasked(causal)
    used, sequence = rows.itself, rows.itself.shape[-1]
    goes_on = torch.where(used[:, 1:], used[:, :-1] & rows.previous, ~used[:, :-1])
    starts = pad(~goes_on, (1, 0), value=True)
    own = torch.arange(sequence, device=used.device)
    first, last = own.where(starts, 0).cummax(-1).values, own
    if not causal:
        ends = pad(starts[:, 1:], (0, 1), value=True)
        last = own.where(ends, sequence).flip(-1).cummin(-1).values.flip(-1)
    if left is not None:
        first = first.maximum(own - left)
    exact = (rows.first == first) & (rows.last == last) & (rows.keys == last - first + 1)
    fits = torch.where(used, exact, rows.readers == 0).all() & rows.hides
    if not (rows.own and padded):
        fits &= used.all()
    return Documents.of(starts, rows.keys != 0, fits)


def is_on_host(tensor: torch.Tensor) -> bool:
    """Whether the host can read a tensor without a wait for a device."""
    return tensor.device.type == "cpu"


class Facts:
    """Numbers that the device finds out in each call, which the host reads without a wait after the first call.

    waits: whether it waits in each call, because it needs those of the call.
    """

    def __init__(self, waits: bool = False) -> None:
        self.waits = waits
        #: A copy in memory of the host, and the same as an array, which the host reads without PyTorch.
        self._copy: torch.Tensor | None = None
        self._array: Any = None

    def __call__(self, numbers: torch.Tensor) -> tuple[list[int], bool]:
        """The numbers of this call, or of the last call whose numbers have arrived; and which of both."""
        if self.waits or is_on_host(numbers):
            return numbers.tolist(), True
        late = self._copy is not None
        if self._copy is None:
            self._copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=numbers.is_cuda)
            self._copy.copy_(numbers)
            self._array = self._copy.numpy()
        # The device may be writing to this memory, in whole numbers.
        found: list[int] = self._array.tolist()
        if late:
            self._copy.copy_(numbers, non_blocking=True)
        return found, not late


class Latest:
    """A function of a mask that does not look at the same mask again when several arguments need its documents."""

    def __init__(self, look: Callable[[torch.Tensor], Documents]) -> None:
        self.look = look
        self._found: tuple[Callable[[], torch.Tensor | None], int, Documents] | None = None

    def __call__(self, mask: torch.Tensor) -> Documents:
        if self._found is None or self._found[0]() is not mask or self._found[1] != mask._version:
            self._found = weakref.ref(mask), mask._version, self.look(mask)
        return self._found[2]


def boundaries_of(starts: torch.Tensor, capacity: int) -> torch.Tensor:
    """The first row of each document, then the end of the last one until the result is int32 [capacity + 1].

    There are at most `capacity` documents.
    """
    starts = starts.flatten()
    token = torch.arange(len(starts), dtype=torch.int32, device=starts.device)
    # The place after the boundaries takes the tokens that are no start.
    place = torch.where(starts, starts.cumsum(0) - 1, capacity + 1)
    return token.new_full((capacity + 2,), len(starts)).scatter_(0, place, token)[:-1]


def capacity_for(number: int, rows: int) -> int:
    """The number of documents to compile for: a power of two, at least two for each row."""
    return 1 << (max(number, 2 * rows) - 1).bit_length()
