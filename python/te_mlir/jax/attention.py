"""Softmax attention, from the product of probabilities and values down to q, k and v.

Programs write it with their axes in any order. Each axis gets a label where it begins, in
the product of queries and keys, and labels are followed through scaling, mask, softmax and
transposes. Which axis is the sequence and which the heads is then seen by how q lies in
memory: [batch, sequence, heads, width].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from te_mlir.jax import patterns
from te_mlir.jax.graph import Atom, Const, Node, Var
from te_mlir.layout import Layout, row_major, same

if TYPE_CHECKING:
    from te_mlir import build
    from te_mlir.jax.importer import Importer, Value


class _Scores(NamedTuple):
    """The product below a softmax. order: the axis of the product that each axis of the softmax is.

    softcap: None where there is none.
    """

    node: Node
    order: Tuple[int, ...]
    scale: float
    softcap: Optional[float]
    masks: "List[Tuple[Const, Tuple[int, ...], bool]]"


def _scores(x: Atom, user: Node) -> _Scores:
    """The product that x is scaled, capped, masked, cast and transposed from."""
    from te_mlir.jax.importer import Unsupported

    order: Optional[List[int]] = None
    axes = list(range(len(x.shape)))
    scale, softcap = 1.0, None
    masks: List[Tuple[Const, Tuple[int, ...], bool]] = []
    while True:
        x = patterns.uncast(x)
        node = x.node
        if node is None:
            raise Unsupported(user, "its softmax is not of a product of queries and keys")
        if node.name == "dot_general":
            order = axes
            # As f32 has it, and its inverse.
            if not 2.0**-126 <= abs(scale) <= 2.0**126:
                raise Unsupported(user, f"its scores are scaled by {scale:g}")
            return _Scores(node, tuple(order), scale, softcap, masks)
        if node.name == "transpose":
            permutation = [int(a) for a in node.params["permutation"]]
            axes = [permutation[a] for a in axes]
            x = node.inputs[0]
        elif node.name in ("mul", "div") and any(isinstance(v, Const) and v.scalar for v in node.inputs):
            number, inner = next((v.scalar, w) for v, w in patterns.pairs(x, node.name) if isinstance(v, Const))
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
        elif node.name == "select_n" and isinstance(node.inputs[0], Const) and len(node.inputs) == 3:
            taken = [n for n in (1, 2) if isinstance(node.inputs[n], Var)]
            if len(taken) != 1:
                raise Unsupported(user, "its mask chooses between two computed values")
            fill = node.inputs[3 - taken[0]].scalar  # type: ignore[union-attr]
            if fill is None:
                raise Unsupported(user, "its mask puts several numbers where nothing is seen")
            # What scales above the mask scales what it puts in, and the scores beside that.
            if not (fill <= -1e4 and fill * scale <= -1e4):
                raise Unsupported(user, f"its mask puts {fill * min(scale, 1):g} where nothing is seen")
            masks.append((node.inputs[0], tuple(axes), taken[0] == 2))
            x = node.inputs[taken[0]]
        elif node.name == "add" and any(isinstance(v, Const) for v in node.inputs):
            bias, inner = next((v, w) for v, w in patterns.pairs(x, "add") if isinstance(v, Const))
            hidden = np.asarray(bias.compact, np.float32)
            if not ((hidden == 0) | (hidden < -1e4) & (hidden * scale < -1e4)).all():
                raise Unsupported(user, "its bias is no mask")
            masks.append((Const(hidden == 0, bias.shape), tuple(axes), True))
            x = inner
        elif node.name == "select_n":
            raise Unsupported(user, "its mask depends on arguments; te has the causal one, and none")
        else:
            raise Unsupported(user, f"its scores are changed by '{node.name}'")
        if node.name != "transpose" and x.shape != node.output.shape:
            raise Unsupported(user, f"its scores are broadcast to {list(node.output.shape)}")


def _capped(tanh: Atom, cap: Optional[float]) -> Optional[Atom]:
    """x of `tanh(x / cap)`."""
    curve = patterns.node_of(patterns.uncast(tanh), "tanh")
    quotient = patterns.node_of(patterns.uncast(curve.inputs[0]), "div") if curve is not None else None
    if quotient is None or cap is None or not 0 < cap < math.inf or not isinstance(quotient.inputs[1], Const):
        return None
    return quotient.inputs[0] if quotient.inputs[1].scalar == cap else None


def _causal_window(scores: _Scores, query: int, key: int, user: Node) -> Tuple[bool, Optional[int]]:
    """Whether the masks together are causal, False where there are none; and how many keys before its own a query sees, or None."""
    from te_mlir.jax.importer import Unsupported

    seen: Optional[Any] = None
    rank = len(scores.order)
    for mask, axes, keeps in scores.masks:
        compact = mask.compact if keeps else ~mask.compact.astype(bool)
        if compact.ndim != rank:
            raise Unsupported(user, "its mask has other dimensions than its scores")
        place = {product: n for n, product in enumerate(_mask_axes(scores, axes))}
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
    raise Unsupported(user, "its mask is not causal, with a window or without")


def _mask_axes(scores: _Scores, axes: Sequence[int]) -> List[int]:
    """The product's axis that each axis of a mask is; `axes` was recorded where the mask is."""
    # Recorded on the way down: axes[n] is, of softmax axis n, the axis at the mask. What is
    # still transposed below the mask is in `order`: softmax axis n is the product's order[n].
    product = [0] * len(axes)
    for softmax_axis, mask_axis in enumerate(axes):
        product[mask_axis] = scores.order[softmax_axis]
    return product


