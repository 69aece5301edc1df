"""Replaces ATen ops by formulas of ops that are imported.

A formula is a function of PyTorch, which is traced for the operands of a call. The compiler derives its gradient, so
formulas choose between values where the derivatives that PyTorch has written for an op do, such as where operands are
equal, and no operand that is not chosen gives a NaN. Ops that PyTorch composes of others, with the gradient of these,
are replaced by them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Set
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from te_mlir.torch import composites, fused_modules, samples
from te_mlir.torch.adapter import given, is_known, name_of
from te_mlir.torch.effects import storages
from te_mlir.torch.indexing import as_lookups
from te_mlir.torch.partition import dependents

Formula = Callable[..., Any]

#: What a formula returns for operands with which the op is imported, or stays in PyTorch, as it is.
AS_IS = None


# Activations


def _hardswish(x: Tensor) -> Tensor:
    return x * torch.where(x <= -3, 0.0, torch.where(x < 3, x + 3, 6.0)) / 6


def _hardsigmoid(x: Tensor) -> Tensor:
    return torch.where(x <= -3, 0.0, torch.where(x >= 3, 6.0, x + 3)) / 6


def _softshrink(x: Tensor, by: float) -> Tensor:
    return torch.where(x > by, x - by, torch.where(x < -by, x + by, torch.where(x.abs() <= by, 0.0, x)))


def _prelu(x: Tensor, weight: Tensor) -> Tensor:
    """One number, or one for each channel, the second dimension."""
    rows = weight.view(-1, *[1] * (x.dim() - 2)) if x.dim() > 1 else weight
    return torch.where(x > 0, x, rows * x)


def _glu(x: Tensor, axis: int) -> Tensor:
    a, b = x.chunk(2, axis)
    return a * b.sigmoid()


def _nan_to_num(x: Tensor, nan: float | None, high: float | None, low: float | None) -> Tensor | None:
    if not x.is_floating_point():
        return AS_IS
    ends = torch.finfo(x.dtype)
    low, high = ends.min if low is None else low, ends.max if high is None else high
    finite = torch.where(x == torch.inf, high, torch.where(x == -torch.inf, low, x))
    return torch.where(x != x, nan or 0.0, finite)


def _lerp(x: Tensor, end: Tensor, weight: Any) -> Tensor:
    """From the end that is nearer."""
    near_x, near_end = x + weight * (end - x), end - (end - x) * (1 - weight)
    if isinstance(weight, Tensor):
        return torch.where(weight.abs() < 0.5, near_x, near_end)
    return near_x if abs(weight) < 0.5 else near_end


def _power(x: Tensor, exponent: Any) -> Tensor | None:
    """Whole powers that are not imported as they are."""
    if exponent not in (-4, -3, -2, 1, *range(5, 9)):
        return AS_IS
    base = x if exponent > 0 else x.reciprocal()
    made = base if exponent % 2 else base.square()
    for _ in range((abs(int(exponent)) - 1) // 2):
        made = made * base.square()
    return made


def _remainder(x: Any, y: Any) -> Tensor | None:
    """The remainder with the sign of y, computed from that with the sign of x."""
    if not isinstance(x, Tensor):
        return AS_IS
    rest = torch.fmod(x, y)
    if not isinstance(y, Tensor):
        return torch.where(rest < 0 if y > 0 else rest > 0, rest + y, rest)
    return torch.where(((rest < 0) & (y > 0)) | ((rest > 0) & (y < 0)), rest + y, rest)


def _divided(x: Any, y: Any, rounding_mode: str | None = None) -> Tensor | None:
    """A quotient that is rounded to a whole number, without a gradient."""
    if not isinstance(x, Tensor) or rounding_mode not in ("trunc", "floor"):
        return AS_IS
    if rounding_mode == "trunc" or (not isinstance(y, Tensor) and y == 0):
        return (x / y).trunc()
    rest = torch.fmod(x, y)
    whole = ((x - rest) / y).round()
    apart = (
        ((rest < 0) & (y > 0)) | ((rest > 0) & (y < 0)) if isinstance(y, Tensor) else rest < 0 if y > 0 else rest > 0
    )
    made = torch.where(apart, whole - 1, whole)
    return torch.where(y == 0, (x / y).trunc(), made) if isinstance(y, Tensor) else made


def _product(x: Tensor, axis: int, keep: bool = False, *_: Any) -> Tensor | None:
    """One factor after another, of few."""
    if not x.is_floating_point() or not x.dim() or not 0 < x.shape[axis] <= 32:
        return AS_IS
    made = functools.reduce(torch.mul, x.unbind(axis))
    return made.unsqueeze(axis) if keep else made


def _truths(of: Callable[..., Tensor]) -> Formula:
    """Whether the largest or smallest truth value is 1."""

    def made(x: Tensor, axes: Any = None, keep: bool = False) -> Tensor | None:
        if x.dtype is not torch.bool or not x.dim() or not x.numel():
            return AS_IS
        axes = [axes] if isinstance(axes, int) else list(axes or range(x.dim()))
        return of(x.float(), axes, keep) > 0

    return made


# Norms and deviations


def _variance(x: Tensor, axes: Any, correction: Any, keep: bool = False) -> Tensor | None:
    """The mean of squared differences from the mean, times n / (n - correction)."""
    axes, correction = list(axes or range(x.dim())), 1 if correction is None else correction
    count = math.prod(x.shape[axis] for axis in axes)
    if not x.dim() or count <= correction:
        return AS_IS
    made = (x - x.mean(axes, keepdim=True)).square().mean(axes, keepdim=keep)
    return made * (count / (count - correction)) if correction else made


def _root(square: Tensor) -> Tensor:
    """A square root that has no gradient where it is 0."""
    return torch.where(square == 0, 0.0, torch.where(square == 0, 1.0, square).sqrt())


def _and_mean(of: Callable[[Tensor], Tensor]) -> Formula:
    def made(x: Tensor, axes: Any, correction: Any, keep: bool) -> Any:
        variance = _variance(x, axes, correction, keep)
        mean = x.mean(list(axes or range(x.dim())), keepdim=keep)
        return AS_IS if variance is None else (of(variance), mean)

    return made


def _deviation(x: Tensor, axes: Any, correction: Any, keep: bool = False) -> Tensor | None:
    variance = _variance(x, axes, correction, keep)
    return AS_IS if variance is None else _root(variance)


def _norm(x: Tensor, order: Any = 2, axes: Any = None, keep: bool = False, *_: Any) -> Tensor | None:
    axes = [axes] if isinstance(axes, int) else list(axes or range(x.dim()))
    if not x.dim():
        return AS_IS
    if order in (2, None):
        return _root(x.square().sum(axes, keepdim=keep))
    if order == 1:
        return x.abs().sum(axes, keepdim=keep)
    if abs(order) == torch.inf:
        return (torch.amax if order > 0 else torch.amin)(x.abs(), axes, keepdim=keep)
    return AS_IS


def _weight_norm(v: Tensor, g: Tensor, axis: int) -> Tensor:
    """The parts of v along an axis, with the lengths in g; with -1, all of v with one length."""
    axes = [other for other in range(v.dim()) if other != axis]
    return v * (g / _root(v.square().sum(axes, keepdim=axis != -1)))


def _by_channel(vector: Tensor, x: Tensor) -> Tensor:
    return vector.view(-1, *[1] * (x.dim() - 2))


def _group_norm(x: Tensor, groups: int, weight: Any, bias: Any, epsilon: float, *_: Any) -> Tensor:
    rows = x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    made = F.layer_norm(rows, rows.shape[-1:], eps=epsilon).reshape(x.shape)
    made = made if weight is None else made * _by_channel(weight, x)
    return made if bias is None else made + _by_channel(bias, x)


def _instance_norm(x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, own: bool, *rest: Any) -> Any:
    return _group_norm(x, x.shape[1], weight, bias, rest[1]) if own and mean is None else AS_IS


def _batch_norm(x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, *rest: Any) -> Any:
    """Only by statistics that are not of the batch."""
    if training or mean is None or x.dim() < 2:
        return AS_IS
    epsilon = rest[1]
    scale = (variance + epsilon).rsqrt()
    made = (x - _by_channel(mean, x)) * _by_channel(scale if weight is None else scale * weight, x)
    return made if bias is None else made + _by_channel(bias, x)


def _over_rows(norm: Formula) -> Formula:
    """A norm over several dimensions, as one over rows."""

    def made(x: Tensor, shape: Any, *vectors: Any) -> Tensor | None:
        if len(shape) == 1:
            return AS_IS
        vectors = tuple(v.reshape(-1) if isinstance(v, Tensor) else v for v in vectors)
        rows = x.reshape(*x.shape[: -len(shape)], math.prod(shape))
        return norm(rows, rows.shape[-1:], *vectors).reshape(x.shape)  # type: ignore[no-any-return]

    return made


def _cosine(x: Tensor, y: Tensor, axis: int, epsilon: float) -> Tensor:
    x, y = torch.broadcast_tensors(x, y)
    x, y = (v / _root(v.square().sum(axis, keepdim=True)).clamp_min(epsilon) for v in (x, y))
    return (x * y).sum(axis)


# Losses


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


def _huber(x: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    apart = x - target
    size = apart.abs()
    # A difference that is infinite would give the squared branch a NaN as its gradient.
    near = torch.where(size > delta, 0.0, apart)
    return _reduced(torch.where(size > delta, delta * (size - delta / 2), near.square() / 2), reduction)


def _smooth_l1(x: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    return _huber(x, target, reduction, beta) / beta if beta else _reduced((x - target).abs(), reduction)


def _with_logits(x: Tensor, target: Tensor, weight: Tensor | None, positive: Tensor | None, reduction: int) -> Tensor:
    """Binary cross entropy."""
    log = F.logsigmoid(x)
    loss = (1 - target) * x - (log if positive is None else ((positive - 1) * target + 1) * log)
    return _reduced(loss if weight is None else loss * weight, reduction)


def _xlogy(x: Any, y: Any) -> Tensor | None:
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return AS_IS
    none = (x == 0) & ((y <= 0) | (y == torch.inf))
    return torch.where(none, 0.0, x * torch.where(none, 1.0, y).log())


def _cross_entropy(x: Tensor, target: Tensor, weight: Any, reduction: int, ignore: int, smoothing: float) -> Any:
    """Of logits [rows, classes, ...]."""
    axis = min(x.dim() - 1, 1)
    classes, rows = x.shape[axis], x.movedim(axis, -1)
    if not target.is_floating_point() and weight is None and reduction and not smoothing:
        flat = rows.reshape(-1, classes), target.reshape(-1)
        return AS_IS if x.dim() == 2 else F.cross_entropy(*flat, None, None, ignore, None, _NAMES[reduction])
    log = rows.float().log_softmax(-1)
    if not target.is_floating_point():
        return _nll(log, target, weight, reduction, ignore, smoothing)
    probabilities = target.movedim(axis, -1) * (1 - smoothing) + smoothing / classes
    loss = -(log * (probabilities if weight is None else probabilities * weight)).sum(-1)
    return loss.sum() / loss.numel() if reduction == 1 else _reduced(loss, reduction)


_NAMES = ("none", "mean", "sum")


def _nll(log: Tensor, target: Tensor, weight: Any, reduction: int, ignore: int, smoothing: float = 0.0) -> Tensor:
    """Of logarithms [..., classes]."""
    counts = target != ignore
    label = target.masked_fill(counts.logical_not(), 0)
    share = torch.ones_like(label, dtype=log.dtype) if weight is None else weight[label]
    share = share.masked_fill(counts.logical_not(), 0.0)
    # The logarithm of a label that does not count may be infinite.
    own = log.gather(-1, label.unsqueeze(-1)).squeeze(-1).masked_fill(counts.logical_not(), 0.0)
    loss = -own * share * (1 - smoothing)
    if smoothing:
        all_of = -(log if weight is None else log * weight).sum(-1) * (smoothing / log.shape[-1])
        loss = loss + torch.where(counts, all_of, 0.0)
    return loss.sum() / share.sum() if reduction == 1 else _reduced(loss, reduction)


def _nll_loss(log: Tensor, target: Tensor, weight: Any, reduction: int, ignore: int) -> Tensor | None:
    if log.dim() == 2 and weight is None and reduction:
        return AS_IS
    return _nll(log.movedim(min(log.dim() - 1, 1), -1).float(), target, weight, reduction, ignore)


# Products


def _matmul(x: Tensor, y: Tensor) -> Tensor | None:
    """Of batches that are repeated, or of two vectors."""
    if x.dim() == y.dim() == 1:
        return (x.float() * y.float()).sum()
    if y.dim() < 3 or x.dim() < 2:
        return AS_IS
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if x.shape[:-2] == batch and x.dim() == y.dim():
        return AS_IS
    return x.expand(*batch, *x.shape[-2:]) @ y.expand(*batch, *y.shape[-2:])


def _added(product: Formula) -> Formula:
    """beta self + alpha product"""

    def made(bias: Tensor, x: Tensor, y: Tensor, beta: float, alpha: float) -> Tensor | None:
        if product is torch.mm and beta == alpha == 1 and bias.dim() == 1:
            return AS_IS
        made: Tensor = product(x, y)
        made = made if alpha == 1 else made * alpha
        return made if beta == 0 else made + (bias if beta == 1 else bias * beta)

    return made


def _summed(of: Callable[[Any, Any, float], Any]) -> Formula:
    return lambda x, y, alpha: AS_IS if alpha == 1 else of(x, y, alpha)


# Parts


def _triangle(of: Formula) -> Formula:
    def made(x: Tensor, diagonal: int) -> Tensor:
        ones = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device)
        return x.masked_fill(of(ones, diagonal).logical_not(), 0)

    return made


def _index_select(x: Tensor, axis: int, index: Tensor) -> Tensor:
    if not x.dim():
        return x.clone()
    axis, index = axis % x.dim(), index.reshape(-1)
    if axis == x.dim() - 1:
        return x.gather(-1, index.expand(*x.shape[:-1], -1))
    return x[(slice(None),) * axis + (index,)]


def _index_copy(x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor | None:
    """Elements of `source`, at the place of each in `index`, and those of x at other places."""
    if not x.dim() or not x.is_floating_point() or not index.numel() or index.numel() != source.shape[axis % x.dim()]:
        return AS_IS
    axis, count = axis % x.dim(), index.numel()
    numbers = torch.arange(count, device=x.device)
    place = torch.full((x.shape[axis],), -1, device=x.device).index_copy(0, index.reshape(-1), numbers)
    copied = (place >= 0).view(-1, *[1] * (x.dim() - axis - 1))
    return torch.where(copied, _index_select(source, axis, place.clamp_min(0)), x)


def _index(x: Tensor, indices: Any) -> Tensor | None:
    """A vector of indices of the last dimension."""
    last = x.is_floating_point() and len(indices) == x.dim() > 1 and all(index is None for index in indices[:-1])
    if not last or indices[-1].dim() != 1 or indices[-1].dtype is not torch.int64:
        return AS_IS
    index, size = indices[-1], x.shape[-1]
    # A negative index counts from the end, and one outside reads zeros.
    inside = (index >= -size) & (index < size)
    return torch.where(inside, _index_select(x, -1, index.remainder(size)), 0.0)


def _unfold(x: Tensor, axis: int, size: int, step: int) -> Tensor:
    end = x.shape[axis] - size + 1
    places = [x.narrow(axis, first, end) for first in range(size)]
    every = (slice(None),) * (axis % x.dim()) + (slice(None, None, step),)
    return torch.stack([place[every] for place in places], -1)


def _replaced(x: Tensor, part: Tensor, axis: int, first: int, end: int) -> Tensor:
    ends = x.narrow(axis, 0, first), x.narrow(axis, end, x.shape[axis] - end)
    return torch.cat([p for p in (ends[0], part, ends[1]) if p.shape[axis]], axis)


def _slice_scatter(x: Tensor, part: Tensor, axis: int, start: Any, end: Any, step: int) -> Tensor:
    size = x.shape[axis]
    first, end, _ = slice(start, end).indices(size)
    end = max(first, end)
    if step == 1 or first == end:
        return _replaced(x, part, axis, first, end)
    count, behind = min(part.shape[axis] * step, size - first), x.dim() - 1 - axis % x.dim()
    spread = part.repeat_interleave(step, axis).narrow(axis, 0, count)
    spread = F.pad(spread, [0, 0] * behind + [first, size - first - count])
    place = torch.arange(size, device=x.device).reshape(-1, *[1] * behind)
    return torch.where((place >= first) & (place < end) & ((place - first) % step == 0), spread, x)


def _select_scatter(x: Tensor, part: Tensor, axis: int, index: int) -> Tensor:
    index %= x.shape[axis]
    return _replaced(x, part.unsqueeze(axis), axis, index, index + 1)


def _rolled(x: Tensor, shifts: Any, axes: Any) -> Tensor | None:
    """The last elements before the first ones, along each axis."""
    if len(axes) != len(shifts):
        return AS_IS
    for shift, axis in zip(shifts, axes):
        if kept := shift % max(x.shape[axis], 1):
            first = x.shape[axis] - kept
            x = torch.cat([x.narrow(axis, first, kept), x.narrow(axis, 0, first)], axis)
    return x.clone()


def _depth_to_space(x: Tensor, r: int) -> Tensor:
    """Channels [c, r, r] become rows and columns of blocks of r by r."""
    *lead, channels, height, width = x.shape
    n = len(lead)
    split = x.reshape(*lead, channels // r**2, r, r, height, width)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return split.permute(order).reshape(*lead, channels // r**2, height * r, width * r)


def _space_to_depth(x: Tensor, r: int) -> Tensor:
    *lead, channels, height, width = x.shape
    n = len(lead)
    split = x.reshape(*lead, channels, height // r, r, width // r, r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return split.permute(order).reshape(*lead, channels * r**2, height // r, width // r)


def _shuffled(x: Tensor, groups: int) -> Tensor:
    """Channels [groups, rest] become [rest, groups]."""
    split = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    return split.transpose(1, 2).clone().reshape(x.shape)


def _full_like(x: Tensor, value: Any, dtype: Any = None, layout: Any = None, device: Any = None, *_: Any) -> Tensor:
    return torch.full(x.shape, value, dtype=dtype or x.dtype, device=device or x.device)


#: Formulas that are computed in float32, and rounded once, if their operands have smaller types.
_WIDE: dict[str, Formula] = {
    "hardswish": _hardswish,
    "hardsigmoid": _hardsigmoid,
    "hardshrink": lambda x, by: torch.where(x.abs() <= by, 0.0, x),
    "softshrink": _softshrink,
    "threshold": lambda x, bound, other: torch.where(x <= bound, other, x),
    "prelu": _prelu,
    "log_sigmoid": lambda x: -F.softplus(-x),
    "mish": lambda x: x * F.softplus(x).tanh(),
    "glu": _glu,
    "pow.Tensor_Scalar": _power,
    "frac": lambda x: x - x.trunc(),
    "remainder": _remainder,
    **dict.fromkeys(("div.Tensor_mode", "div.Scalar_mode"), _divided),
    "prod.dim_int": _product,
    "logaddexp": lambda x, y: torch.maximum(x, y) + F.softplus(-torch.where(x == y, 0.0, x - y).abs()),
    "xlogy": _xlogy,
    "addcmul": lambda x, a, b, value: x + (a * b if value == 1 else a * b * value),
    "addcdiv": lambda x, a, b, value: x + (a / b if value == 1 else a / b * value),
    "lerp": _lerp,
    "add": _summed(lambda x, y, alpha: x + y * alpha),
    "sub": _summed(lambda x, y, alpha: x - y * alpha),
    "rsub": _summed(lambda x, y, alpha: y - x * alpha),
    "var.correction": _variance,
    "std.correction": _deviation,
    "var_mean.correction": _and_mean(lambda variance: variance),
    "std_mean.correction": _and_mean(_root),
    **dict.fromkeys(("linalg_vector_norm", "norm"), _norm),
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "batch_norm": _batch_norm,
    "_weight_norm": _weight_norm,
    **samples.WIDE,
    "cosine_similarity": _cosine,
    "mse_loss": lambda x, y, reduction: _reduced((x - y).square(), reduction),
    "l1_loss": lambda x, y, reduction: _reduced((x - y).abs(), reduction),
    "huber_loss": _huber,
    "smooth_l1_loss": _smooth_l1,
    "binary_cross_entropy_with_logits": _with_logits,
    **dict.fromkeys(("dot", "vdot"), lambda x, y: (x * y).sum()),
    "mv": lambda x, y: (x * y).sum(-1),
}

#: Formulas of products, and of results whose elements are those of operands.
_NARROW: dict[str, Formula] = {
    "nan_to_num": _nan_to_num,
    "isnan": lambda x: x != x,
    "any": _truths(torch.amax),
    "all": _truths(torch.amin),
    "isfinite": lambda x: x.abs() < torch.inf if x.is_floating_point() else AS_IS,
    "isinf": lambda x: x.abs() == torch.inf if x.is_floating_point() else AS_IS,
    "cross_entropy_loss": _cross_entropy,
    **dict.fromkeys(("nll_loss", "nll_loss_nd"), _nll_loss),
    "layer_norm": _over_rows(torch.layer_norm),
    "rms_norm": _over_rows(torch.rms_norm),
    "matmul": _matmul,
    "addmm": _added(torch.mm),
    "baddbmm": _added(torch.bmm),
    "tril": _triangle(torch.tril),
    "triu": _triangle(torch.triu),
    "index_select": _index_select,
    "index.Tensor": _index,
    "index_copy": _index_copy,
    "unfold": _unfold,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "roll": _rolled,
    "pixel_shuffle": _depth_to_space,
    "pixel_unshuffle": _space_to_depth,
    "channel_shuffle": _shuffled,
    "full_like": _full_like,
    **samples.NARROW,
    **fused_modules.FORMULAS,
}

#: Ops that view their operand in PyTorch, and whose formulas copy it.
_COPIED_VIEWS = frozenset(["unfold"])

#: The element types of operands and results of formulas.
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def is_composed(node: Node) -> bool:
    """Whether PyTorch composes the op of a node of others, or it has a formula, for at least some operands."""
    return _formula_of(node) is not None


def with_formulas(
    module: GraphModule,
    dependent: Set[Node],
    written: Set[Node] = frozenset(),
    traced: dict[Any, GraphModule | None] | None = None,
) -> None:
    """Replaces those of the nodes `dependent` of a graph that have a formula.

    written: nodes whose memory is written; the formula of a view of it would copy, and the result of other formulas gets
    the memory of the node. traced: the formulas of earlier calls.
    """
    traced, dependent = {} if traced is None else traced, set(dependent)
    for node in [n for n in module.graph.nodes if n in dependent and n.op == "call_function"]:
        formula = _formula_of(node)
        if formula is None or not _has_types(node) or (name_of(node) in _COPIED_VIEWS and node in written):
            continue
        operands = node.all_input_nodes
        values = [(n.meta["val"], n in dependent) for n in operands]
        forms = [(v.dtype, v.shape, v.stride(), v.device, depends) for v, depends in values]
        passed = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: f"%{operands.index(n)}")
        key = node.target, str(passed), str(forms)
        if key not in traced:
            traced[key] = None
            traced[key] = _traced(node, formula, dependent, traced)
        # PyTorch says of some ops that they are views, which they are not.
        is_own = node in written and not storages(node.meta["val"]) & storages([v for v, _ in values])
        if (inner := traced[key]) is not None and (not is_own or _is_new(inner)):
            for made in _inline(module, node, inner, is_own):
                if any(operand in dependent for operand in made.all_input_nodes):
                    dependent.add(made)


def _has_types(node: Node) -> bool:
    values = node.meta["val"] if isinstance(node.meta["val"], (tuple, list)) else (node.meta["val"],)
    tensors = [*values, *(n.meta.get("val") for n in node.all_input_nodes)]
    return all(
        isinstance(t, Tensor) and (t.dtype in _FLOATS or not (t.is_floating_point() or t.is_complex())) for t in tensors
    )


def _formula_of(node: Node) -> Formula | None:
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or target._schema.is_mutable:
        return None
    name = name_of(node)
    for table in (_WIDE, _NARROW):
        formula = table.get(f"{name}.{target._overloadname}") or table.get(name)
        if formula is not None:
            return formula if table is _NARROW else _widened(formula)
    if is_known(node) and not (name == "einsum" and not composites.is_einsum(*node.args[:2])):  # type: ignore[arg-type]
        return None
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")
    return target.decompose if composite else None  # type: ignore[no-any-return]


def _widened(formula: Formula) -> Formula:
    """A formula of operands that are cast to float32."""

    def made(*arguments: Any) -> Any:
        small = lambda x: isinstance(x, Tensor) and x.is_floating_point() and x.dtype is not torch.float32
        return formula(*(x.float() if small(x) else x for x in arguments))

    return made


def _traced(
    node: Node, formula: Formula, dependent: Set[Node], traced: dict[Any, GraphModule | None]
) -> GraphModule | None:
    """The graph of the formula of a node; None if the node stays as it is, or not all of the graph is imported."""
    operands, arguments = node.all_input_nodes, given(node)
    is_own = formula != node.target.decompose  # type: ignore[union-attr]
    order = [arguments[a.name] for a in node.target._schema.arguments]  # type: ignore[union-attr]
    passed = (order, {}) if is_own else (node.args, node.kwargs)
    wanted, several = node.meta["val"], isinstance(node.meta["val"], (tuple, list))

    def run(*tensors: Tensor) -> Any:
        own = dict(zip(operands, tensors))
        args, kwargs = torch.fx.node.map_arg(passed, own.__getitem__)
        made = formula(*args, **kwargs)
        if made is AS_IS:
            return AS_IS
        results = [r if r.dtype is w.dtype else r.to(w.dtype) for r, w in zip(made, wanted)] if several else made
        return results if several or made.dtype is wanted.dtype else made.to(wanted.dtype)

    fakes = [n.meta["val"] for n in operands]
    # Nothing is saved for a backward, so that hooks of a checkpoint around the call count no tensors.
    with fakes[0].fake_mode, torch.no_grad(), torch._C._DisableAutocast():
        made = make_fx(run, pre_dispatch=is_own)(*fakes)
    (output,) = made.graph.find_nodes(op="output")
    if output.args[0] is AS_IS or any(n.op == "get_attr" for n in made.graph.nodes):
        return None
    places = [n for n in made.graph.nodes if n.op == "placeholder"]
    roots = {place for place, operand in zip(places, operands) if operand in dependent}
    for rewrite in (functools.partial(with_formulas, traced=traced), as_lookups):
        rewrite(made, dependents(made.graph, roots))
    inside = dependents(made.graph, roots)
    return made if all(n.op != "call_function" or is_known(n) for n in inside) else None


def _value_of(node: Node, fake_mode: Any) -> Any:
    """The value of a node, in the memory of its own operands, which are not those that its formula was traced for."""
    target: Any = node.target
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with fake_mode, torch.no_grad(), torch._C._DisableAutocast():
        return target(*args, **kwargs)


def _is_new(formula: GraphModule) -> bool:
    """Whether a formula has one result, in memory of its own."""
    (output,) = formula.graph.find_nodes(op="output")
    made: Any = output.args[0]
    given = [storages(n.meta["val"]) for n in formula.graph.find_nodes(op="placeholder")]
    return isinstance(made, Node) and storages(made.meta["val"]).isdisjoint(set().union(*given))


def _inline(module: GraphModule, node: Node, formula: GraphModule, in_memory: bool = False) -> list[Node]:
    """Replaces a node with a formula. Returns the nodes of the formula, in order.

    in_memory: whether the result has the memory of the node in `Effects`, because views of it are written to.
    """
    graph, operands = module.graph, iter(node.all_input_nodes)
    fake_mode = node.all_input_nodes[0].meta["val"].fake_mode
    copies: dict[Node, Node] = {}
    with graph.inserting_before(node):
        for inner in formula.graph.nodes:
            if inner.op == "placeholder":
                copies[inner] = next(operands)
            elif inner.op == "output":
                made: Any = torch.fx.node.map_arg(inner.args[0], copies.__getitem__)
            else:
                copies[inner] = graph.node_copy(inner, copies.__getitem__)
                copies[inner].meta = {**node.meta, **inner.meta, "val": _value_of(copies[inner], fake_mode)}
    if isinstance(made, Node):
        if in_memory:
            made.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(made)
    else:
        for user in list(node.users):
            user.replace_all_uses_with(made[user.args[1]])
            graph.erase_node(user)
    graph.erase_node(node)
    return [made for inner, made in copies.items() if inner.op != "placeholder"]
