"""Graphs in which patterns, views and regions must not include an op.

A pattern replaces several ops with one. This is wrong if one of them stops a gradient, if a tensor
between them is written to, or if one is broadcast.
"""

import copy
import math
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F
from torch_compare import Two, X, compare, fresh, strict_error  # noqa: F401

import te_mlir.torch


def frozen_transpose(self, x):
    with torch.no_grad():
        w = self.l2.weight.t()
    return self.l1(x) @ w


def frozen_rows(self, x):
    with torch.no_grad():
        w = self.l2.weight[:16]
    return F.linear(self.l1(x), w)


def frozen_norm(self, x):
    h = self.l1(x)
    with torch.no_grad():
        r = torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
    return self.l2(self.l2.bias * (h * r))


def frozen_gamma(self, x):
    h = self.l1(x)
    with torch.no_grad():
        gamma = 1 + self.l2.bias
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5) * gamma


def frozen_gate(self, x):
    h = self.l1(x)
    with torch.no_grad():
        gate = torch.sigmoid(1.702 * h)
    return self.l2(h * gate)


def frozen_tanh(self, x):
    h = self.l1(x)
    with torch.no_grad():
        gate = 1 + torch.tanh(0.7978845608028654 * (h + 0.044715 * h**3))
    return self.l2(0.5 * h * gate)


@pytest.mark.parametrize(
    "function", [frozen_transpose, frozen_rows, frozen_norm, frozen_gamma, frozen_gate, frozen_tanh]
)
def test_no_pattern_takes_in_what_stops_gradients(function):
    assert any("no gradient goes through it" in reason for reason in compare(Two(function), X))
    strict_error(Two(function), X)


def test_a_part_that_stops_gradients_is_no_layer():
    def function(self, x):
        h = self.wide(x)
        with torch.no_grad():
            gate = h[:, :32]
        return self.l2(gate * h[:, 32:])

    reasons = compare(Two(function, wide=nn.Linear(32, 64)), X)
    assert any("no gradient goes through it" in reason for reason in reasons)


@pytest.mark.parametrize(
    "look", [torch.Tensor.float, torch.Tensor.contiguous, lambda t: t.type_as(X), lambda t: t.add_(1)]
)
def test_what_gives_its_operand_back_stops_no_gradient(look):
    """A cast to a tensor's own type returns the tensor, also under torch.no_grad, so gradients flow through it."""

    def function(self, x):
        h = self.l1(x)
        with torch.no_grad():
            seen = look(h).abs().max()
        return self.l2(h), seen

    compare(Two(function), X)


@pytest.mark.parametrize("shape", [(16, 1), (1,), (1, 1)])
@pytest.mark.parametrize("zero_centered", [False, True])
def test_a_scale_that_is_broadcast_is_no_gamma(shape, zero_centered):
    def function(self, x, scale):
        h = self.l1(x)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.l2(h * (1 + scale if zero_centered else scale))

    def modulated(self, x, scale):
        return function(self, x.view(2, 16, 16, 2).flatten(2), scale.view(2, 1, 32))

    compare(Two(function), X, torch.linspace(0, 1, math.prod(shape)).view(shape))
    compare(Two(modulated), torch.linspace(-1, 2, 1024), torch.linspace(0, 1, 64))
    # There are as many rows as columns.
    square = torch.linspace(-1, 2, 1024).view(32, 32)
    compare(Two(function), square, torch.linspace(0, 1, 32).view(32, 1))


def test_a_write_between_what_a_pattern_reads():
    def function(self, x):
        x = x + 0
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x[:, 0] = 0
        return self.l2(self.l1.bias * (x * r))

    compare(Two(function), 3 * X)


@pytest.mark.parametrize("change", [torch.relu_, lambda t: t.add_(1), lambda t: t.mul_(2)])
def test_a_written_result_that_nobody_uses(change):
    def function(self, x):
        change(self.l1(x))
        return x * self.l2.bias

    compare(Two(function), X)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_write_to_a_part_of_one_sequence(batch):
    def function(self, x):
        h = self.l1(x)
        h[:, 0] *= 2
        h[:, :, :1] += 1
        return h

    compare(Two(function), torch.linspace(-1, 1, batch * 256).view(batch, 8, 32))


@pytest.mark.parametrize(
    "same",
    [
        lambda x: x * 1.0,
        lambda x: x / 1,
        lambda x: x - 0,
        lambda x: -(-x),  # noqa: B002, a double negation is meant
        lambda x: 1 * (x * 1.0),
    ],
)
@pytest.mark.parametrize("wants", [False, True])
def test_a_result_that_is_an_input(same, wants):
    """The result is available before the backward, and has its own memory."""
    model = Two(lambda self, x: (self.l2(x), same(x)))
    compiled = te_mlir.torch.jit(model, differentiate_outputs="all")
    x = X.clone().requires_grad_(wants)
    y, copied = compiled(x)
    assert torch.equal(copied, X) and copied.data_ptr() != x.data_ptr()
    (y.sum() + 3 * copied.sum()).backward()
    if wants:
        assert torch.allclose(x.grad, model.l2.weight.detach().sum(0) + 3, rtol=1e-5, atol=1e-5)


