"""The arguments of an imported function: how JAX computes them before the call, and which are weights."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from te_mlir import build
from te_mlir.frontend.base import FLOATS, Unsupported, Value, matrix_of, te_name
from te_mlir.frontend.emitter import Emitter
from te_mlir.frontend.graph import Atom, Const, Node, Var, ancestors, is_floating, readers_of, short
from te_mlir.frontend.looking import node_of, scalar
from te_mlir.frontend.views import viewed
from te_mlir.jax.graph import Graph, is_of_integers
from te_mlir.layout import Layout, row_major


class Feed(NamedTuple):
    """An argument of the compiled function, which JAX computes from the values of `atoms` before the call.

    make: computes the argument from these values; None if the argument is the value. name, shape, dtype:
    those of the argument. differentiable: whether it has a gradient.
    """

    atoms: tuple[Atom, ...]
    make: Callable[..., Any] | None
    name: str
    shape: tuple[int, ...]
    dtype: str
    differentiable: bool


#: Casts, and operations that move elements without changing them, which are cheap in JAX.
_VIEWS = frozenset(
    [
        "reshape",
        "transpose",
        "squeeze",
        "expand_dims",
        "broadcast_in_dim",
        "slice",
        "split",
        "convert_element_type",
        "copy",
        "rev",
        "concatenate",
        "stack",
        "pad",
    ]
)


#: Operations with truth values as results.
_COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"])

#: The names of results, cotangents and gradients of the compiled part.
_RESERVED = re.compile(r"result\d+|grad\..*")


class Arguments(Emitter):
    """Emits the arguments of a compiled function. names: the names of the inputs of `graph`."""

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        super().__init__(build.Function(build.Module(), "region", private=True))
        self.graph = graph
        self.names = dict(zip(graph.inputs, names))
        self.feeds: list[Feed] = []
        self._fed: dict[tuple[tuple[Atom, ...], str, tuple[int, ...], tuple[int, ...]], build.Value] = {}
        #: Weights, by the value that they are a view of and the shape in which they are read.
        self._parameters: dict[tuple[Atom, tuple[int, ...]], build.Value] = {}
        self._readers = readers_of(graph.outputs)

    def readers(self, var: Var) -> list[Node]:
        return self._readers.get(var, [])

    def feed(
        self,
        atom: Atom,
        key: str = "",
        make: Callable[..., Any] | None = None,
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        differentiable: bool = True,
        user: Node | None = None,
        how: tuple[int, ...] = (),
        others: tuple[Atom, ...] = (),
    ) -> build.Value:
        """The argument that `make` computes from JAX's values of `atom` and `others`.

        key, shape, how: identify what `make` does; feeds of the same values that agree in these share an argument.
        differentiable: whether the argument has a gradient, if it is floating-point. user: the operation to name in
        errors.
        """
        shape = tuple(shape if shape is not None else atom.shape)
        memo = (atom, *others), key, shape, how
        if memo in self._fed:
            return self._fed[memo]
        dtype = dtype or te_name(atom.dtype)
        if dtype is None:
            raise Unsupported(
                user, f"its operand has elements of {short(atom.dtype)}; te has float32, bfloat16, float16, int32"
            )
        label = self.label_of(atom) + (f".{key}" if key else "")
        if _RESERVED.fullmatch(label):
            label = "_" + label
        taken = {feed.name for feed in self.feeds}
        while label in taken:
            label += "_"
        value = self.function.argument(label, shape, dtype)
        floating = isinstance(atom, Var) and atom.floating and differentiable
        self.feeds.append(Feed((atom, *others), make, label, shape, dtype, floating))
        self._fed[memo] = value
        return value

    def label_of(self, atom: Atom) -> str:
        current: Atom = atom
        while isinstance(current, Var) and current.node is not None and current.node.name in _VIEWS:
            current = current.node.inputs[0]
        return self.names[current] if isinstance(current, Var) and current in self.names else f"value{len(self.feeds)}"

    def is_light(self, atom: Atom) -> bool:
        """Whether JAX computes a value from an argument only by moving and casting elements (a *light* value)."""
        if isinstance(atom, Const) or atom.node is None:
            return True
        return atom.node.name in _VIEWS and all(map(self.is_light, atom.node.inputs))

    def _is_known_number(self, atom: Atom) -> bool:
        """Whether a value is a number that JAX computes from integers and constants, such as a count of tokens."""
        if isinstance(atom, Const) or atom.shape or atom.node is None or not atom.floating:
            return False
        nodes = ancestors(atom)
        given = [v for node in nodes for v in node.inputs if v.node is None and is_floating(v.dtype)]
        return all(node.name != "dot_general" for node in nodes) and all(scalar(v) is not None for v in given)

    def _is_cast(self, atom: Atom) -> bool:
        """Whether a value is a cast of comparisons of integers, such as a mask of tokens that is multiplied."""
        if isinstance(atom, Const) or atom.node is None or atom.node.name != "convert_element_type":
            return False
        operand = atom.node.inputs[0]
        if operand.dtype != "bool" or not isinstance(operand, Var) or not is_of_integers(operand):
            return False
        return all(node.name in _VIEWS or node.name in _COMPARISONS for node in ancestors(operand))

    def truths(self, atom: Atom, user: Node) -> Value | None:
        if not isinstance(atom, Const) and not is_of_integers(atom):
            return None
        repeats = node_of(atom, "broadcast_in_dim")
        if repeats is not None:
            inner = self.truths(repeats.inputs[0], user)
            layout = inner and viewed(repeats.output, repeats, inner.layout)
            if inner is not None and layout is not None:
                return Value(inner.matrix, layout)
        shape = matrix_of(atom.shape)
        make = lambda a: a.astype("float32").reshape(shape)
        matrix = self.feed(atom, "truth", make, shape, "float32", differentiable=False, user=user)
        return Value(matrix, row_major(atom.shape))

    def given(self, atom: Atom, user: Node | None) -> Value | None:
        known = self._is_known_number(atom) or self._is_cast(atom)
        light = isinstance(atom, Const) or atom.node is None or not atom.floating or known
        if not light and not (self.is_light(atom) and self.layout_of(atom) is None):
            return None
        if isinstance(atom, Var) and not atom.floating and atom.dtype != "int32":
            raise Unsupported(
                user, f"its operand has elements of {short(atom.dtype)}; te has float32, bfloat16, float16, int32"
            )
        shape, matrix_shape = atom.shape, matrix_of(atom.shape)
        make = None if shape == matrix_shape else (lambda a: a.reshape(matrix_shape))
        matrix = self.feed(atom, make=make, shape=matrix_shape, user=user, differentiable=not known)
        return Value(matrix, row_major(shape))

    def gain(self, atom: Atom, node: Node, dtype: str) -> build.Value:
        """The vector of a norm in elements `dtype`; a weight if it is a view or a cast of an argument."""
        if self.is_stored(atom, range(len(atom.shape))):
            return self.function.cast(self.parameter(atom, (math.prod(atom.shape),), node), dtype)
        return self.vector(atom, node, dtype)

    def parameter(self, atom: Atom, shape: tuple[int, ...], user: Node) -> build.Value:
        """The weight `atom`, a view of an argument in row-major order or a cast of one, as a matrix or vector of `shape`.

        JAX reshapes the argument before the call, because the compiler does not find a weight through a reshape.
        """
        key = atom, shape
        if key not in self._parameters:
            if isinstance(atom, Var) and atom.node is not None:
                dtype = te_name(atom.dtype)
                if dtype is None:
                    raise Unsupported(atom.node, f"its result has elements of {short(atom.dtype)}; {FLOATS}")
                made = self.function.cast(self.parameter(atom.node.inputs[0], shape, user), dtype)
            elif shape == matrix_of(atom.shape):
                made = self.value(atom, user).matrix
            elif shape == atom.shape:
                made = self.feed(atom, shape=shape, user=user)
            else:
                made = self.feed(atom, "matrix", lambda a: a.reshape(shape), shape, user=user)
            self.mark(made)
            self._parameters[key] = made
        return self._parameters[key]

    def is_stored(self, atom: Atom, order: Sequence[int]) -> bool:
        """Whether a light value, with its axes in this order, is row-major in the argument that it is a view of."""
        lies = self.layout_of(atom) if self.is_light(atom) else None
        return lies is not None and lies.permute(order).is_row_major(math.prod(atom.shape))

    def layout_of(self, atom: Atom) -> Layout | None:
        """The layout of a light value in the argument that it is a view of; None if JAX has to compute the value."""
        if isinstance(atom, Const) or atom.node is None:
            return row_major(atom.shape)
        operand = atom.node.inputs[0]
        if atom.node.name == "convert_element_type" and not (isinstance(operand, Var) and operand.floating):
            return None
        inner = self.layout_of(operand)
        lies = viewed(atom, atom.node, inner) if inner is not None else None
        return lies if lies is not None and lies.is_whole(math.prod(operand.shape)) else None

    def mark(self, matrix: build.Value) -> None:
        """Marks an argument as a weight."""
        for argument, attributes in self.function.arguments:
            if argument is matrix:
                attributes["te.weight"] = ""
