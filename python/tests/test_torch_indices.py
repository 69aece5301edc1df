"""Ids, labels and other integers as inputs: outside of int32, shifted, padded, and read in several ways."""

import copy
import ctypes

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F
from torch_compare import Two, fresh  # noqa: F401

import te_mlir.torch
from te_mlir.torch import indices


@pytest.mark.parametrize("main_grad", [False, True])
@pytest.mark.parametrize("padding", [0, 5, -1])
def test_the_row_of_padding_has_no_gradient(padding, main_grad):
    """The padding row has nonzero values, as in a pretrained table."""
    table = nn.Embedding(16, 32, padding_idx=padding)
    with torch.no_grad():
        table.weight.normal_()
    model = Two(lambda self, ids: self.l1(self.table(ids)), table=table)
    ids = torch.tensor([[0, 5, 15, 3], [15, 0, 5, 5]])
    wanted = copy.deepcopy(model)
    compiled = te_mlir.torch.jit(model, strict=True, main_grad=main_grad)
    for run in (wanted, compiled):
        y = run(ids)
        y.square().sum().backward()
    mine = table.weight.main_grad if main_grad else table.weight.grad
    assert torch.allclose(y, wanted(ids), rtol=1e-6, atol=1e-6)
    assert torch.allclose(mine, wanted.table.weight.grad, rtol=1e-5, atol=1e-5)
    assert mine[padding].eq(0).all() and mine[3].ne(0).any()


def test_tables_of_one_kind_of_ids_have_their_own_padding():
    tables = nn.ModuleList([nn.Embedding(16, 32, padding_idx=i) for i in (0, 3)])
    model = Two(lambda self, ids: self.l1(self.tables[0](ids) + self.tables[1](ids)), tables=tables)
    wanted, ids = copy.deepcopy(model), torch.arange(16).view(2, 8)
    for run in (wanted, te_mlir.torch.jit(model, strict=True)):
        run(ids).square().sum().backward()
    for mine, theirs in zip(model.tables, wanted.tables):
        assert torch.allclose(mine.weight.grad, theirs.weight.grad, rtol=1e-5, atol=1e-5)


def test_ids_beyond_int32_are_beyond_the_table():
    table = nn.Embedding(64, 32)
    model = Two(lambda self, ids: self.l2(self.table(ids)), table=table)
    ids = torch.tensor([[3, 2**32 + 3, -(2**40), 63]])
    y = te_mlir.torch.jit(model, strict=True)(ids)
    rows = torch.stack([table.weight[3], torch.zeros(32), torch.zeros(32), table.weight[63]])
    assert torch.allclose(y[0], model.l2(rows), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_indices_are_shifted_filled_and_of_int32(dtype):
    wide = torch.arange(60).reshape(3, 20).to(dtype)
    # A tensor with the same elements whose memory has the negated values.
    negated = torch._neg_view(-wide) if dtype.is_signed else wide
    cuts = (lambda t: t, lambda t: t[:, ::2], lambda t: t.t(), lambda t: t[1], lambda t: t[:, 5:5])
    for given, other in ((cut(wide), cut(negated)) for cut in cuts):
        for shift, fill in ((0, 0), (1, -100), (2, 2**40)):
            if shift > given.shape[-1]:
                continue
            made = indices.Indices(shift, fill)
            padded = torch.nn.functional.pad(given.long(), (0, shift), value=min(fill, 2**31 - 1))[..., shift:]
            for one in (given, given, other):
                result = made(one)
                assert result.dtype is torch.int32 and result.is_contiguous() and not result.is_neg()
                assert torch.equal(result.long(), padded.reshape(-1))
    ends = torch.tensor([2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)])
    last, first = 2**31 - 1, -(2**31)
    assert indices.Indices()(ends).tolist() == [last, last, first, first, last, first]


