"""A compiled function as one node of autograd.

`Region` is the text of a function, its arguments and results as tensors, and which
arguments want gradients. Forward and backward are one compiled step that is run in
two parts: what the forward saves stays in the arena of an instance between them.
So each forward that waits for its backward has an instance, and a backward can be
run once.
"""

from __future__ import annotations

import ctypes
import math
import operator
import threading
import warnings
import weakref
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from te_mlir import arrays, build
from te_mlir.dtypes import BY_NAME
from te_mlir.errors import ArgumentError, CompileError
from te_mlir.program import FLAG, Program, pipeline_text
from te_mlir.recipes import HighPrecision, Recipe
from te_mlir.runtime import Context, Instance, MicrobatchFlag, Tensor
from te_mlir.runtime import context as context_of
from te_mlir.torch import groups
from te_mlir.torch.states import Part, States, is_cast, layer_of, renamed


_addresses = arrays.torch_addresses()
_main_grad = operator.attrgetter("main_grad")


def dtype_name(dtype: torch.dtype) -> str:
    """`torch.bfloat16` is "bfloat16"."""
    return str(dtype)[6:]


class Spec(NamedTuple):
    """A tensor outside of a region: its name, sizes and element type, and whether it wants a gradient.

    part: what it is of a parameter. Rows lie there; columns are a copy of each call.
    """

    name: str
    shape: Tuple[int, ...]
    dtype: torch.dtype
    weight: bool = False
    differentiable: bool = False
    part: Optional[Part] = None

    @property
    def is_copy(self) -> bool:
        return self.part is not None and self.part.axis == 1


class Options(NamedTuple):
    """How regions are compiled; `pipeline` are further options of the pipeline, by name."""

    recipe: Optional[Recipe] = None
    backward_override: Optional[str] = None
    target: Optional[str] = None
    strict: bool = False
    #: Casts of weights are kept from call to call, until a first micro-batch.
    cache_weights: bool = False
    #: Gradients of weights go to their `main_grad`, in float32, and not to autograd.
    main_grad: bool = False
    #: Forward and backward are recorded once and replayed.
    cuda_graph: bool = False
    pipeline: Tuple[Tuple[str, Any], ...] = ()


