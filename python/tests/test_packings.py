"""Random packings of documents: each has the bits that it has alone, and padding changes no bit of anything."""

import numpy as np
import pytest
from conftest import RECIPES
from programs import bf16, draw

import te_mlir
from te_mlir import build

HIDDEN, HEADS, KEYS = 64, 2, 32
#: The rows of a step, the lengths of documents, and the documents that a step may have.
CAPACITY, LENGTHS, MOST = 24, (0, 1, 3, 8, 24), 15
WEIGHTS = {"q": (HIDDEN, HIDDEN), "k": (KEYS, HIDDEN), "v": (KEYS, HIDDEN), "o": (HIDDEN, HIDDEN)}
DELAYED = te_mlir.DelayedScaling(amax_history_len=4)
#: Recipes whose scales are known before the step, or are those of a part of a row.
OF_ROWS = [(te_mlir.HighPrecision(), None), (DELAYED, None)] + [
    (recipe, override)
    for recipe in (te_mlir.Float8BlockScaling(), te_mlir.MXFP8BlockScaling())
    for override in (None, "high_precision", "dequantized")
]
#: Recipes with a scale of all rows. The generator of stochastic rounding counts elements, so it depends on the place.
OF_TENSORS = [
    (recipe, override)
    for recipe in (te_mlir.Float8CurrentScaling(), te_mlir.NVFP4BlockScaling(disable_stochastic_rounding=True))
    for override in (None, "high_precision", "dequantized")
] + [(RECIPES["custom"], None)]


