"""Tests run on the reference backend even if there is a GPU, except for those of torch.autocast, which differs there."""

import pytest

import te_mlir

# Helpers whose assertions say what they compared, as those of tests do.
pytest.register_assert_rewrite("jax_compare", "torch_compare")

RECIPES = {
    "high_precision": te_mlir.HighPrecision(),
    "delayed_scaling": te_mlir.DelayedScaling(amax_history_len=4),
    "float8_current_scaling": te_mlir.Float8CurrentScaling(),
    "float8_block_scaling": te_mlir.Float8BlockScaling(),
    "mxfp8_block_scaling": te_mlir.MXFP8BlockScaling(),
    "nvfp4_block_scaling": te_mlir.NVFP4BlockScaling(),
    "custom": te_mlir.CustomRecipe(
        fprop=te_mlir.Float8CurrentScaling(), dgrad=te_mlir.MXFP8BlockScaling(), wgrad=te_mlir.HighPrecision()
    ),
    "custom_delayed": te_mlir.CustomRecipe(
        fprop=te_mlir.DelayedScaling(amax_history_len=4),
        dgrad=te_mlir.Float8CurrentScaling(),
        wgrad=te_mlir.HighPrecision(),
    ),
}


@pytest.fixture(scope="session")
def reference():
    return te_mlir.context((1, 0))


@pytest.fixture(params=list(RECIPES))
def recipe(request):
    return RECIPES[request.param]
