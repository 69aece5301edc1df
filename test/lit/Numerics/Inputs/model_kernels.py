"""The kernels of MXFP8 and NVFP4 have the bits of the model in test/model. They are called through the runtime's C ABI.

Usage: model_kernels.py FOLDER LIBRARY [BACKEND]. Each claim is one launch. Results have arbitrary initial values, so that padding
is compared, too.
"""

import itertools
import sys

import numpy as np
from harness import expect, finish
from model_matrices import every_16_bits, f32_patterns, mixed
from model_program import compared, same
from runtime import ENUM, Runtime
from te_model import mxfp8, nvfp4, philox
from te_model.formats import FLT_MAX, FP8, MAX_FINITE, bf16_bits, load, store
from te_model.layouts import up
from te_model.tensor_scaling import Scaled, amax

SOURCES = tuple(MAX_FINITE)
BOTH, ONE = ((1, 0),), ((1,), (0,))
NUMPY = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}
runtime = Runtime(sys.argv[2], *sys.argv[3:])
USAGE = {1: "row", 0: "col"}
# These kernels take stacks; here each has one matrix.
STACKS = {"dequantize", "nvfp4_alpha", "quantize_mx", "quantize_nvfp4", "transpose_scaled"}
# These casts may read fewer rows and columns than they write; here they read as many.
CASTS = {"quantize_mx", "quantize_nvfp4"}


def launch(claim, kernel, parameters, inputs, wanted):
    """Compares every array of `wanted` with the result of the kernel."""
    parameters = {
        name: ENUM[value.upper()] if isinstance(value, str) else int(value) for name, value in parameters.items()
    }
    if kernel in STACKS:
        parameters["matrices"] = 1
    if kernel in CASTS:
        parameters |= {"x_rows": parameters["rows"], "x_cols": parameters["cols"]}
    wanted = {name: np.asarray(array) for name, array in wanted.items()}
    found = runtime.launch(
        kernel, parameters, inputs, {name: (array.shape, array.dtype) for name, array in wanted.items()}
    )
    for name, array in wanted.items():
        same(found[name], array, f"{kernel} {claim}: '{name}'")


def usages(values):
    """The buffers of the usages of a cast."""
    buffers = {}
    for axis, q in values.items():
        parts = {"": q.data, "_scale": q.scale, "_amax": q.amax}
        buffers.update({USAGE[axis] + part: array for part, array in parts.items() if array is not None})
    return buffers


def scaled(q):
    return {
        name: array for name, array in (("data", q.data), ("scale", q.scale), ("amax", q.amax)) if array is not None
    }


def check_transpose(claim, scheme, shape, q, other):
    launch(
        claim,
        "transpose_scaled",
        {"rows": shape[0], "cols": shape[1], "scheme": scheme},
        scaled(q),
        {f"out_{name}": array for name, array in scaled(other).items()},
    )


def check_swizzle(claim, scheme, shape, axis, q):
    launch(
        f"{claim} axis {axis}",
        "swizzle_scales",
        {"rows": shape[0], "cols": shape[1], "scheme": scheme, "axis": axis},
        {"scale": q.scale},
        {"swizzled": mxfp8.swizzle(q.scale, axis if scheme.startswith("mx") else 1)},
    )


def mx(claim, array, source, axes):
    """Both schemes and formats, dequantised, transposed and swizzled."""
    x, shape = load(array, source), {"rows": array.shape[0], "cols": array.shape[1]}
    for scheme, (element, format) in itertools.product(("mx_1x32", "mx_32x32"), FP8.items()):
        label = f"{claim} {source} {array.shape} {scheme} {element}"
        values = {axis: mxfp8.quantize(x, format, scheme, axis) for axis in (1, 0)}
        for together in axes:
            launch(
                f"{label} axes {together}",
                "quantize_mx",
                {**shape, "type": source, "fp8_type": element, "scheme": scheme},
                {"x": array},
                usages({axis: values[axis] for axis in together}),
            )
        if scheme == "mx_32x32":
            turned = mxfp8.transpose(values[1])
            expect(
                np.array_equal(turned.data, values[0].data) and np.array_equal(turned.scale, values[0].scale),
                f"{label}: the model's transpose is its cast along the other axis",
            )
            check_transpose(label, scheme, array.shape, values[1], turned)
        for axis, q in values.items():
            check_swizzle(label, scheme, array.shape, axis, q)
            out = SOURCES[(axis + len(label)) % 3]
            mx_decode(label, array.shape, element, scheme, axis, q, out)


def mx_decode(claim, shape, element, scheme, axis, q, out):
    launch(
        f"{claim} axis {axis} to {out}",
        "dequantize",
        {
            "rows": shape[0],
            "cols": shape[1],
            "fp8_type": element,
            "scheme": scheme,
            "axis": axis,
            "row_scaled": 0,
            "scale_max": 0,
            "out_type": out,
        },
        scaled(q),
        {"out": store(mxfp8.dequantize(q, FP8[element], axis), out)},
    )


