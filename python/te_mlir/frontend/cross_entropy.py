"""Emits the mean cross entropy of rows, and sums of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from te_mlir import build
from te_mlir.frontend.base import Emission, Value
from te_mlir.frontend.graph import Node, Var
from te_mlir.frontend.losses import CrossEntropy, named_loss
from te_mlir.layout import Layout, row_major


class Losses(Emission):
    """Emits losses."""

    def targets(
        self, user: Node, found: CrossEntropy, place: np.ndarray[Any, Any], rows: int, classes: int
    ) -> tuple[build.Value, build.Value | None]:
        """(Targets, number of targets that count if the loss is a sum, else None.)

        The targets are int32 [rows]. place: the row of the logits in the matrix for each target of the program; other
        rows of the matrix get a target that does not count.
        """
        raise NotImplementedError

    def cross_entropy(self, var: Var, node: Node, found: CrossEntropy) -> Value:
        value, classes = self.value(found.logits, node), found.logits.shape[-1]
        place = _rows_of(value.layout, classes)
        if place is None:
            value = Value(self.in_order(value, node), row_major(found.logits.shape))
            place = np.arange(value.elements // classes)
        rows = value.elements // classes
        targets, count = self.targets(node, found, place, rows, classes)
        matrix = self.function.reshape(value.matrix, (rows, classes))
        ignored = min(max(found.ignore_index, -(2**31)), 2**31 - 1)
        made = self.function.cross_entropy(matrix, targets, ignored)
        if count is not None:
            made = self.function.mul(made, count)
        if found.factor == -1:
            made = self.function.unary("arith.negf", made)
        elif found.factor != 1:
            made = self.function.mul(made, self.function.constant(found.factor, (), "float32"))
        # Cast the loss to the type that it has in the program, because later operations were traced with that type.
        return self.dense(var, made)

    def _op_cross_entropy(self, var: Var, node: Node) -> Value:
        # The loss is not a part of a larger pattern.
        found = named_loss(node)
        if found is None:
            raise self.lacks(node)
        return self.cross_entropy(var, node, found)


def _rows_of(layout: Layout, columns: int) -> np.ndarray[Any, Any] | None:
    """The row of the matrix for each row of a value; None unless each row is contiguous, and no row is repeated."""
    if not Layout(layout.dims[-1:]).is_row_major(columns) or layout.offset % columns:
        return None
    rows = np.zeros(1, np.int64)
    for size, stride in (atom for dim in layout.dims[:-1] for atom in dim):
        if stride % columns:
            return None
        rows = (rows[:, None] + np.arange(size) * (stride // columns)).reshape(-1)
    rows += layout.offset // columns
    return rows if len(np.unique(rows)) == len(rows) else None
