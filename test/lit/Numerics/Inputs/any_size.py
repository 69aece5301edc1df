"""Layers of any size have the bits of the same program that is padded with zeros by hand, under every recipe and override.

The program has three linear layers (without a bias, with one, and with a weight [K, N]). Its results and all gradients are
compared with those of the program whose sizes are multiples of 32, with zeros in the added rows and columns. The same holds for
histories, scales and random states of three steps, for cached casts and sums of gradients over micro-batches, for other transpose
and remat policies, for custom recipes, for a layer of groups, and for infinities and NaNs in the operands of one layer. One layer
is also compared with `te_model.linear`. All claims are exact.
"""

import itertools

import numpy as np
from harness import ALL_MODES, BACKEND, expect, finish, from_bf16, modes, normal, refusals, run, same_bytes
from te_model.linear import Recipe, linear

#: Rows, inputs, hidden, outputs.
SIZES = [(68, 100, 20, 3), (33, 48, 64, 4), (1, 7, 32, 1), (80, 64, 36, 64)]
POLICIES = ("transpose-policy=cached", "transpose-policy=eager remat=everything")
#: The recipes of the three GEMMs of custom recipes.
CUSTOM = [
    ("float8_block_scaling", "mxfp8_block_scaling", "float8_current_scaling"),
    ("float8_current_scaling", "high_precision", "mxfp8_block_scaling"),
    ("mxfp8_block_scaling", "nvfp4_block_scaling", "nvfp4_block_scaling"),
]
CUSTOM_MODES = [
    "recipe='custom, {"
    + ", ".join(f"{gemm} = #te.recipe<{recipe}>" for gemm, recipe in zip(("fprop", "dgrad", "wgrad"), recipes))
    + "}' target=reference"
    for recipes in CUSTOM
]