def attention(rows, packed):
    """x + attention of x, with rotary positions; `rows` rows are one sequence, or have documents."""
    module = build.Module()
    with module.function("attention") as f:
        x = f.argument("x", (rows, HIDDEN))
        w = {name: f.argument(name, shape, weight=True) for name, shape in WEIGHTS.items()}
        cos, sin = (f.argument(name, (rows, HIDDEN // HEADS // 2), "float32") for name in ("cos", "sin"))
        positions = f.argument("positions", (rows,), "int32") if packed else None
        documents = f.argument("documents", (MOST + 1,), "int32") if packed else None
        q, k, v = (f.linear(x, w[name]) for name in "qkv")
        q = f.rope(q, cos, sin, HEADS, positions=positions)
        k = f.rope(k, cos, sin, HEADS * KEYS // HIDDEN, positions=positions)
        heads = f.attention(q, k, v, HEADS, HEADS * KEYS // HIDDEN, rows, documents=documents)
        f.result("y", f.add(x, f.linear(heads, w["o"])))
    return module


def table(rows):
    angles = np.arange(rows)[:, None] * 10000.0 ** (-np.arange(16) / 16)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


class Steps:
    """The steps of a recipe, and documents with the results that they have alone."""

    def __init__(self, context, recipe, override):
        self.options = {"recipe": recipe, "backward_override": override, "vjp": True, "context": context}
        self.whole = te_mlir.compile(attention(CAPACITY, True), "attention", **self.options)
        self.weights = {name: draw(shape, i) for i, (name, shape) in enumerate(WEIGHTS.items())}
        # A document is its rows of x and of the gradient of y.
        self.documents = [
            (draw((n, HIDDEN), n + s), draw((n, HIDDEN), n + s + 50)) for n in LENGTHS for s in (0, 100, 200)
        ]
        self.state = {}
        # Histories and scales of a step before.
        self.run([self.documents[-1]], [0])
        self.state = {name: np.from_dlpack(value).copy() for name, value in self.whole.state.items()}

    def call(self, step, rows, **arrays):
        step.set_state({name: value.copy() for name, value in self.state.items()})
        found = step(**self.weights, **table(rows), **arrays)
        return [np.asarray(found[name]) for name in ("y", "grad.x")]

    def alone(self, document):
        x, dy = document
        if not len(x):
            return [x, dy]
        step = te_mlir.compile(attention(len(x), False), "attention", **self.options)
        return self.call(step, len(x), **{"x": x, "grad.y": dy})

    def run(self, documents, gaps, padding=0.0):
        """The results of each of packed documents, behind as many rows of padding as its gap."""
        positions, parts = np.zeros(CAPACITY, np.int32), []
        x, dy = (np.full((CAPACITY, HIDDEN), padding, bf16) for _ in range(2))
        end, boundaries = 0, []
        for document, gap in zip(documents, gaps, strict=True):
            begin = end + gap
            if gap or not parts:
                boundaries.append(begin)  # Padding before a later document is a document, too.
            end = begin + len(document[0])
            boundaries.append(end)
            x[begin:end], dy[begin:end] = document
            positions[begin:end] = np.arange(end - begin)
            parts.append(slice(begin, end))
        boundaries = np.array(boundaries + [end] * (MOST + 1 - len(boundaries)), np.int32)
        found = self.call(self.whole, CAPACITY, **{"x": x, "grad.y": dy}, positions=positions, documents=boundaries)
        return [[each[part] for each in found] for part in parts]


def draw_packing(random, documents):
    """Some documents that fit, up to 7, and the gaps before them."""
    chosen, left = [], CAPACITY
    for index in random.permutation(len(documents))[: random.integers(1, 12)]:
        n = len(documents[index][0])
        if n <= left and len(chosen) < 7:
            chosen.append(index)
            left -= n
    gaps = []
    for _ in chosen:
        gaps.append(int(random.integers(left + 1)) if random.random() < 0.5 else 0)
        left -= gaps[-1]
    return chosen, gaps


def same(found, wanted):
    return all(one.tobytes() == two.tobytes() for one, two in zip(found, wanted, strict=True))


def name(pair):
    return f"{type(pair[0]).__name__}-{pair[1]}"


@pytest.mark.parametrize("pair", OF_ROWS, ids=name)
def test_documents_have_the_bits_that_they_have_alone(pair, reference):
    steps, random = Steps(reference, *pair), np.random.default_rng(25)
    alone, used = [steps.alone(document) for document in steps.documents], set()
    for _ in range(250):
        chosen, gaps = draw_packing(random, steps.documents)
        used.add(sum(len(steps.documents[i][0]) for i in chosen))
        padding = random.choice([0.0, np.nan, np.inf, -np.inf])
        found = steps.run([steps.documents[i] for i in chosen], gaps, padding)
        for index, one in zip(chosen, found, strict=True):
            assert same(one, alone[index]), (index, chosen, gaps, padding)
    assert used >= {0, 1, CAPACITY}


@pytest.mark.parametrize("pair", OF_TENSORS, ids=name)
def test_documents_have_the_same_bits_in_any_order(pair, reference):
    steps, random = Steps(reference, *pair), np.random.default_rng(25)
    for _ in range(125):
        chosen, gaps = draw_packing(random, steps.documents)
        found = dict(zip(chosen, steps.run([steps.documents[i] for i in chosen], gaps), strict=True))
        ordered = sorted(chosen)
        wanted = steps.run([steps.documents[i] for i in ordered], [0] * len(ordered))
        for index, one in zip(ordered, wanted, strict=True):
            assert same(found[index], one), (index, chosen, gaps)


FEATURES, CLASSES, USED = 64, 32, 13
LAYER = {
    "gamma": (HIDDEN,), "q": (HIDDEN, HIDDEN), "bq": (HIDDEN,), "k": (KEYS, HIDDEN), "v": (KEYS, HIDDEN), "bv": (KEYS,),
    "o": (HIDDEN, HIDDEN), "bo": (HIDDEN,), "scale": (HIDDEN,), "shift": (HIDDEN,), "gate": (FEATURES, HIDDEN),
    "up": (FEATURES, HIDDEN), "bu": (FEATURES,), "down": (HIDDEN, FEATURES), "last": (HIDDEN,), "head": (CLASSES, HIDDEN),
}  # fmt: skip


def layer(rows, used=None):
    """A layer with attention and an MLP, both norms and biases, and a loss.

    used: "mask" takes which rows are used, "documents" computes them from the boundaries; None: all are.
    """
    module = build.Module()
    with module.function("layer") as f:
        x = f.argument("x", (rows, HIDDEN))
        w = {name: f.argument(name, shape, weight=len(shape) == 2) for name, shape in LAYER.items()}
        cos, sin = (f.argument(name, (rows, HIDDEN // HEADS // 2), "float32") for name in ("cos", "sin"))
        positions, targets = (f.argument(name, (rows,), "int32") for name in ("positions", "targets"))
        documents = f.argument("documents", (MOST + 1,), "int32")
        if used:
            mask = f.argument("used", (rows,), "float32") if used == "mask" else f.used_rows(documents, rows)
            x = f.zero_unused(x, mask)
        h = f.rms_norm(x, w["gamma"])
        q, k, v = f.linear(h, w["q"], w["bq"]), f.linear(h, w["k"]), f.linear(h, w["v"], w["bv"])
        q = f.rope(q, cos, sin, HEADS, positions=positions)
        k = f.rope(k, cos, sin, HEADS * KEYS // HIDDEN, positions=positions)
        heads = f.attention(q, k, v, HEADS, HEADS * KEYS // HIDDEN, rows, documents=documents)
        x = f.add(x, f.linear(heads, w["o"], w["bo"]))
        h = f.layer_norm(x, w["scale"], w["shift"])
        h = f.activation("swiglu", f.linear(h, w["gate"]), f.linear(h, w["up"], w["bu"]))
        x = f.add(x, f.linear(h, w["down"]))
        if used:
            x = f.zero_unused(x, mask)
        f.result("y", x)
        f.result("loss", f.cross_entropy(f.linear(f.rms_norm(x, w["last"]), w["head"]), targets))
    return module


class LayerSteps:
    """The steps of a recipe from one state on, and their results and states, of rows only those that are used."""

    def __init__(self, context, recipe, override):
        self.options = {"recipe": recipe, "backward_override": override, "vjp": True, "context": context}
        self.weights = {name: draw(shape, i) for i, (name, shape) in enumerate(LAYER.items())}
        # Biases are large. If the first column of x is, the largest element that the MLP would read is in rows that are
        # not used: 60, and 60 - 8 in others.
        self.weights["shift"] *= bf16(16)
        self.weights["shift"][0], self.weights["scale"][0] = 60, -1
        self.state = {}

    def step(self, rows, used):
        return te_mlir.compile(layer(rows, used), "layer", **self.options)

    def call(self, step, x, dy, used, boundaries, positions, padding):
        rows = len(x)
        x, dy = x.copy(), dy.copy()
        x[~used] = dy[~used] = padding
        arrays = {"x": x, "grad.y": dy, "grad.loss": np.array(0.5, np.float32), "positions": positions}
        arrays["targets"] = np.where(used, np.arange(rows) % CLASSES, -100).astype(np.int32)
        arrays["documents"] = np.array(boundaries + boundaries[-1:] * (MOST + 1 - len(boundaries)), np.int32)
        if "used" in step.inputs:
            arrays["used"] = used.astype(np.float32)
        step.set_state({name: value.copy() for name, value in self.state.items()})
        found = {name: np.asarray(value) for name, value in step(**self.weights, **table(rows), **arrays).items()}
        found |= {name: np.from_dlpack(value).copy() for name, value in step.state.items()}
        found |= {name: found[name][used] for name in ("y", "grad.x")}
        return {name: value for name, value in found.items() if name not in ("grad.cos", "grad.sin")}


def differing(found, wanted):
    assert found.keys() == wanted.keys()
    return [name for name in found if found[name].tobytes() != wanted[name].tobytes()]


@pytest.mark.parametrize("pair", OF_ROWS + OF_TENSORS, ids=name)
def test_padding_changes_nothing(pair, reference):
    steps, random = LayerSteps(reference, *pair), np.random.default_rng(25)
    whole, packed = steps.step(CAPACITY, "mask"), steps.step(CAPACITY, "documents")
    x, dy = draw((CAPACITY, HIDDEN), 1), draw((CAPACITY, HIDDEN), 2)

    def run(step, lengths, gaps, padding):
        used, positions, boundaries = np.zeros(CAPACITY, bool), np.zeros(CAPACITY, np.int32), [0]
        for length, gap in zip(lengths, gaps, strict=True):
            begin = boundaries[-1] + gap
            used[begin : begin + length] = True
            positions[begin : begin + length] = np.arange(length)
            boundaries += [begin, begin + length] if gap else [begin + length]
        return steps.call(step, x, dy, used, boundaries, positions, padding)

    # Histories and scales of a step before.
    steps.state = {n: np.from_dlpack(v).copy() for n, v in whole.state.items()}
    run(whole, [CAPACITY], [0], 0.0)
    steps.state = {n: np.from_dlpack(v).copy() for n, v in whole.state.items()}
    for number in range(135):
        cuts = np.sort(random.integers(0, CAPACITY + 1, 2 * random.integers(1, 7)))
        edges = np.diff(cuts, prepend=0)
        lengths, gaps = edges[1::2], edges[0::2]
        step = whole
        if number % 3 == 0:  # Padding only behind the documents.
            step, gaps = packed, 0 * gaps
        kinds = random.permutation([np.nan, np.inf, -np.inf, 3e38])[: random.integers(1, 5)]
        fill = np.resize(kinds, HIDDEN).astype(bf16)
        found, wanted = run(step, lengths, gaps, fill), run(step, lengths, gaps, 0.0)
        assert np.isfinite(found["loss"]), (lengths, gaps)
        assert not differing(found, wanted), (lengths, gaps, fill)
    # A step of only the used rows has the same amaxes, and adds the same numbers.
    exact = steps.step(USED, None)
    positions = np.arange(USED, dtype=np.int32)
    for first in (x[0, 0], 1000):
        x[:, 0] = first
        wanted = steps.call(exact, x[:USED], dy[:USED], np.ones(USED, bool), [0, USED], positions, 0.0)
        assert not differing(run(packed, [USED], [0], np.nan), wanted)