def emit(importer: "Importer", var: Var, node: Node) -> "Value":
    """Attention that ends in the product `node`; raises Unsupported where it is none."""
    from te_mlir.jax.importer import Unsupported, Value

    found = None
    for which in (0, 1):
        softmax, moved, sinks = _softmax_below(node.inputs[which])
        if softmax is not None:
            found = (which, softmax, moved, sinks)
            break
    if found is None:
        raise Unsupported(node, "a product of batches has no counterpart in te but in attention")
    which, softmax, moved, sinks = found
    v = node.inputs[1 - which]
    scores = _scores(softmax.x, node)
    product = scores.node
    (contracted, batch) = product.params["dimension_numbers"]
    (last_contracted, last_batch) = node.params["dimension_numbers"]

    # Labels of the axes of the probabilities: axes of the product.
    labels = [scores.order[a] for a in moved]
    p_contracted = [labels[int(a)] for a in last_contracted[which]]
    if len(p_contracted) != 1 or scores.order[softmax.axis] != p_contracted[0]:
        raise Unsupported(node, "its softmax is not along the axis that is summed over")
    key = p_contracted[0]

    # The product's axes: batches, then those of its first operand, then of its second.
    count = len(batch[0])
    origin: List[Tuple[Optional[int], Optional[int]]] = [(int(a), int(b)) for a, b in zip(batch[0], batch[1])]
    for side in (0, 1):
        free = [
            a
            for a in range(len(product.inputs[side].shape))
            if a not in [int(x) for x in contracted[side]] and a not in [int(x) for x in batch[side]]
        ]
        origin += [(a, None) if side == 0 else (None, a) for a in free]
    k_side = 0 if origin[key][0] is not None else 1
    if key < count or len(contracted[0]) != 1:
        raise Unsupported(node, "its product is not one of queries and keys")
    q, k = product.inputs[1 - k_side], product.inputs[k_side]
    q_of, k_of = (_axes_on(origin, side) for side in (1 - k_side, k_side))
    q_width, k_width = int(contracted[1 - k_side][0]), int(contracted[k_side][0])
    if [n for n in k_of if n >= count] != [key]:
        raise Unsupported(node, "its keys have several axes of their own")
    width = q.shape[q_width]

    # How q lies says which of its axes are batches, the sequence, and heads.
    a = importer.value(q, node)
    sized = [n for n in q_of if q.shape[q_of[n]] != 1]
    outer = sorted(sized, key=lambda n: -a.layout.dims[q_of[n]][0][1])
    own = [n for n in outer if n >= count]
    query = own[0] if own else next((n for n in q_of if n >= count), -1)
    if query < 0:
        raise Unsupported(node, "its queries have no sequence")
    before = outer[: outer.index(query)] if query in outer else []
    after = [n for n in outer if n != query and n not in before]
    if any(n >= count for n in before):
        raise Unsupported(node, "its queries do not lie as [batch, sequence, heads, width]")
    sequence = q.shape[q_of[query]]
    batches = math.prod(q.shape[q_of[n]] for n in before)
    heads = math.prod(q.shape[q_of[n]] for n in after)
    ones = [n for n in q_of if n not in before and n not in after and n != query]
    wanted = [q_of[n] for n in before + [query] + after + ones] + [q_width]
    if not a.layout.permute(wanted).is_row_major(a.elements):
        raise Unsupported(node, "its queries do not lie as [batch, sequence, heads, width]")
    if k.shape[k_of[key]] != sequence:
        raise Unsupported(node, f"its queries and keys have sequences of {sequence} and {k.shape[k_of[key]]}")
    matrices = [importer.function.reshape(a.matrix, (batches * sequence, heads * width))]

    # Of v: its axes by the labels of the last product.
    v_axes = [int(x) for x in last_batch[1 - which]]
    v_of = {labels[int(p)]: x for p, x in zip(last_batch[which], v_axes)}
    v_of[key] = int(last_contracted[1 - which][0])
    v_free = [x for x in range(len(v.shape)) if x not in v_of.values()]
    if len(v_free) != 1 or v.shape[v_free[0]] != width:
        raise Unsupported(node, f"its values are not of the width {width} of its queries")

    kv_heads = 0
    for operand, of, last in ((k, k_of, k_width), (v, v_of, v_free[0])):
        b = importer.value(operand, node)
        shared = [n for n in after if n in of]
        merged = math.prod(operand.shape[of[n]] for n in shared)
        kv_heads = b.elements // (batches * sequence * width)
        order = [of[n] for n in before] + [of[key]] + [of[n] for n in shared]
        order += [x for x in range(len(operand.shape)) if x not in order and x != last] + [last]
        repeat = merged // max(kv_heads, 1)
        shape = [operand.shape[x] for x in order]
        lies = row_major(shape) if repeat == 1 else _repeated(shape, kv_heads, repeat, len(before) + 1)
        if not kv_heads or lies is None or not same(b.layout.permute(order), lies):
            raise Unsupported(node, "its keys or values do not lie as [batch, sequence, heads, width]")
        matrices.append(importer.function.reshape(b.matrix, (batches * sequence, kv_heads * width)))
    if matrices[1].shape != matrices[2].shape or heads % kv_heads:
        raise Unsupported(node, "its keys and values have other numbers of heads")
    if after and [n for n in after if n < count] != after[: len([n for n in after if n < count])]:
        raise Unsupported(node, "its heads are grouped the other way around")
    causal, window_left = _causal_window(scores, query, key, node)
    if len({m.dtype for m in matrices}) != 1:
        raise Unsupported(node, "its queries, keys and values have elements of different types")
    made = importer.function.attention(
        matrices[0],
        matrices[1],
        matrices[2],
        heads,
        kv_heads,
        sequence,
        causal,
        scores.scale,
        window_left=window_left,
        softcap=scores.softcap,
        sinks=None if sinks is None else _sinks(importer, node, sinks, [scores.order.index(n) for n in after]),
    )

    # The result's axes: batches, then what is left of each operand in turn.
    left = [labels[int(p)] for p in last_batch[which]]
    free = [labels[n] for n in range(len(labels)) if labels[n] not in left and labels[n] != key]
    out: List[int] = left + (free + [-1] if which == 0 else [-1] + free)
    held = before + [query] + after + ones
    layout = row_major([q.shape[q_of[n]] for n in held] + [width])
    layout = layout.permute([len(held) if n == -1 else held.index(n) for n in out])
    return Value(importer.function.cast(made, np.dtype(var.dtype).name), layout)


