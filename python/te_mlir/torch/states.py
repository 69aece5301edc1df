"""The states of recipes for a model (histories, scales, random states), by the name of the weight.

A model has one `States` for all of its graphs: for training and without gradients, for each
shape, and for each part between graph breaks. A state has the name of the model's own parameter,
as in `layers.0.q.x.scale`. A layer therefore has the same state in each graph, and layers that
share a graph have separate states.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils.weak import WeakIdKeyDictionary

from te_mlir.dtypes import matches
from te_mlir.errors import ArgumentError
from te_mlir.program import Argument
from te_mlir.recipes import HighPrecision, Recipe
from te_mlir.runtime import Context, Tensor
from te_mlir.torch.owners import owner_of

RNG_STATE = "rng_state"
#: The prefix of keys in a module's state_dict, after the module's own name.
PREFIX = "te."


def layer_of(weight: str) -> str:
    """The layer of a weight: `layers.0.q` for `layers.0.q.weight`."""
    return weight.removesuffix(".weight")


class Part(NamedTuple):
    """Rows (axis 0) or columns (axis 1) of a parameter that are the weight of a layer."""

    axis: int
    first: int
    end: int

    @staticmethod
    def in_name(name: str) -> Part | None:
        """The part in a name that the method `name` returned, or None."""
        for piece in name.split("[")[1:]:
            inside, closed, _ = piece.partition("]")
            first, _, end = inside.removeprefix(":, ").partition(":")
            if closed and first.isdecimal() and end.isdecimal():
                return Part(int(inside.startswith(":, ")), int(first), int(end))
        return None

    def __str__(self) -> str:
        return f"[{':, ' if self.axis else ''}{self.first}:{self.end}]"

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A view of this part of a parameter, or of a tensor with its layout."""
        return tensor.narrow(self.axis, self.first, self.end - self.first)

    def name(self, weight: str) -> str:
        """The name of this part: `qkv[0:64].weight` for `qkv.weight`."""
        return f"{layer_of(weight)}{self}{weight[len(layer_of(weight)) :]}"

    def owner(self, name: str) -> str:
        """The weight that the part called `name` belongs to."""
        return name.replace(str(self), "", 1)

    def is_of(self, shape: Sequence[int]) -> bool:
        """Whether a parameter of these sizes has this part."""
        return self.axis < len(shape) and self.first < self.end <= shape[self.axis]

    def meets(self, other: Part) -> bool:
        """Whether two parts of a parameter have elements in common."""
        return self.axis != other.axis or (self.first < other.end and other.first < self.end)


class StateName(NamedTuple):
    """The parts of the name of a state, in a program and in saved states.

    The name of a recipe's state is `<layer>.<x, w or dy>.<amax_history or scale>`; that of a weight's
    cast is `<weight>.<row or col>.<data, scale or amax>`. Further states of the same name have a
    number after the second part. owner: the layer or the weight. rest: the parts after it.
    """

    owner: str
    rest: str
    is_cast: bool

    @staticmethod
    def read(name: str) -> StateName | None:
        """Parses the name of a state; None for other names."""
        owner, *rest = name.rsplit(".", 3)
        # A number is one more part.
        if len(rest) < 3 or not rest[1].isdecimal():
            owner, *rest = name.rsplit(".", 2)
        if len(rest) < 2 or not owner:
            return None
        for is_cast, operands, kinds in ((False, _OPERANDS, _MEASURED), (True, _USAGES, _BUFFERS)):
            if rest[0] in operands and rest[-1] in kinds:
                return StateName(owner, ".".join(rest), is_cast)
        return None

    def of(self, owner: str) -> str:
        """The name of the same state of another layer or weight."""
        return f"{owner}.{self.rest}"


#: The operands of a layer with a recipe's states for each; the usages of a weight's cast with its buffers.
_OPERANDS, _MEASURED = ("x", "w", "dy"), ("amax_history", "scale")
_USAGES, _BUFFERS = ("row", "col"), ("data", "scale", "amax")


def renamed(state: str, names: Mapping[str, str]) -> str:
    """The name of a state after its owner is renamed as in `names`."""
    found = StateName.read(state)
    return state if found is None or found.owner not in names else found.of(names[found.owner])


def is_cast(name: str) -> bool:
    """Whether this is the name of a weight's cast."""
    found = StateName.read(name)
    return found is not None and found.is_cast


def _kind(name: str) -> str | None:
    """The kind of a recipe's state, one of `Recipe.states`; None for the cast of a weight."""
    return None if is_cast(name) else name.rpartition(".")[2]


