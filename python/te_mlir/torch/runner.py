"""A compiled function that autograd can call.

A `Region` is a function, with its arguments and results as tensors, and the arguments that
need gradients. Forward and backward are one compiled step that runs in two parts: values that
the forward saves stay in the arena of an instance in between. Each forward that waits for its
backward therefore has an instance, and a backward can run only once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

import torch
from torch.autograd import forward_ad

from te_mlir import arrays, build, devices, makers
from te_mlir.errors import ArgumentError
from te_mlir.program import Program
from te_mlir.runtime import Context, MicrobatchFlag, Tensor
from te_mlir.runtime import context as context_of
from te_mlir.torch import autograd, groups
from te_mlir.torch.arena import Arena, Pointers, Pool
from te_mlir.torch.compilation import Compilation
from te_mlir.torch.cuts import Cut
from te_mlir.torch.main_grad import MainGrads
from te_mlir.torch.places import Places
from te_mlir.torch.scales import Scales
from te_mlir.torch.signature import Guard, Names, Options, Signature
from te_mlir.torch.states import States, is_cast
from te_mlir.torch.tensors import Spec, addresses_of, check, refuse_duals


class Region:
    """A function, on one device, that autograd can call.

    function: its arguments are `inputs` or, with `cuts`, parts of them; its results are `outputs`,
    in order, with the same number of elements each. outputs: those that are `differentiable` have a cotangent. shared, begun:
    those of MainGrads. is_first_microbatch: if True, calls cast the weights and overwrite the
    gradients in main_grad. If False, they reuse the casts of the call before and add to the
    gradients. If None, they cast and add, which requires that cache_weights is off.
    """

    def __init__(
        self,
        function: build.Function,
        inputs: Sequence[Spec],
        outputs: Sequence[Spec],
        device: torch.device,
        options: Options,
        states: States | None = None,
        shared: Sequence[int] = (),
        begun: Sequence[int] = (),
        cuts: Sequence[Cut] | None = None,
    ) -> None:
        self.context: Context = context_of(devices.torch_place(device))
        self.options = options
        #: The states of recipes for the model, which all of its regions share.
        self.states = states or States()
        self.signature = Signature.of(inputs, outputs, device, options.main_grad)
        cuts = [Cut(index) for index in range(len(inputs))] if cuts is None else cuts
        self.compilation = Compilation(function, cuts, self.signature, options, self.context.backend)
        #: For each input with a gradient, the results with cotangents that depend on it.
        self.reached = _reached(function, cuts, self.signature)
        self.names = Names(self.signature, self.states)
        self.guard = Guard(self.signature, self.names)
        self.main_grads = MainGrads(self.signature, self.names, shared, begun)
        # Autograd follows this tensor if no other tensor needs a gradient.
        self.anchor = torch.empty((), device=device, requires_grad=True)
        self.is_first_microbatch: bool | None = True if options.cache_weights else None
        self.flag = MicrobatchFlag(self.context)
        self._loaded: dict[tuple[bool, tuple[str, ...]], Loaded] = {}

    @property
    def function(self) -> build.Function:
        return self.compilation.function

    def load(self, training: bool) -> Loaded:
        """The step with the states of the weights of the last call, which is compiled once."""
        key = (training, self.names.current)
        if key not in self._loaded:
            self._loaded[key] = Loaded(self, self.compilation.program(training), training)
        return self._loaded[key]

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        signature = self.signature
        addresses = self.guard.check(tensors)
        if signature.mains:
            groups.refuse_averages()
        if forward_ad._current_level >= 0:
            refuse_duals(signature.inputs, tensors)
        if not self.names.are_known:
            self.names.update(tensors)
        if not torch.is_grad_enabled() or not any(tensors[i].requires_grad for i in signature.wrt):
            return self.load(False).forward(tensors, addresses)
        wanted = [tensors[i] for i in signature.given]
        if signature.mains:
            wanted.insert(0, self.anchor)
        results = autograd.apply(self, tensors, addresses, *wanted)
        return list(results) if isinstance(results, tuple) else [results]


def _reached(function: build.Function, cuts: Sequence[Cut], signature: Signature) -> tuple[frozenset[int], ...]:
    """For each of `signature.given`, those of `signature.through` that depend on it."""
    behind: dict[str, frozenset[int]] = {}
    for index in signature.through:
        name = function.results[index][0].name
        behind[name] = behind.get(name, frozenset()) | {index}
    for op in reversed(function.ops):
        if build.NO_GRADIENT in op.attributes:
            continue
        found = frozenset().union(*(behind.get(value.name, ()) for value in op.results))
        for value in op.operands:
            behind[value.name] = behind.get(value.name, frozenset()) | found
    reached: dict[int, frozenset[int]] = {}
    for cut, (value, _) in zip(cuts, function.arguments):
        reached[cut.place] = reached.get(cut.place, frozenset()) | behind.get(value.name, frozenset())
    return tuple(reached[i] for i in signature.given)


class Loaded:
    """A region's program on its device, with the states of the recipe and free instances."""

    def __init__(self, region: Region, program: Program, training: bool) -> None:
        self.region, signature = region, region.signature
        self.places = places = Places.read(program, signature, training)
        # A pointer that a part does not use must not be null.
        self.dummy = region.context.empty((64,), "float32")
        # The pointers point to these states.
        self.states, self.casts = _states(region, program, training)
        null, states = self.dummy.pointer, self.states
        template = [states[a.name].pointer if a.name in states else null for a in program.arguments]
        self.scales = _scales(region, program, places, self.states)
        #: Inputs that a recorded step is recorded again for.
        self.fixed = [spec.weight and not spec.is_copy for spec in signature.inputs]
        gradients = [signature.inputs[i] for i in signature.given] if training else []
        self.make_results = _maker(signature.outputs, signature.device, False, places.outputs, null)
        self.gradients = Gradients(program, gradients, places.gradients, signature.device, null)
        make = makers.torch_block(program.arena_bytes, self.gradients.dtype, signature.device)
        self.pool = Pool(program, region.context, template, region.options.cuda_graph, make)
        self._current = devices.torch_stream(region.context.device)
        self._last_stream: int | None = None

    def later(self) -> bool:
        """Whether this call is of a later micro-batch. Records that there are casts of weights from now on."""
        first = self.region.is_first_microbatch
        if not self.region.options.cache_weights:
            return first is not True
        made = self.region.states.made
        if not first and not made.issuperset(self.casts):
            raise ArgumentError(
                "argument 'is_first_microbatch': expected True in the first call, as there are no casts of "
                "weights to reuse, but got False"
            )
        made.update(self.casts)
        return not first

    def _point_flag(self, pointers: Pointers, later: bool, stream: int) -> None:
        place = self.places.flag
        if place >= 0:
            flag, recorded = self.region.flag, self.pool.recorded
            pointers[place] = flag.written(later, stream) if recorded else flag.constant(later)

    def _stream(self) -> int:
        """The current stream, which waits for the stream of the last call if that was another one."""
        stream = self._current()
        if stream != self._last_stream:
            # A stream that is being captured waits for the earlier one by its own events.
            if self._last_stream is not None and stream and not torch.cuda.is_current_stream_capturing():
                torch.cuda.synchronize(self.region.signature.device)
            self._last_stream = stream
        return stream

    def forward(self, tensors: Sequence[torch.Tensor], addresses: list[int]) -> list[torch.Tensor]:
        """Returns the results of a call without a backward."""
        later, arena = self.later(), self.pool.take()
        end = self.places.end
        if not torch.is_grad_enabled():
            # An evaluation does not change states of training, and a forward that a checkpoint repeats counts only once.
            end = self.places.update
        elif self.scales.places:
            self.scales.keep()
        try:
            return self.run_forward(arena, tensors, addresses, later, end=end)
        finally:
            self.pool.give(arena)

    def run_forward(
        self,
        arena: Arena,
        tensors: Sequence[torch.Tensor],
        addresses: list[int],
        later: bool,
        mains: list[int] | None = None,
        end: int | None = None,
    ) -> list[torch.Tensor]:
        """Returns the results, and leaves the arena ready for the backward.

        end: the last launch to run, if it is not the one before the backward.
        """
        places, stream = self.places, self._stream()
        end = places.cut if end is None else end
        arena.keeps_scales = False
        arena.begin()
        pointers, memory, dummy = arena.pointers, arena.memory, self.dummy.pointer
        # The pointers are set in the forward, because sums that start again are set to 0 at the start of the step.
        if mains and mains != arena.mains:
            for (before, after), address in zip(places.mains, mains):
                pointers[before] = pointers[after] = address or dummy
            arena.mains = mains
        if memory is not None:
            addresses = memory.settle(tensors, addresses, self.fixed)
        if addresses != arena.inputs:
            moved = arrays.changed(arena.inputs, addresses) if arena.inputs else range(len(addresses))
            for index in moved:
                pointers[places.inputs[index]] = addresses[index] or dummy
            arena.inputs = addresses
        if memory is None or not memory.results:
            results = self.make_results(pointers, stream)
            if memory is not None:
                memory.results = results
        if places.is_early:
            arena.gradients = self.gradients.make(pointers, stream)
        self._point_flag(pointers, later, stream)
        if memory is None:
            arena.instance.run_part(pointers, stream, 0, end)
            return results
        arena.instance.replay(pointers, stream, 0, end)
        # Numbers are copied for the caller; larger results are valid only until the next call.
        return [r.detach() if r.numel() > 1 else r.clone() for r in memory.results]

    def _find_saved(self, arena: Arena, saved: Sequence[torch.Tensor]) -> None:
        """Sets the backward's pointers to the tensors that the forward saved; raises ArgumentError if one was freed."""
        signature, places = self.region.signature, self.places
        count = len(places.saved_inputs)
        addresses = addresses_of(saved[:count])
        if addresses != list(map(arena.inputs.__getitem__, places.saved_inputs)) and (
            arena.found[0] is not arena.inputs or arena.found[1] != addresses
        ):
            own = arena.memory.own if arena.memory else {}
            for index, tensor, address in zip(places.saved_inputs, saved, addresses):
                if index not in own and address != arena.inputs[index]:
                    check(signature.inputs[index], tensor, signature.device)
                    arena.inputs = [*arena.inputs[:index], address, *arena.inputs[index + 1 :]]
                    arena.pointers[places.inputs[index]] = address or self.dummy.pointer
            arena.found = (arena.inputs, addresses)
        for index, tensor in zip(places.saved_outputs, saved[count:]):
            place, address = places.outputs[index], tensor.data_ptr()
            # The results of a recorded step are kept in its memory.
            if arena.memory is None and tensor.numel() and address != arena.pointers[place]:
                # A checkpoint computed the result again; the next forward writes to other memory.
                check(signature.outputs[index], tensor, signature.device, "result")
                arena.pointers[place] = address

    def run_backward(
        self,
        arena: Arena,
        later: bool,
        saved: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor],
    ) -> list[torch.Tensor]:
        """Returns the gradients of `signature.given`."""
        places, stream = self.places, self._stream()
        pointers, memory = arena.pointers, arena.memory
        self._find_saved(arena, saved)
        addresses = [tensor.data_ptr() for tensor in cotangents]
        if memory is not None:
            addresses = arena.cotangents.settle(cotangents, addresses, [False] * len(cotangents))
        for place, address in zip(places.cotangents, addresses):
            pointers[place] = address or self.dummy.pointer
        own, arena.gradients = arena.gradients or self.gradients.make(pointers, stream), []
        self._point_flag(pointers, later, stream)
        run = arena.instance.run_part if memory is None else arena.instance.replay
        first, scales = places.cut, self.scales.places
        if scales:
            self.scales.keep()
        if arena.keeps_scales and arena.scales is not None:
            for row, place in enumerate(scales):
                pointers[place] = arena.scales.data_ptr() + 16 * row
            run(pointers, stream, first, places.update)
            first = places.update
            for place in scales:
                pointers[place] = self.pool.template[place]
        run(pointers, stream, first, places.end)
        gradients = self.gradients.join(own, arena)
        return self.gradients.copy(gradients, stream) if arena.copies else gradients


