"""Random models: layers of all kinds whose values have several readers, their arrays, and the text of their programs.

A model is a list of operations with named operands. Its text can be written in several ways that compute the same bits.
"""

import dataclasses
import random

import numpy as np
from te_model.formats import store

from te_mlir import build

#: Element types: the name of the package, by the name in te_model.
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "i32": "int32"}
ACTIVATIONS = ("gelu", "gelu_erf", "silu", "qgelu", "relu", "srelu")
#: Operations of elements, which the program may compute in the launch of another one.
ELEMENTWISE = ("add", "sub", "mul", "scale")
ROWS = (1, 5, 16, 24, 32, 48, 64, 96, 128, 130)
WIDTHS = (4, 8, 16, 20, 32, 48, 64, 136)


@dataclasses.dataclass(frozen=True)
class Op:
    """result: the name of its value, of `shape`. operands: names of arguments and values. more: names of its results of integers."""

    result: str
    kind: str
    operands: tuple
    params: dict
    shape: tuple
    more: tuple = ()


@dataclasses.dataclass
class Model:
    """arrays: those of the arguments, as in files (bf16 as its bits). types: their types. weights: the names of parameters.
    results: names of values."""

    dtype: str
    arrays: dict = dataclasses.field(default_factory=dict)
    types: dict = dataclasses.field(default_factory=dict)
    weights: set = dataclasses.field(default_factory=set)
    ops: list = dataclasses.field(default_factory=list)
    results: list = dataclasses.field(default_factory=list)

    def is_float(self, name):
        """Whether it is a value or an argument that has a gradient."""
        return self.types.get(name) != "i32" and not name.startswith("table")

    def type(self, name):
        return self.types.get(name, self.dtype)

    def readers(self, name):
        """How often a value is read, also as a result."""
        return sum(op.operands.count(name) for op in self.ops) + self.results.count(name)

    def __str__(self):
        lines = [f"{name} = {self.dtype} {list(array.shape)}" for name, array in self.arrays.items()]
        lines += [
            f"{op.result} = {op.kind} {' '.join(op.operands)} {op.params or ''} -> {list(op.shape)}" for op in self.ops
        ]
        return "\n".join([*lines, f"return {' '.join(self.results)}"])


