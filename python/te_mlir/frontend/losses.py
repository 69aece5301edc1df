"""Finds the cross entropy of rows, its means and its sums, as JAX programs write them as formulas.

A loss is a number times the sum of `-log(softmax(logits))[target]` over the rows that a mask
selects. te has the mean over the rows that count. That is the loss if the program divides by their
number; otherwise, JAX counts the rows, and the mean is multiplied by the count. Casts between floats
are ignored, as in `looking`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from te_mlir.frontend.graph import Atom, Const, Node, Var
from te_mlir.frontend.looking import (
    counts_along,
    factors_of,
    is_same,
    leaf,
    node_of,
    of_rows,
    pairs,
    rounding,
    scalar,
    uncast,
)
from te_mlir.frontend.softmax import same_maximum, unshifted


class Mask(NamedTuple):
    """The rows that count: those where `values` are not 0 or, with `inverted`, are 0; broadcast to `shape`."""

    values: Atom
    shape: tuple[int, ...]
    inverted: bool = False


class Picked(NamedTuple):
    """The elements of x at targets, one of each row.

    clamps: targets out of range are clamped to the last or the first class. zeros: rows with
    such a target have 0; otherwise, they do not count.
    """

    x: Var
    targets: Atom
    clamps: bool = False
    zeros: bool = False


class Rows(NamedTuple):
    """The cross entropy of each row, or the sum over all rows, times `sign`."""

    logits: Var
    picked: Picked
    sign: int
    masks: tuple[Mask, ...] = ()


class CrossEntropy(NamedTuple):
    """`factor` times the mean of -log(softmax(logits)) at targets, over the rows that all masks select.

    summed: whether it is also multiplied by the number of these rows. ignore_index: the target of rows that do not
    count.
    """

    logits: Var
    targets: Atom
    clamps: bool
    masks: tuple[Mask, ...]
    factor: float
    summed: bool
    ignore_index: int = -100


# Log-softmax


def _log_sum(value: Atom) -> Var | None:
    """x if the value is log(sum(exp(x))) along the last axis."""
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


def _log_softmax(value: Atom) -> Var | None:
    """x if the value is log_softmax(x) along the last axis, also as `x - logsumexp(x)`, with or without `x - max`."""
    named = node_of(uncast(value), "log_softmax")
    if named is not None and named.params["axis"] == len(value.shape) - 1:
        return named.inputs[0] if isinstance(named.inputs[0], Var) else None
    node = node_of(uncast(value), "sub")
    if node is None or node.inputs[0].shape != value.shape:
        return None
    inner, axis = _log_sum(node.inputs[1]), len(value.shape) - 1
    if inner is None:
        whole = _log_sum_exp(node.inputs[1])
        return whole if whole is not None and is_same(whole, node.inputs[0]) else None
    x, maximum = unshifted(inner, axis)
    other, others = unshifted(node.inputs[0], axis)
    same = is_same(inner, node.inputs[0]) or (is_same(x, other) and same_maximum(maximum, others))
    return x if same and isinstance(x, Var) else None


def _log_sum_exp(value: Atom) -> Var | None:
    """x if the value is logsumexp(x) along the last axis, also as `log(sum(exp(x - max))) + max`, or without the max."""
    named = node_of(of_rows(value), "logsumexp")
    if named is not None and tuple(named.params["axes"]) == (len(named.inputs[0].shape) - 1,):
        return named.inputs[0] if isinstance(named.inputs[0], Var) else None
    for log, added in pairs(of_rows(value), "add"):
        inner = _log_sum(log)
        if inner is None:
            continue
        x, maximum = unshifted(inner, len(inner.shape) - 1)
        if maximum is not None and same_maximum(maximum, added) and isinstance(x, Var):
            return x
    return _log_sum(value)


# Elements at targets


def _picked(value: Atom) -> Picked | None:
    """The elements at targets that a value consists of: gathered, or a sum of products with a one-hot value."""
    value = _same_elements(value)
    return match_one_hot_sum(value) if node_of(value, "reduce_sum") is not None else _gathered(value)


def match_one_hot_sum(value: Atom) -> Picked | None:
    """The elements at targets of rows, as a sum of products with a one-hot value."""
    total = node_of(value, "reduce_sum")
    operand = total.inputs[0] if total is not None else value
    if total is None or tuple(total.params["axes"]) != (len(operand.shape) - 1,):
        return None
    for x, hot in pairs(operand, "mul"):
        targets = _one_hot(hot) if x.shape == hot.shape else None
        if targets is not None and isinstance(x, Var):
            return Picked(x, targets, zeros=isinstance(targets, Var))
    return None


def _same_elements(value: Atom) -> Atom:
    """The value before operations that keep the elements and their order but change the dimensions."""
    while True:
        value = uncast(value)
        node = node_of(value, "reshape", "squeeze", "expand_dims", "broadcast_in_dim")
        if node is None or math.prod(node.inputs[0].shape) != math.prod(value.shape):
            return value
        value = node.inputs[0]


def _gathered(value: Atom) -> Picked | None:
    """A gather of one element of each row."""
    node = node_of(value, "gather")
    x, picks = (node.inputs[0], node.params.get("picks")) if node is not None else (None, None)
    return Picked(x, *picks) if isinstance(x, Var) and picks is not None else None


def _one_hot(hot: Atom) -> Atom | None:
    """The targets of `one_hot(targets, classes)`: one integer for each row."""
    if isinstance(hot, Const):
        values = np.asarray(hot.array())
        once = ((values == 0) | (values == 1)).all() and (np.count_nonzero(values, -1) == 1).all()
        return Const(np.argmax(values, -1), hot.shape[:-1]) if once else None
    kept = _unconverted(hot)
    for targets, classes in pairs(kept, "eq"):
        found = of_rows(targets)
        if not isinstance(found, Var) or not isinstance(classes, Const) or not found.dtype.startswith(("int", "uint")):
            continue
        last = len(hot.shape) - 1
        fits = len(classes.shape) == last + 1 and (*found.shape, classes.shape[last]) == hot.shape
        if fits and counts_along(classes, last):
            return found
    return None


# Masks


def _unconverted(value: Atom) -> Atom:
    """The value before casts of any type."""
    while True:
        node = node_of(value, "convert_element_type", "copy", "stop_gradient")
        if node is None:
            return value
        value = node.inputs[0]


def _is_mask(value: Atom) -> bool:
    """Whether every element is known to be 0 or 1."""
    value = _unconverted(value)
    if value.dtype == "bool":
        return True
    if isinstance(value, Const):
        return not value.opaque and bool(((value.compact == 0) | (value.compact == 1)).all())
    node = node_of(value, "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "slice", "transpose", "mul")
    return node is not None and all(map(_is_mask, node.inputs))


def _of_row(mask: Atom) -> Atom:
    """A mask with one value for each row, before casts and without the axes that were added at the end."""
    while True:
        inner = _unconverted(of_rows(mask))
        if inner is mask:
            return mask
        mask = inner


def _is_number_of(divisor: Atom, mask: Mask) -> bool:
    """Whether a value is the sum of a mask, or 1 where that is 0."""
    exact = ("int32", "uint32", "int64", "float32")
    total = _counted(divisor, exact)
    for one, inner in pairs(total, "max"):
        if scalar(one) == 1:
            total = _counted(inner, exact)
    node = node_of(total, "reduce_sum")
    if node is None or total.dtype not in exact or total.shape or mask.inverted or not _is_mask(node.inputs[0]):
        return False
    whole = math.prod(node.inputs[0].shape) == math.prod(mask.shape)
    return whole and _base(node.inputs[0]) is _base(mask.values)


def _counted(value: Atom, types: tuple[str, ...]) -> Atom:
    """The value before casts to types that represent every count exactly."""
    while True:
        node = node_of(value, "convert_element_type", "copy", "stop_gradient")
        if node is None or value.dtype not in types:
            return value
        value = node.inputs[0]


def _base(mask: Atom) -> Atom:
    """The value that a mask has the elements of, before casts and changes of dimensions."""
    while True:
        mask = _unconverted(mask)
        node = node_of(mask, "reshape", "squeeze", "expand_dims", "broadcast_in_dim")
        if node is None or math.prod(node.inputs[0].shape) != math.prod(mask.shape):
            return mask
        mask = node.inputs[0]


# Losses


def match_rows(value: Atom) -> Rows | None:
    """`logsumexp(logits) - logits[targets]` or `log_softmax(logits)[targets]`, or the sum of that over axes of rows."""
    node = node_of(uncast(value), "sub")
    if node is not None and all(v.shape == value.shape for v in node.inputs):
        for sign, (first, second) in ((1, node.inputs), (-1, node.inputs[::-1])):
            inner, logits = _picked(second), _log_sum_exp(first)
            if inner is not None and logits is not None and is_same(inner.x, logits):
                # If a one-hot row is 0, te does not count the row; JAX has logsumexp(x) there (docs/guides/jax.md).
                return _of(Rows(logits, inner._replace(zeros=False), sign), value)
    picked = _picked(value)
    if picked is not None:
        negated = node_of(uncast(picked.x), "neg")
        logits = _log_softmax(negated.inputs[0] if negated is not None else picked.x)
        return _of(Rows(logits, picked, -1 if negated is None else 1), value) if logits is not None else None
    total = node_of(uncast(value), "reduce_sum")
    if total is None or len(total.inputs[0].shape) - 1 not in [int(a) for a in total.params["axes"]]:
        return None
    return _hot_sum(total.inputs[0])


def _of(rows: Rows, value: Atom) -> Rows | None:
    return rows if math.prod(value.shape) == math.prod(rows.logits.shape[:-1]) else None


def _hot_sum(product: Atom) -> Rows | None:
    """Rows of `log_softmax(logits) * one_hot(targets)`, possibly times a mask, which are then summed with other axes."""
    factors = factors_of(product)
    found = [(n, _log_softmax(f)) for n, f in enumerate(factors) if isinstance(f, Var)]
    logits = [(n, x) for n, x in found if x is not None]
    if len(logits) != 1:
        return None
    ((place, x),) = logits
    value, rest = factors[place], factors[:place] + factors[place + 1 :]
    hots = [(n, _one_hot(f)) for n, f in enumerate(rest) if f.shape == value.shape]
    targets = [(n, t) for n, t in hots if t is not None]
    if product.shape != value.shape or len(targets) != 1 or not isinstance(value, Var):
        return None
    ((place, places),) = targets
    masks = []
    for mask in rest[:place] + rest[place + 1 :]:
        values = _of_row(mask)
        if not _is_mask(values) or values.shape != value.shape[:-1]:
            return None
        masks.append(Mask(values, values.shape))
    return Rows(x, Picked(value, places, zeros=isinstance(places, Var)), -1, tuple(masks))


def named_loss(node: Node) -> CrossEntropy | None:
    """A framework's own cross entropy, of logits or of their log_softmax."""
    logits = _log_softmax(node.inputs[0]) if node.name == "nll_loss" else node.inputs[0]
    if not isinstance(logits, Var):
        return None
    found = CrossEntropy(_without_widening(logits), node.inputs[1], False, (), 1.0, node.params["summed"])
    return found._replace(ignore_index=node.params["ignore_index"])


