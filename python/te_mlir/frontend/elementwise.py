"""Elementwise operations, casts and views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from te_mlir import build
from te_mlir.frontend.activations import Activations
from te_mlir.frontend.base import Unsupported, Value, te_name
from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.frontend.looking import scalar, vector
from te_mlir.frontend.views import viewed
from te_mlir.layout import in_order_of, same


class Elementwise(Activations):
    """Emits elementwise operations, casts and views."""

    #: Exponents that are emitted as repeated multiplication.
    powers: Sequence[int] = (2, 3, 4)

    def is_number(self, atom: Atom, other: Atom) -> bool:
        """Whether an operand is one number, which is combined with each element of the other operand."""
        return scalar(atom) is not None

    def number(self, atom: Atom, x: build.Value, user: Node) -> build.Value:
        """A matrix like `x` with a number in every element."""
        found = scalar(atom)
        assert found is not None, "is_number checked this"
        return self.function.constant(found, x.shape, x.dtype)

    def _op_add(self, var: Var, node: Node) -> Value:
        for x, shift in (node.inputs, node.inputs[::-1]):
            bias = vector(shift, var.shape[-1]) if len(var.shape) > 1 else None
            if bias is not None and x.shape == var.shape:
                matrix = self.function.cast(self.rows(x, node), var.dtype)
                added = self.vector(bias, node, var.dtype)
                result, types = (matrix.shape, matrix.dtype), f"{matrix.type}, {added.type}"
                return self.dense(var, self.function.append("te.bias_add", (matrix, added), [result], types)[0])
        return self.binary(var, node, "add")

    def _op_sub(self, var: Var, node: Node) -> Value:
        return self.binary(var, node, "sub")

    def _op_mul(self, var: Var, node: Node) -> Value:
        a, b = node.inputs
        return self.gated(var, node, a, b) or self.gated(var, node, b, a) or self.binary(var, node, "mul")

    def _op_div(self, var: Var, node: Node) -> Value:
        return self.binary(var, node, "div")

    def binary(self, var: Var, node: Node, op: str) -> Value:
        a, b = node.inputs
        # The operand in whose order the result is stored.
        place = 1 if self.is_number(a, b) and not self.is_number(b, a) else 0
        if not self.is_number(node.inputs[1 - place], node.inputs[place]):
            values = [self.operand(v, node) for v in node.inputs]
            fits = [v.layout.shape == var.shape and v.layout.is_whole(v.elements) for v in values]
            place = 1 if fits == [False, True] else 0
        left, other = self.whole(node.inputs[place], node), node.inputs[1 - place]
        x = self.function.cast(left.matrix, var.dtype)
        if self.is_number(other, node.inputs[place]):
            y = self.number(other, x, node)
        else:
            y = self.like(left, self.operand(other, node), var, node)
        # A broadcast is computed in its own shape, because a view of it would be stored.
        x = self.function.reshape(x, y.shape)
        made = getattr(self.function, op)(*((x, y) if place == 0 else (y, x)))
        return Value(self.function.reshape(made, left.matrix.shape), left.layout)

    def like(self, left: Value, right: Value, var: Var, node: Node) -> build.Value:
        """The elements of `right` in the order of `left`, cast to the type of `var`.

        `right` may be repeated along leading axes of the order in memory.
        """
        shapes = f"{list(node.inputs[0].shape)} and {list(node.inputs[1].shape)}"
        if same(left.layout, right.layout) and left.elements == right.elements:
            return self.function.cast(self.function.reshape(right.matrix, left.matrix.shape), var.dtype)
        if () in [v.shape for v in node.inputs]:
            raise Unsupported(
                node, "expected its rank-0 operand to be computed before the compiled part, without a gradient"
            )
        stored = in_order_of(left.layout, right.layout, var.shape)
        # The gradient of a broadcast along other axes is a sum that te does not have.
        if stored is None or not stored.is_row_major(right.elements):
            repeats = any(stride == 0 for _, stride in right.layout.atoms) or right.layout.shape != var.shape
            how = "broadcast along an axis that is not the first in memory" if repeats else "stored in different orders"
            raise Unsupported(node, f"its operands {shapes} are {how}")
        source = self.function.cast(self.function.reshape(right.matrix, (right.elements,)), var.dtype)
        return self.function.broadcast(source, (left.elements // right.elements, right.elements), (0,))

    def unary(self, node: Node, op: str) -> Value:
        value = self.whole(node.inputs[0], node)
        return Value(self.function.unary(op, value.matrix), value.layout)

    def _op_neg(self, var: Var, node: Node) -> Value:
        return self.unary(node, "arith.negf")

    def _op_exp(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.exp")

    def _op_tanh(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.tanh")

    def _op_sqrt(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.sqrt")

    def _op_logistic(self, var: Var, node: Node) -> Value:
        # glu(x, 1) is logistic(x) * 1. The formula 1 / (1 + exp(-x)) would have a NaN gradient where exp(-x) is infinite.
        value = self.whole(node.inputs[0], node)
        shape = value.matrix.shape if len(value.matrix.shape) == 2 else (1, value.elements)
        matrix = self.function.reshape(value.matrix, shape)
        one = self.function.constant(1.0, shape, matrix.dtype)
        return Value(self.function.activation("glu", matrix, one), value.layout)

    def _op_square(self, var: Var, node: Node) -> Value:
        return self.power(node, 2)

    def _op_integer_pow(self, var: Var, node: Node) -> Value:
        return self.power(node, node.params["y"])

    def power(self, node: Node, exponent: Any) -> Value:
        if exponent not in self.powers:
            some = [str(power) for power in self.powers]
            known = f"{' and '.join([', '.join(some[:-1]), some[-1]])} have" if len(some) > 1 else f"{some[0]} has"
            raise Unsupported(node, f"a power of {exponent} has no counterpart in te; {known}")
        value = self.whole(node.inputs[0], node)
        made = value.matrix
        for _ in range(exponent - 1):
            made = self.function.mul(made, value.matrix)
        return Value(made, value.layout)

    # Casts and views

    def _op_convert_element_type(self, var: Var, node: Node) -> Value:
        value = self.value(node.inputs[0], node)
        if value.matrix.dtype == "int32":
            raise Unsupported(node, "a cast of integers to floats has no counterpart in te")
        if te_name(var.dtype) in (None, "int32"):
            raise Unsupported(node, f"a cast to {var.dtype} has no counterpart in te")
        return Value(self.function.cast(value.matrix, var.dtype), value.layout)

    def _op_copy(self, var: Var, node: Node) -> Value:
        return self.value(node.inputs[0], node)

    def view(self, var: Var, node: Node) -> Value:
        value = self.value(node.inputs[0], node)
        layout = viewed(var, node, value.layout)
        if layout is None or layout.shape != var.shape:
            raise Unsupported(node, f"a view of {list(value.layout.shape)} as {list(var.shape)} is not imported")
        return Value(value.matrix, layout)

    _op_reshape = _op_squeeze = _op_expand_dims = _op_transpose = _op_broadcast_in_dim = view
    _op_slice = _op_split = _op_as_strided = view