class Region:
    """A function, on one device, that autograd can call.

    function: its arguments are `inputs`, its results `outputs`, in order, of the same
    number of elements each. outputs: where `differentiable`, a cotangent is taken.
    shared: weights that have elements in common with others of the graph, here or in
    other regions. begun: weights whose whole parameters' `main_grad` this region sets to
    0, as the first that uses them, where the steps do not write all of it.
    """

    def __init__(
        self,
        function: build.Function,
        inputs: Sequence[Spec],
        outputs: Sequence[Spec],
        device: torch.device,
        options: Options,
        states: Optional[States] = None,
        shared: Sequence[int] = (),
        begun: Sequence[int] = (),
    ) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.device = device
        self.context: Context = context_of(
            (arrays.CPU, 0) if device.type == "cpu" else (arrays.CUDA, device.index or 0)
        )
        self.function = function
        self.wrt = [i for i, spec in enumerate(inputs) if spec.differentiable]
        self.through = [i for i, spec in enumerate(outputs) if spec.differentiable]
        #: Those that can have no gradient.
        self.discrete = [
            i for i, spec in enumerate(outputs) if not spec.differentiable and not spec.dtype.is_floating_point
        ]
        #: Options of te_mlir.compile, target included.
        self.options: Dict[str, Any] = {
            "recipe": options.recipe,
            "backward_override": options.backward_override,
            "target": options.target or ("reference" if self.context.backend == "reference" else None),
            "strict": options.strict,
            "cache_weights": options.cache_weights,
            "main_grad": options.main_grad,
            **dict(options.pipeline),
        }
        # Whether activations are computed again in the backward, where nobody says what is.
        # One of two operands saves only these anyway; its cast is not to be made twice.
        plain = (op for op in function.ops if op.name == "te.activation" and len(op.operands) == 1)
        self._remakes = "remat" not in self.options and any(plain)
        self.cuda_graph = options.cuda_graph
        #: Of `wrt`, those whose gradients go to `main_grad`.
        self.mains = [i for i in self.wrt if options.main_grad and inputs[i].weight]
        #: Of `mains`, those in `shared`, and columns: each has a sum of its own, which PyTorch adds to the parameter's.
        self.shared = {
            i: SimpleNamespace(main_grad=torch.zeros(inputs[i].shape, device=device))
            for i in self.mains
            if i in shared or inputs[i].is_copy
        }
        self.begun = [i for i in self.mains if i in begun]
        #: The other ones of `mains`: their places there, and their bytes.
        self.alone = [(k, 4 * math.prod(inputs[i].shape)) for k, i in enumerate(self.mains) if i not in self.shared]
        #: Those that are parameters, not parts, and theirs: their places there, and the parameters'.
        self.whole = [(k, i) for k, i in enumerate(self.mains) if i not in self.shared and inputs[i].part is None]
        #: Those whose gradients autograd gets.
        self.given = [i for i in self.wrt if i not in self.mains]
        # What autograd follows where it has no other tensor that wants a gradient.
        self.anchor = torch.empty((), device=device, requires_grad=True)
        self._programs: Dict[bool, Program] = {}
        self._loaded: "Dict[Tuple[bool, Tuple[str, ...]], Loaded]" = {}
        #: What recipes remember of the model: other regions of it have the same.
        self.states = states or States()
        self.weights = [i for i, spec in enumerate(inputs) if spec.weight]
        #: Names of the weights of the last call, in the model: layers that are alike share a region.
        self.names: Tuple[str, ...] = tuple(inputs[i].name for i in self.weights)
        #: Parameters of the next call, by the inputs that are parts of them.
        self.owners: Dict[int, torch.Tensor] = {}
        self._named = False
        #: What casts of weights depend on, beside the weights.
        self.recipe = repr((options.recipe, options.backward_override, options.target, options.pipeline))
        #: True: calls cast the weights and begin the gradients in main_grad anew. False: they use the casts of
        #: the call before and add. None: they cast and add, which goes without cache_weights alone.
        self.is_first_microbatch: Optional[bool] = True if options.cache_weights else None
        #: Layers that stay in high precision as their sizes do not fit, with the reasons.
        self.kept: Dict[str, str] = {}
        #: Of a number of layers, None where so many more may, or why others do already.
        self.refuse: Callable[[int], Optional[List[str]]] = lambda count: []
        self.flag = MicrobatchFlag(self.context)
        #: Bytes that each input takes.
        self._bytes = [s.dtype.itemsize * math.prod(s.shape) for s in inputs]
        self._guard: Any = None
        self._seen: List[int] = []
        self._seen_grads: List[int] = []

    def options_for(self, training: bool) -> "Dict[str, Any]":
        """The options of one of the two steps: only training holds something for a backward."""
        options = dict(self.options)
        if not training:
            options.pop("remat", None)
        elif "remat" not in options and self._remakes:
            options["remat"] = "ops:te.activation"
        if not training or not self.mains:
            options.pop("main_grad", None)
        return options

    def text(self, training: bool) -> str:
        """The module that is compiled."""
        module = build.Module()
        self.function.private = True
        step = build.Function(module, "step")
        operands = [
            step.argument(spec.name, value.shape, value.dtype, weight=spec.weight)
            for spec, (value, _) in zip(self.inputs, self.function.arguments)
        ]
        if training:
            cotangents = []
            for index, (spec, (value, _)) in enumerate(zip(self.outputs, self.function.results)):
                if index in self.through:
                    cotangents.append(step.argument(f"grad.{spec.name}", value.shape, value.dtype))
                else:
                    cotangents.append(step.constant(0.0, value.shape, value.dtype))
            values = step.vjp(self.function, operands, cotangents, self.wrt)
            names = [spec.name for spec in self.outputs]
            names += [f"grad.{self.inputs[i].name}" for i in self.wrt]
        else:
            values = step.call(self.function, operands)
            names = [spec.name for spec in self.outputs]
        for name, value in zip(names, values):
            step.result(name, value)
        module.functions = [self.function, step]
        return module.to_mlir()

    def load(self, training: bool) -> "Loaded":
        """The step with the states of the weights of the last call; compiled once."""
        key = (training, self.names)
        if key not in self._loaded:
            if training not in self._programs:
                self._programs[training] = self._compiled(training)
            self._loaded[key] = Loaded(self, self._programs[training], training)
        return self._loaded[key]

    def _compiled(self, training: bool) -> Program:
        while True:
            try:
                return Program(self.text(training), "step", pipeline_text(**self.options_for(training)))
            except CompileError as error:
                # No backward reads what an activation makes.
                unknown = any(said.code == "remat-unknown" for said in error.diagnostics)
                if training and self._remakes and unknown:
                    self._remakes = False
                else:
                    self._keep(error)

    def _keep(self, error: CompileError) -> None:
        """Leaves the layers in high precision whose sizes do not fit; raises where there is no other, or none."""
        layers = [op.layer for op in self.function.layers() if op.layer]
        found = {said.layer: str(said) for said in error.diagnostics if said.code == "size-multiple"}
        unfit = {layer: line for layer, line in found.items() if layer in layers and layer not in self.kept}
        others = self.refuse(sum(layer in unfit for layer in layers))
        if not unfit or self.options["strict"]:
            raise error
        if others is not None:
            raise CompileError("\n".join([*others, str(error)]), error.diagnostics) from None
        self.kept.update(unfit)
        for layer in unfit:
            self.function.set_recipe(layer, HighPrecision())
        warnings.warn("te: layers stay in high precision:\n  " + "\n  ".join(unfit.values()), stacklevel=2)

    def _name_of(self, index: int, tensor: torch.Tensor) -> str:
        """What the model calls a weight."""
        spec = self.inputs[index]
        if spec.part is None:
            return self.states.name_of(tensor, spec.name)
        return spec.part.name(self.states.name_of(self.owners[index], spec.part.owner(spec.name)))

    def belong_to(self, owners: Dict[int, torch.Tensor]) -> None:
        """The parameters of the next call; copies of columns may lie where those of another layer lay."""
        if any(self.owners.get(index) is not owner for index, owner in owners.items()):
            self._named = False
        self.owners = owners

    def state_name(self, state: str) -> str:
        """What the model calls a state that a program names after the layer of a weight."""
        names = {layer_of(self.inputs[i].name): layer_of(name) for i, name in zip(self.weights, self.names)}
        return renamed(state, names)

    def cast_name(self, cast: str) -> str:
        """What the model calls a cast, which a program names after the weight."""
        return renamed(cast, {self.inputs[i].name: name for i, name in zip(self.weights, self.names)})

    def __call__(self, *tensors: torch.Tensor) -> "List[torch.Tensor]":
        addresses = self.check(tensors)
        if self.mains:
            groups.refuse_averages()
        if forward_ad._current_level >= 0:
            _refuse_duals(self.inputs, tensors)
        if not self._named:
            # Perhaps those of another layer.
            self.names = tuple(self._name_of(i, tensors[i]) for i in self.weights)
            self._named = True
        if not torch.is_grad_enabled() or not any(tensors[i].requires_grad for i in self.wrt):
            return self.load(False).forward(tensors, addresses)
        wanted = [tensors[i] for i in self.given]
        if self.mains:
            wanted.insert(0, self.anchor)
        # Without functorch, Function.apply does nothing but look for its tensors, which costs 1 us each.
        apply = _Call.apply if torch._C._are_functorch_transforms_active() else _apply
        results = apply(self, tensors, addresses, *wanted)
        return list(results) if isinstance(results, tuple) else [results]

    def check(self, tensors: "Tuple[torch.Tensor, ...]") -> List[int]:
        """Addresses of the tensors; raises ArgumentError, naming the argument, unless the step can use them."""
        seen = _addresses(tensors)
        if self._guard is None or not self._guard(*tensors):
            for spec, tensor in zip(self.inputs, tensors):
                _check(spec, tensor, self.device)
            self._guard = arrays.torch_guard(tensors)
            self._named = False
        elif seen != self._seen:
            # Tensors like those of the last call: where they lie now is left to look at. A storage that is resized moves.
            moved = arrays.changed(self._seen, seen)
            if not set(moved).isdisjoint(self.weights):
                self._named = False
            for index in moved:
                tensor, address = tensors[index], seen[index]
                whole = not tensor.storage_offset() and len(tensor.untyped_storage()) >= self._bytes[index]
                if not address or address % 16 or not whole:
                    _check(self.inputs[index], tensor, self.device)
        self._seen = seen
        return seen

    def main_grads(self, tensors: Sequence[torch.Tensor]) -> Tuple[List[torch.Tensor], List[int]]:
        """The `main_grad` of the weights, made of zeros where a parameter has none, and where they lie."""
        try:
            grads = list(map(_main_grad, [self.shared.get(i, tensors[i]) for i in self.mains]))
            addresses = _addresses(grads)
        except (AttributeError, TypeError):
            grads = [
                self.shared[i].main_grad if i in self.shared else self.main_grad_of(i, tensors[i]) for i in self.mains
            ]
            addresses = _addresses(grads)
        # A storage that is resized moves.
        if addresses != self._seen_grads:
            spans = []
            for index, grad in zip(self.mains, grads):
                spec = self.inputs[index]
                _check(Spec(f"{spec.name}.main_grad", spec.shape, torch.float32), grad, self.device)
                if grad.numel():
                    spans.append((grad.data_ptr(), 4 * grad.numel(), spec.name))
            spans.sort()
            for (begin, size, name), (after, _, other) in zip(spans, spans[1:]):
                if begin + size > after:
                    raise ArgumentError(
                        f"argument '{other}.main_grad': expected memory of its own, but it overlaps '{name}.main_grad'"
                    )
            self._seen_grads = addresses
        return grads, addresses

    def main_grad_of(self, index: int, parameter: torch.Tensor) -> torch.Tensor:
        """The `main_grad` of a weight, which may be a part of a parameter; made where there is none."""
        spec, grad = self.inputs[index], self.owners_grad(index, parameter)
        if spec.part is None:
            return grad
        whole = self.owners[index].shape
        _check(Spec(f"{spec.part.owner(spec.name)}.main_grad", whole, torch.float32), grad, self.device)
        return spec.part.of(grad)

    def owners_grad(self, index: int, parameter: torch.Tensor) -> torch.Tensor:
        """Likewise, of the whole parameter."""
        spec = self.inputs[index]
        owner: Any = parameter if spec.part is None else self.owners[index]
        grad = getattr(owner, "main_grad", None)
        if grad is None:
            if not owner.is_leaf:
                raise ArgumentError(
                    f"argument '{spec.name}': expected a parameter for 'main_grad', but got a tensor made of one"
                )
            if groups.is_gathered(owner):
                raise ArgumentError(
                    f"argument '{spec.name}.main_grad': expected a parameter that lies whole in each process, but "
                    "fully_shard gathered it, and takes 'grad' alone back to the shards; compile without main_grad"
                )
            grad = owner.main_grad = torch.zeros(owner.shape, device=self.device)
        return grad


