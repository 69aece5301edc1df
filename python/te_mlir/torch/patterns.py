"""Groups of nodes that are one op of the dialect, as models spell them out."""

from __future__ import annotations

import math
import operator
from typing import Any, Iterable, List, NamedTuple, Optional, Tuple

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
    """x * cos + rotate(x) * sin, of halves [-x2, x1], or interleaved of pairs of neighbours.

    half_tables: cos and sin are of half the width of x, and each half takes them.
    """

    x: Node
    cos: Node
    sin: Node
    interleaved: bool = False
    half_tables: bool = False


class Activation(NamedTuple):
    """An activation that a model spells out."""

    kind: str
    x: Node


class PartialRope(NamedTuple):
    """A rotation of the first columns of each head; the others pass."""

    whole: Node
    rope: Rope


class Attention(NamedTuple):
    """softmax(cap(scale * q @ keys) + mask) @ v, the softmax perhaps of sinks beside the scores.

    keys: [batch, heads, width, sequence]. mask, softcap, sinks: None where there is none.
    sinks: before they are spread to [batch, heads, sequence, 1].
    """

    q: Node
    keys: Node
    v: Node
    mask: Optional[Node]
    scale: float
    softcap: Optional[float]
    sinks: Optional[Node] = None


def is_op(node: Any, name: str) -> bool:
    """Whether `node` calls the ATen op `name`, in any of its overloads."""
    return isinstance(node, Node) and node.op == "call_function" and str(node.target).startswith(f"aten.{name}.")


#: Key of a node's meta where no pattern may take the node in.
_APART = "te_apart"


def set_apart(nodes: Iterable[Node]) -> None:
    """Keeps patterns off `nodes`: no gradient goes through them, or what they read is written to after them."""
    for node in nodes:
        node.meta[_APART] = True


def is_plain(node: Any, name: str) -> bool:
    """Whether `node` calls the ATen op `name`, and a pattern may take it in, so that it is not computed by itself."""
    return is_op(node, name) and _APART not in node.meta


def gated_kind(node: Any) -> "str | None":
    """What multiplies by the activation that `node` is: swiglu for silu."""
    if is_plain(node, "gelu"):
        tanh = node.kwargs.get("approximate", node.args[1] if len(node.args) > 1 else "none") == "tanh"
        return "geglu" if tanh else "geglu_erf"
    return "swiglu" if is_plain(node, "silu") else "reglu" if is_plain(node, "relu") else None


def operands(node: Any, name: str) -> "Tuple[Any, Any] | None":
    """The two operands of a commutative op."""
    return (node.args[0], node.args[1]) if is_plain(node, name) and len(node.args) >= 2 and not node.kwargs else None


def without_casts(node: Any) -> Any:
    """What a row of casts to floating-point types of 16 bits or more is of."""
    while is_plain(node, "to") or is_plain(node, "_to_copy") or is_plain(node, "float") or is_plain(node, "type_as"):
        dtype = node.meta["val"].dtype
        if not dtype.is_floating_point or dtype.itemsize < 2:
            break
        node = node.args[0]
    return node


def transposed(node: Any) -> Any:
    """What a matrix is the transpose of, or None."""
    swaps = any(is_plain(node, name) for name in ("t", "mT", "numpy_T", "transpose", "permute"))
    if not swaps or len(node.meta["val"].shape) != 2:
        return None
    if is_plain(node, "permute") and [axis % 2 for axis in node.args[1]] != [1, 0]:
        return None
    if is_plain(node, "transpose") and node.args[1] % 2 == node.args[2] % 2:
        return None
    return node.args[0]


def without_widening(node: Any) -> Any:
    """What views and casts to f32 are of, where only these lie between."""
    current = node
    while True:
        if is_plain(current, "view") or is_plain(current, "reshape") or is_plain(current, "contiguous"):
            current = current.args[0]
            continue
        if is_plain(current, "to") or is_plain(current, "_to_copy") or is_plain(current, "float"):
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
        sums = [g for one, g in _orders(operands(weight, "add")) if one == 1 and isinstance(g, Node)]
        gamma = without_casts(sums[0]) if sums else weight
        # Others are broadcast, as scales of sequences are.
        if gamma.meta["val"].shape == x.meta["val"].shape[-1:]:
            return RmsNorm(x, gamma, epsilon, bool(sums))
    return None


