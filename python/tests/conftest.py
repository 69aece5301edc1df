"""Selects the reference backend for all tests, even on a machine with a GPU, except for tests of torch.autocast."""

import gc

import pytest

# Modules live until the end of the process: the collector need not visit PyTorch, JAX and transformers again and again.
gc.disable()

import te_mlir

# Rewrite the assertions of these helpers, so that failures print the compared values.
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


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def reference():
    return te_mlir.context((1, 0))


@pytest.fixture(params=list(RECIPES))
def recipe(request):
    return RECIPES[request.param]
