"""PyTorch graphs through te: gradients against autograd, bits against hand-written MLIR."""

import math
import pathlib
import warnings

import pytest

torch = pytest.importorskip("torch")

from models import GPT, Llama, RMSNorm
from torch import nn
from torch.nn import functional as F

import te_mlir
import te_mlir.torch
from te_mlir.errors import ImportFailure


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def batch(sequence=32, vocabulary=64):
    return torch.randint(0, vocabulary, (2, sequence)), torch.randint(0, vocabulary, (2, sequence))


def gradients(module, *inputs, **options):
    module.zero_grad()
    result = module(*inputs, **options)
    loss = result[0] if isinstance(result, tuple) else result.square().mean()
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in module.named_parameters()}


def assert_close(mine, theirs, bound=1e-5):
    assert mine.keys() == theirs.keys() and mine
    for name, gradient in theirs.items():
        error = (mine[name] - gradient).norm() / gradient.norm()
        assert gradient.norm() > 0 and error < bound, (name, error.item())


@pytest.mark.parametrize(
    "options, call",
    [
        ({}, {}),
        ({"layers": 2}, {}),
        ({"kv_heads": 4}, {}),
        ({"kv_heads": 1}, {}),
        ({"gqa": True}, {}),
        ({"mask": True}, {}),
        ({"norm": nn.RMSNorm}, {}),
        ({"norm": lambda width: RMSNorm(width, centered=True)}, {}),
        ({}, {"shift": True}),
    ],
    ids=["plain", "two-layers", "no-groups", "one-kv-head", "enable-gqa", "mask", "nn-rms-norm", "1+gamma", "shifted"],
)
def test_llama_gradients_are_autograds(options, call):
    model = Llama(**options)
    ids, labels = batch()
    loss, theirs = gradients(model, ids, labels, **call)
    compiled = te_mlir.torch.jit(model, strict=True)
    mine_loss, mine = gradients(compiled, ids, labels, **call)
    assert abs(mine_loss - loss) < 1e-5 * loss
    assert_close({name.removeprefix("_orig_mod."): g for name, g in mine.items()}, theirs)
    graph = compiled.te.graphs[0]
    assert not graph.reasons
    assert not [
        n for n in graph.built.rest.__self__.graph.nodes if n.op == "call_function" and "linear" in str(n.target)
    ]


def test_gpt_gradients_are_autograds():
    model = GPT()
    x = torch.randn(2, 16, 64, requires_grad=True)
    _, theirs = gradients(model, x)
    wanted, x.grad = x.grad.clone(), None
    compiled = te_mlir.torch.jit(model, strict=True)
    _, mine = gradients(compiled, x)
    assert_close({name.removeprefix("_orig_mod."): g for name, g in mine.items()}, theirs)
    assert_close({"x": x.grad}, {"x": wanted})


def test_registered_backend():
    model = GPT()
    x = torch.randn(16, 64)
    _, theirs = gradients(model, x)
    compiled = torch.compile(model, backend="te", options={"recipe": te_mlir.HighPrecision(), "strict": True})
    _, mine = gradients(compiled, x)
    assert_close({name.removeprefix("_orig_mod."): g for name, g in mine.items()}, theirs)


def test_bits_are_those_of_the_program_by_hand(recipe, reference):
    model = Llama().bfloat16()
    ids, labels = batch()
    compiled = te_mlir.torch.jit(model, recipe=recipe, strict=not isinstance(recipe, te_mlir.HighPrecision))
    text = (pathlib.Path(__file__).parent / "llama.mlir").read_text()
    step = te_mlir.compile(text, "llama", recipe=recipe, vjp=True, context=reference)
    weights = {name.removeprefix("layers.0."): p.detach() for name, p in model.named_parameters()}
    rotary = model.rotary(torch.empty(0, dtype=torch.bfloat16), torch.arange(32)[None])
    cos, sin = (t[0, :, :8].float().contiguous() for t in rotary)
    # Twice: states of the first step decide what the second does.
    for _ in range(2):
        loss, mine = gradients(compiled, ids, labels)
        by_hand = step(
            ids=ids.int().view(-1),
            targets=labels.int().view(-1),
            cos=cos,
            sin=sin,
            **weights,
            **{"grad.loss": torch.ones(())},
        )
        assert torch.equal(loss, by_hand["loss"])
        for name, gradient in mine.items():
            short = name.removeprefix("_orig_mod.").removeprefix("layers.0.")
            assert gradient.view(torch.int16).eq(by_hand[f"grad.{short}"].view(torch.int16)).all(), short


