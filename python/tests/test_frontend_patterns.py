"""Patterns of both frontends: each program is written once, and imported from PyTorch and from JAX."""

import math

import numpy as np
import pytest

H, G, B = (np.random.default_rng(n).normal(size=size).astype(np.float32) for n, size in enumerate(((16, 64), 64, 64)))
W = np.random.default_rng(3).normal(size=(64, 64)).astype(np.float32) / 8
ANGLES = np.arange(8, dtype=np.float32)[:, None] / 10 ** np.arange(4, dtype=np.float32)


class Torch:
    """Operations of PyTorch."""

    def __init__(self):
        import torch

        self.relu, self.sigmoid, self.erf, self.rsqrt = torch.relu, torch.sigmoid, torch.erf, torch.rsqrt
        self.cos, self.sin, self.array = torch.cos, torch.sin, torch.as_tensor
        self.joined = lambda *parts: torch.cat(parts, -1)
        self.beside = lambda *parts: torch.stack(parts, -1).flatten(-2)
        self.mean = lambda x: x.mean(-1, keepdim=True)
        self.log_softmax = lambda x: torch.log_softmax(x, -1)
        self.softmax = lambda x, axis=-1: torch.softmax(x, axis)
        self.exp, self.swapped = torch.exp, lambda x: x.transpose(-3, -2)
        self.top = lambda x, axis=-1: x.amax(axis, keepdim=True)
        self.total = lambda x, axis=-1: x.sum(axis, keepdim=True)
        self.logsumexp = lambda x: torch.logsumexp(x, -1)
        self.picked = lambda x, places: torch.gather(x, -1, places[:, None])[:, 0]
        self.cast = lambda x, dtype: x.to(getattr(torch, dtype))
        self.split = lambda x, count: x.chunk(count, -1)
        self.where, self.abs, self.sign = torch.where, torch.abs, torch.sign
        self.largest, self.smallest = torch.maximum, torch.minimum
        self.bounded = torch.nn.functional.hardtanh
        self.leaky = torch.nn.functional.leaky_relu
        self.turned = lambda x: x.transpose(-2, -1)
        self.rows = lambda table, ids: torch.nn.functional.embedding(ids, table)
        self.torch = torch

    def model(self, function, *others):
        """(A model with a layer and `function` of it, the compiled model). others: arrays that become parameters."""
        import te_mlir.torch

        torch = self.torch
        made = [torch.nn.Parameter(torch.tensor(a)) if isinstance(a, np.ndarray) else a for a in others]

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w, self.g, self.b = (torch.nn.Parameter(torch.tensor(a)) for a in (W, G, B))
                self.more = torch.nn.ParameterList(a for a in made if isinstance(a, torch.nn.Parameter))

            def forward(self, x):
                more = iter(self.more)
                own = [next(more) if isinstance(a, torch.nn.Parameter) else a for a in made]
                return function(x @ self.w, self.g, self.b, *own)

        torch._dynamo.reset()
        model = Model()
        return model, te_mlir.torch.jit(model, strict=True, differentiate_outputs="all")

    def text(self, compiled):
        (graph,) = compiled.te.graphs
        return "".join(region.function.to_mlir() for region in graph.regions)

    def call(self, function):
        """(Results of the compiled `function` of a layer in f32, those of PyTorch, the text of the program)."""
        model, compiled = self.model(function)
        found = [[y.detach().float().numpy() for y in run(self.torch.tensor(H))] for run in (compiled, model)]
        return *found, self.text(compiled)

    def run(self, function, *others):
        """Checks results and gradients of `function` of a layer against PyTorch; returns the text of the program."""
        torch = self.torch
        (model, compiled), x = self.model(function, *others), torch.tensor(H)
        got, wanted = [], []
        for run, found in ((compiled, got), (model, wanted)):
            y = run(x)
            leaves = [model.w, model.g, model.b, *model.more]
            used = torch.autograd.grad((y * torch.arange(y.numel()).cos().view_as(y)).sum(), leaves, allow_unused=True)
            found += [y, *(gradient for gradient in used if gradient is not None)]
        assert len(got) == len(wanted) > 1
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(got, wanted))
        return self.text(compiled)


