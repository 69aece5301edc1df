"""Side effects of a forward: writes to tensors, and random numbers.

The effects are those of PyTorch, whether a node is compiled or not. Nodes that are not compiled are listed.
"""

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F
from torch_compare import Two, X, compare, fresh, strict_error  # noqa: F401

import te_mlir.torch


def slice_scaled(self, x):
    h = self.l1(x)
    h[:, :8] *= 2
    return self.l2(h)


def row_zeroed(self, x):
    h = self.l1(x)
    h[0] = 0
    return self.l2(h)


def view_added_to(self, x):
    h = self.l1(x)
    h.view(-1).add_(1)
    return self.l2(h)


def written_after_use(self, x):
    h = self.l1(x)
    y = self.l2(h * 2)
    c = h.clone()
    h[:, 0] = 1
    return y, h, c, h.view(-1)


def copied_to_buffer(self, x):
    h = self.l1(x)
    self.n.copy_(h.detach().mean())
    return self.l2(h) * 2


def rows_at_indices(self, x):
    h = self.l1(x)
    h[torch.tensor([3, 1])] = 0
    h[:, 0] = 1
    return self.l2(h)


def seen_as_integers(self, x):
    h = self.l1(x)
    bits = h.view(torch.int32)
    h[:, :4] = 0
    return self.l2(h), bits


def written_without_gradients(self, x):
    h = self.l1(x)
    with torch.no_grad():
        h[0] = 2
    return self.l2(h * 1)


@pytest.mark.parametrize(
    "function, reason",
    [
        (written_after_use, "aten.fill_"),
        (copied_to_buffer, "aten.copy_"),
        (rows_at_indices, "aten.index_put_"),
        (seen_as_integers, "aten.fill_"),
        (written_without_gradients, "aten.select"),
    ],
)
def test_writes_to_values_of_the_region_stay_in_pytorch(function, reason):
    reasons = compare(Two(function, n=torch.zeros(())), X)
    assert any(line.startswith(reason) for line in reasons), reasons
    assert reason in strict_error(Two(function, n=torch.zeros(())), X)


def counted(self, x):
    self.n.add_(1)
    return self.l2(self.l1(x))


def input_scaled(self, x):
    x = x.mul_(2)
    return self.l1(x) + self.l2(x + 1)


def input_scaled_after_use(self, x):
    h = self.l1(x + 1)
    x.mul_(2)
    return self.l2(h)


def whole_value(self, x):
    h = self.l1(x)
    h += 1
    h *= 2
    return self.l2(F.relu(h, inplace=True))


def fresh_mask(self, x):
    mask = torch.ones_like(x)
    mask[:, 4:] = 0.5
    mask.view(-1)[0] = 3
    return self.l2(self.l1(x) * mask)


def drawn_mask(self, x):
    mask = (torch.rand_like(x) > 0.5).float()
    return self.l1(x * mask) * mask + self.l2(x * mask) + torch.rand(16, 32)


@pytest.mark.parametrize(
    "function", [counted, input_scaled, input_scaled_after_use, whole_value, fresh_mask, drawn_mask]
)
def test_other_writes_and_random_numbers_are_compiled_around(function):
    assert compare(Two(function, n=torch.zeros(())), X, strict=True) == []


def cast_then_scaled(self, x):
    y = F.linear(x.bfloat16(), self.l1.weight.bfloat16())
    with torch.no_grad():
        self.l1.weight.mul_(0.5)
    return self.l2(y.float())


def clamped_before(self, x):
    h = self.l1(x)
    with torch.no_grad():
        self.l2.weight.clamp_(-0.1, 0.1)
    return self.l2(h)


def clamped_after_a_cut(self, x):
    h = self.l1(x).sort(1).values
    with torch.no_grad():
        self.l2.bias.add_(1)
    return self.l2(h)


@pytest.mark.parametrize("function", [cast_then_scaled, clamped_before, clamped_after_a_cut])
def test_parameters_that_a_forward_writes_to(function):
    """Later reads see the written values, as in PyTorch, and the parameters get gradients."""
    model = Two(function)
    with torch.no_grad():  # all sums are exact in bf16, in any order
        model.l1.weight.mul_(16).round_().mul_(1 / 16)
    compare(model, X.mul(4).round())


def with_rows_detached(self, x):
    return self.l2(self.l1(x)) + self.l1.weight[:16].detach()


def with_rows_of_a_cast_detached(self, x):
    return self.l2(self.l1(x)).sort(0).values + self.l1.weight.double()[:16].detach().float()


@pytest.mark.parametrize("function", [with_rows_detached, with_rows_of_a_cast_detached])
def test_parts_of_parameters_that_are_detached(function):
    compare(Two(function), X)


def test_a_write_between_two_uses_keeps_its_place():
    def function(self, x):
        h = self.l1(x)
        x.mul_(2)
        return self.l2(h) + x

    # The tensor that the first layer saved is written to before its backward, as in PyTorch.
    with torch.no_grad():
        compare(Two(function), X)


