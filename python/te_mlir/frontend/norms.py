"""RMS norms and layer norms, as operations of a framework or written as formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from te_mlir import build
from te_mlir.frontend.base import Emission, Value
from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.frontend.looking import is_same, leaf, node_of, of_rows, pairs, row_mean, scalar, uncast, vector
from te_mlir.layout import Layout


class RmsNorm(NamedTuple):
    """gamma * x / rms(x), or with zero_centered (1 + gamma) * x / rms(x)."""

    x: Var
    gamma: Var
    epsilon: float
    zero_centered: bool


class LayerNorm(NamedTuple):
    """(x - mean) / deviation * gamma + beta."""

    x: Var
    gamma: Var
    beta: Var
    epsilon: float


def _over_root(value: Atom) -> Iterator[tuple[Atom, Atom, float]]:
    """(x, v, epsilon) if the value is x / sqrt(v + epsilon)."""
    found: list[tuple[Atom, Atom]] = []
    for x, inverse in pairs(value, "mul"):
        root = node_of(of_rows(inverse), "rsqrt")
        if root is not None:
            found.append((x, root.inputs[0]))
    node = node_of(uncast(value), "div")
    if node is not None:
        root = node_of(of_rows(node.inputs[1]), "sqrt")
        if root is not None:
            found.append((node.inputs[0], root.inputs[0]))
    for x, inside in found:
        for v, number in _above_zero(inside):
            yield x, v, number


def _above_zero(inside: Atom) -> Iterator[tuple[Atom, float]]:
    """(v, epsilon) if the value is v + epsilon."""
    for v, epsilon in pairs(of_rows(inside), "add"):
        number = scalar(epsilon)
        if number is not None and 0 <= number < math.inf:
            yield v, number


def _scaled_over_root(value: Atom) -> Iterator[tuple[Atom, Atom, float, Atom]]:
    """(x, v, epsilon, gamma) if the value is x / sqrt(v + epsilon) * gamma, or x * (rsqrt(v + epsilon) * gamma)."""
    for scaled, gamma in pairs(value, "mul"):
        for x, v, epsilon in _over_root(scaled):
            yield x, v, epsilon, gamma
        if scaled.shape != value.shape:
            continue
        for inverse, factor in pairs(gamma, "mul"):
            root = node_of(of_rows(inverse), "rsqrt")
            for v, epsilon in _above_zero(root.inputs[0]) if root is not None else ():
                yield scaled, v, epsilon, factor


def match_rms_norm(value: Var) -> RmsNorm | None:
    """`x * rsqrt(mean(x * x, -1) + epsilon) * gamma`."""
    if not value.shape:
        return None
    for x, variance, epsilon, factor in _scaled_over_root(value):
        squares = row_mean(variance)
        square = node_of(uncast(squares), "square") if squares is not None else None
        if square is None or not is_same(square.inputs[0], x) or not isinstance(uncast(x), Var):
            continue
        for one, gamma in _one_plus(factor, x.shape[-1]):
            return RmsNorm(leaf(x), gamma, epsilon, one)
    return None


def _one_plus(factor: Atom, size: int) -> Iterator[tuple[bool, Var]]:
    """(whether one is added, gamma) for the factor of a norm."""
    gamma = vector(factor, size)
    if gamma is None:
        return
    for one, inner in pairs(gamma, "add"):
        if scalar(one) == 1:
            found = vector(inner, size)
            if found is not None:
                yield True, found
                return
    yield False, gamma


def match_layer_norm(value: Var) -> LayerNorm | None:
    """`(x - mean) * rsqrt(variance + epsilon) * gamma + beta`."""
    if not value.shape:
        return None
    size = value.shape[-1]
    for product, shift in pairs(value, "add"):
        beta = vector(shift, size)
        if beta is None:
            continue
        for centred, variance, epsilon, factor in _scaled_over_root(product):
            gamma, x = vector(factor, size), _centred(centred)
            if gamma is not None and x is not None and _is_variance(variance, x):
                return LayerNorm(leaf(x), gamma, beta, epsilon)
    return None


def _centred(value: Atom) -> Var | None:
    """x if the value is `x - mean(x)`."""
    node = node_of(uncast(value), "sub")
    if node is None:
        return None
    mean, x = row_mean(node.inputs[1]), node.inputs[0]
    return x if mean is not None and is_same(mean, x) and isinstance(x, Var) else None


def _is_variance(value: Atom, x: Var) -> bool:
    """Whether a value is the mean of (x - mean)^2, or that of x^2 less the mean's square."""
    value = of_rows(value)
    for inner, zero in pairs(value, "max"):
        if scalar(zero) == 0:
            value = of_rows(inner)
    squares = row_mean(value)
    square = node_of(uncast(squares), "square") if squares is not None else None
    centred = _centred(square.inputs[0]) if square is not None else None
    if centred is not None and is_same(centred, x):
        return True
    node = node_of(value, "sub")
    if node is None:
        return False
    squares = row_mean(node.inputs[0])
    square = node_of(uncast(squares), "square") if squares is not None else None
    if square is None or not is_same(square.inputs[0], x):
        return False
    of_mean = node_of(of_rows(node.inputs[1]), "square")
    mean = row_mean(of_mean.inputs[0]) if of_mean is not None else None
    return mean is not None and is_same(mean, x)


