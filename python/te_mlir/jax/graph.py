"""Converts JAX functions to the graph that both frontends import (`te_mlir.frontend.graph`).

`trace` converts a jaxpr: calls are inlined and constants are folded. A constant has size 1 along axes
where it is broadcast, so that a mask [batch, heads, sequence, sequence] is stored as [1, 1, sequence,
sequence]. `Evaluator` computes values of a graph with JAX, such as positions, tables and targets.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from te_mlir.frontend.graph import Atom, Const, Node, Var, ancestors, is_floating, order_of, short
from te_mlir.jax.gathers import picks_of, rows_of
from te_mlir.jax.varying import vary

#: Constants with more elements are not folded, but computed in every call.
LARGEST_CONSTANT = 1 << 24

_CALLS = ("jit", "pjit", "checkpoint", "remat2", "closed_call", "core_call")

#: Calls of functions that define their own derivatives.
_CUSTOM = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")

#: Primitives that also work on operands with broadcast axes of size 1.
ELEMENTWISE = frozenset(
    [
        "abs",
        "add",
        "and",
        "ceil",
        "convert_element_type",
        "copy",
        "cos",
        "div",
        "eq",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "ge",
        "gt",
        "integer_pow",
        "is_finite",
        "le",
        "log",
        "log1p",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "not",
        "or",
        "pow",
        "rem",
        "round",
        "rsqrt",
        "select_n",
        "sign",
        "sin",
        "sqrt",
        "square",
        "stop_gradient",
        "sub",
        "tanh",
        "xor",
    ]
)


class Place(NamedTuple):
    """The origin of an operation. calls: the calls that it was inlined from, innermost first."""

    equation: Any
    calls: tuple[Any, ...]


def where(node: Node) -> str:
    """The line of the program that an operation comes from, such as `model.py:12`."""
    for equation in (node.origin.equation, *node.origin.calls):
        try:
            from jax._src import source_info_util

            line = str(source_info_util.summarize(equation.source_info)).split(" (")[0]
        except Exception:  # noqa: BLE001, S112 - This is not a public function of JAX.
            continue
        if line.strip(":"):
            return line
    return "an unknown line"


def describe(node: Node) -> str:
    """The text of an operation for messages, such as `sin(f32 [2, 16]) at model.py:12`."""
    operands = ", ".join(f"{short(v.dtype)} {list(v.shape)}" for v in node.inputs)
    return f"{node.name}({operands}) at {where(node)}"


def takes_gradients(value: Var) -> bool:
    """Whether a gradient of a value reaches an argument, and does not end at `stop_gradient` or an integer."""
    reached: set[Var] = set()
    for node in order_of(value):
        floats = (v for v in node.inputs if isinstance(v, Var) and "float" in v.dtype)
        if node.name != "stop_gradient" and any(v.node is None or v in reached for v in floats):
            reached.update(node.outputs)
    return value.node is None or value in reached


def is_of_integers(atom: Atom) -> bool:
    """Whether a value is computed from integers, truth values and constants, and from no product of matrices."""
    nodes = ancestors(atom) if isinstance(atom, Var) else set()
    given = [v for node in nodes for v in node.inputs if v.node is None and is_floating(v.dtype)]
    if not nodes:
        return isinstance(atom, Var) and not atom.floating
    return all(node.name != "dot_general" for node in nodes) and all(isinstance(v, Const) for v in given)


def element_type(dtype: Any) -> Any:
    """The element type in NumPy, or in JAX for keys of random numbers, which NumPy does not have."""
    return dtype if jnp.issubdtype(dtype, jax.dtypes.extended) else np.dtype(dtype)


def typed(shape: Sequence[int], dtype: Any, node: Node | None = None) -> Var:
    """A value with elements of a type of JAX; its origin is that type."""
    return Var(shape, str(element_type(dtype)), node, origin=element_type(dtype))


def _type_of(value: Atom) -> Any:
    """The type in JAX of the elements of a value."""
    return value.compact.dtype if isinstance(value, Const) else value.origin


class Graph:
    """A graph. inputs: the values of the arguments. outputs: the values of the results. count: the number of nodes."""

    def __init__(self, inputs: list[Var], outputs: list[Atom]) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.count = 0
        #: Operations with side effects.
        self.effects: list[Node] = []


_tracing = threading.local()


def is_tracing() -> bool:
    """Whether this thread runs a function that is being traced."""
    return getattr(_tracing, "depth", 0) > 0


def trace(function: Any, args: Sequence[Any]) -> tuple[Graph, Any]:
    """(The graph of `function`, the structure of its results.) args: pytrees of ShapeDtypeStructs."""
    _tracing.depth = getattr(_tracing, "depth", 0) + 1
    try:
        closed, results = jax.make_jaxpr(function, return_shape=True)(*args)
    finally:
        _tracing.depth -= 1
    inputs = [typed(t.shape, t.dtype) for t in jax.tree_util.tree_leaves(args)]
    graph = Graph(inputs, [])
    with jax.ensure_compile_time_eval():
        graph.outputs = _inline(graph, closed.jaxpr, closed.consts, list(inputs))
    for output in graph.outputs:
        if isinstance(output, Var):
            output.uses += 1
    return graph, jax.tree_util.tree_structure(results)


def _inline(
    graph: Graph, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Atom], calls: tuple[Any, ...] = ()
) -> list[Atom]:
    env: dict[Any, Atom] = {}

    def read(atom: Any) -> Atom:
        return Const(atom.val, np.shape(atom.val)) if hasattr(atom, "val") else env[atom]

    for var, value in zip(jaxpr.constvars, consts):
        env[var] = _captured(value)
    env.update(zip(jaxpr.invars, arguments))
    for equation in jaxpr.eqns:
        inputs = [read(v) for v in equation.invars]
        inner = _callee(equation)
        own = _OWN.get(custom_function(equation).split(" ")[0]) if inner is not None else None
        if own is not None:
            outputs = apply(graph, own, inputs, (equation, *calls))
        elif inner is not None:
            body, captured = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
            outputs = _inline(graph, body, captured, inputs, (equation, *calls))
        elif equation.primitive.name == "scan":
            outputs = _unroll(graph, equation, inputs, calls)
        else:
            outputs = _node(graph, equation, inputs, calls)
        env.update(zip(equation.outvars, outputs))
    return [read(v) for v in jaxpr.outvars]


def _logaddexp(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)); the derivatives of equal operands are 1/2, as JAX defines them."""
    apart = a - b
    sum_of_small = jnp.log1p(jnp.exp(jnp.minimum(apart, -apart)))
    largest = -jnp.minimum(-a, -b)
    return jnp.where(apart != apart, a + b, largest + sum_of_small)


