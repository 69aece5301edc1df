"""Runs the program of a random model, and checks each of its operations and gradients from what it read."""

import collections
import dataclasses

import ml_dtypes
import numpy as np
import torch
from model_graph import Model, program
from model_values import DRAWS, ROUNDING, TINY, Exact, Noise, U
from te_model.formats import load, store
from te_model.linear import Custom, Recipe, column_sum, linear

import te_mlir
from te_mlir.program import FLAG

CONTEXT = te_mlir.context((1, 0))
CLAIMS = collections.Counter()


def counts():
    return ", ".join(f"{count} {name}" for name, count in sorted(CLAIMS.items()))


@dataclasses.dataclass
class Case:
    """A model with its recipe. layer_recipes: those of some layers. cotangents: of its results, as in files."""

    model: Model
    recipe: te_mlir.recipes.Recipe
    override: str
    layer_recipes: dict
    cotangents: dict
    scales: dict = dataclasses.field(default_factory=dict)

    def text(self, **form):
        return program(self.model, self.recipe, self.layer_recipes, **form)

    def compile(self, vjp=True, override=None, form=None, **options):
        override = override or self.override
        text = self.text(**(form or {}))
        return te_mlir.compile(text, "f", vjp=vjp, backward_override=override, context=CONTEXT, **options)

    def start(self, step):
        """Gives the states of a new step the values of the first step."""
        step.set_state({name: np.array(self.scales[name]) for name in step.state_names if name in self.scales})

    def inputs(self, step):
        """What a call takes: the arguments, the cotangents, and zeros for all others but the flag of micro-batches."""
        named = self.model.arrays | {f"grad.{name}": array for name, array in self.cotangents.items()}
        made = {}
        for argument in step.arguments:
            if argument.is_result or argument.name not in step.inputs or argument.name == FLAG:
                continue
            array = named.get(argument.name)
            made[argument.name] = (
                np.zeros(argument.shape, NUMPY[argument.dtype.name]) if array is None else as_input(array)
            )
        return made

    def run(self, step):
        """The results of one call, as in files."""
        return {name: as_file(array) for name, array in step(**self.inputs(step)).items()}


NUMPY = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32, "int32": np.int32}


def as_input(array):
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.uint16 else array.copy()


def as_file(array):
    array = np.array(array)
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def bits(array):
    return np.ascontiguousarray(array).view(
        {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize]
    )


