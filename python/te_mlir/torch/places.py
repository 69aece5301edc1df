"""Where the tensors of a region are among the pointers of its program, and where its backward begins."""

from __future__ import annotations

from dataclasses import dataclass

from te_mlir.errors import ArgumentError
from te_mlir.program import FLAG, Program
from te_mlir.torch.signature import Signature


@dataclass(frozen=True)
class Places:
    """Places of pointers, and numbers of launches.

    of: places by name, and whether it is a result. inputs, outputs: of the signature's.
    mains: of the weights whose gradients are added to: before, and after. gradients: of
    `signature.given`; cotangents: of `signature.through`. flag: of the micro-batch, or -1.
    cut: the launch that the backward begins with; from `update` on histories and scales are
    updated, and nothing else is done; end: how many launches there are. begun_late: of
    `mains`, those that the backward begins; the others the forward sets to 0. is_early:
    whether the forward has intermediates in the memory of gradients. saved_inputs,
    saved_outputs: which of the signature's the backward reads.
    """

    of: dict[tuple[str, bool], int]
    inputs: list[int]
    outputs: list[int]
    mains: list[tuple[int, int]]
    gradients: list[int]
    cotangents: list[int]
    flag: int
    cut: int
    update: int
    end: int
    begun_late: frozenset[int]
    is_early: bool
    saved_inputs: list[int]
    saved_outputs: list[int]

    @staticmethod
    def read(program: Program, signature: Signature, training: bool) -> Places:
        """Those of one of the two programs of a region."""
        arguments = program.arguments
        of = {(a.name, a.is_result): i for i, a in enumerate(arguments)}
        inputs = [of[spec.name, False] for spec in signature.inputs]
        outputs = [of[spec.name, True] for spec in signature.outputs]
        end = update = program.num_launches
        kernels = [kernel for kernel, _, _ in program.launches()]
        while update and kernels[update - 1] == "delayed_scaling_update":
            update -= 1
        cut, mains, gradients, cotangents = end, [], [], []
        if training:
            names = [f"grad.{signature.inputs[i].name}" for i in signature.mains]
            mains = [(of[name, False], of[name, True]) for name in names]
            gradients = [of[f"grad.{signature.inputs[i].name}", True] for i in signature.given]
            cotangents = [of[f"grad.{signature.outputs[i].name}", False] for i in signature.through]
            used = [arguments[i].first_launch for i in cotangents]
            cut = min((slot for slot in used if slot >= 0), default=end)
            late = [arguments[i] for i in outputs if arguments[i].last_launch >= cut]
            names = [argument.name for argument in late if argument.first_launch >= cut]
            if names:
                raise ArgumentError(f"expected results to be made before the backward, but {names} are not")
        return Places(
            of,
            inputs,
            outputs,
            mains,
            gradients,
            cotangents,
            flag=of.get((FLAG, False), -1),
            cut=cut,
            update=update,
            end=end,
            begun_late=frozenset(k for k, (i, _) in enumerate(mains) if arguments[i].first_launch >= cut),
            is_early=any(0 <= arguments[i].first_launch < cut for i in gradients),
            saved_inputs=[n for n, i in enumerate(inputs) if arguments[i].last_launch >= cut],
            saved_outputs=[n for n, i in enumerate(outputs) if arguments[i].last_launch >= cut],
        )
