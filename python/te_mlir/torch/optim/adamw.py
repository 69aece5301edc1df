"""AdamW, as torch.optim.AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from te_mlir import build
from te_mlir.errors import ArgumentError
from te_mlir.torch.optim.base import Operands, Optimizer, floats, grad_scale
from te_mlir.torch.optim.plan import Update
from te_mlir.torch.optim.shards import as_dtensor
from te_mlir.torch.tensors import dtype_name

#: Elements of 8-bit moments that share a scale.
_BLOCK = 128
#: The types of 8-bit moments, with the largest power of two that their scales let one become.
_FLOAT8 = {"exp_avg": (torch.float8_e4m3fn, 7), "exp_avg_sq": (torch.float8_e5m2, 14)}


class AdamW(Optimizer):
    """Adam with decoupled weight decay, as torch.optim.AdamW, in one compiled program for all parameters.

    params: tensors or groups of float32, bfloat16 or float16, row-major and on one device. A group may have its own
    lr, betas, eps and weight_decay. max_norm: gradients are clipped as by `torch.nn.utils.clip_grad_norm_` over all
    groups, in float32; `grad` of the parameters does not change, and `grad_norm` is the norm of the last step, a
    tensor on the device. moments_dtype: torch.float32, or, rounded stochastically, torch.bfloat16, which takes half the
    memory, or torch.float8_e4m3fn, which takes a quarter: second moments are float8_e5m2 then, and each 128 elements have
    a scale (the state "moment_scales"). The attribute of that name may change between steps: the next step rounds the
    moments to nearest in the new type. seed: of the rounding in steps.

    A change of lr is not compiled again. Other options may change too; then, as when other parameters have gradients,
    the next step compiles another program. States and checkpoints have the names of torch.optim.AdamW.

    Of parameters that are sharded (DTensor, as by fully_shard), each process updates its part, and the norm is that of
    all parts; their moments are DTensors, too. Gradients of other parameters must be the same in all processes.

    capturable: steps can be captured in a CUDA graph of PyTorch. The number of a step is on the device then, and so
    has to be a tensor as `lr` that shall change between replays. Take one step before the capture, which compiles it.

    main_grad: the gradient of a parameter is its `main_grad`, as models that are compiled with `main_grad=True` have it,
    in float32, and the sum of both if it has a `grad`, too. `zero_grad` keeps it: a first micro-batch overwrites it.

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
        *,
        capturable: bool = False,
        main_grad: bool = False,
    ) -> None:
        self.moments_dtype, self.seed = moments_dtype, seed
        self._check_moments_dtype()
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, max_norm, capturable, main_grad)

    def _check_moments_dtype(self) -> None:
        if self.moments_dtype not in (torch.float32, torch.bfloat16, torch.float8_e4m3fn):
            raise ArgumentError(
                "expected 'moments_dtype' to be float32, bfloat16 or float8_e4m3fn, but got "
                f"{dtype_name(self.moments_dtype)}"
            )

    def _check_group(self, group: Mapping[str, Any]) -> None:
        _refuse_own_type(group)
        for beta in group["betas"]:
            if not 0 <= beta < 1:
                raise ArgumentError(f"expected 'betas' to be in [0, 1), but got {beta}")
        super()._check_group(group)

    def _check_parameter(self, tensor: torch.Tensor, device: torch.device | None) -> None:
        super()._check_parameter(tensor, device)
        if self._is_float8 and as_dtensor(tensor) is not None:
            # A checkpoint could not say which part of the tensor a scale belongs to.
            raise ArgumentError("expected moments of float32 or bfloat16 for a DTensor, but got float8_e4m3fn")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As that of the base class; moments of any type become those of `moments_dtype`."""
        super().load_state_dict(state_dict)
        for state in self.state.values() if not self._is_float8 else ():
            state.pop("moment_scales", None)

    def _start_states(self, tensor: torch.Tensor, group: Mapping[str, Any], names: Sequence[str]) -> None:
        # `moments_dtype` may have changed.
        self._check_moments_dtype()
        self._check_parameter(tensor, tensor.device)
        state = self.state.get(tensor, {})
        if "exp_avg" in state and state["exp_avg"].dtype != self._type_of("exp_avg"):
            self._check_not_captured(tensor, f"with moments of {dtype_name(state['exp_avg'].dtype)}")
            moments = {name: self._loaded_state(tensor, name, state) for name in names}
            state.pop("moment_scales", None)
            state.update(moments)
        super()._start_states(tensor, group, names)

    def _states(self, group: Mapping[str, Any]) -> Sequence[str]:
        return ("exp_avg", "exp_avg_sq", "moment_scales") if self._is_float8 else ("exp_avg", "exp_avg_sq")

    @property
    def _is_float8(self) -> bool:
        return self.moments_dtype == torch.float8_e4m3fn

    def _type_of(self, name: str) -> torch.dtype:
        return _FLOAT8[name][0] if self._is_float8 else self.moments_dtype

    def _new_state(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        if name == "moment_scales":
            return torch.zeros(2, -(-tensor.numel() // _BLOCK), dtype=torch.float32, device=tensor.device)
        return torch.zeros_like(tensor, dtype=self._type_of(name), memory_format=torch.contiguous_format)

    def _loaded_state(self, tensor: torch.Tensor, name: str, saved: Mapping[str, Any]) -> torch.Tensor | None:
        if not saved:
            return None
        if self._is_float8 and "moment_scales" not in saved:
            saved = _to_float8(saved)
        elif not self._is_float8 and "moment_scales" in saved:
            saved = _from_float8(saved)
        dtype = torch.float32 if name == "moment_scales" else self._type_of(name)
        return saved[name].to(tensor.device, dtype, copy=True).contiguous()

    def _options(self, group: Mapping[str, Any]) -> tuple[Any, ...]:
        _refuse_own_type(group)
        beta1, beta2 = group["betas"]
        numbers = float(beta1), float(beta2), float(group["eps"]), float(group["weight_decay"])
        return *numbers, self.seed, self.moments_dtype

    def _update(self, f: build.Function, update: Update, operands: Operands) -> Sequence[build.Value]:
        param, grad, (m, v, *scales), lr, step, factor = operands
        assert step is not None
        beta1, beta2, epsilon, weight_decay, seed, _ = update.options
        attributes = floats(beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=weight_decay)
        # Each parameter has random bits of its own.
        attributes["seed"] = f"{(seed + update.number) % 2**31} : i32"
        types = [param.type, grad.type, *([m.type] if m.dtype != "float32" else [])]
        return f.append(
            "te.adamw",
            [param, grad, m, v, *scales, lr, step, *([factor] if factor else [])],
            [(value.shape, value.dtype) for value in (param, m, v, *scales)],
            ", ".join(types),
            f"{param.name}, {grad.name}, {m.name}, {v.name}{''.join(f' scales {value.name}' for value in scales)} "
            f"lr {lr.name} step {step.name}{grad_scale(factor)}",
            attributes,
        )


def _refuse_own_type(group: Mapping[str, Any]) -> None:
    if "moments_dtype" in group:
        raise ArgumentError(
            "expected 'moments_dtype' to be an argument of AdamW, for all groups, but got a group with its own; give "
            "these parameters to another AdamW"
        )


def _blocks(value: torch.Tensor) -> torch.Tensor:
    """The elements in rows of a block each, with zeros behind them."""
    flat = value.float().flatten()
    return torch.nn.functional.pad(flat, (0, -flat.numel() % _BLOCK)).view(-1, _BLOCK)


def _to_float8(saved: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Saved moments, rounded to nearest in 8 bits, with their scales; second ones above zero stay so."""
    states, scales = {}, []
    for name, (dtype, top) in _FLOAT8.items():
        values = _blocks(saved[name])
        # frexp has exponents of fractions below 1.
        exponents = torch.frexp(values.abs().amax(dim=1)).exponent - 1 - top
        scale = torch.ldexp(torch.ones_like(values[:, 0]), exponents.clamp_min(-126))
        scaled = values / scale[:, None]
        if name == "exp_avg_sq":
            scaled = torch.where(values > 0, scaled.clamp_min(torch.finfo(dtype).smallest_normal / 4), scaled)
        states[name] = scaled.to(dtype).flatten()[: saved[name].numel()].view(saved[name].shape)
        scales.append(scale)
    return {**states, "moment_scales": torch.stack(scales)}


def _from_float8(saved: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Saved moments in float32."""
    states = {}
    for name, scale in zip(_FLOAT8, saved["moment_scales"]):
        values = _blocks(saved[name]) * scale.float()[:, None]
        states[name] = values.flatten()[: saved[name].numel()].view(saved[name].shape)
    return states
