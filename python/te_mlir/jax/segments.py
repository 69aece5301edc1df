"""Finds the documents of masks that are made of segment ids, of the lengths of padded rows, or of masks of tokens.

JAX traces a function without values, so a mask is found by the operations that compute it: `and` of constants, of
comparisons of segment ids along queries with the same ids along keys, of comparisons of positions with lengths, and of
truth values of tokens along queries or keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from te_mlir.frontend.attention import Attention, OutsideMask
from te_mlir.frontend.base import Unsupported
from te_mlir.frontend.graph import Atom, Const, Node, Var, is_floating, width
from te_mlir.frontend.looking import SAME_ORDER, scalar
from te_mlir.frontend.scores import Scores, causal_window, mask_axes
from te_mlir.jax.arguments import Arguments
from te_mlir.jax.graph import is_of_integers

#: For each axis of a value, the label of the axis of the scores that it varies along, or None.
Labels = tuple[int | None, ...]


class _Tokens(NamedTuple):
    """Which tokens are no padding: those that are not 0, or, if `is_lengths`, so many of each row.

    labels: those of the axes of `values`, with the label of queries for tokens.
    """

    values: Var
    labels: Labels
    is_lengths: bool


class _Found(NamedTuple):
    """The terms of masks. constants, ids: with the labels of their axes. tokens: with the label that they bound."""

    constants: list[tuple[Const, Labels]]
    ids: list[tuple[Var, Labels]]
    tokens: list[tuple[int, _Tokens]]


def _keeps(before: str, after: str, truth: bool) -> bool:
    """Whether a cast keeps which values are equal; or, of truths and of numbers that are added, which ones are 0."""
    if truth and (after == "bool" or is_floating(after)):
        return True
    if is_floating(before) or is_floating(after):
        return is_floating(before) and is_floating(after)
    return after != "bool" and width(after) >= width(before)


def _through(atom: Atom, labels: Labels, truth: bool = False) -> tuple[Atom, Labels]:
    """The value below casts and operations that move or repeat axes. truth: only matters whether it is 0."""
    # An operand of size 1 is repeated, and one without axes.
    labels = tuple(label if size != 1 else None for size, label in zip(atom.shape, labels))
    while isinstance(atom, Var) and atom.node is not None:
        node, shape = atom.node, atom.node.inputs[0].shape if atom.node.inputs else ()
        if node.name == "broadcast_in_dim":
            axes = [int(a) for a in node.params["broadcast_dimensions"]]
            labels = tuple(labels[a] if shape[i] == atom.shape[a] != 1 else None for i, a in enumerate(axes))
        elif node.name == "transpose":
            axes = [int(a) for a in node.params["permutation"]]
            labels = tuple(labels[axes.index(i)] for i in range(len(axes)))
        elif node.name in SAME_ORDER:
            kept = [label for size, label in zip(atom.shape, labels) if size != 1]
            if [n for n in shape if n != 1] != [n for n in atom.shape if n != 1]:
                return atom, labels
            labels = tuple(kept.pop(0) if size != 1 else None for size in shape)
        elif node.name == "convert_element_type":
            if not _keeps(node.inputs[0].dtype, atom.dtype, truth):
                return atom, labels
        elif node.name not in ("copy", "stop_gradient"):
            return atom, labels
        atom = node.inputs[0]
    if isinstance(atom, Const):
        labels = tuple(label if size != 1 else None for size, label in zip(atom.compact.shape, labels))
    return atom, labels


#: Operations that a program may repeat for queries and keys.
_REPEATED = (
    *SAME_ORDER,
    "broadcast_in_dim",
    "convert_element_type",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and",
    "or",
    "not",
)


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values are equal because they are computed in the same way, such as `ids > 0` twice."""
    if isinstance(a, Const) and isinstance(b, Const):
        return a.shape == b.shape and not a.opaque and not b.opaque and np.array_equal(a.array(), b.array())
    if a is b or not isinstance(a, Var) or not isinstance(b, Var):
        return a is b
    x, y = a.node, b.node
    if x is None or y is None or x.name != y.name or x.name not in _REPEATED or a.dtype != b.dtype:
        return False
    return x.params == y.params and len(x.inputs) == len(y.inputs) and all(map(_is_same, x.inputs, y.inputs))


