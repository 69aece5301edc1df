"""The base of all emission to the dialect: values in matrices, operands, and the methods that each framework defines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from te_mlir import build
from te_mlir.dtypes import BY_NAME
from te_mlir.errors import ArgumentError
from te_mlir.frontend.graph import Atom, Node, Var, is_floating, short, width
from te_mlir.layout import Layout, moves_of, row_major

#: The types of the results of products and most operations.
FLOATS = "te has float32, bfloat16, float16"


class Unsupported(Exception):
    """An operation that the dialect cannot express, with the reason.

    place: that operation, or a value from outside. always: whether this holds for all operands; otherwise, the cause
    may be how an operand is computed.
    """

    def __init__(self, place: Node | Var | None, reason: str, always: bool = False) -> None:
        self.place, self.reason, self.always = place, reason, always
        super().__init__(reason)

    @property
    def origin(self) -> Any:
        """The framework's own object for the place."""
        return self.place.origin if self.place is not None else None


class Value(NamedTuple):
    """An emitted value: the matrix that it is stored in, and the layout of its elements in the matrix."""

    matrix: build.Value
    layout: Layout

    @property
    def elements(self) -> int:
        return math.prod(self.matrix.shape)


def te_name(dtype: str) -> str | None:
    """The dialect's name of an element type; None if it does not have the type."""
    return dtype if dtype in BY_NAME and BY_NAME[dtype].bytes > 1 else None


