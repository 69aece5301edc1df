"""Losses as JAX programs write them: means and sums of a cross entropy, with masks; and near misses."""

import random

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np
from jax_compare import compare

import te_mlir
import te_mlir.jax
from te_mlir.errors import ImportFailure

log_softmax, one_hot = jax.nn.log_softmax, jax.nn.one_hot


def optax(name, *args):
    return getattr(pytest.importorskip("optax"), name)(*args)


def taken(values, labels, **options):
    return jnp.take_along_axis(values, labels[..., None], -1, **options)


def of_rows(logits, labels):
    one = lambda row, label: -log_softmax(row)[label]  # noqa: E731
    for _ in labels.shape:
        one = jax.vmap(one)
    return one(logits, labels)


def by_number(logits, labels):
    matrix = logits.reshape(-1, logits.shape[-1])
    return -log_softmax(matrix)[jnp.arange(len(matrix)), labels.reshape(-1)].reshape(labels.shape)


#: Formulas for the cross entropy of each row.
ROWS = {
    "optax": lambda h, t: optax("softmax_cross_entropy_with_integer_labels", h, t),
    "optax-one-hot": lambda h, t: optax("softmax_cross_entropy", h, one_hot(t, h.shape[-1])),
    "taken": lambda h, t: -taken(log_softmax(h), t)[..., 0],
    "squeezed": lambda h, t: -taken(log_softmax(h, -1), t).squeeze(-1),
    "taken-of-negative": lambda h, t: taken(-log_softmax(h), t)[..., 0],
    "clamped": lambda h, t: -taken(log_softmax(h), t, mode="clip")[..., 0],
    "logsumexp": lambda h, t: jax.nn.logsumexp(h, -1) - taken(h, t)[..., 0],
    "one-hot": lambda h, t: -(one_hot(t, h.shape[-1]) * log_softmax(h)).sum(-1),
    "minus-one-hot": lambda h, t: jax.nn.logsumexp(h, -1) - (h * one_hot(t, h.shape[-1])).sum(-1),
    "vmap": of_rows,
    "by-number": by_number,
}
#: Formulas for the loss, from the rows and a mask.
WHOLE = {
    "mean": lambda nll, m: nll.mean(),
    "mean-of-means": lambda nll, m: nll.mean(-1).mean(),
    "sum": lambda nll, m: nll.sum(),
    "sum-by-batch": lambda nll, m: nll.sum() / nll.shape[0],
    "masked": lambda nll, m: (nll * m).sum() / m.sum(),
    "masked-twice": lambda nll, m: (nll * m * (jnp.cumsum(m, -1) > 1)).sum() / m.sum(),
    "masked-columns": lambda nll, m: (nll[..., None] * m[..., None]).sum() / m.sum(),
    "masked-sequences": lambda nll, m: (nll * m[:1]).sum() / jnp.maximum(m[:1].sum(), 1),
    "masked-by-place": lambda nll, m: (nll * (jnp.arange(nll.shape[-1]) < 3)).mean(),
    "max": lambda nll, m: -(-nll * m.astype(jnp.float32)).sum() / jnp.maximum(m.astype(jnp.float32).sum(), 1.0),
    "clip": lambda nll, m: jnp.where(m, nll, 0).sum() / m.sum().clip(1),
    "epsilon": lambda nll, m: jnp.where(~m, 0.0, nll).sum() / (m.sum() + 1e-3),
    "average": lambda nll, m: jnp.average(nll, weights=m),
    "mean-where": lambda nll, m: jnp.mean(nll, where=m),
    "count-nonzero": lambda nll, m: (nll * m).sum() / jnp.count_nonzero(m),
    "masked-sum": lambda nll, m: 0.5 * (nll * m).sum(),
    "by-all": lambda nll, m: (nll * m).mean(),
    "by-others": lambda nll, m: (nll * m).sum() / (~m).sum(),
    "not-below": lambda nll, m: (nll * m).sum() / jnp.maximum(m.sum(), 50),
    "rounded-count": lambda nll, m: (nll * m).sum() / m.astype(jnp.bfloat16).sum().astype(jnp.float32),
}
#: Slices and permutations of the rows.
VIEWS = {
    "whole": lambda a: a,
    "shifted": lambda a: a[:, 1:] if a.ndim == 2 else a[:, :-1],
    "first": lambda a: a[:1],
    "turned": lambda a: a.swapaxes(0, 1),
    "regrouped": lambda a: a.reshape(*a.shape[:-1], 2, -1).reshape(a.shape),
    "flat": lambda a: a.reshape(-1, *a.shape[2:]),
    "shifted-flat": lambda a: VIEWS["flat"](VIEWS["shifted"](a)),
}


