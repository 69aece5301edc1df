"""Looking through a graph: below casts, broadcasts and views, and at the operands of an operation in any order.

Casts between floats of at most 32 bits are followed inside of a group of operations: te
computes the groups that patterns find in f32 and rounds once. A value that goes into a
group, and one that comes out of it, is rounded where the program rounds it. Broadcasts
are followed where they say along which axis a vector is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from te_mlir.frontend.graph import Atom, Const, Node, Var, width

#: Views that leave the elements in their order.
SAME_ORDER = ("reshape", "squeeze", "expand_dims")


def node_of(value: Atom, *names: str) -> Node | None:
    """The node that makes `value`, if it is one of these, and a pattern may take it in."""
    node = value.node
    return node if node is not None and node.name in names and not node.apart else None


def uncast(value: Atom) -> Atom:
    """What casts between floats, and copies, are of.

    Casts to a type of one byte, which are quantisation, and casts of float64, in which te does not compute, stay.
    """
    while True:
        node = node_of(value, "convert_element_type", "copy", "reduce_precision")
        if node is None or not node.output.floating or not isinstance(node.inputs[0], Var):
            return value
        if not node.inputs[0].floating or any(width(v.dtype) not in (2, 4) for v in (node.inputs[0], value)):
            return value
        value = node.inputs[0]


def is_widened(value: Atom) -> bool:
    """Whether a value was rounded to another type than its own, of at most its width: a pattern would not round there."""
    while True:
        node = node_of(value, "convert_element_type", "copy")
        if node is None or not isinstance(node.inputs[0], Var) or not node.inputs[0].floating:
            return False
        before, after = node.inputs[0].dtype, value.dtype
        if before != after and width(before) <= width(after):
            return True
        value = node.inputs[0]


def narrowest(value: Atom) -> Atom:
    """What widening casts are of: a cast that rounds stays."""
    while True:
        node = node_of(value, "convert_element_type", "copy")
        if node is None or not isinstance(node.inputs[0], Var) or not node.inputs[0].floating:
            return value
        before, after = node.inputs[0].dtype, value.dtype
        if before != after and width(before) >= width(after):
            return value
        value = node.inputs[0]


def leaf(value: Atom) -> Var:
    found = narrowest(value)
    assert isinstance(found, Var)
    return found


def is_same(a: Atom, b: Atom) -> bool:
    """Whether two values are one, perhaps cast to wider types, and rounded alike."""
    while True:
        a, b = narrowest(a), narrowest(b)
        if a is b:
            return True
        x, y = (node_of(v, "convert_element_type", "reduce_precision") for v in (a, b))
        if x is None or y is None or a.dtype != b.dtype or (x.name, x.params) != (y.name, y.params):
            return False
        a, b = x.inputs[0], y.inputs[0]


def scalar(value: Atom) -> float | None:
    """The number that every element of a constant is."""
    return value.scalar if isinstance(value, Const) else None


def pairs(value: Atom, *names: str) -> Iterator[tuple[Atom, Atom]]:
    """The operands of a binary operation, in both orders."""
    node = node_of(uncast(value), *names)
    if node is not None and len(node.inputs) == 2:
        a, b = node.inputs
        yield a, b
        yield b, a


def factors_of(value: Atom) -> list[Atom]:
    """What a product is of, also those of products in it."""
    node = node_of(uncast(value), "mul")
    if node is None:
        return [value]
    return factors_of(node.inputs[0]) + factors_of(node.inputs[1])


def is_about(value: Atom, number: float) -> bool:
    """Whether every element of a constant is a number, as the constant's type rounds it."""
    found = scalar(value)
    return found is not None and abs(found - number) <= abs(number) * rounding(value)


#: Bits of a significand, without the first.
_SIGNIFICANDS = {"float64": 52, "float32": 23, "bfloat16": 7, "float16": 10}


def rounding(value: Atom) -> float:
    """How far the constants of a program are from what is meant, relative to it.

    Rounded, and in f32 to six digits; numbers that the program has as they are, to nine.
    """
    if isinstance(value, Const) and value.exact:
        return 2.0**-30
    # Integers are what is meant; types of one byte are in no pattern.
    bits = _SIGNIFICANDS.get(value.dtype)
    return max(2.0**-bits, 2.0**-18) if bits is not None else 0.0


