"""Numbers for each token of PyTorch programs (log probabilities, entropies, z-losses), whose logits are never stored as a whole."""

import copy

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F
from torch import nn
from torch_compare import fresh  # noqa: F401

import te_mlir
import te_mlir.torch

BATCH, SEQUENCE, HIDDEN, VOCABULARY = 8, 128, 64, 2048
#: Bytes of the logits of 128 tokens in f32.
BUDGET = 128 * VOCABULARY * 4


def taken(values, labels):
    return values.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def of_tokens(logits, labels, **options):
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none", **options)


def both(logits, labels):
    logp = logits.log_softmax(-1)
    return taken(logp, labels), -(logp.exp() * logp).sum(-1)


def mean_and_z_loss(logits, labels, **options):
    mean = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), **options)
    return mean + 1e-4 * torch.logsumexp(logits.float(), -1).square().mean()


def shifted(rows):
    return lambda h, t: rows(h[:, :-1], t[:, 1:])


#: What is computed of logits and labels.
ROWS = {
    "log-softmax": lambda h, t: taken(h.log_softmax(-1), t),
    "float": lambda h, t: taken(h.float().log_softmax(-1), t),
    "logsumexp": lambda h, t: taken(h, t) - torch.logsumexp(h, -1),
    "cross-entropy": of_tokens,
    "ignored": lambda h, t: of_tokens(h, torch.where(t % 3 == 0, -100, t)),
    "entropy": lambda h, t: -(h.softmax(-1) * h.log_softmax(-1)).sum(-1),
    "both": both,
    "z-loss": lambda h, t: torch.logsumexp(h, -1).square().mean(),
    "loss-and-z-loss": lambda h, t: of_tokens(h, t).mean() + 1e-4 * torch.logsumexp(h, -1).square().mean(),
    "mean-and-z-loss": mean_and_z_loss,
    "sum-and-z-loss": lambda h, t: mean_and_z_loss(h, t, reduction="sum"),
    "ignored-mean-and-z-loss": lambda h, t: mean_and_z_loss(h, torch.where(t % 3 == 0, 5, t), ignore_index=5),
    "shifted": shifted(both),
    "shifted-mean-and-z-loss": shifted(mean_and_z_loss),
    "temperature": lambda h, t: taken((h / 0.7).log_softmax(-1), t),
    "softcap": lambda h, t: taken((30 * torch.tanh(h / 30)).log_softmax(-1), t),
}


class Head(nn.Module):
    def __init__(self, rows, bias=False):
        super().__init__()
        self.rows = rows
        self.up = nn.Linear(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=bias)

    def forward(self, x, labels):
        return self.rows(self.head(self.up(x)), labels)


def results(model, x, labels):
    """What a model returns, and its gradients for random weights of tokens."""
    x = x.clone().requires_grad_()
    made = model(x, labels)
    made = made if isinstance(made, tuple) else (made,)
    draw = torch.Generator().manual_seed(7)
    sum((m.float() * torch.rand(m.shape, generator=draw)).sum() for m in made).backward()
    return [*(m.detach() for m in made), x.grad, *(p.grad for p in model.parameters())]


def arena(compiled):
    """The bytes of the arenas of all steps, as the compiler reports them."""
    lines = [line.split() for line in compiled.te.report("memory").splitlines()]
    return sum(int(line[1]) for line in lines if line[:1] == ["arena"])


def run(rows, bias=False, dtype=torch.float32, **options):
    """(What te computes, what PyTorch computes, the handle.)"""
    model = Head(rows, bias).to(dtype)
    x, labels = torch.randn(BATCH, SEQUENCE, HIDDEN, dtype=dtype), torch.randint(VOCABULARY, (BATCH, SEQUENCE))
    theirs = results(copy.deepcopy(model), x, labels)
    compiled = te_mlir.torch.jit(model, differentiate_outputs="all", strict=True, **options)
    return results(compiled, x, labels), theirs, compiled


@pytest.mark.parametrize("rows", ROWS)
def test_gradients_are_those_of_pytorch_and_logits_are_not_stored(rows):
    mine, theirs, compiled = run(ROWS[rows], bias=rows == "both", logits_budget=BUDGET)
    for a, b in zip(mine, theirs, strict=True):
        assert (a - b).norm() <= 1e-5 * b.norm()
    # The f32 logits of all tokens take 4 bytes for each element.
    assert arena(compiled) < BATCH * SEQUENCE * VOCABULARY


@pytest.mark.parametrize(
    "dtype, recipe",
    [(torch.float32, te_mlir.HighPrecision()), (torch.bfloat16, te_mlir.Float8BlockScaling())],
    ids=("high-precision", "block-scaling"),
)
def test_whole_logits_have_the_same_bits(dtype, recipe):
    """Of what is computed by rows. Gradients of the head are added up in another order."""
    found, arenas = [], []
    for budget in (128 * VOCABULARY * dtype.itemsize, 0):
        torch._dynamo.reset()
        torch.manual_seed(1)
        mine, _, compiled = run(both, dtype=dtype, recipe=recipe, logits_budget=budget)
        found.append(mine)
        arenas.append(arena(compiled))
    assert arenas[0] < BATCH * SEQUENCE * VOCABULARY * dtype.itemsize < arenas[1]
    for a, b in zip(found[0][:-1], found[1][:-1], strict=True):
        assert torch.equal(a, b)
    a, b = (each[-1].float() for each in found)
    assert (a - b).norm() <= (1e-6 if dtype is torch.float32 else 2.0**-8) * b.norm()


@pytest.mark.parametrize(
    "recipe",
    [te_mlir.HighPrecision(), te_mlir.Float8BlockScaling(), te_mlir.Float8CurrentScaling(), te_mlir.DelayedScaling()],
    ids=lambda recipe: type(recipe).__name__,
)
def test_heads_in_sixteen_and_eight_bits(recipe):
    mine, theirs, compiled = run(both, dtype=torch.bfloat16, recipe=recipe, logits_budget=BUDGET // 2)
    # E4M3 has a relative error of 2^-4 for an element, and E5M2 one of 2^-3.
    bound = 2.0**-6 if isinstance(recipe, te_mlir.HighPrecision) else 2.0**-3
    for a, b in zip(mine, theirs, strict=True):
        assert (a.float() - b.float()).norm() <= bound * b.float().norm()
    assert arena(compiled) < BATCH * SEQUENCE * VOCABULARY * 2


@pytest.mark.parametrize("loss", [F.cross_entropy, mean_and_z_loss], ids=["alone", "beside-a-z-loss"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_labels_outside_the_classes(loss, reduction):
    """They are ignored, also in the number of labels; in PyTorch they are an error."""
    head, hidden, labels = nn.Linear(16, 64), torch.randn(32, 16), torch.randint(64, (32,))
    labels[3:9] = torch.tensor([-1, 64, 1000, -2, -100, 5])
    compiled = te_mlir.torch.jit(lambda x, t: loss(head(x), t, reduction=reduction, ignore_index=5), strict=True)
    known = labels.masked_fill((labels < 0) | (labels >= 64), 5)
    torch.testing.assert_close(compiled(hidden, labels), loss(head(hidden), known, reduction=reduction, ignore_index=5))


def test_a_mean_of_no_elements_has_a_reason():
    head = nn.Linear(16, 64)
    compiled = te_mlir.torch.jit(lambda x: torch.logsumexp(head(x)[:, :-1], -1).square().mean(), strict=True)
    with pytest.raises(Exception, match="expected rows with elements"):
        compiled(torch.randn(4, 1, 16))
