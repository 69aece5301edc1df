"""Checks in each call whether attention masks and rotary tables are of the kind that a graph was compiled for."""

from __future__ import annotations

from typing import NamedTuple

import torch

from te_mlir.frontend.base import Unsupported
from te_mlir.frontend.graph import Node


class Kind(NamedTuple):
    """A kind of mask, which is checked in each call.

    window_left: for a causal mask, the number of keys before its own that a query attends to.
    """

    name: str
    window_left: int | None = None

    @property
    def text(self) -> str:
        """The text for messages."""
        return self.name if self.window_left is None else f"{self.name} with {self.window_left} keys before its own"


#: Masks that hide later keys, no keys, or other keys.
CAUSAL, OPEN, OTHER = Kind("causal"), Kind("open"), Kind("other")
#: The keys of feeds whose values must be of the kind that the graph was compiled for.
COMPARED = ("mask", "halves", "pairs")


class OtherMask(Unsupported):
    """In this call, the mask of the node `mask` is a `kind`, which is not the kind that the graph was compiled for."""

    def __init__(self, place: Node, mask: str, kind: Kind) -> None:
        super().__init__(place, "its mask is not the causal one" if kind == OTHER else f"its mask is {kind.text}")
        self.mask, self.kind = mask, kind


class OtherTable(OtherMask):
    """In this call, a rotary table does not have equal halves (or pairs), which the graph was compiled for."""

    def __init__(self, place: Node, table: str, of: str) -> None:
        Unsupported.__init__(self, place, f"the {of} of a rotary table are not equal")
        self.mask, self.kind = table, OTHER


def _seen(mask: torch.Tensor) -> torch.Tensor:
    return mask if mask.dtype is torch.bool else mask == 0


def is_kind(mask: torch.Tensor, sequence: int, kind: Kind) -> bool:
    """Whether a mask hides the keys of a sequence that a mask of this kind, which is not OTHER, hides."""
    seen = _seen(mask)
    if kind == OPEN:
        return bool(seen.all())
    if mask.shape[-2:] != (sequence, sequence):
        return False
    wanted = torch.ones(mask.shape, dtype=torch.bool, device=mask.device).tril()
    if kind.window_left is not None:
        wanted = wanted.triu(-kind.window_left)
    # An additive mask hides a score if it adds -1e4 or less.
    return torch.equal(seen, wanted) and (mask.dtype is torch.bool or torch.equal(mask <= -1e4, ~wanted))


def kind_of(mask: torch.Tensor, sequence: int) -> Kind:
    """The kind of a mask."""
    for kind in (CAUSAL, OPEN):
        if is_kind(mask, sequence, kind):
            return kind
    if mask.shape[-2:] == (sequence, sequence):
        last = int(_seen(mask).reshape(-1, sequence)[-1].sum())
        window = Kind("causal", max(last - 1, 0))
        if is_kind(mask, sequence, window):
            return window
    return OTHER
