"""Random programs of tensors that PyTorch and JAX both run, with bounds of the rounding of their results and gradients.

A program is drawn together with its values, so that each operation is defined for its operands and no comparison is
of two numbers that rounding could exchange. Inputs are multiples of 1/8.

The bound. An operation rounds its result by a factor 1 + d, |d| <= k u, with u = 2^-24, k = 1 for arithmetic and 4 for
functions. To first order, an error is a sum of c d over the roundings, forward and backward. `Program.bounds` computes
in float64 how results and gradients change if every d is +k u or -k u at random: the sum then has the standard deviation
s = sqrt(sum c^2 k^2 u^2), and an error is at most sqrt(n) s for n roundings. n is taken as 256, and s as the largest
change of an element of the tensor in some draws. If all operations are exact, and float32 holds every value and
gradient, the bound is 0.
"""

import functools
import math
import pathlib
import random
import sys
from typing import NamedTuple

import torch
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).parents[2] / "test/model"))
from te_model.noise import Round, signs  # noqa: E402

U, DRAWS, LARGEST = 2.0**-24, 4, 64.0


EVERY = (slice(None),)
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC = ("and", "or", "not", "xor")

#: Functions that have one spelling in both frameworks.
SHARED = {
    "plus": lambda x, c: x + c,
    "from": lambda x, c: c - x,
    "times": lambda x, c: x * c,
    "over": lambda x, c: c / x,
    "above": lambda x, c: x > c,
    "cube": lambda x: x * x * x,
    "root": lambda x: x**0.3,
    "inverse": lambda x: x**-1.75,
    "two_to": lambda x: 2.0**x,
    "power": lambda x, y: x**y,
    "slice": lambda x, axis, first, end, step: x[EVERY * axis + (slice(first, end, step),)],
}


def torch_functions(dtype):
    """The functions of programs in PyTorch. dtype: that of numbers that are made of truth values."""
    one = [
        "exp",
        "log",
        "log1p",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sinh",
        "cosh",
        "erf",
        "exp2",
        "log2",
        "floor",
        "round",
        "detach",
        "fmod",
        "sigmoid",
        "neg",
        "abs",
        "square",
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "where",
    ]
    two = ["lt", "le", "gt", "ge", "eq", "ne", "reshape", "permute", "broadcast_to", "stack", "cat", "tile"]
    return {
        **{name: getattr(torch, name) for name in (*one, *two)},
        **{name: getattr(F, name) for name in ("relu", "silu", "softplus", "gelu", "elu")},
        **{name: getattr(torch, f"logical_{name}") for name in LOGIC},
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "leaky_relu": lambda x: F.leaky_relu(x, 0.25),
        "clamp": lambda x: x.clamp(-1.5, 1.5),
        "pick": lambda x, ids: F.embedding(ids, x),
        "number": lambda x: x.to(dtype),
        "sum": lambda x, axes, keep: x.sum(axes, keepdim=keep),
        "mean": lambda x, axes, keep: x.mean(axes, keepdim=keep),
        "max": lambda x, axis, keep: x.amax(axis, keepdim=keep),
        "flip": lambda x, axis: x.flip(axis),
        "cumsum": lambda x, axis: x.cumsum(axis),
        "var": lambda x, axis: x.var(axis, correction=0, keepdim=True),
        "softmax": lambda x, axis: x.softmax(axis),
        "log_softmax": lambda x, axis: x.log_softmax(axis),
        "logsumexp": lambda x, axis: x.logsumexp(axis, keepdim=True),
        "split": lambda x, axis, count, at: x.chunk(count, axis)[at],
        "select": lambda x, axis, at: x.select(axis, at),
        **SHARED,
    }


