"""A compiled program as a pure function of JAX arrays.

All values that a call reads are arguments, and all that it writes are results. This includes the
states of the recipe and, in differentiation, the memory that the forward saves for the backward,
which is an array (a residual of jax.custom_vjp). A function can therefore be called, jitted,
differentiated and repeated in any order, on any device of its platform.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from te_mlir.dtypes import BY_NAME
from te_mlir.errors import ArgumentError
from te_mlir.isolation import Isolation
from te_mlir.jax._ffi import ARENA, Call, Loaded, jax_dtype
from te_mlir.jax.graph import is_tracing
from te_mlir.jax.specs import Options, Spec, State, check, platform_of
from te_mlir.jax.varying import vary
from te_mlir.program import Argument, Program
from te_mlir.recipes import Recipe

#: Returns (the source to compile, whether the compiler must differentiate it): without derivatives
#: for None, or with those with respect to the inputs of these indices.
Source = Callable[[tuple[int, ...] | None], tuple[Any, bool]]


class _Binary:
    """One compiled program, with the indices of its states and of its arguments by name."""

    def __init__(self, function: Function, wrt: tuple[int, ...] | None) -> None:
        source, vjp = function.source(wrt)
        backend = "reference" if function.platform == "cpu" else "cuda"
        options = function.options.text(function.platform)
        self.program = Program(source, function.entry, options, backend, vjp, function.source_name, function.isolation)
        self.loaded = Loaded(self.program, function.platform, function.device)
        arguments = self.program.arguments
        self.inputs = {a.name: i for i, a in enumerate(arguments) if not a.is_result}
        self.results = {a.name: i for i, a in enumerate(arguments) if a.is_result and a.carried_input < 0}
        carried = {a.carried_input: i for i, a in enumerate(arguments) if a.carried_input >= 0}
        #: The indices of each state and of its next value, by name.
        self.states = {arguments[before].name: (before, after) for before, after in carried.items()}

    def argument(self, name: str) -> Argument:
        return self.program.arguments[self.inputs[name]]


class _Training(_Binary):
    """A program with derivatives, and its split into a forward and a backward."""

    def __init__(self, function: Function, wrt: tuple[int, ...]) -> None:
        super().__init__(function, wrt)
        arguments = self.program.arguments
        outputs = [self.results[spec.name] for spec in function.outputs]
        self.through = [n for n, spec in enumerate(function.outputs) if f"grad.{spec.name}" in self.inputs]
        cotangents = [self.inputs[f"grad.{function.outputs[n].name}"] for n in self.through]
        # The inputs whose gradients the program computes, which may be more than were requested.
        self.wrt = [n for n, spec in enumerate(function.inputs) if f"grad.{spec.name}" in self.results]
        gradients = [self.results[f"grad.{function.inputs[n].name}"] for n in self.wrt]
        inputs = [self.inputs[spec.name] for spec in function.inputs]
        end = self.program.num_launches
        cut = min((arguments[i].first_launch for i in cotangents if arguments[i].first_launch >= 0), default=end)
        for place in outputs:
            # A result without elements has nothing to compute.
            if arguments[place].first_launch >= cut and 0 not in arguments[place].shape:
                raise ArgumentError(
                    f"expected result '{arguments[place].name}' to be computed before the backward, but it is not"
                )
        #: Inputs and results that the backward reads.
        self.kept_inputs = [n for n, i in enumerate(inputs) if arguments[i].last_launch >= cut]
        self.kept_outputs = [n for n, i in enumerate(outputs) if arguments[i].last_launch >= cut]
        # Gradients whose memory has intermediates of the forward; they are saved for the backward, like the arena.
        early = [i for i in gradients if 0 <= arguments[i].first_launch < cut]
        self.forward = Call(self.loaded, inputs, outputs + early + [ARENA], 0, cut)
        kept = [inputs[n] for n in self.kept_inputs] + [outputs[n] for n in self.kept_outputs]
        self.backward = Call(
            self.loaded,
            early + [ARENA] + kept + cotangents,
            gradients + [ARENA],
            cut,
            end,
        )
        #: The whole program as one call: from states, inputs and cotangents to results, gradients and states.
        before = [b for b, _ in self.states.values()]
        after = [a for _, a in self.states.values()]
        self.both = Call(self.loaded, before + inputs + cotangents, after + outputs + gradients + [ARENA])


class Function:
    """A program of the dialect as a function of arrays.

    inputs, outputs: the arguments and results of a call, in order. platform: "cpu" or "cuda".
    The states of a program are a dict of arrays: `init_state()` creates it, and calls take `state=`
    and return the next one with their results.

    JAX's jit, grad, vjp and donation work, on any device of the platform; vmap, forward mode and
    second derivatives do not. Use `value_and_grad` for gradients of a program with states: its
    backward computes states, which cotangents cannot pass on.
    """

    def __init__(
        self,
        source: Source,
        entry: str,
        options: Options,
        platform: str,
        device: int,
        source_name: str = "<text>",
        inputs: Sequence[Spec] | None = None,
        outputs: Sequence[Spec] | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        self.source, self.entry, self.options = source, entry, options
        self.platform, self.device, self.source_name = platform, device, source_name
        self.isolation = isolation
        self._lock = threading.RLock()
        self._training: dict[tuple[int, ...], _Training] = {}
        self._inference: _Binary | None = None
        if inputs is None or outputs is None:
            binary = self._forward()
            arguments = binary.program.arguments
            inputs = [
                Spec(a.name, a.shape, a.dtype.name, a.init, a.dtype.name in ("float32", "bfloat16", "float16"))
                for a in arguments
                if not a.is_result and a.name not in binary.states
            ]
            outputs = [Spec(a.name, a.shape, a.dtype.name) for a in arguments if a.name in binary.results]
            outputs = [spec for spec in outputs if spec.name in binary.results]
        self.inputs, self.outputs = list(inputs), list(outputs)
        self._call: Call | None = None
        self._differentiable = self._make_differentiable()

    # Programs

    def _forward(self) -> _Binary:
        with self._lock:
            if self._inference is None:
                self._inference = _Binary(self, None)
            return self._inference

    def _trained(self, wrt: Sequence[int]) -> _Training:
        with self._lock:
            key = tuple(wrt)
            if key not in self._training:
                self._training[key] = _Training(self, key)
            return self._training[key]

    @property
    def program(self) -> Program:
        """The compiled forward: its arguments, launches and diagnostics."""
        return self._forward().program

    # States

    def init_state(self, wrt: Sequence[str] | None = None) -> State:
        """The initial states by name, with the values of 'te.init'.

        wrt: for `value_and_grad` with this `wrt`, which also has states for gradients; None: for a
        call.
        """
        binary = self._forward() if wrt is None else self._trained(self._numbers(wrt))
        state = {}
        for name in binary.states:
            argument = binary.argument(name)
            if argument.init is None:
                raise ArgumentError(f"state '{name}': expected 'te.init', but it has none; pass a value for it")
            state[name] = jnp.full(argument.shape, argument.init, jax_dtype(argument.dtype))
        return state

    def _states(self, binary: _Binary, state: Mapping[str, Any] | None) -> list[Any]:
        if state is not None and not isinstance(state, Mapping):
            raise ArgumentError(f"state: expected a dict of arrays, but got {type(state).__name__}")
        given = dict(state or {})
        if state is None and binary.states:
            raise ArgumentError(
                f"state: expected a value for {_names(binary.states)}, but got none; init_state() makes one, and "
                "calls return the next"
            )
        missing = [name for name in binary.states if name not in given]
        if missing:
            raise ArgumentError(f"state: expected a value for {_names(missing)}, but got none")
        values = []
        for name in binary.states:
            argument = binary.argument(name)
            check(Spec(name, argument.shape, argument.dtype.name), given[name], "state")
            values.append(jnp.asarray(given[name]))
        return values

    # Calls

    def _positional(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        if len(args) > len(self.inputs):
            raise ArgumentError(
                f"expected at most {len(self.inputs)} arguments ({_names(s.name for s in self.inputs)}), "
                f"but got {len(args)}"
            )
        given = {spec.name: value for spec, value in zip(self.inputs, args)}
        known = {spec.name for spec in self.inputs}
        for name, value in named.items():
            if name in given:
                raise ArgumentError(f"argument '{name}': expected one value, but got two")
            if name not in known:
                raise ArgumentError(f"expected arguments {_names(s.name for s in self.inputs)}, but got '{name}'")
            given[name] = value
        missing = [spec.name for spec in self.inputs if spec.name not in given and spec.init is None]
        if missing:
            raise ArgumentError(f"expected a value for {_names(missing)}, but got none")
        values = []
        for spec in self.inputs:
            if spec.name not in given:
                values.append(jnp.full(spec.shape, spec.init or 0.0, jax_dtype(BY_NAME[spec.dtype])))
                continue
            value = given[spec.name]
            check(spec, value)
            self._check_device(spec, value)
            values.append(jnp.asarray(value))
        if is_tracing() and any(isinstance(value, jax.core.Tracer) for value in values):
            raise ArgumentError(
                f"'{self.entry}': expected a compiled program not to be called in a function to compile"
            )
        return vary(values)

    def _check_device(self, spec: Spec, value: Any) -> None:
        if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
            return
        for device in value.devices():
            if {"gpu": "cuda"}.get(device.platform, device.platform) != self.platform:
                raise ArgumentError(
                    f"argument '{spec.name}': expected an array on '{self.platform}', for which the program was "
                    f"compiled, but got one on '{device}'"
                )

    def __call__(self, *args: Any, state: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """Returns the results by name; with states, (results, next state)."""
        values = self._positional(args, named)
        binary = self._forward()
        if not binary.states:
            if state:
                raise ArgumentError(f"state: expected none, because the program has no states, but got {_names(state)}")
            return self._dict(self._differentiable(*values))
        results, after = _call_with_states(self, tuple(self._states(binary, state)), tuple(values))
        return self._dict(results), {**(state or {}), **dict(zip(binary.states, after))}

    def _dict(self, results: Sequence[Any]) -> dict[str, Any]:
        return {spec.name: value for spec, value in zip(self.outputs, results)}

    def flat(self, values: Sequence[Any]) -> list[Any]:
        """Returns the results in order, for checked arguments in order, of a function without states."""
        return list(self._differentiable(*values))

    def _run_forward(self, states: Sequence[Any], values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Runs the program without derivatives, and returns (results, next states)."""
        binary = self._forward()
        with self._lock:
            if self._call is None:
                before = [b for b, _ in binary.states.values()]
                after = [a for _, a in binary.states.values()]
                inputs = [binary.inputs[spec.name] for spec in self.inputs]
                outputs = [binary.results[spec.name] for spec in self.outputs]
                self._call = Call(binary.loaded, before + inputs, after + outputs + [ARENA])
        made = self._call(*states, *values)
        count = len(binary.states)
        return made[count : count + len(self.outputs)], made[:count]

    # Derivatives

    def _make_differentiable(self) -> Callable[..., Any]:
        @jax.custom_vjp
        def call(*values: Any) -> Any:
            return tuple(self._run_forward((), values)[0])

        def forward(*primals: Any) -> Any:
            values = [p.value for p in primals]
            wrt = [n for n, p in enumerate(primals) if p.perturbed and self._wants(n)]
            if not wrt:
                return tuple(self._run_forward((), values)[0]), None
            training = self._trained(wrt)
            if training.states:
                raise ArgumentError(_NO_STATES)
            made = training.forward(*values)
            outputs = made[: len(self.outputs)]
            kept = [values[n] for n in training.kept_inputs] + [outputs[n] for n in training.kept_outputs]
            # A program without temporaries has nothing to save.
            return tuple(outputs), (_Key(tuple(wrt)), made[len(self.outputs) :], kept)

        def backward(residuals: Any, cotangents: Sequence[Any]) -> Any:
            if residuals is None:
                return tuple(None for _ in self.inputs)
            key, left, kept = residuals
            training = self._trained(key.wrt)
            given = [self._cotangent(training, n, cotangents[n]) for n in training.through]
            for n, cotangent in enumerate(cotangents):
                if n not in training.through and self.outputs[n].differentiable and not _is_zero(cotangent):
                    raise ArgumentError(
                        f"result '{self.outputs[n].name}' of shape {list(self.outputs[n].shape)}: expected a gradient "
                        "only at the results without dimensions (the loss), but got one at this result; "
                        "compile with differentiate_outputs='all'"
                    )
            made = training.backward(*left, *kept, *given)
            gradients = dict(zip(training.wrt, made))
            return tuple(gradients.get(n) for n in range(len(self.inputs)))

        call.defvjp(forward, backward, symbolic_zeros=True)
        return call

    def _wants(self, index: int) -> bool:
        """Whether an input that JAX differentiates has a gradient; raises if it should have one but does not."""
        spec = self.inputs[index]
        if spec.differentiable:
            return True
        if spec.dtype == "int32":
            return False
        raise ArgumentError(
            f"argument '{spec.name}': expected an argument with a gradient, but te does not compute one"
        )

    def _cotangent(self, training: _Training, index: int, value: Any) -> Any:
        spec = self.outputs[index]
        dtype = jax_dtype(BY_NAME[spec.dtype])
        return jnp.zeros(spec.shape, dtype) if _is_zero(value) else jnp.asarray(value, dtype)

    def _numbers(self, wrt: Sequence[str] | None) -> list[int]:
        names = [spec.name for spec in self.inputs if spec.differentiable]
        for name in wrt or ():
            if name not in names:
                raise ArgumentError(f"wrt: expected names of {_names(names)}, but got '{name}'")
        chosen = names if wrt is None else list(wrt)
        return [n for n, spec in enumerate(self.inputs) if spec.name in chosen]

    def value_and_grad(
        self,
        *args: Any,
        wrt: Sequence[str] | None = None,
        cotangents: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Any:
        """Runs one forward and backward in one call, and returns (results, gradients), both by name.

        wrt: names of inputs; None: all that have gradients. cotangents: by name of the result; the
        default is 1 for a scalar that is the only result, else 0. With states, it returns (results,
        gradients, next state); start with `init_state(wrt)`.
        """
        numbers = self._numbers(wrt)
        values = self._positional(args, named)
        training = self._trained(numbers)
        given = dict(cotangents or {})
        unknown = [name for name in given if name not in {self.outputs[n].name for n in training.through}]
        if unknown:
            raise ArgumentError(
                f"cotangents: expected results {_names(self.outputs[n].name for n in training.through)}, "
                f"but got '{unknown[0]}'"
            )
        flat = []
        for n in training.through:
            spec = self.outputs[n]
            if spec.name in given:
                check(spec, given[spec.name], "cotangent")
                flat.append(jnp.asarray(given[spec.name]))
            else:
                one = not given and spec.shape == () and len(training.through) == 1
                flat.append(jnp.full(spec.shape, 1 if one else 0, jax_dtype(BY_NAME[spec.dtype])))
        if not given and not (len(flat) == 1 and self.outputs[training.through[0]].shape == ()):
            raise ArgumentError("cotangents: expected some, because the result is not one scalar, but got none")
        results, gradients, after = self.flat_value_and_grad(training, self._states(training, state), values, flat)
        named_gradients = {self.inputs[n].name: g for n, g in zip(training.wrt, gradients) if n in numbers}
        if not training.states:
            return self._dict(results), named_gradients
        return self._dict(results), named_gradients, {**(state or {}), **dict(zip(training.states, after))}

    def flat_value_and_grad(
        self, training: _Training, states: Sequence[Any], values: Sequence[Any], cotangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Returns (results, gradients of training.wrt, next states), all in order."""
        made = training.both(*states, *values, *cotangents)
        a, b = len(training.states), len(training.states) + len(self.outputs)
        return made[a:b], made[b : b + len(training.wrt)], made[:a]


@jax.tree_util.register_static
class _Key:
    """The program that a residual belongs to. It is a part of the residual's type, not of its values."""

    def __init__(self, wrt: tuple[int, ...]) -> None:
        self.wrt = wrt

    def __hash__(self) -> int:
        return hash(self.wrt)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.wrt == other.wrt


_NO_STATES = (
    "expected a function without states to differentiate, but its recipe has states, which the backward changes; use "
    "value_and_grad, which returns them"
)


def _call_with_states(function: Function, states: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
    @jax.custom_vjp
    def call(states: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
        return function._run_forward(states, values)

    def forward(states: Any, values: Any) -> Any:
        raise ArgumentError(_NO_STATES)

    call.defvjp(forward, lambda residuals, cotangents: None)  # type: ignore[arg-type, return-value]
    return call(states, values)


def _is_zero(cotangent: Any) -> bool:
    return cotangent is None or isinstance(cotangent, jax.custom_derivatives.SymbolicZero)


def _names(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def load(
    source: Any,
    entry: str,
    *,
    recipe: Recipe | str | None = None,
    backward_override: str | None = None,
    target: str | None = None,
    strict: bool = False,
    platform: str | None = None,
    source_name: str = "<text>",
    isolation: Isolation | None = None,
    **options: Any,
) -> Function:
    """Loads the function `entry` of an MLIR program as a function of JAX arrays.

    source: text or bytecode, or an object with `to_mlir()`. platform: "cpu" or "cuda", by
    default that of JAX's default device. Other arguments are those of te_mlir.compile.
    The function is compiled now, and its derivative when it is first needed.

    Raises CompileError with the compiler's messages and their locations, and RuntimeFailure
    if the device cannot run the step.
    """
    chosen, device = platform_of((), platform)
    text = source.to_mlir() if hasattr(source, "to_mlir") else source
    settings = Options(recipe, backward_override, target, strict, tuple(options.items()))
    return Function(
        lambda wrt: (text, wrt is not None), entry, settings, chosen, device, source_name, isolation=isolation
    )
