"""Helpers of tests of PyTorch models: a model with two layers, inputs, and comparisons with PyTorch and autograd."""

import contextlib
import copy
import warnings

import pytest
import torch
from torch import nn

import te_mlir.torch
from te_mlir.errors import ImportFailure


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Two(nn.Module):
    """A function of two linear layers."""

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


#: An input of `Two`.
X = torch.linspace(-1, 1, 512).view(16, 32)


def run(model, inputs, context=contextlib.nullcontext):
    """Results, gradients, buffers, inputs and parameters after two calls, with different random numbers."""
    torch.manual_seed(5)
    inputs = [t.clone() for t in inputs]
    for _ in range(2):
        with context():
            results = model(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        loss = sum(r.float().square().mean() for r in results if r.requires_grad)
        if torch.is_tensor(loss):
            loss.backward()
    # Dynamo adds a prefix to names of parameters.
    inner = getattr(model, "_orig_mod", model)
    tensors = dict(enumerate((*results, *inputs)))
    tensors.update({f"{n}.grad": p.grad for n, p in inner.named_parameters() if p.grad is not None})
    tensors.update(inner.named_parameters())
    tensors.update(inner.named_buffers())
    return {name: t.detach().clone() for name, t in tensors.items()}


def compare(model, *inputs, context=contextlib.nullcontext, **options):
    """Runs the model in te and in PyTorch, and compares them. Returns the reasons why nodes stay in PyTorch."""
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
    """The message of the error that strict=True raises."""
    torch._dynamo.reset()
    with pytest.raises(Exception) as caught:
        te_mlir.torch.jit(model, strict=True)(*inputs)
    chain = [caught.value]
    while chain[-1].__cause__ or chain[-1].__context__:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    assert any(isinstance(e, ImportFailure) for e in chain)
    return str(caught.value)


def batch(sequence=32, vocabulary=64):
    """(ids, labels) of two sequences."""
    return torch.randint(0, vocabulary, (2, sequence)), torch.randint(0, vocabulary, (2, sequence))


def gradients(module, *inputs, **options):
    """(The loss of a call, its gradients by name)."""
    module.zero_grad()
    result = module(*inputs, **options)
    loss = result[0] if isinstance(result, tuple) else result.square().mean()
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in module.named_parameters()}


def assert_close(mine, theirs, bound=1e-5):
    assert mine.keys() == theirs.keys() and mine
    for name, gradient in theirs.items():
        error = (mine[name] - gradient).norm() / gradient.norm()
        assert gradient.norm() > 0 and error < bound, (name, error.item())
