"""Ops of mixtures of experts in an ATen graph, which are compiled.

`experts` adds them to a graph. Those that stay in PyTorch run as the functions here, which PyTorch differentiates.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from te_mlir.frontend.experts import ALIGNMENT, rows_for
from te_mlir.torch.adapter import CASTS, name_of


def _scores(logits: Tensor, sigmoid: bool) -> Tensor:
    return logits.float().sigmoid() if sigmoid else logits.softmax(-1, torch.float32)


def _probs(
    logits: Tensor, k: int, sigmoid: bool, normalize: bool, bias: Tensor | None, groups: int, chosen_groups: int
) -> Tensor:
    ids = _ids(logits, k, sigmoid, normalize, bias, groups, chosen_groups)
    chosen = _scores(logits, sigmoid).gather(1, ids)
    return chosen / (chosen.sum(-1, keepdim=True) + 1e-20) if normalize else chosen


def _ids(
    logits: Tensor, k: int, sigmoid: bool, normalize: bool, bias: Tensor | None, groups: int, chosen_groups: int
) -> Tensor:
    keys = _scores(logits, sigmoid)
    if bias is not None:
        keys = keys + bias
    if groups > 1:
        sums = keys.unflatten(1, (groups, -1)).topk(2).values.sum(-1)
        is_chosen = torch.zeros_like(sums, dtype=torch.bool).scatter(1, sums.topk(chosen_groups).indices, True)
        keys = keys.masked_fill(~is_chosen.repeat_interleave(keys.shape[1] // groups, 1), -math.inf)
    return keys.topk(k).indices


def _used(ids: Tensor, used: Tensor) -> Tensor:
    return torch.where(used[:, None], ids, -1)


def _places(ids: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """The row of each entry, or -1 if its id is that of no expert; the first row and the number of rows of each expert."""
    entries = ids.reshape(-1, 1)
    chosen = entries == torch.arange(experts, device=ids.device)
    sizes = chosen.sum(0)
    ends = ((sizes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT).cumsum(0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    rows = (chosen * (starts + chosen.cumsum(0) - 1)).sum(1)
    return torch.where(chosen.any(1), rows, -1), starts, sizes


def _rows(x: Tensor, ids: Tensor, experts: int) -> Tensor:
    rows, k = rows_for(ids.numel(), experts), ids.shape[1]
    row_of, _, _ = _places(ids, experts)
    entry_of = torch.full((rows + 1,), -1, device=x.device)
    # Entries without an expert write behind the last row.
    entry_of[torch.where(row_of < 0, rows, row_of)] = torch.arange(ids.numel(), device=x.device)
    entry_of = entry_of[:rows]
    return torch.where(entry_of[:, None] < 0, 0.0, x[entry_of.clamp(min=0) // k])


def _linear(x: Tensor, w: Tensor, ids: Tensor, bias: Tensor | None) -> Tensor:
    _, starts, sizes = _places(ids, w.shape[0])
    made = []
    for expert, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist())):
        shift = bias[expert] if bias is not None else None
        made.append(torch.nn.functional.linear(x[start : start + size], w[expert], shift))
        made.append(x.new_zeros((-size % ALIGNMENT, w.shape[1])))
    made.append(x.new_zeros((x.shape[0] - sum(map(len, made)), w.shape[1])))
    return torch.cat(made)


def _sum(y: Tensor, ids: Tensor, probs: Tensor | None, experts: int) -> Tensor:
    row_of, _, _ = _places(ids, experts)
    rows = torch.where(row_of[:, None] < 0, 0.0, y[row_of.clamp(min=0)])
    if probs is None:
        return rows
    return (rows.float().unflatten(0, ids.shape) * probs.float().unsqueeze(-1)).sum(1).to(y.dtype)


_CHOICE = "(Tensor logits, int k, bool sigmoid, bool normalize, Tensor? bias, int groups, int chosen_groups) -> Tensor"
_library = torch.library.Library("te_mlir_torch", "FRAGMENT")
for _name, _function, _signature in (
    ("expert_probs", _probs, _CHOICE),
    ("expert_ids", _ids, _CHOICE),
    ("expert_used", _used, "(Tensor ids, Tensor used) -> Tensor"),
    ("expert_rows", _rows, "(Tensor x, Tensor ids, int experts) -> Tensor"),
    ("expert_linear", _linear, "(Tensor x, Tensor w, Tensor ids, Tensor? bias) -> Tensor"),
    ("expert_sum", _sum, "(Tensor y, Tensor ids, Tensor? probs, int experts) -> Tensor"),
):
    _library.define(_name + _signature)
    _library.impl(_name, _function, "CompositeImplicitAutograd")

#: The scores of the experts that each token chose, [tokens, k], divided by their sum if `normalize`, and their ids. As in
#: te.router_topk, `bias` [experts] is added for the choice only, which is among the experts of `chosen_groups` of `groups`.
PROBS = torch.ops.te_mlir_torch.expert_probs.default
IDS = torch.ops.te_mlir_torch.expert_ids.default
#: The ids of tokens of which `used` [tokens] is true; others choose no expert.
USED = torch.ops.te_mlir_torch.expert_used.default
#: The rows of each expert: those of the tokens that chose it.
ROWS = torch.ops.te_mlir_torch.expert_rows.default
#: A layer for each expert, with weights [experts, out, in] and biases [experts, out].
LINEAR = torch.ops.te_mlir_torch.expert_linear.default
#: The sum of the rows of each token, times `probs`; without these, the row of each id in order.
SUM = torch.ops.te_mlir_torch.expert_sum.default

_aten = torch.ops.aten

#: The ops of models that they replace, for messages.
REPLACED: dict[Any, Any] = {
    **dict.fromkeys((PROBS, IDS), _aten.topk.default),
    ROWS: _aten.index.Tensor,
    LINEAR: _aten._grouped_mm.default,
    SUM: _aten.sum.default,
}


#: The places of the ids among the operands of the ops that find rows by them.
_IDS_AT: dict[Any, int] = {ROWS: 1, LINEAR: 2, SUM: 1}


def reads_ids(node: Node) -> bool:
    """Whether a node is an op that finds the rows of experts by their ids."""
    return node.target in _IDS_AT


def ids_of(node: Node) -> Node | None:
    """The ids by which an op finds the rows of experts; None for other ops."""
    place = _IDS_AT.get(node.target)
    return node.args[place] if place is not None else None  # type: ignore[return-value]


def is_ids(node: Node) -> bool:
    """Whether a node chooses experts, for compiled ops only."""
    return node.target in (IDS, USED) and all(reads_ids(user) or is_ids(user) for user in node.users)


def is_stack(parameter: Node) -> bool:
    """Whether a parameter has the weights of all experts of a layer."""
    return any(
        (user.target is LINEAR and user.args[1] is parameter) or (name_of(user) in CASTS and is_stack(user))
        for user in parameter.users
    )
