"""Compiles JAX functions with te: `jit`, `compile`, `value_and_grad`.

A function is traced once for each shape of its arguments, imported as a whole, and compiled.
JAX runs, and differentiates, some operations before the compiled step (indices, tables, transposes
of weights) and after it (views of results).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from te_mlir import build
from te_mlir.dtypes import BY_NAME
from te_mlir.errors import ArgumentError, ImportFailure
from te_mlir.frontend.attention import AS_PRODUCTS
from te_mlir.frontend.emitter import FLOATS, te_name
from te_mlir.frontend.graph import Var, ancestors, short
from te_mlir.jax._ffi import jax_dtype
from te_mlir.jax.calls import NUMPY, Default, by_position, canonical, is_weak, leaf_names, refuse_inside, some
from te_mlir.jax.experts import as_experts
from te_mlir.jax.function import Function
from te_mlir.jax.graph import Evaluator, Graph, describe, takes_gradients, trace
from te_mlir.jax.importer import Importer
from te_mlir.jax.specs import Options, Spec, State, check, platform_of
from te_mlir.jax.varying import vary
from te_mlir.program import report
from te_mlir.recipes import Recipe


def _other_products(graph: Graph) -> list[str]:
    """Why GEMMs of a function that are not floating-point are not imported."""
    nodes = {node for output in graph.outputs if isinstance(output, Var) for node in ancestors(output)}
    return [
        f"{describe(node)}: its result has elements of {short(node.output.dtype)}; {FLOATS}"
        for node in sorted(nodes, key=lambda node: node.index)
        if node.name == "dot_general" and te_name(node.output.dtype) in (None, "int32")
    ]


class Compiled:
    """A JAX function that is compiled for arguments of known shapes, and is called like the original.

    names: the names of the leaves of the arguments, in order. If the recipe has states, calls take
    `state=` and return (result, next state).
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        options: Options,
        platform: str | None = None,
        differentiate_outputs: str = "loss",
        max_segments_per_seq: int = 32,
        unused_padding: bool = False,
    ) -> None:
        if max_segments_per_seq < 1:
            raise ValueError(f"expected 'max_segments_per_seq' to be 1 or more, but got {max_segments_per_seq}")
        if differentiate_outputs not in ("loss", "all"):
            raise ValueError(
                f"expected 'differentiate_outputs' to be 'loss' or 'all', but got {differentiate_outputs!r}"
            )
        self.tree: Any
        self._wrapped = function
        leaves, self.tree = jax.tree_util.tree_flatten(tuple(args))
        self.names = leaf_names(function, args)
        self.types: list[jax.ShapeDtypeStruct] = []
        for name, leaf in zip(self.names, leaves):
            try:
                dtype = canonical(leaf.dtype)
                self.types.append(jax.ShapeDtypeStruct(leaf.shape, dtype, weak_type=is_weak(leaf)))
            except (AttributeError, TypeError):
                raise ArgumentError(
                    f"argument '{name}': expected an array, but got {type(leaf).__name__}; jnp.asarray converts a "
                    "number, and functools.partial binds other values"
                ) from None
        given = jax.tree_util.tree_unflatten(self.tree, self.types)
        if any(isinstance(arg, Default) for arg in given):
            bound = functools.wraps(function)(
                lambda *args: function(*(arg.value if isinstance(arg, Default) else arg for arg in args))
            )
            self.graph, self.out_tree = trace(bound, given)
        else:
            self.graph, self.out_tree = trace(function, given)
        as_experts(self.graph)
        platform_name, device = platform_of(leaves, platform)
        deterministic = bool(dict(options.pipeline).get("deterministic"))
        self.importer = Importer(self.graph, self.names, platform_name != "cpu", deterministic)
        self.importer.max_segments_per_seq, self.importer.unused_padding = max_segments_per_seq, unused_padding
        self.exits = self.importer.import_all()
        if self.importer.reasons:
            raise ImportFailure(self.importer.reasons)
        if not self.importer.function.layers() and not self.importer.routed:
            none = ["the function has no GEMM of an argument with a weight"]
            raise ImportFailure(_other_products(self.graph) or none)
        exits = self.importer.exits
        passing = {exit.place for value, exit in exits.items() if takes_gradients(value)}
        outputs = [
            Spec(f"result{n}", value.shape, value.dtype, differentiable=n in passing)
            for n, (value, _) in enumerate(self.importer.function.results)
        ]
        # The indices of the function's results without dimensions; only those that take gradients, if any does.
        scalars = {exits[v].place for v in self.graph.outputs if isinstance(v, Var) and v in exits and not v.shape}
        self._losses = scalars & passing or scalars
        #: Results that have cotangents: by default only the losses, if there are any.
        self.through = [
            n
            for n in range(len(outputs))
            if differentiate_outputs == "all" or not scalars & passing or n in self._losses
        ]
        inputs = [
            Spec(f.name, f.shape, f.dtype, differentiable=f.differentiable and f.dtype != "int32")
            for f in self.importer.feeds
        ]
        #: The compiled part of the function.
        self.function = Function(
            lambda wrt: (self.text(wrt), False), "step", options, platform_name, device, "<jax>", inputs, outputs
        )

    def text(self, wrt: Sequence[int] | None = None) -> str:
        """The text of the compiled program. wrt: the arguments to differentiate with respect to."""
        region, module = self.importer.function, build.Module()
        step = build.Function(module, "step")
        operands = []
        for feed, (value, attributes) in zip(self.importer.feeds, region.arguments):
            operands.append(step.argument(feed.name, value.shape, value.dtype, weight="te.weight" in attributes))
        results = [(value.shape, value.dtype) for value, _ in region.results]
        names = [f"result{n}" for n in range(len(results))]
        if wrt is None:
            values = step.call(region, operands)
        else:
            cotangents = [
                step.argument(f"grad.result{n}", *result) if n in self.through else step.constant(0.0, *result)
                for n, result in enumerate(results)
            ]
            values = step.vjp(region, operands, cotangents, list(wrt))
            names += [f"grad.{self.importer.feeds[n].name}" for n in wrt]
        for name, value in zip(names, values):
            step.result(name, value)
        module.functions = [region, step]
        return module.to_mlir()

    def report(self, what: str = "precision", format: str = "text") -> str:
        """Reports of the compiled part, with gradients of all arguments: precision, memory, constraints.

        As text, also the attention that is compiled as products, with the reasons.
        """
        wrt = [n for n, spec in enumerate(self.function.inputs) if spec.differentiable]
        options = self.function.options
        target = options.target or ("reference" if self.function.platform == "cpu" else None)
        page = report(
            self.text(wrt),
            "step",
            what,
            format,
            recipe=options.recipe,
            backward_override=options.backward_override,
            target=target,
            **dict(options.pipeline),
        )
        if format != "text":
            return page
        notes = [f"  {AS_PRODUCTS}: {describe(node)}: {reason}\n" for node, reason in self.importer.spelled]
        return page + "".join(notes)

    # Calls

    def _leaves(self, args: Sequence[Any]) -> list[Any]:
        leaves, tree = jax.tree_util.tree_flatten(tuple(args))
        refuse_inside(self._wrapped, leaves)
        if tree != self.tree:
            raise ArgumentError(f"expected arguments like those of the compilation, but got {self._unlike(args)}")
        # JAX converts the types of NumPy's arrays in the same way.
        leaves = [np.asarray(v, canonical(v.dtype)) if isinstance(v, NUMPY) else v for v in leaves]
        for name, type_, leaf in zip(self.names, self.types, leaves):
            dtype = te_name(str(type_.dtype))
            if dtype is not None:
                spec = Spec(name, tuple(type_.shape), dtype)
                check(spec, leaf)
                self.function._check_device(spec, leaf)
            elif np.shape(leaf) != type_.shape or getattr(leaf, "dtype", None) != type_.dtype:
                got = f"{leaf.dtype} {list(np.shape(leaf))}" if hasattr(leaf, "dtype") else type(leaf).__name__
                raise ArgumentError(f"argument '{name}': expected {type_.dtype} {list(type_.shape)}, but got {got}")
        return leaves

    def _unlike(self, args: Sequence[Any]) -> str:
        """How arguments with another pytree differ from those of the compilation."""
        given = leaf_names(self._wrapped, args)
        missing, new = ([n for n in a if n not in b] for a, b in ((self.names, given), (given, self.names)))
        parts = [f"no {some(missing)}"] if missing else []
        parts += [f"{some(new)}, which they did not have"] if new else []
        return ", and ".join(parts) or str(jax.tree_util.tree_structure(tuple(args)))

    def _feeds(self, leaves: Sequence[Any]) -> list[Any]:
        evaluate = Evaluator(dict(zip(self.graph.inputs, leaves)))
        values = []
        for feed in self.importer.feeds:
            given = [evaluate(atom) for atom in feed.atoms]
            value = feed.make(*given) if feed.make is not None else given[0]
            values.append(jnp.asarray(value, jax_dtype(BY_NAME[feed.dtype])))
        return vary(values)

    def _finish(self, leaves: Sequence[Any], results: Sequence[Any]) -> Any:
        known: dict[Var, Any] = dict(zip(self.graph.inputs, leaves))
        for var, found in self.importer.exits.items():
            known[var] = found.restore(results[found.place])
        evaluate = Evaluator(known)
        return jax.tree_util.tree_unflatten(self.out_tree, [evaluate(output) for output in self.graph.outputs])

    def __call__(self, *args: Any, state: Mapping[str, Any] | None = None, **named: Any) -> Any:
        leaves = self._leaves(by_position(self._wrapped, args, named))
        made = self.function(*self._feeds(leaves), state=state)
        stateful = isinstance(made, tuple)
        results = made[0] if stateful else made
        finished = self._finish(leaves, [results[spec.name] for spec in self.function.outputs])
        return (finished, made[1]) if stateful else finished

    # Gradients in the same call

    def _wrt(self, argnums: Sequence[int]) -> tuple[list[int], list[int]]:
        """(Indices of the leaves of these arguments, indices of the step's arguments that are computed from them.)"""
        counts = [child.num_leaves for child in self.tree.children()]
        leaves = []
        for n in argnums:
            if not isinstance(n, int) or not -len(counts) <= n < len(counts):
                raise ArgumentError(f"expected 'argnums' to have indices of {len(counts)} arguments, but got {n!r}")
            first = sum(counts[: n % len(counts)])
            own = range(first, first + counts[n])
            leaves += [leaf for leaf in own if jnp.issubdtype(self.types[leaf].dtype, jnp.floating)]
            if own and not set(own) & set(leaves):
                raise ArgumentError(
                    f"expected 'argnums' to name floating-point arguments, but '{self.names[first]}' has elements of "
                    f"{self.types[first].dtype}"
                )
        chosen = {self.graph.inputs[leaf] for leaf in leaves}
        feeds = []
        for n, feed in enumerate(self.importer.feeds):
            variables = [atom for atom in feed.atoms if isinstance(atom, Var)]
            used = {v for atom in variables for node in ancestors(atom) for v in node.inputs} | set(variables)
            if used & chosen and self.function.inputs[n].dtype != "int32":
                if not self.function._wants(n):
                    continue
                feeds.append(n)
        return leaves, feeds

    def init_state(self, argnums: Sequence[int] | None = None) -> State:
        """The initial states: for calls or, if `argnums` is not None, for `value_and_grad` with this `argnums`."""
        if argnums is None:
            return self.function.init_state()
        return self.function.init_state([self.function.inputs[n].name for n in self._wrt(argnums)[1]])

    def value_and_grad(self, *args: Any, argnums: Sequence[int] = (0,), state: Mapping[str, Any] | None = None) -> Any:
        """Returns (result, gradients of the arguments `argnums`), and the next state if there are states.

        The function's result must be a scalar loss, or have exactly one scalar. Raises ArgumentError otherwise, and if
        an argument of `argnums` is not floating-point.
        """
        leaves = self._leaves(args)
        numbers, wrt = self._wrt(argnums)
        losses = [n for n in self.through if n in self._losses]
        if len(losses) != 1 or len(self.through) != 1:
            raise ArgumentError(
                f"expected a function with one scalar result, but got {len(losses)}; use jax.vjp for other results"
            )

        def feeds_of(*chosen: Any) -> list[Any]:
            given = list(leaves)
            for number, value in zip(numbers, chosen):
                given[number] = value
            made = self._feeds(given)
            return [made[n] for n in wrt]

        feeds = self._feeds(leaves)
        _, pull = jax.vjp(feeds_of, *(jnp.asarray(leaves[n]) for n in numbers))
        training = self.function._trained(wrt)
        states = self.function._states(training, state)
        loss = self.function.outputs[losses[0]]
        results, gradients, after = self.function.flat_value_and_grad(
            training, states, feeds, [jnp.ones(loss.shape, jax_dtype(BY_NAME[loss.dtype]))]
        )
        pulled = dict(zip(numbers, pull(list(gradients))))
        every = [
            pulled.get(n) if n in pulled else np.zeros(t.shape, jax.dtypes.float0) for n, t in enumerate(self.types)
        ]
        trees = jax.tree_util.tree_unflatten(self.tree, every)
        finished = self._finish(leaves, results)
        chosen = tuple(trees[n] for n in argnums)
        if not training.states:
            return finished, chosen
        return finished, chosen, {**(state or {}), **dict(zip(training.states, after))}