def test_softmax_of_what_is_written_later_is_compiled():
    def function(self, x):
        weights = F.softmax(self.l1.weight, -1)
        with torch.no_grad():
            self.l1.weight.mul_(0.5)
        return self.l2(x), weights * 2

    (reason,) = compare(Two(function), X)
    assert "aten.mul_" in reason


def test_a_write_is_seen_through_each_view():
    def added(self, x):
        y = self.l1(x).t().contiguous()
        # In te, `view` must copy, because the GEMM's result is stored in another order.
        flat = y.view(-1)
        y.add_(1)
        return flat.sin(), y

    assert "PyTorch writes to a tensor that shares its memory" in compare(Two(added), X)[-1]


def test_a_write_is_seen_through_a_view_of_some_elements():
    def doubled(self, x):
        y = self.l1(x)
        # They are no rows of a matrix, so that a compiled result would be of its own.
        y.view(-1)[:40].index_fill_(0, torch.tensor([3]), 2)
        return self.l2(y)

    assert "PyTorch writes to a tensor that shares its memory" in compare(Two(doubled), X)[-1]


def test_buffers_written_through_data_are_seen():
    model = Two(lambda self, x: self.l2(self.l1(x) * (self.n * 2)), n=torch.rand(16, 32))
    compiled = te_mlir.torch.jit(model, strict=True)
    compiled(X)
    for write in (lambda: model.n.data.mul_(3), lambda: model.n.copy_(model.n + 1)):
        with torch.no_grad():
            write()
        assert torch.allclose(compiled(X), model(X), atol=1e-5)


def filled(self, x):
    """A new tensor whose parts are results of layers, as in the keys of DeepSeek."""
    y = x.new_empty(*x.shape[:-1], 64)
    y[..., :32] = self.l1(x)
    y[..., 32:].copy_(self.l2(x))
    return F.linear(y, torch.cat([self.l1.weight, self.l2.weight], 1))


def added_to_zeros(self, x):
    y = torch.zeros(16, 32)
    rows, flat = y[:4], y.view(-1)
    rows.add_(self.l1(x)[:4])
    return self.l2(flat.view(16, 32)) + self.l1(y * 2)


def returned_after_a_write(self, x):
    y = torch.zeros(16, 32)
    y[0] = self.l1(x)[0]
    return y.relu() + 1


def interleaved(self, x):
    y = x.new_empty(16, 64)
    y[:, ::2], y[:, 1::2] = self.l1(x), self.l2(x)
    return F.linear(y, torch.cat([self.l1.weight, self.l2.weight], 1))


def moved(self, x):
    h = self.l1(x)
    h[:, :8] = h[:, 8:16]
    h[:, 4:12] += h[:, :8] * 2
    return self.l2(h)


def overlapping(self, x):
    y, z = x.new_empty(16, 32), x.new_empty(16, 32)
    y[:, 12:] = self.l1(x)[:, 12:]
    a = y[:, 12:] * 2
    y[:, :20] = self.l2(x)[:, :20]
    z[:, 12:] = self.l1(x)[:, 12:]
    z[:, :12] = z[:, 12:24] + 1
    return self.l2(y) + F.pad(a, (0, 12)) + self.l1(z)


def nested(self, x):
    y = self.l1(x).view(4, 4, 32)
    first = y[1]
    first[:, 3:9].mul_(3)
    y.transpose(0, 1)[2, 1] = first[0]
    return self.l2(y.flatten(0, 1)) + self.l1(first.repeat(4, 1))


def repeated_and_narrowed(self, x):
    h = self.l1(x)
    h[:, :4] = self.l2(x)[:, :1]
    h = h.bfloat16()
    h[:, 4:8].copy_(self.l2(x)[:, 4:8])
    h[2:5].zero_()
    h[5, 3:7].fill_(0.3)
    return self.l2(h.float())


def stored_in_another_order(self, x):
    y = torch.zeros(32, 16)
    flat = y.view(-1)
    y.t().copy_(self.l1(x))
    return self.l2(flat.view(16, 32))


def read_between(self, x):
    h = self.l1(x)
    part, before = h[:, :8], h * 1
    part.clamp_(min=0)
    between = h.exp()
    part.add_(self.l2(x)[:, :8])
    return self.l2(before + between + h), part.sum()


@pytest.mark.parametrize(
    "function",
    [
        *(slice_scaled, row_zeroed, view_added_to, filled, added_to_zeros, returned_after_a_write),
        *(interleaved, moved, overlapping, nested, repeated_and_narrowed, read_between, stored_in_another_order),
    ],
)
def test_writes_to_parts(function):
    """Each reader gets what is in the tensor at that time, with the gradients of PyTorch."""
    assert not compare(Two(function), X)