def mx_powers():
    """Blocks whose amax is max * 2^k or a neighbour of it, where the exponent changes."""
    tops = (np.array([[448], [57344], [1]]) * np.exp2(np.arange(-160.0, 120))).ravel()
    tops = np.unique(tops[tops < FLT_MAX].astype(np.float32))
    near = tops.view(np.int32)[:, None] + np.arange(-1, 2)
    near = near[(near >= 0) & (near <= 0x7F7FFFFF)].astype(np.int32).view(np.float32)
    rows = up(len(near), 32)
    x = np.zeros((rows, 32), np.float32)
    x[: len(near), 5], x[: len(near), 6] = near, -near / 3
    return x


def check_mx(rng):
    for source in ("bf16", "f16"):
        mx("every input in order", every_16_bits(source), source, BOTH)
        mx("every input shuffled", every_16_bits(source, rng), source, ONE)
    mx("patterns", f32_patterns(rng, 256, 256), "f32", BOTH)
    mx("steps of the exponent", mx_powers(), "f32", ONE)
    for k, (rows, columns) in enumerate(
        ((32, 32), (32, 160), (96, 32), (128, 128), (160, 96), (256, 288), (288, 416), (320, 544))
    ):
        for source in SOURCES:
            mx("mixed", mixed(rng, rows, columns, source), source, (BOTH, ONE, ((1,),))[k % 3])
    for name, value in UNIFORM.items():
        for source in SOURCES:
            mx(name, uniform(value, (32, 96), source), source, BOTH)
    # Every code with every exponent.
    codes, exponents = np.tile(np.arange(256, dtype=np.uint8), (256, 32)), np.arange(256, dtype=np.uint8)
    scale = np.zeros((256, 256), np.uint8)
    scale[:] = exponents[:, None]
    for (element, axis), out in itertools.product(itertools.product(FP8, (1, 0)), SOURCES):
        q = Scaled(codes, scale) if axis == 1 else Scaled(codes.T, scale.T)
        mx_decode("every code", q.data.shape, element, "mx_1x32", axis, q, out)


#: Matrices with one value.
UNIFORM = {
    "zeros": 0.0,
    "negative zeros": -0.0,
    "NaN": np.nan,
    "infinities": -np.inf,
    "least": 2.0**-149,
    "largest": float(FLT_MAX),
}


def uniform(value, shape, source):
    with np.errstate(over="ignore"):
        return store(np.full(shape, value, np.float32), source)


#: The parameters of NVFP4 casts: (scheme, row_scaled, scale_max, four_over_six, stochastic).
NV = (
    [
        (scheme, 0, scale_max, four, 0)
        for scheme in ("nv_1x16", "nv_16x16")
        for scale_max in (448, 256)
        for four in (None, "mae", "mse")
    ]
    + [(scheme, 0, 448, None, 1) for scheme in ("nv_1x16", "nv_16x16")]
    + [("nv_1x16", 1, scale_max, four, 0) for scale_max, four in ((448, None), (256, "mae"), (448, "mse"))]
)
SEEDS = (((0, 0), 0), ((1234567, 8), 3), ((-5, -1), 1 << 20))


def nv(claim, array, source, axes, given=None):
    """Every variant, with the matrix's amax or with `given`."""
    x, shape = load(array, source), {"rows": array.shape[0], "cols": array.shape[1]}
    for v, (scheme, row_scaled, scale_max, four, stochastic) in enumerate(NV):
        largest = nvfp4.amax_rows(x) if row_scaled else amax(x).reshape(1)
        if given is not None:
            largest = np.full(largest.shape, given, np.float32)
        label = f"{claim} {source} {array.shape} {scheme} rows {row_scaled} max {scale_max} 4over6 {four} stochastic {stochastic}"
        rng = SEEDS[v % 3] if stochastic else None
        options = (largest, scale_max, four, rng)
        values = {axis: nvfp4.quantize(x, scheme, axis, *options) for axis in ((1,) if row_scaled else (1, 0))}
        buffers = {"x": array, "amax": largest}
        if rng:
            buffers["rng"] = np.array(rng[0], np.int32)
        for together in ((1,),) if row_scaled else axes:
            launch(
                f"{label} axes {together}",
                "quantize_nvfp4",
                {
                    **shape,
                    "type": source,
                    "scheme": scheme,
                    "row_scaled": row_scaled,
                    "scale_max": scale_max,
                    "four_over_six": {None: 0, "mae": 1, "mse": 2}[four],
                    "stochastic": stochastic,
                    "stream": rng[1] if rng else 0,
                },
                buffers,
                usages({axis: values[axis] for axis in together}),
            )
        if scheme == "nv_16x16":
            turned = nvfp4.transpose(values[1])
            if not stochastic:
                expect(
                    np.array_equal(turned.data, values[0].data) and np.array_equal(turned.scale, values[0].scale),
                    f"{label}: the model's transpose is its cast along the other axis",
                )
            check_transpose(label, scheme, array.shape, values[1], turned)
        for axis, q in values.items():
            if v == 0:
                check_swizzle(label, scheme, array.shape, axis, q)
            out = SOURCES[(axis + v) % 3]
            nv_decode(label, array.shape, scheme, axis, q, scale_max, row_scaled, out)


