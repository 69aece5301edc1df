"""Casts, scales, transposes and dequantisation of te-run have the bits of the model in test/model.

CASTS has a function for every scheme, which returns casts of a matrix. SCHEMES defines how the model dequantises and transposes
their values. Every cast runs on every matrix whose sizes it supports, with one op for each axis or one op for both. To add a
scheme, add a row to each.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from harness import expect, finish
from model_matrices import every_16_bits, f32_patterns, mixed
from model_program import Program, compared, scaled_type
from te_model import block_scaling, mxfp8, nvfp4, philox, tensor_scaling
from te_model.formats import FLT_MAX, FP8, MAX_FINITE, load, store
from te_model.tensor_scaling import Scaled, amax, compute_scale

SOURCES = tuple(MAX_FINITE)


@dataclass
class Scheme:
    """How the model dequantises, `decode(q, element, axis, flags)`, and computes the other axis, if that is exact."""

    decode: Callable
    transpose: Callable | None
    #: Both sizes of a matrix are multiples of this.
    multiple: int = 1
    #: How the model reorders scales for the tensor core, `swizzle(scale, axis)`, if it does.
    swizzle: Callable | None = None


SCHEMES = {
    "per_tensor": Scheme(
        lambda q, element, axis, flags: tensor_scaling.dequantize(q, FP8[element], axis), tensor_scaling.transpose
    ),
    "block_1x128": Scheme(
        lambda q, element, axis, flags: block_scaling.dequantize(q, FP8[element], "block_1x128", axis), None
    ),
    "block_128x128": Scheme(
        lambda q, element, axis, flags: block_scaling.dequantize(q, FP8[element], "block_128x128", axis),
        block_scaling.transpose,
    ),
    **{
        scheme: Scheme(lambda q, element, axis, flags: mxfp8.dequantize(q, FP8[element], axis), turn, 32, mxfp8.swizzle)
        for scheme, turn in (("mx_1x32", None), ("mx_32x32", mxfp8.transpose))
    },
    **{
        scheme: Scheme(
            lambda q, element, axis, flags: nvfp4.dequantize(q, axis, 256 if "256" in flags else 448),
            turn,
            16,
            lambda scale, axis: mxfp8.swizzle(scale, 1),
        )
        for scheme, turn in (("nv_1x16", None), ("nv_16x16", nvfp4.transpose))
    },
}


@dataclass
class Cast:
    """One way to quantise: the attributes of the op, and the function of the model for an axis."""

    tag: str
    scheme: str
    element: str
    model: Callable
    #: Text after the scheme in the type, and after the matrix in the op.
    flags: str = ""
    operands: str = ""
    #: The axes that are supported.
    axes: tuple = (1, 0)
    #: A stochastic cast for the other axis has different random bits.
    random: bool = False

    def type(self, shape, axis):
        return scaled_type(shape, self.element, self.scheme, self.flags, axis)


# The table of casts


def per_tensor(program, x, source):
    """Casts with scales from the matrix's own amax, and with given scales."""
    for element, pow2, epsilon in itertools.product(FP8, (False, True), (0.0, 0.125)):
        tag = f"{element[2:]}{'_pow2' * pow2}{'_eps' * (epsilon > 0)}"
        scale = compute_scale(amax(x), FP8[element].max, pow2, epsilon)
        program.op(
            f"%scale_{tag} = te.compute_scale %amax for {element} "
            f"{{amax_epsilon = {epsilon} : f32, pow2_scales = {str(pow2).lower()}}}"
        )
        program.result(f"scale_{tag}", "tensor<f32>", scale)
        yield Cast(
            tag,
            "per_tensor",
            element,
            lambda axis, e=element, s=scale: tensor_scaling.quantize(x, FP8[e], axis, s),
            operands=f" scale %scale_{tag}",
        )
    for element, (name, scale) in itertools.product(FP8, GIVEN.items()):
        yield Cast(
            f"{element[2:]}_{name}",
            "per_tensor",
            element,
            lambda axis, e=element, s=scale: tensor_scaling.quantize(x, FP8[e], axis, s),
            operands=f" scale %{name}",
        )


#: Scales that do not depend on the matrix, as in delayed scaling.
GIVEN = {"third": np.float32(7.3), "power": np.float32(2.0**-9), "large": np.float32(3e38), "small": np.float32(1e-39)}


