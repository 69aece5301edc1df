"""flex_attention: its block masks are recognised by their values, like tensor masks."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn.attention import flex_attention as flex
from torch_compare import assert_close, fresh, gradients  # noqa: F401

import te_mlir
import te_mlir.torch

SEQUENCE = 32


@pytest.fixture(autouse=True)
def gradients_on_a_cpu(monkeypatch):
    """The op has gradients on a CPU, but PyTorch's function refuses them there."""
    monkeypatch.setattr(flex, "_validate_device", lambda query, key, value: None)
    monkeypatch.setattr(flex, "_WARNINGS_SHOWN", {"flex_attention_performance", "deprecated_return_lse"})


class Flexible(nn.Module):
    """Attention with 4 heads of queries and 2 of keys."""

    def __init__(self, score_mod=None, uses_lse=False):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 64), nn.Linear(32, 32)
        self.score_mod, self.uses_lse = score_mod, uses_lse

    def forward(self, x, mask=None):
        heads = lambda t: t.view(*t.shape[:2], -1, 8).transpose(1, 2)
        q, k, v = (heads(t) for t in self.qkv(x).split((32, 16, 16), -1))
        options = {"return_aux": flex.AuxRequest(lse=True)} if self.uses_lse else {}
        y = flex.flex_attention(q, k, v, score_mod=self.score_mod, block_mask=mask, enable_gqa=True, **options)
        if self.uses_lse:
            y = y[0] * torch.sigmoid(y[1].lse).unsqueeze(-1)
        return self.out(y.transpose(1, 2).reshape(x.shape))


def block_mask(function, batches=None, heads=None, block=8):
    return flex.create_block_mask(function, batches, heads, SEQUENCE, SEQUENCE, device="cpu", BLOCK_SIZE=block)


def documents(*starts):
    """Positions that start again, [2, sequence]; one list of starts for each row."""
    rows = torch.zeros(2, SEQUENCE, dtype=torch.long)
    for row, places in zip(rows, starts):
        for begin, end in zip((0, *places), (*places, SEQUENCE)):
            row[begin:end] = torch.arange(end - begin)
    return rows


def causal(b, h, q, k):
    return q >= k


def window(left):
    return lambda b, h, q, k: (k <= q) & (q - k <= left)


def document(positions):
    ids = (positions == 0).cumsum(1)
    return lambda b, h, q, k: ids[b, q] == ids[b, k]


def last_key_of(positions):
    """Documents whose keys know the last query that sees them."""
    ids = document(positions)(
        torch.arange(2)[:, None, None], None, torch.arange(SEQUENCE)[:, None], torch.arange(SEQUENCE)
    )
    last = ids.int().cumsum(-1).argmax(-1)
    return lambda b, h, q, k: q <= last[b, k]


STARTS = documents((5, 19), (16,)), documents((1, 2, 30), ())
TWO = {"batches": 2}
#: (a function of positions, options of the block mask, what its te.attention has)
MASKS = {
    "causal": (lambda p: causal, {}, {"causal"}),
    "window": (lambda p: window(6), {}, {"causal", "window_size = array<i64: 6, 0>"}),
    "open": (lambda p: lambda b, h, q, k: k >= 0, {}, set()),
    "documents": (document, TWO, {"documents"}),
    "causal documents": (lambda p: flex.and_masks(causal, document(p)), TWO, {"causal", "documents"}),
    "windows in documents": (
        lambda p: flex.and_masks(window(6), document(p)),
        TWO,
        {"causal", "documents", "window_size = array<i64: 6, 0>"},
    ),
    "last keys": (lambda p: flex.and_masks(causal, last_key_of(p)), TWO, {"causal", "documents"}),
    "one block": (lambda p: flex.and_masks(causal, document(p)), {**TWO, "block": 128}, {"causal", "documents"}),
}


def attentions(compiled):
    (graph,) = compiled.te.graphs
    return [str(op) for region in graph.regions for op in region.function.ops if "te.attention" in str(op)]


