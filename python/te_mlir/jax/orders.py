"""Finds what integers in a graph are: orders of a vector, their inverses, and counts of its numbers.

Programs compute an index element by element from an order, such as `order // k`, and JAX's own functions add what they
do for negative numbers. Which function that is shows at all the numbers that its operand may have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from te_mlir.frontend.graph import Atom, Const, Node, Var
from te_mlir.frontend.looking import SAME_ORDER, node_of, scalar
from te_mlir.jax.graph import ELEMENTWISE, Evaluator


class Order(NamedTuple):
    """The numbers `node` of the elements of the vector `ids`, in any shape, in ascending order of these."""

    ids: Var
    node: Var


class Lookup(NamedTuple):
    """The elements of a vector, or the rows of a matrix, at the indices `places`."""

    x: Atom
    places: Atom


def _operands(atom: Atom) -> list[Atom]:
    """The values whose elements decide those of another at the same places; empty for values that are not of that kind."""
    node = atom.node
    if node is None or len(node.outputs) > 1:
        return []
    if node.name in ELEMENTWISE:
        is_regular = all(isinstance(v, Var) or scalar(v) is not None for v in node.inputs)
    elif node.name == "gather":
        # A table of integers at an index, such as the tokens of entries.
        found = lookup_of(atom)
        return [found.places] if found is not None and isinstance(found.x, Const) and len(found.x.shape) == 1 else []
    else:
        is_regular = node.name in (*SAME_ORDER, "broadcast_in_dim")
    sizes = {math.prod(v.shape) for v in node.inputs if isinstance(v, Var)}
    return list(node.inputs) if is_regular and sizes == {math.prod(atom.shape)} else []


def source_of(value: Atom) -> Var | None:
    """The one value that another is computed from, element by element in the same order; None if there are several."""
    found: set[Atom] = set()
    seen: set[Atom] = set()
    pending = [value]
    while pending:
        atom = pending.pop()
        if atom in seen or isinstance(atom, Const):
            continue
        seen.add(atom)
        below = _operands(atom)
        pending += below
        if not below:
            found.add(atom)
    (only,) = found if len(found) == 1 else (None,)
    return only if isinstance(only, Var) else None


def is_function(value: Atom, source: Var, of: Callable[[Any], Any], count: int) -> bool:
    """Whether a value is `of` each element of another, whose elements are integers from 0 to `count - 1`."""
    if source_of(value) is not source or source.floating:
        return False
    size = math.prod(source.shape)
    with jax.ensure_compile_time_eval():
        for first in range(0, count, size):
            numbers = (first + np.arange(size)) % count
            given = jnp.asarray(numbers.reshape(source.shape), source.dtype)
            found = np.asarray(Evaluator({source: given})(value))
            if not np.array_equal(found.reshape(-1), of(numbers)):
                return False
    return True


def is_same(value: Atom, source: Var, count: int) -> bool:
    """Whether a value has the elements of another, which are integers from 0 to `count - 1`, in their order."""
    return value is source or is_function(value, source, lambda numbers: numbers, count)


def lookup_of(value: Atom) -> Lookup | None:
    """The lookup that a value is; None for other values. What it is at an index outside does not matter to readers."""
    node = node_of(value, "gather")
    if node is None:
        return None
    x, index = node.inputs
    if tuple(node.params["slice_sizes"]) == (1,) and math.prod(index.shape) == math.prod(value.shape):
        return Lookup(x, index)
    rows = node.params["rows"]
    return Lookup(x, rows[0]) if rows is not None else None


def _counts(atom: Atom, size: int) -> bool:
    """Whether a value is the vector 0, 1, ..., size - 1."""
    return isinstance(atom, Const) and atom.shape == (size,) and np.array_equal(atom.array(), np.arange(size))


def order_of(value: Atom, count: int) -> Order | None:
    """The order that a value is, by sort or argsort, of integers from 0 to `count - 1`. None for other values."""
    node = node_of(value, "sort")
    if node is None or len(node.inputs) != 2 or value is not node.outputs[1] or node.params["num_keys"] != 1:
        return None
    keys, places = node.inputs
    ids = source_of(keys) if len(keys.shape) == 1 and _counts(places, keys.shape[0]) else None
    return Order(ids, node.outputs[1]) if ids is not None and is_same(keys, ids, count) else None


def is_inverse(index: Atom, order: Var) -> bool:
    """Whether an index is the place of each number in an order."""
    size = order.shape[0]
    inner = source_of(index)
    if inner is None or not is_same(index, inner, size):
        return False
    found = order_of(inner, size)
    if found is not None:
        return found.ids is order
    put = written(inner)
    return put is not None and _counts(put.x, size) and is_same(put.places, order, size)


def written(value: Atom, name: str = "scatter") -> Lookup | None:
    """The rows or elements, and the index, that a scatter writes or adds along the first axis; None for other values."""
    node = node_of(value, name)
    if node is None:
        return None
    numbers, (into, index, rows) = node.params["dimension_numbers"], node.inputs
    axes = tuple(range(1, len(into.shape)))
    is_plain = (
        tuple(numbers.update_window_dims) == axes
        and tuple(numbers.inserted_window_dims) == (0,)
        and tuple(numbers.scatter_dims_to_operand_dims) == (0,)
        and not numbers.operand_batching_dims
    )
    if not is_plain or rows.shape[1:] != into.shape[1:] or index.shape != (rows.shape[0], 1):
        return None
    return Lookup(rows, index)


def added(value: Atom) -> Lookup | None:
    """The rows or elements, and the index, that a value adds to zeros along the first axis; None for other values."""
    found = written(value, "scatter-add")
    return found if found is not None and scalar(value.node.inputs[0]) == 0 else None  # type: ignore[union-attr]


def counted(sizes: Atom, groups: int) -> Var | None:
    """The ids of which `sizes` are the counts of 0, 1, ..., groups - 1; None for other sizes."""
    while (cast := node_of(sizes, "convert_element_type")) is not None:
        sizes = cast.inputs[0]
    if sizes.shape != (groups,):
        return None
    ids = _added_ones(sizes) or _marked(sizes, groups)
    source = source_of(ids) if ids is not None else None
    if ids is None or source is None or not is_same(ids, source, groups):
        return None
    return _unsorted(source, groups)


def _added_ones(sizes: Atom) -> Atom | None:
    """The index at which ones are added, as by `jnp.bincount`."""
    found = added(sizes)
    return found.places if found is not None and scalar(found.x) == 1 else None


def _marked(sizes: Atom, groups: int) -> Atom | None:
    """The ids whose one-hot rows are added up."""
    total = node_of(sizes, "reduce_sum")
    marks = node_of(total.inputs[0], "convert_element_type") if total is not None else None
    equal = node_of(marks.inputs[0], "eq") if marks is not None else None
    if total is None or equal is None:
        return None
    last = len(equal.output.shape) - 1
    if sorted(int(a) for a in total.params["axes"]) != list(range(last)):
        return None
    for ids, classes in (equal.inputs, equal.inputs[::-1]):
        if (
            isinstance(classes, Const)
            and classes.compact.size == groups == classes.shape[-1]
            and ids.shape[-1:] == (1,)
        ):
            return ids if np.array_equal(classes.compact.reshape(-1), np.arange(groups)) else None
    return None


def _unsorted(ids: Var, groups: int) -> Var | None:
    """The ids that others are in ascending order, or in any other order."""
    sort: Node | None = node_of(ids, "sort")
    found = lookup_of(ids)
    if sort is not None and ids is sort.outputs[0] and len(ids.shape) == 1:
        below = source_of(sort.inputs[0])
        return below if below is not None and is_same(sort.inputs[0], below, groups) else None
    if found is not None:
        below = source_of(found.x)
        index = source_of(found.places)
        order = order_of(index, groups) if index is not None else None
        is_order = order is not None and order.ids is below and is_same(found.places, order.node, order.node.shape[0])
        return below if is_order and below is not None and is_same(found.x, below, groups) else None
    return ids
