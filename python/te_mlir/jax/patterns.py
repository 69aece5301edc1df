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


class CrossEntropy(NamedTuple):
    """The mean of -log(softmax(logits)) at targets, over all rows, or over those where `mask`."""

    logits: Var
    targets: Atom
    mask: Optional[Atom] = None


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
        if node is None or not isinstance(node.inputs[0], Var) or not node.inputs[0].floating:
            return value
        if node.inputs[0].dtype.itemsize < 2 or value.dtype.itemsize < 2:
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


def _leaf(value: Atom) -> Var:
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
    return found is not None and abs(found - number) <= abs(number) * _rounding(value)


def _rounding(value: Atom) -> float:
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


def _same(a: Atom, b: Atom) -> bool:
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
        for v, epsilon in pairs(of_rows(inside), "add"):
            number = scalar(epsilon)
            if number is not None and 0 <= number < math.inf:
                yield x, v, number


def match_rms_norm(value: Var) -> Optional[RmsNorm]:
    """`x * rsqrt(mean(x * x, -1) + epsilon) * gamma`."""
    if not value.shape:
        return None
    for scaled, factor in pairs(value, "mul"):
        for x, variance, epsilon in _over_root(scaled):
            squares = _row_mean(variance)
            square = node_of(uncast(squares), "square") if squares is not None else None
            if square is None or not _same(square.inputs[0], x) or not isinstance(uncast(x), Var):
                continue
            for one, gamma in _one_plus(factor, x.shape[-1]):
                return RmsNorm(_leaf(x), gamma, epsilon, one)
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
        for scaled, factor in pairs(product, "mul"):
            gamma = vector(factor, size)
            if gamma is None:
                continue
            for centred, variance, epsilon in _over_root(scaled):
                x = _centred(centred)
                if x is not None and _is_variance(variance, x):
                    return LayerNorm(_leaf(x), gamma, beta, epsilon)
    return None


def _centred(value: Atom) -> Optional[Var]:
    """x of `x - mean(x)`."""
    node = node_of(uncast(value), "sub")
    if node is None:
        return None
    mean, x = _row_mean(node.inputs[1]), node.inputs[0]
    return x if mean is not None and _same(mean, x) and isinstance(x, Var) else None


def _is_variance(value: Atom, x: Var) -> bool:
    """Whether a value is the mean of (x - mean)^2, or that of x^2 less the mean's square."""
    value = of_rows(value)
    for inner, zero in pairs(value, "max"):
        if scalar(zero) == 0:
            value = of_rows(inner)
    squares = _row_mean(value)
    square = node_of(uncast(squares), "square") if squares is not None else None
    centred = _centred(square.inputs[0]) if square is not None else None
    if centred is not None and _same(centred, x):
        return True
    node = node_of(value, "sub")
    if node is None:
        return False
    squares = _row_mean(node.inputs[0])
    square = node_of(uncast(squares), "square") if squares is not None else None
    if square is None or not _same(square.inputs[0], x):
        return False
    of_mean = node_of(of_rows(node.inputs[1]), "square")
    mean = _row_mean(of_mean.inputs[0]) if of_mean is not None else None
    return mean is not None and _same(mean, x)


# Activations


def _factors(value: Atom) -> List[Atom]:
    node = node_of(uncast(value), "mul")
    if node is None:
        return [value]
    return _factors(node.inputs[0]) + _factors(node.inputs[1])


def match_activation(value: Var) -> Optional[Activation]:
    """silu as `x * logistic(x)`, relu as `max(x, 0)`, gelu by tanh, by erf or by erfc."""
    for x, zero in pairs(value, "max"):
        if scalar(zero) == 0 and isinstance(uncast(x), Var):
            return Activation("relu", _leaf(x))
    for x, gate in pairs(value, "mul"):
        node = node_of(uncast(gate), "logistic")
        if node is not None and _same(node.inputs[0], x) and isinstance(uncast(x), Var):
            return Activation("silu", _leaf(x))
    factors = _factors(value)
    if len(factors) != 3:
        return None
    for curve in factors:
        others = [f for f in factors if f is not curve]
        numbers = [f for f in others if isinstance(f, Const)]
        operands = [f for f in others if not isinstance(f, Const)]
        if len(numbers) != 1 or len(operands) != 1 or not is_about(numbers[0], 0.5):
            continue
        if _is_normal_cdf(curve, operands[0]):
            return Activation("gelu_erf", _leaf(operands[0]))
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
                return Activation("gelu", _leaf(x))
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
    while not _same(inner, x):
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
        inner, factor, slack = a, factor * number if step.name == "mul" else factor / number, slack + _rounding(b)
    return abs(factor - math.sqrt(0.5)) <= math.sqrt(0.5) * slack


