"""Models of the library transformers at odd batch sizes, with numbers of tokens and classes that FP8 needs padding for."""

import os
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import families
from conftest import RECIPES
from test_torch_transformers import assert_imported_whole, assert_same, run
from torch_compare import are_quantised, fresh, precision  # noqa: F401

import te_mlir
import te_mlir.torch

transformers.logging.set_verbosity_error()


@pytest.mark.parametrize("family", families.ODD)
def test_odd_sizes(family):
    """float32 has autograd's loss and gradients; in bfloat16, every linear layer is FP8."""
    name, config, options, is_whole, layers = families.ODD[family]
    model = getattr(transformers, name)(getattr(transformers, config)(**options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    inputs = families.odd_inputs_of(family)
    wanted_loss, wanted = run(model, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, gradients = run(te_mlir.torch.jit(model, strict=is_whole, recipe=te_mlir.HighPrecision()), inputs)
        assert gradients.keys() == wanted.keys()
        assert_same(found, gradients, wanted_loss, wanted)
        if family == "qwen2.5-vl" and os.environ.get("TE_TESTS") != "full":
            return  # torch.compile takes 8 s to capture its 27 graphs.

        torch._dynamo.reset()
        compiled = te_mlir.torch.jit(model.bfloat16(), strict=is_whole, recipe=te_mlir.Float8CurrentScaling())
        halves = {n: v.bfloat16() if torch.is_tensor(v) and v.is_floating_point() else v for n, v in inputs.items()}
        loss, _ = run(compiled, halves)
    rows = precision(compiled)
    assert len(rows) == layers and are_quantised(rows), rows
    assert abs(loss - wanted_loss) < 0.5 * wanted_loss and any("padded: " in row for row in rows)


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "high_precision"])
def test_a_vision_transformer_of_odd_sizes_is_quantised(recipe):
    """There are 17 tokens in an image and 3 classes."""
    sizes = {"hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 1, "intermediate_size": 96}
    config = transformers.ViTConfig(image_size=32, patch_size=8, num_labels=3, **sizes)
    model = transformers.ViTForImageClassification(config).bfloat16()
    compiled = te_mlir.torch.jit(model, recipe=RECIPES[recipe])
    inputs = {"pixel_values": torch.randn(2, 3, 32, 32, dtype=torch.bfloat16), "labels": torch.tensor([0, 2])}
    loss, gradients = run(compiled, inputs)
    assert_imported_whole(compiled)
    wanted, _ = run(model, inputs)
    assert abs(loss - wanted) < 0.5 * wanted and all(g.isfinite().all() for g in gradients.values())
    rows = precision(compiled)
    # The patches, q, k, v and the other two of the attention layer and its MLP, and the classes.
    assert len(rows) == 8 and not any(" bf16  bf16 " in row or " f32  f32 " in row for row in rows)
    assert "padded: " in rows[-1] and "N 3 to" in rows[-1]