def up(size):
    return -(-size // 32) * 32


def three_layers(m, k, h, n):
    return f"""func.func @f(%x: tensor<{m}x{k}xbf16> {{te.name = "x"}}, %w1: tensor<{h}x{k}xbf16> {{te.name = "w1", te.weight}},
    %b: tensor<{n}xbf16> {{te.name = "b"}}, %w2: tensor<{n}x{h}xbf16> {{te.name = "w2", te.weight}},
    %w3: tensor<{h}x{n}xbf16> {{te.name = "w3", te.weight}})
    -> (tensor<{m}x{n}xbf16> {{te.name = "y"}}, tensor<{m}x{n}xbf16> {{te.name = "z"}}) {{
  %h = te.linear %x, %w1 : tensor<{m}x{k}xbf16>, tensor<{h}x{k}xbf16> -> tensor<{m}x{h}xbf16>
  %a = te.activation <gelu> %h : tensor<{m}x{h}xbf16> -> tensor<{m}x{h}xbf16>
  %y = te.linear %a, %w2 bias %b : tensor<{n}xbf16> : tensor<{m}x{h}xbf16>, tensor<{n}x{h}xbf16> -> tensor<{m}x{n}xbf16>
  %z = te.linear %a, %w3 {{transposed_weight}} : tensor<{m}x{h}xbf16>, tensor<{h}x{n}xbf16> -> tensor<{m}x{n}xbf16>
  return %y, %z : tensor<{m}x{n}xbf16>, tensor<{m}x{n}xbf16>
}}
"""


def one_layer(m, k, n):
    return f"""func.func @f(%x: tensor<{m}x{k}xbf16> {{te.name = "x"}}, %w: tensor<{n}x{k}xbf16> {{te.name = "w", te.weight}},
    %b: tensor<{n}xbf16> {{te.name = "b"}}) -> (tensor<{m}x{n}xbf16> {{te.name = "y"}}) {{
  %y = te.linear %x, %w bias %b : tensor<{n}xbf16> : tensor<{m}x{k}xbf16>, tensor<{n}x{k}xbf16> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>
}}
"""


def groups(m, k, n):
    return f"""func.func @f(%x: tensor<{m}x{k}xbf16> {{te.name = "x"}}, %w: tensor<3x{n}x{k}xbf16> {{te.name = "w", te.weight}},
    %s: tensor<3xi32> {{te.name = "s"}}, %b: tensor<3x{n}xbf16> {{te.name = "b"}}) -> (tensor<{m}x{n}xbf16> {{te.name = "y"}}) {{
  %y = te.grouped_linear %x, %w, %s bias %b : tensor<3x{n}xbf16> {{alignment = 128 : i64}}
    : tensor<{m}x{k}xbf16>, tensor<3x{n}x{k}xbf16>, tensor<3xi32> -> tensor<{m}x{n}xbf16>
  return %y : tensor<{m}x{n}xbf16>
}}
"""


def padded(array, shape):
    made = np.zeros(shape, array.dtype)
    made[tuple(slice(size) for size in array.shape)] = array
    return made


def first_of(array, shape):
    """The first elements of each axis."""
    return array[tuple(slice(size) for size in shape)].copy()


def compare(program, sizes, arrays, mode, claim, steps=1):
    """Whether `program` of `sizes` and the one that is padded by hand have the same results. Axes of `arrays` are padded if their
    size is one of `sizes`, except those of stacks and flags."""
    wide = tuple(up(size) for size in sizes)
    widths = dict(zip(sizes, wide))

    def widen(name, array):
        if array.dtype == np.int32 or name.endswith(".steps"):
            return array
        first = array.ndim - 2
        return padded(
            array, [widths.get(size, size) if axis >= first else size for axis, size in enumerate(array.shape)]
        )

    with refusals(claim):
        found = run(program(*sizes), "f", arrays, mode, vjp=True, steps=steps)
        by_hand = {name: widen(name, array) for name, array in arrays.items()}
        wanted = run(program(*wide), "f", by_hand, mode, vjp=True, steps=steps)
        expect(found.keys() == wanted.keys(), f"{claim}: names of results")
        for name, array in found.items():
            expect(same_bytes(array, first_of(wanted[name], array.shape)), f"{claim}: '{name}'")


def arrays_of(rng, m, k, h, n):
    return {
        "x": normal(rng, m, k),
        "w1": normal(rng, h, k, scale=0.2),
        "b": normal(rng, n),
        "w2": normal(rng, n, h, scale=0.2),
        "w3": normal(rng, h, n, scale=0.2),
        "grad.y": normal(rng, m, n, scale=0.1),
        "grad.z": normal(rng, m, n, scale=0.1),
    }


def three(sizes, mode, claim):
    arrays = arrays_of(np.random.default_rng(sum(sizes)), *sizes)
    compare(three_layers, sizes, arrays, mode, claim)


def micro_batches(sizes, mode):
    """Casts of weights are cached, and gradients of weights are added up in f32."""
    rng = np.random.default_rng(1)
    arrays = arrays_of(rng, *sizes)
    m, k, h, n = sizes
    sums = {"w1": (h, k), "w2": (n, h), "w3": (h, n)}
    arrays |= {f"grad.{name}": rng.standard_normal(shape).astype(np.float32) for name, shape in sums.items()}
    arrays["skip_weight_update.steps"] = np.array([0, 1, 0], np.float32)
    for steps in (1, 2, 3):
        given = arrays | {"skip_weight_update.steps": arrays["skip_weight_update.steps"][:steps]}
        compare(
            three_layers,
            sizes,
            given,
            f"{mode} cache-weights=true main-grad=true",
            f"{mode}, {steps} micro-batches",
            steps,
        )


def specials(mode, turn):
    """Infinities and NaNs in x, w and dy. With overrides, three modes have the same recipe, and share the nine cases."""
    rng, (m, k, n) = np.random.default_rng(2), (35, 50, 21)
    arrays = {"x": normal(rng, m, k), "w": normal(rng, n, k), "b": normal(rng, n), "grad.y": normal(rng, m, n)}
    cases = itertools.product(enumerate(("x", "w", "grad.y")), enumerate((0x7F80, 0xFF80, 0x7FC0)))
    for (i, name), (j, bits) in cases:
        if "override" in mode and (i + j + turn) % 3:
            continue
        given = {key: value.copy() for key, value in arrays.items()}
        given[name][20, 20] = bits
        compare(one_layer, (m, k, n), given, mode, f"{mode}, {bits:#x} in '{name}'")


def oracle(mode):
    """One layer without stochastic rounding, compared with NumPy on padded arrays."""
    name = mode.split("=")[1].split()[0]
    override = mode.split("override=")[1].split()[0] if "override=" in mode else "none"
    if name in ("high_precision", "delayed_scaling") or BACKEND != "reference":
        return
    if name.startswith("nvfp4"):
        mode = mode.replace(f"recipe={name}", f"recipe='{name}, {{stochastic_rounding = false}}'")
    for m, k, n in ((68, 100, 3), (33, 40, 17)):
        rng = np.random.default_rng(m)
        x, w, b, dy = normal(rng, m, k), normal(rng, n, k, scale=0.2), normal(rng, n), normal(rng, m, n)
        found = run(one_layer(m, k, n), "f", {"x": x, "w": w, "b": b, "grad.y": dy}, mode, vjp=True)
        given = (
            padded(a, s) for a, s in ((x, (up(m), up(k))), (w, (up(n), up(k))), (b, (up(n),)), (dy, (up(m), up(n))))
        )
        wanted = linear(Recipe(name), override, *(from_bf16(a) for a in given))
        for result, array in zip(("y", "grad.x", "grad.w", "grad.b"), wanted):
            claim = f"{mode}, {m}x{n}x{k}: '{result}' is the oracle's"
            expect(same_bytes(found[result], first_of(array, found[result].shape)), claim)


def rows_in_groups(mode):
    """A layer of groups, whose rows have an alignment already."""
    rng, (m, k, n) = np.random.default_rng(3), (512, 36, 20)
    arrays = {"x": normal(rng, m, k), "w": normal(rng, 3, n, k), "b": normal(rng, 3, n), "grad.y": normal(rng, m, n)}
    arrays["s"] = np.array([70, 0, 200], np.int32)
    compare(groups, (m, k, n), arrays, mode, f"{mode}, groups")


for turn, mode in enumerate(modes(ALL_MODES + CUSTOM_MODES, turn=2)):
    for sizes in SIZES:
        three(sizes, mode, f"{mode}, {sizes}")
    if "custom" in mode:
        continue
    for policy in POLICIES:
        three(SIZES[0], f"{mode} {policy}", f"{mode}, {policy}")
    arrays = arrays_of(np.random.default_rng(5), *SIZES[0])
    compare(three_layers, SIZES[0], arrays, mode, f"{mode}, three steps", steps=3)
    micro_batches(SIZES[0], mode)
    specials(mode, turn)
    oracle(mode)
    rows_in_groups(mode)
finish("any-size")