def of_rows(value: Atom) -> Atom:
    """What a value with one element for each row is, without the axes that were added behind.

    Each broadcast that is followed keeps the axes before the last where they are.
    """
    while True:
        value = uncast(value)
        node = node_of(value, "broadcast_in_dim", *SAME_ORDER)
        if node is None:
            return value
        operand = node.inputs[0]
        if node.name == "broadcast_in_dim":
            axes = tuple(int(a) for a in node.params["broadcast_dimensions"])
            if axes != tuple(range(len(axes))) or len(axes) < len(value.shape) - 1:
                return value
            if operand.shape[: len(value.shape) - 1] != value.shape[:-1]:
                return value
        elif _without_last_one(operand.shape) != _without_last_one(value.shape):
            return value
        value = operand


def _without_last_one(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:-1] if shape and shape[-1] == 1 else shape


def vector(value: Atom, size: int) -> Var | None:
    """The vector of `size` that is repeated along the last axis of a value, rounded as it is there."""
    while True:
        value = narrowest(value)
        if isinstance(value, Const) or not value.shape or value.shape[-1] != size:
            return None
        if value.shape == (size,):
            return value
        node = node_of(value, "broadcast_in_dim", *SAME_ORDER)
        if node is None:
            return None
        operand = node.inputs[0]
        if node.name == "broadcast_in_dim":
            axes = node.params["broadcast_dimensions"]
            if not axes or int(axes[-1]) != len(value.shape) - 1:
                return None
        elif math.prod(value.shape) != size:
            return None
        value = operand


def mean_of(value: Atom) -> tuple[Var, tuple[int, ...]] | None:
    """(x, axes) of the mean of x over axes."""
    value = of_rows(value)
    mean = node_of(value, "mean")
    if mean is not None and isinstance(mean.inputs[0], Var):
        return mean.inputs[0], tuple(int(a) for a in mean.params["axes"])
    found = [(a, b, -1) for a, b in pairs(value, "mul")]
    quotient = node_of(value, "div")
    if quotient is not None:
        found.append((quotient.inputs[0], quotient.inputs[1], 1))
    for total, number, power in found:
        node = node_of(of_rows(total), "reduce_sum") if isinstance(number, Const) else None
        if node is None or not isinstance(node.inputs[0], Var):
            continue
        operand, axes = node.inputs[0], tuple(int(a) for a in node.params["axes"])
        size = math.prod(operand.shape[a] for a in axes)
        if size and is_about(number, size**power):
            return operand, axes
    return None


def row_mean(value: Atom) -> Var | None:
    """x of the mean of x over its last axis."""
    found = mean_of(value)
    return found[0] if found is not None and found[1] == (len(found[0].shape) - 1,) else None


def part_of(value: Atom) -> tuple[Var, int, int, int] | None:
    """(x, first, end, step) of a slice of the last axis of x, all of the others."""
    value = narrowest(value)
    node = node_of(value, "slice", "split")
    if node is None or not isinstance(node.inputs[0], Var):
        return None
    operand, last = node.inputs[0], len(value.shape) - 1
    if node.name == "split":
        if int(node.params["axis"]) != last:
            return None
        place = next(n for n, output in enumerate(node.outputs) if output is value)
        first = sum(int(s) for s in node.params["sizes"][:place])
        return leaf(operand), first, first + value.shape[-1], 1
    strides = tuple(int(s) for s in node.params["strides"] or (1,) * len(operand.shape))
    if operand.shape[:-1] != value.shape[:-1] or any(s != 1 for s in strides[:-1]):
        return None
    return leaf(operand), int(node.params["start_indices"][-1]), int(node.params["limit_indices"][-1]), strides[-1]


def counts_along(value: Const, axis: int) -> bool:
    """Whether each element of a constant is its index along an axis."""
    shape = [1] * len(value.shape)
    shape[axis] = value.shape[axis]
    return bool((value.array() == np.arange(value.shape[axis]).reshape(shape)).all())
