"""Small programs of the builder, and inputs for them."""

import ml_dtypes
import numpy as np
import pytest

import te_mlir
from te_mlir import build

bf16 = ml_dtypes.bfloat16


def linear(recipe=None):
    """A linear layer without a bias."""
    module = build.Module(recipe)
    with module.function("linear") as f:
        x = f.argument("x", (32, 64))
        w = f.argument("w", (48, 64), weight=True)
        f.result("y", f.linear(x, w))
    return module


def count(names=("n",)):
    """A program whose states are increased by x in each call."""
    module = build.Module()
    with module.function("count") as f:
        x = f.argument("x", (4,), "float32")
        for name in names:
            f.result(name, f.add(f.argument(name, (4,), "float32"), x))
    return module


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(bf16)


def train_step(reference, **options):
    """(torch, the compiled forward and backward of `linear` with FP8, input tensors)."""
    torch = pytest.importorskip("torch")
    step = te_mlir.compile(
        linear(), "linear", recipe=te_mlir.Float8CurrentScaling(), vjp=True, context=reference, **options
    )
    torch.manual_seed(0)
    tensors = {n: torch.randn(s, dtype=torch.bfloat16) for n, s in (("x", (32, 64)), ("w", (48, 64)))}
    tensors["grad.y"] = torch.randn(32, 48, dtype=torch.bfloat16)
    return torch, step, tensors