def _without_widening(value: Var) -> Var:
    """The value before views and casts to f32, if it is narrower and nothing else is in between.

    The loss is computed in f32 for logits of every type, so a cast to f32 has no effect.
    """
    current: Atom = value
    while True:
        view = node_of(current, "reshape", "copy")
        if view is not None and view.inputs[0].shape[-1:] == current.shape[-1:]:
            current = view.inputs[0]
            continue
        cast = node_of(current, "convert_element_type")
        if cast is None or current.dtype != "float32":
            return value
        current = cast.inputs[0]
        if isinstance(current, Var) and current.dtype in ("bfloat16", "float16"):
            return current


def match_cross_entropy(value: Var) -> CrossEntropy | None:
    """A mean of the cross entropy of rows or, if the value is the summing operation, a sum."""
    if value.shape:
        return None
    named = node_of(value, "cross_entropy", "nll_loss")
    if named is not None:
        return named_loss(named)
    #: The factor of the sum, and the relative tolerance for it.
    factor, slack = 1.0, 0.0
    divisor: Atom | None = None
    masks: list[Mask] = []
    current: Atom = uncast(value)
    while True:
        current = uncast(current)
        rows, node = match_rows(current), current.node
        if rows is not None or node is None:
            break
        inputs = node.inputs
        if node.name == "neg":
            factor, current = -factor, inputs[0]
        elif node.name == "div" and scalar(inputs[1]):
            factor, slack = factor / (scalar(inputs[1]) or 1.0), slack + rounding(inputs[1])
            current = inputs[0]
        elif node.name == "div" and divisor is None and not current.shape:
            current, divisor = inputs
        elif node.name == "mul" and any(scalar(v) for v in inputs):
            number, current = next((a, b) for a, b in pairs(current, "mul") if scalar(a))
            factor, slack = factor * (scalar(number) or 1.0), slack + rounding(number)
        elif node.name in ("mul", "select_n") and current.shape:
            weighed = _masked(current)
            if weighed is None:
                return None
            current, mask = weighed
            masks.append(mask)
        elif node.name == "reduce_sum":
            current = inputs[0]
        elif node.name == "mean" and not current.shape and math.prod(inputs[0].shape):
            current = inputs[0]
            factor, slack = factor / math.prod(current.shape), slack + 2.0**-40
        elif _same_elements(current) is not current:
            current = _same_elements(current)
        else:
            return None
        if node.name not in ("reduce_sum", "mean") and math.prod(current.shape) != math.prod(node.output.shape):
            return None
    if rows is None or not math.isfinite(factor):
        return None
    count = math.prod(rows.logits.shape[:-1])
    if any(math.prod(mask.shape) != count for mask in masks):
        return None
    factor *= rows.sign
    every = (*masks, *rows.masks)
    found = CrossEntropy(leaf(rows.logits), rows.picked.targets, rows.picked.clamps, every, factor, False)
    if divisor is not None:
        counts = len(every) == 1 and not rows.picked.zeros and _is_number_of(divisor, every[0])
        return found if counts else None
    if not every and not rows.picked.zeros and abs(abs(factor) * count - 1) <= slack:
        return found._replace(factor=math.copysign(1.0, factor))
    return found._replace(summed=True) if node_of(uncast(value), "reduce_sum", "mean") is not None else None


def _masked(value: Atom) -> tuple[Atom, Mask] | None:
    """(x, mask) if the value is `x * mask` or `where(mask, x, 0)`."""
    for x, other in pairs(value, "mul"):
        if x.shape == value.shape and isinstance(x, Var) and _is_mask(other):
            return x, Mask(other, value.shape)
    node = node_of(uncast(value), "select_n")
    if node is None or len(node.inputs) != 3 or node.inputs[0].dtype != "bool":
        return None
    for x, zero, inverted in ((node.inputs[2], node.inputs[1], False), (node.inputs[1], node.inputs[2], True)):
        if scalar(zero) == 0 and x.shape == value.shape:
            return x, Mask(node.inputs[0], value.shape, inverted)
    return None
