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


def test_optimizers_update_shards():
    """Sharded and replicated parameters have the bits of whole ones, and the norm is that of all parts."""
    run("""
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
import te_mlir.torch.optim as optim
shapes = [(33, 5), (1, 7), (16,), (4, 6)]
def draw(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
one, two, turned = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (2, 1)), init_device_mesh("cpu", (1, 2))
layouts = [(one, [Shard(0)]), (two, [Replicate(), Shard(0)]), (turned, [Replicate(), Shard(0)]), (one, [Replicate()])]
makers = {
    "adamw": lambda p, **o: optim.AdamW(p, lr=0.1, **o),
    "bf16": lambda p, **o: optim.AdamW(p, lr=0.1, moments_dtype=torch.bfloat16, **o),
    "sgd": lambda p, **o: optim.SGD(p, lr=0.1, momentum=0.9, **o),
}
count, U = sum(torch.Size(shape).numel() for shape in shapes), 2.0**-24
# The norms differ by count U, so clipped gradients do; an update is at most 2 lr (by Cauchy-Schwarz, or because clipped
# gradients are at most 0.5), and changes by twice as much, and by 32 roundings; so does each sum with a parameter below 4.
off = 3 * 0.1 * 2 * (2 * count + 32) * U + 3 * 32 * U * 4
for name, make in makers.items():
    for mesh, placements in layouts:
        for max_norm in (None, 0.5):
            wholes = [nn.Parameter(draw(shape, n)) for n, shape in enumerate(shapes)]
            parts = [nn.Parameter(distribute_tensor(t.detach(), mesh, placements)) for t in wholes[:3]]
            parts.append(nn.Parameter(wholes[3].detach().clone()))
            reference, mine = make(wholes, max_norm=max_norm), make(parts, max_norm=max_norm)
            for step in range(3):
                for n, (t, part) in enumerate(zip(wholes, parts)):
                    t.grad = draw(t.shape, 10 * step + n)
                    part.grad = t.grad.clone() if n == 3 else distribute_tensor(t.grad, mesh, placements)
                reference.step()
                before = parts[0]._version
                mine.step()
                assert parts[0]._version > before
                if max_norm:
                    # Sums in two orders, halved by the root.
                    assert abs(mine.grad_norm - reference.grad_norm) <= count * 2.0**-24 * reference.grad_norm
            for t, part in zip(wholes, parts):
                found = whole(part)
                if name == "bf16":
                    # Parts have random numbers of their own, and copies of a part the same ones.
                    same = [torch.empty_like(found) for _ in range(2)]
                    dist.all_gather(same, found.detach().contiguous())
                    assert torch.equal(*same)
                elif max_norm:
                    torch.testing.assert_close(found, t, rtol=0.0, atol=off)
                else:
                    assert torch.equal(found, t), (name, mesh, t.shape)
                for key, state in mine.state[part].items():
                    if key != "step":
                        assert isinstance(state, DTensor) == isinstance(part, DTensor) and state.shape == part.shape
                        if name != "bf16" and not max_norm:
                            assert torch.equal(whole(state), reference.state[t][key])
part = nn.Parameter(distribute_tensor(draw((4, 4), 0), one, [Shard(0)]))
def message(call):
    try:
        call()
    except te_mlir.ArgumentError as found:
        return str(found)
    raise AssertionError("expected an ArgumentError")
assert "for a DTensor, but got float8_e4m3fn" in message(lambda: optim.AdamW([part], moments_dtype=torch.float8_e4m3fn))
assert "expected whole matrices, but got a DTensor" in message(lambda: optim.Muon([part]))
part.grad = distribute_tensor(draw((4, 4), 0), one, [Replicate()])
assert "expected a gradient sharded as its parameter, a DTensor with placements (Shard(dim=0)" in message(optim.SGD([part]).step)
""")


