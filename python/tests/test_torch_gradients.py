"""Gradients that a forward stops or changes, checkpoints, and derivatives that te does not support.

Gradients are those of PyTorch, whether a node is compiled or not. Nodes that are not compiled are listed.
"""

import copy
import re
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch_compare import Two, X, compare, fresh, run, strict_error  # noqa: F401

import te_mlir.torch


def frozen(self, x):
    with torch.no_grad():
        h = self.l1(x)
    return self.l2(h)


def frozen_after(self, x):
    h = self.l1(x)
    with torch.no_grad():
        scale = self.l2(h).abs().mean()
    return h * scale


@pytest.mark.parametrize("function", [frozen, frozen_after])
def test_no_gradient_where_pytorch_has_none(function):
    reasons = compare(Two(function), X)
    assert reasons
    strict_error(Two(function), X)


def of_a_detached_weight(self, x):
    return self.l2(F.linear(x, self.l1.weight.detach()))


def written_after_detach(self, x):
    h = self.l1(x)
    h.detach().mul_(2)
    return self.l2(h)


@pytest.mark.parametrize("function", [of_a_detached_weight, written_after_detach])
def test_what_runs_in_pytorch_because_of_detach_is_listed(function):
    (reason, *_) = compare(Two(function), X)
    assert "no gradient goes through it" in reason or "it writes to a tensor in place" in reason
    strict_error(Two(function), X)


def straight_through(self, x):
    h = self.l1(x)
    return self.l2(h + (h.relu() - h).detach())


def commitment(self, x):
    h, y = self.l1(x), self.l2(x)
    return (h.detach() - y).square().mean() + 0.25 * (h - y.detach()).square().mean()


def detached_statistics(self, x):
    h = self.l1(x)
    return self.l2(h), h.detach().square().mean(), self.l2(h.detach().abs()).detach()


def detached_weights(self, x):
    weights = self.l1(x).softmax(-1).detach()
    return self.l2(x).mul(weights).sum(-1)


def chosen(self, x):
    h = self.l2(x)
    return torch.where(self.l1(x) > 0, h, h * 0.1)


#: Functions with `detach`, or with a condition, which passes no gradient, and the parameters without gradients.
DETACHED = {
    "a condition": (chosen, {"l1.weight", "l1.bias"}),
    "a condition as a number": (lambda s, x: s.l2(x) * (s.l1(x) < 0.1).float(), {"l1.weight", "l1.bias"}),
    "the input of a layer": (lambda s, x: s.l2(s.l1(x).detach()), {"l1.weight", "l1.bias"}),
    "straight through": (straight_through, set()),
    "a loss of two sides": (commitment, set()),
    "results": (detached_statistics, set()),
    "weights of rows": (detached_weights, {"l1.weight", "l1.bias"}),
    "twice": (lambda s, x: s.l2(s.l1(x).detach().exp().detach() * s.l2(x)), {"l1.weight", "l1.bias"}),
    "a view": (lambda s, x: s.l2(s.l1(x).t().detach()[:, 1].expand(4, 32) + s.l1(x)[:4]), set()),
    "one number": (lambda s, x: s.l2(x) / s.l1(x).abs().amax().detach(), {"l1.weight", "l1.bias"}),
    "an input": (lambda s, x: s.l2(s.l1(x) + x.detach()), set()),
    "a parameter": (lambda s, x: s.l2(x) + s.l1(x) * s.l2.bias.detach(), set()),
    "a norm": (lambda s, x: s.l2(F.rms_norm(s.l1(x), (32,)).detach() + s.l1(x)), set()),
}


@pytest.mark.parametrize("main_grad", [False, True])
@pytest.mark.parametrize("name", DETACHED)
def test_detached_values_are_constants(name, main_grad):
    function, without = DETACHED[name]
    model, x = Two(function), X.clone().requires_grad_()
    found = []
    for one in (model, te_mlir.torch.jit(model, strict=True, differentiate_outputs="all", main_grad=main_grad)):
        ours = one is not model
        for p in model.parameters():
            p.grad, p.main_grad = None, torch.zeros(p.shape) if ours and main_grad else None
        x.grad = None
        results = one(x)
        results = results if isinstance(results, tuple) else (results,)
        sum(r.square().sum() for r in results if r.requires_grad).backward()
        own = {n: p.main_grad if ours and main_grad else p.grad for n, p in model.named_parameters()}
        found.append((results, own, x.grad))
    (theirs, wanted, dx), (mine, got, own) = found
    assert [r.requires_grad for r in mine] == [r.requires_grad for r in theirs]
    assert {n for n, g in wanted.items() if g is None} == without
    for a, b in zip(mine, theirs):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(own, dx, rtol=1e-5, atol=1e-5)
    for n, gradient in wanted.items():
        if gradient is None:
            assert got[n] is None or main_grad and not got[n].any(), n
        else:
            torch.testing.assert_close(got[n], gradient, rtol=1e-5, atol=1e-4)


def test_a_call_whose_results_are_all_detached():
    model = Two(lambda self, x: self.l2(self.l1(x)).detach())
    result = te_mlir.torch.jit(model, strict=True)(X)
    assert not result.requires_grad
    torch.testing.assert_close(result, model(X), rtol=1e-5, atol=1e-5)


def below_detach(self, x):
    # The norm is in the region of both layers, but its gradient ends at detach.
    h = self.l1(x)
    return self.l2(F.layer_norm(h, (32,), self.scale, self.shift).detach() + h)


