"""Random programs with reductions of rows have the same bits in one launch and in a launch for each op.

A program computes with elements of a matrix, of a row of numbers and of a column of them, in bf16, f16 and f32, with sums, maxima and
minima of rows, softmax, dropout, and quotients of elements and what is computed of rows between. A matrix may begin behind other
elements, so that it is not aligned to 16 bytes. Inputs include zeros, -0, subnormal numbers, infinity and NaN, and rows whose exponents are so
different that quotients are subnormal or overflow, as do their sums. The gradients are compared as well, or, in every third program, amaxes. Which NaN a result is depends on the
order of operands that a compiler chooses, so NaNs are made alike before arrays are compared.
"""

import argparse

import numpy as np
from harness import PARSER, expect_same, finish, forget_last_run, run, to_bf16

options = argparse.ArgumentParser(parents=[PARSER])
options.add_argument("--programs", type=int, default=24)
options.add_argument("--seed", type=int, default=0)
arguments = options.parse_args()

TYPES = ("bf16", "f16", "f32")
#: Lengths of rows: runs of every length, with and without a rest, kept by a warp or a block of any size, or read again.
COLS = (1, 5, 32, 33, 64, 96, 128, 250, 256, 257, 384, 1000, 1024)
COLS += (1026, 1027, 2052, 2056, 4096, 4104, 5001, 8192, 8200, 9000, 14336)
UNARY = ("arith.negf", "math.absf", "math.exp", "math.tanh", "math.sqrt")
BINARY = ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf")


class Program:
    """The lines of a program, and the names of its values with their kind: "elements", or "rows" with one for each."""

    def __init__(self, rng, rows, cols):
        self.rng = rng
        self.shapes = {
            "elements": (rows, cols),
            "rows": (rows,),
            "cols": (cols,),
            "behind": (rows * cols + 3,),
            "state": (2,),
            "all": (),
        }
        self.lines, self.values, self.inputs = [], {}, {}

    def type_of(self, kind, element):
        return f"tensor<{''.join(f'{size}x' for size in self.shapes[kind])}{element}>"

    def input(self, kind, element):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.values[name] = (kind, element)

    def matrix(self, element):
        """An input of elements, which may begin behind 1 to 3 others."""
        first = int(self.rng.integers(0, 4))
        if first == 0 or self.rng.random() < 0.5:
            return self.input("elements", element)
        self.input("behind", element)
        rows, cols = self.shapes["elements"]
        given, flat = self.type_of("behind", element), f"tensor<{rows * cols}x{element}>"
        name = list(self.inputs)[-1]
        part = self.emit(
            f"tensor.extract_slice %{name}[{first}] [{rows * cols}] [1] : {given} to {flat}", "none", element
        )
        self.emit(
            f"tensor.expand_shape %{part} [[0, 1]] output_shape [{rows}, {cols}] : {flat} into {self.type_of('elements', element)}",
            "elements",
            element,
        )

    def emit(self, text, kind, element):
        name = f"v{len(self.lines)}"
        self.lines.append(f"  %{name} = {text}")
        self.values[name] = (kind, element)
        return name

    def convert(self, name, element):
        kind, have = self.values[name]
        if have == element:
            return name
        if "f32" not in (have, element):
            name, have = self.convert(name, "f32"), "f32"
        op = "arith.truncf" if have == "f32" else "arith.extf"
        return self.emit(f"{op} %{name} : {self.type_of(kind, have)} to {self.type_of(kind, element)}", kind, element)

    def broadcast(self, name):
        kind, element = self.values[name]
        if kind == "elements":
            return name
        out = self.emit(f"tensor.empty() : {self.type_of('elements', element)}", "none", element)
        axis = 1 if kind == "rows" else 0
        return self.emit(
            f"linalg.broadcast ins(%{name} : {self.type_of(kind, element)}) "
            f"outs(%{out} : {self.type_of('elements', element)}) dimensions = [{axis}]",
            "elements",
            element,
        )

    def sum(self, name, op="addf"):
        name = self.convert(name, "f32")
        first = {"addf": "0.0", "maximumf": "0xFF800000", "minimumf": "0x7F800000"}[op]
        init = self.emit(f"arith.constant dense<{first}> : {self.type_of('rows', 'f32')}", "none", "f32")
        return self.emit(
            f"linalg.reduce {{ arith.{op} }} ins(%{name} : {self.type_of('elements', 'f32')}) "
            f"outs(%{init} : {self.type_of('rows', 'f32')}) dimensions = [1]",
            "rows",
            "f32",
        )

    def dropout(self, name, stream):
        element, rate = self.values[name][1], self.rng.choice(["0.1", "0.3", "0.5", "1.0"])
        self.emit(
            f"te.dropout %{name} rng %{self.draw('state')} {{probability = {rate} : f32, stream = {stream} : i32}} "
            f": {self.type_of('elements', element)}",
            "elements",
            element,
        )

    def ratio(self, name):
        """Elements divided by a sum or a maximum of rows, or by what was computed of one."""
        rows = [n for n, (kind, element) in self.values.items() if kind == "rows" and element == "f32"]
        below = str(self.rng.choice(rows)) if rows and self.rng.random() < 0.5 else None
        below = below or self.sum(self.draw("elements"), str(self.rng.choice(["addf", "maximumf"])))
        wide, below = self.convert(name, "f32"), self.broadcast(below)
        self.emit(f"arith.divf %{wide}, %{below} : {self.type_of('elements', 'f32')}", "elements", "f32")

    def draw(self, *kinds):
        return str(self.rng.choice([name for name, (kind, _) in self.values.items() if kind in kinds]))

    def step(self):
        rng = self.rng
        kind = rng.choice(
            ["sum", "extremum", "softmax", "dropout", "ratio", "unary", "binary", "row", "spread", "binary"]
        )
        if kind == "sum":
            self.sum(self.draw("elements"))
        elif kind == "extremum":
            self.sum(self.draw("elements"), str(rng.choice(["maximumf", "minimumf"])))
        elif kind == "dropout":
            self.dropout(self.draw("elements"), int(rng.integers(0, 3)))
        elif kind == "ratio":
            self.ratio(self.draw("elements"))
        elif kind == "softmax":
            name = self.draw("elements")
            element = self.values[name][1]
            scale = rng.choice(["", " {scale = 0.125 : f32}"])
            self.emit(f"te.softmax %{name}{scale} : {self.type_of('elements', element)}", "elements", element)
        elif kind == "spread":
            self.broadcast(self.draw("rows", "cols", "elements"))
        else:
            many = "rows" if kind == "row" and any(k == "rows" for k, _ in self.values.values()) else "elements"
            name = self.draw(many)
            element = self.values[name][1]
            if rng.random() < 0.3:
                name = self.convert(name, str(rng.choice(TYPES)))
                element = self.values[name][1]
            if kind == "unary" or rng.random() < 0.3:
                self.emit(f"{rng.choice(UNARY)} %{name} : {self.type_of(many, element)}", many, element)
            else:
                other = self.draw(*((many,) if many == "rows" else ("elements", "rows", "cols")))
                other = self.convert(other if many == "rows" else self.broadcast(other), element)
                self.emit(f"{rng.choice(BINARY)} %{name}, %{other} : {self.type_of(many, element)}", many, element)

    def text(self, results):
        typed = lambda name: self.type_of(*self.values[name])
        entry = ", ".join(f'%{name}: {typed(name)} {{te.name = "{name}"}}' for name in self.inputs)
        made = ", ".join(f'{typed(name)} {{te.name = "r{i}"}}' for i, name in enumerate(results))
        names, types = ", ".join(f"%{name}" for name in results), ", ".join(map(typed, results))
        return "\n".join([f"func.func @f({entry}) -> ({made}) {{", *self.lines, f"  return {names} : {types}", "}"])