def _check(spec: Spec, tensor: torch.Tensor, device: torch.device, role: str = "argument") -> None:
    """Raises ArgumentError, naming the argument, unless the step can use the tensor's memory."""
    if tensor.is_neg():
        raise ArgumentError(f"{role} '{spec.name}': {arrays.NEGATED}")
    if tensor.dtype is not spec.dtype:
        raise ArgumentError(
            f"{role} '{spec.name}': expected elements of {dtype_name(spec.dtype)}, but got {dtype_name(tensor.dtype)}"
        )
    if tensor.shape != spec.shape:
        raise ArgumentError(f"{role} '{spec.name}': expected shape {list(spec.shape)}, but got {list(tensor.shape)}")
    if tensor.device != device:
        raise ArgumentError(f"{role} '{spec.name}': expected memory of '{device}', but got '{tensor.device}'")
    if not tensor.is_contiguous():
        raise ArgumentError(
            f"{role} '{spec.name}': expected a row-major tensor without gaps, but got strides "
            f"{list(tensor.stride())}; call .contiguous()"
        )
    if is_traceable_wrapper_subclass(tensor):
        raise ArgumentError(f"{role} '{spec.name}': expected a tensor in memory, but got a {type(tensor).__name__}")
    pointer = tensor.data_ptr()
    if pointer == 0 and tensor.numel():
        raise ArgumentError(
            f"{role} '{spec.name}': expected a tensor with memory, but its storage was freed or resized"
        )
    count, held = tensor.numel() * tensor.itemsize, tensor.untyped_storage().nbytes()
    if tensor.storage_offset() * tensor.itemsize + count > held:
        raise ArgumentError(
            f"{role} '{spec.name}': expected memory of {count} bytes, but its storage was resized to {held}"
        )
    if pointer % 16:
        raise ArgumentError(
            f"{role} '{spec.name}': expected memory aligned to 16 bytes, but got address {pointer:#x}"
        )


