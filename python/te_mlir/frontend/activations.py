"""Finds activations, as operations of a framework or as formulas, and activations that gate another value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from te_mlir import build
from te_mlir.frontend.base import Emission, Value
from te_mlir.frontend.graph import Atom, Const, Node, Var, ancestors
from te_mlir.frontend.looking import (
    factors_of,
    is_about,
    is_same,
    is_widened,
    leaf,
    node_of,
    pairs,
    rounding,
    scalar,
    uncast,
)
from te_mlir.frontend.views import base_of
from te_mlir.layout import row_major, same

#: The gated kinds that multiply by an activation.
GATED = {"silu": "swiglu", "gelu": "geglu", "gelu_erf": "geglu_erf", "relu": "reglu", "srelu": "sreglu"}


class Activation(NamedTuple):
    """An activation of te applied to x: silu, gelu (by tanh, erf or a logistic), relu or its square."""

    kind: str
    x: Var


def kind_of(node: Node) -> str:
    """The name in te of an activation that is one operation of a framework."""
    return node.name if node.params.get("approximate", True) else "gelu_erf"


def match_activation(value: Var) -> Activation | None:
    """An activation of a framework, or relu as `max(x, 0)`, silu as `x * logistic(x)`, or gelu by tanh, erf or erfc.

    Gelu may also be `x * logistic(1.702 * x)`, and relu may be squared.
    """
    named = node_of(value, "relu", "silu", "gelu")
    if named is not None and isinstance(named.inputs[0], Var):
        return Activation(kind_of(named), leaf(named.inputs[0]))
    square = node_of(uncast(value), "square")
    root = square.inputs[0] if square is not None else None
    inner = match_activation(root) if isinstance(root, Var) else None
    if inner is not None and inner.kind == "relu":
        return inner._replace(kind="srelu")
    for x, zero in pairs(value, "max"):
        if scalar(zero) == 0 and isinstance(uncast(x), Var):
            return Activation("relu", leaf(x))
    for x, gate in pairs(value, "mul"):
        node = node_of(uncast(gate), "logistic")
        if node is None or not isinstance(uncast(x), Var):
            continue
        if is_same(node.inputs[0], x):
            return Activation("silu", leaf(x))
        if any(is_same(a, x) and is_about(b, 1.702) for a, b in pairs(node.inputs[0], "mul")):
            return Activation("qgelu", leaf(x))
    return next(filter(None, map(_gelu, _triples(value))), None)


def _triples(value: Atom) -> Iterator[list[Atom]]:
    """The three factors of a product of a product and another value. They may be products themselves."""
    for product, other in pairs(value, "mul"):
        node = node_of(uncast(product), "mul")
        if node is not None:
            yield [*node.inputs, other]


def _gelu(factors: list[Atom]) -> Activation | None:
    """Gelu as a product of a half, x and a sum."""
    for curve in factors:
        others = [f for f in factors if f is not curve]
        numbers = [f for f in others if isinstance(f, Const)]
        operands = [f for f in others if not isinstance(f, Const)]
        if len(numbers) != 1 or len(operands) != 1 or not is_about(numbers[0], 0.5):
            continue
        if _is_normal_cdf(curve, operands[0]):
            return Activation("gelu_erf", leaf(operands[0]))
    numbers = [f for f in factors if isinstance(f, Const)]
    sums = [f for f in factors if node_of(uncast(f), "add") is not None]
    for total in sums:
        others = [f for f in factors if f is not total and not isinstance(f, Const)]
        if len(numbers) != 1 or len(others) != 1 or not is_about(numbers[0], 0.5):
            continue
        x = others[0]
        for one, curve in pairs(total, "add"):
            node = node_of(uncast(curve), "tanh")
            if scalar(one) == 1 and node is not None and _is_gelu_argument(node.inputs[0], x):
                return Activation("gelu", leaf(x))
    return None


def _is_normal_cdf(curve: Atom, x: Atom) -> bool:
    """Twice the normal distribution function of x: 1 + erf(x / sqrt(2)), or erfc(-x / sqrt(2))."""
    node = node_of(uncast(curve), "erfc")
    sign = -1
    if node is None:
        for one, error in pairs(curve, "add"):
            if scalar(one) == 1 and node_of(uncast(error), "erf") is not None:
                node, sign = node_of(uncast(error), "erf"), 1
    if node is None:
        return False
    inner, factor, slack = node.inputs[0], float(sign), 0.0
    while not is_same(inner, x):
        step = node_of(uncast(inner), "neg", "mul", "div")
        if step is None:
            return False
        if step.name == "neg":
            inner, factor = step.inputs[0], -factor
            continue
        a, b = step.inputs
        if step.name == "mul" and isinstance(a, Const):
            a, b = b, a
        number = scalar(b)
        if not number:
            return False
        inner, factor, slack = a, factor * number if step.name == "mul" else factor / number, slack + rounding(b)
    return abs(factor - math.sqrt(0.5)) <= math.sqrt(0.5) * slack


def _is_gelu_argument(value: Atom, x: Atom) -> bool:
    """sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    for number, total in pairs(value, "mul"):
        if not is_about(number, math.sqrt(2 / math.pi)):
            continue
        for linear, cubic in pairs(total, "add"):
            if not is_same(linear, x):
                continue
            factors = factors_of(cubic)
            numbers = [f for f in factors if isinstance(f, Const)]
            powers = 0
            for factor in factors:
                cube = node_of(uncast(factor), "integer_pow")
                square = node_of(uncast(factor), "square")
                if is_same(factor, x):
                    powers += 1
                elif cube is not None and is_same(cube.inputs[0], x):
                    powers += int(cube.params["y"])
                elif square is not None and is_same(square.inputs[0], x):
                    powers += 2
            if len(numbers) == 1 and is_about(numbers[0], 0.044715) and powers == 3:
                return True
    return False


