"""Finds softmax attention, starting from the product of probabilities and values.

Programs may have the axes in any order. The label of an axis is its number in the product of queries
and keys; labels are tracked through scaling, mask, softmax and transposes. q must be stored as
[batch, sequence, heads, width], which determines the axis of the sequence and those of the heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from te_mlir import build
from te_mlir.frontend.base import Unsupported, Value
from te_mlir.frontend.graph import Atom, Const, Node, Var
from te_mlir.frontend.looking import node_of, uncast
from te_mlir.frontend.scores import Passed, Scores, Scoring, causal_window
from te_mlir.frontend.softmax import Softmax, match_softmax
from te_mlir.layout import Layout, row_major, same

#: The most products of one launch on a GPU, whose tables have to fit in the shared memory of a block.
_MOST_BATCHES = 512

#: Why a product is not attention: neither operand is a softmax.
_NO_SOFTMAX = "none of its operands is a softmax"

#: What a report says of an attention, before its place and the reason.
AS_PRODUCTS = "is compiled as products and a softmax, not as te.attention"

#: The label of the width of the values in the axes of a result.
WIDTH = -1


class Attention(NamedTuple):
    """Softmax attention. Axes have labels; `q_of`, `k_of` and `v_of` give the axis of an operand for each label.

    batches: labels below this number are axes of both queries and keys. key: the label that is summed over. widths:
    the axis of each operand that has the elements of a row. out: the labels of the result's axes, or WIDTH. causal:
    whether it is causal without a mask. dropout: the node that has its probability, stream and state. packed: the node
    that has boundaries of documents.
    """

    q: Atom
    k: Atom
    v: Atom
    q_of: dict[int, int]
    k_of: dict[int, int]
    v_of: dict[int, int]
    widths: tuple[int, int, int]
    batches: int
    key: int
    out: list[int]
    scale: float | None
    causal: bool
    scores: Scores | None
    sinks: Atom | None
    dropout: Node | None = None
    packed: Node | None = None


class OutsideMask(NamedTuple):
    """What a mask hides that is passed in each call.

    window_left: the number of earlier keys that a query attends to, None for all. documents: the boundaries of
    documents, which do not attend to each other. seeing: f32 [tokens], 0 for tokens that attend to nothing, and whose
    results are 0, otherwise 1; None if there are no such tokens.
    """

    causal: bool
    window_left: int | None = None
    documents: build.Value | None = None
    seeing: build.Value | None = None


def _beside_sinks(value: Atom) -> tuple[Softmax, Atom] | None:
    """(softmax, sinks) of `softmax(concatenate([scores, sinks], axis), axis)` without its last element."""
    part = node_of(value, "slice")
    found = match_softmax(part.inputs[0]) if part is not None else None
    joined = node_of(uncast(found.x), "concatenate") if found is not None else None
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
    return Softmax(scores, found.axis), sinks


class _Weights(NamedTuple):
    """The softmax before casts, transposes and a dropout of a value.

    axes: the softmax's axis for each axis of the value.
    """

    softmax: Softmax
    axes: list[int]
    sinks: Atom | None
    dropout: Node | None


def _weights(value: Atom) -> _Weights | None:
    axes = list(range(len(value.shape)))
    dropout = None
    while True:
        value = uncast(value)
        found = match_softmax(value)
        if found is not None:
            return _Weights(found, axes, None, dropout)
        sunk = _beside_sinks(value)
        if sunk is not None:
            return _Weights(sunk[0], axes, sunk[1], dropout)
        dropped = node_of(value, "dropout")
        if dropped is not None and dropout is None:
            dropout, value = dropped, dropped.inputs[0]
            continue
        node = node_of(value, "transpose")
        if node is None:
            return None
        permutation = [int(a) for a in node.params["permutation"]]
        axes = [permutation[a] for a in axes]
        value = node.inputs[0]


def batches_of_masks(scores: Scores, found: Attention, before: Sequence[int], query: int) -> Sequence[int] | None:
    """The sizes of the axes of masks before those of queries and keys, 1 for heads; None if their order is another."""
    *labels, row, column = scores.order
    if (row, column) != (query, found.key) or [n for n in labels if n in before] != list(before):
        return None
    return [found.q.shape[found.q_of[n]] if n in before else 1 for n in labels]


def _axes_on(origin: Sequence[tuple[int | None, int | None]], side: int) -> dict[int, int]:
    """For the axes of a product that come from an operand, the axis of the operand."""
    found = {}
    for n, axes in enumerate(origin):
        axis = axes[side]
        if axis is not None:
            found[n] = axis
    return found


def _outer(q: Atom, layout: Layout, found: Attention, user: Node) -> tuple[list[int], int, list[int], list[int]]:
    """The labels of q's axes in the order of memory: batches, the sequence, heads, and axes of size 1."""
    q_of, count = found.q_of, found.batches
    sized = [n for n in q_of if q.shape[q_of[n]] != 1]
    outer = sorted(sized, key=lambda n: -layout.dims[q_of[n]][0][1])
    own = [n for n in outer if n >= count]
    query = own[0] if own else next((n for n in q_of if n >= count), -1)
    if query < 0:
        raise Unsupported(user, "its queries have no sequence")
    before = outer[: outer.index(query)] if query in outer else []
    after = [n for n in outer if n != query and n not in before]
    if any(n >= count for n in before):
        raise Unsupported(user, "its queries are not stored as [batch, sequence, heads, width]")
    return before, query, after, [n for n in q_of if n not in before and n not in after and n != query]


