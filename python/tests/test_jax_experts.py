"""Mixtures of experts of JAX: a block of Flax, the spellings of their routing, and groups that are given."""

import functools
import re

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np
from conftest import RECIPES
from jax_compare import assert_close

import te_mlir
import te_mlir.jax

TOKENS, WIDTH, INNER, EXPERTS, K = 40, 32, 48, 8, 2


def normal(number, *shape):
    return np.random.default_rng(number).normal(size=shape).astype(np.float32)


def tokens():
    return np.abs(normal(0, TOKENS, WIDTH))


def parameters(dtype="float32"):
    """Experts 2 and 5 of 8 get no token of positive numbers."""
    router = normal(1, WIDTH, EXPERTS) / 4
    router -= router.mean(0)
    router[:, [2, 5]] -= 2
    shapes = {"gate": (WIDTH, INNER), "up": (WIDTH, INNER), "down": (INNER, WIDTH)}
    made = {name: normal(n, EXPERTS, *shape) / 8 for n, (name, shape) in enumerate(shapes.items())}
    return jax.tree.map(lambda a: jnp.asarray(a, dtype), made | {"router": router})


def stacks():
    """The parameters of experts that no router chooses."""
    return {name: value for name, value in parameters().items() if name != "router"}


def feed_forward(p, rows, sizes):
    gate, up = (jax.lax.ragged_dot(rows, p[name], sizes) for name in ("gate", "up"))
    return jax.lax.ragged_dot(jax.nn.silu(gate) * up, p["down"], sizes)


def of_axes(axis, groups=(0,)):
    """A product of rows, summed over an axis of the weights."""
    summed = ((1,), (axis,)) if groups else ((0,), (0,))
    numbers = jax.lax.RaggedDotDimensionNumbers((summed, ((), ())), (0,), groups)
    return functools.partial(jax.lax.ragged_dot_general, ragged_dot_dimension_numbers=numbers)


def fused(p, rows, sizes):
    """Both products of the rows are one, whose weights are stored as [experts, out, in]."""
    both = jnp.concatenate([p["gate"], p["up"]], 2).swapaxes(1, 2)
    gate, up = jnp.split(of_axes(2)(rows, both, sizes), 2, -1)
    return of_axes(1)(jax.nn.gelu(jnp.clip(gate, -7, 7), approximate=False) * (up + 1), p["down"], sizes)


def after_softmax(logits):
    return jax.lax.top_k(jax.nn.softmax(logits.astype(jnp.float32)), K)


def normalised(logits):
    scores, ids = after_softmax(logits)
    return scores / scores.sum(-1, keepdims=True), ids


def before_softmax(logits):
    scores, ids = jax.lax.top_k(logits.reshape(2, -1, EXPERTS), K)
    return jax.nn.softmax(scores.astype(jnp.float32)).astype(logits.dtype), ids


def by_sigmoid(logits):
    return jax.lax.top_k(jax.nn.sigmoid(logits), K)


