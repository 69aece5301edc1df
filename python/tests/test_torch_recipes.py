"""Every linear layer of small models of transformers is quantised under every recipe, in batches of users."""

import re
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import families
from conftest import RECIPES
from test_torch_families import precision
from test_torch_packed import BATCHES, GROUPED, MODELS, attentions, run
from torch_compare import fresh  # noqa: F401

import te_mlir
import te_mlir.torch

transformers.logging.set_verbosity_error()

QUANTISED = [name for name in RECIPES if name != "high_precision"]


def assert_quantised(model, recipe, inputs, is_whole=True):
    """Checks that a model compiles, that its loss is near PyTorch's, and that all its GEMMs are in 8 or 4 bits."""
    compiled = te_mlir.torch.jit(model, recipe=RECIPES[recipe])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss, gradients = run(compiled, inputs)
    with torch.no_grad():
        wanted = model(**inputs).loss
    assert abs(loss - wanted) < 0.5 * wanted and all(g.isfinite().all() for g in gradients.values())
    # The gradients of weights of both custom recipes are in high precision.
    quantised, of = map(int, re.search(r"quantised GEMMs: (\d+) of (\d+);", compiled.te.summary()).groups())
    rows = compiled.te.report("precision").splitlines()
    # Products of attention are grouped, and in high precision under every recipe.
    plain = sum("grouped" in row or (recipe.startswith("custom") and row.split()[:1] == ["wgrad"]) for row in rows)
    assert quantised == of - plain > 0, compiled.te.report("precision")
    if is_whole:
        assert all(not graph.reasons for graph in compiled.te.graphs)
    return compiled


@pytest.mark.sampled
@pytest.mark.parametrize("recipe", QUANTISED)
@pytest.mark.parametrize(
    "name, batch", [("llama", "packed"), ("qwen3", "right"), ("mistral", "packed"), ("gemma2", "right")]
)
def test_packed_and_padded_batches(name, batch, recipe):
    model, config, options, _ = MODELS[name]
    options = {**GROUPED, **options, "num_hidden_layers": 1}
    model = getattr(transformers, model)(getattr(transformers, config)(**options)).bfloat16()
    compiled = assert_quantised(model, recipe, {**BATCHES[batch][0](), "use_cache": False})
    # Query, key, value, output, gate, up and down, and the head.
    assert len(precision(compiled)) == 8
    assert all(" documents " in line for graph in compiled.te.graphs for line in attentions(graph))


@pytest.mark.sampled
@pytest.mark.parametrize("recipe", QUANTISED)
# Qwen2.5-VL has 27 graphs of torch.compile; test_torch_families.py compiles it under one recipe.
@pytest.mark.parametrize("family", [name for name in families.ODD if name != "qwen2.5-vl"])
def test_odd_batches(family, recipe):
    """Classifiers have 3 classes."""
    name, config, options, is_whole, layers = families.ODD[family]
    model = getattr(transformers, name)(getattr(transformers, config)(**options)).bfloat16()
    inputs = families.odd_inputs_of(family)
    halves = {n: v.bfloat16() if torch.is_tensor(v) and v.is_floating_point() else v for n, v in inputs.items()}
    compiled = assert_quantised(model, recipe, halves, is_whole)
    assert len(precision(compiled)) == layers
