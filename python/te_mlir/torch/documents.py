"""Finds the documents that the attention mask of packed or padded rows divides a batch into."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import pad


def seen_by(mask: torch.Tensor) -> torch.Tensor:
    """The keys that each query sees: those where a mask is true, or where it adds 0."""
    return mask if mask.dtype is torch.bool else mask == 0


def hides(mask: torch.Tensor, seen: torch.Tensor) -> bool:
    """Whether a mask hides the keys that are not seen. An additive mask hides a score if it adds -1e4 or less."""
    return mask.dtype is torch.bool or torch.equal(mask <= -1e4, ~seen)


def of_rows(mask: torch.Tensor, batches: Sequence[int], sequence: int) -> tuple[torch.Tensor, bool] | None:
    """The keys that queries see, bool [rows, sequence, sequence], and whether each row of the batch has its own mask.

    batches: the sizes of the axes before those of queries and keys, of which the rows are made; 1 for axes of heads.
    None if the mask differs between heads, or adds other numbers than 0 and those that hide.
    """
    shape = (*batches, sequence, sequence)
    sizes = (1,) * (len(shape) - mask.dim()) + tuple(mask.shape)
    seen = seen_by(mask)
    if len(sizes) > len(shape) or any(a not in (1, b) for a, b in zip(sizes, shape)) or not hides(mask, seen):
        return None
    own = sizes[: len(batches)] == tuple(batches)
    return seen.expand(shape).reshape(-1, sequence, sequence), own


def _without_unmasked(seen: torch.Tensor, causal: bool) -> torch.Tensor:
    """A mask in which padding on the left of causal rows sees no key, although transformers may let it see every key."""
    if not causal:
        return seen
    every = seen.all(-1).cumprod(-1).bool()
    # The first query is padding if it sees later keys, and the last one is a token if it does not see all keys.
    padded = seen[:, :1, 1:].any(-1) & ~every[:, -1:]
    return seen & ~(every & padded)[..., None]


def left_of(seen: torch.Tensor) -> int:
    """The largest number of keys before its own that a query of a causal mask sees, among those that see their own."""
    seen = _without_unmasked(seen, causal=True)
    before = torch.arange(seen.shape[-1], device=seen.device) - seen.byte().argmax(-1)
    return max(int(before.where(seen.diagonal(dim1=1, dim2=2), 0).max()), 0)


def blind_of(seen: torch.Tensor, causal: bool) -> torch.Tensor:
    """The queries that see no key, and have results of 0: bool [rows, sequence]."""
    return ~_without_unmasked(seen, causal).any(-1)


def starts_of(seen: torch.Tensor, own: bool, causal: bool, left: int | None) -> torch.Tensor | None:
    """Where documents start, bool [rows, sequence], if documents have exactly this mask; otherwise None.

    seen: bool [rows, sequence, sequence]. own: whether rows may have padding. causal, left: whether documents are
    causal, and the number of keys before its own that a query sees (None: all).

    Padding is a query that does not see its own key, if no query sees this key. Consecutive padding is also a document,
    in which te.attention computes something else than PyTorch does. All other queries see exactly the keys of their
    document.
    """
    seen = _without_unmasked(seen, causal)
    used = seen.diagonal(dim1=1, dim2=2)
    if not own and not used.all():
        return None
    sees_last = seen.diagonal(offset=-1, dim1=1, dim2=2)
    goes_on = torch.where(used[:, 1:], used[:, :-1] & sees_last, ~used[:, :-1])
    starts = pad(~goes_on, (1, 0), value=True)
    document = starts.cumsum(-1)
    meant = document[:, :, None] == document[:, None, :]
    if causal:
        meant = meant.tril()
    if left is not None:
        meant = meant.triu(-left)
    wrong = torch.where(used[:, :, None], seen != meant, seen & ~used[:, None, :])
    return None if wrong.any() else starts


def boundaries_of(starts: torch.Tensor, capacity: int) -> torch.Tensor:
    """The first row of each document, then the end of the last one until the result is int32 [capacity + 1]."""
    first = starts.flatten().nonzero().flatten()
    return pad(first, (0, capacity + 1 - len(first)), value=starts.numel()).to(torch.int32)


def capacity_for(starts: torch.Tensor) -> int:
    """The number of documents to compile for: a power of two, at least two for each row."""
    needed = max(int(starts.sum()), 2 * starts.shape[0])
    return 1 << (needed - 1).bit_length()
