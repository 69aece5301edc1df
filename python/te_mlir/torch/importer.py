"""From an ATen graph to a function of the dialect.

Nodes that depend on a parameter, or on a tensor that wants a gradient, are to be
compiled; the others stay in PyTorch and are computed before (positions, tables,
masks, integer targets: the *prologue*). A node that cannot be emitted raises
`Unsupported` with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Node as Origin

from te_mlir import build
from te_mlir.frontend import rotary
from te_mlir.frontend.emitter import Unsupported, Value, te_name
from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.frontend.looking import node_of, uncast
from te_mlir.frontend.losses import CrossEntropy
from te_mlir.layout import row_major
from te_mlir.torch.arguments import FIXED, Arguments, fake
from te_mlir.torch.indices import Indices
from te_mlir.torch.masks import CAUSAL, OPEN, OTHER, OtherMask, OtherTable, is_kind, kind_of
from te_mlir.torch.states import Part, layer_of
from te_mlir.torch.tensors import dense, dtype_name


class Importer(Arguments):
    """Emits the nodes of a graph into one function."""

    # PyTorch rounds others once.
    powers = (2,)

    def lacks(self, node: Node) -> Unsupported:
        return Unsupported(node, node.params.get("reason", f"'{node.origin.target}' has no counterpart in te"))

    # Linear layers

    def _op_linear(self, var: Var, node: Node) -> Value:
        x, w, bias = node.inputs
        a, transposed = self.rows(x, node), self._transposed(w, node)
        b = transposed or self._fixed(w) or self.rows(w, node)
        c = self.vector(bias, node, a.dtype) if bias is not None else None
        if a.dtype != b.dtype:
            raise Unsupported(node, f"its operands have elements of {a.dtype} and {b.dtype}")
        layer = self._layer(node, w)
        return self.dense(var, self.function.linear(a, b, c, layer=layer, transposed_weight=transposed is not None))

    def _fixed(self, w: Atom | None) -> build.Value | None:
        """A matrix from outside of the region that is no parameter, or a cast of one, as the weight of a product.

        It is passed as a vector: for the compiler an argument that is such a matrix is a weight whose mark is
        missing, which it neither keeps casts of nor adds gradients of to 'main_grad'.
        """
        if not isinstance(w, Var) or w.origin is None:
            return None
        if self.is_inside(w):
            dtype, cast = te_name(w.dtype), node_of(w, "convert_element_type")
            inner = self._fixed(cast.inputs[0]) if cast is not None and uncast(w) is not w else None
            return None if inner is None or dtype is None else self.function.cast(inner, dtype)
        if self.is_parameter(w) or self.row_range(w) is not None or len(w.shape) != 2:
            return None
        vector = self.feed(w.origin, "flat", lambda t: dense(t).view(-1), (math.prod(w.shape),))
        return self.function.reshape(vector, w.shape)

    def _transposed(self, w: Atom, user: Node) -> build.Value | None:
        """The matrix [in, out] that `w` is the transpose of, where that is a parameter, or a copy of columns of one."""
        found = self._columns(w)
        if found is None:
            return None
        whole, parameter, part = found
        if part is None:
            return self.rows(whole, user)
        copy = self.feed(parameter, str(part), lambda t: part.of(t).contiguous(), w.shape[::-1], part=part)
        return self.function.cast(copy, w.dtype)

    def _columns(self, w: Atom) -> tuple[Atom, Origin, Part | None] | None:
        """(matrix, parameter, part) where `w` is the transpose of the matrix, or of columns of it.

        The matrix is the parameter, perhaps cast.
        """
        first, whole, part = 0, w, node_of(w, "slice")
        if part is not None and len(w.shape) == 2 and not part.params["start_indices"][1]:
            source = part.inputs[0]
            if w.shape[1] == source.shape[1] and part.params["strides"] == (1, 1):
                whole, first = source, part.params["start_indices"][0]
        matrix = _transpose_of(whole)
        parameter = uncast(matrix) if matrix is not None else None
        if matrix is None or not isinstance(parameter, Var) or not self.is_parameter(parameter):
            return None
        is_part = w.shape != whole.shape
        return matrix, parameter.origin, Part(1, first, first + w.shape[0]) if is_part else None

    def _layer(self, node: Node, w: Atom) -> str:
        """What reports call a layer: its parameter, also where that is rounded to the type that it computes in."""
        columns, part = self._columns(w), None
        if columns is not None:
            _, parameter, part = columns
        else:
            source = uncast(w)
            assert isinstance(source, Var)
            part = self.row_range(source)
            parameter = source.origin if part is None else self.slice_source(source)
        if parameter not in self.parameters:
            return str(node.origin.name)
        name = self.names.get(parameter, parameter.name)
        return layer_of(name if part is None else part.name(name))

    def _op_addmm(self, var: Var, node: Node) -> Value:
        return self.matmul(var, node)

    def matmul(self, var: Var, node: Node) -> Value:
        x, w, bias = (*node.inputs, None)[:3]
        fixed = self._fixed(_transpose_of(w))
        if fixed is not None:
            a = self.rows(x, node, fixed.shape[1])
            c = self.vector(bias, node, a.dtype) if bias is not None else None
            return self.dense(var, self.function.linear(a, fixed, c, layer=node.origin.name))
        b = self.value(w, node)
        if len(b.layout.dims) != 2 or not b.layout.permute((1, 0)).is_row_major(b.elements):
            raise Unsupported(node, "only products with the transpose of a row-major matrix are linear layers")
        k, n = b.layout.shape
        a = self.rows(x, node, k)
        matrix = self.function.reshape(b.matrix, (n, k))
        c = self.vector(bias, node, a.dtype) if bias is not None else None
        parameter: Atom = w
        while not self.is_parameter(parameter) and node_of(parameter, "transpose", "reshape", "copy"):
            assert parameter.node is not None
            parameter = uncast(parameter.node.inputs[0])
        return self.dense(var, self.function.linear(a, matrix, c, layer=self._layer(node, parameter)))

    # Rows of tables

    def _op_embedding(self, var: Var, node: Node) -> Value:
        (table, ids), padding_idx = node.inputs, node.params["padding"]
        rows = self.rows(table, node)
        if padding_idx < 0:
            return self.dense(var, self.function.embedding(self._ids(ids), rows))
        # Rows of ids outside the table are zeros, and have no gradients: those of padding come from a table without.
        if not self.is_parameter(table):
            raise Unsupported(node, "its table, which is to have a row without a gradient, is no parameter")
        fixed = self.feed(table.origin, FIXED, torch.Tensor.detach)
        others = self._ids(ids, f"ids_but_{padding_idx}", lambda t: t.masked_fill(t == padding_idx, -1))
        padding = self._ids(ids, f"ids_{padding_idx}", lambda t: t.masked_fill(t != padding_idx, -1))
        parts = self.function.embedding(others, rows), self.function.embedding(padding, fixed)
        return self.dense(var, self.function.add(*parts))

    def _ids(
        self, ids: Var, key: str = "ids", mask: Callable[[torch.Tensor], torch.Tensor] | None = None
    ) -> build.Value:
        origin = self.origin_of(ids)
        if origin in self.inside:
            raise Unsupported(ids, "it makes indices of compiled values")
        make = Indices()
        count = (math.prod(ids.shape),)
        return self.feed(origin, key, make if mask is None else lambda t: make(mask(t)), count, torch.int32)

    # Rotations

    def table(
        self, table: Atom, user: Node, found: rotary.Rope, order: Sequence[int], batch: int, sequence: int
    ) -> build.Value:
        width, of, source = found.x.shape[-1], found.alike, self.origin_of(table)
        if source in self.inside or source in self.wanting:
            raise Unsupported(user, "the tables of a rotation depend on compiled values")
        b, s, h, columns = (rotary.sizes(table)[a] for a in order)
        if h != 1 or s != sequence or columns != (width // 2 if of == rotary.HALF else width) or b not in (1, batch):
            wanted = "[batch or 1, 1, sequence, width]" if order[1] == 2 else "[batch or 1, sequence, 1, width]"
            wanted = wanted.replace("width", "width / 2") if of == rotary.HALF else wanted
            raise Unsupported(user, f"its tables are {list(fake(source).shape)}; expected {wanted}")
        shape = (b * sequence, width // 2)
        if of == rotary.HALF:
            half = lambda t: t.reshape(-1, width // 2).to(torch.float32).contiguous()
            return self.feed(source, of, half, shape, torch.float32)
        if self.masks.get(source.name) == OTHER:
            raise OtherTable(user, source.name, of)

        def make(t: torch.Tensor) -> torch.Tensor:
            rows = t.reshape(-1, width).to(torch.float32)
            first, second = (rows[:, ::2], rows[:, 1::2]) if of == rotary.PAIRS else rows.chunk(2, -1)
            if not torch.equal(first, second):
                raise OtherTable(user, source.name, of)
            return first.contiguous()

        return self.feed(source, of, make, shape, torch.float32)

    # Attention

    def is_deterministic(self) -> bool:
        # As PyTorch's own attention is.
        return torch.are_deterministic_algorithms_enabled()

    def sinks(self, user: Node, sinks: Atom, heads: list[int]) -> build.Value:
        source = uncast(sinks)
        origin = self.origin_of(source)
        if str(origin.target).startswith(("aten.zeros.", "aten.new_zeros.")):
            # Whatever their shape, all are one.
            count = math.prod(user.output.shape[a] for a in heads)
            return self.feed(origin, "sinks", lambda t: t.new_zeros(count).float(), (count,), torch.float32)
        return super().sinks(user, sinks, heads)

    def outside_mask(self, user: Node, mask: Atom, sequence: int) -> tuple[bool, int | None]:
        # What the mask is taken to be; it feeds nothing, but is compared before each call.
        source = self.origin_of(mask)
        if source in self.inside or source in self.wanting:
            raise Unsupported(user, "its mask depends on compiled values")
        kind = self.masks.get(source.name, CAUSAL)
        if kind == OTHER:
            raise Unsupported(user, "its mask is neither causal, with a window or without, nor all ones")

        def check(t: torch.Tensor) -> torch.Tensor:
            if not is_kind(t, sequence, kind):
                raise OtherMask(user, source.name, kind_of(t, sequence))
            return torch.zeros((), device=t.device)

        # A scalar that the compiler drops: what matters is that it is made.
        self.feed(source, "mask", check, (), torch.float32)
        return kind != OPEN, kind.window_left

    # Losses

    def targets(
        self, user: Node, found: CrossEntropy, place: np.ndarray[Any, Any], rows: int, classes: int
    ) -> tuple[build.Value, build.Value | None]:
        targets, ignored = found.targets, found.ignore_index
        if found.masks:
            raise Unsupported(user, "it is of some rows; 'ignore_index' is imported for these")
        if not isinstance(targets, Var) or not self.is_given(targets) or targets.floating:
            raise Unsupported(user, "its targets are no integers of the input")
        count, origin = len(place), self.origin_of(targets)
        if count == rows and (place == np.arange(rows)).all():
            ids = self._ids(targets)
        else:
            # logits[..., :-1, :]: the last row of each sequence has no target.
            length = count // max(rows - count, 1)
            before_last = np.arange(rows).reshape(-1, length + 1)[:, :-1] if rows % (length + 1) == 0 else place[:0]
            if not np.array_equal(before_last.reshape(-1), place):
                raise Unsupported(user, "its logits are a view that is not row-major in memory")

            def shifted(t: torch.Tensor) -> torch.Tensor:
                return Indices()(torch.nn.functional.pad(t.reshape(-1, length), (0, 1), value=ignored))

            ids = self.feed(origin, f"shifted_{length}_{ignored}", shifted, (rows,), torch.int32)
        if not found.summed:
            return ids, None
        number = lambda t: (t != ignored).sum(dtype=torch.float32)
        return ids, self.feed(origin, f"count_{ignored}", number, (), torch.float32)

    # Elementwise

    def is_number(self, atom: Atom, other: Atom) -> bool:
        return super().is_number(atom, other) or (bool(other.shape) and self._is_outside_number(atom))

    def _is_outside_number(self, atom: Atom) -> bool:
        """Whether a tensor without dimensions comes from outside of the region, and has no gradient."""
        some = (self.inside, self.parameters, self.wanting)
        return isinstance(atom, Var) and not atom.shape and not any(atom.origin in nodes for nodes in some)

    def number(self, atom: Atom, x: build.Value, user: Node) -> build.Value:
        if not isinstance(atom, Var):
            return super().number(atom, x, user)
        # Elementwise ops have operands of one shape; what comes of buffers alone is made once.
        of: torch.dtype = fake(user.origin).dtype
        make = lambda t: t.to(of).expand(x.shape).contiguous()
        return self.feed(atom.origin, f"{x.dtype} {list(x.shape)}", make, x.shape, of)

    def operand(self, atom: Atom, user: Node) -> Value:
        if not isinstance(atom, Var) or self.is_inside(atom) or atom.floating:
            return self.value(atom, user)
        # Integers from outside of the region come as numbers of the result's type.
        dtype: torch.dtype = fake(user.origin).dtype
        matrix = self.feed(atom.origin, dtype_name(dtype), lambda t: t.to(dtype).contiguous(), dtype=dtype)
        return Value(matrix, row_major(atom.shape))


def _transpose_of(value: Atom) -> Atom | None:
    """What a matrix is the transpose of."""
    node = node_of(value, "transpose")
    is_matrix = node is not None and tuple(node.params["permutation"]) == (1, 0)
    return node.inputs[0] if node is not None and is_matrix else None