def arguments(classes=32, batch=4, sequence=12, seed=0):
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(batch, sequence, 16)), rng.normal(size=(16, classes))
    labels, mask = rng.integers(0, classes, (batch, sequence)), rng.random((batch, sequence)) < 0.6
    return x.astype(np.float32), w.astype(np.float32), labels.astype(np.int32), mask


def check(rows, whole, view=lambda a: a, inputs=None):
    def loss(x, w, labels, mask):
        return whole(rows(view(x @ w), view(labels)), view(mask))

    return compare(loss, *(inputs or arguments()))


@pytest.mark.parametrize("rows", ROWS)
def test_the_cross_entropy_of_rows(rows):
    """Each formula of the rows becomes one operation if labels mask the mean."""
    x, w, labels, mask = arguments()
    labels = np.where(mask, labels, -100)

    def loss(x, w, labels):
        seen = labels != -100
        nll = ROWS[rows](x @ w, jnp.where(seen, labels, 0))
        return (nll * seen).sum() / jnp.maximum(seen.sum(), 1)

    text = compare(loss, x, w, labels).text()
    assert text.count("te.cross_entropy") == 1
    # If one-hot labels are out of range, their rows of zeros count in JAX's mean, so a multiplication corrects te's
    # mean.
    assert ("mulf" in text) == (rows in ("one-hot", "optax-one-hot"))


@pytest.mark.parametrize("whole", WHOLE)
def test_what_is_made_of_a_cross_entropy(whole):
    text = check(ROWS["optax"], WHOLE[whole]).text()
    assert text.count("te.cross_entropy") == 1
    if whole in ("mean", "mean-of-means", "masked", "masked-columns", "max", "clip", "average", "mean-where"):
        assert "arith." not in text


@pytest.mark.parametrize("seed", range(8))
def test_random_losses(seed):
    pick = random.Random(seed).choice
    rows, whole, view = pick(list(ROWS)), pick(list(WHOLE)), pick(list(VIEWS))
    inputs = arguments(*pick([(32, 4, 12), (64, 2, 8), (8, 8, 8), (16, 2, 16)]), seed=seed)
    if "flat" in view and whole in ("masked-sequences", "mean-of-means"):
        view = "turned"
    text = check(ROWS[rows], WHOLE[whole], VIEWS[view], inputs).text()
    assert text.count("te.cross_entropy") == 1


def test_sums_over_rows_and_classes_at_once():
    for weigh in (lambda p, m: p, lambda p, m: p * m[..., None], lambda p, m: m[..., None].astype(jnp.float32) * p):
        function = lambda x, w, t, m: -weigh(log_softmax(x @ w) * one_hot(t, 32), m).sum() / m.sum()  # noqa: B023, E731
        assert "te.cross_entropy" in compare(function, *arguments()).text()


def test_labels_beyond_the_classes():
    """With one-hot labels out of range, a mean counts rows of zeros.

    Gathers clamp to the last class; negative labels count back.
    """
    x, w, labels, mask = arguments()
    # Each two of these values occur together.
    for turn, value in enumerate((32, -3, -33)):
        beyond = np.where(mask, labels, value).astype(np.int32)
        for rows, whole in zip(
            ("one-hot", "optax-one-hot", "clamped"), ("mean", "masked", "sum", "mean", "masked")[turn:]
        ):
            check(ROWS[rows], WHOLE[whole], inputs=(x, w, beyond, labels > 9))
    check(ROWS["taken"], WHOLE["mean"], inputs=(x, w, np.where(mask, labels, -3).astype(np.int32), mask))
    # The type of the labels cannot represent -100.
    check(ROWS["taken"], WHOLE["clip"], inputs=(x, np.repeat(w, 8, 1), labels.astype(np.uint8), mask))


def test_no_row_counts():
    x, w, labels, mask = arguments()
    for whole in ("max", "by-all"):
        function = lambda x, w, m: WHOLE[whole](ROWS["optax"](x @ w, labels), m)  # noqa: B023, E731
        assert te_mlir.jax.jit(function)(x, w, mask & False) == 0


def test_counts_of_tokens_are_results_too():
    """A sum, for a trainer that divides by the number of tokens in all micro-batches."""

    def function(w, x, labels, mask):
        return (ROWS["optax"](x @ w, labels) * mask).sum(), mask.sum()

    x, w, labels, mask = arguments()
    step = jax.value_and_grad(te_mlir.jax.jit(function), has_aux=True)
    (total, count), gradient = step(w, x, labels, mask)
    (wanted, wanted_count), theirs = jax.value_and_grad(function, has_aux=True)(w, x, labels, mask)
    assert count == wanted_count and abs(total - wanted) < 1e-5 * wanted
    assert jnp.linalg.norm(gradient - theirs) < 1e-5 * jnp.linalg.norm(theirs)


