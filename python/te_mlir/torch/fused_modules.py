"""Formulas of ops that compute a whole module: recurrent cells, and the fast paths of attention without gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# Recurrent cells


def _lstm(x: Tensor, states: Sequence[Tensor], w: Tensor, own: Tensor, bias: Any, own_bias: Any) -> Any:
    hidden, cell = states
    gates = F.linear(x, w, bias) + F.linear(hidden, own, own_bias)
    given, forgotten, new, out = gates.chunk(4, -1)
    cell = forgotten.sigmoid() * cell + given.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


def _gru(x: Tensor, hidden: Tensor, w: Tensor, own: Tensor, bias: Any, own_bias: Any) -> Tensor:
    reset, kept, new = F.linear(x, w, bias).chunk(3, -1)
    own_reset, own_kept, own_new = F.linear(hidden, own, own_bias).chunk(3, -1)
    new = (new + (reset + own_reset).sigmoid() * own_new).tanh()
    return (hidden - new) * (kept + own_kept).sigmoid() + new


def _plain(activation: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def made(x: Tensor, hidden: Tensor, w: Tensor, own: Tensor, bias: Any, own_bias: Any) -> Tensor:
        return activation(F.linear(x, w, bias) + F.linear(hidden, own, own_bias))

    return made


# Attention

#: The kinds of masks of the fast paths: of queries and keys, of the keys of each row, and of both.
_OF_BOTH, _OF_KEYS = 0, 1


def _visible(mask: Tensor | None, kind: int | None, x: Tensor) -> Any:
    """The mask of scaled_dot_product_attention: true is visible, or numbers are added."""
    if mask is None:
        return None
    if kind == _OF_KEYS:
        mask = mask.view(x.shape[0], 1, 1, x.shape[1])
    elif kind == _OF_BOTH:
        mask = mask.view(1, 1, *mask.shape[-2:])
    return mask.logical_not() if mask.dtype is torch.bool else mask.to(x.dtype)


def _attention(
    x: Tensor, heads: int, w: Tensor, bias: Tensor, out: Tensor, out_bias: Tensor, mask: Any, kind: int | None
) -> Tensor:
    """Self-attention of [batch, sequence, width], with the layers in front of it and behind it."""
    batch, sequence, width = x.shape
    parts = F.linear(x, w, bias).chunk(3, -1)
    q, k, v = (part.view(batch, sequence, heads, width // heads).transpose(1, 2) for part in parts)
    y = F.scaled_dot_product_attention(q, k, v, _visible(mask, kind, x))
    return F.linear(y.transpose(1, 2).reshape(batch, sequence, width), out, out_bias)


def _alone(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    width: int,
    heads: int,
    w: Tensor,
    bias: Tensor,
    out: Tensor,
    out_bias: Tensor,
    mask: Any,
    needs_weights: bool,
    average: bool,
    kind: int | None,
) -> Any:
    if q is not k or k is not v or q.dim() != 3 or needs_weights:
        return None
    return _attention(q, heads, w, bias, out, out_bias, mask, kind), q.new_empty(0)


def _encoder_layer(
    x: Tensor,
    width: int,
    heads: int,
    w: Tensor,
    bias: Tensor,
    out: Tensor,
    out_bias: Tensor,
    gelu: bool,
    norm_first: bool,
    epsilon: float,
    norm: Tensor,
    norm_bias: Tensor,
    norm2: Tensor,
    norm2_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
    mask: Any,
    kind: int | None,
) -> Tensor | None:
    """nn.TransformerEncoderLayer in eval()."""
    if x.dim() != 3:
        return None

    def attend(h: Tensor) -> Tensor:
        return _attention(h, heads, w, bias, out, out_bias, mask, kind)

    def feed(h: Tensor) -> Tensor:
        return F.linear((F.gelu if gelu else F.relu)(F.linear(h, up, up_bias)), down, down_bias)

    first = lambda h: F.layer_norm(h, (width,), norm, norm_bias, epsilon)
    second = lambda h: F.layer_norm(h, (width,), norm2, norm2_bias, epsilon)
    if norm_first:
        x = x + attend(first(x))
        return x + feed(second(x))
    x = first(x + attend(x))
    return second(x + feed(x))


#: The formula of each op, for its arguments in order. None is returned for operands that it has no formula for.
FORMULAS: dict[str, Callable[..., Any]] = {
    "lstm_cell": _lstm,
    "gru_cell": _gru,
    "rnn_tanh_cell": _plain(torch.tanh),
    "rnn_relu_cell": _plain(torch.relu),
    "_native_multi_head_attention": _alone,
    "_transformer_encoder_layer_fwd": _encoder_layer,
}