def block(program, x, source):
    for scheme, element, pow2, epsilon in itertools.product(
        ("block_1x128", "block_128x128"), FP8, (False, True), (0.0, 0.125)
    ):
        yield Cast(
            f"{scheme}_{element[2:]}{'_pow2' * pow2}{'_eps' * (epsilon > 0)}",
            scheme,
            element,
            lambda axis, s=scheme, e=element, p=pow2, eps=epsilon: block_scaling.quantize(
                x, FP8[e], s, axis, source, p, eps
            ),
            flags=", pow2" * pow2,
            operands=f" {{amax_epsilon = {epsilon} : f32}}" * (epsilon > 0),
        )


def mx(program, x, source):
    for scheme, element in itertools.product(("mx_1x32", "mx_32x32"), FP8):
        yield Cast(
            f"{scheme}_{element[2:]}",
            scheme,
            element,
            lambda axis, s=scheme, e=element: mxfp8.quantize(x, FP8[e], s, axis),
        )


#: States of the random generator, which are arguments of every program, and streams.
STATES = {"start": ((0, 0), 0), "later": ((1234567, 8), 3), "wrapped": ((-5, -1), 1 << 20)}


def nv(program, x, source):
    """Every variant, with the matrix's own amax."""
    whole, rows = amax(x).reshape(1), nvfp4.amax_rows(x)
    for scheme, four, scale_max in itertools.product(("nv_1x16", "nv_16x16"), (None, "mae", "mse"), (448, 256)):
        yield Cast(
            f"{scheme}_{four}_{scale_max}",
            scheme,
            "f4E2M1FN",
            lambda axis, s=scheme, f=four, m=scale_max: nvfp4.quantize(x, s, axis, whole, m, f),
            flags=", scale_max_256" * (scale_max == 256),
            operands=" amax %amax" + f" {{four_over_six = #te.four_over_six<{four}>}}" * (four is not None),
        )
    yield Cast(
        "nv_rows",
        "nv_1x16",
        "f4E2M1FN",
        lambda axis: nvfp4.quantize(x, "nv_1x16", axis, rows),
        flags=", row_scaled",
        operands=" amax %amax_rows",
        axes=(1,),
    )
    for scheme, (name, rng) in itertools.product(("nv_1x16", "nv_16x16"), STATES.items()):
        yield Cast(
            f"{scheme}_{name}",
            scheme,
            "f4E2M1FN",
            lambda axis, s=scheme, r=rng: nvfp4.quantize(x, s, axis, whole, rng=r),
            operands=f" amax %amax rng %{name} {{stream = {rng[1]} : i32}}",
            random=True,
        )


CASTS = (per_tensor, block, mx, nv)