def same(a, b, zeros=True):
    """Whether arrays have the same bits. zeros: whether zeros differ by their signs."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = bits(a), bits(b)
    if not zeros:
        sign = a.dtype.type(1 << 8 * a.dtype.itemsize - 1)
        a, b = np.where(a == sign, 0, a), np.where(b == sign, 0, b)
    return np.array_equal(a, b)


def oracle(recipe, type, scales=None):
    """The recipe in te_model; None if that does not have all of its options."""
    options = {name: getattr(value, "value", value) for name, value in recipe.options().items()}
    if isinstance(recipe, te_mlir.CustomRecipe):
        parts = [oracle(options[gemm], type, scales) for gemm in ("fprop", "dgrad", "wgrad")]
        sources = {"x": "x_col_source", "w": "w_col_source", "dy": "grad_col_source"}
        decoded = frozenset(role for role, name in sources.items() if options[name] == "rowwise_dequantized")
        return None if None in parts else Custom(*parts, decoded)
    if options.get("row_scaled_activation") or options.get("four_over_six", "none") != "none":
        return None
    of_model = Recipe(recipe.kind(), scales, type=type)
    of_model.options |= {name: value for name, value in options.items() if name in of_model.options}
    return of_model


def is_stochastic(recipe):
    return any(name.endswith("rng_state") for name in recipe.states())


class Checker:
    """Checks the results of the program that shows its values."""

    def __init__(self, case, found):
        self.case, self.model, self.found = case, case.model, found
        self.wrong = []
        #: For each value, the gradients that its readers say: (f64 array, bound of its error, whether it has the bits).
        self.parts = collections.defaultdict(list)
        self.sums = {op.result: found[f"grad.tap.{op.result}"] for op in self.model.ops if len(op.shape) == 2}
        self.sums |= {name: found[f"grad.{name}"] for name in self.model.arrays if f"grad.{name}" in found}

    def bits(self, found, wanted, claim):
        """Whether a value has these bits, except signs of zeros."""
        holds = same(wanted, found, zeros=False)
        self.expect(holds, claim if holds else f"{claim}, {differing(wanted, found)}")

    def expect(self, holds, claim):
        CLAIMS[claim.split(":")[0]] += 1
        if not holds:
            self.wrong.append(claim)

    def array(self, name):
        """A value or an argument, as in files."""
        return self.model.arrays[name] if name in self.model.arrays else self.found[f"show.{name}"]

    def number(self, name):
        """The same in f32, or as integers."""
        array = self.array(name)
        return array if self.model.type(name) == "i32" else load(array, self.model.type(name))

    def run(self):
        for name, cotangent in self.case.cotangents.items():
            if name in self.sums:
                self.say(name, load(cotangent, self.model.type(name)), exact=True)
        for op in self.model.ops:
            check = getattr(self, f"_{op.kind}", self._any)
            check(op, [self.number(name) for name in op.operands])
        for name, total in self.sums.items():
            self._sum(name, total)
        return self.wrong

    def say(self, name, gradient, bound=0.0, exact=False):
        """What a reader says about the gradient of a value; exact: in the type of the value."""
        if self.model.is_float(name):
            self.parts[name].append((np.asarray(gradient, np.float64), bound, exact))

    def dy(self, op):
        if op.result in self.sums:
            return load(self.sums[op.result], self.model.type(op.result))
        return self.case.cotangents[op.result]

    def _sum(self, name, total):
        """The gradient of a value is the sum of what its readers say, each of which may be rounded before."""
        parts, type = self.parts[name], self.model.type(name)
        if not parts:
            self.expect(not total.any(), f"gradient of what is not read: {name}")
            return
        if len(parts) == 1 and parts[0][2]:
            self.bits(total, store(parts[0][0], type), f"gradient of a value with one reader: {name}")
            return
        size = sum(np.abs(gradient) for gradient, _, _ in parts)
        bound = sum(bound for _, bound, _ in parts) + (len(parts) + 1) * (ROUNDING[type] * size + TINY[type])
        error = np.abs(load(total, type) - sum(gradient for gradient, _, _ in parts))
        self.expect((error <= bound).all(), f"gradient of a value with several readers: {name}, {worst(error, bound)}")

    def _exactly(self, op, wanted, *gradients):
        """An operation with defined bits, and its gradients."""
        self.bits(self.array(op.result), store(wanted, self.model.dtype), f"exact operation: {op.result} = {op.kind}")
        for name, gradient in zip(op.operands, gradients):
            self.say(name, load(store(gradient, self.model.dtype), self.model.dtype), exact=True)

    def _add(self, op, values):
        self._exactly(op, values[0] + values[1], self.dy(op), self.dy(op))

    def _sub(self, op, values):
        self._exactly(op, values[0] - values[1], self.dy(op), -self.dy(op))

    def _mul(self, op, values):
        self._exactly(op, values[0] * values[1], self.dy(op) * values[1], self.dy(op) * values[0])

    def _scale(self, op, values):
        by = load(store(np.float32(op.params["by"]), self.model.dtype), self.model.dtype)
        self._exactly(op, values[0] * by, self.dy(op) * by)

    def _slice(self, op, values):
        at = slice(op.params["offset"], op.params["offset"] + op.shape[1])
        gradient = np.zeros_like(values[0])
        gradient[:, at] = self.dy(op)
        self._exactly(op, values[0][:, at], gradient)

    def _concat(self, op, values):
        self._exactly(op, np.concatenate(values, 1), *np.split(self.dy(op), [values[0].shape[1]], 1))

    def _dropout(self, op, values):
        """Each element is 0 or divided; an element of 0 does not show which."""
        x, y, dy = values[0], self.number(op.result), self.dy(op)
        factor = np.float32(1) / np.float32(1 - op.params["probability"])
        size = np.abs(x) * factor
        bound = 2 * ROUNDING[self.model.dtype] * size + TINY[self.model.dtype]
        self.expect(((np.abs(y - x * factor) <= bound) | (y == 0)).all(), f"dropout: {op.result}")
        kept, wanted = (y != 0), dy * factor
        unknown = np.where(y == 0, np.abs(wanted), 0) * (x == 0)
        bound = 2 * ROUNDING[self.model.dtype] * np.abs(wanted) + TINY[self.model.dtype] + unknown
        self.say(op.operands[0], np.where(kept, wanted, 0), bound)

    def layer_recipe(self, op):
        return self.case.layer_recipes.get(op.result, self.case.recipe)

    def _recipe(self, op, group=None):
        scales = None
        if self.case.scales:
            scales = {role: self.slot(op, role, group) for role in ("x", "w", "dy")}
        return oracle(self.layer_recipe(op), self.model.dtype, scales)

    def slot(self, op, role, group):
        """The scale of an operand of a layer: that of the first layer of its kind that reads the tensor."""
        readers = [op]
        if role != "dy":
            tensor = op.operands[0 if role == "x" else 1]
            readers = [other for other in self.model.ops if other.kind == op.kind and tensor in other.operands]
        known = [self.case.scales.get(f"{reader.result}.{role}.scale") for reader in readers]
        return next((np.ravel(scale)[group or 0] for scale in known if scale is not None), None)

    def _linear(self, op, values):
        x, w = values[0], values[1].T if op.params["transposed"] else values[1]
        bias = values[2] if len(values) == 3 else None
        y, dx, dw, db = self._layer(op, self._recipe(op), x, w, bias, self.dy(op), op.params["transposed"])
        if y is not None:
            self.bits(self.array(op.result), y, f"linear layer: {op.result}")
        for name, gradient in zip(op.operands, (dx, dw.T if op.params["transposed"] and dw is not None else dw, db)):
            self.say_layer(op, name, gradient)

    def say_layer(self, op, name, gradient):
        """None: the oracle does not have it."""
        if gradient is None:
            self.say(name, 0, np.inf)
        else:
            self.say(name, load(gradient, self.model.dtype), exact=True)

    def _layer(self, op, recipe, x, w, bias, dy, transposed=False):
        """(y, dx, dw, db) of the rows of a layer or of a group, from padded operands."""
        if recipe is None:
            return (None, None, None, None if bias is None else store(column_sum(dy), self.model.dtype))
        (m, k), n = x.shape, w.shape[0]
        x, w, dy = (np.pad(a, [(0, -size % 32) for size in a.shape]) for a in (x, w, dy))
        if bias is not None:
            bias = np.pad(bias, (0, -n % 32))
        y, dx, dw, db = linear(recipe, self.case.override, x, w, bias, dy, transposed)
        if is_stochastic(self.layer_recipe(op)) and self.case.override == "none":
            dx = dw = None
        return (
            y[:m, :n],
            *(None if d is None else d[:r, :k] for d, r in ((dx, m), (dw, n))),
            None if db is None else db[:n],
        )

    def _grouped(self, op, values):
        x, w, sizes = values[:3]
        bias = values[3] if len(values) == 4 else None
        dy, type, alignment, start = self.dy(op), self.model.dtype, op.params["alignment"], 0
        y, dx, dw = (store(np.zeros(shape, np.float32), type) for shape in (op.shape, x.shape, w.shape))
        db = None if bias is None else store(np.zeros(bias.shape, np.float32), type)
        known = [True, True, True]
        for group, size in enumerate(sizes):
            rows, height = slice(start, start + size), -(-size // alignment) * alignment
            start += height
            if not size:
                continue
            own = [np.pad(array[rows], ((0, height - size), (0, 0))) for array in (x, dy)]
            made = self._layer(
                op, self._recipe(op, group), own[0], w[group], None if bias is None else bias[group], own[1]
            )
            for n, (into, at, part) in enumerate(((y, rows, made[0]), (dx, rows, made[1]), (dw, group, made[2]))):
                if part is None:
                    known[n] = False
                else:
                    into[at] = part[:size] if n < 2 else part
            if db is not None:
                db[group] = store(column_sum(dy[rows]), type)
        if known[0]:
            self.bits(self.array(op.result), y, f"layer of groups: {op.result}")
        gradients = [dx if known[1] else None, dw if known[2] else None, None, db]
        for name, gradient in zip(op.operands, gradients):
            self.say_layer(op, name, gradient)

    def _attention(self, op, values):
        """With dropout, results only have the same bits in all forms."""
        if "rng" not in op.params["given"]:
            self._any(op, values)
            return
        for name in op.operands:
            self.say(name, 0, np.inf)

    def _router(self, op, values):
        """The experts of a row have the largest scores, in order; scores of logits that are close may be equal."""
        ids = self.array(op.more[0])
        known = (
            all(len(set(row)) == len(row) for row in ids.tolist()) and ids.min() >= 0 and ids.max() < values[0].shape[1]
        )
        self.expect(known, f"experts: {op.result}")
        if known:
            logits = torch.from_numpy(values[0].astype(np.float64))
            scores = (logits.sigmoid() if op.params["sigmoid"] else logits.softmax(1)).numpy()
            chosen, rest = np.take_along_axis(scores, ids, 1), scores.copy()
            np.put_along_axis(rest, ids, 0, 1)
            follows = np.concatenate([chosen[:, 1:], rest.max(1, keepdims=True)], 1)
            # Scores that are rounded to 0, or to the same subnormal number, are equal.
            self.expect((chosen + 2.0**-146 >= follows * (1 - 64 * U)).all(), f"order of experts: {op.result}")
            self._any(op, [*values, ids])

    def _permute(self, op, values):
        x, ids = values
        alignment, k, start = op.params["alignment"], ids.shape[1], 0
        entry_of, row_of = np.full(op.shape[0], -1, np.int32), np.full(ids.size, -1, np.int32)
        for group in range(op.params["groups"]):
            entries = np.flatnonzero(ids.ravel() == group)
            at = start + np.arange(len(entries))
            entry_of[at], row_of[entries] = entries, at
            start += -(-len(entries) // alignment) * alignment
        sizes = np.bincount(ids.ravel(), minlength=op.params["groups"]).astype(np.int32)
        for name, wanted in zip(op.more, (sizes, row_of, entry_of)):
            self.bits(self.array(name), wanted, f"rows of experts: {name}")
        y = np.where(entry_of[:, None] >= 0, x[entry_of // k], 0)
        self.bits(self.array(op.result), store(y, self.model.dtype), f"exact operation: {op.result} = permute")
        parts = self.dy(op)[row_of].reshape(len(x), k, -1)
        bound = k * U * np.abs(parts).sum(1)
        self.say(op.operands[0], parts.sum(1, dtype=np.float64), bound)

    def _softmax(self, op, values):
        self._any(op, values)
        # The gradient reads the result as it was stored.
        self.parts[op.operands[0]].pop()
        y, dy, scale = self.number(op.result).astype(np.float64), self.dy(op).astype(np.float64), op.params["scale"]
        wanted = scale * y * (dy - (y * dy).sum(1, keepdims=True))
        size = scale * y * (np.abs(dy) + (y * np.abs(dy)).sum(1, keepdims=True))
        self.say(op.operands[0], wanted, 4 * (y.shape[1] + 4) * U * size)

    def _any(self, op, values):
        """An operation within the bound of its rounding, and its gradients."""
        wanted, *gradients = self._computed(Exact(), op, values)
        bounds = [np.abs(each).max(initial=0) * U for each in (wanted, *gradients)]
        for draw in range(DRAWS):
            torch.manual_seed(draw)
            changed = self._computed(Noise(), op, values)
            changes = [np.abs(a - b).max(initial=0) for a, b in zip(changed, (wanted, *gradients))]
            bounds = [max(pair) for pair in zip(bounds, changes)]
        result = self.found[f"show.{op.result}" if op.shape else op.result]
        type = self.model.type(op.result) if op.shape else "f32"
        bound = 16 * bounds[0] + ROUNDING[type] * np.abs(wanted) + TINY[type]
        error = np.abs(load(result, type) - wanted)
        self.expect((error <= bound).all(), f"{op.kind}: {op.result}, {worst(error, bound)}")
        floats = [name for name in op.operands if self.model.is_float(name)]
        for name, gradient, change in zip(floats, gradients, bounds[1:]):
            self.say(name, gradient, 16 * change)

    def _computed(self, of, op, values):
        """The result and the gradients of its operands, as f64."""
        tensors = [torch.from_numpy(v.astype(np.int64 if v.dtype.kind == "i" else np.float64)) for v in values]
        leaves = [t.requires_grad_() for t, name in zip(tensors, op.operands) if self.model.is_float(name)]
        y = getattr(of, op.kind)(*tensors, **op.params)
        dy, total = torch.from_numpy(np.asarray(self.dy(op), np.float64)), 0
        if op.kind == "attention":
            # The gradient of scores reads sum(do * o) of the result as it was stored.
            y, lse = y
            shown = torch.from_numpy(self.number(op.result).astype(np.float64))
            heads, sequence = op.params["heads"], op.params["sequence"]
            if "documents" in op.params["given"]:
                sequence = len(dy)
            rest = (dy * (y.detach() - shown)).reshape(-1, sequence, heads, y.shape[1] // heads).sum(-1)
            total = (rest.transpose(1, 2) * lse).sum()
        total = total + (y * dy).sum()
        gradients = torch.autograd.grad(total, leaves, materialize_grads=True)
        return [t.detach().numpy() for t in (y, *gradients)]


def differing(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {a.shape} and {b.dtype} {b.shape}"
    places = np.argwhere(np.atleast_1d(a != b))
    first = tuple(places[0]) if len(places) else ()
    values = (
        f"at {list(map(int, first))}: {np.atleast_1d(a)[first]} and {np.atleast_1d(b)[first]}"
        if len(places)
        else "signs of zeros"
    )
    return f"{len(places)} of {a.size} elements, {values}"


def worst(error, bound):
    over = np.where(np.isnan(error), np.inf, error - bound)
    at = np.unravel_index(np.argmax(over), over.shape)
    return f"error {error[at]:.3g} at {list(map(int, at))}, bound {np.broadcast_to(bound, error.shape)[at]:.3g}"
