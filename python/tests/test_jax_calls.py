"""Calls of a compiled JAX function: arguments, several results, and errors."""

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import jax_models as models
import numpy as np
from jax_compare import assert_close, batch, leaves, llama_params

import te_mlir
import te_mlir.jax
from te_mlir.errors import ArgumentError


def test_outputs_beside_the_loss():
    """JAX computes integer results from compiled values. A gradient through them, or through logits, is an error."""
    params, (ids, labels) = llama_params(), batch()

    def function(params):
        logits = models.llama(params, ids)
        hits = jnp.argmax(logits, -1) == labels
        return models.cross_entropy(logits, labels), (logits, hits, ids)

    compiled = te_mlir.jax.jit(function)
    (loss, (logits, hits, same)), gradients = jax.value_and_grad(compiled, has_aux=True)(params)
    (wanted, (wanted_logits, wanted_hits, _)), theirs = jax.jit(jax.value_and_grad(function, has_aux=True))(params)
    assert_close((loss, logits, gradients), (wanted, wanted_logits, theirs))
    assert (hits == wanted_hits).all() and hits.dtype == bool and (same == ids).all()
    with pytest.raises(ArgumentError, match="differentiate_outputs='all'"):
        jax.grad(lambda params: compiled(params)[1][0].sum())(params)
    both = te_mlir.jax.value_and_grad(function)
    (again, _), mine = both(params)
    assert again == loss and all((a == b).all() for a, b in zip(leaves(mine), leaves(gradients)))


