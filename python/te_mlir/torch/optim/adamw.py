"""AdamW, as torch.optim.AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from te_mlir import build
from te_mlir.errors import ArgumentError
from te_mlir.torch.optim.base import Operands, Optimizer, Update, floats, grad_scale


class AdamW(Optimizer):
    """Adam with decoupled weight decay, as torch.optim.AdamW, in one compiled program for all parameters.

    params: tensors or groups of float32, bfloat16 or float16, row-major and on one device. A group may have its own
    lr, betas, eps and weight_decay. max_norm: gradients are clipped as by `torch.nn.utils.clip_grad_norm_` over all
    groups, in float32; `grad` of the parameters does not change, and `grad_norm` is the norm of the last step, a
    tensor on the device. moments_dtype: torch.float32, or torch.bfloat16, which is rounded stochastically and takes
    half the memory. seed: of that rounding.

    A change of lr is not compiled again. Other options may change too; then, as when other parameters have gradients,
    the next step compiles another program. States and checkpoints have the names of torch.optim.AdamW. Gradients of
    all processes must be the same: parameters that are sharded (DTensor) are an error, because the norm would be that
    of a part.

    Raises ArgumentError (a ValueError) for options and parameters that cannot be updated.
    """

    _fixed = {"amsgrad": False, "maximize": False}
    _not_negative = ("lr", "eps", "weight_decay")
    _counts_steps = True
    _own = (*Optimizer._own, "moments_dtype", "seed")

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        max_norm: float | None = None,
        moments_dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> None:
        if moments_dtype not in (torch.float32, torch.bfloat16):
            raise ArgumentError(f"expected 'moments_dtype' to be float32 or bfloat16, but got {moments_dtype}")
        self.moments_dtype, self.seed = moments_dtype, seed
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}, max_norm)

    def _state_dtype(self) -> torch.dtype:
        return self.moments_dtype

    def _check_group(self, group: Mapping[str, Any]) -> None:
        for beta in group["betas"]:
            if not 0 <= beta < 1:
                raise ArgumentError(f"expected 'betas' to be in [0, 1), but got {beta}")
        super()._check_group(group)

    def _states(self, group: Mapping[str, Any]) -> Sequence[str]:
        return "exp_avg", "exp_avg_sq"

    def _options(self, group: Mapping[str, Any]) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        return float(beta1), float(beta2), float(group["eps"]), float(group["weight_decay"]), self.seed

    def _update(self, f: build.Function, update: Update, operands: Operands) -> Sequence[build.Value]:
        param, grad, (m, v), lr, step, factor = operands
        assert step is not None
        beta1, beta2, epsilon, weight_decay, seed = update.options
        attributes = floats(beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=weight_decay)
        # Each parameter has random bits of its own.
        attributes["seed"] = f"{(seed + update.number) % 2**31} : i32"
        types = [param.type, grad.type, *([m.type] if m.dtype != "float32" else [])]
        return f.append(
            "te.adamw",
            [param, grad, m, v, lr, step, *([factor] if factor else [])],
            [(update.shape, value.dtype) for value in (param, m, v)],
            ", ".join(types),
            f"{param.name}, {grad.name}, {m.name}, {v.name} lr {lr.name} step {step.name}{grad_scale(factor)}",
            attributes,
        )
