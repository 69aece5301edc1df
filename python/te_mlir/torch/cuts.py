"""Parameters of which layers read parts: a step takes such a parameter as it is stored, and cuts it itself.

The step slices the parameter before the compiled function and joins the gradients of the parts behind it, so PyTorch neither
copies columns nor adds up gradients. Sums in `main_grad` and kept casts belong to a part, so their steps take each part.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch.fx import Node

from te_mlir import build
from te_mlir.torch.arguments import Feed, fake
from te_mlir.torch.states import Part


class Cut(NamedTuple):
    """An argument of a function: the argument of its step at this place, or a part of it."""

    place: int
    part: Part | None = None

    def of(self, step: build.Function, given: build.Value) -> build.Value:
        """The argument, from that of the step."""
        if self.part is None:
            return given
        offsets, sizes = [0] * len(given.shape), list(given.shape)
        offsets[self.part.axis], sizes[self.part.axis] = self.part.first, self.part.end - self.part.first
        return step.extract_slice(given, offsets, sizes)


def join(step: build.Function, given: build.Value, gradients: Sequence[tuple[Part | None, build.Value]]) -> build.Value:
    """The gradient of an argument of the step from those of its parts; elements that are in no part have zeros."""
    part, gradient = gradients[0]
    if part is None:
        return gradient
    axis, pieces, end = part.axis, [], 0

    def skip(to: int) -> None:
        if to > end:
            shape = [to - end if a == axis else size for a, size in enumerate(given.shape)]
            pieces.append(step.constant(0.0, shape, gradient.dtype))

    for own, value in sorted((p, v) for p, v in gradients if p is not None):
        skip(own.first)
        pieces.append(value)
        end = own.end
    skip(given.shape[axis])
    return step.concat(pieces, axis) if len(pieces) > 1 else pieces[0]


def whole(feeds: Sequence[Feed], names: Mapping[Node, str]) -> tuple[list[Feed], list[Cut]]:
    """The arguments of a step, with whole parameters in place of their parts, and where its function finds its own."""
    found: list[Feed] = []
    cuts: list[Cut] = []
    places: dict[Node, int] = {}
    for feed in feeds:
        if feed.part is None or not _may_join([f for f in feeds if f.node is feed.node and f.weight]):
            cuts.append(Cut(len(found)))
            found.append(feed)
            continue
        if feed.node not in places:
            places[feed.node] = len(found)
            name, taken = names.get(feed.node, feed.node.name), {f.name for f in feeds}
            while name in taken:
                name += "_"
            found.append(feed._replace(key="", make=None, name=name, shape=tuple(fake(feed.node).shape), part=None))
        cuts.append(Cut(places[feed.node], feed.part))
    return found, cuts


def _may_join(feeds: Sequence[Feed]) -> bool:
    """Whether parts of a parameter have no element in common, and the step can use its memory."""
    parts, tensor = [feed.part for feed in feeds], fake(feeds[0].node)
    if any(part is None for part in parts) or tensor.dim() > 2 or not tensor.is_contiguous():
        return False
    return not any(a.meets(b) for a, b in itertools.combinations(parts, 2) if a is not None and b is not None)
