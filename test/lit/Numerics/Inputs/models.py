"""Arrays for mlp.mlir and train.mlir."""

import numpy as np
from harness import normal, to_bf16

STEPS = 20


def mlp_arrays(rng):
    """Arguments and a cotangent, with zeros, whole blocks of them, negative zeros and subnormals."""
    arrays = {"x": normal(rng, 144, 176), "gamma": normal(rng, 176), "w1": normal(rng, 320, 176, scale=0.08),
              "b1": normal(rng, 320), "w2": normal(rng, 176, 160, scale=0.08), "grad.y": normal(rng, 144, 176, scale=0.01)}
    arrays["x"][:, 5], arrays["x"][0, :8], arrays["w2"][:128, :128], arrays["grad.y"][3] = 0, 0x8000, 0, 1
    return arrays


def train_arrays(rng):
    """(state, what changes from step to step). Two batches take turns; the second one has tokens to ignore."""
    def draw(*shape, scale):
        return rng.normal(0, scale, shape).astype(np.float32)

    state = {"table": to_bf16(draw(48, 16, scale=1.0)), "gamma": draw(32, scale=0.1), "up": draw(64, 32, scale=0.2),
             "bias": draw(64, scale=0.1), "down": draw(32, 32, scale=0.2), "mix": draw(32, 32, scale=0.2),
             "out": draw(48, 32, scale=0.2), "t": np.float32(1)}
    for name, moments in (("up", "mv"), ("down", "mv"), ("out", "mv"), ("mix", "u")):
        for moment in moments:
            state[f"{name}.{moment}"] = np.zeros_like(state[name])
    ids, targets = rng.integers(0, 48, (2, 64), np.int32), rng.integers(0, 48, (2, 32), np.int32)
    targets[1, ::5] = -100
    turn = np.arange(STEPS) % 2
    feed = {"ids.steps": ids[turn], "targets.steps": targets[turn],
            "lr.steps": np.linspace(0.02, 0.03, STEPS, dtype=np.float32)}
    return state, feed
