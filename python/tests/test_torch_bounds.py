"""Formulas of elements at bounds: equal, zero, infinite and NaN operands."""

import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F

import te_mlir
import te_mlir.torch

#: Functions that are computed by formulas, and how PyTorch defines them next to their bounds.
BOUNDED = {
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "relu6": F.relu6,
    "hardshrink": lambda x: F.hardshrink(x, 3.0),
    "softshrink": lambda x: F.softshrink(x, 3.0),
    "threshold": lambda x: F.threshold(x, 3.0, 6.0),
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.25, dtype=x.dtype)),
    "mish": F.mish,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "elu": F.elu,
    "expm1": lambda x: torch.expm1(x.float()).to(x.dtype),
    "nan_to_num": torch.nan_to_num,
    "isnan": lambda x: torch.where(x.isnan(), 1.0, x),
    "isinf": lambda x: torch.where(x.isinf(), 1.0, x),
    "isfinite": lambda x: torch.where(x.isfinite(), x, 1.0),
    "logaddexp": lambda x: torch.logaddexp(x, torch.ones_like(x)),
    "xlogy": lambda x: torch.xlogy(x.nan_to_num(), torch.full_like(x, 2.0)),
    "huber": lambda x: F.huber_loss(x, torch.zeros_like(x), reduction="none", delta=3.0),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none", beta=3.0),
    # In bfloat16, PyTorch rounds each of its terms.
    "binary_cross_entropy": lambda x: F.binary_cross_entropy_with_logits(
        x.float(), torch.full_like(x.float(), 0.25), reduction="none"
    ).to(x.dtype),
    "std": lambda x: (x * 0).nan_to_num().std() + x,
    "norm": lambda x: (x * 0).nan_to_num().norm() + x,
    "cosine_similarity": lambda x: F.cosine_similarity((x * 0).nan_to_num(), torch.ones_like(x), 0) + x,
    "power": lambda x: x**-2,
    "root": lambda x: x**0.25,
    "cube": lambda x: x**9,
    "inverse": lambda x: x**-1.5,
    "exponent": lambda x: 2**x,
    "exponent_of_zero": lambda x: 0**x,
    "exponent_of_less": lambda x: 0.5**x,
    # In bfloat16, PyTorch rounds each of the terms of its gradient.
    "powers": lambda x: (x.float() ** x.float()).to(x.dtype),
    "exp2": torch.exp2,
    "log2": lambda x: torch.log2(x),
    "log10": lambda x: torch.log10(x),
    "erf": torch.erf,
    "erfc": torch.erfc,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "frac": lambda x: x.clamp(-1e4, 1e4).frac(),
    "remainder": lambda x: x.remainder(0.75),
    "fmod": lambda x: x.fmod(-0.75),
    "remainder_of": lambda x: torch.remainder(torch.ones_like(x), x),
    "floor_divide": lambda x: x.clamp(-1e4, 1e4).div(-0.75, rounding_mode="floor"),
}


class Bounded(nn.Module):
    """Each function of a row, and a layer, because code without one is left to PyTorch."""

    def __init__(self, dtype):
        super().__init__()
        self.layer = nn.Linear(4, 4, dtype=dtype)

    def forward(self, z, *rows):
        return self.layer(z), *(function(row) for function, row in zip(BOUNDED.values(), rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_formulas_at_bounds(dtype):
    """Results, and gradients of those that are not NaN, are PyTorch's where operands are equal, zero, infinite or NaN."""
    torch._dynamo.reset()
    some = [math.nan, math.inf, -math.inf, 0.0, -0.0, 3.0, -3.0, 6.0, 0.5, -0.5, 1.0, -1.0, 100.0, -100.0, 1e30, -1e30]
    model = Bounded(dtype)
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision(), differentiate_outputs="all")
    found = []
    for module in (model, compiled):
        rows = [torch.tensor(some, dtype=dtype, requires_grad=True) for _ in BOUNDED]
        results = module(torch.ones(1, 4, dtype=dtype), *rows)[1:]
        gradients = torch.autograd.grad(results, rows, [torch.ones_like(r) for r in results])
        found.append([(r, g.masked_fill(r.isnan(), 0)) for r, g in zip(results, gradients)])
    close = {"rtol": 1e-5, "atol": 1e-6} if dtype is torch.float32 else {"rtol": 2**-7, "atol": 1e-6}
    for name, theirs, mine in zip(BOUNDED, *found):
        for what, one, other in zip(("result", "gradient"), mine, theirs):
            message = lambda text, name=name, what=what: f"{what} of {name}: {text}"
            torch.testing.assert_close(one, other, equal_nan=True, msg=message, **close)
