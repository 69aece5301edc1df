"""JAX functions that nearly match a pattern: they are rejected, or have JAX's values and gradients."""

import functools
import math

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import jax_models as models
import numpy as np
from jax_compare import assert_close, compare

import te_mlir
import te_mlir.jax
from te_mlir.errors import ImportFailure

stopped = jax.lax.stop_gradient


def normal(number, *shape):
    # Use NumPy, because JAX reads its flags when it creates its first array.
    return np.random.default_rng(number).normal(size=shape).astype(np.float32)


X, W = normal(0, 16, 64), normal(1, 64, 64) / 8
LABELS = np.arange(16) * 3 % 64


def rms(h, gamma, root=lambda r: r, mean=lambda m: m, count=None):
    squares = jnp.sum(h * h, -1, keepdims=True) / (count or h.shape[-1])
    return h * root(jax.lax.rsqrt(mean(squares) + 1e-5)) * gamma


def layer(h, gamma, mean=lambda m: m, variance=lambda v: v, ddof=0):
    centred = h - mean(jnp.mean(h, -1, keepdims=True))
    total = jnp.sum(centred * centred, -1, keepdims=True) / (h.shape[-1] - ddof)
    return centred * jax.lax.rsqrt(variance(total) + 1e-5) * gamma + gamma


def picked(values):
    return jnp.take_along_axis(values, (jnp.arange(len(values)) * 3 % 64)[:, None], -1)[:, 0]


def mean_loss(logits, over=lambda a: a, top=lambda a: a, rows=None):
    losses = over(jax.nn.logsumexp(logits, -1)) - picked(logits)
    return jnp.sum(losses) / (rows or len(logits))


def log_sum(logits):
    """log(sum(exp(logits))) of each row."""
    return jnp.log(jnp.sum(jnp.exp(logits), -1))


def top(logits, axis=-1):
    return jnp.max(logits, axis, keepdims=True)


GELU_SLOPE = math.sqrt(2 / math.pi)


def gelu(h, half=0.5, slope=GELU_SLOPE, cubic=0.044715):
    return half * h * (1 + jnp.tanh(slope * (h + cubic * h**3)))


NEAR = {
    "root-stopped": lambda h, g: rms(h, g, root=stopped),
    "mean-of-squares-stopped": lambda h, g: rms(h, g, mean=stopped),
    "epsilon-below-zero": lambda h, g: h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + -1e-5) * g,
    "mean-stopped": lambda h, g: layer(h, g, mean=stopped),
    "variance-stopped": lambda h, g: layer(h, g, variance=stopped),
    "logsumexp-stopped": lambda h, g: mean_loss(h, over=stopped),
    "maximum-not-added": lambda h, g: jnp.mean(log_sum(h - top(h)) - picked(h)),
    "another-maximum-added": lambda h, g: jnp.mean(log_sum(h - top(h)) + top(h * 2)[:, 0] - picked(h)),
    "gradient-of-the-maximum": lambda h, g: jnp.mean(log_sum(h - stopped(top(h))) + top(h)[:, 0] - picked(h)),
    "maximum-of-the-sum-alone": lambda h, g: -jnp.mean(picked(h - log_sum(h - top(h))[:, None])),
    "maximum-of-the-logits-alone": lambda h, g: -jnp.mean(picked(h - top(h) - log_sum(h)[:, None])),
    "maximum-of-columns": lambda h, g: -jnp.mean(picked(h - top(h, 0) - log_sum(h - top(h, 0))[:, None])),
    "tangent-of-another-slope": lambda h, g: gelu(h, slope=0.8),
    "another-cube": lambda h, g: gelu(h, cubic=0.045),
    "another-half": lambda h, g: gelu(h, half=0.503),
    "half-of-a-square": lambda h, g: h * (h * 0.5),
}


@pytest.mark.parametrize("name", NEAR)
def test_what_is_nearly_a_pattern_is_none(name):
    """It is imported as the operations that it consists of."""

    def function(x, w, g=None):
        return NEAR[name](x @ w, g)

    with_gain = name in (
        "epsilon-below-zero",
        "root-stopped",
        "mean-of-squares-stopped",
        "mean-stopped",
        "variance-stopped",
    )
    text = compare(function, X, W, *([normal(2, 64)] if with_gain else [])).text()
    # Without a gradient, a mean that is subtracted before an RMS norm is any number.
    some = ("te.activation", "te.layer_norm", "te.cross_entropy", *([] if name == "mean-stopped" else ["te.rms_norm"]))
    assert not any(op in text for op in some)


