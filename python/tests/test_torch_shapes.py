"""Calls with many shapes, and calls that run in PyTorch although they were to be compiled."""

import copy
import itertools
import random
import warnings

import pytest

torch = pytest.importorskip("torch")

from conftest import RECIPES
from models import Llama
from torch import nn
from torch_compare import Two, X, fresh  # noqa: F401

import te_mlir
import te_mlir.torch
from te_mlir.errors import ImportFailure

# No limit of graphs


def test_no_limit_of_graphs_is_reached():
    """Each string is a guard of a graph of its own."""

    def forward(self, x, name):
        return self.l2(self.l1(x)) * len(name)

    with torch._dynamo.config.patch(recompile_limit=2, accumulated_recompile_limit=3):
        for strict in (False, True):
            torch._dynamo.reset()
            compiled = te_mlir.torch.jit(Two(forward), strict=strict)
            for count in range(6):
                compiled(X, "a" * count)
            assert len(compiled.te.graphs) == 6 and not compiled.te.calls.left
        assert torch._dynamo.config.recompile_limit > 2


def test_a_model_that_generates_before_it_trains_is_compiled_in_training():
    model = Two(lambda self, x, name: self.l2(self.l1(x)) * len(name))
    backend = te_mlir.torch.compile_in_place(model, recipe=te_mlir.Float8CurrentScaling())
    with torch._dynamo.config.patch(recompile_limit=2):
        with torch.no_grad():
            for count in range(4):
                model(X, "a" * count)
        model(X, "train").sum().backward()
    assert len(backend.graphs) == 5 and backend.calls.left == 0
    assert "quantised GEMMs: 25 of 25" in backend.summary()


def test_models_of_one_class_do_not_count_together():
    with torch._dynamo.config.patch(recompile_limit=2):
        models = [te_mlir.torch.jit(Two(lambda self, x: self.l1(x))) for _ in range(4)]
        assert "no graph is compiled: the model was not called yet" in models[0].te.report()
        for model in models:
            model(X)
        assert [len(model.te.graphs) for model in models] == [1, 1, 1, 1]


