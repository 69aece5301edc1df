"""Attention in JAX functions: with a window, with capped scores, and with sinks."""

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np
from jax_compare import compare

import te_mlir.jax


@pytest.mark.sampled
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("left", [1, 2, 5, 14, 15, 40])
def test_attention_under_a_window(left, causal):
    """A window on the left, or on both sides if a causal mask hides the right one.

    A window as long as the sequence has no effect.
    """

    def function(x, wq, wkv):
        q, kv = (x @ wq).reshape(2, 16, 4, 16), (x @ wkv).reshape(2, 16, 2, 16)
        window = (left, 3) if causal else (left, 0)
        return jax.nn.dot_product_attention(q, kv, kv, is_causal=causal, local_window_size=window)

    keys = jax.random.split(jax.random.key(2), 3)
    x, wq, wkv = (jax.random.normal(key, shape) for key, shape in zip(keys, ((32, 64), (64, 64), (64, 32))))
    text = compare(function, x, wq / 8, wkv / 8).text()
    assert text.count("te.attention") == 1 and "causal" in text
    assert (f"window_size = array<i64: {left}, 0>" in text) == (left < 15)


@pytest.mark.parametrize("deterministic", [False, True])
def test_the_order_of_gradients_is_an_option(deterministic):
    def function(x, w):
        q = (x @ w).reshape(2, 16, 4, 16)
        return jax.nn.dot_product_attention(q, q, q, is_causal=True)

    types = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((32, 64), (64, 64))]
    text = te_mlir.jax.compile(function, types, deterministic=deterministic, platform="cpu").text()
    assert text.count("te.attention") == 1 and ("deterministic = false" in text) != deterministic


CAUSAL = np.tri(16, dtype=bool)


def by_hand(weigh):
    """Attention of 16 tokens, whose softmax is applied to `weigh(scores)`."""

    def function(x, wq, wkv):
        q, kv = (x @ wq).reshape(2, 16, 4, 16), (x @ wkv).reshape(2, 16, 2, 16)
        kv = jnp.repeat(kv, 2, axis=2)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, kv)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(weigh(scores, wq[0, 0]), -1), kv)

    keys = jax.random.split(jax.random.key(2), 3)
    x, wq, wkv = (jax.random.normal(key, shape) for key, shape in zip(keys, ((32, 64), (64, 64), (64, 32))))
    return function, x, wq / 8, wkv / 8


def test_attention_of_values_of_another_width():
    def function(x, wq, wk, wv):
        q, k, v = ((x @ w).reshape(2, 16, heads, -1) for w, heads in ((wq, 4), (wk, 4), (wv, 4)))
        scores = jnp.where(CAUSAL, jnp.einsum("bqhd,bkhd->bhqk", q, k), -jnp.inf)
        return jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(scores, -1), v).reshape(32, -1)

    keys = jax.random.split(jax.random.key(4), 4)
    x, *w = (jax.random.normal(key, shape) / 4 for key, shape in zip(keys, ((32, 64), (64, 96), (64, 96), (64, 64))))
    text = compare(function, x, *w).text()
    assert text.count("te.attention") == 1 and "tensor<32x64xf32> -> tensor<32x64xf32>" in text


@pytest.mark.parametrize("cap", [0.5, 2.0, 50.0])
@pytest.mark.parametrize(
    "weigh",
    [
        lambda s, cap: jnp.where(CAUSAL, jnp.tanh(s / 3 / cap) * cap, -jnp.inf),
        lambda s, cap: cap * jnp.tanh(s * (1 / 3) / cap) + jnp.where(CAUSAL, 0.0, -1e30),
    ],
    ids=["where", "added"],
)
def test_attention_with_capped_scores(weigh, cap):
    text = compare(*by_hand(lambda s, _: weigh(s, cap))).text()
    assert text.count("te.attention") == 1 and f"softcap = {cap} : f32" in text and "math.tanh" not in text
    assert "scale = 0.3333" in text and "causal" in text


def assert_products(function, *args):
    """Checks that attention is compiled as two products, with JAX's results and gradients."""
    text = compare(function, *args).text()
    assert text.count("te.grouped_linear") == 2 and "te.attention" not in text