class Gradients:
    """The gradients of a program, in order: those in its arena, and others, which have memory of their own.

    specs, places: all of them, and the indices of their pointers.
    """

    def __init__(
        self, program: Program, specs: Sequence[Spec], places: Sequence[int], device: torch.device, null: int
    ) -> None:
        offsets = [program.arguments[place].arena_offset for place in places]
        own = [n for n, offset in enumerate(offsets) if offset < 0]
        inside = [n for n, offset in enumerate(offsets) if offset >= 0]
        self.make: Callable[[Pointers, int], list[torch.Tensor]] = lambda pointers, stream: []
        if own:
            self.make = _maker([specs[n] for n in own], device, True, [places[n] for n in own], null)
        self._parts = makers.TorchParts([(specs[n].shape, specs[n].dtype, offsets[n]) for n in inside])
        #: The element type of most of those in the arena.
        self.dtype: torch.dtype = self._parts.dtypes[0] if inside else torch.uint8
        self._is_inside = bool(inside)
        back = sorted(range(len(places)), key=[*own, *inside].__getitem__)
        self._sort = operator.itemgetter(*back) if own and inside else None
        self._make_copies = _maker(specs, device, True)

    def join(self, own: list[torch.Tensor], arena: Arena) -> list[torch.Tensor]:
        """All gradients; own: those outside of the arena, which `make` created."""
        made = own + self._parts(arena.block) if self._is_inside else own
        return made if self._sort is None else list(self._sort(made))

    def copy(self, gradients: list[torch.Tensor], stream: int) -> list[torch.Tensor]:
        copies = self._make_copies(stream=stream)
        if copies:
            torch._foreach_copy_(copies, gradients)
        return copies


