"""Compiled models under DistributedDataParallel and fully_shard: two processes over gloo, compared with PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from test_torch_groups import launch  # noqa: E402

BEGIN = """
import contextlib, copy, warnings
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
import te_mlir, te_mlir.torch
dist.init_process_group("gloo")
rank = dist.get_rank()

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

class Model(nn.Module):
    def __init__(self, recompute=False):
        super().__init__()
        self.layers, self.head, self.recompute = nn.ModuleList(Block() for _ in range(2)), nn.Linear(64, 32), recompute
    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return self.head(x).square().mean()

def whole(t):
    return t.full_tensor() if hasattr(t, "full_tensor") else t

def train(wrap, compiled, **options):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = wrap(Model(**options), (lambda m: te_mlir.torch.jit(m)) if compiled else (lambda m: m))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = []
    for step in range(3):
        optimizer.zero_grad(set_to_none=step != 1)
        for micro in range(2):
            seed = torch.Generator().manual_seed(100 * rank + 10 * step + micro)
            last, x = micro == 1, torch.randn(16, 64, generator=seed)
            if hasattr(model, "set_requires_gradient_sync"):
                model.set_requires_gradient_sync(last)
            with contextlib.nullcontext() if last or not hasattr(model, "no_sync") else model.no_sync():
                loss = model(x)
                loss.backward()
        found += [loss.detach(), *(whole(p.grad).clone() for p in model.parameters())]
        optimizer.step()
    return found + [whole(p).detach().clone() for p in model.parameters()]

def compare(wrap, **options):
    mine, theirs = train(wrap, True, **options), train(wrap, False, **options)
    assert len(mine) == len(theirs) > 40
    for a, b in zip(mine, theirs):
        assert (a - b).norm() <= 1e-5 * b.norm(), ((a - b).norm(), b.norm())

def layers(model, jit):
    for index, layer in enumerate(model.layers):
        model.layers[index] = fully_shard(jit(layer))
    return fully_shard(model)

def error(make, *inputs):
    try:
        make()(*inputs).sum().backward()
    except te_mlir.ArgumentError as found:
        return str(found)
    raise AssertionError("expected an ArgumentError")
"""


def run(code):
    ends = launch(BEGIN + code + "\ndist.destroy_process_group()\n")
    assert [code for _, code in ends] == [0, 0], "\n".join(text for text, _ in ends)


def test_training_is_pytorchs():
    run("""
warnings.simplefilter("ignore")
for wrap in (
    lambda m, jit: DDP(jit(m), gradient_as_bucket_view=True),
    lambda m, jit: jit(fully_shard(m)),
    layers,
):
    compare(wrap)
    compare(wrap, recompute=True)
""")


def test_gradients_in_main_grad_are_nobody_elses():
    """With main_grad, replicas would diverge and shards would have no gradient, so both are errors."""
    run("""
x = torch.randn(16, 64)
jit = lambda m: te_mlir.torch.jit(m, main_grad=True)
backend = te_mlir.torch.Backend(main_grad=True)
def by_backend(model):
    for layer in model.layers:
        layer.compile(backend=backend, dynamic=False)
        fully_shard(layer)
    return fully_shard(model)
module = te_mlir.torch.Linear(64, 64, fuse_wgrad_accumulation=True)
class Again(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
    def forward(self, x):
        return checkpoint(self.model, x, use_reentrant=True)
for make in (lambda: DDP(jit(Model())), lambda: jit(DDP(Model())), lambda: DDP(module), lambda: DDP(Again(jit(Model())))):
    wanted = x.clone().requires_grad_()
    assert "DistributedDataParallel would average them" in error(make, wanted), error(make, wanted)
with torch.no_grad():
    DDP(jit(Model())).eval()(x)
model = DDP(jit(Model()))
with model.no_sync():
    model(x).backward()
assert model.module.head.weight.main_grad.abs().max() > 0
for make in (lambda: layers(Model(), jit), lambda: jit(fully_shard(Model())), lambda: by_backend(Model())):
    assert "fully_shard gathered it" in error(make, x), error(make, x)
""")
