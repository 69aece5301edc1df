"""Generated code of elementwise ops computes what IEEE arithmetic says, alone and fused.

First every op alone, on values of every kind, against numpy: arithmetic in f32, rounded to the type of the result. Then
random programs of f32, bf16 and f16. Each runs with one launch for each op on the reference backend, and fused on the
backend of the test.
"""

import argparse

import numpy as np
from harness import (
    BACKEND,
    FOLDER,
    PARSER,
    compile_to,
    expect,
    finish,
    forget_last_run,
    from_bf16,
    run,
    same_bytes,
    to_bf16,
)

options = argparse.ArgumentParser(parents=[PARSER])
options.add_argument("--programs", type=int, default=6)
options.add_argument("--regions", type=int, default=8, help="in a program")
options.add_argument("--seed", type=int, default=0)
arguments = options.parse_args()

SHAPES = [(1,), (3, 5), (16, 64), (4099,), (33, 129), (2, 8, 24)]
WIDTHS = {"f32": np.uint32, "bf16": np.uint16, "f16": np.uint16}
BINARY = ("addf", "subf", "mulf", "divf", "maximumf", "minimumf", "remf")
UNARY = (
    "arith.negf",
    "math.absf",
    "math.exp",
    "math.log",
    "math.log1p",
    "math.sin",
    "math.cos",
    "math.tanh",
    "math.sqrt",
    "math.rsqrt",
    "math.exp2",
    "math.log2",
    "math.erf",
    "math.erfc",
    "math.floor",
    "math.ceil",
    "math.trunc",
    "math.roundeven",
)

#: What each predicate of arith.cmpf says of two numbers that may be NaN.
PREDICATES = {
    "oeq": lambda a, b: a == b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "one": lambda a, b: (a < b) | (a > b),
    "ord": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "une": lambda a, b: a != b,
    "uno": lambda a, b: np.isnan(a) | np.isnan(b),
}


def draw(rng, shape, dtype):
    """Numbers of moderate size, and special bit patterns: zeros, subnormals, infinities and NaNs."""
    count, bits = int(np.prod(shape)), WIDTHS[dtype]
    plain = (rng.standard_normal(count) * 4.0 ** rng.integers(-3, 4, count)).astype(np.float32)
    if dtype == "f16":
        drawn = plain.astype(np.float16).view(np.uint16)
    else:
        drawn = plain.view(np.uint32) >> (16 if dtype == "bf16" else 0)
    special = {
        "f32": [0, 0x80000000, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF],
        "bf16": [0, 0x8000, 1, 0x807F, 0x7F80, 0xFF80, 0x7FC0, 0x7F7F],
        "f16": [0, 0x8000, 1, 0x83FF, 0x7C00, 0xFC00, 0x7E00, 0x7BFF],
    }[dtype]
    where = rng.random(count) < 0.1
    return np.where(where, rng.choice(special, count), drawn).astype(bits).reshape(shape)


