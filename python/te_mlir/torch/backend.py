"""The backend "te" of torch.compile, and `jit`, which is that with a handle.

Each captured graph becomes a `Graph`: a prologue in PyTorch, one compiled region,
and what comes after it in PyTorch again. The region is as large as the importer can
make it: a node that it cannot express, and all that depends on it, is left to
PyTorch, where autograd differentiates it as always.
"""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch.fx import GraphModule, Node

from te_mlir.errors import ImportFailure
from te_mlir.program import report
from te_mlir.recipes import Recipe
from te_mlir.torch import casts, patterns
from te_mlir.torch import graph as capture
from te_mlir.torch.importer import FIXED, Feed, Importer, Unsupported, describe, fake, imports, is_floating
from te_mlir.torch.indices import Indices, source_of
from te_mlir.torch.partition import Partition, dependents, is_grad_mode, is_mode, refusal, storages, written_nodes
from te_mlir.layout import Layout
from te_mlir.torch.runner import Options, Region, Spec
from te_mlir.torch.states import States, WithStates


class _Exit(NamedTuple):
    """A node that something outside of the region uses: a view of one of its results."""

    node: Node
    result: int
    layout: Layout


class _Plan(NamedTuple):
    """What is compiled of a graph. views: nodes of the region that are views of its arguments."""

    importer: Importer
    exits: List[_Exit]
    views: Set[Node]
    reasons: List[str]


def _attempt(inside: Set[Node], graph: torch.fx.Graph, names: Dict[Node, str], parameters: Set[Node]) -> _Plan:
    """Emits all that leaves `inside`; raises Unsupported at the first node that cannot be."""
    importer = Importer(inside, names, parameters)
    exits: List[_Exit] = []
    views: Set[Node] = set()
    for node in graph.nodes:
        # In the order of the program, whatever else leaves it: gradients are added in it.
        if node in inside and patterns.is_op(node, "linear"):
            importer.value(node, node)
        users_outside = any(user not in inside for user in node.users)
        if node not in inside or node.op == "placeholder" or not users_outside:
            continue
        if not is_floating(node):
            raise Unsupported(node, "its result is no floating tensor")
        value = importer.value(node, node)
        # Views of arguments are PyTorch's to make.
        if any(value.matrix is argument for argument, _ in importer.function.arguments):
            views.add(node)
        else:
            exits.append(_Exit(node, importer.result(value.matrix), value.layout))
    return _Plan(importer, exits, views, [])


def _plan(partition: Partition, names: Dict[Node, str], parameters: Set[Node]) -> _Plan:
    """The largest region that can be emitted, without what cannot; an empty one where no layer is left."""
    reasons = [f"{describe(n)}: no gradient goes through it (torch.no_grad, or detach)" for n in partition.without_gradients()]
    while True:
        reasons += [f"{describe(node)}: {reason}" for node, reason in partition.settle()]
        try:
            plan = _attempt(partition.inside, partition.graph, names, parameters)
        except Unsupported as unsupported:
            reasons.append(f"{describe(unsupported.node)}: {unsupported.reason}")
            if not partition.drop(unsupported.node):
                return _Plan(Importer(set(), names, parameters), [], set(), reasons)
            continue
        return plan._replace(reasons=reasons)