X, W = arguments()[0][0], arguments(12)[1]
LABELS = np.arange(12, dtype=np.int32) * 5 % 12


def nll(h, t):
    return -taken(log_softmax(h), t)[..., 0]


#: Functions of [12, 12] logits and [12] labels.
NEAR = {
    "mask-of-rows-for-one-hot": lambda h, t: -(log_softmax(h) * (t[:, None] == 0)).sum(-1).mean(),
    "classes-from-one": lambda h, t: -(log_softmax(h) * (t[:, None] == jnp.arange(12) + 1)).sum(-1).mean(),
    "classes-reversed": lambda h, t: -(log_softmax(h) * (t[:, None] == jnp.arange(12)[::-1])).sum(-1).mean(),
    "classes-up-to": lambda h, t: -(log_softmax(h) * (t[:, None] >= jnp.arange(12))).sum(-1).mean(),
    "one-hot-turned": lambda h, t: -(log_softmax(h) * one_hot(t, 12).T).sum(-1).mean(),
    "labels-of-columns": lambda h, t: -(log_softmax(h) * (t[None] == jnp.arange(12)[:, None])).sum(-1).mean(),
    "labels-between-classes": lambda h, t: -(log_softmax(h) * one_hot(t + 0.5, 12)).sum(-1).mean() + h.mean(),
    "smoothed": lambda h, t: -(log_softmax(h) * (one_hot(t, 12) * 0.9 + 0.1 / 12)).sum(-1).mean(),
    "sum-of-columns": lambda h, t: -(log_softmax(h) * one_hot(t, 12)).sum(0).max(),
    "softmax-of-columns": lambda h, t: -taken(log_softmax(h, 0), t).mean(),
    "logsumexp-of-columns": lambda h, t: (jax.nn.logsumexp(h, 0) - taken(h, t)[:, 0]).mean(),
    "squared-probabilities": lambda h, t: (log_softmax(h) ** 2 * one_hot(t, 12)).sum(-1).mean(),
    "squared-rows": lambda h, t: (nll(h, t) ** 2).mean(),
    "weighted-rows": lambda h, t: (nll(h, t) * jnp.linspace(0, 1, 12)).mean(),
    "weighted-by-integers": lambda h, t: (nll(h, t) * (t % 3)).sum() / (t % 3).sum(),
    "weighted-by-masks-added": lambda h, t: (nll(h, t) * (1 + (t > 3))).mean(),
    "weighted-by-an-argument": lambda h, t: (nll(h, t) * h[:, 0]).mean(),
    "ones-for-others": lambda h, t: jnp.where(t > 3, nll(h, t), 1.0).mean(),
    "the-same-rows": lambda h, t: (jnp.broadcast_to(nll(h, t)[:1], (12,)) * (t > 3)).sum(),
    "repeated-by-a-mask": lambda h, t: (nll(h, t)[:, None] * (t[None] > 3)).mean(),
    "each-sequence-by-its-count": lambda h, t: (
        (nll(h, t) * (t > 3)).reshape(3, 4).sum(-1) / (t > 3).reshape(3, 4).sum(-1)
    ).mean(),
    "sequences-masked": lambda h, t: (nll(h, t).reshape(3, 4).sum(-1) * (t[:3] > 3)).sum(),
    "rows-in-another-order": lambda h, t: -log_softmax(h)[jnp.arange(12)[::-1], t].mean(),
    "one-row": lambda h, t: -log_softmax(h)[jnp.zeros(12, int), t].mean(),
    "rows-for-classes": lambda h, t: -log_softmax(h)[t, jnp.arange(12)].mean(),
    "one-class": lambda h, t: -log_softmax(h)[:, 3].mean(),
    "one-label": lambda h, t: -log_softmax(h)[:, t[0]].mean(),
    "zeros-for-others": lambda h, t: -taken(log_softmax(h), t, mode="fill", fill_value=0).mean(),
    "another-temperature": lambda h, t: (jax.nn.logsumexp(h * 2, -1) - taken(h, t)[:, 0]).mean(),
    "logarithm-of-a-mean": lambda h, t: -jnp.log(taken(jax.nn.softmax(h), t)).mean(),
    "divided-by-a-value": lambda h, t: nll(h, t).sum() / jnp.abs(h).sum(),
    "largest-row": lambda h, t: nll(h, t).max(),
    "rows": nll,
    # The following are imported.
    "mask-and-another-count": lambda h, t: (nll(h, t) * (t > 3)).sum() / (t > 5).sum(),
    "mask-moved": lambda h, t: (nll(h, t) * jnp.roll(t > 5, 1)).sum() / (t > 5).sum(),
    "mask-turned": lambda h, t: (nll(h, t).reshape(3, 4) * (t > 5).reshape(4, 3).T).sum() / (t > 5).sum(),
    "mask-inverted": lambda h, t: jnp.where(t > 5, 0.0, nll(h, t)).sum() / (t > 5).sum(),
    "count-of-a-part": lambda h, t: (nll(h, t) * (t > 5)).sum() / (t > 5)[:6].sum(),
    "at-most-one": lambda h, t: (nll(h, t) * (t > 5)).sum() / jnp.minimum((t > 5).sum(), 1),
    "at-least-two": lambda h, t: (nll(h, t) * (t > 10)).sum() / jnp.maximum((t > 10).sum(), 2),
    "count-beside": lambda h, t: (nll(h, t) * (t > 5)).sum() / ((t > 5).sum() + 1),
    "labels-turned": lambda h, t: nll(h, jax.lax.reshape(t.reshape(3, 4), (12,), (1, 0))).mean(),
    "in-bits": lambda h, t: nll(h, t).mean() / np.log(2),
    "perplexity": lambda h, t: jnp.exp(nll(h, t).mean()),
    "likelihood": lambda h, t: -nll(h, t).mean(),
    "product-of-two": lambda h, t: nll(h, t).mean() * nll(h, t[::-1]).sum(),
    "cooled": lambda h, t: nll(h / 2, t).mean(),
}
HAS = [name for name in list(NEAR)[list(NEAR).index("mask-and-another-count") :] if name != "product-of-two"]
REFUSED = [
    "weighted-by-integers",
    "weighted-by-masks-added",
    "each-sequence-by-its-count",
    "rows-in-another-order",
    "one-row",
    "rows-for-classes",
    "one-label",
    "zeros-for-others",
]


