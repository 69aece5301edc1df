"""The operations of random models in PyTorch, in float64, with bounds of their rounding.

An operation rounds to float32 inside, by a factor 1 + d with |d| <= k u, u = 2^-24, and its result and gradients once to their type.
As in python/tests/random_programs.py, `Noise` makes every d inside +k u or -k u at random; an error is then at most 16 times the
largest change of an element of the tensor in some draws.
"""

import math

import torch
from te_model.noise import Round, signs

U, DRAWS = 2.0**-24, 3
#: Half a unit in the last place, and the smallest number of each type.
ROUNDING = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
TINY = {"bf16": 2.0**-133, "f16": 2.0**-24, "f32": 2.0**-149}


class Read(torch.autograd.Function):
    """A reader of a value, whose gradient is rounded before it is added to those of others."""

    @staticmethod
    def forward(context, x, size):
        context.size = size
        return x.view_as(x)

    @staticmethod
    def backward(context, dy):
        return dy * (1 + context.size * signs(dy)), None


class Exact:
    """The operations without rounding."""

    def round(self, x, k=1):
        return x

    def sum(self, x, axis, keep=False):
        """A sum, whose terms are rounded as often as they are added."""
        return self.round(self.round(x, x.shape[axis]).sum(axis, keepdim=keep))

    def product(self, a, b):
        """a b^T."""
        k = a.shape[-1]
        return self.round(self.round(a, k) @ self.round(b, k).transpose(-1, -2))

    def rms_norm(self, x, gamma, centered):
        r, n = self.round, x.shape[1]
        scale = r(torch.rsqrt(self.sum(r(x * x), 1, True) / n + 1e-5), 3)
        return r(r(x * scale) * r(gamma + centered))

    def layer_norm(self, x, gamma, beta, centered):
        r, n = self.round, x.shape[1]
        x = r(x - r(self.sum(x, 1, True) / n))
        scale = r(torch.rsqrt(self.sum(r(x * x), 1, True) / n + 1e-5), 3)
        return r(r(r(x * scale) * r(gamma + centered)) + beta)

    def _sigmoid(self, x):
        """The gradient s (1 - s) reads the rounded result, which may be 1."""
        s = torch.sigmoid(x).detach()
        shown = self.round(s, 8)
        return self.round(s + (x - x.detach()) * (shown * (1 - shown)), 8)

    def _one(self, kind, a):
        """The activation function of one value."""
        r = self.round
        if kind in ("gelu", "geglu"):
            inner = r(0.79788456 * a + 0.03567741 * a * a * a, 4)
            return r(a * r(0.5 + 0.5 * r(torch.tanh(inner), 4)), 2)
        if kind in ("gelu_erf", "geglu_erf"):
            return r(a * r(torch.special.ndtr(a), 16))
        if kind in ("silu", "swiglu", "qgelu", "qgeglu"):
            scale = 1.702 if kind in ("qgelu", "qgeglu") else 1.0
            return r(a * self._sigmoid(r(scale * a)), 2)
        if kind in ("relu", "reglu"):
            return torch.where(a > 0, a, 0)
        if kind in ("srelu", "sreglu"):
            return r(torch.where(a > 0, a, 0) ** 2)
        return self._sigmoid(a)

    def activation(self, x, gate=None, function=None):
        if function not in GATED:
            return self._one(function, x)
        a, b = (x, gate) if gate is not None else x.chunk(2, 1)
        if function == "clamped_swiglu":
            a, b = torch.where(a > 7, 7, a), torch.where(b.abs() > 7, b.detach().clamp(-7, 7), b)
            return self.round(self.round(a * self._sigmoid(self.round(1.702 * a)), 2) * self.round(b + 1))
        return self.round(self._one(function, a) * b)

    def softmax(self, x, scale):
        """The gradient reads the result, which `given` has as it was stored."""
        r = self.round
        x = r(scale * x)
        e = r(torch.exp(r(x - x.detach().amax(1, keepdim=True))), 8)
        return r(e * r(1 / self.sum(e, 1, True)))

    def _scores(self, q, k, heads, kv_heads, sequence, causal, window_left=None, softcap=None, document=None):
        """Masked scores [batch, head, query, key]. document: that of each row."""
        r, d = self.round, q.shape[1] // heads
        q = q.reshape(-1, sequence, heads, d).transpose(1, 2)
        k = k.reshape(-1, sequence, kv_heads, d).transpose(1, 2).repeat_interleave(heads // kv_heads, 1)
        s = r(self.product(q, k) * d**-0.5)
        if softcap is not None:
            s = r(softcap * r(torch.tanh(r(s / softcap)), 8))
        i, j = torch.arange(sequence)[:, None], torch.arange(sequence)[None]
        hidden = (j > i) & bool(causal) | (i - j > (sequence if window_left is None else window_left)) & bool(causal)
        if document is not None:
            hidden = hidden | (document[:, None] != document[None])
        return s.masked_fill(hidden, -math.inf)

    def attention(self, q, k, v, *more, given=(), **params):
        """(o, lse [batch, head, query]); with documents, all rows are one batch."""
        named = dict(zip(given, more))
        documents, sinks, used = named.get("documents"), named.get("sinks"), 1
        if documents is not None:
            row = torch.arange(len(q))
            params["document"] = torch.bucketize(row, documents.contiguous(), right=True)
            params["sequence"] = len(q)
            # Rows that belong to no document read no row.
            used = ((row >= documents[0]) & (row < documents[-1]))[:, None]
        r, heads, kv_heads, sequence = self.round, params["heads"], params["kv_heads"], params["sequence"]
        s = self._scores(q, k, **params)
        largest = s.detach().amax(-1, keepdim=True)
        extra = 0
        if sinks is not None:
            sinks = sinks[None, :, None, None]
            largest = torch.maximum(largest, sinks.detach())
            extra = r(torch.exp(r(sinks - largest)), 8)
        e = r(torch.exp(r(s - largest)), 8)
        total = self.sum(e, -1, True) + extra
        p = r(e * r(1 / total))
        v = v.reshape(-1, sequence, kv_heads, v.shape[1] // kv_heads).transpose(1, 2)
        o = self.product(p, v.repeat_interleave(heads // kv_heads, 1).transpose(-1, -2))
        o = o.transpose(1, 2).reshape(q.shape[0], -1)
        return torch.where(used, o, 0) if documents is not None else o, (largest + torch.log(total))[..., 0]

    def rope(self, x, cos, sin, positions=None, heads=1, interleaved=False):
        if positions is not None:
            cos, sin = cos[positions], sin[positions]
        r, half, sequence = self.round, cos.shape[1], cos.shape[0]
        x = x.reshape(x.shape[0] // sequence, sequence, heads, -1)
        turned, rest = x[..., : 2 * half], x[..., 2 * half :]
        a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., :half], turned[..., half:])
        cos, sin = cos[:, None], sin[:, None]
        parts = r(r(a * cos) - r(b * sin)), r(r(b * cos) + r(a * sin))
        turned = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
        return torch.cat([turned, rest], -1).reshape(-1, heads * x.shape[-1])

    def embedding(self, ids, table):
        known = (ids >= 0) & (ids < len(table))
        rows = self.round(table, len(ids))[ids.clamp(0, len(table) - 1)]
        return torch.where(known[:, None], rows, 0)

    def loss(self, logits, targets, ignore_index=-1):
        r = self.round
        counted = (targets >= 0) & (targets < logits.shape[1]) & (targets != ignore_index)
        x = logits - logits.detach().amax(1, keepdim=True)
        each = r(r(torch.log(self.sum(r(torch.exp(r(x)), 8), 1)), 8) - x.gather(1, targets.clamp(0)[:, None])[:, 0])
        # The loss is lse - logit, whose rounding is relative to both.
        each = each + (r(logits.detach().abs().amax(1)) - logits.detach().abs().amax(1))
        return self.sum(torch.where(counted, each, 0), 0) / counted.sum().clamp(1)

    def linear(self, x, w, bias=None, transposed=False):
        y = self.product(x, w.T if transposed else w)
        return y if bias is None else self.round(y + self.round(bias, x.shape[0]))

    def grouped(self, x, w, sizes, bias=None, alignment=0):
        parts, start = [], 0
        for group, size in enumerate(sizes.tolist()):
            y = self.linear(x[start : start + size], w[group], None if bias is None else bias[group])
            height = -(-size // alignment) * alignment
            parts += [y, y.new_zeros(height - size, y.shape[1])]
            start += height
        return torch.cat([*parts, x.new_zeros(x.shape[0] - start, w.shape[1])])

    def router(self, logits, ids, k, sigmoid, normalize):
        """The scores of the experts `ids` [tokens, k]."""
        r = self.round
        if sigmoid:
            scores = self._sigmoid(logits)
        else:
            e = r(torch.exp(r(logits - logits.detach().amax(1, keepdim=True))), 8)
            scores = r(e * r(1 / self.sum(e, 1, True)))
        probs = scores.gather(1, ids)
        return r(probs * r(1 / (self.sum(probs, 1, True) + 1e-20))) if normalize else probs

    def unpermute(self, rows, row_of, entry_of, probs):
        tokens, k = probs.shape
        picked = rows[row_of].reshape(tokens, k, -1)
        # The gradient of a score is a sum along a row.
        scores = self.round(probs[:, :, None].expand_as(picked), picked.shape[2])
        return self.sum(self.round(picked * scores), 1)

    def add(self, a, b):
        return self.round(a + b)

    def sub(self, a, b):
        return self.round(a - b)

    def mul(self, a, b):
        return self.round(a * b)

    def slice(self, x, offset, width):
        return x[:, offset : offset + width]

    def concat(self, a, b):
        return torch.cat([a, b], 1)


GATED = ("swiglu", "geglu", "glu", "qgeglu", "reglu", "sreglu", "clamped_swiglu", "geglu_erf")


class Noise(Exact):
    """The operations with random roundings of float32."""

    def round(self, x, k=1):
        return Round.apply(x, k * U)
