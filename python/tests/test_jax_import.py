"""JAX functions through te: gradients compared with jax.grad, bits compared with hand-written MLIR."""

import functools
import pathlib

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import jax_models as models
import numpy as np
from jax_compare import assert_close, batch, compare, llama_params

import te_mlir
import te_mlir.jax
from te_mlir.errors import ArgumentError, ImportFailure


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attend": models.attention_by_hand, "heads": 4, "kv_heads": 2},
        {"attend": models.attention_by_einsum, "rotate": models.rope_by_halves},
        {"loss": models.cross_entropy_by_one_hot},
        {"loss": models.cross_entropy_by_logsumexp, "kv_heads": 1},
        {"kv_heads": 4, "layers": 2},
    ],
    ids=["plain", "by-hand", "einsum-halves", "one-hot", "logsumexp-one-kv-head", "two-layers"],
)
def test_llama_gradients_are_jaxs(options):
    layers = options.pop("layers", 1)
    params = llama_params(options.get("kv_heads", 2), layers)
    loss = functools.partial(models.llama_loss, **options)
    compiled = compare(lambda params: loss(params, *batch()), params)
    text = compiled.text()
    assert text.count("te.linear") == 7 * layers + 1 and text.count("te.attention") == layers
    assert text.count("te.rms_norm") == 2 * layers + 1 and text.count("te.rope") == 2 * layers
    assert "te.cross_entropy" in text and "te.embedding" in text and "math." not in text


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": lambda x, g, b: jax.nn.standardize(x) * g + b},
        {"gelu": lambda x: 0.5 * x * (1 + jnp.tanh(jnp.sqrt(2 / jnp.pi) * (x + 0.044715 * x**3)))},
        {"gelu": functools.partial(jax.nn.gelu, approximate=False)},
        {"gelu": lambda x: x * 0.5 * (1 + jax.lax.erf(x / jnp.sqrt(2.0)))},
        {"gelu": lambda x: x * jax.nn.sigmoid(x)},
        {"gelu": jax.nn.relu},
    ],
    ids=["plain", "standardize", "gelu-by-hand", "gelu-erf", "gelu-erf-by-hand", "silu-by-hand", "relu"],
)
def test_gpt_gradients_are_jaxs(options):
    """Weights are stored as [in, out] (JAX transposes them), and there are biases and a layer norm."""
    params = models.gpt_params(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (2, 16, 64))
    text = compare(functools.partial(models.gpt, **options), params, x).text()
    assert text.count("te.linear") == 2 and text.count("te.layer_norm") == 1 and text.count("te.activation") == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: jax.nn.sigmoid(x @ w) * jnp.tanh(x @ w) - (x @ w) ** 2 / 2,
        lambda x, w: jnp.einsum("sd,hde->she", x, w.reshape(64, 4, 16).transpose(1, 0, 2)),
        lambda x, w: jnp.einsum("she,hed->sd", x.reshape(16, 4, 16), w.reshape(4, 16, 64)),
        lambda x, w: (x @ w)[:, :8].T,
        lambda x, w: (w.T @ x.T, x),
        jax.checkpoint(lambda x, w: jnp.exp(-jnp.sqrt(1 + jnp.square(x @ w)))),
        lambda x, w: x @ jnp.stack([w, w])[1],
    ],
    ids=["elementwise", "heads-out", "heads-in", "part", "weight-first", "checkpoint", "stacked"],
)
def test_layers_gradients_are_jaxs(function):
    a, b = jax.random.split(jax.random.key(0))
    compare(function, jax.random.normal(a, (16, 64)), jax.random.normal(b, (64, 64)) / 8, differentiate_outputs="all")


