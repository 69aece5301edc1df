"""Finds the documents that the attention mask of packed or padded rows divides a batch into.

A mask of a long sequence is large, so `rows_of` reads it a few times, and writes one copy of its bytes. All else works on
a few numbers for each query. Nothing here waits for the device except where it says so.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

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

    starts: whether a document starts at a query, bool [rows, sequence]. blind: whether a query sees no key, so that its
    result is 0, bool [rows, sequence]. number: the number of documents. has_blind: whether there is such a query.
    """

    starts: torch.Tensor
    blind: torch.Tensor
    number: int
    has_blind: bool


def documents_in(rows: Rows, padded: bool, causal: bool, left: int | None) -> Documents | None:
    """The documents that have exactly this mask, or None. It waits for the device once.

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
    blind = rows.keys == 0
    is_fit, number, has_blind = torch.stack([fits, starts.sum(), blind.any()]).tolist()
    return Documents(starts, blind, number, bool(has_blind)) if is_fit else None


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


def capacity_for(documents: Documents) -> int:
    """The number of documents to compile for: a power of two, at least two for each row."""
    needed = max(documents.number, 2 * documents.starts.shape[0])
    return 1 << (needed - 1).bit_length()
