"""Diagnostics and functions as records, which programs read instead of text."""

import dataclasses
import pickle

import pytest

import te_mlir
from te_mlir import build


def mlp(sizes):
    """Consecutive linear layers of these widths; the first is the width of x."""
    module = build.Module()
    with module.function("mlp") as f:
        x = f.argument("x", (32, sizes[0]))
        for number, (columns, rows) in enumerate(zip(sizes, sizes[1:])):
            w = f.argument(f"w{number}", (rows, columns), weight=True)
            x = f.linear(x, w, layer=f"layers.{number}")
        f.result("y", x)
    return module


def failure(module, **options):
    with pytest.raises(te_mlir.CompileError) as caught:
        te_mlir.compile(module, "mlp", context=te_mlir.Context("reference"), **options)
    return caught.value


def test_refusals_of_layers_are_data():
    error = failure(mlp([64, 24, 64]), recipe=te_mlir.MXFP8BlockScaling(), target="sm_90")
    said = {said.layer: said for said in error.diagnostics}["layers.1"]
    assert (said.severity, said.code) == ("error", "no-kernel")
    assert said.message.startswith("expected a product that 'sm_90' has")
    # str() of a diagnostic is a line of the message.
    assert str(said) in str(error).splitlines()
    with pytest.raises(dataclasses.FrozenInstanceError):
        said.layer = "layers.0"


@pytest.mark.parametrize(
    "options, code",
    [
        ({"remat": "ops:te.activation", "vjp": True}, "remat-unknown"),
        ({"memory_budget": 1, "recipe": te_mlir.Float8CurrentScaling()}, "memory-budget"),
        ({"colour": 1}, "pipeline"),
        ({"recipe": "none"}, ""),
    ],
)
def test_codes(options, code):
    error = failure(mlp([64, 64]), **options)
    assert code in [said.code for said in error.diagnostics if said.severity == "error"]


def test_codes_of_programs():
    text = "func.func @mlp(%x: tensor<8xf32>) -> tensor<8xf32> {\n  %y = math.atan %x : tensor<8xf32>\n  return %y : tensor<8xf32>\n}\n"
    said = failure(text).diagnostics[0]
    assert (said.code, said.location, said.layer) == ("no-kernel", "<text>:2:8", "")
    text = text.replace("math.atan %x", "te.softmax_backward %x, %x").replace("<8xf32>", "<8x8xf32>")
    error, note = failure(text, vjp=True).diagnostics
    assert (error.code, note.severity) == ("not-differentiable", "note")
    assert [said.code for said in failure(mlp([8]).to_mlir().replace("@mlp", "@other")).diagnostics] == ["entry"]


def test_an_error_that_no_compiler_gave_has_none():
    with pytest.raises(te_mlir.CompileError) as caught:
        te_mlir.compile(7, "f")
    assert caught.value.diagnostics == ()


def test_errors_are_pickled_with_their_diagnostics():
    error = failure(mlp([64, 24, 64]), recipe=te_mlir.MXFP8BlockScaling(), target="sm_90")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) and copy.diagnostics == error.diagnostics != ()


def test_functions_are_records():
    function = mlp([64, 24, 64]).functions[0]
    assert [op.layer for op in function.layers()] == ["layers.0", "layers.1"]
    first = function.ops[0]
    assert first.name == "te.linear" and first.operands[0].name == "%arg0"
    assert first.results[0].shape == (32, 24)
    assert str(first) in function.to_mlir()


def test_a_layer_gets_a_recipe_of_its_own():
    module = mlp([64, 24, 64])
    text = module.to_mlir()
    for layer in ("layers.0", "layers.1"):
        module.functions[0].set_recipe(layer, te_mlir.HighPrecision())
    assert module.to_mlir().count("te.recipe = #te.recipe<high_precision>") == 2
    assert module.to_mlir().replace(" {te.recipe = #te.recipe<high_precision>}", "") == text
    step = te_mlir.compile(module, "mlp", recipe=te_mlir.Float8CurrentScaling(), context=te_mlir.Context("reference"))
    assert step.inputs == ["x", "w0", "w1"]


def test_an_op_by_text_is_a_record_with_its_name():
    with build.Module().function("f") as f:
        x = f.argument("x", (4, 8), "float32")
        (y,) = f.op(f"math.exp {x.name} : {x.type}", [((4, 8), "float32")], layer="the layer")
    assert f.ops[0].name == "math.exp" and f.ops[0].results == (y,)
    assert str(f.ops[0]) == '%0 = math.exp %arg0 : tensor<4x8xf32> loc("the layer")'


def test_a_layer_added_as_text_takes_no_recipe():
    with build.Module().function("f") as f:
        x = f.argument("x", (4, 8), "float32")
        w = f.argument("w", (8, 8), "float32", weight=True)
        f.op(f"te.linear {x.name}, {w.name} : {x.type}, {w.type} -> {x.type}", [((4, 8), "float32")], layer="a")
    with pytest.raises(ValueError, match="added as text by 'op'"):
        f.set_recipe("a", te_mlir.HighPrecision())