def check_matrix(claim, array, source, axes, decode_to=None):
    """Every cast of the table. `axes` are those of each op: [(1, 0)] is one op for both."""
    x, shape = load(array, source), array.shape
    matrix = f"tensor<{shape[0]}x{shape[1]}x{source}>"
    program = Program(f"{claim} {source} {shape[0]}x{shape[1]} axes {axes}")
    program.argument("x", matrix, array)
    for name, scale in GIVEN.items():
        program.argument(name, "tensor<f32>", scale)
    for name, (state, _) in STATES.items():
        program.argument(name, "tensor<2xi32>", np.array(state, np.int32))
        program.op(f"%{name}_next = te.rng_advance %{name} {{count = 5 : i32}}")
        program.result(f"{name}_next", "tensor<2xi32>", philox.advance(state, 5))
    program.op(f"%amax = te.amax %x : {matrix}")
    program.result("amax", "tensor<f32>", amax(x))
    if shape[0] and shape[1]:
        program.op(f"%amax_rows = te.amax_rows %x : {matrix} -> tensor<{shape[0]}xf32>")
        program.result("amax_rows", f"tensor<{shape[0]}xf32>", nvfp4.amax_rows(x))
    for cast in (cast for rule in CASTS for cast in rule(program, x, source)):
        scheme = SCHEMES[cast.scheme]
        if any(size % scheme.multiple for size in shape) or (scheme.multiple > 1 and 0 in shape):
            continue
        usages = {}
        for together in axes if cast.axes == (1, 0) else [cast.axes]:
            names = [f"q_{cast.tag}_{axis}" for axis in together]
            measured = f"amax_{cast.tag}_{together[0]}" if cast.scheme == "per_tensor" and len(axes) == 1 else None
            types = ", ".join(cast.type(shape, axis) for axis in together)
            program.op(
                f"{', '.join('%' + name for name in names + [measured] * (measured is not None))} = te.quantize "
                f"%x{cast.operands} : {matrix} -> {types}{' amax tensor<f32>' * (measured is not None)}"
            )
            if measured:
                program.result(measured, "tensor<f32>", amax(x))
            for axis, name in zip(together, names):
                usages[axis] = cast.model(axis)
                program.result(name, cast.type(shape, axis), usages[axis])
                if decode_to:
                    program.op(
                        f"%{name}_back = te.dequantize %{name} : {cast.type(shape, axis)} -> "
                        f"tensor<{shape[0]}x{shape[1]}x{decode_to}>"
                    )
                    program.result(
                        f"{name}_back",
                        f"tensor<{shape[0]}x{shape[1]}x{decode_to}>",
                        store(scheme.decode(usages[axis], cast.element, axis, cast.flags), decode_to),
                    )
                if scheme.swizzle:
                    swizzled = replace(cast, flags=f"{cast.flags}, swizzled").type(shape, axis)
                    program.op(f"%{name}_s = te.swizzle_scales %{name} : {cast.type(shape, axis)} -> {swizzled}")
                    program.result(
                        f"{name}_s",
                        swizzled,
                        replace(
                            usages[axis],
                            scale=scheme.swizzle(usages[axis].scale, axis).reshape(usages[axis].scale.shape),
                        ),
                    )
        if scheme.transpose and 1 in usages:
            name = f"q_{cast.tag}"
            program.op(f"%{name}_t = te.transpose %{name}_1 : {cast.type(shape, 1)} -> {cast.type(shape, 0)}")
            program.result(f"{name}_t", cast.type(shape, 0), scheme.transpose(usages[1]))
            if 0 in usages and not cast.random:
                wanted, other = scheme.transpose(usages[1]), usages[0]
                expect(
                    np.array_equal(wanted.data, other.data) and np.array_equal(wanted.scale, other.scale),
                    f"{program.claim}: the model's transpose of '{name}' is its cast along the other axis",
                )
    program.check()