def _is_positions(atom: Atom, labels: Labels) -> int | None:
    """The label along which a constant is 0, 1, 2, ..."""
    varying = [label for label in labels if label is not None]
    if not isinstance(atom, Const) or len(varying) != 1:
        return None
    values = np.asarray(atom.compact).reshape(-1)
    return varying[0] if (values == np.arange(len(values))).all() else None


def boundaries_of(ids: Any, used: Any, limit: int) -> Any:
    """The first token of each run of equal ids, then the end: int32 [rows * limit + 1]. ids, used: [rows, sequence].

    used: whether a token is no padding, which is a run too, whatever its ids. All boundaries are -1 if there are more
    runs, or if two runs of tokens of a row have one id, which would see each other.
    """
    rows, sequence = ids.shape
    first = jnp.ones((rows, 1), bool)
    goes_on = (used[:, 1:] == used[:, :-1]) & ((ids[:, 1:] == ids[:, :-1]) | ~used[:, 1:])
    starts = jnp.concatenate([first, ~goes_on], axis=1)
    # Tokens before padding, in the order of their ids.
    order = jnp.lexsort((ids, ~used), axis=1)
    ordered, is_used = jnp.take_along_axis(ids, order, 1), jnp.take_along_axis(used, order, 1)
    is_new = jnp.concatenate([first, ordered[:, 1:] != ordered[:, :-1]], axis=1)
    distinct = (is_new & is_used).sum() == (starts & used).sum()
    places = jnp.nonzero(starts.reshape(-1), size=rows * limit, fill_value=rows * sequence)[0]
    whole = jnp.concatenate([places, jnp.full(1, rows * sequence)]).astype(jnp.int32)
    return jnp.where(distinct & (starts.sum() <= rows * limit), whole, -1)


def boundaries_of_lengths(lengths: Any, sequence: int) -> Any:
    """Boundaries where the tokens of a row and its padding alternate: int32 [2 * rows + 1]."""
    begins = jnp.arange(len(lengths), dtype=jnp.int32) * sequence
    ends = begins + jnp.clip(lengths.astype(jnp.int32), 0, sequence)
    places = jnp.stack([begins, ends], 1).reshape(-1)
    return jnp.concatenate([places, jnp.full(1, len(lengths) * sequence, jnp.int32)])


