"""Attention of transformers for packed batches: `attn_implementation="te"`, once this module is imported.

A batch with the boundaries of its documents (`cu_seq_lens_q`, `cu_seq_lens_k`, `max_length_q` and `max_length_k`, as
`DataCollatorWithFlattening(return_flash_attn_kwargs=True)` gives them) needs no mask: te takes the boundaries, and
PyTorch's `varlen_attn` does in a model that is not compiled. Other batches are those of "sdpa".
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from te_mlir.torch.varlen import flash_attn_varlen_func

#: Options that `varlen_attn` has no counterpart for.
_LACKING = ("softcap", "s_aux", "position_bias")


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
    if cu_seq_lens_q is None or cu_seq_lens_k is None or max_length_q is None or max_length_k is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, is_causal, **options)
    lacking = [name for name in _LACKING if options.get(name) is not None]
    if lacking or dropout:
        raise ValueError(f"expected attention of packed documents without {', '.join(lacking) or 'dropout'}")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    left = -1 if sliding_window is None else sliding_window - 1
    q, k, v = (t.transpose(1, 2).flatten(0, 1) for t in (query, key, value))
    made = flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seq_lens_q,
        cu_seq_lens_k,
        max_length_q,
        max_length_k,
        softmax_scale=scaling,
        causal=causal,
        window_size=(left, left),
    )
    return made.unflatten(0, (query.shape[0], -1)), None


AttentionInterface.register("te", attention)
AttentionMaskInterface.register("te", sdpa_mask)