def _is_gelu_argument(value: Atom, x: Atom) -> bool:
    """sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    for number, total in pairs(value, "mul"):
        if not is_about(number, math.sqrt(2 / math.pi)):
            continue
        for linear, cubic in pairs(total, "add"):
            if not _same(linear, x):
                continue
            factors = _factors(cubic)
            numbers = [f for f in factors if isinstance(f, Const)]
            powers = 0
            for factor in factors:
                cube = node_of(uncast(factor), "integer_pow")
                square = node_of(uncast(factor), "square")
                if _same(factor, x):
                    powers += 1
                elif cube is not None and _same(cube.inputs[0], x):
                    powers += int(cube.params["y"])
                elif square is not None and _same(square.inputs[0], x):
                    powers += 2
            if len(numbers) == 1 and is_about(numbers[0], 0.044715) and powers == 3:
                return True
    return False


# Softmax and cross entropy


def _unshifted(value: Atom, axis: int) -> Tuple[Atom, Optional[Atom]]:
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


def _same_maximum(a: Optional[Atom], b: Optional[Atom]) -> bool:
    """Whether two values of rows are one maximum, and both have its gradient or none has."""
    if a is None or b is None:
        return a is b
    (x, x_stopped), (y, y_stopped) = _stopped(a), _stopped(b)
    p, q = node_of(x, "reduce_max"), node_of(y, "reduce_max")
    if p is None or q is None:
        return x is y and x_stopped == y_stopped
    same = _same(p.inputs[0], q.inputs[0]) and tuple(p.params["axes"]) == tuple(q.params["axes"])
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
    x = _unshifted(top.inputs[0], found[1])[0]
    return Softmax(x, found[1]) if isinstance(x, Var) else None


def _log_sum(value: Atom) -> Optional[Var]:
    """x of log(sum(exp(x))) along the last axis."""
    log = node_of(of_rows(value), "log")
    if log is None:
        return None
    inner = of_rows(log.inputs[0])
    absolute = node_of(inner, "abs")
    inner = of_rows(absolute.inputs[0]) if absolute is not None else inner
    total = node_of(inner, "reduce_sum")
    if total is None or tuple(total.params["axes"]) != (len(total.inputs[0].shape) - 1,):
        return None
    top = node_of(uncast(total.inputs[0]), "exp")
    return top.inputs[0] if top is not None and isinstance(top.inputs[0], Var) else None


def _log_softmax(value: Atom) -> Optional[Var]:
    """x of log_softmax(x) along the last axis: `x - logsumexp(x)`, or of `x - max`."""
    node = node_of(uncast(value), "sub")
    if node is None or node.inputs[0].shape != value.shape:
        return None
    inner, axis = _log_sum(node.inputs[1]), len(value.shape) - 1
    if inner is None:
        whole = _log_sum_exp(node.inputs[1])
        return whole if whole is not None and _same(whole, node.inputs[0]) else None
    x, maximum = _unshifted(inner, axis)
    other, others = _unshifted(node.inputs[0], axis)
    same = _same(inner, node.inputs[0]) or (_same(x, other) and _same_maximum(maximum, others))
    return x if same and isinstance(x, Var) else None


def _log_sum_exp(value: Atom) -> Optional[Var]:
    """x of logsumexp(x) along the last axis: `log(sum(exp(x - max))) + max`, or without."""
    for log, added in pairs(of_rows(value), "add"):
        inner = _log_sum(log)
        if inner is None:
            continue
        x, maximum = _unshifted(inner, len(inner.shape) - 1)
        if maximum is not None and _same_maximum(maximum, added) and isinstance(x, Var):
            return x
    return _log_sum(value)


def _picked(value: Atom) -> Optional[Tuple[Var, Atom]]:
    """(x, targets) of the elements of x at targets, one of each row."""
    value = uncast(value)
    node = node_of(value, "reshape", "squeeze", "broadcast_in_dim")
    while node is not None and math.prod(node.inputs[0].shape) == math.prod(value.shape):
        value = uncast(node.inputs[0])
        node = node_of(value, "reshape", "squeeze", "broadcast_in_dim")
    gather = node_of(value, "gather")
    if gather is not None and isinstance(gather.inputs[0], Var):
        x, index = gather.inputs[0], gather.inputs[1]
        rank, numbers = len(x.shape), gather.params["dimension_numbers"]
        rows = tuple(range(rank - 1))
        whole = tuple(int(s) for s in gather.params["slice_sizes"]) == (1,) * rank
        batched = tuple(numbers.operand_batching_dims) == rows and tuple(numbers.start_index_map) == (rank - 1,)
        if whole and batched and math.prod(index.shape) == math.prod(x.shape[:-1]):
            return x, index
        return None
    total = node_of(value, "reduce_sum")
    if total is not None and tuple(total.params["axes"]) == (len(total.inputs[0].shape) - 1,):
        for x, hot in pairs(total.inputs[0], "mul"):  # type: ignore[assignment]
            if isinstance(x, Var) and isinstance(hot, Const) and hot.compact.shape == x.shape:
                places = np.argmax(hot.compact, -1)
                if (hot.compact == np.eye(x.shape[-1])[places]).all():
                    return x, Const(places, places.shape)
            while node_of(hot, "convert_element_type") is not None:
                hot = hot.node.inputs[0]  # type: ignore[union-attr]
            for targets, classes in pairs(hot, "eq"):
                found = of_rows(targets)
                counts = isinstance(classes, Const) and (classes.array() == np.arange(classes.shape[-1])).all()
                if counts and isinstance(found, Var) and found.shape == x.shape[:-1] and isinstance(x, Var):
                    return x, found
    return None


def _boolean(value: Atom) -> Optional[Atom]:
    """The mask that a value is 1 or 0 by."""
    value = _unconverted(value)
    return value if value.dtype == np.bool_ else None


def _unconverted(value: Atom) -> Atom:
    """What casts of any type are of."""
    node = node_of(value, "convert_element_type", "copy")
    return value if node is None else _unconverted(node.inputs[0])


def _masked_sum(value: Atom) -> Optional[Tuple[Atom, Atom]]:
    """(x, m) of `sum(x * m) / sum(m)`, or with where(m, x, 0), or max(sum(m), 1): the mean of x where m is."""
    quotient = node_of(value, "div")
    if quotient is None:
        return None
    total, count = uncast(quotient.inputs[0]), _unconverted(quotient.inputs[1])
    for number, counted in pairs(count, "max"):
        if scalar(number) == 1:
            count = _unconverted(counted)
    sums = node_of(total, "reduce_sum"), node_of(count, "reduce_sum")
    if sums[0] is None or sums[1] is None:
        return None
    mask = _boolean(sums[1].inputs[0])
    if mask is None or mask.shape != sums[0].inputs[0].shape:
        return None
    for x, other in pairs(sums[0].inputs[0], "mul"):
        if _boolean(other) is mask and x.shape == mask.shape:
            return x, mask
    chosen = node_of(uncast(sums[0].inputs[0]), "select_n")
    if chosen is not None and chosen.inputs[0] is mask and scalar(chosen.inputs[1]) == 0:
        return chosen.inputs[2], mask
    return None


def match_cross_entropy(value: Var) -> Optional[CrossEntropy]:
    """The mean of `-log_softmax(logits)[targets]`, or of `logsumexp(logits) - logits[targets]`."""
    if value.shape:
        return None
    sign = 1
    current: Atom = uncast(value)
    #: What the sum is divided by, and how far that may be from the number of rows, as a part of it.
    count, slack = 1.0, 0.0
    masked = _masked_sum(current)
    if masked is not None:
        current = masked[0]
    # From the scalar down to one element for each row.
    for _ in range(16):
        current = uncast(current)
        node = current.node
        if node is None:
            return None
        if node.name == "neg":
            sign, current = -sign, node.inputs[0]
        elif masked is not None:
            break
        elif node.name == "div" and scalar(node.inputs[1]):
            count, slack = count * (scalar(node.inputs[1]) or 1.0), slack + _rounding(node.inputs[1])
            current = node.inputs[0]
        elif node.name == "mul" and any(scalar(v) for v in node.inputs):
            number, current = next((a, b) for a, b in pairs(current, "mul") if scalar(a))
            count, slack = count / (scalar(number) or 1.0), slack + _rounding(number)
        elif node.name == "reduce_sum" and _picked(current) is None:
            current = node.inputs[0]
        else:
            break
    sign, count = (-sign, -count) if count < 0 else (sign, count)
    picked = _picked(current)
    found: Optional[Tuple[Var, Atom]] = None
    if picked is not None and sign < 0:
        logits = _log_softmax(picked[0])
        found = (logits, picked[1]) if logits is not None else None
    node = node_of(current, "sub")
    if picked is None and node is not None:
        first, second = node.inputs if sign > 0 else node.inputs[::-1]
        inner, logits = _picked(second), _log_sum_exp(first)
        if inner is not None and logits is not None and _same(inner[0], logits):
            found = (logits, inner[1])
    if found is None:
        return None
    size = math.prod(found[0].shape[:-1])
    if math.prod(current.shape) != size:
        return None
    logits, targets = _leaf(found[0]), found[1]
    if masked is not None:
        return CrossEntropy(logits, targets, masked[1])
    return CrossEntropy(logits, targets) if abs(count - size) <= slack * size else None


# Rotations


def match_rope(value: Var) -> Optional[Rope]:
    """`x * cos + concatenate([-x2, x1]) * sin`, or `concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin])`."""
    if len(value.shape) != 4:
        return None
    for straight, turned in pairs(value, "add"):
        for half_turned, sin in pairs(turned, "mul"):
            x = _rotated(half_turned)
            for same, cos in pairs(straight, "mul") if x is not None else ():
                if x is not None and _same(same, x):
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
    return _leaf(operand), first, first + value.shape[-1]
