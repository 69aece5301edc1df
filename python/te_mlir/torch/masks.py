"""Checks in each call whether attention masks and rotary tables are of the kind that a graph was compiled for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from te_mlir.frontend.base import Unsupported
from te_mlir.frontend.graph import Node
from te_mlir.torch.documents import capacity_for, documents_in, hides, left_of, rows_of, seen_by


class Kind(NamedTuple):
    """A kind of mask, which is checked in each call.

    window_left: for a causal mask, the number of keys before its own that a query attends to. documents: if it is not
    0, it is a mask of documents, of which a batch has at most so many. blind: whether queries may see no key; then
    their results are set to 0.
    """

    name: str
    window_left: int | None = None
    documents: int = 0
    blind: bool = False

    @property
    def text(self) -> str:
        """The text for messages."""
        text = self.name if self.window_left is None else f"{self.name} with {self.window_left} keys before its own"
        return f"{text} in up to {self.documents} documents" if self.documents else text


#: Masks that hide later keys, no keys, or other keys.
CAUSAL, OPEN, OTHER = Kind("causal"), Kind("open"), Kind("other")
#: The keys of feeds whose values must be of the kind that the graph was compiled for.
COMPARED = ("mask", "documents", "halves", "pairs")


class OtherMask(Unsupported):
    """In this call, the mask of the node `mask` is not of the kind that the graph was compiled for.

    kind: the kind to compile the graph for.
    """

    def __init__(self, place: Node, mask: str, kind: Kind) -> None:
        super().__init__(place, "its mask is not the causal one" if kind == OTHER else f"its mask is {kind.text}")
        self.mask, self.kind = mask, kind


class OtherTable(OtherMask):
    """In this call, a rotary table does not have equal halves (or pairs), which the graph was compiled for."""

    def __init__(self, place: Node, table: str, of: str) -> None:
        Unsupported.__init__(self, place, f"the {of} of a rotary table are not equal")
        self.mask, self.kind = table, OTHER


def is_kind(mask: torch.Tensor, sequence: int, kind: Kind) -> bool:
    """Whether a mask hides the keys of a sequence that a mask of this kind, which is causal or open, hides."""
    seen = seen_by(mask)
    if kind == OPEN:
        return bool(seen.all())
    if mask.shape[-2:] != (sequence, sequence):
        return False
    wanted = torch.ones(sequence, sequence, dtype=torch.bool, device=mask.device).tril()
    if kind.window_left is not None:
        wanted = wanted.triu(-kind.window_left)
    return bool((seen == wanted).all() & hides(mask, seen))


def _kind_of_rows(mask: torch.Tensor, sequence: int) -> Kind:
    """The kind of a mask in which each row of the batch is one document; otherwise OTHER."""
    for kind in (CAUSAL, OPEN):
        if is_kind(mask, sequence, kind):
            return kind
    if mask.shape[-2:] == (sequence, sequence):
        last = int(seen_by(mask).reshape(-1, sequence)[-1].sum())
        window = Kind("causal", max(last - 1, 0))
        if is_kind(mask, sequence, window):
            return window
    return OTHER


def _kind_of_documents(mask: torch.Tensor, batches: Sequence[int], sequence: int, before: Kind, padded: bool) -> Kind:
    """The kind of a mask of documents, one that also has the masks of `before` if possible; otherwise OTHER."""
    rows = rows_of(mask, batches, sequence)
    if rows is None:
        return OTHER
    for name, left in dict.fromkeys([before[:2], CAUSAL[:2], ("causal", left_of(rows)), OPEN[:2]]):
        found = documents_in(rows, padded, name == CAUSAL.name, left)
        fits, number, has_blind = found.facts.tolist()
        if fits:
            capacity = capacity_for(number, len(found.starts))
            return Kind(name, left, max(capacity, before.documents), bool(has_blind) or before.blind)
    return OTHER


def kind_for(
    mask: torch.Tensor, batches: Sequence[int] | None, sequence: int, before: Kind | None, padded: bool = True
) -> Kind:
    """The kind to compile a graph for, when a mask is not of the kind before, or of the first one (None).

    batches: as for `rows_of`; None if documents are not supported. padded: whether a query may be padding because its
    key is: not if it is of another token, as in attention of a decoder to an encoder. Each mask of rows is also one of
    documents, so calls may change to documents, then to more of them, to a window, and to queries that see no key.
    After any other change, the mask may be any mask.
    """
    kind = _kind_of_rows(mask, sequence) if before is None else OTHER
    if kind == OTHER and batches is not None:
        kind = _kind_of_documents(mask, batches, sequence, before or CAUSAL, padded)
    wider = before is None or (kind.name == before.name and before.window_left in (None, kind.window_left))
    return kind if wider else OTHER