MLP = """
func.func @mlp(
    %x: tensor<32x64xbf16> {te.name = "x"},
    %gamma: tensor<64xbf16> {te.name = "norm.weight", te.weight},
    %beta: tensor<64xbf16> {te.name = "norm.bias", te.weight},
    %up: tensor<256x64xbf16> {te.name = "up.weight", te.weight},
    %c: tensor<256xbf16> {te.name = "up.bias", te.weight},
    %down: tensor<64x256xbf16> {te.name = "down.weight", te.weight},
    %d: tensor<64xbf16> {te.name = "down.bias", te.weight})
    -> (tensor<32x64xbf16> {te.name = "y"}) {
  %n = te.layer_norm %x, %gamma, %beta {epsilon = 1.0e-5 : f32} : tensor<32x64xbf16>, tensor<64xbf16>
  %h = te.linear %n, %up bias %c : tensor<256xbf16> : tensor<32x64xbf16>, tensor<256x64xbf16> -> tensor<32x256xbf16>
  %a = te.activation <gelu> %h : tensor<32x256xbf16> -> tensor<32x256xbf16>
  %o = te.linear %a, %down bias %d : tensor<64xbf16> : tensor<32x256xbf16>, tensor<64x256xbf16> -> tensor<32x64xbf16>
  %y = arith.addf %x, %o : tensor<32x64xbf16>
  return %y : tensor<32x64xbf16>
}
"""


def test_bits_of_an_mlp_are_those_of_the_program_by_hand(recipe, reference):
    model = GPT().bfloat16()
    compiled = te_mlir.torch.jit(model, recipe=recipe, strict=not isinstance(recipe, te_mlir.HighPrecision))
    step = te_mlir.compile(MLP, "mlp", recipe=recipe, vjp=True, context=reference)
    x = torch.randn(32, 64, dtype=torch.bfloat16, requires_grad=True)
    cotangent = torch.randn(32, 64, dtype=torch.bfloat16)
    for _ in range(2):
        x.grad = None
        model.zero_grad()
        y = compiled(x)
        y.backward(cotangent)
        weights = {name: p.detach() for name, p in model.named_parameters()}
        by_hand = step(x=x.detach(), **weights, **{"grad.y": cotangent})
        assert torch.equal(y.view(torch.int16), by_hand["y"].view(torch.int16))
        for name, tensor in [("x", x), *model.named_parameters()]:
            assert torch.equal(tensor.grad.view(torch.int16), by_hand[f"grad.{name}"].view(torch.int16)), name


@pytest.mark.parametrize("override", ["high_precision", "dequantized"])
def test_overrides_change_the_backward_alone(override):
    ids, labels = batch()
    results = []
    for mode in ("none", override):
        torch._dynamo.reset()
        torch.manual_seed(0)
        compiled = te_mlir.torch.jit(
            Llama().bfloat16(), recipe=te_mlir.Float8CurrentScaling(backward_override=None), backward_override=mode
        )
        results.append(gradients(compiled, ids, labels))
    (loss_a, a), (loss_b, b) = results
    assert torch.equal(loss_a, loss_b)
    assert any(not torch.equal(a[name], b[name]) for name in a)


def test_activations_are_computed_again_unless_held():
    x = torch.randn(64, 64).bfloat16()
    results, held = [], []
    for options in ({}, {"remat": "nothing"}):
        torch._dynamo.reset()
        torch.manual_seed(0)
        compiled = te_mlir.torch.jit(GPT().bfloat16(), recipe=te_mlir.Float8CurrentScaling(), **options)
        results.append(gradients(compiled, x))
        lines = compiled.te.report("memory").splitlines()
        held.append(next(int(line.split()[-1]) for line in lines if "all of residual" in line))
    (loss_a, a), (loss_b, b) = results
    assert torch.equal(loss_a, loss_b)
    assert all(torch.equal(a[name], b[name]) for name in a)
    # One activation, [64, hidden] of bf16; gated ones hold their operands alone.
    assert held[0] < held[1]


def test_every_linear_layer_is_quantised():
    compiled = te_mlir.torch.jit(Llama(layers=2).bfloat16(), recipe=te_mlir.Float8CurrentScaling(), strict=True)
    gradients(compiled, *batch())
    rows = [
        line
        for line in compiled.te.report("precision").splitlines()
        if line.split()[:1] and line.split()[0] in ("fprop", "dgrad", "wgrad")
    ]
    assert len(rows) == 3 * (2 * 7 + 1)
    assert all("f8E4M3FN" in row for row in rows)


