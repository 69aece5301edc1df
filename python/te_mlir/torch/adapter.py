"""Converts ATen graphs to the graph that both frontends import (`te_mlir.frontend.graph`).

Each node of the ATen graph becomes a value, which is converted when it is first read. A node may
become several operations; the values between them have no origin.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Node as Origin

from te_mlir.frontend.graph import Const, Node, Var
from te_mlir.torch import composites, custom, varlen
from te_mlir.torch.dropouts import DRAWN

#: Ops that return several views of one tensor.
SPLITS = ("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split", "unbind")

#: Ops whose results are truth values, of floats and of truth values, and what they are called in the graph.
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
LOGIC = {
    **dict.fromkeys(("logical_and", "bitwise_and", "__and__"), "and"),
    **dict.fromkeys(("logical_or", "bitwise_or", "__or__"), "or"),
    **dict.fromkeys(("logical_xor", "bitwise_xor", "__xor__"), "xor"),
    **dict.fromkeys(("logical_not", "bitwise_not"), "not"),
}

#: Ops that convert the elements of a tensor.
CASTS = ("to", "_to_copy", "type_as", "float")

#: Views of all elements, in their order, and with two axes exchanged.
RESHAPES = ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze")
SWAPS = ("transpose", "swapaxes", "swapdims", "t", "mT")

#: The key in a node's meta that excludes the node from patterns.
APART = "te_apart"

_ORDERING = (
    "sort",
    "argsort",
    "topk",
    "kthvalue",
    "median",
    "mode",
    "argmax",
    "argmin",
    "cummax",
    "cummin",
    "quantile",
)
_WRITING = ("scatter", "scatter_add", "scatter_reduce", "index_add", "index_fill", "index_put")
#: Why ops are not imported, if more can be said than that te does not have them.
_LACKING = {
    **dict.fromkeys(_ORDERING, "its indices depend on its elements, and te has no operation that orders elements"),
    **dict.fromkeys(_WRITING, "te has no operation that writes elements at indices"),
    **dict.fromkeys(("norm", "linalg_vector_norm"), "only norms of order 1, 2 and infinity have a counterpart in te"),
    "batch_norm": "it normalises by statistics of the batch; only statistics that are stored, as in 'eval', are imported",
    "binary_cross_entropy": "its gradient is bounded next to 0 and 1; use 'binary_cross_entropy_with_logits'",
}

Given = dict[str, Any]

#: The libraries of the ops that are imported.
_NAMED = ("aten.", "te_mlir_torch.expert_")


def reason_of(node: Origin) -> str:
    """Why te does not have the op of a node."""
    if node.target is custom.OP:
        return custom.reason_of(node)
    value = node.meta.get("val")
    if name_of(node) not in _LACKING and isinstance(value, torch.Tensor) and not value.is_floating_point():
        return f"its result has elements of {str(value.dtype)[6:]}, and te computes only floats"
    return _LACKING.get(name_of(node), f"'{node.target}' has no counterpart in te")


def _op(node: Origin) -> Any:
    """The op that a node calls."""
    return DRAWN.get(node.target, node.target)


def name_of(node: Origin) -> str:
    """The name of a node's op: `add` for aten.add.Tensor."""
    target = str(_op(node))
    return target.split(".")[1] if target.startswith(_NAMED) else target


def given(node: Origin) -> Given:
    """The arguments of a call of an ATen op by name, including defaults, and `state` and `stream` if it draws."""
    arguments = _op(node)._schema.arguments
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
    names = ["state", "stream"] if node.target in DRAWN else []
    names += [a.name for a in arguments]
    return {**defaults, **dict(zip(names, node.args)), **node.kwargs}


def _shape(node: Origin) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


