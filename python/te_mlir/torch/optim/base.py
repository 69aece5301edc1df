"""What the optimizers share: groups, states, checkpoints, clipping, and one compiled program for all parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch

from te_mlir import build, devices, dtypes
from te_mlir.errors import ArgumentError
from te_mlir.runtime import context as context_of
from te_mlir.step import Step, compile
from te_mlir.torch.optim.plan import Group, Plan, Row, Update, groups_in
from te_mlir.torch.optim.shards import check_alike, check_backends, local
from te_mlir.torch.tensors import dtype_name

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
#: Bytes at a multiple of which te reads memory.
_ALIGNMENT = 16


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
    _own: ClassVar[Sequence[str]] = ("max_norm", "main_grad", "grad_norm")

    def __init__(
        self, params: Any, defaults: dict[str, Any], max_norm: float | None, capturable: bool, main_grad: bool
    ) -> None:
        if max_norm is not None and not max_norm > 0:
            raise ArgumentError(f"expected 'max_norm' to be above 0, but got {max_norm}")
        self.max_norm, self.main_grad = max_norm, main_grad
        #: The norm of the gradients of the last step before they were clipped, if there is `max_norm`.
        self.grad_norm: torch.Tensor | None = None
        self._programs: dict[Any, Step] = {}
        self._plan: Plan | None = None
        super().__init__(params, {**defaults, "capturable": capturable})

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
        # Of states that this one may have replaced.
        self._plan = None
        self.__dict__.setdefault("main_grad", False)
        for group in self.param_groups:
            # Checkpoints of classes that do not have the option.
            group.setdefault("capturable", self.defaults.get("capturable", False))

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
        if tensor.dtype not in _TYPES:
            raise ArgumentError(
                f"expected parameters of float32, bfloat16 or float16, but got {dtype_name(tensor.dtype)}"
            )
        if tensor.device != device:
            raise ArgumentError(f"expected all parameters on '{device}', but got one on '{tensor.device}'")
        with torch.no_grad():
            own = local(tensor)
        if not own.is_contiguous():
            raise ArgumentError(
                "expected row-major parameters without gaps, but got one of shape "
                f"{list(own.shape)} with strides {list(own.stride())}"
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
                    self.state[tensor]["step"] = self._new_step(tensor, group, float(state["step"]))
                for name in self._states(group):
                    value = self._loaded_state(tensor, name, state)
                    if value is not None:
                        check_alike(tensor, value, f"the state '{name}'")
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
        parameters = list(self._tensors())
        grads = [self._grad(tensor) for tensor in parameters] if self.main_grad else [t.grad for t in parameters]
        groups = [
            Group(self._options(group), tuple(self._states(group)), group["capturable"], len(group["params"]))
            for group in self.param_groups
        ]
        if self._plan is None or not self._plan.fits(parameters, grads, groups, self.state):
            self._check_and_start(groups, iter(grads))
            self._plan = Plan(parameters, grads, groups, self.state)
        # Other processes wait for the sum of this one also if it has no gradient.
        if self._plan.has_gradient or (self.max_norm is not None and any(self._plan.squares)):
            self._run(self._plan, grads)
        return loss

    @staticmethod
    def _grad(tensor: torch.Tensor) -> torch.Tensor | None:
        """The gradient of a parameter with a `main_grad`: that, and what autograd has of it in `grad`."""
        main = getattr(tensor, "main_grad", None) if tensor.requires_grad else None
        if main is None or tensor.grad is None:
            return tensor.grad if main is None else main
        return main + tensor.grad

    def _check_and_start(self, groups: Sequence[Group], grads: Iterator[torch.Tensor | None]) -> None:
        """Checks gradients, and starts states that do not exist yet; raises ArgumentError."""
        for group, kept in zip(self.param_groups, groups):
            for tensor, grad in zip(group["params"], grads):
                if grad is not None and tensor.numel():
                    _gradient(tensor, grad)
                    self._start_states(tensor, group, kept.states)

    def _run(self, plan: Plan, grads: Sequence[torch.Tensor | None]) -> None:
        device = plan.parameters[0].device
        own = []
        for place, is_sharded in zip(plan.places, plan.is_sharded):
            grad = grads[place]
            assert grad is not None
            quick = type(grad) is torch.Tensor and not is_sharded
            grad = grad.contiguous() if quick else _gradient(plan.parameters[place], grad)
            # fully_shard gives gradients that follow one another in one buffer.
            own.append(grad.clone() if grad.data_ptr() % _ALIGNMENT else grad)
        row_of, rows = plan.rows()
        program, sums = self._compiled_plan(plan, row_of, own, device)
        # Those on the device are what the program reads; the others stay if it is refused.
        if plan.counts[True]:
            torch._foreach_add_(plan.counts[True], 1)
        tensors = plan.tensors(own) + self._scalars(rows, device)
        if sums is not None:
            tensors.append(_total(sums, {over: [own[n] for n in part] for over, part in plan.squares.items()}, device))
        self.grad_norm = program(**dict(zip(program.interface.index, tensors))).get("norm")
        if plan.counts[False]:
            torch._foreach_add_(plan.counts[False], 1)
        # Autograd must notice that a tensor which it saved has changed.
        torch.autograd.graph.increment_version(plan.changed())

    def _compiled_plan(
        self, plan: Plan, row_of: tuple[int, ...], grads: Sequence[torch.Tensor], device: torch.device
    ) -> tuple[Step, Step | None]:
        """The program of the updates, and one for sums of squares over processes, if there has to be one.

        Raises ArgumentError if a CUDA graph is captured that cannot have the step.
        """
        captured = _is_captured(device)
        if captured and not all(group.capturable for group in plan.groups):
            raise ArgumentError(
                "expected 'capturable' to be True in all groups of an optimizer whose step a CUDA graph captures, "
                "but got False"
            )
        wanted = row_of, self.max_norm
        if plan.compiled is None or plan.compiled[0] != wanted:
            sums = None
            if any(plan.squares) and self.max_norm is not None:
                check_backends(plan.squares, device)
                kinds = [[(tuple(grads[n].shape), grads[n].dtype) for n in part] for part in plan.squares.values()]
                sums = self._compiled(_squares_program, tuple(map(tuple, kinds)), device, captured)
            arguments = plan.updates(row_of), self.max_norm, sums is not None
            plan.compiled = wanted, self._compiled(self._program, arguments, device, captured), sums
        return plan.compiled[1:]

    def _start_states(self, tensor: torch.Tensor, group: Mapping[str, Any], names: Sequence[str]) -> None:
        """Gives a parameter the states that it does not have yet, zeros, and its step where `capturable` wants it.

        Raises ArgumentError if a CUDA graph is captured, each replay of which would start them again.
        """
        needed = [*(("step",) if self._counts_steps else ()), *names]
        state = self.state.get(tensor, {})
        wanted = [name for name in needed if state.get(name) is None]
        if self._counts_steps and "step" not in wanted and state["step"].device != self._step_device(tensor, group):
            wanted.append("step")
        if wanted:
            self._check_not_captured(tensor, f"without {', '.join(map(repr, wanted))}")
        for name in wanted:
            is_count = self._counts_steps and name == "step"
            count = float(state.get(name, 0.0)) if is_count else 0.0
            started = self._new_step(tensor, group, count) if is_count else self._new_state(tensor, name)
            self.state[tensor][name] = started

    @staticmethod
    def _check_not_captured(tensor: torch.Tensor, found: str) -> None:
        """Raises ArgumentError if a step is captured, which would start or convert the states of a parameter as it is `found`."""
        if _is_captured(tensor.device):
            raise ArgumentError(
                "expected a step that starts the states of all parameters with a gradient, in their types, before one is "
                f"captured, but got a parameter {found}"
            )

    def _new_step(self, tensor: torch.Tensor, group: Mapping[str, Any], count: float) -> torch.Tensor:
        return torch.full((), count, dtype=torch.float32, device=self._step_device(tensor, group))

    @staticmethod
    def _step_device(tensor: torch.Tensor, group: Mapping[str, Any]) -> torch.device:
        # Without `capturable`, the host must know the step without waiting for a device.
        return tensor.device if group["capturable"] else torch.device("cpu")

    def _compiled(
        self, make: Callable[..., build.Module], arguments: tuple[Any, ...], device: torch.device, captured: bool
    ) -> Step:
        """The program `make(*arguments)`; raises ArgumentError if a CUDA graph is captured and it is not compiled."""
        key = make.__name__, arguments, device
        if key not in self._programs:
            if captured:
                raise ArgumentError(
                    "expected a step with these options and gradients before one is captured, because it compiles "
                    "the program, but there was none"
                )
            context = context_of(devices.torch_place(device))
            self._programs[key] = compile(make(*arguments), "update", context=context)
        return self._programs[key]

    def _scalars(self, rows: Sequence[Row], device: torch.device) -> list[torch.Tensor]:
        """The learning rate of each group in `rows`, and the step of each row, on the device, where te can read them."""
        groups = [self.param_groups[number] for number in groups_in(rows)]
        values = [group["lr"] for group in groups] + ([row.step for row in rows] if self._counts_steps else [])
        capturable = [group["capturable"] for group in groups]
        capturable += [self.param_groups[row.group]["capturable"] for row in rows]
        # What the host knows is one copy, which does not wait for the device because it is so small: 16 bytes apart,
        # because te reads aligned memory.
        known = [0.0 if isinstance(v, torch.Tensor) else float(v) for v, skip in zip(values, capturable) if not skip]
        table: Iterator[torch.Tensor] = iter(())
        if known:
            table = iter(torch.tensor([[v, 0, 0, 0] for v in known]).to(device, non_blocking=True))
        found: list[torch.Tensor] = []
        for value, on_device in zip(values, capturable):
            if on_device:
                found.append(_on_device(value, device))
                continue
            found.append(next(table)[0])
            if isinstance(value, torch.Tensor):
                found[-1].copy_(value.reshape(()), non_blocking=True)
        return found

    def _program(self, updates: tuple[Update, ...], max_norm: float | None, has_total: bool) -> build.Module:
        """One program for all updates; its arguments are param, grad and states of each, lr of each group, step of each
        row, and, if another program computed it, the sum of the squares of all gradients."""
        module = build.Module()
        with module.function("update") as f:
            taken = []
            for i, update in enumerate(updates):
                kinds = [("p", update.shape, update.dtype), ("g", update.shape, update.grad_dtype)]
                kinds += [(f"s{n}_", *state) for n, state in enumerate(update.states)]
                taken.append([f.argument(f"{name}{i}", shape, dtype_name(dtype)) for name, shape, dtype in kinds])
            numbers = dict.fromkeys(update.group for update in updates)
            lrs = {number: f.argument(f"lr{number}", (), "float32") for number in numbers}
            rows = dict.fromkeys(update.row for update in updates) if self._counts_steps else ()
            steps = {row: f.argument(f"step{row}", (), "float32") for row in rows}
            factor = None
            if max_norm is not None:
                if has_total:
                    total = f.argument("total", (), "float32")
                else:
                    total = (
                        f.sum_of_squares(*(grad for _, grad, *_ in taken)) if taken else f.constant(0.0, (), "float32")
                    )
                factor = _clip_factor(f, total, max_norm)
            for i, (update, (param, grad, *states)) in enumerate(zip(updates, taken)):
                operands = Operands(param, grad, states, lrs[update.group], steps.get(update.row), factor)
                new_param, *new_states = self._update(f, update, operands)
                f.result(f"p{i}", new_param)
                for n, state in enumerate(new_states):
                    f.result(f"s{n}_{i}", state)
        return module


def _is_captured(device: torch.device) -> bool:
    """Whether work on the device is not run now, but becomes a part of a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _on_device(value: float | torch.Tensor, device: torch.device) -> torch.Tensor:
    """A number in float32 on the device, where te can read it."""
    if not isinstance(value, torch.Tensor):
        return torch.full((), value, dtype=torch.float32, device=device)
    value = value.reshape(()) if value.dim() else value
    if value.dtype == torch.float32 and value.device == device and value.data_ptr() % _ALIGNMENT == 0:
        return value
    return torch.empty((), dtype=torch.float32, device=device).copy_(value, non_blocking=True)


