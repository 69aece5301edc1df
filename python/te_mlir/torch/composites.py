"""Converts ATen ops that are several operations of the graph: norms, variances, padding, einsum, moves, some functions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node as Origin

from te_mlir.frontend.graph import Node, Var

#: te_mlir.torch.adapter.Adapter, whose file imports this one.
Adapter = Any
Given = dict[str, Any]


def reciprocal(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    return adapter.op(node, "div", [adapter.atom(1.0), adapter.var(given["self"])])


def softplus(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    return adapter.op(node, "softplus", [adapter.var(given["self"])], beta=given["beta"])


def log_sigmoid(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    """-softplus(-x)"""
    x = adapter.between(var.shape, var.dtype, adapter.op(node, "neg", [adapter.var(given["self"])]))
    y = adapter.between(var.shape, var.dtype, adapter.op(node, "softplus", [x], beta=1.0))
    return adapter.op(node, "neg", [y])


def variance(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    """The mean of squared differences from the mean, times n / (n - correction)."""
    x = adapter.var(given["self"])
    axes = tuple(axis % len(x.shape) for axis in given.get("dim") or range(len(x.shape)))
    count = math.prod(x.shape[axis] for axis in axes)
    correction = given["correction"] if "correction" in given else int(given.get("unbiased", True))
    correction = 1 if correction is None else correction
    if not x.shape or count <= correction:
        return None
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    mean = adapter.between(kept, x.dtype, adapter.op(node, "mean", [x], axes=axes))
    apart = adapter.between(x.shape, x.dtype, adapter.op(node, "sub", [x, mean]))
    squares = adapter.between(x.shape, x.dtype, adapter.op(node, "square", [apart]))
    made = adapter.op(node, "mean", [squares], axes=axes)
    if correction:
        factor = adapter.atom(count / (count - correction))
        made = adapter.op(node, "mul", [adapter.between(var.shape, var.dtype, made), factor])
    return made


def deviation(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    made = variance(adapter, node, given, var)
    return adapter.op(node, "sqrt", [adapter.between(var.shape, var.dtype, made)]) if made is not None else None


def norm(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    """The square root of the sum of squares, which has no gradient where it is 0."""
    x, order = adapter.var(given["self"]), given.get("ord", given.get("p", 2))
    if order not in (2, None) or not x.shape or x.dtype != var.dtype:
        return adapter.lacking(node, f"a norm of order {order} has no counterpart in te; 2 has")
    axes = tuple(axis % len(x.shape) for axis in given.get("dim") or range(len(x.shape)))
    squares = adapter.between(x.shape, x.dtype, adapter.op(node, "square", [x]))
    total = adapter.between(var.shape, var.dtype, adapter.op(node, "reduce_sum", [squares], axes=axes))
    is_zero = adapter.between(var.shape, "bool", adapter.op(node, "eq", [total, adapter.atom(0.0)]))
    safe = adapter.op(node, "select_n", [is_zero, total, adapter.atom(1.0)])
    root = adapter.op(node, "sqrt", [adapter.between(var.shape, var.dtype, safe)])
    return adapter.op(node, "select_n", [is_zero, adapter.between(var.shape, var.dtype, root), adapter.atom(0.0)])


def mish(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    """x tanh(softplus(x))"""
    x = adapter.var(given["self"])
    y = adapter.between(var.shape, var.dtype, adapter.op(node, "softplus", [x], beta=1.0))
    y = adapter.between(var.shape, var.dtype, adapter.op(node, "tanh", [y]))
    return adapter.op(node, "mul", [x, y])


def elu(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    alpha, scale, inner = given.get("alpha", 1.0), given.get("scale", 1.0), given.get("input_scale", 1.0)
    if node.target is torch.ops.aten.selu.default:
        alpha, scale = 1.6732632423543772, 1.0507009873554805
    if node.target is torch.ops.aten.celu.default:
        inner = 1.0 / alpha
    return adapter.op(node, "elu", [adapter.var(given["self"])], alpha=alpha, scale=scale, inner=inner)


def glu(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    """The first half times the sigmoid of the second."""
    x = adapter.var(given["self"])
    axis, size = given["dim"] % len(x.shape), var.shape[given["dim"]]
    ends = (0, size), (size, 2 * size)
    a, b = (adapter.between(var.shape, x.dtype, adapter.part(node, x, axis, *end)) for end in ends)
    return adapter.op(node, "mul", [a, adapter.between(var.shape, var.dtype, adapter.op(node, "logistic", [b]))])


def added_product(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    """self + value tensor1 tensor2"""
    x, a, b = (adapter.aligned(node, given[name], len(var.shape)) for name in ("self", "tensor1", "tensor2"))
    made = adapter.between(var.shape, var.dtype, adapter.op(node, "mul", [a, b]))
    if given["value"] != 1:
        made = adapter.between(var.shape, var.dtype, adapter.op(node, "mul", [made, adapter.atom(given["value"])]))
    return adapter.op(node, "add", [x, made])


def interpolated(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    """self + weight (end - self)"""
    x, end, weight = (adapter.aligned(node, given[name], len(var.shape)) for name in ("self", "end", "weight"))
    apart = adapter.between(var.shape, var.dtype, adapter.op(node, "sub", [end, x]))
    return adapter.op(node, "add", [x, adapter.between(var.shape, var.dtype, adapter.op(node, "mul", [apart, weight]))])


def distance(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    """The mean or the sum of squares or sizes of differences, or these themselves."""
    shape = torch.broadcast_shapes(*(given[name].meta["val"].shape for name in ("self", "target")))
    operands = [adapter.aligned(node, given[name], len(shape)) for name in ("self", "target")]
    apart = adapter.between(shape, var.dtype, adapter.op(node, "sub", operands))
    made = adapter.op(node, "square" if node.target is torch.ops.aten.mse_loss.default else "abs", [apart])
    if not given["reduction"] or not shape:
        return made
    name = "mean" if given["reduction"] == 1 else "reduce_sum"
    return adapter.op(node, name, [adapter.between(shape, var.dtype, made)], axes=tuple(range(len(shape))))


def flipped(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    axes = tuple(axis % len(var.shape) for axis in given["dims"])
    return adapter.op(node, "rev", [adapter.var(given["self"])], dimensions=axes)


def rolled(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    """The last elements before the first ones, along each axis; None if no axis is given."""
    x = adapter.var(given["self"])
    made = None if len(given["dims"]) != len(given["shifts"]) else adapter.op(node, "copy", [x])
    for shift, axis in zip(given["shifts"], given["dims"]):
        size, axis = x.shape[axis], axis % len(x.shape)
        if shift % size and made is not None:
            x = adapter.between(x.shape, x.dtype, made)
            ends = (size - shift % size, size), (0, size - shift % size)
            shapes = [(*x.shape[:axis], end - first, *x.shape[axis + 1 :]) for first, end in ends]
            parts = [adapter.between(s, x.dtype, adapter.part(node, x, axis, *end)) for s, end in zip(shapes, ends)]
            made = adapter.op(node, "concatenate", parts, dimension=axis)
    return made


def cumulative(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    x = adapter.var(given["self"])
    if not x.shape or x.dtype != var.dtype:
        return None
    return adapter.op(node, "cumsum", [x], axis=given["dim"] % len(x.shape))


def _moved(adapter: Adapter, node: Origin, shape: list[int], order: list[int]) -> Node:
    """A tensor that is reshaped, transposed, and reshaped again."""
    x = adapter.var(node.args[0])
    split = adapter.between(shape, x.dtype, adapter.op(node, "reshape", [x]))
    turned = adapter.op(node, "transpose", [split], permutation=tuple(order))
    return adapter.op(node, "reshape", [adapter.between([shape[n] for n in order], x.dtype, turned)])


def depth_to_space(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    """Channels [c, r, r] become rows and columns of blocks of r by r."""
    *lead, channels, height, width = adapter.var(given["self"]).shape
    r, n = given["upscale_factor"], len(lead)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return _moved(adapter, node, [*lead, channels // r**2, r, r, height, width], order)


def space_to_depth(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    *lead, channels, height, width = adapter.var(given["self"]).shape
    r, n = given["downscale_factor"], len(lead)
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return _moved(adapter, node, [*lead, channels, height // r, r, width // r, r], order)


def shuffled(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    """Channels [groups, rest] become [rest, groups]."""
    batch, channels, *rest = adapter.var(given["self"]).shape
    shape = [batch, given["groups"], channels // given["groups"], *rest]
    return _moved(adapter, node, shape, [0, 2, 1, *range(3, len(shape))])


def padded(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    """Constants before and after the elements of the last dimensions."""
    if given.get("mode", "constant") != "constant":
        return adapter.lacking(node, f"padding of mode '{given['mode']}' has no counterpart in te; 'constant' has")
    x, amounts = adapter.var(given["self"]), list(given["pad"])
    sides = [(0, 0, 0)] * (len(x.shape) - len(amounts) // 2)
    sides += [(low, high, 0) for low, high in zip(amounts[::2], amounts[1::2])][::-1]
    value = given.get("value")
    return adapter.op(node, "pad", [x, adapter.atom(0 if value is None else value)], padding_config=tuple(sides))


def einsum(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    """A transpose of a sum or of a product; None for several products, products of elements and repeated labels."""
    inputs, _, output = given["equation"].replace(" ", "").partition("->")
    labels = inputs.split(",")
    if "->" not in given["equation"] or any(len(set(own)) != len(own) or "." in own for own in (*labels, output)):
        return None
    operands = [adapter.var(tensor) for tensor in given["tensors"]]
    for n, (x, own) in enumerate(zip(operands, labels)):
        others = "".join(labels[:n] + labels[n + 1 :]) + output
        alone = tuple(axis for axis, label in enumerate(own) if label not in others)
        if alone:
            labels[n] = "".join(label for label in own if label in others)
            shape = [size for axis, size in enumerate(x.shape) if axis not in alone]
            operands[n] = adapter.between(shape, x.dtype, adapter.op(node, "reduce_sum", [x], axes=alone))
    made, order = operands[0], labels[0]
    if len(operands) == 2:
        (x, w), (a, b) = operands, labels
        sizes = [dict(zip(own, v.shape)) for own, v in zip(labels, operands)]
        batch = [label for label in a if label in b and label in output]
        summed = [label for label in a if label in b and label not in output]
        if not summed or any(sizes[0][label] != sizes[1][label] for label in batch + summed):
            return None
        order = "".join(batch + [label for own in (a, b) for label in own if label not in batch + summed])
        pairs = [tuple(tuple(own.index(label) for label in some) for own in (a, b)) for some in (summed, batch)]
        shape = [{**sizes[0], **sizes[1]}[label] for label in order]
        product = adapter.op(node, "dot_general", [x, w], dimension_numbers=tuple(pairs))
        if order == output:
            return product
        made = adapter.between(shape, var.dtype, product)
    if len(operands) > 2:
        return None
    return adapter.op(node, "transpose", [made], permutation=tuple(order.index(label) for label in output))
