"""Modules of Equinox and Flax, and layers as they write them: under vmap, with biases and gains of several ranks."""

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np
from jax_compare import assert_close, compare, leaves

import te_mlir
import te_mlir.jax
from te_mlir.errors import ImportFailure


def normal(number, *shape):
    return np.random.default_rng(number).normal(size=shape).astype(np.float32)


X, W, B, G = normal(0, 2, 16, 64), normal(1, 32, 64) / 8, normal(2, 32), normal(3, 64)
IDS = np.random.default_rng(4).integers(0, 50, (2, 16))


def of_tokens(function):
    return jax.vmap(jax.vmap(function))


@pytest.mark.parametrize("given", [lambda x: x, jnp.tanh], ids=["argument", "computed"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: of_tokens(lambda v: w @ v + b)(x),
        lambda x, w, b: of_tokens(lambda v: b + v @ w.T)(x),
        lambda x, w, b: jax.vmap(lambda v: w @ v + b)(x.reshape(32, 64)),
        lambda x, w, b: jax.vmap(lambda s: s @ w.T + b)(x),
        lambda x, w, b: jnp.einsum("bsd,hed->bshe", x, w.reshape(4, 8, 64)) + b.reshape(4, 8),
        lambda x, w, b: jnp.einsum("bsd,hed->bhse", x, w.reshape(4, 8, 64)) + b.reshape(4, 1, 8),
    ],
    ids=["vectors", "rows", "one-axis", "sequences", "heads", "heads-first"],
)
def test_layers_of_vectors(given, function, request):
    if request.node.callspec.id == "heads-first-argument":
        pytest.skip("of two arguments the second is the weight")
    text = compare(lambda x, w, b: function(given(x), w, b), X, W, B).text()
    assert text.count("te.linear") == 1 and text.count(" bias %") == 1 and "bias_add" not in text


def test_layers_of_vectors_one_after_another():
    def model(x, w, v, b):
        return of_tokens(lambda t: w.T @ jax.nn.relu(w @ t + b) + v)(x)

    text = compare(model, X, W, G, B).text()
    assert text.count("te.linear") == 2 and text.count(" bias %") == 2 and text.count("te.activation") == 1


def rows_of_ids(table, ids):
    return of_tokens(lambda n: table[n])(ids)


def statistics(x):
    """(Mean, variance) as Flax computes them: the variance is the mean of squares minus the squared mean."""
    mean = x.mean(-1)
    return mean[..., None], jnp.maximum(0.0, jnp.square(x).mean(-1) - jnp.square(mean))[..., None]


def layer_norm(x, gamma, beta):
    mean, variance = statistics(x)
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * gamma) + beta


def rms_norm(x, gamma):
    squares = jnp.square(x).mean(-1)
    return (x - jnp.zeros((2, 16))[..., None]) * (jax.lax.rsqrt(squares[..., None] + 1e-5) * gamma.reshape(1, 1, 64))


def test_norms_and_tables_as_modules_have_them():
    compare(lambda x, w, g, h: of_tokens(lambda v: w @ v)(layer_norm(x, g, h)), X, W, G, G[::-1].copy())
    compare(lambda x, w, g: of_tokens(lambda v: w @ v)(rms_norm(x, g)), X, W, G)
    compare(lambda t, w: of_tokens(lambda v: w @ v)(rows_of_ids(t, jnp.asarray(IDS))), normal(5, 50, 64), W)
    # Indices out of range are clamped, as for a single index of a row; negative indices count back.
    beyond = jnp.asarray(np.where(IDS % 3 == 0, IDS + 40, -IDS))
    compare(lambda t, w: of_tokens(lambda v: w @ v)(rows_of_ids(t, beyond)), normal(5, 50, 64), W)
    compiled = te_mlir.jax.jit(lambda t, w, n: of_tokens(lambda v: w @ v)(rows_of_ids(t, n)))
    wanted = rows_of_ids(jnp.asarray(normal(5, 50, 64)), beyond) @ W.T
    assert jnp.linalg.norm(compiled(normal(5, 50, 64), W, beyond) - wanted) < 1e-5 * jnp.linalg.norm(wanted)


