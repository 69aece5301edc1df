"""Runs JAX programs through te: compiled steps as pure functions, by XLA's FFI.

`jit` imports a JAX function into the dialect and compiles it; `load` takes a program that
is written in the dialect. Functions are called, jitted and differentiated like any other
function of JAX, run on XLA's own stream, and get all their memory from XLA. Importing this
module loads JAX.
"""

from te_mlir.jax.compiled import Compiled, Jitted, ValueAndGrad, compile, jit, value_and_grad
from te_mlir.jax.function import Function, load
from te_mlir.jax.specs import Options, Spec

__all__ = [
    "Compiled",
    "Function",
    "Jitted",
    "Options",
    "Spec",
    "ValueAndGrad",
    "compile",
    "jit",
    "load",
    "value_and_grad",
]
