"""Models of `parallelize_module`: two processes over gloo, compared with the same model in one process."""

import pytest

torch = pytest.importorskip("torch")

from test_torch_groups import launch  # noqa: E402

BEGIN = """
import warnings
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, parallelize_module
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
import te_mlir, te_mlir.torch
dist.init_process_group("gloo")
rank, mesh = dist.get_rank(), init_device_mesh("cpu", (2,))

class MLP(nn.Module):
    def __init__(self, bias=False):
        super().__init__()
        self.norm = nn.RMSNorm(64)
        self.gate, self.up, self.down = (nn.Linear(*size, bias=bias) for size in ((64, 128), (64, 128), (128, 64)))
    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))

class Attention(nn.Module):
    def __init__(self, bias=False):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        # A bias of k changes nothing, and its gradient is rounding only.
        self.q, self.k, self.v, self.o = (nn.Linear(64, 64, bias=bias and name != "k") for name in "qkvo")
    def forward(self, x):
        h, (batch, length, _) = self.norm(x), x.shape
        q, k, v = (layer(h).view(batch, length, -1, 16).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.o(y.transpose(1, 2).reshape(batch, length, -1))

class Model(nn.Module):
    def __init__(self, *blocks, recompute=False):
        super().__init__()
        self.blocks, self.head, self.recompute = nn.ModuleList(blocks), nn.Linear(64, 32), recompute
    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(x)

def parallel(model):
    for block in model.blocks:
        columns = {name: ColwiseParallel() for name in ("gate", "up", "q", "k", "v")}
        rows = {name: RowwiseParallel() for name in ("down", "o")}
        own = dict(block.named_children())
        parallelize_module(block, mesh, {name: style for name, style in {**columns, **rows}.items() if name in own})
    return model

def pair(make):
    "The model in one process, and over the processes."
    torch.manual_seed(0)
    reference = make()
    torch.manual_seed(0)
    return reference, parallel(make())

def draw(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

def whole(t):
    return t.full_tensor() if hasattr(t, "full_tensor") else t

def off(a, b):
    return ((whole(a) - whole(b)).norm() / whole(b).norm()).item()

def compare(reference, mine, run, x, bound):
    "Results, and the gradients of the input and of all parameters, of which those of layers are sharded as these are."
    given = [x.clone().requires_grad_() for _ in range(2)]
    results = [call(t) for call, t in zip((run, reference), given)]
    for result in results:
        result.square().mean().backward()
    found = {"y": off(*results), "x": off(*(t.grad for t in given))}
    for (name, a), b in zip(mine.named_parameters(), reference.parameters()):
        assert getattr(a.grad, "placements", None) == getattr(a, "placements", None), name
        found[name] = off(a.grad, b.grad)
    assert max(found.values()) <= bound, found

def layers(model):
    return sum(isinstance(module, nn.Linear) for module in model.modules())
"""


def run(code):
    ends = launch(BEGIN + code + "\ndist.destroy_process_group()\n")
    assert [code for _, code in ends] == [0, 0], "\n".join(text for text, _ in ends)


def test_results_and_gradients_are_those_of_one_process():
    run("""
for make in (
    lambda: Model(MLP(), MLP()),
    lambda: Model(Attention(), MLP()),
    lambda: Model(Attention(bias=True), MLP(bias=True), recompute=True),
):
    torch._dynamo.reset()
    reference, mine = pair(make)
    jit = te_mlir.torch.jit(mine, strict=True)
    # Lengths from the second on are rounded up.
    for x in (draw(2, 16, 64), draw(2, 12, 64), draw(2, 9, 64))[: 3 if mine.recompute else 1]:
        reference.zero_grad()
        mine.zero_grad()
        compare(reference, mine, jit, x, 1e-5)
    with torch.no_grad():
        assert off(jit(x), reference(x)) <= 1e-5
    for graph in jit.te.graphs:
        assert graph.reasons == [] and graph.report().count("fprop") == layers(mine)
    assert jit.te.graphs[0].report().count("wgrad") == layers(mine)
    assert jit.te.exact == [], jit.te.exact
    assert jit.te.summary().endswith("left to PyTorch: 0; calls in PyTorch: 0")
""")


