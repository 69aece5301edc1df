"""What the optimizers share: groups, states, checkpoints, clipping, and one compiled program for all parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch

from te_mlir import build, devices, dtypes
from te_mlir.errors import ArgumentError
from te_mlir.runtime import context as context_of
from te_mlir.step import Step, compile
from te_mlir.torch.optim.shards import check_alike, groups_of, local, part_of
from te_mlir.torch.tensors import dtype_name

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


class Update(NamedTuple):
    """The update of one parameter, as far as the program depends on it.

    states: the shapes and types of its states. row: which learning rate and step it reads; several updates may share them.
    number: its place among all parameters. options: those of its group, as the optimizer's `_options` returns them.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    grad_dtype: torch.dtype
    states: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    row: int
    number: int
    options: Any


class Row(NamedTuple):
    """A learning rate and, if steps are counted, the number of the step; tensors are read when the step runs."""

    lr: float | torch.Tensor
    step: float | torch.Tensor
    capturable: bool


@dataclasses.dataclass
class _Work:
    """What a step updates in this process.

    tensors: param, grad and states of each update. changed: parameters. counts: the steps of all parameters. rows: by group
    and step, with their numbers. squares: the gradients, by the groups of processes that sum their squares.
    """

    updates: list[Update] = dataclasses.field(default_factory=list)
    tensors: list[torch.Tensor] = dataclasses.field(default_factory=list)
    changed: list[torch.Tensor] = dataclasses.field(default_factory=list)
    counts: list[torch.Tensor] = dataclasses.field(default_factory=list)
    rows: dict[tuple[int, float], tuple[int, Row]] = dataclasses.field(default_factory=dict)
    squares: dict[tuple[ProcessGroup, ...], list[torch.Tensor]] = dataclasses.field(default_factory=dict)


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

    def __init__(self, params: Any, defaults: dict[str, Any], max_norm: float | None, capturable: bool) -> None:
        if max_norm is not None and not max_norm > 0:
            raise ArgumentError(f"expected 'max_norm' to be above 0, but got {max_norm}")
        self.max_norm = max_norm
        #: The norm of the gradients of the last step before they were clipped, if there is `max_norm`.
        self.grad_norm: torch.Tensor | None = None
        self._programs: dict[Any, Step] = {}
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
        for group in self.param_groups:
            # Checkpoints of classes that do not have the option.
            group.setdefault("capturable", self.defaults["capturable"])

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
        work = _Work()
        parameters = list(self._tensors())
        position = 0
        for number, group in enumerate(self.param_groups):
            options, names, capturable = self._options(group), self._states(group), group["capturable"]
            for tensor in group["params"]:
                position += 1
                if tensor.grad is None or not tensor.numel():
                    continue
                own, grad = local(tensor), self._local_gradient(tensor)
                states = [local(state) for state in self._states_of(tensor, group, names)]
                count: float | torch.Tensor = 0.0
                if self._counts_steps:
                    work.counts.append(self.state[tensor]["step"])
                    count = work.counts[-1] if capturable else float(work.counts[-1]) + 1
                squares = work.squares.setdefault(groups_of(tensor), [])
                if not own.numel():
                    # Other processes have all of it.
                    continue
                squares.append(grad)
                # The host does not know which steps on the device are equal.
                key = number, position if isinstance(count, torch.Tensor) else count
                row, _ = work.rows.setdefault(key, (len(work.rows), Row(group["lr"], count, capturable)))
                kinds = tuple((tuple(state.shape), state.dtype) for state in states)
                place = position + len(parameters) * part_of(tensor)
                work.updates.append(Update(tuple(own.shape), own.dtype, grad.dtype, kinds, row, place, options))
                work.tensors += (own, grad, *states)
                work.changed += (own,) if own is tensor else (own, tensor)
        if work.squares:
            self._run(work, parameters[0].device)
        return loss

    def _run(self, work: _Work, device: torch.device) -> None:
        is_sharded = any(work.squares)
        sums = None
        if is_sharded and self.max_norm is not None:
            kinds = tuple(tuple((tuple(g.shape), g.dtype) for g in grads) for grads in work.squares.values())
            sums = self._compiled(_squares_program, kinds, device)
        program = self._compiled(self._program, (tuple(work.updates), self.max_norm, sums is not None), device)
        if work.counts:
            torch._foreach_add_(work.counts, 1)
        tensors = work.tensors + self._scalars([row for _, row in work.rows.values()], device)
        if sums is not None:
            tensors.append(_total(sums, work.squares))
        self.grad_norm = program(**dict(zip(program.interface.index, tensors))).get("norm")
        # Autograd must notice that a tensor which it saved has changed.
        torch.autograd.graph.increment_version(work.changed)

    def _local_gradient(self, tensor: torch.Tensor) -> torch.Tensor:
        """The gradient of the part of a parameter that this process has."""
        given = tensor.grad
        assert given is not None
        check_alike(tensor, given, "a gradient")
        grad = local(given)
        if grad.is_sparse or grad.dtype not in _TYPES:
            raise ArgumentError(
                f"expected dense gradients of float32, bfloat16 or float16, but got a {type(grad).__name__} "
                f"of {dtype_name(grad.dtype)} with layout {grad.layout}"
            )
        return grad.contiguous()

    def _states_of(self, tensor: torch.Tensor, group: Mapping[str, Any], names: Sequence[str]) -> list[torch.Tensor]:
        """The states of a parameter, which start as zeros."""
        state = self.state[tensor] if names or self._counts_steps else {}
        if self._counts_steps and "step" not in state:
            state["step"] = self._new_step(tensor, group, 0.0)
        for name in names:
            if state.get(name) is None:
                state[name] = self._new_state(tensor, name)
        return [state[name] for name in names]

    def _new_step(self, tensor: torch.Tensor, group: Mapping[str, Any], count: float) -> torch.Tensor:
        # Without `capturable`, the host must know the step without waiting for a device.
        device = tensor.device if group["capturable"] else torch.device("cpu")
        return torch.full((), count, dtype=torch.float32, device=device)

    def _compiled(self, make: Callable[..., build.Module], arguments: tuple[Any, ...], device: torch.device) -> Step:
        """The program `make(*arguments)`; raises ArgumentError if a CUDA graph is captured that cannot have it."""
        captured = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if captured and not all(group["capturable"] for group in self.param_groups):
            raise ArgumentError(
                "expected 'capturable' to be True in all groups of an optimizer whose step a CUDA graph captures, "
                "but got False"
            )
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
        """The learning rate and the step of each row on the device, at addresses that te accepts."""
        # What the host knows is one copy, which does not wait for the device because it is so small: 16 bytes apart,
        # because te reads aligned memory.
        table: Iterator[torch.Tensor] = iter(())
        known = [row for row in rows if not row.capturable]
        if known:
            values = [[0.0 if isinstance(lr, torch.Tensor) else float(lr), 0, 0, 0, n, 0, 0, 0] for lr, n, _ in known]
            table = iter(torch.tensor(values, dtype=torch.float32).to(device, non_blocking=True))
        found: list[torch.Tensor] = []
        constants: dict[float, torch.Tensor] = {}
        for lr, step, capturable in rows:
            if not capturable:
                row = next(table)
                if isinstance(lr, torch.Tensor):
                    row[0].copy_(lr, non_blocking=True)
                lr, step = row[0], row[4]
            elif not isinstance(lr, torch.Tensor):
                lr = constants.setdefault(lr, torch.full((), lr, dtype=torch.float32, device=device))
            found.append(_aligned(lr, device))
            if isinstance(step, torch.Tensor) and self._counts_steps:
                found.append(step)
        return found

    def _program(self, updates: tuple[Update, ...], max_norm: float | None, has_total: bool) -> build.Module:
        """One program for all updates; its arguments are param, grad and states of each, lr and step of each row, and, if
        another program computed it, the sum of the squares of all gradients."""
        module = build.Module()
        with module.function("update") as f:
            taken = []
            for i, update in enumerate(updates):
                kinds = [("p", update.shape, update.dtype), ("g", update.shape, update.grad_dtype)]
                kinds += [(f"s{n}_", *state) for n, state in enumerate(update.states)]
                taken.append([f.argument(f"{name}{i}", shape, dtype_name(dtype)) for name, shape, dtype in kinds])
            scalars = ("lr", "step") if self._counts_steps else ("lr",)
            rows = 1 + max((update.row for update in updates), default=-1)
            table = [[f.argument(f"{name}{row}", (), "float32") for name in scalars] for row in range(rows)]
            factor = None
            if max_norm is not None:
                total = f.argument("total", (), "float32") if has_total else None
                factor = _clip_factor(f, total or _sum_of_squares(f, [grad for _, grad, *_ in taken]), max_norm)
            for i, (update, (param, grad, *states)) in enumerate(zip(updates, taken)):
                lr, *step = table[update.row]
                operands = Operands(param, grad, states, lr, step[0] if step else None, factor)
                new_param, *new_states = self._update(f, update, operands)
                f.result(f"p{i}", new_param)
                for n, state in enumerate(new_states):
                    f.result(f"s{n}_{i}", state)
        return module


