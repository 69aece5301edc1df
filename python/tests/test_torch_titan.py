"""torchtitan's debug models, with its own attention: flex_attention with its masks, and attention of variable lengths.

Their documents are packed: positions start again with each.
"""

import contextlib
import copy
import json
import sys
import types

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchtitan", reason="torchtitan, spmd_types, tyro or docstring_parser is not installed")

from torch import nn
from torch.nn import functional as F
from torch.nn.attention import flex_attention as flex
from torch_compare import assert_close, fresh  # noqa: F401

import te_mlir
import te_mlir.torch

SEQUENCE = 64


@contextlib.contextmanager
def without_kernels_of_experts():
    """torchtitan imports kernels of Triton, which needs 1 GB, for experts that are spread over GPUs."""
    name = "torchtitan.distributed.minimal_async_ep.kernels"
    made = types.ModuleType(name)

    def kernel(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    made.__getattr__ = kernel
    sys.modules.setdefault(name, made)
    yield
    if sys.modules[name] is made:
        del sys.modules[name]


with without_kernels_of_experts():
    from torchtitan.models import deepseek_v3, llama3, qwen3
    from torchtitan.models.common import attention as titan
    from torchtitan.models.common import moe

MODELS = {"llama3": llama3, "qwen3": qwen3}


class Training(nn.Module):
    """A model and its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, targets, positions, masks):
        logits = self.model(tokens, positions=positions, attention_masks=masks)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def training(name, backend):
    """The debug model with two layers, whose attention depends on the tokens."""
    config = MODELS[name]._debugmodel(backend)
    config.layers = config.layers[:2]
    model = config.build()
    model.init_states()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return Training(model)


def positions(*lengths):
    rows = torch.cat([torch.arange(n) for n in lengths]), torch.arange(SEQUENCE)
    return torch.stack(rows)


def step(module, *inputs):
    """(The loss, the gradients by name)."""
    module.zero_grad()
    loss = module(*inputs)
    loss.backward()
    return loss.detach(), {n.removeprefix("_orig_mod."): p.grad.clone() for n, p in module.named_parameters()}


def masks_of(module, own):
    """The masks that torchtitan's trainer passes; its compilation of their creation needs a C++ compiler."""
    titan_create, titan._compiled_create_block_mask = titan._compiled_create_block_mask, flex.create_block_mask
    try:
        return module.model.get_attention_masks(own)
    finally:
        titan._compiled_create_block_mask = titan_create


def attentions(graph):
    return [str(op) for region in graph.regions for op in region.function.ops if "te.attention" in str(op)]


@pytest.fixture
def on_a_cpu(monkeypatch):
    """PyTorch's function refuses gradients on a CPU, although its op has them."""
    monkeypatch.setattr(flex, "_validate_device", lambda query, key, value: None)
    monkeypatch.setattr(flex, "_WARNINGS_SHOWN", {"flex_attention_performance"})


@pytest.mark.parametrize("name", MODELS)
def test_flex_attention(name, on_a_cpu, monkeypatch):
    module = training(name, "flex")
    compiled = te_mlir.torch.jit(module, strict=True, recipe=te_mlir.HighPrecision())
    calls = []
    for lengths in ((20, 44), (3, 30, 31)):
        tokens, own = torch.randint(0, 2048, (2, SEQUENCE)), positions(*lengths)
        inputs = tokens, tokens.roll(-1, 1), own, masks_of(module, own)
        calls.append((inputs, step(compiled, *inputs)))
    # torchtitan compiles this function by itself.
    monkeypatch.setattr(titan.FlexAttention, "_compiled_flex_attn", staticmethod(flex.flex_attention))
    for inputs, (loss, mine) in calls:
        wanted, theirs = step(module, *inputs)
        assert abs(loss - wanted) < 1e-5 * wanted
        assert_close(mine, theirs)
    (graph,) = compiled.te.graphs
    assert len(graph.parts) == 1 and len(lines := attentions(graph)) == 2
    assert all(" documents " in line and "causal" in line for line in lines)


@pytest.mark.parametrize("name", MODELS)
def test_attention_of_variable_lengths(name, on_a_cpu, monkeypatch):
    """PyTorch has it only on a GPU and in bf16, so the reference is the same model with flex_attention in bf16."""
    module = training(name, "varlen")
    compiled = te_mlir.torch.jit(module, strict=True, recipe=te_mlir.HighPrecision())
    # The same attention in f32.
    monkeypatch.setattr(torch, "bfloat16", torch.float32)
    tokens, own = torch.randint(0, 2048, (2, SEQUENCE)), positions(20, 44)
    loss, mine = step(compiled, tokens, tokens.roll(-1, 1), own, masks_of(module, own))
    reference = training(name, "flex")
    reference.load_state_dict(module.state_dict())
    monkeypatch.setattr(titan.FlexAttention, "_compiled_flex_attn", staticmethod(flex.flex_attention))
    wanted, theirs = step(reference, tokens, tokens.roll(-1, 1), own, masks_of(reference, own))
    assert abs(loss - wanted) < 1e-5 * wanted
    assert_close(mine, theirs)
    (graph,) = compiled.te.graphs
    assert len(graph.parts) == 1 and len(lines := attentions(graph)) == 2 and not graph.masks
    assert all(" documents " in line and "causal" in line for line in lines)


@pytest.mark.sampled
@pytest.mark.parametrize("backend", ["flex", "varlen"])
@pytest.mark.parametrize("name", MODELS)
def test_layers_in_fp8(name, backend, on_a_cpu):
    module = training(name, backend)
    compiled = te_mlir.torch.jit(module, strict=True, recipe=te_mlir.Float8BlockScaling())
    tokens, own = torch.randint(0, 2048, (2, SEQUENCE)), positions(20, 44)
    loss, _ = step(compiled, tokens, tokens.roll(-1, 1), own, masks_of(module, own))
    assert torch.isfinite(loss)
    (graph,) = compiled.te.graphs
    (report,) = graph.reports("precision", "json").values()
    gemms = [gemm for function in json.loads(report)["precision"] for gemm in function["gemms"]]
    layers = sum(isinstance(part, nn.Linear) for part in module.modules())
    # Fused layers of queries, keys and values are compiled in parts.
    assert len(gemms) >= 3 * layers and layers == 2 * 5 + 1
    assert all(gemm[side].startswith("f8") for gemm in gemms for side in "ab")


#: Models with experts, and how many of their first layers are built.
EXPERTS = {
    "qwen3_moe": (lambda: qwen3._debugmodel_moe("flex"), 2),
    "deepseek_v3": (lambda: deepseek_v3._debugmodel("flex", "standard"), 3),
}


def experts(name, length):
    """A model with experts and plain causal attention, and its inputs."""
    make, layers = EXPERTS[name]
    config = make()
    config.layers = config.layers[:layers]
    for layer in config.layers:
        layer.attention.inner_attention = titan.ScaledDotProductAttention.Config()
        if layer.moe is not None:
            # A tenth of the 768 of Qwen 3: one GEMM has the rows and weights of all 64 experts.
            layer.moe.routed_experts.inner_experts.hidden_dim = 80
    model = config.build()
    model.init_states()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    tokens = torch.randint(0, 2048, (1, length))
    return Training(model), (tokens, tokens.roll(-1, 1), torch.arange(length).unsqueeze(0), None)


def routers(module):
    return [part for part in module.modules() if isinstance(part, moe.TokenChoiceTopKRouter)]


def choices(module, inputs):
    """The experts that each router of PyTorch chooses."""
    found = []
    hooks = [r.register_forward_hook(lambda router, given, result: found.append(result[1])) for r in routers(module)]
    step(module, *inputs)
    for hook in hooks:
        hook.remove()
    return found


@pytest.fixture
def given_choices(monkeypatch):
    """Routers that have an attribute `choice` choose these experts."""
    route = moe.TokenChoiceTopKRouter.forward

    def forward(router, x, bias=None):
        if not hasattr(router, "choice"):
            return route(router, x, bias)
        scores = route(router, x, bias)[2]
        chosen = scores.gather(-1, router.choice)
        if router.route_norm:
            chosen = chosen / (chosen.sum(-1, keepdim=True) + 1e-20)
        return chosen * router.route_scale, router.choice, scores

    monkeypatch.setattr(moe.TokenChoiceTopKRouter, "forward", forward)


class Rounded(torch.autograd.Function):
    """Rounds a value and its gradient to bf16, as casts to bf16 and back do."""

    @staticmethod
    def forward(ctx, x):
        return x.bfloat16().to(x.dtype)

    backward = forward


def wide_experts(rounded, gate=True):
    """torchtitan's experts in the type of x instead of bf16, with the roundings of bf16 or without any.

    gate: whether the activation is also rounded before it is multiplied, as in PyTorch; te rounds the product.
    """
    cast = Rounded.apply if rounded else lambda value: value
    gated = cast if gate else lambda value: value

    def forward(own, x, counts):
        x, w1, w2, w3 = map(cast, (x, own.w1_EFD, own.w2_EDF, own.w3_EFD))
        expert = torch.arange(len(x)).unsqueeze(1) >= counts.cumsum(0)
        one_hot = F.one_hot(expert.sum(1), len(counts)).to(x.dtype)

        def product(rows, w):
            apart = (one_hot.unsqueeze(2) * rows.unsqueeze(1)).flatten(1)
            return cast(apart @ w.transpose(1, 2).flatten(0, 1))

        return product(cast(gated(F.silu(product(x, w1))) * product(x, w3)), w2)

    return forward


@pytest.mark.filterwarnings("ignore:In CPU autocast")
@pytest.mark.parametrize("name", EXPERTS)
def test_experts_in_f32(name, monkeypatch):
    """Without the casts to bf16, the routers make the same choices, and gradients are as close as those of dense models."""
    monkeypatch.setattr(moe.GroupedExperts, "forward", wide_experts(rounded=False))
    module, inputs = experts(name, 16)
    reference = copy.deepcopy(module)
    compiled = te_mlir.torch.jit(module, recipe=te_mlir.HighPrecision())
    loss, mine = step(compiled, *inputs)
    wanted, theirs = step(reference, *inputs)
    mine_chosen, chosen = (
        {n: b for n, b in m.named_buffers() if "tokens_per_expert" in n} for m in (module, reference)
    )
    assert chosen and all(torch.equal(mine_chosen[name], counts) and counts.any() for name, counts in chosen.items())
    assert abs(loss - wanted) < 1e-5 * wanted
    assert_close(mine, theirs)


@pytest.mark.filterwarnings("ignore:In CPU autocast")
@pytest.mark.parametrize("name", EXPERTS)
def test_experts_in_bf16(name, given_choices, monkeypatch):
    """torchtitan rounds experts to bf16: a last bit of f32 decides roundings, in PyTorch as in te.

    So each is compared with f64 that has its roundings, and all get the choices of PyTorch's routers.
    """
    module, inputs = experts(name, SEQUENCE)
    for router, choice in zip(routers(module), choices(copy.deepcopy(module), inputs), strict=True):
        router.register_buffer("choice", choice)
    _, theirs = step(copy.deepcopy(module), *inputs)
    _, mine = step(te_mlir.torch.jit(copy.deepcopy(module), recipe=te_mlir.HighPrecision()), *inputs)
    errors = []
    for found, gate in ((mine, False), (theirs, True)):
        monkeypatch.setattr(moe.GroupedExperts, "forward", wide_experts(rounded=True, gate=gate))
        _, exact = step(copy.deepcopy(module).double(), *inputs)
        errors.append(max((found[n] - exact[n]).norm() / exact[n].norm() for n in exact))
    worst, allowed = errors
    assert worst < 1.5 * allowed and 1e-4 < allowed < 5e-3, (worst.item(), allowed.item())
