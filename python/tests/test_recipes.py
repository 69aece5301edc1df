"""Recipes: TransformerEngine's names and defaults, and the compiler's parsing of them."""

import dataclasses
import subprocess
import sys

import pytest

import te_mlir

LINEAR = """
func.func @linear(%x: tensor<64x64xbf16> {te.name = "x"}, %w: tensor<64x64xbf16> {te.name = "w", te.weight})
    -> (tensor<64x64xbf16> {te.name = "y"}) {
  %y = te.linear %x, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  return %y : tensor<64x64xbf16>
}
"""


def test_compiler_reads_every_recipe(recipe, reference):
    step = te_mlir.compile(LINEAR, "linear", recipe=recipe, context=reference, vjp=True)
    assert step.program.recipe.startswith(f"#te.recipe<{recipe.kind()}")


def test_defaults_are_those_of_the_dialect(reference):
    # Options with their default value are not printed, so the text lists the options that differ.
    for recipe in (
        te_mlir.DelayedScaling(),
        te_mlir.Float8CurrentScaling(),
        te_mlir.Float8BlockScaling(),
        te_mlir.MXFP8BlockScaling(),
        te_mlir.NVFP4BlockScaling(),
    ):
        step = te_mlir.compile(LINEAR, "linear", recipe=recipe, context=reference)
        assert step.program.recipe == f"#te.recipe<{recipe.kind()}>"


def test_options_arrive(reference):
    recipe = te_mlir.NVFP4BlockScaling(
        disable_rht=True,
        disable_stochastic_rounding=True,
        disable_2d_quantization=True,
        nvfp4_4over6="weights",
        nvfp4_4over6_err_mode="MSE",
        backward_override="dequantized",
    )
    step = te_mlir.compile(LINEAR, "linear", recipe=recipe, context=reference)
    for option in (
        "hadamard = false",
        "stochastic_rounding = false",
        "w_2d = false",
        "four_over_six = weights",
        "four_over_six_error = mse",
        "backward_override = dequantized",
    ):
        assert option in step.program.recipe
    epsilon = te_mlir.Float8CurrentScaling(amax_epsilon=1e-12, use_power_2_scales=True)
    text = te_mlir.compile(LINEAR, "linear", recipe=epsilon, context=reference).program.recipe
    assert "pow2_scales = true" in text and "amax_epsilon = " in text


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: te_mlir.DelayedScaling(backward_override="dequantized"), "'backward_override'"),
        (lambda: te_mlir.DelayedScaling(amax_compute_algo="mean"), "'amax_compute_algo' to be one of 'max'"),
        (lambda: te_mlir.DelayedScaling(fp8_dpa=True), "'fp8_dpa' to be False"),
        (lambda: te_mlir.Float8BlockScaling(x_block_scaling_dim=2), "(2, 2, 1)"),
        (lambda: te_mlir.Float8BlockScaling(fp8_gemm_fprop=te_mlir.MMParams(False)), "'fp8_gemm_fprop'"),
        (lambda: te_mlir.Float8CurrentScaling(fp8_format="e4m3"), "'fp8_format'"),
        (lambda: te_mlir.MXFP8BlockScaling(margin=1), "'margin' to be 0"),
        (lambda: te_mlir.NVFP4BlockScaling(nvfp4_4over6="some"), "'nvfp4_4over6'"),
        (lambda: te_mlir.CustomRecipe(fprop=te_mlir.CustomRecipe()), "a recipe that is not custom itself"),
    ],
)
def test_what_is_not_there_is_refused(make, said):
    with pytest.raises(ValueError) as caught:
        make()
    assert said in str(caught.value)


def test_recipes_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        te_mlir.DelayedScaling().margin = 1


def test_environment_override_is_the_default_and_said_once():
    program = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import te_mlir
    a, b = te_mlir.Float8CurrentScaling(), te_mlir.MXFP8BlockScaling()
    c = te_mlir.Float8CurrentScaling(backward_override=None)
print(a.backward_override, b.backward_override, c.backward_override, len(said), said[0].message)
"""
    import os

    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NVTE_BACKWARD_OVERRIDE": "dequantized"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith("dequantized dequantized None 1 NVTE_BACKWARD_OVERRIDE=dequantized")