def test_optimizers_of_fully_sharded_models():
    """Under fully_shard, clipping and updates are PyTorch's; checkpoints of torch.distributed are loaded again."""
    run("""
warnings.simplefilter("ignore")
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
import te_mlir.torch.optim as optim
def start():
    torch.manual_seed(0)
    model = layers(Model(), te_mlir.torch.jit)
    return model
def gradients(model, step):
    model(torch.randn(16, 64, generator=torch.Generator().manual_seed(10 * rank + step))).backward()
options = {"lr": 0.01, "betas": (0.875, 0.96875)}
ours, theirs = start(), start()
mine, reference = optim.AdamW(ours.parameters(), max_norm=0.05, **options), torch.optim.AdamW(theirs.parameters(), **options)
for step in range(3):
    for model in (ours, theirs):
        model.zero_grad()
        gradients(model, step)
    norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.05)
    reference.step()
    mine.step()
    torch.testing.assert_close(mine.grad_norm, norm.full_tensor(), rtol=1e-5, atol=0.0)
    assert norm.full_tensor() > 0.05
# The norms differ by 1e-5, so clipped gradients do, and the moments of an update, at most 2 lr with these betas, change by
# twice as much and by 32 roundings; so does each sum with a parameter, which are below 2.
off = 3 * 0.01 * 2 * (2e-5 + 32 * 2.0**-24) + 3 * 32 * 2.0**-24 * 2
for a, b in zip(ours.parameters(), theirs.parameters()):
    torch.testing.assert_close(whole(a), whole(b), rtol=0.0, atol=off)
again = start()
with torch.no_grad():
    for a, b in zip(again.parameters(), ours.parameters()):
        a.copy_(b)
resumed = optim.AdamW(again.parameters(), max_norm=0.05, **options)
set_optimizer_state_dict(again, resumed, get_optimizer_state_dict(ours, mine))
for model, optimizer in ((ours, mine), (again, resumed)):
    model.zero_grad()
    gradients(model, 7)
    optimizer.step()
for a, b in zip(ours.parameters(), again.parameters()):
    assert torch.equal(whole(a), whole(b))
    for key, state in mine.state[a].items():
        assert torch.equal(whole(state), whole(resumed.state[b][key])), key
""")


def test_optimizers_of_models_in_memory_of_the_host():
    """Under fully_shard with CPUOffloadPolicy, over a group that can sum there; a group of NCCL is an error."""
    run("""
from unittest import mock
from torch.distributed.fsdp import CPUOffloadPolicy
import te_mlir.torch.optim as optim
def train(jit, make, clip):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, policy = Model(), CPUOffloadPolicy(pin_memory=False)
    for index, layer in enumerate(model.layers):
        model.layers[index] = fully_shard(jit(layer), offload_policy=policy)
    fully_shard(model, offload_policy=policy)
    optimizer = make(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 64, generator=torch.Generator().manual_seed(10 * rank + step))).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()
    return model, optimizer
def clipped(parameters, **options):
    return optim.SGD(parameters, max_norm=0.05, **options)
(ours, mine), (theirs, _) = train(te_mlir.torch.jit, clipped, False), train(lambda m: m, torch.optim.SGD, True)
for a, b in zip(ours.parameters(), theirs.parameters()):
    torch.testing.assert_close(whole(a), whole(b), rtol=1e-5, atol=1e-6)
mine.max_norm = 0.1
with mock.patch("torch.distributed.get_backend_config", lambda group: "cuda:nccl"):
    try:
        mine.step()
    except te_mlir.ArgumentError as found:
        assert "on 'cpu', where the parameters are, but got one of 'cuda:nccl'" in str(found), found
    else:
        raise AssertionError("expected an ArgumentError")
mine.step()
""")


def test_optimizers_of_parts_of_any_size():
    """A process may have no elements, or gradients that are parts of one buffer at any address."""
    run("""
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
import te_mlir.torch.optim as optim
mesh = init_device_mesh("cpu", (2,))
for max_norm in (None, 1.0):
    part, tensor = nn.Parameter(distribute_tensor(torch.ones(1, 4), mesh, [Shard(0)])), nn.Parameter(torch.ones(1, 4))
    part.grad, tensor.grad = distribute_tensor(torch.ones(1, 4), mesh, [Shard(0)]), torch.ones(1, 4)
    for each in (part, tensor):
        optimizer = optim.AdamW([each], max_norm=max_norm)
        optimizer.step()
        assert optimizer.grad_norm == (max_norm and 2.0)
    assert torch.equal(whole(part), tensor)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 7), nn.Linear(7, 1))
other = copy.deepcopy(model)
fully_shard(model)
for each in (model, other):
    optimizer = optim.SGD(each.parameters(), lr=0.1, max_norm=0.5)
    for step in range(2):
        optimizer.zero_grad()
        each(torch.ones(2, 5)).square().mean().backward()
        optimizer.step()
assert rank or any(p.grad.to_local().data_ptr() % 16 for p in model.parameters())
for a, b in zip(model.parameters(), other.parameters()):
    torch.testing.assert_close(whole(a), b)
""")