def _axes_on(origin: Sequence[Tuple[Optional[int], Optional[int]]], side: int) -> "Dict[int, int]":
    """The operand's axis that each axis of a product comes from, of those that come from it."""
    found = {}
    for n, axes in enumerate(origin):
        axis = axes[side]
        if axis is not None:
            found[n] = axis
    return found


def _repeated(shape: Sequence[int], kv_heads: int, repeat: int, axis: int) -> Optional[Layout]:
    """[..., heads, width] where each of kv_heads is repeated; the heads are one axis."""
    if len(shape) != axis + 2 or shape[axis] != kv_heads * repeat:
        return None
    once = row_major([*shape[:axis], kv_heads, 1, shape[-1]])
    spread = once.expand([*shape[:axis], kv_heads, repeat, shape[-1]])
    return spread.reshape(shape) if spread is not None else None


def _sinks(importer: "Importer", user: Node, sinks: Atom, heads: List[int]) -> "build.Value":
    """The vector of a number for each head; `heads` are its axes of those of the softmax."""
    from te_mlir.jax.importer import Unsupported

    sinks = patterns.uncast(sinks)
    count = math.prod(sinks.shape[a] for a in heads)
    if isinstance(sinks, Const) and sinks.scalar is not None:
        return importer.function.constant(float(sinks.scalar), (count,), "float32")
    # JAX gives what it makes of arguments alone; what is spread is looked at before that.
    spread = patterns.node_of(sinks, "broadcast_in_dim")
    value = importer.value(patterns.uncast(spread.inputs[0]) if spread is not None else sinks, user)
    layout: Optional[Layout] = value.layout
    if spread is not None:
        dims = dict(zip([int(a) for a in spread.params["broadcast_dimensions"]], value.layout.dims))
        layout = Layout(tuple(dims.get(a, ()) for a in range(len(sinks.shape))), value.layout.offset)
        layout = layout.expand(sinks.shape)
    others = [a for a in range(len(sinks.shape)) if a not in heads]
    once = row_major([1] * len(others) + [sinks.shape[a] for a in heads])
    wanted = once.expand([sinks.shape[a] for a in others + heads])
    if layout is None or wanted is None or value.elements != count or not same(layout.permute(others + heads), wanted):
        raise Unsupported(user, "its sinks are not one number for each head")
    return importer.function.cast(importer.function.reshape(value.matrix, (count,)), "float32")


