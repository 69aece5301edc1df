"""Elementwise operations, casts and views."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from te_mlir import build
from te_mlir.frontend.activations import Activations
from te_mlir.frontend.base import Unsupported, Value, te_name
from te_mlir.frontend.graph import Atom, Node, Var, is_floating
from te_mlir.frontend.looking import scalar, vector
from te_mlir.frontend.views import VIEWS, viewed
from te_mlir.layout import in_order_of, moves_of, row_major, same

#: The predicates of comparisons. A comparison with NaN holds only for `ne`.
PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
#: Operations of truth values.
LOGIC = ("not", "and", "or", "xor")


class Elementwise(Activations):
    """Emits elementwise operations, casts and views."""

    #: Exponents that are emitted as repeated multiplication, in f32.
    powers = (2, 3, 4)

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
            if bias is not None and x.shape == var.shape and self.is_row_major(x, node):
                matrix = self.function.cast(self.rows(x, node), var.dtype)
                added = self.vector(bias, node, var.dtype)
                result, types = (matrix.shape, matrix.dtype), f"{matrix.type}, {added.type}"
                return self.dense(var, self.function.append("te.bias_add", (matrix, added), [result], types)[0])
        return self.binary(var, node, "add")

    def is_row_major(self, x: Atom, user: Node) -> bool:
        value = self.value(x, user)
        return value.layout.is_row_major(value.elements)

    def _op_sub(self, var: Var, node: Node) -> Value:
        return self.binary(var, node, "sub")

    def _op_mul(self, var: Var, node: Node) -> Value:
        a, b = node.inputs
        return self.gated(var, node, a, b) or self.gated(var, node, b, a) or self.binary(var, node, "mul")

    def _op_div(self, var: Var, node: Node) -> Value:
        return self.binary(var, node, "div")

    def binary(self, var: Var, node: Node, op: str, dtype: str | None = None) -> Value:
        """dtype: the type that it is computed in, by default that of the result."""
        a, b = node.inputs
        dtype = dtype or var.dtype
        # The operand in whose order the result is stored.
        place = 1 if self.is_number(a, b) and not self.is_number(b, a) else 0
        if not self.is_number(node.inputs[1 - place], node.inputs[place]):
            values = [self.operand(v, node) for v in node.inputs]
            fits = [v.layout.shape == var.shape and v.layout.is_whole(v.elements) for v in values]
            place = 1 if fits == [False, True] else 0
        left, other = self.spread(node.inputs[place], var, node), node.inputs[1 - place]
        x = self.function.cast(left.matrix, dtype)
        if self.is_number(other, node.inputs[place]):
            y = self.number(other, x, node)
        else:
            y = self.function.cast(self.like(left, self.operand(other, node), node), dtype)
        made = getattr(self.function, op)(*((x, y) if place == 0 else (y, x)))
        return Value(self.function.cast(made, var.dtype), left.layout)

    def _op_max(self, var: Var, node: Node) -> Value:
        return self.binary(var, node, "maximum")

    def _op_min(self, var: Var, node: Node) -> Value:
        return self.binary(var, node, "minimum")

    # Choices

    def truths(self, atom: Atom, user: Node) -> Value | None:
        """Truth values that are known before the compiled part of each call, as 0 and 1; None for others."""
        raise NotImplementedError

    def _op_select_n(self, var: Var, node: Node) -> Value:
        if len(node.inputs) != 3:
            raise Unsupported(node, f"expected it to choose between two values, but got {len(node.inputs) - 1}")
        which, no, yes = node.inputs
        of = next((v for v in (yes, no, *_compared(which)) if not self.is_number(v, var)), None)
        if of is None:
            raise Unsupported(node, "it chooses between numbers by what is known before the call")
        rows = self.used_rows(var, node)
        if rows is not None:
            return self.dense(var, self.function.zero_unused(*rows))
        left = self.spread(of, var, node)
        operands = [self.beside(left, v, node, var.dtype) for v in (yes, no)]
        return Value(self.chosen(which, left, node, *operands), left.layout)

    def used_rows(self, var: Var, node: Node) -> tuple[build.Value, build.Value] | None:
        """The rows of a value, and which of them a choice keeps, where truth values of rows choose between them and 0.

        They are known before the call. None for other choices.
        """
        which, no, yes = node.inputs
        x = next((a for a, b in ((yes, no), (no, yes)) if scalar(b) == 0 and scalar(a) is None), None)
        known = self.truths(which, node)
        if x is None or known is None or x.shape != var.shape or len(var.shape) < 2 or not self.is_row_major(x, node):
            return None
        layout, rows = known.layout.expand(var.shape), math.prod(var.shape[:-1])
        repeats = layout is not None and all(stride == 0 for _, stride in layout.dims[-1])
        if layout is None or not repeats or known.elements != rows:
            return None
        if not layout._replace(dims=layout.dims[:-1]).is_row_major(rows):
            return None
        used = self.function.reshape(known.matrix, (rows,))
        if x is no:
            used = self.function.sub(self.function.constant(1.0, used.shape, used.dtype), used)
        return self.function.cast(self.rows(x, node), var.dtype), used

    def _chosen_numbers(self, which: Atom, var: Var, node: Node) -> Value:
        """1 where a condition holds, and 0 elsewhere."""
        of = next((v for v in _compared(which) if not self.is_number(v, var)), None)
        if of is None:
            raise Unsupported(node, "expected its condition to be a comparison of floats")
        left = self.spread(of, var, node)
        yes, no = (self.function.constant(number, left.matrix.shape, var.dtype) for number in (1.0, 0.0))
        return Value(self.chosen(which, left, node, yes, no), left.layout)

    def chosen(self, which: Atom, left: Value, node: Node, yes: build.Value, no: build.Value) -> build.Value:
        """`yes` where a condition holds, and `no` elsewhere, in the order and shape of the matrix of `left`."""
        known = self.truths(which, node)
        if known is not None:
            given = self.like(left, known, node)
            zero = self.function.constant(0.0, given.shape, given.dtype)
            return self.function.choose("une", given, zero, yes, no)
        by = _condition(which)
        if by is not None and by.name == "not":
            return self.chosen(by.inputs[0], left, node, no, yes)
        if by is not None and (by.name == "xor" or _is_xor(by)):
            first, second = by.inputs
            either = [self.chosen(second, left, node, *pair) for pair in ((no, yes), (yes, no))]
            return self.chosen(first, left, node, *(either[::-1] if by.name == "eq" else either))
        if by is not None and by.name in ("and", "or"):
            first, second = by.inputs
            inner = self.chosen(second, left, node, yes, no)
            return self.chosen(first, left, node, *((inner, no) if by.name == "and" else (yes, inner)))
        if by is None or by.name not in PREDICATES or not any(is_floating(v.dtype) for v in by.inputs):
            raise Unsupported(
                node, "expected its condition to be a comparison of floats, or to be known before the call"
            )
        types = {v.dtype for v in by.inputs if not self.is_number(v, by.output)}
        dtype = types.pop() if len(types) == 1 else "float32"
        a, b = (self.beside(left, v, by, dtype) for v in by.inputs)
        return self.function.choose(PREDICATES[by.name], a, b, yes, no)

    def beside(self, left: Value, atom: Atom, node: Node, dtype: str) -> build.Value:
        """An operand in elements `dtype`, in the order and shape of the matrix of `left`."""
        if self.is_number(atom, node.output):
            return self.number(atom, left.matrix._replace(dtype=dtype), node)
        return self.function.cast(self.like(left, self.operand(atom, node), node), dtype)

    def spread(self, atom: Atom, var: Var, node: Node) -> Value:
        """An operand of a node with result `var`, repeated to its shape, with each element of its matrix exactly once."""
        value = self.whole(atom, node)
        layout = value.layout.expand(var.shape)
        if layout is None or layout.shape != var.shape:
            shapes = " and ".join(str(list(v.shape)) for v in node.inputs)
            raise Unsupported(node, f"its operands {shapes} are broadcast")
        if layout.is_whole(value.elements):
            return value._replace(layout=layout)
        return Value(self.in_order(Value(value.matrix, layout), node), row_major(var.shape))

    def like(self, left: Value, right: Value, node: Node) -> build.Value:
        """The elements of `right`, repeated to the shape of `left`, in the order and shape of the matrix of `left`."""
        expanded = right.layout.expand(left.layout.shape)
        if expanded is None:
            raise Unsupported(node, f"its operands {' and '.join(str(list(v.shape)) for v in node.inputs)} do not fit")
        if same(left.layout, expanded) and left.elements == right.elements:
            return self.function.reshape(right.matrix, left.matrix.shape)
        ordered = in_order_of(left.layout, expanded)
        if ordered is None:
            # Neither is stored in an order that the other can be read in.
            ordered = in_order_of(left.layout, row_major(left.layout.shape))
            right = Value(self.in_order(Value(right.matrix, expanded), node), row_major(left.layout.shape))
            if ordered is None:
                raise Unsupported(node, "its operands are stored in different orders")
        return self.function.reshape(self.in_order(Value(right.matrix, ordered), node), left.matrix.shape)

    def unary(self, node: Node, op: str) -> Value:
        value = self.whole(node.inputs[0], node)
        return Value(self.function.unary(op, value.matrix), value.layout)

    def _op_neg(self, var: Var, node: Node) -> Value:
        return self.unary(node, "arith.negf")

    def _op_abs(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.absf")

    def _op_sign(self, var: Var, node: Node) -> Value:
        value = self.whole(node.inputs[0], node)
        x = value.matrix
        zero, one, minus = (self.function.constant(number, x.shape, x.dtype) for number in (0.0, 1.0, -1.0))
        # NaN where x is NaN.
        rest = self.function.sub(x, x)
        made = self.function.choose("ogt", x, zero, one, self.function.choose("olt", x, zero, minus, rest))
        return Value(made, value.layout)

    def _op_exp(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.exp")

    def _op_log(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.log")

    def _op_log1p(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.log1p")

    def _op_sin(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.sin")

    def _op_cos(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.cos")

    def _op_exp2(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.exp2")

    def _op_log2(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.log2")

    def _op_erf(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.erf")

    def _op_erfc(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.erfc")

    def _op_floor(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.floor")

    def _op_ceil(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.ceil")

    def _op_trunc(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.trunc")

    def _op_round(self, var: Var, node: Node) -> Value:
        """To the nearest whole number, and to an even one of two."""
        return self.unary(node, "math.roundeven")

    def _op_rem(self, var: Var, node: Node) -> Value:
        return self.binary(var, node, "remainder")

    def _op_pow(self, var: Var, node: Node) -> Value:
        # An exponent that is rounded to 16 bits would be another one.
        return self.binary(var, node, "power", "float32")

    def wide_unary(self, var: Var, node: Node, of: Callable[[build.Value], build.Value]) -> Value:
        """A function of one value that is computed in f32 and rounded once."""
        value = self.whole(node.inputs[0], node)
        return Value(self.function.cast(of(self.function.cast(value.matrix, "float32")), var.dtype), value.layout)

    def _op_log10(self, var: Var, node: Node) -> Value:
        f = self.function
        of = lambda x: f.mul(f.unary("math.log", x), f.constant(1 / math.log(10), x.shape, x.dtype))
        return self.wide_unary(var, node, of)

    def _op_tan(self, var: Var, node: Node) -> Value:
        f = self.function
        return self.wide_unary(var, node, lambda x: f.div(f.unary("math.sin", x), f.unary("math.cos", x)))

    def _op_sinh(self, var: Var, node: Node) -> Value:
        """(u + u / (u + 1)) / 2 with u = exp(x) - 1 where |x| < 1, elsewhere (exp(x) - exp(-x)) / 2."""
        f = self.function

        def of(x: build.Value) -> build.Value:
            number = lambda n: f.constant(n, x.shape, x.dtype)
            near = lambda yes, no: f.choose("olt", f.unary("math.absf", x), number(1.0), yes, no)
            u = self._exponential_less_one(near(x, number(0.0)))
            low = f.mul(f.add(u, f.div(u, f.add(u, number(1.0)))), number(0.5))
            high = f.sub(*self._half_exponentials(near(number(0.0), x)))
            return near(low, f.choose("olt", x, number(0.0), f.unary("arith.negf", high), high))

        return self.wide_unary(var, node, of)

    def _op_cosh(self, var: Var, node: Node) -> Value:
        return self.wide_unary(var, node, lambda x: self.function.add(*self._half_exponentials(x)))

    def _half_exponentials(self, x: build.Value) -> tuple[build.Value, build.Value]:
        """exp(|x|) / 2 and exp(-|x|) / 2. The first is infinite only if it is beyond the largest number."""
        f = self.function
        half = f.constant(0.5, x.shape, x.dtype)
        root = f.unary("math.exp", f.mul(f.unary("math.absf", x), half))
        return f.mul(f.mul(root, half), root), f.div(f.div(half, root), root)

    def _op_softplus(self, var: Var, node: Node) -> Value:
        """log(1 + exp(beta x)) / beta, computed in f32: max(z, 0) + log1p(exp(-|z|)) for z = beta x is finite."""
        value, beta = self.whole(node.inputs[0], node), node.params["beta"]
        f = self.function
        x = f.cast(value.matrix, "float32")
        number = lambda n: f.constant(n, x.shape, "float32")
        z = x if beta == 1 else f.mul(x, number(beta))
        small = f.unary("math.log1p", f.unary("math.exp", f.unary("arith.negf", f.unary("math.absf", z))))
        made = f.add(f.maximum(z, number(0.0)), small)
        made = made if beta == 1 else f.div(made, number(beta))
        return Value(f.cast(made, var.dtype), value.layout)

    def _op_expm1(self, var: Var, node: Node) -> Value:
        value, f = self.whole(node.inputs[0], node), self.function
        x = f.cast(value.matrix, "float32")
        zero, one = (f.constant(number, x.shape, "float32") for number in (0.0, 1.0))
        # Where the exponential is infinite, the product has a NaN gradient.
        low = self._exponential_less_one(f.choose("ogt", x, one, zero, x))
        made = f.choose("ogt", x, one, f.sub(f.unary("math.exp", x), one), low)
        return Value(f.cast(made, var.dtype), value.layout)

    def _exponential_less_one(self, x: build.Value) -> build.Value:
        """tanh(x / 2) (exp(x) + 1), which is exp(x) - 1 without the loss of digits next to 0."""
        f = self.function
        half, one = (f.constant(number, x.shape, x.dtype) for number in (0.5, 1.0))
        return f.mul(f.unary("math.tanh", f.mul(x, half)), f.add(f.unary("math.exp", x), one))

    def _op_elu(self, var: Var, node: Node) -> Value:
        """scale x, or scale alpha (exp(inner x) - 1) where x is not positive, computed in f32."""
        value, f = self.whole(node.inputs[0], node), self.function
        x = f.cast(value.matrix, "float32")
        number = lambda n: f.constant(n, x.shape, "float32")
        times = lambda y, n: y if n == 1 else f.mul(y, number(n))
        alpha, scale, inner = (node.params[name] for name in ("alpha", "scale", "inner"))
        # The exponential of a large x, which is not used, would be infinite and have a NaN gradient.
        low = times(f.choose("ogt", x, number(0.0), number(0.0), x), inner)
        low = times(self._exponential_less_one(low), alpha * scale)
        made = f.choose("ogt", x, number(0.0), times(x, scale), low)
        return Value(f.cast(made, var.dtype), value.layout)

    def _op_tanh(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.tanh")

    def _op_sqrt(self, var: Var, node: Node) -> Value:
        return self.unary(node, "math.sqrt")

    def _op_rsqrt(self, var: Var, node: Node) -> Value:
        value = self.unary(node, "math.sqrt")
        one = self.function.constant(1.0, value.matrix.shape, value.matrix.dtype)
        return Value(self.function.div(one, value.matrix), value.layout)

    def _op_logistic(self, var: Var, node: Node) -> Value:
        # glu(x, 1) is logistic(x) * 1. The formula 1 / (1 + exp(-x)) would have a NaN gradient where exp(-x) is infinite.
        value = self.whole(node.inputs[0], node)
        shape = value.matrix.shape if len(value.matrix.shape) == 2 else (1, value.elements)
        matrix = self.function.reshape(value.matrix, shape)
        one = self.function.constant(1.0, shape, matrix.dtype)
        return Value(self.function.activation("glu", matrix, one), value.layout)

    def _op_dropout(self, var: Var, node: Node) -> Value:
        value, state = self.whole(node.inputs[0], node), self.value(node.inputs[1], node)
        probability, stream = node.params["probability"], node.params["stream"]
        return Value(self.function.dropout(value.matrix, state.matrix, probability, stream), value.layout)

    def _op_square(self, var: Var, node: Node) -> Value:
        return self.power(var, node, 2)

    def _op_integer_pow(self, var: Var, node: Node) -> Value:
        return self.power(var, node, node.params["y"])

    def power(self, var: Var, node: Node, exponent: Any) -> Value:
        value = self.whole(node.inputs[0], node)
        if exponent not in self.powers:
            x = self.function.cast(value.matrix, "float32")
            made = self.function.power(x, self.function.constant(exponent, x.shape, "float32"))
            return Value(self.function.cast(made, var.dtype), value.layout)
        made = x = value.matrix if exponent == 2 else self.function.cast(value.matrix, "float32")
        for _ in range(exponent - 1):
            made = self.function.mul(made, x)
        return Value(self.function.cast(made, value.matrix.dtype), value.layout)

    # Sums

    def _op_reduce_sum(self, var: Var, node: Node) -> Value:
        return self.summed(var, node)

    def _op_mean(self, var: Var, node: Node) -> Value:
        return self.summed(var, node, mean=True)

    def summed(self, var: Var, node: Node, mean: bool = False) -> Value:
        """The sum or mean over axes, computed in f32 and rounded once."""
        value, axes = self.whole(node.inputs[0], node), [int(a) for a in node.params["axes"]]
        shape = value.layout.shape
        count = math.prod(shape[a] for a in axes)
        if not axes or not count:
            raise Unsupported(node, "expected a sum or mean over at least one axis, with elements")
        if any(len(dim) > 1 for dim in value.layout.dims):
            value = Value(self.in_order(value, node), row_major(shape))
        # The axes in the order of memory.
        held = sorted(range(len(shape)), key=lambda a: -value.layout.dims[a][0][1] if value.layout.dims[a] else 0)
        x = self.function.reshape(value.matrix, [shape[a] for a in held])
        made = self.function.reduce_sum(
            self.function.cast(x, "float32"), [place for place, a in enumerate(held) if a in axes]
        )
        if mean:
            made = self.function.div(made, self.function.constant(count, made.shape, "float32"))
        kept = [a for a in held if a not in axes]
        layout = row_major([shape[a] for a in kept]).permute([kept.index(a) for a in sorted(kept)])
        return Value(self.function.cast(made, var.dtype), layout.reshape(var.shape) or layout)

    # Casts and views

    def _op_concatenate(self, var: Var, node: Node) -> Value:
        return self.joined(var, node, int(node.params["dimension"]), list(node.inputs))

    def _op_stack(self, var: Var, node: Node) -> Value:
        return self.joined(var, node, int(node.params["axis"]), list(node.inputs), stacked=True)

    def joined(self, var: Var, node: Node, axis: int, parts: list[Atom], stacked: bool = False) -> Value:
        """Values one after another along an axis."""
        values = []
        for part in parts:
            shape = [*part.shape[:axis], 1, *part.shape[axis:]] if stacked else part.shape
            if math.prod(shape):
                made = self.function.cast(self.in_order(self.operand(part, node), node), var.dtype)
                values.append(self.function.reshape(made, shape))
        if not values:
            raise Unsupported(node, "it has no elements")
        return Value(self.function.concat(values, axis) if len(values) > 1 else values[0], row_major(var.shape))

    def _op_pad(self, var: Var, node: Node) -> Value:
        """Numbers before and after the elements of each axis, or without some of these elements."""
        x, number = node.inputs[0], scalar(node.inputs[1])
        sides = [tuple(int(n) for n in side) for side in node.params["padding_config"]]
        if number is None or any(between for _, _, between in sides) or not math.prod(var.shape) * math.prod(x.shape):
            raise Unsupported(node, "expected padding by one number at the ends of axes with elements")
        made = self.function.reshape(self.in_order(self.operand(x, node), node), x.shape)
        starts = [max(-low, 0) for low, _, _ in sides]
        kept = [size - start - max(-high, 0) for size, start, (_, high, _) in zip(x.shape, starts, sides)]
        if min(kept) <= 0:
            raise Unsupported(node, "expected padding of at least one element")
        made = self.function.extract_slice(made, starts, kept)
        for axis, (low, high, _) in enumerate(sides):
            sizes = [[*made.shape[:axis], max(n, 0), *made.shape[axis + 1 :]] for n in (low, high)]
            before, after = (self.function.constant(number, some, made.dtype) for some in sizes)
            parts = [part for part in (before, made, after) if math.prod(part.shape)]
            made = self.function.concat(parts, axis) if len(parts) > 1 else made
        return Value(made, row_major(var.shape))

    def _op_rev(self, var: Var, node: Node) -> Value:
        """The elements in the other order along some axes."""
        made = self.function.reshape(self.in_order(self.value(node.inputs[0], node), node), var.shape)
        for axis in node.params["dimensions"]:
            made = self._reversed(made, int(axis))
        return Value(made, row_major(var.shape))

    def _reversed(self, x: build.Value, axis: int) -> build.Value:
        """An index is written with digits, one for each prime factor of the size of the axis, and each digit is reversed."""
        f, shape = self.function, x.shape
        before, after = math.prod(shape[:axis]), math.prod(shape[axis:])
        for base in _primes(shape[axis]):
            after //= base
            split = f.reshape(x, (before, base, after))
            x = f.concat([f.extract_slice(split, [0, n, 0], [before, 1, after]) for n in reversed(range(base))], 1)
            before *= base
        return f.reshape(x, shape)

    def _op_convert_element_type(self, var: Var, node: Node) -> Value:
        which = node.inputs[0]
        if which.dtype == "bool":
            known = self.truths(which, node)
            if known is None:
                return self._chosen_numbers(which, var, node)
            return Value(self.function.cast(known.matrix, var.dtype), known.layout)
        value = self.value(node.inputs[0], node)
        if value.matrix.dtype == "int32":
            raise Unsupported(node, "a cast of integers to floats has no counterpart in te")
        if te_name(var.dtype) in (None, "int32"):
            raise Unsupported(node, f"a cast to {var.dtype} has no counterpart in te")
        return Value(self.function.cast(value.matrix, var.dtype), value.layout)

    def _op_stop_gradient(self, var: Var, node: Node) -> Value:
        value = self.value(node.inputs[0], node)
        return Value(self.function.stopped(value.matrix), value.layout)

    def _op_copy(self, var: Var, node: Node) -> Value:
        return self.value(node.inputs[0], node)

    def view(self, var: Var, node: Node) -> Value:
        value = self.value(node.inputs[0], node)
        layout = viewed(var, node, value.layout)
        if node.name == "slice" and (layout is None or moves_of(layout, value.elements) is None):
            return self._spaced(var, node, value)
        # The strides of as_strided are those of memory.
        if layout is None and node.name != "as_strided":
            value = Value(self.in_order(value, node), row_major(value.layout.shape))
            layout = viewed(var, node, value.layout)
        if layout is None or layout.shape != var.shape:
            raise Unsupported(node, f"a view of {list(value.layout.shape)} as {list(var.shape)} is not imported")
        return Value(value.matrix, layout)

    def _spaced(self, var: Var, node: Node, value: Value) -> Value:
        """A slice with steps that do not divide the sizes of axes, as the first of each step after zeros are appended."""
        shape = value.layout.shape
        made = self.function.reshape(self.in_order(value, node), shape)
        steps = [int(n) for n in node.params["strides"] or (1,) * len(shape)]
        starts = [int(n) for n in node.params["start_indices"]]
        for axis, (first, count, step) in enumerate(zip(starts, var.shape, steps)):
            taken = min(count * step, shape[axis] - first)
            sizes = [*made.shape[:axis], taken, *made.shape[axis + 1 :]]
            made = self.function.extract_slice(made, [first if n == axis else 0 for n in range(len(shape))], sizes)
            if taken < count * step:
                more = [*sizes[:axis], count * step - taken, *sizes[axis + 1 :]]
                made = self.function.concat([made, self.function.constant(0.0, more, made.dtype)], axis)
            if step > 1:
                split = self.function.reshape(made, [*sizes[:axis], count, step, *sizes[axis + 1 :]])
                kept = [*sizes[:axis], count, 1, *sizes[axis + 1 :]]
                made = self.function.extract_slice(split, [0] * len(kept), kept)
                made = self.function.reshape(made, [*sizes[:axis], count, *sizes[axis + 1 :]])
        return Value(made, row_major(var.shape))

    _op_reshape = _op_squeeze = _op_expand_dims = _op_transpose = _op_broadcast_in_dim = view
    _op_slice = _op_split = _op_as_strided = view


def _primes(number: int) -> list[int]:
    """The prime factors of a number."""
    for factor in range(2, math.isqrt(number) + 1):
        if number % factor == 0:
            return [factor, *_primes(number // factor)]
    return [number] if number > 1 else []


def _compared(which: Atom) -> Sequence[Atom]:
    """The operands of the comparisons that a condition consists of."""
    by = _condition(which)
    if by is None:
        return ()
    if by.name in PREDICATES and not _is_xor(by):
        return by.inputs
    return [v for inner in by.inputs for v in _compared(inner)] if by.name in (*PREDICATES, *LOGIC) else ()


def _is_xor(by: Node) -> bool:
    """Whether a node compares truth values."""
    return by.name in ("eq", "ne") and all(v.dtype == "bool" for v in by.inputs)


def _condition(which: Atom) -> Node | None:
    """The node of a condition. If it is a view of another, that one, of views of its operands."""
    view = which.node
    by = _condition(view.inputs[0]) if view is not None and view.name in VIEWS else None
    if view is None or by is None or by.name not in (*PREDICATES, *LOGIC):
        return view

    def seen(operand: Atom) -> Atom:
        if not operand.shape:
            return operand
        if operand.shape != by.output.shape:
            axes = tuple(range(len(operand.shape)))
            operand = _made("broadcast_in_dim", operand, by.output.shape, {"broadcast_dimensions": axes}, by)
        return _made(view.name, operand, which.shape, view.params, view)

    made = Node(by.name, [seen(operand) for operand in by.inputs], by.params, by.origin)
    made.outputs = [Var(which.shape, "bool", made)]
    return made


def _made(name: str, operand: Atom, shape: Sequence[int], params: dict[str, Any], of: Node) -> Var:
    node = Node(name, [operand], params, of.origin)
    node.outputs = [Var(shape, operand.dtype, node)]
    return node.output
