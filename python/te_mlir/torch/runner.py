"""A compiled function as one node of autograd.

`Region` is the text of a function, its arguments and results as tensors, and which
arguments want gradients. Forward and backward are one compiled step that is run in
two parts: what the forward saves stays in the arena of an instance between them.
So each forward that waits for its backward has an instance, and a backward can be
run once.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from te_mlir import arrays, build
from te_mlir.dtypes import BY_NAME
from te_mlir.errors import ArgumentError
from te_mlir.program import Program, current_stream, pipeline_text
from te_mlir.recipes import Recipe
from te_mlir.runtime import Context, Instance, Tensor
from te_mlir.runtime import context as context_of


def dtype_name(dtype: torch.dtype) -> str:
    """`torch.bfloat16` is "bfloat16"."""
    return str(dtype)[6:]


class Spec(NamedTuple):
    """A tensor outside of a region: its name, sizes and element type, and whether it wants a gradient."""

    name: str
    shape: Tuple[int, ...]
    dtype: torch.dtype
    weight: bool = False
    differentiable: bool = False


class Options(NamedTuple):
    """How regions are compiled; `pipeline` are further options of the pipeline, by name."""

    recipe: Optional[Recipe] = None
    backward_override: Optional[str] = None
    target: Optional[str] = None
    strict: bool = False
    #: Casts of weights are kept from call to call, until a first micro-batch.
    cache_weights: bool = False
    pipeline: Tuple[Tuple[str, Any], ...] = ()


class Region:
    """A function, on one device, that autograd can call.

    function: its arguments are `inputs`, its results `outputs`, in order, of the same
    number of elements each. outputs: where `differentiable`, a cotangent is taken.
    """

    def __init__(
        self,
        function: build.Function,
        inputs: Sequence[Spec],
        outputs: Sequence[Spec],
        device: torch.device,
        options: Options,
    ) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.device = device
        self.context: Context = context_of(
            (arrays.CPU, 0) if device.type == "cpu" else (arrays.CUDA, device.index or 0)
        )
        self.function = function
        self.wrt = [i for i, spec in enumerate(inputs) if spec.differentiable]
        self.through = [i for i, spec in enumerate(outputs) if spec.differentiable]
        #: Options of te_mlir.compile, target included.
        self.options: Dict[str, Any] = {
            "recipe": options.recipe,
            "backward_override": options.backward_override,
            "target": options.target or ("reference" if self.context.backend == "reference" else None),
            "strict": options.strict,
            "cache_weights": options.cache_weights,
            **dict(options.pipeline),
        }
        self._loaded: "Dict[bool, Loaded]" = {}
        #: States of the recipe by name; training and inference share them.
        self.states: "Dict[str, Tensor]" = {}
        #: With cache_weights: whether calls cast the weights, or use the casts of the call before.
        self.is_first_microbatch = True
        self.flags = [self.context.full((), "float32", value) for value in (0.0, 1.0)]

    def options_for(self, training: bool) -> "Dict[str, Any]":
        """The options of one of the two steps: only training holds something for a backward."""
        options = dict(self.options)
        if not training:
            options.pop("remat", None)
        elif "remat" not in options and any("te.activation" in line for line in self.function._lines):
            options["remat"] = "ops:te.activation"
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
            results = [(v.shape, v.dtype) for v, _ in self.function.results]
            call = (
                f"func.call @{self.function.name}({', '.join(v.name for v in operands)}) : "
                f"({', '.join(v.type for v in operands)}) -> "
                f"({', '.join(build.type_text(*r) for r in results)})"
            )
            values = step.op(call, results)
            names = [spec.name for spec in self.outputs]
        for name, value in zip(names, values):
            step.result(name, value)
        module.functions = [self.function, step]
        return module.to_mlir()

    def load(self, training: bool) -> "Loaded":
        """The compiled step; compiled once."""
        if training not in self._loaded:
            program = Program(self.text(training), "step", pipeline_text(**self.options_for(training)))
            self._loaded[training] = Loaded(self, program, training)
        return self._loaded[training]

    def __call__(self, *tensors: torch.Tensor) -> "List[torch.Tensor]":
        for spec, tensor in zip(self.inputs, tensors):
            _check(spec, tensor, self.device)
        training = torch.is_grad_enabled() and any(tensors[i].requires_grad for i in self.wrt)
        if not training:
            return self.load(False).forward(tensors)[0]
        results = _Call.apply(self, *tensors)
        return list(results) if isinstance(results, tuple) else [results]


def _check(spec: Spec, tensor: torch.Tensor, device: torch.device) -> None:
    """Raises ArgumentError, naming the argument, unless the step can use the tensor's memory."""
    if tensor.dtype is not spec.dtype:
        raise ArgumentError(
            f"argument '{spec.name}': expected elements of {dtype_name(spec.dtype)}, but got {dtype_name(tensor.dtype)}"
        )
    if tensor.shape != spec.shape:
        raise ArgumentError(f"argument '{spec.name}': expected shape {list(spec.shape)}, but got {list(tensor.shape)}")
    if tensor.device != device:
        raise ArgumentError(f"argument '{spec.name}': expected memory of '{device}', but got '{tensor.device}'")
    if not tensor.is_contiguous():
        raise ArgumentError(
            f"argument '{spec.name}': expected a row-major tensor without gaps, but got strides "
            f"{list(tensor.stride())}; call .contiguous()"
        )
    pointer = tensor.data_ptr()
    if pointer == 0 and tensor.numel():
        raise ArgumentError(
            f"argument '{spec.name}': expected a tensor with memory, but its storage was freed or resized"
        )
    if pointer % 16:
        raise ArgumentError(
            f"argument '{spec.name}': expected memory aligned to 16 bytes, but got address {pointer:#x}"
        )


