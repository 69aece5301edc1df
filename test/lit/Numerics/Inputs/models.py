"""The programs mlp.mlir and train.mlir, and arrays for them."""

import re

import numpy as np
from harness import INPUTS, normal, to_bf16

STEPS = 20


def mlp_module(sizes):
    """mlp.mlir with another (rows, columns, hidden) than (144, 176, 160)."""
    rows, cols, hidden = sizes
    new = {"144": rows, "176": cols, "160": hidden, "320": 2 * hidden}
    return re.sub(r"(?<!\d)(144|176|160|320)(?=x)", lambda old: str(new[old[0]]), (INPUTS / "mlp.mlir").read_text())


def mlp_arrays(rng, sizes=(144, 176, 160)):
    """Arguments and a cotangent, with zeros, blocks of zeros, negative zeros and subnormals."""
    m, k, h = sizes
    arrays = {
        "x": normal(rng, m, k),
        "gamma": normal(rng, k),
        "w1": normal(rng, 2 * h, k, scale=0.08),
        "b1": normal(rng, 2 * h),
        "w2": normal(rng, k, h, scale=0.08),
        "grad.y": normal(rng, m, k, scale=0.01),
    }
    arrays["x"][:, 5], arrays["x"][0, :8], arrays["w2"][:128, :128], arrays["grad.y"][3] = 0, 0x8000, 0, 1
    return arrays


def train_arrays(rng):
    """(state, inputs of each step). Two batches alternate; the second one has tokens to ignore."""

    def draw(*shape, scale):
        return rng.normal(0, scale, shape).astype(np.float32)

    state = {
        "table": to_bf16(draw(64, 16, scale=1.0)),
        "gamma": draw(32, scale=0.1),
        "up": draw(64, 32, scale=0.2),
        "bias": draw(64, scale=0.1),
        "down": draw(32, 32, scale=0.2),
        "mix": draw(32, 32, scale=0.2),
        "out": draw(64, 32, scale=0.2),
        "t": np.float32(1),
    }
    for name, moments in (("up", "mv"), ("down", "mv"), ("out", "mv"), ("mix", "u")):
        for moment in moments:
            state[f"{name}.{moment}"] = np.zeros_like(state[name])
    ids, targets = rng.integers(0, 64, (2, 64), np.int32), rng.integers(0, 64, (2, 32), np.int32)
    targets[1, ::5] = -100
    turn = np.arange(STEPS) % 2
    feed = {
        "ids.steps": ids[turn],
        "targets.steps": targets[turn],
        "lr.steps": np.linspace(0.02, 0.03, STEPS, dtype=np.float32),
    }
    return state, feed