def _normalised(node: Any) -> Optional[Tuple[Node, float]]:
    """(x, epsilon) of `x * rsqrt(mean(x ** 2, -1) + epsilon)`."""
    for wide, inverse in _orders(operands(node, "mul")):
        if not is_plain(inverse, "rsqrt"):
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
            powered = is_plain(square, "pow") and square.args[1] == 2
            squared = powered or (is_plain(square, "mul") and square.args[0] is square.args[1])
            if squared and axes == [rank - 1] and square.args[0] is wide:
                return without_casts(wide), epsilon
    return None


def match_rope(node: Node) -> Optional[Rope]:
    """`x * cos + cat(-x[..., half:], x[..., :half]) * sin`, or with `stack(-x[..., 1::2], x[..., ::2])`.

    Or `cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)` of the halves of x.
    """
    if len(getattr(node.meta.get("val"), "shape", ())) != 4:
        return None
    if is_plain(node, "cat"):
        return _rope_of_halves(node)
    for straight, turned in _orders(operands(node, "add")):
        for half_turned, sin in _orders(operands(turned, "mul")):
            halves = _rotated(half_turned)
            x = halves or _rotated_pairs(half_turned)
            if x is None or not isinstance(sin, Node):
                continue
            for same, cos in _orders(operands(straight, "mul")):
                if same is x and isinstance(cos, Node):
                    return Rope(x, cos, sin, interleaved=halves is None)
    return None


def _rope_of_halves(node: Any) -> Optional[Rope]:
    if len(node.args) < 2 or node.args[1] % 4 != 3 or len(node.args[0]) != 2:
        return None
    straight, turned = operands(node.args[0][0], "sub") or (None, None)
    for first, cos in _orders(operands(straight, "mul")):
        for second, sin in _orders(operands(turned, "mul")):
            one, other = _half(first), _half(second)
            if one is None or other is None or one[0] is not other[0] or (one[1], other[1]) != (0, 1):
                continue
            for a, b in _orders(operands(node.args[0][1], "add")):
                if all(
                    any(_half(half) == wanted and table is of for half, table in _orders(operands(product, "mul")))
                    for product, wanted, of in ((a, other, cos), (b, one, sin))
                ):
                    return Rope(one[0], cos, sin, half_tables=True)
    return None


def _half(node: Any) -> "Tuple[Node, int] | None":
    """(x, which) of one of the two halves of the last dimension of x."""
    if not isinstance(node, Node):
        return None
    if node.target is operator.getitem and any(is_plain(node.args[0], name) for name in SPLITS):
        x, which = node.args[0].args[0], node.args[1]  # type: ignore[union-attr]
        if len(node.args[0].meta["val"]) != 2:  # type: ignore[union-attr]
            return None
    else:
        x, first, _ = _part(node, len(node.meta["val"].shape)) or (None, 0, 0)
        which = 2 * first // x.meta["val"].shape[-1] if x is not None else 0
        if x is None or 2 * first != which * x.meta["val"].shape[-1]:
            return None
    shape, whole = node.meta["val"].shape, x.meta["val"].shape  # type: ignore[union-attr]
    return (x, which) if shape[:-1] == whole[:-1] and 2 * shape[-1] == whole[-1] else None  # type: ignore[return-value]


def match_partial_rope(node: Node) -> Optional[PartialRope]:
    """`cat([rope(x[..., :n]), x[..., n:]], -1)`."""
    arguments: Any = node.args
    if not is_plain(node, "cat") or len(arguments) < 2 or len(arguments[0]) != 2:
        return None
    turned, passed = arguments[0]
    rank, width = len(node.meta["val"].shape), node.meta["val"].shape[-1]
    rope = match_rope(turned) if arguments[1] % rank == rank - 1 else None
    one, other = (_part(n, rank) for n in (rope.x, passed)) if rope is not None else (None, None)
    if rope is None or one is None or other is None or one[0] is not other[0]:
        return None
    whole = one[0].meta["val"].shape[-1] == width
    return PartialRope(one[0], rope) if whole and one[1:] == (0, other[1]) and other[2] == width else None


