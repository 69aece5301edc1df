"""Compiles JAX functions with te. The results are pure functions of JAX arrays, which XLA calls through its FFI.

`jit` imports a JAX function into the dialect and compiles it; `load` compiles a program that
is written in the dialect. The compiled functions can be called, jitted and differentiated like
other functions of JAX. They run on XLA's stream, and XLA allocates all of their memory.
Importing this module loads JAX.
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
