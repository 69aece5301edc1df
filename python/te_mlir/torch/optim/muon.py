"""Muon, as torch.optim.Muon: momentum, whose singular values are then set to about 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from te_mlir import build
from te_mlir.errors import ArgumentError
from te_mlir.torch.optim.base import Operands, Optimizer
from te_mlir.torch.optim.plan import Update
from te_mlir.torch.optim.sgd import descend
from te_mlir.torch.optim.shards import as_dtensor

#: The factor of lr for a parameter of [rows, columns], by the names of torch.optim.Muon.
_LR_FACTORS = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


class _Options(NamedTuple):
    """Constants of the updates of a group."""

    momentum: float
    nesterov: bool
    weight_decay: float
    coefficients: tuple[float, ...]
    steps: int
    eps: float
    adjust_lr_fn: str


class Muon(Optimizer):
    """Muon (momentum, orthogonalized by a Newton-Schulz iteration), as torch.optim.Muon, in one compiled program.

    params: matrices in memory of their own (a DTensor is an error); embeddings, vectors and heads are better updated by
    `AdamW`. max_norm, capturable, main_grad, what is compiled again, checkpoints and other errors are as for `AdamW`. A group may
    have its own value of each option.

    The operands of matrix products are bfloat16, as in PyTorch. All else is float32: the momentum, the norm that it is
    divided by, sums of products, and the polynomials.
    """

    _not_negative = ("lr", "weight_decay", "eps")

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        max_norm: float | None = None,
        *,
        capturable: bool = False,
        main_grad: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults, max_norm, capturable, main_grad)

    def _check_group(self, group: Mapping[str, Any]) -> None:
        # As in PyTorch, more steps are taken for a mistake.
        if not 0 <= group["ns_steps"] < 100:
            raise ArgumentError(f"expected 'ns_steps' to be in [0, 100), but got {group['ns_steps']}")
        if not 0 <= group["momentum"] <= 1:
            raise ArgumentError(f"expected 'momentum' to be in [0, 1], but got {group['momentum']}")
        if len(group["ns_coefficients"]) != 3:
            raise ArgumentError(f"expected 3 'ns_coefficients', but got {len(group['ns_coefficients'])}")
        if group["adjust_lr_fn"] not in (None, *_LR_FACTORS):
            names = ", ".join(f"'{name}'" for name in _LR_FACTORS)
            raise ArgumentError(
                f"expected 'adjust_lr_fn' to be None or one of {names}, but got '{group['adjust_lr_fn']}'"
            )
        super()._check_group(group)

    def _check_parameter(self, tensor: torch.Tensor, device: torch.device | None) -> None:
        super()._check_parameter(tensor, device)
        if as_dtensor(tensor) is not None:
            raise ArgumentError("expected whole matrices, but got a DTensor")
        if tensor.ndim != 2:
            raise ArgumentError(f"expected parameters with 2 dimensions, but got one of shape {list(tensor.shape)}")

    def _states(self, group: Mapping[str, Any]) -> Sequence[str]:
        return ("momentum_buffer",)

    def _options(self, group: Mapping[str, Any]) -> _Options:
        return _Options(
            float(group["momentum"]),
            bool(group["nesterov"]),
            float(group["weight_decay"]),
            tuple(float(value) for value in group["ns_coefficients"]),
            int(group["ns_steps"]),
            float(group["eps"]),
            group["adjust_lr_fn"] or "original",
        )

    def _update(self, f: build.Function, update: Update, operands: Operands) -> Sequence[build.Value]:
        options: _Options = update.options
        grad, (buffer,) = f.cast(operands.grad, "float32"), operands.states
        if operands.factor:
            grad = f.mul(grad, f.broadcast(operands.factor, grad.shape, (0, 1)))
        buffer = f.add(buffer, _scaled(f, f.sub(grad, buffer), 1 - options.momentum))
        direction = f.add(grad, _scaled(f, f.sub(buffer, grad), options.momentum)) if options.nesterov else buffer
        factor = f.constant(_LR_FACTORS[options.adjust_lr_fn](*update.shape), (), "float32")
        step = operands._replace(grad=_orthogonalized(f, direction, options), states=[], factor=factor)
        return *descend(f, step, options.weight_decay), buffer


def _orthogonalized(f: build.Function, x: build.Value, options: _Options) -> build.Value:
    """x, a matrix of float32, with singular values near 1: x is divided by its norm, and each step is aX + (bA + cA²) X,
    where A = X Xᵀ. A tall matrix has the steps of its transpose, which is not stored: aX + X (bA + cA²), where A = Xᵀ X.
    """
    a, b, c = options.coefficients
    rows, columns = x.shape
    axis = 0 if rows > columns else 1
    norm = f.maximum(f.unary("math.sqrt", f.sum_of_squares(x)), f.constant(options.eps, (), "float32"))
    x = f.div(x, f.broadcast(norm, x.shape, (0, 1)))
    for _ in range(options.steps):
        narrow = f.cast(x, "bfloat16")
        gram = f.matmul(narrow, narrow, (axis, axis))
        # A is symmetric, so that either of its axes can be summed over.
        square = f.matmul(gram, gram, dtype="float32")
        polynomial = f.add(_scaled(f, f.cast(gram, "float32"), b), _scaled(f, square, c))
        polynomial = f.cast(polynomial, "bfloat16")
        factors = (polynomial, narrow) if axis else (narrow, polynomial)
        x = f.add(_scaled(f, f.cast(narrow, "float32"), a), f.matmul(*factors, (1, 0), "float32"))
    return x


def _scaled(f: build.Function, x: build.Value, factor: float) -> build.Value:
    return f.mul(x, f.constant(factor, x.shape, x.dtype))