@pytest.mark.parametrize(
    "weigh",
    [
        lambda s, n: jnp.tanh(s / 2) * 3,
        lambda s, n: jnp.tanh(jnp.where(CAUSAL, s, -1e30) / 2) * 2,
        lambda s, n: jnp.tanh((s + jnp.where(CAUSAL, 0.0, -1e30)) / 2) * 2,
        lambda s, n: jnp.tanh(s / 2) * 2 * 0.3,
        lambda s, n: jnp.tanh(jnp.tanh(s / 2) * 2 / 3) * 3,
        lambda s, n: jnp.tanh(s * 2) * 2,
        lambda s, n: jnp.tanh(s / -2) * -2,
        lambda s, n: jnp.tanh(s / 2) / 2,
    ],
)
def test_scores_that_are_capped_otherwise_are_products(weigh):
    assert_products(*by_hand(weigh))


# Attention sinks


def sunk(weigh, grouped=False):
    """Attention of 16 tokens with the weights `weigh(scores, sinks)`, where sinks has one number for each head."""

    def function(x, wq, wkv, sinks):
        q, kv = (x @ wq).reshape(2, 16, 2, 2, 16), (x @ wkv).reshape(2, 16, 2, 16)
        if grouped:
            scores, n = jnp.einsum("bqgrd,bkgd->bgrqk", q, kv), sinks.reshape(1, 2, 2, 1, 1)
            return jnp.einsum("bgrqk,bkgd->bqgrd", weigh(scores / 3, n), kv)
        kv = jnp.repeat(kv, 2, axis=2)
        scores, n = jnp.einsum("bqhd,bkhd->bhqk", q.reshape(2, 16, 4, 16), kv), sinks.reshape(1, 4, 1, 1)
        return jnp.einsum("bhqk,bkhd->bqhd", weigh(scores / 3, n), kv)

    keys = jax.random.split(jax.random.key(2), 4)
    shapes = (32, 64), (64, 64), (64, 32), (4,)
    x, wq, wkv, sinks = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes))
    return function, x, wq / 8, wkv / 8, sinks


def beside(s, n):
    """Concatenates a column of sinks to the scores."""
    return jnp.concatenate([s, jnp.broadcast_to(n, s.shape[:-1] + (1,))], -1)


def without_last(joined):
    return jax.nn.softmax(joined, axis=-1)[..., :-1]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    "weigh",
    [
        lambda s, n: without_last(beside(s, n)),
        lambda s, n: without_last(beside(jnp.where(CAUSAL, s, -1e30), n)),
        lambda s, n: without_last(beside(jnp.where(CAUSAL, jnp.tanh(s / 2) * 2, -jnp.inf), n)),
        lambda s, n: without_last(beside(s, 0.0)),
    ],
    ids=["plain", "causal", "capped", "off-by-one"],
)
def test_attention_with_sinks(weigh, grouped, request):
    which = request.node.callspec.id
    function, *args = sunk(weigh, grouped)
    if "off-by-one" in which:
        function, args = (lambda f: lambda x, wq, wkv: f(x, wq, wkv, jnp.zeros(4)))(function), args[:3]
    text = compare(function, *args).text()
    assert text.count("te.attention") == 1 and " sinks %" in text
    assert ("causal" in text, "softcap = 2.0" in text) == ("causal" in which or "capped" in which, "capped" in which)


@pytest.mark.parametrize(
    "weigh",
    [
        lambda s, n: jax.nn.softmax(jnp.concatenate([jnp.broadcast_to(n, (2, 4, 16, 1)), s], -1), -1)[..., 1:],
        lambda s, n: jax.nn.softmax(beside(s, n), -1)[..., 1:],
        lambda s, n: jax.nn.softmax(beside(beside(s, n), n), -1)[..., :-2],
        lambda s, n: without_last(beside(s, n)) * 2,
    ],
    ids=["before", "with-the-sink", "two", "scaled"],
)
def test_what_are_nearly_sinks_is_products(weigh):
    assert_products(*sunk(weigh))


def test_sinks_of_positions_are_products():
    assert_products(*sunk(lambda s, n: without_last(beside(s, jnp.tile(n, (2, 4, 4, 1)).reshape(2, 4, 16, 1)))))


def test_a_softmax_of_another_axis_is_products():
    assert_products(*sunk(lambda s, n: jax.nn.softmax(s * n, -2)))
