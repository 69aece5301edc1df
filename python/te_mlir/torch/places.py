"""The indices of a region's tensors among the pointers of its program, and the launch at which its backward starts."""

from __future__ import annotations

from dataclasses import dataclass

from te_mlir.errors import ArgumentError
from te_mlir.program import FLAG, Program
from te_mlir.torch.signature import Signature

#: The kernels that move the histories of delayed scaling, one of them or many.
_UPDATES = ("delayed_scaling_update", "delayed_scaling_group")


@dataclass(frozen=True)
class Places:
    """Indices of pointers, and numbers of launches.

    of: indices by name and by whether the pointer is a result. inputs, outputs: indices of the
    signature's tensors. mains: for each weight whose gradient is accumulated, the indices of the
    sum before and after. gradients: indices for `signature.given`. cotangents: indices for
    `signature.through`. flag: index of the micro-batch flag, or -1. cut: the first launch of the
    backward. update: the first of the final launches, which only update histories and scales.
    end: the number of launches. begun_late: the `mains` that the backward overwrites first; the
    forward sets the others to 0. is_early: whether the forward has intermediates in the memory of
    gradients outside of the arena. saved_inputs, saved_outputs: the signature's tensors that the backward reads.
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
        """Reads the indices from one of the two programs of a region."""
        arguments = program.arguments
        of = {(a.name, a.is_result): i for i, a in enumerate(arguments)}
        inputs = [of[spec.name, False] for spec in signature.inputs]
        outputs = [of[spec.name, True] for spec in signature.outputs]
        end = update = program.num_launches
        kernels = [kernel for kernel, _, _ in program.launches()]
        while update and kernels[update - 1] in _UPDATES:
            update -= 1
        cut, mains, gradients, cotangents = end, [], [], []
        if training:
            names = [f"grad.{signature.inputs[i].name}" for i in signature.mains]
            mains = [(of[name, False], of[name, True]) for name in names]
            gradients = [of[f"grad.{signature.inputs[i].name}", True] for i in signature.given]
            cotangents = [of[f"grad.{signature.outputs[i].name}", False] for i in signature.through]
            used = [arguments[i].first_launch for i in cotangents]
            cut = min((slot for slot in used if slot >= 0), default=end)
            late = [arguments[i] for i in outputs if arguments[i].first_launch >= cut]
            # A result without elements has nothing to compute.
            names = [argument.name for argument in late if 0 not in argument.shape]
            if names:
                raise ArgumentError(f"expected results to be computed before the backward, but {names} are not")
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
            is_early=any(0 <= arguments[i].first_launch < cut for i in gradients if arguments[i].arena_offset < 0),
            saved_inputs=[n for n, i in enumerate(inputs) if arguments[i].last_launch >= cut],
            saved_outputs=[n for n, i in enumerate(outputs) if arguments[i].last_launch >= cut],
        )
