"""The two programs of a region: one for training, with forward and backward, and one without gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from te_mlir import build, makers
from te_mlir.errors import CompileError
from te_mlir.program import Program, pipeline_text
from te_mlir.torch.cuts import Cut, join
from te_mlir.torch.signature import Options, Signature
from te_mlir.torch.states import Part


def _pattern(name: str) -> str:
    """A pattern of `name` in which other characters than those of names stand for anything."""
    return "".join(c if c.isalnum() or c in "_.-" else "*" for c in name)


class Compilation:
    """Compiles a function.

    function: its arguments are the inputs of `signature` as `cuts` says, and its results the outputs,
    in order, with the same number of elements each. backend: the backend of the runtime.
    """

    def __init__(
        self, function: build.Function, cuts: Sequence[Cut], signature: Signature, options: Options, backend: str
    ) -> None:
        self.function, self.cuts, self.signature = function, cuts, signature
        function.private = True
        #: Options of te_mlir.compile, target included.
        self.options: dict[str, Any] = {
            "recipe": options.recipe,
            "backward_override": options.backward_override,
            "target": options.target or ("reference" if backend == "reference" else None),
            "strict": options.strict,
            "cache_weights": options.cache_weights,
            "main_grad": options.main_grad,
            **dict(options.pipeline),
        }
        # Whether activations are recomputed in the backward; the option `remat` overrides this. An
        # activation with two operands only saves those, and repeating its cast would gain nothing.
        plain = any(op.name == "te.activation" and len(op.operands) == 1 for op in function.ops)
        self._remakes = "remat" not in self.options and plain
        self._programs: dict[bool, Program] = {}
        # The gradients that are placed in the arena, as patterns. A small gradient that a caller keeps must not keep
        # the arena; a recorded step, which would have to copy it, has all of them there.
        inputs = [signature.inputs[i] for i in signature.given]
        least = 0 if options.cuda_graph else makers.SHARED_BYTES
        large = [s for s in inputs if math.prod(s.shape) * s.dtype.itemsize > least]
        self._in_arena = [_pattern(f"grad.{spec.name}") for spec in large]

    def options_for(self, training: bool) -> dict[str, Any]:
        """The options of one of the two programs; only the one for training saves values for a backward."""
        options = dict(self.options)
        if not training:
            options.pop("remat", None)
        elif "remat" not in options and self._remakes:
            options["remat"] = "ops:te.activation"
        if not training or not self.signature.mains:
            options.pop("main_grad", None)
        if training and self._in_arena:
            options["results_in_arena"] = ",".join(self._in_arena)
        return options

    def text(self, training: bool) -> str:
        """The module that is compiled."""
        module, signature = build.Module(), self.signature
        step = build.Function(module, "step")
        given: dict[int, build.Value] = {}
        operands = []
        for cut, (value, _) in zip(self.cuts, self.function.arguments):
            if cut.place not in given:
                spec = signature.inputs[cut.place]
                shape = value.shape if cut.part is None else spec.shape
                given[cut.place] = step.argument(spec.name, shape, value.dtype, weight=spec.weight)
            operands.append(cut.of(step, given[cut.place]))
        names = [spec.name for spec in signature.outputs]
        if training:
            cotangents = []
            for index, (spec, (value, _)) in enumerate(zip(signature.outputs, self.function.results)):
                if index in signature.through:
                    cotangents.append(step.argument(f"grad.{spec.name}", value.shape, value.dtype))
                else:
                    cotangents.append(step.constant(0.0, value.shape, value.dtype))
            wanted = [i for i, cut in enumerate(self.cuts) if cut.place in signature.wrt]
            made = step.vjp(self.function, operands, cotangents, wanted)
            results, gradients = made[: len(names)], made[len(names) :]
            parts: dict[int, list[tuple[Part | None, build.Value]]] = {i: [] for i in signature.wrt}
            for i, gradient in zip(wanted, gradients):
                parts[self.cuts[i].place].append((self.cuts[i].part, gradient))
            values = (*results, *(join(step, given[i], own) for i, own in parts.items()))
            names += [f"grad.{signature.inputs[i].name}" for i in signature.wrt]
        else:
            values = step.call(self.function, operands)
        for name, value in zip(names, values):
            step.result(name, value)
        module.functions = [self.function, step]
        return module.to_mlir()

    def program(self, training: bool) -> Program:
        """One of the two programs, which is compiled at its first use."""
        while training not in self._programs:
            try:
                pipeline = pipeline_text(**self.options_for(training))
                self._programs[training] = Program(self.text(training), "step", pipeline)
            except CompileError as error:
                # No backward reads the result of an activation, so the program has none to recompute.
                none = any(said.code == "remat-unknown" for said in error.diagnostics)
                if not (training and self._remakes and none):
                    raise
                self._remakes = False
        return self._programs[training]