def check_matrices(rng):
    for source in ("bf16", "f16"):
        check_matrix("every input in order", every_16_bits(source), source, [(1, 0)])
        check_matrix("every input shuffled", every_16_bits(source, rng), source, [(1,), (0,)])
    check_matrix("patterns", f32_patterns(rng, 256, 256), "f32", [(1, 0)])
    for k, (name, value) in enumerate(
        {
            "zeros": 0.0,
            "negative zeros": -0.0,
            "NaN": np.nan,
            "infinities": -np.inf,
            "least": 2.0**-149,
            "largest": float(FLT_MAX),
        }.items()
    ):
        for source in SOURCES:
            with np.errstate(over="ignore"):
                check_matrix(
                    name, store(np.full((3, 130), value, np.float32), source), source, AXES[k % 3], SOURCES[k % 3]
                )
    # Sizes and their neighbours. Each is the height and the width of a matrix.
    sizes = [size + d for size in (32, 48, 128, 256, 272, 304, 320) for d in (-1, 0, 1)]
    shapes = [(m, sizes[(i + shift) % len(sizes)]) for shift in (0, 10) for i, m in enumerate(sizes)] + [
        (1, 1),
        (1, 300),
        (300, 1),
        (5, 7),
    ]
    # Sizes that blocks of 32 and 16 elements support.
    shapes += [(32, 160), (96, 32), (288, 416), (16, 48), (144, 272)]
    for k, (rows, columns) in enumerate(shapes):
        source = SOURCES[k % 3]
        check_matrix("mixed", mixed(rng, rows, columns, source), source, AXES[k // 3 % 3], SOURCES[k // 9 % 3])
    for shape in ((0, 16), (16, 0), (0, 0)):
        check_matrix("empty", store(np.zeros(shape, np.float32), "bf16"), "bf16", [(1, 0)], "bf16")


AXES = ([(1, 0)], [(1,), (0,)], [(1,)])


def check_scales(rng):
    """A step for each amax: ordinary ones, neighbours of powers of two, subnormals, infinity, NaN, zero."""
    amaxes = np.concatenate(
        [
            rng.integers(0, 0x7F800001, 3000, dtype=np.uint32),
            (np.arange(255)[:, None] * 2**23 + np.arange(-1, 2)).ravel().clip(0).astype(np.uint32),
            np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32),
        ]
    ).view(np.float32)
    program = Program("scales")
    program.argument("amax", "tensor<f32>", np.float32(0))
    program.arrays = {"amax.steps": amaxes}
    wanted = {}
    for element, pow2, epsilon in itertools.product(FP8, (False, True), (0.0, 0.125)):
        name = f"scale_{element[2:]}_{pow2}_{epsilon > 0}"
        program.op(
            f"%{name} = te.compute_scale %amax for {element} "
            f"{{amax_epsilon = {epsilon} : f32, pow2_scales = {str(pow2).lower()}}}"
        )
        program.result(name, "tensor<f32>", 0)
        wanted[f"{name}.steps"] = compute_scale(amaxes, FP8[element].max, pow2, epsilon)
    program.wanted = wanted
    program.check(steps=len(amaxes))


def check_codes(rng):
    """Every code of every format, with scales of all magnitudes, dequantised to every type."""
    scales = np.array([1, 0.75, 1 / 3, 2.0**-126, 1e-40, 2.0**-149, 3e38, FLT_MAX, 0, np.inf], np.float32)
    for element, (scheme, axis) in itertools.product(
        FP8, itertools.product(("per_tensor", "block_1x128", "block_128x128"), (0, 1))
    ):
        program = Program(f"codes of {element} {scheme} axis {axis}")
        shape, values = (256, 512), {}
        stored = shape if axis == 1 else shape[::-1]
        codes = np.stack([rng.permutation(256) for _ in range(512)]).astype(np.uint8).reshape(stored)
        if scheme == "per_tensor":
            values = {f"q{i}": Scaled(codes, scale.reshape(1)) for i, scale in enumerate(scales)}
        else:
            zeros = np.zeros(stored, np.float32)
            scale_shape = block_scaling.quantize(zeros, FP8[element], scheme, 1, "f32").scale.shape
            values = {f"q{i}": Scaled(codes, rng.choice(scales, scale_shape)) for i in range(3)}
        cast = Cast("", scheme, element, None)
        for (name, q), out in itertools.product(values.items(), SOURCES):
            if out == SOURCES[0]:
                program.argument(name, cast.type(shape, axis), q)
            matrix = f"tensor<{shape[0]}x{shape[1]}x{out}>"
            program.op(f"%{name}_{out} = te.dequantize %{name} : {cast.type(shape, axis)} -> {matrix}")
            program.result(f"{name}_{out}", matrix, store(SCHEMES[scheme].decode(q, element, axis, ""), out))
        program.check()


def check_hadamard(rng):
    """The transform, followed by a cast. The result is dequantised without the amax; GEMMs use a factor instead."""
    for rows, columns in ((16, 16), (32, 48), (272, 64)):
        for array in (
            mixed(rng, rows, columns, "bf16"),
            store(rng.normal(size=(rows, columns)).astype(np.float32), "bf16"),
        ):
            matrix, shape = f"tensor<{rows}x{columns}xbf16>", (rows, columns)
            y = nvfp4.hadamard(load(array, "bf16"))
            program = Program(f"hadamard {rows}x{columns}")
            program.argument("x", matrix, array)
            program.op(f"%y = te.hadamard %x : {matrix}")
            program.result("y", matrix, store(y, "bf16"))
            program.op(f"%amax = te.amax %y : {matrix}")
            q = nvfp4.quantize(y, "nv_1x16", 0, amax(y).reshape(1))
            type = scaled_type(shape, "f4E2M1FN", "nv_1x16", ", hadamard", 0)
            program.op(f"%q = te.quantize %y amax %amax : {matrix} -> {type}")
            program.result("q", type, q)
            program.op(f"%back = te.dequantize %q {{without_amax}} : {type} -> {matrix}")
            program.result("back", matrix, store(nvfp4.dequantize(q, 0, with_amax=False), "bf16"))
            other = scaled_type(shape, "f4E2M1FN", "nv_1x16", ", scale_max_256", 1)
            program.op(f"%other = te.quantize %y amax %amax : {matrix} -> {other}")
            program.op(f"%alpha = te.nvfp4_alpha %q, %other : {type}, {other}")
            program.result("alpha", "tensor<f32>", nvfp4.alpha(q.amax, q.amax[0], 448, 256).reshape(()))
            program.check()


rng = np.random.default_rng(19)
check_matrices(rng)
check_hadamard(rng)
check_scales(rng)
check_codes(rng)
print(f"model-casts: {compared['elements']} elements and scales compared")
finish("model-casts")
