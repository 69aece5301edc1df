"""Delayed scaling of te-run has the bits of the model in test/model in every step.

Fifty steps for every history length, algorithm and margin run twice: as one program with all steps, whose states are results,
and as one step that te-run repeats with its own states. Some matrices are zero, or have infinities and NaN.
"""

import itertools

import numpy as np
from harness import expect, finish
from model_program import Program, compared, scaled_type
from te_model import delayed, tensor_scaling
from te_model.formats import FLT_MAX, FP8, bf16_bits, bf16_values

STEPS, LENGTHS = 50, (1, 8, 1024)
#: (algorithm, margin, element) of the chains that run in parallel.
CHAINS = tuple(
    (algorithm, margin, FP8[element])
    for (algorithm, margin), element in itertools.product(itertools.product(("max", "most_recent"), (0, 2)), FP8)
)
SHAPE, MATRIX = (16, 16), "tensor<16x16xbf16>"


def measured_amaxes(rng):
    """[step, slot]: each slot has another sequence of amaxes."""
    sizes = np.exp2(rng.uniform(-20, 20, (STEPS, 8)))
    sizes[:, 1] *= rng.random(STEPS) < 0.5  # about half of the steps are zero
    sizes[rng.random(STEPS) < 0.1, 2] = np.inf
    sizes[rng.random(STEPS) < 0.2, 3] = np.nan
    sizes[:, 4] = 0
    sizes[:, 5] = 2.0 ** -rng.integers(0, 150, STEPS)  # scales that overflow
    sizes[:, 6] = np.sort(sizes[:, 6])[::-1]  # the largest is the oldest
    sizes[:, 7] = rng.choice([0, np.inf, np.nan, 1, float(FLT_MAX)], STEPS)
    return sizes.astype(np.float32)