def test_memory_of_indices_is_used_again_where_nobody_has_it():
    made, given = indices.Indices(1, -100), torch.arange(40).reshape(4, 10)
    expected = made(given).tolist()
    where = made(given).data_ptr()
    assert made(given).data_ptr() == where and made(given).tolist() == expected
    holders = [
        lambda t: t,
        lambda t: t.detach(),
        lambda t: t.numpy(),
        lambda t: t.untyped_storage(),
        lambda t: torch.utils.dlpack.to_dlpack(t),
        # A node of autograd that waits for its backward.
        lambda t: (t * torch.ones((), requires_grad=True)).grad_fn,
    ]
    for number, hold in enumerate(holders):
        first = made(given)
        where = first.data_ptr()
        held = hold(first)
        del first
        second = made(given + number)
        assert second.data_ptr() != where and second.tolist() != expected or not number
        assert torch.frombuffer((ctypes.c_int32 * 40).from_address(where), dtype=torch.int32).tolist() == expected
        del held, second
    # With another stream, in a recording of PyTorch, and in inference mode.
    where, plain = made(given).data_ptr(), made._recording
    made._recording = lambda: True
    kept = [made(given) for _ in range(2)]
    assert len({where, *(t.data_ptr() for t in kept)}) == 3
    made._recording = plain
    assert made(given).data_ptr() == where
    with torch.inference_mode():
        assert made(given).is_inference()
    assert not made(given).is_inference()
    where = made(given)
    made._stream = lambda: 7
    address = where.data_ptr()
    del where
    assert made(given).data_ptr() != address or made._key[0] == 7


def test_forwards_in_flight_have_indices_of_their_own():
    torch.manual_seed(0)
    table, ids = nn.Embedding(64, 32), [torch.randint(0, 64, (2, 8)) for _ in range(3)]
    for graph in (False, True):
        model = Two(lambda self, ids: self.l2(self.table(ids)), table=table)
        compiled = te_mlir.torch.jit(model, strict=True, cuda_graph=graph)
        for order in ((0, 1, 2), (2, 0, 1), (1, 0, 2)):
            losses = [compiled(i).square().sum() for i in ids] if not graph else None
            for number in order:
                loss = losses[number] if losses else compiled(ids[number]).square().sum()
                table.weight.grad = None
                loss.backward()
                mine = table.weight.grad.clone()
                table.weight.grad = None
                model(ids[number]).square().sum().backward()
                assert torch.allclose(mine, table.weight.grad, atol=1e-4), (graph, order, number)


class ShiftedLabels(nn.Module):
    """The loss of the next token, as transformers computes it."""

    def __init__(self, shift, fill, change):
        super().__init__()
        self.l1, self.shift, self.fill, self.change = nn.Linear(32, 64), shift, fill, change

    def forward(self, x, labels):
        padded = torch.nn.functional.pad(labels, (0, self.shift), value=self.fill)
        if self.change:
            padded[..., 2] = 5
        shifted = padded[..., self.shift :].contiguous().view(-1).to(x.device)
        return torch.nn.functional.cross_entropy(self.l1(x).view(-1, 64), shifted, ignore_index=-100)