class Draw:
    """Draws a model. alignment: that of the rows of layers of groups."""

    def __init__(self, seed, dtype, alignment=32):
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.model, self.alignment = Model(dtype), alignment
        pick = self.random.choice
        self.rows, self.width = pick(ROWS), pick(WIDTHS)
        self.hidden = pick(WIDTHS)
        self.values = {}
        self._input()
        for _ in range(self.random.randint(2, 10)):
            self._step()
        # A step may find no value that it can read.
        while not self.model.ops:
            self._step()
        if self.random.random() < 0.25:
            self._loss()
        model = self.model
        model.results += [op.result for op in model.ops if not model.readers(op.result)]
        model.results += [
            op.result for op in model.ops if op.result not in model.results and self.random.random() < 0.1
        ]

    def _array(self, name, values, weight=False, type=None):
        values = np.asarray(values)
        self.model.types[name] = type = "i32" if values.dtype.kind == "i" else type or self.model.dtype
        self.model.arrays[name] = values if type == "i32" else store(values, type)
        if weight:
            self.model.weights.add(name)
        return name

    def _name(self, prefix):
        return f"{prefix}{len(self.model.arrays)}"

    def _normal(self, *shape, scale=1.0):
        """Normal numbers, whose rows are multiplied by powers of two, with zeros and a row of zeros among them."""
        values = self.numbers.normal(0, scale, shape)
        if len(shape) == 2:
            values *= 2.0 ** self.numbers.integers(-2, 3, (shape[0], 1))
            values[self.numbers.random(shape) < 0.03] = 0
            if self.random.random() < 0.3:
                values[self.random.randrange(shape[0])] = 0
        return values.astype(np.float32)

    def _input(self):
        shape = (self.rows, self.width)
        if self.random.random() < 0.15:
            table = self._array("e0", self._normal(self.random.randint(3, 40), self.width), True)
            ids = self.numbers.integers(-1, len(self.model.arrays[table]) + 1, self.rows).astype(np.int32)
            self._add("embedding", (self._array("ids1", ids), table), shape)
            return
        for _ in range(self.random.choice((1, 1, 2))):
            name = self._array(self._name("x"), self._normal(*shape))
            self.values[name] = shape

    def _add(self, kind, operands, shape, more=(), **params):
        name = f"v{len(self.model.ops)}"
        more = tuple(f"{name}.{each}" for each in more)
        self.model.types.update(dict.fromkeys(more, "i32"))
        self.model.ops.append(Op(name, kind, tuple(operands), params, tuple(shape), more))
        # Rows of experts are not those of the model.
        if len(shape) == 2 and shape[0] == self.rows and kind != "router":
            self.values[name] = tuple(shape)
        return name

    def _value(self, width=None):
        """A value to read, the later ones more often."""
        found = [name for name, shape in self.values.items() if width in (None, shape[1])]
        if not found:
            return None
        return self.random.choice(found[-3:] if self.random.random() < 0.7 else found)

    def _weight(self, rows, columns):
        """A weight, sometimes one that another layer reads."""
        known = [n for n in self.model.weights if n[0] == "w" and self.model.arrays[n].shape == (rows, columns)]
        if known and self.random.random() < 0.5:
            return self.random.choice(sorted(known))
        return self._array(self._name("w"), self._normal(rows, columns, scale=columns**-0.5), True)

    def _vector(self, size, prefix="b", around=0.0):
        return self._array(self._name(prefix), around + self.numbers.normal(0, 0.3, size), True)

    def _linear(self, x, width=None):
        columns = self.values[x][1]
        width = width or self.random.choice((self.width, self.hidden, self.random.choice(WIDTHS)))
        turned = self.random.random() < 0.2
        operands = [x, self._weight(*((columns, width) if turned else (width, columns)))]
        if self.random.random() < 0.4:
            operands.append(self._vector(width))
        return self._add("linear", operands, (self.rows, width), transposed=turned)

    def _step(self):
        kinds = "linear linear linear norm norm activation gated pair elementwise elementwise attention rope softmax"
        kinds = f"{kinds} split join groups groups dropout experts"
        kind, x = self.random.choice(kinds.split()), self._value()
        getattr(self, f"_{kind}")(x)

    def _norm(self, x):
        shape = self.values[x]
        centered = self.random.random() < 0.3
        operands = [x, self._vector(shape[1], "g", 0.0 if centered else 1.0)]
        kind = self.random.choice(("rms_norm", "layer_norm"))
        if kind == "layer_norm":
            operands.append(self._vector(shape[1]))
        return self._add(kind, operands, shape, centered=centered)

    def _activation(self, x):
        return self._add("activation", [x], self.values[x], function=self.random.choice(ACTIVATIONS))

    def _gated(self, x):
        rows, columns = self.values[x]
        if columns % 2:
            return None
        return self._add("activation", [x], (rows, columns // 2), function=self.random.choice(build.GATED))

    def _pair(self, x):
        """Two layers that read one value, and a gated activation."""
        a, b = self._linear(x, self.hidden), self._linear(x, self.hidden)
        return self._add("activation", [a, b], self.values[a], function=self.random.choice(build.GATED))

    def _elementwise(self, x):
        kind = self.random.choice(("add", "add", "add", "sub", "mul", "scale"))
        if kind == "scale":
            return self._add("scale", [x], self.values[x], by=self.random.choice((0.5, -1.0, 2.0, 0.3)))
        return self._add(kind, [x, self._value(self.values[x][1])], self.values[x])

    def _attention(self, x):
        heads, kv_heads, size = self.random.choice(((1, 1, 8), (2, 1, 8), (4, 2, 4), (2, 2, 16)))
        sequence = self.random.choice([n for n in range(1, self.rows + 1) if self.rows % n == 0][-3:])
        operands = [self._linear(x, count * size) for count in (heads, kv_heads, kv_heads)]
        given = {}
        if self.random.random() < 0.25:
            documents = self._documents()
            sequence = max(*np.diff(documents), 1)
            given["documents"] = self._array(self._name("documents"), documents)
        params = {"heads": heads, "kv_heads": kv_heads, "sequence": int(sequence), "causal": self.random.random() < 0.7}
        if params["causal"] and self.random.random() < 0.3:
            params["window_left"] = self.random.randrange(sequence)
        if self.random.random() < 0.2:
            params["softcap"] = self.random.choice((1.0, 5.0))
        if self.random.random() < 0.2:
            given["sinks"] = self._array(self._name("s"), self.numbers.normal(0, 1, heads), True, "f32")
        if self.random.random() < 0.1:
            given["rng"] = self._rng()
            params["dropout"] = self.random.choice((0.1, 0.5))
        operands += given.values()
        return self._add("attention", operands, (self.rows, heads * size), given=tuple(given), **params)

    def _documents(self):
        """The first rows of documents, some of which are empty, and the end of the last one."""
        count = self.random.randint(1, 4)
        ends = sorted(self.random.randint(0, self.rows) for _ in range(count + 1))
        return np.array([self.random.choice((0, ends[0])), *ends[1:]], np.int32)

    def _rng(self):
        return self._array(self._name("rng"), self.numbers.integers(0, 1000, 2).astype(np.int32))

    def _rope(self, x):
        columns = self.values[x][1]
        heads = self.random.choice([n for n in (1, 2, 4) if columns % (2 * n) == 0] or [0])
        if not heads:
            return None
        half = self.random.randint(1, columns // heads // 2)
        sequence = self.random.choice([n for n in range(1, self.rows + 1) if self.rows % n == 0])
        positions = []
        if self.random.random() < 0.3:
            sequence = self.random.randint(1, 40)
            values = self.numbers.integers(0, sequence, self.rows).astype(np.int32)
            positions = [self._array(self._name("positions"), values)]
        angles = self.numbers.normal(0, 2, (sequence, half))
        tables = [self._array(self._name("table"), f(angles), type="f32") for f in (np.cos, np.sin)]
        style = self.random.random() < 0.5
        operands = [x, *tables, *positions]
        return self._add("rope", operands, self.values[x], heads=heads, interleaved=style)

    def _softmax(self, x):
        return self._add("softmax", [x], self.values[x], scale=self.random.choice((1.0, 0.5)))

    def _split(self, x):
        """The parts of a value, as of a layer for queries, keys and values."""
        rows, columns = self.values[x]
        if columns < 8:
            return
        at = self.random.choice((columns // 2, columns // 4))
        self._add("slice", [x], (rows, at), offset=0)
        self._add("slice", [x], (rows, columns - at), offset=at)

    def _join(self, x):
        other = self._value()
        width = self.values[x][1] + self.values[other][1]
        return self._add("concat", [x, other], (self.rows, width)) if width <= 160 else None

    def _dropout(self, x):
        return self._add("dropout", [x, self._rng()], self.values[x], probability=self.random.choice((0.1, 0.5)))

    def _groups(self, x):
        """A layer for each group of rows."""
        most = self.rows // self.alignment
        if not most or self.rows % self.alignment:
            return None
        groups, sizes, left = self.random.randint(1, 3), [], most
        for _ in range(groups):
            height = self.random.randint(0, left)
            sizes.append(max(0, height * self.alignment - self.random.choice((0, 0, 3, 7))))
            left -= height
        columns, width = self.values[x][1], self.random.choice(WIDTHS)
        weight = np.stack([self._normal(width, columns, scale=columns**-0.5) for _ in range(groups)])
        operands = [x, self._array(self._name("grouped"), weight, True)]
        operands.append(self._array(self._name("sizes"), np.array(sizes, np.int32)))
        if self.random.random() < 0.4:
            operands.append(self._vector((groups, width)))
        return self._add("grouped", operands, (self.rows, width), alignment=self.alignment)

    def _experts(self, x):
        """One or two layers of experts, which a router chooses for each row."""
        experts, k, columns = self.random.choice((4, 8)), self.random.randint(1, 2), self.values[x][1]
        height = -(-(self.rows * k + experts * (self.alignment - 1)) // self.alignment) * self.alignment
        if height > 600:
            return None
        logits = self._linear(x, experts)
        flags = {name: self.random.random() < 0.3 for name in ("sigmoid", "normalize")}
        probs = self._add("router", [logits], (self.rows, k), ["ids"], k=k, **flags)
        self.model.types[probs] = "f32"
        (ids,) = self.model.ops[-1].more
        more = ["sizes", "row_of", "entry_of"]
        rows = self._add("permute", [x, ids], (height, columns), more, groups=experts, alignment=self.alignment)
        sizes, row_of, entry_of = self.model.ops[-1].more
        for last in (False, True)[self.random.random() < 0.5 :]:
            width = self.random.choice(WIDTHS)
            weight = np.stack([self._normal(width, columns, scale=columns**-0.5) for _ in range(experts)])
            operands = [rows, self._array(self._name("grouped"), weight, True), sizes]
            if self.random.random() < 0.4:
                operands.append(self._vector((experts, width)))
            rows, columns = self._add("grouped", operands, (height, width), alignment=self.alignment), width
            if not last:
                rows = self._add("activation", [rows], (height, width), function=self.random.choice(ACTIVATIONS))
        return self._add("unpermute", [rows, row_of, entry_of, probs], (self.rows, columns))

    def _loss(self):
        logits = self._value()
        targets = self.numbers.integers(-1, self.values[logits][1], self.rows).astype(np.int32)
        ignored = self.random.choice((-1, -1, -100, 0, self.values[logits][1] - 1))
        self._add("loss", [logits, self._array(self._name("targets"), targets)], (), ignore_index=ignored)


def _write(function, op, operands):
    """Adds an operation to the text."""
    f, p, kind = function, op.params, op.kind
    if kind == "linear":
        return f.linear(*operands, layer=op.result, transposed_weight=p["transposed"])
    if kind == "grouped":
        value = f.grouped_linear(*operands, alignment=p["alignment"])
        f.ops[-1] = dataclasses.replace(f.ops[-1], layer=op.result)
        return value
    if kind in ("rms_norm", "layer_norm"):
        return getattr(f, kind)(*operands, zero_centered_gamma=p["centered"])
    if kind == "activation":
        return f.activation(p["function"], *operands)
    if kind == "scale":
        return f.mul(operands[0], f.constant(p["by"], op.shape, operands[0].dtype))
    if kind == "slice":
        return f.extract_slice(operands[0], (0, p["offset"]), op.shape)
    if kind == "concat":
        return f.concat(operands, 1)
    if kind == "attention":
        p = {name: value for name, value in p.items() if name != "given"}
        given = dict(zip(op.params["given"], operands[3:]))
        if "rng" in given:
            p["dropout"] = (given.pop("rng"), p["dropout"], int(op.result[1:]))
        return f.attention(*operands[:3], **given, **p)
    if kind == "rope":
        return f.rope(*operands[:3], positions=operands[3] if len(operands) == 4 else None, **p)
    if kind == "dropout":
        return f.dropout(*operands, p["probability"], stream=int(op.result[1:]))
    if kind == "loss":
        return f.cross_entropy(*operands, **p)
    if kind == "router":
        ids, probs, _ = f.router_topk(*operands, **p)
        return probs, ids
    if kind == "permute":
        return f.permute(*operands, **p)[:4]
    if kind == "unpermute":
        rows, row_of, entry_of, probs = operands
        return f.unpermute(rows, build.Routed(rows, None, row_of, entry_of, None), probs)
    return getattr(f, kind)(*operands, **p)


def program(model, recipe, layer_recipes=None, taps=False, shown=False, dead=False, order=None, renamed=False):
    """The module of a model, whose function is "f".

    layer_recipes: those of some layers, by the name of their result. taps: adds an argument "tap.<value>" of zeros to each matrix,
    whose gradient is that of the value. shown: also returns these values as "show.<value>". dead: adds layers whose results are not read. order: that
    of the operations. renamed: other names of arguments in the text, in another order.
    """
    module = build.Module(recipe)
    ops = model.ops if order is None else [model.ops[n] for n in order]
    with module.function("f") as f:
        known = {}
        names = reversed(model.arrays) if renamed else model.arrays
        for name in names:
            shape, type = model.arrays[name].shape, DTYPES[model.types[name]]
            known[name] = f.argument(name, shape, type, weight=name in model.weights)
        for op in ops:
            value = _write(f, op, [known[name] for name in op.operands])
            if op.more:
                value, *more = value
                known.update(zip(op.more, more))
            if taps and len(op.shape) == 2:
                value = f.add(value, f.argument(f"tap.{op.result}", op.shape, value.dtype))
            known[op.result] = value
            if dead and len(op.shape) == 2 and model.type(op.result) == model.dtype:
                f.rms_norm(value, f.constant(1.0, value.shape[1:], value.dtype))
                f.linear(value, f.constant(0.5, (8, value.shape[1]), value.dtype))
        for name in model.results:
            f.result(name, known[name])
        if shown:
            for op in ops:
                for name in (op.result, *op.more) if len(op.shape) == 2 else ():
                    f.result(f"show.{name}", known[name])
    for layer, own in (layer_recipes or {}).items():
        module.functions[0].set_recipe(layer, own)
    return module