class Segments(Arguments):
    """Emits the masks of documents.

    max_segments_per_seq: the number of segments that a row of a batch may have. unused_padding: whether nothing reads
    results at padding, which are then others than those of JAX.
    """

    max_segments_per_seq = 32
    unused_padding = False

    def is_given(self, atom: Atom) -> bool:
        """Whether a value is computed from integers and constants only."""
        return isinstance(atom, Var) and atom.dtype in ("bool", "int32", "float32", "bfloat16") and is_of_integers(atom)

    def outside_mask(
        self, user: Node, found: Attention, scores: Scores, before: Sequence[int], query: int
    ) -> OutsideMask:
        terms = _Found([], [], [])
        for mask in scores.outside:
            if mask.hides or mask.scale != 1:
                raise Unsupported(user, "expected its mask to be true for visible keys, and not to be scaled")
            self._collect(mask.values, tuple(mask_axes(scores, mask.axes)), (query, found.key), user, terms)
        rank = len(scores.order)
        constants = list(scores.masks)
        for constant, labels in terms.constants:
            constants.append((self._spread(constant, labels, scores.order), tuple(range(rank)), True))
        causal, window_left = causal_window(scores._replace(masks=constants), query, found.key, user)
        sizes = [found.q.shape[found.q_of[n]] for n in before]
        sequence = found.q.shape[found.q_of[query]]
        if len(terms.ids) > 1:
            raise Unsupported(user, "its mask is made of several segment ids")
        tokens = self._tokens(terms, query, found.key, user)
        ids = terms.ids[0] if terms.ids else None
        if ids is None and tokens is None:
            return OutsideMask(causal, window_left)
        return OutsideMask(causal, window_left, self._documents(ids, tokens, before, query, sizes, sequence, user))

    def _tokens(self, terms: _Found, query: int, key: int, user: Node) -> _Tokens | None:
        """Which tokens are no padding; None if all are."""
        sides, of = {label for label, _ in terms.tokens}, set[_Tokens]()
        for _, tokens in terms.tokens:
            if not any(tokens[1:] == other[1:] and _is_same(tokens.values, other.values) for other in of):
                of.add(tokens)
        if len(of) > 1:
            raise Unsupported(user, "its mask has several lengths or masks of tokens")
        for tokens in of:
            if key not in sides:
                raise Unsupported(user, "its mask hides queries that are padding, but no keys")
            is_both = sides == {query, key} and tokens.is_lengths and not terms.ids
            if not is_both and not self.unused_padding:
                option = "pass unused_padding=True to jit"
                if tokens.is_lengths and not terms.ids:
                    option = f"pass query_seq_lengths, too, or {option}"
                raise Unsupported(
                    user,
                    f"padding has results of its own under its mask; if nothing reads results of padding, {option}",
                )
            return tokens
        return None

    def _collect(
        self, atom: Atom, labels: Labels, both: tuple[int, int], user: Node, terms: _Found, is_truth: bool = False
    ) -> None:
        """Adds the terms of a mask. both: the labels of queries and keys. is_truth: whether keys are visible that are not 0."""
        is_truth = is_truth or atom.dtype == "bool"
        atom, labels = _through(atom, labels, is_truth)
        node = atom.node
        if isinstance(atom, Const):
            terms.constants.append((atom, labels))
            return
        if node is not None and node.name == "and" and node.output.dtype == "bool":
            for operand in node.inputs:
                self._collect(operand, labels, both, user, terms)
            return
        if node is not None and node.name == "ne" and scalar(node.inputs[1]) == 0:
            self._collect(node.inputs[0], labels, both, user, terms, is_truth=True)
            return
        if node is not None and node.name == "select_n" and len(node.inputs) == 3 and not is_truth:
            # where(mask, 0, -1e9), which is added.
            hidden, shown = node.inputs[1:]
            fills = [v.scalar if isinstance(v, Const) else None for v in (hidden, shown)]
            if fills[0] is not None and fills[0] <= -1e4 and fills[1] == 0:
                self._collect(node.inputs[0], labels, both, user, terms)
                return
        if node is not None and node.name == "eq":
            (a, of_a), (b, of_b) = (_through(operand, labels) for operand in node.inputs)
            turned = tuple(both[1 - both.index(n)] if n in both else n for n in of_b)
            if isinstance(a, Var) and _is_same(a, b) and of_a == turned and sum(n in both for n in of_a) == 1:
                ids = a, of_a if both[0] in of_a else of_b
                if ids not in terms.ids:
                    terms.ids.append(ids)
                return
        if node is not None and node.name in ("lt", "gt"):
            operands = node.inputs if node.name == "lt" else node.inputs[::-1]
            (place, along), (length, of) = (_through(operand, labels) for operand in operands)
            label = _is_positions(place, along)
            if label in both and isinstance(length, Var) and not any(n in both for n in of):
                terms.tokens.append((label, _Tokens(length, of, True)))
                return
        of_tokens = [label for label in labels if label in both]
        if is_truth and isinstance(atom, Var) and len(of_tokens) == 1:
            of = tuple(both[0] if label in both else label for label in labels)
            terms.tokens.append((of_tokens[0], _Tokens(atom, of, False)))
            return
        raise Unsupported(
            user,
            "its mask depends on arguments; expected a constant causal mask, segment ids of queries that are compared with "
            "those of keys, lengths, or masks of tokens, combined by '&'",
        )

    def _spread(self, constant: Const, labels: Labels, order: Sequence[int]) -> Const:
        """A constant whose axes are those of the softmax."""
        varying = [n for n, label in enumerate(labels) if label is not None]
        compact = np.transpose(
            np.squeeze(constant.compact, tuple(n for n in range(len(labels)) if n not in varying)),
            np.argsort([list(order).index(labels[n] or 0) for n in varying]),
        )
        taken = {labels[n] for n in varying}
        shape = iter(compact.shape)
        compact = compact.reshape([next(shape) if label in taken else 1 for label in order])
        if compact.dtype != bool:
            compact = compact == 0
        return Const(compact, compact.shape)

    def _rows(self, labels: Labels, before: Sequence[int], sizes: Sequence[int], own: Sequence[int], user: Node) -> Any:
        """A function that gives a value with these labels the rows of the batch, [rows, ...]; own: labels after them."""
        if any(n is not None and n not in before and n not in own for n in labels):
            raise Unsupported(user, "its mask differs between heads")
        varying = [n for n, label in enumerate(labels) if label is not None]
        order = sorted(varying, key=lambda n: [*before, *own].index(labels[n] or 0))
        wanted = [label in labels for label in before]

        def rows(t: Any) -> Any:
            t = jnp.transpose(t, order + [n for n in range(t.ndim) if n not in order])
            shape = iter(t.shape)
            t = t.reshape(
                [next(shape) if has else 1 for has in wanted] + [t.shape[order.index(n)] for n in order[sum(wanted) :]]
            )
            t = jnp.broadcast_to(t, (*sizes, *t.shape[len(sizes) :]))
            return t.reshape(-1, *t.shape[len(sizes) :])

        return rows

    def _documents(
        self,
        ids: tuple[Var, Labels] | None,
        tokens: _Tokens | None,
        before: Sequence[int],
        query: int,
        sizes: Sequence[int],
        sequence: int,
        user: Node,
    ) -> Any:
        """The boundaries of segments, or of rows if `ids` is None, and of padding."""
        count = int(np.prod(sizes, dtype=int))
        # With ids, or at most padding, tokens and padding.
        limit = min(self.max_segments_per_seq if ids is not None else 3, sequence)
        terms: list[tuple[Var, Labels]] = [] if ids is None else [ids]
        own = [[query]] * len(terms)
        is_lengths = tokens is not None and tokens.is_lengths
        if tokens is not None:
            terms.append((tokens.values, tokens.labels))
            own.append([] if is_lengths else [query])
        rows = [self._rows(labels, before, sizes, axes, user) for (_, labels), axes in zip(terms, own)]

        def make(*values: Any) -> Any:
            given = [each(value) for each, value in zip(rows, values)]
            if ids is None and is_lengths:
                return boundaries_of_lengths(given[0], sequence)
            found = jnp.zeros((count, sequence), "int32") if ids is None else given[0]
            used = jnp.ones((count, sequence), bool) if tokens is None else given[-1]
            used = jnp.arange(sequence) < used[:, None] if is_lengths else used != 0
            return boundaries_of(found, used, limit)

        kind, shape = "segments" if ids is not None else "tokens", (count * limit + 1,)
        if is_lengths and ids is None:
            kind, shape = "lengths", (2 * count + 1,)
        how = (*before, *sizes, sequence, query, *(-1 if n is None else n for _, labels in terms for n in labels))
        values = [value for value, _ in terms]
        return self.feed(values[0], kind, make, shape, "int32", False, user, how, tuple(values[1:]))