#: Functions of JAX with custom derivatives, as formulas whose derivatives are these.
_OWN = {"logaddexp": _logaddexp}


def _unroll(graph: Graph, equation: Any, inputs: Sequence[Atom], calls: tuple[Any, ...]) -> list[Atom]:
    """Unrolls a scan into its steps, on slices of its operands."""
    params, inside = equation.params, (equation, *calls)
    body, length = params["jaxpr"], params["length"]
    first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
    shared, carry, over = list(inputs[:first]), list(inputs[first:last]), inputs[last:]
    rows: list[list[Atom]] = []
    for step in reversed(range(length)) if params["reverse"] else range(length):
        slices = [
            apply(graph, lambda a, step=step: jax.lax.index_in_dim(a, step, keepdims=False), [a], inside)[0]
            for a in over
        ]
        outputs = _inline(graph, body.jaxpr, body.consts, [*shared, *carry, *slices], inside)
        carry = outputs[: len(carry)]
        rows.append(outputs[len(carry) :])
    if params["reverse"]:
        rows.reverse()
    stacked: list[Atom] = []
    for column in zip(*rows):
        stacked.extend(apply(graph, lambda *values: jnp.stack(values), column, inside))
    if not rows:
        types = [v.aval for v in equation.outvars[len(carry) :]]
        stacked = [Const(np.zeros(t.shape, t.dtype), t.shape) for t in types]
    return [*carry, *stacked]


def apply(graph: Graph, function: Any, inputs: Sequence[Atom], calls: tuple[Any, ...]) -> list[Atom]:
    """Adds the nodes of a JAX function, applied to values of the graph, and returns its results."""
    closed = jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(v.shape, _type_of(v)) for v in inputs])
    with jax.ensure_compile_time_eval():
        return _inline(graph, closed.jaxpr, closed.consts, inputs, calls)


def repeated(graph: Graph, node: Node, inputs: Sequence[Atom]) -> list[Atom]:
    """Adds the operation of a node for other operands, and returns its results."""
    equation = node.origin.equation
    return apply(graph, lambda *v: _evaluate(equation, _operands(node, v)), inputs, (equation, *node.origin.calls))


def custom_function(equation: Any) -> str:
    """`name at file:line` of the function of a custom_jvp or custom_vjp call; "" if JAX does not give it."""
    for name in ("call_jaxpr", "fun_jaxpr"):
        callee = equation.params.get(name)
        if callee is not None:
            return _source(getattr(callee, "jaxpr", callee))
    return ""


def _source(function: Any) -> str:
    return str(getattr(getattr(function, "debug_info", None), "func_src_info", None) or "")


