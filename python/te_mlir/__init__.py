"""Compiles quantised training steps: the Python package of te-mlir.

A program is MLIR text of the `te` dialect (written by hand, by `te_mlir.build`,
or imported from PyTorch by `te_mlir.torch`). `compile` runs the pipeline on it
and returns a `Step`: a callable that takes arrays by name and returns arrays by
name, on the reference backend (CPU) or on a GPU. Arrays are objects that support
DLPack, such as NumPy's arrays; none is copied. A recipe, a frozen dataclass with
TransformerEngine's names and defaults, decides how linear layers are quantised.

    import te_mlir
    step = te_mlir.compile(text, "mlp", recipe=te_mlir.Float8BlockScaling())
    y = step(x=x, w1=w1, w2=w2)["y"]

Importing this package loads no framework and no GPU library.
"""

from te_mlir.errors import ArgumentError, CompileError, Diagnostic, RuntimeFailure, TEError
from te_mlir.isolation import Isolation
from te_mlir.program import Argument, Program, lower, picture, report
from te_mlir.recipes import (
    CustomRecipe,
    DelayedScaling,
    Float8BlockScaling,
    Float8CurrentScaling,
    Format,
    HighPrecision,
    MMParams,
    MXFP8BlockScaling,
    NVFP4BlockScaling,
    Recipe,
)
from te_mlir.runtime import Context, GemmChoice, Tensor, context, group_unique_id
from te_mlir.step import Step, compile

__version__ = "0.2.0"

__all__ = [
    "Argument",
    "ArgumentError",
    "CompileError",
    "Context",
    "CustomRecipe",
    "DelayedScaling",
    "Diagnostic",
    "Float8BlockScaling",
    "Float8CurrentScaling",
    "Format",
    "GemmChoice",
    "HighPrecision",
    "Isolation",
    "MMParams",
    "MXFP8BlockScaling",
    "NVFP4BlockScaling",
    "Program",
    "Recipe",
    "RuntimeFailure",
    "Step",
    "TEError",
    "Tensor",
    "compile",
    "context",
    "group_unique_id",
    "lower",
    "picture",
    "report",
]
