"""What a forward does beside its results: writes, random numbers, gradients that are stopped or changed.

Each is as in PyTorch, compiled or not; what is not compiled is listed.
"""

import contextlib
import copy
import ctypes
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import te_mlir.torch  # noqa: E402
from te_mlir.errors import ImportFailure  # noqa: E402
from te_mlir.torch import indices  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Two(nn.Module):
    """Two layers and a function of them."""

    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        self.l1, self.l2 = nn.Linear(32, 32), nn.Linear(32, 32)
        for name, member in members.items():
            if isinstance(member, nn.Module):
                setattr(self, name, member)
            else:
                self.register_buffer(name, member)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def run(model, inputs, context=contextlib.nullcontext):
    """Results, gradients, buffers, inputs and parameters after two calls, the second with other random numbers."""
    torch.manual_seed(5)
    inputs = [t.clone() for t in inputs]
    for _ in range(2):
        with context():
            results = model(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        loss = sum(r.float().square().mean() for r in results if r.requires_grad)
        if torch.is_tensor(loss):
            loss.backward()
    # Dynamo names parameters with a prefix.
    inner = getattr(model, "_orig_mod", model)
    tensors = dict(enumerate((*results, *inputs)))
    tensors.update({f"{n}.grad": p.grad for n, p in inner.named_parameters() if p.grad is not None})
    tensors.update(inner.named_parameters())
    tensors.update(inner.named_buffers())
    return {name: t.detach().clone() for name, t in tensors.items()}


def compare(model, *inputs, context=contextlib.nullcontext, **options):
    """Runs model through te and by itself; gives the reasons of what stayed in PyTorch."""
    theirs = run(copy.deepcopy(model), inputs, context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = te_mlir.torch.jit(model, differentiate_outputs="all", **options)
        mine = run(compiled, inputs, context)
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        assert mine[name].dtype is value.dtype, name
        assert torch.allclose(mine[name].double(), value.double(), rtol=1e-5, atol=1e-5), name
    return [reason for graph in compiled.te.graphs for reason in graph.reasons]


def strict_error(model, *inputs):
    torch._dynamo.reset()
    with pytest.raises(Exception) as caught:
        te_mlir.torch.jit(model, strict=True)(*inputs)
    chain = [caught.value]
    while chain[-1].__cause__ or chain[-1].__context__:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    assert any(isinstance(e, ImportFailure) for e in chain)
    return str(caught.value)


X = torch.linspace(-1, 1, 512).view(16, 32)


# Writes


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


@pytest.mark.parametrize(
    "function, reason",
    [
        (slice_scaled, "aten.mul_"),
        (row_zeroed, "aten.fill_"),
        (view_added_to, "aten.add_"),
        (written_after_use, "aten.fill_"),
        (copied_to_buffer, "aten.detach"),
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
    h = self.l1(x).cumsum(1)
    with torch.no_grad():
        self.l2.bias.add_(1)
    return self.l2(h)


@pytest.mark.parametrize("function", [cast_then_scaled, clamped_before, clamped_after_a_cut])
def test_parameters_that_a_forward_writes_to(function):
    """Readers see what PyTorch's do, and gradients come to the parameter all the same."""
    model = Two(function)
    with torch.no_grad():  # sums that are exact in bf16, in whatever order
        model.l1.weight.mul_(16).round_().mul_(1 / 16)
    compare(model, X.mul(4).round())


def with_rows_detached(self, x):
    return self.l2(self.l1(x)) + self.l1.weight[:16].detach()


def with_rows_of_a_cast_detached(self, x):
    return self.l2(self.l1(x)).cumsum(0) + self.l1.weight.double()[:16].detach().float()


@pytest.mark.parametrize("function", [with_rows_detached, with_rows_of_a_cast_detached])
def test_parts_of_parameters_that_are_detached(function):
    compare(Two(function), X)


def test_a_write_between_two_uses_keeps_its_place():
    def function(self, x):
        h = self.l1(x)
        x.mul_(2)
        return self.l2(h) + x

    # What the first layer saved is not what it was: as in PyTorch.
    with torch.no_grad():
        compare(Two(function), X)


def test_statistics_of_batch_norm_are_kept():
    model = Two(lambda self, x: self.l2(self.norm(self.l1(x))), norm=nn.BatchNorm1d(32))
    # The norm takes a bias off again: its gradient is 0, and what either finds of it are rounding errors.
    model.l1.bias = None
    compare(model, X)
    compare(Two(lambda self, x: self.l2(self.norm(x)), norm=nn.BatchNorm1d(32, affine=False)), X)


def test_rows_of_an_embedding_are_renormalised():
    ids = torch.arange(32).view(4, 8)
    model = Two(lambda self, ids: self.l2(self.table(ids)), table=nn.Embedding(64, 32, max_norm=1.0))
    compare(model, ids)


def test_random_numbers_come_in_the_order_of_the_program():
    def function(self, x):
        h = F.dropout(self.l1(x), 0.5)
        return h, self.l2(x * torch.rand_like(x))

    assert any("it draws random numbers" in reason for reason in compare(Two(function), X))


# Gradients


def frozen(self, x):
    with torch.no_grad():
        h = self.l1(x)
    return self.l2(h)


def frozen_after(self, x):
    h = self.l1(x)
    with torch.no_grad():
        scale = self.l2(h).abs().mean()
    return h * scale


def detached(self, x):
    return self.l2(self.l1(x).detach())


@pytest.mark.parametrize("function", [frozen, frozen_after, detached])
def test_no_gradient_where_pytorch_has_none(function):
    reasons = compare(Two(function), X)
    assert reasons
    strict_error(Two(function), X)


def test_a_frozen_backbone_leaves_the_head_compiled():
    compiled = te_mlir.torch.jit(Two(frozen))
    with pytest.warns(UserWarning, match="no gradient goes through it"):
        compiled(X).sum().backward()
    assert compiled.te.graphs[0].region is not None
    assert compiled.l1.weight.grad is None and compiled.l2.weight.grad is not None


def test_a_call_without_gradients():
    model = Two(lambda self, x: self.l2(self.l1(x)))
    with torch.no_grad():
        assert compare(model, X, strict=True) == []

    def enabled(self, x):
        with torch.enable_grad():
            return self.l2(self.l1(x))

    assert any("torch.enable_grad" in reason for reason in compare(Two(enabled), X, context=torch.no_grad))


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def reversed_gradient(self, x):
    return self.l2(Reverse.apply(self.l1(x)))


def hooked(self, x):
    h = self.l1(x)
    h.register_hook(lambda gradient: gradient * 0)
    return self.l2(h)


def inference(self, x):
    with torch.inference_mode():
        h = self.l1(x)
    return self.l2(h.clone())


@pytest.mark.parametrize(
    "function, reason",
    [(reversed_gradient, "torch.autograd.Function"), (hooked, "register_hook"), (inference, "inference_mode")],
)
def test_gradients_that_tracing_would_lose(function, reason):
    assert any(reason in line for line in compare(Two(function), X))
    assert reason in strict_error(Two(function), X)


def test_checkpoints_are_what_they_wrap():
    def function(self, x):
        return self.l2(checkpoint(lambda h: F.silu(self.l1(h)) + 1, x, use_reentrant=False))

    assert compare(Two(function), X, strict=True) == []
    assert compare(Two(lambda self, x: checkpoint(reversed_gradient, self, x, use_reentrant=False)), X)


def test_a_first_call_may_be_in_a_checkpoint():
    model = Two(lambda self, x: self.l2(F.silu(self.l1(x))))
    theirs = run(copy.deepcopy(model), [X])
    inner = te_mlir.torch.jit(model, strict=True)
    mine = run(Two(lambda self, x: checkpoint(inner, x, use_reentrant=False)), [X])
    assert torch.allclose(mine[0], theirs[0], rtol=1e-5, atol=1e-5)
    assert torch.allclose(model.l1.weight.grad, theirs["l1.weight.grad"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_parts_may_be_in_a_checkpoint(reentrant, cuda_graph):
    """What a backward reads of its own results is made again, in other memory."""

    def function(self, x):
        h = self.l1(x)
        h = h + F.dropout(self.l2(F.silu(h)), 0.5)
        return self.l2(torch.sin(self.l1(h)))

    runs = []
    for wrap in (lambda m: m, lambda m: te_mlir.torch.jit(m, cuda_graph=cuda_graph)):
        torch.manual_seed(7)
        model = Two(function)
        inner = wrap(model)
        for seed in range(2):
            torch.manual_seed(seed)
            x = X.clone().requires_grad_()
            checkpoint(inner, x, use_reentrant=reentrant).square().mean().backward()
        runs.append([x.grad, *(p.grad for p in model.parameters())])
    assert len(inner.te.graphs[0].parts) > 1
    for mine, theirs in zip(*runs):
        assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_results_are_no_views(cuda_graph):
    """PyTorch loses hooks on views where these are written to: under fully_shard, those that gather parameters."""
    model = te_mlir.torch.jit(Two(lambda self, x: F.silu(self.l1(x))), cuda_graph=cuda_graph)
    module = te_mlir.torch.Linear(32, 32)
    for x in (torch.randn(2, 3, 4, 32), X):
        for y in (model(x), module(x)):
            assert y.shape == x.shape and not y._is_view()


def test_other_derivatives_are_errors():
    model = te_mlir.torch.jit(Two(lambda self, x: self.l2(F.silu(self.l1(x)))), strict=True)
    x = X.clone().requires_grad_()
    y = model(x)
    with pytest.raises(te_mlir.ArgumentError, match="one gradient of .* but got several at once"):
        torch.autograd.grad(y, x, torch.stack([y.detach()] * 2), is_grads_batched=True)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(X, torch.ones_like(X))
        with pytest.raises(te_mlir.ArgumentError, match="expected no tangent"):
            model(dual)
        assert model(X).shape == X.shape


def test_double_backward_is_an_error():
    compiled = te_mlir.torch.jit(Two(lambda self, x: self.l2(F.silu(self.l1(x)))), strict=True)
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    with pytest.raises(te_mlir.ArgumentError, match="no second derivatives"):
        (compiled(x).mean() + gradient.square().sum()).backward()


# Element types


def bf16():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def test_autocast_that_changes_nothing_is_no_matter():
    def function(self, x):
        with torch.autocast("cpu", enabled=False):
            return self.l2(self.l1(x))

    assert compare(Two(function), X, strict=True) == []
    assert compare(Two(lambda self, x: self.l1(x)), X, context=lambda: torch.autocast("cuda"), strict=True) == []


def test_modules_follow_autocast():
    layer = te_mlir.torch.Linear(32, 32)
    with bf16():
        y = layer(X)
        wanted = F.linear(X, layer.weight, layer.bias)
    assert y.dtype is torch.bfloat16 is wanted.dtype
    # Sums of the same bf16 products in f32, then rounded: they are one step of bf16 apart at most, and 32 terms' errors near 0.
    assert torch.allclose(y.float(), wanted.float(), rtol=2**-7, atol=32 * 2**-24)
    y.float().sum().backward()
    assert layer.weight.grad.dtype is torch.float32


# Tables


@pytest.mark.parametrize("main_grad", [False, True])
@pytest.mark.parametrize("padding", [0, 5, -1])
def test_the_row_of_padding_has_no_gradient(padding, main_grad):
    """It has values of its own, as a pretrained table has."""
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


# Several results


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


class Fused(nn.Module):
    """nanoGPT's attention and Phi-3's MLP."""

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
    """Attention of one fused layer, cut into q, k and v as models do."""

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


def test_heads_that_interleave_q_k_and_v_stay_in_pytorch():
    def function(self, x):
        q, k, v = self.qkv(x).view(2, 8, 2, 48).transpose(1, 2).chunk(3, -1)
        o = F.scaled_dot_product_attention(q, k, v)
        return self.l1(o.transpose(1, 2).reshape(x.shape))

    reasons = compare(Two(function, qkv=nn.Linear(32, 96)), X.view(2, 8, 32))
    assert "not stored as [batch, sequence, heads, width]" in reasons[0]


def some_rows(self, x):
    """The first position alone, other strides of columns, and rows and columns joined."""
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


def test_integer_results_are_listed_and_compute_no_layer_again():
    compiled = te_mlir.torch.jit(Two(hits))
    with pytest.warns(UserWarning, match="aten.argmax"):
        compiled(X)
    rest = [str(n.target) for n in compiled.te.graphs[0].built.rest.__self__.graph.nodes if n.op == "call_function"]
    assert rest == ["aten.argmax.default"]
    assert "aten.argmax" in strict_error(Two(hits), X)


# What used to be taken for something else


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
        assert compare(Attention(), X[None], wrong)
        assert "its mask is neither causal, with a window or without, nor all ones" in strict_error(
            Attention(), X[None], wrong
        )


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
    # Of the same elements; its memory holds the negatives.
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
        # As a node does that waits for its backward.
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
    # Of another stream, in a recording of PyTorch's, and where autograd does not follow.
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
    """A loss of the next word, as models of transformers compute it."""

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
    # A write to what was padded is not forgotten; without one PyTorch computes nothing before.
    assert (compiled.te.graphs[0].built.before.each is None) is not change


def test_buffers_written_through_data_are_seen():
    model = Two(lambda self, x: self.l2(self.l1(x) * (self.n * 2)), n=torch.rand(16, 32))
    compiled = te_mlir.torch.jit(model, strict=True)
    compiled(X)
    for write in (lambda: model.n.data.mul_(3), lambda: model.n.copy_(model.n + 1)):
        with torch.no_grad():
            write()
        assert torch.allclose(compiled(X), model(X), atol=1e-5)


def test_the_last_graph_before_pytorch_goes_on_alone_is_told():
    model = Two(lambda self, x: self.l1(x))
    with torch._dynamo.config.patch(recompile_limit=2):
        compiled = te_mlir.torch.jit(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled(X)
        with pytest.warns(UserWarning, match="compiled 2 times, which is torch._dynamo.config.recompile_limit"):
            compiled(X[:8])


def test_models_of_one_class_count_together_until_a_reset():
    with torch._dynamo.config.patch(recompile_limit=2):
        models = [te_mlir.torch.jit(Two(lambda self, x: self.l1(x))) for _ in range(4)]
        assert models[0].te.report() == models[3].te.report()
        assert "no graph is compiled: the model was not called yet" in models[0].te.report()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for model in models[:3]:
                model(X)
        assert [len(model.te.graphs) for model in models] == [1, 1, 0, 0]
        assert "or torch.compile runs it without te" in models[2].te.report()
        torch.compiler.reset()
        models[3](X)
        assert len(models[3].te.graphs) == 1


# Arguments made of one tensor in several ways


def test_tables_of_one_kind_of_ids_have_their_own_padding():
    tables = nn.ModuleList([nn.Embedding(16, 32, padding_idx=i) for i in (0, 3)])
    model = Two(lambda self, ids: self.l1(self.tables[0](ids) + self.tables[1](ids)), tables=tables)
    wanted, ids = copy.deepcopy(model), torch.arange(16).view(2, 8)
    for run in (wanted, te_mlir.torch.jit(model, strict=True)):
        run(ids).square().sum().backward()
    for mine, theirs in zip(model.tables, wanted.tables):
        assert torch.allclose(mine.weight.grad, theirs.weight.grad, rtol=1e-5, atol=1e-5)


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


def test_integers_are_numbers_of_each_type():
    """257 is none of bf16."""
    model = Two(lambda self, x, n: (self.l1(x).bfloat16() * n).float() + self.l2(x) * n)
    x, n = torch.randn(4, 32), torch.full((4, 32), 257)
    with torch.no_grad():
        wanted = model(x, n)
        assert torch.allclose(te_mlir.torch.jit(model)(x, n), wanted, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("ignored", [2**31, -(2**31) - 1, 2**40])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_ignored_labels_may_be_beyond_int32(ignored, reduction):
    labels = torch.tensor([1, ignored, 31, ignored])
    options = {"ignore_index": ignored, "reduction": reduction}
    model = Two(lambda self, x, labels: F.cross_entropy(self.l1(x), labels, **options))
    x, wanted = torch.randn(4, 32), copy.deepcopy(model)
    assert torch.allclose(te_mlir.torch.jit(model, strict=True)(x, labels), wanted(x, labels), rtol=1e-6)


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
    # As PyTorch's are: code outside of the graph may count on it.
    assert y.is_contiguous() and copy_of_y.is_contiguous()
    copy_of_y.view(-1)
    y.detach().zero_()
    assert torch.equal(copy_of_y, wanted)


def test_views_of_a_result_are_one():
    y, view = te_mlir.torch.jit(Two(lambda self, x: ((y := self.l1(x)), y.view(-1))), differentiate_outputs="all")(X)
    y.detach().zero_()
    assert view.eq(0).all()


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
    """Its parts are products of their own, which lie otherwise."""
    wide = nn.Linear(32, 96)
    parts = lambda self, x: (self.wide(x)[:, :32].as_strided((5, 8), (96, 1)), self.wide(x)[:, 32:])  # noqa: E731
    assert "as_strided" in compare(Two(parts, wide=wide), X)[0]


def test_a_write_is_seen_through_each_view():
    def added(self, x):
        y = self.l1(x).t().contiguous()
        # Here a copy, as what it views lies as the product does.
        flat = y.view(-1)
        y.add_(1)
        return flat.sin(), y

    assert "written to" in compare(Two(added), X)[-1]


def test_a_layer_without_columns_stays_in_pytorch():
    reasons = compare(
        Two(lambda self, x: self.l1(self.up(self.down(x))), down=nn.Linear(32, 0), up=nn.Linear(0, 32)), X
    )
    assert any("no columns" in reason for reason in reasons)
