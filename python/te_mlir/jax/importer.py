"""From a graph to a function of the dialect.

Emission is on demand, from the results, so that an operation which a pattern takes in
(the mean of a norm, the mask of attention) is never emitted by itself. What JAX computes
before the call (indices, tables, transposed weights) is a `Feed`, an argument of the
function; JAX also differentiates it. Operations that cannot be emitted are collected,
with the reasons, so that one error names all of them.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from te_mlir import build
from te_mlir.dtypes import BY_NAME
from te_mlir.jax import losses, parts, patterns
from te_mlir.jax.graph import Atom, Const, Graph, Node, Var, ancestors, apply, custom_function, element_type, short
from te_mlir.jax.views import viewed
from te_mlir.layout import Layout, row_major, same


class Unsupported(Exception):
    """An operation that the dialect cannot express; the text says why.

    always: it is so whatever the operands are; else what an operand is may be at fault.
    """

    def __init__(self, node: Optional[Node], reason: str, always: bool = False) -> None:
        self.node, self.always = node, always
        super().__init__(f"{node.describe()}: {reason}" if node is not None else reason)


class Value(NamedTuple):
    """A value of the graph: the matrix that holds it, and how it lies there."""

    matrix: build.Value
    layout: Layout

    @property
    def elements(self) -> int:
        return math.prod(self.matrix.shape)


class Exit(NamedTuple):
    """A value that te gives: the place of its matrix among the results, and how it lies there."""

    place: int
    layout: Layout

    def restore(self, matrix: Any) -> Any:
        """The value, of the matrix."""
        atoms = [(size, stride, n) for n, (size, stride) in enumerate(a for dim in self.layout.dims for a in dim)]
        held = sorted(atoms, key=lambda atom: -atom[1])
        order = [[n for _, _, n in held].index(n) for n in range(len(atoms))]
        return matrix.reshape([size for size, _, _ in held]).transpose(order).reshape(self.layout.shape)


class Feed(NamedTuple):
    """An argument of the function: what JAX makes of a value before the call.

    make: from that value to the argument; None where it is the value. differentiable:
    whether a gradient of it exists.
    """

    atom: Atom
    make: Optional[Callable[[Any], Any]]
    name: str
    shape: Tuple[int, ...]
    dtype: str
    differentiable: bool


class _Operands(NamedTuple):
    """Of a product: x, the axes of its rows and those that are summed over, and the same of the weight.

    layout: how the product lies in a matrix [rows, columns], which a row of x and a column of the weight make.
    """

    x: Atom
    x_free: Tuple[int, ...]
    x_axes: Tuple[int, ...]
    w: Atom
    w_free: Tuple[int, ...]
    w_axes: Tuple[int, ...]
    layout: Layout

    @property
    def rows(self) -> int:
        return math.prod(self.x.shape[a] for a in self.x_free)

    @property
    def columns(self) -> int:
        return math.prod(self.w.shape[a] for a in self.w_free)


class _Product(NamedTuple):
    """A product, with a bias or without, and how it lies in its matrix [rows, columns]."""

    node: Node
    bias: Optional[Var]
    layout: Layout


#: Operations that move elements without changing them, and casts: cheap to do in JAX.
_VIEWS = frozenset(
    "reshape transpose squeeze expand_dims broadcast_in_dim slice split convert_element_type copy rev concatenate stack pad".split()
)


def te_name(dtype: Any) -> Optional[str]:
    """The dialect's element type of arrays; None where it has none."""
    name = str(element_type(dtype))
    return name if name in BY_NAME and BY_NAME[name].bytes > 1 else None