def test_training_lowers_the_loss():
    model = Llama().bfloat16()
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.DelayedScaling(amax_history_len=4), strict=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    ids, labels = batch()
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = compiled(ids, labels)[0]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    states = compiled.te.state_dict()
    assert any(name.endswith("amax_history") for name in states)
    compiled.te.load_state_dict(states)
    with pytest.raises(KeyError):
        compiled.te.load_state_dict({})


def test_no_grad_runs_the_forward_alone():
    model = Llama()
    compiled = te_mlir.torch.jit(model, strict=True)
    ids, labels = batch()
    with torch.no_grad():
        loss, logits = compiled(ids, labels)
        wanted, wanted_logits = model(ids, labels)
    assert not loss.requires_grad and abs(loss - wanted) < 1e-5 * wanted
    assert torch.allclose(logits, wanted_logits, rtol=1e-4, atol=1e-4)


def test_other_shapes_compile_again():
    compiled = te_mlir.torch.jit(GPT(), strict=True)
    assert compiled(torch.randn(16, 64)).shape == (16, 64)
    assert compiled(torch.randn(3, 8, 64)).shape == (3, 8, 64)
    assert len(compiled.te.graphs) == 2


def test_several_forwards_before_their_backwards():
    model = GPT()
    compiled = te_mlir.torch.jit(model, strict=True)
    x, y = torch.randn(16, 64), torch.randn(16, 64)
    _, first = gradients(model, x)
    _, second = gradients(model, y)
    model.zero_grad()
    a, b = compiled(x).square().mean(), compiled(y).square().mean()
    a.backward()
    b.backward()
    total = {name: first[name] + second[name] for name in first}
    assert_close({name: p.grad for name, p in model.named_parameters()}, total)


def test_forwards_without_backward_give_their_instance_back():
    compiled = te_mlir.torch.jit(GPT(), strict=True)
    x = torch.randn(16, 64)
    for _ in range(5):
        compiled(x)
    loaded = compiled.te.graphs[0].region.load(True)
    assert len(loaded.pool.free) <= 2


def test_casts_of_weights_are_kept_over_microbatches():
    model = GPT().bfloat16()
    options = {"recipe": te_mlir.Float8CurrentScaling(), "strict": True}
    plain = te_mlir.torch.jit(model, **options)
    torch._dynamo.reset()
    kept = te_mlir.torch.jit(model, cache_weights=True, **options)
    x = torch.randn(32, 64, dtype=torch.bfloat16)
    _, once = gradients(plain, x)
    _, first = gradients(kept, x)
    kept.te.is_first_microbatch = False
    _, second = gradients(kept, x)
    for name, gradient in once.items():
        assert torch.equal(first[name], gradient) and torch.equal(second[name], gradient), name
    before = kept(x)
    with torch.no_grad():
        model.up.weight.mul_(2)
    assert torch.equal(kept(x), before)
    kept.te.is_first_microbatch = True
    assert not torch.equal(kept(x), before)
    with pytest.raises(ValueError, match="expected 'cache_weights'"):
        plain.te.is_first_microbatch = False


# What is not imported