def numbered(dimension, column):
    """Gathers rows of a table by pairs of a row and a column."""
    numbers = jax.lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))

    def function(table, ids):
        pairs = jnp.concatenate([ids, jnp.full_like(ids, column)], dimension)
        mode = jax.lax.GatherScatterMode.CLIP
        return jax.lax.gather(table, pairs, numbers, (1, table.shape[1] - (column > 0)), mode=mode)[:, 0]

    return function


def test_rows_by_pairs():
    table, ids = normal(5, 50, 64), jnp.array([[3], [60]])
    compiled = te_mlir.jax.jit(lambda t, n, w: numbered(1, 0)(t, n) @ w.T)
    wanted = numbered(1, 0)(table, ids) @ W.T
    assert jnp.linalg.norm(compiled(table, ids, W) - wanted) < 1e-5 * jnp.linalg.norm(wanted)
    for function, given in ((numbered(1, 1), ids), (numbered(0, 0), ids.T)):
        with pytest.raises(ImportFailure, match="only gathers of whole rows of a matrix"):
            te_mlir.jax.compile(lambda t, n: function(t, n) @ W.T[: 64 - (len(n) > 1)], (table, given))  # noqa: B023


#: Functions of x [2, 16, 64] and gains [64].
NEAR = {
    "gain-over-the-root": lambda x, g: (x - statistics(x)[0]) * (g / jnp.sqrt(statistics(x)[1] + 1e-5)) + g,
    "root-twice": lambda x, g: x * (jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) ** 2 * g),
    "root-of-another": lambda x, g: x * (jax.lax.rsqrt(jnp.square(x - 1).mean(-1, keepdims=True) + 1e-5) * g),
    "root-of-columns": lambda x, g: x * (jax.lax.rsqrt(jnp.square(x).mean(1, keepdims=True) + 1e-5) * g),
    "less-one": lambda x, g: (x - 1) * (jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * g),
    "variance-plus-square": lambda x, g: (
        (x - x.mean(-1, keepdims=True))
        * (jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + jnp.square(x.mean(-1, keepdims=True)) + 1e-5) * g)
        + g
    ),
    "gain-of-tokens": lambda x, g: (
        x * (jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * g[:16].reshape(1, 16, 1))
    ),
}


@pytest.mark.parametrize("name", NEAR)
def test_what_is_nearly_a_norm(name):
    text = compare(lambda x, g, w: NEAR[name](jnp.tanh(x), g) @ w.T, X, G, W).text()
    assert "_norm " not in text and "linalg.reduce" in text