class Activations(Emission):
    """Emits activations."""

    def halves(self, first: Var, second: Var, gated: Var) -> build.Value | None:
        """The matrix [rows, 2 n] whose rows are those of two values, concatenated, if only `gated` reads the values."""
        (base, layout), (other, beside) = base_of(first), base_of(second)
        if layout is None or beside is None or base is not other or not isinstance(base, Var) or not first.shape:
            return None
        width, count = first.shape[-1], math.prod(base.shape)
        rows = count // (2 * width)
        wanted = row_major((rows, 2 * width)).narrow(1, 0, width)
        assert wanted is not None, "a half of one atom"
        if rows * 2 * width != count or layout.offset or layout.atoms != wanted.atoms:
            return None
        if not same(beside, layout._replace(offset=width)):
            return None
        inside = ancestors(gated)
        if any(user not in inside for half in (first, second) for user in self.readers(half)):
            return None
        value = self.value(base)
        if not value.layout.is_row_major(value.elements):
            return None
        return self.function.reshape(value.matrix, (rows, 2 * width))

    def activation(self, var: Var, node: Node, found: Activation) -> Value:
        value = self.whole(found.x, node)
        matrix = self.wide(value.matrix, var)
        if len(matrix.shape) != 2:
            matrix = self.function.reshape(matrix, (1, value.elements))
        made = self.function.activation(found.kind, matrix)
        return Value(self.function.cast(made, var.dtype), value.layout)

    def _op_relu(self, var: Var, node: Node) -> Value:
        # The activation is not a part of a larger pattern.
        return self.activation(var, node, Activation(kind_of(node), node.inputs[0]))

    _op_silu = _op_gelu = _op_relu

    def gated(self, var: Var, node: Node, a: Atom, b: Atom) -> Value | None:
        """`act(a) * b` as one op, if nothing else reads act(a). It is rounded once, as in TransformerEngine."""
        if not isinstance(a, Var) or not isinstance(b, Var) or a.uses != 1 or self.is_made(a) or not self.is_inside(a):
            return None
        if is_widened(a):
            return None
        found = match_activation(a)
        kind = GATED.get(found.kind) if found is not None else None
        if found is None or kind is None or not var.dtype == a.dtype == b.dtype == found.x.dtype:
            return None
        halves = self.halves(found.x, b, var)
        if halves is not None:
            return Value(self.function.activation(kind, halves), row_major(var.shape))
        x, gate = self.value(found.x, node), self.value(b, node)
        if not x.layout.is_whole(x.elements) or not same(x.layout, gate.layout) or x.elements != gate.elements:
            return None
        shape = x.matrix.shape if len(x.matrix.shape) == 2 else (1, x.elements)
        operands = [self.function.reshape(v.matrix, shape) for v in (x, gate)]
        return Value(self.function.activation(kind, *operands), x.layout)
