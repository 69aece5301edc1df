#!/usr/bin/env python3
"""Trains a small Llama on bytes of a text with JAX, its forward and backward compiled by te.

    train.py [--platform cpu|cuda] [--recipe R] [--steps N]   losses beside those of plain JAX
    train.py --platform cuda --check                          what a call costs, and that it copies nothing

The model is `model.py`, plain JAX; the recipe is one argument. Everything around the
compiled step (the cast of the parameters, AdamW) stays with XLA.
"""

import argparse
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from model import init, loss

import te_mlir
import te_mlir.jax

RECIPES = {
    "high_precision": te_mlir.HighPrecision(),
    "delayed_scaling": te_mlir.DelayedScaling(amax_history_len=16),
    "float8_current_scaling": te_mlir.Float8CurrentScaling(),
    "float8_block_scaling": te_mlir.Float8BlockScaling(),
    "mxfp8_block_scaling": te_mlir.MXFP8BlockScaling(),
}


def batches(text, rows, sequence):
    """(ids, labels) of the text, without end."""
    data = np.frombuffer(text, np.uint8).astype(np.int32)
    for step in range(1 << 30):
        starts = [(7919 * (step * rows + row)) % (len(data) - sequence - 1) for row in range(rows)]
        cut = np.stack([data[s : s + sequence + 1] for s in starts])
        yield jnp.asarray(cut[:, :-1]), jnp.asarray(cut[:, 1:])


def adamw(params, gradients, moments, step, rate=3e-3, decay=0.01):
    """(params, moments) after one step; parameters and moments in f32."""

    def one(p, g, m, v):
        g = g.astype(jnp.float32)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        update = (m / (1 - 0.9**step)) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8)
        return p - rate * (update + decay * p), m, v

    made = jax.tree.map(one, params, gradients, *moments)
    pick = lambda n: jax.tree.map(lambda triple: triple[n], made, is_leaf=lambda x: isinstance(x, tuple))  # noqa: E731
    return pick(0), (pick(1), pick(2))