def region(rng, number):
    """The text of some random ops, and its inputs and results, each with the name of its type."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    type_of = lambda dtype: f"tensor<{'x'.join(map(str, shape))}x{dtype}>"
    inputs = {f"x{number}_{i}": rng.choice(list(WIDTHS)) for i in range(rng.integers(1, 5))}
    values, lines, fresh = dict(inputs), [], iter(range(1000))

    def emit(text, dtype):
        name = f"v{number}_{next(fresh)}"
        lines.append(f"  %{name} = {text}")
        values[name] = dtype
        return name

    def cast(name, dtype):
        have = values[name]
        if have == dtype:
            return name
        if "f32" not in (have, dtype):
            return cast(cast(name, "f32"), dtype)
        op = "extf" if dtype == "f32" else "truncf"
        return emit(f"arith.{op} %{name} : {type_of(have)} to {type_of(dtype)}", dtype)

    for _ in range(rng.integers(2, 10)):
        a, b = rng.choice(list(values), 2)
        dtype = values[a]
        kind = rng.integers(5)
        if kind == 0 and rng.random() < 0.1:
            emit(f"math.powf %{a}, %{cast(b, dtype)} : {type_of(dtype)}", dtype)
        elif kind == 0:
            emit(f"{rng.choice(UNARY)} %{a} : {type_of(dtype)}", dtype)
        elif kind == 1:
            cast(a, rng.choice(list(WIDTHS)))
        elif kind == 2:
            constant = emit(f"arith.constant dense<{rng.choice([0.5, -1.25, 3.0, 0.0])}> : {type_of(dtype)}", dtype)
            emit(f"arith.{rng.choice(BINARY)} %{a}, %{constant} : {type_of(dtype)}", dtype)
            del values[constant]
        elif kind == 3:
            emit(f"arith.{rng.choice(BINARY)} %{a}, %{cast(b, dtype)} : {type_of(dtype)}", dtype)
        else:
            predicate, other = rng.choice(list(PREDICATES)), cast(b, dtype)
            yes = rng.choice(list(values))
            no = cast(rng.choice(list(values)), values[yes])
            holds = emit(f"arith.cmpf {predicate}, %{a}, %{other} : {type_of(dtype)}", "i1")
            del values[holds]
            chosen = f"%{holds}, %{yes}, %{no} : {type_of('i1')}, {type_of(values[yes])}"
            emit(f"arith.select {chosen}", values[yes])
    emit(f"arith.negf %{a} : {type_of(values[a])}", values[a])
    made = [name for name in values if name not in inputs]
    results = {made[-1]} | {name for name in made if rng.random() < 0.2}
    with_types = lambda names: {name: type_of(values[name]) for name in names}
    if rng.random() < 0.5:
        measured = str(rng.choice(made))
        lines.append(f"  %amax{number} = te.amax %{measured} : {type_of(values[measured])}")
        amaxes = {f"amax{number}": "tensor<f32>"}
    else:
        amaxes = {}
    arrays = {name: draw(rng, shape, dtype) for name, dtype in inputs.items()}
    return lines, with_types(inputs), with_types(sorted(results)) | amaxes, arrays


def same(a, b):
    """Whether the bits are equal, where all f32 NaNs count as equal."""
    if a.dtype != np.float32:
        return same_bytes(a, b)
    return np.array_equal(a.view(np.uint32)[~np.isnan(a)], b.view(np.uint32)[~np.isnan(b)]) and np.array_equal(
        np.isnan(a), np.isnan(b)
    )


TARGET = "target=sm_90" if BACKEND == "cuda" else "target=reference"


def in_file(bits, dtype):
    """An array as te-run reads it: bf16 is uint16 there."""
    return bits if dtype == "bf16" else bits.view(np.float32 if dtype == "f32" else np.float16)


def widened(bits, dtype):
    return from_bf16(bits) if dtype == "bf16" else in_file(bits, dtype).astype(np.float32)


def narrowed(x, dtype):
    if dtype == "bf16":
        return to_bf16(x)
    return (
        np.where(np.isnan(x), np.uint16(0x7FFF), x.astype(np.float16).view(np.uint16)).view(np.float16)
        if dtype == "f16"
        else x
    )


def single_ops():
    """Every op alone."""
    numpy = {
        "arith.addf": np.add,
        "arith.subf": np.subtract,
        "arith.mulf": np.multiply,
        "arith.divf": np.divide,
        "arith.maximumf": lambda a, b: np.where(np.isnan(b) | (a < b), b, a),
        "arith.minimumf": lambda a, b: np.where(np.isnan(b) | (a > b), b, a),
        "arith.negf": lambda a, b: -a,
        "math.absf": lambda a, b: np.abs(a),
        "math.sqrt": lambda a, b: np.sqrt(a),
        "math.rsqrt": lambda a, b: np.float32(1) / np.sqrt(a),
        "arith.remf": np.fmod,
        "math.floor": lambda a, b: np.floor(a),
        "math.ceil": lambda a, b: np.ceil(a),
        "math.trunc": lambda a, b: np.trunc(a),
        "math.roundeven": lambda a, b: np.rint(a),
    }
    count, rng = 20011, np.random.default_rng(arguments.seed)
    for dtype in WIDTHS:
        kind = f"tensor<{count}x{dtype}>"
        ops = [*numpy, "arith.truncf", "arith.truncf"] if dtype == "f32" else [*numpy, "arith.extf"]
        kinds = [kind] * len(numpy) + (
            [f"tensor<{count}xbf16>", f"tensor<{count}xf16>"] if dtype == "f32" else [f"tensor<{count}xf32>"]
        )
        lines = [
            f"  %r{i} = {op} %a : {kind} to {made}"
            if op.endswith(("truncf", "extf"))
            else f"  %r{i} = {op} %a{', %b' if op.startswith('arith') and op != 'arith.negf' else ''} : {kind}"
            for i, (op, made) in enumerate(zip(ops, kinds))
        ]
        made = ", ".join(f'{kind} {{te.name = "r{i}"}}' for i, kind in enumerate(kinds))
        results = ", ".join(f"%r{i}" for i in range(len(ops)))
        text = "\n".join(
            [
                f'func.func @f(%a: {kind} {{te.name = "a"}}, %b: {kind} {{te.name = "b"}}) -> ({made}) {{',
                *lines,
                f"  return {results} : {', '.join(kinds)}",
                "}",
            ]
        )
        bits = {name: draw(rng, (count,), dtype) for name in "ab"}
        found = run(text, "f", {name: in_file(of, dtype) for name, of in bits.items()}, "fuse=false " + TARGET)
        a, b = (widened(bits[name], dtype) for name in "ab")
        with np.errstate(all="ignore"):
            for i, (op, result) in enumerate(zip(ops, kinds)):
                value = numpy[op](a, b) if op in numpy else a
                wanted = narrowed(value, result.rsplit("x", 1)[1][:-1])
                expect(same(found[f"r{i}"], wanted), f"{op} of {dtype} to {result}")
        forget_last_run()


def choices():
    """Every comparison, of values of each type, that chooses between them."""
    count, rng = 20011, np.random.default_rng(arguments.seed)
    for dtype in WIDTHS:
        kind = f"tensor<{count}x{dtype}>"
        lines = [
            f"""  %c_{predicate} = arith.cmpf {predicate}, %a, %b : {kind}
  %{predicate} = arith.select %c_{predicate}, %a, %b : tensor<{count}xi1>, {kind}"""
            for predicate in PREDICATES
        ]
        made = ", ".join(f'{kind} {{te.name = "{predicate}"}}' for predicate in PREDICATES)
        results = ", ".join(f"%{predicate}" for predicate in PREDICATES)
        text = "\n".join(
            [
                f'func.func @f(%a: {kind} {{te.name = "a"}}, %b: {kind} {{te.name = "b"}}) -> ({made}) {{',
                *lines,
                f"  return {results} : {', '.join([kind] * len(PREDICATES))}",
                "}",
            ]
        )
        bits = {name: draw(rng, (count,), dtype) for name in "ab"}
        bits["b"] = np.where(rng.random(count) < 0.2, bits["a"], bits["b"])
        found = run(text, "f", {name: in_file(of, dtype) for name, of in bits.items()}, "fuse=false " + TARGET)
        a, b = (widened(bits[name], dtype) for name in "ab")
        for predicate, holds in PREDICATES.items():
            wanted = narrowed(np.where(holds(a, b), a, b), dtype)
            expect(same(found[predicate], wanted), f"{predicate} of {dtype}")
        forget_last_run()


def broadcasts():
    """Operands that are repeated along some dimensions: lengths that vectors divide, and others."""
    rng = np.random.default_rng(arguments.seed)
    cases = [
        ((16, 64), (0,)),
        ((33, 129), (0,)),
        ((16, 64), (1,)),
        ((33, 129), (1,)),
        ((16, 64), (0, 1)),
        ((2, 8, 24), (1,)),
        ((3, 5, 7), (1,)),
        ((4, 16, 32), (0, 2)),
        ((3, 5, 7), (0, 2)),
        ((2, 3, 4, 16), (0, 2)),
        ((64, 4096), (0,)),
        ((0, 8), (0,)),
    ]
    for dtype in WIDTHS:
        for shape, dimensions in cases:
            kept = [size for axis, size in enumerate(shape) if axis not in dimensions]
            type_of = lambda sizes: f"tensor<{''.join(f'{size}x' for size in sizes)}{dtype}>"
            full, small = type_of(shape), type_of(kept)
            text = f"""func.func @f(%x: {full} {{te.name = "x"}}, %b: {small} {{te.name = "b"}}) -> ({full} {{te.name = "y"}}) {{
  %empty = tensor.empty() : {full}
  %bs = linalg.broadcast ins(%b : {small}) outs(%empty : {full}) dimensions = {list(dimensions)}
  %y = arith.addf %x, %bs : {full}
  return %y : {full}
}}"""
            bits = {"x": draw(rng, shape, dtype), "b": draw(rng, tuple(kept), dtype).reshape(kept)}
            found = run(text, "f", {name: in_file(of, dtype) for name, of in bits.items()}, TARGET)
            x, b = (widened(bits[name], dtype) for name in "xb")
            with np.errstate(all="ignore"):
                wanted = narrowed(x + np.expand_dims(b, dimensions), dtype)
            expect(same(found["y"], wanted), f"{full} + {small} along {dimensions}")
            forget_last_run()
    # The result has as many bytes as what is broadcast, but may not take its memory.
    for dimension, shape in ((0, (2, 64)), (1, (64, 2))):
        text = f"""func.func @f(%b: tensor<64xf32> {{te.name = "b"}}) -> (tensor<{shape[0]}x{shape[1]}xbf16> {{te.name = "y"}}) {{
  %twice = arith.addf %b, %b : tensor<64xf32>
  %empty = tensor.empty() : tensor<{shape[0]}x{shape[1]}xf32>
  %bs = linalg.broadcast ins(%twice : tensor<64xf32>) outs(%empty : tensor<{shape[0]}x{shape[1]}xf32>) dimensions = [{dimension}]
  %y = arith.truncf %bs : tensor<{shape[0]}x{shape[1]}xf32> to tensor<{shape[0]}x{shape[1]}xbf16>
  return %y : tensor<{shape[0]}x{shape[1]}xbf16>
}}"""
        b = rng.standard_normal(64).astype(np.float32)
        found = run(text, "f", {"b": b}, TARGET)["y"]
        wanted = to_bf16(np.broadcast_to(np.expand_dims(b + b, dimension), shape))
        expect(same(found, wanted), f"a broadcast along {dimension}, narrowed")
        forget_last_run()


single_ops()
choices()
broadcasts()
regions = 0
for program in range(arguments.programs):
    rng = np.random.default_rng([arguments.seed, program])
    lines, inputs, results, arrays = [], {}, {}, {}
    for number in range(arguments.regions):
        for whole, part in zip((lines, inputs, results, arrays), region(rng, number)):
            whole.extend(part) if isinstance(whole, list) else whole.update(part)
    given = ", ".join(f'%{name}: {kind} {{te.name = "{name}"}}' for name, kind in inputs.items())
    made = ", ".join(f'{kind} {{te.name = "{name}"}}' for name, kind in results.items())
    returned = f"  return {', '.join('%' + name for name in results)} : {', '.join(results.values())}"
    module = FOLDER / f"program{program}.mlir"
    module.write_text("\n".join([f"func.func @f({given}) -> ({made}) {{", *lines, returned, "}"]))
    arrays = {
        n: a.view(np.float16 if "f16" in inputs[n] and "bf16" not in inputs[n] else a.dtype) for n, a in arrays.items()
    }
    arrays = {n: a.view(np.float32) if "f32" in inputs[n] else a for n, a in arrays.items()}
    wanted = run(module, "f", arrays, "fuse=false target=reference", backend="reference")
    forget_last_run()
    found = run(module, "f", arrays, TARGET)
    for name in results:
        expect(same(wanted[name], found[name]), f"program {program}: '{name}'")
    launches = compile_to(module, "schedule", "")
    regions += launches.count('"generated"')
    forget_last_run()
expect(regions >= arguments.programs * arguments.regions // 2, f"{regions} regions are too few to say anything")
print(f"regions: {regions}")
finish("generated-is-exact")
