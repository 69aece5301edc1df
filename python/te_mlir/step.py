"""A program on a device, ready to be called with arrays."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import math
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from te_mlir import arrays, makers
from te_mlir.devices import check_view, current_stream, stream_handle
from te_mlir.errors import ArgumentError
from te_mlir.interface import Interface
from te_mlir.isolation import Isolation
from te_mlir.overlaps import Overlaps
from te_mlir.program import FLAG, Argument, Program, pipeline_text
from te_mlir.quick import Quick
from te_mlir.recipes import Recipe
from te_mlir.runtime import Context, GemmChoice, MicrobatchFlag, Tensor
from te_mlir.runtime import context as context_of

_COPY = "but got a read-only one; give a copy"


class Step:
    """A program on a device, ready to be called.

    Call it with arrays by name, or in the order of `inputs`. The results are a dict by name,
    in arrays of the first argument's library. Nothing is copied. Work is enqueued on the
    caller's current stream; `stream=` is another stream of PyTorch or CuPy, or its address.
    `out=` are arrays for results, by name. States belong to the step: they start with the
    value of `te.init` or `set_state`, each call changes them, and `state` returns them by
    name. A state may also be passed to a call as an argument; then that array is read and
    changed in place. `copy.deepcopy` and pickle copy the states. A copy shares the program,
    and a step that is loaded from a file compiles it again.

    With `reuse_results`, results are the same arrays in every call, which each call
    overwrites. `cuda_graph` does the same; in addition, the launches are recorded in the
    first call, on a GPU as a CUDA graph, and replayed. If an input that is neither a weight
    nor a state has another address than before, its content is copied to a tensor of the
    step (for PyTorch on the current stream); otherwise, the step is recorded again.
    """

    def __init__(
        self,
        program: Program,
        context: Context | None = None,
        cuda_graph: bool = False,
        reuse_results: bool = False,
    ) -> None:
        self.program = program
        self.context = context or context_of()
        self.cuda_graph = cuda_graph
        self.reuse_results = reuse_results or cuda_graph
        program.refuse_results_in_arena()
        self.arguments = program.arguments
        self._lock = threading.Lock()
        self._instance = program.instance(self.context)
        self._pointers = (ctypes.c_void_p * max(len(self.arguments), 1))()
        self.interface = interface = Interface.of(self.arguments)
        self.overlaps = Overlaps(interface, self._pointers)
        #: Names of the arguments that a call needs, in order.
        self.inputs = interface.inputs
        #: Names of the results that a call returns, in order, without states.
        self.results: list[str] = list(interface.results)
        self._state: dict[str, Any] = {}
        #: States without a value.
        self._unmade = set(interface.unmade)
        self._flag = MicrobatchFlag(self.context) if interface.flag >= 0 else None
        self._later = False
        #: With reuse_results: the arrays that calls return.
        self._kept: dict[str, Any] = {}
        self._quick: Quick | None = None

    @property
    def gemms(self) -> list[GemmChoice]:
        """The GEMMs of cuBLASLt, and how their algorithms were chosen (Context.set_gemm_choice); empty on the CPU."""
        return self._instance.gemms([name for _, name, _ in self.program.launches()])

    # Copies

    def __deepcopy__(self, memo: Any) -> Step:
        self._wait()
        return _copied(*self._options(), copy.deepcopy(self._own_states(), memo), set(self._unmade))

    def __copy__(self) -> Step:
        raise TypeError("expected copy.deepcopy of a step, but got copy.copy: two steps cannot have the same states")

    def __reduce__(self) -> Any:
        self._wait()
        return _copied, (*self._options(), self._own_states(), self._unmade)

    def _options(self) -> tuple[Program, Context, bool, bool]:
        return self.program, self.context, self.cuda_graph, self.reuse_results

    def _own_states(self) -> dict[str, Any]:
        return {name: self._state[name] for name in self.state_names if name in self._state}

    def _wait(self) -> None:
        """Waits for calls on any stream, because copies of the runtime wait only for its own stream."""
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        if self.context.device[0] == arrays.CUDA and torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize(self.context.device[1])
        elif self.context.device[0] == arrays.CUDA and cupy is not None:
            cupy.cuda.Device(self.context.device[1]).synchronize()
        self.context.synchronize()

    # States

    @property
    def state_names(self) -> list[str]:
        """Names of the states, in the order of the arguments."""
        return [a.name for a in self.arguments if not a.is_result and a.name in self.interface.states]

    @property
    def state(self) -> dict[str, Any]:
        """The states by name: the arrays themselves, which the next call changes."""
        return {name: self._own_state(name) for name in self.state_names}

    def set_state(self, values: Mapping[str, Any]) -> None:
        """Uses the arrays `values` as the states with these names, without copying them."""
        for name, value in values.items():
            if name not in self.interface.states:
                raise ArgumentError(f"expected states of {_names(self.state_names)}, but got '{name}'")
            self.check(name, value)
        self._state.update(values)
        self._unmade.difference_update(values)
        self._quick = None

    def _is_untouched(self, name: str) -> bool:
        """Whether a state still has the value of te.init; some states are filled in place."""
        state = self._state.get(name)
        return state is None or (isinstance(state, Tensor) and state.is_full_of(math.nan))

    def _own_state(self, name: str) -> Any:
        if name not in self._state:
            argument = self.arguments[self.interface.index[name]]
            if argument.init is None:
                raise ArgumentError(
                    f"argument '{name}': expected a value, as it is a state without 'te.init'; "
                    "give it once, to the call or to set_state"
                )
            self._state[name] = self.context.full(argument.shape, argument.dtype.name, argument.init)
        return self._state[name]

    @contextlib.contextmanager
    def microbatch(self, first: bool) -> Iterator[None]:
        """Calls in its block are of the first micro-batch of an optimizer step, or of a later one.

        This is for programs with cache_weights or main_grad. The first micro-batch casts the
        weights and overwrites the gradients; later ones reuse these casts and add to the
        gradients. Outside of such a block, each call is a first one.
        """
        if self._flag is None:
            raise ArgumentError("expected a step with 'cache_weights' or 'main_grad' for 'microbatch', but got neither")
        before, self._later = self._later, not first
        try:
            yield
        finally:
            self._later = before

    # Calls

    def check(self, name: str, array: Any, stream: int | None = None) -> arrays.View:
        """The memory of `array` if it can be the argument `name`; else raises ArgumentError."""
        argument = self.arguments[self.interface.index[name]]
        if isinstance(array, Tensor) and array.context is self.context:
            view = arrays.View(array.pointer, array.dtype, array.shape, True, self.context.device, array)
        else:
            try:
                view = arrays.view(array, stream)
            except ArgumentError as error:
                raise ArgumentError(f"argument '{name}': {error}") from None
        check_view(name, argument.dtype, argument.shape, view, self.context.device)
        if view.readonly and name in self.interface.states:
            raise ArgumentError(f"argument '{name}': expected an array that can be written, as it is a state, {_COPY}")
        return view

    def __call__(self, /, *args: Any, **named: Any) -> dict[str, Any]:
        # If `stream` and `out` were parameters, Python would compare them with each name: 1 us for 36.
        stream = named.pop("stream", None) if "stream" in named else None
        out = named.pop("out", None) if "out" in named else None
        if stream is not None:
            stream = stream_handle(stream, self.context.device)
        quick = self._quick
        if quick is not None and quick.positional == len(args) and quick.names == tuple(named):
            tensors = tuple(named.values())
            if args or out:
                tensors = (*args, *tensors, *(out or {}).values())
            same = quick.outs == (tuple(out) if out else ()) and quick.guard(*tensors)
            if same and (not quick.storages or quick.where_kept() == quick.kept):
                return self._again(quick, tensors, stream)
        return self._checked(args, named, stream, out)

    def _again(self, quick: Quick, tensors: tuple[Any, ...], given: int | None) -> dict[str, Any]:
        """Runs a call that differs from the one before only in addresses, on the stream `given`."""
        stream = quick.stream() if given is None else given
        pointers = self._pointers
        with self._lock:
            addresses = list(map(quick.address, tensors))
            if addresses != quick.seen or not quick.settled:
                self._settle(quick, tensors, addresses, given is None)
            if quick.flag >= 0 and quick.later is not self._later:
                self._point_flag(stream)
                quick.later = self._later
            if self.cuda_graph:
                self._instance.replay(pointers, stream, 0, self.program.num_launches)
                return self._kept.copy()
            if self.reuse_results:
                self._instance.run(pointers, stream)
                return self._kept.copy()
            made = quick.make.unsorted(pointers, stream)
            self._instance.run(pointers, stream)
        results = quick.results.copy()
        results.update(zip(quick.made, made))
        if quick.outs:
            results.update(zip(quick.outs, tensors[len(quick.given) :]))
        return results

    def _settle(self, quick: Quick, tensors: tuple[Any, ...], addresses: list[int], current: bool) -> None:
        """Updates the step's pointers after some tensors moved, on the current stream or not; raises ArgumentError."""
        quick.settled = False
        count = len(quick.given)
        moved = arrays.changed(quick.seen, addresses)
        # Raises for tensors without memory, with too little, or that are not aligned.
        for index in moved:
            tensor = tensors[index]
            end = tensor.storage_offset() * tensor.itemsize + quick.bytes[index]
            if end <= len(tensor.untyped_storage()) and addresses[index] % 16 == 0:
                continue
            if index < count:
                self.check(quick.given[index], tensor)
            else:
                self._result_view(self.interface.results[quick.outs[index - count]], tensor)
        if self.cuda_graph and current:
            for index in moved:
                if not quick.fixed[index] and index not in quick.own:
                    quick.own[index] = tensors[index].detach().clone()
        known = quick.last is quick.seen
        quick.seen = addresses
        if quick.own and current:
            addresses = list(addresses)
            for index, own in quick.own.items():
                own.copy_(tensors[index])
                addresses[index] = own.data_ptr()
        if not known or addresses is not quick.seen:
            moved = arrays.changed(quick.last, addresses)
        if moved:
            quick.last = [-1] * len(addresses)
            for index in moved:
                for place in quick.places[index]:
                    self._pointers[place] = addresses[index]
            quick.watch.check({quick.places[index][0] for index in moved})
            quick.last = addresses
        # Tensors that are copied are copied in each call.
        quick.settled = not quick.own

    def _point_flag(self, stream: int) -> None:
        assert self._flag is not None
        flag = self._flag
        self._pointers[self.interface.flag] = (
            flag.written(self._later, stream) if self.cuda_graph else flag.constant(self._later)
        )

    def _checked(
        self, args: tuple[Any, ...], named: dict[str, Any], stream: int | None, out: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Runs a call with all checks."""
        self._quick = None
        if len(args) > len(self.inputs):
            raise ArgumentError(
                f"expected at most {len(self.inputs)} arguments ({_names(self.inputs)}), but got {len(args)}"
            )
        given = dict(zip(self.inputs, args))
        for name, value in named.items():
            if name in given:
                raise ArgumentError(f"argument '{name}': expected one value, but got two")
            if name not in self.interface.index:
                raise ArgumentError(f"expected arguments {_names(list(self.interface.index))}, but got '{name}'")
            given[name] = value
        flagged = self._flag is not None and FLAG not in given
        missing = [name for name in self.inputs if name not in given and not (flagged and name == FLAG)]
        defaults = {name for name in missing if self.arguments[self.interface.index[name]].init is not None}
        missing = [name for name in missing if name not in defaults]
        if missing:
            raise ArgumentError(f"expected a value for {_names(missing)}, but got none")
        unknown = [name for name in out or {} if name not in self.results]
        if unknown:
            raise ArgumentError(f"out: expected results {_names(self.results)}, but got '{unknown[0]}'")

        if stream is None:
            stream = current_stream(self.context.device)
        make = makers.maker_like(list(given.values()), self.context)
        owners, results = [], {}
        # Create arrays for results that are neither passed nor kept.
        fresh = [name for name in self.results if name not in self._kept and (out or {}).get(name) is None]
        made: dict[str, Any] = {}
        unmade = [name for name in self._unmade.difference(given) if self._later and self._is_untouched(name)]
        if unmade:
            raise ArgumentError(
                "argument 'first': expected True in the first call, as there are no casts of weights to reuse "
                f"in {_names(sorted(unmade))}, but got False"
            )
        with self._lock:
            for index, argument in enumerate(self.arguments):
                name = argument.name
                if argument.carried_input >= 0:
                    self._pointers[index] = self._pointers[argument.carried_input]
                    continue
                if index == self.interface.flag and flagged:
                    self._point_flag(stream)
                    continue
                if argument.is_result:
                    array = (out or {}).get(name)
                    if array is None:
                        array = self._kept.get(name)
                    if array is None:
                        made = made or dict(zip(fresh, make([self.interface.kind_of(n) for n in fresh])))
                        array = made[name]
                    view = self._result_view(argument, array)
                    results[name] = array
                else:
                    array = self._default(name) if name in defaults else given.get(name)
                    if array is None:
                        array = self._own_state(name)
                    view = self.check(name, array, stream)
                owners.append(view.owner)
                self._pointers[index] = view.pointer
            self.overlaps.check([i for i in self.interface.watched if self.arguments[i].name not in made])
            if self.reuse_results:
                self._kept = dict(results)
            if self.cuda_graph:
                self._instance.replay(self._pointers, stream, 0, self.program.num_launches)
            else:
                self._instance.run(self._pointers, stream)
            self._unmade.clear()
            # The arrays of `out` become the results that are kept.
            if not out or not self.reuse_results:
                self._quick = self._quick_of(args, named, out or {})
        return results

    def _quick_of(self, args: tuple[Any, ...], named: Mapping[str, Any], out: Mapping[str, Any]) -> Quick | None:
        """What the next call can skip checking, if all arrays are PyTorch's tensors; else None."""
        torch = sys.modules.get("torch")
        tensors = (*args, *named.values(), *out.values())
        empty = any(0 in a.shape for a in self.arguments)
        if torch is None or not tensors or empty or not all(isinstance(t, torch.Tensor) for t in tensors):
            return None
        if self.reuse_results and not all(isinstance(a, torch.Tensor) for a in self._kept.values()):
            return None
        guard = arrays.torch_guard(tensors)
        kept = self._kept if self.reuse_results else None
        device = self.context.device
        return Quick(self.overlaps, device, args, named, out, guard, kept, self._later) if guard else None

    def _result_view(self, argument: Argument, array: Any) -> arrays.View:
        if isinstance(array, Tensor):
            view = arrays.View(array.pointer, array.dtype, array.shape, True, array.context.device, array)
        else:
            try:
                view = arrays.view(array)
            except ArgumentError as error:
                raise ArgumentError(f"result '{argument.name}': {error}") from None
        check_view(argument.name, argument.dtype, argument.shape, view, self.context.device, "result")
        if view.readonly:
            raise ArgumentError(f"result '{argument.name}': expected an array that can be written, {_COPY}")
        return view

    def _default(self, name: str) -> Any:
        """The array for an argument with 'te.init' that no call passes."""
        argument = self.arguments[self.interface.index[name]]
        key = f"\0{name}"
        if key not in self._state:
            self._state[key] = self.context.full(argument.shape, argument.dtype.name, argument.init or 0.0)
        return self._state[key]


def _copied(
    program: Program, context: Context, cuda_graph: bool, reuse_results: bool, states: dict[str, Any], unmade: set[str]
) -> Step:
    """Creates a step with these states."""
    step = Step(program, context, cuda_graph, reuse_results)
    step.set_state(states)
    step._unmade = unmade
    return step


def _names(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) if names else "none"


def compile(
    source: Any,
    entry: str,
    *,
    recipe: Recipe | str | None = None,
    backward_override: str | None = None,
    target: str | None = None,
    strict: bool = False,
    vjp: bool = False,
    main_grad: bool = False,
    cache_weights: bool = False,
    cuda_graph: bool = False,
    reuse_results: bool = False,
    context: Context | None = None,
    source_name: str = "<text>",
    isolation: Isolation | None = None,
    **options: Any,
) -> Step:
    """Compiles the function `entry` of `source` and loads it on a device.

    source: text of a module, a pathlib.Path to it, or an object with `to_mlir()`, such as
    te_mlir.build.Module; or bytecode, if `source_name` or the path ends with ".mlirbc": MLIR
    may end the process for bytecode that was made to do so. isolation: compile in a process of its
    own first, for programs of strangers. recipe: replaces the module's. backward_override: "none",
    "high_precision" or "dequantized"; None keeps the recipe's own. target: "sm_90", "sm_100" or
    "reference"; by default that of the device. strict: a fall-back to higher precision is an
    error. vjp: differentiate; the step then takes cotangents `grad.<result>` and returns
    gradients `grad.<argument>`. main_grad: gradients `grad.<weight>` are float32 states that
    calls add to. cache_weights: casts of weights are states too, which are computed in the first
    micro-batch (`step.microbatch`). cuda_graph: calls are recorded once and replayed.
    reuse_results: each call overwrites the results of the one before instead of creating new
    arrays. context: the device; by default a GPU if there is one, else the CPU. Further options
    are those of the pipeline, with underscores.

    Raises CompileError with the compiler's messages and their locations, and RuntimeFailure
    if the device cannot run the step.
    """
    context = context or context_of()
    for name, value in (("main_grad", main_grad), ("cache_weights", cache_weights)):
        if value:
            options[name] = value
    pipeline = pipeline_text(recipe, backward_override, target, strict, **options)
    program = Program(source, entry, pipeline, context.backend, vjp, source_name, isolation)
    return Step(program, context, cuda_graph, reuse_results)