class Adapter:
    """Converts the nodes of an ATen graph to values, whose origins are these nodes."""

    def __init__(self) -> None:
        self._vars: dict[Origin, Var] = {}

    def var(self, node: Origin) -> Var:
        """The value of a node. A node with several tensors has one value without dimensions."""
        if node not in self._vars:
            value: Any = node.meta.get("val")
            is_tensor = isinstance(value, torch.Tensor)
            shape, dtype = (tuple(value.shape), str(value.dtype)[6:]) if is_tensor else ((), "none")
            made = Var(shape, dtype, origin=node, make=lambda var: self._node(node, var))
            made.uses = len(node.users)
            self._vars[node] = made
        return self._vars[node]

    def atom(self, value: Any) -> Any:
        """The value of a node, or of a number, which is not rounded; None for other arguments."""
        if isinstance(value, Origin):
            return self.var(value)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return Const(np.asarray(value), (), exact=True) if number else None

    def _node(self, node: Origin, var: Var) -> Node | None:
        if node.op == "placeholder":
            return None
        made = self._made(node, var)
        made.outputs = [var]
        return made

    def _made(self, node: Origin, var: Var) -> Node:
        if node.op != "call_function":
            return self.lacking(node, f"'{node.op}' is not imported")
        if node.target is operator.getitem:
            return self._item(node, *node.args)  # type: ignore[arg-type]
        make = _OPS.get(name_of(node)) if str(_op(node)).startswith(_NAMED) else None
        made = make(self, node, given(node), var) if make is not None else None
        if made is None:
            return self.lacking(node, reason_of(node))
        return made

    def op(self, node: Origin, name: str, inputs: Sequence[Any], **params: Any) -> Node:
        """Creates an operation for all or a part of `node`."""
        return Node(name, inputs, params, node, APART in node.meta)

    def lacking(self, node: Origin, reason: str) -> Node:
        """Creates an operation for a node that cannot be imported, with the reason."""
        return self.op(node, str(node.target), [self.var(n) for n in node.all_input_nodes], reason=reason)

    def between(self, shape: Sequence[int], dtype: str, made: Node) -> Var:
        """The result of an operation that is not the last one of its ATen node; patterns reach it only through that node."""
        var = Var(shape, dtype, made)
        var.uses, made.outputs, made.apart = 1, [var], False
        return var

    def aligned(self, node: Origin, value: Any, rank: int) -> Any:
        """An operand of an elementwise op, a node, a number or a value, with `rank` dimensions or none."""
        atom = value if isinstance(value, Var) else self.atom(value)
        if not isinstance(atom, Var) or len(atom.shape) in (0, rank):
            return atom
        axes = tuple(range(rank - len(atom.shape), rank))
        shape = (1,) * axes[0] + atom.shape
        return self.between(shape, atom.dtype, self.op(node, "broadcast_in_dim", [atom], broadcast_dimensions=axes))

    def part(self, node: Origin, source: Var, axis: int, first: int, end: int, step: int = 1) -> Node:
        """Creates a slice of one axis: elements `first`, `first + step`, ... before `end`."""
        starts, limits, strides = [0] * len(source.shape), list(source.shape), [1] * len(source.shape)
        starts[axis], limits[axis], strides[axis] = first, end, step
        params = {"start_indices": tuple(starts), "limit_indices": tuple(limits), "strides": tuple(strides)}
        return self.op(node, "slice", [source], **params)

    def place(self, node: Origin, source: Var, axis: int, index: int) -> Node:
        """Creates a slice at one index of an axis, without that axis."""
        if source.shape[axis] == 1:
            return self.op(node, "reshape", [source])
        part = self.part(node, source, axis, index, index + 1)
        shape = (*source.shape[:axis], 1, *source.shape[axis + 1 :])
        return self.op(node, "reshape", [self.between(shape, source.dtype, part)])

    def select(self, node: Origin, which: Any, yes: Any, no: Any, rank: int) -> Node | None:
        """Creates a choice between two operands; None if an operand is not a tensor or a number."""
        inputs = [self.aligned(node, v, rank) for v in (which, no, yes)]
        return self.op(node, "select_n", inputs) if None not in inputs else None

    def gemm(self, node: Origin, var: Var, x: Var, w: Var, axis: int, bias: Any) -> Node:
        """Creates the product of x, contracted over its last axis, and a matrix or vector `w`, contracted over `axis`.

        The bias of the node is added, if it has one.
        """
        numbers = ((max(len(x.shape) - 1, 0),), (axis,)), ((), ())
        made = self.op(node, "dot_general", [x, w], dimension_numbers=numbers)
        if bias is None:
            return made
        return self.op(
            node, "add", [self.between(var.shape, var.dtype, made), self.aligned(node, bias, len(var.shape))]
        )

    # Readers

    def uses(self, var: Var) -> list[Var]:
        """The values computed directly from `var`. If a node returns several views, each of them counts."""
        users = var.origin.users
        return [self.var(v) for user in users for v in (user.users if name_of(user) in SPLITS else [user])]

    def readers(self, var: Var) -> list[Node]:
        """The operations that read `var`."""
        nodes = [self.var(user).node for user in var.origin.users] if var.origin is not None else []
        return [node for node in nodes if node is not None]

    def _item(self, node: Origin, several: Origin, index: int) -> Node:
        """Creates the operation for one of the results of a node."""
        values: Any = several.meta.get("val")
        if str(several.target) in ("aten.max.dim", "aten.min.dim") and index == 0:
            arguments = given(several)
            made = self._reduced(several, f"reduce_{name_of(several)}", arguments["self"], [arguments["dim"]])
            # Its gradient is not that of amax if elements are equal.
            made.params["index"] = True
            return made
        if varlen.is_call(several):
            return self._packed(node, several, index)
        if name_of(several) not in SPLITS or not str(several.target).startswith("aten."):
            return self.lacking(several, reason_of(several))
        arguments = given(several)
        source = self.var(arguments["self"])
        axis, index = arguments["dim"] % len(source.shape), index % len(values)
        if name_of(several) == "unbind":
            return self.place(node, source, axis, index)
        first = sum(value.shape[axis] for value in values[:index])
        return self.part(node, source, axis, first, first + values[index].shape[axis])

    def _packed(self, node: Origin, several: Origin, index: int) -> Node:
        """Creates the operation for the results of attention of packed documents, [tokens, heads, width]."""
        reason = varlen.unsupported(several) or (None if index == 0 else "only its first result is implemented")
        if reason is not None:
            return self.lacking(several, reason)
        call = varlen.call_of(several)
        order = (0, 2, 1, 3)

        def heads_first(tensor: Origin) -> Var:
            x = self.var(tensor)
            tokens, heads, width = x.shape
            rows = self.between((1, *x.shape), x.dtype, self.op(several, "reshape", [x]))
            return self.between(
                (1, heads, tokens, width), x.dtype, self.op(several, "transpose", [rows], permutation=order)
            )

        q, k, v = (heads_first(tensor) for tensor in (call.q, call.k, call.v))
        params = {"causal": call.causal, "scale": call.scale, "window_left": call.window_left, "longest": call.longest}
        made = self.op(several, "attention", [q, k, v, None, self.var(call.boundaries)], **params)
        shape = (*q.shape[:3], v.shape[3])
        rows = self.op(several, "transpose", [self.between(shape, q.dtype, made)], permutation=order)
        shape = (1, shape[2], shape[1], shape[3])
        return self.op(node, "reshape", [self.between(shape, q.dtype, rows)])

    def _reduced(self, node: Origin, name: str, source: Origin, axes: Sequence[int]) -> Node:
        operand = self.var(source)
        rank = max(len(operand.shape), 1)
        return self.op(node, name, [operand], axes=tuple(axis % rank for axis in axes))


