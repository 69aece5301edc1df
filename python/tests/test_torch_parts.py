"""Models with an unsupported operation in the middle: the parts around it are compiled, with autograd's gradients."""

import copy
import re
import warnings

import pytest

torch = pytest.importorskip("torch")

from conftest import RECIPES
from torch import nn
from torch.nn import functional as F

import te_mlir
import te_mlir.torch


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Stack(nn.Module):
    """Linear layers with `between` after each."""

    def __init__(self, between, count=3, width=64):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(count))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(count))
        self.between = between

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = x + self.between(layer(norm(x)))
        return x


def gradients(model, *inputs):
    torch.manual_seed(7)
    result = model(*inputs)
    leaves = [t for t in (*inputs, *model.parameters()) if t.requires_grad]
    return [result.detach(), *torch.autograd.grad(result.square().sum(), leaves)]


def compiled(model, **options):
    return te_mlir.torch.jit(model, **{"recipe": te_mlir.HighPrecision(), **options})


def assert_same(mine, theirs):
    assert len(mine) == len(theirs)
    for one, two in zip(mine, theirs):
        assert two.norm() > 0 and (one - two).norm() <= 1e-5 * two.norm()


def quietly(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def without_gradients(x):
    with torch.no_grad():
        return x.abs().amax()


BETWEEN = {
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "op": torch.asinh,
    "two ops": lambda x: x.asinh() * x.sigmoid(),
    "alpha_dropout twice": lambda x: F.alpha_dropout(F.alpha_dropout(x, 0.5, True) * 2, 0.25, True),
    "write": lambda x: x.index_fill_(0, torch.tensor([1]), 0.5),
    "write to a view": lambda x: (x[:, :8].index_fill_(0, torch.tensor([1]), 0.5), x)[1],
    "integers": lambda x: x * x.argmax(-1, keepdim=True),
    "a list": lambda x: x * x.topk(3).values.sum(-1, keepdim=True),
    "without gradients": lambda x: x * without_gradients(x),
    "running products": lambda x: x * x[:, :4].cumprod(1)[:, 3:],
}


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("wants", [False, True])
def test_what_is_after_it_is_compiled(name, wants):
    model = Stack(BETWEEN[name])
    x = torch.randn(32, 64, requires_grad=wants)
    wanted = gradients(model, x)
    mine = compiled(model)
    for _ in range(2):
        assert_same(quietly(gradients, mine, x), wanted)
    (graph,) = mine.te.graphs
    assert len(graph.regions) == 3 and graph.reasons
    assert sum(len(region.function.layers()) for region in graph.regions) == 3


def test_each_part_is_in_the_ledger_and_has_states():
    model = Stack(lambda x: F.alpha_dropout(x, 0.5, True)).bfloat16()
    mine = compiled(model, recipe=te_mlir.DelayedScaling(amax_history_len=4))
    quietly(gradients, mine, torch.randn(32, 64, dtype=torch.bfloat16))
    rows = [row for row in mine.te.report("precision").splitlines() if row.split()[:1] == ["fprop"]]
    assert len(rows) == 3 and all("f8E4M3FN" in row for row in rows)
    states = mine.te.state_dict()
    assert {f"layers.{i}.{t}.scale" for i in range(3) for t in ("x", "w", "dy")} <= states.keys()


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_micro_batches_of_parts(cuda_graph):
    """A weight that two parts use has one sum, and casts are cached between micro-batches."""
    model = Stack(lambda x: x.asinh(), 2)
    model.layers[1].weight = model.layers[0].weight
    x = torch.randn(32, 64)
    wanted = 2 * torch.autograd.grad(model(x).square().sum(), model.layers[0].weight)[0]
    mine = compiled(model, main_grad=True, cache_weights=True, cuda_graph=cuda_graph)
    for _ in range(2):
        for micro in range(2):
            with mine.te.microbatch(first=micro == 0):
                quietly(lambda: mine(x).square().sum().backward())
        weight = model.layers[0].weight
        assert weight.grad is None and (weight.main_grad - wanted).norm() <= 1e-5 * wanted.norm()


class Rows(nn.Module):
    """Layers that use a parameter or parts of it: (axis, first, end), or None for all of it.

    `between` runs after each.
    """

    def __init__(self, uses, between=torch.asinh):
        super().__init__()
        self.uses, self.between = uses, between
        self.w = nn.Parameter(torch.randn(128, 64) / 8)

    def layer(self, x, use):
        w = self.w
        if use is not None:
            axis, first, end = use
            w = w[first:end] if axis == 0 else w.t()[first:end]
        if x.shape[1] != w.shape[1]:
            x = x.repeat(1, 4)[:, : w.shape[1]]
        return self.between(F.linear(x, w))

    def forward(self, x):
        for use in self.uses:
            x = self.layer(x, use)
        return x


class Graphs(Rows):
    """Two layers in separate graphs."""

    def forward(self, x):
        first, second = self.uses
        x = self.layer(x, first)
        torch._dynamo.graph_break()
        return self.layer(x, second)


USES = {
    "rows, then all": ([(0, 0, 64), None], torch.asinh, 2),
    "all, then rows": ([None, (0, 64, 128)], torch.asinh, 2),
    "rows, then others with some of them": ([(0, 0, 64), (0, 32, 128)], torch.asinh, 2),
    "rows, then the others": ([(0, 64, 128), (0, 0, 64)], torch.asinh, 2),
    "some rows": ([(0, 32, 64)], torch.asinh, 1),
    "rows twice": ([(0, 32, 64)] * 2, torch.asinh, 2),
    "columns, then all": ([(1, 0, 32), None], torch.asinh, 2),
    "some columns": ([(1, 32, 64)], torch.asinh, 1),
    "rows and all in one part": ([(0, 0, 64), None], F.silu, 1),
}


@pytest.mark.parametrize("name", USES)
def test_a_first_micro_batch_begins_all_of_main_grad(name):
    uses, between, parts = USES[name]
    model = Rows(uses, between)
    mine = compiled(model, main_grad=True)
    # Another graph may have created the sum.
    model.w.main_grad = torch.ones(model.w.shape)
    for _ in range(2):
        wanted = torch.zeros(model.w.shape)
        for micro in range(2):
            x = torch.randn(32, 64)
            wanted += torch.autograd.grad(model(x).square().sum(), model.w)[0]
            with mine.te.microbatch(first=micro == 0):
                quietly(lambda: mine(x).square().sum().backward())
        assert_same([model.w.main_grad], [wanted])
    assert len(mine.te.graphs[0].regions) == parts and model.w.grad is None


PAIRS = [uses for uses, between, _ in USES.values() if len(uses) == 2 and between is torch.asinh]


@pytest.mark.parametrize("cuda_graph", [False, True])
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("uses", [*PAIRS, [None, None]])
def test_a_first_micro_batch_adds_what_graphs_and_calls_of_one_pass_share(uses, calls, cuda_graph):
    model = Graphs(uses, F.silu)
    mine = compiled(model, main_grad=True, cuda_graph=cuda_graph)
    model.w.main_grad = torch.ones(model.w.shape)
    for _ in range(2):
        wanted = torch.zeros(model.w.shape)
        for micro in range(2):
            xs = torch.randn(calls, 32, 64)
            wanted += torch.autograd.grad(sum(model(x).square().sum() for x in xs), model.w)[0]
            with mine.te.microbatch(first=micro == 0):
                quietly(lambda: sum(mine(x).square().sum() for x in xs).backward())
        assert_same([model.w.main_grad], [wanted])
    assert len(mine.te.graphs) == 2


@pytest.mark.parametrize(
    "of, listed",
    [
        (lambda w: w.asinh().cumprod(0), True),
        (lambda w: w[:32].asinh().cumprod(0).repeat(2, 1), True),
        (lambda w: w.cumprod(0), True),
        (lambda w: w.detach().asinh().cumprod(0), False),
    ],
    ids=["of-its-sine", "of-rows", "of-itself", "without-gradient"],
)
@pytest.mark.parametrize("before", [True, False])
def test_a_share_of_a_gradient_that_pytorch_leaves_in_grad_is_listed(of, listed, before):
    """The weight is also used by PyTorch, before or after a compiled part."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64, bias=False)

        def forward(self, x):
            w = self.layer.weight
            return self.layer(x + of(w)) if before else self.layer(x) + of(w)

    model, x = Both(), torch.randn(64, 64)
    wanted = gradients(model, x)[-1]
    mine = compiled(model, main_grad=True)
    model.layer.weight.main_grad = torch.zeros(64, 64)
    quietly(lambda: mine(x).square().sum().backward())
    (graph,) = mine.te.graphs
    assert graph.parts and listed == any("layer.weight: PyTorch uses it" in reason for reason in graph.reasons)
    share = model.layer.weight.grad
    assert (share is not None) == listed
    assert_same([model.layer.weight.main_grad + (share if listed else 0)], [wanted])


@pytest.mark.parametrize(
    "product",
    [
        lambda m, y, x: F.linear(y, m.o.weight / m.o.weight.norm()),
        lambda m, y, x: F.linear(y, m.fixed),
        lambda m, y, x: y @ x.t(),
        lambda m, y, x: y @ (m.o(x) / m.o(x).norm()).t(),
        lambda m, y, x: torch.addmm(m.o.weight.asinh()[0], y.bfloat16().float(), x.bfloat16().float().t()),
    ],
    ids=["normalised", "buffer", "input", "computed", "cast"],
)
@pytest.mark.parametrize("option", ["main_grad", "cache_weights"])
def test_products_with_what_is_no_parameter(product, option):
    """Casts of the matrix are not cached, and the gradients are autograd's."""

    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.l, self.o = nn.Linear(64, 64), nn.Linear(64, 64)
            self.register_buffer("fixed", torch.randn(64, 64))

        def forward(self, x):
            return product(self, self.l(x), x)

    model, x = Product(), torch.randn(64, 64, requires_grad=True)
    recipe = te_mlir.HighPrecision() if option == "main_grad" else te_mlir.Float8CurrentScaling()
    theirs = model if option == "main_grad" else compiled(model, recipe=recipe)
    mine = compiled(model, recipe=recipe, **{option: True})
    for first in (True, False):
        model.zero_grad()
        x.grad = None
        y = quietly(theirs, x)
        y.square().sum().backward()
        wanted = [y.detach(), *(t.grad.clone() for t in (x, *model.parameters()) if t.grad is not None)]
        model.zero_grad()
        x.grad = None
        for parameter in model.parameters():
            parameter.main_grad = torch.zeros_like(parameter)
        with mine.te.microbatch(first=first):
            y = quietly(mine, x)
            y.square().sum().backward()
        found = [y.detach(), x.grad]
        for parameter in model.parameters():
            parts = [parameter.grad, parameter.main_grad]
            found += [sum(p for p in parts if p is not None)] if any(p is not None and p.any() for p in parts) else []
        assert_same(found, wanted)
        # A tensor that is not a parameter may change between calls.
        with torch.no_grad():
            x.mul_(1.5)
            model.fixed.mul_(1.5)


def test_tensors_whose_memory_holds_negatives():
    model, x = Stack(torch.asinh, 1), torch.randn(32, 64)
    theirs = gradients(model, -x)
    mine = compiled(model)
    for one in (-x, torch._neg_view(x)):
        assert_same(quietly(gradients, mine, one), theirs)
    model.layers[0].weight = nn.Parameter(torch._neg_view(torch.randn(64, 64)))
    with pytest.raises(te_mlir.ArgumentError, match="argument 'layers.0.weight': .* call .resolve_neg()"):
        quietly(mine, x)


def test_cotangents_and_inputs_of_modules_whose_memory_holds_negatives():
    layer, found = te_mlir.torch.Linear(64, 64), []
    x, dy = torch.randn(32, 64), torch.randn(32, 64)
    for one, cotangent in ((-x, -dy), (torch._neg_view(x), torch._neg_view(dy))):
        result = layer(one)
        found.append([result.detach(), *torch.autograd.grad(result, layer.weight, cotangent)])
    assert_same(*found)


def test_forwards_in_flight():
    model = Stack(torch.asinh)
    xs = [torch.randn(32, 64) for _ in range(2)]
    mine = compiled(model)
    results = [quietly(mine, x) for x in xs]
    for x, result in reversed(list(zip(xs, results))):
        found = torch.autograd.grad(result.square().sum(), list(model.parameters()))
        assert_same(found, torch.autograd.grad(model(x).square().sum(), list(model.parameters())))


def test_a_call_without_gradients():
    model = Stack(torch.asinh)
    x = torch.randn(32, 64)
    with torch.no_grad():
        assert (quietly(compiled(model), x) - model(x)).norm() < 1e-5 * model(x).norm()


def test_a_loss_goes_through_all_parts():
    """Gradients flow through a part that also computes a loss."""

    class Loss(Stack):
        def forward(self, x, labels):
            h = super().forward(x)
            logits = self.layers[0](h)
            return F.cross_entropy(logits, labels) + logits.logsumexp(-1).mean()

    model = Loss(torch.asinh)
    inputs = torch.randn(32, 64), torch.arange(32)
    assert_same(quietly(gradients, compiled(model), *inputs), gradients(model, *inputs))


def test_values_that_the_forward_computes_in_the_memory_of_gradients():
    """The memory of a result of the backward may have constants and intermediates of the forward."""

    class Early(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(256, 64)

        def forward(self, a, b, c):
            return self.layer(a * (1.0 + torch.tanh(0.75 * (b + 0.25 * c))))

    model = Early()
    inputs = [torch.randn(64, 256, requires_grad=True) for _ in range(3)]
    wanted = gradients(model, *inputs)
    for options in ({}, {"cuda_graph": True}):
        torch._dynamo.reset()
        mine = compiled(model, strict=True, **options)
        for _ in range(3):
            assert_same(gradients(mine, *inputs), wanted)
        # The gradients of a recorded step are in its arena, like the intermediates.
        assert mine.te.graphs[0].region.load(True).places.is_early is not bool(options)


def test_parts_and_graphs_are_on_one_page():
    model = Stack(torch.asinh, count=2).bfloat16()
    mine = compiled(model, recipe=te_mlir.Float8CurrentScaling())
    assert mine.te.report(format="html").startswith("no graph is compiled")
    for rows, parts in ((32, 2), (64, 4)):
        x = torch.randn(rows, 64, dtype=torch.bfloat16)
        quietly(gradients, mine, x)
        page = mine.te.report(format="html")
        titles = [f"<h1>graph {i // 2}, part {i % 2}: step 'step'</h1>" for i in range(parts)]
        assert re.findall("<h1>.*</h1>", page) == titles
        # Elements of the page occur once, and elements of a picture once for each part.
        assert [page.count(text) for text in ("<!DOCTYPE", "<style>", "</html>")] == [1] * 3
        assert page.startswith("<!DOCTYPE") and page.endswith("</html>\n")
        assert page.count("<h2>Precision</h2>") == page.count("<h2>Launches</h2>") == parts
        for layer in range(2):
            assert re.search(f"layers.{layer}[^<]* fprop", page) and f"<h1>graph 0, part {layer}" in page
        assert "<li>graph 0: stays in PyTorch: aten.asinh(bfloat16 [32, 64])" in page
    graph = mine.te.graphs[1].report(format="html")
    assert "<li>stays in PyTorch: aten.asinh(bfloat16 [64, 64])" in graph and graph.count("<h1>") == 2
    assert "graph 1\npart 0\n" in mine.te.report() and "  stays in PyTorch: aten.asinh" in mine.te.report()


def test_equal_results_are_made_before_the_backward():
    class Equal(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            y = self.layer(x)
            return y.float().asinh() + y.float().atan() * y.float().to(torch.bfloat16)

    model = Equal().bfloat16()
    x = torch.randn(32, 64, dtype=torch.bfloat16)
    mine = compiled(model, recipe=te_mlir.Float8CurrentScaling())
    quietly(gradients, mine, x)
    assert "f8E4M3FN" in mine.te.report("precision")


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "high_precision"])
def test_layers_of_any_size_are_quantised(recipe):
    model = nn.Sequential(nn.Linear(50, 30), nn.Linear(30, 10)).bfloat16()
    x = torch.randn(33, 50, dtype=torch.bfloat16)
    mine = compiled(model, recipe=RECIPES[recipe], strict=True)
    wanted = gradients(model, x)
    for one, two in zip(gradients(mine, x), wanted, strict=True):
        assert one.shape == two.shape and (one - two).norm() < 0.5 * two.norm()
    rows = [row for row in mine.te.report("precision").splitlines() if row.split()[:1] == ["fprop"]]
    assert len(rows) == 2 and all("padded: " in row and " bf16  bf16 " not in row for row in rows)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.qkv = nn.Linear(64, 64), nn.Linear(64, 192)

    def forward(self, x, mask):
        x = F.alpha_dropout(self.before(x), 0.5, True)
        q, k, v = (t.view(2, 16, 1, 64).transpose(1, 2) for t in self.qkv(x).split(64, -1))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def test_another_mask_draws_no_random_numbers_twice():
    model = Attention()
    mine = compiled(copy.deepcopy(model))
    x, causal = torch.randn(2, 16, 64), torch.ones(1, 1, 16, 16).tril().bool()
    quietly(mine, x, causal)
    found = []
    for run in (mine, model):
        torch.manual_seed(3)
        found.append((quietly(run, x, torch.ones_like(causal)).detach(), torch.rand(())))
    assert torch.equal(found[0][1], found[1][1])
    assert torch.allclose(found[0][0], found[1][0], rtol=1e-5, atol=1e-5)


class Turned(nn.Module):
    """Layers with a weight that is stored as [in, out]: the whole weight, or its last columns."""

    def __init__(self, columns=None, bias=None):
        super().__init__()
        self.last = nn.Linear(64, 64)
        self.w = nn.Parameter(torch.randn(64, 128) / 8)
        self.columns = columns
        self.bias = nn.Parameter(torch.ones(bias)) if bias else None

    def forward(self, x):
        x = self.last(x)
        if self.columns is not None:
            return F.linear(x, self.w.t()[self.columns :])
        return x @ self.w if self.bias is None else torch.addmm(self.bias, x, self.w)


@pytest.mark.parametrize("model", [{"columns": -64}, {"columns": 64}, {"bias": 1}, {"bias": 128}, {}])
def test_weights_that_lie_the_other_way(model):
    model, x = Turned(**model), torch.randn(32, 64, requires_grad=True)
    theirs = gradients(model, x)
    assert_same(quietly(gradients, compiled(model), x), theirs)


def test_a_factor_inside_a_pattern_is_kept():
    def almost_gelu(h):
        return 0.5 * h * torch.add(torch.tanh(0.7978845608028654 * (h + 0.044715 * torch.pow(h, 3))), 1, alpha=3)

    model, x = Stack(almost_gelu, 2), torch.randn(16, 64)
    theirs = gradients(model, x)
    assert_same(quietly(gradients, compiled(model), x), theirs)
