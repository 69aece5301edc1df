"""Random programs that write to views, rewritten without these writes and run by PyTorch."""

import random

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from te_mlir.torch import graph as graphs
from te_mlir.torch.effects import Effects, without_plain_writes
from te_mlir.torch.writes import without_view_writes

VIEWS = ("slice", "select", "transpose", "view", "unsqueeze", "flat", "clone")
WRITES = ("copy", "broadcast", "fill", "zero", "add", "mul", "clamp", "itself", "sum")


def view_of(v, kind, draw):
    """A view of v, or v itself."""
    rank = v.dim()
    if kind == "slice" and rank:
        axis = draw.randrange(rank)
        first = draw.randrange(v.shape[axis])
        every = [slice(None)] * rank
        every[axis] = slice(first, draw.randint(first + 1, v.shape[axis]), draw.choice((1, 1, 1, 2)))
        return v[tuple(every)]
    if kind == "select" and rank > 1:
        axis = draw.randrange(rank)
        return v.select(axis, draw.randrange(v.shape[axis]))
    if kind == "transpose" and rank > 1:
        return v.transpose(draw.randrange(rank), draw.randrange(rank))
    if kind == "view" and rank == 2 and v.shape[1] % 2 == 0 and v.is_contiguous():
        return v.view(v.shape[0], 2, -1)
    if kind == "unsqueeze" and rank < 4:
        return v.unsqueeze(draw.randrange(rank + 1))
    if kind == "flat" and v.is_contiguous():
        return v.view(-1)
    return v.clone() if kind == "clone" else v


def write(kind, to, other, x, by):
    flat = (x * by).flatten()
    source = flat[: to.numel()].view(to.shape) if to.numel() <= flat.numel() else flat[0].expand(to.shape)
    if kind == "copy":
        to.copy_(source)
    elif kind == "broadcast":
        to.copy_(flat[0])
    elif kind == "fill":
        to.fill_(by)
    elif kind == "zero":
        to.zero_()
    elif kind == "add":
        to.add_(source)
    elif kind == "mul":
        to.mul_(1 + by)
    elif kind == "clamp":
        to.clamp_(min=-by)
    elif kind == "sum":
        to.add_(other.sum() * 0.01)
    elif other.numel() == to.numel():
        to.copy_(other.reshape(to.shape).clone())


def program(seed):
    """A function of two matrices: views, writes, reads and new tensors."""

    def run(x, y):
        draw = random.Random(seed)
        values, total = [x * 1.5, y.sin()], x.sum()
        for _ in range(draw.randint(4, 14)):
            kind, v = draw.random(), draw.choice(values)
            if kind < 0.35:
                values.append(view_of(v, draw.choice(VIEWS), draw))
            elif kind < 0.75:
                write(draw.choice(WRITES), v, draw.choice(values), x, draw.random())
            elif kind < 0.9:
                total = total + (v * v.cos()).sum() * draw.random()
            else:
                values.append(draw.choice((torch.zeros(4, 6), x.new_empty(4, 6).copy_(y), x * 2)))
        return sum((v.sin().sum() for v in values), total)

    return run


def traced(function, examples):
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty_like(t).requires_grad_() for t in examples]
        flat = make_fx(function, pre_dispatch=True, tracing_mode="real")(*fakes)
    flat.graph.eliminate_dead_code()
    graphs.without_templates(flat.graph)
    return flat


def test_random_writes():
    """Values and gradients are those of PyTorch."""
    rewritten = 0
    for seed in range(150):
        function = program(seed)
        examples = [torch.randn(4, 6, generator=torch.Generator().manual_seed(seed + n)) for n in range(2)]
        examples = [t.requires_grad_() for t in examples]
        try:
            wanted = function(*examples)
            gradients = torch.autograd.grad(wanted, examples, allow_unused=True)
        except RuntimeError:
            continue  # PyTorch refuses some writes, such as to a tensor whose backward needs what was there.
        flat = traced(function, examples)
        graph = flat.graph
        rewritten += without_view_writes(graph, Effects(graph, examples), set(graph.nodes))
        if without_plain_writes(graph, Effects(graph, examples)):
            graph.eliminate_dead_code()
        graph.lint()
        flat.recompile()
        found = flat(*examples)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, msg=f"program {seed}")
        for mine, theirs in zip(torch.autograd.grad(found, examples, allow_unused=True), gradients):
            # What is overwritten as a whole has no gradient, where PyTorch has zeros.
            mine = torch.zeros(4, 6) if mine is None else mine
            assert (mine - theirs).norm() <= 1e-5 * theirs.norm().clamp(min=1), f"program {seed}"
    assert rewritten > 20