def _states(region: Region, program: Program, training: bool) -> tuple[dict[str, Tensor], set[tuple[str, str]]]:
    """The states of a program by its own names, and the keys in `States.made` of those that are casts of weights."""
    signature, states = region.signature, region.states
    mains = [f"grad.{signature.inputs[i].name}" for i in signature.mains] if training else []
    # Casts of weights depend on these options, besides the weights.
    options = region.options
    recipe = repr((options.recipe, options.backward_override, options.target, options.pipeline))
    found: dict[str, Tensor] = {}
    casts: set[tuple[str, str]] = set()
    for argument in program.arguments:
        if argument.carried_input < 0:
            continue
        source = program.arguments[argument.carried_input]
        name = source.name
        if math.isnan(source.init or 0.0):
            # The cast has no value until a first micro-batch computes it.
            key = (recipe, region.names.of_cast(name))
            found[name] = states.cast(*key, source, region.context)
            casts.add(key)
        elif name not in mains:
            found[name] = states.tensor(region.names.of_state(name), source, region.context)
    if found:
        states.warn_once(options.recipe)
    return found, casts


def _scales(region: Region, program: Program, places: Places, states: dict[str, Tensor]) -> Scales:
    """The scales that the forward of a program casts with."""
    delayed = [name for name in states if name.endswith(".scale") and not is_cast(name)]
    read = {name: program.arguments[places.of[name, False]].first_launch for name in delayed}
    own = {name: states[name] for name, slot in read.items() if 0 <= slot < places.cut}
    pointers = [places.of[name, False] for name in own] if places.update < places.end else []
    return Scales(region.states, own, pointers, [region.names.of_state(name) for name in own])


def _maker(
    specs: Sequence[Spec], device: torch.device, shares: bool, places: Sequence[int] = (), null: int = 0
) -> makers.TorchMaker:
    """A function that creates tensors like `specs`, and writes their addresses to the pointers at these places."""
    kinds = [(spec.shape, spec.dtype, shares) for spec in specs]
    return makers.TorchMaker(kinds, device, places, null)
