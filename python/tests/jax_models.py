"""Small models for tests, such as the Llama of examples/jax_llama, and variants of their parts."""

import pathlib
import sys

import jax
import jax.numpy as jnp

sys.path.append(str(pathlib.Path(__file__).parents[2] / "examples" / "jax_llama"))

from model import cross_entropy, init, logits, rope, tables  # noqa: E402, F401


def layer_norm(x, gamma, beta, epsilon=1e-5):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.var(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + epsilon) * gamma + beta


def rope_by_halves(x, cos, sin):
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def attention_by_hand(q, k, v):
    """Attention with the axis of heads first, repeated keys, a mask of -inf, and softmax in f32."""
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


def cross_entropy_by_one_hot(logits, labels):
    hot = jax.nn.one_hot(labels, logits.shape[-1])
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits.astype(jnp.float32)) * hot, -1))


def cross_entropy_by_logsumexp(logits, labels):
    wide = logits.astype(jnp.float32)
    picked = jnp.take_along_axis(wide, labels[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(wide, -1) - picked)


def llama_params(key, dtype=jnp.float32, **options):
    return init(key, dtype, **options)


def llama(params, ids, rotate=rope, **options):
    return logits(params, ids, rotate=rotate, halves=rotate is rope_by_halves, **options)


def llama_loss(params, ids, labels, loss=cross_entropy, **options):
    return loss(llama(params, ids, **options), labels)


def gpt_params(key, dtype=jnp.float32, width=64):
    """Parameters whose weights are stored as [in, out]."""
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