class Sine(nn.Module):
    """A linear layer, something te lacks, a linear layer."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        return self.two(torch.sin(self.one(x)))


def test_the_rest_stays_in_pytorch_and_is_listed():
    model = Sine()
    x = torch.randn(16, 64)
    _, theirs = gradients(model, x)
    compiled = te_mlir.torch.jit(model)
    with pytest.warns(UserWarning, match="'aten.sin.default' has no counterpart in te"):
        _, mine = gradients(compiled, x)
    assert_close({name.removeprefix("_orig_mod."): g for name, g in mine.items()}, theirs)
    assert compiled.te.graphs[0].region is not None
    assert "stays in PyTorch: aten.sin(float32 [16, 64])" in compiled.te.report()


def test_strict_is_an_error():
    with pytest.raises(Exception, match="'aten.sin.default' has no counterpart in te") as caught:
        te_mlir.torch.jit(Sine(), strict=True)(torch.randn(16, 64))
    chain = [caught.value]
    while chain[-1].__cause__ or chain[-1].__context__:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    assert any(isinstance(e, ImportFailure) for e in chain)


class Odd(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(64, 64), function

    def forward(self, x):
        return self.function(self.layer(x))


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: F.dropout(x, 0.1), "aten.dropout(float32 [64, 64]): it draws random numbers"),
        (lambda x: x * x[:, :1], "broadcast"),
        (lambda x: x.pow(3), "a power of 3"),
        (lambda x: x.cumsum(0), "'aten.cumsum.default' has no counterpart"),
        (lambda x: x.double(), "its result has elements of f64"),
        (lambda x: F.linear(x.t().reshape(64, -1)[:, :16], x[:, :16]), "not row-major"),
        (lambda x: x @ x.t().contiguous().t().t(), ""),
    ],
)
def test_reasons(function, reason):
    compiled = te_mlir.torch.jit(Odd(function))
    x = torch.randn(64, 64)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        mine = compiled(x)
    if reason:
        assert any(reason in line for graph in compiled.te.graphs for line in graph.reasons), [
            graph.reasons for graph in compiled.te.graphs
        ]
    if "random" not in reason:
        assert torch.allclose(mine, compiled._orig_mod(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_loss_has_the_type_of_pytorchs(reduction):
    model = Odd(lambda x: F.cross_entropy(x, torch.arange(64), reduction=reduction)).bfloat16()
    x = torch.randn(64, 64, dtype=torch.bfloat16)
    mine, theirs = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())(x), model(x)
    assert mine.dtype is theirs.dtype is torch.bfloat16
    # PyTorch rounds the logarithms and then their mean, te once: three half steps of bf16 are less than 2^-7.
    assert (mine.float() - theirs.float()).abs() <= 2**-7 * theirs.float()
    mine.backward()


class Masked(nn.Module):
    """A layer, attention under a mask of each call, and a layer."""

    def __init__(self, heads=4):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(64, 192, bias=False), nn.Linear(64, 64), heads

    def forward(self, x, mask):
        q, k, v = (t.view(2, 16, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(2, 16, 64))


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


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_that_of_the_call(name):
    """Whatever a graph was compiled for, the next call may have another mask; what te has none for is PyTorch's."""
    other = "causal" if name != "causal" else "padded"
    for first, second in ((name, other), (other, name), (name, "windowed")):
        torch._dynamo.reset()
        model = Masked()
        compiled = te_mlir.torch.jit(model)
        for mask in (first, second, first):
            mask = MASKS[mask].expand(2, 1, -1, -1).clone()
            x = torch.randn(2, 16, 64)
            wanted = torch.autograd.grad(model(x, mask).square().sum(), list(model.parameters()))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = torch.autograd.grad(compiled(x, mask).square().sum(), list(model.parameters()))
            for one, two in zip(found, wanted):
                assert (one - two).norm() < 1e-5 * two.norm()


def test_with_strict_a_mask_that_te_has_not_is_an_error():
    x = torch.randn(2, 16, 64)
    for name in ("causal", "open", "added and open", "windowed", "own key alone"):
        torch._dynamo.reset()
        te_mlir.torch.jit(Masked(), strict=True)(x, MASKS[name]).sum().backward()
    torch._dynamo.reset()
    for name in ("window of both sides", "blocks", "padded"):
        torch._dynamo.reset()
        with pytest.raises(ImportFailure, match="its mask is neither causal, with a window or without, nor all ones"):
            te_mlir.torch.jit(Masked(), strict=True)(x, MASKS[name])


