"""Experts, losses of routers and probes of packed batches: padding changes no bit of what a step computes of used tokens."""

import numpy as np
import pytest
from programs import bf16, draw
from test_packings import OF_ROWS, OF_TENSORS, differing, name

import te_mlir
from te_mlir import build

HIDDEN, WIDTH, EXPERTS, CHOICES = 32, 32, 3, 2
CAPACITY, USED = 24, 13
WEIGHTS = {
    "gamma": (HIDDEN,), "beta": (HIDDEN,), "router": (EXPERTS, HIDDEN), "br": (EXPERTS,), "up": (EXPERTS, 2 * WIDTH, HIDDEN),
    "bu": (EXPERTS, 2 * WIDTH), "down": (EXPERTS, HIDDEN, WIDTH), "bd": (EXPERTS, HIDDEN), "after": (HIDDEN, HIDDEN),
}  # fmt: skip
#: Results and gradients with a row for each token.
OF_TOKENS = ("y", "grad.x")


def experts(rows, masked, counts=False):
    """A mixture of experts, a layer, and the losses of a router: of the size of logits, and of the balance of experts.

    counts: also returns how many tokens each expert has, and how many of their choices were dropped.
    """
    module = build.Module()
    with module.function("experts") as f:
        x = f.argument("x", (rows, HIDDEN))
        w = {name: f.argument(name, shape, weight=len(shape) > 1) for name, shape in WEIGHTS.items()}
        if masked:
            used = f.argument("used", (rows,), "float32")
            x = f.zero_unused(x, used)
        h = f.layer_norm(x, w["gamma"], w["beta"])
        logits = f.linear(h, w["router"], w["br"])
        ids, probs, _ = f.router_topk(logits, CHOICES, normalize=True)
        routed = f.permute(h, ids, EXPERTS)
        up = f.grouped_linear(routed.rows, w["up"], routed.sizes, w["bu"])
        down = f.grouped_linear(f.activation("swiglu", up), w["down"], routed.sizes, w["bd"])
        y = f.add(f.linear(f.unpermute(down, routed, probs), w["after"]), x)
        if masked:
            y = f.zero_unused(y, used)
        # Sums over tokens, which the program divides by the number of tokens if it wants means.
        exponentials = f.unary("math.exp", f.cast(logits, "float32"))
        sums = f.reduce_sum(exponentials, [1])
        logarithms = f.unary("math.log", sums)
        f.result("z", f.reduce_sum(f.mul(logarithms, logarithms), [0]))
        shares = f.reduce_sum(f.div(exponentials, f.broadcast(sums, (rows, EXPERTS), [1])), [0])
        f.result("balance", f.reduce_sum(f.mul(shares, shares), [0]))
        f.result("y", y)
        if counts:
            f.result("sizes", routed.sizes)
            f.result("dropped", routed.dropped)
    return module


class Steps:
    def __init__(self, context, recipe, override):
        self.options = {"recipe": recipe, "backward_override": override, "context": context}
        self.weights = {name: draw(shape, i) for i, (name, shape) in enumerate(WEIGHTS.items())}
        # Logits of moderate size. The largest element that the experts read is in rows that are not used: 60, and 60
        # less than that in others.
        self.weights["router"] *= bf16(1 / 64)
        self.weights["beta"][0], self.weights["gamma"][0] = 60, -1
        self.state = {}

    def step(self, rows, masked):
        return te_mlir.compile(experts(rows, masked), "experts", vjp=True, **self.options)

    def call(self, step, x, dy, used, padding):
        x, dy = x.copy(), dy.copy()
        x[~used] = dy[~used] = padding
        arrays = {"x": x, "grad.y": dy, "grad.z": np.array(0.1, np.float32), "grad.balance": np.array(0.01, np.float32)}
        if "used" in step.inputs:
            arrays["used"] = used.astype(np.float32)
        step.set_state({name: value.copy() for name, value in self.state.items()})
        found = {name: np.asarray(value) for name, value in step(**self.weights, **arrays).items()}
        found |= {name: np.from_dlpack(value).copy() for name, value in step.state.items()}
        found |= {name: found[name][used] for name in OF_TOKENS}
        return {name: value for name, value in found.items() if name != "grad.used"}