def test_all_layers_are_quantised():
    """Under a recipe, also where later micro-batches reuse casts, and where equal blocks share a graph."""
    run("""
make = lambda: Model(Attention(bias=True), MLP(bias=True))
x, bound = draw(2, 16, 64), 0.15
found = []
for options in ({}, {"cache_weights": True}):
    torch._dynamo.reset()
    reference, mine = pair(make)
    backend = te_mlir.torch.Backend(recipe=te_mlir.Float8CurrentScaling(), strict=True, **options)
    compiled = torch.compile(mine, backend=backend, fullgraph=True)
    compare(reference, mine, compiled, x, bound)
    count = 3 * layers(mine)
    assert f"quantised GEMMs: {count} of {count}; left to PyTorch: 0;" in backend.summary(), backend.summary()
    assert backend.report("precision").count("f8E4M3FN") >= count
    if options:
        backend.is_first_microbatch = False
    compiled(draw(2, 16, 64, seed=2)).square().mean().backward()
    found.append([whole(p.grad) for p in mine.parameters()])
assert all(torch.equal(a, b) for a, b in zip(*found))
casts = backend.state_dict()
assert {name.rsplit(".", 2)[0] for name in casts} == {n for n, p in mine.named_parameters() if p.dim() == 2}, casts.keys()

torch._dynamo.reset()
reference, mine = pair(lambda: Model(MLP(), MLP()))
with torch.no_grad():
    for model in (reference, mine):
        model.blocks[1].gate.weight *= 2
backend = te_mlir.torch.Backend(recipe=te_mlir.DelayedScaling(), strict=True)
for block in mine.blocks:
    block.compile(backend=backend, dynamic=False, fullgraph=True)
for step in range(2):
    reference.zero_grad()
    mine.zero_grad()
    compare(reference, mine, mine, x, bound if step else 1.0)
states = backend.state_dict()
found = [t.max().item() for name, t in states.items() if name.startswith("gate") and name.endswith("w.amax_history")]
assert found == [block.gate.weight.to_local().abs().max().item() for block in mine.blocks], (found, states)
# In each of 2 blocks, 2 inputs, 3 weights and 3 gradients have a scale and a history.
assert len(states) == 2 * 8 * 2, states.keys()
""")


def test_optimizers_update_and_clip():
    """Steps of both AdamWs are those of one process. With this epsilon, a change of a gradient changes an update by no more."""
    run("""
import te_mlir.torch.optim as optim
options = {"lr": 0.01, "eps": 0.01, "weight_decay": 0.1}
def clip(parameters):
    norm = torch.nn.utils.clip_grad_norm_(parameters, 0.05)
    assert whole(norm) > 0.1
    return norm
def sharded(model):
    "PyTorch does not clip DTensors and tensors together."
    return [p for n, p in model.named_parameters() if "blocks" in n and "norm" not in n]
for ours in (True, False):
    torch._dynamo.reset()
    reference, mine = pair(lambda: Model(Attention(bias=True), MLP(bias=True)))
    jit = te_mlir.torch.jit(mine, strict=True)
    theirs = torch.optim.AdamW(reference.parameters(), **options)
    if ours:
        optimizer = optim.AdamW(mine.parameters(), max_norm=0.05, **options)
    else:
        optimizer = torch.optim.AdamW(mine.parameters(), foreach=False, **options)
    before = [whole(p).detach().clone() for p in mine.parameters()]
    for step in range(3):
        for model, run, own in ((reference, reference, theirs), (mine, jit, optimizer)):
            own.zero_grad()
            (30 * run(draw(2, 16, 64, seed=step)).square().mean()).backward()
        norm = clip(reference.parameters() if ours else sharded(reference))
        theirs.step()
        other = None if ours else clip(sharded(mine))
        optimizer.step()
        assert abs(whole(optimizer.grad_norm if ours else other) - norm) <= 1e-5 * norm
    for a, b, start in zip(mine.parameters(), reference.parameters(), before):
        moved = (b - start).norm()
        assert moved > 1e-3 and (whole(a) - b).norm() <= 1e-4 * moved
""")