def test_keys_that_are_a_part_of_a_matrix_of_another_width():
    def function(self, x):
        k, v = self.kv(x).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (self.l1(x)[..., :24], k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    compare(Two(function, kv=nn.Linear(32, 48)), X[None])


X4 = torch.linspace(-1, 1, 1024).view(2, 4, 4, 32)


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: self.l1(x).permute(3, 2, 1, 0).contiguous(),
        lambda self, x: self.l1(x).bfloat16().view(torch.float16).isfinite().float() + self.l1(x).sum(),
        lambda self, x: torch.cat([torch.zeros(2, 0, 4, 32), self.l1(x).bfloat16()], 1),
        lambda self, x: self.l2(self.l1(x).split([1, 3], 1)[1]),
        lambda self, x: self.l2(self.l1(x).chunk(2, 1)[0]) + self.l1(x).chunk(2, 2)[1].mean(),
        lambda self, x: self.l2(self.l1(x).unbind(1)[2]),
        lambda self, x: F.scaled_dot_product_attention(self.l1(x[0]), self.l2(x[0]), x[0]),
    ],
)
def test_views_are_pytorchs(function):
    compare(Two(function), X4)


@pytest.mark.parametrize("rows, columns", [(1, 4), (2, 4), (4, 4), (1, 16), (2, 9)])
def test_parts_of_small_results(rows, columns):
    """Small results share memory with others of the call."""

    def function(self, x):
        mean, deviation = self.head(self.l1(x)).chunk(2, -1)
        return mean, deviation.exp(), self.l2(x).mean(-1)

    compare(Two(function, head=nn.Linear(32, columns)), X[:rows])


@pytest.mark.filterwarnings("ignore:The use of")
def test_all_dimensions_are_reversed():
    compare(Two(lambda self, x: self.l1(x).T), X4, strict=True)


@pytest.mark.parametrize("offset", [1, 2, 4])
def test_memory_may_begin_anywhere(offset):
    """Kernels need addresses that are multiples of 16 bytes; other tensors are copied."""
    model = Two(lambda self, x, ids: self.l2(F.silu(self.l1(x))) + self.table(ids), table=nn.Embedding(64, 32))
    ids = torch.arange(20, dtype=torch.int32)
    flat = torch.cat([torch.zeros(offset), *(p.detach().reshape(-1) for p in model.parameters())])
    first = offset
    for parameter in model.parameters():
        parameter.data = flat[first : first + parameter.numel()].view_as(parameter)
        first += parameter.numel()
    moved = torch.cat([torch.zeros(offset), X.reshape(-1)])[offset:].view_as(X)
    compiled = te_mlir.torch.jit(model)
    for x, rows in ((X, ids[:16]), (moved, ids[offset : offset + 16])):
        model.zero_grad()
        y = compiled(x, rows)
        wanted = model(x, rows)
        assert torch.allclose(y, wanted, rtol=1e-5, atol=1e-5)
        grads = (torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in (y, wanted))
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(*grads))


def attention_of_shared_keys(self, x):
    """Batch axes are aligned from the right: the first axis of these keys is that of the heads."""
    q = self.l1(x).view(2, 8, 2, 16).transpose(1, 2)
    k, v = (t.view(2, 8, 16) for t in (self.l2(x[0]), self.l2(x[1])))
    return torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v


def learned_queries(self, x):
    k = self.l1(x)
    return torch.softmax(self.l2.weight[:8] @ k.transpose(-1, -2) / 4, -1) @ k


def keys_of_the_first_batch(self, x):
    q, k = (layer(x).view(2, 8, 2, 16).transpose(1, 2) for layer in (self.l1, self.l2))
    return torch.softmax(q @ k[:1].transpose(-1, -2) / 4, -1) @ k[:1]


def test_keys_of_one_batch_are_those_of_all():
    assert not compare(Two(keys_of_the_first_batch), torch.linspace(-3, 4, 512).sin().view(2, 8, 32))


@pytest.mark.parametrize("function", [attention_of_shared_keys, learned_queries])
def test_products_of_other_batches_are_no_attention(function):
    x = torch.linspace(-3, 4, 512).sin().view(2, 8, 32)
    # Results and gradients are compared; attention would have others.
    compare(Two(function), x)


def test_keys_of_one_head_are_those_of_all():
    def function(self, x):
        q, k = (t.view(2, 8, -1, 8).transpose(1, 2) for t in (self.l1(x), self.one(x)))
        return torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ k

    assert not compare(Two(function, one=nn.Linear(32, 8)), torch.linspace(-3, 4, 512).sin().view(2, 8, 32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_epsilon_of_rms_norm_is_that_of_f32(dtype):
    model = nn.Sequential(nn.RMSNorm(32), nn.Linear(32, 32)).to(dtype)
    x = (0.01 * X).to(dtype)
    wanted = model(x)
    mine = te_mlir.torch.jit(model, strict=True)(x)
    assert (mine - wanted).norm() < (1e-5 if dtype is torch.float32 else 2e-2) * wanted.norm()


@pytest.mark.parametrize("arguments", [(-1,), ()])
def test_a_mean_over_other_values_is_no_norm(arguments):
    def function(self, x):
        return self.l2(x * torch.rsqrt((x**2).mean(*arguments) + 1e-6) * self.l1.weight[0])

    compare(Two(function), torch.linspace(-1, 2, 1024).view(32, 32))


@pytest.mark.parametrize(
    "function, strict",
    [
        (lambda self, x: self.l2(torch.div(self.l1(x), 3, rounding_mode="floor")), False),
        (lambda self, x: self.l2(self.l1(x) * float("inf")), True),
        (lambda self, x: self.l1(x) - float("inf"), True),
        (lambda self, x: F.linear(self.l1(x), self.l2.weight.data), False),
        (lambda self, x: self.l1(x * torch.tensor([2.0] * 32)), True),
    ],
)
def test_odd_operands(function, strict):
    model = Two(function)
    theirs = copy.deepcopy(model)(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine = te_mlir.torch.jit(model, strict=strict)(X)
    assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-5, equal_nan=True)