class _Memory:
    """What a recorded instance reads and writes: the same addresses in every call.

    A tensor that lies elsewhere than in the call before is copied to one kept here.
    """

    def __init__(self) -> None:
        self.results: List[torch.Tensor] = []
        self.gradients: List[torch.Tensor] = []
        self.seen: List[int] = []
        #: Copies of what moved.
        self.own: Dict[int, torch.Tensor] = {}

    def settle(self, tensors: Sequence[torch.Tensor], addresses: List[int], fixed: Sequence[bool]) -> List[int]:
        """The addresses that a recorded step uses: of `fixed` tensors their own."""
        if addresses != self.seen:
            for index in arrays.changed(self.seen, addresses):
                if not fixed[index] and index not in self.own:
                    self.own[index] = torch.empty_like(tensors[index])
            self.seen = addresses
        if self.own:
            addresses = list(addresses)
        for index, own in self.own.items():
            source = tensors[index]
            own.copy_(source.detach() if source.requires_grad else source)
            addresses[index] = own.data_ptr()
        return addresses


class _Arena:
    """An instance with the pointers of its calls, and with its memory where it is recorded."""

    def __init__(self, instance: Instance, pointers: Any, recorded: bool) -> None:
        self.instance, self.pointers = instance, pointers
        self.memory = _Memory() if recorded else None
        #: Where the last forward read its inputs.
        self.inputs: List[int] = []
        #: Where gradients lie that it adds to.
        self.mains: List[int] = []
        #: What the last backward found: the inputs of its forward, and where those that are saved lay.
        self.found: Any = (None, None)
        self.cotangents = _Memory()
        #: Gradients whose memory the forward uses already.
        self.gradients: List[torch.Tensor] = []
        #: Scales of the last forward [scales, 4], the first of each row, and whether they are there: others came since.
        self.scales: Optional[torch.Tensor] = None
        self.keeps_scales = False


