"""Attention with a mask that each call passes, also written as formulas, with capped scores, and with sinks."""

import contextlib
import inspect
import warnings

import pytest

torch = pytest.importorskip("torch")

from dropouts import same_dropouts
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_compare import X, compare, fresh, strict_error  # noqa: F401

import te_mlir
import te_mlir.torch


class Masked(nn.Module):
    """A linear layer, attention with a mask argument, and a linear layer."""

    def __init__(self, heads=4):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(64, 192, bias=False), nn.Linear(64, 64), heads

    def forward(self, x, mask):
        shape = (*x.shape[:2], self.heads, 64 // self.heads)
        q, k, v = (t.view(shape).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(x.shape))


MASKS = {
    "causal": torch.ones(1, 1, 16, 16, dtype=torch.bool).tril(),
    "open": torch.ones(1, 1, 16, 16, dtype=torch.bool),
    "open of one row": torch.ones(2, 1, 1, 16, dtype=torch.bool),
    "added and causal": torch.full((1, 1, 16, 16), float("-inf")).triu(1),
    "added and open": torch.zeros(2, 1, 16, 16),
    "windowed": torch.ones(1, 1, 16, 16, dtype=torch.bool).tril().triu(-3),
    "other window": torch.ones(1, 1, 16, 16, dtype=torch.bool).tril().triu(-4),
    "own key alone": torch.eye(16, dtype=torch.bool).view(1, 1, 16, 16),
    "added and windowed": torch.full((16, 16), float("-inf")).triu(1) + torch.full((16, 16), float("-inf")).tril(-5),
    "window of both sides": torch.ones(1, 1, 16, 16, dtype=torch.bool).tril(3).triu(-3),
    "blocks": torch.ones(1, 1, 4, 4, dtype=torch.bool).repeat_interleave(4, 2).repeat_interleave(4, 3).tril()
    & torch.eye(4, dtype=torch.bool).repeat_interleave(4, 0).repeat_interleave(4, 1),
    "first alone": torch.arange(16).expand(2, 1, 1, 16) < 1,
    "padded": torch.arange(16).expand(2, 1, 1, 16) < torch.tensor([16, 9]).view(2, 1, 1, 1),
    "added": torch.linspace(-1, 1, 256).view(1, 1, 16, 16),
}


def of_tokens(result, mask):
    """A result without the rows of padding, which are different from PyTorch's."""
    of_keys = mask.dtype is torch.bool and torch.equal(mask, mask[:, :, :1].expand(mask.shape))
    return result * mask[:, 0, 0, :, None] if of_keys else result


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_that_of_the_call(name):
    """A call may have another mask than the one that a graph was compiled for.

    Attention with an unsupported mask runs in PyTorch.
    """
    other = "causal" if name != "causal" else "padded"
    for first, second in ((name, other), (other, name), (name, "windowed")):
        torch._dynamo.reset()
        model = Masked()
        compiled = te_mlir.torch.jit(model)
        for mask in (first, second, first):
            mask = MASKS[mask].expand(2, 1, -1, -1).clone()
            x = torch.randn(2, 16, 64)
            wanted = torch.autograd.grad(of_tokens(model(x, mask), mask).square().sum(), list(model.parameters()))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = of_tokens(compiled(x, mask), mask)
            found = torch.autograd.grad(result.square().sum(), list(model.parameters()))
            for one, two in zip(found, wanted):
                assert (one - two).norm() < 1e-5 * two.norm()


class Normed(Masked):
    """Queries and keys that are normed without weights, as in models of nanoGPT's speed runs."""

    def forward(self, x, mask):
        q, k, v = (t.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(
            F.rms_norm(q, q.shape[-1:]), F.layer_norm(k, k.shape[-1:]), v, attn_mask=mask
        )
        return self.out(y.transpose(1, 2).reshape(x.shape))


@pytest.mark.parametrize("name", ["causal", "windowed"])
def test_a_mask_of_normed_queries_and_keys(name):
    mask = MASKS[name].expand(2, 1, -1, -1).clone()
    assert compare(Normed(), torch.randn(2, 16, 64), mask, recipe=te_mlir.HighPrecision(), strict=True) == []


class Chosen(Masked):
    """Attention for which the program chooses kernels."""

    def forward(self, x):
        q, k, v = (t.view(2, 16, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(2, 16, 64))


def test_a_choice_of_kernels_has_no_effect():
    """te has its own attention. The report names the line of the choice, once for all layers."""
    lines, first = inspect.getsourcelines(Chosen.forward)
    line = first + next(i for i, text in enumerate(lines) if "scaled_dot_product" in text)
    model = nn.Sequential(Chosen(), Chosen())
    assert compare(model, torch.randn(2, 16, 64), recipe=te_mlir.HighPrecision(), strict=True) == []
    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(model, strict=True)
    compiled(torch.randn(2, 16, 64))
    (graph,) = compiled.te.graphs
    note = "has no effect: torch.nn.attention.sdpa_kernel, before test_torch_attention.py:"
    assert graph.notes() == [f"{note}{line}: te has its own attention"] and note in compiled.te.report()
    assert len(graph.parts) == 1 and sum("te.attention" in str(op) for op in graph.region.function.ops) == 2


@pytest.fixture
def bfloat16_by_default():
    """The default type in the forwards of Lightning's bf16-true."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize("main_grad", [False, True])
@pytest.mark.parametrize("name", ["causal", "open", "added and causal", "padded"])
def test_the_default_type_does_not_matter(bfloat16_by_default, name, main_grad):
    model, mask, x = Masked(), MASKS[name].expand(2, 1, -1, -1).clone(), torch.randn(2, 16, 64)
    compiled = te_mlir.torch.jit(model, main_grad=main_grad, strict=True)
    of_tokens(compiled(x, mask), mask).float().square().sum().backward()
    found = [p.main_grad if main_grad else p.grad for p in model.parameters()]
    model.zero_grad()
    assert all(gradient.dtype is (torch.float32 if main_grad else torch.bfloat16) for gradient in found)
    of_tokens(model(x, mask), mask).float().square().sum().backward()
    for one, p in zip(found, model.parameters()):
        assert (one - p.grad).norm() < 0.02 * p.grad.norm()


def test_a_mask_that_te_has_not_is_products():
    x = torch.randn(2, 16, 64)
    for name in ("causal", "open", "added and open", "windowed", "own key alone", "blocks", "padded"):
        torch._dynamo.reset()
        te_mlir.torch.jit(Masked(), strict=True)(x, MASKS[name]).sum().backward()
    for name in ("window of both sides", "added"):
        torch._dynamo.reset()
        compiled = te_mlir.torch.jit(Masked(), strict=True)
        compiled(x, MASKS[name]).sum().backward()
        (reason,) = compiled.te.graphs[0].spelled
        assert "its mask is neither causal (with or without a window) nor all ones, in whole rows or in docu" in reason


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x, mask):
        q, k, v = (w(x).view(1, 16, 2, 16).transpose(1, 2) for w in (self.q, self.k, self.v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def test_a_mask_is_causal_only_where_it_hides():
    hidden = torch.ones(16, 16).triu(1)
    for number in (float("-inf"), torch.finfo(torch.float32).min):
        torch._dynamo.reset()
        compare(Attention(), X[None], torch.zeros(16, 16).masked_fill(hidden.bool(), number), strict=True)
    for wrong in (-hidden, torch.eye(16), -1e9 * hidden + 0.5 * torch.eye(16)):
        torch._dynamo.reset()
        assert not compare(Attention(), X[None], wrong, strict=True)


class ByHand(Masked):
    """Attention as matrix products and a softmax, whose operand is `weigh(scores, mask, number)`."""

    def __init__(self, weigh, drop=0.0, turn=lambda k: k.transpose(2, 3)):
        super().__init__()
        self.weigh, self.drop, self.turn, self.number = weigh, drop, turn, nn.Buffer(torch.tensor(0.5))

    def forward(self, x, mask):
        q, k, v = (t.view(2, 16, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        weights = self.weigh(q @ self.turn(k), mask, self.number).softmax(-1, dtype=torch.float32)
        y = F.dropout(weights.to(x.dtype), self.drop, self.training) @ v
        return self.out(y.transpose(1, 2).reshape(2, 16, 64))


#: Operands of the softmax that are imported as attention, and the attribute that te.attention has.
BY_HAND = {
    "plain": (lambda s, m, n: s * 0.3 + m, "scale = 0.3"),
    "divided": (lambda s, m, n: m + s / 4, "scale = 0.25"),
    "unscaled": (lambda s, m, n: s + m, "scale = 1.0"),
    "capped": (lambda s, m, n: torch.tanh(s * 0.3 / 0.5) * 0.5 + m, "softcap = 0.5"),
    "capped by a whole number": (lambda s, m, n: m + 2 * torch.tanh(s / 2), "softcap = 2.0"),
    "in place": (lambda s, m, n: (s * 0.3).div_(2.0).tanh().mul(2.0).add_(m), "softcap = 2.0"),
}

#: Operands that are not imported as attention.
NEAR = {
    "two caps": lambda s, m, n: torch.tanh(s * 0.3 / 0.5) * 0.6 + m,
    "capped after the mask": lambda s, m, n: torch.tanh((s * 0.3 + m) / 0.5) * 0.5,
    "scaled after the cap": lambda s, m, n: torch.tanh(s / 0.5) * 0.5 * 0.3 + m,
    "a product for the quotient": lambda s, m, n: torch.tanh(s * 0.5) * 0.5 + m,
    "a divided tanh": lambda s, m, n: torch.tanh(s / 0.5) / 0.5 + m,
    "a number divided": lambda s, m, n: torch.tanh(0.5 / s) * 0.5 + m,
    "a cap that is a tensor": lambda s, m, n: torch.tanh(s / n) * n + m,
    "a negative cap": lambda s, m, n: torch.tanh(s / -0.5) * -0.5 + m,
    "a sigmoid": lambda s, m, n: torch.sigmoid(s / 0.5) * 0.5 + m,
    "a mask of truth values": lambda s, m, n: s * 0.3 + (m == 0),
    "the other way around": lambda s, m, n: (s * 0.3 + m).transpose(2, 3),
    "scores added twice": lambda s, m, n: s + s,
    "scores in 8 bits": lambda s, m, n: (s * 0.3).to(torch.float8_e4m3fn).to(s.dtype) + m,
    "capped in 8 bits": lambda s, m, n: torch.tanh((s / 0.5).to(torch.float8_e5m2).float()) * 0.5 + m,
    "a scale that f32 has not": lambda s, m, n: s * 1e-39 + m,
    "a divisor that f32 has not": lambda s, m, n: s / 1e39 + m,
}


def assert_by_hand(model, mask):
    """Checks gradients against autograd; returns the compiled operations as text."""
    compiled = te_mlir.torch.jit(model)
    x = torch.randn(2, 16, 64)
    found = []
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for one in (model, compiled):
        torch.manual_seed(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with same_dropouts(of_weights=True) if one is model else contextlib.nullcontext():
                found.append(torch.autograd.grad(one(x, mask).square().sum(), wanted))
    for mine, autograds in zip(*found):
        assert (mine - autograds).norm() <= 1e-5 * autograds.norm()
    return [str(op) for graph in compiled.te.graphs for region in graph.regions for op in region.function.ops]


@pytest.mark.parametrize("mask", ["added and causal", "added and windowed", "added and open", "added"])
@pytest.mark.parametrize("name", BY_HAND)
def test_attention_by_hand(name, mask):
    """Also with capped scores. Attention with an unsupported mask is products and a softmax."""
    weigh, attribute = BY_HAND[name]
    mask_ = MASKS[mask].expand(2, 1, 16, 16).clone()
    lines = assert_by_hand(ByHand(weigh), mask_)
    attention = [line for line in lines if "te.attention" in line]
    assert len(attention) == (mask != "added") and all(attribute in line for line in attention)
    assert all(("softcap" in line) == ("softcap" in attribute) for line in attention)
    assert all(("window_size" in line, "causal" in line) == ("wind" in mask, "open" not in mask) for line in attention)


@pytest.mark.parametrize("name", NEAR)
def test_what_is_nearly_attention_by_hand_is_products(name):
    lines = assert_by_hand(ByHand(NEAR[name]), MASKS["added and causal"].clamp_min(-1e9))
    assert sum("te.linear" in line for line in lines) == 4 and not [line for line in lines if "te.attention" in line]


def test_attention_by_hand_turns_keys_in_any_way():
    for turn in (lambda k: k.mT, lambda k: k.swapaxes(-1, -2), lambda k: k.swapdims(2, 3)):
        torch._dynamo.reset()
        lines = assert_by_hand(ByHand(BY_HAND["plain"][0], turn=turn), MASKS["added and causal"])
        assert any("te.attention" in line for line in lines)


def test_attention_by_hand_has_dropout_in_training():
    model = ByHand(BY_HAND["capped"][0], drop=0.5).eval()
    assert any("te.attention" in line for line in assert_by_hand(model, MASKS["added and causal"]))
    torch._dynamo.reset()
    lines = assert_by_hand(model.train(), MASKS["added and causal"])
    assert any("te.attention" in line and "dropout = 0.5" in line for line in lines)


# Attention sinks


class Sunk(ByHand):
    """Attention as formulas, with a number for each head.

    The attention weights are `weigh(scores, mask, numbers)`, where the numbers are [1, heads, 1, 1].
    """

    def __init__(self, weigh, trained=True):
        super().__init__(None)
        self.weigh, self.sinks = weigh, nn.Parameter(torch.randn(self.heads), requires_grad=trained)

    def forward(self, x, mask):
        q, k, v = (t.view(2, 16, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = self.weigh(q @ k.transpose(2, 3) * 0.3, mask, self.sinks.view(1, -1, 1, 1)) @ v
        return self.out(y.transpose(1, 2).reshape(2, 16, 64))


def spread(sinks):
    return sinks.expand(2, -1, 16, -1)


def joined(s, m, n):
    return torch.cat([s + m, spread(n)], -1)


def unshifted(x):
    """The shift that gpt-oss of transformers applies before the softmax."""
    return x - x.max(dim=-1, keepdim=True).values


def after(joined):
    return joined.softmax(-1)[..., :-1]


#: Weights of attention with sinks, and whether the number is trained.
SINKS = {
    "as gpt-oss": (lambda s, m, n: after(unshifted(joined(s, m, n))), True),
    "as they are": (lambda s, m, n: after(joined(s, m, n)), True),
    "an amax": (
        lambda s, m, n: (lambda c: after(c - c.amax(-1, keepdim=True)))(torch.cat([s + m, spread(n)], 3)),
        True,
    ),
    "the largest of all": (
        lambda s, m, n: (lambda c: after(c - c.amax((-2, -1), keepdim=True)))(joined(s, m, n)),
        True,
    ),
    "capped": (lambda s, m, n: after(torch.cat([m + torch.tanh(s / 0.5) * 0.5, spread(n)], -1)), True),
    "of three dimensions": (lambda s, m, n: after(torch.cat([s + m, n[0].expand(2, -1, 16, 1)], -1)), True),
    "off by one": (lambda s, m, n: after(torch.cat([s + m, s.new_zeros(2, 4, 16, 1)], -1)), False),
    "not trained": (lambda s, m, n: after(joined(s, m, n)), False),
}

#: Weights that are not imported as attention with sinks.
NEAR_SINKS = {
    "before the scores": lambda s, m, n: torch.cat([spread(n), s + m], -1).softmax(-1)[..., 1:],
    "with the sink for the first key": lambda s, m, n: joined(s, m, n).softmax(-1)[..., 1:],
    "every other": lambda s, m, n: joined(s, m, n).softmax(-1)[..., 0:16:2].repeat(1, 1, 1, 2),
    "two": lambda s, m, n: torch.cat([s + m, spread(n), spread(n)], -1).softmax(-1)[..., :-2],
    "two in one": lambda s, m, n: torch.cat([s + m, n.expand(2, -1, 16, 2)], -1).softmax(-1)[..., :-2],
    "the largest of the scores": lambda s, m, n: after(joined(s + m, -(s + m).amax(-1, keepdim=True), n)),
    "the smallest": lambda s, m, n: (lambda c: after(c - c.min(-1, keepdim=True).values * 2))(joined(s, m, n)),
    "twice the largest": lambda s, m, n: (lambda c: after(2 * c.amax(-1, keepdim=True) - c))(joined(s, m, n)),
    "a head's of another": lambda s, m, n: after(torch.cat([s + m, spread(n) * s.amax(-1, keepdim=True)], -1)),
    "of the positions": lambda s, m, n: after(torch.cat([s + m, n.view(1, 1, 4, 1).repeat(2, 4, 4, 1)], -1)),
    "scaled weights": lambda s, m, n: after(joined(s, m, n)) * 2,
    "softmax of another axis": lambda s, m, n: joined(s, m, n).softmax(-2)[..., :-1],
    "cut before": lambda s, m, n: joined(s, m, n)[..., :-1].softmax(-1) + 0 * n,
}


@pytest.mark.sampled
@pytest.mark.parametrize("mask", ["added and causal", "added and windowed", "added and open", "added"])
@pytest.mark.parametrize("name", SINKS)
def test_attention_by_hand_with_sinks(name, mask):
    weigh, trained = SINKS[name]
    lines = assert_by_hand(Sunk(weigh, trained), MASKS[mask].expand(2, 1, 16, 16).clone())
    attention = [line for line in lines if "te.attention" in line]
    assert len(attention) == (mask != "added") and all(" sinks %" in line for line in attention)
    assert all(("softcap = 0.5" in line) == (name == "capped") for line in attention)
    assert all(("window_size" in line, "causal" in line) == ("wind" in mask, "open" not in mask) for line in attention)


@pytest.mark.parametrize("name", NEAR_SINKS)
def test_what_are_nearly_sinks_is_not_attention(name):
    mask = MASKS["added and causal"].clamp_min(-1e4)
    lines = assert_by_hand(Sunk(NEAR_SINKS[name]), mask)
    assert not [line for line in lines if "te.attention" in line]


def test_the_report_says_why_attention_is_products():
    model = Sunk(lambda s, m, n: after(torch.cat([s + m, n.view(1, 1, 4, 1).repeat(2, 4, 4, 1)], -1)))
    compiled = te_mlir.torch.jit(model, strict=True)
    compiled(torch.randn(2, 16, 64), MASKS["added and causal"])
    (note,) = compiled.te.graphs[0].notes()
    assert note.startswith("is compiled as products and a softmax, not as te.attention: aten.matmul(")
    assert note.endswith("expected its sinks to have one number for each head, but got [2, 4, 16, 1]")
    assert note in compiled.te.report()


def test_a_sink_changes_the_result():
    """Checks that the comparisons above can fail: a larger sink changes the result."""
    model, mask, x = Sunk(SINKS["as gpt-oss"][0]), MASKS["added and causal"], torch.randn(2, 16, 64)
    compiled = te_mlir.torch.jit(model, strict=True)
    one = compiled(x, mask)
    with torch.no_grad():
        model.sinks.add_(2)
    two = compiled(x, mask)
    assert (one - two).norm() > 0.05 * one.norm() and torch.allclose(two, model(x, mask), atol=1e-5)


@pytest.mark.parametrize("name", ["causal", "none", "of rows"])
def test_an_empty_batch(name):
    """The last batch of a data set may have no rows; then gradients are 0, as in PyTorch."""
    model, x = Masked(), torch.randn(2, 16, 64)[:0]
    mask = {"causal": MASKS["causal"], "none": None, "of rows": MASKS["causal"].expand(2, 1, 16, 16)[:0]}[name]
    compiled = te_mlir.torch.jit(model, strict=True)
    result = compiled(x, mask)
    assert result.shape == (0, 16, 64) and not compiled.te.graphs[0].reasons
    assert sum("te.attention" in str(op) for op in compiled.te.graphs[0].region.function.ops) == 1
    result.sum().backward()
    assert all((parameter.grad == 0).all() for parameter in model.parameters())


class Repeated(nn.Module):
    """Attention of four heads of queries and two of keys and values, which `repeat` repeats."""

    def __init__(self, repeat):
        super().__init__()
        self.q, self.kv, self.repeat = nn.Linear(64, 64), nn.Linear(64, 64), repeat

    def forward(self, x):
        q = self.q(x).view(2, 16, 4, 16).transpose(1, 2)
        k, v = self.kv(x).view(2, 16, 2, 2, 16).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, *self.repeat(k, v), is_causal=True)


def partly_turned(x):
    return torch.cat([x[..., :8] * 2, x[..., 8:]], -1)


def twice(x):
    return x.repeat_interleave(2, 1)


#: The repeats of keys and values, and the number of heads of keys that te.attention reads.
REPEATS = {
    "keys of parts": (lambda k, v: (twice(partly_turned(k)), twice(v)), 2),
    "values of parts": (lambda k, v: (twice(k), twice(partly_turned(v))), 2),
    "keys of parts, repeated before": (lambda k, v: (partly_turned(twice(k)), twice(v)), 4),
    "values computed from repeated ones": (lambda k, v: (twice(k), twice(v) + 1), 4),
    "both computed from repeated ones": (lambda k, v: (twice(k) * 2, twice(v) + 1), 4),
    "keys in another order": (lambda k, v: (k.repeat(1, 2, 1, 1), twice(v)), 4),
}


@pytest.mark.parametrize("name", REPEATS)
def test_keys_and_values_that_are_repeated(name):
    repeat, count = REPEATS[name]
    model, x = Repeated(repeat), torch.randn(2, 16, 64)
    assert not compare(model, x)
    compiled = te_mlir.torch.jit(model, strict=True)
    compiled(x)
    (line,) = [str(op) for op in compiled.te.graphs[0].region.function.ops if "te.attention" in str(op)]
    assert f"kv_heads = {count} " in line


class Adapted(nn.Module):
    """LitGPT's LoRA of a fused layer: two of queries, keys and values, by a grouped convolution, at the places of `at`."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 128, bias=False), nn.Linear(64, 64)
        self.a, self.b = nn.Parameter(torch.randn(8, 64) / 8), nn.Parameter(torch.randn(96, 4) / 2)
        self.qkv.weight.requires_grad = False
        self.register_buffer("at", torch.cat([torch.arange(64), torch.arange(96, 128)]))

    def forward(self, x):
        after_a = F.linear(x, self.a)
        (qa, va), (qb, vb) = after_a.mT.chunk(2, 1), self.b.split([64, 32])
        lora = torch.cat([F.conv1d(qa, qb[..., None]), F.conv1d(va, vb[..., None])], 1).mT
        zeros = x.new_zeros(*x.shape[:-1], 128)
        qkv = self.qkv(x) + zeros.index_copy_(-1, self.at, lora) * 2
        q, k, v = qkv.split([64, 32, 32], -1)
        q, k, v = (t.view(2, 16, -1, 16).transpose(1, 2) for t in (q, k, v))
        q, k = (torch.cat([t[..., :8].sin(), t[..., 8:]], -1) for t in (q, k))
        y = F.scaled_dot_product_attention(q, twice(k), twice(v), is_causal=True)
        return self.out(y.transpose(1, 2).reshape(x.shape))


def test_lora_of_queries_and_values():
    model, x = Adapted(), torch.randn(2, 16, 64)
    assert not compare(model, x, strict=True)
