"""Finds the scores of softmax attention: the product of queries and keys below a scale, a soft cap and masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from te_mlir.frontend.base import Emission, Unsupported
from te_mlir.frontend.graph import Atom, Const, Node, Var
from te_mlir.frontend.looking import node_of, pairs, uncast


class Passed(NamedTuple):
    """A mask that is passed in each call.

    axes: its axes as axes of the softmax. hides: whether true means hidden; otherwise, true or 0 means visible. scale: what
    a mask of numbers, which is added, is multiplied by.
    """

    values: Atom
    axes: tuple[int, ...]
    hides: bool = False
    scale: float = 1.0


class Scores(NamedTuple):
    """The product of queries and keys that a softmax is computed from.

    order: for each axis of the softmax, the axis of the product. scale: None if the framework's own scale is used.
    softcap: None if there is none. masks: constants, with their axes as axes of the softmax, and whether true means
    visible. outside: masks that are passed in each call.
    """

    node: Node
    order: tuple[int, ...]
    scale: float
    softcap: float | None
    masks: list[tuple[Const, tuple[int, ...], bool]]
    outside: list[Passed]


def _capped(tanh: Atom, cap: float | None) -> Atom | None:
    """x if the value is `tanh(x / cap)`."""
    curve = node_of(uncast(tanh), "tanh")
    quotient = node_of(uncast(curve.inputs[0]), "div") if curve is not None else None
    if quotient is None or cap is None or not 0 < cap < math.inf or not isinstance(quotient.inputs[1], Const):
        return None
    return quotient.inputs[0] if quotient.inputs[1].scalar == cap else None


def mask_axes(scores: Scores, axes: Sequence[int]) -> list[int]:
    """The axis of the product for each axis of a mask; `axes` was recorded at the mask."""
    # axes[n] is the axis at the mask for axis n of the softmax. `order` also has the transposes between the mask
    # and the product: axis n of the softmax is axis order[n] of the product.
    product = [0] * len(axes)
    for softmax_axis, mask_axis in enumerate(axes):
        product[mask_axis] = scores.order[softmax_axis]
    return product


def causal_window(scores: Scores, query: int, key: int, user: Node) -> tuple[bool, int | None]:
    """Whether the masks together are causal, False without masks; and the number of earlier keys a query attends to."""
    seen: Any | None = None
    rank = len(scores.order)
    for mask, axes, keeps in scores.masks:
        compact = mask.compact if keeps else ~mask.compact.astype(bool)
        if compact.ndim != rank:
            raise Unsupported(user, "its mask and its scores have different numbers of dimensions")
        place = {product: n for n, product in enumerate(mask_axes(scores, axes))}
        for n in (n for product, n in place.items() if product not in (query, key)):
            first = np.take(compact, [0], n)
            compact = first if (compact == first).all() else compact
        if any(compact.shape[n] != 1 for product, n in place.items() if product not in (query, key)):
            raise Unsupported(user, "its mask differs between batches or heads")
        moved = np.moveaxis(compact.astype(bool), (place[query], place[key]), (-2, -1))
        moved = moved.reshape(moved.shape[-2:])
        seen = moved if seen is None else seen & moved
    if seen is None or seen.all():
        return False, None
    size = max(seen.shape)
    if seen.shape == (size, size) and seen.any():
        left = int(seen[-1].sum()) - 1
        if (seen == np.tri(size, dtype=bool) & ~np.tri(size, k=-left - 1, dtype=bool)).all():
            return True, left if left < size - 1 else None
    raise Unsupported(user, "its mask is not causal (with or without a window)")


class Scoring(Emission):
    """Finds scores."""

    def scores(self, x: Atom, user: Node) -> Scores:
        """The product that x is computed from by scaling, capping, masking, casting and transposing."""
        axes = list(range(len(x.shape)))
        scale, softcap = 1.0, None
        masks: list[tuple[Const, tuple[int, ...], bool]] = []
        outside: list[Passed] = []
        while True:
            x = uncast(x)
            node = x.node
            if node is None or node.apart:
                raise Unsupported(user, "its softmax is not of a product of queries and keys")
            if node.name == "dot_general":
                # The scale and its inverse must be normal numbers of f32.
                if not 2.0**-126 <= abs(scale) <= 2.0**126:
                    raise Unsupported(user, f"its scores are scaled by {scale:g}")
                return Scores(node, tuple(axes), scale, softcap, masks, outside)
            if node.name == "transpose":
                permutation = [int(a) for a in node.params["permutation"]]
                axes = [permutation[a] for a in axes]
                x = node.inputs[0]
            elif node.name in ("mul", "div") and any(isinstance(v, Const) and v.scalar for v in node.inputs):
                number, inner = next((v.scalar, w) for v, w in pairs(x, node.name) if isinstance(v, Const))
                if node.name == "div" and isinstance(node.inputs[0], Const):
                    raise Unsupported(user, "its scores are a divisor")
                capped = _capped(inner, number) if node.name == "mul" else None
                if capped is not None:
                    if scale != 1 or softcap is not None:
                        raise Unsupported(user, "its scores are scaled or capped after they are capped")
                    x, softcap = capped, number
                    continue
                scale *= float(number or 1.0) if node.name == "mul" else 1 / float(number or 1.0)
                x = inner
            elif softcap is not None and node.name in ("select_n", "add"):
                raise Unsupported(user, "its scores are masked before they are capped")
            else:
                x = self._unmasked(x, node, user, scale, axes, masks, outside)
            if node.name != "transpose" and x.shape != node.output.shape:
                raise Unsupported(user, f"its scores are broadcast to {list(node.output.shape)}")

    def _unmasked(
        self,
        x: Atom,
        node: Node,
        user: Node,
        scale: float,
        axes: Sequence[int],
        masks: list[tuple[Const, tuple[int, ...], bool]],
        outside: list[Passed],
    ) -> Atom:
        """The scores that a mask is applied to; the mask is added to the others."""
        chooser = node.inputs[0] if node.name == "select_n" and len(node.inputs) == 3 else None
        if chooser is not None and (isinstance(chooser, Const) or self.is_given(chooser)):
            taken = [n for n in (1, 2) if isinstance(node.inputs[n], Var)]
            if len(taken) != 1:
                raise Unsupported(user, "its mask chooses between two computed values")
            fill = node.inputs[3 - taken[0]].scalar
            if fill is None:
                raise Unsupported(user, "its mask sets hidden scores to several numbers")
            # A scale that is applied after the mask also scales the number that the mask puts in.
            if not (fill <= -1e4 and fill * scale <= -1e4):
                raise Unsupported(
                    user, f"expected its mask to set hidden scores to at most -1e4, but got {fill * min(scale, 1):g}"
                )
            if isinstance(chooser, Const):
                masks.append((chooser, tuple(axes), taken[0] == 2))
            else:
                outside.append(Passed(chooser, tuple(axes), hides=taken[0] == 1))
            return node.inputs[taken[0]]
        if node.name == "add" and any(isinstance(v, Const) for v in node.inputs):
            bias, inner = next((v, w) for v, w in pairs(x, "add") if isinstance(v, Const))
            hidden = np.asarray(bias.compact, np.float32)
            if not ((hidden == 0) | (hidden < -1e4) & (hidden * scale < -1e4)).all():
                raise Unsupported(user, "its bias is not a mask")
            masks.append((Const(hidden == 0, bias.shape), tuple(axes), True))
            return inner
        if node.name == "add":
            # A mask that is not floating, such as one of truth values, is added as numbers.
            is_mask = lambda v: isinstance(v, Var) and v.floating and self.is_given(v)
            given = [(v, w) for v, w in pairs(x, "add") if is_mask(v) and w.shape == x.shape]
            given.sort(key=lambda pair: self.is_given(pair[1]))
            if given and scale > 0:
                outside.append(Passed(given[0][0], tuple(axes), scale=scale))
                return given[0][1]
        if node.name == "select_n":
            raise Unsupported(user, "its mask depends on arguments; te supports a constant causal mask or no mask")
        raise Unsupported(user, f"its scores are changed by '{node.name}'")