def jax_functions():
    """The functions of programs in JAX."""
    import jax
    import jax.numpy as jnp
    from jax import nn

    one = {name: getattr(jnp, name) for name in ["exp", "log", "log1p", "sqrt", "sin", "cos", "tanh"]}
    one |= {name: getattr(jnp, name) for name in ["tan", "sinh", "cosh", "exp2", "log2", "floor", "round", "fmod"]}
    one |= {"erf": jax.lax.erf, "detach": jax.lax.stop_gradient}
    renamed = dict(neg="negative", sub="subtract", mul="multiply", div="divide", cat="concatenate", permute="transpose")
    renamed |= dict(lt="less", le="less_equal", gt="greater", ge="greater_equal", eq="equal", ne="not_equal")
    renamed |= {name: f"logical_{name}" for name in LOGIC}
    plain = [
        "abs",
        "square",
        "flip",
        "cumsum",
        "add",
        "maximum",
        "minimum",
        "where",
        "reshape",
        "broadcast_to",
        "stack",
        "tile",
    ]
    return {
        **one,
        **{name: getattr(jnp, of) for name, of in renamed.items()},
        **{name: getattr(jnp, name) for name in plain},
        **{name: getattr(nn, name) for name in ("sigmoid", "relu", "silu", "softplus", "elu")},
        "rsqrt": jax.lax.rsqrt,
        "gelu": lambda x: nn.gelu(x, approximate=False),
        "gelu_tanh": nn.gelu,
        "leaky_relu": lambda x: nn.leaky_relu(x, 0.25),
        "clamp": lambda x: jnp.clip(x, -1.5, 1.5),
        "pick": lambda x, ids: x[ids],
        "number": lambda x: x.astype(jnp.float32),
        "sum": lambda x, axes, keep: x.sum(axes, keepdims=keep),
        "mean": lambda x, axes, keep: x.mean(axes, keepdims=keep),
        "max": lambda x, axis, keep: x.max(axis, keepdims=keep),
        "var": lambda x, axis: x.var(axis, keepdims=True),
        "softmax": nn.softmax,
        "log_softmax": nn.log_softmax,
        "logsumexp": lambda x, axis: nn.logsumexp(x, axis, keepdims=True),
        "split": lambda x, axis, count, at: jnp.split(x, count, axis)[at],
        "select": lambda x, axis, at: x[EVERY * axis + (at,)],
        **SHARED,
    }


#: Operations that round nothing, if float32 holds the result.
EXACT = {
    "neg",
    "abs",
    "relu",
    "add",
    "sub",
    "mul",
    "maximum",
    "minimum",
    "where",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "and",
    "or",
    "not",
    "clamp",
    "leaky_relu",
    "pick",
    "number",
    "sum",
    "cumsum",
    "max",
    "flip",
    "plus",
    "from",
    "times",
    "above",
    "slice",
    "reshape",
    "permute",
    "broadcast_to",
    "stack",
    "cat",
    "tile",
    "split",
    "select",
    "square",
    "floor",
    "round",
    "fmod",
    "detach",
    "xor",
}
#: Operations of one value that are computed with more than one rounding, and may have an error relative to their operand.
FUNCTIONS = {
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "erf",
    "tanh",
    "sigmoid",
    "elu",
    "silu",
    "softplus",
    "gelu",
    "gelu_tanh",
}
#: Operations of several elements of their operand.
ROWS = {"sum", "cumsum", "mean", "var", "softmax", "log_softmax", "logsumexp", "pick"}
#: Operations of a list of values.
LISTS = ("cat", "stack")
#: Exact operations that round if float32 does not hold their result.
ARITHMETIC = {"add", "sub", "mul", "plus", "from", "times", "square", "max"}


class Step(NamedTuple):
    """An operation: the number of its operands, in order, and its other arguments."""

    name: str
    operands: tuple
    params: dict