class Loaded:
    """A region's program on its device, with the states of the recipe and free instances."""

    def __init__(self, region: Region, program: Program, training: bool) -> None:
        self.region, self.program = region, program
        arguments = program.arguments
        self.places = {(a.name, a.is_result): i for i, a in enumerate(arguments)}
        states = region.states
        for argument in arguments:
            if argument.carried_input >= 0:
                source = arguments[argument.carried_input]
                if source.name not in states:
                    states[source.name] = region.context.full(source.shape, source.dtype.name, source.init or 0.0)
        self.template = [states[a.name].pointer if a.name in states else 0 for a in arguments]
        self.skip_place = self.places.get(("skip_weight_update", False), -1)
        self.has_casts = False
        # What a part does not use must be no null pointer.
        self.dummy = region.context.empty((64,), "float32")
        self.input_places = [self.places[spec.name, False] for spec in region.inputs]
        self.output_places = [self.places[spec.name, True] for spec in region.outputs]
        self.gradient_places: List[int] = []
        self.cotangent_places: List[int] = []
        self.end = program.num_launches
        self.cut = self.end
        if training:
            self.gradient_places = [self.places[f"grad.{region.inputs[i].name}", True] for i in region.wrt]
            self.cotangent_places = [self.places[f"grad.{region.outputs[i].name}", False] for i in region.through]
            used = [arguments[i].first_launch for i in self.cotangent_places]
            self.cut = min((slot for slot in used if slot >= 0), default=self.end)
            late = [
                arguments[i].name
                for i in self.output_places
                if arguments[i].last_launch >= self.cut and arguments[i].first_launch >= self.cut
            ]
            if late:
                raise ArgumentError(f"expected results to be made before the backward, but {late} are not")
        #: Which inputs and outputs the backward reads.
        self.saved_inputs = [n for n, i in enumerate(self.input_places) if arguments[i].last_launch >= self.cut]
        self.saved_outputs = [n for n, i in enumerate(self.output_places) if arguments[i].last_launch >= self.cut]
        self.free: List[Instance] = []
        self.last_stream: Optional[int] = None
        self.Pointers = ctypes.c_void_p * max(len(arguments), 1)

    def take(self) -> Instance:
        """An instance that no forward waits with."""
        return self.free.pop() if self.free else self.program.instance(self.region.context)

    def pointers(self) -> List[int]:
        """Those of the states and flags; what the caller does not fill in is never read."""
        pointers = [p or self.dummy.pointer for p in self.template]
        if self.skip_place >= 0:
            first = self.region.is_first_microbatch
            if not first and not self.has_casts:
                raise ArgumentError(
                    "argument 'is_first_microbatch': expected True in the first call, as there are no casts of "
                    "weights to use again, but got False"
                )
            self.has_casts = True
            pointers[self.skip_place] = self.region.flags[0 if first else 1].pointer
        return pointers

    def stream(self) -> int:
        """The current stream; waits where it is not the one that instances were used on."""
        stream = current_stream(self.region.context.device)
        if stream != self.last_stream:
            # A stream that is captured starts from the one before by its own events.
            if self.last_stream is not None and stream and not torch.cuda.is_current_stream_capturing():
                torch.cuda.synchronize(self.region.device)
            self.last_stream = stream
        return stream

    def forward(
        self, tensors: Sequence[torch.Tensor], keep: bool = False
    ) -> "Tuple[List[torch.Tensor], Optional[Instance], List[int]]":
        """Results, and with `keep` the instance that the backward goes on with."""
        pointers = self.pointers()
        for place, tensor in zip(self.input_places, tensors):
            pointers[place] = tensor.data_ptr() or self.dummy.pointer
        results = []
        for place, spec in zip(self.output_places, self.region.outputs):
            result = torch.empty(spec.shape, dtype=spec.dtype, device=self.region.device)
            pointers[place] = result.data_ptr() or self.dummy.pointer
            results.append(result)
        instance = self.take()
        instance.run_part(self.Pointers(*pointers), self.stream(), 0, self.cut)
        if keep:
            return results, instance, pointers
        self.free.append(instance)
        return results, None, pointers

    def backward(
        self, instance: Instance, pointers: List[int], cotangents: "Sequence[torch.Tensor]"
    ) -> "List[torch.Tensor]":
        """Gradients of `region.wrt`; the instance is free afterwards."""
        region = self.region
        for place, tensor in zip(self.cotangent_places, cotangents):
            pointers[place] = tensor.data_ptr()
        gradients = []
        for place, index in zip(self.gradient_places, region.wrt):
            spec = region.inputs[index]
            gradient = torch.empty(spec.shape, dtype=spec.dtype, device=region.device)
            pointers[place] = gradient.data_ptr() or self.dummy.pointer
            gradients.append(gradient)
        instance.run_part(self.Pointers(*pointers), self.stream(), self.cut, self.end)
        return gradients