def test_argnums_and_argument_errors():
    params, x = models.gpt_params(jax.random.key(0)), jax.random.normal(jax.random.key(1), (16, 64))

    def loss(params, x):
        y = models.gpt(params, x)
        return models.cross_entropy(y, jnp.arange(16))

    wanted = jax.jit(jax.value_and_grad(loss, argnums=(1, 0)))(params, x)
    assert_close(te_mlir.jax.value_and_grad(loss, argnums=(1, 0))(params, x), wanted)
    compiled = te_mlir.jax.compile(loss, (params, x))
    with pytest.raises(ArgumentError, match=r"argument 'params.up.w': expected shape \[64, 256\], but got \[64, 64\]"):
        compiled({**params, "up": {**params["up"], "w": jnp.ones((64, 64))}}, x)
    with pytest.raises(ArgumentError, match="argument 'x': expected elements of float32, but got bfloat16"):
        compiled(params, x.astype(jnp.bfloat16))
    with pytest.raises(ArgumentError, match="expected arguments like .* but got no 'params.* more, and 'params', 'x."):
        compiled(x, params)
    with pytest.raises(ArgumentError, match="argument 'x': expected an array, but got float; .* functools.partial"):
        te_mlir.jax.jit(loss)(params, 1.0)
    graded = te_mlir.jax.value_and_grad(loss, argnums=(-1, -2))
    assert_close(graded(params, x=x), wanted)
    dot = lambda w, x: jnp.dot(x[0] @ w, x[1])  # noqa: E731
    for function in (dot, lambda w, x: (dot(w, x), x @ w)):
        mine = te_mlir.jax.value_and_grad(function)(x.T @ x, x)
        assert_close(mine, jax.value_and_grad(function, has_aux=function is not dot)(x.T @ x, x))
    for shaped in (lambda loss: loss[None], lambda loss: jnp.broadcast_to(loss, (5,))):
        with pytest.raises(ArgumentError, match="one scalar result, but got 0"):
            te_mlir.jax.value_and_grad(lambda *args: shaped(loss(*args)))(params, x)
    for argnums, message in (
        ((2,), "to have indices of 2 arguments, but got 2"),
        ("x", "'argnums' to have indices of 2 arguments, but got 'x'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            te_mlir.jax.value_and_grad(loss, argnums=argnums)(params, x)


def _product(x, w, labels=None):
    y = x @ w
    return y if labels is None else models.cross_entropy(y, labels)


def test_calls_that_do_not_fit_are_told():
    x, w, labels = jnp.ones((16, 32)), jax.random.normal(jax.random.key(0), (32, 64)), jnp.arange(16)
    delayed = te_mlir.jax.jit(_product, recipe=te_mlir.DelayedScaling())
    compiled = te_mlir.jax.compile(_product, (x, w))
    assert_close(compiled(x, w=w), x @ w)
    assert_close(te_mlir.jax.jit(_product)(w=w, x=x), x @ w)
    assert_close(te_mlir.jax.jit(lambda x, labels=None, w=None: x @ w)(x, w=w), x @ w)
    calls = [
        (lambda: compiled(x), ArgumentError, "expected arguments like .*, but got no 'w'"),
        (lambda: compiled(x, w, labels), ArgumentError, "but got 'labels', which they did not have"),
        (lambda: compiled(x, None), ArgumentError, "but got no 'w'"),
        (lambda: compiled(x, w, y=w), TypeError, "unexpected keyword argument 'y'"),
        (lambda: te_mlir.jax.jit(lambda *, x, w: x @ w)(x=x, w=w), TypeError, "got keyword-only 'x', 'w'"),
        (lambda: te_mlir.jax.jit(x), ArgumentError, "expected a function of JAX arrays, but got ArrayImpl"),
        (lambda: te_mlir.jax.compile(_product, x), ArgumentError, "expected 'example_args' to be a list"),
        (
            lambda: te_mlir.jax.value_and_grad(_product, 2)(x, w, labels),
            ArgumentError,
            "but 'labels' has elements of int32",
        ),
        (lambda: delayed(x, w, state=[1]), ArgumentError, "expected a dict of arrays, but got list"),
    ]
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()


def test_defaults_that_are_no_arrays():
    """A default value before an argument that is passed by name becomes a part of the compiled function."""
    x, w = jnp.ones((16, 32)), jax.random.normal(jax.random.key(0), (32, 16))

    function = lambda x, scale=0.5, act=jax.nn.relu, extra=None, w=None: act(x @ w) * scale  # noqa: E731
    compiled = te_mlir.jax.jit(function)
    for _ in range(2):
        assert_close(compiled(x, w=w), function(x, w=w))
    assert len(compiled.compiled) == 1
    loss = lambda x, mean=True, w=None: _product(x, w, jnp.arange(16)) if mean else None  # noqa: E731
    for argnums in (0, 2):
        graded = te_mlir.jax.value_and_grad(loss, argnums)(x, w=w)
        assert_close(graded, jax.value_and_grad(loss, argnums)(x, True, w))
    with pytest.raises(ArgumentError, match="argument 'scale': expected an array, but got float"):
        compiled(x, 0.5, w=w)


def test_compiled_functions_inside_of_others_are_told():
    x, w = jnp.ones((16, 32)), jax.random.normal(jax.random.key(0), (32, 16))
    product = te_mlir.jax.jit(_product)
    compiled, both = (
        te_mlir.jax.compile(_product, (x, w)),
        te_mlir.jax.value_and_grad(lambda x, w: _product(x, w).sum()),
    )
    for inner in (product, compiled, both):
        with pytest.raises(ArgumentError, match="expected a function that te compiles not to be called in another"):
            te_mlir.jax.jit(lambda x, w: inner(x, w))(x, w)  # noqa: B023
    with pytest.raises(ArgumentError, match="expected a compiled program not to be called in a function to compile"):
        te_mlir.jax.jit(lambda x, w: compiled.function(x, w)["result0"])(x, w)
    outer = te_mlir.jax.jit(lambda x, w: product.__wrapped__(x, w) * 2)
    assert_close(outer(x, w), 2 * (x @ w))
    # Under jax.jit, the results are the same.
    assert_close(jax.jit(lambda x, w: product(x, w) * 2)(x, w), 2 * (x @ w))


def test_arrays_of_other_libraries():
    """64-bit types of NumPy become 32-bit types, as in jax.jit; other types are errors."""
    x, w, labels = np.ones((16, 32)), np.random.default_rng(0).normal(size=(32, 64)), np.arange(16)
    assert (x.dtype, labels.dtype) == (np.float64, np.int64)
    jitted = te_mlir.jax.jit(_product)
    assert_close(jitted(x, w, labels), _product(*map(jnp.asarray, (x, w, labels))))
    assert_close(jitted(jnp.asarray(x), w, jnp.asarray(labels)), jitted(x, w, labels))
    assert len(jitted.compiled) == 1
    with pytest.raises(ArgumentError, match="argument 'labels': expected elements of int32, but got float32"):
        jitted.lower(x, w, labels)(x, w, labels.astype(np.float64))

    class Foreign:
        shape, dtype = (32, 64), "no type"

    for called in (te_mlir.jax.compile(_product, (x, w)), jitted):
        with pytest.raises(ArgumentError, match="argument 'w': expected an array, but got Foreign"):
            called(x, Foreign())


def test_what_jax_says_of_a_function_names_it():
    """JAX's errors for a branch on a value, and for a leaked tracer, name the user's function and argument."""
    x, w = jnp.ones((16, 32)), jnp.ones((32, 64))
    kept = []

    def branches(x, w):
        return x @ w if x.sum() > 0 else x

    def leaks(x, w):
        kept.append(x)
        return x @ w

    where = r"branches at .*test_jax_calls.py:[\s\S]* argument x"
    with pytest.raises(jax.errors.TracerBoolConversionError, match=where):
        te_mlir.jax.jit(branches)(x, w)
    te_mlir.jax.jit(leaks)(x, w)
    with pytest.raises(jax.errors.UnexpectedTracerError, match=r"leaks at .*test_jax_calls.py:"):
        kept[0] + 1


def test_a_number_without_a_gradient_is_no_loss():
    """A stopped number beside a result that is no number takes no gradient away, and one beside the loss is ignored."""
    x, w = jnp.linspace(-1, 1, 512).reshape(16, 32), jnp.linspace(-1, 1, 1024).reshape(32, 32)

    def layer(w, x):
        y = x @ w
        return y, jnp.abs(jax.lax.stop_gradient(y)).max()

    def loss(w, x):
        y, largest = layer(w, x)
        return (y**2).mean(), largest

    compiled = te_mlir.jax.jit(layer)
    mine = jax.grad(lambda w: (compiled(w, x)[0] ** 2).mean())(w)
    assert_close(mine, jax.grad(lambda w: (layer(w, x)[0] ** 2).mean())(w))
    (value, largest), mine = te_mlir.jax.value_and_grad(loss)(w, x)
    assert_close((value, largest, mine), (*loss(w, x), jax.grad(lambda w: loss(w, x)[0])(w)))
    both = te_mlir.jax.jit(loss)
    assert_close(jax.grad(lambda w: sum(both(w, x)))(w), mine)


def test_an_accuracy_beside_the_loss_is_computed_by_jax():
    x, w = jnp.linspace(-1, 1, 512).reshape(16, 32), jnp.linspace(-1, 1, 1024).reshape(32, 32)
    labels = jnp.arange(16)

    def function(w, x, labels):
        logits = jnp.tanh(x @ w)
        loss = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1).mean()
        return loss, {"accuracy": (logits.argmax(-1) == labels).mean()}

    mine = te_mlir.jax.value_and_grad(function)(w, x, labels)
    assert_close(mine, jax.value_and_grad(function, has_aux=True)(w, x, labels))


def test_a_gradient_inside_of_a_function():
    """A penalty of a gradient: JAX differentiates inside, and te the whole."""
    x, w = jnp.linspace(-1, 1, 512).reshape(16, 32), jnp.linspace(-1, 1, 1024).reshape(32, 32)

    def function(w, x):
        slope = jax.grad(lambda x: (jnp.tanh(x @ w) * (x @ w)).sum())(x)
        return (slope**2).mean()

    assert_close(jax.grad(te_mlir.jax.jit(function))(w, x), jax.grad(function)(w, x))
