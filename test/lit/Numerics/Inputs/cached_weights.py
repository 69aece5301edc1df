"""Casts of weights that are cached over micro-batches, with weights that change in every step.

A step that skips casts must use the weights of the last step that did not skip; other steps must cast the current weights. The
expected results are those of one step on these weights without a cache. If the backward reads the weight itself
(high_precision), it reads the current one, so only the forward is compared. With delayed_scaling, a cast depends on earlier
steps; there, the cached casts, their scale and their history must not change.
"""

import numpy as np
from harness import ALL_MODES, expect, expect_same, finish, modes, run, same_bytes
from models import mlp_arrays, mlp_module

FLAGS = np.array([0, 1, 1, 0, 2, 1], np.float32)  # only 1 skips casts
WEIGHTS = ("w1", "w2")
SIZES = (160, 192, 224)
MODULE = mlp_module(SIZES)
STEPS = len(FLAGS)
arrays = mlp_arrays(np.random.default_rng(11), SIZES)
rng = np.random.default_rng(12)
#: The weights of each step are multiplied by different powers of two, so that the scales differ.
weights = {name: np.stack([arrays[name] + np.uint16(step << 7) for step in range(STEPS)]) for name in WEIGHTS}
weights = {name: np.where(arrays[name] == 0, arrays[name], values) for name, values in weights.items()}
cast_at = [max(s for s in range(step + 1) if FLAGS[s] != 1) for step in range(STEPS)]


def cached_run(mode, steps, graph=False):
    feed = {f"{name}.steps": values[:steps] for name, values in weights.items()}
    inputs = {k: v for k, v in arrays.items() if k not in WEIGHTS} | feed | {"skip_weight_update.steps": FLAGS[:steps]}
    return run(MODULE, "mlp", inputs, f"{mode} cache-weights=true", vjp=True, steps=steps, graph=graph)


def kept(results):
    """The cached casts of the weights, by name."""
    return {
        name: array
        for name, array in results.items()
        if name.startswith(tuple(f"{w}.{u}." for w in WEIGHTS for u in ("row", "col")))
    }


for mode in modes(ALL_MODES[1:], turn=2, also=["recipe=float8_block_scaling backward-override=high_precision"]):
    delayed, found = "delayed" in mode, [cached_run(mode, step + 1) for step in range(STEPS)]
    expect(any(name.endswith(".row.data") for name in kept(found[0])), f"{mode}: casts are states")
    for step, results in enumerate(found):
        label = f"{mode}, step {step}"
        if FLAGS[step] == 1:
            before = kept(found[step - 1])
            expect_same(results, before, before, f"{label}: nothing that is kept changes")
            for weight in WEIGHTS if delayed else ():
                states = [name for name in results if name.startswith(f"{weight}.w.")]
                expect(len(states) == 2, f"{label}: '{weight}' has a history and a scale")
                expect_same(results, found[step - 1], states, f"{label}: a skipped weight is not measured")
        elif step:
            # A power of two changes the scales, or the amax.
            for usage in {name.rsplit(".", 1)[0] for name in kept(results)}:
                same = [
                    same_bytes(results[f"{usage}.{part}"], found[step - 1][f"{usage}.{part}"])
                    for part in ("scale", "amax")
                    if f"{usage}.{part}" in results
                ]
                expect(delayed or not all(same), f"{label}: '{usage}' is cast again")
        if not delayed:
            frozen = {name: values[cast_at[step]] for name, values in weights.items()}
            state = (
                {"rng_state": np.array([0, step], np.int32)}
                if "nvfp4 backward-override=none" in mode.replace("_block_scaling", "")
                else {}
            )
            wanted = run(MODULE, "mlp", arrays | frozen | state, mode, vjp=True)
            names = ["y"] if "high_precision" in mode else [name for name in wanted if name != "rng_state"]
            expect_same(results, wanted, names, f"{label}: equals a step on the weights of step {cast_at[step]}")
    expect_same(
        cached_run(mode, STEPS, graph=True),
        found[-1],
        sorted(found[-1]),
        f"{mode}: captured once, replayed with every flag",
    )
finish("cached-weights")
