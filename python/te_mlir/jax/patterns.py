"""Groups of operations that are one op of the dialect, as JAX programs spell them out.

Casts between floats are followed wherever they are: te computes these groups in f32 and
rounds once. Broadcasts are followed where they say along which axis a vector lies.
"""

from __future__ import annotations

import math
from typing import Iterator, List, NamedTuple, Optional, Tuple

import jax.numpy as jnp
import numpy as np

from te_mlir.jax.graph import Atom, Const, Node, Var


class RmsNorm(NamedTuple):
    """gamma * x / rms(x), or with zero_centered (1 + gamma) * x / rms(x)."""

    x: Var
    gamma: Var
    epsilon: float
    zero_centered: bool


class LayerNorm(NamedTuple):
    """(x - mean) / deviation * gamma + beta."""

    x: Var
    gamma: Var
    beta: Var
    epsilon: float


#: What multiplies by an activation.
GATED = {"silu": "swiglu", "gelu": "geglu", "gelu_erf": "geglu_erf", "relu": "reglu"}


class Activation(NamedTuple):
    """A function of single elements that te has: silu, gelu by tanh or erf, relu."""

    kind: str
    x: Var


class Softmax(NamedTuple):
    """exp(x) / sum(exp(x)) along `axis`."""

    x: Var
    axis: int


class Rope(NamedTuple):
    """Pairs of elements of x rotated: half a row apart.

    halves: the tables are half as wide as a row; else its halves must be equal.
    """

    x: Var
    cos: Atom
    sin: Atom
    halves: bool


# Looking through


def node_of(value: Atom, *names: str) -> Optional[Node]:
    """The node that makes `value`, if it is one of these."""
    node = value.node
    return node if node is not None and node.name in names else None


def uncast(value: Atom) -> Atom:
    """What casts between floats, and copies, are of; not those to a type of one byte, which are quantisation."""
    while True:
        node = node_of(value, "convert_element_type", "copy", "reduce_precision")
        if node is None or not node.output.floating or not isinstance(node.inputs[0], Var):
            return value
        if not node.inputs[0].floating or node.inputs[0].dtype.itemsize < 2 or value.dtype.itemsize < 2:
            return value
        value = node.inputs[0]


def narrowest(value: Atom) -> Atom:
    """What widening casts are of: a cast that rounds stays."""
    while True:
        node = node_of(value, "convert_element_type", "copy")
        if node is None or not isinstance(node.inputs[0], Var) or not node.inputs[0].floating:
            return value
        if node.inputs[0].dtype.itemsize > value.dtype.itemsize:
            return value
        value = node.inputs[0]


def leaf(value: Atom) -> Var:
    found = narrowest(value)
    assert isinstance(found, Var)
    return found


def scalar(value: Atom) -> Optional[float]:
    """The number that every element of a constant is."""
    return value.scalar if isinstance(value, Const) else None


def pairs(value: Atom, *names: str) -> Iterator[Tuple[Atom, Atom]]:
    """The operands of a binary operation, in both orders."""
    node = node_of(uncast(value), *names)
    if node is not None and len(node.inputs) == 2:
        a, b = node.inputs
        yield a, b
        yield b, a


def is_about(value: Atom, number: float) -> bool:
    """Whether every element of a constant is a number, as the constant's type rounds it."""
    found = scalar(value)
    return found is not None and abs(found - number) <= abs(number) * rounding(value)


def rounding(value: Atom) -> float:
    """How far the constants of a program are from what is meant, as a part of it: rounded, and in f32 to six digits."""
    return max(float(jnp.finfo(value.dtype).eps), 2.0**-18)


def of_rows(value: Atom) -> Atom:
    """What a value with one element for each row is, without the axes that were added behind.

    Each broadcast that is followed keeps the axes before the last where they are.
    """
    while True:
        value = uncast(value)
        node = node_of(value, "broadcast_in_dim", "reshape", "squeeze", "expand_dims")
        if node is None:
            return value
        operand = node.inputs[0]
        if node.name == "broadcast_in_dim":
            axes = tuple(int(a) for a in node.params["broadcast_dimensions"])
            if axes != tuple(range(len(axes))) or len(axes) < len(value.shape) - 1:
                return value
            if operand.shape[: len(value.shape) - 1] != value.shape[:-1]:
                return value
        elif _without_last_one(operand.shape) != _without_last_one(value.shape):
            return value
        value = operand