def _is_jaxs_own(equation: Any) -> bool:
    """Whether a function and its custom derivatives are both from JAX; te then derives the function itself.

    False for a function of JAX with derivatives of the user, such as `jax.custom_vjp(jnp.tanh)`.
    """
    folder = f" at {os.path.dirname(jax.__file__)}{os.sep}"
    function = custom_function(equation)
    rules = [equation.params[name] for name in ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd") if name in equation.params]
    if folder not in function or not rules or any(folder not in _source(rule) for rule in rules):
        return False
    if not any(f"{os.sep}custom_derivatives.py:" in _source(rule) for rule in rules):
        return True
    # `defjvps` wraps the rules of any module in one rule of JAX, so the rule does not show who defined the derivatives.
    # Those that JAX defines belong to a custom_jvp that is an attribute of the function's module. A custom_jvp of the
    # user around such a function contains a call of the original.
    name, _, line = function.partition(folder)
    module = line.rpartition(":")[0].removesuffix(".py").removesuffix(f"{os.sep}__init__").replace(os.sep, ".")
    defined = getattr(sys.modules.get(f"jax.{module}"), name, None)
    inside = getattr(equation.params.get("call_jaxpr"), "eqns", ())
    return isinstance(defined, jax.custom_jvp) and not any(custom_function(inner) for inner in inside)


def _callee(equation: Any) -> Any:
    name = equation.primitive.name
    if name not in _CALLS and not (name in _CUSTOM and _is_jaxs_own(equation)):
        return None
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if name in equation.params:
            return equation.params[name]
    return None


def _captured(value: Any) -> Atom:
    """A value that a function closes over: a constant, unless it is a value of an outer trace."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            "expected the function to take every traced array as an argument, but it closes over one of "
            f"{element_type(value.dtype)} {list(value.shape)}"
        )
    return Const(value, np.shape(value))


def _node(graph: Graph, equation: Any, inputs: list[Atom], calls: tuple[Any, ...]) -> list[Atom]:
    name, params = equation.primitive.name, equation.params
    types = [v.aval for v in equation.outvars]
    # The effect of an axis of jax.shard_map is not a side effect.
    does_more = any(type(effect).__name__ != "NamedAxisEffect" for effect in equation.effects)
    if not does_more and all(isinstance(v, Const) for v in inputs):
        folded = _fold(equation, inputs, types)  # type: ignore[arg-type]
        if folded is not None:
            return folded
    simpler = _simplify(name, inputs) if params.get("dimensions") is None or name == "squeeze" else None
    if simpler is not None and simpler.shape == types[0].shape and simpler.dtype == str(element_type(types[0].dtype)):
        return [simpler]
    views = _as_views(equation, inputs)
    if views is not None:
        return apply(graph, views, inputs[:1], (equation, *calls))
    if name in ("reduce_or", "reduce_and") and inputs[0].dtype == "bool" and np.prod(inputs[0].shape):
        return apply(graph, functools.partial(_truths, name, tuple(params["axes"])), inputs, (equation, *calls))
    if name == "add_any":
        name = "add"
    if name == "clamp":
        return apply(graph, _clamped, inputs, (equation, *calls))
    if name == "mul" and inputs[0] is inputs[1] or name == "integer_pow" and params["y"] == 2:
        name, inputs = "square", inputs[:1]
    node = Node(name, inputs, params, Place(equation, calls))
    node.outputs = [typed(t.shape, t.dtype, node) for t in types]
    node.index = graph.count = graph.count + 1
    if name == "gather":
        node.params.update(rows=rows_of(node), picks=picks_of(node))
    if does_more:
        graph.effects.append(node)
    for value in inputs:
        if isinstance(value, Var):
            value.uses += 1
    return list(node.outputs)


def _truths(name: str, axes: tuple[int, ...], x: Any) -> Any:
    """Whether the largest or smallest truth value is 1."""
    return (jnp.max if name == "reduce_or" else jnp.min)(x.astype(jnp.float32), axes) > 0


def _clamped(low: Any, x: Any, high: Any) -> Any:
    """`jax.lax.clamp` as choices: values that equal a bound have no gradient."""
    x = jnp.where(x <= low, low, x)
    return jnp.where(x >= high, high, x)


def _simplify(name: str, inputs: list[Atom]) -> Atom | None:
    """The operand that an operation returns unchanged if it has the type and shape of the result; None for others."""
    if name in ("slice", "reshape", "squeeze", "broadcast_in_dim"):
        return inputs[0]
    if name == "select_n" and isinstance(inputs[0], Const) and len(inputs) == 3:
        chosen = inputs[0].scalar
        return None if chosen is None else inputs[1 + int(chosen)]
    if name == "sub" and isinstance(inputs[1], Const) and inputs[1].scalar == 0:
        return inputs[0]
    if name == "max":
        for one, other in (inputs, inputs[::-1]):
            if isinstance(one, Const) and one.scalar == float("-inf"):
                return other
    return None


def _as_views(equation: Any, inputs: Sequence[Atom]) -> Callable[[Any], Any] | None:
    """A function of plain views for a reshape that transposes, a tile, or a gather or dynamic_slice at constant indices; else None."""
    name, params = equation.primitive.name, equation.params
    if name == "tile":
        return lambda x: _tiled(x, params["reps"])
    if name == "reshape" and params.get("dimensions") is not None:
        return lambda x: jax.lax.reshape(jax.lax.transpose(x, params["dimensions"]), params["new_sizes"])
    if name not in ("gather", "dynamic_slice") or not all(isinstance(v, Const) for v in inputs[1:]):
        return None
    operand, indices = inputs[0], [v.array() for v in inputs[1:]]  # type: ignore[union-attr]
    sizes = [int(s) for s in params["slice_sizes"]]
    starts: list[int] = [0] * len(operand.shape)
    dropped: tuple[int, ...] = ()
    if name == "dynamic_slice":
        # JAX moves the start so that the slice fits.
        last = [size - part for size, part in zip(operand.shape, sizes)]
        starts = [min(max(int(index), 0), end) for index, end in zip(indices, last)]
    else:
        numbers = params["dimension_numbers"]
        if indices[0].ndim != 1 or numbers.operand_batching_dims:
            return None
        for axis, start in zip(numbers.start_index_map, indices[0]):
            starts[axis] = int(start)
        dropped = tuple(int(a) for a in numbers.collapsed_slice_dims)
    ends = [start + size for start, size in zip(starts, sizes)]
    if any(start < 0 or end > size for start, end, size in zip(starts, ends, operand.shape)):
        return None
    return lambda x: jax.lax.squeeze(jax.lax.slice(x, starts, ends), dropped)


def _tiled(x: Any, times: Sequence[int]) -> Any:
    """x repeated along each axis."""
    sizes = [size for pair in zip(times, x.shape) for size in pair]
    spread = jax.lax.broadcast_in_dim(x, sizes, range(1, 2 * x.ndim, 2))
    return jax.lax.reshape(spread, [n * size for n, size in zip(times, x.shape)])


def _fold(equation: Any, inputs: Sequence[Const], types: Sequence[Any]) -> list[Atom] | None:
    name, params = equation.primitive.name, equation.params
    shape = types[0].shape
    opaque = any(c.opaque for c in inputs)
    if name == "broadcast_in_dim" and not opaque:
        (operand,) = inputs
        compact = [1] * len(shape)
        for axis, out in enumerate(params["broadcast_dimensions"]):
            compact[out] = operand.compact.shape[axis]
        return [Const(operand.compact.reshape(compact), shape)]
    if name in ELEMENTWISE and not opaque:
        rank = len(shape)
        padded = [c.compact.reshape((1,) * (rank - c.compact.ndim) + c.compact.shape) for c in inputs]
        values = list(np.broadcast_arrays(*padded))
        made = equation.primitive.bind(*map(jnp.asarray, values), **params)
        return [Const(made, shape)]
    if sum(int(np.prod(v.shape)) for v in (*inputs, *types)) > LARGEST_CONSTANT or any(
        not hasattr(t, "shape") for t in types
    ):
        return None
    values = _evaluate(equation, [jnp.asarray(c.array()) for c in inputs])
    return [Const(v, t.shape) for v, t in zip(values, types)]


def _evaluate(equation: Any, inputs: Sequence[Any]) -> list[Any]:
    """Computes the results of an equation for these arrays."""
    params = equation.primitive.get_bind_params(equation.params)
    made = equation.primitive.bind(*inputs, **params)
    return list(made) if equation.primitive.multiple_results else [made]


def _operands(node: Node, values: Sequence[Any]) -> list[Any]:
    """The operands of a node's equation, which may have more than the node, because x * x is imported as a square."""
    count = len(node.origin.equation.invars)
    return (list(values) * count)[:count]


class Evaluator:
    """Computes values of a graph with JAX, from values that are given."""

    def __init__(self, known: dict[Var, Any]) -> None:
        self.known = dict(known)

    def __call__(self, atom: Atom) -> Any:
        if isinstance(atom, Const):
            return jnp.asarray(atom.array())
        for node in order_of(atom, self.known):
            inputs = vary(_operands(node, [self(v) for v in node.inputs]))
            if node.name == "broadcast_in_dim":
                # The importer may have made it for an operand of the equation, which does not repeat it.
                axes = [int(a) for a in node.params["broadcast_dimensions"]]
                self.known[node.output] = jax.lax.broadcast_in_dim(inputs[0], node.output.shape, axes)
                continue
            self.known.update(zip(node.outputs, _evaluate(node.origin.equation, inputs)))
        return self.known[atom]
