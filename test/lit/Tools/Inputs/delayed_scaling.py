"""Creates and checks the arrays of te-run-delayed-scaling.test."""

import pathlib
import sys

import numpy as np

command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
factors = np.array([1, 3, 0, 0.5, np.inf, 2, 0.25, 7, 1, 1e-3, 0, 2, 5, 0.5, 0.25, 0.125, 0.0625], np.float32)
base = np.random.default_rng(0).integers(-4, 5, (16, 32)).astype(np.float32)
with np.errstate(invalid="ignore"):
    x = factors[:, None, None] * base
x = np.where(np.isnan(x), np.float32(0), x)  # 0 * inf
x[5, 0, 0] = np.nan  # the amax ignores it

if command == "make":
    np.savez(
        folder / "in.npz",
        **{"x.steps": x, "x.amax_history": np.zeros(4, np.float32), "x.scale": np.ones((), np.float32)},
    )
    np.savez(
        folder / "first.npz",
        **{"x.steps": x[:5], "x.amax_history": np.zeros(4, np.float32), "x.scale": np.ones((), np.float32)},
    )
elif command == "resume":
    state = np.load(folder / "half.npz")
    np.savez(
        folder / "second.npz",
        **{"x.steps": x[5:], "x.amax_history": state["x.amax_history"], "x.scale": state["x.scale"]},
    )
elif command == "check":
    found = np.load(folder / "out.npz")
    scale, window = np.float32(1), [np.float32(0)] * 4
    amaxes, used = [], []
    for step in x:
        amax = np.float32(np.nanmax(np.abs(step)))
        amaxes.append(amax)
        used.append(scale)
        if amax != 0:
            window = window[1:] + [amax]
            largest = max(window)
            if np.isfinite(largest):
                scale = np.float32(448 / 2) / largest
    np.testing.assert_array_equal(found["amax.steps"], np.array(amaxes))
    np.testing.assert_array_equal(found["used.steps"], np.array(used))
    np.testing.assert_array_equal(found["x.scale"], scale)
    np.testing.assert_array_equal(found["x.amax_history"], np.array([0] + window[1:], np.float32))
    assert len(set(used)) > 4, used
    # A run in two parts, which passes the state in a file, ends with the same state.
    parts = np.load(folder / "end.npz")
    for name in ("y", "x.scale", "x.amax_history"):
        np.testing.assert_array_equal(found[name], parts[name])
