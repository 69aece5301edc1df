"""Stochastic gradient descent, as torch.optim.SGD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from te_mlir import build
from te_mlir.errors import ArgumentError
from te_mlir.torch.optim.base import Operands, Optimizer, floats, grad_scale
from te_mlir.torch.optim.plan import Update


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, as torch.optim.SGD, in one compiled program for all parameters.

    params, max_norm, capturable and main_grad are those of `AdamW`. A group may have its own lr, momentum, weight_decay (added to
    the gradient) and nesterov. momentum is below 1, and dampening can only be 0. Momentum buffers are float32 for
    parameters of any type. What is compiled again, checkpoints and errors are as for `AdamW`.
    """

    _fixed = {"dampening": 0, "maximize": False}

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        max_norm: float | None = None,
        *,
        capturable: bool = False,
        main_grad: bool = False,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "nesterov": nesterov}, max_norm, capturable, main_grad)

    def _check_group(self, group: Mapping[str, Any]) -> None:
        if not 0 <= group["momentum"] < 1:
            raise ArgumentError(f"expected 'momentum' to be in [0, 1), but got {group['momentum']}")
        if group["nesterov"] and not group["momentum"]:
            raise ArgumentError("expected 'momentum' to be above 0 with 'nesterov', but got 0")
        super()._check_group(group)

    def _states(self, group: Mapping[str, Any]) -> Sequence[str]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _options(self, group: Mapping[str, Any]) -> tuple[float, float, bool]:
        return float(group["momentum"]), float(group["weight_decay"]), bool(group["nesterov"])

    def _update(self, f: build.Function, update: Update, operands: Operands) -> Sequence[build.Value]:
        momentum, weight_decay, nesterov = update.options
        return descend(f, operands, weight_decay, momentum, nesterov)


def descend(
    f: build.Function, operands: Operands, weight_decay: float, momentum: float = 0.0, nesterov: bool = False
) -> Sequence[build.Value]:
    """Adds te.sgd: the new parameter, and the new momentum buffer if `operands` has a state."""
    param, grad, states, lr, _, factor = operands
    buffer = f" buffer {states[0].name}" if states else ""
    attributes = floats(momentum=momentum, weight_decay=weight_decay)
    return f.append(
        "te.sgd",
        [param, grad, *states, lr, *([factor] if factor else [])],
        [(value.shape, value.dtype) for value in (param, *states)],
        f"{param.type}, {grad.type}",
        f"{param.name}, {grad.name}{buffer} lr {lr.name}{grad_scale(factor)}",
        attributes | ({"nesterov": ""} if nesterov else {}),
    )