class _Before:
    """Computes what comes before a region, once for each call, and keeps what did not change.

    wanted: the nodes whose values are given, in order.
    """

    def __init__(self, flat: GraphModule, partition: Partition, wanted: Sequence[Node], state: Sequence[bool]) -> None:
        graph, effects = flat.graph, partition.effects
        self.wanted = list(wanted)
        nodes = [
            n
            for n in graph.nodes
            if n.op in ("call_function", "get_attr")
            and n not in partition.inside | partition.after
            and not is_mode(n)
        ]
        needed = _needed([*wanted, *(n for n in nodes if n.is_impure() or n in effects.writes)], set())
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        # What comes of buffers alone is kept; an input may change without a word.
        self.kept = {node for node, is_state in zip(placeholders, state) if is_state}
        self.kept -= {node for node in self.kept if any(effects.users_of_memory(key) for key in effects.own(node))}
        for node in nodes:
            quiet = node not in effects.writes and not any(effects.users_of_memory(k) for k in effects.own(node))
            if quiet and not node.is_impure() and all(n in self.kept for n in node.all_input_nodes):
                self.kept.add(node)
        fresh = [n for n in nodes if n in needed and n not in self.kept]
        held = [n for n in nodes if n in needed and n in self.kept]
        used = {source for n in fresh for source in n.all_input_nodes} | set(wanted)
        self.held = [n for n in held if n in used]
        self.fresh = [n for n in wanted if n not in self.kept]
        self.once = _program(flat, held, [], self.held) if self.held else None
        self.each = _program(flat, fresh, self.held, self.fresh) if fresh else None
        self.watched = [i for i, p in enumerate(placeholders) if p in self.kept and p in _needed(self.held, set())]
        self._versions: List[Any] = []
        self._values: Optional[Sequence[torch.Tensor]] = None

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Tuple[bool, Dict[Node, torch.Tensor]]:
        """Whether what is kept was made anew, and the values of the wanted nodes."""
        renewed = False
        if self.once is not None:
            versions = [(tensors[i], tensors[i]._version) for i in self.watched]
            if self._values is None or any(
                t is not was or version != before or copy is not None and not torch.equal(t, copy)
                for (t, version), (was, before, copy) in zip(versions, self._versions)
            ):
                with torch.no_grad():
                    # On a CPU also what no version counts, a write through `data`, is seen; a GPU would have to wait.
                    self._versions = [(t, v, t.clone() if t.device.type == "cpu" else None) for t, v in versions]
                    self._values, renewed = self.once(*tensors), True
        held = self._values or ()
        values = dict(zip(self.held, held))
        if self.each is not None:
            with torch.no_grad():
                values.update(zip(self.fresh, self.each(*tensors, *held)))
        return renewed, values


def _needed(nodes: Sequence[Node], known: Set[Node]) -> Set[Node]:
    """The nodes that `nodes` depend on, and these, as far as they are not known."""
    found: Set[Node] = set()
    pending = [n for n in nodes if n not in known]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending.extend(n for n in current.all_input_nodes if n not in known)
    return found


def _program(
    flat: GraphModule, nodes: Sequence[Node], given: Sequence[Node], results: Any
) -> Callable[..., Sequence[torch.Tensor]]:
    """`nodes` as a function of the graph's arguments, then of the values of `given`."""
    part = torch.fx.Graph()
    copies: Dict[Node, Node] = {n: part.node_copy(n) for n in flat.graph.nodes if n.op == "placeholder"}
    for index, node in enumerate(given):
        copies[node] = part.placeholder(f"given{index}")
        copies[node].meta.update(node.meta)
    blocks = casts.blocks_of(flat.graph, nodes)
    if blocks:
        nodes = [n for n in flat.graph.nodes if n in blocks or n in set(nodes)]
    for node in nodes:
        copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(torch.fx.node.map_arg(results, copies.__getitem__))
    capture.simplify(part)
    return GraphModule(flat, part).forward


class _Feeder:
    """Makes the arguments of a region of what came before it; makes again only what changed."""

    def __init__(self, flat: GraphModule, feeds: Sequence[Feed], before: _Before) -> None:
        places = {n: i for i, n in enumerate(n for n in flat.graph.nodes if n.op == "placeholder")}
        #: Which of the graph's arguments each is, if it is one as it lies.
        self.sources = [places.get(f.node, -1) if f.make is None else -1 for f in feeds]
        #: The others: (place, feed, the graph's argument or -1, whether it is kept).
        self.made = [
            (i, f, places.get(f.node, -1), f.node.op != "placeholder" and f.node in before.kept)
            for i, f in enumerate(feeds)
            if self.sources[i] < 0
        ]
        self._held: Dict[int, torch.Tensor] = {}

    def __call__(
        self, tensors: Sequence[torch.Tensor], renewed: bool, values: Dict[Node, torch.Tensor]
    ) -> List[torch.Tensor]:
        arguments = [tensors[source] for source in self.sources]
        for index, feed, source, kept in self.made:
            if kept and not renewed and index in self._held:
                arguments[index] = self._held[index]
                continue
            tensor = tensors[source] if source >= 0 else values[feed.node]
            if feed.make is None:
                pass
            elif kept:
                with torch.no_grad():
                    tensor = self._held[index] = feed.make(tensor)
            else:
                # Not below no_grad: it may want a gradient.
                tensor = feed.make(tensor)
            arguments[index] = tensor
        return arguments