class States:
    """The states of a model. A state is created when a graph first needs it, or from a value that was loaded before.

    module: the module that names the parameters; without one, the graphs name them. recipe: that of all calls;
    without one, each call may have another one.
    """

    def __init__(self, module: torch.nn.Module | None = None, recipe: Recipe | None = None) -> None:
        self._tensors: dict[str, Tensor] = {}
        self.recipe = recipe
        #: The first value of each state.
        self._initial: dict[str, float] = {}
        # The recipe of the last call.
        self._last = recipe
        # Since values were loaded: the number of states that have none, and of casts that fit no state, until a warning.
        self._new, self._left, self._counts = 0, 0, False
        # Casts of weights by recipe and name, and those that a first micro-batch computed.
        self._casts: dict[tuple[str, str], Tensor] = {}
        self.made: set[tuple[str, str]] = set()
        # Values that were loaded before a graph needs them.
        self._waiting: dict[str, torch.Tensor] = {}
        #: The loaded programs that read the states, and the number of all such programs so far.
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        self.uses = 0
        #: An object to keep alive as long as these states.
        self.key: Any = None
        self.belong_to(module)

    def belong_to(self, module: torch.nn.Module | None) -> None:
        """Names parameters as `module` does from now on."""
        self._module = weakref.ref(module) if module is not None else None
        self._names = WeakIdKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values(), "recipe": self.recipe}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(recipe=state["recipe"])  # type: ignore[misc]
        self._waiting = state["values"]

    def name_of(self, tensor: torch.Tensor, captured: str) -> str:
        """The name of a weight; `captured` if it is not a parameter of the module."""
        tensor = owner_of(tensor)
        if not isinstance(tensor, torch.nn.Parameter):
            return captured
        if tensor not in self._names:
            module = self._module() if self._module else None
            for name, parameter in module.named_parameters() if module is not None else ():
                self._names[parameter] = name
        if tensor not in self._names:
            taken, name, number = set(self._names.values()), captured, 1
            while name in taken:
                name, number = f"{captured}.{number}", number + 1
            self._names[tensor] = name
        return self._names[tensor]

    def tensor(self, name: str, argument: Argument, context: Context) -> Tensor:
        """The state `name` on a device, in the form that a program needs."""
        have = self._tensors.get(name)
        if have is None or have.context is not context:
            made = context.full(argument.shape, argument.dtype.name, argument.init or 0.0)
            value = self._waiting.pop(name, None) if have is None else torch.from_dlpack(have)
            if value is not None and not _is_other_history(name, value, made):
                _check_value(name, value, made)
                _assign(made, value)
            else:
                self._new += 1
            self._tensors[name] = have = made
            self._initial[name] = argument.init or 0.0
        _check_same(name, have, argument)
        return have

    def cast(self, recipe: str, name: str, argument: Argument, context: Context) -> Tensor:
        """The cast `name` of a weight under `recipe`; it has no value before a first micro-batch."""
        key = (recipe, name)
        if key not in self._casts or self._casts[key].context is not context:
            self._casts[key] = context.full(argument.shape, argument.dtype.name, argument.init or 0.0)
            self.made.discard(key)
            value = self._waiting.pop(name, None)
            if value is not None and _fits(value, self._casts[key]):
                _assign(self._casts[key], value)
                self.made.add(key)
            elif value is not None:
                self._left += 1
        _check_same(name, self._casts[key], argument)
        return self._casts[key]

    def values(self, casts: bool = False) -> dict[str, torch.Tensor]:
        """Copies of the states by name."""
        found = {name: torch.from_dlpack(tensor).clone() for name, tensor in self._tensors.items()}
        waiting = (name for name in self._waiting if casts or not is_cast(name))
        found.update((name, self._waiting[name].clone()) for name in waiting)
        if casts:
            found.update((name, torch.from_dlpack(tensor).clone()) for (_, name), tensor in self._casts.items())
        return found

    def load(self, values: Mapping[str, torch.Tensor], strict: bool = True) -> tuple[list[str], list[str]]:
        """Sets the states to `values`. States that no graph needs yet are set when a graph needs them.

        Returns the missing names, and the names that cannot be states of this model. With strict,
        nothing is changed if there are any. Raises ArgumentError for a value of another type or
        shape. The values may include casts of weights. Values of another recipe are left, and states
        start from their initial values if there are none of their kind, with one warning.
        """
        kinds = {_kind(name) for name in values}
        missing = [name for name in self._tensors if name not in values]
        new = [name for name in missing if _kind(name) not in kinds]
        missing = [name for name in missing if _kind(name) in kinds]
        unexpected = [name for name in values if not self._may_be(name)]
        if strict and (missing or unexpected):
            return missing, unexpected
        casts = {name: (recipe, name) for recipe, name in self._casts}
        targets = {**self._tensors, **{name: self._casts[key] for name, key in casts.items()}}
        left = [name for name in values if self._belongs_elsewhere(name, values[name], targets)]
        new += [name for name in targets.keys() & values.keys() if _is_other_history(name, values[name], targets[name])]
        values = {name: value for name, value in values.items() if name not in {*left, *new, *unexpected}}
        for name in targets.keys() & values.keys():
            _check_value(name, values[name], targets[name])
        for name, value in values.items():
            if name in targets:
                _assign(targets[name], value)
            else:
                self._waiting[name] = value.detach().clone()
        for name in new:
            torch.from_dlpack(self._tensors[name]).fill_(self._initial[name])
        self.made.update(key for name, key in casts.items() if name in values)
        self._counts, self._left, self._new = True, len(left), len(new)
        # Before the first call, the states of the model are not known, if it has any.
        if self._tensors or self.recipe is None or not self.recipe.states():
            self.warn_once(self._last)
        return missing, unexpected

    def _belongs_elsewhere(self, name: str, value: torch.Tensor, targets: Mapping[str, Tensor]) -> bool:
        """Whether this is a value of a recipe that the model does not have."""
        if is_cast(name):
            # The next first micro-batch computes it again.
            return name in targets and not _fits(value, targets[name])
        return self.recipe is not None and self._may_be(name) and _kind(name) not in self.recipe.states()

    def warn_once(self, recipe: Recipe | None) -> None:
        """Gives a warning if loaded values are not those that the programs so far need; recipe: that of the last one."""
        self._last = recipe
        left, new, counts = self._left, self._new, self._counts
        self._left = self._new = 0
        if not counts or not (left or new):
            return
        self._counts = False
        parts = [f"{left} of them {'is' if left == 1 else 'are'} not used"] if left else []
        if new:
            parts.append(f"{new} of the model {'starts' if new == 1 else 'start'} from the initial value")
        name = type(recipe or HighPrecision()).__name__
        warnings.warn(f"te: loaded states are not those of {name}: {', and '.join(parts)}", stacklevel=4)

    def _may_be(self, name: str) -> bool:
        if name in self._tensors or name == RNG_STATE:
            return True
        found = StateName.read(name)
        if found is None:
            return False
        part, module = Part.in_name(found.owner), self._module() if self._module else None
        if module is None:
            return True
        for weight, parameter in module.named_parameters(remove_duplicate=False):
            if part is None or part.is_of(parameter.shape):
                own = weight if part is None else part.name(weight)
                if found.owner == (own if found.is_cast else layer_of(own)):
                    return True
        return False

    # A torch.nn.Module with states calls these in state_dict and load_state_dict.

    def save_to(self, destination: dict[str, Any], prefix: str) -> None:
        for name, value in self.values().items():
            destination[prefix + PREFIX + name] = value

    def load_from(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> dict[str, Any]:
        """Loads the values of these states; PyTorch loads the others."""
        head = prefix + PREFIX
        mine = {key[len(head) :]: value for key, value in state_dict.items() if key.startswith(head)}
        try:
            missing, unexpected = self.load(mine, strict=False)
        except ArgumentError as error:
            error_msgs.append(str(error))
        else:
            if strict:
                missing_keys.extend(head + name for name in missing)
                unexpected_keys.extend(head + name for name in unexpected)
        return {key: value for key, value in state_dict.items() if not key.startswith(head)}


def _assign(state: Tensor, value: torch.Tensor) -> None:
    torch.from_dlpack(state).copy_(value)


def _check_same(name: str, state: Tensor, argument: Argument) -> None:
    if state.shape != argument.shape or state.dtype != argument.dtype.name:
        raise ArgumentError(
            f"state '{name}': expected {argument}, but got {state.dtype} {list(state.shape)}, which an earlier "
            "program set"
        )


def _check_value(name: str, value: torch.Tensor, state: Tensor) -> None:
    dtype = str(value.dtype)[6:]
    if tuple(value.shape) != state.shape or not matches(state.dtype_info, dtype):
        raise ArgumentError(
            f"state '{name}': expected {state.dtype} {list(state.shape)}, but got {dtype} {list(value.shape)}"
        )


def _fits(value: torch.Tensor, state: Tensor) -> bool:
    return tuple(value.shape) == state.shape and matches(state.dtype_info, str(value.dtype)[6:])


def _is_other_history(name: str, value: torch.Tensor, state: Tensor) -> bool:
    """Whether this is a history of another length, as another recipe has it."""
    shape = tuple(value.shape)
    return name.endswith(".amax_history") and shape[:1] != state.shape[:1] and shape[1:] == state.shape[1:]


class WithStates:
    """Adds the states of a torch.nn.Module, its attribute `_states`, to its state_dict."""

    _states: States

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[misc]
        self._states.save_to(destination, prefix)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        rest = self._states.load_from(state_dict, prefix, strict, missing_keys, unexpected_keys, error_msgs)
        super()._load_from_state_dict(  # type: ignore[misc]
            rest, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