def test_layers_may_pass_dtensors_to_each_other():
    """Without local results between layers, and under torch.autocast, which casts biases."""
    run("""
def make():
    return nn.Sequential(*(nn.Linear(*size) for size in ((64, 128), (128, 64), (64, 128), (128, 64))))
styles = [style(use_local_output=index == 3) for index, style in enumerate(2 * (ColwiseParallel, RowwiseParallel))]
for dtype in (torch.float32, torch.bfloat16):
    torch._dynamo.reset()
    torch.manual_seed(0)
    reference = make()
    torch.manual_seed(0)
    mine = parallelize_module(make(), mesh, dict(zip("0123", styles)))
    jit = te_mlir.torch.jit(mine, strict=True)
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not torch.float32):
        compare(reference, mine, jit, draw(16, 64), 1e-5 if dtype is torch.float32 else 0.02)
        assert jit(draw(16, 64)).dtype is dtype
    assert jit.te.graphs[0].report().count("wgrad") == 4
""")


def test_other_layouts_stay_in_pytorch():
    """The reason names the place and the placements; results are PyTorch's."""
    run("""
def reason(plan, on=mesh, width=128, **options):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(64, width), nn.Linear(width, 64))[: len(plan)]
    parallelize_module(model, on, plan)
    jit, strict = te_mlir.torch.jit(model, **options), te_mlir.torch.jit(model, strict=True, **options)
    x = draw(16, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(jit(x), model(x))
    try:
        strict(x)
    except Exception as error:
        assert jit.te.refused[0] in str(error), error
    else:
        raise AssertionError("expected an ImportFailure")
    assert len(jit.te.refused) == 1 and jit.te.calls.left == 1
    return jit.te.refused[0]
both = {"0": ColwiseParallel(), "1": RowwiseParallel()}
assert reason({"0": ColwiseParallel(output_layouts=Replicate())}).startswith(
    "'redistribute' has a DTensor (linear: Shard(dim=1)) and a result with placements (Replicate(),), at "
)
assert "and a result with placements (Shard(dim=0),)" in reason({**both, "1": RowwiseParallel(output_layouts=Shard(0))})
assert reason({**both, "0": ColwiseParallel(input_layouts=Shard(0))}).startswith("'from_local' has an operand on a DeviceMesh and a")
assert "compile without main_grad" in reason(both, main_grad=True)
assert "which has 129 elements there for 2 processes" in reason({"0": ColwiseParallel()}, width=129)
""")


def test_other_dimensions_of_a_mesh_may_shard_parameters():
    """fully_shard gathers a parameter over its own dimension before the block that reads it runs."""
    run("""
from torch.distributed.fsdp import fully_shard
both = init_device_mesh("cpu", (1, 2), mesh_dim_names=("replica", "tensor"))
mesh = both["tensor"]
reference, mine = pair(lambda: Model(MLP()))
mine.blocks[0] = fully_shard(te_mlir.torch.jit(mine.blocks[0], strict=True), mesh=both["replica"])
fully_shard(mine, mesh=both["replica"])
for step in range(2):
    reference.zero_grad()
    mine.zero_grad()
    compare(reference, mine, mine, draw(2, 16, 64), 1e-5)
assert mine.blocks[0].te.summary() == "te: graphs: 1; quantised GEMMs: 0 of 9; left to PyTorch: 0; calls in PyTorch: 0"
""")


@pytest.mark.parametrize("known", [True, False])
def test_placements_are_found_in_a_function(known):
    """As PyTorch 2.11 traces them. A function that has them in other variables is not taken for one of these calls."""
    from te_mlir.torch.tensor_parallel import _call_of

    def made(args_as_value, kwargs_as_value):
        def call(x):
            return x.redistribute(*args_as_value, **kwargs_as_value)

        return call

    def other(given, options):
        return lambda x: x.redistribute(*given, **options)

    function = (made if known else other)(("mesh",), {"placements": "one"})
    function.__name__ = "prim_redistribute"
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    call = _call_of(graph.call_function(function, (x,)))
    assert call == (("redistribute", (x, "mesh"), {"placements": "one"}) if known else (function, (x,), {}))
    assert _call_of(graph.call_module("norm", (x,))).target == "norm"