def _without_last_one(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    return shape[:-1] if shape and shape[-1] == 1 else shape


def vector(value: Atom, size: int) -> Optional[Var]:
    """The vector of `size` that is repeated along the last axis of a value."""
    while True:
        value = uncast(value)
        if isinstance(value, Const) or not value.shape or value.shape[-1] != size:
            return None
        if value.shape == (size,):
            return value
        node = node_of(value, "broadcast_in_dim", "reshape", "squeeze", "expand_dims")
        if node is None:
            return None
        operand = node.inputs[0]
        if node.name == "broadcast_in_dim":
            axes = node.params["broadcast_dimensions"]
            if not axes or int(axes[-1]) != len(value.shape) - 1:
                return None
        elif int(np.prod(value.shape)) != size:
            return None
        value = operand


def mean_of(value: Atom) -> Optional[Tuple[Var, Tuple[int, ...]]]:
    """(x, axes) of the mean of x over axes."""
    value = of_rows(value)
    found = [(a, b, -1) for a, b in pairs(value, "mul")]
    quotient = node_of(value, "div")
    if quotient is not None:
        found.append((quotient.inputs[0], quotient.inputs[1], 1))
    for total, number, power in found:
        node = node_of(of_rows(total), "reduce_sum") if isinstance(number, Const) else None
        if node is None or not isinstance(node.inputs[0], Var):
            continue
        operand, axes = node.inputs[0], tuple(int(a) for a in node.params["axes"])
        size = math.prod(operand.shape[a] for a in axes)
        if size and is_about(number, size**power):
            return operand, axes
    return None


def _row_mean(value: Atom) -> Optional[Var]:
    """x of the mean of x over its last axis."""
    found = mean_of(value)
    return found[0] if found is not None and found[1] == (len(found[0].shape) - 1,) else None


def is_same(a: Atom, b: Atom) -> bool:
    return uncast(a) is uncast(b)


# Norms


def _over_root(value: Atom) -> Iterator[Tuple[Atom, Atom, float]]:
    """(x, v, epsilon) of x / sqrt(v + epsilon)."""
    found: List[Tuple[Atom, Atom]] = []
    for x, inverse in pairs(value, "mul"):
        root = node_of(of_rows(inverse), "rsqrt")
        if root is not None:
            found.append((x, root.inputs[0]))
    node = node_of(uncast(value), "div")
    if node is not None:
        root = node_of(of_rows(node.inputs[1]), "sqrt")
        if root is not None:
            found.append((node.inputs[0], root.inputs[0]))
    for x, inside in found:
        for v, number in _above_zero(inside):
            yield x, v, number


def _above_zero(inside: Atom) -> Iterator[Tuple[Atom, float]]:
    """(v, epsilon) of v + epsilon."""
    for v, epsilon in pairs(of_rows(inside), "add"):
        number = scalar(epsilon)
        if number is not None and 0 <= number < math.inf:
            yield v, number


def _scaled_over_root(value: Atom) -> Iterator[Tuple[Atom, Atom, float, Atom]]:
    """(x, v, epsilon, gamma) of x / sqrt(v + epsilon) * gamma, or of x * (rsqrt(v + epsilon) * gamma)."""
    for scaled, gamma in pairs(value, "mul"):
        for x, v, epsilon in _over_root(scaled):
            yield x, v, epsilon, gamma
        if scaled.shape != value.shape:
            continue
        for inverse, factor in pairs(gamma, "mul"):
            root = node_of(of_rows(inverse), "rsqrt")
            for v, epsilon in _above_zero(root.inputs[0]) if root is not None else ():
                yield scaled, v, epsilon, factor


def match_rms_norm(value: Var) -> Optional[RmsNorm]:
    """`x * rsqrt(mean(x * x, -1) + epsilon) * gamma`."""
    if not value.shape:
        return None
    for x, variance, epsilon, factor in _scaled_over_root(value):
        squares = _row_mean(variance)
        square = node_of(uncast(squares), "square") if squares is not None else None
        if square is None or not is_same(square.inputs[0], x) or not isinstance(uncast(x), Var):
            continue
        for one, gamma in _one_plus(factor, x.shape[-1]):
            return RmsNorm(leaf(x), gamma, epsilon, one)
    return None


def _one_plus(factor: Atom, size: int) -> Iterator[Tuple[bool, Var]]:
    """(whether one is added, gamma) of what a norm multiplies with."""
    gamma = vector(factor, size)
    if gamma is None:
        return
    for one, inner in pairs(gamma, "add"):
        if scalar(one) == 1:
            found = vector(inner, size)
            if found is not None:
                yield True, found
                return
    yield False, gamma


def match_layer_norm(value: Var) -> Optional[LayerNorm]:
    """`(x - mean) * rsqrt(variance + epsilon) * gamma + beta`."""
    if not value.shape:
        return None
    size = value.shape[-1]
    for product, shift in pairs(value, "add"):
        beta = vector(shift, size)
        if beta is None:
            continue
        for centred, variance, epsilon, factor in _scaled_over_root(product):
            gamma, x = vector(factor, size), _centred(centred)
            if gamma is not None and x is not None and _is_variance(variance, x):
                return LayerNorm(leaf(x), gamma, beta, epsilon)
    return None


def _centred(value: Atom) -> Optional[Var]:
    """x of `x - mean(x)`."""
    node = node_of(uncast(value), "sub")
    if node is None:
        return None
    mean, x = _row_mean(node.inputs[1]), node.inputs[0]
    return x if mean is not None and is_same(mean, x) and isinstance(x, Var) else None


def _is_variance(value: Atom, x: Var) -> bool:
    """Whether a value is the mean of (x - mean)^2, or that of x^2 less the mean's square."""
    value = of_rows(value)
    for inner, zero in pairs(value, "max"):
        if scalar(zero) == 0:
            value = of_rows(inner)
    squares = _row_mean(value)
    square = node_of(uncast(squares), "square") if squares is not None else None
    centred = _centred(square.inputs[0]) if square is not None else None
    if centred is not None and is_same(centred, x):
        return True
    node = node_of(value, "sub")
    if node is None:
        return False
    squares = _row_mean(node.inputs[0])
    square = node_of(uncast(squares), "square") if squares is not None else None
    if square is None or not is_same(square.inputs[0], x):
        return False
    of_mean = node_of(of_rows(node.inputs[1]), "square")
    mean = _row_mean(of_mean.inputs[0]) if of_mean is not None else None
    return mean is not None and is_same(mean, x)


# Activations


def factors_of(value: Atom) -> List[Atom]:
    node = node_of(uncast(value), "mul")
    if node is None:
        return [value]
    return factors_of(node.inputs[0]) + factors_of(node.inputs[1])


def match_activation(value: Var) -> Optional[Activation]:
    """silu as `x * logistic(x)`, relu as `max(x, 0)`, gelu by tanh, by erf or by erfc."""
    for x, zero in pairs(value, "max"):
        if scalar(zero) == 0 and isinstance(uncast(x), Var):
            return Activation("relu", leaf(x))
    for x, gate in pairs(value, "mul"):
        node = node_of(uncast(gate), "logistic")
        if node is not None and is_same(node.inputs[0], x) and isinstance(uncast(x), Var):
            return Activation("silu", leaf(x))
    factors = factors_of(value)
    if len(factors) != 3:
        return None
    for curve in factors:
        others = [f for f in factors if f is not curve]
        numbers = [f for f in others if isinstance(f, Const)]
        operands = [f for f in others if not isinstance(f, Const)]
        if len(numbers) != 1 or len(operands) != 1 or not is_about(numbers[0], 0.5):
            continue
        if _is_normal_cdf(curve, operands[0]):
            return Activation("gelu_erf", leaf(operands[0]))
    numbers = [f for f in factors if isinstance(f, Const)]
    sums = [f for f in factors if node_of(uncast(f), "add") is not None]
    for total in sums:
        others = [f for f in factors if f is not total and not isinstance(f, Const)]
        if len(numbers) != 1 or len(others) != 1 or not is_about(numbers[0], 0.5):
            continue
        x = others[0]
        for one, curve in pairs(total, "add"):
            node = node_of(uncast(curve), "tanh")
            if scalar(one) == 1 and node is not None and _is_gelu_argument(node.inputs[0], x):
                return Activation("gelu", leaf(x))
    return None


def _is_normal_cdf(curve: Atom, x: Atom) -> bool:
    """Twice the normal distribution function of x: 1 + erf(x / sqrt(2)), or erfc(-x / sqrt(2))."""
    node = node_of(uncast(curve), "erfc")
    sign = -1
    if node is None:
        for one, error in pairs(curve, "add"):
            if scalar(one) == 1 and node_of(uncast(error), "erf") is not None:
                node, sign = node_of(uncast(error), "erf"), 1
    if node is None:
        return False
    inner, factor, slack = node.inputs[0], float(sign), 0.0
    while not is_same(inner, x):
        step = node_of(uncast(inner), "neg", "mul", "div")
        if step is None:
            return False
        if step.name == "neg":
            inner, factor = step.inputs[0], -factor
            continue
        a, b = step.inputs
        if step.name == "mul" and isinstance(a, Const):
            a, b = b, a
        number = scalar(b)
        if not number:
            return False
        inner, factor, slack = a, factor * number if step.name == "mul" else factor / number, slack + rounding(b)
    return abs(factor - math.sqrt(0.5)) <= math.sqrt(0.5) * slack


def _is_gelu_argument(value: Atom, x: Atom) -> bool:
    """sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    for number, total in pairs(value, "mul"):
        if not is_about(number, math.sqrt(2 / math.pi)):
            continue
        for linear, cubic in pairs(total, "add"):
            if not is_same(linear, x):
                continue
            factors = factors_of(cubic)
            numbers = [f for f in factors if isinstance(f, Const)]
            powers = 0
            for factor in factors:
                cube = node_of(uncast(factor), "integer_pow")
                square = node_of(uncast(factor), "square")
                if is_same(factor, x):
                    powers += 1
                elif cube is not None and is_same(cube.inputs[0], x):
                    powers += int(cube.params["y"])
                elif square is not None and is_same(square.inputs[0], x):
                    powers += 2
            if len(numbers) == 1 and is_about(numbers[0], 0.044715) and powers == 3:
                return True
    return False


# Softmax


def unshifted(value: Atom, axis: int) -> Tuple[Atom, Optional[Atom]]:
    """(x, m) of `x - m`, where m is a maximum that is the same along an axis; m None where nothing is taken off."""
    node = node_of(uncast(value), "sub")
    if node is None or node.inputs[0].shape != value.shape:
        return value, None
    x, m = node.inputs
    return (x, m) if _is_maximum(m) and _is_constant_along(m, axis) else (value, None)


def _is_maximum(value: Atom) -> bool:
    """Whether a value is, but for infinities, a maximum along one axis."""
    while True:
        value = uncast(value)
        node = value.node
        if node is None or node.name in ("reduce_max", "argmax"):
            return node is not None
        moved = ("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "stop_gradient", "transpose")
        if node.name not in (*moved, "select_n"):
            return False
        value = node.inputs[-1]


def same_maximum(a: Optional[Atom], b: Optional[Atom]) -> bool:
    """Whether two values of rows are one maximum, and both have its gradient or none has."""
    if a is None or b is None:
        return a is b
    (x, x_stopped), (y, y_stopped) = _stopped(a), _stopped(b)
    p, q = node_of(x, "reduce_max"), node_of(y, "reduce_max")
    if p is None or q is None:
        return x is y and x_stopped == y_stopped
    same = is_same(p.inputs[0], q.inputs[0]) and tuple(p.params["axes"]) == tuple(q.params["axes"])
    return same and x_stopped == y_stopped


def _stopped(value: Atom) -> Tuple[Atom, bool]:
    """(what a value of rows is, below stop_gradient; whether there is one)."""
    value, found = of_rows(value), False
    while node_of(value, "stop_gradient") is not None:
        value, found = of_rows(value.node.inputs[0]), True  # type: ignore[union-attr]
    return value, found


def _is_constant_along(value: Atom, axis: int) -> bool:
    """Whether a value has one element along an axis, repeated."""
    while value.shape[axis] != 1:
        value = uncast(value)
        node = node_of(value, "broadcast_in_dim", "stop_gradient")
        if node is None:
            return isinstance(value, Const) and value.compact.shape[axis] == 1
        if node.name == "broadcast_in_dim":
            axes = [int(a) for a in node.params["broadcast_dimensions"]]
            if axis not in axes:
                return True
            axis = axes.index(axis)
        value = node.inputs[0]
    return True


def _total_of(value: Atom) -> Optional[Tuple[Var, int]]:
    """(x, axis) of the sum of x along an axis, where it is repeated along that axis or has size 1 there."""
    rank = len(value.shape)
    # Of each axis of the value, the axis of x that it has to be.
    labels: List[Optional[int]] = list(range(rank))
    while True:
        value = uncast(value)
        node = node_of(value, "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "reduce_sum")
        if node is None or not isinstance(node.inputs[0], Var):
            return None
        operand = node.inputs[0]
        if node.name == "reduce_sum":
            break
        if node.name == "broadcast_in_dim":
            labels = [labels[int(a)] for a in node.params["broadcast_dimensions"]]
        elif math.prod(operand.shape) != math.prod(value.shape):
            return None
        else:
            sized = [(size, label) for size, label in zip(value.shape, labels) if size != 1]
            if [size for size, _ in sized] != [size for size in operand.shape if size != 1]:
                return None
            rest = iter([label for _, label in sized])
            labels = [None if size == 1 else next(rest) for size in operand.shape]
        value = operand
    axes = tuple(int(a) for a in node.params["axes"])
    if len(axes) != 1 or len(operand.shape) != rank:
        return None
    kept = [a for a in range(rank) if a != axes[0]]
    if any(size != 1 and label != a for size, label, a in zip(value.shape, labels, kept)):
        return None
    return operand, axes[0]


def match_softmax(value: Atom) -> Optional[Softmax]:
    """`exp(x - max) / sum(exp(x - max))`, along one axis."""
    node = node_of(uncast(value), "div")
    if node is None:
        return None
    top, found = node_of(uncast(node.inputs[0]), "exp"), _total_of(node.inputs[1])
    if top is None or found is None or uncast(found[0]) is not top.output or top.output.shape != value.shape:
        return None
    x = unshifted(top.inputs[0], found[1])[0]
    return Softmax(x, found[1]) if isinstance(x, Var) else None


# Rotations


def match_rope(value: Var) -> Optional[Rope]:
    """`x * cos + concatenate([-x2, x1]) * sin`, or `concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin])`."""
    if len(value.shape) != 4:
        return None
    for straight, turned in pairs(value, "add"):
        for half_turned, sin in pairs(turned, "mul"):
            x = _rotated(half_turned)
            for same, cos in pairs(straight, "mul") if x is not None else ():
                if x is not None and is_same(same, x):
                    return Rope(x, cos, sin, False)
    node = node_of(uncast(value), "concatenate")
    if node is None or len(node.inputs) != 2 or int(node.params["dimension"]) != 3:
        return None
    less, more = (node_of(uncast(v), name) for v, name in zip(node.inputs, ("sub", "add")))
    if less is None or more is None:
        return None
    for x1, cos in pairs(less.inputs[0], "mul"):
        for x2, sin in pairs(less.inputs[1], "mul"):
            first, second = _part(x1), _part(x2)
            if first is None or second is None or first[0] is not second[0]:
                continue
            width = first[0].shape[-1]
            if first[1:] != (0, width // 2) or second[1:] != (width // 2, width):
                continue
            for a, b in (more.inputs, more.inputs[::-1]):
                if _is_product(a, second, cos) and _is_product(b, first, sin):
                    return Rope(first[0], cos, sin, True)
    return None


def _is_product(value: Atom, part: Tuple[Var, int, int], table: Atom) -> bool:
    return any(_part(x) == part and _same_table(t, table) for x, t in pairs(value, "mul"))


def _same_table(a: Atom, b: Atom) -> bool:
    """Whether two broadcasts are of the same value, along the same axes."""
    if a is b:
        return True
    if isinstance(a, Const) or isinstance(b, Const):
        if isinstance(a, Var) or isinstance(b, Var):
            return False
        return a.compact.shape == b.compact.shape and bool((a.compact == b.compact).all())
    x, y = (
        node_of(a, "broadcast_in_dim", "convert_element_type"),
        node_of(b, "broadcast_in_dim", "convert_element_type"),
    )
    if x is None or y is None or x.name != y.name or a.shape != b.shape or a.dtype != b.dtype:
        return False
    same = x.name != "broadcast_in_dim" or tuple(x.params["broadcast_dimensions"]) == tuple(
        y.params["broadcast_dimensions"]
    )
    return same and _same_table(x.inputs[0], y.inputs[0])


def _rotated(value: Atom) -> Optional[Var]:
    """x of `concatenate([-x[..., half:], x[..., :half]])`."""
    node = node_of(uncast(value), "concatenate")
    if node is None or len(node.inputs) != 2 or int(node.params["dimension"]) != len(value.shape) - 1:
        return None
    negated = node_of(uncast(node.inputs[0]), "neg")
    one = _part(node.inputs[1])
    other = _part(negated.inputs[0]) if negated is not None else None
    if one is None or other is None or one[0] is not other[0]:
        return None
    width = value.shape[-1]
    return one[0] if one[1:] == (0, width // 2) and other[1:] == (width // 2, width) else None


def _part(value: Atom) -> Optional[Tuple[Var, int, int]]:
    """(x, first, end) of a slice of the last axis of x."""
    value = uncast(value)
    node = node_of(value, "slice", "split")
    if node is None or not isinstance(node.inputs[0], Var):
        return None
    operand = node.inputs[0]
    if node.name == "split":
        if int(node.params["axis"]) != len(operand.shape) - 1:
            return None
        place = next(n for n, output in enumerate(node.outputs) if output is value)
        first = sum(int(s) for s in node.params["sizes"][:place])
    else:
        if operand.shape[:-1] != value.shape[:-1] or any(s != 1 for s in node.params["strides"] or ()):
            return None
        first = int(node.params["start_indices"][-1])
    return leaf(operand), first, first + value.shape[-1]
