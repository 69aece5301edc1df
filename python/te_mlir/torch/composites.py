"""Converts some ATen ops, among them padding, einsum and convolutions, to operations of the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node as Origin

from te_mlir.frontend.graph import Node, Var, is_floating

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
    if not x.shape or not is_floating(x.dtype):
        return None
    if x.dtype != var.dtype:
        x = adapter.between(x.shape, var.dtype, adapter.op(node, "convert_element_type", [x]))
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


#: The most groups of a convolution, each of which is a GEMM.
_MOST_GROUPS = 16


def _layers(adapter: Adapter, node: Origin, given: Given, x: Var, w: Var) -> Node:
    """The groups of columns of x, each times its rows of w, beside each other, and the bias of the node."""
    groups, dtype = given["groups"], node.meta["val"].dtype
    outputs, inputs = w.shape[0] // groups, w.shape[1]
    made = Var((*x.shape[:-1], outputs), str(dtype)[6:])
    if groups == 1:
        return adapter.gemm(node, made, x, w, 1, given["bias"])
    parts = []
    for group in range(groups):

        def of(whole: Var, axis: int, size: int, group: int = group) -> Var:
            part = adapter.part(node, whole, axis, group * size, (group + 1) * size)
            return adapter.between((*whole.shape[:axis], size, *whole.shape[axis + 1 :]), whole.dtype, part)

        bias = None if given["bias"] is None else of(adapter.var(given["bias"]), 0, outputs)
        layer = adapter.gemm(node, made, of(x, len(x.shape) - 1, inputs), of(w, 0, outputs), 1, bias)
        parts.append(adapter.between(made.shape, made.dtype, layer))
    return adapter.op(node, "concatenate", parts, dimension=len(x.shape) - 1)


def patches(adapter: Adapter, node: Origin, given: Given, var: Var) -> Node | None:
    """A convolution of patches that do not overlap: a layer of each group that has the elements of a patch as its inputs."""
    x, w = adapter.var(given["input"]), adapter.var(given["weight"])
    kernel, count = w.shape[2:], len(w.shape) - 2
    one_each = lambda name: [*given[name]] * (count if len(given[name]) == 1 else 1)
    padding = given["padding"]
    padded = padding != "valid" if isinstance(padding, str) else any(padding)
    if (
        one_each("stride") != list(kernel)
        or padded
        or len(x.shape) != len(w.shape)
        or any(size != 1 for size in one_each("dilation"))
    ):
        return adapter.lacking(node, "only convolutions of patches that do not overlap, without padding, are imported")
    if given["groups"] > _MOST_GROUPS:
        return adapter.lacking(node, f"only convolutions of at most {_MOST_GROUPS} groups are imported")
    places = var.shape[2:]
    # Without elements that belong to no patch.
    for axis, (number, size) in enumerate(zip(places, kernel), 2):
        if number * size != x.shape[axis]:
            part = adapter.part(node, x, axis, 0, number * size)
            x = adapter.between((*x.shape[:axis], number * size, *x.shape[axis + 1 :]), x.dtype, part)
    split = [size for pair in zip(places, kernel) for size in pair]
    x = adapter.between((*x.shape[:2], *split), x.dtype, adapter.op(node, "reshape", [x]))
    inputs = w.shape[1] * math.prod(kernel)
    w = adapter.between((w.shape[0], inputs), w.dtype, adapter.op(node, "reshape", [w]))
    # [batch, places, channels, patch]
    order = (0, *range(2, 2 + 2 * count, 2), 1, *range(3, 3 + 2 * count, 2))
    shape = tuple(x.shape[axis] for axis in order)
    x = adapter.between(shape, x.dtype, adapter.op(node, "transpose", [x], permutation=order))
    x = adapter.between((*shape[: 1 + count], inputs * given["groups"]), x.dtype, adapter.op(node, "reshape", [x]))
    made = adapter.between((*shape[: 1 + count], w.shape[0]), var.dtype, _layers(adapter, node, given, x, w))
    return adapter.op(node, "transpose", [made], permutation=(0, 1 + count, *range(1, 1 + count)))
