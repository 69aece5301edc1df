"""Misuse of a compiled model: backwards that cannot run, and parameters that changed."""

import math

import pytest

torch = pytest.importorskip("torch")

from models import GPT, Llama
from torch import nn
from torch_compare import assert_close, batch, fresh  # noqa: F401

import te_mlir
import te_mlir.torch
import te_mlir.torch.optim


def compiled_gpt():
    return te_mlir.torch.jit(GPT(), strict=True)


def test_second_backward_is_an_error():
    y = compiled_gpt()(torch.randn(16, 64)).sum()
    y.backward(retain_graph=True)
    with pytest.raises(te_mlir.ArgumentError, match="expected one backward for each forward"):
        y.backward()


def test_backwards_of_two_losses_of_a_call_are_told_to_be_one():
    """In PyTorch, losses that share nothing have backwards of their own; in te, their graph has one."""

    class Losses(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = GPT(), GPT()

        def forward(self, x):
            return self.a(x).square().mean(), self.b(x).square().mean()

    compiled = te_mlir.torch.jit(Losses(), strict=True)
    one, other = compiled(torch.randn(16, 64))
    one.backward()
    with pytest.raises(te_mlir.ArgumentError, match="add up the losses of a call before their backward"):
        other.backward()


def test_a_parameter_changed_before_the_backward_is_an_error():
    compiled = compiled_gpt()
    y = compiled(torch.randn(16, 64)).sum()
    with torch.no_grad():
        compiled._orig_mod.down.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_gradient_of_logits_is_an_error_unless_asked_for():
    ids, labels = batch()
    model = Llama()
    with pytest.raises(te_mlir.ArgumentError, match="differentiate_outputs='all'"):
        te_mlir.torch.jit(model, strict=True)(ids, labels)[1].sum().backward()
    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(model, strict=True, differentiate_outputs="all")
    _, logits = compiled(ids, labels)
    logits.square().mean().backward()
    mine = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    model(ids, labels)[1].square().mean().backward()
    assert_close(mine, {name: p.grad for name, p in model.named_parameters()})


def test_a_parameter_of_another_size_is_told():
    compiled = compiled_gpt()
    compiled(torch.randn(16, 64))
    region = compiled.te.graphs[0].region
    tensors = [torch.zeros(spec.shape, dtype=spec.dtype) for spec in region.signature.inputs]
    region(*tensors)
    for index, spec in enumerate(region.signature.inputs):
        wrong = list(tensors)
        wrong[index] = torch.zeros((*spec.shape, 2))
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected shape"):
            region(*wrong)
        wrong[index] = torch.zeros(spec.shape, dtype=torch.float64)
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected elements of float32"):
            region(*wrong)
        wrong[index] = torch.zeros(spec.shape, dtype=spec.dtype, device="meta")
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected memory of 'cpu', but got"):
            region(*wrong)
        odd = torch.zeros(math.prod(spec.shape) + 1)
        wrong[index] = odd[1:].view(spec.shape)
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected memory aligned to 16"):
            region(*wrong)
        freed = torch.zeros(spec.shape)
        freed.untyped_storage().resize_(0)
        wrong[index] = freed
        with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected a tensor with memory"):
            region(*wrong)
        if len(spec.shape) == 2:
            wrong[index] = torch.zeros(spec.shape[::-1]).t()
            with pytest.raises(te_mlir.ArgumentError, match=f"argument '{spec.name}': expected a row-major"):
                region(*wrong)


def test_a_parameter_resized_after_compile_is_compiled_for_or_told():
    compiled = compiled_gpt()
    x = torch.randn(16, 64)
    model = compiled._orig_mod
    compiled(x).sum().backward()
    # A forward with other sizes is a new graph.
    model.up = nn.Linear(64, 128)
    model.down = nn.Linear(128, 64)
    model.zero_grad()
    compiled(x).sum().backward()
    assert model.up.weight.grad.shape == (128, 64)
    # The memory is freed between forward and backward, without a change of the version.
    y = compiled(x).sum()
    model.down.weight.untyped_storage().resize_(0)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'down.weight': expected a tensor with memory"):
        y.backward()


def test_a_model_without_memory_is_told():
    with torch.device("meta"):
        model = GPT()
    x, told = (
        torch.empty(16, 64, device="meta"),
        "expected tensors on 'cpu' or 'cuda', but got tensors on 'meta'; .*to_empty",
    )
    with pytest.raises(Exception, match=told):
        te_mlir.torch.jit(model, strict=True)(x)
    torch._dynamo.reset()
    with pytest.warns(UserWarning, match=told):
        assert te_mlir.torch.jit(model)(x).is_meta
    parameter = torch.nn.Parameter(torch.empty(64, device="meta"))
    parameter.grad = torch.empty_like(parameter)
    with pytest.raises(te_mlir.ArgumentError, match=told):
        te_mlir.torch.optim.SGD([parameter], lr=0.1).step()
    layer = te_mlir.torch.Linear(64, 64, device="meta")
    with pytest.raises(te_mlir.ArgumentError, match=told):
        layer(x)
