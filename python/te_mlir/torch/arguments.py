"""The arguments of a region: parameters, parts of parameters, and values that PyTorch computes before the region."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Node as Origin

from te_mlir import build
from te_mlir.frontend.base import Unsupported, Value, matrix_of
from te_mlir.frontend.emitter import Emitter
from te_mlir.frontend.graph import Atom, Const, Node, Var
from te_mlir.frontend.looking import is_widened, node_of
from te_mlir.layout import row_major
from te_mlir.torch.adapter import Adapter
from te_mlir.torch.dropouts import DRAWN
from te_mlir.torch.expert_ops import REPLACED, is_stack
from te_mlir.torch.masks import Kind
from te_mlir.torch.states import Part
from te_mlir.torch.stored import Stored, stored
from te_mlir.torch.tensors import dense, dtype_name, torch_to_te

#: The key of a parameter that is passed as an argument without a gradient.
FIXED = "fixed"


class Feed(NamedTuple):
    """An argument of a region, which is computed from the tensor of a node before the call.

    node: a node outside of the region. key: identifies what `make` does. make: computes the argument from the node's
    tensor; None if the argument is that tensor. name, shape, dtype: those of the argument. weight: whether it is a
    parameter or a part of one. part: which part of the parameter it is, or None.
    """

    node: Origin
    key: str
    make: Callable[[torch.Tensor], torch.Tensor] | None
    name: str
    weight: bool
    shape: tuple[int, ...]
    dtype: torch.dtype
    part: Part | None = None


def fake(node: Origin) -> torch.Tensor:
    """The fake tensor of a node, which has a shape and a type but no values."""
    return node.meta["val"]


def describe(node: Origin) -> str:
    """A node in messages: `aten.sin(float32 [2, 16])`."""
    op = REPLACED.get(node.target, DRAWN.get(node.target, node.target))
    state = node.args[0] if node.target in DRAWN else None
    called = str(op) if isinstance(op, torch._ops.OpOverload) else getattr(op, "__name__", "")
    name = called.removesuffix(".default") if node.op == "call_function" else node.op
    operands = []
    for argument in node.all_input_nodes:
        value = argument.meta.get("val")
        if isinstance(value, torch.Tensor) and argument is not state:
            operands.append(f"{dtype_name(value.dtype)} {list(value.shape)}")
    return f"{name}({', '.join(operands)})"


class _Function(build.Function):
    """A function without duplicate ops: appending an op that it already has returns the results of the first.

    Otherwise, the compiler would merge the duplicates. If both were results of the function, it would then write the
    second by a copy at the end of the step, after the backward.
    """

    def __init__(self, module: build.Module, name: str, private: bool = False) -> None:
        super().__init__(module, name, private)
        self._made: dict[Any, tuple[build.Value, ...]] = {}
        self._narrow: dict[str, build.Value] = {}

    def append(
        self,
        name: str,
        operands: Sequence[build.Value],
        results: Sequence[tuple[Sequence[int], str]],
        types: str,
        syntax: str | None = None,
        attributes: Mapping[str, str] | None = None,
        layer: str | None = None,
    ) -> tuple[build.Value, ...]:
        key = name, tuple(operands), str(results), types, syntax, str(attributes)
        if key not in self._made:
            self._made[key] = super().append(name, operands, results, types, syntax, attributes, layer)
        return self._made[key]

    def cast(self, x: build.Value, dtype: str) -> build.Value:
        narrow = self._narrow.get(x.name)
        if narrow is not None and narrow.dtype == dtype:
            return narrow
        made = super().cast(x, dtype)
        if made.dtype == "float32":
            self._narrow.setdefault(made.name, x)
        return made


class Arguments(Emitter):
    """Emits the arguments of a region.

    inside: the nodes that are compiled. names: the names of placeholders. parameters: the placeholders that are
    parameters. wanting: the nodes that have gradients. masks: by the name of the node, the kinds of the masks that are
    not causal; tables of rotary embeddings without equal halves or pairs are OTHER.
    """

    def __init__(
        self,
        inside: set[Origin],
        names: dict[Origin, str],
        parameters: set[Origin],
        wanting: set[Origin],
        masks: Mapping[str, Kind],
    ) -> None:
        super().__init__(_Function(build.Module(), "region", private=True))
        self.inside, self.names, self.parameters, self.wanting = inside, names, parameters, wanting
        self.masks = masks
        self.adapter = Adapter()
        self.feeds: list[Feed] = []
        self._fed: dict[tuple[Origin, str], build.Value] = {}

    def tensor(self, node: Origin) -> Value:
        """The value of a node, which is emitted now if it was not before."""
        return self.value(self.adapter.var(node))

    # Arguments

    def feed(
        self,
        node: Origin,
        key: str = "",
        make: Callable[[torch.Tensor], torch.Tensor] | None = None,
        shape: Sequence[int] | None = None,
        dtype: torch.dtype | None = None,
        part: Part | None = None,
    ) -> build.Value:
        """The argument that `make` computes from the tensor of `node`, which is outside of the region.

        key: identifies what `make` does, including every value that it depends on; feeds of one node with equal keys
        share an argument. shape, dtype: those of the result of `make`, by default those of the node. part: which part
        of a parameter the argument is.
        """
        if (node, key) in self._fed:
            return self._fed[node, key]
        shape = tuple(shape if shape is not None else fake(node).shape)
        dtype = dtype or fake(node).dtype
        name = torch_to_te(dtype)
        if name is None:
            reason = f"its elements are {dtype_name(dtype)}; te has float32, bfloat16, float16, int32"
            raise Unsupported(self.adapter.var(node), reason)
        weight = node in self.parameters and key != FIXED
        label = self.names.get(node, node.name)
        label = part.name(label) if part is not None else label + (f".{key}" if key else "")
        taken = {feed.name for feed in self.feeds}
        while label in taken:
            label += "_"
        sizes = shape if weight and is_stack(node) else matrix_of(shape)
        value = self.function.argument(label, sizes, name, weight=weight)
        self.feeds.append(Feed(node, key, make, label, weight, shape, dtype, part))
        self._fed[node, key] = value
        return value

    def is_inside(self, var: Var) -> bool:
        return var.origin is None or (var.origin in self.inside and var.origin.op != "placeholder")

    def is_given(self, atom: Atom) -> bool:
        return isinstance(atom, Var) and self.origin_of(atom) not in self.inside

    def origin_of(self, atom: Atom) -> Origin:
        """The node of a value, below operations that only repeat it along new axes."""
        while atom.node is not None and isinstance(atom, Var) and atom.origin is None:
            atom = atom.node.inputs[0]
        assert isinstance(atom, Var), "constants have no axes"
        return atom.origin

    def given(self, atom: Atom, user: Node | None) -> Value | None:
        if isinstance(atom, Const):
            raise Unsupported(user, f"its operand {atom.scalar!r} is a number, not a tensor")
        if atom.origin is None:
            return None
        node = node_of(atom, "slice")
        if node is not None and node.inputs[0].shape != atom.shape and not is_widened(node.inputs[0]):
            found = self.stored(atom)
            if found is not None and found.part is not None:
                return self._part(atom, found, found.part)
        if self.is_inside(atom):
            return None
        return Value(self.feed(atom.origin, make=None if self.is_parameter(atom) else dense), row_major(atom.shape))

    def _part(self, atom: Var, found: Stored, part: Part) -> Value:
        """A part of a parameter: rows are read in place, and columns are copied before each call."""
        source, shape = found.parameter.origin, atom.shape
        if found.transposed:
            copy = self.feed(source, str(part), lambda t: part.of(t).contiguous(), shape[::-1], part=part)
            return Value(self.function.cast(copy, atom.dtype), row_major(shape[::-1]).permute((1, 0)))
        rows = self.feed(source, str(part), part.of, shape, part=part)
        return Value(self.function.cast(rows, atom.dtype), row_major(shape))

    def readers(self, var: Var) -> list[Node]:
        return self.adapter.readers(var)

    def is_parameter(self, atom: Atom | None) -> bool:
        return isinstance(atom, Var) and atom.origin in self.parameters

    def stored(self, atom: Atom) -> Stored | None:
        """Where in a parameter a value is stored; None if it is not stored in one."""
        return stored(atom, self.parameters)