class Jax:
    """Operations of JAX."""

    def __init__(self):
        import jax
        import jax.numpy as jnp

        self.relu, self.sigmoid, self.erf, self.rsqrt = jax.nn.relu, jax.nn.sigmoid, jax.lax.erf, jax.lax.rsqrt
        self.cos, self.sin, self.array = jnp.cos, jnp.sin, jnp.asarray
        self.joined = lambda *parts: jnp.concatenate(parts, -1)
        self.beside = lambda *parts: jnp.stack(parts, -1).reshape(*parts[0].shape[:-1], -1)
        self.mean = lambda x: jnp.mean(x, -1, keepdims=True)
        self.log_softmax = lambda x: jax.nn.log_softmax(x, -1)
        self.softmax = lambda x, axis=-1: jax.nn.softmax(x, axis)
        self.exp, self.swapped = jnp.exp, lambda x: x.swapaxes(-3, -2)
        self.top = lambda x, axis=-1: jnp.max(x, axis, keepdims=True)
        self.total = lambda x, axis=-1: jnp.sum(x, axis, keepdims=True)
        self.logsumexp = lambda x: jax.nn.logsumexp(x, -1)
        self.picked = lambda x, places: jnp.take_along_axis(x, places[:, None], -1)[:, 0]
        self.cast = lambda x, dtype: x.astype(dtype)
        self.split = lambda x, count: jnp.split(x, count, -1)
        self.where, self.abs, self.sign = jnp.where, jnp.abs, jnp.sign
        self.largest, self.smallest = jnp.maximum, jnp.minimum
        self.bounded = lambda x: jax.lax.clamp(-1.0, x, 1.0)
        self.leaky = jax.nn.leaky_relu
        self.turned = lambda x: x.swapaxes(-2, -1)
        self.rows = lambda table, ids: table[ids]
        self.jax, self.jnp = jax, jnp

    def call(self, function):
        """(Results of the compiled `function` of a layer in f32, those of JAX, the text of the program)."""
        import te_mlir.jax

        def model(x, w, g, b):
            return function(x @ w, g, b)

        arguments = [self.jnp.asarray(a) for a in (H, W, G, B)]
        compiled = te_mlir.jax.jit(model)
        found = [[np.asarray(y, np.float32) for y in run(*arguments)] for run in (compiled, model)]
        return *found, compiled.lower(*arguments).text()

    def run(self, function, *others):
        """Checks results and gradients of `function` of a layer against JAX; returns the text.

        others: arrays that become arguments.
        """
        import te_mlir.jax

        jax, jnp = self.jax, self.jnp
        more = [a for a in others if isinstance(a, np.ndarray)]

        def model(x, w, g, b, *more):
            given = iter(more)
            return function(x @ w, g, b, *(next(given) if isinstance(a, np.ndarray) else a for a in others))

        compiled = te_mlir.jax.jit(model)
        arguments = [jnp.asarray(a) for a in (H, W, G, B, *more)]
        found = []
        for run in (compiled, model):
            y, pull = jax.vjp(run, *arguments)
            found.append([y, *pull(jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape))[1:]])
        assert all(jnp.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(*found))
        return compiled.lower(*arguments).text()


FRAMEWORKS = {"torch": Torch, "jax": Jax}


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    pytest.importorskip(request.param)
    return FRAMEWORKS[request.param]()


def layer_norm(f, h, g, b):
    centred = h - f.mean(h)
    return centred * f.rsqrt(f.mean(centred * centred) + 1e-5) * g + b


def itself(x):
    return x * x


def exponents(f, h, less=lambda f, h: h - f.top(h), total=lambda f, e: f.total(e)):
    e = f.exp(less(f, h))
    return e / total(f, e)


def turned_halves(f, h):
    x = h.reshape(2, 8, 8, 8)
    cos, sin = (f.joined(t, t)[None, :, None, :] for t in tables(f))
    return x * cos + f.joined(-x[..., 4:], x[..., :4]) * sin


def turned_parts(f, h):
    x = h.reshape(2, 8, 8, 8)
    cos, sin = (t[None, :, None, :] for t in tables(f))
    return f.joined(x[..., :4] * cos - x[..., 4:] * sin, x[..., 4:] * cos + x[..., :4] * sin)


def turned_pairs(f, h):
    x = h.reshape(2, 8, 8, 8)
    cos, sin = (f.beside(t, t)[None, :, None, :] for t in tables(f))
    return x * cos + f.beside(-x[..., 1::2], x[..., ::2]) * sin


