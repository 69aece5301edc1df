"""PyTorch's dropouts with the zeros of compiled code, to compare gradients."""

import contextlib
import itertools
import pathlib
import sys
from unittest import mock

import numpy as np
import torch
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).parents[2] / "test/model"))
from te_model.philox import MASK, philox  # noqa: E402


def factors(shape, state, stream, probability, kind=3):
    """What te.dropout multiplies each element with; with `kind` 4, te.attention each weight."""
    seed, offset = (int(word) & 0xFFFFFFFF for word in state)
    count = int(np.prod(shape))
    group = np.arange((count + 3) // 4, dtype=np.uint64)
    words = np.stack(philox((group & MASK, group >> np.uint64(32), offset, kind), (seed, stream)), -1).reshape(-1)[
        :count
    ]
    probability = float(np.float32(probability))
    kept = np.float32(1 / (1 - probability)) if probability < 1 else np.float32(0)
    return torch.from_numpy(np.where(words < int(probability * 2**32), np.float32(0), kept).reshape(shape))


@contextlib.contextmanager
def same_dropouts(of_weights=False):
    """In its block, the dropouts of one call zero the elements that those of one compiled graph would.

    of_weights: whether `dropout` is of weights of attention, [batch, heads, sequence, sequence].
    """
    streams, states = itertools.count(), []
    plain = F.scaled_dot_product_attention

    def draw(shape, p, kind):
        if not states:
            states.append(torch.randint(-(2**31), 2**31, (2,), dtype=torch.int32))
        return factors(shape, states[0], next(streams), p, kind)

    def drop_weights(x, p):
        batch, heads, length, _ = x.shape
        return x * draw((batch, length, heads, length), p, 4).transpose(1, 2).to(x.dtype)

    def dropout(x, p=0.5, training=True, inplace=False):
        if not training or not p:
            return x
        return drop_weights(x, p) if of_weights else x * draw(x.shape, p, 3).to(x.dtype)

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if not dropout_p:
            return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        weights = scores.softmax(-1)
        if query.shape[2] != key.shape[2] or (attn_mask is not None and attn_mask.requires_grad):
            # This attention is compiled as products and a softmax, with a te.dropout.
            return weights * draw(weights.shape, dropout_p, 3) @ value
        return drop_weights(weights, dropout_p) @ value

    with (
        mock.patch("torch.nn.functional.dropout", dropout),
        mock.patch("torch.nn.functional.scaled_dot_product_attention", attention),
    ):
        yield
