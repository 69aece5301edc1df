"""The recipe delayed_scaling of te-run has the bits of the model in test/model, in every state and GEMM.

Elements have few bits and are multiplied by a power of two that changes in each step, and every matrix has a 7. Scales are
therefore powers of two and sums are exact, so GEMMs have one correct result. It differs from that of current scaling in every step
whose matrix is larger than the earlier ones.

A calibration updates the same states, with GEMMs of the tensors that would be cast. Its states are inputs of a quantised run.
"""

import numpy as np
from harness import expect, finish, run
from te_model import delayed, tensor_scaling
from te_model.formats import FP8, bf16_bits, bf16_values

STEPS, M, N, K = 6, 32, 48, 16
E4M3, E5M2 = FP8["f8E4M3FN"], FP8["f8E5M2"]
#: Exponents by step. They decrease below the largest of the window, and increase above all earlier ones.
EXPONENTS = {"x": (-3, 2, -1, 4, 0, 1), "w": (-5, -5, 1, -4, -6, 3), "grad.y": (-8, -2, -2, 3, -9, 0)}
SHAPES = {"x": (M, K), "w": (N, K), "grad.y": (M, N)}
SLOTS = {"x": ("w.x", E4M3), "w": ("w.w", E4M3), "grad.y": ("w.dy", E5M2)}
MODULE = f"""func.func @layer(%x: tensor<{M}x{K}xbf16> {{te.name = "x"}}, %w: tensor<{N}x{K}xbf16> {{te.name = "w", te.weight}})
    -> (tensor<{M}x{N}xbf16> {{te.name = "y"}}) attributes {{te.recipe = #te.recipe<delayed_scaling, {{OPTIONS}}>}} {{
  %y = te.linear %x, %w : tensor<{M}x{K}xbf16>, tensor<{N}x{K}xbf16> -> tensor<{M}x{N}xbf16>
  return %y : tensor<{M}x{N}xbf16>
}}
"""


def matrices(rng, name):
    # Both formats represent these exactly, multiplied by any power of two near 1.
    x = rng.choice([0, 1, 2, 3, 4, 6, 7, -1, -2, -3, -4, -6, -7], (STEPS, *SHAPES[name]))
    x[:, 0, 0] = 7
    x = x * np.exp2(EXPONENTS[name])[:, None, None]
    if name == "x":
        x[4] = 0  # its amax is 0, so its state does not change
    return bf16_bits(x.astype(np.float32))


def model(inputs, length, algorithm, margin, calibrated=0):
    """For each step, the next state and the results. The first steps only calibrate."""
    state = {name: (np.zeros(length, np.float32), np.float32(1)) for name in SLOTS}
    for step in range(STEPS):
        wanted, read = {}, {}
        for name, (slot, format) in SLOTS.items():
            history, scale = state[name]
            values = bf16_values(inputs[name][step])
            q = tensor_scaling.quantize(values, format, 1, scale)
            read[name] = (values if step < calibrated else tensor_scaling.dequantize(q, format, 1)).astype(np.float64)
            state[name] = delayed.update(tensor_scaling.amax(values), history, scale, format.max, algorithm, margin)
            wanted[f"{slot}.amax_history"], wanted[f"{slot}.scale"] = state[name]
        for name, product in (
            ("y", read["x"] @ read["w"].T),
            ("grad.x", read["grad.y"] @ read["w"]),
            ("grad.w", read["grad.y"].T @ read["x"]),
        ):
            expect((product == product.astype(np.float32)).all(), f"step {step}: '{name}' is exact")
            wanted[name] = bf16_bits(product.astype(np.float32))
        yield wanted


def check(inputs, length, algorithm, margin):
    options = f"amax_history_len = {length}, amax_compute_algo = {algorithm}, margin = {margin}"
    module = MODULE.replace("OPTIONS", options)
    resumed = {}
    for step, wanted in enumerate(model(inputs, length, algorithm, margin)):
        arrays = {f"{name}.steps": values[: step + 1] for name, values in inputs.items()}
        claim = f"{options}, {step + 1} steps"
        for graph in (False, True):
            compare(run(module, "layer", arrays, vjp=True, steps=step + 1, graph=graph), wanted, claim)
        # One step from the state of the previous step, which is passed as arrays.
        arrays = {name: values[step] for name, values in inputs.items()}
        found = run(module, "layer", {**arrays, **resumed}, vjp=True)
        compare(found, wanted, f"{claim}, resumed")
        resumed = {name: array for name, array in found.items() if name.endswith((".amax_history", ".scale"))}


def check_calibration(inputs, length, algorithm, margin):
    options = f"amax_history_len = {length}, amax_compute_algo = {algorithm}, margin = {margin}"
    module, differ = MODULE.replace("OPTIONS", options), 0
    for calibrated in range(1, STEPS):
        wanted = list(model(inputs, length, algorithm, margin, calibrated))
        claim = f"{options}, {calibrated} steps of calibration"
        arrays = {f"{name}.steps": values[:calibrated] for name, values in inputs.items()}
        found = run(module, "layer", arrays, pipeline="calibrate", vjp=True, steps=calibrated)
        compare(found, wanted[calibrated - 1], claim)
        # The names are those of the quantised step's arguments.
        arrays = {f"{name}.steps": values[calibrated:] for name, values in inputs.items()}
        arrays |= {name: array for name, array in found.items() if name.endswith((".amax_history", ".scale"))}
        found = run(module, "layer", arrays, vjp=True, steps=STEPS - calibrated)
        compare(found, wanted[-1], f"{claim}, then quantised")
        quantised = list(model(inputs, length, algorithm, margin))[calibrated - 1]
        differ += any((wanted[calibrated - 1][name] != quantised[name]).any() for name in ("y", "grad.x", "grad.w"))
    expect(differ >= 2, f"{options}: casts would have changed the products of a calibration, {differ} times")


def compare(found, wanted, claim):
    expect(found.keys() == wanted.keys(), f"{claim}: results are {sorted(found)}")
    for name, array in wanted.items():
        array = np.asarray(array)
        expect(found[name].dtype == array.dtype and found[name].tobytes() == array.tobytes(), f"{claim}: '{name}'")


rng = np.random.default_rng(29)
inputs = {name: matrices(rng, name) for name in SHAPES}
for length, algorithm, margin in ((3, "max", 0), (1024, "max", 1), (4, "most_recent", -1)):
    check(inputs, length, algorithm, margin)
    check_calibration(inputs, length, algorithm, margin)
finish("recipe-delayed")