def turned_first_columns(f, h):
    whole = h.reshape(2, 8, 4, 16)
    cos, sin = (f.joined(t, t)[None, :, None, :] for t in tables(f))
    x = whole[..., :8]
    return f.joined(x * cos + f.joined(-x[..., 4:], x[..., :4]) * sin, whole[..., 8:])


def tables(f):
    angles = f.array(ANGLES)
    return f.cos(angles), f.sin(angles)


PATTERNS = {
    "relu": (lambda f, h, g, b: f.relu(h), "te.activation <relu>"),
    "square of relu": (lambda f, h, g, b: f.relu(h) ** 2, "te.activation <srelu>"),
    "relu times itself": (lambda f, h, g, b: itself(f.relu(h)), "te.activation <srelu>"),
    "square of relu times another": (lambda f, h, g, b: f.relu(h) ** 2 * (h + h), "te.activation <sreglu>"),
    "silu": (lambda f, h, g, b: h * f.sigmoid(h), "te.activation <silu>"),
    "silu times another": (lambda f, h, g, b: f.sigmoid(h) * h * (h + h), "te.activation <swiglu>"),
    "gelu by erf": (lambda f, h, g, b: 0.5 * h * (1 + f.erf(h * math.sqrt(0.5))), "te.activation <gelu_erf>"),
    "gelu by a logistic": (lambda f, h, g, b: h * f.sigmoid(1.702 * h), "te.activation <qgelu>"),
    "a logistic": (lambda f, h, g, b: f.sigmoid(h), "te.activation <glu>"),
    "a vector added": (lambda f, h, g, b: f.relu(h) + b, "te.bias_add"),
    "rms norm": (lambda f, h, g, b: h * f.rsqrt(f.mean(h * h) + 1e-5) * g, "te.rms_norm"),
    "rms norm around 1": (lambda f, h, g, b: h * f.rsqrt(f.mean(h * h) + 1e-5) * (1 + g), "zero_centered_gamma"),
    "rms norm, gamma first": (lambda f, h, g, b: h * (f.rsqrt(f.mean(h * h) + 1e-5) * g), "te.rms_norm"),
    "layer norm": (layer_norm, "te.layer_norm"),
    "softmax": (lambda f, h, g, b: f.softmax(h), "te.softmax"),
    "softmax by hand": (lambda f, h, g, b: exponents(f, h), "te.softmax"),
    "softmax without a maximum": (lambda f, h, g, b: exponents(f, h, lambda f, h: h), "te.softmax"),
    "softmax of a product": (lambda f, h, g, b: f.softmax(0.25 * h), "{scale = 0.25 : f32}"),
    "softmax of a quotient": (lambda f, h, g, b: f.softmax(h / 8), "{scale = 0.125 : f32}"),
    "softmax of all": (lambda f, h, g, b: f.softmax(h.reshape(-1)), "te.softmax"),
    "softmax of three dimensions": (lambda f, h, g, b: f.softmax(h.reshape(4, 16, 16)), "te.softmax"),
    "softmax of rows in another order": (lambda f, h, g, b: f.softmax(f.swapped(h.reshape(2, 8, 4, 16))), "te.softmax"),
    "rotation of halves": (lambda f, h, g, b: turned_halves(f, h), "te.rope"),
    "rotation of parts": (lambda f, h, g, b: turned_parts(f, h), "te.rope"),
    "rotation of pairs": (lambda f, h, g, b: turned_pairs(f, h), "style = #te.rope_style<interleaved>"),
    "rotation of first columns": (lambda f, h, g, b: turned_first_columns(f, h), "te.rope"),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_of_both_frontends(framework, name):
    function, op = PATTERNS[name]
    text = framework.run(lambda h, g, b: function(framework, h, g, b))
    assert text.count(op) == 1, text
    # The program has no elementwise operation.
    assert "arith." not in text.replace("arith.constant", "") or "another" in name, text


NEAR = {
    "square of another": lambda f, h, g, b: f.relu(h) * f.relu(h + h),
    "cube of relu": lambda f, h, g, b: f.relu(h) ** 2 * f.relu(h),
    "another slope": lambda f, h, g, b: h * f.sigmoid(1.7 * h),
}


@pytest.mark.parametrize("name", NEAR)
def test_what_is_nearly_a_pattern_of_both_is_none(framework, name):
    text = framework.run(lambda h, g, b: NEAR[name](framework, h, g, b))
    assert "<qgelu>" not in text and "<silu>" not in text
    assert text.count("<srelu>") + text.count("<sreglu>") == (name == "cube of relu"), text


#: Nearly softmax of rows.
NO_SOFTMAX = {
    "of columns": lambda f, h: f.softmax(h, 0),
    "of columns by hand": lambda f, h: exponents(f, h, lambda f, h: h - f.top(h, 0), lambda f, e: f.total(e, 0)),
    "the sum of other elements": lambda f, h: exponents(f, h, total=lambda f, e: f.total(e + e)),
    "the sum of columns": lambda f, h: exponents(f, h, total=lambda f, e: f.total(e, 0)),
    "another maximum above": lambda f, h: f.exp(h - f.top(h)) / f.total(f.exp(h)),
}


@pytest.mark.parametrize("name", NO_SOFTMAX)
def test_what_is_nearly_softmax_is_none(framework, name):
    """It is a softmax of the transpose, or other operations."""
    text = framework.run(lambda h, g, b: NO_SOFTMAX[name](framework, h) * g)
    assert ("te.softmax" in text) == ("columns" in name)
    assert "te.softmax" not in text or "linalg.transpose" in text


def softmax_types(text):
    lines = [line for line in text.splitlines() if "te.softmax" in line]
    return [line.split("x")[-1].split(">")[0] for line in lines]


@pytest.mark.parametrize("dtype, short", [("bfloat16", "bf16"), ("float16", "f16")])
def test_softmax_rounds_where_the_program_does(framework, dtype, short):
    cast, softmax = framework.cast, framework.softmax

    def casts(h, g, b):
        narrow = cast(h, dtype)
        wide, product = cast(narrow, "float32"), cast(narrow * 0.375, "float32")
        return cast(softmax(wide), dtype), cast(softmax(h), dtype), softmax(wide), softmax(product)

    got, wanted, text = framework.call(casts)
    assert all(np.allclose(a, b, rtol=3e-2, atol=1e-3) for a, b in zip(got, wanted)), text
    # The first is rounded once, the others are f32: the second, of an f32 operand, is rounded after it, and the product before.
    assert sorted(softmax_types(text)) == [short, "f32", "f32", "f32"] and "scale" not in text, text


def test_pytorchs_softmax_of_another_type():
    torch = pytest.importorskip("torch")

    def softmax(h, g, b):
        of_half = torch.ops.aten._softmax((h + h).bfloat16(), -1, False)
        return torch.softmax(h.bfloat16(), -1, dtype=torch.float32), torch.softmax(h, -1, dtype=torch.bfloat16), of_half

    got, wanted, text = Torch().call(softmax)
    assert all(np.allclose(a, b, rtol=3e-2, atol=1e-3) for a, b in zip(got, wanted)), text
    assert sorted(softmax_types(text)) == ["bf16", "bf16", "f32"], text


LABELS = np.arange(16) * 3 % 64


LOSSES = {
    "log_softmax": lambda f, h, labels: -f.picked(f.log_softmax(h), labels).mean(),
    "logsumexp": lambda f, h, labels: (f.logsumexp(h) - f.picked(h, labels)).mean(),
    "a sum": lambda f, h, labels: -f.picked(f.log_softmax(h), labels).sum(),
    "a quarter": lambda f, h, labels: -f.picked(f.log_softmax(h), labels).mean() / 4,
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_both_frontends(framework, name):
    labels = framework.array(LABELS)
    text = framework.run(lambda h, g, b, labels: LOSSES[name](framework, h, labels), labels)
    assert text.count("te.cross_entropy") == 1, text


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_pytorchs_loss_of_log_softmax(reduction):
    torch = pytest.importorskip("torch")
    labels = torch.as_tensor(np.where(LABELS % 2, LABELS, 7))
    options = {"reduction": reduction, "ignore_index": 7}
    text = Torch().run(
        lambda h, g, b, labels: torch.nn.functional.nll_loss(torch.log_softmax(h, -1), labels, **options), labels
    )
    assert text.count("te.cross_entropy") == 1 and "ignore_index = 7" in text, text


def test_the_loss_of_each_row_is_no_cross_entropy_of_te(framework):
    labels = framework.array(LABELS)
    function = lambda h, g, b, labels: framework.logsumexp(h) - framework.picked(h, labels)  # noqa: E731
    assert "te.cross_entropy" not in framework.run(function, labels)


def over_root(f, h):
    return h * f.rsqrt(f.mean(h * h) + 1e-5)


ROUNDED = {
    "gelu by a logistic": (lambda f, h, g: h * f.sigmoid(1.702 * h), "te.activation <qgelu>"),
    "square of relu": (lambda f, h, g: f.relu(h) ** 2, "te.activation <srelu>"),
    "silu": (lambda f, h, g: h * f.sigmoid(h), "te.activation <silu>"),
    "rms norm": (
        lambda f, h, g: f.cast(over_root(f, f.cast(h, "float32")), str(h.dtype).split(".")[-1]) * g,
        "te.rms_norm",
    ),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("name", ROUNDED)
def test_what_a_program_rounds_and_widens_is_rounded(framework, name, both, dtype):
    function, op = ROUNDED[name]

    def widened(h, g, b):
        y = function(framework, framework.cast(h, dtype), framework.cast(g, dtype))
        return (y, framework.cast(y, "float32")) if both else (framework.cast(y, "float32") + h,)

    got, wanted, text = framework.call(widened)
    bound = 1e-5 if dtype == "float32" else 3e-2
    assert all(np.allclose(a, b, rtol=bound, atol=bound) for a, b in zip(got, wanted))
    # There is one operation, which computes in the operand's type.
    (line,) = [line for line in text.splitlines() if op in line]
    assert ("bf16" in line) == (dtype == "bfloat16") and ("f32>" in line) == (dtype == "float32"), line
    assert not both or (got[0] == got[1]).all()


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_vectors_of_a_norm_are_not_rounded(framework, name, dtype):
    def norm(h, g, b):
        x = framework.cast(framework.cast(h, dtype), "float32")
        y = over_root(framework, x) * g if name == "rms_norm" else layer_norm(framework, x, g, b)
        return (framework.cast(y, dtype),)

    got, wanted, text = framework.call(norm)
    bound = 1e-5 if dtype == "float32" else 3e-2
    assert np.allclose(got, wanted, rtol=bound, atol=bound)
    assert f"te.{name}" in text and "tensor<64xbf16>" not in text, text


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_vector_that_a_program_rounds_is_added_rounded(framework, dtype):
    def added(h, g, b):
        return (h + framework.cast(framework.cast(1 * b, dtype), "float32"),)

    got, wanted, text = framework.call(added)
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-6), text


@pytest.mark.parametrize("x, b", [("bfloat16", "float32"), ("float16", "bfloat16"), ("float32", "bfloat16")])
def test_a_vector_is_added_in_the_type_of_the_sum(x, b):
    pytest.importorskip("torch")
    f = Torch()
    # relu(h) is not the result of a GEMM, so the sum is not a linear layer with a bias.
    got, wanted, text = f.call(lambda h, g, v: (f.cast(f.relu(h), x) + f.cast(v, b),))
    (line,) = [line for line in text.splitlines() if "te.bias_add" in line]
    assert "tensor<16x64xf32>, tensor<64xf32>" in line, line
    bound = 1e-5 if x == "float32" else 1e-2
    assert np.allclose(got, wanted, rtol=bound, atol=bound)


def test_a_norm_of_rounded_elements_has_their_variance(framework):
    def norm(h, g, b):
        x = framework.cast(framework.cast(h, "bfloat16"), "float32")
        return (x * framework.rsqrt(framework.mean(h * h) + 1e-5) * g,)

    (got,), (wanted,), text = framework.call(norm)
    assert "te.rms_norm" not in text
    assert np.allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_a_norm_in_f64_is_not_computed_in_f32():
    torch = pytest.importorskip("torch")
    f = Torch()
    with pytest.raises(Exception, match="its result has elements of f64"):
        f.call(lambda h, g, b: ((over_root(f, h.double()) * g.double()).to(torch.float32),))


def normal(number, *shape):
    return (np.random.default_rng(number).normal(size=shape) / shape[0] ** 0.5).astype(np.float32)


#: Each has a function of a layer [16, 64], a weight and a bias; the weight; and whether te reads it as [in, out].
LAYERS = {
    "in, out": (lambda f, h, w, b: h @ w + b, normal(4, 64, 96), True),
    "out, in": (lambda f, h, w, b: h @ w.T + b, normal(4, 96, 64), False),
    "transposed twice": (lambda f, h, w, b: h @ w.T.T + b, normal(4, 64, 96), True),
    "bias first": (lambda f, h, w, b: b + h @ w, normal(4, 64, 96), True),
    "weight first": (lambda f, h, w, b: (w @ h.T).T + b, normal(4, 96, 64), False),
    "bias of heads": (lambda f, h, w, b: (h @ w).reshape(2, 8, 4, 24) + b.reshape(4, 24), normal(4, 64, 96), True),
    "bias of each row": (lambda f, h, w, b: (h @ w) + b[None], normal(4, 64, 96), True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_both_frontends(framework, name):
    function, w, transposed = LAYERS[name]
    text = framework.run(lambda h, g, b, w, c: function(framework, framework.relu(h), w, c), w, normal(5, 96))
    lines = [line for line in text.splitlines() if "te.linear" in line]
    assert len(lines) == 2 and " bias %" in lines[1] and "te.bias_add" not in text, text
    assert ("transposed_weight" in lines[1]) == transposed, lines[1]


#: Sums that are not a bias: one per row, of a layer with another reader, or in another type.
NO_BIAS = {
    "of rows": lambda f, h, w, b: h @ w + f.relu(h @ w),
    "used again": lambda f, h, w, b: (lambda y: (y + b) * f.relu(y))(h @ w),
}


@pytest.mark.parametrize("name", NO_BIAS)
def test_what_is_nearly_a_bias_of_both_is_none(framework, name):
    w, b = normal(4, 64, 96), normal(5, 96)
    text = framework.run(lambda h, g, _, w, c: NO_BIAS[name](framework, framework.relu(h), w, c), w, b)
    assert " bias %" not in text, text


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_sum_in_a_wider_type_is_of_a_rounded_product(framework, dtype):
    got, wanted, text = framework.call(lambda h, g, b: (framework.cast(framework.cast(h, dtype), "float32") + b,))
    assert " bias %" not in text and np.allclose(got, wanted, rtol=1e-6, atol=1e-6), text


def test_a_bias_that_a_program_rounds_is_rounded(framework):
    def added(h, g, b):
        return (h + framework.cast(framework.cast(b, "bfloat16"), "float32"),)

    got, wanted, text = framework.call(added)
    assert " bias %" in text and np.allclose(got, wanted, rtol=1e-6, atol=1e-6), text


def in_slices(f, y):
    return [y[..., n * 64 : n * 64 + 64] for n in range(3)]


def by_index(f, y):
    y = y.reshape(2, 8, 3, 64)
    return [y[:, :, n] for n in range(3)]


def by_heads(f, y):
    return [part.reshape(16, 4, 16).swapaxes(0, 1) for part in f.split(y, 3)]


#: Ways to read three parts of 64 columns of a layer [16, 192].
PARTS = {
    "split": lambda f, y: f.split(y, 3),
    "slices": in_slices,
    "index": by_index,
    "another order": lambda f, y: f.split(y, 3)[::-1],
    "heads": by_heads,
    "a reshape before": lambda f, y: f.split(y.reshape(2, 8, 192), 3),
}
#: Each has the layer, with a weight [in, out] and a bias, and whether the bias is used.
WHOLE = {
    "no bias": (lambda f, h, w, b: h @ w, False),
    "bias": (lambda f, h, w, b: h @ w + b, True),
    "out, in": (lambda f, h, w, b: h @ w.T + b, True),
}


@pytest.mark.parametrize("whole", WHOLE)
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_both_frontends(framework, name, whole):
    layer, bias = WHOLE[whole]
    w = normal(4, 192, 64) if whole == "out, in" else normal(4, 64, 192)

    def function(h, g, b, w, c):
        q, k, v = PARTS[name](framework, layer(framework, framework.relu(h), w, c))
        return framework.relu(q) * k + v

    text = framework.run(function, w, normal(5, 192))
    lines = [line for line in text.splitlines() if "te.linear" in line]
    assert len(lines) == 4 and "te.bias_add" not in text, text
    assert all((" bias %" in line) == bias for line in lines[1:]), lines
    assert "extract_slice" not in text


def test_parts_of_what_is_cast_are_rounded(framework):
    def function(h, g, b):
        first, second = framework.split(framework.cast(h, "bfloat16"), 2)
        return framework.cast(first, "float32"), framework.relu(second)

    got, wanted, text = framework.call(function)
    assert text.count("te.linear") == 2 and text.count("te.activation") == 1, text
    for mine, theirs in zip(got, wanted):
        assert np.allclose(mine, theirs, rtol=1e-2, atol=1e-2)
        assert not (mine.view(np.uint32) & 0xFFFF).any()


#: Views that are not columns, and columns of a layer that is also read as a whole.
NO_PARTS = {
    "rows": lambda f, y, v: f.relu(y[:8]) + y[8:],
    "every second": lambda f, y, v: f.relu(y[..., ::2]) + y[..., 1::2],
    "all, too": lambda f, y, v: f.relu(y[..., :96]) + y[..., 96:] + f.relu(y) @ v,
}


@pytest.mark.parametrize("name", NO_PARTS)
def test_what_is_nearly_a_part_of_both_is_none(framework, name):
    def function(h, g, b, w, v):
        return NO_PARTS[name](framework, framework.relu(h) @ w, v)

    # Beside the layer of the test. JAX reads every second column as a layer of its own.
    layers = framework.run(function, normal(4, 64, 192), normal(5, 192, 96)).count("te.linear") - 1
    assert layers == {"rows": 1, "every second": 2 if isinstance(framework, Jax) else 1, "all, too": 2}[name]


def test_embeddings_of_both_frontends(framework):
    ids = framework.array(LABELS % 32)
    text = framework.run(lambda h, g, b, table, ids: h + framework.rows(table, ids), normal(4, 32, 64), ids)
    assert text.count("te.embedding") == 1, text


def test_numbers_that_no_type_rounds_are_what_they_are():
    from te_mlir.frontend.graph import Const
    from te_mlir.frontend.looking import is_about

    assert is_about(Const(np.int32(2), ()), 2) and not is_about(Const(np.int32(2), ()), 1.702)


V = np.random.default_rng(4).uniform(1, 2, 64).astype(np.float32)
BROADCASTS = {
    "channels": (lambda x, g, b, v: x * v, V),
    "both-vectors": (lambda x, g, b, v: (x - b) * v / g, V),
    "difference": (lambda x, g, b, v: v - x, V),
    "quotient": (lambda x, g, b, v: v / (x * x + 1), V),
    "one": (lambda x, g, b, v: x * v, V[:1]),
    "table": (lambda x, g, b, v: x.reshape(2, 8, 64) + v, V[:, None][:8] * V),
    "table-of-a-batch": (lambda x, g, b, v: x.reshape(2, 8, 64) * v, (V[:, None][:8] * V)[None]),
    "heads": (lambda x, g, b, v: x.reshape(2, 8, 4, 16) * v, V[:16]),
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_what_is_repeated_along_leading_dimensions_is_broadcast(framework, name):
    function, array = BROADCASTS[name]
    text = framework.run(function, array)
    assert "linalg.broadcast" in text


def test_what_is_repeated_in_the_order_of_memory_is_broadcast(framework):
    """A vector of each head's columns, on heads before tokens."""
    text = framework.run(
        lambda x, g, b, v: framework.swapped(framework.swapped(x.reshape(2, 8, 4, 16)) * v + 1), V[:16]
    )
    assert "linalg.broadcast" in text


def test_a_scale_is_rounded_where_the_program_does(framework):
    def function(x, g, b):
        narrow = framework.cast(x, "float16")
        return narrow, narrow * framework.cast(g, "float16"), narrow * g

    (narrow, product, wide), _, text = framework.call(function)
    assert text.count("linalg.broadcast") == 2
    assert np.array_equal(product, narrow.astype(np.float16) * G.astype(np.float16))
    assert np.array_equal(wide, narrow * G)


def test_what_is_repeated_along_other_dimensions(framework):
    text = framework.run(lambda x, g, b, v: x.reshape(2, 8, 64) * v, V[:2, None, None] * V[:1])
    assert "linalg.reduce" not in text and "linalg.broadcast" in text


#: Functions of rows: (function, the number of reductions of its program).
MAXIMA = {
    "largest": (lambda f, x, g, b: x * g - f.top(x), 1),
    "of-all": (lambda f, x, g, b: x * f.top(x, (0, 1)), 1),
    "log-softmax": (lambda f, x, g, b: f.log_softmax(x) * x, 2),
    "logsumexp": (lambda f, x, g, b: f.logsumexp(x), 2),
}


@pytest.mark.parametrize("name", MAXIMA)
def test_a_maximum_of_rows_is_a_reduction(framework, name):
    function, count = MAXIMA[name]
    text = framework.run(lambda x, g, b: function(framework, x, g, b))
    assert text.count("linalg.reduce") == count and text.count("arith.maximumf }") == 1 and "extract_slice" not in text


#: Choices between values: (function, what the program has).
CHOICES = {
    "comparison": (lambda f, x, g, b: f.where(x > 0.1, x * g, x - b), "arith.select"),
    "of-a-vector": (lambda f, x, g, b: f.where(x <= g, x, g), "arith.cmpf ole"),
    "unequal": (lambda f, x, g, b: f.where(x != x, 0.0, x * g), "arith.cmpf une"),
    "number-and-value": (lambda f, x, g, b: f.where(x < b, 1.0, x * b), "arith.cmpf olt"),
    "several": (lambda f, x, g, b: f.where(((x > b) & ~(x > g)) | (x >= 1), x * g, b * x), "arith.cmpf oge"),
    "known": (lambda f, x, g, b: f.where(f.array(H[:, :1] > 0), x, -x), "arith.cmpf une"),
    "known-and-compared": (lambda f, x, g, b: f.where(f.array(H[:1] > 0) & (x > 0), x, g), "arith.cmpf une"),
    "larger": (lambda f, x, g, b: f.largest(x, g), "arith.maximumf"),
    "smaller": (lambda f, x, g, b: f.smallest(x * b, x), "arith.minimumf"),
    "equal": (lambda f, x, g, b: f.largest(x * g, g * x), "arith.maximumf"),
    "magnitude": (lambda f, x, g, b: f.abs(x) * g, "{abs}"),
    "magnitude-of-zero": (lambda f, x, g, b: f.abs(f.relu(x)) + x * g, "{abs}"),
    "sign": (lambda f, x, g, b: f.sign(x) * x * g, "arith.cmpf ogt"),
    "bounded": (lambda f, x, g, b: f.bounded(x * g), "arith.cmpf ole"),
    "leaky": (lambda f, x, g, b: f.leaky(x), "arith.select"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices(framework, name):
    function, wanted = CHOICES[name]
    # JAX's derivative at 0 is that of a choice.
    wanted = wanted.format(abs="math.absf" if isinstance(framework, FRAMEWORKS["torch"]) else "arith.cmpf oge")
    assert wanted in framework.run(lambda x, g, b: function(framework, x, g, b))


def test_a_choice_in_halves(framework):
    """In bf16, both sides compare what is rounded, and neither rounds again."""

    def function(x, g, b):
        x, g = framework.cast(x, "bfloat16"), framework.cast(g, "bfloat16")
        return x, framework.where(x > 0.3, x, g), framework.largest(x, g)

    (x, chosen, largest), _, _ = framework.call(function)
    g, bound = rounded_to_bf16(G), rounded_to_bf16(np.float32(0.3))
    assert np.array_equal(chosen, np.where(x > bound, x, g)) and np.array_equal(largest, np.maximum(x, g))


def rounded_to_bf16(a):
    """Rounds to bf16, with ties to even."""
    bits = np.asarray(a, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("shape", [(4, 4, 64), (2, 2, 4, 64)])
def test_products_with_batches(framework, shape):
    """They are products of groups of rows, which no recipe quantises."""
    text = framework.run(lambda x, g, b: x.reshape(shape) @ framework.turned((x * g).reshape(shape)))
    assert text.count("te.grouped_linear") == 1 and "te.recipe = #te.recipe<high_precision>" in text


def test_attention_with_a_trained_bias(framework):
    """One number for each head and distance, as in T5: a mask that is computed from a parameter."""

    def function(x, g, b, bias):
        heads = lambda t: framework.swapped(t.reshape(2, 8, 4, 16))
        scores = heads(x) @ framework.turned(heads(x * g)) / 16 + bias
        return framework.softmax(scores) @ heads(x - b)

    bias = np.random.default_rng(4).normal(size=(1, 4, 8, 8)).astype(np.float32)
    text = framework.run(function, bias)
    assert text.count("te.grouped_linear") == 2 and text.count("te.softmax") == 1