class Norms(Emission):
    """Emits norms."""

    def gain(self, atom: Atom, user: Node, dtype: str) -> build.Value:
        """The vector of a norm in elements `dtype`."""
        return self.vector(atom, user, dtype)

    def _in_one_type(self, x: build.Value, vectors: list[Var], user: Node) -> tuple[build.Value, list[build.Value]]:
        """The operands of a norm in their common type, or in f32, so that none of them is rounded."""
        dtype = x.dtype if {v.dtype for v in vectors} <= {x.dtype} else "float32"
        return self.function.cast(x, dtype), [self.gain(v, user, dtype) for v in vectors]

    def rms_norm(self, var: Var, node: Node, found: RmsNorm) -> Value:
        matrix, layout = self.rows_in_place(found.x, node)
        x, (gamma,) = self._in_one_type(self.wide(matrix, var), [found.gamma], node)
        made = self.function.rms_norm(x, gamma, found.epsilon, found.zero_centered)
        return Value(self.function.cast(made, var.dtype), layout)

    def layer_norm(self, var: Var, node: Node, found: LayerNorm) -> Value:
        matrix, layout = self.rows_in_place(found.x, node)
        x, (gamma, beta) = self._in_one_type(self.wide(matrix, var), [found.gamma, found.beta], node)
        return Value(self.function.cast(self.function.layer_norm(x, gamma, beta, found.epsilon), var.dtype), layout)

    def _own_norm(self, node: Node) -> tuple[build.Value, list[build.Value | None], Layout]:
        """The operands of a framework's own norm in the widest of their types, and the layout of the rows."""
        x, *vectors = node.inputs
        matrix, layout = self.rows_in_place(x, node)
        given = [v for v in vectors if v is not None]
        matrix, gains = self._in_one_type(matrix, given, node)
        found = iter(gains)
        return matrix, [None if v is None else next(found) for v in vectors], layout

    def _op_rms_norm(self, var: Var, node: Node) -> Value:
        x, (gamma,), layout = self._own_norm(node)
        gamma = gamma or self.function.constant(1.0, (var.shape[-1],), x.dtype)
        return Value(self.function.cast(self.function.rms_norm(x, gamma, node.params["epsilon"]), var.dtype), layout)

    def _op_layer_norm(self, var: Var, node: Node) -> Value:
        x, (gamma, beta), layout = self._own_norm(node)
        columns = (var.shape[-1],)
        gamma = gamma or self.function.constant(1.0, columns, x.dtype)
        beta = beta or self.function.constant(0.0, columns, x.dtype)
        made = self.function.layer_norm(x, gamma, beta, node.params["epsilon"])
        return Value(self.function.cast(made, var.dtype), layout)
