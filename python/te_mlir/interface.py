"""The arguments and results of a step, as indices of its pointers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from te_mlir.dtypes import DType
from te_mlir.program import FLAG, Argument


@dataclass(frozen=True)
class Interface:
    """The pointers of a step, by name and by index.

    arguments: all pointers. index: indices of the pointers that the step reads, by name.
    states: names of the states. inputs: names of the arguments that a call needs, in order.
    results: what a call returns, by name and in order, without states. flag: the index of
    the micro-batch flag, or -1. bytes: the size of each buffer. watched: pointers
    to memory that may come from a caller. written: pointers that the step writes. unmade:
    states without a value until a first call computes them (te.init is NaN): casts of weights.
    """

    arguments: list[Argument]
    index: dict[str, int]
    states: frozenset[str]
    inputs: list[str]
    results: dict[str, Argument]
    flag: int
    bytes: list[int]
    watched: list[int]
    written: frozenset[int]
    unmade: frozenset[str]

    @staticmethod
    def of(arguments: list[Argument]) -> Interface:
        carried = {a.carried_input for a in arguments}
        index = {a.name: i for i, a in enumerate(arguments) if not a.is_result}
        states = frozenset(a.name for i, a in enumerate(arguments) if i in carried)
        sizes = [a.dtype.bytes * math.prod(a.shape) for a in arguments]
        flag = index.get(FLAG, -1)
        return Interface(
            arguments,
            index,
            states,
            inputs=[a.name for a in arguments if not a.is_result and a.name not in states],
            results={a.name: a for a in arguments if a.is_result and a.carried_input < 0},
            flag=flag,
            bytes=sizes,
            watched=[i for i, a in enumerate(arguments) if a.carried_input < 0 and i != flag and sizes[i]],
            written=frozenset(i for i, a in enumerate(arguments) if a.is_result or i in carried),
            unmade=frozenset(name for name in states if math.isnan(arguments[index[name]].init or 0.0)),
        )

    def kind_of(self, name: str) -> tuple[tuple[int, ...], DType, bool]:
        """The shape and type of a result, and whether it may share memory.

        Gradients share memory. Other results, such as losses, do not, because callers may
        keep some of them for a long time.
        """
        argument = self.results[name]
        return argument.shape, argument.dtype, name.startswith("grad.")

    def role(self, index: int) -> str:
        """The name of a pointer in messages."""
        argument = self.arguments[index]
        kind = "result" if argument.is_result else "state" if argument.name in self.states else "argument"
        return f"{kind} '{argument.name}'"