def _beside_sinks(value: Atom) -> "Optional[Tuple[patterns.Softmax, Atom]]":
    """(softmax, sinks) of `softmax(concatenate([scores, sinks], axis), axis)` without its last place."""
    part = patterns.node_of(value, "slice")
    found = patterns.match_softmax(part.inputs[0]) if part is not None else None
    joined = patterns.node_of(patterns.uncast(found.x), "concatenate") if found is not None else None
    if part is None or found is None or joined is None or len(joined.inputs) != 2:
        return None
    ends = list(found.x.shape)
    ends[found.axis] -= 1
    whole = [int(n) for n in part.params["limit_indices"]] == ends and not any(part.params["start_indices"])
    if not whole or any(int(n) != 1 for n in part.params["strides"] or ()):
        return None
    scores, sinks = joined.inputs
    if int(joined.params["dimension"]) != found.axis or sinks.shape[found.axis] != 1 or not isinstance(scores, Var):
        return None
    return patterns.Softmax(scores, found.axis), sinks


def _softmax_below(value: Atom) -> "Tuple[Optional[patterns.Softmax], List[int], Optional[Atom]]":
    """The softmax that a value is a cast or transposed, its axis that each axis of the value is, and its sinks."""
    axes = list(range(len(value.shape)))
    while True:
        value = patterns.uncast(value)
        found = patterns.match_softmax(value)
        if found is not None:
            return found, axes, None
        sunk = _beside_sinks(value)
        if sunk is not None:
            return sunk[0], axes, sunk[1]
        node = patterns.node_of(value, "transpose")
        if node is None:
            return None, axes, None
        permutation = [int(a) for a in node.params["permutation"]]
        axes = [permutation[a] for a in axes]
        value = node.inputs[0]
