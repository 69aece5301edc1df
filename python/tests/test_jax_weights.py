"""Weights of JAX functions: cast, reshaped, stored as [in, out], and named in reports."""

import functools

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import jax_models as models
import numpy as np
from jax_compare import batch, compare

import te_mlir
import te_mlir.jax


def test_report_names_layers_by_parameters():
    params = models.llama_params(jax.random.key(0), jnp.bfloat16)
    compiled = te_mlir.jax.compile(
        models.llama_loss, (params, *batch()), recipe=te_mlir.Float8CurrentScaling(), strict=True
    )
    ledger = compiled.report("precision")
    rows = [line.split() for line in ledger.splitlines() if line.split()[:1] in (["fprop"], ["dgrad"], ["wgrad"])]
    assert len(rows) == 24 and all("f8E4M3FN" in row or "f8E5M2" in row for row in rows)
    assert any(row[1] == "params.layers.0.down" for row in rows)


def _normed(x, gamma):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(x.dtype) * gamma


@pytest.mark.parametrize(
    "of, shape, dtype",
    [
        (lambda w: w.astype(jnp.bfloat16), (64, 96), jnp.float32),
        (lambda w: w.T.astype(jnp.bfloat16), (96, 64), jnp.float32),
        (lambda w: w.astype(jnp.bfloat16).T, (96, 64), jnp.float32),
        (lambda w: w.reshape(64, 96), (64, 3, 32), jnp.bfloat16),
        (lambda w: w.reshape(96, 64).T, (96 * 64,), jnp.bfloat16),
        (lambda w: w.astype(jnp.bfloat16).reshape(64, 96), (64, 3, 32), jnp.float32),
        (lambda w: w.astype(jnp.bfloat16)[1], (2, 64, 96), jnp.float32),
    ],
    ids=["cast", "turned-cast", "cast-turned", "reshaped", "flat", "cast-reshaped", "stacked"],
)
def test_weights_that_are_cast_or_viewed_are_weights(of, shape, dtype):
    """Casts are saved, reports list the values as weights, and the bits are those of a matrix argument."""
    x, dy = (jax.random.normal(jax.random.key(n), (32, m), jnp.bfloat16) for n, m in ((0, 64), (1, 96)))
    w = jax.random.normal(jax.random.key(2), shape, jnp.float32).astype(dtype)
    recipe = te_mlir.Float8BlockScaling()

    cached = te_mlir.jax.jit(lambda x, w: x @ of(w), recipe=recipe, cache_weights=True).lower(x, w)
    assert any(name.startswith("w.") for name in cached.init_state())
    given = cached.report("capture").split("given to a replay")[1].splitlines()
    assert [line.split()[-1] for line in given if line.split()[:1] in (["x"], ["grad.result0"])] == ["input"] * 2
    assert [line.split()[0].split(".")[0] for line in given if line.split()[-1:] == ["weight"]] == ["w"]

    y, pull = jax.vjp(te_mlir.jax.jit(lambda x, w: x @ of(w), recipe=recipe), x, w)
    wanted, pull_wanted = jax.vjp(te_mlir.jax.jit(lambda x, w: x @ w, recipe=recipe), x, of(w))
    (dx, dw), (wanted_dx, dmatrix) = pull(dy), pull_wanted(dy)
    (wanted_dw,) = jax.vjp(of, w)[1](dmatrix)
    for one, other in ((y, wanted), (dx, wanted_dx), (dw, wanted_dw)):
        assert one.dtype == other.dtype and np.any(one) and np.array_equal(one, other)


def test_gains_and_tables_that_are_cast_are_weights():
    def model(ids, table, gamma, w):
        return _normed(table.astype(jnp.bfloat16)[ids], gamma.astype(jnp.bfloat16)) @ w.astype(jnp.bfloat16)

    shapes = [jax.ShapeDtypeStruct((32,), jnp.int32)]
    shapes += [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((128, 64), (64,), (64, 96))]
    given = te_mlir.jax.compile(model, shapes).report("capture").splitlines()
    assert {line.split()[0] for line in given if line.split()[-1:] == ["weight"]} == {"table", "gamma", "w"}


def test_gradients_of_an_argument_that_is_two_weights_are_added_up():
    normal = functools.partial(jax.random.normal, jax.random.key(0))
    compiled = compare(lambda w, x: x @ w.reshape(32, 64) @ w.reshape(64, 32), normal((2048,)), normal((8, 32)))
    assert compiled.text().count("te.weight") == 2 * 2


def _flat(params, x):
    """Layers with weights of several shapes: [in, out], [in, heads, width] with a cast, and [heads, width, out]."""
    wide = x @ params["in"]
    heads = jnp.einsum("ri,ihw->rhw", wide, params["heads"].astype(x.dtype))
    return jnp.einsum("rhw,hwo->ro", heads, params["out"])


@pytest.mark.parametrize(
    "recipe",
    [
        te_mlir.HighPrecision(),
        te_mlir.Float8CurrentScaling(),
        te_mlir.Float8BlockScaling(),
        te_mlir.MXFP8BlockScaling(),
    ],
    ids=lambda recipe: recipe.kind(),
)
def test_weights_in_out_are_not_transposed(recipe):
    """Results and gradients have the bits of the same layers with weights [out, in]."""
    normal = lambda n, *shape: jax.random.normal(jax.random.key(n), shape, jnp.bfloat16)  # noqa: E731
    params = {"in": normal(0, 64, 96), "heads": normal(1, 96, 2, 32).astype(jnp.float32), "out": normal(2, 2, 32, 64)}
    x, dy = normal(3, 32, 64), normal(4, 32, 64)

    back = {"in": (1, 0), "heads": (2, 0, 1), "out": (1, 2, 0)}
    flipped = {
        "in": params["in"].T,
        "heads": params["heads"].transpose(1, 2, 0),
        "out": params["out"].transpose(2, 0, 1),
    }

    def turned(params, x):
        """The same function with transposed weights, which GEMMs read as [out, in]."""
        return _flat({name: w.transpose(back[name]) for name, w in params.items()}, x)

    found = []
    for function, weights in ((_flat, params), (turned, flipped)):
        compiled = te_mlir.jax.jit(function, recipe=recipe)
        text = compiled.lower(weights, x).text()
        assert text.count("te.linear") == 3 and text.count("transposed_weight") == (3 if function is _flat else 0)
        y, pull = jax.vjp(compiled, weights, x)
        found.append((y, *pull(dy)))
    (y, mine, dx), (wanted_y, theirs, wanted_dx) = found
    pairs = [(y, wanted_y), (dx, wanted_dx), *((mine[name], theirs[name].transpose(back[name])) for name in back)]
    for one, other in pairs:
        assert one.shape == other.shape and np.any(one) and np.array_equal(one, other)
