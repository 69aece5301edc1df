"""The arguments of a region: what PyTorch makes of nodes before it, parameters, and parts of these."""

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
from te_mlir.torch.masks import Kind
from te_mlir.torch.states import Part
from te_mlir.torch.stored import Stored, stored
from te_mlir.torch.tensors import dense, dtype_name, torch_to_te

#: The key of a parameter as an argument that has no gradient.
FIXED = "fixed"


class Feed(NamedTuple):
    """An argument of the region: what PyTorch makes of a node before the call.

    node: outside of the region. make: from its tensor to the argument. name, weight:
    of a parameter, which is passed as it is, or of a part of one.
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
    """The tensor without content that tracing left on the node."""
    return node.meta["val"]


def describe(node: Origin) -> str:
    """`aten.sin(f32 [2, 16])`, for messages."""
    name = str(node.target).removesuffix(".default") if node.op == "call_function" else node.op
    operands = []
    for argument in node.all_input_nodes:
        value = argument.meta.get("val")
        if isinstance(value, torch.Tensor):
            operands.append(f"{dtype_name(value.dtype)} {list(value.shape)}")
    return f"{name}({', '.join(operands)})"


class _Function(build.Function):
    """A function that computes once what is asked for twice.

    Equal results would be one in the compiler, which copies it for the second after the backward.
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
    """Emits values from outside of a region.

    inside: the nodes that are compiled. names: what placeholders are called.
    parameters: those that are parameters. wanting: the nodes that have gradients.
    masks: of what kind those are, by name, that are not causal, and which tables of rotations are OTHER.
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
        """The tensor that a node gives, emitted now where it was not yet."""
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
        """The argument that is `make` of what `node`, outside of the region, gives.

        key: what `make` does, with all that it depends on, to share equal ones. shape, dtype: of what it makes.
        part: what it is of a parameter.
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
        value = self.function.argument(label, matrix_of(shape), name, weight=weight)
        self.feeds.append(Feed(node, key, make, label, weight, shape, dtype, part))
        self._fed[node, key] = value
        return value

    def is_inside(self, var: Var) -> bool:
        return var.origin is None or (var.origin in self.inside and var.origin.op != "placeholder")

    def is_given(self, atom: Atom) -> bool:
        return isinstance(atom, Var) and self.origin_of(atom) not in self.inside

    def origin_of(self, atom: Atom) -> Origin:
        """The node that a value is of, which may be repeated along new axes."""
        while atom.node is not None and isinstance(atom, Var) and atom.origin is None:
            atom = atom.node.inputs[0]
        assert isinstance(atom, Var), "constants have no axes"
        return atom.origin

    def given(self, atom: Atom, user: Node | None) -> Value | None:
        if isinstance(atom, Const):
            raise Unsupported(user, f"{atom.scalar!r} is no tensor")
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
        """Rows of a parameter, which are read in place, or columns, which are copied before each call."""
        source, shape = found.parameter.origin, atom.shape
        if found.transposed:
            copy = self.feed(source, str(part), lambda t: part.of(t).contiguous(), shape[::-1], part=part)
            return Value(self.function.cast(copy, atom.dtype), row_major(shape[::-1]).permute((1, 0)))
        rows = self.feed(source, str(part), part.of, shape, part=part)
        return Value(self.function.cast(rows, atom.dtype), row_major(shape))

    def not_row_major(self, atom: Atom, user: Node) -> Unsupported:
        if not isinstance(atom, Var) or atom.origin is None or not self.is_inside(atom):
            return super().not_row_major(atom, user)
        # PyTorch makes it so; what needs it goes on from there.
        return Unsupported(atom, f"it gives {list(atom.shape)}, a view that is not row-major in memory")

    def readers(self, var: Var) -> list[Node]:
        return self.adapter.readers(var)

    def is_parameter(self, atom: Atom | None) -> bool:
        return isinstance(atom, Var) and atom.origin in self.parameters

    def stored(self, atom: Atom) -> Stored | None:
        """Where in a parameter a value is stored; None if it is not stored in one."""
        return stored(atom, self.parameters)
