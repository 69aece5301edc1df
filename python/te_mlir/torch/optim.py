"""AdamW as one program for all parameters: `te_mlir.torch.optim.AdamW` has the interface of torch.optim.

A step compiles to one launch for each parameter and, with `max_norm`, to the launches that sum the squares of all
gradients. Clipping does not wait for the host, and needs no pass that rewrites the gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from te_mlir import arrays, build, dtypes
from te_mlir.errors import ArgumentError
from te_mlir.runtime import context as context_of
from te_mlir.step import Step, compile
from te_mlir.torch.tensors import dtype_name

__all__ = ["AdamW"]

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
#: Options of torch.optim.AdamW that may come with its checkpoints, and are not implemented.
_UNKNOWN = ("amsgrad", "maximize")


class _Update(NamedTuple):
    """The update of one parameter, as far as the program depends on it.

    row: the row of the table with its learning rate and its step. seed: of the rounding of its moments.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    grad_dtype: torch.dtype
    row: int
    seed: int
    options: tuple[float, float, float, float]  # beta1, beta2, eps, weight_decay


class AdamW(torch.optim.Optimizer):
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
        if max_norm is not None and not max_norm > 0:
            raise ArgumentError(f"expected 'max_norm' to be above 0, but got {max_norm}")
        if moments_dtype not in (torch.float32, torch.bfloat16):
            raise ArgumentError(f"expected 'moments_dtype' to be float32 or bfloat16, but got {moments_dtype}")
        self.max_norm, self.moments_dtype, self.seed = max_norm, moments_dtype, seed
        #: The norm of the gradients of the last step before they were clipped, if there is `max_norm`.
        self.grad_norm: torch.Tensor | None = None
        self._programs: dict[Any, Step] = {}
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def __getstate__(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("max_norm", "moments_dtype", "seed", "grad_norm")}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_programs", {})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group, whose options are by default those of the constructor; raises ArgumentError."""
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except ArgumentError:
            self.param_groups.pop()
            raise

    def _check_group(self, group: Mapping[str, Any]) -> None:
        for beta in group["betas"]:
            if not 0 <= beta < 1:
                raise ArgumentError(f"expected 'betas' to be in [0, 1), but got {beta}")
        for name in ("lr", "eps", "weight_decay"):
            if not isinstance(group[name], torch.Tensor) and not group[name] >= 0:
                raise ArgumentError(f"expected '{name}' to be zero or more, but got {group[name]}")
        for name in _UNKNOWN:
            if group.get(name):
                raise ArgumentError(f"expected '{name}' to be False, which is all that is implemented, but got True")
        device = next((tensor.device for tensor in self._tensors()), None)
        for tensor in group["params"]:
            if is_traceable_wrapper_subclass(tensor):
                raise ArgumentError(f"expected parameters in memory of their own, but got a {type(tensor).__name__}")
            if tensor.dtype not in _TYPES:
                raise ArgumentError(
                    f"expected parameters of float32, bfloat16 or float16, but got {dtype_name(tensor.dtype)}"
                )
            if tensor.device != device:
                raise ArgumentError(f"expected all parameters on '{device}', but got one on '{tensor.device}'")
            if not tensor.is_contiguous():
                raise ArgumentError(
                    "expected row-major parameters without gaps, but got one of shape "
                    f"{list(tensor.shape)} with strides {list(tensor.stride())}"
                )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state of this class or of torch.optim.AdamW; moments are rounded to nearest in `moments_dtype`."""
        for group in state_dict["param_groups"]:
            for name in _UNKNOWN:
                if group.get(name):
                    raise ArgumentError(f"expected a state without '{name}', but got one with it")
        super().load_state_dict(state_dict)
        # PyTorch gives the moments the type of their parameter.
        saved = [key for group in state_dict["param_groups"] for key in group["params"]]
        for key, tensor in zip(saved, self._tensors()):
            if key in state_dict["state"]:
                # The host must know the step without waiting for a device.
                self.state[tensor]["step"] = torch.tensor(float(state_dict["state"][key]["step"]))
                for name in ("exp_avg", "exp_avg_sq"):
                    value = state_dict["state"][key][name].to(tensor.device, self.moments_dtype, copy=True)
                    self.state[tensor][name] = value.contiguous()

    def _tensors(self) -> Iterable[torch.Tensor]:
        return (tensor for group in self.param_groups for tensor in group["params"])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates all parameters that have a gradient. Returns the loss of `closure`, which computes the gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        updates: list[_Update] = []
        tensors: list[torch.Tensor] = []
        changed: list[torch.Tensor] = []
        counts: list[torch.Tensor] = []
        rows: dict[tuple[int, float], int] = {}
        index = self.seed
        for number, group in enumerate(self.param_groups):
            (beta1, beta2), eps, decay = group["betas"], group["eps"], group["weight_decay"]
            options = float(beta1), float(beta2), float(eps), float(decay)
            for tensor in group["params"]:
                index += 1
                grad = tensor.grad
                if grad is None or not tensor.numel():
                    continue
                if grad.is_sparse or is_traceable_wrapper_subclass(grad) or grad.dtype not in _TYPES:
                    raise ArgumentError(
                        f"expected dense gradients of float32, bfloat16 or float16, but got a {type(grad).__name__} "
                        f"of {dtype_name(grad.dtype)} with layout {grad.layout}"
                    )
                state = self.state[tensor] or self._new_state(tensor)
                row = rows.setdefault((number, float(state["step"]) + 1), len(rows))
                updates.append(_Update(tuple(tensor.shape), tensor.dtype, grad.dtype, row, index, options))
                tensors += (tensor, grad.contiguous(), state["exp_avg"], state["exp_avg_sq"])
                changed.append(tensor)
                counts.append(state["step"])
        if updates:
            self._run(tuple(updates), tensors, list(rows))
            torch._foreach_add_(counts, 1)
            # Autograd must notice that a tensor which it saved has changed.
            torch.autograd.graph.increment_version(changed)
        return loss

    def _new_state(self, tensor: torch.Tensor) -> dict[str, torch.Tensor]:
        state: dict[str, torch.Tensor] = self.state[tensor]
        state["step"] = torch.zeros((), dtype=torch.float32)
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = torch.zeros_like(tensor, dtype=self.moments_dtype, memory_format=torch.contiguous_format)
        return state

    def _run(self, updates: tuple[_Update, ...], tensors: list[torch.Tensor], rows: list[tuple[int, float]]) -> None:
        device = tensors[0].device
        key = updates, self.max_norm, device
        step = self._programs.get(key)
        if step is None:
            place = (arrays.CPU, 0) if device.type == "cpu" else (arrays.CUDA, device.index or 0)
            step = self._programs[key] = compile(
                _program(updates, self.max_norm, self.moments_dtype), "update", context=context_of(place)
            )
        # The learning rate and the step of each row, 16 bytes apart, because te reads aligned memory. The copy of so few
        # bytes does not wait for the device.
        rates = [self.param_groups[number]["lr"] for number, _ in rows]
        values = [
            [0.0 if isinstance(rate, torch.Tensor) else float(rate), 0, 0, 0, count, 0, 0, 0]
            for rate, (_, count) in zip(rates, rows)
        ]
        table = torch.tensor(values, dtype=torch.float32).to(device, non_blocking=True)
        for row, rate in zip(table, rates):
            if isinstance(rate, torch.Tensor):
                row[0].copy_(rate, non_blocking=True)
        scalars = [row[place] for row in table for place in (0, 4)]
        self.grad_norm = step(**dict(zip(step.interface.index, (*tensors, *scalars)))).get("norm")


def _program(updates: tuple[_Update, ...], max_norm: float | None, moments: torch.dtype) -> build.Module:
    """One program for all updates; its arguments are param, grad, m and v of each, and lr and step of each row."""
    module = build.Module()
    with module.function("update") as f:
        moment = dtype_name(moments)
        taken = []
        for i, update in enumerate(updates):
            kinds = (("p", update.dtype), ("g", update.grad_dtype), ("m", moments), ("v", moments))
            taken.append([f.argument(f"{name}{i}", update.shape, dtype_name(dtype)) for name, dtype in kinds])
        rows = 1 + max(update.row for update in updates)
        table = [[f.argument(f"{name}{row}", (), "float32") for name in ("lr", "step")] for row in range(rows)]
        factor = ""
        if max_norm is not None:
            factor = f" grad_scale {_clip_factor(f, [grad for _, grad, _, _ in taken], max_norm).name}"
        for i, (update, values) in enumerate(zip(updates, taken)):
            lr, step = table[update.row]
            names = ("beta1", "beta2", "epsilon", "weight_decay")
            attributes = {name: f"{dtypes.float_text(value)} : f32" for name, value in zip(names, update.options)}
            attributes["seed"] = f"{update.seed % 2**31} : i32"
            results = f.append(
                "te.adamw",
                [*values, lr, step],
                [(update.shape, values[0].dtype), (update.shape, moment), (update.shape, moment)],
                ", ".join([values[0].type, values[1].type, *([values[2].type] if moments != torch.float32 else [])]),
                f"{', '.join(v.name for v in values)} lr {lr.name} step {step.name}{factor}",
                attributes,
            )
            for name, value in zip("pmv", results):
                f.result(f"{name}{i}", value)
    return module


def _clip_factor(f: build.Function, grads: list[build.Value], max_norm: float) -> build.Value:
    """Returns the norm of the gradients as `norm`; the value is the factor that clips them."""
    total: build.Value | None = None
    for grad in grads:
        syntax = f"{grad.name} plus {total.name}" if total else grad.name
        (total,) = f.append(
            "te.sum_of_squares", [grad, total] if total else [grad], [((), "float32")], grad.type, syntax
        )
    assert total is not None
    attributes = {"max_norm": f"{dtypes.constant_text(max_norm, 'float32')} : f32"}
    norm, factor = f.append("te.clip_factor", [total], [((), "float32")] * 2, "", attributes=attributes)
    f.result("norm", norm)
    return factor
