"""Statistics of a step compared with numpy and the model in test/model; probes do not change the step's results.

For a layer with each recipe, `probe.w.<role>` of x, w and dy must have the bits that the definitions give for the model's casts.
Each sum has a single run of elements, so it is a lane sum in f64.
"""

import numpy as np
from harness import expect, finish, run, same_bytes
from te_model import tensor_scaling
from te_model.formats import FP8, bf16_bits, bf16_values

M, N, K = 128, 64, 96
LAYER = f"""func.func @layer(%x: tensor<{M}x{K}xbf16> {{te.name = "x"}}, %w: tensor<{N}x{K}xbf16> {{te.name = "w", te.weight}})
    -> (tensor<{M}x{N}xbf16> {{te.name = "y"}}) {{
  %y = te.linear %x, %w : tensor<{M}x{K}xbf16>, tensor<{N}x{K}xbf16> -> tensor<{M}x{N}xbf16>
  return %y : tensor<{M}x{N}xbf16>
}}
"""
FIELDS = (
    "amax",
    "amin",
    "mean",
    "std",
    "zeros%",
    "nan",
    "inf",
    "underflows%",
    "overflows%",
    "mse",
    "snr",
    "scale_inv_min",
    "scale_inv_max",
    "scales_clipped",
)
E4M3, E5M2 = FP8["f8E4M3FN"], FP8["f8E5M2"]


def lane_sum(terms):
    """Lane i of 256 adds every 256th element; then halves are added."""
    terms = np.ravel(terms)
    assert terms.size <= 32768 and terms.size % 256 == 0
    lanes = np.zeros(256)
    for row in terms.reshape(-1, 256):
        lanes = lanes + row
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    return lanes[0]


def statistics(values, decoded=None, scales=None):
    """The statistics of a matrix and, if there is one, of its cast; `scales` are those of its blocks."""
    x = values.astype(np.float64)
    finite = np.isfinite(x)
    kept, size = np.where(finite, x, 0), x.size
    magnitudes = np.abs(x[finite & (x != 0)])
    mean = lane_sum(kept) / finite.sum()
    squares = lane_sum(kept * kept)
    with np.errstate(invalid="ignore"):
        result = [
            np.nanmax(np.abs(x)),
            magnitudes.min(initial=np.inf),
            mean,
            np.sqrt(max(squares / finite.sum() - mean * mean, 0)),
            100 * (x == 0).sum() / size,
            np.isnan(x).sum(),
            np.isinf(x).sum(),
        ]
    if decoded is not None:
        d = decoded.astype(np.float64)
        noise = lane_sum(np.where(finite, (d - kept) ** 2, 0))
        result += [
            100 * (finite & (x != 0) & (d == 0)).sum() / size,
            None,
            noise / finite.sum(),
            np.inf if noise == 0 else squares / noise,
            scales.min(),
            scales.max(),
            None,
        ]
    return result


def check(claim, found, wanted):
    expect(len(found) == len(wanted), f"{claim}: {len(wanted)} statistics")
    for name, actual, value in zip(FIELDS, found, wanted):
        if value is not None:
            expect(actual == np.float32(value), f"{claim}: {name} is {value}, but got {actual}")


def matrices(rng):
    x = rng.normal(size=(M, K)) * np.exp2(rng.integers(-12, 3, (M, K)))
    x[rng.random(x.shape) < 0.05] = 0
    return {
        "x": bf16_bits(x.astype(np.float32)),
        "w": bf16_bits(rng.normal(size=(N, K)).astype(np.float32)),
        "grad.y": bf16_bits((rng.normal(size=(M, N)) * 3e-6).astype(np.float32)),
    }


def probes(arrays, pipeline):
    """(The statistics by tensor, the results of the step), which must be those of the step without probes."""
    found = run(LAYER, "layer", arrays, pipeline=f"{pipeline} probes=*", vjp=True)
    plain = run(LAYER, "layer", arrays, pipeline=pipeline, vjp=True)
    checked = run(LAYER, "layer", arrays, pipeline=f"{pipeline} check-finite probes=*", vjp=True)
    for name, array in plain.items():
        expect(same_bytes(array, found[name]), f"{pipeline}: probes leave '{name}' alone")
        expect(same_bytes(array, checked[name]), f"{pipeline}: probes and checks leave '{name}' alone")
    stats = {name: array for name, array in found.items() if name.startswith("probe.") and not name.endswith(".steps")}
    for name, array in stats.items():
        expect(found[name + ".steps"].shape == (1, *array.shape), f"{pipeline}: '{name}' is written step by step")
        expect(same_bytes(array, checked[name]), f"{pipeline}: checks leave '{name}' alone")
    expect(
        found.keys() == plain.keys() | stats.keys() | {name + ".steps" for name in stats},
        f"{pipeline}: {sorted(found)}",
    )
    expect("nonfinite" in checked and not checked["nonfinite"].any(), f"{pipeline}: everything is finite")
    return {name.removeprefix("probe.w."): array for name, array in stats.items()}


rng = np.random.default_rng(41)
arrays = matrices(rng)
values = {"x": bf16_values(arrays["x"]), "w": bf16_values(arrays["w"]), "dy": bf16_values(arrays["grad.y"])}

# In high precision, there are only statistics of the tensors.
for pipeline in ("recipe=high_precision", "recipe=delayed_scaling calibrate"):
    found = probes(arrays, pipeline)
    expect(found.keys() == {"x", "w", "dy"}, f"{pipeline}: {sorted(found)}")
    for role, array in found.items():
        check(f"{pipeline} {role}", array, statistics(values[role]))

# One scale for a tensor, as in the model's cast.
for recipe in ("delayed_scaling", "float8_current_scaling"):
    found = probes(arrays, f"recipe={recipe}")
    expect(found.keys() == {"x", "w", "dy"}, f"{recipe}: {sorted(found)}")
    for role, array in found.items():
        format = E5M2 if role == "dy" else E4M3
        amax = tensor_scaling.amax(values[role])
        scale = np.float32(1) if recipe == "delayed_scaling" else np.float32(format.max) / amax
        decoded = tensor_scaling.dequantize(tensor_scaling.quantize(values[role], format, 1, scale), format, 1)
        check(
            f"{recipe} {role}", array, statistics(values[role], decoded, np.float32(1) / np.array([scale], np.float32))
        )
        expect(array[FIELDS.index("overflows%")] == 0, f"{recipe} {role}: nothing saturates")
    # With a scale of 1, most of dy becomes 0.
    lost = found["dy"][FIELDS.index("underflows%")]
    expect((lost > 50) == (recipe == "delayed_scaling"), f"{recipe}: {lost} % of dy underflows")

# Recipes with blocks: the statistics of the tensor are equal in each, and the casts of both axes are separate.
for recipe, options in (
    ("float8_block_scaling", ""),
    ("mxfp8_block_scaling", " emulate"),
    ("nvfp4_block_scaling", " emulate"),
):
    found = probes(arrays, f"recipe={recipe}{options}")
    expect(found.keys() >= {"x", "w", "dy", "x_columnwise", "dy_columnwise"}, f"{recipe}: {sorted(found)}")
    for role in ("x", "w", "dy"):
        check(f"{recipe} {role}", found[role][:7], statistics(values[role]))
        for name in (role, f"{role}_columnwise"):
            if name in found:
                least, most = (found[name][FIELDS.index(f"scale_inv_{end}")] for end in ("min", "max"))
                expect(0 < least <= most, f"{recipe} {name}: scales from {least} to {most}")
                expect(5 < found[name][FIELDS.index("snr")] < 1e5, f"{recipe} {name}: {found[name]}")
finish("probes")