class Jitted:
    """A JAX function that is compiled for each set of argument shapes, when it is first called with them."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Options,
        platform: str | None,
        differentiate_outputs: str,
        max_segments_per_seq: int = 32,
        unused_padding: bool = False,
    ) -> None:
        if not callable(function):
            raise ArgumentError(f"expected a function of JAX arrays, but got {type(function).__name__}")
        functools.update_wrapper(self, function)
        self.function, self.options, self.platform = function, options, platform
        self.differentiate_outputs = differentiate_outputs
        self.max_segments_per_seq, self.unused_padding = max_segments_per_seq, unused_padding
        #: The compiled functions by the types of the arguments.
        self.compiled: dict[Any, Compiled] = {}
        self._lock = threading.RLock()

    def lower(self, *args: Any) -> Compiled:
        """The compiled function for arguments like these."""
        leaves, tree = jax.tree_util.tree_flatten(args)
        refuse_inside(self.function, leaves)
        types = (canonical(v.dtype) if isinstance(v, NUMPY) else getattr(v, "dtype", type(v)) for v in leaves)
        key = (tree, tuple((np.shape(v), str(dtype), is_weak(v)) for v, dtype in zip(leaves, types)))
        with self._lock:
            if key not in self.compiled:
                self.compiled[key] = Compiled(
                    self.function,
                    args,
                    self.options,
                    self.platform,
                    self.differentiate_outputs,
                    self.max_segments_per_seq,
                    self.unused_padding,
                )
            return self.compiled[key]

    def __call__(self, *args: Any, state: Mapping[str, Any] | None = None, **named: Any) -> Any:
        args = by_position(self.function, args, named)
        return self.lower(*args)(*args, state=state)

    def init_state(self, *args: Any) -> State:
        """The initial states for calls with arguments like these."""
        return self.lower(*args).init_state()


class ValueAndGrad:
    """A function that returns (result, gradients), and the next state if the recipe has states."""

    def __init__(self, function: Jitted, argnums: int | Sequence[int]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.argnums = (argnums,) if isinstance(argnums, (int, str)) else tuple(argnums)
        self._single = isinstance(argnums, int)

    def __call__(self, *args: Any, state: Mapping[str, Any] | None = None, **named: Any) -> Any:
        args = by_position(self.function.function, args, named)
        made = self.function.lower(*args).value_and_grad(*args, argnums=self.argnums, state=state)
        return (made[0], made[1][0], *made[2:]) if self._single else made

    def init_state(self, *args: Any) -> State:
        """The initial states for calls with arguments like these."""
        return self.function.lower(*args).init_state(self.argnums)


def jit(
    function: Callable[..., Any],
    *,
    recipe: Recipe | str | None = None,
    backward_override: str | None = None,
    target: str | None = None,
    strict: bool = False,
    platform: str | None = None,
    differentiate_outputs: str = "loss",
    max_segments_per_seq: int = 32,
    unused_padding: bool = False,
    **options: Any,
) -> Jitted:
    """Compiles `function` with te for each shape of its arguments, and returns a pure function of JAX.

    It can be called inside of jax.jit, and differentiated by jax.grad. platform: "cpu" or "cuda"; by
    default that of the arguments, or of JAX's default device. differentiate_outputs: "loss" takes
    gradients only through the rank-0 results that have any, if there are such; "all" takes them through every result.
    max_segments_per_seq: how many segments a row of a batch may have where attention has a mask of segment ids.
    unused_padding: whether nothing reads results of attention at tokens that no token sees, so that they may be others
    than those of JAX.
    Other arguments are those of te_mlir.compile. Without `deterministic=True`, gradients of attention are added in any
    order on a GPU, as by XLA: they can have other bits each time, and need less time and memory. With it, algorithms of
    GEMMs are not chosen by time, either.

    Raises ImportFailure, which lists each operation that te cannot express, with its shapes
    and line, and CompileError if a recipe cannot be applied.
    """
    settings = Options(recipe, backward_override, target, strict, tuple(options.items()))
    return Jitted(function, settings, platform, differentiate_outputs, max_segments_per_seq, unused_padding)


def compile(function: Callable[..., Any], example_args: Sequence[Any], **options: Any) -> Compiled:
    """Compiles `function` now, for arguments like `example_args` (arrays or ShapeDtypeStructs).

    Options are those of `jit`.
    """
    if not isinstance(example_args, (list, tuple)):
        raise ArgumentError(f"expected 'example_args' to be a list of arguments, but got {type(example_args).__name__}")
    return jit(function, **options).lower(*example_args)


def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> ValueAndGrad:
    """A function that returns (result, gradients) of a loss in one call; with states, (result, gradients, next state).

    argnums: the index of the argument to differentiate with respect to, or several. Forward and backward run in one
    step, so nothing is saved between calls, and the next state includes the changes of the backward. The function may
    return other results with the loss, without `has_aux`. Options are those of `jit`.
    """
    if "has_aux" in options:
        raise ArgumentError(
            "expected no 'has_aux': a function may return other results with the loss, and they are returned as they are"
        )
    return ValueAndGrad(jit(function, **options), argnums)
