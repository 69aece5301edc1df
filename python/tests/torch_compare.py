"""Helpers of tests of PyTorch models: a model with two layers, inputs, and comparisons with PyTorch and autograd."""

import contextlib
import copy
import re
import warnings

import pytest
import torch
from dropouts import same_dropouts
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


def trained(module, *inputs):
    """(The loss of a call, the gradients by name of what has one), with the same random numbers in each call."""
    torch.manual_seed(5)
    module.zero_grad()
    loss = module(*inputs)
    loss.backward()
    inner = getattr(module, "_orig_mod", module)
    return loss.detach(), {name: p.grad.clone() for name, p in inner.named_parameters() if p.grad is not None}


def precision(compiled):
    """The GEMMs of the forward with a weight in the ledger, one line each; not the products of attention."""
    rows = compiled.te.report("precision").splitlines()
    return [row for row in rows if row.split()[:1] == ["fprop"] and " grouped " not in row]


def are_quantised(rows):
    return rows and all(row.count(" f8E4M3FN ") == 2 for row in rows)


def assert_trains_whole(model, inputs, layers, zero=None):
    """In f32, one part has autograd's loss and gradients, and nothing is left; in FP8, all linear layers are quantised.

    inputs: arguments of a call that returns the loss. layers: the number of linear layers in FP8, of which some may be
    parts of PyTorch's. zero: a pattern of names of parameters whose gradients are 0 except for rounding.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    with same_dropouts():
        wanted_loss, wanted = trained(model, *inputs)
    assert wanted.keys() == {name for name, p in model.named_parameters() if p.requires_grad}
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    loss, found = trained(compiled, *inputs)
    (graph,) = compiled.te.graphs
    assert len(graph.parts) == 1 and not graph.reasons
    assert abs(loss - wanted_loss) < 1e-5 * wanted_loss
    assert found.keys() == wanted.keys()
    largest = max(gradient.norm() for gradient in wanted.values())
    for name, gradient in wanted.items():
        if zero is not None and re.search(zero, name):
            assert max(gradient.norm(), found[name].norm()) < 1e-5 * largest, name
        else:
            assert gradient.norm() > 0 and (found[name] - gradient).norm() < 1e-5 * gradient.norm(), name

    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(model.bfloat16(), strict=True, recipe=te_mlir.Float8CurrentScaling())
    halves = [t.bfloat16() if torch.is_tensor(t) and t.is_floating_point() else t for t in inputs]
    loss, found = trained(compiled, *halves)
    assert len(rows := precision(compiled)) == layers and are_quantised(rows), rows
    assert abs(loss - wanted_loss) < 0.5 * wanted_loss
    assert found.keys() == wanted.keys() and all(g.isfinite().all() for g in found.values())
    return compiled
