"""Calls with many shapes, and calls that run in PyTorch although they were to be compiled."""

import warnings

import pytest

torch = pytest.importorskip("torch")

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