SIZES = {
    "bincount": lambda ids, order: jnp.bincount(ids.ravel(), length=EXPERTS),
    "one-hot": lambda ids, order: jax.nn.one_hot(ids, EXPERTS, dtype=jnp.int32).sum(tuple(range(ids.ndim))),
    "equal": lambda ids, order: (ids.ravel()[:, None] == jnp.arange(EXPERTS)).sum(0),
    "sorted": lambda ids, order: jnp.bincount(ids.ravel()[order], length=EXPERTS),
}
LOOKUPS = {
    "take": lambda x, order: jnp.take(x, order // K, axis=0),
    "table": lambda x, order: x[jnp.repeat(jnp.arange(TOKENS), K)[order]],
    "repeat": lambda x, order: jnp.repeat(x, K, axis=0)[order],
}


def unsorted(y, weights, order):
    y = jnp.take(y, jnp.argsort(order), axis=0).reshape(TOKENS, K, WIDTH)
    return (y * weights.reshape(TOKENS, K, 1)).sum(1)


def by_einsum(y, weights, order, dtype=None):
    """As MaxText has it: the sum is computed in float32."""
    y = y[jnp.zeros_like(order).at[order].set(jnp.arange(TOKENS * K))].reshape(TOKENS, K, WIDTH)
    weights = weights.reshape(TOKENS, K)
    return jnp.einsum("tkd,tk->td", y.astype(jnp.float32), weights.astype(jnp.float32)).astype(dtype or y.dtype)


def added(y, weights, order):
    return jnp.zeros_like(y, shape=(TOKENS, WIDTH)).at[order // K].add(y * weights.ravel()[order][:, None])


def written(y, weights, order):
    y = jnp.zeros_like(y).at[order].set(y).reshape(TOKENS, K, WIDTH)
    return (y * weights[..., None]).sum(1)


def mixture(
    p, x, choose=normalised, sizes=SIZES["bincount"], lookup=LOOKUPS["take"], products=feed_forward, combine=unsorted
):
    weights, ids = choose(x @ p["router"])
    order = jnp.argsort(ids.ravel())
    return combine(products(p, lookup(x, order), sizes(ids, order)), weights, order)


def loss_of(function, *args):
    return jnp.square(function(*args)).mean()


def trained(function, *args, **options):
    """The loss and the gradients of the first two arguments, of JAX or, with options, of te."""
    loss = functools.partial(loss_of, function)
    made = te_mlir.jax.value_and_grad(loss, (0, 1), **options) if options else jax.value_and_grad(loss, (0, 1))
    return jax.jit(made)(*args)


def assert_trains(function, *args):
    compiled = trained(function, *args, recipe=te_mlir.HighPrecision())
    assert_close(compiled, trained(function, *args))


def grouped(compiled):
    """The rows of products of groups in the report of a compiled function."""
    return [row for row in compiled.report("precision").splitlines() if " grouped " in row]


def test_block_of_flax():
    """Gradients are those of JAX, with experts that get no token; in FP8, all products of experts are quantised."""
    nnx = pytest.importorskip("flax.nnx")

    class Block(nnx.Module):
        """A block of Qwen 3 MoE without its attention."""

        def __init__(self, p, rngs):
            self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)
            self.experts = nnx.data({name: nnx.Param(value) for name, value in p.items()})

        def __call__(self, x):
            h = self.norm(x).reshape(-1, WIDTH)
            return x + mixture({name: value[...] for name, value in self.experts.items()}, h).reshape(x.shape)

    graph, state = nnx.split(Block(parameters(), nnx.Rngs(0)))
    x = tokens().reshape(2, -1, WIDTH)
    _, ids = normalised(Block(parameters(), nnx.Rngs(0)).norm(x).reshape(-1, WIDTH) @ parameters()["router"])
    counts = np.bincount(np.ravel(ids), minlength=EXPERTS)
    assert list(np.flatnonzero(counts == 0)) == [2, 5] and len(set(counts)) > 3

    def block(state, x):
        return nnx.merge(graph, state)(x)

    assert_trains(block, state, x)
    recipe = te_mlir.Float8CurrentScaling()
    compiled = te_mlir.jax.compile(functools.partial(loss_of, block), (state, x), recipe=recipe)
    rows = grouped(compiled)
    assert len(rows) == 9 and all(row.count(" f8E4M3FN ") + row.count(" f8E5M2 ") == 2 for row in rows), rows
    assert [name for name in ("gate", "up", "down") if f"experts.{name}" not in "".join(rows)] == []


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe(name):
    """Products that a recipe leaves alone are those of its own backward in high precision."""
    compiled = te_mlir.jax.compile(
        mixture, (parameters("bfloat16"), jnp.asarray(tokens(), "bfloat16")), recipe=RECIPES[name]
    )
    rows = grouped(compiled)
    plain = [row for row in rows if row.count(" bf16 ") >= 3]
    assert len(rows) == 9 and len(plain) == {"high_precision": 9, "custom": 3, "custom_delayed": 3}.get(name, 0), rows


OTHERS = [
    dict(choose=before_softmax, sizes=SIZES["one-hot"], products=fused, combine=by_einsum),
    dict(choose=by_sigmoid, sizes=SIZES["equal"], lookup=LOOKUPS["table"], combine=added),
]


@pytest.mark.parametrize("how", OTHERS, ids=["einsum", "added"])
def test_gradients_of_other_spellings(how):
    assert_trains(functools.partial(mixture, **how), parameters(), tokens())


@pytest.mark.parametrize(
    "how",
    [dict(sizes=each) for each in SIZES.values()]
    + [dict(lookup=each) for each in LOOKUPS.values()]
    + [dict(choose=each) for each in (after_softmax, before_softmax, by_sigmoid)]
    + [dict(combine=each) for each in (by_einsum, added, written)],
)
def test_spellings_are_the_same_ops(how):
    text = te_mlir.jax.compile(functools.partial(mixture, **how), (parameters(), tokens())).text()
    assert [text.count(f"te.{name} ") for name in ("linear", "grouped_linear", "unpermute")] == [1, 3, 1]
    assert ("normalize" in text, "sigmoid" in text) == (
        how.get("choose") is before_softmax,
        how.get("choose") is by_sigmoid,
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_sums_are_rounded_once(dtype):
    """To the type of their readers, although the program multiplies and adds rows in float32."""

    def function(p, x):
        return mixture(p, x, choose=before_softmax, combine=lambda *of: by_einsum(*of, dtype))

    args = parameters("bfloat16"), jnp.asarray(tokens(), "bfloat16")
    text = te_mlir.jax.compile(function, args).text()
    (line,) = (line for line in text.splitlines() if "te.unpermute" in line)
    assert line.endswith({"bfloat16": f"{TOKENS}x{WIDTH}xbf16>", "float32": f"{TOKENS}x{WIDTH}xf32>"}[dtype])


def given(p, x, sizes):
    """The tokens are in the order of experts; the norm behind them is no op of rows."""
    y = feed_forward(p, x, sizes)
    return y * jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + 1)


def of_given_ids(p, x, ids):
    """Reads the rows in the order of experts, too."""
    order = jnp.argsort(ids.ravel())
    y = feed_forward(p, x[order // K], jnp.bincount(ids.ravel(), length=EXPERTS))
    return unsorted(y, jnp.ones_like(x[:, :K]), order) + jnp.cumsum(y, 0)[-1]


def test_groups_that_are_given():
    """Empty groups, and rows that no group has, which are zeros; the next call has other groups."""
    compiled = te_mlir.jax.value_and_grad(functools.partial(loss_of, given), (0, 1), recipe=te_mlir.HighPrecision())
    mine, theirs = jax.jit(compiled), jax.jit(jax.value_and_grad(functools.partial(loss_of, given), (0, 1)))
    for counts in ([10, 0, 3, 7, 0, 0, 4, 1], [0, 0, 0, 40, 0, 0, 0, 0]):
        args = stacks(), tokens(), jnp.array(counts)
        assert_close(mine(*args), theirs(*args))
    y = te_mlir.jax.jit(feed_forward)(stacks(), tokens(), jnp.array([10, 0, 3, 7, 0, 0, 4, 1]))
    assert jnp.abs(y[24]).max() > 0 and not jnp.any(y[25:])


def test_ids_that_are_given():
    ids = jnp.asarray(np.random.default_rng(7).integers(0, EXPERTS - 2, (TOKENS, K)))
    assert_trains(of_given_ids, stacks(), tokens(), ids)


def by_argsort(logits):
    scores = jax.nn.softmax(logits)
    return scores[:, :K], jnp.argsort(scores)[:, -K:]


def other_tokens(x, order):
    return x[order // (K + 1)]


def searched(ids, order):
    return jnp.diff(jnp.searchsorted(ids.ravel()[order], jnp.arange(EXPERTS + 1)))


def of_other_ids(ids, order):
    return jnp.bincount((ids.ravel() + 1) % EXPERTS, length=EXPERTS)


#: Sums of rows that are not those of tokens.
OTHER_SUMS = {
    "cumsum": lambda y, weights, order: jnp.cumsum(y, 0),
    "gather": lambda y, weights, order: unsorted(y, weights, jnp.argsort(order)),
    "scatter-add": lambda y, weights, order: jnp.zeros_like(y[:TOKENS]).at[order % TOKENS].add(y),
    "mul": lambda y, weights, order: jnp.zeros_like(y[:TOKENS]).at[order // K].add(y * weights.ravel()[:, None]),
}


@pytest.mark.parametrize(
    "how, message",
    [
        (dict(choose=by_argsort), "its experts are chosen from compiled values in another way"),
        *((dict(combine=sum_), f"{name}.*experts.py.*: it reads rows of experts") for name, sum_ in OTHER_SUMS.items()),
        (dict(lookup=other_tokens), "its rows are not those of tokens in the order of its groups"),
        (dict(sizes=searched), "its group sizes are computed from compiled values"),
        (dict(sizes=of_other_ids), "its group sizes are computed from compiled values"),
    ],
)
def test_other_routing_is_an_error(how, message):
    with pytest.raises(te_mlir.errors.ImportFailure, match=message) as failure:
        te_mlir.jax.compile(functools.partial(mixture, **how), (parameters(), tokens()))
    assert sum(bool(re.search(message, reason)) for reason in failure.value.reasons) == 1


SIZES_OF_GROUPS = np.array([10, 10, 10, 10, 0, 0, 0, 0])


@pytest.mark.parametrize(
    "function, message",
    [
        (
            lambda x, w: jax.lax.ragged_dot(x, w, SIZES_OF_GROUPS, preferred_element_type="float32"),
            "elements of one type",
        ),
        (lambda x, w: of_axes(0, ())(x, x, SIZES_OF_GROUPS) @ w[0], r"expected operands \[rows, in\]"),
    ],
)
def test_other_products_are_an_error(function, message):
    with pytest.raises(te_mlir.errors.ImportFailure, match=message):
        te_mlir.jax.compile(function, (jnp.asarray(tokens(), "bfloat16"), parameters("bfloat16")["up"]))


def test_weights_that_are_stored_as_the_op_needs_them():
    products = (of_axes(2), lambda x, w, sizes: jax.lax.ragged_dot(x, w.swapaxes(1, 2), sizes))
    for product in products:
        text = te_mlir.jax.compile(
            lambda x, w, f=product: f(x, w, SIZES_OF_GROUPS), (tokens(), parameters()["down"])
        ).text()
        assert f'tensor<{EXPERTS}x{INNER}x{WIDTH}xf32> {{te.name = "w", te.weight}}' in text
