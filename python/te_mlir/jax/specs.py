"""The arguments and results of a compiled function, and its options and device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from te_mlir.dtypes import BY_NAME
from te_mlir.errors import ArgumentError
from te_mlir.jax._ffi import jax_dtype
from te_mlir.program import pipeline_text
from te_mlir.recipes import Recipe

State = dict[str, Any]


class Spec(NamedTuple):
    """An argument or a result: its name, sizes, and element type in te ("bfloat16").

    init: the value of an argument that is not passed. differentiable: whether it has a
    gradient.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    init: float | None = None
    differentiable: bool = True


class Options(NamedTuple):
    """Options of te_mlir.compile."""

    recipe: Recipe | str | None = None
    backward_override: str | None = None
    target: str | None = None
    strict: bool = False
    pipeline: tuple[tuple[str, Any], ...] = ()

    def text(self, platform: str) -> str:
        """The option string of the pipeline for a platform, "cpu" or "cuda"."""
        target = self.target or ("reference" if platform == "cpu" else None)
        return pipeline_text(self.recipe, self.backward_override, target, self.strict, **dict(self.pipeline))


def platform_of(values: Sequence[Any], platform: str | None = None) -> tuple[str, int]:
    """("cpu" or "cuda", number of the device) of the arrays in `values`; JAX's default if there are none."""
    devices = set()
    for value in values:
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            devices |= value.devices()
    if platform is None:
        default = getattr(jax.config, "jax_default_device", None)
        if len({d.platform for d in devices}) == 1:
            platform = next(iter(devices)).platform
        else:
            platform = getattr(default, "platform", None) or jax.default_backend()
    name = {"gpu": "cuda"}.get(platform, platform)
    if name not in ("cpu", "cuda"):
        raise ArgumentError(f"expected 'platform' to be 'cpu' or 'cuda', but got '{platform}'")
    numbers = [d.local_hardware_id or 0 for d in devices if d.platform in ("gpu", "cuda")]
    return name, min(numbers, default=0) if name == "cuda" else 0


def check(spec: Spec, value: Any, what: str = "argument") -> None:
    """Raises ArgumentError, naming the argument, unless `value` is an array of this element type and shape."""
    try:
        shape, dtype = jnp.shape(value), np.dtype(jnp.result_type(value) if np.isscalar(value) else value.dtype)
    except (AttributeError, TypeError):
        raise ArgumentError(f"{what} '{spec.name}': expected an array, but got {type(value).__name__}") from None
    wanted = jax_dtype(BY_NAME[spec.dtype])
    if dtype != wanted:
        raise ArgumentError(f"{what} '{spec.name}': expected elements of {wanted.name}, but got {dtype.name}")
    if shape != spec.shape:
        raise ArgumentError(f"{what} '{spec.name}': expected shape {list(spec.shape)}, but got {list(shape)}")
