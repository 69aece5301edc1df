"""docs/examples/micro_batches.mlir: four micro-batches and one update in one program, with every recipe.

The expected parameters, moments and norm come from two other programs: one computes the gradient of each micro-batch, which the test
adds in f32, and one updates with the sum, and has no flag. In the other micro-batches, no bit of a parameter, a moment or the number
of updates changes, and the norm is 0. Last, the flag of each update and sum of squares is removed in turn: te-verify-capture refuses
that, and without a flag of an update, or of the last sum, results differ.
"""

import subprocess

import numpy as np
from harness import INPUTS, compile_to, expect, expect_same, finish, modes, run, same_bytes

MODULE = INPUTS.parents[3] / "docs" / "examples" / "micro_batches.mlir"
BATCHES, UPDATES, T, WORDS = 4, 2, 64, 256
STEPS = BATCHES * UPDATES
SHAPES = {"table": (WORDS, 64), "gain": (64,), "up": (256, 64), "down": (64, 128), "head": (WORDS, 64)}
rng = np.random.default_rng(5)
feed = {
    "ids": rng.integers(0, WORDS, (STEPS, T)).astype(np.int32),
    "targets": rng.integers(0, WORDS, (STEPS, T)).astype(np.int32),
}
flags = {
    "skip_weight_update": np.array([0, 1, 1, 1] * UPDATES, np.float32),
    "skip_optimizer": np.array([1, 1, 1, 0] * UPDATES, np.float32),
}
weights = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in SHAPES.items()}
weights["gain"] = weights["gain"] + np.float32(1)
#: The same file with the loss as an entry.
LOSS = MODULE.read_text().replace("func.func private @loss", "func.func @loss")
STATES = [f"{name}{suffix}" for name in SHAPES for suffix in ("", ".m", ".v")]


def update_module():
    """One update by the gradients `grad.<weight>`, which are arguments."""
    types = {name: f"tensor<{'x'.join(map(str, shape))}xf32>" for name, shape in SHAPES.items()}
    arguments = ['%t: tensor<f32> {te.name = "updates"}']
    lines, results, returned = [], ['tensor<f32> {te.name = "norm"}'], ["%norm"]
    kinds = ["tensor<f32>"]
    for name, type in types.items():
        for value in ("", ".m", ".v"):
            arguments.append(f'%{name}{value.replace(".", "_")}: {type} {{te.name = "{name}{value}"}}')
            results.append(f'{type} {{te.name = "{name}{value}"}}')
            returned.append(f"%{name}{value.replace('.', '_')}_next")
            kinds.append(type)
        arguments.append(f'%{name}_grad: {type} {{te.name = "grad.{name}"}}')
    grads = ", ".join(f"%{name}_grad" for name in types)
    lines.append(f"%squares = te.sum_of_squares {grads} : {', '.join(types.values())}")
    lines.append("%norm, %factor = te.clip_factor %squares {max_norm = 1.0 : f32}")
    lines.append("%lr = arith.constant dense<0.01> : tensor<f32>")
    for name, type in types.items():
        lines.append(
            f"%{name}_next, %{name}_m_next, %{name}_v_next = te.adamw %{name}, %{name}_grad, %{name}_m, %{name}_v "
            f"lr %lr step %t grad_scale %factor : {type}, {type}"
        )
    body = "\n  ".join([*lines, f"return {', '.join(returned)} : {', '.join(kinds)}"])
    return f"func.func @update({', '.join(arguments)}) -> ({', '.join(results)}) {{\n  {body}\n}}"


UPDATE = update_module()


def micro_batches(mode, steps, graph=False, module=MODULE):
    arrays = {f"{name}.steps": value[:steps] for name, value in (feed | flags).items()}
    return run(module, "step", arrays | weights, mode, steps=steps, graph=graph)


