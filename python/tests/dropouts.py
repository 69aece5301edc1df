"""PyTorch's dropouts with the zeros of compiled code, to compare gradients."""

import contextlib
import itertools
import pathlib
import sys
from unittest import mock

import numpy as np
import torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "test/model"))
from te_model.philox import MASK, philox  # noqa: E402


def factors(shape, state, stream, probability):
    """What te.dropout multiplies each element with."""
    seed, offset = (int(word) & 0xFFFFFFFF for word in state)
    count = int(np.prod(shape))
    group = np.arange((count + 3) // 4, dtype=np.uint64)
    words = np.stack(philox((group & MASK, group >> np.uint64(32), offset, 3), (seed, stream)), -1).reshape(-1)[:count]
    probability = float(np.float32(probability))
    kept = np.float32(1 / (1 - probability)) if probability < 1 else np.float32(0)
    return torch.from_numpy(np.where(words < int(probability * 2**32), np.float32(0), kept).reshape(shape))


@contextlib.contextmanager
def same_dropouts():
    """In its block, the dropouts of one call zero the elements that those of one compiled graph would."""
    streams, states = itertools.count(), []

    def dropout(x, p=0.5, training=True, inplace=False):
        if not training or not p:
            return x
        if not states:
            states.append(torch.randint(-(2**31), 2**31, (2,), dtype=torch.int32))
        return x * factors(x.shape, states[0], next(streams), p).to(x.dtype)

    with mock.patch("torch.nn.functional.dropout", dropout):
        yield