@pytest.mark.parametrize("shift, fill, change", [(1, -100, False), (3, 7, False), (1, -100, True)])
def test_shifted_labels_are_made_in_place(shift, fill, change):
    model = ShiftedLabels(shift, fill, change)
    x, labels = torch.randn(4, 16, 32), torch.randint(0, 64, (4, 16))
    labels[1, 5] = -100
    wanted = copy.deepcopy(model)
    compiled = te_mlir.torch.jit(model, strict=True)
    for _ in range(2):
        loss, theirs = compiled(x, labels), wanted(x, labels)
        assert torch.allclose(loss, theirs, rtol=1e-5)
        loss.backward()
        theirs.backward()
        labels = labels.flip(0)
    assert torch.allclose(model.l1.weight.grad, wanted.l1.weight.grad, atol=1e-6)
    # If the graph writes to the padded labels, the write is visible. If not, PyTorch computes nothing before the
    # region.
    assert (compiled.te.graphs[0].built.before.each is None) is not change


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_of_the_same_labels_ignore_their_own(reduction):
    def losses(self, x, labels):
        labels = labels.reshape(-1)
        a, b = (layer(x).view(4, 5, 32)[:, :-1].reshape(-1, 32) for layer in (self.l1, self.l2))
        return sum(F.cross_entropy(y, labels, ignore_index=i, reduction=reduction) for y, i in ((a, 0), (b, 3)))

    model = Two(losses)
    x, labels = torch.randn(20, 32), torch.arange(16).view(4, 4) % 5
    wanted = copy.deepcopy(model)
    results = []
    for run in (wanted, te_mlir.torch.jit(model, strict=True)):
        results.append(run(x, labels))
        results[-1].backward()
    assert torch.allclose(*results, rtol=1e-6)
    for mine, theirs in zip(model.parameters(), wanted.parameters()):
        assert torch.allclose(mine.grad, theirs.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ignored", [2**31, -(2**31) - 1, 2**40])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_ignored_labels_may_be_beyond_int32(ignored, reduction):
    labels = torch.tensor([1, ignored, 31, ignored])
    options = {"ignore_index": ignored, "reduction": reduction}
    model = Two(lambda self, x, labels: F.cross_entropy(self.l1(x), labels, **options))
    x, wanted = torch.randn(4, 32), copy.deepcopy(model)
    assert torch.allclose(te_mlir.torch.jit(model, strict=True)(x, labels), wanted(x, labels), rtol=1e-6)


def test_integers_are_numbers_of_each_type():
    """bf16 cannot represent 257."""
    model = Two(lambda self, x, n: (self.l1(x).bfloat16() * n).float() + self.l2(x) * n)
    x, n = torch.randn(4, 32), torch.full((4, 32), 257)
    with torch.no_grad():
        wanted = model(x, n)
        assert torch.allclose(te_mlir.torch.jit(model)(x, n), wanted, rtol=2**-7, atol=2**-7)


#: Indexing by integers, of x [4, 7, 64] and indices [4].
INDEXED = {
    "one token of each sequence": lambda x, i: x[torch.arange(4), i],
    "rows of a matrix": lambda x, i: x.flatten(0, 1)[i],
    "constant head": lambda x, i: x.unflatten(2, (4, 16))[:, :, [-2], :].expand(-1, -1, 4, -1).flatten(2),
    "constant tokens": lambda x, i: x[:, [1, 3, 6]],
    "neighbours": lambda x, i: x[:, [1, 2, 3]],
    "the same tokens": lambda x, i: x[:, i],
    "from the end": lambda x, i: x[:, i - 7],
    "broadcast indices": lambda x, i: x[i[:, None] % 4, i],
    "elements": lambda x, i: x * x[i % 4, i, i * 5][:, None, None],
    "an element of each row": lambda x, i: x * x[:, 0][torch.arange(4), i - 5][:, None, None],
    "elements in another order": lambda x, i: x * x[:, 0][torch.arange(3, -1, -1), i][:, None, None],
    "elements of a vector": lambda x, i: x * x[2, 3][i][:, None, None],
}


@pytest.mark.parametrize("name", INDEXED)
def test_indexing_by_integers(name):
    one, other = nn.Linear(64, 64), nn.Linear(64, 8)
    function = lambda x, i: other(INDEXED[name](one(x), i))
    compiled = te_mlir.torch.jit(function, strict=True)
    x, i = torch.randn(4, 7, 64, requires_grad=True), torch.tensor([3, 0, 6, 3])
    leaves = [x, *one.parameters(), *other.parameters()]
    found, wanted = (torch.autograd.grad(run(x, i).square().sum(), leaves) for run in (compiled, function))
    for mine, autograds in zip(found, wanted):
        assert (mine - autograds).norm() <= 1e-5 * autograds.norm()


def test_the_log_probability_of_each_label_is_a_loss():
    """Its logits are not stored."""
    layer = nn.Linear(32, 64)
    x, labels = torch.randn(8, 32), torch.arange(8) * 9 - 8
    function = lambda x, labels: -layer(x).log_softmax(-1)[torch.arange(8), labels].mean()
    compiled = te_mlir.torch.jit(function, strict=True)
    assert torch.allclose(compiled(x, labels), function(x, labels), rtol=1e-6)
    (part,) = compiled.te.graphs[0].parts
    assert "te.cross_entropy" in [op.name for op in part.region.function.ops]


def test_an_index_out_of_range_reads_zeros():
    layer = nn.Linear(64, 64)
    compiled = te_mlir.torch.jit(lambda x, i, j: layer(layer(x)[i, j]), strict=True)
    y = compiled(torch.randn(2, 3, 64), torch.tensor([0, 2, 0, -1]), torch.tensor([0, 0, 3, -3]))
    assert torch.equal(y[1], layer.bias) and torch.equal(y[2], layer.bias) and not torch.equal(y[3], layer.bias)
