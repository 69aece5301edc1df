"""The two sums over processes of tensor parallelism, as ops that stay in PyTorch between compiled regions.

Each is the derivative of the other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node


class _Sum(torch.autograd.Function):
    """The sum over a group of processes. The gradient of each term is that of the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: str) -> Tensor:
        ctx.group = group
        ops = torch.ops._c10d_functional
        found: Tensor = ops.wait_tensor(ops.all_reduce(x, "sum", group))
        return found

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:  # type: ignore[override]
        return _Enter.apply(dy, ctx.group), None


class _Enter(torch.autograd.Function):
    """A tensor that is the same in all processes of a group, where it enters computations that differ. Its gradient is a sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: str) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:  # type: ignore[override]
        return _Sum.apply(dy, ctx.group), None


_library = torch.library.Library("te_mlir_torch", "FRAGMENT")
for _name, _function in (("sum_over_processes", _Sum), ("enter_processes", _Enter)):
    _library.define(f"{_name}(Tensor x, str group) -> Tensor")
    # PyTorch differentiates what this runs. Tracing records the op before that.
    _library.impl(_name, _function.apply, "CompositeImplicitAutograd")

#: The op of `_Sum`, and that of `_Enter`.
SUM = torch.ops.te_mlir_torch.sum_over_processes.default
ENTER = torch.ops.te_mlir_torch.enter_processes.default


def is_collective(node: Node) -> bool:
    return node.target in (SUM, ENTER)
