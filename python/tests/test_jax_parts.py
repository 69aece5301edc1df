"""Fused layers whose columns are read in parts: queries, keys and values, or gates with the values that they gate."""

import random

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np
from jax_compare import compare

import te_mlir
import te_mlir.jax


def normal(number, *shape):
    return (np.random.default_rng(number).normal(size=shape) / shape[0] ** 0.5).astype(np.float32)


X, W3, W2, DOWN = normal(0, 2, 16, 64) * 4, normal(1, 64, 192), normal(2, 64, 128), normal(3, 64, 64)
HEADS = 4


def heads(a):
    return a.reshape(2, 16, -1, 16)


def attend(q, k, v):
    return jax.nn.dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)


def turned(q, k, v):
    """Attention with the axis of heads before that of the sequence."""
    seen = jnp.tril(jnp.ones((16, 16), bool))
    scores = jnp.where(seen, q @ k.swapaxes(-1, -2) / 4, -1e30)
    return (jax.nn.softmax(scores, -1) @ v).swapaxes(1, 2)


def rotated(a):
    angles = np.arange(16)[:, None] / 10 ** np.arange(8.0)
    cos, sin = (f(angles)[None, :, None].astype(np.float32) for f in (np.cos, np.sin))
    a = heads(a)
    return jnp.concatenate([a[..., :8] * cos - a[..., 8:] * sin, a[..., 8:] * cos + a[..., :8] * sin], -1)


def slices(h):
    return [h[..., n * 64 : n * 64 + 64] for n in range(3)]


#: Functions of X and a weight.
FUSED = {
    "split": (lambda x, w: attend(*jnp.split(x @ w, 3, -1)), W3),
    "slices": (lambda x, w: attend(*slices(x @ w)), W3),
    "bias": (lambda x, w: attend(*jnp.split(x @ w[:64] + w[64], 3, -1)), normal(4, 65, 192)),
    "out-in": (lambda x, w: attend(*jnp.split(x @ w.T, 3, -1)), W3.T.copy()),
    "another-order": (lambda x, w: (lambda v, q, k: attend(q, k, v))(*jnp.split(x @ w, 3, -1)), W3),
    "index": (lambda x, w: (lambda h: attend(h[:, :, 0], h[:, :, 1], h[:, :, 2]))((x @ w).reshape(2, 16, 3, 64)), W3),
    "of-each-head": (lambda x, w: attend(*jnp.split((x @ w).reshape(2, 16, HEADS, 48), 3, -1)), W3),
    "unpacked": (lambda x, w: turned(*(x @ w).reshape(2, 16, 3, HEADS, 16).transpose(2, 0, 3, 1, 4)), W3),
    "einsum": (lambda x, w: attend(*jnp.einsum("bsd,tdhe->tbshe", x, w)), W3.reshape(3, 64, 4, 16)),
    "groups": (lambda x, w: attend(*jnp.split(x @ w[:, :128], [64, 96], -1)), W3),
    "keys-and-values": (lambda x, w: attend(x @ w[:, :64], *jnp.split(x @ w[:, 64:], 2, -1)), W3),
    "rotated": (lambda x, w: (lambda q, k, v: attend(rotated(q), rotated(k), v))(*jnp.split(x @ w, 3, -1)), W3),
    "scaled": (lambda x, w: (lambda q, k, v: attend(q * 0.3, k, v))(*jnp.split(x @ w, 3, -1)), W3),
}


@pytest.mark.parametrize("name", FUSED)
def test_queries_keys_and_values_of_one_product(name):
    function, w = FUSED[name]
    text = compare(lambda x, w: function(jnp.tanh(x), w), X, w).text()
    assert text.count("te.linear") == 3
    assert text.count("te.attention") == 1


def gated(activation, first=0):
    def function(x, w, down):
        halves = jnp.split(x @ w, 2, -1)
        return activation(halves[first]) * halves[1 - first] @ down

    return function


#: Gated activations that `te.activation` reads as one tensor of both halves.
WHOLE = {
    "swiglu": gated(jax.nn.silu),
    "geglu": gated(jax.nn.gelu),
    "reglu": gated(jax.nn.relu),
    "times": lambda x, w, down: (lambda a, b: b * jax.nn.silu(a))(*jnp.split(x @ w, 2, -1)) @ down,
    "bias": lambda x, w, down: (lambda a, b: jax.nn.silu(a) * b)(*jnp.split(x @ w + w[0], 2, -1)) @ down,
    "index": lambda x, w, down: (
        (lambda h: jax.nn.silu(h[..., 0, :]) * h[..., 1, :])((x @ w).reshape(2, 16, 2, 64)) @ down
    ),
    "result": lambda x, w, down: (lambda a, b: (jax.nn.silu(a) * b @ down, b))(*jnp.split(x @ w, 2, -1)),
}
#: Gated activations that become two separate GEMMs.
APART = {
    "second-first": gated(jax.nn.silu, 1),
    "glu": lambda x, w, down: jax.nn.glu(x @ w) @ down,
    "pairs": lambda x, w, down: (lambda h: jax.nn.silu(h[..., 0]) * h[..., 1])((x @ w).reshape(2, 16, 64, 2)) @ down,
    "used-again": lambda x, w, down: (lambda a, b: jax.nn.silu(a) * b @ down + b)(*jnp.split(x @ w, 2, -1)),
    "overlapping": lambda x, w, down: (lambda h: jax.nn.silu(h[..., :64]) * h[..., 32:96])(x @ w) @ down,
    "reversed-overlap": lambda x, w, down: (lambda h: jax.nn.silu(h[..., 64:]) * h[..., 63:127])(x @ w) @ down,
    "part-of-a-part": lambda x, w, down: (
        (lambda a, b: jax.nn.silu(a) * b[..., :48])(*jnp.split(x @ w, [48], -1)) @ down[:48]
    ),
    "the-same-half": lambda x, w, down: (lambda h: jax.nn.silu(h[..., :64]) * h[..., :64])(x @ w) @ down,
    "of-another-product": lambda x, w, down: (
        (lambda h, g: jax.nn.silu(h[..., :64]) * g[..., 64:])(x @ w, x @ w[::-1]) @ down
    ),
}