@pytest.mark.parametrize("pair", OF_ROWS + OF_TENSORS, ids=name)
def test_padding_has_no_expert(pair, reference):
    steps, random = Steps(reference, *pair), np.random.default_rng(25)
    whole, exact = steps.step(CAPACITY, True), steps.step(USED, False)
    x, dy = draw((CAPACITY, HIDDEN), 1), draw((CAPACITY, HIDDEN), 2)
    # Histories and scales of a step before.
    steps.state = {n: np.from_dlpack(v).copy() for n, v in whole.state.items()}
    steps.call(whole, x, dy, np.ones(CAPACITY, bool), 0.0)
    steps.state = {n: np.from_dlpack(v).copy() for n, v in whole.state.items()}
    for number in range(12):
        used = random.random(CAPACITY) < random.choice([0.0, 0.3, 0.6, 0.9])
        if number % 3 == 0:  # Padding behind the tokens, so that they are at the same places alone.
            used = np.arange(CAPACITY) < USED
        kinds = random.permutation([np.nan, np.inf, -np.inf, 3e38])[: random.integers(1, 5)]
        fill = np.resize(kinds, HIDDEN).astype(bf16)
        found, wanted = (steps.call(whole, x, dy, used, padding) for padding in (fill, 0.0))
        assert not differing(found, wanted), (used, fill)
        assert all(np.isfinite(value.astype(np.float32)).all() for value in found.values())
        if number % 3 == 0:
            wanted = steps.call(exact, x[:USED], dy[:USED], used[:USED], 0.0)
            assert not differing(found, wanted), fill
        x[:, 0] = 10 * number


def test_padding_is_not_counted(reference):
    """Experts, counts of NaN and infinities, and probes do not see what padding contains."""
    steps = Steps(reference, te_mlir.Float8CurrentScaling(), None)
    step = te_mlir.compile(
        experts(CAPACITY, True, counts=True), "experts", check_finite=True, probes="*", **steps.options
    )
    x, used = draw((CAPACITY, HIDDEN), 1), np.arange(CAPACITY) % 3 != 1
    found, wanted = [], []
    for padding, results in ((np.nan, found), (0.0, wanted)):
        arrays = {"x": np.where(used[:, None], x, padding).astype(bf16), "used": used.astype(np.float32)}
        results += sorted((name, np.asarray(value)) for name, value in step(**steps.weights, **arrays).items())
    assert len(found) >= 10 and not differing(dict(found), dict(wanted))
    found = dict(found)
    assert found["sizes"].sum() == CHOICES * used.sum() and found["dropped"] == 0 and not found["nonfinite"].any()


def groups(rows, alignment, masked):
    """Two grouped layers with biases on the rows of a norm with one."""
    module = build.Module()
    with module.function("groups") as f:
        x = f.argument("x", (rows, HIDDEN))
        w = {name: f.argument(name, WEIGHTS[name], weight=True) for name in ("up", "down")}
        v = {name: f.argument(name, WEIGHTS[name]) for name in ("gamma", "beta", "bu", "bd")}
        sizes = f.argument("sizes", (EXPERTS,), "int32")
        if masked:
            used = f.argument("used", (rows,), "float32")
            x = f.zero_unused(x, used)
        h = f.layer_norm(x, v["gamma"], v["beta"])
        h = f.activation("swiglu", f.grouped_linear(h, w["up"], sizes, v["bu"], alignment))
        y = f.grouped_linear(h, w["down"], sizes, v["bd"], alignment)
        f.result("y", f.zero_unused(y, used) if masked else y)
    return module


@pytest.mark.parametrize("pair", [OF_ROWS[1], *OF_TENSORS[:2], OF_ROWS[2]], ids=name)
def test_rows_of_groups_that_are_not_used_are_those_of_no_group(pair, reference):
    """Groups may have padding behind their rows: it is as if they ended before."""
    steps, alignment = Steps(reference, *pair), 128
    rows, wide, ends = EXPERTS * alignment, np.full(EXPERTS, alignment, np.int32), np.array([13, 1, 100], np.int32)
    place = np.arange(rows)
    used = place % alignment < ends[place // alignment]
    found = []
    for masked, sizes in ((True, wide), (False, ends)):
        step = te_mlir.compile(groups(rows, alignment, masked), "groups", vjp=True, **steps.options)
        weights = {name: steps.weights[name] for name in step.inputs if name in steps.weights}
        arrays = {"x": draw((rows, HIDDEN), 1), "grad.y": draw((rows, HIDDEN), 2), "sizes": sizes}
        # Rows of no group are not read.
        arrays["x"][~used] = arrays["grad.y"][~used] = np.nan if masked else 0.0
        if masked:
            arrays["used"] = used.astype(np.float32)
        results = {n: np.asarray(v) for n, v in step(**weights, **arrays).items() if n != "grad.used"}
        results |= {n: np.from_dlpack(v).copy() for n, v in step.state.items()}
        found.append(results | {n: results[n][used] for n in OF_TOKENS})
    assert np.abs(found[0]["grad.up"].astype(np.float32)).max() > 0 and not differing(*found)