class Program:
    """inputs: float32, bool and int64 tensors. steps: `Step`s, whose results follow the inputs. results: what it returns."""

    def __init__(self, inputs, steps, results):
        self.inputs, self.steps, self.results = inputs, steps, results
        self._code = self._compiled()

    def run(self, functions, inputs):
        """The results, computed by the functions of a framework."""
        return self._code(inputs, *(functions[step.name] for step in self.steps))

    def _compiled(self):
        """The program as a function of its inputs and the functions of its steps, which is fast to trace."""
        lines = [f"{', '.join(f'v{n}' for n in range(len(self.inputs)))}, = inputs"]
        for n, (name, operands, params) in enumerate(self.steps):
            given = [f"v{o}" for o in operands]
            given = [f"[{', '.join(given)}]"] if name in LISTS else given
            lines.append(f"v{n + len(self.inputs)} = f{n}({', '.join([*given, *map(repr, params.values())])})")
        lines.append(f"return [{', '.join(f'v{n}' for n in self.results)}]")
        arguments = ", ".join(["inputs", *(f"f{n}" for n in range(len(self.steps)))])
        made = {}
        exec(f"def run({arguments}):\n    " + "\n    ".join(lines), made)
        return made["run"]

    def __str__(self):
        lines = [f"v{n} = {str(t.dtype)[6:]} {list(t.shape)}" for n, t in enumerate(self.inputs)]
        for n, (name, operands, params) in enumerate(self.steps, len(self.inputs)):
            lines.append(f"v{n} = {name} {' '.join(f'v{o}' for o in operands)} {params or ''}")
        return "\n".join([*lines, f"return {' '.join(f'v{n}' for n in self.results)}"])

    @functools.cached_property
    def cotangents(self):
        """The gradients of the floating-point results, in multiples of 1/4, by the place of the result."""
        results = enumerate(self.run(OF_TORCH, self.inputs))
        return {n: ((torch.arange(r.numel()) * 5 + n) % 9 - 4).reshape(r.shape) / 4 for n, r in results}

    @functools.cached_property
    def bounds(self):
        """(results and gradients, bounds of their errors), in float64."""
        exact, single = self._computed(torch.float64), self._computed(torch.float32)
        exactly = all(step.name in EXACT for step in self.steps) and not self._has_thirds(exact[1][len(exact[0]) :])
        if exactly and all(torch.equal(a, b.to(a.dtype)) for a, b in zip(exact[1], single[1])):
            return exact[0], [0.0] * len(exact[0])
        worst = [t.double().abs().max().item() * U for t in exact[0]]
        for draw in range(1, DRAWS + 1):
            torch.manual_seed(draw)
            found = self._computed(torch.float64, rounds=True)[0]
            changes = [(a.double() - b.double()).abs().max().item() for a, b in zip(exact[0], found)]
            worst = [max(pair) for pair in zip(worst, changes)]
        return exact[0], [16 * w for w in worst]

    def _has_thirds(self, values):
        """Whether equal maxima share a gradient, and their number is not a power of two."""
        for step in self.steps:
            if step.name == "max":
                x, axis = values[step.operands[0]], step.params["axis"]
                shares = (x == x.amax(axis, keepdim=True)).sum(axis)
                if (shares & (shares - 1)).any():
                    return True
        return False

    def _computed(self, dtype, rounds=False):
        """(Results and gradients, these and all values.) rounds: whether operations round at random."""
        functions = torch_functions(dtype)
        inputs = [t.detach().to(dtype, copy=True) if t.is_floating_point() else t for t in self.inputs]
        leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]
        values = list(inputs)
        for step in self.steps:
            values.append((rounded if rounds else call)(functions, step, values))
        results = [values[n] for n in self.results]
        given = [(results[n], c.to(dtype)) for n, c in self.cotangents.items() if results[n].requires_grad]
        gradients = torch.autograd.grad([r for r, _ in given], leaves, [c for _, c in given], materialize_grads=True)
        found = [t.detach() for t in (*results, *gradients)]
        return found, found + [v.detach() for v in values]


OF_TORCH = torch_functions(torch.float32)
IN_DOUBLE = torch_functions(torch.float64)


def call(functions, step, values):
    operands = [values[n] for n in step.operands]
    operands = [operands] if step.name in LISTS else operands
    return functions[step.name](*operands, *step.params.values())


def rounded(functions, step, values):
    """The result of a step with random roundings."""
    if step.name in EXACT and step.name not in (*ROWS, *ARITHMETIC):
        return call(functions, step, values)
    k = 1 if step.name in EXACT else 4
    if step.name in ROWS:
        # The sums of rows round their terms.
        depth = math.log2(max(2, *(values[n].numel() for n in step.operands)))
        values = [Round.apply(v, depth * U) if v.is_floating_point() else v for v in values]
        if step.name in ("softmax", "log_softmax"):
            return rounded_softmax(step, values[step.operands[0]], k, depth)
    result = Round.apply(call(functions, step, values), k * U)
    if step.name in FUNCTIONS:
        x = values[step.operands[0]]
        result = result + x * (k * U * signs(x))
    return result


def rounded_softmax(step, x, k, depth):
    """softmax or log_softmax with random roundings of the result and of its gradient's parts.

    The gradient p (dy - sum(p dy)), or dy - p sum(dy), is a difference of almost equal numbers where a p is almost 1.
    So p, which is rounded, and the terms of the sum have roundings that do not cancel.
    """
    axis = step.params["axis"]
    # 0, with the gradient of x.
    change = x - x.detach()
    if step.name == "softmax":
        p = x.detach().softmax(axis)
        p = p * (1 + k * U * signs(p))
        return p + p * change - p * (1 + depth * U * signs(p)) * (p * change).sum(axis, keepdim=True)
    log_p = x.detach().log_softmax(axis)
    log_p = log_p * (1 + k * U * signs(log_p))
    p = log_p.exp() * (1 + k * U * signs(log_p))
    return log_p + change - (1 + depth * U * signs(log_p)) * (p * change).sum(axis, keepdim=True)