def match_activation(node: Node) -> Optional[Activation]:
    """`0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`, or `x * sigmoid(1.702 * x)`."""
    for x, gate in _orders(operands(node, "mul")):
        if is_plain(gate, "sigmoid") and _scaled(gate.args[0], x, 1.702):
            return Activation("qgelu", x)
    for half, gate in _orders(operands(node, "mul")):
        for x, number in _orders(operands(half, "mul")):
            if number == 0.5 and isinstance(x, Node) and _is_tanh_gate(gate, x):
                return Activation("gelu", x)
    return None


def match_attention(node: Node) -> Optional[Attention]:
    """`softmax(scores + mask, -1) @ v`, where scores are `q @ keys * scale`, perhaps `tanh(... / cap) * cap` of that.

    The mask and the scale may be left out; casts may be anywhere, and dropout that drops nothing. With sinks the softmax is
    `softmax(cat([scores + mask, sinks], -1), -1)[..., :-1]`. The largest of each row may be subtracted before.
    """
    if not is_plain(node, "matmul") or len(node.meta["val"].shape) != 4:
        return None
    weights, v = node.args
    weights = without_casts(weights)
    while is_plain(weights, "dropout") and not (weights.args[1] and weights.args[2]):
        weights = without_casts(weights.args[0])
    part = _part(weights, 4)
    softmax = weights if part is None else without_casts(part[0])
    if not is_plain(softmax, "softmax") or softmax.args[1] not in (-1, 3) or not isinstance(v, Node):
        return None
    x, sinks = _unshifted(without_casts(softmax.args[0])), None
    if part is not None:
        x, sinks = _beside_sinks(x)
        if sinks is None or part[1:] != (0, x.meta["val"].shape[-1]):
            return None
        x = without_casts(x)
    sums = _orders(operands(x, "add"))
    # What is no float, such as a mask of truth values, is added as numbers.
    masked = [(s, m) for s, m in sums if isinstance(m, Node) and m.meta["val"].is_floating_point()]
    for scores, mask in [*masked, (x, None)]:
        scores, softcap = _uncapped(without_casts(scores))
        product, scale = _unscaled(scores)
        if is_plain(product, "matmul") and len(product.meta["val"].shape) == 4:
            return Attention(*product.args, v, mask, scale, softcap, sinks)  # type: ignore[call-arg]
    return None


def _unshifted(node: Any) -> Any:
    """x of `x - x.max(-1, keepdim=True)`, of which a softmax is that of x, else the node."""
    if not is_plain(node, "sub") or len(node.args) != 2 or node.kwargs:
        return node
    x, largest = node.args
    if isinstance(largest, Node) and largest.target is operator.getitem and largest.args[1] == 0:
        largest = largest.args[0]
    arguments: Any = largest.args if isinstance(largest, Node) else ()
    if str(getattr(largest, "target", "")) == "aten.max.dim" and _APART not in largest.meta:
        axes = [arguments[1]]
    else:
        axes = list(arguments[1]) if is_plain(largest, "amax") and len(arguments) > 1 else []
    rank = len(node.meta["val"].shape)
    last = [axis % rank for axis in axes] == [rank - 1]
    keeps = last and (arguments[2:] == (True,) or largest.kwargs.get("keepdim") is True)
    return x if keeps and arguments[0] is x else node


def _beside_sinks(node: Any) -> "Tuple[Any, Optional[Node]]":
    """(scores, sinks) of `cat([scores, sinks.expand(...)], -1)`, else (node, None)."""
    rank = len(node.meta["val"].shape)
    if not is_plain(node, "cat") or len(node.args) < 2 or node.args[1] % rank != rank - 1 or len(node.args[0]) != 2:
        return node, None
    scores, sinks = node.args[0]
    if sinks.meta["val"].shape[-1] != 1:
        return node, None
    sinks = without_casts(sinks)
    return scores, without_casts(sinks.args[0]) if is_plain(sinks, "expand") else sinks


