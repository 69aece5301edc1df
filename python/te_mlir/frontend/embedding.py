"""Finds and emits embeddings: rows of a table at indices that are computed before each call."""

from __future__ import annotations

from typing import NamedTuple

from te_mlir import build
from te_mlir.frontend.base import Unsupported, Value
from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.frontend.linear import Linears
from te_mlir.frontend.losses import Picked

#: Rows of which an element is picked by a sum. Longer rows have more indices than f32 has integers.
_LEAST_CLASSES, MOST_CLASSES = 32, 2**24


class Embedding(NamedTuple):
    """Rows of a table at `indices`.

    clamps: whether an index outside the table reads the nearest row. padding: the index of the row that has no
    gradient; None if all rows have one.
    """

    table: Atom
    indices: Atom
    clamps: bool
    padding: int | None


def match_embedding(node: Node) -> Embedding | None:
    """The embedding that a node computes: one of the framework's, or a gather of whole rows. None for other gathers."""
    if node.name == "embedding":
        (table, indices), padding = node.inputs, int(node.params["padding"])
        return Embedding(table, indices, False, padding if padding >= 0 else None)
    rows = node.params.get("rows")
    if rows is None:
        return None
    indices, clamps = rows
    return Embedding(node.inputs[0], indices, clamps, None)


class Embeddings(Linears):
    """Emits embeddings."""

    # Defined by each frontend

    def vocabulary(self, table: Atom, user: Node) -> build.Value:
        """The table as a matrix, which is a weight if it is an argument."""
        return self.rows(table, user)

    def constant_vocabulary(self, table: Atom, user: Node) -> build.Value:
        """The table as an argument without a gradient."""
        raise NotImplementedError

    def indices(self, found: Embedding, user: Node, only: int | None = None, but: int | None = None) -> build.Value:
        """The vector of indices. Indices other than `only`, or equal to `but`, are replaced by one outside the table."""
        raise NotImplementedError

    def places(self, gather: Node) -> build.Value:
        """The vector of the numbers of the elements, in order, that a gather along `axis` takes."""
        raise NotImplementedError

    def classes(self, targets: Atom, count: int, user: Node) -> build.Value:
        """The f32 vector 0, 1, ..., count - 1. targets: what it is compared with."""
        raise NotImplementedError

    def picks(self, picked: Picked, user: Node) -> build.Value:
        """The f32 vector of the targets of rows."""
        raise NotImplementedError

    # Emission

    def _op_gather(self, var: Var, node: Node) -> Value:
        picks, x = node.params.get("picks"), node.inputs[0]
        # A row with few elements is a row of a table, if the frontend looks up elements in tables.
        is_table = "axis" in node.params and x.shape[-1] < _LEAST_CLASSES
        if picks is None or is_table or x.shape[-1] > MOST_CLASSES or not self.is_computed(x):
            return self._op_embedding(var, node)
        return self.picked(var, node, Picked(x, *picks))

    def picked(self, var: Var, node: Node, found: Picked) -> Value:
        rows = self.function.cast(self.rows(found.x, node), "float32")
        classes = self.classes(found.targets, found.x.shape[-1], node)
        return self.dense(var, self.chosen_of_rows(rows, self.picks(found, node), classes))

    def chosen_of_rows(self, rows: build.Value, targets: build.Value, classes: build.Value) -> build.Value:
        """The element of each row at its target, or 0 if that is no class.

        It is a sum of the element and zeros, which is a part of what else is computed of the row.
        """
        f = self.function
        spread = f.broadcast(targets, rows.shape, [1]), f.broadcast(classes, rows.shape, [0])
        return f.reduce_sum(f.choose("oeq", *spread, rows, f.constant(0.0, rows.shape, "float32")), [1])

    def is_computed(self, atom: Atom) -> bool:
        """Whether a value is computed in the program."""
        return isinstance(atom, Var) and atom.node is not None and self.is_inside(atom)

    def _op_embedding(self, var: Var, node: Node) -> Value:
        found = match_embedding(node)
        if found is None and not {"rows", "axis"} & node.params.keys():
            raise self.lacks(node)
        if found is None and "axis" in node.params:
            # Each element of the operand is a row of a table.
            table = self.rows(node.inputs[0], node, 1)
            return self.dense(var, self.function.embedding(self.places(node), table))
        if found is None:
            raise Unsupported(node, "only gathers of whole rows of a matrix (embeddings) are imported")
        padding = found.padding
        if padding is None:
            indices = self.indices(found, node)
            return self.dense(var, self.function.embedding(indices, self.vocabulary(found.table, node)))
        # An index outside the table gives a row of zeros, without a gradient. The padding row is read from a second
        # argument, the same table without a gradient.
        others, own = self.indices(found, node, but=padding), self.indices(found, node, only=padding)
        table, constant = self.vocabulary(found.table, node), self.constant_vocabulary(found.table, node)
        return self.dense(var, self.function.add(*map(self.function.embedding, (others, own), (table, constant))))
