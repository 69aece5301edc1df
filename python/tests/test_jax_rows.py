"""Numbers for each token of JAX programs (losses, log probabilities, entropies, z-losses), whose logits are never stored as a whole."""

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np
from jax_compare import compare

import te_mlir
import te_mlir.jax

BATCH, SEQUENCE, HIDDEN, VOCABULARY = 8, 128, 32, 2048
#: Bytes of the logits of 128 tokens in f32.
BUDGET = 128 * VOCABULARY * 4
#: Half of the bytes of the f32 logits of all tokens.
FEW = 2 * BATCH * SEQUENCE * VOCABULARY

log_softmax, logsumexp = jax.nn.log_softmax, jax.nn.logsumexp


def taken(values, labels):
    return jnp.take_along_axis(values, labels[..., None], -1)[..., 0]


def optax_rows(logits, labels):
    return pytest.importorskip("optax").softmax_cross_entropy_with_integer_labels(logits, labels)


def both(logits, labels):
    logp = log_softmax(logits)
    return taken(logp, labels), -(jnp.exp(logp) * logp).sum(-1)


def shifted(rows):
    return lambda h, t: rows(h[:, :-1], t[:, 1:])


#: What is computed of logits and labels.
ROWS = {
    "log-softmax": lambda h, t: taken(log_softmax(h), t),
    "logsumexp": lambda h, t: taken(h, t) - logsumexp(h, -1),
    "optax": optax_rows,
    "one-hot": lambda h, t: -(jax.nn.one_hot(t, VOCABULARY) * log_softmax(h)).sum(-1),
    "vmap": jax.vmap(jax.vmap(lambda row, label: -log_softmax(row)[label])),
    "entropy": lambda h, t: -(jax.nn.softmax(h) * log_softmax(h)).sum(-1),
    "both": both,
    "z-loss": lambda h, t: (logsumexp(h, -1) ** 2).mean(),
    "loss-and-z-loss": lambda h, t: optax_rows(h, t).mean() + 1e-4 * (logsumexp(h, -1) ** 2).mean(),
    "one-logsumexp": lambda h, t: (lambda z: (z - taken(h, t)).mean() + 1e-4 * (z**2).mean())(logsumexp(h, -1)),
    "masked-loss-and-entropy": lambda h, t: (
        jnp.where(t % 3 > 0, optax_rows(h, t), 0).sum() / jnp.maximum((t % 3 > 0).sum(), 1),
        -(jax.nn.softmax(h) * log_softmax(h)).sum(-1),
    ),
    "weighted": lambda h, t: (optax_rows(h, t) * jnp.linspace(0, 1, SEQUENCE)).mean(),
    "ratio": lambda h, t: jnp.minimum(jnp.exp(taken(log_softmax(h), t) + 7.6), 1.2).mean(),
    "temperature": lambda h, t: taken(log_softmax(h / 0.7), t),
    "softcap": lambda h, t: taken(log_softmax(30 * jnp.tanh(h / 30)), t),
    "shifted": shifted(lambda h, t: taken(log_softmax(h), t)),
    "shifted-entropy": shifted(both),
    "shifted-z-loss": shifted(lambda h, t: optax_rows(h, t).mean() + 1e-4 * (logsumexp(h, -1) ** 2).mean()),
    "shifted-float": shifted(lambda h, t: optax_rows(h.astype(jnp.float32) / 0.7, t)),
}


def arguments(dtype=np.float32):
    draw = np.random.default_rng(3)
    x, w = draw.normal(size=(BATCH, SEQUENCE, HIDDEN)), draw.normal(size=(HIDDEN, VOCABULARY)) / 4
    labels = draw.integers(0, VOCABULARY, (BATCH, SEQUENCE)).astype(np.int32)
    return jnp.asarray(x, dtype), jnp.asarray(w, dtype), labels


def of_head(rows):
    return lambda x, w, labels: rows(x @ w, labels)


def arena(lowered):
    (line,) = (line for line in lowered.report("memory").splitlines() if line.startswith("  arena"))
    return int(line.split()[1])


@pytest.mark.parametrize("rows", ROWS)
def test_gradients_are_those_of_jax_and_logits_are_not_stored(rows):
    options = dict(differentiate_outputs="all", logits_budget=BUDGET)
    lowered = compare(of_head(ROWS[rows]), *arguments(), **options)
    assert arena(lowered) < FEW


@pytest.mark.parametrize("read", [lambda h, t: h, lambda h, t: (h.argmax(-1) == t).mean()], ids=("logits", "hits"))
def test_logits_that_are_stored_keep_their_loss(read):
    """Nothing is gained from numbers of rows if the program returns the logits, or JAX computes integers of them."""

    def function(x, w, labels):
        logits = x @ w
        loss = optax_rows(logits, labels).mean() + 1e-4 * (logsumexp(logits, -1) ** 2).mean()
        return loss, read(logits, labels)

    assert "te.cross_entropy" in te_mlir.jax.compile(function, arguments()).text()


@pytest.mark.parametrize("recipe", [te_mlir.HighPrecision(), te_mlir.Float8BlockScaling()], ids=("bf16", "fp8"))
def test_whole_logits_have_the_same_bits(recipe):
    """Of what is computed by rows. Gradients of the head are added up in another order."""
    found = []
    for budget in (BUDGET // 2, 0):
        compiled = te_mlir.jax.jit(of_head(both), recipe=recipe, logits_budget=budget, differentiate_outputs="all")
        results, pull = jax.vjp(compiled, *arguments(jnp.bfloat16))
        dx, dw, _ = pull(jax.tree.map(jnp.ones_like, results))
        found.append([*results, dx, dw])
        assert (arena(compiled.lower(*arguments(jnp.bfloat16))) < FEW) == (budget > 0)
    for a, b in zip(found[0][:-1], found[1][:-1], strict=True):
        assert (a == b).all()
    a, b = (each[-1].astype(jnp.float32) for each in found)
    assert jnp.linalg.norm(a - b) <= 2.0**-8 * jnp.linalg.norm(b)
