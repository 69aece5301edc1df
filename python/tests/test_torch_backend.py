"""The arguments of torch.compile(model, backend="te")."""

import sys

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode
from torch_compare import Two, X, fresh  # noqa: F401

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
