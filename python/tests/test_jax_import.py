"""JAX functions through te: gradients against jax.grad, bits against hand-written MLIR."""

import functools
import pathlib

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import jax_models as models
import numpy as np

import te_mlir
import te_mlir.jax
from te_mlir.errors import ArgumentError, ImportFailure


def batch(sequence=32, vocabulary=64):
    a, b = jax.random.split(jax.random.key(1))
    return jax.random.randint(a, (2, sequence), 0, vocabulary), jax.random.randint(b, (2, sequence), 0, vocabulary)


@functools.cache
def llama_params(kv_heads=2, layers=1):
    return jax.jit(functools.partial(models.llama_params, kv_heads=kv_heads, layers=layers))(jax.random.key(0))


def leaves(tree):
    return [leaf for leaf in jax.tree.leaves(tree) if leaf.dtype != jax.dtypes.float0]


def assert_close(mine, theirs, bound=1e-5):
    mine, theirs = leaves(mine), leaves(theirs)
    assert len(mine) == len(theirs) > 0
    for a, b in zip(mine, theirs):
        error = jnp.linalg.norm((a - b).ravel()) / jnp.linalg.norm(b.ravel())
        assert a.dtype == b.dtype and jnp.linalg.norm(b) > 0 and error < bound, error


def compare(function, *args, **options):
    """Results and gradients of all arguments, by te and by JAX."""
    compiled = te_mlir.jax.jit(function, **options)
    like = jax.eval_shape(function, *args)
    cotangent = jax.tree.map(lambda a: np.cos(np.arange(a.size)).reshape(a.shape).astype(a.dtype), like)

    def both(function, args):
        results, pull = jax.vjp(function, *args)
        return results, pull(cotangent)

    # Jitted, as JAX compiles each operation by itself else.
    wanted, got = (jax.jit(functools.partial(both, f))(args) for f in (function, compiled))
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    assert_close(got, wanted)
    return compiled.lower(*args)


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
    """Weights [in, out], which JAX transposes; biases; a layer norm."""
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


def test_a_forward_leaves_what_lies_in_the_memory_of_a_gradient():
    """The product of the forward lies where the gradient of g will; pulled twice, and not under jax.jit."""
    g, w = (jax.random.normal(jax.random.key(n), s) for n, s in ((0, (64,)), (1, (64, 64))))
    function = lambda g, w: g * (g @ w)  # noqa: E731
    compiled = compare(function, g, w).function
    training = compiled._trained([0, 1])
    arguments = training.program.arguments
    assert arguments[training.results["grad.g"]].first_launch < arguments[training.inputs["grad.result0"]].first_launch
    pull, wanted = (jax.vjp(f, g, w)[1] for f in (te_mlir.jax.jit(function), function))
    for dy in (jnp.ones(64), g):
        assert_close(pull(dy), wanted(dy))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_over_layers_is_its_layers(reverse):
    """Stacked weights, a carry, results of each step, and a constant that every step shares."""

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
    with pytest.raises(ImportFailure, match="stack|concatenate"):
        te_mlir.jax.compile(function, arguments)


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
    # Twice: states of the first step decide what the second does.
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


def test_everything_that_cannot_be_imported_is_listed():
    def function(x, w):
        y = jnp.sin(x @ w)
        z = jnp.cumsum(y, -1)
        return jax.lax.erf(z @ w)

    with pytest.raises(ImportFailure) as failure:
        te_mlir.jax.compile(function, (jnp.ones((16, 64)), jnp.ones((64, 64))))
    sin, cumsum, erf = failure.value.reasons
    line = function.__code__.co_firstlineno
    assert sin.startswith("sin(f32 [16, 64]) at ") and f"test_jax_import.py:{line + 1}:" in sin
    assert cumsum.startswith("cumsum(f32 [16, 64]) at ") and f"test_jax_import.py:{line + 2}:" in cumsum
    assert "no counterpart in te but in gelu" in erf and f"test_jax_import.py:{line + 3}:" in erf


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("left", [1, 2, 5, 14, 15, 40])
def test_attention_under_a_window(left, causal):
    """A window to the left alone, or of both sides where what is ahead is hidden; one of the sequence is none."""

    def function(x, wq, wkv):
        q, kv = (x @ wq).reshape(2, 16, 4, 16), (x @ wkv).reshape(2, 16, 2, 16)
        window = (left, 3) if causal else (left, 0)
        return jax.nn.dot_product_attention(q, kv, kv, is_causal=causal, local_window_size=window)

    keys = jax.random.split(jax.random.key(2), 3)
    x, wq, wkv = (jax.random.normal(key, shape) for key, shape in zip(keys, ((32, 64), (64, 64), (64, 32))))
    text = compare(function, x, wq / 8, wkv / 8).text()
    assert text.count("te.attention") == 1 and "causal" in text
    assert (f"window_size = array<i64: {left}, 0>" in text) == (left < 15)


