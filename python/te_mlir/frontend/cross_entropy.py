"""Emits the mean cross entropy of rows, and sums of it.

If other operations compute numbers of the same logits, such as a z-loss, the cross entropy is numbers of rows, too, so
that the compiler finds one program for each row of logits (docs/guides/reinforcement_learning.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from te_mlir import build
from te_mlir.frontend.base import Value
from te_mlir.frontend.embedding import Embeddings
from te_mlir.frontend.graph import Node, Var, order_of
from te_mlir.frontend.looking import node_of
from te_mlir.frontend.losses import CrossEntropy, named_loss
from te_mlir.frontend.rows import Rows
from te_mlir.frontend.views import PARTS, WHOLE
from te_mlir.layout import Layout, row_major


class Losses(Embeddings, Rows):
    """Emits losses."""

    def targets(
        self, user: Node, found: CrossEntropy, place: np.ndarray[Any, Any], rows: int, classes: int, by_rows: bool
    ) -> tuple[build.Value, build.Value | None]:
        """(Targets, number of targets that count or None.)

        The targets are int32 [rows]; `by_rows`, they are f32, and those that do not count are no classes. place: the row
        of the logits in the matrix for each target of the program; other rows of the matrix get a target that does not
        count. The number is there if the loss is a sum or, with `by_rows`, a mean; then it is at least 1.
        """
        raise NotImplementedError

    def is_returned(self, var: Var, readers: Sequence[Node]) -> bool:
        """Whether a value is a result, or one of its `readers` is not compiled."""
        raise NotImplementedError

    def cross_entropy(self, var: Var, node: Node, found: CrossEntropy) -> Value:
        value, classes = self.value(found.logits, node), found.logits.shape[-1]
        place, by_rows = _rows_of(value.layout, classes), self._is_read_beside(var, found.logits)
        if place is None or by_rows:
            value = Value(self.in_order(value, node), row_major(found.logits.shape))
            place = np.arange(math.prod(found.logits.shape[:-1]))
        rows = math.prod(value.matrix.shape) // classes
        targets, count = self.targets(node, found, place, rows, classes, by_rows)
        matrix = self.function.reshape(value.matrix, (rows, classes))
        if by_rows:
            logs = self.log_softmax_of(self.function.cast(matrix, "float32"))
            chosen = self.chosen_of_rows(logs, targets, self.classes(found.targets, classes, node))
            made = self.function.unary("arith.negf", self.function.reduce_sum(chosen, [0]))
        else:
            ignored = min(max(found.ignore_index, -(2**31)), 2**31 - 1)
            made = self.function.cross_entropy(matrix, targets, ignored)
        if count is not None:
            made = self.function.div(made, count) if by_rows else self.function.mul(made, count)
        if found.factor == -1:
            made = self.function.unary("arith.negf", made)
        elif found.factor != 1:
            made = self.function.mul(made, self.function.constant(found.factor, (), "float32"))
        # Cast the loss to the type that it has in the program, because later operations were traced with that type.
        return self.dense(var, made)

    def _is_read_beside(self, loss: Var, logits: Var) -> bool:
        """Whether operations that are not of the loss read its logits, or what it computes of them, and none returns as much."""
        base = logits
        while (view := node_of(base, *PARTS, *WHOLE, "convert_element_type")) and isinstance(view.inputs[0], Var):
            base = view.inputs[0]
        inside, own = {base}, set()
        for node in order_of(loss, [base]):
            if any(v in inside for v in node.inputs):
                own.add(node)
                inside.update(node.outputs)
        inside.discard(loss)
        found, seen, stack = False, {loss}, list(inside)
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            others = [node for node in self.readers(value) if node not in own]
            is_large = math.prod(value.shape) >= math.prod(logits.shape)
            is_returned = self.is_returned(value, others)
            if is_large and is_returned:
                return False
            found = found or (value in inside and (is_returned or bool(others)))
            stack.extend(v for node in others if is_large for v in node.outputs)
        return found

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