def test_processes_without_gradients_are_part_of_the_norm():
    """Of all their parameters, or of those of one mesh; the other process does not wait."""
    run("""
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
import te_mlir.torch.optim as optim
meshes = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (2, 1))
for none in ((0, 1), (0,), (1,)):
    tensors = [nn.Parameter(distribute_tensor(torch.ones(2, 4), mesh, [Shard(0)] * mesh.ndim)) for mesh in meshes]
    optimizer = optim.SGD(tensors, lr=1.0, max_norm=1.0)
    for step in range(2):
        for n, tensor in enumerate(tensors):
            tensor.grad = None if rank and n in none else tensor.detach() * 0 + 1
        optimizer.step()
        norm = sum(4 if n in none else 8 for n in range(2)) ** 0.5
        assert abs(optimizer.grad_norm - norm) < 1e-6
    for n, tensor in enumerate(tensors):
        found = 1 if rank and n in none else 1 - 2 / norm
        assert (tensor.to_local() - found).abs().max() < 1e-5, (rank, none, n)
for tensor in tensors:
    tensor.grad = None
optimizer.step()
assert optimizer.grad_norm == 0
# The second process is outside of the mesh of another parameter.
first = DTensor.from_local(
    torch.ones(2 - 2 * rank, 4), DeviceMesh("cpu", [0]), [Shard(0)], run_check=False, shape=(2, 4), stride=(4, 1)
)
optimizer = optim.SGD([nn.Parameter(first), tensors[0]], lr=1.0, max_norm=1.0)
tensors[0].grad = tensors[0].detach() * 0 + 1
optimizer.step()
assert abs(optimizer.grad_norm - 8**0.5) < 1e-6
""")


def test_optimizers_of_parts_in_strides():
    """As of fully_shard over tensor parallelism: the mesh has such a placement, and the norm is that of all parts."""
    run("""
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.placement_types import _StridedShard
import te_mlir.torch.optim as optim
mesh = init_device_mesh("cpu", (2, 1))
def part():
    return DTensor.from_local(torch.ones(2, 4), mesh, [_StridedShard(0, split_factor=1), Shard(0)])
tensor = nn.Parameter(part())
tensor.grad = part()
optimizer = optim.AdamW([tensor], max_norm=1.0, moments_dtype=torch.bfloat16)
optimizer.step()
assert optimizer.grad_norm == 4
# Parts have random numbers of their own.
numbers = [None, None]
dist.all_gather_object(numbers, optimizer._plan.updates([0])[0].number)
assert numbers[0] != numbers[1]
""")


def test_optimizers_of_parameters_that_are_sharded_again():
    """A parameter that becomes a DTensor of another placement, and stays the same object."""
    run("""
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
import te_mlir.torch.optim as optim
one, two = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (2, 1))
def part(mesh, placements):
    return DTensor.from_local(torch.ones(2, 4), mesh, placements, run_check=False, shape=(4, 4), stride=(4, 1))
tensor = nn.Parameter(part(two, [Shard(0), Replicate()]))
tensor.grad = part(two, [Shard(0), Replicate()])
optimizer = optim.SGD([tensor], max_norm=1.0)
optimizer.step()
assert optimizer.grad_norm == 4
tensor.grad = None
# The local tensor has the same shape.
torch.utils.swap_tensors(tensor, nn.Parameter(part(two, [Replicate(), Shard(0)])))
tensor.grad = part(two, [Replicate(), Shard(0)])
optimizer.step()
assert optimizer.grad_norm == 8**0.5
""")