class _Side(NamedTuple):
    """Keys or values, [..., heads, width], and the same with one of each head that is repeated."""

    stored: Value
    heads: int
    once: Value
    kv_heads: int

    @property
    def columns(self) -> int:
        return self.kv_heads * self.once.layout.shape[-1]


def _is_stored(q: Atom, value: Value, found: Attention, user: Node) -> bool:
    """Whether queries are stored as [batch, sequence, heads, width], with the batches of the keys and values."""
    try:
        before, query, after, ones = _outer(q, value.layout, found, user)
    except Unsupported:
        return False
    of, others = found.q_of, ((found.k, found.k_of), (found.v, found.v_of))
    if any(v.shape[axes[n]] != q.shape[of[n]] for v, axes in others for n in before if n in axes):
        return False
    wanted = [of[n] for n in before + [query] + after + ones] + [found.widths[0]]
    return value.layout.permute(wanted).is_row_major(value.elements)


def _lacks_on_gpu(dtype: str, rows: int, columns: int, contracted: int, count: int) -> str | None:
    """Why the GEMMs of groups for GPUs do not have a product, or a gradient of it; None if they have."""
    if dtype != "bfloat16":
        return f"it would need elements of bfloat16 on a GPU, but has {dtype}"
    if any(size % 8 for size in (rows, columns, contracted)):
        return f"its sizes would have to be multiples of 8 on a GPU, but are {rows}, {columns} and {contracted}"
    if count > _MOST_BATCHES:
        return f"it would need at most {_MOST_BATCHES} batches and heads on a GPU, but has {count}"
    return None


