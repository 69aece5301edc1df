"""Selects the reference backend for all tests, even on a machine with a GPU, except for tests of torch.autocast."""

import collections
import gc
import os

import pytest

# Modules live until the end of the process: the collector need not visit PyTorch, JAX and transformers again and again.
gc.disable()

# XLA compiles the references of JAX, most of which run once: without its optimisations, that takes a fifth of the time.
if os.environ.get("TE_TESTS") != "full":
    quick = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false"
    os.environ["XLA_FLAGS"] = f"{quick} {os.environ.get('XLA_FLAGS', '')}"

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


def pytest_configure(config):
    config.addinivalue_line("markers", "sampled: without TE_TESTS=full, only until each value of each parameter occurs")


def sample(items):
    """A part of the items of one test in which each value of each parameter occurs, as evenly as possible."""
    kept, times = [], collections.Counter()
    values = {item: [(name, repr(value)) for name, value in item.callspec.params.items()] for item in items}
    while items:
        best = min(items, key=lambda item: sorted(times[value] for value in values[item]))
        if all(times[value] for value in values[best]):
            break
        times.update(values[best])
        kept.append(best)
        items = [item for item in items if item is not best]
    return kept


def pytest_collection_modifyitems(config, items):
    """Leaves out combinations of parameters of tests that are marked as sampled, unless tests are chosen by name."""
    by_name = config.getoption("keyword") or any("::" in argument for argument in config.args)
    if os.environ.get("TE_TESTS") == "full" or by_name:
        return
    tests = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            tests.setdefault(item.function, []).append(item)
    left_out = [item for of in tests.values() for item in set(of) - set(sample(of))]
    config.hook.pytest_deselected(items=left_out)
    left_out = set(left_out)
    items[:] = [item for item in items if item not in left_out]


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