def _number(value: Any) -> bool:
    """Whether it is a number other than 0 that f32 has, and so has its inverse."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 2.0**-126 <= abs(value) <= 2.0**126


def _uncapped(node: Any) -> "Tuple[Any, Optional[float]]":
    """(x, cap) of `tanh(x / cap) * cap`, else (node, None)."""
    for tanh, cap in _orders(operands(node, "mul")):
        tanh = without_casts(tanh)
        if is_plain(tanh, "tanh") and _number(cap) and cap > 0:
            quotient = without_casts(tanh.args[0])
            if is_plain(quotient, "div") and quotient.args[1:] == (cap,) and not quotient.kwargs:
                return without_casts(quotient.args[0]), float(cap)
    return node, None


def _unscaled(node: Any) -> "Tuple[Any, float]":
    """(x, factor) of a product or quotient with a number, else (node, 1)."""
    for x, factor in _orders(operands(node, "mul")):
        if _number(factor):
            return without_casts(x), float(factor)
    if is_plain(node, "div") and len(node.args) == 2 and not node.kwargs and _number(node.args[1]):
        return without_casts(node.args[0]), 1 / node.args[1]
    return node, 1.0


def _scaled(node: Any, x: Any, number: float) -> bool:
    """Whether `node` is `number * x`; a model may write the number with 15 places."""
    return any(a is x and isinstance(b, float) and abs(b - number) < 1e-9 for a, b in _orders(operands(node, "mul")))


def _is_tanh_gate(node: Any, x: Node) -> bool:
    """Whether `node` is `1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))`."""
    for tanh, one in _orders(operands(node, "add")):
        if one != 1 or not is_plain(tanh, "tanh"):
            continue
        for sum_, _ in _orders(operands(tanh.args[0], "mul")):
            if not _scaled(tanh.args[0], sum_, math.sqrt(2 / math.pi)):
                continue
            for same, scaled in _orders(operands(sum_, "add")):
                cubes = [a for a, b in _orders(operands(scaled, "mul")) if b == 0.044715]
                if same is x and any(is_plain(c, "pow") and c.args[0] is x and c.args[1] == 3 for c in cubes):
                    return True
    return False


def _rotated(node: Any) -> Optional[Node]:
    """x of `cat([-x[..., half:], x[..., :half]], -1)`."""
    if not is_plain(node, "cat") or len(node.args[0]) != 2:
        return None
    rank = len(node.meta["val"].shape)
    if len(node.args) < 2 or node.args[1] % rank != rank - 1:
        return None
    negated, first = node.args[0]
    if not is_plain(negated, "neg"):
        return None
    second = negated.args[0]
    width = node.meta["val"].shape[-1]
    one, other = _part(first, rank), _part(second, rank)
    if one is None or other is None or one[0] is not other[0]:
        return None
    halves = one[1:] == (0, width // 2) and other[1:] == (width // 2, width)
    return one[0] if halves else None


def _rotated_pairs(node: Any) -> Optional[Node]:
    """x of `stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)`."""
    joined: Any = node.args[0] if any(is_plain(node, name) for name in ("flatten", "view", "reshape")) else None
    if not is_plain(joined, "stack") or len(joined.args) < 2 or len(joined.args[0]) != 2:
        return None
    negated, first = joined.args[0]
    rank = len(joined.meta["val"].shape)
    if joined.args[1] % rank != rank - 1 or not is_plain(negated, "neg"):
        return None
    places = [_every_other(n) for n in (first, negated.args[0])]
    x = places[0][0] if places[0] is not None else None
    if x is None or places != [(x, 0), (x, 1)] or x.meta["val"].shape != node.meta["val"].shape:
        return None
    return x


def _every_other(node: Any) -> "Tuple[Node, int] | None":
    """(x, first) of `x[..., first::2]`."""
    if not is_plain(node, "slice") or len(node.args) != 5 or node.args[4] != 2:
        return None
    x, axis, first, end = node.args[:4]
    shape = x.meta["val"].shape
    whole = axis % len(shape) == len(shape) - 1 and end >= shape[-1] and shape[-1] % 2 == 0
    return (x, first or 0) if whole else None


def _part(node: Any, rank: int) -> "Tuple[Node, int, int] | None":
    """(x, first, end) of a slice of the last dimension of x."""
    if not is_plain(node, "slice") or node.args[4:] not in ((), (1,)):
        return None
    x, axis, first, end = (list(node.args) + [None] * 4)[:4]
    size = x.meta["val"].shape[-1]
    if (axis or 0) % rank != rank - 1 or x.meta["val"].shape[:-1] != node.meta["val"].shape[:-1]:
        return None
    first = first or 0
    first = first + size if first < 0 else first
    return x, first, first + node.meta["val"].shape[-1]