@pytest.mark.parametrize(
    "function, rows, columns",
    [
        (lambda h, g: rms(h, g, count=2047), 16, 2048),
        (lambda h, g: layer(h, g, ddof=1), 16, 2048),
    ],
    ids=["rms", "layer"],
)
def test_a_mean_by_one_less_is_none(function, rows, columns):
    x, w, g = normal(0, rows, 16), normal(1, 16, columns), jnp.ones(columns)
    assert "_norm " not in compare(lambda x, w, g: function(x @ w, g), x, w, g).text()


def test_a_mean_loss_by_one_less_is_not_divided_by_the_rows():
    compare(lambda x, w: mean_loss(x @ w, rows=2047), normal(0, 2048, 16), normal(1, 16, 64))


@pytest.mark.parametrize(
    "loss",
    [
        lambda h: mean_loss(h) / 4,
        lambda h: 0.5 * mean_loss(h),
        lambda h: -jnp.mean(picked(jax.nn.log_softmax(h))) / 4,
        lambda h: jnp.mean(jnp.mean(-picked(jax.nn.log_softmax(h)).reshape(4, 4), -1)),
        lambda h: jnp.mean(log_sum(h - top(h)) + top(h)[:, 0] - picked(h)),
        lambda h: -jnp.mean(picked(h - jax.nn.logsumexp(h, -1, keepdims=True))),
    ],
    ids=["quarter", "half", "log-softmax", "mean-of-means", "by-hand", "minus-logsumexp"],
)
def test_factors_of_a_mean_loss(loss):
    assert "te.cross_entropy" in compare(lambda x, w: loss(x @ w), X, W).text()


def attend(softmax=jax.nn.softmax, change=lambda s: s):
    def function(x, w):
        q = (x @ w).reshape(2, 16, 2, 16)
        probabilities = softmax(change(jnp.einsum("bqhd,bkhd->bhqk", q, q) / 4))
        return jnp.einsum("bhqk,bkhd->bqhd", probabilities, q)

    return function


def exponents(s, less=lambda s: 0.0, total=lambda e: jnp.sum(e, -1, keepdims=True)):
    e = jnp.exp(s - less(s))
    return e / total(e)


SEEN = np.tri(16, dtype=bool)


@pytest.mark.parametrize(
    "softmax, change",
    [
        (functools.partial(exponents, total=lambda e: jnp.sum(e, -1)[:, :, None]), lambda s: s),
        (jax.nn.softmax, lambda s: 1e-4 * jnp.where(SEEN, s, -2e4)),
        (jax.nn.softmax, lambda s: 1e-4 * (s + jnp.where(SEEN, 0, -2e4))),
        (jax.nn.softmax, lambda s: 10 * jnp.where(SEEN, s, -2.0)),
        (jax.nn.softmax, lambda s: 10 * (s + jnp.where(SEEN, 0, -2.0))),
        (jax.nn.softmax, lambda s: jnp.where(SEEN, s, 0) + jnp.where(SEEN, 0, s)),
        (functools.partial(exponents, less=lambda s: top(s, -2)), lambda s: s),
    ],
    ids=[
        *("total-of-columns", "scaled-mask", "scaled-bias", "enlarged-mask", "enlarged-bias", "two-choices"),
        "other-maximum",
    ],
)
def test_what_is_nearly_attention_is_products(softmax, change):
    text = compare(attend(softmax, change), normal(0, 32, 32) / 4, normal(1, 32, 32) / 4).text()
    assert text.count("te.grouped_linear") == 2 and "te.attention" not in text


def test_a_total_without_a_gradient_is_no_softmax():
    softmax = functools.partial(exponents, total=lambda e: stopped(jnp.sum(e, -1, keepdims=True)))
    text = compare(attend(softmax, lambda s: s), normal(0, 32, 32) / 4, normal(1, 32, 32) / 4).text()
    assert "te.softmax" not in text and "te.attention" not in text


