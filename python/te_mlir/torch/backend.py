"""The backend "te" of torch.compile, and `jit`, which is that with a handle.

Each captured graph becomes a `Graph`: a prologue in PyTorch, one compiled region,
and what comes after it in PyTorch again. The region is as large as the importer can
make it: a node that it cannot express, and all that depends on it, is left to
PyTorch, where autograd differentiates it as always.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch.fx import GraphModule, Node

from te_mlir.errors import ImportFailure
from te_mlir.program import report
from te_mlir.recipes import Recipe
from te_mlir.torch import graph as capture
from te_mlir.torch import patterns
from te_mlir.torch.importer import Feed, Importer, Unsupported, describe, fake, inside_of, is_floating
from te_mlir.layout import Layout
from te_mlir.torch.runner import Options, Region, Spec


class _Exit(NamedTuple):
    """A node that something outside of the region uses: a view of one of its results."""

    node: Node
    result: int
    layout: Layout


class _Plan(NamedTuple):
    """What is compiled of a graph."""

    importer: Importer
    exits: List[_Exit]
    reasons: List[str]


def _attempt(inside: Set[Node], flat: GraphModule, names: Dict[Node, str], parameters: Set[Node]) -> _Plan:
    """Emits all that leaves `inside`; raises Unsupported at the first node that cannot be."""
    importer = Importer(inside, names, parameters)
    exits: List[_Exit] = []
    for node in flat.graph.nodes:
        # In the order of the program, whatever else leaves it: gradients are added in it.
        if node in inside and patterns.is_op(node, "linear"):
            importer.value(node, node)
        users_outside = any(user not in inside for user in node.users)
        if node not in inside or node.op == "placeholder" or not users_outside or not is_floating(node):
            continue
        value = importer.value(node, node)
        # Views of arguments are PyTorch's to make.
        if not any(value.matrix is argument for argument, _ in importer.function.arguments):
            exits.append(_Exit(node, importer.result(value.matrix), value.layout))
    return _Plan(importer, exits, [])


def _plan(flat: GraphModule, names: Dict[Node, str], parameters: Set[Node], roots: Set[Node]) -> Optional[_Plan]:
    """The largest region that can be emitted, without what cannot; None where no layer is left."""
    inside = inside_of(flat.graph, roots)
    reasons: List[str] = []
    while True:
        try:
            plan = _attempt(inside, flat, names, parameters)
        except Unsupported as unsupported:
            node = unsupported.node
            reasons.append(f"{describe(node)}: {unsupported.reason}")
            dropped = {n for n in inside_of(flat.graph, {node}) if n.op != "placeholder"}
            if not dropped & inside:
                return _Plan(Importer(set(), names, parameters), [], reasons)
            inside -= dropped
            continue
        return plan._replace(reasons=reasons)


class _Feeder:
    """Computes the arguments of a region that are not parameters, and keeps what did not change."""

    def __init__(self, flat: GraphModule, feeds: Sequence[Feed], state: Sequence[bool]) -> None:
        self.feeds = list(feeds)
        self.placeholders = [n for n in flat.graph.nodes if n.op == "placeholder"]
        self.sources: List[List[int]] = []
        for feed in self.feeds:
            above = _above(feed.node)
            self.sources.append([i for i, p in enumerate(self.placeholders) if p in above])
        # What comes of buffers alone is kept; an input may change without a word.
        kept = [all(state[i] for i in sources) for sources in self.sources]
        self.programs = [self._program(flat, feed.node) for feed in self.feeds]
        made = [i for i, feed in enumerate(self.feeds) if feed.make is not None]
        #: Made in every call, and made again where their sources changed.
        self.made = [i for i in made if not kept[i] or self.programs[i] is None]
        self.kept = [i for i in made if i not in self.made]
        self.watched = sorted({i for index in self.kept for i in self.sources[index]})
        self._versions: List[Any] = []
        self._values: List[torch.Tensor] = []

    @staticmethod
    def _program(flat: GraphModule, node: Node) -> Optional[Callable[..., torch.Tensor]]:
        if node.op == "placeholder":
            return None
        part = torch.fx.Graph()
        copies: Dict[Node, Node] = {}
        above = _above(node)
        for original in flat.graph.nodes:
            if original in above or original.op == "placeholder":
                copies[original] = part.node_copy(original, copies.__getitem__)
        part.output(copies[node])
        capture.simplify(part)
        return GraphModule(flat, part).forward

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Tuple[torch.Tensor, ...]:
        arguments = [tensors[sources[0]] if sources else None for sources in self.sources]
        versions: List[Any] = [(tensors[i], tensors[i]._version) for i in self.watched]
        if len(versions) != len(self._versions) or any(
            t is not was or version != before for (t, version), (was, before) in zip(versions, self._versions)
        ):
            self._values, self._versions = [], versions
        if not self._values:
            self._values = [self._make(index, tensors) for index in self.kept]
        for index, value in zip(self.kept, self._values):
            arguments[index] = value
        for index in self.made:
            arguments[index] = self._make(index, tensors)
        return tuple(arguments)  # type: ignore[arg-type]

    def _make(self, index: int, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        feed, program = self.feeds[index], self.programs[index]
        assert feed.make is not None
        if program is None:
            # Not below no_grad: it may want a gradient.
            return feed.make(tensors[self.sources[index][0]])
        with torch.no_grad():
            return feed.make(program(*tensors))


def _above(node: Node) -> Set[Node]:
    """The node and all that it depends on."""
    found: Set[Node] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending.extend(current.all_input_nodes)
    return found


class Graph:
    """A captured graph: how much of it is compiled, and why the rest is not.

    reasons: one line for each node that stays in PyTorch although it depends on a
    parameter. region: the compiled part, or None.
    """

    def __init__(
        self,
        module: GraphModule,
        examples: Sequence[torch.Tensor],
        options: Options,
        differentiate_outputs: str,
    ) -> None:
        self.module = module
        self.reasons: List[str] = []
        self.region: Optional[Region] = None
        try:
            flat = capture.flatten(module, examples)
        except Exception as error:  # Whatever tracing does not take, PyTorch does.
            self.reasons = [f"the graph cannot be traced: {str(error).splitlines()[0] if str(error) else type(error)}"]
            return
        placeholders = [n for n in flat.graph.nodes if n.op == "placeholder"]
        names = dict(zip(placeholders, capture.argument_names(module)))
        parameters = {
            node
            for node, example in zip(placeholders, examples)
            if isinstance(example, torch.nn.Parameter) and example.is_contiguous()
        }
        roots = parameters | {node for node, example in zip(placeholders, examples) if example.requires_grad}
        capture.merge_equal(flat.graph, inside_of(flat.graph, roots))
        plan = _plan(flat, names, parameters, roots)
        assert plan is not None
        self.reasons = plan.reasons
        if not any("te.linear" in line for line in plan.importer.function._lines):
            if not self.reasons:
                self.reasons = ["the graph has no linear layer"]
            return
        devices = {example.device for example in examples}
        if len(devices) != 1:
            self.reasons.append(f"its tensors are on several devices: {sorted(map(str, devices))}")
            return
        self._build(flat, plan, examples, options, differentiate_outputs, devices.pop())

    def _build(
        self,
        flat: GraphModule,
        plan: _Plan,
        examples: Sequence[torch.Tensor],
        options: Options,
        differentiate_outputs: str,
        device: torch.device,
    ) -> None:
        feeds = plan.importer.feeds
        wanting = {
            node
            for node, example in zip((n for n in flat.graph.nodes if n.op == "placeholder"), examples)
            if example.requires_grad
        }
        inputs = [
            Spec(f.name, f.shape, f.dtype, f.weight, f.node in wanting and f.dtype.is_floating_point) for f in feeds
        ]
        outputs = []
        results = plan.importer.function.results
        scalars = [not value.shape for value, _ in results]
        for index, (value, _) in enumerate(results):
            # Of a loss and its logits, the loss alone is differentiated.
            through = differentiate_outputs == "all" or not any(scalars) or scalars[index]
            dtype = getattr(torch, value.dtype)
            outputs.append(Spec(f"result{index}", value.shape, dtype, differentiable=through))
        self.exits = plan.exits
        self.feeder = _Feeder(flat, feeds, capture.module_state(self.module))
        self.region = Region(plan.importer.function, inputs, outputs, device, options)
        self.rest = _rest(flat, [exit.node for exit in plan.exits]).forward

    def __call__(self, *tensors: torch.Tensor) -> Any:
        if self.region is None:
            return self.module(*tensors)
        results = self.region(*self.feeder(tensors))
        return self.rest(*tensors, *(_view(results[e.result], e) for e in self.exits))

    def report(self, what: str = "precision", format: str = "text") -> str:
        """Reports of the compiled part: precision, memory, constraints."""
        if self.region is None:
            return "nothing of this graph is compiled\n"
        training = bool(self.region.wrt)
        return report(self.region.text(training), "step", what, format, **self.region.options_for(training))


def _view(result: torch.Tensor, exit: _Exit) -> torch.Tensor:
    """The tensor that a node gives, of the result that holds it; autograd follows it."""
    shape = tuple(fake(exit.node).shape)
    if exit.layout.is_row_major(result.numel()):
        return result if result.shape == shape else result.view(shape)
    sizes = [size for dim in exit.layout.dims for size, _ in dim]
    strides = [stride for dim in exit.layout.dims for _, stride in dim]
    return result.as_strided(sizes, strides, exit.layout.offset).reshape(shape)


def _rest(flat: GraphModule, exits: Sequence[Node]) -> GraphModule:
    """What is left for PyTorch: the graph with the region's results as further arguments."""
    rest = torch.fx.Graph()
    copies: Dict[Node, Node] = {}
    output = next(n for n in flat.graph.nodes if n.op == "output")
    for node in flat.graph.nodes:
        if node.op == "placeholder":
            copies[node] = rest.placeholder(node.name)
    for index, node in enumerate(exits):
        copies[node] = rest.placeholder(f"te_result{index}")
    needed: Set[Node] = set()
    pending = list(output.all_input_nodes)
    while pending:
        node = pending.pop()
        if node not in needed and node not in copies:
            needed.add(node)
            pending.extend(node.all_input_nodes)
    for node in flat.graph.nodes:
        if node in needed:
            copies[node] = rest.node_copy(node, copies.__getitem__)
    rest.output(torch.fx.node.map_arg(output.args[0], copies.__getitem__))
    return GraphModule(flat, rest)


