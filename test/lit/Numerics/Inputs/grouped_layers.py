"""A grouped layer has the bits of one te.linear for each group.

te.grouped_linear and its gradients are compared with te.linear of only the rows of each group, padded with zero rows to the
alignment, under every recipe and override, and with emulated GEMMs. Groups are uneven, one is empty, and one is shorter than a
block. Rows that belong to no group have arbitrary values, which must not be read. States of delayed scaling have one slot for
each group.
"""

import numpy as np
from harness import expect, finish, normal, run, same_bytes

K, N, GROUPS = 160, 96, 4
#: (recipe, its alignment, pipeline options besides the override, supported overrides).
ALL = ("none", "high_precision", "dequantized")
CASES = [
    ("high_precision", 16, "", ("none",)),
    ("float8_current_scaling", 16, "", ALL),
    ("float8_current_scaling, {fp8_format = e4m3, pow2_scales = true}", 16, "", ("none",)),
    ("delayed_scaling", 16, "", ("none",)),
    ("float8_block_scaling", 128, "", ALL),
    ("float8_block_scaling, {x_block_dim = 2, w_block_dim = 1}", 128, "", ("none",)),
    ("mxfp8_block_scaling", 32, "target=reference", ALL),
    ("mxfp8_block_scaling", 32, "emulate=true", ("none",)),
    # The random bits of an element depend on its position in the whole matrix.
    ("nvfp4_block_scaling, {stochastic_rounding = false}", 32, "target=reference", ALL),
    ("nvfp4_block_scaling, {stochastic_rounding = false}", 32, "emulate=true", ("none",)),
    (
        "nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false, row_scaled_activation = true, "
        "backward_override = high_precision}",
        32,
        "target=reference",
        ("high_precision", "dequantized"),
    ),
]


def grouped(recipe, rows, alignment):
    return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>}} {{
  func.func @layer(%x: tensor<{rows}x{K}xbf16> {{te.name = "x"}}, %w: tensor<{GROUPS}x{N}x{K}xbf16> {{te.name = "w", te.weight}},
                   %sizes: tensor<{GROUPS}xi32> {{te.name = "sizes"}}, %b: tensor<{GROUPS}x{N}xbf16> {{te.name = "b"}})
      -> (tensor<{rows}x{N}xbf16> {{te.name = "y"}}) {{
    %y = te.grouped_linear %x, %w, %sizes bias %b : tensor<{GROUPS}x{N}xbf16> {{alignment = {alignment} : i64}}
      : tensor<{rows}x{K}xbf16>, tensor<{GROUPS}x{N}x{K}xbf16>, tensor<{GROUPS}xi32> -> tensor<{rows}x{N}xbf16>
    return %y : tensor<{rows}x{N}xbf16>
  }}
}}"""


def single(recipe, rows):
    return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>}} {{
  func.func @layer(%x: tensor<{rows}x{K}xbf16> {{te.name = "x"}}, %w: tensor<{N}x{K}xbf16> {{te.name = "w", te.weight}},
                   %b: tensor<{N}xbf16> {{te.name = "b"}}) -> (tensor<{rows}x{N}xbf16> {{te.name = "y"}}) {{
    %y = te.linear %x, %w bias %b : tensor<{N}xbf16> : tensor<{rows}x{K}xbf16>, tensor<{N}x{K}xbf16> -> tensor<{rows}x{N}xbf16>
    return %y : tensor<{rows}x{N}xbf16>
  }}
}}"""


def padded(values, height):
    result = np.zeros((height,) + values.shape[1:], values.dtype)
    result[: len(values)] = values
    return result


for number, (recipe, alignment, options, overrides) in enumerate(CASES):
    rng = np.random.default_rng(number)
    sizes = np.array([alignment + 5, 0, 2 * alignment, 7], np.int32)
    heights = -(-sizes // alignment) * alignment
    starts = np.concatenate([[0], np.cumsum(heights)[:-1]])
    rows = int(heights.sum()) + alignment
    arrays = {
        "x": normal(rng, rows, K),
        "w": normal(rng, GROUPS, N, K, scale=0.08),
        "sizes": sizes,
        "b": normal(rng, GROUPS, N),
        "grad.y": normal(rng, rows, N, scale=0.01),
    }
    arrays["x"][:, 5], arrays["x"][0, :8], arrays["w"][0, :32], arrays["grad.y"][3] = 0, 0x8000, 0, 1
    states = {}
    if recipe == "delayed_scaling":
        length = 1024
        for tensor in ("x", "w", "dy"):
            states[f"w.{tensor}.scale"] = rng.uniform(0.5, 40, GROUPS).astype(np.float32)
            history = np.zeros((length, GROUPS), np.float32)
            history[-2:] = rng.uniform(0.5, 4, (2, GROUPS))
            states[f"w.{tensor}.amax_history"] = history
    for override in overrides:
        pipeline = f"backward-override={override} {options}"
        claim = f"{recipe}, {pipeline}"
        found = run(grouped(recipe, rows, alignment), "layer", arrays | states, pipeline, vjp=True)
        inside = np.zeros(rows, bool)
        for g in range(GROUPS):
            start, size, height = starts[g], sizes[g], heights[g]
            inside[start : start + size] = True
            if size == 0:
                expect(
                    not found["grad.w"][g].any() and not found["grad.b"][g].any(), f"{claim}: no gradient of no rows"
                )
                continue
            one = {
                "x": padded(arrays["x"][start : start + size], height),
                "w": arrays["w"][g],
                "b": arrays["b"][g],
                "grad.y": padded(arrays["grad.y"][start : start + size], height),
            }
            one |= {name: value[..., g] for name, value in states.items()}
            wanted = run(single(recipe, height), "layer", one, pipeline, vjp=True)
            for name in ("y", "grad.x"):
                expect(
                    same_bytes(found[name][start : start + size], wanted[name][:size]),
                    f"{claim}: '{name}' of group {g}",
                )
            for name in ("grad.w", "grad.b"):
                expect(same_bytes(found[name][g], wanted[name]), f"{claim}: '{name}' of group {g}")
            for name in states:
                expect(found[name][..., g].tobytes() == wanted[name].tobytes(), f"{claim}: '{name}' of group {g}")
        for name in ("y", "grad.x"):
            expect(not found[name][~inside].any(), f"{claim}: '{name}' is zero outside the groups")
        expect(found["grad.w"].any() and found["y"].any(), f"{claim}: there is something to compare")
finish("grouped-layers")
