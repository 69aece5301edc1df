"""The backend "te" of torch.compile, and `jit`, which also gives access to the backend.

Each captured graph becomes a `Graph` in steps, each a function of its own: `capture` traces it to
ATen, `plan` chooses the nodes to compile, which are as many as the importer supports, and `build`
creates the regions and the code around them. A node that cannot be imported stays in PyTorch, where
autograd differentiates it, and the nodes that depend on it belong to the next region.
"""

from __future__ import annotations

import contextlib
import copy
import json
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from te_mlir.errors import ArgumentError, ImportFailure
from te_mlir.frontend.attention import AS_PRODUCTS
from te_mlir.program import one_page, report
from te_mlir.recipes import HighPrecision, Recipe
from te_mlir.torch import graph as graphs
from te_mlir.torch import varlen
from te_mlir.torch.arguments import describe
from te_mlir.torch.calls import Calls, ignore_logs, raise_limits
from te_mlir.torch.capacities import Capacities
from te_mlir.torch.capture import capture
from te_mlir.torch.masks import Kind, OtherMask
from te_mlir.torch.parts import Built, Making, Part, build
from te_mlir.torch.plan import NO_LAYER, plan
from te_mlir.torch.runner import Region
from te_mlir.torch.shapes import Sizing, Specialised
from te_mlir.torch.signature import Options
from te_mlir.torch.states import States, WithStates
from te_mlir.torch.symbols import is_size
from te_mlir.torch.tensor_parallel import Localised, localise


class Graph:
    """A captured graph: the parts of it that are compiled, and why the rest is not.

    reasons: one line for each node that stays in PyTorch although it depends on a
    parameter. parts: the compiled parts, in the order in which they run.
    """

    def __init__(
        self,
        tracing: graphs.Tracing,
        examples: Sequence[torch.Tensor],
        options: Options,
        differentiate_outputs: str,
        states: States | None = None,
        calls: Calls | None = None,
    ) -> None:
        self.tracing, self.calls = tracing, calls or Calls()
        module = self.module = tracing.module
        self.making = Making(options, differentiate_outputs, states or States())
        self.names, self.buffers = graphs.argument_names(module), graphs.buffers(module)
        self.masks: dict[str, Kind] = {}
        self._import(examples)

    def _import(self, examples: Sequence[torch.Tensor]) -> None:
        self.built: Built | None = None
        self.ignored: tuple[str, ...] = ()
        self.spelled: tuple[str, ...] = ()
        #: Whether `reasons` are an error.
        self.strict = self.making.options.strict
        captured = capture(self.tracing, examples, self.names)
        if isinstance(captured, str):
            self.reasons = [captured]
            return
        self.ignored = captured.ignored
        # Without rows, layers of experts have nothing to compute.
        self.strict &= not captured.is_empty
        planned = plan(captured, self.masks)
        self.reasons = list(planned.reasons)
        spelled = [pair for part in planned.regions for pair in part.importer.spelled]
        self.spelled = tuple(f"{describe(node.origin)}: {reason}" for node, reason in spelled)
        if planned.regions:
            self.built = build(captured, planned, self.making, self.buffers)
            self.reasons += self.built.reasons

    @property
    def parts(self) -> list[Part]:
        return self.built.parts if self.built is not None else []

    @property
    def regions(self) -> list[Region]:
        """The compiled parts, in the order in which they run."""
        return [part.region for part in self.parts]

    @property
    def region(self) -> Region | None:
        """The first of the compiled parts, or None."""
        return self.parts[0].region if self.parts else None

    def __call__(self, *tensors: torch.Tensor) -> Any:
        self.calls.all += 1
        return self._run(tensors)

    def _run(self, tensors: Sequence[torch.Tensor]) -> Any:
        built = self.built
        if built is None:
            if self.reasons != [NO_LAYER]:
                self.calls.leave(self.reasons[0])
            return self.module(*tensors)
        states = built.generators.states()
        try:
            return built.run(tensors)
        except OtherMask as found:
            self._import_again(found, tensors)
        built.generators.restore(states)
        return self._run(tensors)

    def _import_again(self, found: OtherMask, tensors: Sequence[torch.Tensor]) -> None:
        """Imports the graph again for other masks; with strict, it is an error if nodes stay in PyTorch because of them."""
        if self.built is not None and not self.built.repeats:
            raise ArgumentError(
                f"{describe(found.origin)}: {found.reason} in this call, unlike when its graph was compiled; the call "
                "cannot be run again with another graph, because it writes to its inputs or buffers; apply "
                "torch.compiler.disable to run the function in PyTorch"
            )
        self.masks[found.mask] = found.kind
        first = self.region.is_first_microbatch if self.region else None
        self._import(tensors)
        for region in self.regions:
            region.is_first_microbatch = first
        if self.reasons and self.strict:
            raise ImportFailure(self.reasons)
        if self.reasons:
            warnings.warn("te: parts of a graph stay in PyTorch:\n  " + "\n  ".join(self.reasons), stacklevel=2)

    def reports(self, what: str, format: str) -> dict[str, str]:
        """Reports of the compiled parts, under the names "part 0" and so on."""
        found: dict[str, str] = {}
        for index, region in enumerate(self.regions):
            training = bool(region.signature.wrt)
            region.load(training)  # This settles its options.
            compilation = region.compilation
            text, options = compilation.text(training), compilation.options_for(training)
            found[f"part {index}"] = report(text, "step", what, format, **options)
        return found

    def report(self, what: str = "precision", format: str = "text") -> str:
        """Reports of the compiled parts: precision, memory or constraints; as "html", all of them on one page."""
        if not self.parts:
            return "no part of this graph is compiled\n"
        reports = self.reports(what, format)
        if format == "html":
            return one_page(reports, self.notes())
        if len(reports) == 1:
            return reports["part 0"]
        return "".join(f"{name}\n{text}" for name, text in reports.items())

    def notes(self) -> list[str]:
        """The nodes that are not compiled, or not as te.attention, with the reasons, and calls that have no effect."""
        return [
            *(f"stays in PyTorch: {reason}" for reason in self.reasons),
            *(f"{AS_PRODUCTS}: {reason}" for reason in self.spelled),
            *(f"has no effect: {call}" for call in self.ignored),
        ]