def beside_a_loss(self, x):
    return self.l2(x).square().sum(), F.layer_norm(self.l1(x), (32,), self.scale, self.shift)


def below_argmax(self, x):
    return self.l2(x) + F.layer_norm(self.l1(x), (32,), self.scale, self.shift).argmax(-1)[:, None]


@pytest.mark.parametrize("options", [{}, {"cuda_graph": True}, {"differentiate_outputs": "all"}])
@pytest.mark.parametrize("function", [below_detach, beside_a_loss, below_argmax])
def test_a_parameter_without_a_gradient_has_none_and_is_not_decayed(function, options):
    mine = Two(function)
    mine.scale, mine.shift = (torch.nn.Parameter(torch.rand(32)) for _ in range(2))
    theirs = copy.deepcopy(mine)
    found = []
    for model in (mine, theirs):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            called = te_mlir.torch.jit(model, **options) if model is mine else model
            result = called(X)
        loss = result[0] if isinstance(result, tuple) else result.square().sum()
        loss.backward()
        found.append({name for name, p in model.named_parameters() if p.grad is None})
        optimizer.step()
    assert found[0] == found[1] and found[0] >= {"scale", "shift"}
    for (name, a), b in zip(mine.named_parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, msg=name)


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

    def marked(self, x):
        # transformers' models do this to their embeddings if they have checkpoints.
        return self.l2(self.l1(x).requires_grad_())

    with torch.no_grad():
        assert compare(Two(marked), X, strict=True) == []

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


class Scaled(torch.autograd.Function):
    """A view of its operand, whose gradient is scaled by a number."""

    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.by, None


class Several(torch.autograd.Function):
    """Results with and without gradients, and saved tensors."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        positive = x > 0
        ctx.mark_non_differentiable(positive)
        return x * y, positive, x + y

    @staticmethod
    def backward(ctx, product, _, total):
        x, y = ctx.saved_tensors
        return 2 * product * y + total, product * x


class Drawn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        factors = torch.rand_like(x)
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def of_several(self, x):
    product, positive, total = Several.apply(self.l1(x), self.l2(x))
    return self.l2(product + total * positive)


def of_a_weight(self, x):
    return self.l1(F.linear(x, Scaled.apply(self.l2.weight, 0.5)))


def in_a_checkpoint(self, x):
    inner = lambda h: checkpoint(reversed_gradient, self, h, use_reentrant=False)
    return checkpoint(inner, x, use_reentrant=False)


@pytest.mark.parametrize(
    "function",
    [
        reversed_gradient,
        lambda self, x: self.l2(Scaled.apply(Scaled.apply(self.l1(x), 0.5), -3.0)),
        of_several,
        of_a_weight,
        in_a_checkpoint,
    ],
    ids=["one", "two", "several-results", "of-a-weight", "in-a-checkpoint"],
)
def test_a_function_with_a_backward_leaves_the_rest_compiled(function):
    (reason,) = compare(Two(function), X)
    wanted = r"te_mlir_torch.autograd_function\(.*custom backward, .*, at test_torch_gradients.py:\d+"
    assert re.fullmatch(wanted, reason)


def test_a_function_with_side_effects_keeps_the_graph_in_pytorch():
    (reason,) = compare(Two(lambda self, x: self.l2(Drawn.apply(self.l1(x)))), X)
    assert reason.startswith("a torch.autograd.Function has a custom backward")


def test_sizes_and_functions_with_a_backward():
    """Each size is compiled as it is, with the Function of its graph."""
    model = Two(lambda self, x: self.l2(Scaled.apply(self.l1(x), 0.5)))
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.HighPrecision())
    with pytest.warns(UserWarning, match="custom backward"):
        for rows in (16, 8, 12, 8, 16):
            found = torch.autograd.grad(compiled(X[:rows]).square().mean(), list(model.parameters()))
            wanted = torch.autograd.grad(model(X[:rows]).square().mean(), list(model.parameters()))
            for mine, theirs in zip(found, wanted):
                assert (mine - theirs).norm() <= 1e-5 * theirs.norm()
    assert compiled.te.calls.left == 0 and any("autograd_function" in reason for reason in compiled.te.exact)


@pytest.mark.parametrize("transform", ["grad", "jvp"])
def test_transforms_are_refused_before_they_are_traced(transform):
    """A trace that ended inside of torch.func.grad would leave hooks of saved tensors switched off in the process."""

    def function(self, x):
        loss = lambda w: F.linear(x, w).square().mean()
        if transform == "grad":
            return self.l2(x) @ torch.func.grad(loss)(self.l1.weight)
        return self.l2(x) * torch.func.jvp(loss, (self.l1.weight,), (self.l1.weight,))[1]

    assert re.search(rf"torch.func.{transform} .*, .*test_torch_gradients.py:\d+", strict_error(Two(function), X))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        pass
    torch._dynamo.reset()
    assert compare(Two(lambda self, x: self.l2(F.silu(self.l1(x)))), X, strict=True) == []


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
    """The backward reads results that the checkpoint computes again, at other addresses."""

    def function(self, x):
        h = self.l1(x)
        h = h + F.alpha_dropout(self.l2(F.silu(h)), 0.5, True)
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
    # Both round f32 sums of the same bf16 products. They differ by at most one step of bf16 or, near 0, by the error of
    # 32 terms.
    assert torch.allclose(y.float(), wanted.float(), rtol=2**-7, atol=32 * 2**-24)
    y.float().sum().backward()
    assert layer.weight.grad.dtype is torch.float32
