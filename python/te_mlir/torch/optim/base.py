"""What the optimizers share: groups, states, checkpoints, clipping, and one compiled program for all parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from te_mlir import build, devices, dtypes
from te_mlir.errors import ArgumentError
from te_mlir.runtime import context as context_of
from te_mlir.step import Step, compile
from te_mlir.torch.tensors import dtype_name

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


class Update(NamedTuple):
    """The update of one parameter, as far as the program depends on it.

    states: the shapes and types of its states. row: the row of the table with its learning rate and its step. number: its place
    among all parameters. options: those of its group, as the optimizer's `_options` returns them.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    grad_dtype: torch.dtype
    states: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    row: int
    number: int
    options: Any


class Operands(NamedTuple):
    """The values that the update of one parameter reads. step: if steps are counted. factor: of the gradient, or None."""

    param: build.Value
    grad: build.Value
    states: list[build.Value]
    lr: build.Value
    step: build.Value | None
    factor: build.Value | None


class Optimizer(torch.optim.Optimizer):
    """An optimizer whose step is one compiled program; subclasses say which states, options and ops it has."""

    #: Options of the class of torch.optim that are not implemented, with the one value that is.
    _fixed: ClassVar[Mapping[str, Any]] = {}
    #: Options that have to be zero or more.
    _not_negative: ClassVar[Sequence[str]] = ("lr", "weight_decay")
    #: Whether the state of a parameter has the number of its steps, which its update then reads.
    _counts_steps: ClassVar[bool] = False
    #: Attributes that a copy has, too.
    _own: ClassVar[Sequence[str]] = ("max_norm", "grad_norm")

    def __init__(self, params: Any, defaults: dict[str, Any], max_norm: float | None) -> None:
        if max_norm is not None and not max_norm > 0:
            raise ArgumentError(f"expected 'max_norm' to be above 0, but got {max_norm}")
        self.max_norm = max_norm
        #: The norm of the gradients of the last step before they were clipped, if there is `max_norm`.
        self.grad_norm: torch.Tensor | None = None
        self._programs: dict[Any, Step] = {}
        super().__init__(params, defaults)

    def _states(self, group: Mapping[str, Any]) -> Sequence[str]:
        """The names of the states that the update of a parameter of `group` reads and writes."""
        raise NotImplementedError

    def _new_state(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """The state of a parameter before its first step."""
        return torch.zeros_like(tensor, dtype=torch.float32, memory_format=torch.contiguous_format)

    def _loaded_state(self, tensor: torch.Tensor, name: str, saved: Mapping[str, Any]) -> torch.Tensor | None:
        """The state of a parameter from its saved states, in memory of its own; None if they do not have it."""
        value = saved.get(name)
        return None if value is None else value.to(tensor.device, torch.float32, copy=True).contiguous()

    def _options(self, group: Mapping[str, Any]) -> Any:
        """The options of `group` that are constants of its program; they can be compared and hashed."""
        raise NotImplementedError

    def _update(self, f: build.Function, update: Update, operands: Operands) -> Sequence[build.Value]:
        """Adds the ops of an update; the new parameter and its new states."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **{name: getattr(self, name) for name in self._own}}

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
        for name in self._not_negative:
            if not isinstance(group[name], torch.Tensor) and not group[name] >= 0:
                raise ArgumentError(f"expected '{name}' to be zero or more, but got {group[name]}")
        self._check_fixed(group)
        device = next((tensor.device for tensor in self._tensors()), None)
        for tensor in group["params"]:
            self._check_parameter(tensor, device)

    def _check_fixed(self, group: Mapping[str, Any]) -> None:
        for name, value in self._fixed.items():
            if group.get(name, value) != value:
                raise ArgumentError(
                    f"expected '{name}' to be {value}, which is all that is implemented, but got {group[name]}"
                )

    def _check_parameter(self, tensor: torch.Tensor, device: torch.device | None) -> None:
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
        """Loads a state of this class or of that of torch.optim; states are rounded to nearest in the type they have here."""
        for group in state_dict["param_groups"]:
            self._check_fixed(group)
        super().load_state_dict(state_dict)
        # PyTorch gives the states the type of their parameter.
        saved = (key for group in state_dict["param_groups"] for key in group["params"])
        keys = dict(zip(self._tensors(), saved))
        for group in self.param_groups:
            for tensor in group["params"]:
                state = state_dict["state"].get(keys[tensor], {})
                if self._counts_steps and state:
                    # The host must know the step without waiting for a device.
                    self.state[tensor]["step"] = torch.tensor(float(state["step"]))
                for name in self._states(group):
                    value = self._loaded_state(tensor, name, state)
                    if value is not None:
                        self.state[tensor][name] = value

    def _tensors(self) -> Iterable[torch.Tensor]:
        return (tensor for group in self.param_groups for tensor in group["params"])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates all parameters that have a gradient. Returns the loss of `closure`, which computes the gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        updates: list[Update] = []
        tensors: list[torch.Tensor] = []
        changed: list[torch.Tensor] = []
        counts: list[torch.Tensor] = []
        rows: dict[tuple[int, float], int] = {}
        position = 0
        for number, group in enumerate(self.param_groups):
            options, names = self._options(group), self._states(group)
            for tensor in group["params"]:
                position += 1
                grad = tensor.grad
                if grad is None or not tensor.numel():
                    continue
                if grad.is_sparse or is_traceable_wrapper_subclass(grad) or grad.dtype not in _TYPES:
                    raise ArgumentError(
                        f"expected dense gradients of float32, bfloat16 or float16, but got a {type(grad).__name__} "
                        f"of {dtype_name(grad.dtype)} with layout {grad.layout}"
                    )
                states = self._states_of(tensor, names)
                count = 0.0
                if self._counts_steps:
                    counts.append(self.state[tensor]["step"])
                    count = float(counts[-1]) + 1
                row = rows.setdefault((number, count), len(rows))
                kinds = tuple((tuple(state.shape), state.dtype) for state in states)
                updates.append(Update(tuple(tensor.shape), tensor.dtype, grad.dtype, kinds, row, position, options))
                tensors += (tensor, grad.contiguous(), *states)
                changed.append(tensor)
        if updates:
            self._run(tuple(updates), tensors, list(rows))
            if counts:
                torch._foreach_add_(counts, 1)
            # Autograd must notice that a tensor which it saved has changed.
            torch.autograd.graph.increment_version(changed)
        return loss

    def _states_of(self, tensor: torch.Tensor, names: Sequence[str]) -> list[torch.Tensor]:
        """The states of a parameter, which start as zeros."""
        state = self.state[tensor] if names or self._counts_steps else {}
        if self._counts_steps and "step" not in state:
            state["step"] = torch.zeros((), dtype=torch.float32)
        for name in names:
            if state.get(name) is None:
                state[name] = self._new_state(tensor, name)
        return [state[name] for name in names]

    def _run(self, updates: tuple[Update, ...], tensors: list[torch.Tensor], rows: list[tuple[int, float]]) -> None:
        device = tensors[0].device
        key = updates, self.max_norm, device
        step = self._programs.get(key)
        if step is None:
            context = context_of(devices.torch_place(device))
            step = self._programs[key] = compile(self._program(updates), "update", context=context)
        # The learning rate of each row, and the step, 16 bytes apart, because te reads aligned memory. The copy of so few
        # bytes does not wait for the device.
        rates = [self.param_groups[number]["lr"] for number, _ in rows]
        places = (0, 4) if self._counts_steps else (0,)
        values = [
            [0.0 if isinstance(rate, torch.Tensor) else float(rate), 0, 0, 0, count, 0, 0, 0]
            for rate, (_, count) in zip(rates, rows)
        ]
        table = torch.tensor(values, dtype=torch.float32).to(device, non_blocking=True)
        for row, rate in zip(table, rates):
            if isinstance(rate, torch.Tensor):
                row[0].copy_(rate, non_blocking=True)
        scalars = [row[place] for row in table for place in places]
        self.grad_norm = step(**dict(zip(step.interface.index, (*tensors, *scalars)))).get("norm")

    def _program(self, updates: tuple[Update, ...]) -> build.Module:
        """One program for all updates; its arguments are param, grad and states of each, and lr and step of each row."""
        module = build.Module()
        with module.function("update") as f:
            taken = []
            for i, update in enumerate(updates):
                kinds = [("p", update.shape, update.dtype), ("g", update.shape, update.grad_dtype)]
                kinds += [(f"s{n}_", *state) for n, state in enumerate(update.states)]
                taken.append([f.argument(f"{name}{i}", shape, dtype_name(dtype)) for name, shape, dtype in kinds])
            scalars = ("lr", "step") if self._counts_steps else ("lr",)
            rows = 1 + max(update.row for update in updates)
            table = [[f.argument(f"{name}{row}", (), "float32") for name in scalars] for row in range(rows)]
            factor = None
            if self.max_norm is not None:
                factor = _clip_factor(f, [grad for _, grad, *_ in taken], self.max_norm)
            for i, (update, (param, grad, *states)) in enumerate(zip(updates, taken)):
                lr, *step = table[update.row]
                operands = Operands(param, grad, states, lr, step[0] if step else None, factor)
                new_param, *new_states = self._update(f, update, operands)
                f.result(f"p{i}", new_param)
                for n, state in enumerate(new_states):
                    f.result(f"s{n}_{i}", state)
        return module


def grad_scale(factor: build.Value | None) -> str:
    """The operand `grad_scale` of te.adamw and te.sgd, as MLIR writes it."""
    return f" grad_scale {factor.name}" if factor else ""


def floats(**values: float) -> dict[str, str]:
    """Attributes of f32, as MLIR writes them."""
    return {name: f"{dtypes.float_text(value)} : f32" for name, value in values.items()}


def _clip_factor(f: build.Function, grads: list[build.Value], max_norm: float) -> build.Value:
    """Returns the norm of the gradients as `norm`; the value is the factor that clips them."""
    total: build.Value | None = None
    for grad in grads:
        total = f.sum_of_squares(grad, total)
    assert total is not None
    attributes = {"max_norm": f"{dtypes.constant_text(max_norm, 'float32')} : f32"}
    norm, factor = f.append("te.clip_factor", [total], [((), "float32")] * 2, "", attributes=attributes)
    f.result("norm", norm)
    return factor
