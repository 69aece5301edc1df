"""The arguments of torch.compile(model, backend="te")."""

import copy
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

from models import Llama
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_compare import Two, X, assert_close, fresh, gradients  # noqa: F401

import te_mlir
import te_mlir.torch

MODES = ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


def layers(model, x):
    return model.l2(model.l1(x).relu())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by_name", [True, False])
def test_modes_change_no_result(mode, by_name):
    model = Two(layers)
    backend = "te" if by_name else te_mlir.torch.Backend(strict=True)
    compiled = torch.compile(model, backend=backend, mode=mode, dynamic=False)
    first = compiled(X)
    kept = first.clone()
    second = compiled(2 * X)
    torch.testing.assert_close(first, model(X))
    torch.testing.assert_close(second, model(2 * X))
    # On a CPU nothing is recorded, so the results of a call stay.
    assert torch.equal(first, kept)


@pytest.mark.parametrize("mode, records", [(None, False), *zip(MODES, [False, True, True, False])])
@pytest.mark.parametrize("in_call", [True, False])
def test_modes_record_steps_on_a_gpu(monkeypatch, mode, records, in_call):
    found = []

    class Graph:
        regions, reasons = (), ()

        def __init__(self, module, examples, options, *_):
            found.append(options.cuda_graph)

    monkeypatch.setattr(sys.modules["te_mlir.torch.backend"], "Graph", Graph)
    backend = te_mlir.torch.Backend(mode=None if in_call else mode)
    module = torch.fx.symbolic_trace(torch.nn.Linear(4, 4))
    with FakeTensorMode():
        for device in ("cpu", "cuda"):
            backend(module, [torch.empty(4, 4, device=device)], **({"mode": mode} if in_call else {}))
    assert found == [False, records]


def test_an_unknown_mode_is_an_error():
    said = "expected 'mode' to be one of 'default', 'reduce-overhead', .*, but got 'fast'"
    with pytest.raises(Exception, match=said):
        torch.compile(Two(layers), backend="te", mode="fast")(X)
    with pytest.raises(ValueError, match=said):
        te_mlir.torch.jit(Two(layers), mode="fast")


def test_any_number_of_shapes_is_compiled():
    """torch.compile's default makes sizes symbols from the second shape on."""
    model = Llama()
    reference = copy.deepcopy(model)
    backend = te_mlir.torch.Backend(strict=True)
    compiled = torch.compile(model, backend=backend)
    shapes = [(2, 32), (3, 32), *((rows, 16) for rows in range(2, 8)), (2, 48), (2, 32)]
    assert len(shapes) > torch._dynamo.config.recompile_limit
    for shape in shapes:
        ids = torch.randint(0, 64, shape)
        loss, mine = gradients(compiled, ids, ids)
        wanted, theirs = gradients(reference, ids, ids)
        torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=0)
        mine = {name.removeprefix("_orig_mod."): gradient for name, gradient in mine.items()}
        assert_close(mine, theirs)
    assert len(backend.graphs) < len(set(shapes)) and not any(graph.reasons for graph in backend.graphs)


def test_shapes_share_states():
    model = Two(layers).bfloat16()
    backend = te_mlir.torch.Backend(recipe=te_mlir.DelayedScaling(amax_history_len=8), strict=True)
    compiled = torch.compile(model, backend=backend)
    calls = [16, 32, 48, 16, 32, 48]
    for rows in calls:
        compiled(torch.full((rows, 32), float(rows), dtype=torch.bfloat16)).sum().backward()
    assert backend.state_dict()["l1.x.amax_history"].tolist()[-6:] == calls
    # The first shape is compiled twice: its size is a symbol from the second shape on.
    assert len(backend.graphs) == 4


def test_a_number_that_is_no_tensor_is_one_of_the_sizes():
    model = Two(lambda self, x, count: self.l2(self.l1(x)) * count)
    backend = te_mlir.torch.Backend(strict=True)
    compiled = torch.compile(model, backend=backend)
    for count in (2, 3, 4, 3):
        torch.testing.assert_close(compiled(X, count), model(X, count))
    assert len(backend.graphs) == 3


def test_many_shapes_without_gradients_do_not_end_the_compilation_of_steps():
    """As `generate` does, with one shape for each token, before the first step. A mean is not padded."""

    def centred(model, x):
        y = layers(model, x)
        return y - y.mean(0)

    model = Two(centred)
    backend = te_mlir.torch.compile_in_place(model)
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for rows in range(2, 32):
            x = torch.randn(rows, 32)
            torch.testing.assert_close(model(x), centred(model, x))
    said = [
        str(warning.message) for warning in said if "calls without gradients have more than 8" in str(warning.message)
    ]
    count = len(backend.graphs)
    assert len(said) == 1 and count == 9
    assert len(backend.refused) == 1 and backend.refused[0] in backend.report()
    for rows in range(2, 32):
        model(torch.randn(rows, 32)).sum().backward()
    assert len(backend.graphs) == count + 30


@pytest.mark.parametrize("strict", [False, True])
def test_pytorchs_own_modules_are_compiled_in_place(strict):
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 32))
    wanted = model(X)
    backend = te_mlir.torch.compile_in_place(model, strict=strict)
    torch.testing.assert_close(model(X), wanted)
    (graph,) = backend.graphs
    assert graph.names == ["0.weight", "0.bias", "0", "2.weight", "2.bias"] and backend.calls.left == 0


def test_ignored_loggers_are_no_error_of_pytorchs_metrics(monkeypatch):
    """PyTorch 2.11 sorts the sets of its configuration for them, and functions have no order."""
    errors = []
    monkeypatch.setattr(torch._dynamo.metrics_context.log, "exception", lambda *said: errors.append(said))
    monkeypatch.setattr(
        torch._dynamo.utils,
        "_get_dynamo_config_for_logging",
        lambda: str(sorted(torch._dynamo.config.ignore_logger_methods)),
    )
    te_mlir.torch.jit(torch.nn.Linear(32, 32), recipe=te_mlir.HighPrecision())(torch.randn(4, 32))
    assert not errors


class Forwarding(torch.nn.Module):
    """A module that has the attributes of another one, as models of peft and diffusers do."""

    def __init__(self, model):
        super().__init__()
        self.inner = model

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x):
        return self.inner(x)


def test_layers_of_a_module_with_attributes_of_another_have_their_names():
    compiled = te_mlir.torch.jit(Forwarding(Two(layers)), strict=True, recipe=te_mlir.HighPrecision())
    compiled(X).sum().backward()
    rows = [row.split() for row in compiled.te.report("precision").splitlines()]
    assert [row[1] for row in rows if row[:1] == ["fprop"]] == ["inner.l1", "inner.l2"]