def _direct(feed: Feed, graph: torch.fx.Graph) -> Feed:
    """Indices made of the graph's argument, where they are shifted labels."""
    found = source_of(feed.node, graph) if isinstance(feed.make, Indices) else None
    return feed if found is None else feed._replace(node=found[0], make=found[1])


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
        states: Optional[States] = None,
    ) -> None:
        self.module = module
        self.states = states or States()
        self.reasons: List[str] = []
        self.region: Optional[Region] = None
        try:
            flat = capture.flatten(module, examples)
        except Exception as error:  # Whatever tracing does not take, PyTorch does.
            self.reasons = [f"the graph cannot be traced: {str(error).splitlines()[0] if str(error) else type(error)}"]
            return
        refused = refusal(module, flat)
        if refused is not None:
            self.reasons = [refused]
            return
        casts.without_idle_blocks(flat.graph)
        placeholders = [n for n in flat.graph.nodes if n.op == "placeholder"]
        names = dict(zip(placeholders, capture.argument_names(module)))
        parameters = {
            node
            for node, example in zip(placeholders, examples)
            if isinstance(example, torch.nn.Parameter) and example.is_contiguous()
        }
        leaves = {n for n, e in zip(placeholders, examples) if e.is_leaf and e.requires_grad and not e._is_view()}
        casts.insert_casts(flat.graph, imports, leaves)
        roots = parameters | {node for node, example in zip(placeholders, examples) if example.requires_grad}
        capture.cut_linears(flat.graph, parameters, written_nodes(flat.graph, examples))
        capture.merge_equal(flat.graph, dependents(flat.graph, roots))
        partition = Partition(flat.graph, roots, examples)
        plan = _plan(partition, names, parameters)
        self.reasons = plan.reasons
        if not any("te.linear" in line for line in plan.importer.function._lines):
            if not self.reasons:
                self.reasons = ["the graph has no linear layer"]
            return
        devices = {example.device for example in examples}
        if len(devices) != 1:
            self.reasons.append(f"its tensors are on several devices: {sorted(map(str, devices))}")
            return
        torn = _torn(partition, plan)
        if torn is not None:
            self.reasons.append(f"{describe(torn)}: a tensor that shares its memory is written to, and lies otherwise here")
            return
        self._build(flat, partition, plan, examples, options, differentiate_outputs, devices.pop())

    def _build(
        self,
        flat: GraphModule,
        partition: Partition,
        plan: _Plan,
        examples: Sequence[torch.Tensor],
        options: Options,
        differentiate_outputs: str,
        device: torch.device,
    ) -> None:
        feeds = [_direct(feed, flat.graph) for feed in plan.importer.feeds]
        wanting = {
            node
            for node, example in zip((n for n in flat.graph.nodes if n.op == "placeholder"), examples)
            if example.requires_grad
        }
        inputs = [
            Spec(f.name, f.shape, f.dtype, f.weight, f.node in wanting and f.dtype.is_floating_point and f.key != FIXED)
            for f in feeds
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
        self.region = Region(plan.importer.function, inputs, outputs, device, options, self.states)
        rest, self.given = _rest(flat, partition, plan)
        self.rest = rest.forward
        computed = [f.node for f in feeds if f.node.op != "placeholder"]
        wanted = list(dict.fromkeys([*computed, *self.given]))
        self.before = _Before(flat, partition, wanted, capture.buffers(self.module))
        self.feeder = _Feeder(flat, feeds, self.before)
        # Results that PyTorch writes to: the region's own stay as they are, and what shares memory there shares it here.
        # What does not share it there, such as a result and its clone, may be written to by whoever gets both.
        effects, written = partition.effects, partition.written_after()
        output = next(n for n in flat.graph.nodes if n.op == "output")
        returned: Set[Any] = set().union(*(effects.own(n) for n in output.all_input_nodes))
        first = {e.result: effects.own(e.node) for e in reversed(plan.exits)}
        memory = [
            own & (written if own == first[e.result] else written | returned)
            for e, own in ((e, effects.own(e.node)) for e in plan.exits)
        ]
        self.shapes = [tuple(fake(e.node).shape) for e in plan.exits]
        # Without gaps there, which code outside of the graph may rely on.
        self.dense = [
            fake(e.node).is_contiguous() and not e.layout.is_row_major(fake(e.node).numel()) and not own & written
            for e, own in zip(plan.exits, memory)
        ]
        self.copied = [(e.result, *own) if own else None for e, own in zip(plan.exits, memory)]
        #: The region's results that leave it, where each leaves as it is: a loss.
        self.plain: Optional[List[int]] = None
        as_they_are = (
            key is None and not dense and e.layout.is_row_major(math.prod(shape)) and outputs[e.result].shape == shape
            for e, key, shape, dense in zip(plan.exits, self.copied, self.shapes, self.dense)
        )
        if all(as_they_are):
            self.plain = [e.result for e in plan.exits]

    def __call__(self, *tensors: torch.Tensor) -> Any:
        if self.region is None:
            return self.module(*tensors)
        renewed, values = self.before(tensors)
        results = self.region(*self.feeder(tensors, renewed, values))
        given = [values[node] for node in self.given]
        if self.plain is not None:
            return self.rest(*tensors, *[results[i] for i in self.plain], *given)
        copies: Dict[Any, torch.Tensor] = {}
        views = []
        for exit, key, shape, dense in zip(self.exits, self.copied, self.shapes, self.dense):
            result = results[exit.result]
            if key is not None:
                if key not in copies:
                    copies[key] = result.clone()
                result = copies[key]
            view = _view(result, exit, shape)
            views.append(view.contiguous() if dense else view)
        return self.rest(*tensors, *views, *given)

    def report(self, what: str = "precision", format: str = "text") -> str:
        """Reports of the compiled part: precision, memory, constraints."""
        if self.region is None:
            return "nothing of this graph is compiled\n"
        training = bool(self.region.wrt)
        self.region.load(training)  # Which settles its options.
        return report(self.region.text(training), "step", what, format, **self.region.options_for(training))


def _view(result: torch.Tensor, exit: _Exit, shape: Tuple[int, ...]) -> torch.Tensor:
    """The tensor that a node gives, of the result that holds it; autograd follows it."""
    if exit.layout.is_row_major(result.numel()):
        return result if result.shape == shape else result.view(shape)
    sizes = [size for dim in exit.layout.dims for size, _ in dim]
    strides = [stride for dim in exit.layout.dims for _, stride in dim]
    return result.as_strided(sizes, strides, exit.layout.offset).reshape(shape)


def _torn(partition: Partition, plan: _Plan) -> Optional[Node]:
    """A node whose memory is written to after the region, and that would be a copy of what others view of it."""
    written = partition.written_after()
    memory = [partition.effects.own(exit.node) & written for exit in plan.exits]
    for exit, own in zip(plan.exits, memory):
        if own and memory.count(own) > 1:
            value, _ = plan.importer.function.results[exit.result]
            made = torch.empty(value.shape, device="meta")
            if storages(_view(made, exit, tuple(fake(exit.node).shape))) != storages(made):
                return exit.node
    return None


def _rest(flat: GraphModule, partition: Partition, plan: _Plan) -> Tuple[GraphModule, List[Node]]:
    """What is left for PyTorch after the region, and what it needs of before.

    Its arguments are the graph's, the nodes that leave the region, and these.
    """
    exits = [exit.node for exit in plan.exits]
    output = next(n for n in flat.graph.nodes if n.op == "output")
    effects = [n for n in partition.after if n.is_impure() or n in partition.effects.writes]
    before = {n for n in flat.graph.nodes if n.op in ("call_function", "get_attr")}
    before -= partition.inside | partition.after
    needed = _needed([output, *effects], {*exits, *before})
    given = [n for n in flat.graph.nodes if n in before and any(user in needed for user in n.users)]
    modes = any(n in partition.frozen for n in needed)
    nodes = [n for n in flat.graph.nodes if n.op == "call_function" and n in needed or modes and is_grad_mode(n)]
    forward = _program(flat, nodes, [*exits, *given], output.args[0])
    return forward.__self__, given  # type: ignore[attr-defined]


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
        self.states = States()

    def __getstate__(self) -> Dict[str, Any]:
        # A copy compiles again; it has copies of the states.
        return {**self.__dict__, "graphs": []}

    def __call__(self, module: GraphModule, examples: List[Any]) -> Callable[..., Any]:
        strange = [e for e in examples if not isinstance(e, torch.Tensor)]
        if strange:
            reasons = ["a shape is not known when it is compiled; use torch.compile(..., dynamic=False)"]
            if self.strict:
                raise ImportFailure(reasons)
            warnings.warn("te: a graph stays in PyTorch: " + reasons[0], stacklevel=2)
            return module.forward
        graph = Graph(module, examples, self.options, self.differentiate_outputs, self.states)
        self.graphs.append(graph)
        if graph.region:
            graph.region.is_first_microbatch = self._is_first_microbatch
        if graph.reasons and self.strict:
            raise ImportFailure(graph.reasons)
        self._warn_of_limit()
        if graph.reasons:
            warnings.warn("te: parts of a graph stay in PyTorch:\n  " + "\n  ".join(graph.reasons), stacklevel=2)
        return graph

    def _warn_of_limit(self) -> None:
        """Tells that PyTorch is to run what comes next without te, as it does after so many shapes."""
        current = torch._guards.CompileContext.current_compile_id()
        limit = getattr(torch._dynamo.config, "recompile_limit", None)
        if current is not None and limit is not None and (current.frame_compile_id or 0) + 1 == limit:
            warnings.warn(
                f"te: a function was compiled {limit} times, which is torch._dynamo.config.recompile_limit; what does "
                "not fit one of these graphs runs in PyTorch alone. Pad inputs to fewer shapes, or raise the limit; "
                "models of one class count together until torch.compiler.reset()",
                stacklevel=2,
            )

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
        if not self.graphs:
            return (
                "no graph is compiled: the model was not called yet, or torch.compile runs it without te, as it does "
                "after its recompile_limit\n"
            )
        parts = []
        for index, graph in enumerate(self.graphs):
            parts.append(f"graph {index}\n{graph.report(what, format)}")
            parts.extend(f"  stays in PyTorch: {reason}\n" for reason in graph.reasons)
        return "".join(parts)

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """Copies of what recipes remember (histories, scales, random states), and of casts of weights that are kept.

        By the name of the layer, or the weight, in the model.
        """
        return self.states.values(casts=True)

    def load_state_dict(self, states: Mapping[str, torch.Tensor], strict: bool = True) -> None:
        """Sets what `state_dict` gave, before a first call or after; then calls go on as those of the saved model.

        strict: a name that no state of this model has, and one that is missing, is a
        KeyError. Raises ArgumentError for a tensor of another type or shape.
        """
        missing, unexpected = self.states.load(states, strict)
        if strict and missing:
            raise KeyError(f"expected a state '{missing[0]}', but got {sorted(states)}")
        if strict and unexpected:
            raise KeyError(
                f"expected states of the model's weights, <weight>.<x, w or dy>.<amax_history or scale>, but got "
                f"'{unexpected[0]}'"
            )


#: States of torch.compile's graphs, by the dict of options that it gives with each of them.
_states_of_options: "weakref.WeakValueDictionary[int, States]" = weakref.WeakValueDictionary()


def backend(module: GraphModule, examples: List[Any], **options: Any) -> Callable[..., Any]:
    """`torch.compile(model, backend="te", options={"recipe": ...})`."""
    given = options.get("options", options)
    made = Backend(**given)
    states = _states_of_options.get(id(given))
    if states is None:
        states = _states_of_options[id(given)] = made.states
        # Kept, so that no other dict gets its number.
        states.key = given
    made.states = states
    return made(module, examples)


class _Jitted(WithStates, torch._dynamo.eval_frame.OptimizedModule):
    """What `jit` gives of a module: it saves what recipes remember, and its copies compile again."""

    te: Backend
    _fullgraph: bool

    @property
    def _states(self) -> States:  # type: ignore[override]
        return self.te.states

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _compiled, (self._orig_mod, self.te, self._fullgraph)

    def __deepcopy__(self, memo: Any) -> Any:
        return _compiled(copy.deepcopy(self._orig_mod, memo), copy.deepcopy(self.te, memo), self._fullgraph)


def _compiled(module: Any, te: Backend, fullgraph: bool) -> Any:
    compiled: Any = torch.compile(module, backend=te, dynamic=False, fullgraph=fullgraph)
    if isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule):
        te.states.belong_to(module)
        compiled.__class__ = _Jitted
        # Not attributes of the module inside.
        object.__setattr__(compiled, "te", te)
        object.__setattr__(compiled, "_fullgraph", fullgraph)
    else:
        compiled.te = te
    return compiled


def jit(module: Any, *, fullgraph: Optional[bool] = None, **options: Any) -> Any:
    """`module` compiled by te: what torch.compile gives, with the Backend as `te`.

    options: those of Backend. fullgraph: whether a graph break is an error; with
    strict it is.

        model = te_mlir.torch.jit(model, recipe=te_mlir.Float8CurrentScaling(), strict=True)
        model(tokens).backward()
        print(model.te.report("precision"))
    """
    te = Backend(**options)
    return _compiled(module, te, te.strict if fullgraph is None else fullgraph)


def _register() -> None:
    from torch._dynamo import register_backend

    if "te" not in torch._dynamo.list_backends(exclude_tags=()):
        register_backend(backend, name="te")


_register()