class Emission:
    """Emits values of a graph into one function."""

    def __init__(self, function: build.Function) -> None:
        self.function = function
        self._values: dict[Atom, Value] = {}
        #: The elements of views in order, which all readers share.
        self._ordered: dict[Value, build.Value] = {}
        #: Attention that is compiled as products and a softmax, with the reasons.
        self.spelled: list[tuple[Node, str]] = []

    # Defined by each frontend

    def given(self, atom: Atom, user: Node | None) -> Value | None:
        """The argument that a value is, or that is computed from it before the call; None if it must be emitted."""
        raise NotImplementedError

    def lacks(self, node: Node) -> Unsupported:
        """The error for an operation that is not imported."""
        raise NotImplementedError

    def is_inside(self, var: Var) -> bool:
        """Whether a value would be emitted, instead of coming from outside."""
        return True

    def is_given(self, atom: Atom) -> bool:
        """Whether a value is available before the compiled part of each call, so that it can be checked."""
        return False

    def readers(self, var: Var) -> Iterable[Node]:
        """The nodes that read a value, among those that results need."""
        raise NotImplementedError

    def operand(self, atom: Atom, user: Node) -> Value:
        """The operand of an elementwise operation."""
        return self.value(atom, user)

    def matched(self, var: Var, node: Node) -> Value | None:
        """Emits the value as the pattern that ends in it; None if no pattern does."""
        raise NotImplementedError

    # Values

    def is_made(self, atom: Atom) -> bool:
        """Whether a value has been emitted."""
        return atom in self._values

    def value(self, atom: Atom, user: Node | None = None) -> Value:
        """The value, which is emitted now if it was not before."""
        if atom not in self._values:
            made = self.given(atom, user)
            if made is None:
                assert isinstance(atom, Var), "constants are given"
                made = self.emit(atom)
            self._values[atom] = made
        return self._values[atom]

    def emit(self, var: Var) -> Value:
        """Emits the operation that computes a value."""
        node = var.node
        assert node is not None, "a value without a node is given"
        if te_name(var.dtype) is None:
            raise Unsupported(node, f"its result has elements of {short(var.dtype)}; {FLOATS}")
        made = self.matched(var, node)
        if made is None:
            method = getattr(self, f"_op_{node.name}", None)
            if method is None:
                raise self.lacks(node)
            try:
                made = method(var, node)
            except ArgumentError as error:
                raise Unsupported(node, str(error), always=True) from None
        # An operand of size 1 along an axis would be repeated, which elementwise ops of the dialect do not support.
        if made.layout.shape != var.shape:
            shapes = " and ".join(str(list(v.shape)) for v in node.inputs)
            raise Unsupported(node, f"its operands {shapes} are broadcast")
        return made

    def dense(self, var: Var, matrix: build.Value) -> Value:
        """The value `var`, which is row-major in `matrix`, cast to the element type of `var`."""
        if math.prod(matrix.shape) != math.prod(var.shape):
            raise Unsupported(var.node, f"its operand is broadcast to {list(var.shape)}")
        return Value(self.function.cast(matrix, var.dtype), row_major(var.shape))

    def wide(self, matrix: build.Value, var: Var) -> build.Value:
        """The operand of an op that computes `var`, cast to the type of `var` if that is wider.

        The result is then rounded where the program rounds it.
        """
        wider = BY_NAME[matrix.dtype].bytes < width(var.dtype)
        return self.function.cast(matrix, var.dtype) if wider else matrix

    def rows(self, atom: Atom, user: Node, columns: int | None = None) -> build.Value:
        """A value as a matrix with `columns` columns, by default as many as its last dimension has."""
        columns = columns or (atom.shape[-1] if atom.shape else 1)
        if not columns:
            raise Unsupported(user, f"its operand {list(atom.shape)} has no columns")
        elements = self.in_order(self.value(atom, user), user)
        return self.function.reshape(elements, (math.prod(elements.shape) // columns, columns))

    def rows_in_place(self, x: Atom, user: Node) -> tuple[build.Value, Layout]:
        """The rows of a value as a matrix, in any order, and the layout of its elements there."""
        value, columns = self.value(x, user), x.shape[-1]
        if not value.layout.is_whole(value.elements) or not Layout(value.layout.dims[-1:]).is_row_major(columns):
            return self.rows(x, user), row_major(x.shape)
        return self.function.reshape(value.matrix, (value.elements // columns, columns)), value.layout

    def in_order(self, value: Value, user: Node | None) -> build.Value:
        """The elements of a value in order: its matrix, or a vector of them if they are stored in another order."""
        if value.layout.is_row_major(value.elements):
            return value.matrix
        if value not in self._ordered:
            self._ordered[value] = self._moved_in_order(value, user)
        return self._ordered[value]

    def _moved_in_order(self, value: Value, user: Node | None) -> build.Value:
        shape = list(value.layout.shape)
        found = moves_of(value.layout, value.elements)
        if found is None or value.matrix.dtype == "int32" or not math.prod(shape):
            raise Unsupported(user, f"its operand {shape} is a view that is not row-major in memory")
        made = self.function.reshape(value.matrix, found.extents)
        made = self.function.reshape(self.function.extract_slice(made, found.starts, found.counts), found.sizes)
        made = self.function.transpose(made, found.order)
        if found.repeated:
            made = self.function.broadcast(made, found.shape, found.repeated)
        return self.function.reshape(made, (math.prod(shape),))

    def vector(self, atom: Atom, user: Node, dtype: str) -> build.Value:
        """A value as a vector of elements `dtype`."""
        elements = self.in_order(self.value(atom, user), user)
        return self.function.cast(self.function.reshape(elements, (math.prod(elements.shape),)), dtype)

    def check_floats(self, node: Node) -> None:
        """Raises Unsupported if an operand of a GEMM has elements of integers, which JAX multiplies with floats."""
        for operand in node.inputs:
            if not is_floating(operand.dtype):
                reason = f"expected operands of floats, but got {short(operand.dtype)}; cast it before the product"
                raise Unsupported(node, reason, always=True)

    def whole(self, atom: Atom, user: Node) -> Value:
        """A value that has each element of its matrix exactly once."""
        value = self.operand(atom, user)
        if value.layout.is_whole(value.elements):
            return value
        return Value(self.in_order(value, user), row_major(value.layout.shape))

    # Results

    def result(self, matrix: build.Value) -> int:
        """Makes `matrix` a result, and returns its index among the results."""
        for index, (value, _) in enumerate(self.function.results):
            if value is matrix:
                return index
        self.function.result(f"result{len(self.function.results)}", matrix)
        return len(self.function.results) - 1


def matrix_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the matrix, or the vector, in which a row-major value is stored."""
    return tuple(shape) if len(shape) <= 1 else (math.prod(shape[:-1]), shape[-1])
