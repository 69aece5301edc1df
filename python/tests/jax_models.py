"""Small models as JAX programs write them: parameters in dicts, functions of them."""

import jax
import jax.numpy as jnp


def rms_norm(x, gamma, epsilon=1e-5):
    wide = x.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + epsilon)
    return (scaled * gamma.astype(jnp.float32)).astype(x.dtype)


def layer_norm(x, gamma, beta, epsilon=1e-5):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.var(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + epsilon) * gamma + beta


def tables(sequence, width, dtype, halves=False):
    frequencies = 1.0 / 10000 ** (jnp.arange(0, width, 2) / width)
    angles = jnp.arange(sequence)[:, None] * frequencies
    angles = angles if halves else jnp.concatenate([angles, angles], -1)
    return jnp.cos(angles)[None, :, None].astype(dtype), jnp.sin(angles)[None, :, None].astype(dtype)


def rope(x, cos, sin):
    first, second = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-second, first], -1) * sin


def rope_by_halves(x, cos, sin):
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def attention_by_hand(q, k, v):
    """Heads first, keys repeated, mask of -inf, softmax in f32."""
    q, k, v = (a.transpose(0, 2, 1, 3) for a in (q, k, v))
    repeat = q.shape[1] // k.shape[1]
    k, v = (jnp.repeat(a, repeat, axis=1) for a in (k, v))
    scores = (q @ k.swapaxes(-1, -2)) / q.shape[-1] ** 0.5
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    scores = jnp.where(seen, scores.astype(jnp.float32), -jnp.inf)
    return (jax.nn.softmax(scores, -1).astype(q.dtype) @ v).transpose(0, 2, 1, 3)


def attention_by_einsum(q, k, v):
    repeat = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(a, repeat, axis=2) for a in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q * q.shape[-1] ** -0.5, k)
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    bias = jnp.where(seen, 0.0, -1e30).astype(q.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores + bias, -1), v)


def attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), labels[..., None], axis=-1)
    return -jnp.mean(picked)


def cross_entropy_by_one_hot(logits, labels):
    hot = jax.nn.one_hot(labels, logits.shape[-1])
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits.astype(jnp.float32)) * hot, -1))


def cross_entropy_by_logsumexp(logits, labels):
    wide = logits.astype(jnp.float32)
    picked = jnp.take_along_axis(wide, labels[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(wide, -1) - picked)


def llama_params(key, dtype=jnp.float32, vocabulary=64, width=64, ffn=128, heads=4, kv_heads=2, layers=1):
    """Weights [out, in]."""
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


def llama(params, ids, heads=4, kv_heads=2, attend=attention, rotate=rope):
    x = params["embed"][ids]
    batch, sequence, width = x.shape
    size = width // heads
    cos, sin = tables(sequence, size, x.dtype, rotate is rope_by_halves)
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


def llama_loss(params, ids, labels, loss=cross_entropy, **options):
    return loss(llama(params, ids, **options), labels)


def gpt_params(key, dtype=jnp.float32, width=64):
    """Weights [in, out]."""
    a, b = jax.random.split(key)
    return {
        "gamma": jnp.linspace(0.5, 1.5, width, dtype=dtype),
        "beta": jnp.linspace(-1, 1, width, dtype=dtype),
        "up": {"w": (jax.random.normal(a, (width, 4 * width)) / 8).astype(dtype), "b": jnp.ones(4 * width, dtype) / 4},
        "down": {"w": (jax.random.normal(b, (4 * width, width)) / 16).astype(dtype), "b": jnp.ones(width, dtype) / 4},
    }


def gpt(params, x, norm=layer_norm, gelu=jax.nn.gelu):
    h = norm(x, params["gamma"], params["beta"])
    h = gelu(h @ params["up"]["w"] + params["up"]["b"])
    return x + h @ params["down"]["w"] + params["down"]["b"]