class Attentions(Scoring):
    """Emits attention."""

    def outside_mask(
        self, user: Node, found: Attention, scores: Scores, before: Sequence[int], query: int
    ) -> OutsideMask:
        """What masks hide, some of which are passed in each call.

        before: the labels of the axes before the sequence of queries, in the order of memory. query: that of the sequence.
        """
        raise NotImplementedError

    def boundaries(self, user: Node, boundaries: Atom) -> build.Value:
        """The boundaries of documents that are passed in each call."""
        raise NotImplementedError

    def is_deterministic(self) -> bool:
        """Whether gradients have the same bits every time."""
        raise NotImplementedError

    def is_on_gpu(self, user: Node) -> bool:
        """Whether the program is compiled for a GPU."""
        raise NotImplementedError

    def _op_dot_general(self, var: Var, node: Node) -> Value:
        if not node.params["dimension_numbers"][1][0]:
            return self.matmul(var, node)
        try:
            return self.attention(var, node, self._attention_in(node))
        except Unsupported as unsupported:
            if unsupported.reason != _NO_SOFTMAX:
                self.spelled.append((node, unsupported.reason))
            return self.products(var, node, unsupported.reason)

    def products(self, var: Var, node: Node, reason: str) -> Value:
        """A product with batch axes that is not attention: a group of rows for each batch, in high precision.

        reason: why it is not attention.
        """
        self.check_floats(node)
        (summed, batch) = node.params["dimension_numbers"]
        groups, sides, sizes = [], [], []
        for operand, own_summed, own_batch in zip(node.inputs, summed, batch):
            own_summed, own_batch = [int(a) for a in own_summed], [int(a) for a in own_batch]
            groups.append([operand.shape[a] for a in own_batch])
            free = [a for a in range(len(operand.shape)) if a not in (*own_summed, *own_batch)]
            sides.append((operand, own_batch, free, own_summed))
            sizes.append([operand.shape[a] for a in free])
        # PyTorch repeats an operand with one batch.
        batches = [max(pair) for pair in zip(*groups)]
        count, contracted = math.prod(batches), math.prod(node.inputs[0].shape[int(a)] for a in summed[0])
        rows, columns = map(math.prod, sizes)
        lacks = None if count * rows * columns * contracted else "it has no elements"
        if lacks is None and self.is_on_gpu(node):
            lacks = _lacks_on_gpu(var.dtype, rows, columns, contracted, count)
        if lacks is not None:
            raise Unsupported(node, f"{reason}; as a product of its own, {lacks}")
        matrices = []
        for operand, own_batch, free, own_summed in sides:
            value = self.value(operand, node)
            shape = list(operand.shape)
            for a, size in zip(own_batch, batches):
                shape[a] = size
            layout = value.layout.expand(shape)
            assert layout is not None, "sizes of 1 are repeated"
            moved = Value(value.matrix, layout.permute([*own_batch, *free, *own_summed]))
            matrices.append(self.function.cast(self.in_order(moved, node), var.dtype))
        x = self.function.reshape(matrices[0], (count * rows, contracted))
        w = self.function.reshape(matrices[1], (count, columns, contracted))
        made = self.function.grouped_product(x, w)
        return Value(made, row_major([*batches, *sizes[0], *sizes[1]]))

    def _spelled(self, var: Var, node: Node, reason: str) -> Value:
        """Attention that te.attention does not have, as products and a softmax. reason: why it does not."""
        q, k, v, mask = node.inputs[:4]
        if node.params["causal"] or k.shape[1] not in (1, q.shape[1]) or "longest" in node.params:
            raise Unsupported(node, reason)
        if node.params.get("probability", 0) >= 1:
            raise Unsupported(node, reason)
        batches = (0, 1), (0, 1)

        def step(name: str, shape: Sequence[int], inputs: Sequence[Atom], dtype: str = q.dtype, **params: Any) -> Var:
            made = Node(name, inputs, params, node.origin)
            made.outputs = [Var(shape, dtype, made)]
            made.output.uses = 1
            return made.output

        def number(value: float) -> Const:
            return Const(np.asarray(value), (), exact=True)

        scale = node.params["scale"]
        shape = (*q.shape[:3], k.shape[2])
        x = step("mul", q.shape, [q, number(q.shape[-1] ** -0.5 if scale is None else scale)])
        x = step("dot_general", shape, [x, k], dimension_numbers=(((3,), (3,)), batches))
        # Hidden scores are so low that exp of them is 0. Where all keys of a query are hidden, its weights are set to 0.
        hidden, seen = number(-3e4 if q.dtype == "float16" else -1e30), None
        if mask is not None and not mask.floating:
            seen = mask
            x = step("select_n", shape, [seen, hidden, x])
        elif mask is not None and self.is_given(mask):
            seen = step("gt", mask.shape, [mask, hidden], "bool")
            x = step("add", shape, [x, step("max", mask.shape, [mask, hidden])])
        elif mask is not None:
            x = step("add", shape, [x, mask])
        x = step("softmax", shape, [x], axis=3)
        if seen is not None:
            x = step("select_n", shape, [seen, number(0.0), x])
        if "probability" in node.params:
            drawn = {name: node.params[name] for name in ("probability", "stream")}
            x = step("dropout", shape, [x, node.inputs[-1]], **drawn)
        x = step("dot_general", var.shape, [x, v], dimension_numbers=(((3,), (2,)), batches))
        assert x.node is not None, "a step"
        made = self.products(x, x.node, reason)
        self.spelled.append((node, reason))
        return made

    def matmul(self, var: Var, node: Node) -> Value:
        """A product without batch axes."""
        raise NotImplementedError

    def _op_attention(self, var: Var, node: Node) -> Value:
        q, k, v, mask = node.inputs[:4]
        if mask is not None and mask.floating and not self.is_given(mask) and q.shape[1] == k.shape[1]:
            return self._spelled(var, node, "its mask is computed")
        of_q, of_k = {0: 0, 1: 1, 2: 2}, {0: 0, 1: 1, 3: 2}
        masks = [] if mask is None else [Passed(mask, (0, 1, 2, 3))]
        scores = Scores(node, (0, 1, 2, 3), 1.0, None, [], masks)
        scale, causal = node.params["scale"], node.params["causal"]
        found = Attention(q, k, v, of_q, of_k, of_k, (3, 3, 3), 2, 3, [0, 1, 2, WIDTH], scale, causal, scores, None)
        if "probability" in node.params:
            found = found._replace(dropout=node)
        if "longest" in node.params:
            found = found._replace(packed=node)
        try:
            return self.attention(var, node, found)
        except Unsupported as unsupported:
            # On a GPU, PyTorch's own attention needs less memory than products do.
            if unsupported.place is not node or self.is_on_gpu(node):
                raise
            return self._spelled(var, node, unsupported.reason)

    def _attention_in(self, node: Node) -> Attention:
        """The attention that ends in the product `node`; raises Unsupported if it does not end one."""
        for which in (0, 1):
            weights = _weights(node.inputs[which])
            if weights is not None:
                break
        else:
            raise Unsupported(node, _NO_SOFTMAX)
        if node.apart:
            raise Unsupported(node, "its product is computed by itself")
        softmax, moved, sinks, dropout = weights
        scores = self.scores(softmax.x, node)
        product = scores.node
        (contracted, batch) = product.params["dimension_numbers"]
        (last_contracted, last_batch) = node.params["dimension_numbers"]

        # The labels of the axes of the probabilities are axes of the product.
        labels = [scores.order[a] for a in moved]
        p_contracted = [labels[int(a)] for a in last_contracted[which]]
        if len(p_contracted) != 1 or scores.order[softmax.axis] != p_contracted[0]:
            raise Unsupported(node, "its softmax is not along the contracted axis")
        key = p_contracted[0]

        # The product's axes: batches, then those of its first operand, then of its second.
        count = len(batch[0])
        origin: list[tuple[int | None, int | None]] = [(int(a), int(b)) for a, b in zip(batch[0], batch[1])]
        for side in (0, 1):
            summed = {int(x) for x in (*contracted[side], *batch[side])}
            free = [a for a in range(len(product.inputs[side].shape)) if a not in summed]
            origin += [(a, None) if side == 0 else (None, a) for a in free]
        if len(origin) != len(product.output.shape):
            raise Unsupported(node, "its queries and keys have different numbers of dimensions")
        k_side = 0 if origin[key][0] is not None else 1
        if key < count or len(contracted[0]) != 1:
            raise Unsupported(node, "its product is not one of queries and keys")
        q, k, v = product.inputs[1 - k_side], product.inputs[k_side], node.inputs[1 - which]
        q_of, k_of = (_axes_on(origin, side) for side in (1 - k_side, k_side))
        q_width, k_width = int(contracted[1 - k_side][0]), int(contracted[k_side][0])
        if [n for n in k_of if n >= count] != [key]:
            raise Unsupported(node, "its keys have several axes of their own")

        # The axis of v for each label, from the last product.
        v_axes = [int(x) for x in last_batch[1 - which]]
        v_of = {labels[int(p)]: x for p, x in zip(last_batch[which], v_axes)}
        v_of[key] = int(last_contracted[1 - which][0])
        v_free = [x for x in range(len(v.shape)) if x not in v_of.values()]
        if len(v_free) != 1:
            raise Unsupported(node, "its values have several axes beside those of its keys")

        # The result's axes: batches, then what is left of each operand in turn.
        left = [labels[int(p)] for p in last_batch[which]]
        free = [labels[n] for n in range(len(labels)) if labels[n] not in left and labels[n] != key]
        out = left + (free + [WIDTH] if which == 0 else [WIDTH] + free)
        widths = q_width, k_width, v_free[0]
        return Attention(
            q, k, v, q_of, k_of, v_of, widths, count, key, out, scores.scale, False, scores, sinks, dropout
        )

    def attention(self, var: Var, node: Node, found: Attention) -> Value:
        """Emits attention; raises Unsupported if its operands are not stored as te needs them."""
        q, k, v, q_of, scores = found.q, found.k, found.v, found.q_of, found.scores
        width, value_width = q.shape[found.widths[0]], v.shape[found.widths[2]]
        key_length, value_length = k.shape[found.k_of[found.key]], v.shape[found.v_of[found.key]]
        assert scores is not None
        if value_length != key_length:
            raise Unsupported(node, f"its keys and values have sequences of {key_length} and {value_length}")
        # The order of q's elements in memory decides which axes are batches, the sequence, and heads.
        a = self.value(q, node)
        if not _is_stored(q, a, found, node):
            a = self._heads_last(q, a, found, node)
        before, query, after, ones = _outer(q, a.layout, found, node)
        sequence = q.shape[q_of[query]]
        batches = math.prod(q.shape[q_of[n]] for n in before)
        heads = math.prod(q.shape[q_of[n]] for n in after)
        if key_length != sequence:
            raise Unsupported(node, f"its queries and keys have sequences of {sequence} and {key_length}")
        matrices = [self.function.reshape(a.matrix, (batches * sequence, heads * width))]
        sides = [self._side(q, side, found, before, after, node) for side in ("k", "v")]
        if sides[0].kv_heads != sides[1].kv_heads:
            # Only one of both is repeated.
            sides = [side._replace(once=side.stored, kv_heads=side.heads) for side in sides]
        counts = [side.kv_heads for side in sides]
        for side in sides:
            matrices.append(self.function.reshape(self.in_order(side.once, node), (batches * sequence, side.columns)))
        if counts[0] != counts[1] or heads % counts[0]:
            raise Unsupported(
                node,
                f"expected its numbers of heads of keys and values to be equal and to divide {heads}, but got {counts}",
            )
        of_both = [n for n in after if n < found.batches]
        if after and of_both != after[: len(of_both)]:
            raise Unsupported(node, "its query heads that share a head of keys are not contiguous")
        longest = sequence
        if found.packed is not None:
            documents, params = self.boundaries(node, found.packed.inputs[4]), found.packed.params
            mask, longest = OutsideMask(found.causal, params["window_left"], documents), params["longest"]
        elif scores.outside:
            mask = self.outside_mask(node, found, scores, before, query)
        else:
            causal, window_left = causal_window(scores, query, found.key, node)
            mask = OutsideMask(causal or found.causal, window_left)
        if len({m.dtype for m in matrices}) != 1:
            raise Unsupported(node, "its queries, keys and values have elements of different types")
        sinks, dropout = found.sinks, None
        if found.dropout is not None:
            state, params = self.value(found.dropout.inputs[-1], node), found.dropout.params
            if params["probability"] >= 1:
                raise Unsupported(node, "its dropout sets all weights to zero")
            dropout = state.matrix, params["probability"], params["stream"]
        made = self.function.attention(
            matrices[0],
            matrices[1],
            matrices[2],
            heads,
            counts[0],
            longest,
            mask.causal,
            found.scale,
            self.is_deterministic(),
            mask.window_left,
            scores.softcap,
            None if sinks is None else self.sinks(node, sinks, [scores.order.index(n) for n in after]),
            mask.documents,
            dropout,
        )
        if mask.seeing is not None:
            seeing = self.function.broadcast(self.function.cast(mask.seeing, made.dtype), made.shape, [1])
            made = self.function.mul(made, seeing)
        held = before + [query] + after + ones
        layout = row_major([q.shape[q_of[n]] for n in held] + [value_width])
        layout = layout.permute([len(held) if n == WIDTH else held.index(n) for n in found.out])
        return Value(self.function.cast(made, var.dtype), layout)

    def _side(self, q: Atom, side: str, found: Attention, before: list[int], after: list[int], user: Node) -> _Side:
        """The keys ("k") or values ("v") of queries with the axes that `_outer` found."""
        k, v = (found.k, found.k_of, found.widths[1]), (found.v, found.v_of, found.widths[2])
        operand, of, last = k if side == "k" else v
        b, sizes = self.value(operand, user), list(operand.shape)
        # PyTorch repeats an operand with one batch.
        for n in before:
            if n in of:
                sizes[of[n]] = q.shape[found.q_of[n]]
        repeated = b.layout.expand(sizes)
        if repeated is None:
            raise Unsupported(user, "its keys or values have another batch size than its queries")
        shared = [of[n] for n in after if n in of]
        order = [of[n] for n in before] + [of[found.key]] + shared
        rest = [x for x in range(len(sizes)) if x not in order and x != last]
        layout = repeated.permute([*rest, *order, last])
        dims, first = layout.dims, len(rest) + len(before) + 1
        stored = [atom for dim in dims[first:-1] for atom in dim]
        while stored and stored[-1][1] == 0:
            stored.pop()
        once = layout._replace(dims=(*dims[:first], tuple(stored), dims[-1]))
        heads = math.prod(sizes[x] for x in shared)
        return _Side(Value(b.matrix, layout), heads, Value(b.matrix, once), once.shape[-2])

    def _heads_last(self, q: Atom, value: Value, found: Attention, user: Node) -> Value:
        """Queries copied as [batch, sequence, heads, width], where the first axis is the only batch."""
        labels = sorted(found.q_of)
        batches, own = labels[: min(found.batches, 1)], [n for n in labels if n >= found.batches][:1]
        rest = [n for n in labels if n not in batches + own]
        order = [found.q_of[n] for n in batches + own + rest] + [found.widths[0]]
        matrix = self.in_order(Value(value.matrix, value.layout.permute(order)), user)
        layout = row_major([q.shape[axis] for axis in order])
        return Value(matrix, layout.permute([order.index(axis) for axis in range(len(order))]))

    def sinks(self, user: Node, sinks: Atom, heads: list[int]) -> build.Value:
        """The vector with one number for each head; `heads` are the axes of the softmax that are heads."""
        sinks = uncast(sinks)
        count = math.prod(sinks.shape[a] for a in heads)
        if isinstance(sinks, Const) and sinks.scalar is not None:
            return self.function.constant(float(sinks.scalar), (count,), "float32")
        # Only values that are computed from arguments are given, so the search goes to the operand of a broadcast.
        spread = node_of(sinks, "broadcast_in_dim")
        value = self.value(uncast(spread.inputs[0]) if spread is not None else sinks, user)
        layout: Layout | None = value.layout
        if spread is not None:
            dims = dict(zip([int(a) for a in spread.params["broadcast_dimensions"]], value.layout.dims))
            layout = Layout(tuple(dims.get(a, ()) for a in range(len(sinks.shape))), value.layout.offset)
            layout = layout.expand(sinks.shape)
        others = [a for a in range(len(sinks.shape)) if a not in heads]
        once = row_major([1] * len(others) + [sinks.shape[a] for a in heads])
        wanted = once.expand([sinks.shape[a] for a in others + heads])
        permuted = layout.permute(others + heads) if layout is not None else None
        if permuted is None or wanted is None or value.elements != count or not same(permuted, wanted):
            raise Unsupported(user, f"expected its sinks to have one number for each head, but got {list(sinks.shape)}")
        return self.function.cast(self.function.reshape(value.matrix, (count,)), "float32")