def nv_decode(claim, shape, scheme, axis, q, scale_max, row_scaled, out):
    for with_amax in (True, False):
        inputs = {name: array for name, array in scaled(q).items() if with_amax or name != "amax"}
        launch(
            f"{claim} axis {axis} to {out} amax {with_amax}",
            "dequantize",
            {
                "rows": shape[0],
                "cols": shape[1],
                "fp8_type": "F4E2M1FN",
                "scheme": scheme,
                "axis": axis,
                "row_scaled": row_scaled and with_amax,
                "scale_max": scale_max,
                "out_type": out,
            },
            inputs,
            {"out": store(nvfp4.dequantize(q, axis, scale_max, with_amax), out)},
        )


def hadamard(claim, array):
    """The transform, and a cast of its result."""
    x = load(array, "bf16")
    y = nvfp4.hadamard(x)
    launch(claim, "hadamard", {"rows": x.shape[0], "cols": x.shape[1]}, {"x": array}, {"y": bf16_bits(y)})


def rows_amax(claim, array, source):
    launch(
        f"{claim} {source} {array.shape}",
        "amax_rows",
        {"rows": array.shape[0], "cols": array.shape[1], "type": source},
        {"x": array},
        {"amax": nvfp4.amax_rows(load(array, source))},
    )


def check_nv(rng):
    for source in ("bf16", "f16"):
        nv("every input in order", every_16_bits(source), source, BOTH)
        nv("every input shuffled", every_16_bits(source, rng), source, ONE)
    nv("patterns", f32_patterns(rng, 128, 256), "f32", BOTH)
    for k, (rows, columns) in enumerate(((16, 16), (16, 48), (80, 16), (128, 128), (144, 272), (272, 304))):
        for source in SOURCES:
            x = mixed(rng, rows, columns, source)
            nv("mixed", x, source, (BOTH, ONE, ((1,),))[k % 3])
            nv("finite", np.where(np.isfinite(load(x, source)), x, x.dtype.type(1)), source, (ONE, BOTH)[k % 2])
    for name, value in UNIFORM.items():
        for source in SOURCES:
            nv(name, uniform(value, (32, 48), source), source, BOTH)
    ordinary = store(rng.normal(size=(32, 64)).astype(np.float32), "bf16")
    for given in (0.0, 1e-44, 2.0**-126, 0.5, 3.0, 100.0, 1e30, float(FLT_MAX), np.inf):
        nv(f"amax {given}", ordinary, "bf16", BOTH, given)
    # Every byte of codes with every byte of scales, and amaxes of all magnitudes.
    codes = np.repeat(np.arange(256, dtype=np.uint8)[None], 256, 0)
    data = np.ascontiguousarray(np.repeat(codes, 8, 1)[:, : 256 * 8])
    scale = np.tile(np.arange(256, dtype=np.uint8)[:, None], (1, 256))
    for value, (out, axis) in itertools.product(
        (1.0, 7.3, 1e-38, 3e38, 0.0, np.inf), itertools.product(SOURCES, (1, 0))
    ):
        shape = (256, 4096) if axis == 1 else (4096, 256)
        nv_decode(
            f"every code amax {value}", shape, "nv_1x16", axis, Scaled(data, scale, np.float32([value])), 448, 0, out
        )
    for rows, columns in ((16, 1), (32, 48), (272, 33), (256, 256)):
        hadamard(f"mixed {rows}x{columns}", mixed(rng, rows, columns, "bf16"))
        hadamard(f"normal {rows}x{columns}", store(rng.normal(size=(rows, columns)).astype(np.float32), "bf16"))
        for source in SOURCES:
            rows_amax("mixed", mixed(rng, rows, columns, source), source)
    hadamard("every input", every_16_bits("bf16", rng))
    for state, count in (((0, 0), 1), ((7, -1), 1), ((-3, 2**31 - 1), 5), ((1, 2), 2**31 - 1)):
        launch(
            f"{state} by {count}",
            "rng_advance",
            {"count": count},
            {"state": np.array(state, np.int32)},
            {"new_state": philox.advance(state, count)},
        )
    a = np.concatenate([np.exp2(rng.uniform(-140, 127, 300)), [0, np.inf, 1, float(FLT_MAX)]]).astype(np.float32)
    for b, a_max, b_max in itertools.product((1.0, 3.3e-5, 1e20, 0.0, np.inf), (448, 256), (448, 256)):
        launch(
            f"{b} {a_max} {b_max}",
            "nvfp4_alpha",
            {"rows": len(a), "a_scale_max": a_max, "b_scale_max": b_max},
            {"a_amax": a, "b_amax": np.float32([b])},
            {"alpha": nvfp4.alpha(a, np.float32(b), a_max, b_max)},
        )


def check_philox():
    """Known results of the generator, from the paper that defines it."""
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
    for words, answer in (
        ((0,) * 6, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 6, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (pi, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ):
        expect(tuple(int(word) for word in philox.philox(words[:4], words[4:])) == answer, f"philox of {words}")


rng = np.random.default_rng(29)
check_philox()
check_mx(rng)
check_nv(rng)
print(f"model-kernels: {compared['elements']} elements compared")
finish("model-kernels")