def _gradient(tensor: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """The gradient of the part of a parameter that this process has; raises ArgumentError."""
    check_alike(tensor, given, "a gradient")
    grad = local(given)
    if grad.is_sparse or grad.dtype not in _TYPES:
        raise ArgumentError(
            f"expected dense gradients of float32, bfloat16 or float16, but got a {type(grad).__name__} "
            f"of {dtype_name(grad.dtype)} with layout {grad.layout}"
        )
    return grad.contiguous()


def grad_scale(factor: build.Value | None) -> str:
    """The operand `grad_scale` of te.adamw and te.sgd, as MLIR writes it."""
    return f" grad_scale {factor.name}" if factor else ""


def floats(**values: float) -> dict[str, str]:
    """Attributes of f32, as MLIR writes them."""
    return {name: f"{dtypes.float_text(value)} : f32" for name, value in values.items()}


def _clip_factor(f: build.Function, total: build.Value, max_norm: float) -> build.Value:
    """Returns the norm of the gradients as `norm`; the value is the factor that clips them. total: the sum of their squares."""
    attributes = {"max_norm": f"{dtypes.constant_text(max_norm, 'float32')} : f32"}
    norm, factor = f.append("te.clip_factor", [total], [((), "float32")] * 2, "", attributes=attributes)
    f.result("norm", norm)
    return factor


def _squares_program(*kinds: tuple[tuple[tuple[int, ...], torch.dtype], ...]) -> build.Module:
    """Sums of the squares of the gradients of each part that has some; kinds: their shapes and types."""
    module = build.Module()
    with module.function("update") as f:
        for i, part in enumerate(kinds):
            grads = [f.argument(f"g{i}_{n}", shape, dtype_name(dtype)) for n, (shape, dtype) in enumerate(part)]
            if grads:
                f.result(f"total{i}", f.sum_of_squares(*grads))
    return module


def _total(
    sums: Step, squares: Mapping[tuple[ProcessGroup, ...], list[torch.Tensor]], device: torch.device
) -> torch.Tensor:
    """The sum of the squares of all gradients, also of the parts of other processes."""
    import torch.distributed

    grads = [grad for part in squares.values() for grad in part]
    found = sums(**dict(zip(sums.interface.index, grads))) if grads else {}
    # Other processes may have gradients of parts that have none here.
    totals = [
        found[f"total{number}"] if part else torch.zeros((), dtype=torch.float32, device=device)
        for number, part in enumerate(squares.values())
    ]
    for total, over in zip(totals, squares):
        for group in over:
            torch.distributed.all_reduce(total, group=group)
    return torch.stack(totals).sum()