class Importer:
    """Emits values of a graph into one function. names: what the arguments are called."""

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        self.graph = graph
        self.names = dict(zip(graph.inputs, names))
        self.function = build.Function(build.Module(), "region", private=True)
        self.feeds: List[Feed] = []
        #: Why operations cannot be emitted, by their place in the program.
        self._unsupported: Dict[int, str] = {}
        self._fed: Dict[Tuple[Atom, str, Tuple[int, ...], Tuple[int, ...]], build.Value] = {}
        #: Weights, by what they are a view of and as what they are read.
        self._parameters: Dict[Tuple[Atom, Tuple[int, ...]], build.Value] = {}
        self._values: Dict[Atom, Value] = {}
        #: What reads each value.
        self.users = parts.users(graph.outputs)
        #: Those that stand in for what cannot be emitted, and views of them.
        self._broken: "Set[Atom]" = set()
        #: Values that te gives to JAX.
        self.exits: "Dict[Var, Exit]" = {}

    def import_all(self) -> "List[Optional[Exit]]":
        """Emits all that is needed; gives what te makes of each result of the graph."""
        for node in self.graph.effects:
            reason = "it has an effect beside its results, and te has none; leave it out of what is compiled"
            self._unsupported[node.index] = f"{node.describe()}: {reason}"
        limit = sys.getrecursionlimit()
        # Emission goes down from the results, some frames for each operation.
        sys.setrecursionlimit(max(limit, 40 * self.graph.count + 2000))
        try:
            return [self._exit(output) for output in self.graph.outputs]
        except Unsupported as unsupported:
            self._unsupported[-1] = str(unsupported)
            return []
        finally:
            sys.setrecursionlimit(limit)

    @property
    def reasons(self) -> List[str]:
        """Why operations cannot be emitted, in the order of the program."""
        return [self._unsupported[index] for index in sorted(self._unsupported)]

    def _exit(self, output: Atom) -> "Optional[Exit]":
        """What te makes of a result; None where JAX does, of arguments and of what is compiled for other results."""
        if not isinstance(output, Var) or output.node is None or self.is_light(output):
            return None
        if not output.floating:
            for operand in boundary(output, self.is_light):
                self.exits.setdefault(operand, self._result_of(operand))
            return None
        current = output
        value = self.value(current)
        while not value.layout.is_whole(value.elements):
            # A part of a value: te gives the whole, JAX cuts it.
            assert current.node is not None and isinstance(current.node.inputs[0], Var)
            current = current.node.inputs[0]
            value = self.value(current)
        self.exits[current] = self._result_of(current)
        return self.exits[current]

    def _result_of(self, var: Var) -> "Exit":
        value = self.value(var)
        if not value.layout.is_whole(value.elements):
            raise Unsupported(var.node, "what JAX computes of it needs a part of a compiled value")
        return Exit(self.result(value.matrix), value.layout)

    def result(self, matrix: build.Value) -> int:
        """Returns `matrix`; gives its place among the results."""
        for index, (value, _) in enumerate(self.function.results):
            if value is matrix:
                return index
        self.function.result(f"result{len(self.function.results)}", matrix)
        return len(self.function.results) - 1

    # Arguments

    def feed(
        self,
        atom: Atom,
        key: str = "",
        make: Optional[Callable[[Any], Any]] = None,
        shape: Optional[Sequence[int]] = None,
        dtype: Optional[str] = None,
        differentiable: bool = True,
        user: Optional[Node] = None,
        how: Tuple[int, ...] = (),
    ) -> build.Value:
        """The argument that is `make` of what JAX computes for `atom`; key, shape and `how` say what `make` does."""
        shape = tuple(shape if shape is not None else atom.shape)
        memo = atom, key, shape, how
        if memo in self._fed:
            return self._fed[memo]
        dtype = dtype or te_name(atom.dtype)
        if dtype is None:
            raise Unsupported(
                user, f"its operand has elements of {short(atom.dtype)}; te has float32, bfloat16, float16, int32"
            )
        label = self._label(atom) + (f".{key}" if key else "")
        if _RESERVED.fullmatch(label):
            label = "_" + label
        taken = {feed.name for feed in self.feeds}
        while label in taken:
            label += "_"
        value = self.function.argument(label, shape, dtype)
        floating = isinstance(atom, Var) and atom.floating and differentiable
        self.feeds.append(Feed(atom, make, label, shape, dtype, floating))
        self._fed[memo] = value
        return value

    def _label(self, atom: Atom) -> str:
        current: Atom = atom
        while isinstance(current, Var) and current.node is not None and current.node.name in _VIEWS:
            current = current.node.inputs[0]
        return self.names[current] if isinstance(current, Var) and current in self.names else f"value{len(self.feeds)}"

    def is_made(self, atom: Atom) -> bool:
        """Whether a value is emitted."""
        return atom in self._values

    def is_light(self, atom: Atom) -> bool:
        """Whether JAX makes it of an argument by moving and casting elements alone."""
        if isinstance(atom, Const) or atom.node is None:
            return True
        return atom.node.name in _VIEWS and all(map(self.is_light, atom.node.inputs))

    def _is_known_number(self, atom: Atom) -> bool:
        """Whether it is one number that JAX makes of integers and numbers, such as how many tokens count."""
        if isinstance(atom, Const) or atom.shape or atom.node is None or not atom.floating:
            return False
        nodes = ancestors(atom)
        given = [v for node in nodes for v in node.inputs if v.node is None and jnp.issubdtype(v.dtype, jnp.floating)]
        return all(node.name != "dot_general" for node in nodes) and all(patterns.scalar(v) is not None for v in given)

    # Values

    def value(self, atom: Atom, user: Optional[Node] = None) -> Value:
        """The value, emitted now where it was not yet. One that cannot be is noted, so that what uses it is looked at."""
        if atom in self._values:
            return self._values[atom]
        known = self._is_known_number(atom)
        light = isinstance(atom, Const) or atom.node is None or not atom.floating or known
        if light or (self.is_light(atom) and self._layout(atom) is None):
            if isinstance(atom, Var) and not atom.floating and atom.dtype != np.int32:
                raise Unsupported(
                    user, f"its operand has elements of {short(atom.dtype)}; te has float32, bfloat16, float16, int32"
                )
            shape, matrix_shape = atom.shape, _matrix_of(atom.shape)
            make = None if shape == matrix_shape else (lambda a: a.reshape(matrix_shape))
            matrix = self.feed(atom, make=make, shape=matrix_shape, user=user, differentiable=not known)
            self._values[atom] = Value(matrix, row_major(shape))
            return self._values[atom]
        assert isinstance(atom, Var) and atom.node is not None
        try:
            made = self._emit(atom, atom.node)
        except Unsupported as unsupported:
            broken = any(v in self._broken for v in atom.node.inputs)
            if unsupported.always or not broken:
                self._unsupported[unsupported.node.index if unsupported.node else -1] = str(unsupported)
            for operand in atom.node.inputs if unsupported.always else ():
                if isinstance(operand, Var) and operand.floating:
                    self.value(operand)
            dtype = te_name(atom.dtype) or "float32"
            made = Value(build.Value("%unsupported", atom.shape, dtype), row_major(atom.shape))
        self._values[atom] = made
        if made.matrix.name == "%unsupported":
            self._broken.add(atom)
        return made

    def _emit(self, var: Var, node: Node) -> Value:
        if te_name(var.dtype) is None:
            raise Unsupported(node, f"its result has elements of {short(var.dtype)}; {FLOATS}")
        made = self._emit_op(var, node)
        # Operations of jaxprs repeat operands along axes of size 1.
        if made.layout.shape != var.shape:
            shapes = " and ".join(str(list(v.shape)) for v in node.inputs)
            raise Unsupported(node, f"its operands {shapes} are broadcast")
        return made

    def _emit_op(self, var: Var, node: Node) -> Value:
        for pattern in (
            losses.match_cross_entropy,
            patterns.match_layer_norm,
            patterns.match_rms_norm,
            patterns.match_rope,
            patterns.match_activation,
        ):
            found = pattern(var)
            if found is not None:
                return getattr(self, "_" + type(found).__name__.lower())(var, node, found)
        rows = losses.match_rows(var)
        if rows is not None:
            # Its own operations are no matter.
            self.value(rows.logits)
            raise Unsupported(
                node,
                "the cross entropy of each row has no counterpart in te but in its sum, or mean, over all rows or "
                "those of a mask; weights that are known to be 0 or 1 are one: where(mask, loss, 0), loss * (w > 0)",
            )
        method = getattr(self, f"_op_{node.name}", None)
        if method is None:
            raise Unsupported(node, f"'{node.name}' has no counterpart in te{_HINTS.get(node.name, '')}", always=True)
        return method(var, node)

    def _dense(self, var: Var, matrix: build.Value) -> Value:
        """The row-major value `var` in a matrix, in elements of its type."""
        if math.prod(matrix.shape) != math.prod(var.shape):
            raise Unsupported(var.node, f"what it is of is broadcast to {list(var.shape)}")
        return Value(self.function.cast(matrix, np.dtype(var.dtype).name), row_major(var.shape))

    def _wide(self, matrix: build.Value, var: Var) -> build.Value:
        """The operand of an op that makes `var`: as wide as that, so that it is rounded where the program rounds it."""
        wider = BY_NAME[matrix.dtype].bytes < var.dtype.itemsize
        return self.function.cast(matrix, np.dtype(var.dtype).name) if wider else matrix

    def rows(self, atom: Atom, user: Node, columns: Optional[int] = None) -> build.Value:
        """A value as a matrix of `columns` (else its last dimension) in row-major order."""
        value = self.value(atom, user)
        if not value.layout.is_row_major(value.elements):
            raise Unsupported(user, f"its operand {list(atom.shape)} is a view that is not row-major in memory")
        columns = columns or (atom.shape[-1] if atom.shape else 1)
        return self.function.reshape(value.matrix, (value.elements // max(columns, 1), columns))

    def _vector(self, atom: Atom, user: Node, dtype: str) -> build.Value:
        value = self.value(atom, user)
        if not value.layout.is_row_major(value.elements):
            raise Unsupported(user, "its vector is a view that is not row-major in memory")
        return self.function.cast(self.function.reshape(value.matrix, (value.elements,)), dtype)

    def _whole(self, atom: Atom, user: Node) -> Value:
        value = self.value(atom, user)
        if not value.layout.is_whole(value.elements):
            raise Unsupported(user, f"its operand {list(atom.shape)} is a part of a value, or repeats it")
        return value

    # Products

    def _op_dot_general(self, var: Var, node: Node) -> Value:
        (left, right), (left_batch, _) = node.params["dimension_numbers"]
        if left_batch:
            return self._attention(var, node)
        return Value(self.product(var, node, None), self.operands(node).layout)

    def operands(self, node: Node) -> "_Operands":
        """What of a product is x and what the weight."""
        (axes, _) = node.params["dimension_numbers"]
        # What is summed over goes in the order that the axes of x have.
        summed = sorted(zip(*((int(a) for a in axes[n]) for n in (0, 1))))
        operands = [(node.inputs[n], tuple(pair[n] for pair in summed)) for n in (0, 1)]
        # The weight is the operand that is an argument, or made of one; the second where both are.
        light = [self.is_light(operand) for operand, _ in operands]
        which = 1 if light[1] or not light[0] else 0
        if all(light) and self._is_turned_after(node):
            which = 0
        if which == 0:
            summed = sorted(summed, key=lambda pair: pair[1])
            operands = [(node.inputs[n], tuple(pair[n] for pair in summed)) for n in (0, 1)]
        (x, x_axes), (w, w_axes) = operands[1 - which], operands[which]
        x_free = tuple(a for a in range(len(x.shape)) if a not in x_axes)
        w_free = tuple(a for a in range(len(w.shape)) if a not in w_axes)
        layout = row_major([x.shape[i] for i in x_free] + [w.shape[i] for i in w_free])
        if which == 0:
            count = len(x_free)
            layout = layout.permute(list(range(count, count + len(w_free))) + list(range(count)))
        return _Operands(x, x_free, x_axes, w, w_free, w_axes, layout)

    def _is_turned_after(self, node: Node) -> bool:
        """Whether a product is but read with the axes of its first operand last, as `jax.vmap` makes it of `w @ x`."""
        summed = [int(a) for a in node.params["dimension_numbers"][0][0]]
        count, rank = len(node.inputs[0].shape) - len(summed), len(node.output.shape)
        readers = self.users.get(node.output, [])
        order = [*range(count, rank), *range(count)]
        return bool(readers) and all(r.name == "transpose" and list(r.params["permutation"]) == order for r in readers)

    def product(self, var: Var, node: Node, bias: Optional[Var], part: Optional[parts.Columns] = None) -> build.Value:
        """The matrix of a product in elements of `var`, or of these columns of it."""
        x, x_free, x_axes, w, w_free, w_axes, _ = self.operands(node)
        if node.output.dtype not in (x.dtype, w.dtype):
            raise Unsupported(
                node,
                f"its result has elements of {short(node.output.dtype)}; te rounds a product to its operands' type, so "
                "cast the result (and leave out preferred_element_type)",
            )
        matrix = self._operand(x, node, x_free, x_axes, "rows")
        turned = self._is_turned(w, w_free, w_axes, node)
        order = (w_axes, w_free) if turned else (w_free, w_axes)
        weight = self._weight(w, node, *order) if part is None else self._cut(w, node, *order, part, int(turned))
        dtype = np.dtype(node.output.dtype).name
        matrix, weight = self.function.cast(matrix, dtype), self.function.cast(weight, dtype)
        vector = None
        if bias is not None:
            axes = range(len(bias.shape))
            vector = self._vector(bias, node, dtype) if part is None else self._cut(bias, node, axes, (), part, 0)
            vector = self.function.cast(vector, dtype)
        label = self._label(w)
        layer = None if label.startswith("value") else label if part is None else f"{label}.{part.name}"
        y = self.function.linear(matrix, weight, vector, layer=layer, transposed_weight=turned)
        return self.function.cast(y, np.dtype(var.dtype).name)

    def _cut(
        self, atom: Atom, node: Node, left: Sequence[int], right: Sequence[int], part: parts.Columns, axis: int
    ) -> build.Value:
        """Columns of a weight or a bias, which JAX cuts of the argument: [left, right], of which `axis` are columns."""
        inner, types = atom, []
        # te keeps casts of weights.
        while isinstance(inner, Var) and inner.node is not None and inner.node.name == "convert_element_type":
            types.append(np.dtype(inner.dtype).name)
            inner = inner.node.inputs[0]
        sizes = [math.prod(atom.shape[a] for a in axes) for axes in (left, right)[: 1 + bool(right)]]

        def make(array: Any) -> Any:
            return part.cut(jnp.transpose(array, (*left, *right)).reshape(sizes), axis)

        shape = [part.number if n == axis else size for n, size in enumerate(sizes)]
        how = (*left, len(left), *part.extents, *part.starts, *part.counts)
        made = self.feed(inner, part.name, make, shape, user=node, how=how)
        self._mark(made)
        for dtype in reversed(types):
            made = self.function.cast(made, dtype)
        return made

    def product_of(self, var: Var, node: Node) -> "Optional[_Product]":
        """The product that a value is, with a bias that is added perhaps; None where it is none."""
        if node.name == "dot_general":
            batched = node.params["dimension_numbers"][1][0]
            return None if batched else _Product(node, None, self.operands(node).layout)
        for product, shift in (node.inputs, node.inputs[::-1]) if node.name == "add" else ():
            current, views = patterns.uncast(product), []
            while isinstance(current, Var) and current.uses == 1:
                by = patterns.node_of(current, "transpose", "reshape", "squeeze")
                if by is None:
                    break
                views.append((current, by))
                current = by.inputs[0]
            inner = patterns.node_of(current, "dot_general")
            if inner is None or inner.output.uses != 1 or inner.params["dimension_numbers"][1][0]:
                continue
            # The sum is rounded to the type of the product.
            if inner.output.dtype not in (var.dtype, np.float32):
                continue
            operands = self.operands(inner)
            layout: Optional[Layout] = operands.layout
            for view, by in reversed(views):
                layout = viewed(view, by, layout) if layout is not None else None
            if layout is None or layout.shape != var.shape:
                continue
            bias = self._bias(shift, layout, operands.columns)
            if bias is not None:
                return _Product(inner, bias, layout)
        return None

    def _bias(self, shift: Atom, layout: Layout, columns: int) -> Optional[Var]:
        """What of an argument is added to each row of a product, one element to each column; None where it is not."""
        base, views = patterns.uncast(shift), []
        while patterns.node_of(base, "broadcast_in_dim", "reshape", "squeeze", "expand_dims"):
            views.append((base, base.node))
            base = patterns.uncast(base.node.inputs[0])  # type: ignore[union-attr]
        if not isinstance(base, Var) or math.prod(base.shape) != columns or not self.is_light(base):
            return None
        memory = self._layout(base)
        if memory is not None and not memory.is_row_major(columns):
            return None
        lies: Optional[Layout] = row_major(base.shape)
        for view, by in reversed(views):
            lies = viewed(view, by, lies) if lies is not None else None  # type: ignore[arg-type]
        lies = lies.expand(layout.shape) if lies is not None and len(lies.dims) == len(layout.dims) else None
        wanted = [tuple((size, stride if stride < columns else 0) for size, stride in dim) for dim in layout.dims]
        return base if lies is not None and same(lies, Layout(tuple(wanted))) else None

    def _is_turned(self, w: Atom, free: Sequence[int], axes: Sequence[int], user: Node) -> bool:
        """Whether a weight lies [summed, free], as most of JAX's do, and not [free, summed]."""
        lies = self._layout(w) if self.is_light(w) else self.value(w, user).layout
        if lies is None or lies.permute([*free, *axes]).is_row_major(math.prod(w.shape)):
            return False
        return lies.permute([*axes, *free]).is_row_major(math.prod(w.shape))

    def _operand(self, atom: Atom, node: Node, free: Sequence[int], axes: Sequence[int], key: str) -> build.Value:
        """An operand as [free, axes]: its own memory where it lies so, else transposed by JAX."""
        order = [*free, *axes]
        shape = math.prod(atom.shape[a] for a in free), math.prod(atom.shape[a] for a in axes)
        # What is looked at must not be fed yet: an argument that nobody reads would be left.
        if self.is_light(atom) and not self._lies(atom, order):
            make = lambda a: jnp.transpose(a, order).reshape(shape)  # noqa: E731
            return self.feed(atom, key, make, shape, user=node, how=tuple(order))
        value = self.value(atom, node)
        if not value.layout.permute(order).is_row_major(value.elements):
            raise Unsupported(node, f"its operand {list(atom.shape)} is computed, and a view that is not row-major")
        return self.function.reshape(value.matrix, shape)

    def _weight(self, atom: Atom, node: Node, free: Sequence[int], axes: Sequence[int]) -> build.Value:
        """A matrix [free, axes] that is a weight where JAX makes it of an argument by moving and casting elements."""
        if self._lies(atom, [*free, *axes]):
            shape = math.prod(atom.shape[a] for a in free), math.prod(atom.shape[a] for a in axes)
            return self._parameter(atom, shape, node)
        matrix = self._operand(atom, node, free, axes, "transposed")
        self._mark(matrix)
        return matrix

    def _gain(self, atom: Atom, node: Node, dtype: str) -> build.Value:
        """The vector of a norm in elements `dtype`; a weight where it is a view or a cast of an argument."""
        if self._lies(atom, range(len(atom.shape))):
            return self.function.cast(self._parameter(atom, (math.prod(atom.shape),), node), dtype)
        return self._vector(atom, node, dtype)

    def _parameter(self, atom: Atom, shape: Tuple[int, ...], user: Node) -> build.Value:
        """A view of an argument that lies there in the order of `shape`: that argument, a weight, and casts of it.

        JAX reshapes the argument, for nothing, as the compiler knows no weight behind a reshape.
        """
        key = atom, shape
        if key not in self._parameters:
            if isinstance(atom, Var) and atom.node is not None:
                dtype = te_name(atom.dtype)
                if dtype is None:
                    raise Unsupported(atom.node, f"its result has elements of {short(atom.dtype)}; {FLOATS}")
                made = self.function.cast(self._parameter(atom.node.inputs[0], shape, user), dtype)
            elif shape == _matrix_of(atom.shape):
                made = self.value(atom, user).matrix
            else:
                made = self.feed(atom, "matrix", lambda a: a.reshape(shape), shape, user=user)
            self._mark(made)
            self._parameters[key] = made
        return self._parameters[key]

    def _lies(self, atom: Atom, order: Sequence[int]) -> bool:
        """Whether a light value, its axes in this order, is row-major in the argument that it is a view of."""
        lies = self._layout(atom) if self.is_light(atom) else None
        return lies is not None and lies.permute(order).is_row_major(math.prod(atom.shape))

    def _layout(self, atom: Atom) -> Optional[Layout]:
        """How a light value lies in the argument that it is a view of; None where JAX has to make it."""
        if isinstance(atom, Const) or atom.node is None:
            return row_major(atom.shape)
        operand = atom.node.inputs[0]
        if atom.node.name == "convert_element_type" and not (isinstance(operand, Var) and operand.floating):
            return None
        inner = self._layout(operand)
        lies = viewed(atom, atom.node, inner) if inner is not None else None
        return lies if lies is not None and lies.is_whole(math.prod(operand.shape)) else None

    def _mark(self, matrix: build.Value) -> None:
        """Makes an argument a parameter."""
        for argument, attributes in self.function.arguments:
            if argument is matrix:
                attributes["te.weight"] = ""

    def _attention(self, var: Var, node: Node) -> Value:
        from te_mlir.jax.attention import emit

        return emit(self, var, node)

    # Layers

    def _rmsnorm(self, var: Var, node: Node, found: patterns.RmsNorm) -> Value:
        x = self._wide(self.rows(found.x, node), var)
        gamma = self._gain(found.gamma, node, x.dtype)
        return self._dense(var, self.function.rms_norm(x, gamma, found.epsilon, found.zero_centered))

    def _layernorm(self, var: Var, node: Node, found: patterns.LayerNorm) -> Value:
        x = self._wide(self.rows(found.x, node), var)
        gamma, beta = (self._gain(v, node, x.dtype) for v in (found.gamma, found.beta))
        return self._dense(var, self.function.layer_norm(x, gamma, beta, found.epsilon))

    def _activation(self, var: Var, node: Node, found: patterns.Activation) -> Value:
        value = self._whole(found.x, node)
        matrix = self._wide(value.matrix, var)
        if len(matrix.shape) != 2:
            matrix = self.function.reshape(matrix, (1, value.elements))
        made = self.function.activation(found.kind, matrix)
        return Value(self.function.cast(made, np.dtype(var.dtype).name), value.layout)

    def _crossentropy(self, var: Var, node: Node, found: losses.CrossEntropy) -> Value:
        value, classes = self.value(found.logits, node), found.logits.shape[-1]
        place = _rows_of(value.layout, classes)
        if place is None:
            raise Unsupported(node, f"its logits {list(found.logits.shape)} are a view whose rows are in parts")
        rows = value.elements // classes
        count = math.prod(found.logits.shape[:-1])

        def counted(targets: Any, *masks: Any) -> Any:
            """The targets, and where no row counts what te ignores."""
            targets = targets.reshape(-1).astype(jnp.int32)
            if found.clamps:
                targets = jnp.clip(targets, 0, classes - 1)
            for mask, values in zip(found.masks, masks):
                seen = jnp.broadcast_to((values == 0) if mask.inverted else (values != 0), mask.shape)
                targets = jnp.where(seen.reshape(-1), targets, _IGNORED)
            return targets

        calls = node.equation, *node.calls
        (places,) = apply(self.graph, counted, [found.targets, *(mask.values for mask in found.masks)], calls)
        whole = rows == count and (place == np.arange(rows)).all()
        targets = self.feed(
            places,
            "targets",
            # Logits that are a part of others: rows beside it do not count.
            None if whole else (lambda t: jnp.full(rows, _IGNORED, jnp.int32).at[place].set(t)),
            (rows,),
            "int32",
            differentiable=False,
            user=node,
            how=() if whole else tuple(place.tolist()),
        )
        matrix = self.function.reshape(value.matrix, (rows, classes))
        made = self.function.cross_entropy(matrix, targets)
        if found.summed:
            number = lambda t: jnp.sum((t >= 0) & (t < classes)).astype(jnp.float32)  # noqa: E731
            made = self.function.mul(made, self.feed(places, "count", number, (), "float32", False, node, (classes,)))
        if found.factor == -1:
            made = self.function.unary("arith.negf", made)
        elif found.factor != 1:
            made = self.function.mul(made, self.function.constant(found.factor, (), "float32"))
        return self._dense(var, made)

    def _op_gather(self, var: Var, node: Node) -> Value:
        table, index = node.inputs
        numbers = node.params["dimension_numbers"]
        collapsed, start = tuple(numbers.collapsed_slice_dims), tuple(int(a) for a in numbers.start_index_map)
        behind = 1 + (collapsed == ())
        whole = patterns.node_of(index, "concatenate")
        # Rows by their number and a column, the first, as jax.vmap makes them.
        if start == (0, 1) and whole is not None and [v.shape[-1] for v in whole.inputs] == [1, 1]:
            index = whole.inputs[0]
            start = (0,) if patterns.scalar(whole.inputs[1]) == 0 else start
        elif start == (0, 1) and isinstance(index, Const) and index.shape[-1] == 2:
            numbered = index.array()
            index = Const(numbered[..., 0], numbered.shape[:-1])
            start = (0,) if (numbered[..., 1] == 0).all() else start
        rows = (
            len(table.shape) == 2
            and tuple(int(s) for s in node.params["slice_sizes"]) == (1, table.shape[1])
            and tuple(numbers.offset_dims) == tuple(range(len(var.shape) - behind, len(var.shape)))
            and collapsed in ((), (0,))
            and start == (0,)
            and math.prod(index.shape) == math.prod(var.shape[:-1])
            and not numbers.operand_batching_dims
        )
        if not rows:
            raise Unsupported(node, "only whole rows of a matrix are gathered (an embedding)")
        count, last = math.prod(var.shape[:-1]), table.shape[0] - 1
        clamps = node.params["mode"] == jax.lax.GatherScatterMode.CLIP
        ids = self.feed(
            index,
            "ids",
            lambda t: (jnp.clip(t, 0, last) if clamps else t).reshape(-1).astype(jnp.int32),
            (count,),
            "int32",
            differentiable=False,
            user=node,
            how=(last,) if clamps else (),
        )
        matrix = self._weight(table, node, (0,), (1,))
        return self._dense(var, self.function.embedding(ids, matrix))

    def _rope(self, var: Var, node: Node, found: patterns.Rope) -> Value:
        value = self.value(found.x, node)
        for order in ((0, 1, 2, 3), (0, 2, 1, 3)):
            # As [batch, sequence, heads, width], from the graph's order of axes.
            if value.layout.permute(order).is_row_major(value.elements):
                break
        else:
            raise Unsupported(node, "a rotation is imported of heads that are views of [batch, sequence, heads, width]")
        batch, sequence, heads, width = (found.x.shape[a] for a in order)
        tables = [self._table(t, node, order, batch, sequence, width, found.halves) for t in (found.cos, found.sin)]
        matrix = self.function.reshape(self._wide(value.matrix, var), (batch * sequence, heads * width))
        made = self.function.rope(matrix, tables[0], tables[1], heads)
        return Value(self.function.cast(made, np.dtype(var.dtype).name), value.layout)

    def _table(
        self, table: Atom, user: Node, order: Sequence[int], batch: int, sequence: int, width: int, halves: bool
    ) -> build.Value:
        if len(table.shape) != 4:
            raise Unsupported(user, f"its tables are {list(table.shape)}; expected four dimensions")
        compact = table.compact.shape if isinstance(table, Const) else table.shape
        b, s, h, d = (compact[a] for a in order)
        columns = width // 2 if halves else width
        if h != 1 or s != sequence or d != columns or b not in (1, batch):
            raise Unsupported(user, f"its tables are {list(table.shape)}; expected one row for each position")
        if not halves and not _equal_halves(table):
            raise Unsupported(
                user,
                "the halves of its tables are not known to be equal; make them by concatenate([a, a], -1), or rotate "
                "the halves of x by tables of half the width",
            )

        def make(t: Any) -> Any:
            rows = jnp.transpose(t, order).reshape(-1, t.shape[-1])[: b * s]
            return rows[:, : width // 2].astype(jnp.float32)

        shape = (b * s, width // 2)
        return self.feed(table, "half", make, shape, "float32", differentiable=False, user=user, how=tuple(order))

    # Elementwise

    def _op_add(self, var: Var, node: Node) -> Value:
        product = self.product_of(var, node)
        if product is not None:
            return Value(self.product(var, product.node, product.bias), product.layout)
        for x, shift in (node.inputs, node.inputs[::-1]):
            bias = patterns.vector(shift, var.shape[-1]) if len(var.shape) > 1 else None
            if bias is not None and x.shape == var.shape:
                matrix = self.rows(x, node)
                vector = self._vector(bias, node, matrix.dtype)
                text = f"te.bias_add {matrix.name}, {vector.name} : {matrix.type}, {vector.type}"
                return self._dense(var, self.function.op(text, [(matrix.shape, matrix.dtype)])[0])
        return self._binary(var, node, "add")

    def _op_sub(self, var: Var, node: Node) -> Value:
        return self._binary(var, node, "sub")

    def _op_mul(self, var: Var, node: Node) -> Value:
        a, b = node.inputs
        return self._gated(var, node, a, b) or self._gated(var, node, b, a) or self._binary(var, node, "mul")

    def _gated(self, var: Var, node: Node, a: Atom, b: Atom) -> Optional[Value]:
        """`act(a) * b` as one op, where nothing else needs act(a): rounded once, as TransformerEngine's are."""
        if not isinstance(a, Var) or not isinstance(b, Var) or a.uses != 1 or a in self._values:
            return None
        found = patterns.match_activation(a)
        kind = patterns.GATED.get(found.kind) if found is not None else None
        if found is None or kind is None or not var.dtype == a.dtype == b.dtype == found.x.dtype:
            return None
        whole = parts.halves(self, found.x, b, var)
        if whole is not None:
            return Value(self.function.activation(kind, whole), row_major(var.shape))
        x, gate = self._whole(found.x, node), self.value(b, node)
        if not same(x.layout, gate.layout) or x.elements != gate.elements:
            return None
        shape = x.matrix.shape if len(x.matrix.shape) == 2 else (1, x.elements)
        halves = [self.function.reshape(v.matrix, shape) for v in (x, gate)]
        return Value(self.function.activation(kind, *halves), x.layout)

    def _op_div(self, var: Var, node: Node) -> Value:
        return self._binary(var, node, "div")

    def _binary(self, var: Var, node: Node, op: str) -> Value:
        dtype = np.dtype(var.dtype).name
        numbers = [v.scalar if isinstance(v, Const) else None for v in node.inputs]
        place = 0 if numbers[0] is None else 1
        left = self._whole(node.inputs[place], node)
        x = self.function.cast(left.matrix, dtype)
        number = numbers[1 - place]
        if number is not None:
            y = self.function.constant(number, x.shape, dtype)
        else:
            right = self.value(node.inputs[1], node)
            if not same(left.layout, right.layout) or left.elements != right.elements:
                shapes = f"{list(node.inputs[0].shape)} and {list(node.inputs[1].shape)}"
                raise Unsupported(node, f"its operands {shapes} are broadcast, or lie differently in memory")
            y = self.function.cast(self.function.reshape(right.matrix, x.shape), dtype)
        made = getattr(self.function, op)(*((x, y) if place == 0 else (y, x)))
        return Value(made, left.layout)

    def _unary(self, var: Var, node: Node, *ops: str) -> Value:
        value = self._whole(node.inputs[0], node)
        matrix = value.matrix
        for op in ops:
            matrix = self.function.unary(op, matrix)
        return Value(matrix, value.layout)

    def _op_neg(self, var: Var, node: Node) -> Value:
        return self._unary(var, node, "arith.negf")

    def _op_exp(self, var: Var, node: Node) -> Value:
        return self._unary(var, node, "math.exp")

    def _op_tanh(self, var: Var, node: Node) -> Value:
        return self._unary(var, node, "math.tanh")

    def _op_sqrt(self, var: Var, node: Node) -> Value:
        return self._unary(var, node, "math.sqrt")

    def _op_logistic(self, var: Var, node: Node) -> Value:
        # glu is logistic(x) * gate. 1 / (1 + exp(-x)) has no gradient where exp(-x) is infinite.
        value = self._whole(node.inputs[0], node)
        shape = value.matrix.shape if len(value.matrix.shape) == 2 else (1, value.elements)
        matrix = self.function.reshape(value.matrix, shape)
        one = self.function.constant(1.0, shape, matrix.dtype)
        return Value(self.function.activation("glu", matrix, one), value.layout)

    def _op_square(self, var: Var, node: Node) -> Value:
        value = self._whole(node.inputs[0], node)
        return Value(self.function.mul(value.matrix, value.matrix), value.layout)

    def _op_integer_pow(self, var: Var, node: Node) -> Value:
        exponent = int(node.params["y"])
        if not 1 < exponent <= 4:
            raise Unsupported(node, f"a power of {exponent} has no counterpart in te; 2, 3 and 4 have")
        value = self._whole(node.inputs[0], node)
        made = value.matrix
        for _ in range(exponent - 1):
            made = self.function.mul(made, value.matrix)
        return Value(made, value.layout)

    def _op_custom_vjp_call(self, var: Var, node: Node) -> Value:
        kind = node.name.removesuffix("_jaxpr").removesuffix("_call")
        function = custom_function(node.equation) or "a function"
        raise Unsupported(
            node, f"{function} has a derivative of its own (jax.{kind}), which is not imported", always=True
        )

    _op_custom_vjp_call_jaxpr = _op_custom_jvp_call = _op_custom_vjp_call

    # Casts and views

    def _op_convert_element_type(self, var: Var, node: Node) -> Value:
        value = self.value(node.inputs[0], node)
        if value.matrix.dtype == "int32":
            raise Unsupported(node, "a cast of integers to floats has no counterpart in te")
        return Value(self.function.cast(value.matrix, np.dtype(var.dtype).name), value.layout)

    def _op_copy(self, var: Var, node: Node) -> Value:
        return self.value(node.inputs[0], node)

    def _view(self, var: Var, node: Node) -> Value:
        value = self.value(node.inputs[0], node)
        lies = viewed(var, node, value.layout)
        if lies is None or lies.shape != var.shape:
            raise Unsupported(node, f"a view of {list(value.layout.shape)} as {list(var.shape)} is not followed")
        return Value(value.matrix, lies)

    _op_reshape = _op_squeeze = _op_expand_dims = _op_transpose = _view
    _op_broadcast_in_dim = _view

    def _op_slice(self, var: Var, node: Node) -> Value:
        return parts.emit(self, var, node) or self._view(var, node)

    _op_split = _op_slice


#: The target of a row that does not count.
_IGNORED = -100

#: What results, cotangents and gradients of the compiled part are called.
_RESERVED = re.compile(r"result\d+|grad\..*")

#: Types of what products and most operations make.
FLOATS = "te has float32, bfloat16, float16"

_HINTS = {
    "while": "; write the loop in Python",
    "cond": "; decide outside of the function",
    "erf": " but in gelu, x * 0.5 * (1 + erf(x * sqrt(0.5)))",
    "erfc": " but in gelu, x * 0.5 * erfc(-x * sqrt(0.5))",
    "stop_gradient": "; take it of an argument, outside of the function",
    "reduce_sum": " by itself; means over rows are part of norms and of the cross entropy",
    "reduce_max": " by itself",
    "log": " by itself; the mean cross entropy of all rows has one",
    "concatenate": "; a product for each part, and their sum, is the same",
}


def _matrix_of(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """The sizes of the matrix, or the vector, that holds a row-major value."""
    return shape if len(shape) <= 1 else (math.prod(shape[:-1]), shape[-1])


def _rows_of(layout: Layout, columns: int) -> "Optional[np.ndarray[Any, Any]]":
    """The row of the matrix that each row of a value is; None where rows of `columns` do not lie whole, each once."""
    if not Layout(layout.dims[-1:]).is_row_major(columns) or layout.offset % columns:
        return None
    rows = np.zeros(1, np.int64)
    for size, stride in (atom for dim in layout.dims[:-1] for atom in dim):
        if stride % columns:
            return None
        rows = (rows[:, None] + np.arange(size) * (stride // columns)).reshape(-1)
    rows += layout.offset // columns
    return rows if len(np.unique(rows)) == len(rows) else None


def boundary(var: Var, is_light: Callable[[Atom], bool]) -> List[Var]:
    """The floating-point values below an integer one, that more than views are between them and arguments."""
    found: List[Var] = []
    seen, stack = set(), [var]
    while stack:
        node = stack.pop().node
        if node is None or node in seen:
            continue
        seen.add(node)
        for operand in node.inputs:
            if isinstance(operand, Var) and operand.floating and not is_light(operand):
                found.append(operand)
            elif isinstance(operand, Var):
                stack.append(operand)
    return found


def _equal_halves(table: Atom) -> bool:
    """Whether the two halves of each row are known to be equal."""
    if isinstance(table, Const):
        half = table.compact.shape[-1] // 2
        return bool((table.compact[..., :half] == table.compact[..., half:]).all())
    node = table.node
    if node is None:
        return False
    if node.name == "concatenate":
        last = int(node.params["dimension"]) == len(table.shape) - 1
        return last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
    if node.name in ("cos", "sin", "convert_element_type", "copy", "neg", "stop_gradient"):
        return _equal_halves(node.inputs[0])
    if node.name == "mul":
        return all((isinstance(v, Const) and v.scalar is not None) or _equal_halves(v) for v in node.inputs)
    if node.name in ("reshape", "squeeze", "expand_dims"):
        kept = node.inputs[0].shape and node.inputs[0].shape[-1] == table.shape[-1]
        return bool(kept) and _equal_halves(node.inputs[0])
    if node.name == "broadcast_in_dim":
        axes = node.params["broadcast_dimensions"]
        kept = len(axes) > 0 and int(axes[-1]) == len(table.shape) - 1
        return kept and node.inputs[0].shape[-1] == table.shape[-1] and _equal_halves(node.inputs[0])
    if node.name in ("slice", "gather"):
        # Rows of a table, whole.
        return node.inputs[0].shape[-1:] == table.shape[-1:] and _equal_halves(node.inputs[0])
    return False