#: Functions of two products.
FUNCTIONS = {
    "erf": lambda x, y: jax.lax.erf(3 * x) + jax.lax.erfc(2 * y) * x,
    "powers": lambda x, y: (x * x + 0.5) ** 0.3 + (y + 3) ** -1.7 + 2**x + 0.3**y + jnp.exp2(y * 5),
    "powers-of-elements": lambda x, y: jnp.exp(x) ** y + jnp.power(x * x + 1, y[:1]),
    "whole-powers": lambda x, y: x**5 + (y + 3) ** -2 + x**9 + y**0 + (x + 3) ** -1,
    "logarithms": lambda x, y: jnp.log2(x * x + 0.1) + jnp.log10(y * y + 0.1),
    "hyperbolics": lambda x, y: jnp.sinh(x * 8) * 0.01 + jnp.cosh(8 * y) + jnp.sinh(x * y) + jnp.tan(x),
    "whole-numbers": lambda x, y: (
        x * jnp.floor(9 * y) + y * jnp.ceil(9 * x) + x * jnp.round(5 * y) + jnp.trunc(7 * x) * y
    ),
    "halves": lambda x, y: jax.lax.round(jnp.round(x * 8) / 2) * y + jax.lax.round(y * 1e9) * 1e-9 * x,
    "remainders": lambda x, y: jnp.fmod(9 * x, 0.7) + jnp.mod(9 * y, -0.6) + (9 * x) % (2 + y) + (9 * x // 0.3) * y,
    "any-and-all": lambda x, y: (
        jnp.where((x > 2).any(-1, keepdims=True), x, 2 * y)
        + jnp.where((y > -1.2).all(0), x, y * y)
        + jnp.where((y > 0).any() & ~(x > 0).all(), x, 4.0)
    ),
    "exclusive": lambda x, y: jnp.where((x > 0) ^ (y > 0), x, 2 * y) + jnp.where((x > y) == (y > 0), x, 3.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_elements_are_jaxs(name):
    a, b, c = jax.random.split(jax.random.key(0), 3)
    x, w, u = jax.random.normal(a, (16, 64)), jax.random.normal(b, (64, 32)) / 8, jax.random.normal(c, (64, 32)) / 8
    compare(lambda x, w, u: FUNCTIONS[name](x @ w, x @ u), x, w, u)


stopped = jax.lax.stop_gradient


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: stopped(x @ w) * (x @ w),
        lambda x, w: (x @ w) + stopped(jax.nn.relu(x @ w) - x @ w),
        lambda x, w: (x @ w) / stopped(jnp.max(jnp.abs(x @ w))),
        lambda x, w: jnp.exp(stopped(x @ w)).T[:8] @ (x @ w),
        lambda x, w: (stopped(x) @ w, stopped(x @ w).sum() + jnp.square(x).sum()),
        lambda x, w: stopped((x @ w).T)[1:3, None] + (x @ w)[:2, :16],
        lambda x, w: stopped(x @ stopped(w)) * x + x @ w,
    ],
    ids=["factor", "straight-through", "number", "after-a-view", "argument", "view", "twice"],
)
def test_stopped_values_are_constants(function):
    a, b = jax.random.split(jax.random.key(0))
    x, w = jax.random.normal(a, (16, 64)), jax.random.normal(b, (64, 64)) / 8
    text = compare(function, x, w, differentiate_outputs="all").text()
    assert "te.no_gradient" in text or "stopped(x)" in str(function)


def test_a_function_of_stopped_values_has_zeros_as_gradients():
    x = jax.random.normal(jax.random.key(0), (16, 16))
    value, gradient = jax.value_and_grad(te_mlir.jax.jit(lambda x: stopped(jnp.square(x @ x)).sum()))(x)
    assert jnp.allclose(value, jnp.square(x @ x).sum()) and (gradient == 0).all()


def test_a_forward_leaves_what_lies_in_the_memory_of_a_gradient():
    """The GEMM's result is saved in the memory of g's gradient. The pullback runs twice, without jax.jit."""
    g, w = (jax.random.normal(jax.random.key(n), s) for n, s in ((0, (64,)), (1, (64, 64))))
    function = lambda g, w: g * (g @ w)  # noqa: E731
    compiled = compare(function, g, w).function
    training = compiled._trained([0, 1])
    arguments = training.program.arguments
    assert arguments[training.results["grad.g"]].first_launch < arguments[training.inputs["grad.result0"]].first_launch
    pull, wanted = (jax.vjp(f, g, w)[1] for f in (te_mlir.jax.jit(function), function))
    for dy in (jnp.ones(64), g):
        assert_close(pull(dy), wanted(dy))


def test_several_results_of_an_empty_batch():
    """The compiler may compute results without elements anywhere in the step, also behind the start of the backward."""

    def function(w, v, x):
        return x @ w, x @ w @ v, jax.nn.softmax(x @ w)

    def loss(*args):
        return sum(jnp.sum(jnp.square(result)) for result in compiled(*args))

    compiled, w = te_mlir.jax.jit(function), jnp.ones((64, 64))
    assert [result.shape for result in compiled(w, w, jnp.ones((0, 64)))] == [(0, 64)] * 3
    gradients = jax.grad(loss, (0, 1))(w, w, jnp.ones((0, 64)))
    assert all(gradient.shape == w.shape and not gradient.any() for gradient in gradients)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_over_layers_is_its_layers(reverse):
    """A scan with stacked weights, a carry, results of each step, and a constant that all steps share."""

    def function(stacked, shared, x):
        def layer(x, weights):
            w, b = weights
            y = x + jax.nn.silu(x @ w + b) @ shared
            return y, jnp.tanh(y)

        y, each = jax.lax.scan(layer, x, stacked, reverse=reverse)
        return y, each

    a, b, c, d = jax.random.split(jax.random.key(0), 4)
    stacked = jax.random.normal(a, (3, 64, 32)) / 8, jax.random.normal(b, (3, 32))
    arguments = stacked, jax.random.normal(c, (32, 64)) / 8, jax.random.normal(d, (16, 64))
    compiled = compare(lambda *args: function(*args)[0], *arguments)
    assert compiled.text().count("te.linear") == 6
    compare(function, *arguments)


@pytest.mark.parametrize(
    "loss",
    [
        lambda nll, mask: jnp.sum(nll * mask) / jnp.sum(mask),
        lambda nll, mask: jnp.sum(nll * mask.astype(jnp.float32)) / jnp.maximum(jnp.sum(mask), 1),
        lambda nll, mask: jnp.where(mask, nll, 0).sum() / jnp.maximum(mask.astype(jnp.float32).sum(), 1.0),
        lambda nll, mask: jnp.mean(nll, where=mask),
    ],
    ids=["times", "times-max", "where-max", "mean-where"],
)
def test_masked_losses_ignore_rows(loss):
    def function(w, x, labels, mask):
        logits = x @ w
        nll = jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
        return loss(nll, mask)

    a, b = jax.random.split(jax.random.key(0))
    x, w = jax.random.normal(a, (2, 16, 64)), jax.random.normal(b, (64, 64)) / 8
    labels = jnp.arange(32).reshape(2, 16)
    mask = jnp.arange(32).reshape(2, 16) % 3 > 0
    assert "te.cross_entropy" in compare(function, w, x, labels, mask).text()


def test_a_gate_is_one_operation():
    function = lambda x, g, u: jax.nn.silu(x @ g) * (x @ u)  # noqa: E731
    a, b, c = jax.random.split(jax.random.key(0), 3)
    x, g, u = jax.random.normal(a, (16, 64)), jax.random.normal(b, (64, 32)) / 8, jax.random.normal(c, (64, 32)) / 8
    text = compare(function, x, g, u).text()
    assert "te.activation <swiglu>" in text and "silu" not in text and "mulf" not in text


def by_hand_names(params):
    layer = params["layers"][0]
    named = {f"{name}.weight": layer[name] for name in ("norm1", "q", "k", "v", "o", "norm2", "gate", "up", "down")}
    named |= {"embed.weight": params["embed"], "norm.weight": params["norm"], "head.weight": params["head"]}
    return {name: np.asarray(value) for name, value in named.items()}


def test_bits_are_those_of_the_program_by_hand(recipe, reference):
    params = models.llama_params(jax.random.key(0), jnp.bfloat16)
    ids, labels = batch()
    text = (pathlib.Path(__file__).parent / "llama.mlir").read_text()
    step = te_mlir.compile(text, "llama", recipe=recipe, vjp=True, context=reference)
    tables = models.tables(32, 16, jnp.bfloat16, halves=True)
    cos, sin = (np.asarray(t, np.float32).reshape(32, 8) for t in tables)
    both = te_mlir.jax.value_and_grad(models.llama_loss, recipe=recipe)
    state = both.init_state(params, ids, labels)
    assert len(state) == len(step.state_names)
    call = jax.jit(lambda state, params: both(params, ids, labels, state=state))
    # Run two steps, because the states after the first one affect the second.
    for _ in range(2):
        loss, gradients, *after = call(state, params)
        wanted = step(
            ids=np.asarray(ids, np.int32).reshape(-1),
            targets=np.asarray(labels, np.int32).reshape(-1),
            cos=cos,
            sin=sin,
            **by_hand_names(params),
            **{"grad.loss": np.ones((), np.float32)},
        )
        assert np.asarray(loss).tobytes() == wanted["loss"].tobytes()
        for name, gradient in by_hand_names(gradients).items():
            assert gradient.tobytes() == wanted[f"grad.{name}"].tobytes(), name
        state = after[0] if after else {}
    if not state:
        other_loss, other = jax.jit(jax.value_and_grad(te_mlir.jax.jit(models.llama_loss, recipe=recipe)))(
            params, ids, labels
        )
        assert np.asarray(other_loss).tobytes() == wanted["loss"].tobytes()
        for name, gradient in by_hand_names(other).items():
            assert gradient.tobytes() == wanted[f"grad.{name}"].tobytes(), name


def test_gradients_of_a_recipe_with_states_are_refused():
    params = models.gpt_params(jax.random.key(0), jnp.bfloat16)
    x = jnp.ones((16, 64), jnp.bfloat16)
    compiled = te_mlir.jax.jit(models.gpt, recipe=te_mlir.DelayedScaling(amax_history_len=2))
    state = compiled.init_state(params, x)
    assert "params.up.w.x.scale" in state
    y, after = compiled(params, x, state=state)
    assert y.shape == x.shape and after.keys() == state.keys()
    with pytest.raises(ArgumentError, match="use value_and_grad"):
        jax.grad(lambda params: compiled(params, x, state=state)[0].astype(jnp.float32).sum())(params)
    with pytest.raises(ArgumentError, match="state: expected a value for .* got none"):
        compiled(params, x)


def test_infinite_constants():
    x, w = jnp.ones((16, 32)), jnp.ones((32, 32))
    for number in (jnp.inf, -jnp.inf, jnp.nan):
        mine = te_mlir.jax.jit(lambda x, w: (x @ w.T) * number)(x, w)
        assert np.array_equal(mine, (x @ w.T) * number, equal_nan=True)


def test_a_shape_compiles_once():
    compiled = te_mlir.jax.jit(models.gpt)
    params = models.gpt_params(jax.random.key(0))
    for rows in (16, 32, 16):
        assert compiled(params, jnp.ones((rows, 64))).shape == (rows, 64)
    assert len(compiled.compiled) == 2


# Unsupported operations


def test_everything_that_cannot_be_imported_is_listed():
    def function(x, w):
        y = jnp.arctan(x @ w)
        z = jnp.sort(y, -1)
        return jax.lax.erf_inv(z @ w)

    with pytest.raises(ImportFailure) as failure:
        te_mlir.jax.compile(function, (jnp.ones((16, 64)), jnp.ones((64, 64))))
    atan, sort, erf = failure.value.reasons
    line = function.__code__.co_firstlineno
    assert atan.startswith("atan(f32 [16, 64]) at ") and f"test_jax_import.py:{line + 1}:" in atan
    assert sort.startswith("sort(f32 [16, 64]) at ") and f"test_jax_import.py:{line + 2}:" in sort
    assert "'erf_inv' has no counterpart in te" in erf and f"test_jax_import.py:{line + 3}:" in erf


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x, w: jnp.tanh(x), "no GEMM of an argument with a weight"),
        (lambda x, w: jnp.dot(x, w.astype(jnp.bfloat16)), "convert_element_type|in the type of its operands|elements of"),
        (lambda x, w: jnp.matmul(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), preferred_element_type=jnp.float32),
         "expected its result in the type of its operands"),
        (lambda x, w: models.rope((x @ w).reshape(1, 16, 4, 16), *[w[:16, :16].reshape(1, 16, 1, 16)] * 2),
         "halves of its tables"),
    ],
    ids=["no-product", "mixed", "preferred", "tables"],
)  # fmt: skip
def test_reasons(function, reason):
    x, w = jnp.ones((16, 64)), jnp.ones((64, 64))
    if "mixed" in reason or "in the type of its operands|" in reason:
        assert_mixed_is_f32(function, x, w)
        return
    with pytest.raises(ImportFailure, match=reason):
        te_mlir.jax.compile(function, (x, w))