class Draw:
    """Draws a program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.only_exact = self.random.random() < 0.25
        self.values, self.steps, self.inputs = [], [], []
        rank = self.random.randint(1, 4)
        self.sizes = [self.random.choice((1, 2, 3, 4, 5, 8)) for _ in range(rank - 1)] + [
            self.random.choice((4, 6, 8, 16))
        ]
        for _ in range(self.random.randint(1, 3)):
            self._input(torch.randint(-16, 17, self._like()) / 8)
        if self.random.random() < 0.3:
            self._input(torch.randint(0, 2, self._like()) > 0)
        if self.random.random() < 0.2:
            self._input(torch.randint(0, 4, self._like()))
        wanted, tries = self.random.randint(3, 14), 0
        while len(self.steps) < wanted and tries < 400:
            tries += 1
            self._try()

    def program(self):
        read = {n for step in self.steps for n in step.operands}
        made = [n for n, v in enumerate(self.values) if n >= len(self.inputs) and v.is_floating_point()]
        return Program(self.inputs, self.steps, [n for n in made if n not in read or self.random.random() < 0.1])

    def _like(self):
        """A shape that broadcasts with the others."""
        kept = self.sizes[self.random.randint(0, len(self.sizes) - 1) if self.random.random() < 0.3 else 0 :]
        return [1 if self.random.random() < 0.15 else size for size in kept]

    def _input(self, tensor):
        self.inputs.append(tensor)
        self.values.append(tensor.double() if tensor.is_floating_point() else tensor)

    def _of(self, kind):
        found = [
            n for n, v in enumerate(self.values) if (v.is_floating_point() if kind == "float" else v.dtype is kind)
        ]
        # The later ones more often, so that programs are deep.
        return self.random.choice(found[-4:] if self.random.random() < 0.6 else found) if found else None

    def _try(self):
        step = self._step()
        if step is None or None in step.operands:
            return
        try:
            result = call(IN_DOUBLE, step, self.values)
        except (RuntimeError, IndexError):
            # Shapes that do not fit.
            return
        if result.numel() == 0 or result.numel() > 4096 or result.dim() > 5 or not self._is_defined(step, result):
            return
        self.steps.append(step)
        self.values.append(result)

    def _is_defined(self, step, result):
        operands = [self.values[n] for n in step.operands]
        if result.is_floating_point() and not (result.isfinite().all() and result.abs().max() <= LARGEST):
            return False
        if step.name == "power":
            return bool(operands[0].min() > 0.05)
        if step.name in ("floor", "round", "fmod"):
            scaled = operands[0] / step.params.get("c", 0.5)
            return self._apart(scaled, scaled.round(), step)
        if step.name in ("log", "log2", "root", "inverse", "sqrt", "rsqrt", "over", "div"):
            small = operands[-1].abs() if step.name in ("over", "div") else operands[-1]
            return bool(small.min() > 0.05)
        if step.name == "log1p":
            return bool(operands[0].min() > -0.9)
        if step.name == "var":
            return bool(result.min() > 0.01)
        # Where numbers are almost equal, rounding decides what is larger. Ties are only of equal inputs, or after exact steps.
        pair = None
        if step.name in (*COMPARISONS, "maximum", "minimum"):
            pair = operands
        elif step.name in ("relu", "leaky_relu", "abs"):
            pair = operands[0], torch.zeros(())
        elif step.name == "above":
            pair = operands[0], torch.tensor(step.params["c"])
        elif step.name == "clamp":
            return self._apart(operands[0], torch.tensor(1.5), step) and self._apart(
                operands[0], torch.tensor(-1.5), step
            )
        elif step.name == "max":
            first = operands[0].double().sort(step.params["axis"], descending=True).values
            if first.shape[step.params["axis"]] > 1:
                pair = (first.narrow(step.params["axis"], n, 1) for n in (0, 1))
        return pair is None or self._apart(*pair, step)

    def _apart(self, a, b, step):
        if not (a.is_floating_point() or b.is_floating_point()):
            return True
        distance = (a.double() - b.double()).abs()
        ties = all(self._is_exact(n) for n in step.operands)
        return bool(((distance > 1e-3) | ((distance == 0) & ties)).all())

    def _is_exact(self, n):
        """Whether a value is computed by exact steps."""
        if n < len(self.inputs):
            return True
        step = self.steps[n - len(self.inputs)]
        value = self.values[n]
        fits = not value.is_floating_point() or bool((value.float().double() == value).all())
        return fits and step.name in EXACT and all(self._is_exact(o) for o in step.operands)

    def _step(self):
        r, kind = self.random, self.random.random()
        x = self._of("float")
        shape = list(self.values[x].shape)
        number = r.choice([-2.0, -1.0, -0.5, 0.25, 0.5, 1.5, 2.0, 3.0])
        if kind < 0.25:
            names = "neg abs exp log log1p sqrt rsqrt sin cos tanh sigmoid square relu elu silu softplus gelu"
            names += (
                " gelu_tanh leaky_relu clamp cube tan sinh cosh erf exp2 two_to log2 root inverse floor round detach"
            )
            return self._made(r.choice(names.split()), x)
        if kind < 0.35:
            return self._made(r.choice(("plus", "from", "times", "over", "fmod")), x, c=number)
        if kind < 0.52:
            return self._made(
                r.choice(("add", "sub", "mul", "div", "maximum", "minimum", "power")), x, self._of("float")
            )
        if kind < 0.58:
            if r.random() < 0.2 and (ids := self._of(torch.int64)) is not None:
                return (
                    self._made(r.choice(COMPARISONS), ids, ids) if r.random() < 0.5 else self._made("above", ids, c=1)
                )
            return (
                self._made(r.choice(COMPARISONS), x, self._of("float"))
                if r.random() < 0.6
                else self._made("above", x, c=number)
            )
        truth = self._of(torch.bool)
        if kind < 0.68 and truth is not None:
            name = r.choice(("and", "or", "xor", "not", "number", "where", "where", "where"))
            more = {"not": (), "number": (), "where": (x, self._of("float"))}.get(name, (self._of(torch.bool),))
            return self._made(name, truth, *more)
        if not shape:
            return None
        axis = r.randrange(len(shape))
        if kind < 0.74:
            axes = tuple(sorted(r.sample(range(len(shape)), r.randint(1, len(shape)))))
            name = r.choice(("sum", "mean", "sum", "mean", "max"))
            if name == "max":
                return self._made(name, x, axis=axis, keep=r.random() < 0.5)
            return self._made(name, x, axes=axes, keep=r.random() < 0.5)
        if kind < 0.80:
            axis = len(shape) - 1 if r.random() < 0.7 else axis
            return self._made(r.choice(("softmax", "log_softmax", "logsumexp", "var", "cumsum")), x, axis=axis)
        return self._view(x, shape, axis)

    def _view(self, x, shape, axis):
        r, size = self.random, shape[axis]
        name = r.choice(
            [
                "reshape",
                "permute",
                "broadcast_to",
                "stack",
                "cat",
                "tile",
                "split",
                "select",
                "slice",
                "reshape",
                "pick",
                "flip",
                "squeeze",
                "unsqueeze",
            ]
        )
        if name == "reshape":
            sizes = list(shape)
            if len(sizes) > 1 and r.random() < 0.5:
                at = r.randrange(len(sizes) - 1)
                sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
            else:
                part = r.choice([n for n in range(1, size + 1) if size % n == 0])
                sizes[axis : axis + 1] = [size // part, part]
            return self._made(name, x, shape=tuple(sizes))
        if name == "permute":
            return self._made(name, x, order=tuple(r.sample(range(len(shape)), len(shape))))
        if name == "broadcast_to":
            sizes = [r.choice((2, 3)) if n == 1 else n for n in shape]
            return self._made(name, x, shape=tuple(([r.choice((1, 2, 3))] if r.random() < 0.5 else []) + sizes))
        if name in ("stack", "cat"):
            same = [n for n, v in enumerate(self.values) if v.is_floating_point() and list(v.shape) == shape]
            return self._made(name, *(r.choice(same) for _ in range(r.randint(2, 3))), axis=axis)
        if name == "tile":
            return self._made(name, x, times=tuple(r.choice((1, 1, 2)) for _ in shape))
        if name == "split":
            counts = [n for n in (2, 3, 4) if size % n == 0]
            count = r.choice(counts) if counts else 1
            return self._made(name, x, axis=axis, count=count, at=r.randrange(count))
        if name == "flip":
            return self._made(name, x, axis=axis)
        if name == "select":
            return self._made(name, x, axis=axis, at=r.randrange(size))
        if name == "slice":
            first = r.randrange(size)
            return self._made(
                name, x, axis=axis, first=first, end=r.randint(first + 1, size), step=r.choice((1, 1, 2, 3))
            )
        if name == "pick":
            ids = self._of(torch.int64)
            return self._made(name, x, ids) if ids is not None and shape[0] >= 4 and len(shape) == 2 else None
        sizes = [n for n in shape if n != 1] if name == "squeeze" else [*shape[:axis], 1, *shape[axis:]]
        return self._made("reshape", x, shape=tuple(sizes))

    def _made(self, name, *operands, **params):
        return Step(name, operands, params) if not self.only_exact or name in EXACT else None


@functools.cache
def program(seed):
    """A program with at least one floating-point result."""
    while True:
        made = Draw(seed).program()
        if made.results:
            return made
        seed += 1 << 32