def first_history(rng, length, slots):
    """Histories of an earlier run, whose oldest rows leave the window during the test."""
    history = np.exp2(rng.uniform(-20, 20, (length, slots)))
    history[rng.random(history.shape) < 0.01] = np.inf
    history[rng.random(history.shape) < 0.01] = 0
    history[0, : slots // 2] = 0
    return history.astype(np.float32)


def update_text(results, operands, chain, amax_type, history_type):
    algorithm, margin, format = chain
    return (
        f"{results} = te.delayed_scaling_update {operands} for {format.name} {{algorithm = #te.amax_algorithm<{algorithm}>, "
        f"margin = {margin} : i32}} : {amax_type}, {history_type}"
    )


def check_slots(rng, length):
    """Only the update, of 8 slots at once, with given amaxes."""
    amaxes, first = measured_amaxes(rng), first_history(rng, length, 8)
    amax_type, history_type = "tensor<8xf32>", f"tensor<{length}x8xf32>"
    program = Program(f"slots, history {length}")
    program.argument("history", history_type, first)
    program.argument("scale", amax_type, np.exp2(rng.uniform(-9, 9, 8)).astype(np.float32))
    for step in range(STEPS):
        program.argument(f"amax{step}", amax_type, amaxes[step])
    for c, chain in enumerate(CHAINS):
        algorithm, margin, format = chain
        names, history, scale = ("%history", "%scale"), first, program.arrays["scale"]
        for step in range(STEPS):
            history, scale = delayed.update(amaxes[step], history, scale, format.max, algorithm, margin)
            new = (f"history{c}_{step}", f"scale{c}_{step}")
            program.op(
                update_text(
                    f"%{new[0]}, %{new[1]}", f"%amax{step}, {names[0]}, {names[1]}", chain, amax_type, history_type
                )
            )
            program.result(new[0], history_type, history)
            program.result(new[1], amax_type, scale)
            names = ("%" + new[0], "%" + new[1])
    program.check()


def matrices(rng):
    """[step, rows, columns]: bf16 matrices whose amax varies; some are zero or NaN."""
    x = rng.normal(size=(STEPS, *SHAPE)) * np.exp2(rng.integers(-6, 7, (STEPS, 1, 1)))
    for kind, share in ((np.inf, 0.06), (-np.inf, 0.04), (np.nan, 0.2)):
        for step in np.flatnonzero(rng.random(STEPS) < share):
            x[step, rng.integers(16), rng.integers(16)] = kind
    x[rng.random(STEPS) < 0.1] = 0
    x[rng.integers(10, 40)] = np.nan
    x[rng.integers(10, 40)] = 2.0**-130
    return bf16_bits(x)


def expected(x, length):
    """For every chain: (casts, histories, scales, amaxes) of every step."""
    runs = []
    for algorithm, margin, format in CHAINS:
        history, scale, run = np.zeros(length, np.float32), np.float32(1), []
        for bits in x:
            values = bf16_values(bits)
            q, amax = tensor_scaling.quantize(values, format, 1, scale), tensor_scaling.amax(values)
            history, scale = delayed.update(amax, history, scale, format.max, algorithm, margin)
            run.append((q, history, scale, amax))
        runs.append(run)
    return runs


def step_text(program, c, x, scale, history, new):
    """One step of chain `c`: the cast with the current scale, and the next state."""
    history_type = program.history_type
    type = scaled_type(SHAPE, CHAINS[c][2].name, "per_tensor", "", 1)
    program.op(f"%q{new}, %amax{new} = te.quantize {x} scale {scale} : {MATRIX} -> {type} amax tensor<f32>")
    program.op(
        update_text(
            f"%history{new}, %scale{new}", f"%amax{new}, {history}, {scale}", CHAINS[c], "tensor<f32>", history_type
        )
    )
    return type


def check_casts(rng, length):
    """Casts and updates: as one program, then repeated by te-run, with and without a captured graph."""
    x = matrices(rng)
    runs, history_type = expected(x, length), f"tensor<{length}xf32>"
    program = Program(f"casts, history {length}")
    program.history_type = history_type
    program.argument("one", "tensor<f32>", np.float32(1))
    program.argument("zeros", history_type, np.zeros(length, np.float32))
    for step in range(STEPS):
        program.argument(f"x{step}", MATRIX, x[step])
    for c, run in enumerate(runs):
        history, scale = "%zeros", "%one"
        for step, (q, new_history, new_scale, amax) in enumerate(run):
            new = f"{c}_{step}"
            type = step_text(program, c, f"%x{step}", scale, history, new)
            history, scale = f"%history{new}", f"%scale{new}"
            for name, result_type, value in (
                ("q", type, q),
                ("amax", "tensor<f32>", amax),
                ("history", history_type, new_history),
                ("scale", "tensor<f32>", new_scale),
            ):
                program.result(name + new, result_type, value)
    program.check()

    program = Program(f"repeated step, history {length}")
    program.history_type = history_type
    program.argument("x", MATRIX, x[0])
    program.arrays = {"x.steps": x}
    for c, run in enumerate(runs):
        program.argument(f"history{c}", history_type, np.zeros(length, np.float32))
        program.argument(f"scale{c}", "tensor<f32>", np.float32(1))
        type = step_text(program, c, "%x", f"%scale{c}", f"%history{c}", f"{c}_new")
        q, history, scale, amax = run[-1]
        for name, result_type, value in (
            ("q", type, q),
            ("amax", "tensor<f32>", amax),
            ("history", history_type, history),
            ("scale", "tensor<f32>", scale),
        ):
            program.result(f"{name}{c}", result_type, value, of=f"{name}{c}_new")
        # A state is written once, at the end; another result is written in every step.
        program.result(f"seen{c}", "tensor<f32>", scale, of=f"scale{c}_new")
        program.wanted[f"seen{c}.steps"] = np.array([step[2] for step in run], np.float32)
        program.wanted[f"amax{c}.steps"] = np.array([step[3] for step in run], np.float32)
    for graph in (False, True):
        program.check(steps=STEPS, graph=graph)
    scales = {float(step[2]) for run in runs for step in run}
    expect(len(scales) > 20, f"history {length}: the scales move, {len(scales)} values")


rng = np.random.default_rng(23)
for length in LENGTHS:
    check_slots(rng, length)
    check_casts(rng, length)
print(f"model-delayed: {compared['elements']} elements compared")
finish("model-delayed")