class _Lease:
    """An instance between a forward and its backward; free again when either is gone."""

    def __init__(self, loaded: Loaded, instance: Instance, pointers: List[int]) -> None:
        self.loaded, self.instance, self.pointers = loaded, instance, pointers

    def end(self) -> "Optional[Instance]":
        instance, self.instance = self.instance, None  # type: ignore[assignment]
        return instance

    def __del__(self) -> None:
        if self.instance is not None:
            self.loaded.free.append(self.instance)


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, region: Region, *tensors: torch.Tensor) -> Any:
        loaded = region.load(True)
        results, instance, pointers = loaded.forward(tensors, keep=True)
        assert instance is not None
        ctx.set_materialize_grads(False)
        ctx.region, ctx.lease = region, _Lease(loaded, instance, pointers)
        # Kept alive, and told apart from what was changed since.
        ctx.save_for_backward(*[tensors[i] for i in loaded.saved_inputs], *[results[i] for i in loaded.saved_outputs])
        through = set(region.through)
        ctx.mark_non_differentiable(
            *[r for i, r in enumerate(results) if i not in through and not r.is_floating_point()]
        )
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        region, lease = ctx.region, ctx.lease
        # Raises where a tensor was changed in place since the forward.
        _ = ctx.saved_tensors
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
            cotangent = cotangent.to(spec.dtype).contiguous()
            given.append(cotangent.clone() if cotangent.data_ptr() % 16 else cotangent)
        instance = lease.end()
        if instance is None:
            raise ArgumentError(
                "expected one backward for each forward, but got a second; what the forward saved is gone "
                "after the first, so call the forward again (retain_graph has no effect here)"
            )
        try:
            gradients = lease.loaded.backward(instance, lease.pointers, given)
        finally:
            lease.loaded.free.append(instance)
        every: List[Optional[torch.Tensor]] = [None] * len(region.inputs)
        for index, gradient in zip(region.wrt, gradients):
            every[index] = gradient
        return (None, *every)


def torch_to_te(dtype: torch.dtype) -> Optional[str]:
    """The name of an element type that the dialect has; None for others."""
    name = dtype_name(dtype)
    return name if name in BY_NAME and BY_NAME[name].bytes > 1 else None