def _aligned(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A number in float32 on the device at a multiple of 16 bytes."""
    if value.dtype == torch.float32 and value.device == device and value.data_ptr() % 16 == 0:
        return value
    return torch.empty((), dtype=torch.float32, device=device).copy_(value.reshape(()), non_blocking=True)


def grad_scale(factor: build.Value | None) -> str:
    """The operand `grad_scale` of te.adamw and te.sgd, as MLIR writes it."""
    return f" grad_scale {factor.name}" if factor else ""


def floats(**values: float) -> dict[str, str]:
    """Attributes of f32, as MLIR writes them."""
    return {name: f"{dtypes.float_text(value)} : f32" for name, value in values.items()}


def _sum_of_squares(f: build.Function, grads: Sequence[build.Value]) -> build.Value:
    total: build.Value | None = None
    for grad in grads:
        total = f.sum_of_squares(grad, total)
    return total or f.constant(0.0, (), "float32")


def _clip_factor(f: build.Function, total: build.Value, max_norm: float) -> build.Value:
    """Returns the norm of the gradients as `norm`; the value is the factor that clips them. total: the sum of their squares."""
    attributes = {"max_norm": f"{dtypes.constant_text(max_norm, 'float32')} : f32"}
    norm, factor = f.append("te.clip_factor", [total], [((), "float32")] * 2, "", attributes=attributes)
    f.result("norm", norm)
    return factor


def _squares_program(*kinds: tuple[tuple[tuple[int, ...], torch.dtype], ...]) -> build.Module:
    """Sums of the squares of the gradients of each part; kinds: their shapes and types."""
    module = build.Module()
    with module.function("update") as f:
        for i, part in enumerate(kinds):
            grads = [f.argument(f"g{i}_{n}", shape, dtype_name(dtype)) for n, (shape, dtype) in enumerate(part)]
            f.result(f"total{i}", _sum_of_squares(f, grads))
    return module


def _total(sums: Step, squares: Mapping[tuple[ProcessGroup, ...], list[torch.Tensor]]) -> torch.Tensor:
    """The sum of the squares of all gradients, also of the parts of other processes."""
    import torch.distributed

    grads = [grad for part in squares.values() for grad in part]
    totals = sums(**dict(zip(sums.interface.index, grads)))
    for number, over in enumerate(squares):
        for group in over:
            torch.distributed.all_reduce(totals[f"total{number}"], group=group)
    return torch.stack([totals[f"total{number}"] for number in range(len(squares))]).sum()
