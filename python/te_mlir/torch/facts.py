"""What is known of a value in a graph whose sizes are rounded up: which elements are used, and what the others are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Content(NamedTuple):
    """What padded elements are: numbers from lo to hi, and with copies, equal to the last used element of their axis."""

    lo: float = -math.inf
    hi: float = math.inf
    copies: bool = False

    @property
    def is_number(self) -> bool:
        """Whether all of them are one number, which is `lo`."""
        return self.lo == self.hi


#: Padding that may be anything finite, that repeats the last used element, or that is zero.
ANY, COPY, ZERO = Content(), Content(copies=True), Content(0.0, 0.0)


class Factor(NamedTuple):
    """A part of an axis: `size` elements, of which the first `used` ones are used. pad: what the others are."""

    used: int
    size: int
    pad: Content = ANY

    @property
    def is_padded(self) -> bool:
        return self.used != self.size


#: The factors of an axis, in row-major order. Those of size 1 are left out, and neighbours without padding are merged.
Axis = tuple[Factor, ...]


def axis_of(factors: Sequence[Factor]) -> Axis:
    """The axis with these factors."""
    found: list[Factor] = []
    for factor in factors:
        if factor.used == factor.size == 1:
            continue
        if found and not found[-1].is_padded and not factor.is_padded:
            size = found.pop().size * factor.size
            factor = Factor(size, size)
        found.append(factor)
    return tuple(found)


class Fact(NamedTuple):
    """What is known of a value: its axes, and bounds of its used elements."""

    axes: tuple[Axis, ...]
    lo: float = -math.inf
    hi: float = math.inf

    @property
    def padded(self) -> list[Factor]:
        """The factors with padding."""
        return [factor for axis in self.axes for factor in axis if factor.is_padded]

    @property
    def is_zero(self) -> bool:
        """Whether each padded element is 0. If several factors have padding, nothing is known of elements in both."""
        return len(self.padded) == 1 and self.padded[0].pad == ZERO

    def filled(self, pad: Content) -> Fact:
        """The value with other padding."""
        return Fact(tuple(tuple(f._replace(pad=pad) if f.is_padded else f for f in axis) for axis in self.axes))

    def is_whole(self, *axes: int) -> bool:
        """Whether these axes have no padding."""
        return not any(factor.is_padded for axis in axes for factor in self.axes[axis])


def whole(shape: Sequence[int]) -> Fact:
    """A value without padding."""
    return Fact(tuple(axis_of([Factor(size, size)]) for size in shape))


def reshaped(fact: Fact, used: Sequence[int], shape: Sequence[int]) -> Fact | None:
    """The value with another shape, in which `used` elements of each axis are used; None if padding is not at the end."""
    left = [factor for axis in fact.axes for factor in axis]
    if not fact.padded:
        return whole(shape) if list(used) == list(shape) else None
    axes: list[Axis] = []
    for target in zip(used, shape):
        axis: list[Factor] = []
        rest = target
        while rest != (1, 1):
            if not left or 0 in rest:
                return None
            factor = left.pop(0)
            if rest[0] % factor.used == 0 and rest[1] % factor.size == 0:
                rest = (rest[0] // factor.used, rest[1] // factor.size)
            elif (
                factor.used % rest[0] == factor.size % rest[1] == 0 and factor.used // rest[0] == factor.size // rest[1]
            ):
                inner = factor.used // rest[0]
                left.insert(0, Factor(inner, inner))
                factor, rest = Factor(*rest, factor.pad), (1, 1)
            else:
                return None
            axis.append(factor)
        axes.append(axis_of(axis))
    return None if left else fact._replace(axes=tuple(axes))


def aligned(facts: Sequence[Fact], rank: int) -> list[tuple[Axis, list[Axis]]] | None:
    """For each axis of the result of an elementwise op, that axis and those of the operands; None if they do not match."""
    found = []
    for axis in range(rank):
        own = []
        for fact in facts:
            place = axis - (rank - len(fact.axes))
            own.append(fact.axes[place] if place >= 0 else ())
        sizes = {tuple(factor[:2] for factor in one) for one in own if one}
        if len(sizes) > 1:
            return None
        found.append((next((one for one in own if one), ()), own))
    return found