def assert_alike(model, compiled, *inputs):
    loss, mine = gradients(compiled, *inputs)
    wanted, theirs = gradients(model, *inputs)
    assert abs(loss - wanted) < 1e-5 * wanted
    assert_close({name.removeprefix("_orig_mod."): g for name, g in mine.items()}, theirs)


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    function, options, wanted = MASKS[name]
    model = Flexible()
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    for positions in STARTS:
        assert_alike(model, compiled, torch.randn(2, SEQUENCE, 32), block_mask(function(positions), **options))
    (line,) = attentions(compiled)
    every = {"causal", "documents", "window_size = array<i64: 6, 0>"}
    assert {word for word in every if f" {word}" in line.replace("{", " ")} == wanted
    assert not compiled.te.graphs[0].reasons and len(compiled.te.graphs[0].parts) == 1


def test_without_a_block_mask():
    model = Flexible()
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    assert_alike(model, compiled, torch.randn(2, SEQUENCE, 32))
    (line,) = attentions(compiled)
    assert "causal" not in line and not compiled.te.graphs[0].masks


def test_a_block_mask_that_the_model_creates():
    class Creating(Flexible):
        def forward(self, x, positions):
            mask = flex.create_block_mask(
                flex.and_masks(causal, document(positions)), 2, None, SEQUENCE, SEQUENCE, device="cpu"
            )
            return super().forward(x, mask)

    model = Creating()
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    for positions in STARTS:
        assert_alike(model, compiled, torch.randn(2, SEQUENCE, 32), positions)
    (line,) = attentions(compiled)
    assert " documents " in line


def test_blocks_without_a_function():
    """A kernel reads only the blocks of a block mask; the function of this one hides no key."""
    counts = torch.tensor([[[1, 1, 1, 1]]], dtype=torch.int32)
    columns = torch.tensor([[[[0, 3, 2, 1], [1, 2, 3, 0], [2, 0, 1, 3], [3, 0, 1, 2]]]], dtype=torch.int32)
    mask = flex.BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=8)
    model, x = Flexible(), torch.randn(2, SEQUENCE, 32)
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    _, mine = gradients(compiled, x, mask)
    # PyTorch's own implementation for a CPU ignores blocks.
    alike = block_mask(lambda b, h, q, k: q // 8 == k // 8)
    _, theirs = gradients(model, x, alike)
    assert_close({name.removeprefix("_orig_mod."): g for name, g in mine.items()}, theirs)
    assert " documents " in attentions(compiled)[0]


def test_a_soft_cap():
    model = Flexible(score_mod=lambda score, b, h, q, k: 2 * torch.tanh(score / 2))
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    for positions in STARTS:
        mask = block_mask(flex.and_masks(causal, document(positions)), 2)
        assert_alike(model, compiled, 3 * torch.randn(2, SEQUENCE, 32), mask)
    (line,) = attentions(compiled)
    assert "softcap = 2.0" in line and " documents " in line


def far(score, b, h, q, k):
    return score - (q - k) * 0.1


def from_tables(table):
    return lambda score, b, h, q, k: score + table[h, q - k]


@pytest.mark.parametrize(
    "function", [lambda b, h, q, k: (q >= k) | (k < 4), lambda b, h, q, k: (q >= k) & (q - k < 8 + h)]
)
def test_other_masks_stay_in_pytorch(function):
    model, x, mask = Flexible(), torch.randn(2, SEQUENCE, 32), block_mask(function, heads=4)
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.HighPrecision())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_alike(model, compiled, x, mask)
    reasons = compiled.te.graphs[0].reasons
    assert not attentions(compiled) and any("its mask is neither causal" in text for text in reasons)
    # The layers are compiled.
    assert compiled.te.graphs[0].parts


CHANGES = [far, from_tables(torch.linspace(-1, 1, 4 * 63).view(4, 63)), lambda score, b, h, q, k: score * score]


@pytest.mark.parametrize("change", CHANGES)
def test_other_changes_of_scores_are_products(change):
    model, x, mask = Flexible(score_mod=change), torch.randn(2, SEQUENCE, 32), block_mask(causal, heads=4)
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.HighPrecision())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_alike(model, compiled, x, mask)
    lines = [str(op) for region in compiled.te.graphs[0].regions for op in region.function.ops]
    assert not attentions(compiled) and sum("te.grouped_linear" in line for line in lines) == 2


def test_the_sum_of_exponentials():
    """Attention is compiled, and the sum of its exponentials, which te.attention does not return, by itself."""
    model, x = Flexible(uses_lse=True), torch.randn(2, SEQUENCE, 32)
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.HighPrecision())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_alike(model, compiled, x, block_mask(causal))
    assert len(attentions(compiled)) == 1 and not compiled.te.graphs[0].reasons
