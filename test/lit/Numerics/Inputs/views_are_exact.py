"""Random programs of reshapes, transposes, slices, broadcasts, concatenations and sums, with additions in between.

All numbers are small integers, so every order of sums gives the same bits. The forward is compared with numpy. The
programs are linear: a gradient is right if <dy, f(x)> = <gradient, x> for random dy and x, which holds exactly.
"""

import argparse

import numpy as np
from harness import PARSER, expect, finish, forget_last_run, run

options = argparse.ArgumentParser(parents=[PARSER])
options.add_argument("--programs", type=int, default=40)
options.add_argument("--seed", type=int, default=0)
arguments = options.parse_args()


def type_of(shape):
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


class Program:
    """The lines of a program, and its values: (shape, the function of the inputs that numpy computes)."""

    def __init__(self, rng):
        self.rng, self.lines, self.values, self.inputs = rng, [], {}, {}

    def input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = shape
        self.values[name] = (shape, lambda given: given[name])
        return name

    def emit(self, text, shape, function):
        name = f"v{len(self.values)}"
        self.lines.append(f"  %{name} = {text}")
        self.values[name] = (shape, function)
        return name

    def constant(self, shape):
        return self.emit(
            f"arith.constant dense<0.0> : {type_of(shape)}", shape, lambda given: np.zeros(shape, np.float32)
        )

    def destination(self, shape):
        name = f"e{len(self.lines)}"
        self.lines.append(f"  %{name} = tensor.empty() : {type_of(shape)}")
        return name

    def reshape(self, name, shape):
        """Through one dimension, as frontends do."""
        have, of = self.values[name]
        count = int(np.prod(have))
        for kind, to in (("collapse", (count,)), ("expand", shape)):
            have, of = self.values[name]
            if len(have) == len(to) == 1:
                continue
            groups = f"[[{', '.join(map(str, range(max(len(have), len(to)))))}]]" if min(len(have), len(to)) else "[]"
            kind = kind if len(have) > len(to) else "expand"
            sizes = f" output_shape {list(to)}" if kind == "expand" else ""
            name = self.emit(
                f"tensor.{kind}_shape %{name} {groups}{sizes} : {type_of(have)} into {type_of(to)}",
                tuple(to),
                lambda given, of=of, to=to: of(given).reshape(to),
            )
        return name

    def step(self):
        """Adds one random op on a random value."""
        rng = self.rng
        name = rng.choice(list(self.values))
        shape, of = self.values[name]
        rank, count = len(shape), int(np.prod(shape))
        kind = rng.choice(
            ["reshape", "transpose", "slice", "broadcast", "concat", "sum", "add", "negate", "transpose", "slice"]
        )
        if kind == "reshape":
            divisors = [d for d in range(1, count + 1) if count % d == 0] if count else []
            if not divisors:
                return
            first = int(rng.choice(divisors))
            second = int(rng.choice([d for d in divisors if (count // first) % d == 0]))
            self.reshape(name, (first, second, count // first // second))
        elif kind == "transpose" and rank > 1:
            order = [int(a) for a in rng.permutation(rank)]
            to = tuple(shape[a] for a in order)
            self.emit(
                f"linalg.transpose ins(%{name} : {type_of(shape)}) outs(%{self.destination(to)} : {type_of(to)}) permutation = {order}",
                to,
                lambda given: of(given).transpose(order),
            )
        elif kind == "slice" and rank:
            starts = [int(rng.integers(0, max(size, 1))) if rng.random() < 0.7 else 0 for size in shape]
            sizes = [
                int(rng.integers(0 if rng.random() < 0.05 else min(1, n - s), n - s + 1)) for n, s in zip(shape, starts)
            ]
            if rng.random() < 0.9 and 0 in sizes:
                return
            at = tuple(slice(s, s + n) for s, n in zip(starts, sizes))
            self.emit(
                f"tensor.extract_slice %{name}{starts} {sizes} {[1] * rank} : {type_of(shape)} to {type_of(sizes)}",
                tuple(sizes),
                lambda given: of(given)[at],
            )
        elif kind == "broadcast" and rank < 4 and count < 2000:
            axis, size = int(rng.integers(rank + 1)), int(rng.integers(1, 5))
            to = (*shape[:axis], size, *shape[axis:])
            self.emit(
                f"linalg.broadcast ins(%{name} : {type_of(shape)}) outs(%{self.destination(to)} : {type_of(to)}) dimensions = [{axis}]",
                to,
                lambda given: np.broadcast_to(np.expand_dims(of(given), axis), to),
            )
        elif kind == "concat" and rank:
            axis = int(rng.integers(rank))
            extra = (*shape[:axis], int(rng.integers(1, 4)), *shape[axis + 1 :])
            parts = [name, *([self.constant(extra)] if rng.random() < 0.5 else [name])]
            parts = [parts[i] for i in rng.permutation(len(parts))]
            functions = [self.values[part][1] for part in parts]
            shapes = [self.values[part][0] for part in parts]
            to = (*shape[:axis], sum(s[axis] for s in shapes), *shape[axis + 1 :])
            names = ", ".join(f"%{part}" for part in parts)
            self.emit(
                f"tensor.concat dim({axis}) {names} : ({', '.join(map(type_of, shapes))}) -> {type_of(to)}",
                to,
                lambda given: np.concatenate([f(given) for f in functions], axis),
            )
        elif kind == "sum" and rank:
            axes = sorted(int(a) for a in rng.choice(rank, int(rng.integers(1, rank + 1)), replace=False))
            to = tuple(n for a, n in enumerate(shape) if a not in axes)
            self.emit(
                f"linalg.reduce {{ arith.addf }} ins(%{name} : {type_of(shape)}) outs(%{self.constant(to)} : {type_of(to)}) dimensions = {axes}",
                to,
                lambda given: of(given).sum(tuple(axes)).astype(np.float32),
            )
        elif kind == "add":
            alike = [n for n, (s, _) in self.values.items() if s == shape]
            other = self.values[rng.choice(alike)]
            second = next(n for n, value in self.values.items() if value is other)
            self.emit(
                f"arith.addf %{name}, %{second} : {type_of(shape)}", shape, lambda given: of(given) + other[1](given)
            )
        elif kind == "negate":
            self.emit(f"arith.negf %{name} : {type_of(shape)}", shape, lambda given: -of(given))

    def text(self, results):
        entry = ", ".join(f'%{n}: {type_of(s)} {{te.name = "{n}"}}' for n, s in self.inputs.items())
        types = [type_of(self.values[name][0]) for name in results]
        made = ", ".join(f'{kind} {{te.name = "r{i}"}}' for i, kind in enumerate(types))
        names = ", ".join(f"%{name}" for name in results)
        return "\n".join(
            [f"func.func @f({entry}) -> ({made}) {{", *self.lines, f"  return {names} : {', '.join(types)}", "}"]
        )


for number in range(arguments.programs):
    rng = np.random.default_rng((arguments.seed, number))
    program = Program(rng)
    for _ in range(int(rng.integers(1, 4))):
        program.input(tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8, 16], int(rng.integers(1, 4)))))
    for _ in range(int(rng.integers(3, 14))):
        program.step()
    names = [name for name in program.values if name.startswith("v")]
    if not names:
        continue
    chosen = dict.fromkeys([names[-1], *rng.choice(names, 2)])
    integers = lambda shape: rng.integers(-3, 4, shape).astype(np.float32)
    given = {name: integers(shape) for name, shape in program.inputs.items()}
    wanted = [np.asarray(program.values[name][1](given), np.float32) for name in chosen]
    cotangents = {f"grad.r{i}": integers(value.shape) for i, value in enumerate(wanted)}
    found = run(program.text(chosen), "f", given | cotangents, vjp=True)
    equal = [np.array_equal(found[f"r{i}"], value) for i, value in enumerate(wanted)]
    if expect(all(equal), f"program {number}: results {equal}"):
        left = sum(float((cotangents[f"grad.r{i}"].astype(np.float64) * value).sum()) for i, value in enumerate(wanted))
        right = sum(float((found[f"grad.{name}"].astype(np.float64) * x).sum()) for name, x in given.items())
        expect(left == right, f"program {number}: <dy, f(x)> = {left}, but <gradient, x> = {right}")
    forget_last_run()
finish("views-are-exact")