def test_results_that_are_constants_belong_to_the_caller():
    """Values that depend on no input are computed once, but not if the caller may write to them."""
    model = Two(lambda self, x: (self.l1(x), torch.zeros(4), self.numbers * 2), numbers=torch.ones(4))
    compiled = te_mlir.torch.jit(model, strict=True)
    for _ in range(3):
        _, zeros, twice = compiled(X)
        assert torch.equal(zeros, torch.zeros(4)) and torch.equal(twice, torch.full((4,), 2.0))
        zeros += 1
        twice.view(2, 2)[0] = 7


def test_a_constant_that_is_written_to_after_a_graph_break():
    def function(self, x):
        y = torch.zeros(16, 32)
        h = self.l1(x)
        torch._dynamo.graph_break()
        y[x[:, 0] > 0] = h[x[:, 0] > 0]
        return self.l2(y)

    compare(Two(function), X)


def test_statistics_of_batch_norm_are_kept():
    model = Two(lambda self, x: self.l2(self.norm(self.l1(x))), norm=nn.BatchNorm1d(32))
    # The norm subtracts the bias, so the gradient of the bias is 0 except for rounding, and is not compared.
    model.l1.bias = None
    (reason,) = compare(model, X)
    assert "it normalises by statistics of the batch" in reason
    compare(Two(lambda self, x: self.l2(self.norm(x)), norm=nn.BatchNorm1d(32, affine=False)), X)


def test_rows_of_an_embedding_are_renormalised():
    ids = torch.arange(32).view(4, 8)
    model = Two(lambda self, ids: self.l2(self.table(ids)), table=nn.Embedding(64, 32, max_norm=1.0))
    compare(model, ids)


def test_random_numbers_come_in_the_order_of_the_program():
    def function(self, x):
        h = F.alpha_dropout(self.l1(x), 0.5, True)
        return h, self.l2(x * torch.rand_like(x))

    assert any("it draws random numbers" in reason for reason in compare(Two(function), X))


def _two_views(a, b):
    a, b = a * 1, b * 1
    u, v = torch.movedim(a, 0, 1), torch.movedim(b, 0, 1)
    b.mul_(3)
    return u * 2 + v + b.mean()


def _windows(a, b):
    a = a * 1
    windows = a.unfold(1, 16, 16)
    a.mul_(2)
    windows.add_(1)
    return windows.sum(-1) + a.mean() + b.mean()


def _shuffled(a, b):
    a = a * 1
    y = F.channel_shuffle(a.view(16, 8, 4), 1)
    y.mul_(2)
    return a.view(16, 8, 4) + y


def _given_results(a, b):
    with torch.no_grad():
        norms, sums = torch.zeros(16), torch.zeros(16, 32)
        torch.linalg.vector_norm(a, 2, -1, out=norms)
        torch.add(a, b, alpha=2, out=sums)
    return a * norms[:, None] + sums


def _through_views(a, b):
    rows = torch.tensor(range(16))
    results = F.mish(a), torch.lerp(a, b, 0.3), a[rows], a[rows.flip(0)], torch.einsum("ij,ij->ij", a, b)
    for y in results:
        y.view(-1).mul_(2)
    return sum(results) + a


@pytest.mark.parametrize("function", [_two_views, _windows, _shuffled, _given_results, _through_views])
def test_formulas_of_ops_on_memory_that_is_written(function):
    compare(Two(lambda self, x: function(self.l1(x), self.l1(x * 2))), X)


_LABELS = torch.tensor([1, -100, *range(2, 16)])


def _without_first(a):
    """A class that is forbidden."""
    return torch.cat([torch.full_like(a[:, :1], -torch.inf), a[:, 1:]], 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: F.cross_entropy(_without_first(a), _LABELS, reduction="none"),
        lambda a: F.cross_entropy(_without_first(a), _LABELS, torch.ones(32)),
        lambda a: a * torch.full_like(a > 0, 0.5, dtype=torch.float32),
        lambda a: a * ((a.argmax(-1, keepdim=True) + 2**24 + 1).tril(0) % 4),
        lambda a: torch.lerp(a * 1e8, a + 1, 1.0) + torch.lerp(a, a + 1, a.sigmoid()),
        lambda a: a.index_select(-1, torch.tensor(1)) + a[..., torch.tensor([-1])],
        lambda a: a * a.argmax(-1, keepdim=True).nan_to_num(),
        lambda a: torch.where((a > 0).isfinite(), a, -a),
    ],
)
def test_formulas_of_rare_operands(function):
    compare(Two(lambda self, x: function(self.l1(x))), X)


def test_formulas_of_empty_batches():
    functions = (
        lambda a: F.group_norm(a.view(-1, 8, 4), 2),
        lambda a: F.layer_norm(a.view(-1, 8, 4), (8, 4)),
        lambda a: F.channel_shuffle(a.view(-1, 8, 4), 2),
    )
    compare(Two(lambda self, x: tuple(function(self.l1(x)) for function in functions)), X[:0])
