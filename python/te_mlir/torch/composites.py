"""Converts ATen ops that are several operations of the graph: norms, variances, padding, einsum and some functions."""

from __future__ import annotations

import math
from typing import Any

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
