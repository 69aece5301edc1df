"""Masks of attention and tables of rotations that a call may have otherwise than its graph was compiled for."""

from __future__ import annotations

from typing import NamedTuple

import torch

from te_mlir.frontend.base import Unsupported
from te_mlir.frontend.graph import Node


class Kind(NamedTuple):
    """What a mask may be that is compared in each call. window_left: of a causal one, how many keys before its own a query sees."""

    name: str
    window_left: int | None = None

    @property
    def text(self) -> str:
        """For messages."""
        return self.name if self.window_left is None else f"{self.name} with {self.window_left} keys before its own"


#: It hides what is ahead, nothing, or others.
CAUSAL, OPEN, OTHER = Kind("causal"), Kind("open"), Kind("other")
#: Keys of feeds that may be other in a call than their graph was compiled for.
COMPARED = ("mask", "halves", "pairs")


class OtherMask(Unsupported):
    """A call's mask is another than its graph was compiled for: the one of the node that `mask` names is a `kind`."""

    def __init__(self, place: Node, mask: str, kind: Kind) -> None:
        super().__init__(place, "its mask is not the causal one" if kind == OTHER else f"its mask is {kind.text}")
        self.mask, self.kind = mask, kind


class OtherTable(OtherMask):
    """A call's table of a rotation is no table of halves, or pairs, that are equal, as its graph was compiled for."""

    def __init__(self, place: Node, table: str, of: str) -> None:
        Unsupported.__init__(self, place, f"the {of} of a table of a rotation differ")
        self.mask, self.kind = table, OTHER


def _seen(mask: torch.Tensor) -> torch.Tensor:
    return mask if mask.dtype is torch.bool else mask == 0


def is_kind(mask: torch.Tensor, sequence: int, kind: Kind) -> bool:
    """Whether a mask hides of keys from queries of one sequence what one of this kind, not OTHER, does."""
    seen = _seen(mask)
    if kind == OPEN:
        return bool(seen.all())
    if mask.shape[-2:] != (sequence, sequence):
        return False
    wanted = torch.ones(mask.shape, dtype=torch.bool, device=mask.device).tril()
    if kind.window_left is not None:
        wanted = wanted.triu(-kind.window_left)
    # Scores are no larger than the number that hides one.
    return torch.equal(seen, wanted) and (mask.dtype is torch.bool or torch.equal(mask <= -1e4, ~wanted))


def kind_of(mask: torch.Tensor, sequence: int) -> Kind:
    """What of `Kind` a mask is."""
    for kind in (CAUSAL, OPEN):
        if is_kind(mask, sequence, kind):
            return kind
    if mask.shape[-2:] == (sequence, sequence):
        last = int(_seen(mask).reshape(-1, sequence)[-1].sum())
        window = Kind("causal", max(last - 1, 0))
        if is_kind(mask, sequence, window):
            return window
    return OTHER