@pytest.mark.parametrize("name", NEAR)
def test_what_is_nearly_a_loss(name):
    """The function is rejected, or has JAX's values and gradients, as a loss or as the operations that it consists of."""
    function = lambda x, w, t: NEAR[name](x @ w, t)  # noqa: E731
    if name in REFUSED:
        with pytest.raises(ImportFailure):
            te_mlir.jax.compile(function, (X, W, LABELS))
        return
    assert ("te.cross_entropy" in compare(function, X, W, LABELS).text()) == (name in HAS)


def test_weights_of_rows():
    def function(x, w, t, weights):
        return (nll(x @ w, t) * weights).sum() / weights.sum()

    compare(function, X, W, LABELS, np.linspace(0.5, 1.5, 12, dtype=np.float32))


def test_labels_that_are_no_classes():
    """JAX fills in NaN, or clamps the label; a one-hot row of zeros gives 0."""
    labels = np.array([0, 11, 12, -1, -13, 3] * 2, np.int32)
    shift = np.float32(0.5)
    rows = {
        "filled": lambda h, t: taken(log_softmax(h), t)[..., 0] + shift,
        "clamped": lambda h, t: taken(log_softmax(h), t, mode="clip")[..., 0] + shift,
        "one-hot": lambda h, t: (log_softmax(h) * one_hot(t, 12)).sum(-1) + shift,
    }
    for name, function in rows.items():
        mine, theirs = (f(X, W, labels) for f in _jitted(lambda x, w, t: function(x @ w, t)))  # noqa: B023
        assert np.isnan(theirs).any() == (name == "filled")
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def _jitted(function):
    return te_mlir.jax.jit(function), jax.jit(function)


def test_weights_that_are_constants():
    """JAX does not compute a loss whose only arguments are integers; te does."""
    compiled = te_mlir.jax.compile(lambda t: nll(jnp.asarray(X)[t] @ W, t).mean(), (LABELS,))
    assert abs(compiled(LABELS) - nll(X[LABELS] @ W, LABELS).mean()) < 1e-5


def test_reshapes_that_transpose():
    """`lax.reshape(dimensions=)` of a compiled value and of labels."""
    function = lambda x, w: jax.lax.reshape(x @ w, (4, 36), (1, 0)) * 2  # noqa: E731
    compare(function, X, W)


def test_slices_at_known_places():
    """Gathers and dynamic slices at constant indices, which are clamped if they are out of range."""
    for function in (
        lambda h: h.take(3, axis=0),
        lambda h: jax.lax.dynamic_slice(h, (9, 0), (8, 12)),
        lambda h: jax.lax.dynamic_index_in_dim(h, 2, 0),
        lambda h: h.take(jnp.array(-1), axis=0),
    ):
        compare(lambda x, w: function(x @ w), X, W)  # noqa: B023