def test_attention_with_totals_and_masks_as_they_are_written():
    for total in (lambda e: jnp.sum(e, -1, keepdims=True), lambda e: jnp.sum(e, -1)[..., None]):
        softmax = functools.partial(exponents, less=lambda s: stopped(top(s)), total=total)
        compare(attend(softmax, lambda s: jnp.where(SEEN, s, -1e9)), normal(0, 32, 32), normal(1, 32, 32) / 8)
    # The mask hides nothing.
    text = compare(attend(change=lambda s: s + jnp.zeros((16, 16))), normal(0, 32, 32), normal(1, 32, 32) / 8).text()
    assert "causal" not in text


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x @ w + jnp.full((5, 64), 2.0),
        lambda x, w: x @ w * jnp.ones((5, 64)),
    ],
    ids=["sum", "product"],
)
def test_rows_are_repeated(function):
    """A jaxpr may broadcast axes of size 1."""
    compare(function, X[:1], W)


def test_rows_that_a_maximum_repeats_are_told():
    with pytest.raises(ImportFailure, match=r"operands \[1, 64\] and \[5, 64\] are broadcast"):
        te_mlir.jax.compile(lambda x, w: jnp.maximum(x @ w, jnp.zeros((5, 64))), (X[:1], W))


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda w, g: w @ g + g, [(64, 64), (64,)]),
        (lambda w, g, b: w @ g + b, [(6, 8), (8,), (6,)]),
        (lambda x, w, b: jnp.einsum("sd,dhe->she", x, w) + b, [(16, 64), (64, 4, 16), (16,)]),
        (lambda x, w, b: w @ x.T + b, [(16, 64), (32, 64), (16,)]),
        (lambda x, w, b: x @ w + b, [(64,), (64, 32), (32,)]),
        (lambda x, w, b: x @ w + b, [(16, 64), (64, 1), (1,)]),
    ],
    ids=["vector-weight", "vector-weight-columns", "heads", "weight-first", "vector", "one-column"],
)
def test_biases_that_are_no_row_of_the_product(function, shapes):
    compare(function, *(normal(n, *shape) for n, shape in enumerate(shapes)))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_a_logistic_has_a_gradient_where_its_exponential_is_infinite(dtype):
    x, w = (X * 400).astype(dtype), W.astype(dtype)
    compiled = te_mlir.jax.jit(lambda x, w: jax.nn.sigmoid(x @ w))
    (y, pull), (wanted, wanted_pull) = (jax.vjp(f, x, w) for f in (compiled, lambda x, w: jax.nn.sigmoid(x @ w)))
    assert (wanted == 0).any() and (wanted == 1).any() and jnp.isfinite(y).all()
    gradients, wanted_gradients = pull(jnp.ones_like(y)), wanted_pull(jnp.ones_like(y))
    # Both round the GEMM to `dtype` before the logistic function.
    assert_close((y, gradients), (wanted, wanted_gradients), bound={4: 1e-4, 2: 5e-2}[dtype.dtype.itemsize])


def test_arguments_that_are_read_in_several_orders():
    """All axes have the same size, so that only their order distinguishes the operands."""
    cube, other, square = normal(0, 8, 8, 8), normal(1, 8, 8, 8), normal(2, 8, 8)
    both = lambda x, w: jnp.einsum("sab,akb->sk", x, w) * jnp.einsum("sab,bka->sk", x, w)  # noqa: E731
    compare(both, cube, other)
    compare(lambda x, w: jnp.einsum("abc,bd->acd", x, w) * jnp.einsum("abc,ad->bcd", x, w), cube, square)


def test_ids_that_are_to_be_clamped_are():
    table, ids = normal(0, 10, 64), np.array([0, 9, 10, 15, -1, -11])
    compare(lambda t, w: jnp.take(t, ids, axis=0, mode="clip") @ w, table, W)
    compare(lambda t, w: jnp.take(t, ids, axis=0, mode="wrap") @ w, table, W)
    take = functools.partial(jnp.take, axis=0, mode="clip")
    tables = lambda ids, t, u, w: take(t, ids) @ w * (take(u, ids) @ w)  # noqa: E731
    wanted = tables(jnp.asarray(ids), table, table[:6], W)
    assert_close(te_mlir.jax.jit(tables)(jnp.asarray(ids), table, table[:6], W), wanted)
    compare(lambda t, w: t.at[ids].get(mode="fill", fill_value=0) @ w, table, W)


def own(name):
    """A function of JAX with a custom derivative of the user."""
    if name == "vjp":
        function = jax.custom_vjp(jnp.tanh)
        function.defvjp(lambda x: (jnp.tanh(x), None), lambda _, g: (g,))
        return function
    function = jax.custom_jvp(jax.nn.relu if name == "of-relu" else jnp.tanh)
    if name == "jvp":
        function.defjvp(lambda primals, tangents: (jnp.tanh(*primals), tangents[0] * 3))
    else:
        function.defjvps(lambda tangent, answer, x: tangent * 3)
    return function


