"""Helpers for the arguments of a call: their positions and names, and the types to which JAX converts NumPy's arrays."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from te_mlir.errors import ArgumentError
from te_mlir.jax.graph import is_tracing

#: The classes of NumPy's arrays.
NUMPY = (np.ndarray, np.generic)


def leaf_names(function: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """The name of each leaf of the arguments, such as `params.layers.0.w`."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = []
    names = []
    for index, arg in enumerate(args):
        head = parameters[index] if index < len(parameters) else f"arg{index}"
        for path, _ in jax.tree_util.tree_flatten_with_path(arg)[0]:
            parts = re.findall(r"[A-Za-z0-9_]+", jax.tree_util.keystr(path))
            names.append(".".join([head, *parts]))
    return names


def canonical(dtype: Any) -> Any:
    """The element type to which JAX converts one of NumPy: float32 for float64, unless jax_enable_x64 is set."""
    return jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def is_weak(leaf: Any) -> bool:
    """Whether an array is weakly typed: JAX then promotes its type to those of other operands, as for Python numbers."""
    return bool(getattr(leaf, "weak_type", False))


def some(names: Sequence[str]) -> str:
    """The first names of a list, for messages: `'a', 'b', 'c', 'd' and 3 more`."""
    return ", ".join(f"'{name}'" for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


@jax.tree_util.register_static
class Default:
    """A default value that is not an array, such as a flag. It becomes a constant of the compiled function."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Default) and self.value is other.value


def _default(value: Any) -> Any:
    """A default value as an argument; arrays are ordinary arguments."""
    return value if all(hasattr(leaf, "dtype") for leaf in jax.tree_util.tree_leaves(value)) else Default(value)


def refuse_inside(function: Callable[..., Any], leaves: Sequence[Any]) -> None:
    """Raises if a compiled function is called in another function that te imports."""
    if is_tracing() and any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        name = getattr(function, "__name__", "a function")
        raise ArgumentError(
            f"'{name}': expected a function that te compiles not to be called in another one that te compiles; call "
            f"the function that it wraps ('{name}.__wrapped__') instead"
        )


def by_position(function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """All arguments of a call by position. Raises TypeError if `function` does not accept them, or if one is keyword-only."""
    if not named:
        return args
    bound = inspect.signature(function).bind(*args, **named)
    parameters = list(bound.signature.parameters.values())
    last = max(n for n, parameter in enumerate(parameters) if parameter.name in bound.arguments)
    # Parameters before the last one that is passed get their default values.
    for parameter in parameters[:last]:
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name not in bound.arguments:
            bound.arguments[parameter.name] = _default(parameter.default)
    if bound.kwargs:
        raise TypeError(f"expected arguments that have a position, but got keyword-only {some(list(bound.kwargs))}")
    return bound.args
