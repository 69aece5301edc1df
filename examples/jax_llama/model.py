"""A Llama as a JAX program writes it: parameters in dicts, and functions of them."""

import jax
import jax.numpy as jnp


def rms_norm(x, gamma, epsilon=1e-5):
    wide = x.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + epsilon)
    return (scaled * gamma.astype(jnp.float32)).astype(x.dtype)


def tables(sequence, width, dtype, halves=False):
    frequencies = 1.0 / 10000 ** (jnp.arange(0, width, 2) / width)
    angles = jnp.arange(sequence)[:, None] * frequencies
    angles = angles if halves else jnp.concatenate([angles, angles], -1)
    return jnp.cos(angles)[None, :, None].astype(dtype), jnp.sin(angles)[None, :, None].astype(dtype)


def rope(x, cos, sin):
    first, second = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-second, first], -1) * sin


def attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), labels[..., None], axis=-1)
    return -jnp.mean(picked)


def init(key, dtype=jnp.float32, vocabulary=64, width=64, ffn=128, heads=4, kv_heads=2, layers=1):
    """Parameters; weights are [out, in]."""
    keys = iter(jax.random.split(key, 2 + 8 * layers))

    def weight(*shape):
        return (jax.random.normal(next(keys), shape) / shape[-1] ** 0.5).astype(dtype)

    kv = width // heads * kv_heads
    return {
        "embed": (jax.random.normal(next(keys), (vocabulary, width)) / 4).astype(dtype),
        "layers": [
            {
                "norm1": 1 + weight(width) / 8,
                "q": weight(width, width),
                "k": weight(kv, width),
                "v": weight(kv, width),
                "o": weight(width, width),
                "norm2": jnp.ones(width, dtype),
                "gate": weight(ffn, width),
                "up": weight(ffn, width),
                "down": weight(width, ffn),
            }
            for _ in range(layers)
        ],
        "norm": jnp.ones(width, dtype),
        "head": weight(vocabulary, width),
    }


def logits(params, ids, heads=4, kv_heads=2, attend=attention, rotate=rope, halves=False):
    x = params["embed"][ids]
    batch, sequence, width = x.shape
    size = width // heads
    cos, sin = tables(sequence, size, x.dtype, halves)
    for layer in params["layers"]:
        h = rms_norm(x, layer["norm1"])
        q = (h @ layer["q"].T).reshape(batch, sequence, heads, size)
        k = (h @ layer["k"].T).reshape(batch, sequence, kv_heads, size)
        v = (h @ layer["v"].T).reshape(batch, sequence, kv_heads, size)
        a = attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + a.reshape(batch, sequence, width) @ layer["o"].T
        h = rms_norm(x, layer["norm2"])
        x = x + (jax.nn.silu(h @ layer["gate"].T) * (h @ layer["up"].T)) @ layer["down"].T
    return rms_norm(x, params["norm"]) @ params["head"].T


def loss(params, ids, labels, **options):
    return cross_entropy(logits(params, ids, **options), labels)
