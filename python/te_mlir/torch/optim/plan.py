"""What a step updates, gathered once for all steps in which it stays the same."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from te_mlir.step import Step
from te_mlir.torch.optim.shards import as_dtensor, groups_of, local, local_of, part_of

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


#: What may change in a parameter that stays the same object.
_PARAMETER = operator.attrgetter("shape", "dtype", "device", "__class__")
_LAYOUT = operator.attrgetter("placements", "device_mesh")
#: What a parameter without states has.
_NONE: Mapping[str, Any] = {}


class Update(NamedTuple):
    """The update of one parameter, as far as the program depends on it.

    states: the shapes and types of its states. group: the number of its group. row: which step it reads; updates of a group may
    share it. number: its place among all parameters. options: those of its group, as the optimizer's `_options` returns them.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    grad_dtype: torch.dtype
    states: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    group: int
    row: int
    number: int
    options: Any


class Group(NamedTuple):
    """What a program depends on in a group of parameters. states: their names. size: the number of parameters."""

    options: Any
    states: tuple[str, ...]
    capturable: bool
    size: int


class Row(NamedTuple):
    """The number of a group, and a step; a tensor is read when the step runs."""

    group: int
    step: float | torch.Tensor


def groups_in(rows: Sequence[Row]) -> list[int]:
    """The numbers of the groups of `rows`, in the order of the first of each."""
    return list(dict.fromkeys(row.group for row in rows))


