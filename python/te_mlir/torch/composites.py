"""Converts some ATen ops, among them padding and einsum, to operations of the graph."""

from __future__ import annotations

from collections.abc import Sequence
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


def elu(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    alpha, scale, inner = given.get("alpha", 1.0), given.get("scale", 1.0), given.get("input_scale", 1.0)
    if node.target is torch.ops.aten.selu.default:
        alpha, scale = 1.6732632423543772, 1.0507009873554805
    if node.target is torch.ops.aten.celu.default:
        inner = 1.0 / alpha
    return adapter.op(node, "elu", [adapter.var(given["self"])], alpha=alpha, scale=scale, inner=inner)


def flipped(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    axes = tuple(axis % len(var.shape) for axis in given["dims"])
    return adapter.op(node, "rev", [adapter.var(given["self"])], dimensions=axes)


def cumulative(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    x = adapter.var(given["self"])
    if not x.shape or x.dtype != var.dtype:
        return None
    return adapter.op(node, "cumsum", [x], axis=given["dim"] % len(x.shape))


def padded(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node:
    """Constants before and after the elements of the last dimensions."""
    if given.get("mode", "constant") != "constant":
        return adapter.lacking(node, f"padding of mode '{given['mode']}' has no counterpart in te; 'constant' has")
    x, amounts = adapter.var(given["self"]), list(given["pad"])
    sides = [(0, 0, 0)] * (len(x.shape) - len(amounts) // 2)
    sides += [(low, high, 0) for low, high in zip(amounts[::2], amounts[1::2])][::-1]
    value = given.get("value")
    return adapter.op(node, "pad", [x, adapter.atom(0 if value is None else value)], padding_config=tuple(sides))


def is_einsum(equation: str, tensors: Sequence[Origin]) -> bool:
    """Whether an einsum is a sum or one product, and not one of elements, without repeated labels."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    labels = inputs.split(",")
    if not arrow or any(len(set(own)) != len(own) or "." in own for own in (*labels, output)):
        return False
    if len(labels) != 2:
        return len(labels) == 1
    a, b = (dict(zip(own, tensor.meta["val"].shape)) for own, tensor in zip(labels, tensors))
    return any(label in b and label not in output for label in a) and all(
        a[label] == b[label] for label in a if label in b
    )


def einsum(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    """A transpose of a sum or of a product."""
    if not is_einsum(given["equation"], given["tensors"]):
        return None
    inputs, _, output = given["equation"].replace(" ", "").partition("->")
    labels = inputs.split(",")
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
        order = "".join(batch + [label for own in (a, b) for label in own if label not in batch + summed])
        pairs = [tuple(tuple(own.index(label) for label in some) for own in (a, b)) for some in (summed, batch)]
        shape = [{**sizes[0], **sizes[1]}[label] for label in order]
        product = adapter.op(node, "dot_general", [x, w], dimension_numbers=tuple(pairs))
        if order == output:
            return product
        made = adapter.between(shape, var.dtype, product)
    return adapter.op(node, "transpose", [made], permutation=tuple(order.index(label) for label in output))
