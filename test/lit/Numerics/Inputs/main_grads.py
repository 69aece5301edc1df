"""docs/examples/moe.mlir trained over micro-batches: one flag for main_grad and cached casts, with every recipe.

There are two groups of micro-batches, and the flag is 1 in all but the first of each. The expected summand of a step is the gradient
of one step without caches and earlier sums; the test adds the summands in f32. The same is tested with master weights that change
in every micro-batch, which must have no effect before the next group. Last, each flag in turn is removed from the verified program,
and the results must then differ: this was the bug of TransformerEngine issue 3051.
"""

import subprocess

import numpy as np
from harness import INPUTS, compile_to, expect, expect_same, finish, modes, run, same_bytes, to_bf16

MODULE = INPUTS.parents[3] / "docs" / "examples" / "moe.mlir"
T, C, E = 64, 64, 8
FLAGS = np.array([0, 1, 1, 0, 2, 1], np.float32)  # only 1 adds to the sums
STEPS = len(FLAGS)
GROUP = np.array([max(s for s in range(step + 1) if FLAGS[s] != 1) for step in range(STEPS)])
EXPERTS = {"up": (E, 2 * C, C), "down": (E, C, C), "shared_up": (2 * C, C), "shared_down": (C, C)}
WEIGHTS = ("router", *EXPERTS)
rng = np.random.default_rng(3)


def draw(*shape, scale=1.0):
    return to_bf16(rng.normal(0, scale, shape))


base = {name: draw(*shape, scale=0.15) for name, shape in EXPERTS.items()}
feed = {
    "x": draw(STEPS, T, C),
    "grad.y": draw(STEPS, T, C, scale=0.1),
    "router": np.stack([draw(E, C, scale=0.5)] * STEPS),
}
# The weights are multiplied by different powers of two, so that the scales differ.
moving = {
    name: np.where(value == 0, value, value + (np.arange(STEPS, dtype=np.uint16) << 7).reshape(-1, *[1] * value.ndim))
    for name, value in base.items()
}
trained = {name: value[GROUP] for name, value in moving.items()}
#: The values before the first step do not matter.
GARBAGE = {f"grad.{name}": np.full(shape, np.nan, np.float32) for name, shape in (EXPERTS | {"router": (E, C)}).items()}


def micro_batches(mode, weights, steps, graph=False, module=MODULE, vjp=True):
    arrays = {
        f"{name}.steps": value[:steps] for name, value in (feed | weights | {"skip_weight_update": FLAGS}).items()
    }
    return run(module, "moe", arrays | GARBAGE, mode, vjp=vjp, steps=steps, graph=graph)


def alone(mode, weights, step, state):
    """The summand of micro-batch `step`."""
    arrays = {name: value[step] for name, value in (feed | weights).items()}
    return run(MODULE, "moe", arrays | state, f"{mode} main-grad=true", vjp=True)


def random_state(mode, step):
    return {"rng_state": np.array([0, step], np.int32)} if "nvfp4" in mode and "=none" in mode else {}


def check(mode, weights, frozen, label):
    """Every micro-batch of `weights` runs with `frozen`, and gradients are added.

    Returns the results of the last one.
    """
    found = [micro_batches(f"{mode} cache-weights=true main-grad=true", weights, step + 1) for step in range(STEPS)]
    for step, results in enumerate(found):
        if "delayed" in mode:
            # A step depends on earlier ones: pass all of their states except the sum.
            states = (
                {name: value for name, value in found[step - 1].items() if "." in name and "grad." not in name}
                if step
                else {}
            )
            arrays = {name: value[step] for name, value in (feed | weights | {"skip_weight_update": FLAGS}).items()}
            zeros = {name: np.zeros_like(value) for name, value in GARBAGE.items()}
            wanted = run(MODULE, "moe", arrays | states | zeros, f"{mode} cache-weights=true main-grad=true", vjp=True)
        else:
            wanted = alone(mode, frozen, step, random_state(mode, step))
        claim = f"{mode}, {label}, step {step}"
        expect_same(results, wanted, ("y", "grad.x"), claim)
        for name in WEIGHTS:
            part = wanted[f"grad.{name}"]
            # A sum starts at +0.
            before = found[step - 1][f"grad.{name}"] if FLAGS[step] == 1 else np.zeros_like(part)
            expect(part.dtype == np.float32 and part.any(), f"{claim}: there is a gradient of '{name}'")
            expect(same_bytes(results[f"grad.{name}"], before + part), f"{claim}: 'grad.{name}' is the sum in f32")
    recorded = micro_batches(f"{mode} cache-weights=true main-grad=true", weights, STEPS, graph=True)
    expect_same(recorded, found[-1], sorted(found[-1]), f"{mode}, {label}: recorded once, replayed with every flag")
    return found[-1]


def drop_flag(text, index):
    """The verified program without one of its flags."""
    done = subprocess.run(
        ["te-opt-test", "-", f"--pass-pipeline=builtin.module(func.func(test-drop-skip-flag{{index={index}}}))"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def is_refused(text):
    done = subprocess.run(["te-opt", "-", "--te-verify-capture"], input=text, capture_output=True, text=True)
    return done.returncode != 0 and ("skip flag" in done.stderr or "te.zero_unless" in done.stderr)


# Four recipes are checked without each of their flags. If the backward reads the weights, only casts of the forward are kept.
for mode in modes(turn=1, also=["recipe=float8_block_scaling backward-override=high_precision"]):
    check(mode, trained, trained, "trained")
    plain = run(MODULE, "moe", {name: value[1] for name, value in (feed | trained).items()}, mode, vjp=True)
    wide = alone(mode, trained, 1, {})
    for name in WEIGHTS:
        expect(
            same_bytes(plain[f"grad.{name}"], to_bf16(wide[f"grad.{name}"])),
            f"{mode}: 'grad.{name}' is not rounded before it is added",
        )
    if mode == "recipe=high_precision" or "delayed" in mode or "=high_precision" in mode:
        continue
    good = check(mode, moving, {name: value[GROUP] for name, value in moving.items()}, "masters move")

    verified = drop_flag(compile_to(MODULE, "quantize", f"{mode} vjp=moe cache-weights=true main-grad=true"), -1)
    target = next((word for word in mode.split() if word in ("target=reference", "emulate=true")), "")
    same = micro_batches(target, moving, STEPS, module=verified, vjp=False, graph=True)
    expect_same(same, good, sorted(good), f"{mode}: the verified program, with every flag")
    expect(not is_refused(verified), f"{mode}: the verified program is verified again")
    flags = verified.count(" unless %") + verified.count("te.zero_unless ")
    casts = verified.count("te.zero_unless ")
    expect(casts == len(WEIGHTS), f"{mode}: there is a flag for every gradient")
    index = 0
    while (broken := drop_flag(verified, index)) != verified:
        expect(is_refused(broken), f"{mode}: te-verify-capture refuses the program without flag {index}")
        # In this case, the flag has no effect.
        bad = micro_batches(f"{target} capture=false", moving, STEPS, module=broken, vjp=False, graph=True)
        wrong = [name for name in good if not same_bytes(bad[name], good[name])]
        expect(
            any(name.startswith("grad.") for name in wrong),
            f"{mode}: without flag {index} a gradient is wrong, but only {wrong}",
        )
        index += 1
    expect(index > len(WEIGHTS), f"{mode}: flags of casts were dropped too, {index} of {flags}")
finish("main-grads")
