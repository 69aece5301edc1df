"""Recomputing values instead of saving them changes no bit of any result, and reduces the memory of saved values.

The gradients of a block and of a decoder layer, and three steps of two models, are computed under every recipe and override, with
every policy of `remat`. The test checks that the programs differ: a norm, an activation or a GEMM is repeated, and no amax is
measured again. In the memory plan, a policy must reduce the bytes of saved values, and `everything` must reduce the arena.
"""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
from harness import FOLDER, INPUTS, MODES, compile_to, expect, expect_same, finish, modes, normal, run
from models import mlp_arrays, train_arrays


def with_one_entry(path):
    """A copy of a module whose only public function is the step."""
    copy = FOLDER / f"{path.parent.name}-{path.name}"
    copy.write_text(path.read_text().replace("func.func @loss", "func.func private @loss"))
    return copy


MLP, STEPS = INPUTS / "mlp.mlir", 3
LLAMA = pathlib.Path(sys.argv[3])
TRAIN, BYTE_LM = with_one_entry(INPUTS / "train.mlir"), with_one_entry(pathlib.Path(sys.argv[2]))
#: The ops that each policy repeats, and the most bytes of train.mlir that its budget permits to save.
POLICIES = {
    "everything": {"rms_norm", "activation", "matmul"},
    "ops:rms_norm,activation": {"rms_norm", "activation"},
    "ops:linear": {"matmul"},
    "budget:9000": set(),
}
VARIANTS = ("fuse=false", "transpose-policy=eager")


def plan(module, mode):
    """(Arena, bytes saved for the backward) of the step in `module`."""
    report = subprocess.run(
        ["te-opt", str(module), f"--te-training-pipeline={mode}", "--te-report=memory", "--te-report-format=json"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (step,) = json.loads(report)["memory"]
    return step["arena_bytes"], step["totals"].get("residual", 0)


def counts(module, mode):
    """The number of ops of each kind in the step after the quantise phase."""
    step = compile_to(module, "quantize", mode).rsplit("func.func", 1)[1]
    kinds = {
        "matmul": r"te\.(scaled_)?matmul",
        "activation": r"te\.activation ",
        "rms_norm": r"te\.rms_norm ",
        "loss": r"te\.cross_entropy ",
        "amax": r"te\.amax ",
        "scale": r"te\.compute_scale ",
        "update": r"te\.delayed_scaling_update ",
        "rng": r"te\.rng_advance ",
    }
    return {kind: len(re.findall(pattern, step)) for kind, pattern in kinds.items()}


def language_model(rng):
    """The initial states and batches of byte_lm, from the types of its arguments."""
    text = BYTE_LM.read_text()
    arrays = {}
    types = dict(re.findall(r"^!(\w+) = tensor<([\dx]+)xf32>", text, re.M))
    for type, name in re.findall(r"%\w+: !(\w+) \{te.name = \"([\w.]+)\"", text[text.index("@train_step") :]):
        shape = tuple(map(int, types[type].split("x")))
        draw = np.ones(shape) if "gamma" in name else rng.normal(0, 1 / 16, shape)
        arrays[name] = (np.zeros(shape) if name.endswith((".m", ".v")) else draw).astype(np.float32)
    return arrays | {
        "context.steps": rng.integers(0, 256, (STEPS, 2048), np.int32),
        "targets.steps": rng.integers(0, 256, (STEPS, 256), np.int32),
        "lr.steps": np.full(STEPS, 0.01, np.float32),
        "step.steps": np.arange(1, STEPS + 1, dtype=np.float32),
    }


def decoder_layer(rng):
    """The arguments of llama_layer, from their types. Cotangents of its results are ones."""
    shapes = re.findall(r'tensor<([\dx]+)x(bf16|f32|i32)> \{te.name = "(\w+)"', LLAMA.read_text().split("->")[0])
    arrays = {}
    for text, element, name in shapes:
        shape = tuple(map(int, text.split("x")))
        arrays[name] = (
            normal(rng, *shape, scale=1 / 16)
            if element == "bf16"
            else rng.integers(0, 384, shape, np.int32)
            if element == "i32"
            else rng.normal(0, 1, shape).astype(np.float32)
        )
    return arrays


mlp = mlp_arrays(np.random.default_rng(7))
state, feed = train_arrays(np.random.default_rng(8))
train = state | {name: values[:STEPS] for name, values in feed.items()}
text = language_model(np.random.default_rng(9))

for mode in modes():
    held, had = run(TRAIN, "step", train, mode, steps=STEPS), counts(TRAIN, mode)
    _, most = plan(TRAIN, mode)
    for policy, repeated in POLICIES.items():
        has = counts(TRAIN, f"{mode} remat={policy}")
        for kind in repeated:
            expect(has[kind] > had[kind], f"{mode}, {policy}: '{kind}' is repeated")
        for kind in ("amax", "scale", "update", "rng"):
            expect(has[kind] == had[kind], f"{mode}, {policy}: '{kind}' is not repeated")
        expect(plan(TRAIN, f"{mode} remat={policy}")[1] < most, f"{mode}, {policy}: less is held")
        expect_same(
            run(TRAIN, "step", train, f"{mode} remat={policy}", steps=STEPS),
            held,
            sorted(held),
            f"{mode}, {policy}: training",
        )
    for variant in VARIANTS:
        found = run(TRAIN, "step", train, f"{mode} {variant} remat=everything", steps=STEPS)
        expect_same(found, held, sorted(held), f"{mode}, {variant}: training")
for mode in modes(MODES, turn=1):
    held = run(MLP, "mlp", mlp, mode, vjp=True)
    for policy in ("everything", "ops:activation"):
        found = run(MLP, "mlp", mlp, f"{mode} remat={policy}", vjp=True)
        expect_same(found, held, sorted(held), f"{mode}, {policy}: gradients")
for mode in modes(turn=2):
    held = run(BYTE_LM, "train_step", text, mode, steps=STEPS)
    expect(np.isfinite(held["loss"]).all(), f"{mode}: the loss is finite")
    for policy in ("everything", "budget:800000"):
        found = run(BYTE_LM, "train_step", text, f"{mode} remat={policy}", steps=STEPS)
        expect_same(found, held, sorted(held), f"{mode}, {policy}: the language model")
# The logits of 128 of 256 rows are stored at a time, and are not computed again.
for mode in modes(turn=1):
    by_rows = f"{mode} logits-budget=70000"
    held, had = run(BYTE_LM, "train_step", text, by_rows, steps=STEPS), counts(BYTE_LM, by_rows)
    found = run(BYTE_LM, "train_step", text, f"{by_rows} remat=everything", steps=STEPS)
    expect_same(found, held, sorted(held), f"{mode}, everything: a loss by rows")
    has = counts(BYTE_LM, f"{by_rows} remat=everything")
    expect(has["loss"] == had["loss"], f"{mode}: the loss is not repeated")
layer = decoder_layer(np.random.default_rng(10))
for mode in modes(turn=2):
    held = run(LLAMA, "layer", layer, mode, vjp=True)
    expect(np.isfinite(held["loss"]).all(), f"{mode}: the layer's loss is finite")
    for policy in ("everything", "ops:attention,rope"):
        found = run(LLAMA, "layer", layer, f"{mode} remat={policy}", vjp=True)
        expect_same(found, held, sorted(held), f"{mode}, {policy}: the decoder layer")
finish("remat-is-exact")