SQUARE = [normal(6, 16, 16), normal(7, 16, 16) / 4, normal(8, 16)]
#: Whether the GEMM is imported with a bias; None if either is allowed.
BIASED = {
    "vectors": (lambda x, w, b: jax.vmap(lambda v: w @ v + b)(x), True),
    "columns": (lambda x, w, b: jax.vmap(lambda v: w @ v + b, in_axes=1)(x), None),
    "turned-weight": (lambda x, w, b: jax.vmap(lambda v: w.T @ v + b)(x), True),
    "turned-product": (lambda x, w, b: (w @ x).T + b, None),
    "of-rows": (lambda x, w, b: w @ x + b[:, None], None),
    "out-as-columns": (lambda x, w, b: jax.vmap(lambda v: w @ v + b, out_axes=1)(x), None),
    "rows": (lambda x, w, b: x @ w + b, True),
    "turned-rows": (lambda x, w, b: (x @ w).T + b, None),
    "reshaped": (lambda x, w, b: (x @ w).reshape(4, 4, 16) + b, True),
    "heads": (lambda x, w, b: (x @ w).reshape(2, 8, 4, 4) + b.reshape(4, 4), True),
    "heads-turned": (lambda x, w, b: (x @ w).reshape(2, 8, 4, 4) + b.reshape(4, 4).T, False),
    "each-head": (lambda x, w, b: (x @ w).reshape(2, 8, 4, 4) + b[:4], False),
    "reversed": (lambda x, w, b: x @ w + b[::-1], True),
    "matrix": (lambda x, w, b: x @ w + w, False),
    "row-of-a-matrix": (lambda x, w, b: x @ w + w[0] * 1, None),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("given", [lambda x: x, jnp.tanh], ids=["argument", "computed"])
def test_what_a_bias_is_added_to(name, given):
    """Values and gradients are JAX's if the function is imported.

    The sizes of axes are equal, so that shapes do not identify axes.
    """
    function, fused = BIASED[name]
    whole = lambda x, w, *b: function(given(x), w, *(b or [None]))  # noqa: E731
    try:
        text = compare(whole, *SQUARE[: 2 if "matrix" in name else 3], differentiate_outputs="all").text()
    except ImportFailure as failure:
        assert not fused and ("broadcast" in str(failure) or "row-major" in str(failure))
        return
    assert fused is None or (" bias %" in text) == fused


def test_masks_of_several_sequences():
    """A mask for each sequence of the batch is te.attention if all are equal; with different masks it is products."""
    seen = np.broadcast_to(np.tri(16, dtype=bool), (2, 1, 16, 16))

    def function(mask):
        def attend(x, w):
            q, k, v = ((x @ w[n]).reshape(2, 16, 4, 16) for n in range(3))
            return jax.nn.dot_product_attention(q, k, v, mask=jnp.asarray(mask))

        return attend

    w = normal(5, 3, 64, 64) / 8
    text = compare(function(seen), X, w).text()
    assert "causal" in text and text.count("te.attention") == 1
    other = seen.copy()
    other[1, 0, 5, 2] = False
    text = compare(function(other), X, w).text()
    assert text.count("te.grouped_linear") == 2 and "te.attention" not in text


# Modules of the libraries


def moved(tree):
    """Perturbs parameters, so that initial zeros and ones are not special."""
    return jax.tree.map(
        lambda a: (
            a + 0.1 * jax.random.normal(jax.random.key(a.size), a.shape).astype(a.dtype)
            if hasattr(a, "dtype") and jnp.issubdtype(a.dtype, jnp.floating)
            else a
        ),
        tree,
    )


EQUINOX = {
    "mlp": lambda e, k: (e.nn.MLP(64, 32, 128, 2, key=k), of_tokens),
    "gelu-mlp": lambda e, k: (e.nn.MLP(64, 32, 128, 1, activation=jax.nn.gelu, key=k), of_tokens),
    "layer-norm": lambda e, k: (e.nn.Sequential([e.nn.LayerNorm(64), e.nn.Linear(64, 32, key=k)]), of_tokens),
    "rms-norm": lambda e, k: (e.nn.Sequential([e.nn.RMSNorm(64), e.nn.Linear(64, 32, key=k)]), of_tokens),
    "embedding": lambda e, k: (e.nn.Sequential([e.nn.Embedding(50, 64, key=k), e.nn.Linear(64, 32, key=k)]), of_tokens),
    "attention": lambda e, k: (Attends(e.nn.MultiheadAttention(4, 64, key=k)), jax.vmap),
}


@jax.tree_util.register_pytree_node_class
class Attends:
    """Causal attention on one sequence, as a function of a module for queries, keys and values."""

    def __init__(self, module):
        self.module = module

    def __call__(self, s):
        return self.module(s, s, s, mask=jnp.tril(jnp.ones((len(s), len(s)), bool)))

    def tree_flatten(self):
        return (self.module,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@pytest.mark.parametrize("name", EQUINOX)
def test_equinox(name):
    equinox = pytest.importorskip("equinox")
    module, mapped = EQUINOX[name](equinox, jax.random.key(0))
    arrays, static = equinox.partition(moved(module), equinox.is_array)
    data = IDS if name == "embedding" else X
    text = compare_modules(lambda arrays, data: mapped(equinox.combine(arrays, static))(data), arrays, data)
    assert all(text.count(f"te.{op}") == count for op, count in OPS[name].items())


OPS = {
    "mlp": {"linear": 3, "activation": 2, "bias_add": 0},
    "gelu-mlp": {"linear": 2, "activation": 1, "bias_add": 0},
    "layer-norm": {"linear": 1, "layer_norm": 1},
    "rms-norm": {"linear": 1, "rms_norm": 1},
    "embedding": {"linear": 1, "embedding": 1},
    "attention": {"linear": 4, "attention": 1},
}

FLAX = {
    "mlp": lambda nn: nn.Sequential([nn.Dense(128), nn.gelu, nn.Dense(64), nn.relu, nn.Dense(32)]),
    "layer-norm": lambda nn: nn.Sequential([nn.LayerNorm(), nn.Dense(32)]),
    "rms-norm": lambda nn: nn.Sequential([nn.RMSNorm(), nn.Dense(32)]),
    "embedding": lambda nn: nn.Sequential([nn.Embed(50, 64), nn.Dense(32)]),
    "attention": lambda nn: nn.MultiHeadDotProductAttention(4),
}


@pytest.mark.parametrize("name", FLAX)
def test_flax_linen(name):
    pytest.importorskip("flax")
    import flax.linen as nn

    module, data = FLAX[name](nn), jnp.asarray(IDS if name == "embedding" else X)
    options = {"mask": nn.make_causal_mask(jnp.ones((2, 16)))} if name == "attention" else {}
    text = compare_modules(
        lambda p, data: module.apply(p, data, **options), moved(module.init(jax.random.key(0), data)), data
    )
    assert all(text.count(f"te.{op}") == count for op, count in OPS[name].items())


NNX = {
    "mlp": lambda n, r: n.Sequential(
        n.Linear(64, 96, rngs=r), n.gelu, n.Linear(96, 64, rngs=r), n.relu, n.Linear(64, 32, rngs=r)
    ),
    "layer-norm": lambda n, r: n.Sequential(n.LayerNorm(64, rngs=r), n.Linear(64, 32, rngs=r)),
    "rms-norm": lambda n, r: n.Sequential(n.RMSNorm(64, rngs=r), n.Linear(64, 32, rngs=r)),
    "embedding": lambda n, r: n.Sequential(n.Embed(50, 64, rngs=r), n.Linear(64, 32, rngs=r)),
    "attention": lambda n, r: n.MultiHeadAttention(4, 64, decode=False, rngs=r),
}


@pytest.mark.parametrize("name", NNX)
def test_flax_nnx(name):
    pytest.importorskip("flax")
    from flax import nnx

    graph, state = nnx.split(NNX[name](nnx, nnx.Rngs(0)))
    options = {"mask": nnx.make_causal_mask(jnp.ones((2, 16)))} if name == "attention" else {}
    data = jnp.asarray(IDS if name == "embedding" else X)
    text = compare_modules(lambda state, data: nnx.merge(graph, state)(data, **options), moved(state), data)
    assert all(text.count(f"te.{op}") == count for op, count in OPS[name].items())


@pytest.mark.parametrize("kind", ["linen", "nnx"])
def test_dropout_of_flax(kind):
    """JAX computes the zeros of a key before the call, so that they are its own; those of te.dropout would be others."""
    pytest.importorskip("flax")
    from flax import linen, nnx

    if kind == "linen":
        module = linen.Sequential([linen.Dense(64), linen.Dropout(0.5, deterministic=False), linen.Dense(32)])
        state = module.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, jnp.asarray(X))
        apply = lambda state, x, key: module.apply(state, x, rngs={"dropout": key})
    else:
        rngs = nnx.Rngs(0)
        layers = nnx.Linear(64, 64, rngs=rngs), nnx.Linear(64, 32, rngs=rngs)
        graph, state = nnx.split(layers)

        def apply(state, x, key):
            first, last = nnx.merge(graph, state)
            return last(nnx.Dropout(0.5)(first(x), rngs=nnx.Rngs(dropout=key)))

    compiled = te_mlir.jax.jit(lambda *args: (apply(*args) ** 2).sum())
    for key in (jax.random.key(5), jax.random.key(6)):
        wanted = jax.grad(lambda state, key=key: (apply(state, X, key) ** 2).sum())(state)
        assert_close(jax.grad(compiled)(state, X, key), wanted)


def compare_modules(function, parameters, data):
    """Like `compare`, but skips gradients that are 0 except for rounding.

    These are the gradients of values that add one number to all scores of a query.
    """
    compiled = te_mlir.jax.jit(function, differentiate_outputs="all")
    data = jnp.asarray(data)

    def both(function, parameters):
        y, pull = jax.vjp(lambda p: function(p, data), parameters)
        return y, pull(jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape))

    got, wanted = (leaves(jax.jit(both, static_argnums=0)(f, parameters)) for f in (compiled, function))
    assert len(got) == len(wanted) > 2
    largest = max(float(jnp.linalg.norm(b)) for b in wanted)
    for a, b in zip(got, wanted):
        assert jnp.linalg.norm(a - b) < max(1e-5 * jnp.linalg.norm(b), 1e-6 * largest)
    return compiled.lower(parameters, data).text()