def train(arguments, recipe):
    """Losses of all steps; recipe None: plain JAX, in bf16."""
    options = {"heads": arguments.heads, "kv_heads": arguments.heads // 2}

    def model(params, ids, labels):
        return loss(params, ids, labels, **options)

    if recipe is None:
        step_of, stateful = jax.value_and_grad(model), False
    else:
        step_of = te_mlir.jax.value_and_grad(model, recipe=recipe, platform=arguments.platform)
        stateful = True
    params = init(
        jax.random.key(0), vocabulary=256, width=arguments.width, ffn=2 * arguments.width, layers=arguments.layers,
        **options,
    )  # fmt: skip
    moments = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    data = batches(pathlib.Path(arguments.text).read_bytes(), arguments.rows, arguments.sequence)
    first = next(data)
    narrow = lambda tree: jax.tree.map(lambda p: p.astype(jnp.bfloat16), tree)  # noqa: E731
    state = step_of.init_state(narrow(params), *first) if stateful else {}

    def step(state, params, moments, number, ids, labels):
        made = step_of(narrow(params), ids, labels, **({"state": state} if state else {}))
        params, moments = adamw(params, made[1], moments, number)
        return (made[2] if state else state), params, moments, made[0]

    step = jax.jit(step, donate_argnums=(0, 1, 2))
    losses = []
    for number in range(1, arguments.steps + 1):
        state, params, moments, value = step(state, params, moments, jnp.float32(number), *first)
        losses.append(value)
        first = next(data)
    return [float(value) for value in losses]


def check(arguments):
    """Prints what the calls of one layer cost, and raises where they copy, or differ from te_mlir.compile's."""
    width, rows = (512, 256) if arguments.platform == "cuda" else (32, 16)
    m = te_mlir.build.Module(recipe=te_mlir.Float8CurrentScaling())
    with m.function("mlp") as f:
        x = f.argument("x", (rows, width))
        up, down = f.argument("up", (width, width), weight=True), f.argument("down", (width, width), weight=True)
        f.result("y", f.add(x, f.linear(f.activation("silu", f.linear(x, up)), down)))
    function = te_mlir.jax.load(m, "mlp", platform=arguments.platform)
    keys = jax.random.split(jax.random.key(0), 4)
    x, up, down, dy = (jax.random.normal(k, (n, width), jnp.bfloat16) for k, n in zip(keys, (rows, width, width, rows)))

    def forward_and_backward(x, up, down, dy):
        y, pull = jax.vjp(lambda *a: function(*a)["y"], x, up, down)
        return y, *pull(dy)

    jitted = jax.jit(forward_and_backward)
    text = jitted.lower(x, up, down, dy).compile().as_text()
    calls, copies = text.count('custom_call_target="te_mlir_step"'), text.count(" copy(")
    print(f"XLA's program: {calls} calls of te, {copies} copies")
    assert calls == 2 and copies == 0, text

    made = jax.block_until_ready(jitted(x, up, down, dy))
    context = te_mlir.Context("reference" if arguments.platform == "cpu" else "cuda")
    step = te_mlir.compile(m, "mlp", vjp=True, context=context)
    given = {}
    for name, value in {"x": x, "up": up, "down": down, "grad.y": dy}.items():
        given[name] = context.empty(value.shape, "bfloat16")
        given[name].copy_bytes(np.asarray(value).tobytes())
    wanted = step(**given)
    for name, value in zip(("y", "grad.x", "grad.up", "grad.down"), made):
        assert np.asarray(value).tobytes() == wanted[name].tobytes(), f"'{name}' differs from te_mlir.compile's"
    print("results and gradients have the bits of te_mlir.compile")

    # Each call needs what the one before made: right only if all are on XLA's own stream.
    def chain(wait):
        value = x
        for _ in range(50):
            value = jitted(value, up, down, dy)[0] * jnp.bfloat16(0.01)
            if wait:
                jax.block_until_ready(value)
        return np.asarray(value).tobytes()

    assert chain(False) == chain(True), "calls that depend on each other are not in order"
    print("50 dependent calls, waited for or not, have the same bits")

    trivial = jax.jit(lambda x, up, down, dy: (x + 1, x + 2, up + 1, down + 1))
    result = {"launches": function._trained((0, 1, 2)).program.num_launches}
    for name, call in (("te", jitted), ("empty", trivial)):
        jax.block_until_ready(call(x, up, down, dy))
        best = []
        for _ in range(10):
            begin = time.perf_counter()
            for _ in range(20):
                values = call(x, up, down, dy)
            best.append((time.perf_counter() - begin) / 20 * 1e6)
            jax.block_until_ready(values)
        result[name] = {"host_us_min": min(best), "host_us_median": sorted(best)[5]}
    runs, instances = function._trained((0, 1, 2)).loaded.counts()
    result |= {"calls": runs, "instances": instances, "device": context.description}
    print(json.dumps(result))


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", "--backend", choices=("cpu", "cuda"), default=None)
    parser.add_argument("--recipe", choices=list(RECIPES), default="float8_current_scaling")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=32)
    parser.add_argument("--text", default=str(here.parent / "byte_lm" / "text.txt"))
    parser.add_argument("--check", action="store_true", help="what a call costs, instead of training")
    arguments = parser.parse_args()
    if arguments.platform is None:
        arguments.platform = "cpu" if jax.default_backend() == "cpu" else "cuda"
    if arguments.check:
        return check(arguments)
    begin = time.perf_counter()
    alone = train(arguments, None)
    middle = time.perf_counter()
    mine = train(arguments, RECIPES[arguments.recipe])
    end = time.perf_counter()
    for number in sorted({0, arguments.steps // 2, arguments.steps - 1}):
        print(f"step {number + 1}: JAX in bf16 {alone[number]:.4f}, {arguments.recipe} {mine[number]:.4f}")
    print(f"{middle - begin:.1f} s and {end - middle:.1f} s, compilation included")
    return None


if __name__ == "__main__":
    main()