CAUSAL = np.tri(16, dtype=bool)


def by_hand(weigh):
    """Attention of 16 tokens whose softmax is of `weigh` of the scores."""

    def function(x, wq, wkv):
        q, kv = (x @ wq).reshape(2, 16, 4, 16), (x @ wkv).reshape(2, 16, 2, 16)
        kv = jnp.repeat(kv, 2, axis=2)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, kv)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(weigh(scores, wq[0, 0]), -1), kv)

    keys = jax.random.split(jax.random.key(2), 3)
    x, wq, wkv = (jax.random.normal(key, shape) for key, shape in zip(keys, ((32, 64), (64, 64), (64, 32))))
    return function, x, wq / 8, wkv / 8


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


def sunk(weigh, grouped=False):
    """Attention of 16 tokens with the weights `weigh` of the scores and a number for each head."""

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
    """Scores, and a column of sinks."""
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
        lambda s, n: jax.nn.softmax(beside(s, n), -2)[..., :-1],
        lambda s, n: without_last(beside(s, n)) * 2,
    ],
    ids=["before", "with-the-sink", "two", "another-axis", "scaled"],
)
def test_what_are_nearly_sinks_is_told(weigh):
    function, *args = sunk(weigh)
    with pytest.raises(ImportFailure, match="a product of batches has no counterpart in te but in attention"):
        te_mlir.jax.compile(function, args)


def test_sinks_of_positions_are_told():
    function, *args = sunk(lambda s, n: without_last(beside(s, jnp.tile(n, (2, 4, 4, 1)).reshape(2, 4, 16, 1))))
    with pytest.raises(ImportFailure, match=r"its sinks are \[.*\], and not one number for each head"):
        te_mlir.jax.compile(function, args)


@pytest.mark.parametrize(
    "weigh, reason",
    [
        (lambda s, n: jnp.tanh(s / 2) * 3, "changed by 'tanh'"),
        (lambda s, n: jnp.tanh(jnp.where(CAUSAL, s, -1e30) / 2) * 2, "masked before they are capped"),
        (lambda s, n: jnp.tanh((s + jnp.where(CAUSAL, 0.0, -1e30)) / 2) * 2, "masked before they are capped"),
        (lambda s, n: jnp.tanh(s / 2) * 2 * 0.3, "scaled or capped after they are capped"),
        (lambda s, n: jnp.tanh(jnp.tanh(s / 2) * 2 / 3) * 3, "scaled or capped after they are capped"),
        (lambda s, n: jnp.tanh(s / n) * n, "changed by"),
        (lambda s, n: jnp.tanh(s * 2) * 2, "changed by 'tanh'"),
        (lambda s, n: jnp.tanh(2 / s) * 2, "changed by 'tanh'"),
        (lambda s, n: jnp.tanh(s / -2) * -2, "changed by 'tanh'"),
        (lambda s, n: jnp.tanh(s / 2) / 2, "changed by 'tanh'"),
    ],
)
def test_scores_that_are_capped_otherwise_are_told(weigh, reason):
    function, *args = by_hand(weigh)
    with pytest.raises(ImportFailure, match=reason):
        te_mlir.jax.compile(function, args)


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x, w: jnp.tanh(x), "no product of an argument with a weight"),
        (lambda x, w: jnp.dot(x, w.astype(jnp.bfloat16)), "convert_element_type|rounds a product|elements of"),
        (lambda x, w: jnp.matmul(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), preferred_element_type=jnp.float32),
         "te rounds a product to its operands' type"),
        (lambda x, w: (x @ w) * jnp.arange(64.0), r"\[16, 64\] and \[1, 64\] are broadcast"),
        (lambda x, w: jnp.einsum("bij,bjk->bik", (x @ w)[None], w[None]), "product of batches"),
        (lambda x, w: jax.nn.dot_product_attention(*[(x @ w).reshape(1, 16, 4, 16)] * 3, local_window_size=(2, 1)),
         "mask is not causal, with a window or without"),
        (lambda x, w: models.rope((x @ w).reshape(1, 16, 4, 16), *[w[:16, :16].reshape(1, 16, 1, 16)] * 2),
         "halves of its tables"),
    ],
    ids=["no-product", "mixed", "preferred", "broadcast", "batches", "window", "tables"],
)  # fmt: skip
def test_reasons(function, reason):
    x, w = jnp.ones((16, 64)), jnp.ones((64, 64))
    if "mixed" in reason or "rounds a product|" in reason:
        assert_mixed_is_f32(function, x, w)
        return
    with pytest.raises(ImportFailure, match=reason):
        te_mlir.jax.compile(function, (x, w))


def assert_mixed_is_f32(function, x, w):
    """JAX itself widens the narrower operand: that is imported."""
    assert te_mlir.jax.compile(function, (x, w))(x, w).dtype == jnp.float32


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
    with pytest.raises(ImportFailure, match=f"{function.__name__} at .* of its own .jax.{name}."):
        te_mlir.jax.compile(lambda x, w: function(x @ w) @ w, (x, w))
    # JAX's own are no matter.
    assert te_mlir.jax.jit(lambda x, w: jax.nn.relu(x @ w.T))(x, w).shape == (16, 32)