class Loaded:
    """A region's program on its device, with the states of the recipe and free instances."""

    def __init__(self, region: Region, program: Program, training: bool) -> None:
        self.region, self.program = region, program
        arguments = program.arguments
        self.places = {(a.name, a.is_result): i for i, a in enumerate(arguments)}
        mains = [f"grad.{region.inputs[i].name}" for i in region.mains] if training else []
        states: Dict[str, Tensor] = {}
        #: Casts of weights that are states.
        self.casts: Set[Tuple[str, str]] = set()
        for argument in arguments:
            if argument.carried_input < 0:
                continue
            source = arguments[argument.carried_input]
            name = source.name
            if math.isnan(source.init or 0.0):
                # Nothing is there until a first micro-batch makes it.
                key = (region.recipe, region.cast_name(name))
                states[name] = region.states.cast(*key, source, region.context)
                self.casts.add(key)
            elif name not in mains:
                states[name] = region.states.tensor(region.state_name(name), source, region.context)
        # What a part does not use must be no null pointer.
        self.dummy = region.context.empty((64,), "float32")
        # The pointers are theirs.
        self.states = states
        self.template = [states[a.name].pointer if a.name in states else self.dummy.pointer for a in arguments]
        self.flag_place = self.places.get((FLAG, False), -1)
        self.input_places = [self.places[spec.name, False] for spec in region.inputs]
        self.output_places = [self.places[spec.name, True] for spec in region.outputs]
        # Those that a recorded step is recorded again for.
        self.fixed = [spec.weight and not spec.is_copy for spec in region.inputs]
        self.main_places = [(self.places[name, False], self.places[name, True]) for name in mains]
        #: Of `region.mains`, those that the backward begins anew; the others the forward sets to 0.
        self.begun_late: Set[int] = set()
        self.gradient_places: List[int] = []
        self.cotangent_places: List[int] = []
        self.end = program.num_launches
        self.cut = self.end
        #: From here on histories and scales are updated, and nothing else is done.
        self.update = self.end
        kernels = [kernel for kernel, _, _ in program.launches()]
        while self.update and kernels[self.update - 1] == "delayed_scaling_update":
            self.update -= 1
        if training:
            self.gradient_places = [self.places[f"grad.{region.inputs[i].name}", True] for i in region.given]
            self.cotangent_places = [self.places[f"grad.{region.outputs[i].name}", False] for i in region.through]
            used = [arguments[i].first_launch for i in self.cotangent_places]
            self.cut = min((slot for slot in used if slot >= 0), default=self.end)
            self.begun_late = {k for k, (i, _) in enumerate(self.main_places) if arguments[i].first_launch >= self.cut}
            late = [
                arguments[i].name
                for i in self.output_places
                if arguments[i].last_launch >= self.cut and arguments[i].first_launch >= self.cut
            ]
            if late:
                raise ArgumentError(f"expected results to be made before the backward, but {late} are not")
        null = self.dummy.pointer
        results = [(s.shape, s.dtype, False) for s in region.outputs]
        self.make_results = arrays.TorchMaker(results, region.device, self.output_places, null)
        gradients = [(region.inputs[i].shape, region.inputs[i].dtype, True) for i in region.given] if training else []
        self.make_gradients = arrays.TorchMaker(gradients, region.device, self.gradient_places, null)
        #: Of a recorded step, whose own are overwritten by the next backward.
        self.make_copies = arrays.TorchMaker(gradients, region.device)
        #: Whether the forward has intermediates in the memory of gradients.
        self.is_early = any(0 <= arguments[i].first_launch < self.cut for i in self.gradient_places)
        #: Which inputs and outputs the backward reads.
        self.saved_inputs = [n for n, i in enumerate(self.input_places) if arguments[i].last_launch >= self.cut]
        self.saved_outputs = [n for n, i in enumerate(self.output_places) if arguments[i].last_launch >= self.cut]
        self.free: List[_Arena] = []
        #: Scales that the forward casts with: their places, and they themselves. A backward may make such a cast again.
        delayed = [n for n in states if n.endswith(".scale") and not is_cast(n)]
        read = {n: arguments[self.places[n, False]].first_launch for n in delayed}
        names = [name for name, slot in read.items() if 0 <= slot < self.cut]
        self.scale_places = [self.places[name, False] for name in names] if self.update < self.end else []
        self.scales = [torch.from_dlpack(states[name]) for name in names] if self.scale_places else []
        self.scale_names = {region.state_name(name) for name in names}
        #: Forwards that wait for their backward.
        self.waiting: "weakref.WeakSet[_Lease]" = weakref.WeakSet()
        region.states.users.add(self)
        region.states.uses += 1
        self._others: Tuple[int, "weakref.WeakSet[Loaded]"] = (0, weakref.WeakSet())
        self.current = arrays.torch_stream(region.context.device)
        self.last_stream: Optional[int] = None
        self.Pointers = ctypes.c_void_p * max(len(arguments), 1)

    def take(self) -> _Arena:
        """An arena that no forward waits with."""
        if self.free:
            return self.free.pop()
        instance = self.program.instance(self.region.context)
        # The pointers of states stay; what no call fills in is never read.
        return _Arena(instance, self.Pointers(*self.template), self.region.cuda_graph)

    def later(self) -> bool:
        """Whether this call is of a later micro-batch; notes that there are casts of weights from now on."""
        first = self.region.is_first_microbatch
        if not self.region.options["cache_weights"]:
            return first is not True
        made = self.region.states.made
        if not first and not made.issuperset(self.casts):
            raise ArgumentError(
                "argument 'is_first_microbatch': expected True in the first call, as there are no casts of "
                "weights to use again, but got False"
            )
        made.update(self.casts)
        return not first

    def point_flag(self, pointers: Any, later: bool, stream: int) -> None:
        if self.flag_place >= 0:
            flag = self.region.flag
            recorded = self.region.cuda_graph
            pointers[self.flag_place] = flag.written(later, stream) if recorded else flag.constant(later)

    def stream(self) -> int:
        """The current stream; waits where it is not the one that instances were used on."""
        stream = self.current()
        if stream != self.last_stream:
            # A stream that is captured starts from the one before by its own events.
            if self.last_stream is not None and stream and not torch.cuda.is_current_stream_capturing():
                torch.cuda.synchronize(self.region.device)
            self.last_stream = stream
        return stream

    def forward(self, tensors: Sequence[torch.Tensor], addresses: List[int]) -> List[torch.Tensor]:
        """Results of a call without a backward."""
        later, arena = self.later(), self.take()
        end = self.end
        if not torch.is_grad_enabled():
            # Evaluation changes nothing of training, and a forward that a checkpoint runs again counts once.
            end = self.update
        elif self.scale_places:
            self.keep_scales()
        try:
            return self.run_forward(arena, tensors, addresses, later, end=end)
        finally:
            self.free.append(arena)

    def run_forward(
        self,
        arena: _Arena,
        tensors: Sequence[torch.Tensor],
        addresses: List[int],
        later: bool,
        mains: "Optional[List[int]]" = None,
        end: Optional[int] = None,
    ) -> List[torch.Tensor]:
        """Results; the backward can go on with the arena. end: of the launches, if not where the backward begins."""
        region, stream = self.region, self.stream()
        end = self.cut if end is None else end
        arena.keeps_scales = False
        pointers, memory, dummy = arena.pointers, arena.memory, self.dummy.pointer
        # Already here: sums that begin anew are set to 0 at the beginning of the step.
        if mains and mains != arena.mains:
            for (before, after), address in zip(self.main_places, mains):
                pointers[before] = pointers[after] = address or dummy
            arena.mains = mains
        if memory is not None:
            addresses = memory.settle(tensors, addresses, self.fixed)
        if addresses != arena.inputs:
            moved = arrays.changed(arena.inputs, addresses) if arena.inputs else range(len(addresses))
            for index in moved:
                pointers[self.input_places[index]] = addresses[index] or dummy
            arena.inputs = addresses
        if memory is None or not memory.results:
            results = self.make_results(pointers, stream)
            if memory is not None:
                memory.results = results
        if self.is_early and not (memory and memory.gradients):
            arena.gradients = self.make_gradients(pointers, stream)
            if memory is not None:
                memory.gradients = arena.gradients
        self.point_flag(pointers, later, stream)
        if memory is None:
            arena.instance.run_part(pointers, stream, 0, end)
            return results
        arena.instance.replay(pointers, stream, 0, end)
        # Numbers are the caller's own; of larger results only until the next call.
        return [r.detach() if r.numel() > 1 else r.clone() for r in memory.results]

    def keep_scales(self) -> None:
        """Before scales change: forwards that wait keep those that they cast with."""
        with _lock:
            users = self.region.states.users
            if self._others[0] != self.region.states.uses:
                found = (u for u in users if not u.scale_names.isdisjoint(self.scale_names))
                self._others = self.region.states.uses, weakref.WeakSet(found)
            waiting = [lease for other in self._others[1] for lease in other.waiting]
        for lease in waiting:
            lease.keep_scales()

    def find_saved(self, arena: _Arena, saved: "Sequence[torch.Tensor]") -> None:
        """Points the backward to what the forward saved, where that lies now; raises ArgumentError where it is gone."""
        region, count = self.region, len(self.saved_inputs)
        addresses = _addresses(saved[:count])
        if addresses != list(map(arena.inputs.__getitem__, self.saved_inputs)) and (
            arena.found[0] is not arena.inputs or arena.found[1] != addresses
        ):
            own = arena.memory.own if arena.memory else {}
            for index, tensor, address in zip(self.saved_inputs, saved, addresses):
                if index not in own and address != arena.inputs[index]:
                    _check(region.inputs[index], tensor, region.device)
                    arena.inputs = [*arena.inputs[:index], address, *arena.inputs[index + 1 :]]
                    arena.pointers[self.input_places[index]] = address or self.dummy.pointer
            arena.found = (arena.inputs, addresses)
        for index, tensor in zip(self.saved_outputs, saved[count:]):
            place, address = self.output_places[index], tensor.data_ptr()
            # A recorded step's own results are kept here.
            if arena.memory is None and tensor.numel() and address != arena.pointers[place]:
                # Of a checkpoint, which made it again; the next forward writes elsewhere.
                _check(region.outputs[index], tensor, region.device, "result")
                arena.pointers[place] = address

    def run_backward(
        self,
        arena: _Arena,
        later: bool,
        saved: "Sequence[torch.Tensor]",
        cotangents: "Sequence[torch.Tensor]",
    ) -> "List[torch.Tensor]":
        """Gradients of `region.given`."""
        region, stream = self.region, self.stream()
        pointers, memory = arena.pointers, arena.memory
        self.find_saved(arena, saved)
        addresses = [tensor.data_ptr() for tensor in cotangents]
        if memory is not None:
            addresses = arena.cotangents.settle(cotangents, addresses, [False] * len(cotangents))
        for place, address in zip(self.cotangent_places, addresses):
            pointers[place] = address or self.dummy.pointer
        gradients = memory.gradients if memory else arena.gradients
        arena.gradients = []
        if not gradients:
            gradients = self.make_gradients(pointers, stream)
        self.point_flag(pointers, later, stream)
        run = arena.instance.run_part if memory is None else arena.instance.replay
        first = self.cut
        if self.scale_places:
            self.keep_scales()
        if arena.keeps_scales and arena.scales is not None:
            for row, place in enumerate(self.scale_places):
                pointers[place] = arena.scales.data_ptr() + 16 * row
            run(pointers, stream, first, self.update)
            first = self.update
            for place in self.scale_places:
                pointers[place] = self.template[place]
        run(pointers, stream, first, self.end)
        if memory is None:
            return gradients
        memory.gradients = gradients
        copies = self.make_copies(stream=stream)
        if copies:
            torch._foreach_copy_(copies, gradients)
        return copies


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy where its memory does not hold its elements in order, from a place that kernels read."""
    inner = tensor.contiguous().resolve_neg()
    return inner.clone() if inner.data_ptr() % 16 else inner


def _refuse_duals(specs: Sequence[Spec], tensors: Sequence[torch.Tensor]) -> None:
    for spec, tensor in zip(specs, tensors):
        if forward_ad.unpack_dual(tensor).tangent is not None:
            raise ArgumentError(
                f"argument '{spec.name}': expected no tangent, but got one (forward-mode differentiation); "
                "te has gradients of backwards alone"
            )


#: Of what waits for a backward, in all threads.
_lock = threading.Lock()

#: Addresses (first, behind the last).
_Span = Tuple[int, int]


class _Begin:
    """A first micro-batch between its forward and its backward, which writes sums anew that others may have begun since.

    So a parameter that two graphs of a model use, or two calls of one, has the sum of both.
    mains, spans: the sums, which are nobody else's in this call, and where they lie.
    """

    _waiting: "weakref.WeakSet[_Begin]" = weakref.WeakSet()

    def __init__(self, mains: Sequence[torch.Tensor], spans: Sequence[_Span]) -> None:
        self.mains, self.spans = mains, spans
        self.written: Set[_Span] = set()
        with _lock:
            self._waiting.add(self)

    def end(self) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        """What was written of sums since, with zeros for the rest, and these sums."""
        with _lock:
            self._waiting.discard(self)
        found = []
        for main, (begin, end) in zip(self.mains, self.spans) if self.written else ():
            cuts = [(max(begin, first), min(end, last)) for first, last in self.written]
            cuts = [(first, last) for first, last in cuts if first < last]
            if cuts:
                kept = torch.zeros_like(main)
                for first, last in cuts:
                    cut = slice((first - begin) // 4, (last - begin) // 4)
                    kept.view(-1)[cut] = main.view(-1)[cut]
                found.append((kept, main))
        return found

    @classmethod
    def clear(cls, spans: Sequence[_Span]) -> None:
        """Sets what is begun there, and not written since, to 0: one that adds comes before the one that begins."""
        with _lock:
            for begin in cls._waiting:
                for main, (own, _) in zip(begin.mains, begin.spans):
                    for first, last in spans:
                        first, last = max(first, own), min(last, own + 4 * main.numel())
                        if first < last and not any(a < last and first < b for a, b in begin.written):
                            main.view(-1)[(first - own) // 4 : (last - own) // 4].zero_()

    @classmethod
    def tell(cls, spans: Sequence[_Span]) -> None:
        """Sums were written there."""
        with _lock:
            for begin in cls._waiting:
                begin.written.update(spans)


class _Lease:
    """An arena between a forward and its backward; free again when either is gone."""

    # Also of one that dynamo makes without a call of __init__.
    arena: Optional[_Arena] = None

    def __init__(self, loaded: Loaded, arena: _Arena) -> None:
        self.loaded, self.arena = loaded, arena
        if loaded.scale_places:
            with _lock:
                loaded.waiting.add(self)

    def end(self) -> "Optional[_Arena]":
        arena, self.arena = self.arena, None
        if self.loaded.scale_places:
            with _lock:
                self.loaded.waiting.discard(self)
        return arena

    def keep_scales(self) -> None:
        arena = self.arena
        if arena is not None and not arena.keeps_scales:
            scales = torch.stack(self.loaded.scales)
            if arena.scales is None:
                # Each where kernels may read it from.
                arena.scales = scales.new_zeros(len(scales), 4)
            arena.scales[:, 0] = scales
            arena.keeps_scales = True

    def __del__(self) -> None:
        if self.arena is not None:
            self.loaded.free.append(self.arena)


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, region: Region, tensors: "Tuple[torch.Tensor, ...]", addresses: List[int], *_: torch.Tensor
    ) -> Any:
        loaded = region.load(True)
        mains, where = region.main_grads(tensors)
        ctx.shared = [(own.main_grad, region.main_grad_of(i, tensors[i])) for i, own in region.shared.items()]
        later = loaded.later()
        arena = loaded.take()
        ctx.lease = _Lease(loaded, arena)
        results = loaded.run_forward(arena, tensors, addresses, later, where)
        if region.is_first_microbatch:
            for index in region.begun:
                region.owners_grad(index, tensors[index]).zero_()
        spans = [(where[place], where[place] + size) for place, size in region.alone]
        ctx.begin = None
        late = [k for k, (place, _) in enumerate(region.alone) if place in loaded.begun_late]
        if region.is_first_microbatch and late:
            ctx.begin = _Begin([mains[region.alone[k][0]] for k in late], [spans[k] for k in late])
        # Where parts are shared, or columns, all of the parameter's, which is begun before.
        whole = [region.owners_grad(i, tensors[i]) for i in region.shared]
        ctx.written = spans + [(grad.data_ptr(), grad.data_ptr() + 4 * grad.numel()) for grad in whole]
        ctx.owners = [tensors[i] for _, i in region.whole]
        ctx.sums = [mains[k] for k, _ in region.whole]
        ctx.set_materialize_grads(False)
        ctx.region, ctx.later, ctx.mains = region, later, mains
        # Kept alive, and told apart from what was changed since.
        ctx.save_for_backward(*[tensors[i] for i in loaded.saved_inputs], *[results[i] for i in loaded.saved_outputs])
        if region.discrete:
            ctx.mark_non_differentiable(*[results[i] for i in region.discrete])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        region, lease = ctx.region, ctx.lease
        # Raises where a tensor was changed in place since the forward.
        saved = ctx.saved_tensors
        for index, cotangent in enumerate(cotangents):
            if cotangent is not None and index not in region.through:
                raise ArgumentError(
                    f"result '{region.outputs[index].name}': expected no gradient, but got one; compile with "
                    "differentiate_outputs='all'"
                )
        given = []
        for index in region.through:
            spec, cotangent = region.outputs[index], cotangents[index]
            if cotangent is None:
                cotangent = torch.zeros(spec.shape, dtype=spec.dtype, device=region.device)
            if torch._C._functorch.is_batchedtensor(cotangent) or torch._C._functorch.is_legacy_batchedtensor(cotangent):
                raise ArgumentError(
                    f"result '{spec.name}': expected one gradient of {list(spec.shape)}, but got several at once "
                    "(is_grads_batched, vmap); call the backward for each"
                )
            given.append(dense(cotangent.to(spec.dtype)))
        now = [getattr(owner, "main_grad", None) for owner in ctx.owners]
        if any(map(operator.is_not, now, ctx.sums)):
            names = (region.inputs[i].name for (_, i), a, b in zip(region.whole, now, ctx.sums) if a is not b)
            raise ArgumentError(
                f"argument '{next(names)}.main_grad': expected the tensor of the forward, but there is another before its "
                "backward; set it to zero in place"
            )
        for own, _ in ctx.shared:
            own.zero_()
        arena = lease.end()
        if arena is None:
            raise ArgumentError(
                "expected one backward for each forward, but got a second; what the forward saved is gone "
                "after the first, so call the forward again (retain_graph has no effect here)"
            )
        begun = ctx.begin.end() if ctx.begin else ()
        if ctx.later and ctx.written:
            _Begin.clear(ctx.written)
        try:
            gradients = lease.loaded.run_backward(arena, ctx.later, saved, given)
        finally:
            lease.loaded.free.append(arena)
        for part, main in (*ctx.shared, *begun):
            main.add_(part)
        _Begin.tell(ctx.written)
        # With create_graph.
        if torch.is_grad_enabled():
            gradients = _Once.apply(region.anchor, *gradients)
        return (None, None, None, *([None] if region.mains else []), *gradients)


_apply = super(torch.autograd.Function, _Call).apply


class _Once(torch.autograd.Function):
    """Gradients as they are, which have none of their own."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, *gradients: torch.Tensor) -> "Tuple[torch.Tensor, ...]":
        return tuple(gradient.detach() for gradient in gradients)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise ArgumentError(
            "expected a gradient of results, but got one of a gradient (create_graph=True); te has no second derivatives"
        )


def torch_to_te(dtype: torch.dtype) -> Optional[str]:
    """The name of an element type that the dialect has; None for others."""
    name = dtype_name(dtype)
    return name if name in BY_NAME and BY_NAME[name].bytes > 1 else None
