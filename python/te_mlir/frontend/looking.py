"""Helpers of patterns: they look through casts, broadcasts and views, and match operands in any order.

Inside a pattern, casts between floats of at most 32 bits are ignored, because te computes a pattern
in f32 and rounds once. The operands and the result of a pattern are rounded where the program rounds
them. Looking through a broadcast yields the axis along which a vector is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from te_mlir.frontend.graph import Atom, Const, Node, Var, width

#: Views that leave the elements in their order.
SAME_ORDER = ("reshape", "squeeze", "expand_dims")


def node_of(value: Atom, *names: str) -> Node | None:
    """The node that computes `value`, if it has one of these names and a pattern may contain it."""
    node = value.node
    return node if node is not None and node.name in names and not node.apart else None


def uncast(value: Atom) -> Atom:
    """The value before casts between floats, and copies.

    Does not look through casts to a type of one byte, which quantise, or casts of float64, which te does not have.
    """
    while True:
        node = node_of(value, "convert_element_type", "copy", "reduce_precision")
        if node is None or not node.output.floating or not isinstance(node.inputs[0], Var):
            return value
        if not node.inputs[0].floating or any(width(v.dtype) not in (2, 4) for v in (node.inputs[0], value)):
            return value
        value = node.inputs[0]


def is_widened(value: Atom) -> bool:
    """Whether a value was rounded to another type of at most its width, where a pattern would not round."""
    while True:
        node = node_of(value, "convert_element_type", "copy")
        if node is None or not isinstance(node.inputs[0], Var) or not node.inputs[0].floating:
            return False
        before, after = node.inputs[0].dtype, value.dtype
        if before != after and width(before) <= width(after):
            return True
        value = node.inputs[0]


def narrowest(value: Atom) -> Atom:
    """The value before widening casts. Does not look through casts that round."""
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
    """Whether two values are the same value, possibly cast to wider types, and rounded in the same way."""
    while True:
        a, b = narrowest(a), narrowest(b)
        if a is b:
            return True
        x, y = (node_of(v, "convert_element_type", "reduce_precision") for v in (a, b))
        if x is None or y is None or a.dtype != b.dtype or (x.name, x.params) != (y.name, y.params):
            return False
        a, b = x.inputs[0], y.inputs[0]


def scalar(value: Atom) -> float | None:
    """The number in every element of a constant."""
    return value.scalar if isinstance(value, Const) else None


def pairs(value: Atom, *names: str) -> Iterator[tuple[Atom, Atom]]:
    """The operands of a binary operation, in both orders."""
    node = node_of(uncast(value), *names)
    if node is not None and len(node.inputs) == 2:
        a, b = node.inputs
        yield a, b
        yield b, a


def factors_of(value: Atom) -> list[Atom]:
    """The factors of a product, including those of products among them."""
    node = node_of(uncast(value), "mul")
    if node is None:
        return [value]
    return factors_of(node.inputs[0]) + factors_of(node.inputs[1])


def is_about(value: Atom, number: float) -> bool:
    """Whether every element of a constant is a given number, rounded to the constant's type."""
    found = scalar(value)
    return found is not None and abs(found - number) <= abs(number) * rounding(value)


#: Bits of a significand, without the leading bit.
_SIGNIFICANDS = {"float64": 52, "float32": 23, "bfloat16": 7, "float16": 10}


def rounding(value: Atom) -> float:
    """The relative tolerance for constants of a program.

    Programs round constants to their type, and often write them with six digits in f32. Numbers that the program
    passes directly have nine digits.
    """
    if isinstance(value, Const) and value.exact:
        return 2.0**-30
    # Integers are exact; no pattern has types of one byte.
    bits = _SIGNIFICANDS.get(value.dtype)
    return max(2.0**-bits, 2.0**-18) if bits is not None else 0.0


def of_rows(value: Atom) -> Atom:
    """A value with one element for each row, without the axes that were added at the end.

    Looks only through broadcasts that do not move the axes before the last.
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
    """The vector of `size` elements that is repeated to form a value, rounded as in the value."""
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
    """(x, axes) if the value is the mean of x over axes."""
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
    """x if the value is the mean of x over its last axis."""
    found = mean_of(value)
    return found[0] if found is not None and found[1] == (len(found[0].shape) - 1,) else None


def part_of(value: Atom) -> tuple[Var, int, int, int] | None:
    """(x, first, end, step) if the value is a slice of only the last axis of x."""
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