class Plan:
    """The updates of a step in this process.

    parameters, grads, groups: those of the optimizer. state: its `state`, with all states that it needs. Except for
    the numbers of steps, the plan keeps neither gradients nor states alive, so that a caller who moves them to another
    memory gets theirs back.
    """

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor | None],
        groups: Sequence[Group],
        state: Mapping[torch.Tensor, dict[str, Any]],
    ) -> None:
        self.parameters, self.groups = parameters, groups
        self._kinds = _kinds(parameters, grads)
        #: The states that the updates read, and the names of those of each parameter that has any.
        self._kept: list[weakref.ref[torch.Tensor]] = []
        self._kept_names: list[tuple[torch.Tensor, list[str]]] = []
        #: The parameters that are sharded, and how.
        self._sharded: list[torch.Tensor] = []
        #: The steps of all parameters with a gradient, by whether they are on the device.
        self.counts: dict[bool, list[torch.Tensor]] = {False: [], True: []}
        #: The places of the parameters that are updated among all.
        self.places: list[int] = []
        self.is_sharded: list[bool] = []
        self._updates: list[Update] = []
        self._groups_of: list[int] = []
        self._steps: list[torch.Tensor] = []
        #: The states of each update.
        self._states: list[list[weakref.ref[torch.Tensor]]] = []
        #: The updates, by the groups of processes that add up the squares of their gradients: those of all parameters, because
        #: other processes may have gradients where this one has none.
        self.squares: dict[tuple[ProcessGroup, ...], list[int]] = {}
        #: Whether a parameter has a gradient, of which this process may have no elements.
        self.has_gradient = False
        #: What the programs were compiled for, the program of the updates and, if there is one, that of the sums.
        self.compiled: tuple[Any, Step, Step | None] | None = None
        places = iter(range(len(parameters)))
        for number, group in enumerate(groups):
            for place in (next(places) for _ in range(group.size)):
                grad = grads[place]
                if not parameters[place].numel():
                    continue
                self.squares.setdefault(groups_of(parameters[place]), [])
                self._sharded += [parameters[place]] if as_dtensor(parameters[place]) is not None else []
                if grad is not None:
                    self.has_gradient = True
                    self._add(place, number, grad.dtype, state.get(parameters[place], _NONE))
        self._layouts = list(map(_LAYOUT, self._sharded))

    def _add(self, place: int, number: int, grad_dtype: torch.dtype, state: Mapping[str, Any]) -> None:
        tensor, group = self.parameters[place], self.groups[number]
        names = [*group.states, *(("step",) if "step" in state else ())]
        self._kept += [weakref.ref(state[name]) for name in names]
        self._kept_names.append((tensor, names))
        is_sharded = as_dtensor(tensor) is not None
        if "step" in state:
            self.counts[group.capturable].append(state["step"])
        own = local(tensor)
        if not own.numel():
            # Other processes have all of it.
            return
        self.squares[groups_of(tensor)].append(len(self.places))
        kinds = tuple((tuple(each.shape), each.dtype) for each in (local(state[name]) for name in group.states))
        number_of_part = 1 + place + len(self.parameters) * part_of(tensor)
        update = Update(tuple(own.shape), own.dtype, grad_dtype, kinds, number, 0, number_of_part, group.options)
        self._updates.append(update)
        self.places.append(place)
        self.is_sharded.append(is_sharded)
        self._groups_of.append(number)
        if "step" in state:
            self._steps.append(state["step"])
        self._states.append([weakref.ref(state[name]) for name in group.states])

    def fits(
        self,
        parameters: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor | None],
        groups: Sequence[Group],
        state: Mapping[torch.Tensor, dict[str, Any]],
    ) -> bool:
        """Whether a step of an optimizer that has these is this one."""
        kept = [each() for each in self._kept]
        # A lookup of a tensor costs more than one of a name.
        owners = ((state.get(tensor, _NONE), names) for tensor, names in self._kept_names)
        found = (own.get(name) for own, names in owners for name in names)
        return (
            groups == self.groups
            and len(parameters) == len(self.parameters)
            and all(map(operator.is_, parameters, self.parameters))
            and _kinds(parameters, grads) == self._kinds
            and list(map(_LAYOUT, self._sharded)) == self._layouts
            and not any(map(operator.is_, kept, repeat(None)))
            and all(map(operator.is_, found, kept))
        )

    def rows(self) -> tuple[tuple[int, ...], list[Row]]:
        """The number of the row of each update, and the rows."""
        steps: list[float | torch.Tensor] = [0.0] * len(self.places)
        if self._steps:
            capturable = [self.groups[number].capturable for number in self._groups_of]
            known = [step for step, on_device in zip(self._steps, capturable) if not on_device]
            values = iter((torch.stack(known) + 1).tolist() if known else ())
            steps = [step if on_device else next(values) for step, on_device in zip(self._steps, capturable)]
        # The host does not know which steps on the device are equal: those are keys by themselves.
        keys = list(zip(self._groups_of, steps))
        numbers: dict[tuple[int, float | torch.Tensor], int] = {}
        row_of = tuple(numbers.setdefault(key, len(numbers)) for key in keys)
        return row_of, [Row(*key) for key in numbers]

    def updates(self, row_of: Sequence[int]) -> tuple[Update, ...]:
        return tuple(update._replace(row=row) for update, row in zip(self._updates, row_of))

    def tensors(self, grads: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The parameter, gradient and states of each update. grads: gradients of the updates."""
        found: list[torch.Tensor] = []
        for own, grad, is_sharded, kept in zip(self._parts(), grads, self.is_sharded, self._states):
            # The optimizer has them, as `fits` has found.
            states: list[Any] = [each() for each in kept]
            found += (own, grad, *(map(local_of, states) if is_sharded else states))
        return found

    def changed(self) -> list[torch.Tensor]:
        """The tensors that the updates write, for autograd."""
        parts = [own for own, is_sharded in zip(self._parts(), self.is_sharded) if is_sharded]
        return [self.parameters[place] for place in self.places] + parts

    def _parts(self) -> list[torch.Tensor]:
        """The parameters that are updated, or the parts of them that this process has."""
        return [
            local(self.parameters[place]) if is_sharded else self.parameters[place]
            for place, is_sharded in zip(self.places, self.is_sharded)
        ]


def _kinds(parameters: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None]) -> list[Any]:
    return [*map(_PARAMETER, parameters), *(None if grad is None else (grad.dtype, grad.layout) for grad in grads)]
