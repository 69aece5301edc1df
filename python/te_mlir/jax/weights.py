"""Passes weights of linear layers, columns of these, and tables and indices of embeddings to a compiled function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from te_mlir import build
from te_mlir.frontend.base import Unsupported, Value
from te_mlir.frontend.embedding import Embedding
from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.frontend.linear import Operand
from te_mlir.frontend.losses import Picked
from te_mlir.frontend.parts import Columns, is_view, part_of, parts_of
from te_mlir.jax.graph import is_of_integers
from te_mlir.jax.segments import Segments


class Weights(Segments):
    """Emits weights, tables, indices, and parts of layers."""

    def is_weight(self, atom: Atom) -> bool:
        return self.is_light(atom)

    def layer_name(self, w: Atom, part: Columns | None, user: Node) -> str | None:
        name = self.stack_name(w)
        return f"{name}.{part.name}" if name is not None and part is not None else name

    def weight(self, w: Operand, part: Columns | None, user: Node) -> tuple[build.Value, bool]:
        lies = self.layout_of(w.atom) if self.is_light(w.atom) else self.value(w.atom, user).layout
        transposed = lies is not None and w.is_transposed(lies)
        order = (w.summed, w.free) if transposed else (w.free, w.summed)
        made = self._cut(w.atom, user, order, part, int(transposed)) if part else self._weight(w.atom, user, *order)
        return made, transposed

    def bias(self, bias: Var, part: Columns | None, user: Node, dtype: str) -> build.Value:
        if part is None:
            return super().bias(bias, part, user, dtype)
        return self.function.cast(self._cut(bias, user, (range(len(bias.shape)),), part, 0), dtype)

    def matrix(self, atom: Atom, user: Node, rows: Sequence[int], columns: Sequence[int]) -> build.Value:
        return self._moved(atom, user, rows, columns, "rows") or super().matrix(atom, user, rows, columns)

    def _moved(
        self, atom: Atom, user: Node, rows: Sequence[int], columns: Sequence[int], key: str
    ) -> build.Value | None:
        """The matrix as an argument that JAX transposes before the call.

        None if the matrix is computed in the call, or is stored in the argument in this order.
        """
        order = [*rows, *columns]
        # Check this before feeding the value, because an argument cannot be removed if nothing reads it.
        if not self.is_light(atom) or self.is_stored(atom, order):
            return None
        shape = [math.prod(atom.shape[a] for a in axes) for axes in (rows, columns)]
        return self.feed(
            atom, key, lambda a: jnp.transpose(a, order).reshape(shape), shape, user=user, how=tuple(order)
        )

    def _weight(self, atom: Atom, user: Node, rows: Sequence[int], columns: Sequence[int]) -> build.Value:
        """The matrix; it is a weight if JAX computes it from an argument only by moving and casting elements."""
        if self.is_stored(atom, [*rows, *columns]):
            shape = math.prod(atom.shape[a] for a in rows), math.prod(atom.shape[a] for a in columns)
            return self.parameter(atom, shape, user)
        made = self._moved(atom, user, rows, columns, "transposed") or self.matrix(atom, user, rows, columns)
        self.mark(made)
        return made

    def _cut(self, atom: Atom, user: Node, order: Sequence[Sequence[int]], part: Columns, axis: int) -> build.Value:
        """The columns `part` of a weight or a bias, which JAX takes from the argument before the call.

        order: the axes of `atom` for each axis of the matrix or vector, whose axis `axis` has the columns.
        """
        inner, types = atom, []
        # Casts are emitted instead of computed by JAX, so that the compiler can save their results.
        while isinstance(inner, Var) and inner.node is not None and inner.node.name == "convert_element_type":
            types.append(inner.dtype)
            inner = inner.node.inputs[0]
        sizes = [math.prod(atom.shape[a] for a in axes) for axes in order]
        axes = [a for own in order for a in own]

        def make(array: Any) -> Any:
            return part.cut(jnp.transpose(array, axes).reshape(sizes), axis)

        shape = [part.number if n == axis else size for n, size in enumerate(sizes)]
        how = (*axes, len(order[0]), *part.extents, *part.starts, *part.counts)
        made = self.feed(inner, part.name, make, shape, user=user, how=how)
        self.mark(made)
        for dtype in reversed(types):
            made = self.function.cast(made, dtype)
        return made

    # Experts

    def given_ids(self, ids: Atom, user: Node) -> build.Value:
        return self.feed(ids, "experts", shape=ids.shape, dtype="int32", differentiable=False, user=user)

    def stack(self, w: Atom, user: Node) -> build.Value:
        order = user.params["order"]
        shape = tuple(w.shape[a] for a in order)
        if self.is_stored(w, order):
            return self.parameter(w, shape, user)
        if not self.is_light(w):
            value = self.value(w, user)
            elements = self.in_order(Value(value.matrix, value.layout.permute(order)), user)
            return self.function.reshape(elements, shape)
        made = self.feed(w, "transposed", lambda a: jnp.transpose(a, order), shape, user=user, how=order)
        self.mark(made)
        return made

    def stack_name(self, w: Atom) -> str | None:
        label = self.label_of(w)
        return None if label.startswith("value") else label

    # Parts of layers

    def uses(self, var: Var) -> list[Var] | None:
        """The values that are computed from a value; None if it is also a result."""
        if var in self.graph.outputs:
            return None
        return [made for node in self.readers(var) for made in node.outputs]

    def _op_slice(self, var: Var, node: Node) -> Value:
        return self._part(var) or self.view(var, node)

    _op_split = _op_slice

    def _part(self, var: Var) -> Value | None:
        """The value as a part of a layer, if the program reads only parts of that layer."""
        base = var
        while is_view(base) and base.node is not None and isinstance(base.node.inputs[0], Var):
            base = base.node.inputs[0]
        found = self.linear_of(base) if not self.is_made(base) else None
        # The columns of a weight that is computed in the call cannot be taken before it.
        if found is None or not self.is_light(found.w.atom):
            return None
        place = base, found.layout, found.rows, found.columns
        part = part_of(var, *place) if parts_of(*place, self.uses) is not None else None
        if part is None:
            return None
        made = self.linear(base, found, part.columns)
        for dtype in part.types:
            made = self.function.cast(made, dtype)
        return Value(made, part.layout)

    # Rows of tables

    def vocabulary(self, table: Atom, user: Node) -> build.Value:
        return self._weight(table, user, (0,), (1,))

    def indices(self, found: Embedding, user: Node, only: int | None = None, but: int | None = None) -> build.Value:
        assert only is None and but is None, "no gather has padding"
        last = found.table.shape[0] - 1
        make = lambda t: (jnp.clip(t, 0, last) if found.clamps else t).reshape(-1).astype(jnp.int32)
        count, how = math.prod(found.indices.shape), (last,) if found.clamps else ()
        return self.feed(found.indices, "ids", make, (count,), "int32", differentiable=False, user=user, how=how)

    # Elements of rows

    def picked(self, var: Var, node: Node, found: Picked) -> Value:
        made = super().picked(var, node, found)
        if found.clamps or found.zeros:
            return made
        # JAX fills in NaN for an index out of range, which has a target of NaN.
        targets, f = self.picks(found, node), self.function
        chosen = f.cast(f.reshape(made.matrix, targets.shape), "float32")
        return self.dense(
            var, f.choose("oeq", targets, targets, chosen, f.constant(math.nan, targets.shape, "float32"))
        )

    def picks(self, picked: Picked, user: Node) -> build.Value:
        targets, last = picked.targets, picked.x.shape[-1] - 1
        if isinstance(targets, Var) and not is_of_integers(targets):
            raise Unsupported(user, "its indices are computed from compiled values")

        def make(t: Any) -> Any:
            t = (jnp.clip(t, 0, last) if picked.clamps else t).reshape(-1)
            known = picked.clamps or picked.zeros
            return t.astype(jnp.float32) if known else jnp.where((t >= 0) & (t <= last), t.astype(jnp.float32), jnp.nan)

        how = last, picked.clamps, picked.zeros
        return self.feed(targets, "labels", make, (math.prod(targets.shape),), "float32", False, user, how)

    def classes(self, targets: Atom, count: int, user: Node) -> build.Value:
        return self.feed(
            targets, "classes", lambda t: jnp.arange(count, dtype=jnp.float32), (count,), "float32", False, user
        )