@pytest.mark.parametrize("name", [*WHOLE, *APART])
def test_halves_that_are_gated(name):
    function = lambda x, w, down: {**WHOLE, **APART}[name](jnp.tanh(x), w, down)  # noqa: E731
    text = compare(function, X, W2, DOWN, differentiate_outputs="all").text()
    one = name in WHOLE
    assert text.count("te.linear") == (2 if one else 3)
    assert (", %" in text.split("glu> ")[1].split(" : ")[0]) != one


@pytest.mark.parametrize(
    "function",
    [
        lambda h, w: jax.nn.silu(h[:1]) * h[1:],
        lambda h, w: jax.nn.silu(h[:, :8]) * h[:, 8:],
        lambda h, w: jax.nn.silu(h[..., ::2]) * h[..., 1::2],
        lambda h, w: jnp.tanh(h[..., 8:40].reshape(2, 16, 2, 16)[..., 4:12]),
        lambda h, w: jax.nn.silu(h[..., :64]) * h[..., 64:] + h.sum(),
    ],
    ids=["batches", "tokens", "strides", "runs", "sum"],
)
def test_parts_that_are_no_runs_of_columns(function):
    """They are slices of one layer, except for every second column, which is a layer."""
    text = compare(lambda x, w: function(jnp.tanh(x) @ w, w), X, W2, differentiate_outputs="all").text()
    assert text.count("te.linear") == 2 or "tensor.extract_slice" in text or "linalg.reduce" in text


@pytest.mark.parametrize("seed", range(6))
def test_random_parts(seed):
    """Reshapes, transposes, slices and indices of a layer's result, where each part is read by another operation."""
    rng = random.Random(seed)
    sizes = rng.choice([[4, 6, 8], [8, 24], [2, 3, 4, 8], [192], [3, 64]])

    def cut(h, plan):
        h = h.reshape(32, *sizes)
        if together:
            return h[(slice(None), *(slice(first, first + count) for first, count in plan))]
        for axis, (first, count) in enumerate(plan, 1):
            h = jax.lax.slice_in_dim(h, first, first + count, axis=axis)
        return h

    def part():
        plan = []
        for size in sizes:
            count = rng.randint(1, size)
            plan.append((rng.randint(0, size - count), count) if rng.random() < 0.6 else (0, size))
        # A slice of the whole value would not be a part, so draw again.
        return plan if any(count < size for (_, count), size in zip(plan, sizes)) else part()

    plans = [part() for _ in range(3)]
    columns = [int(np.prod([count for _, count in plan])) for plan in plans]
    orders = [rng.random() < 0.5 for _ in plans]
    bias, together = rng.random() < 0.5, rng.random() < 0.5

    def function(x, w, *others):
        h = jnp.tanh(x).reshape(32, 64) @ w
        h = h + w[0] if bias else h
        parts = [jnp.tanh(cut(h, plan)) for plan in plans]
        parts = [(a.T.T if turn else a).reshape(32, -1) for a, turn in zip(parts, orders)]
        return sum(a @ other for a, other in zip(parts, others))

    others = [normal(n, count, 8) for n, count in enumerate(columns)]
    compare(function, X, W3, *others)


def test_parts_of_a_weight_are_weights():
    """Casts of parts are cached, reports name the parts, and the gradient is one array, also with a recipe."""
    loss = lambda w, x: attend(*jnp.split(jnp.tanh(x) @ w.astype(jnp.bfloat16), 3, -1))  # noqa: E731
    x = X.astype(jnp.bfloat16)
    compiled = te_mlir.jax.jit(loss, recipe=te_mlir.Float8CurrentScaling())
    gradient, wanted = (jax.vjp(f, W3, x)[1](jnp.ones((2, 16, 4, 16), jnp.bfloat16))[0] for f in (compiled, loss))
    assert gradient.shape == W3.shape and gradient.dtype == jnp.float32
    assert jnp.linalg.norm(gradient - wanted) < 0.2 * jnp.linalg.norm(wanted)
    assert "w.64:128" in compiled.lower(W3, x).report("precision")
    cached = te_mlir.jax.jit(loss, recipe=te_mlir.Float8BlockScaling(), cache_weights=True).lower(W3, x)
    assert {name.split(".")[1] for name in cached.init_state()} == {"0:64", "64:128", "128:192"}
