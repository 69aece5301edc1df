"""What may be padded: graphs that are padded, repaired and cut, run by PyTorch, have the results of the model."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F
from models import Llama
from torch import nn
from torch_compare import Two, fresh  # noqa: F401

from te_mlir.torch.capacities import Capacities
from te_mlir.torch.facts import COPY, ZERO, Content, Fact, Factor, reshaped, whole
from te_mlir.torch.shapes import Sizing, Specialised
from te_mlir.torch.symbols import is_size


def padded(model, scaled=False, capacities=None):
    """The model compiled with padding and run by PyTorch; the sizes of each program, and the reasons for exact sizes."""
    programs, reasons = [], []

    def make(tracing, tensors):
        programs.append([tuple(t.shape) for t in tensors])
        return tracing(tensors)

    def backend(module, examples):
        sizes = [i for i, example in enumerate(examples) if is_size(example)]
        sizing = Sizing(make, None, Capacities(capacities), scaled, reasons.append)
        return Specialised(module, sizes, sizing) if sizes else module.forward

    return torch.compile(model, backend=backend), programs, reasons


def compare(model, calls, **options):
    """Compares results, gradients of parameters and gradients of inputs for each call with PyTorch; returns the reasons."""
    compiled, programs, reasons = padded(model, **options)
    for inputs in calls:
        found = []
        for run in (compiled, model):
            model.zero_grad()
            own = [t.clone().requires_grad_() if t.is_floating_point() else t for t in inputs]
            results = run(*own)
            results = results if isinstance(results, tuple) else (results,)
            sum(r.square().sum() for r in results if r.requires_grad).backward()
            grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
            found.append([*results, *grads, *(t.grad for t in own if t.grad is not None)])
        assert len(found[0]) == len(found[1])
        for mine, theirs in zip(*found):
            assert mine.shape == theirs.shape and torch.isfinite(mine).all()
            assert (mine - theirs).norm() <= 1e-5 * theirs.norm(), inputs[0].shape
    return programs, reasons


def rows(*sizes, width=32):
    torch.manual_seed(1)
    return [(torch.randn(*size, width),) if isinstance(size, tuple) else (torch.randn(size, width),) for size in sizes]


def text(*sizes, vocabulary=64):
    """Ids and labels, a part of which is ignored."""
    found = []
    for batch, length in sizes:
        ids = torch.randint(0, vocabulary, (batch, length))
        labels = torch.randint(0, vocabulary, (batch, length))
        labels[:, 0] = -100
        found.append((ids, labels))
    return found


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def scores_by_hand(model, x):
    """Capped scores, [1, rows, rows], with a causal mask that is added."""
    mask = torch.full((len(x), len(x)), -1e30).triu(1)
    return (model.l1(x)[None] @ model.l2(x)[None].mT / 5).tanh() * 5 + mask


def weighted(model, x, scores):
    weights = F.dropout(scores.softmax(-1, dtype=torch.float32).to(x.dtype), 0.0)
    return (weights @ model.l1(x)[None])[0]


def joined_with_sink(model, scores):
    """Scores and a sink, [1, rows, rows + 1]."""
    return torch.cat([scores, model.l1.bias[:1].view(1, 1, 1).expand(1, scores.shape[1], 1)], -1)


def beside_sinks(model, scores, shift=True):
    """Shares of scores among them and a sink, as gpt-oss computes them."""
    joined = joined_with_sink(model, scores)
    return (joined - joined.max(-1, keepdim=True).values if shift else joined).softmax(-1, dtype=torch.float32)


def with_sinks(model, x, scores, shift=True):
    weights = F.dropout(beside_sinks(model, scores, shift)[..., :-1], 0.0).to(x.dtype)
    return (weights @ model.l1(x)[None])[0]


SIZES = (16, 9, 12, 13, 16)

# Rules that accept, as the forward of a model with two layers of 32 columns.
ACCEPTED = {
    "layers": lambda m, x: m.l2(m.l1(x).relu()),
    "several results": lambda m, x: (m.l1(x), m.l2(x).t(), m.l1(x).sum(-1)),
    "sum": lambda m, x: m.l1(x).sum(),
    "sum of rows": lambda m, x: m.l1(x).sum(0),
    "sum of columns": lambda m, x: m.l1(x).sum(1),
    "mean of columns": lambda m, x: m.l1(x).mean(-1, keepdim=True) * x,
    "views": lambda m, x: m.l1(x).view(-1, 4, 8).transpose(1, 2).flatten(1) * 2,
    "one view for rows and columns": lambda m, x: m.l1(x).reshape(-1),
    "first rows": lambda m, x: m.l1(x)[0] + m.l2(x)[:5].sum(0),
    "without the first and the last row": lambda m, x: m.l1(x)[1:] - m.l2(x)[:-1],
    "columns": lambda m, x: torch.cat([t * 2 for t in m.l1(x).chunk(2, -1)], -1),
    "stack": lambda m, x: torch.stack([m.l1(x), x], 1),
    "append ones": lambda m, x: F.pad(x, (0, 4), value=1.0).sum(1)[:, None] * m.l1(x),
    "append zeros": lambda m, x: F.pad(m.l1(x), (0, 0, 0, 1)),
    "norms": lambda m, x: F.layer_norm(F.rms_norm(m.l1(x), (32,), eps=1e-5), (32,), eps=1e-5),
    "rows of length 1": lambda m, x: F.normalize(m.l1(x), dim=-1),
    "softmax": lambda m, x: m.l1(x).softmax(-1) + m.l2(x).log_softmax(-1),
    "causal attention": lambda m, x: F.scaled_dot_product_attention(*(m.l1(x)[None] for _ in range(3)), is_causal=True),
    "a mask": lambda m, x: F.scaled_dot_product_attention(
        *(m.l1(x)[None] for _ in range(3)), attn_mask=torch.ones(len(x), len(x), dtype=torch.bool).triu()
    ),
    "an additive mask": lambda m, x: F.scaled_dot_product_attention(
        *(m.l1(x)[None] for _ in range(3)), attn_mask=torch.arange(len(x)) * 0.1
    ),
    "attention by hand": lambda m, x: weighted(m, x, scores_by_hand(m, x)),
    "attention by hand with a sink": lambda m, x: with_sinks(m, x, scores_by_hand(m, x)),
    "a sink without a shift": lambda m, x: with_sinks(m, x, scores_by_hand(m, x), shift=False),
    "maxima of rows": lambda m, x: m.l1(x).max(-1, keepdim=True).values - m.l2(x).min(1).values[:, None],
    "maxima of two": lambda m, x: torch.max(m.l1(x), m.l2(x)),
    "positions": lambda m, x: m.l1(x) + m.table[torch.arange(len(x))] + m.table[: len(x)],
    "positions from a sum": lambda m, x: m.l1(x) + m.table[torch.ones(len(x)).cumsum(0).long() - 1],
    "a product of rows and rows": lambda m, x: (m.l1(x)[None].mT @ m.l2(x)[None])[0],
    "a count of rows": lambda m, x: m.l1(x).sum() / (x * 0 + 1).sum(),
    "weighted mean": lambda m, x: (m.l1(x).sum(-1) * (x[:, 0] > 0)).sum() / (x[:, 0] > 0).sum(),
    "images": lambda m, x: F.conv1d(m.l1(x)[:, None], m.table[:8, None, :4], stride=4).flatten(1),
    "dropout in evaluation": lambda m, x: F.dropout(m.l1(x), 0.5, training=False),
    "numbers by a mask": lambda m, x: torch.where(x > 0, m.l1(x), 2.0) * torch.where(x > 1, 0.5, m.l2(x)),
    "a division by what is added": lambda m, x: m.l1(x) / (x.square().sum(-1, keepdim=True) + 1),
}

# Reasons for exact sizes.
REFUSED = {
    "mean": (lambda m, x: m.l1(x).mean(), "aten.mean"),
    "mean of rows": (lambda m, x: m.l1(x) - m.l2(x).mean(0), "computed over an axis with padding"),
    "maximum": (lambda m, x: m.l1(x).amax(0), "aten.amax"),
    "maximum and its place": (lambda m, x: m.l1(x).max(0).values, "computed over an axis with padding"),
    "last row": (lambda m, x: m.l1(x)[-1], "one of the last elements"),
    "last rows": (lambda m, x: m.l1(x)[-3:], "one of the last elements"),
    "flip": (lambda m, x: m.l1(x).flip(0), "no rule"),
    "append": (lambda m, x: torch.cat([m.l1(x), x]), "appends to an axis with padding"),
    "size": (lambda m, x: m.l1(x) / len(x), "uses the size as a number"),
    "attention to all": (
        lambda m, x: F.scaled_dot_product_attention(*(m.l1(x)[None] for _ in range(3))),
        "its queries see padding",
    ),
    "softmax of rows": (lambda m, x: m.l1(x).softmax(0), "computed over an axis with padding"),
    "scores without a mask": (
        lambda m, x: weighted(m, x, m.l1(x)[None] @ m.l2(x)[None].mT),
        "computed over an axis with padding, which no mask that is added hides",
    ),
    "a log softmax of masked scores": (
        lambda m, x: scores_by_hand(m, x).log_softmax(-1).sum(),
        "computed over an axis with padding, which no mask that is added hides",
    ),
    "masked scores that are a result": (
        lambda m, x: (weighted(m, x, (scores := scores_by_hand(m, x))), scores),
        "computed over an axis with padding, which no mask that is added hides",
    ),
    # A hidden score, -infinity, would be True.
    "scores as truths": (
        lambda m, x: weighted(m, x, scores_by_hand(m, x).bool().float()),
        "computed over an axis with padding, which no mask that is added hides",
    ),
    "scores as truths beside a sink": (
        lambda m, x: with_sinks(m, x, scores_by_hand(m, x).bool().float(), shift=False),
        "computed over an axis with padding, which no mask that is added hides",
    ),
    "truths of scores and a sink": (
        lambda m, x: (joined_with_sink(m, scores_by_hand(m, x)).bool().float().softmax(-1)[..., :-1] @ m.l1(x)[None])[
            0
        ],
        "appends to an axis with padding",
    ),
    "scores without a mask beside a sink": (
        lambda m, x: with_sinks(m, x, m.l1(x)[None] @ m.l2(x)[None].mT),
        "computed over an axis with padding, which no mask that is added hides",
    ),
    "shares of a sink": (
        lambda m, x: beside_sinks(m, scores_by_hand(m, x))[..., -1],
        "appends to an axis with padding",
    ),
    "shares beside a sink that are a result": (
        lambda m, x: ((shares := beside_sinks(m, scores_by_hand(m, x)))[..., :-1] @ m.l1(x)[None], shares),
        "appends to an axis with padding",
    ),
    "sort": (lambda m, x: m.l1(x).sort(0)[0], "no rule"),
    "division": (lambda m, x: m.l1(x) / x, "not finite for padding"),
    "root": (lambda m, x: m.l1(x).sum() + x.square().sum(-1).sqrt().sum(), "not finite for padding"),
    "rows in another order": (lambda m, x: m.l1(x)[x[:, 0].argsort()], "no rule"),
    "index from the end": (lambda m, x: m.l1(x)[torch.arange(len(x)) - 1], "count from the end"),
    "every second row": (lambda m, x: m.l1(x)[::2], "has a size of"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_padded(name, scaled):
    model = Two(ACCEPTED[name], table=torch.randn(16, 32))
    programs, reasons = compare(model, rows(*SIZES), scaled=scaled)
    assert not reasons and len(programs) == 1 and programs[0][0] in ((16, 32), (32, 32), (16,))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_padded(name):
    forward, said = REFUSED[name]
    programs, reasons = compare(Two(forward), rows(*SIZES))
    assert len(programs) == 4 and said in reasons[0]


# Language models


@pytest.mark.sampled
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_a_causal_model_with_its_loss(scaled, mask):
    model = Llama(mask=mask)
    calls = text((4, 32), (3, 24), (5, 17), (7, 31), (8, 32), (4, 20))
    programs, reasons = compare(model, calls, scaled=scaled)
    assert not reasons and len(programs) == 2


class Encoder(nn.Module):
    """Attention to all tokens that a mask shows, learned positions, and a loss; returns it, and the states."""

    def __init__(self, rows=64):
        super().__init__()
        self.embed, self.positions = nn.Embedding(64, 32), nn.Embedding(rows, 32)
        self.l1, self.l2, self.norm = nn.Linear(32, 96), nn.Linear(32, 64), nn.LayerNorm(32)

    def forward(self, ids, labels):
        mask = ids != 0
        x = self.norm(self.embed(ids) + self.positions(torch.arange(ids.shape[1])))
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.l1(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        y = x + y.transpose(1, 2).flatten(2)
        return loss_of(self.l2(y), labels), y


@pytest.mark.parametrize("scaled", [False, True])
def test_an_encoder_with_a_mask(scaled):
    calls = text((4, 32), (3, 24), (5, 17), (7, 31))
    programs, reasons = compare(Encoder(), calls, scaled=scaled)
    assert not reasons and len(programs) == 2


def test_a_table_of_positions_that_is_shorter_than_the_capacity():
    """Indices out of range are replaced, so that no lookup fails."""
    programs, reasons = compare(Encoder(rows=27), text((4, 16), (3, 24), (5, 27)))
    assert not reasons and len(programs) == 2


def test_a_slice_of_a_table_that_is_shorter_than_the_capacity():
    forward = lambda m, x: m.l1(x) + m.table[: len(x)]
    programs, reasons = compare(Two(forward, table=torch.randn(27, 32)), rows(27, 18, 9, 10))
    assert len(programs) == 2 and "sizes that do not include 32" in reasons[0]


def test_equal_sizes_of_two_axes():
    """Batch and length are rounded up together when they are equal."""
    calls = text((4, 9), (5, 10), (7, 7), (6, 6))
    programs, reasons = compare(Llama(), calls)
    assert not reasons and len(programs) == 2


def test_a_size_that_is_also_a_number():
    forward = lambda m, x: F.pad(m.l1(x), (0, 0, 0, 16 - len(x)))
    programs, reasons = compare(Two(forward), rows(16, 9, 12))
    assert len(programs) == 2 and reasons


def test_a_write_to_a_padded_input_keeps_its_shape():
    def forward(m, x):
        y = m.l1(x)
        y[:, 0] = 0
        return y

    programs, reasons = compare(Two(forward), rows(16, 9, 12))
    assert len(programs) == 2 and "it writes to a padded tensor" in reasons[0]


def test_a_guard_of_a_length():
    forward = lambda m, x: m.l1(x) if len(x) < 14 else m.l2(x)
    programs, reasons = compare(Two(forward), rows(9, 10, 5, 14, 16, 15))
    assert "captured the graph for sizes that do not include 16" in reasons[0]


# Facts


def test_views_of_padded_axes():
    batch, length = Factor(3, 4, COPY), Factor(5, 8, ZERO)
    fact = Fact(((batch,), (length,), whole([6]).axes[0]))
    merged = reshaped(fact, [15, 6], [32, 6])
    assert merged.axes == ((batch, length), whole([6]).axes[0])
    assert reshaped(merged, [3, 5, 2, 3], [4, 8, 2, 3]).axes == ((batch,), (length,), *whole([2, 3]).axes)
    assert reshaped(merged, [3, 30], [4, 48]).axes == ((batch,), (length, Factor(6, 6)))
    # Rows of 10 elements are no rows of 16.
    assert reshaped(fact, [9, 10], [12, 16]) is None
    assert reshaped(Fact(((Factor(6, 8),),)), [3, 2], [4, 2]).axes == ((Factor(3, 4),), whole([2]).axes[0])


def test_capacities():
    powers, given = Capacities(), Capacities([24, 8])
    assert [powers.of(n) for n in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 4, 8, 1024]
    assert [given.of(n) for n in (1, 8, 9, 24, 25)] == [8, 8, 24, 24, 25]
    assert Capacities([]).of(5) == 5
    assert Content(2.0, 2.0).is_number and not COPY.is_number