def test_infinite_constants():
    x, w = jnp.ones((16, 32)), jnp.ones((32, 32))
    for number in (jnp.inf, -jnp.inf, jnp.nan):
        mine = te_mlir.jax.jit(lambda x, w: (x @ w.T) * number)(x, w)
        assert np.array_equal(mine, (x @ w.T) * number, equal_nan=True)


def test_outputs_beside_the_loss():
    """JAX computes integers from compiled values; a gradient to them, or to logits, is an error."""
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
    for argnums, message in (((2,), "numbers below 2, .* but got 2"), ("x", "in 'argnums', but got 'x'")):
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
        (lambda: compiled(x, w, labels), ArgumentError, "but got 'labels', which they have not"),
        (lambda: compiled(x, None), ArgumentError, "but got no 'w'"),
        (lambda: compiled(x, w, y=w), TypeError, "unexpected keyword argument 'y'"),
        (lambda: te_mlir.jax.jit(lambda *, x, w: x @ w)(x=x, w=w), TypeError, "'x', 'w' have a name alone"),
        (lambda: te_mlir.jax.jit(x), ArgumentError, "expected a function of JAX arrays, but got ArrayImpl"),
        (lambda: te_mlir.jax.compile(_product, x), ArgumentError, "expected 'example_args' to be a list"),
        (lambda: te_mlir.jax.value_and_grad(_product, 2)(x, w, labels), ArgumentError, "of int32, as 'labels' has"),
        (lambda: delayed(x, w, state=[1]), ArgumentError, "expected a dict of arrays, but got list"),
    ]
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()


def test_defaults_that_are_no_arrays():
    """One that nobody gives, before an argument that has a name, is a part of what is compiled."""
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
        with pytest.raises(ArgumentError, match="expected no function that te compiles inside of another"):
            te_mlir.jax.jit(lambda x, w: inner(x, w))(x, w)  # noqa: B023
    with pytest.raises(ArgumentError, match="expected no call of a compiled program in a function that te imports"):
        te_mlir.jax.jit(lambda x, w: compiled.function(x, w)["result0"])(x, w)
    outer = te_mlir.jax.jit(lambda x, w: product.__wrapped__(x, w) * 2)
    assert_close(outer(x, w), 2 * (x @ w))
    # Below jax.jit they are what they are elsewhere.
    assert_close(jax.jit(lambda x, w: product(x, w) * 2)(x, w), 2 * (x @ w))


def test_arrays_of_other_libraries():
    """NumPy wide types become narrow ones of JAX, as in jax.jit; other types are an error."""
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
    """A branch on a value, and a tracer that is kept, of the user's function and argument."""
    x, w = jnp.ones((16, 32)), jnp.ones((32, 64))
    kept = []

    def branches(x, w):
        return x @ w if x.sum() > 0 else x

    def leaks(x, w):
        kept.append(x)
        return x @ w

    where = r"branches at .*test_jax_import.py:[\s\S]* argument x"
    with pytest.raises(jax.errors.TracerBoolConversionError, match=where):
        te_mlir.jax.jit(branches)(x, w)
    te_mlir.jax.jit(leaks)(x, w)
    with pytest.raises(jax.errors.UnexpectedTracerError, match=r"leaks at .*test_jax_import.py:"):
        kept[0] + 1


def test_products_and_keys_that_are_no_floats_are_told():
    x, w = jnp.ones((16, 32), jnp.int32), jnp.ones((32, 64), jnp.int32)
    with pytest.raises(ImportFailure, match=r"dot_general\(i32 .* its result has elements of i32; te has float32"):
        te_mlir.jax.jit(_product)(x, w)

    def dropped(x, w, key):
        return x @ w * jax.random.bernoulli(key, 0.5, (16, 64))

    for key in (jax.random.key(0), jax.random.PRNGKey(0)):
        with pytest.raises(ImportFailure, match="convert_element_type.* its operand has elements of bool"):
            te_mlir.jax.jit(dropped)(x.astype(jnp.float32), w.astype(jnp.float32), key)


def test_a_shape_compiles_once():
    compiled = te_mlir.jax.jit(models.gpt)
    params = models.gpt_params(jax.random.key(0))
    for rows in (16, 32, 16):
        assert compiled(params, jnp.ones((rows, 64))).shape == (rows, 64)
    assert len(compiled.compiled) == 2


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
    """Their casts are kept, reports call them weights, and bits are those of the matrix as an argument."""
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
    """A layer of each shape that weights have: [in, out], of heads, cast, and [heads, width, out]."""
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
    """Their bits, and those of their gradients, are those of the same layers with [out, in]."""
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
        """The same function of the transposes, which products read as [out, in]."""
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
