"""JAX programs through te: compiled steps as pure functions, by XLA's FFI.

`load` makes a function of a program that is written in the dialect. Functions are
called, jitted and differentiated like any other of JAX, run on XLA's own stream, and
have all their memory from XLA. Importing this module loads JAX.
"""

from te_mlir.jax.function import Function, Options, Spec, load

__all__ = ["Function", "Options", "Spec", "load"]
