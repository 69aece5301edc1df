"""Attention of transformers for packed batches: `attn_implementation="te"`, once this module is imported.

A batch with the boundaries of its documents (`cu_seq_lens_q`, `cu_seq_lens_k`, `max_length_q` and `max_length_k`, as
`DataCollatorWithFlattening(return_flash_attn_kwargs=True)` gives them) needs no mask: te takes the boundaries, and
PyTorch's `varlen_attn` does in a model that is not compiled. Other batches are those of "sdpa". Attention with sinks
(gpt-oss) or capped scores (Gemma 2), which neither of the two has, is formulas, as in "eager".
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from te_mlir.torch.varlen import flash_attn_varlen_func


def _seen(boundaries: torch.Tensor, tokens: int, causal: bool, window: int | None) -> torch.Tensor:
    """Which keys each token of packed documents sees, bool [tokens, tokens]."""
    place = torch.arange(tokens, device=boundaries.device)
    document = (place[:, None] >= boundaries).sum(1)
    seen = document[:, None] == document
    if causal:
        seen = seen & (place[:, None] >= place)
    return seen if window is None else seen & (place[:, None] - place < window)


def _by_hand(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    seen: torch.Tensor | None,
    dropout: float,
    scaling: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attention as formulas. seen: bool, or what is added to the scores; None for all keys."""
    count = query.shape[1] // key.shape[1]
    scores = query @ repeat_kv(key, count).transpose(2, 3) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if seen is not None:
        hidden = torch.finfo(scores.dtype).min
        scores = scores + (torch.where(seen, 0.0, hidden).to(scores.dtype) if seen.dtype is torch.bool else seen)
    if sinks is not None:
        beside = sinks.reshape(1, -1, 1, 1).expand(query.shape[0], -1, query.shape[2], -1)
        scores = torch.cat([scores, beside.to(scores.dtype)], -1)
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
    weights = weights if sinks is None else weights[..., :-1]
    made = torch.nn.functional.dropout(weights, dropout) @ repeat_kv(value, count)
    return made.transpose(1, 2).contiguous()


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    max_length_q: int | None = None,
    max_length_k: int | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers calls it: of [batch, heads, sequence, width]; returns [batch, sequence, heads, width]."""
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    lengths: list[Any] = [cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k]
    is_packed = all(each is not None for each in lengths)
    softcap, sinks, bias = (options.get(name) for name in ("softcap", "s_aux", "position_bias"))
    if bias is not None and (is_packed or softcap is not None or sinks is not None):
        raise ValueError("expected attention of packed documents, with sinks or with softcap without position_bias")
    if softcap is not None or sinks is not None:
        tokens, keys = query.shape[2], key.shape[2]
        seen = attention_mask
        if is_packed:
            seen = _seen(lengths[0], tokens, causal, sliding_window)
        elif seen is None and causal and tokens > 1:
            seen = torch.ones(tokens, keys, dtype=torch.bool, device=query.device).tril(keys - tokens)
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        return _by_hand(query, key, value, seen, dropout, scale, softcap, sinks), None
    if not is_packed:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, is_causal, **options)
    if dropout:
        raise ValueError("expected attention of packed documents without dropout")
    left = -1 if sliding_window is None else sliding_window - 1
    arguments: list[Any] = [t.transpose(1, 2).flatten(0, 1) for t in (query, key, value)]
    arguments += [*lengths, 0.0, scaling, causal, (left, left)]
    made = flash_attn_varlen_func(*arguments)
    return made.unflatten(0, (query.shape[0], -1)), None


AttentionInterface.register("te", attention)
AttentionMaskInterface.register("te", sdpa_mask)