def assert_mixed_is_f32(function, x, w):
    """JAX widens the narrower operand, which is imported."""
    assert te_mlir.jax.compile(function, (x, w))(x, w).dtype == jnp.float32


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: jnp.einsum("bij,bjk->bik", (x @ w)[None], w[None]),
        lambda x, w: jnp.einsum("ijb,bkj->kbi", (x @ w).reshape(16, 16, 4), w.reshape(4, 64, 16)),
        lambda x, w: jax.nn.dot_product_attention(*[(x @ w).reshape(1, 16, 4, 16)] * 3, local_window_size=(2, 1)),
    ],
    ids=["batches", "axes-in-another-order", "window-of-both-sides"],
)
def test_products_with_batches(function):
    x, w = jax.random.normal(jax.random.key(0), (16, 64)), jax.random.normal(jax.random.key(1), (64, 64)) / 8
    assert "te.grouped_linear" in compare(function, x, w).text()


def test_products_and_keys_that_are_no_floats_are_told():
    x, w = jnp.ones((16, 32), jnp.int32), jnp.ones((32, 64), jnp.int32)
    with pytest.raises(ImportFailure, match=r"dot_general\(i32 .* its result has elements of i32; te has float32"):
        te_mlir.jax.jit(lambda x, w: x @ w)(x, w)
    # JAX also multiplies integers with floats.
    mixed = r"dot_general\(i32 .* at .*test_jax_import.py.*expected operands of floats, but got i32; cast it before"
    w = w.astype(jnp.float32)
    with pytest.raises(ImportFailure, match=mixed):
        te_mlir.jax.jit(lambda x, w: x @ w)(x, w)
    with pytest.raises(ImportFailure, match=mixed):
        te_mlir.jax.jit(lambda x, w: jnp.einsum("bij,bjk->bik", x[None], (w @ w.T @ w)[None]))(x, w)