def bits(rng, shape, element):
    values = rng.normal(0, 1, shape).astype(np.float32)
    special = np.array([0.0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, 3e4], np.float32)
    # One row in eight, or one number, has any exponent.
    scaled = np.ldexp(values, rng.integers(*((-24, 16) if element == "f16" else (-140, 127)), shape)).astype(np.float32)
    values = np.where(rng.random((shape[0],) + (1,) * (len(shape) - 1)) < 0.125, scaled, values)
    # One row in eight has special numbers, so that sums of the others are finite.
    if len(shape) == 2:
        chosen = (rng.random(shape) < 0.02) & (rng.random((shape[0], 1)) < 0.125)
        values = np.where(chosen, rng.choice(special, shape), values)
    if element == "i32":
        return rng.integers(-100, 100, shape, np.int32)
    return {"f32": lambda x: x, "f16": lambda x: x.astype(np.float16), "bf16": to_bf16}[element](values)


def numbers(arrays, names, types):
    """The bytes of arrays, with one NaN for all; bf16 is uint16."""
    infinity = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}

    def of(name):
        found = arrays[name].view(np.uint32 if types[name] == "f32" else np.uint16)
        is_nan = (found & (0xFFFFFFFF >> 1 if types[name] == "f32" else 0x7FFF)) > infinity[types[name]]
        return np.where(is_nan, found.dtype.type(0x7FFF), found)

    return {name: of(name) for name in names}


for number in range(arguments.programs):
    rng = np.random.default_rng((arguments.seed, number))
    cols = COLS[number % len(COLS)]
    program = Program(rng, int(rng.integers(1, 20)), cols)
    program.input("state", "i32")
    for _ in range(int(rng.integers(1, 3))):
        program.matrix(str(rng.choice(TYPES)))
    for kind in ("cols", "rows"):
        if rng.random() < 0.5:
            program.input(kind, str(rng.choice(TYPES)))
    for _ in range(int(rng.integers(4, 14))):
        program.step()
    program.sum(program.draw("elements"))
    program.emit(
        f"arith.mulf %{program.broadcast(list(program.values)[-1])}, %{program.convert(program.draw('elements'), 'f32')} "
        f": {program.type_of('elements', 'f32')}",
        "elements",
        "f32",
    )
    made = [name for name, (kind, _) in program.values.items() if name[0] == "v" and kind in ("elements", "rows")]
    results = list(dict.fromkeys([made[-1], *(str(name) for name in rng.choice(made, 2))]))
    measures = rng.random() < 0.3
    if measures:
        for name in (made[-1], program.draw("elements"), program.draw("elements")):
            results.append(program.emit(f"te.amax %{name} : {program.type_of(*program.values[name])}", "all", "f32"))
    with np.errstate(all="ignore"):
        given = {name: bits(rng, program.shapes[kind], element) for name, (kind, element) in program.inputs.items()}
        if not measures:
            given |= {
                f"grad.r{i}": bits(rng, program.shapes[kind], element)
                for i, (kind, element) in enumerate(map(program.values.get, results))
            }
    text = program.text(results)
    with np.errstate(all="ignore"):
        found = [run(text, "f", given, pipeline=f"fuse={fuse}", vjp=not measures) for fuse in ("true", "false")]
    types = {f"r{i}": program.values[name][1] for i, name in enumerate(results)}
    if not measures:
        types |= {f"grad.{name}": element for name, (_, element) in program.inputs.items() if element != "i32"}
    fused, apart = (numbers(arrays, types, types) for arrays in found)
    expect_same(fused, apart, types, f"program {number} (rows of {cols})")
    forget_last_run()
finish("rows-are-exact")
