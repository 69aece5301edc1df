"""Small PyTorch models for tests of the importer, and a Llama of the library transformers."""

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width, centered=False):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))
        self.centered = centered

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-5)
        if self.centered:
            return (x * (1.0 + self.weight.float())).to(dtype)
        return self.weight * x.to(dtype)


def rotate_half(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def repeat_kv(x, count):
    batch, heads, sequence, width = x.shape
    x = x[:, :, None, :, :].expand(batch, heads, count, sequence, width)
    return x.reshape(batch, heads * count, sequence, width)


class Llama(nn.Module):
    """An embedding, layers of attention and MLP, and a head. Returns loss and logits."""

    def __init__(
        self, vocabulary=64, width=64, heads=4, kv_heads=2, hidden=128, layers=1, norm=RMSNorm, mask=False, gqa=False
    ):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, width // heads
        self.mask, self.gqa = mask, gqa
        kv = kv_heads * self.head_dim
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList()
        for _ in range(layers):
            layer = nn.Module()
            layer.norm1, layer.norm2 = norm(width), norm(width)
            layer.q, layer.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
            layer.k, layer.v = nn.Linear(width, kv, bias=False), nn.Linear(width, kv, bias=False)
            layer.gate, layer.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
            layer.down = nn.Linear(hidden, width, bias=False)
            self.layers.append(layer)
        self.norm = norm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        inverse = 1.0 / (10000.0 ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        self.register_buffer("inverse", inverse, persistent=False)

    def rotary(self, x, positions):
        inverse = self.inverse[None, :, None].float().expand(positions.shape[0], -1, 1)
        angles = (inverse @ positions[:, None, :].float()).transpose(1, 2)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def attention(self, layer, x, cos, sin, mask):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q, k, v = (w(x).view(shape).transpose(1, 2) for w in (layer.q, layer.k, layer.v))
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if not self.gqa:
            k, v = (repeat_kv(t, self.heads // self.kv_heads) for t in (k, v))
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, scale=self.head_dim**-0.5, enable_gqa=self.gqa
        )
        return layer.o(y.transpose(1, 2).contiguous().reshape(*x.shape[:-1], -1).contiguous())

    def forward(self, ids, labels, shift=False):
        x = self.embed(ids)
        cos, sin = self.rotary(x, torch.arange(ids.shape[1], device=ids.device)[None])
        mask = None
        if self.mask:
            mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()[None, None]
        for layer in self.layers:
            x = x + self.attention(layer, layer.norm1(x), cos, sin, mask)
            h = layer.norm2(x)
            x = x + layer.down(F.silu(layer.gate(h)) * layer.up(h))
        logits = self.head(self.norm(x)).float()
        if shift:
            kept, labels = logits[..., :-1, :].contiguous(), labels[..., 1:].contiguous()
        else:
            kept = logits
        return F.cross_entropy(kept.view(-1, kept.shape[-1]), labels.view(-1)), logits


class GPT(nn.Module):
    """A transformer block with layer norms, biases and gelu. The input is floating-point."""

    def __init__(self, width=64, approximate="tanh"):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.approximate = approximate

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate=self.approximate))


def hugging_face_llama(layers=1, **options):
    """The Llama of transformers with the sizes of `Llama` and random float32 weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = dict(vocab_size=64, hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2)
    return LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=layers, rms_norm_eps=1e-5, **options))