@pytest.mark.parametrize("name", ["vjp", "jvp", "jvps", "of-relu"])
def test_derivatives_of_ones_own_of_functions_of_jaxs(name):
    with pytest.raises(ImportFailure, match=r"(tanh|relu) at .* a custom derivative \(jax.custom_"):
        te_mlir.jax.compile(lambda x, w: own(name)(x @ w), (X, W))


def test_effects_are_told():
    def function(x, w):
        jax.debug.print("begins")
        jax.lax.scan(lambda c, _: (jax.debug.callback(print, c.sum()), (c, None))[1], x, None, length=1)
        return x @ w

    with pytest.raises(ImportFailure) as failure:
        te_mlir.jax.compile(function, (X, W))
    assert [reason.split("(")[0] for reason in failure.value.reasons] == ["debug_print", "debug_callback"]
    assert all("it has a side effect, which te does not support" in reason for reason in failure.value.reasons)


def test_a_scan_of_no_steps():
    def function(x, w, none):
        carry, each = jax.lax.scan(lambda c, y: (jnp.tanh(c @ w), c + y), x, none)
        return carry @ w, each

    args = X, W, jnp.zeros((0, 64))
    (y, each), wanted = te_mlir.jax.jit(function)(*args), function(*args)
    assert_close(y, wanted[0])
    assert (each.shape, each.dtype) == (wanted[1].shape, wanted[1].dtype) == ((0, 16, 64), jnp.float32)


def test_types_that_give_way():
    """A weakly typed array takes the type of the other operand. A strongly typed one is compiled separately."""
    weak, w = jnp.full((16, 64), 0.5), W.astype(jnp.bfloat16)
    assert weak.weak_type
    compiled = te_mlir.jax.jit(lambda x, w: x @ w)
    for x, dtype in ((weak, jnp.bfloat16), (jnp.asarray(weak, jnp.float32), jnp.float32)):
        assert compiled(x, w).dtype == (x @ w).dtype == dtype
        assert jax.grad(lambda x: compiled(x, w).sum().astype(jnp.float32))(x).dtype == jnp.float32


@pytest.mark.parametrize("name", ["state", "self", "result0", "grad"])
def test_arguments_have_any_name(name):
    """Arguments may have the names of arguments, results and gradients of the compiled part."""
    scope = {}
    exec(f"def function({name}, w): return {name}['w'] @ w + {name}['result0']", scope)
    compare(scope["function"], {"w": X, "result0": normal(2, 16, 64)}, W)
    exec(f"def function({name}, w): return {name} @ w", scope)
    compare(scope["function"], X, W)


def test_what_a_program_keeps_wide_is_not_rounded():
    """Norms, activations, rotary embeddings and biases in f32 of a GEMM in bf16."""
    x, w = (jnp.asarray(a, jnp.bfloat16) for a in (X, W))
    g, b = normal(2, 64), 100 * normal(3, 64)
    angles = (np.arange(16)[:, None] / 10 ** np.arange(8.0))[None, :, None].astype(np.float32)
    rotate = lambda h: models.rope_by_halves(h.reshape(1, 16, 4, 16), np.cos(angles), np.sin(angles))  # noqa: E731
    for function in (
        lambda h, g, b: h + b,
        lambda h, g, b: jax.nn.silu(h),
        lambda h, g, b: jax.nn.silu(h) * h,
        lambda h, g, b: rms(h, g),
        lambda h, g, b: models.layer_norm(h, g, b),
        lambda h, g, b: rotate(h),
    ):
        whole = lambda x, w, g, b: function((x @ w).astype(jnp.float32), g, b)  # noqa: B023, E731
        # Compare without jit, because XLA would remove the rounding of the GEMM.
        assert_close(te_mlir.jax.jit(whole)(x, w, g, b), whole(x, w, g, b), bound=1e-6)


def test_quantised_values_are_no_casts_that_are_left_out():
    for function in (
        lambda x, w: jax.nn.relu(x @ w).astype(jnp.float8_e4m3fn).astype(jnp.float32) @ w,
        lambda x, w: models.cross_entropy((x @ w).astype(jnp.float8_e4m3fn).astype(jnp.float32), LABELS),
    ):
        with pytest.raises(ImportFailure, match="its result has elements of f8_e4m3fn"):
            te_mlir.jax.compile(function, (X, W))
