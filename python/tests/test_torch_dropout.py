"""Dropouts of PyTorch programs are compiled: which elements they zero, their gradients, and how runs repeat."""

import copy

import pytest

torch = pytest.importorskip("torch")

from dropouts import same_dropouts
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch_compare import fresh  # noqa: F401

import te_mlir
import te_mlir.torch


class Block(nn.Module):
    def __init__(self, probability=0.25):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(64, 128), nn.Linear(128, 64), nn.LayerNorm(64)
        self.dropout = nn.Dropout(probability)

    def forward(self, x):
        hidden = self.dropout(F.gelu(self.up(x), approximate="tanh"))
        return self.norm(x + self.dropout(self.down(hidden)))


def gradients(model, x, seed=3):
    """The result, and gradients of the operand and the parameters."""
    torch.manual_seed(seed)
    x = x.clone().requires_grad_()
    y = model(x)
    return [
        y.detach().clone(),
        *torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum(), [x, *model.parameters()]),
    ]


def assert_near(found, wanted):
    for one, two in zip(found, wanted, strict=True):
        assert two.norm() > 0 and (one - two).norm() <= 1e-5 * two.norm()


X = torch.randn(2, 33, 64)


@pytest.mark.parametrize("probability", [0.1, 0.75])
def test_gradients_are_those_of_pytorch_with_the_same_zeros(probability):
    model = Block(probability)
    compiled = te_mlir.torch.jit(copy.deepcopy(model), strict=True)
    found = gradients(compiled, X)
    with same_dropouts():
        wanted = gradients(model, X)
    assert_near(found, wanted)
    assert len(compiled.te.graphs[0].parts) == 1


def test_all_and_no_elements():
    for probability, factor in ((1.0, 0.0), (0.0, 1.0)):
        layer = nn.Linear(64, 64)
        compiled = te_mlir.torch.jit(lambda x, layer=layer, p=probability: F.dropout(layer(x), p), strict=True)
        assert torch.allclose(compiled(X), layer(X) * factor, rtol=1e-5, atol=1e-5)


def test_a_seed_repeats_a_run_and_calls_differ():
    compiled = te_mlir.torch.jit(Block(), strict=True)
    first, again, other = gradients(compiled, X), gradients(compiled, X), gradients(compiled, X, seed=4)
    assert all(map(torch.equal, first, again)) and not torch.equal(first[0], other[0])
    torch.manual_seed(3)
    assert torch.equal(compiled(X), first[0]) and not torch.equal(compiled(X), first[0])


def test_two_dropouts_of_one_tensor_are_independent():
    layer = nn.Linear(64, 64, bias=False)
    compiled = te_mlir.torch.jit(lambda x: (F.dropout(layer(x), 0.5), F.dropout(layer(x), 0.5)), strict=True)
    a, b = (y == 0 for y in compiled(torch.randn(512, 64)))
    assert abs((a & b).float().mean() - 0.25) < 0.02