def alone(mode, step, states):
    """The gradients of micro-batch `step`, and the next states of the recipe."""
    arrays = {name: value[step] for name, value in feed.items()} | {"grad.loss": np.float32(1 / BATCHES)}
    options = f"{mode} main-grad=true"
    if "delayed" in mode:
        # The history of a weight has no amax of micro-batches that do not cast it.
        options += " cache-weights=true"
        arrays |= {f"grad.{name}": np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
        arrays["skip_weight_update"] = flags["skip_weight_update"][step]
    return run(LOSS, "loss", arrays | states, options, vjp=True)


def expected(mode):
    """What each step leaves, from programs without flags."""
    states = {name: np.zeros(SHAPES[name.split(".")[0]], np.float32) for name in STATES} | weights
    recipe, found = {}, []
    for update in range(UPDATES):
        sums = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
        for batch in range(BATCHES):
            results = alone(mode, update * BATCHES + batch, {name: states[name] for name in SHAPES} | recipe)
            recipe = {
                name: value
                for name, value in results.items()
                if name not in SHAPES
                and name != "loss"
                and not name.startswith("grad.")
                and not name.endswith(".steps")
            }
            sums = {name: value + results[f"grad.{name}"] for name, value in sums.items()}
            norm, updates = np.float32(0), np.float32(update)
            if batch == BATCHES - 1:
                updates = np.float32(update + 1)
                given = {f"grad.{name}": value for name, value in sums.items()} | {"updates": updates}
                after = run(UPDATE, "update", given | states, "")
                states, norm = {name: after[name] for name in STATES}, after["norm"]
            found.append(
                states
                | {f"grad.{name}": value for name, value in sums.items()}
                | {"loss": results["loss"], "norm": norm, "updates": updates}
            )
    return found


def drop_flag(text, index):
    """The verified program without one of its flags."""
    command = ["te-opt-test", "-", f"--pass-pipeline=builtin.module(func.func(test-drop-skip-flag{{index={index}}}))"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def refusal(text):
    done = subprocess.run(["te-opt", "-", "--te-verify-capture"], input=text, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


for mode in modes(turn=1):
    options = f"{mode} cache-weights=true main-grad=true"
    wanted = expected(mode)
    for step in range(STEPS):
        claim = f"{mode}, step {step}"
        results = micro_batches(options, step + 1)
        expect_same(results, wanted[step], sorted(wanted[step]), claim)
    expect(not same_bytes(wanted[-1]["up"], wanted[BATCHES - 1]["up"]), f"{mode}: updates change a parameter")
    recorded = micro_batches(options, STEPS, graph=True)
    expect_same(recorded, results, sorted(results), f"{mode}: recorded once, replayed with every flag")
    if mode not in ("recipe=high_precision", "recipe=float8_block_scaling backward-override=none"):
        continue

    # The last step of this run is the first micro-batch of the second update.
    good = micro_batches(options, BATCHES + 1)
    verified = drop_flag(compile_to(MODULE, "quantize", options), -1)
    same = micro_batches("", BATCHES + 1, module=verified, graph=True)
    expect_same(same, good, sorted(good), f"{mode}: the verified program, with every flag")
    expect(not refusal(verified), f"{mode}: the verified program is verified again")
    index = dropped = 0
    while (broken := drop_flag(verified, index)) != verified:
        index += 1
        gone = set(verified.splitlines()) - set(broken.splitlines())
        if not any("te.adamw" in line or "te.sum_of_squares" in line for line in gone):
            continue
        dropped += 1
        expect("skip flag" in refusal(broken), f"{mode}: te-verify-capture refuses the program without flag {index}")
        bad = micro_batches("capture=false", BATCHES + 1, module=broken, graph=True)
        wrong = [name for name in good if not same_bytes(bad[name], good[name])]
        claim = f"{mode}: without flag {index} a parameter or the norm is wrong, but only {wrong}"
        expect("norm" in wrong or set(wrong) & set(SHAPES), claim)
    expect(dropped == len(SHAPES) + 1, f"{mode}: each update and the sum of squares have a flag, {dropped}")
finish("micro-batches")
