"""What all emission to the dialect shares: values in matrices, operands, and what each framework says of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from te_mlir import build
from te_mlir.dtypes import BY_NAME
from te_mlir.frontend.graph import Atom, Node, Var, short, width
from te_mlir.layout import Layout, row_major

#: Types of what products and most operations make.
FLOATS = "te has float32, bfloat16, float16"


class Unsupported(Exception):
    """An operation that the dialect cannot express; `reason` says why.

    place: that operation, or a value from outside. always: it is so whatever the operands are; else what an
    operand is may be at fault.
    """

    def __init__(self, place: Node | Var | None, reason: str, always: bool = False) -> None:
        self.place, self.reason, self.always = place, reason, always
        super().__init__(reason)

    @property
    def origin(self) -> Any:
        """What the framework has for the place."""
        return self.place.origin if self.place is not None else None


class Value(NamedTuple):
    """A value of the graph: the matrix that holds it, and where its elements are in that."""

    matrix: build.Value
    layout: Layout

    @property
    def elements(self) -> int:
        return math.prod(self.matrix.shape)


def te_name(dtype: str) -> str | None:
    """The dialect's element type of arrays; None where it has none."""
    return dtype if dtype in BY_NAME and BY_NAME[dtype].bytes > 1 else None


class Emission:
    """Emits values of a graph into one function."""

    def __init__(self, function: build.Function) -> None:
        self.function = function
        self._values: dict[Atom, Value] = {}

    # What frameworks say

    def given(self, atom: Atom, user: Node | None) -> Value | None:
        """The argument that a value is, or is made of before the call; None where it is to be emitted."""
        raise NotImplementedError

    def lacks(self, node: Node) -> Unsupported:
        """Why an operation that is not known is not imported."""
        raise NotImplementedError

    def is_inside(self, var: Var) -> bool:
        """Whether a value would be emitted, and not come from outside."""
        return True

    def is_given(self, atom: Atom) -> bool:
        """Whether a value is there before each call's compiled part, so that it can be looked at."""
        return False

    def readers(self, var: Var) -> Iterable[Node]:
        """The nodes that read a value, of those that results need."""
        raise NotImplementedError

    def operand(self, atom: Atom, user: Node) -> Value:
        """The operand of an elementwise operation."""
        return self.value(atom, user)

    def matched(self, var: Var, node: Node) -> Value | None:
        """The value as what a pattern found in it; None where none is found."""
        raise NotImplementedError

    # Values

    def is_made(self, atom: Atom) -> bool:
        """Whether a value is emitted."""
        return atom in self._values

    def value(self, atom: Atom, user: Node | None = None) -> Value:
        """The value, emitted now where it was not yet."""
        if atom not in self._values:
            made = self.given(atom, user)
            if made is None:
                assert isinstance(atom, Var), "constants are given"
                made = self.emit(atom)
            self._values[atom] = made
        return self._values[atom]

    def emit(self, var: Var) -> Value:
        """Emits the operation that makes a value."""
        node = var.node
        assert node is not None, "what nothing makes is given"
        if te_name(var.dtype) is None:
            raise Unsupported(node, f"its result has elements of {short(var.dtype)}; {FLOATS}")
        made = self.matched(var, node)
        if made is None:
            method = getattr(self, f"_op_{node.name}", None)
            if method is None:
                raise self.lacks(node)
            made = method(var, node)
        # Operands are repeated along axes of size 1.
        if made.layout.shape != var.shape:
            shapes = " and ".join(str(list(v.shape)) for v in node.inputs)
            raise Unsupported(node, f"its operands {shapes} are broadcast")
        return made

    def dense(self, var: Var, matrix: build.Value) -> Value:
        """The row-major value `var` in a matrix, in elements of its type."""
        if math.prod(matrix.shape) != math.prod(var.shape):
            raise Unsupported(var.node, f"what it is of is broadcast to {list(var.shape)}")
        return Value(self.function.cast(matrix, var.dtype), row_major(var.shape))

    def wide(self, matrix: build.Value, var: Var) -> build.Value:
        """The operand of an op that makes `var`: as wide as that, so that it is rounded where the program rounds it."""
        wider = BY_NAME[matrix.dtype].bytes < width(var.dtype)
        return self.function.cast(matrix, var.dtype) if wider else matrix

    def rows(self, atom: Atom, user: Node, columns: int | None = None) -> build.Value:
        """A value as a matrix of `columns` (else its last dimension) in row-major order."""
        value = self.value(atom, user)
        if not value.layout.is_row_major(value.elements):
            raise self.not_row_major(atom, user)
        columns = columns or (atom.shape[-1] if atom.shape else 1)
        if not columns:
            raise Unsupported(user, f"its operand {list(atom.shape)} has no columns")
        return self.function.reshape(value.matrix, (value.elements // columns, columns))

    def not_row_major(self, atom: Atom, user: Node) -> Unsupported:
        """Why a value cannot be read as rows."""
        return Unsupported(user, f"its operand {list(atom.shape)} is a view that is not row-major in memory")

    def vector(self, atom: Atom, user: Node, dtype: str) -> build.Value:
        """A value as a vector of elements `dtype`."""
        value = self.value(atom, user)
        if not value.layout.is_row_major(value.elements):
            raise Unsupported(user, "its vector is a view that is not row-major in memory")
        return self.function.cast(self.function.reshape(value.matrix, (value.elements,)), dtype)

    def whole(self, atom: Atom, user: Node) -> Value:
        """A value that has each element of its matrix once."""
        value = self.operand(atom, user)
        if not value.layout.is_whole(value.elements):
            raise Unsupported(user, f"its operand {list(atom.shape)} is a part of a value, or repeats it")
        return value

    # Results

    def result(self, matrix: build.Value) -> int:
        """Returns `matrix`; gives its place among the results."""
        for index, (value, _) in enumerate(self.function.results):
            if value is matrix:
                return index
        self.function.result(f"result{len(self.function.results)}", matrix)
        return len(self.function.results) - 1


def matrix_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the matrix, or the vector, that holds a row-major value."""
    return tuple(shape) if len(shape) <= 1 else (math.prod(shape[:-1]), shape[-1])