@pytest.mark.parametrize("by_name", [True, False])
def test_a_second_shape_is_quantised(by_name):
    """torch.compile's default makes sizes symbols from the second shape on."""
    model = Two(lambda self, x: self.l2(self.l1(x).relu()))
    recipe = te_mlir.Float8CurrentScaling()
    if by_name:
        compiled = torch.compile(model, backend="te", options={"recipe": recipe})
    else:
        compiled = te_mlir.torch.jit(model, recipe=recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [compiled(X[:rows]) for rows in (16, 8, 5)]
    for rows, result in zip((16, 8, 5), found):
        torch._dynamo.reset()
        assert torch.equal(result, te_mlir.torch.jit(model, recipe=recipe)(X[:rows]))
        assert not torch.equal(result, model(X[:rows]))


# Calls that run in PyTorch


class Skipped(nn.Module):
    """A model that torch.compile cannot trace at all."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    @torch.compiler.disable
    def forward(self, x):
        return self.layer(x)


def steps(model, count=3):
    """The warnings of some steps."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(count):
            model(X).sum().backward()
    return [str(warning.message) for warning in said if "only in PyTorch" in str(warning.message)]


@pytest.mark.parametrize("in_place", [True, False])
def test_each_step_that_runs_without_te_is_counted(in_place):
    model = Skipped()
    if in_place:
        backend = te_mlir.torch.compile_in_place(model)
    else:
        model = te_mlir.torch.jit(model)
        backend = model.te
    assert steps(model) == [
        f"te: call {n} that runs only in PyTorch: torch.compile ran it without te" for n in (1, 2, 3)
    ]
    assert backend.calls.left == 3
    assert "calls that ran only in PyTorch: 3" in backend.report()
    assert backend.summary().endswith("calls in PyTorch: 3")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        model(X)
    assert backend.calls.left == 4
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        warnings.simplefilter("error")
        model(X)
    assert backend.calls.left == 4


def test_a_step_without_te_is_an_error_with_strict():
    model = te_mlir.torch.jit(Skipped(), strict=True, fullgraph=False)
    with pytest.raises(ImportFailure, match="torch.compile ran it without te"):
        model(X)
    with torch.no_grad():
        model(X)


def test_each_call_of_a_graph_that_stays_in_pytorch_is_counted():
    def forward(self, x):
        y = self.l1(x)
        y.register_hook(lambda gradient: gradient)
        return self.l2(y)

    model = te_mlir.torch.jit(Two(forward))
    said = steps(model)
    assert len(said) == 3 and "call 3" in said[2] and "register_hook" in said[2]
    assert model.te.calls.left == 3


def test_a_graph_without_layers_may_stay_in_pytorch():
    model = te_mlir.torch.jit(Two(lambda self, x: (x * self.l1.bias).sum()))
    assert not steps(model) and model.te.calls.left == 0


# Sizes that are rounded up


def layers(model, x):
    return model.l2(model.l1(x).relu())


def programs(backend):
    """The number of compiled programs of each graph."""
    return [len(region.compilation._programs) for graph in backend.graphs for region in graph.regions]


def test_steps_with_new_shapes_take_few_programs():
    """Batches from 2 to 16 and lengths from 9 to 128, of which no two steps have the same."""
    model = Two(layers)
    compiled = te_mlir.torch.jit(model, strict=True)
    draw = random.Random(0)
    shapes = [(4, 9), (5, 10)] + [(draw.randint(2, 16), length) for length in draw.sample(range(11, 129), 60)]
    for step, shape in enumerate(shapes):
        x = torch.randn(*shape, 32)
        loss = compiled(x).square().sum()
        if step % 10 == 0:
            torch.testing.assert_close(loss, layers(model, x).square().sum())
        loss.backward()
    # The first shape is compiled as it is; then there are 4 capacities of batches and 4 of lengths.
    assert len(compiled.te.graphs) <= 1 + 4 * 4 and set(programs(compiled.te)) == {1}
    assert not compiled.te.calls.left and not compiled.te.exact


def test_lengths_take_as_many_programs_as_there_are_powers_of_two():
    """500 steps with a new length each."""
    compiled = te_mlir.torch.jit(Two(layers), strict=True)
    for length in [300, *random.Random(0).sample(range(2, 513), 499)]:
        compiled(torch.randn(length, 32)).sum().backward()
    assert len(compiled.te.graphs) <= 1 + 9 and set(programs(compiled.te)) == {1}


def run(model, calls, recipe, **options):
    """Results and gradients of each call, and the backend."""
    torch._dynamo.reset()
    model = copy.deepcopy(model)
    backend = te_mlir.torch.compile_in_place(model, recipe=recipe, strict=True, **options)
    found = []
    for inputs in calls:
        model.zero_grad()
        results = model(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        results[0].float().square().sum().backward()
        found.append([*results, *(p.grad for p in model.parameters())])
    return found, backend


@pytest.mark.parametrize("name", ["delayed_scaling", "float8_current_scaling", "float8_block_scaling"])
@pytest.mark.parametrize("bias", [True, False])
def test_padding_changes_no_bit(name, bias):
    """Padding is zero where a layer casts it, also behind a bias, so that scales are those of the exact shape."""
    model = Two(layers)
    if not bias:
        model.l1.bias = model.l2.bias = None
    model = model.bfloat16()
    calls = [(5 * torch.randn(rows, 32).bfloat16(),) for rows in (16, 12, 9, 13, 16)]
    mine, backend = run(model, calls, RECIPES[name])
    exact, others = run(model, calls, RECIPES[name], capacities=())
    assert [len(backend.graphs), len(others.graphs)] == [2, 5] and not backend.exact
    for one, two in zip(mine, exact):
        assert len(one) == len(two) and all(torch.equal(a, b) for a, b in zip(one, two))
    assert backend.state_dict().keys() == others.state_dict().keys()
    for key, value in backend.state_dict().items():
        assert torch.equal(value, others.state_dict()[key]), key


@pytest.mark.parametrize("scaled", [False, True])
def test_a_llama_with_any_batch_and_length(scaled):
    model = Llama()
    calls = [(torch.randint(0, 64, shape),) * 2 for shape in ((4, 32), (3, 24), (7, 17), (8, 31))]
    recipe = te_mlir.Float8CurrentScaling() if scaled else te_mlir.HighPrecision()
    mine, backend = run(model, calls, recipe)
    wanted, _ = run(model, calls, recipe, capacities=()) if scaled else ([], None)
    assert len(backend.graphs) == 3 and set(programs(backend)) == {1} and not backend.exact
    for inputs, found, other in itertools.zip_longest(calls, mine, wanted):
        if other is None:
            loss, logits = model(*inputs)
            other = [loss, logits, *torch.autograd.grad(loss**2, list(model.parameters()))]
        for one, two in zip(found, other):
            assert one.shape == two.shape and (one - two).norm() <= 1e-5 * two.norm()


def test_all_programs_add_to_one_main_grad():
    inputs = [torch.randn(rows, 32) for rows in (16, 12, 9, 5, 16)]
    start, found = Two(layers), []
    for capacities in (None, ()):
        model = copy.deepcopy(start)
        options = {"main_grad": True, "cache_weights": True, "capacities": capacities}
        compiled = te_mlir.torch.jit(model, recipe=te_mlir.Float8CurrentScaling(), strict=True, **options)
        for index, x in enumerate(inputs):
            with compiled.te.microbatch(first=index == 0):
                compiled(x).sum().backward()
        assert capacities == () or len(compiled.te.graphs) == 3
        found.append([p.main_grad for p in model.parameters()])
    for one, two in zip(*found):
        torch.testing.assert_close(one, two)


def test_the_last_batch_of_a_loader():
    loader = torch.utils.data.DataLoader(torch.randn(22, 32), batch_size=8)
    compiled = te_mlir.torch.jit(Two(layers), strict=True, capacities=[8])
    for _ in range(2):
        for x in loader:
            compiled(x).sum().backward()
    assert len(compiled.te.graphs) == 2


def test_capacities_are_chosen():
    compiled = te_mlir.torch.jit(Two(layers), capacities=[10, 20])
    for rows in (3, 4, 10, 11, 20, 21, 22):
        torch.testing.assert_close(compiled(torch.ones(rows, 32)), layers(compiled, torch.ones(rows, 32)))
    # 3, 10, 20, and the sizes above them.
    assert len(compiled.te.graphs) == 5
    with pytest.raises(ValueError, match="expected 'capacities' to be sizes of at least 1, but got"):
        te_mlir.torch.jit(Two(layers), capacities=[0, 8])


def test_the_report_says_why_sizes_are_exact():
    compiled = te_mlir.torch.jit(Two(lambda self, x: self.l1(x).square().mean()))
    for rows in (16, 9, 10):
        compiled(torch.ones(rows, 32)).backward()
    assert len(compiled.te.graphs) == 3
    assert "sizes are not rounded up: aten.mean(float32 [16, 32]): it is computed over an axis" in compiled.te.report()


def test_inputs_have_gradients_without_padding():
    compiled = te_mlir.torch.jit(Two(layers), strict=True)
    for rows in (16, 12, 9):
        x = torch.randn(rows, 32, requires_grad=True)
        compiled(x).square().sum().backward()
        (wanted,) = torch.autograd.grad(layers(compiled, x).square().sum(), [x])
        torch.testing.assert_close(x.grad, wanted)


def test_evaluation_before_training_in_inference_mode():
    compiled = te_mlir.torch.jit(Two(layers), recipe=te_mlir.Float8CurrentScaling(), strict=True)
    for rows in (16, 12, 9):
        with torch.inference_mode():
            compiled(torch.randn(rows, 32))
    for rows in (16, 12, 9):
        compiled(torch.randn(rows, 32)).sum().backward()
