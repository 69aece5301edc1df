"""Groups of nodes that are one op of the dialect, as models spell them out."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from torch.fx import Node


#: Ops that give several views of one tensor.
SPLITS = ("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split", "unbind")


class RmsNorm(NamedTuple):
    """weight * x / rms(x), or with zero_centered (1 + weight) * x / rms(x)."""

    x: Node
    weight: Node
    epsilon: float
    zero_centered: bool


class Rope(NamedTuple):
    """x * cos + rotate_half(x) * sin."""

    x: Node
    cos: Node
    sin: Node


def is_op(node: Any, name: str) -> bool:
    """Whether `node` calls the ATen op `name`, in any of its overloads."""
    return isinstance(node, Node) and node.op == "call_function" and str(node.target).startswith(f"aten.{name}.")


def gated_kind(node: Any) -> "str | None":
    """What multiplies by the activation that `node` is: swiglu for silu."""
    if is_op(node, "gelu"):
        tanh = node.kwargs.get("approximate", node.args[1] if len(node.args) > 1 else "none") == "tanh"
        return "geglu" if tanh else "geglu_erf"
    return "swiglu" if is_op(node, "silu") else "reglu" if is_op(node, "relu") else None


def operands(node: Any, name: str) -> "Tuple[Any, Any] | None":
    """The two operands of a commutative op."""
    return (node.args[0], node.args[1]) if is_op(node, name) and len(node.args) >= 2 else None


def without_casts(node: Any) -> Any:
    """What a row of casts of element types is of."""
    while is_op(node, "to") or is_op(node, "_to_copy") or is_op(node, "float") or is_op(node, "type_as"):
        node = node.args[0]
    return node


def without_widening(node: Any) -> Any:
    """What views and casts to f32 are of, where only these lie between."""
    current = node
    while True:
        if is_op(current, "view") or is_op(current, "reshape") or is_op(current, "contiguous"):
            current = current.args[0]
            continue
        if is_op(current, "to") or is_op(current, "_to_copy") or is_op(current, "float"):
            if current.meta["val"].dtype is torch.float32:
                # Only where a narrower tensor is found is anything gained.
                inner = current.args[0]
                if inner.meta["val"].element_size() < 4:
                    return inner
                current = inner
                continue
        return node


def _orders(pair: "Tuple[Any, Any] | None") -> "List[Tuple[Any, Any]]":
    return [pair, pair[::-1]] if pair else []


def match_rms_norm(node: Node) -> Optional[RmsNorm]:
    """`weight * (x * rsqrt(mean(x ** 2, -1) + epsilon))`, with casts anywhere."""
    for weight, scaled in _orders(operands(node, "mul")):
        found = _normalised(without_casts(scaled))
        if found is None or not isinstance(weight, Node):
            continue
        x, epsilon = found
        weight = without_casts(weight)
        for one, gamma in _orders(operands(weight, "add")):
            if one == 1 and isinstance(gamma, Node):
                return RmsNorm(x, without_casts(gamma), epsilon, True)
        shape = weight.meta["val"].shape
        if len(shape) == 1 and shape[0] == x.meta["val"].shape[-1]:
            return RmsNorm(x, weight, epsilon, False)
    return None


def _normalised(node: Any) -> Optional[Tuple[Node, float]]:
    """(x, epsilon) of `x * rsqrt(mean(x ** 2, -1) + epsilon)`."""
    for wide, inverse in _orders(operands(node, "mul")):
        if not is_op(inverse, "rsqrt"):
            continue
        for mean, epsilon in _orders(operands(inverse.args[0], "add")):
            # A mean without its dimension would be broadcast over others.
            if str(getattr(mean, "target", "")) != "aten.mean.dim" or not isinstance(epsilon, float):
                continue
            rank = len(wide.meta["val"].shape)
            if len(mean.args) < 3 or not mean.args[2] or mean.args[1] is None:
                continue
            axes = [axis % rank for axis in mean.args[1]]
            square = mean.args[0]
            powered = is_op(square, "pow") and square.args[1] == 2
            squared = powered or (is_op(square, "mul") and square.args[0] is square.args[1])
            if squared and axes == [rank - 1] and square.args[0] is wide:
                return without_casts(wide), epsilon
    return None


def match_rope(node: Node) -> Optional[Rope]:
    """`x * cos + cat(-x[..., half:], x[..., :half]) * sin`."""
    if len(getattr(node.meta.get("val"), "shape", ())) != 4:
        return None
    for straight, turned in _orders(operands(node, "add")):
        for half_turned, sin in _orders(operands(turned, "mul")):
            x = _rotated(half_turned)
            if x is None or not isinstance(sin, Node):
                continue
            for same, cos in _orders(operands(straight, "mul")):
                if same is x and isinstance(cos, Node):
                    return Rope(x, cos, sin)
    return None


def _rotated(node: Any) -> Optional[Node]:
    """x of `cat([-x[..., half:], x[..., :half]], -1)`."""
    if not is_op(node, "cat") or len(node.args[0]) != 2:
        return None
    rank = len(node.meta["val"].shape)
    if len(node.args) < 2 or node.args[1] % rank != rank - 1:
        return None
    negated, first = node.args[0]
    if not is_op(negated, "neg"):
        return None
    second = negated.args[0]
    width = node.meta["val"].shape[-1]
    one, other = _part(first, rank), _part(second, rank)
    if one is None or other is None or one[0] is not other[0]:
        return None
    halves = one[1:] == (0, width // 2) and other[1:] == (width // 2, width)
    return one[0] if halves else None


def _part(node: Any, rank: int) -> "Tuple[Node, int, int] | None":
    """(x, first, end) of a slice of the last dimension of x."""
    if not is_op(node, "slice"):
        return None
    x, axis, first, end = (list(node.args) + [None] * 4)[:4]
    size = x.meta["val"].shape[-1]
    if (axis or 0) % rank != rank - 1 or x.meta["val"].shape[:-1] != node.meta["val"].shape[:-1]:
        return None
    first = first or 0
    first = first + size if first < 0 else first
    return x, first, first + node.meta["val"].shape[-1]
