"""Results: several results of one node, parts of a layer, and the memory of results."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F
from torch_compare import Two, X, compare, fresh, strict_error  # noqa: F401

import te_mlir
import te_mlir.torch


def both_halves(self, x):
    gate, up = self.l1(x).chunk(2, -1)
    return F.silu(gate), up


def three(self, x):
    q, k, v = self.l1(x).split([8, 8, 16], dim=-1)
    a, b = self.l2(x).view(16, 2, 16).unbind(1)
    return q, k + 1, v, a, b


def largest(self, x):
    values, places = self.l1(x).max(-1)
    return values, places, self.l2(x)


def hits(self, x):
    y = self.l2(F.silu(self.l1(x)))
    return y * y, y.argmax(-1)


@pytest.mark.parametrize("function", [both_halves, three, largest, hits])
def test_several_results_of_a_node(function):
    compare(Two(function), X)


def test_several_results_of_an_empty_batch():
    """The compiler may compute results without elements anywhere in the step, also behind the start of the backward."""
    layers = Two(lambda self, x: (self.l1(x), self.l2(self.l1(x)), self.l1(x).softmax(-1)))
    results = te_mlir.torch.jit(layers, strict=True)(X[:0])
    assert [result.shape for result in results] == [(0, 32)] * 3
    sum(result.square().sum() for result in results).backward()
    assert all(p.grad.shape == p.shape and not p.grad.any() for p in layers.parameters())


def test_integer_results_are_listed_and_compute_no_layer_again():
    compiled = te_mlir.torch.jit(Two(hits))
    with pytest.warns(UserWarning, match="aten.argmax"):
        compiled(X)
    rest = [str(n.target) for n in compiled.te.graphs[0].built.rest.__self__.graph.nodes if n.op == "call_function"]
    assert rest == ["aten.argmax.default"]
    assert "aten.argmax" in strict_error(Two(hits), X)


class Fused(nn.Module):
    """The attention of nanoGPT and the MLP of Phi-3."""

    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(32, 96), nn.Linear(32, 32, bias=False)
        self.gate_up, self.down = nn.Linear(32, 128, bias=False), nn.Linear(64, 32)

    def forward(self, x):
        q, k, v = (t.view(*x.shape[:2], 2, 16).transpose(1, 2) for t in self.qkv(x).split(32, dim=2))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(o.transpose(1, 2).reshape(x.shape))
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up), self.gate_up(x)[..., 64:]


def test_fused_projections_are_compiled_whole():
    assert compare(Fused(), X.view(2, 8, 32), strict=True) == []


def test_parts_of_a_weight_have_parts_of_its_main_grad():
    model, x = Fused(), X.view(2, 8, 32)
    compiled = te_mlir.torch.jit(model, strict=True, main_grad=True, differentiate_outputs="all")
    sum(r.square().mean() for r in compiled(x)).backward()
    mine = {name: p.main_grad for name, p in model.named_parameters()}
    assert all(p.grad is None for p in model.parameters())
    sum(r.square().mean() for r in model(x)).backward()
    for name, p in model.named_parameters():
        assert torch.allclose(mine[name], p.grad, rtol=1e-5, atol=1e-6), name


def test_parts_of_a_weight_are_quantised():
    model, x = Fused().bfloat16(), X.view(2, 8, 32).bfloat16()
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.Float8CurrentScaling(), strict=True)
    compiled(x)[0].float().sum().backward()
    assert "qkv[32:64]" in compiled.te.report()


def heads_of(order):
    """Attention of a fused layer, split into q, k and v in the ways of several models."""

    def cut(self, x):
        batch, length, width = x.shape
        y = self.qkv(x)
        if order == "timm":
            q, k, v = y.reshape(batch, length, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
        elif order == "indexed":
            y = y.reshape(batch, length, 3, 2, 16).permute(2, 0, 3, 1, 4)
            q, k, v = y[0], y[1], y[-1]
        elif order == "unbound late":
            q, k, v = (t.transpose(1, 2) for t in y.view(batch, length, 3, 2, 16).unbind(2))
        elif order == "rows first":
            y = y.view(batch * length, 3, 32)
            q, k, v = (y[:, i].view(batch, length, 2, 16).transpose(1, 2) for i in range(3))
        o = F.scaled_dot_product_attention(q, k, v)
        return self.o(o.transpose(1, 2).reshape(x.shape))

    return cut


@pytest.mark.parametrize("order", ["timm", "indexed", "unbound late", "rows first"])
def test_fused_heads_are_compiled_whole(order):
    model = Two(heads_of(order), qkv=nn.Linear(32, 96), o=nn.Linear(32, 32))
    assert compare(model, X.view(2, 8, 32), strict=True) == []


def test_heads_that_interleave_q_k_and_v_are_compiled_whole():
    def function(self, x):
        q, k, v = self.qkv(x).view(2, 8, 2, 48).transpose(1, 2).chunk(3, -1)
        o = F.scaled_dot_product_attention(q, k, v)
        return self.l1(o.transpose(1, 2).reshape(x.shape))

    assert compare(Two(function, qkv=nn.Linear(32, 96)), X.view(2, 8, 32), strict=True) == []


def some_rows(self, x):
    """Only the first position, columns with other strides, and rows and columns that are joined."""
    y = self.wide(x.view(2, 8, 32))
    return y[:, 0, :32], y.view(2, 8, 2, 32).permute(0, 1, 3, 2)[..., 0].reshape(2, -1)


def columns_joined_with_rows(self, x):
    y = self.wide(x.view(2, 8, 32)).view(2, 8, 2, 32).transpose(1, 2).reshape(2, 16, 32)
    return y[:, :8] + 1, y[:, 8:] * 2


@pytest.mark.parametrize("function", [some_rows, columns_joined_with_rows])
def test_other_parts_are_right(function):
    compare(Two(function, wide=nn.Linear(32, 64)), X)


def test_a_part_that_is_written_to_stays_in_pytorch():
    def function(self, x):
        h = self.wide(x)
        a, b = h[:, :32], h[:, 32:]
        a.mul_(2)
        return a, b

    assert compare(Two(function, wide=nn.Linear(32, 64)), X)


def test_a_layer_without_columns_stays_in_pytorch():
    reasons = compare(
        Two(lambda self, x: self.l1(self.up(self.down(x))), down=nn.Linear(32, 0), up=nn.Linear(0, 32)), X
    )
    assert any("no columns" in reason for reason in reasons)


# Memory of results


COPIES = {
    "clone": lambda y: y.clone(),
    "view of clone": lambda y: y.clone().view(-1),
    "transposed": lambda y: y.transpose(0, 1).contiguous(),
    "part": lambda y: y[:, :8].contiguous(),
    "cat": lambda y: torch.cat([y]),
    "to": lambda y: y.to(torch.float32, copy=True),
}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("copied", list(COPIES))
def test_a_result_and_its_copy_are_two(copied, gradients):
    def both(self, x):
        y = self.l1(x)
        return y, COPIES[copied](y)

    compiled = te_mlir.torch.jit(Two(both), differentiate_outputs="all", strict=True)
    with torch.set_grad_enabled(gradients):
        y, copy_of_y = compiled(X)
    wanted = copy_of_y.detach().clone()
    # The strides are those of PyTorch, because code outside of the graph may rely on them.
    assert y.is_contiguous() and copy_of_y.is_contiguous()
    copy_of_y.view(-1)
    y.detach().zero_()
    assert torch.equal(copy_of_y, wanted)


def test_views_of_a_result_are_one():
    y, view = te_mlir.torch.jit(Two(lambda self, x: ((y := self.l1(x)), y.view(-1))), differentiate_outputs="all")(X)
    y.detach().zero_()
    assert view.eq(0).all()


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_results_are_no_views(cuda_graph):
    """PyTorch drops hooks on a view if the view is written to, such as those of fully_shard that gather parameters."""
    model = te_mlir.torch.jit(Two(lambda self, x: F.silu(self.l1(x))), cuda_graph=cuda_graph)
    module = te_mlir.torch.Linear(32, 32)
    for x in (torch.randn(2, 3, 4, 32), X):
        for y in (model(x), module(x)):
            assert y.shape == x.shape and not y._is_view()


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: (self.l1(x)[:, :8].as_strided((4, 8), (32, 1)), self.l2(x)),
        lambda self, x: self.l1(x).t().contiguous().as_strided((4, 4), (16, 1)),
    ],
)
def test_places_in_memory_are_pytorchs(function):
    assert "as_strided" in compare(Two(function), X)[0]


def test_parts_of_a_product_by_their_places():
    """The parts of the layer become separate GEMMs, whose results are stored differently."""
    wide = nn.Linear(32, 96)
    parts = lambda self, x: (self.wide(x)[:, :32].as_strided((5, 8), (96, 1)), self.wide(x)[:, 32:])  # noqa: E731
    assert "as_strided" in compare(Two(parts, wide=wide), X)[0]


def branches(self, x):
    y = self.l1(x)
    return self.l2(y) if y.sum() > 0 else y * 3


def divides_by_a_printed_norm(self, x):
    y = self.l1(x)
    norm = y.norm()
    self.seen = norm.item()
    return self.l2(y / norm)


def returns_a_norm(self, x):
    y = self.l1(x)
    return y, y.detach().norm()


@pytest.mark.parametrize("function", [branches, divides_by_a_printed_norm, returns_a_norm])
def test_a_number_that_is_no_loss_takes_no_gradient_away(function):
    """A condition, a number read by Python, and a number without a gradient stand beside a result that has one."""
    model = Two(function)
    theirs = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [m(X) for m in (te_mlir.torch.jit(model), theirs)]
    for result in results:
        (result[0] if isinstance(result, tuple) else result).square().mean().backward()
    for mine, wanted in zip(model.parameters(), theirs.parameters()):
        assert (mine.grad is None) == (wanted.grad is None)
        if wanted.grad is not None:
            assert torch.allclose(mine.grad, wanted.grad, atol=1e-6)