Make = Callable[[Adapter, Origin, Given, Var], Node | None]


def _unary(name: str) -> Make:
    return lambda adapter, node, given, var: adapter.op(node, name, [adapter.var(given["self"])])


def _binary(name: str, swap: bool = False) -> Make:
    def make(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
        if "other" not in given:
            return adapter._reduced(node, f"reduce_{name}", given["self"], range(len(_shape(given["self"]))))
        a, b = given["self"], given["other"]
        if given.get("alpha", 1) != 1:
            return adapter.lacking(node, "its 'alpha' is not 1")
        if given.get("rounding_mode") is not None:
            return adapter.lacking(node, "its 'rounding_mode' has no counterpart in te")
        if name == "mul" and a is b:
            return adapter.op(node, "square", [adapter.var(a)])
        operands = [adapter.aligned(node, v, len(var.shape)) for v in ((b, a) if swap else (a, b))]
        return adapter.op(node, name, operands) if None not in operands else None

    return make


def _logic(name: str) -> Make:
    def make(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
        operands = [adapter.aligned(node, given[n], len(var.shape)) for n in ("self", "other") if n in given]
        return adapter.op(node, name, operands) if None not in operands else None

    return make


def _where(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    if "self" not in given:
        return None
    return adapter.select(node, given["condition"], given["self"], given["other"], len(var.shape))


def _filled(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    return adapter.select(node, given["mask"], given["value"], given["self"], len(var.shape))


def _clamped(strict: bool, low: str = "min", high: str = "max") -> Make:
    """Bounds by numbers or tensors. strict: whether a value that equals a bound has no gradient."""

    def make(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
        made: Node | None = None
        x = adapter.var(given["self"])
        for name, beyond in ((low, "le" if strict else "lt"), (high, "ge" if strict else "gt")):
            bound = given.get(name)
            if bound is None:
                continue
            x = adapter.between(var.shape, var.dtype, made) if made is not None else x
            operands = [adapter.aligned(node, v, len(var.shape)) for v in (x, bound)]
            if None in operands:
                return None
            which = adapter.between(var.shape, "bool", adapter.op(node, beyond, operands))
            made = adapter.select(node, which, bound, x, len(var.shape))
        return made

    return make


def _leaky_relu(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    x = adapter.var(given["self"])
    holds = adapter.op(node, "gt", [x, adapter.atom(0)])
    scaled = adapter.op(node, "mul", [x, adapter.atom(given["negative_slope"])])
    which, slope = adapter.between(var.shape, "bool", holds), adapter.between(var.shape, var.dtype, scaled)
    return adapter.select(node, which, x, slope, len(var.shape))


def _pow(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    exponent = given["exponent"]
    special = {0.5: "sqrt", -0.5: "rsqrt"}.get(exponent) if isinstance(exponent, float) else None
    if special is not None and isinstance(given["self"], Origin):
        return adapter.op(node, special, [adapter.var(given["self"])])
    if exponent == -1 and isinstance(given["self"], Origin):
        return composites.reciprocal(adapter, node, given, var)
    if not isinstance(given["self"], Origin) or exponent not in (2, 3, 4):
        operands = [adapter.aligned(node, value, len(var.shape)) for value in (given["self"], exponent)]
        return adapter.op(node, "pow", operands) if None not in operands else None
    x = adapter.var(given["self"])
    return adapter.op(node, "square", [x]) if exponent == 2 else adapter.op(node, "integer_pow", [x], y=int(exponent))


def _rounded(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    if given.get("decimals", 0):
        return adapter.lacking(node, "only rounding to whole numbers is imported, without 'decimals'")
    return adapter.op(node, "round", [adapter.var(given["self"])])


def _gelu(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    return adapter.op(node, "gelu", [adapter.var(given["self"])], approximate=given["approximate"] == "tanh")


def _over_axes(name: str) -> Make:
    def make(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
        axes = given.get("dim") or range(len(_shape(given["self"])))
        return adapter._reduced(node, name, given["self"], axes)

    return make


def _along_axis(name: str) -> Make:
    def make(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
        x = adapter.var(given["self"])
        if x.dtype != var.dtype:
            # PyTorch casts the operand to `dtype` first.
            x = adapter.between(x.shape, var.dtype, adapter.op(node, "convert_element_type", [x]))
        return adapter.op(node, name, [x], axis=given["dim"] % max(len(x.shape), 1))

    return make


def _cast(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    source: Any = node.args[0]
    if not isinstance(source, Origin):
        return adapter.lacking(node, "it makes a tensor of a number")
    if node.meta["val"].device != source.meta["val"].device:
        return adapter.lacking(node, "it moves a tensor to another device")
    return adapter.op(node, "convert_element_type", [adapter.var(source)])


def _cat(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    tensors = [adapter.var(n) for n in given["tensors"]]
    # A key-value cache that is still empty is concatenated as a tensor without elements.
    filled = [v for v in tensors if math.prod(v.shape)]
    if len(filled) == 1 and filled[0].shape == var.shape:
        # The result has the widest type of all tensors, including those without elements.
        return adapter.op(node, "convert_element_type" if filled[0].dtype != var.dtype else "copy", filled)
    axis = given["dim"] % max(len(var.shape), 1)
    return adapter.op(node, "concatenate", tensors, dimension=axis)


def _stack(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    tensors = [adapter.var(n) for n in given["tensors"]]
    return adapter.op(node, "stack", tensors, axis=given["dim"] % len(var.shape))


def _tiled(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    x, times = adapter.var(given["self"]), list(given["repeats"] if "repeats" in given else given["dims"])
    times = [1] * (len(x.shape) - len(times)) + times
    shape = [1] * (len(times) - len(x.shape)) + list(x.shape)
    return _expanded(
        adapter, node, x, [size for pair in zip(times, shape) for size in pair], range(1, 2 * len(times), 2)
    )


def _repeated_each(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    if not isinstance(given.get("repeats"), int) or given.get("dim") is None:
        return None
    x, times = adapter.var(given["self"]), given["repeats"]
    axis = given["dim"] % len(x.shape)
    shape = [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]]
    return _expanded(adapter, node, x, shape, [a for a in range(len(shape)) if a != axis + 1])


def _expanded(adapter: Adapter, node: Origin, x: Var, shape: list[int], axes: Sequence[int]) -> Node:
    """Creates a reshape of x repeated to `shape`; the dimensions of x are the last ones of `axes`."""
    own = tuple(axes)[len(axes) - len(x.shape) :]
    spread = adapter.op(node, "broadcast_in_dim", [x], broadcast_dimensions=own)
    return adapter.op(node, "reshape", [adapter.between(shape, x.dtype, spread)])


def _dropout(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    x = adapter.var(given["input"])
    if "state" not in given:
        return adapter.op(node, "copy", [x])
    return adapter.op(node, "dropout", [x, adapter.var(given["state"])], probability=given["p"], stream=given["stream"])


def _linear(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    x, w = adapter.var(given["input"]), adapter.var(given["weight"])
    return adapter.gemm(node, var, x, w, len(w.shape) - 1, given["bias"])


def _product(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    x, w = adapter.var(given["self"]), adapter.var(given["mat2" if "mat2" in given else "other"])
    rank = len(w.shape)
    if rank <= 2:
        return adapter.gemm(node, var, x, w, 0, None)
    if len(x.shape) != rank:
        return adapter.lacking(node, "its operands have different numbers of dimensions")
    # Batches of size 1 are repeated: these are the heads of keys and values in grouped-query attention.
    if any(b not in (1, a) for a, b in zip(x.shape[:-2], w.shape[:-2])):
        return adapter.lacking(node, "its operands have different batch sizes")
    batches = tuple(range(rank - 2))
    contracted = (rank - 1,), (rank - 2,)
    return adapter.op(node, "dot_general", [x, w], dimension_numbers=(contracted, (batches, batches)))


def _addmm(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    bias, x, w = (adapter.var(given[n]) for n in ("self", "mat1", "mat2"))
    if given["beta"] != 1 or given["alpha"] != 1 or len(bias.shape) != 1:
        return adapter.lacking(node, "its 'alpha' or 'beta' is not 1, or its bias is not a vector")
    return adapter.gemm(node, var, x, w, 0, given["self"])


def _embedding(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    if given["scale_grad_by_freq"] or given["sparse"]:
        return adapter.lacking(node, "scale_grad_by_freq and sparse are not implemented")
    operands = [adapter.var(given[n]) for n in ("weight", "indices")]
    return adapter.op(node, "embedding", operands, padding=given["padding_idx"])


def _rms_norm(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    if len(given["normalized_shape"]) != 1:
        return adapter.lacking(node, "it normalises several dimensions")
    # The default is the epsilon of the type that the norm is computed in, as in PyTorch.
    epsilon = torch.finfo(torch.float32).eps if given["eps"] is None else given["eps"]
    return adapter.op(node, "rms_norm", [adapter.atom(given[n]) for n in ("input", "weight")], epsilon=epsilon)


def _layer_norm(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    if len(given["normalized_shape"]) != 1:
        return adapter.lacking(node, "it normalises several dimensions")
    operands = [adapter.atom(given[n]) for n in ("input", "weight", "bias")]
    return adapter.op(node, "layer_norm", operands, epsilon=given["eps"])


def _attention(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    operands = [adapter.atom(given[n]) for n in ("query", "key", "value", "attn_mask")]
    if {len(operand.shape) for operand in (var, *operands[:3])} != {4}:
        return adapter.lacking(node, "q, k and v are not [batch, heads, sequence, width]")
    params = {"causal": given["is_causal"], "scale": given["scale"]}
    if "state" in given:
        operands.append(adapter.var(given["state"]))
        params |= {"probability": given["dropout_p"], "stream": given["stream"]}
    return adapter.op(node, "attention", operands, **params)


def _cross_entropy(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    if given["weight"] is not None or given["reduction"] not in (1, 2) or given.get("label_smoothing"):
        return adapter.lacking(node, "only mean and sum without weights and label smoothing are implemented")
    logits, targets = (adapter.var(given[n]) for n in ("self", "target"))
    if len(logits.shape) != 2 or targets.floating:
        return adapter.lacking(node, "its logits are not [rows, classes], or its targets are not integers")
    name = "nll_loss" if name_of(node).startswith("nll_loss") else "cross_entropy"
    params = {"ignore_index": given["ignore_index"], "summed": given["reduction"] == 2}
    return adapter.op(node, name, [logits, targets], **params, reason=f"'{node.target}' has no counterpart in te")


def _gather(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    x, index = adapter.var(given["self"]), adapter.var(given["index"])
    axis = given["dim"] % max(len(x.shape), 1)
    is_pick = axis == len(x.shape) - 1 and index.shape == (*x.shape[:-1], 1)
    picks = {"picks": (index, False)} if is_pick else {}
    return adapter.op(node, "gather", [x, index], axis=axis, **picks) if x.shape else None


def _expert(*operands: str) -> Make:
    """An op of experts; its other arguments are numbers."""

    def make(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
        others = {name: value for name, value in given.items() if name not in operands}
        return adapter.op(node, name_of(node), [adapter.atom(given[name]) for name in operands], **others)

    return make


# Views


def _view(view: Callable[[Adapter, Origin, Given, Var], Node | None]) -> Make:
    """Applies `view`, unless the node reinterprets the bits of its operand as another type."""

    def make(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node | None:
        source = adapter.var(node.args[0])  # type: ignore[arg-type]
        same = node.meta["val"].dtype is node.args[0].meta["val"].dtype  # type: ignore[union-attr]
        return view(adapter, node, given, source) if same else None

    return make


def _same(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    return adapter.op(node, "copy", [source])


def _stopped(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    return adapter.op(node, "stop_gradient", [source])


def _reshaped(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    return adapter.op(node, "reshape", [source])


def _swapped(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    order = list(range(len(source.shape)))
    a, b = [given[name] for name in ("dim0", "axis0", "dim1", "axis1") if name in given] or (-2, -1)
    if len(order) > 1:
        order[a], order[b] = order[b], order[a]
    return adapter.op(node, "transpose", [source], permutation=tuple(order))


def _reversed(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    return adapter.op(node, "transpose", [source], permutation=tuple(range(len(source.shape)))[::-1])


def _permuted(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    order = tuple(axis % len(source.shape) for axis in given["dims"])
    return adapter.op(node, "transpose", [source], permutation=order)


def _repeated(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    rank = len(_shape(node))
    axes = tuple(range(rank - len(source.shape), rank))
    return adapter.op(node, "broadcast_in_dim", [source], broadcast_dimensions=axes)


def _sliced(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    axis, step = given["dim"] % len(source.shape), given["step"]
    size, start = source.shape[axis], given["start"] or 0
    first = min(max(start + size if start < 0 else start, 0), size)
    return adapter.part(node, source, axis, first, min(first + _shape(node)[axis] * step, size), step)


def _narrowed(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node | None:
    if not isinstance(given["start"], int):
        return None
    axis, first = given["dim"] % len(source.shape), given["start"] % source.shape[given["dim"]]
    return adapter.part(node, source, axis, first, first + given["length"])


def _selected(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    axis = given["dim"] % len(source.shape)
    return adapter.place(node, source, axis, given["index"] % source.shape[axis])


def _strided(adapter: Adapter, node: Origin, given: Given, source: Var) -> Node:
    params = {"strides": tuple(given["stride"]), "offset": given["storage_offset"] or 0}
    return adapter.op(node, "as_strided", [source], **params)


#: Ops that can be emitted without a pattern, for at least some of their arguments.
_EMITTED: dict[str, Make] = {
    **{name: _unary(name) for name in ("neg", "exp", "log", "log1p", "expm1", "sin", "cos")},
    **{name: _unary(name) for name in ("exp2", "log2", "log10", "tan", "sinh", "cosh", "erf", "erfc")},
    **{name: _unary(name) for name in ("floor", "ceil", "trunc")},
    "fmod": _binary("rem"),
    "round": _rounded,
    **{name: _unary(name) for name in ("tanh", "sqrt", "relu", "silu", "square")},
    **{name: _binary(name) for name in ("add", "sub", "mul", "div")},
    "rsub": _binary("sub", swap=True),
    **{name: _unary(name) for name in ("abs", "sign")},
    **{name: _binary(of) for name, of in (("maximum", "max"), ("max", "max"), ("minimum", "min"), ("min", "min"))},
    "where": _where,
    "masked_fill": _filled,
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), _clamped(strict=False)),
    "hardtanh": _clamped(strict=True, low="min_val", high="max_val"),
    "leaky_relu": _leaky_relu,
    "sigmoid": _unary("logistic"),
    "pow": _pow,
    "gelu": _gelu,
    **dict.fromkeys(CASTS, _cast),
    "cat": _cat,
    "stack": _stack,
    "mean": _over_axes("mean"),
    "sum": _over_axes("reduce_sum"),
    "rsqrt": _unary("rsqrt"),
    **dict.fromkeys(("repeat", "tile"), _tiled),
    "reciprocal": composites.reciprocal,
    "softplus": composites.softplus,
    "einsum": composites.einsum,
    **dict.fromkeys(("elu", "selu", "celu"), composites.elu),
    "flip": composites.flipped,
    "cumsum": composites.cumulative,
    **dict.fromkeys(("pad", "constant_pad_nd"), composites.padded),
    "amax": _over_axes("reduce_max"),
    "amin": _over_axes("reduce_min"),
    "log_softmax": _along_axis("log_softmax"),
    "logsumexp": _over_axes("logsumexp"),
    "repeat_interleave": _repeated_each,
    "dropout": _dropout,
    "linear": _linear,
    **dict.fromkeys(("mm", "matmul", "bmm"), _product),
    "addmm": _addmm,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), composites.patches),
    "embedding": _embedding,
    "gather": _gather,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "scaled_dot_product_attention": _attention,
    "cross_entropy_loss": _cross_entropy,
    **dict.fromkeys(("softmax", "_softmax", "_safe_softmax", "special_softmax"), _along_axis("softmax")),
    **dict.fromkeys(("expert_probs", "expert_ids"), _expert("logits", "bias")),
    "expert_used": _expert("ids", "used"),
    "expert_rows": _expert("x", "ids"),
    "expert_linear": _expert("x", "w", "ids", "bias"),
    "expert_sum": _expert("y", "ids", "probs"),
}

_OPS: dict[str, Make] = {
    **_EMITTED,
    # Ops that are emitted only as a part of a pattern.
    **{name: _binary(name) for name in COMPARISONS},
    **{name: _logic(of) for name, of in LOGIC.items()},
    **dict.fromkeys(("nll_loss", "nll_loss_nd"), _cross_entropy),
    # Views.
    **dict.fromkeys(("contiguous", "clone", "alias"), _view(_same)),
    "detach": _view(_stopped),
    **dict.fromkeys(
        (*RESHAPES, "view_as", "reshape_as"),
        _view(_reshaped),
    ),
    **dict.fromkeys(SWAPS, _view(_swapped)),
    "numpy_T": _view(_reversed),
    "permute": _view(_permuted),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _view(_repeated)),
    "slice": _view(_sliced),
    "narrow": _view(_narrowed),
    "select": _view(_selected),
    "as_strided": _view(_strided),
}


def imports(node: Origin) -> bool:
    """Whether the op of a node can be emitted, for at least some of its arguments."""
    return name_of(node) in _EMITTED


def is_known(node: Origin) -> bool:
    """Whether a node can be emitted, by itself or as a part of a pattern, for at least some of its arguments."""
    return node.target is operator.getitem or name_of(node) in _OPS or name_of(node) in SPLITS
