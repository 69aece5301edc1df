"""Delayed scaling: the next scale is computed from a history of amaxes, separately for each slot."""

import math

import numpy as np

from .formats import FLT_MAX


def update_slot(amax, history, scale, largest, algorithm="max", margin=0):
    """(history, scale) of one slot after a step. Row 0 of a history is for an amax that is not counted yet."""
    last = amax if amax != 0 else history[0]
    if last == 0:
        return list(history), scale
    window = [*history[1:], last]
    if algorithm == "max":
        counted = [value for value in window if not math.isnan(value)]
        chosen = max(counted, default=0.0)
    else:
        chosen = last
    if math.isfinite(chosen) and chosen > 0:
        with np.errstate(over="ignore"):
            scale = np.float32(largest * 2.0**-margin) / np.float32(chosen)
        scale = FLT_MAX if np.isinf(scale) else scale
    return [np.float32(0), *window[1:]], scale


def update(amax, history, scale, largest, algorithm="max", margin=0):
    """The same for f32 arrays of slots. history: [length] and the shape of `amax`."""
    shape, length = np.shape(amax), len(history)
    columns = history.reshape(length, -1).T
    slots = [
        update_slot(*slot, float(largest), algorithm, margin) for slot in zip(np.ravel(amax), columns, np.ravel(scale))
    ]
    new_history = np.array([slot[0] for slot in slots], np.float32).T.reshape(history.shape)
    return new_history, np.array([slot[1] for slot in slots], np.float32).reshape(shape)