def test_nothing_is_zeroed_in_evaluation():
    model = Block().eval()
    compiled = te_mlir.torch.jit(model, strict=True)
    assert torch.allclose(compiled(X), model(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_computes_the_same_zeros_again(reentrant):
    compiled = te_mlir.torch.jit(Block(), strict=True)
    wanted = gradients(compiled, X)

    def checkpointed(x):
        return checkpoint(compiled, x, use_reentrant=reentrant)

    checkpointed.parameters = compiled.parameters
    if reentrant:
        # torch.autograd.grad does not support it.
        torch.manual_seed(3)
        x = X.clone().requires_grad_()
        y = checkpointed(x)
        (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
        found = [y.detach().clone(), x.grad, *(p.grad for p in compiled.parameters())]
    else:
        found = gradients(checkpointed, X)
    assert all(map(torch.equal, found, wanted))


def test_a_recorded_step_draws_in_each_call():
    compiled = te_mlir.torch.jit(Block(), strict=True, cuda_graph=True)
    first, other, again = (gradients(compiled, X, seed) for seed in (3, 4, 3))
    assert not torch.equal(first[0], other[0]) and all(map(torch.equal, first, again))


def test_dropout_in_bf16_under_a_recipe():
    compiled = te_mlir.torch.jit(Block(0.5).bfloat16(), recipe=te_mlir.Float8CurrentScaling(), strict=True)
    x = torch.randn(64, 64).bfloat16()
    first, again = gradients(compiled, x), gradients(compiled, x)
    assert all(map(torch.equal, first, again)) and all(value.isfinite().all() for value in first)


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(64, 192), nn.Linear(64, 64), causal

    def forward(self, x):
        q, k, v = (t.unflatten(2, (4, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=self.causal)
        return F.dropout(self.out(y.transpose(1, 2).flatten(2)), 0.2)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_attention_with_dropout(causal):
    model = Attention(causal)
    compiled = te_mlir.torch.jit(copy.deepcopy(model), strict=True)
    found = gradients(compiled, X)
    with same_dropouts():
        wanted = gradients(model, X)
    largest = max(value.norm() for value in wanted)
    for one, two in zip(found, wanted, strict=True):
        assert (one - two).norm() <= 1e-5 * max(two.norm(), 1e-3 * largest)


def test_attention_with_dropout_has_pytorchs_name_in_notes():
    """Without the random state that te gives it."""

    class Biased(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.bias = nn.Linear(64, 192), nn.Parameter(torch.randn(4, 33, 33))

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (4, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            return F.scaled_dot_product_attention(q, k, v, self.bias, dropout_p=0.25)

    compiled = te_mlir.torch.jit(Biased(), strict=True)
    compiled(X)
    (note,) = compiled.te.graphs[0].spelled
    assert note.startswith("aten.scaled_dot_product_attention(float32 [2, 4, 33, 16]")


def test_attention_whose_weights_are_all_zero_stays_in_pytorch():
    layer = nn.Linear(64, 64)

    def function(x):
        q = layer(x).unflatten(2, (4, 16)).transpose(1, 2)
        return layer(F.scaled_dot_product_attention(q, q, q, dropout_p=1.0).transpose(1, 2).flatten(2))

    compiled = te_mlir.torch.jit(function)
    with pytest.warns(UserWarning, match="its dropout sets all weights to zero"):
        assert torch.allclose(compiled(X), layer.bias.expand(2, 33, 64))


class Masked(nn.Module):
    """Attention with a mask; between two dropouts, or with one that PyTorch computes before the mask is known."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.qkv, self.out = kind, nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x, ids):
        if self.kind == "input":
            x = F.dropout(x, 0.3)
        qkv = self.qkv(x)
        if self.kind == "between":
            # This ends a part.
            qkv = torch.atan(qkv) + torch.rand_like(qkv)
        q, k, v = (t.unflatten(2, (4, 16)).transpose(1, 2) for t in qkv.chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, ids[:, None, :, None] == ids[:, None, None, :])
        return F.dropout(self.out(y.transpose(1, 2).flatten(2)), 0.2)


@pytest.mark.parametrize("kind", ["compiled", "input", "between"])
def test_a_call_that_begins_again_draws_once(kind):
    """The masks of the calls are open, documents, and of another kind, so that the second and the third begin again."""
    compiled = te_mlir.torch.jit(Masked(kind))
    place = torch.arange(33)
    for ids in (torch.zeros(2, 33), torch.stack((place // 11, place // 5)), torch.stack((place % 2, place % 3))):
        found = []
        for _ in range(2):
            torch.manual_seed(3)
            before = compiled.te.calls.all
            found.append((compiled(X, ids).detach(), torch.get_rng_state()))
            assert compiled.te.calls.all == before + 1
        (first, state), (again, wanted) = found
        assert torch.equal(state, wanted) and torch.equal(first, again)
