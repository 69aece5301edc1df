"""Spells `flex_attention` with ops that the importer knows.

A block mask becomes a tensor [batches or 1, heads or 1, queries, keys], which is then recognised by its values, as any
other mask of a call. Scores that a `score_mod` changes become a product, a softmax and another product.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.nn import functional as F
from torch.nn.attention.flex_attention import _LARGE_SPARSE_BLOCK_SIZE, _vmap_for_bhqkv

Blocks = Sequence[Any]
#: Calls a function that uses torch.vmap: (what identifies it, the function, the tensors).
Whole = Callable[..., Any]


#: Functions that do the same for one score and for a tensor of them.
_ELEMENTWISE = (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, torch.tanh)


class _Elements(torch.fx.Interpreter):
    """Runs a function of one element of the scores under torch.vmap, where an index may not be read on the host."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is operator.getitem and isinstance(args[0], torch.Tensor):
            places = args[1] if isinstance(args[1], tuple) else (args[1],)
            if all(isinstance(place, torch.Tensor) for place in places):
                return torch.ops.aten.index(args[0], list(places))
        return super().call_function(target, args, kwargs)


def _returned(module: GraphModule) -> Any:
    """What a graph returns: a node or a number."""
    return next(node for node in module.graph.nodes if node.op == "output").args[0]


def _arguments(module: GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _is_elementwise(score_mod: GraphModule) -> bool:
    """Whether a score depends only on itself, by functions such as those of a soft cap, or by none."""
    calls = [node for node in score_mod.graph.nodes if node.op not in ("placeholder", "output")]
    return all(node.target in _ELEMENTWISE for node in calls) and not any(n.users for n in _arguments(score_mod)[1:])


def _over(module: GraphModule, buffers: Sequence[Any], prefix: tuple[int, ...] = ()) -> Callable[..., Any]:
    """A function of one element of the scores as one of all of them."""
    one = lambda *elements: _Elements(module).run(*elements)
    return _vmap_for_bhqkv(one, prefix=prefix, suffix=(None,) * len(buffers))


def _indices(sizes: Sequence[int], device: torch.device) -> list[torch.Tensor]:
    return [torch.arange(size, device=device) for size in sizes]


def _visible_blocks(counts: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Whether each row of blocks has a column of blocks: bool [batches, heads, rows, columns].

    counts: the number of columns of each row, [batches, heads, rows]. columns: which they are, followed by others.
    """
    width = columns.shape[-1]
    is_one = torch.arange(width, device=columns.device) < counts.unsqueeze(-1)
    places = torch.where(is_one, columns, width).long()
    empty = torch.zeros((*columns.shape[:-1], width + 1), dtype=torch.bool, device=columns.device)
    return empty.scatter(-1, places, True)[..., :width]


def _spread(blocks: torch.Tensor, queries: torch.Tensor, keys: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """The elements of blocks of a size."""
    return blocks[..., queries // size[0], :][..., keys // size[1]]


def mask_of(
    whole: Whole, block_mask: Blocks, sizes: Sequence[int], buffers: Sequence[Any], device: torch.device
) -> Any:
    """The keys that each query sees, or None if each sees all of them: bool [batches or 1, heads or 1, queries, keys].

    block_mask: `BlockMask.as_tuple()`. sizes: those of the scores. buffers: the tensors that its function reads.
    """
    kv_counts, kv_columns, full_counts, full_columns = block_mask[2:6]
    *size, mask_mod = block_mask[-3:]
    is_one_block = min(size) >= _LARGE_SPARSE_BLOCK_SIZE
    if is_one_block and getattr(_returned(mask_mod), "target", None) == "new_ones":
        # This is the mask of flex_attention without a block mask.
        return None
    own = [n if node.users else 1 for n, node in zip(sizes, _arguments(mask_mod)[:2])] + list(sizes[2:])
    b, h, q, k = _indices(own, device)
    seen = whole((mask_mod, *own), _over(mask_mod, buffers), b, h, q, k, *buffers)
    if is_one_block:
        return seen
    # A kernel reads only these blocks, and does not ask the function about full ones.
    seen = seen & _spread(_visible_blocks(kv_counts, kv_columns), q, k, size)
    if full_counts is not None:
        seen = seen | _spread(_visible_blocks(full_counts, full_columns), q, k, size)
    return seen


def attention(
    whole: Whole,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    score_mod: GraphModule,
    block_mask: Blocks,
    scale: float,
    options: dict[str, Any],
    score_buffers: Sequence[Any] = (),
    mask_buffers: Sequence[Any] = (),
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The results of the op `flex_attention`."""
    sizes = (*q.shape[:3], k.shape[2])
    seen = mask_of(whole, block_mask, sizes, mask_buffers, q.device)
    k, v = (t.expand(q.shape[0], -1, -1, -1) if t.shape[0] != q.shape[0] else t for t in (k, v))
    grouped = q.shape[1] != k.shape[1]
    # What of this is not used is dead code.
    keys, values = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) if grouped else t for t in (k, v))
    scores = (q.float() @ keys.float().transpose(-2, -1)) * scale
    if _is_elementwise(score_mod):
        scores = score_mod(scores, *[None] * (len(_arguments(score_mod)) - 1))
    else:
        indices = _indices(sizes, q.device)
        scores = whole((score_mod, *sizes), _over(score_mod, score_buffers, (0,)), scores, *indices, *score_buffers)
    if seen is not None:
        scores = scores + torch.zeros(seen.shape, device=q.device).masked_fill(~seen, -torch.inf)
    if _returned(score_mod) is _arguments(score_mod)[0]:
        result = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale, enable_gqa=grouped)
    else:
        result = torch._safe_softmax(scores, -1).to(q.dtype) @ values
    # The callers multiply these by log(2).
    return result, scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)