class Backend:
    """A backend for torch.compile, with the graphs that it compiled.

    Options are those of `te_mlir.compile`. strict: a graph, or a part of one, that
    cannot be imported is an error, as is a fall-back to higher precision.
    differentiate_outputs: "loss" takes gradients through the rank-0 results of a
    graph alone, where it has any; "all" through every result. cache_weights: casts of
    weights are kept while `is_first_microbatch` of this object is False. main_grad:
    gradients of parameters are added to their `main_grad`, float32, and `grad` stays
    None. cuda_graph: forward and backward are recorded once and replayed; results with
    dimensions are overwritten by the next call. Activations are computed again in the
    backward, as torch.compile does; remat="nothing" holds them.
    """

    def __init__(
        self,
        recipe: Optional[Recipe] = None,
        backward_override: Optional[str] = None,
        target: Optional[str] = None,
        strict: bool = False,
        differentiate_outputs: str = "loss",
        cache_weights: bool = False,
        main_grad: bool = False,
        cuda_graph: bool = False,
        **pipeline: Any,
    ) -> None:
        if differentiate_outputs not in ("loss", "all"):
            raise ValueError(
                f"expected 'differentiate_outputs' to be 'loss' or 'all', but got {differentiate_outputs!r}"
            )
        self.options = Options(
            recipe, backward_override, target, strict, cache_weights, main_grad, cuda_graph, tuple(pipeline.items())
        )
        self.strict, self.differentiate_outputs = strict, differentiate_outputs
        self._is_first_microbatch: Optional[bool] = True if cache_weights else None
        #: What was captured, in order.
        self.graphs: List[Graph] = []

    def __call__(self, module: GraphModule, examples: List[Any]) -> Callable[..., Any]:
        strange = [e for e in examples if not isinstance(e, torch.Tensor)]
        if strange:
            reasons = ["a shape is not known when it is compiled; use torch.compile(..., dynamic=False)"]
            if self.strict:
                raise ImportFailure(reasons)
            warnings.warn("te: a graph stays in PyTorch: " + reasons[0], stacklevel=2)
            return module.forward
        graph = Graph(module, examples, self.options, self.differentiate_outputs)
        self.graphs.append(graph)
        if graph.region:
            graph.region.is_first_microbatch = self._is_first_microbatch
        if graph.reasons and self.strict:
            raise ImportFailure(graph.reasons)
        if graph.reasons:
            warnings.warn("te: parts of a graph stay in PyTorch:\n  " + "\n  ".join(graph.reasons), stacklevel=2)
        return graph

    @property
    def is_first_microbatch(self) -> Optional[bool]:
        """What the next calls are.

        True, at first with cache_weights: they cast the weights, and begin the sums in
        main_grad anew. False: they use the casts of the call before, and add. None, at
        first without cache_weights: they cast, and add.
        """
        return self._is_first_microbatch

    @is_first_microbatch.setter
    def is_first_microbatch(self, value: Optional[bool]) -> None:
        if not self.options.cache_weights and not self.options.main_grad:
            raise ValueError(
                "expected 'cache_weights' or 'main_grad' for 'is_first_microbatch', but got a backend with neither"
            )
        if value is None and self.options.cache_weights:
            raise ValueError("expected 'is_first_microbatch' to be True or False with 'cache_weights', but got None")
        self._is_first_microbatch = value
        for graph in self.graphs:
            if graph.region:
                graph.region.is_first_microbatch = value

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
        """Reports of all graphs, and what stays in PyTorch; as "html" the page of the one graph."""
        if format == "html":
            if len(self.graphs) != 1:
                raise ValueError(
                    f"expected one graph for a page, but got {len(self.graphs)}; use graphs[i].report(format='html')"
                )
            return self.graphs[0].report(what, format)
        parts = []
        for index, graph in enumerate(self.graphs):
            parts.append(f"graph {index}\n{graph.report(what, format)}")
            parts.extend(f"  stays in PyTorch: {reason}\n" for reason in graph.reasons)
        return "".join(parts)

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """Copies of what recipes remember (histories, scales, random states), by name."""
        states = {}
        for index, graph in enumerate(self.graphs):
            for name, tensor in (graph.region.states if graph.region else {}).items():
                states[f"{index}.{name}"] = torch.from_dlpack(tensor).clone()
        return states

    def load_state_dict(self, states: Dict[str, torch.Tensor]) -> None:
        """Sets what `state_dict` gave; the graphs are captured and have run before."""
        for index, graph in enumerate(self.graphs):
            for name, tensor in (graph.region.states if graph.region else {}).items():
                key = f"{index}.{name}"
                if key not in states:
                    raise KeyError(f"expected a state '{key}', but got {sorted(states)}")
                torch.from_dlpack(tensor).copy_(states[key])


def backend(module: GraphModule, examples: List[Any], **options: Any) -> Callable[..., Any]:
    """`torch.compile(model, backend="te", options={"recipe": ...})`."""
    return Backend(**options.get("options", options))(module, examples)


def jit(module: Any, *, fullgraph: Optional[bool] = None, **options: Any) -> Any:
    """`module` compiled by te: what torch.compile gives, with the Backend as `te`.

    options: those of Backend. fullgraph: whether a graph break is an error; with
    strict it is.

        model = te_mlir.torch.jit(model, recipe=te_mlir.Float8CurrentScaling(), strict=True)
        model(tokens).backward()
        print(model.te.report("precision"))
    """
    te = Backend(**options)
    compiled = torch.compile(module, backend=te, dynamic=False, fullgraph=te.strict if fullgraph is None else fullgraph)
    if isinstance(compiled, torch.nn.Module):
        object.__setattr__(compiled, "te", te)
    else:
        compiled.te = te  # type: ignore[attr-defined]
    return compiled


def _register() -> None:
    from torch._dynamo import register_backend

    if "te" not in torch._dynamo.list_backends(exclude_tags=()):
        register_backend(backend, name="te")


_register()