class ByHand(Masked):
    """Attention of products and a softmax; `weigh` makes the softmax's operand of the scores and the mask."""

    def __init__(self, weigh, drop=0.0, turn=lambda k: k.transpose(2, 3)):
        super().__init__()
        self.weigh, self.drop, self.turn, self.number = weigh, drop, turn, nn.Buffer(torch.tensor(0.5))

    def forward(self, x, mask):
        q, k, v = (t.view(2, 16, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        weights = self.weigh(q @ self.turn(k), mask, self.number).softmax(-1, dtype=torch.float32)
        y = F.dropout(weights.to(x.dtype), self.drop, self.training) @ v
        return self.out(y.transpose(1, 2).reshape(2, 16, 64))


#: What of the scores and the mask is attention, and the attributes that it has.
BY_HAND = {
    "plain": (lambda s, m, n: s * 0.3 + m, "scale = 0.3"),
    "divided": (lambda s, m, n: m + s / 4, "scale = 0.25"),
    "unscaled": (lambda s, m, n: s + m, "scale = 1.0"),
    "capped": (lambda s, m, n: torch.tanh(s * 0.3 / 0.5) * 0.5 + m, "softcap = 0.5"),
    "capped by a whole number": (lambda s, m, n: m + 2 * torch.tanh(s / 2), "softcap = 2.0"),
    "in place": (lambda s, m, n: (s * 0.3).div_(2.0).tanh().mul(2.0).add_(m), "softcap = 2.0"),
}

#: What is none.
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


@pytest.mark.parametrize("mask", ["added and causal", "added and windowed", "added and open", "added"])
@pytest.mark.parametrize("name", BY_HAND)
def test_attention_by_hand(name, mask):
    """Also capped; under a mask that te has not it is PyTorch's."""
    weigh, attribute = BY_HAND[name]
    mask_ = MASKS[mask].expand(2, 1, 16, 16).clone()
    lines = assert_by_hand(ByHand(weigh), mask_)
    attention = [line for line in lines if "te.attention" in line]
    assert len(attention) == (mask != "added") and all(attribute in line for line in attention)
    assert all(("softcap" in line) == ("softcap" in attribute) for line in attention)
    assert all(("window_size" in line, "causal" in line) == ("wind" in mask, "open" not in mask) for line in attention)


@pytest.mark.parametrize("name", NEAR)
def test_what_is_nearly_attention_by_hand_is_pytorchs(name):
    lines = assert_by_hand(ByHand(NEAR[name]), MASKS["added and causal"].clamp_min(-1e9))
    assert sum("te.linear" in line for line in lines) == 4 and not [line for line in lines if "te.attention" in line]


def test_attention_by_hand_turns_keys_in_any_way():
    for turn in (lambda k: k.mT, lambda k: k.swapaxes(-1, -2), lambda k: k.swapdims(2, 3)):
        torch._dynamo.reset()
        lines = assert_by_hand(ByHand(BY_HAND["plain"][0], turn=turn), MASKS["added and causal"])
        assert any("te.attention" in line for line in lines)


class Sunk(ByHand):
    """Attention by hand with a number for each head.

    `weigh` makes the weights of the scores, the mask and these numbers, [1, heads, 1, 1].
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
    """As transformers' gpt-oss has it."""
    return x - x.max(dim=-1, keepdim=True).values


def after(joined):
    return joined.softmax(-1)[..., :-1]


#: Weights of attention sinks, and whether the number is trained there.
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

#: What is none.
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
def test_what_are_nearly_sinks_is_pytorchs(name):
    mask = MASKS["added and causal"].clamp_min(-1e4)
    lines = assert_by_hand(Sunk(NEAR_SINKS[name]), mask)
    assert not [line for line in lines if "te.attention" in line]


def test_with_strict_sinks_of_another_shape_are_an_error():
    model = Sunk(lambda s, m, n: after(torch.cat([s + m, n.view(1, 1, 4, 1).repeat(2, 4, 4, 1)], -1)))
    reason = r"aten.matmul.*its sinks are \[2, 4, 16, 1\], and not one number for each head"
    with pytest.raises(Exception, match=reason):
        te_mlir.torch.jit(model, strict=True)(torch.randn(2, 16, 64), MASKS["added and causal"])


def test_a_sink_changes_the_result():
    """What the others are compared with sees it: a larger one takes from the weights."""
    model, mask, x = Sunk(SINKS["as gpt-oss"][0]), MASKS["added and causal"], torch.randn(2, 16, 64)
    compiled = te_mlir.torch.jit(model, strict=True)
    one = compiled(x, mask)
    with torch.no_grad():
        model.sinks.add_(2)
    two = compiled(x, mask)
    assert (one - two).norm() > 0.05 * one.norm() and torch.allclose(two, model(x, mask), atol=1e-5)


def test_dropout_of_attention_by_hand_is_pytorchs():
    model = ByHand(BY_HAND["capped"][0], drop=0.5).eval()
    assert any("te.attention" in line for line in assert_by_hand(model, MASKS["added and causal"]))
    torch._dynamo.reset()
    assert not any("te.attention" in line for line in assert_by_hand(model.train(), MASKS["added and causal"]))


def assert_by_hand(model, mask):
    """Autograd's gradients; gives the lines of what is compiled."""
    compiled = te_mlir.torch.jit(model)
    x = torch.randn(2, 16, 64)
    found = []
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for one in (model, compiled):
        torch.manual_seed(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(torch.autograd.grad(one(x, mask).square().sum(), wanted))
    for mine, autograds in zip(*found):
        assert (mine - autograds).norm() <= 1e-5 * autograds.norm()
    return [str(op) for graph in compiled.te.graphs for region in graph.regions for op in region.function.ops]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_in_tensors_without_dimensions(dtype):
    """Operands from outside, as the scale of an embedding is; other ones in a later call, too."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(64, 64, dtype=dtype), nn.Buffer(torch.tensor(3.3))

        def forward(self, x, count):
            return self.scale.to(dtype) * self.layer(x) / count - self.scale

    model = Scaled()
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    x = torch.randn(16, 64, dtype=dtype)
    for number, count in ((3.3, torch.tensor(7)), (0.7, torch.tensor(5))):
        model.scale.fill_(number)
        found = [torch.autograd.grad(m(x, count).sum(), list(model.parameters())) for m in (compiled, model)]
        for one, two in zip(*found):
            assert (one - two).float().norm() <= (1e-6 if dtype is torch.float32 else 2**-7) * two.float().norm()
        # The same operations, each rounded once.
        layer = te_mlir.torch.jit(model.layer, strict=True, recipe=te_mlir.HighPrecision())(x)
        assert torch.equal(compiled(x, count), model.scale.to(dtype) * layer / count - model.scale)


def test_numbers_in_tensors_that_have_gradients_are_told():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(64, 64), nn.Parameter(torch.tensor(3.3))

        def forward(self, x):
            return self.scale * self.layer(x)

    with pytest.raises(Exception, match="a number in a tensor is taken where it is given and has no gradient"):
        te_mlir.torch.jit(Scaled(), strict=True)(torch.randn(16, 64))


# Misuse


def compiled_gpt():
    return te_mlir.torch.jit(GPT(), strict=True)


def test_second_backward_is_an_error():
    y = compiled_gpt()(torch.randn(16, 64)).sum()
    y.backward(retain_graph=True)
    with pytest.raises(te_mlir.ArgumentError, match="expected one backward for each forward"):
        y.backward()


def test_a_parameter_changed_before_the_backward_is_an_error():
    compiled = compiled_gpt()
    y = compiled(torch.randn(16, 64)).sum()
    with torch.no_grad():
        compiled._orig_mod.down.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_gradient_of_logits_is_an_error_unless_asked_for():
    ids, labels = batch()
    model = Llama()
    with pytest.raises(te_mlir.ArgumentError, match="differentiate_outputs='all'"):
        te_mlir.torch.jit(model, strict=True)(ids, labels)[1].sum().backward()
    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(model, strict=True, differentiate_outputs="all")
    _, logits = compiled(ids, labels)
    logits.square().mean().backward()
    mine = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    model(ids, labels)[1].square().mean().backward()
    assert_close(mine, {name: p.grad for name, p in model.named_parameters()})


def test_a_parameter_of_another_size_is_told():
    compiled = compiled_gpt()
    compiled(torch.randn(16, 64))
    region = compiled.te.graphs[0].region
    tensors = [torch.zeros(spec.shape, dtype=spec.dtype) for spec in region.signature.inputs]
    region(*tensors)
    for index, spec in enumerate(region.signature.inputs):
        wrong = list(tensors)
        wrong[index] = torch.zeros((*spec.shape, 2))
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected shape"):
            region(*wrong)
        wrong[index] = torch.zeros(spec.shape, dtype=torch.float64)
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected elements of float32"):
            region(*wrong)
        wrong[index] = torch.zeros(spec.shape, dtype=spec.dtype, device="meta")
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected memory of 'cpu', but got"):
            region(*wrong)
        odd = torch.zeros(math.prod(spec.shape) + 1)
        wrong[index] = odd[1:].view(spec.shape)
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected memory aligned to 16"):
            region(*wrong)
        freed = torch.zeros(spec.shape)
        freed.untyped_storage().resize_(0)
        wrong[index] = freed
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected a tensor with memory"):
            region(*wrong)
        if len(spec.shape) == 2:
            wrong[index] = torch.zeros(spec.shape[::-1]).t()
            with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected a row-major"):
                region(*wrong)


def test_a_parameter_resized_after_compile_is_compiled_for_or_told():
    compiled = compiled_gpt()
    x = torch.randn(16, 64)
    model = compiled._orig_mod
    compiled(x).sum().backward()
    # A forward of other sizes is another graph.
    model.up = nn.Linear(64, 128)
    model.down = nn.Linear(128, 64)
    model.zero_grad()
    compiled(x).sum().backward()
    assert model.up.weight.grad.shape == (128, 64)
    # Between forward and backward, with the same version: the memory is gone.
    y = compiled(x).sum()
    model.down.weight.untyped_storage().resize_(0)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'down.weight': expected a tensor with memory"):
        y.backward()
