"""Finds rotary embeddings, which rotate halves of a row or neighbouring pairs, in all or a part of each head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from te_mlir import build
from te_mlir.frontend.base import Emission, Value
from te_mlir.frontend.graph import Atom, Const, Node, Var
from te_mlir.frontend.looking import SAME_ORDER, is_same, node_of, pairs, part_of, uncast
from te_mlir.layout import row_major

#: How the rows of a table repeat elements: in halves or in pairs; or the table has only half of each row.
HALVES, PAIRS, HALF = "halves", "pairs", "half"


class Rope(NamedTuple):
    """A rotation of pairs of elements of x, which are half a row apart or neighbours.

    alike: how the rows of the tables repeat elements. whole: the value whose first columns are x, if the others
    are not rotated.
    """

    x: Var
    cos: Atom
    sin: Atom
    alike: str
    whole: Var | None = None

    @property
    def interleaved(self) -> bool:
        return self.alike == PAIRS


def match_rope(value: Var) -> Rope | None:
    """`x * cos + concatenate([-x2, x1]) * sin`, or `concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin])`.

    Also with `stack([-x[..., 1::2], x[..., ::2]])`, and as `concatenate([rotated x[..., :n], x[..., n:]])`.
    """
    if len(value.shape) != 4:
        return None
    for straight, moved in pairs(value, "add"):
        for rotated, sin in pairs(moved, "mul"):
            halves = _rotated(rotated)
            x = halves if halves is not None else _rotated_pairs(rotated)
            for same, cos in pairs(straight, "mul") if x is not None else ():
                if x is not None and is_same(same, x):
                    return Rope(x, cos, sin, PAIRS if halves is None else HALVES)
    node = node_of(uncast(value), "concatenate")
    if node is None or len(node.inputs) != 2 or int(node.params["dimension"]) != 3:
        return None
    first, second = node.inputs
    return _of_halves(first, second) or _of_first_columns(value, first, second)


def _of_halves(first: Atom, second: Atom) -> Rope | None:
    """Matches `[x1 * cos - x2 * sin, x2 * cos + x1 * sin]`."""
    less, more = node_of(uncast(first), "sub"), node_of(uncast(second), "add")
    if less is None or more is None:
        return None
    for x1, cos in pairs(less.inputs[0], "mul"):
        for x2, sin in pairs(less.inputs[1], "mul"):
            one, other = part_of(x1), part_of(x2)
            if one is None or other is None or one[0] is not other[0]:
                continue
            width = one[0].shape[-1]
            if one[1:] != (0, width // 2, 1) or other[1:] != (width // 2, width, 1):
                continue
            for a, b in (more.inputs, more.inputs[::-1]):
                if _is_product(a, other, cos) and _is_product(b, one, sin):
                    return Rope(one[0], cos, sin, HALF)
    return None


def _of_first_columns(value: Var, first: Atom, second: Atom) -> Rope | None:
    """Matches `[rotated x[..., :n], x[..., n:]]`."""
    moved = uncast(first)
    rope = match_rope(moved) if isinstance(moved, Var) else None
    if rope is None or rope.whole is not None:
        return None
    one, other = part_of(rope.x), part_of(second)
    if one is None or other is None or one[0] is not other[0] or one[0].shape != value.shape:
        return None
    wanted = (0, rope.x.shape[-1], 1), (rope.x.shape[-1], value.shape[-1], 1)
    return rope._replace(whole=one[0]) if (one[1:], other[1:]) == wanted else None


def _is_product(value: Atom, part: tuple[Var, int, int, int], table: Atom) -> bool:
    return any(part_of(x) == part and _same_table(t, table) for x, t in pairs(value, "mul"))


def sizes(table: Atom) -> tuple[int, ...]:
    """The sizes in four dimensions after broadcasting, with 1 along axes where a table is known to repeat."""
    shape = table.compact.shape if isinstance(table, Const) else table.shape
    return (1,) * (4 - len(shape)) + tuple(shape)


def _same_table(a: Atom, b: Atom) -> bool:
    """Whether two broadcasts are of the same value, along the same axes."""
    if a is b:
        return True
    if isinstance(a, Const) or isinstance(b, Const):
        if isinstance(a, Var) or isinstance(b, Var):
            return False
        return a.compact.shape == b.compact.shape and bool((a.compact == b.compact).all())
    x, y = (node_of(v, "broadcast_in_dim", "convert_element_type") for v in (a, b))
    if x is None or y is None or x.name != y.name or a.shape != b.shape or a.dtype != b.dtype:
        return False
    axes = [tuple(n.params["broadcast_dimensions"]) for n in (x, y) if n.name == "broadcast_in_dim"]
    return (not axes or axes[0] == axes[1]) and _same_table(x.inputs[0], y.inputs[0])


def _rotated(value: Atom) -> Var | None:
    """x if the value is `concatenate([-x[..., half:], x[..., :half]])`."""
    node = node_of(uncast(value), "concatenate")
    if node is None or len(node.inputs) != 2 or int(node.params["dimension"]) != len(value.shape) - 1:
        return None
    negated = node_of(uncast(node.inputs[0]), "neg")
    one = part_of(node.inputs[1])
    other = part_of(negated.inputs[0]) if negated is not None else None
    if one is None or other is None or one[0] is not other[0]:
        return None
    width = value.shape[-1]
    return one[0] if one[1:] == (0, width // 2, 1) and other[1:] == (width // 2, width, 1) else None


def _rotated_pairs(value: Atom) -> Var | None:
    """x if the value is `stack([-x[..., 1::2], x[..., ::2]], -1)` with the last two axes joined."""
    joined = node_of(uncast(value), *SAME_ORDER)
    node = node_of(uncast(joined.inputs[0]), "stack") if joined is not None else None
    if node is None or len(node.inputs) != 2 or int(node.params["axis"]) != len(value.shape):
        return None
    odd, even = node.inputs
    negated = node_of(uncast(odd), "neg")
    if negated is None:
        return None
    places = [part_of(v) for v in (even, negated.inputs[0])]
    if places[0] is None or places[1] is None or places[0][0] is not places[1][0]:
        return None
    x = places[0][0]
    strided = all(place is not None and place[3] == 2 and place[2] >= x.shape[-1] - 1 for place in places)
    in_order = (places[0][1], places[1][1]) == (0, 1) and x.shape[-1] % 2 == 0
    return x if strided and in_order and x.shape == value.shape else None


def has_equal_halves(table: Atom) -> bool:
    """Whether the two halves of each row are known to be equal."""
    if isinstance(table, Const):
        half = table.compact.shape[-1] // 2
        return bool((table.compact[..., :half] == table.compact[..., half:]).all())
    node = table.node
    if node is not None and node.name == "concatenate":
        last = int(node.params["dimension"]) == len(table.shape) - 1
        return last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
    return _follows(table, has_equal_halves)


def has_equal_pairs(table: Atom) -> bool:
    """Whether neighbours in each row are known to be equal."""
    if isinstance(table, Const):
        return bool((table.compact[..., ::2] == table.compact[..., 1::2]).all())
    node = table.node
    if (
        node is not None
        and node.name in SAME_ORDER
        and node.inputs[0].shape == (*table.shape[:-1], table.shape[-1] // 2, 2)
    ):
        return _repeats_last(node.inputs[0])
    return _follows(table, has_equal_pairs)


def _repeats_last(value: Atom) -> bool:
    """Whether one element is repeated along the last axis."""
    node = value.node
    if node is None:
        return False
    if node.name == "stack":
        return int(node.params["axis"]) == len(value.shape) - 1 and all(v is node.inputs[0] for v in node.inputs)
    if node.name != "broadcast_in_dim":
        return False
    axes = [int(a) for a in node.params["broadcast_dimensions"]]
    last = len(value.shape) - 1
    return last not in axes or node.inputs[0].shape[axes.index(last)] == 1


def _follows(table: Atom, holds: Callable[[Atom], bool]) -> bool:
    """Whether a property of rows follows for a table from the tables that it is computed from."""
    node = table.node
    if node is None:
        return False
    operand = node.inputs[0]
    if node.name in ("cos", "sin", "convert_element_type", "copy", "neg", "stop_gradient"):
        return holds(operand)
    if node.name == "mul":
        return all((isinstance(v, Const) and v.scalar is not None) or holds(v) for v in node.inputs)
    kept = bool(operand.shape) and operand.shape[-1] == table.shape[-1]
    if node.name == "broadcast_in_dim":
        axes = node.params["broadcast_dimensions"]
        return kept and len(axes) > 0 and int(axes[-1]) == len(table.shape) - 1 and holds(operand)
    # Slices and gathers keep the property if they take whole rows.
    return node.name in (*SAME_ORDER, "slice", "gather") and kept and holds(operand)


class Rotations(Emission):
    """Emits rotations."""

    def table(
        self, table: Atom, user: Node, found: Rope, order: Sequence[int], batch: int, sequence: int
    ) -> build.Value:
        """Half of each row of a rotary table, f32 [batch * sequence, width / 2], where batch may be 1.

        order: the axes of the table in the order [batch, sequence, heads, width].
        """
        raise NotImplementedError

    def rope(self, var: Var, node: Node, found: Rope) -> Value:
        """Emits a rotary embedding."""
        value = self.value(found.whole or found.x, node)
        # The axes as [batch, sequence, heads, width], with heads and positions exchanged or not.
        both = ((0, 2, 1, 3), (0, 1, 2, 3))
        orders = [o for o in both if value.layout.permute(o).is_row_major(value.elements)]
        if not orders:
            by = next((o for o in both if sizes(found.cos)[o[2]] == 1), both[0])
            ordered = self.in_order(Value(value.matrix, value.layout.permute(by)), node)
            value = Value(ordered, row_major([var.shape[a] for a in by]).permute(by))
            orders = [by, (0, 1, 2, 3)] if value.layout.is_row_major(value.elements) else [by]
        order = next((o for o in orders if sizes(found.cos)[o[2]] == 1), orders[0])
        batch, sequence, heads, columns = (var.shape[a] for a in order)
        tables = [self.table(t, node, found, order, batch, sequence) for t in (found.cos, found.sin)]
        matrix = self.function.reshape(self.wide(value.matrix, var), (batch * sequence, heads * columns))
        made = self.function.rope(matrix, tables[0], tables[1], heads, found.interleaved)
        return Value(self.function.cast(made, var.dtype), value.layout)