def _strange(module: GraphModule, examples: Sequence[Any]) -> list[str]:
    """Why compiled parts cannot take arguments of a graph: one reason for each kind of argument."""
    reasons: dict[Any, str] = {}
    for example, name in zip(examples, graphs.argument_names(module)):
        if is_size(example):
            continue
        if not isinstance(example, torch.Tensor) or is_traceable_wrapper_subclass(example):
            kind = type(example)
            reasons.setdefault(kind, f"argument '{name}' is a {kind.__name__}, not a tensor in memory")
    return list(reasons.values())


def _continues(module: GraphModule) -> bool:
    """Whether the code of the model continues behind a graph, at a graph break."""
    return getattr(getattr(module, "compile_subgraph_reason", None), "graph_break", False)


#: The modes of torch.compile, and whether they record steps on a GPU.
_MODES = {"default": False, "reduce-overhead": True, "max-autotune": True, "max-autotune-no-cudagraphs": False}


class Backend:
    """A backend for torch.compile, with the graphs that it compiled.

    Options are those of `te_mlir.compile`. strict: a graph, or a part of one, that
    cannot be imported is an error, as is a fall-back to higher precision.
    differentiate_outputs: "loss" takes gradients only through the rank-0 results of a graph, if it
    has any that need gradients, and does not end at a graph break; "all" takes them through every result. cache_weights: casts of weights are
    kept while `is_first_microbatch` of this object is False. main_grad: gradients of parameters
    are added to their `main_grad`, float32, and `grad` stays None. cuda_graph: forward and
    backward are recorded once and replayed; the next call overwrites results with dimensions.
    capacities: the sizes that those of batches and sequences are rounded up to, from the second shape on; by default the
    powers of two. Sizes above the largest are compiled as they are. mode: torch.compile's; "reduce-overhead" and "max-autotune" are cuda_graph=True on a GPU.
    Activations are recomputed in the backward, as torch.compile does; remat="nothing" saves them.
    """

    def __init__(
        self,
        recipe: Recipe | None = None,
        backward_override: str | None = None,
        target: str | None = None,
        strict: bool = False,
        differentiate_outputs: str = "loss",
        cache_weights: bool = False,
        main_grad: bool = False,
        cuda_graph: bool = False,
        mode: str | None = None,
        capacities: Sequence[int] | None = None,
        **pipeline: Any,
    ) -> None:
        if differentiate_outputs not in ("loss", "all"):
            raise ValueError(
                f"expected 'differentiate_outputs' to be 'loss' or 'all', but got {differentiate_outputs!r}"
            )
        if "results_in_arena" in pipeline:
            raise ValueError("expected no 'results_in_arena', because te_mlir.torch chooses these results itself")
        self.options = Options(
            recipe, backward_override, target, strict, cache_weights, main_grad, cuda_graph, tuple(pipeline.items())
        )
        self.strict, self.differentiate_outputs = strict, differentiate_outputs
        self.capacities = Capacities(capacities)
        self._records = _records(mode)
        self._is_first_microbatch: bool | None = True if cache_weights else None
        #: The captured graphs, in order.
        self.graphs: list[Graph] = []
        #: Why further graphs stay in PyTorch as a whole.
        self.refused: list[str] = []
        #: Why sizes are not rounded up, but compiled as they are.
        self.exact: list[str] = []
        #: The calls of the graphs. `calls.left` is the number of those that ran only in PyTorch.
        self.calls = Calls()
        self.states = States(recipe=recipe or HighPrecision())
        self._printed = (0, 0, 0, 0)
        ignore_logs()

    def __getstate__(self) -> dict[str, Any]:
        # A copy compiles its graphs again, and has copies of the states.
        return {**self.__dict__, "graphs": [], "refused": [], "exact": [], "calls": Calls(), "_printed": (0, 0, 0, 0)}

    def __call__(self, module: GraphModule, examples: list[Any], mode: str | None = None) -> Callable[..., Any]:
        """Compiles a graph, as torch.compile asks. mode: that of torch.compile, if it is called with one."""
        records = self._records or _records(mode)
        raise_limits()
        # A float that changes makes a graph of its own. As an argument of a graph it would be a number that te cannot trace.
        torch._dynamo.config.specialize_float = True
        # At a graph break, a number is a condition or part of a formula as often as a loss.
        differentiate = "all" if _continues(module) else self.differentiate_outputs
        local = localise(module, examples, self.options.main_grad)
        if isinstance(local, Localised):
            run, taken = self._compile(local.module, local.arguments(examples), records, differentiate), local.arguments
            return lambda *arguments: run(*taken(arguments))
        reasons = _strange(module, examples) if local is None else [local]
        if reasons:
            if self.strict:
                raise ImportFailure(reasons)
            return lambda *arguments: self._leave(module, arguments, reasons)
        return self._compile(module, examples, records, differentiate)

    def _compile(
        self, module: GraphModule, examples: Sequence[Any], records: bool, differentiate: str
    ) -> Callable[..., Any]:
        """Compiles a graph whose arguments are tensors in memory and sizes."""
        sizes = [i for i, example in enumerate(examples) if is_size(example)]
        if sizes:
            make = lambda tracing, tensors: self._graph(tracing, tensors, records, differentiate)
            leave = None if self.strict else lambda reason, arguments: self._leave(module, arguments, [reason])
            scaled = not isinstance(self.options.recipe, (HighPrecision, type(None)))
            sizing = Sizing(make, leave, self.capacities, scaled, self._note_exact)
            rounded = varlen.Rounded(module)
            rounded.run = Specialised(module, sizes, sizing, {*rounded.lengths, *rounded.sizes})
            return rounded
        return self._graph(graphs.Tracing(module), examples, records, differentiate)

    def _note_exact(self, reason: str) -> None:
        if reason not in self.exact:
            self.exact.append(reason)

    def _leave(self, module: GraphModule, arguments: Sequence[Any], reasons: Sequence[str]) -> Any:
        """Runs a call of a graph in PyTorch, and notes the reasons."""
        new = [reason for reason in reasons if reason not in self.refused]
        self.refused += new
        if new:
            warnings.warn("te: a graph stays in PyTorch:\n  " + "\n  ".join(new), stacklevel=3)
        self.calls.all += 1
        self.calls.leave(reasons[0])
        return module(*arguments)

    def _graph(
        self, tracing: graphs.Tracing, examples: Sequence[torch.Tensor], records: bool, differentiate: str
    ) -> Graph:
        options = self.options
        if records and any(example.is_cuda for example in examples):
            options = options._replace(cuda_graph=True)
        graph = Graph(tracing, examples, options, differentiate, self.states, self.calls)
        self.graphs.append(graph)
        for region in graph.regions:
            region.is_first_microbatch = self._is_first_microbatch
        if graph.reasons and graph.strict:
            raise ImportFailure(graph.reasons)
        if graph.reasons:
            warnings.warn("te: parts of a graph stay in PyTorch:\n  " + "\n  ".join(graph.reasons), stacklevel=2)
        return graph

    @property
    def is_first_microbatch(self) -> bool | None:
        """Whether the next calls are of the first micro-batch.

        True, the default with cache_weights: calls cast the weights, and start the sums in main_grad
        again. False: calls reuse the casts of the call before, and add to the sums. None, the default
        without cache_weights: calls cast the weights, and add to the sums.
        """
        return self._is_first_microbatch

    @is_first_microbatch.setter
    def is_first_microbatch(self, value: bool | None) -> None:
        if not self.options.cache_weights and not self.options.main_grad:
            raise ValueError(
                "expected 'cache_weights' or 'main_grad' for 'is_first_microbatch', but got a backend with neither"
            )
        if value is None and self.options.cache_weights:
            raise ValueError("expected 'is_first_microbatch' to be True or False with 'cache_weights', but got None")
        self._is_first_microbatch = value
        for region in (region for graph in self.graphs for region in graph.regions):
            region.is_first_microbatch = value

    @contextlib.contextmanager
    def microbatch(self, first: bool) -> Iterator[None]:
        """Calls in its block are of the first micro-batch of a step of the optimizer, or of a later one."""
        before = self._is_first_microbatch
        self.is_first_microbatch = first
        try:
            yield
        finally:
            self.is_first_microbatch = before

    def report(self, what: str = "precision", format: str = "text") -> str:
        """Reports of all graphs, and the nodes that stay in PyTorch; as "html", on one page, if a part is compiled."""
        refused = [f"a graph stays in PyTorch: {reason}\n" for reason in self.refused]
        refused += [f"sizes are not rounded up: {reason}\n" for reason in self.exact]
        if self.calls.left:
            refused.append(f"calls that ran only in PyTorch: {self.calls.left}\n")
        if not self.graphs and not refused:
            return (
                "no graph is compiled: the model was not called yet, or torch.compile runs it without te, as it does "
                "after a recompile_limit that it was given\n"
            )
        if format == "html" and any(graph.parts for graph in self.graphs):
            graphs = list(enumerate(self.graphs))
            pages = {f"graph {i}, {name}": page for i, g in graphs for name, page in g.reports(what, format).items()}
            return one_page(pages, [*(f"graph {i}: {note}" for i, graph in graphs for note in graph.notes()), *refused])
        parts = refused
        for index, graph in enumerate(self.graphs):
            parts.append(f"graph {index}\n{graph.report(what, format)}")
            parts.extend(f"  {note}\n" for note in graph.notes())
        return "".join(parts)

    def summary(self) -> str:
        """One line: how many GEMMs of the compiled graphs are quantised, how many operations stay in PyTorch, and how many
        calls ran only there."""
        gemms = [
            gemm
            for graph in self.graphs
            for page in graph.reports("precision", "json").values()
            for function in json.loads(page)["precision"]
            for gemm in function["gemms"]
        ]
        quantised = sum(gemm["a"].startswith(("f8", "f4")) and gemm["b"].startswith(("f8", "f4")) for gemm in gemms)
        left = len(self.refused) + sum(len(graph.reasons) for graph in self.graphs)
        return (
            f"te: graphs: {len(self.graphs)}; quantised GEMMs: {quantised} of {len(gemms)}; left to PyTorch: {left}; "
            f"calls in PyTorch: {self.calls.left}"
        )

    def print_changes(self) -> None:
        """Prints `summary` if a graph was compiled or left since it was printed: for training loops, in each step."""
        reasons = sum(len(graph.reasons) for graph in self.graphs)
        found = (len(self.graphs), len(self.refused), reasons, self.calls.left)
        if found != self._printed:
            print(self.summary())
        self._printed = found

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Copies of the states of recipes (histories, scales, random states), and of casts of weights that are kept.

        The names are those of the layer, or the weight, in the model.
        """
        return self.states.values(casts=True)

    def load_state_dict(self, states: Mapping[str, torch.Tensor], strict: bool = True) -> None:
        """Sets the states that `state_dict` returned, before or after a first call. Calls then continue the saved model.

        strict: an unknown or a missing name is a KeyError. Raises ArgumentError for a tensor of another
        type or shape.
        """
        missing, unexpected = self.states.load(states, strict)
        if strict and missing:
            raise KeyError(f"expected a state '{missing[0]}', but got {sorted(states)}")
        if strict and unexpected:
            raise KeyError(
                f"expected states of the model's weights, <weight>.<x, w or dy>.<amax_history or scale>, but got "
                f"'{unexpected[0]}'"
            )


def _records(mode: str | None) -> bool:
    """Whether steps on a GPU are recorded in a mode of torch.compile; raises ValueError for an unknown mode."""
    if mode is not None and mode not in _MODES:
        raise ValueError(f"expected 'mode' to be one of {', '.join(map(repr, _MODES))}, but got {mode!r}")
    return mode is not None and _MODES[mode]


#: The states of torch.compile's graphs, by the number of the dict of options that it passes with each graph.
_states_of_options: weakref.WeakValueDictionary[int, States] = weakref.WeakValueDictionary()


def backend(module: GraphModule, examples: list[Any], **options: Any) -> Callable[..., Any]:
    """`torch.compile(model, backend="te", options={"recipe": ...})`."""
    given = options.get("options", options)
    made = Backend(**given)
    states = _states_of_options.get(id(given))
    if states is None:
        states = _states_of_options[id(given)] = made.states
        # The dict is kept, so that no other dict gets its number.
        states.key = given
    made.states = states
    return made(module, examples)


class _Jitted(WithStates, torch._dynamo.eval_frame.OptimizedModule):
    """The result of `jit` for a module: it saves the states of recipes, and its copies compile again."""

    te: Backend
    _fullgraph: bool

    @property
    def _states(self) -> States:  # type: ignore[override]
        return self.te.states

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.te.calls.watch(self.te.strict, super().__call__, *arguments, **options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _compiled, (self._orig_mod, self.te, self._fullgraph)

    def __deepcopy__(self, memo: Any) -> Any:
        return _compiled(copy.deepcopy(self._orig_mod, memo), copy.deepcopy(self.te, memo), self._fullgraph)


def _compiled(module: Any, te: Backend, fullgraph: bool) -> Any:
    compiled: Any = torch.compile(module, backend=te, fullgraph=fullgraph)
    if isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule):
        te.states.belong_to(module)
        compiled.__class__ = _Jitted
        # These are not attributes of the wrapped module.
        object.__setattr__(compiled, "te", te)
        object.__setattr__(compiled, "_fullgraph", fullgraph)
    else:
        compiled.te = te
    return compiled


def jit(module: Any, *, fullgraph: bool | None = None, **options: Any) -> Any:
    """Compiles `module` with te: returns the result of torch.compile, with the Backend as its attribute `te`.

    options: those of Backend. fullgraph: whether a graph break is an error; by default, it is with
    strict.

        model = te_mlir.torch.jit(model, recipe=te_mlir.Float8CurrentScaling(), strict=True)
        model(tokens).backward()
        print(model.te.report("precision"))
    """
    te = Backend(**options)
    return _compiled(module, te, te.strict if fullgraph is None else fullgraph)


def compile_in_place(module: torch.nn.Module, **options: Any) -> Backend:
    """Compiles calls of `module` with te, and returns the Backend; the module stays the same object.

    For trainers that wrap, inspect or save a model. options: those of Backend.

        backend = te_mlir.torch.compile_in_place(model, recipe=te_mlir.Float8CurrentScaling(), strict=True)
        transformers.Trainer(model, ..., callbacks=[te_mlir.torch.trainer.Callback(backend)])
    """
    te = Backend(**options)
    te.states.belong_to(module)
    call: Any = module._call_impl
    if torch._dynamo.trace_rules.check(module.forward):
        # torch.compile skips the methods of PyTorch's own modules, such as nn.Sequential, where no other function calls them.
        call = torch._dynamo.external_utils.wrap_inline(call)
    compiled = torch.compile(call, backend=te, fullgraph=te.strict)
    module._compiled_call_impl = te.calls.watched(te.strict, compiled)
    return te


def _register() -> None:
    from torch._dynamo import register_backend

    if "te" not in torch._dynamo.list_backends(exclude_tags=()):
        register_backend(backend, name="te")


_register()