#: Derivatives where JAX chooses them, at zeros and of equal operands.
CHOSEN = {
    "abs": jnp.abs,
    "softplus": jax.nn.softplus,
    "logaddexp": lambda h: jnp.logaddexp(h, jnp.roll(h, 1, 0)),
    "waves": lambda h: jnp.sin(40 * h) * jnp.cos(h) + jnp.expm1(h / 100) + jax.nn.elu(h),
    "sums": lambda h: jnp.cumsum(h, 0) + jax.lax.cumsum(h, 1, reverse=True) * jnp.flip(h, (0, 1)),
    "max": lambda h: h.max(0) * h.max(1, keepdims=True),
    "log-softmax": lambda h: jax.nn.log_softmax(h, 0) * jax.nn.log_softmax(h),
    "logsumexp": lambda h: jax.nn.logsumexp(h, 0) * jax.nn.logsumexp(h, 1, keepdims=True),
    "gelu-of-a-product": lambda h: jax.nn.gelu(h * h * h, approximate=False),
    "tile": lambda h: jnp.tile(h, (2, 1)) * 2,
    "every-third": lambda h: jnp.tanh(h[::3, 1:30:4]),
    "condition-of-rows": lambda h: jnp.where((h > 0).reshape(16, 8, 8), h.reshape(16, 8, 8), 1.0),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_derivatives_at_zeros(name):
    x, w = jnp.round(jax.random.normal(jax.random.key(1), (16, 32))), jnp.eye(32, 64)
    compare(lambda x, w: CHOSEN[name](x @ w), x, w)


def test_a_comparison_of_arguments_that_is_repeated():
    """One element of an argument is compared with all of it, and the truth values are those of each row."""
    x, w = jax.random.normal(jax.random.key(1), (16, 32)), jnp.eye(32, 64)
    given = jax.random.normal(jax.random.key(2), (64,))
    compare(lambda x, w, given: jnp.where(given[2:3] < given, x @ w, given[2:3]), x, w, given)


#: Dropouts of JAX, which computes the zeros of each before the call.
DROPOUTS = {
    "product": lambda x, key: x * jax.random.bernoulli(key, 0.75, x.shape) / 0.75,
    "where": lambda x, key: jnp.where(jax.random.bernoulli(key, 0.75, x.shape), x / 0.75, 0),
    "of-columns": lambda x, key: x * jax.random.bernoulli(key, 0.75, (1, x.shape[1])).astype(x.dtype),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropouts(name):
    for key in (jax.random.key(0), jax.random.PRNGKey(0)):
        drop = lambda x, w, key=key: DROPOUTS[name](jnp.tanh(x) @ w, key)  # noqa: E731
        compiled = te_mlir.jax.jit(lambda x, w, key: DROPOUTS[name](jnp.tanh(x) @ w, key))
        x, w = (jax.random.normal(jax.random.key(n), shape) for n, shape in ((1, (16, 32)), (2, (32, 64))))
        wanted = jax.grad(lambda w: (drop(x, w) ** 2).sum())(w)
        found = jax.grad(lambda w, key=key: (compiled(x, w, key) ** 2).sum())(w)
        assert jnp.linalg.norm(found - wanted) < 1e-5 * jnp.linalg.norm(wanted)
        assert (compiled(x, w, key) == 0).sum() > 100


@jax.custom_vjp
def reversed_gradient(x):
    return x * 1.0


reversed_gradient.defvjp(lambda x: (x * 1.0, None), lambda _, g: (-g,))


@jax.custom_jvp
def straight_through(x):
    return x + 0.0


straight_through.defjvp(lambda primals, tangents: (straight_through(*primals), tangents[0] * 2))


@pytest.mark.parametrize("function, name", [(reversed_gradient, "custom_vjp"), (straight_through, "custom_jvp")])
def test_derivatives_of_ones_own_are_not_lost(function, name):
    x, w = jnp.ones((16, 32)), jax.random.normal(jax.random.key(0), (32, 32))
    with pytest.raises(ImportFailure, match=f"{function.__name__} at .* a custom derivative .jax.{name}."):
        te_mlir.jax.compile(lambda x, w: function(x @ w) @ w, (x, w))
    # Custom derivatives that JAX itself defines do not matter.
    assert te_mlir.jax.jit(lambda x, w: jax.nn.relu(x @ w.T))(x, w).shape == (16, 32)
