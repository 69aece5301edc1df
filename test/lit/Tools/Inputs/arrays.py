"""Creates and checks the arrays of te-run-arrays.test."""

import pathlib
import sys

import numpy as np

command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
rng = np.random.default_rng(0)
x = rng.integers(-4, 5, (16, 32)).astype(np.float32)
w = rng.integers(-4, 5, (16, 32)).astype(np.float32)
p = np.arange(4, dtype=np.float32)

if command == "make":
    np.savez(folder / "linear.npz", x=x, w=w)
    np.savez(folder / "wrong.npz", x=x.astype(np.float64), w=w.T, z=x)
    np.savez(folder / "steps.npz", p=p, g=np.ones(4, np.float32), **{"lr.steps": np.array([1, 2, 4], np.float32)})
    whole = (folder / "linear.npz").read_bytes()
    (folder / "truncated.npz").write_bytes(whole[: len(whole) // 2])
elif command == "linear":
    np.testing.assert_array_equal(np.load(folder / "y.npz")["y"], x @ w.T)
elif command == "gradient":
    found = np.load(folder / "grad.npz")
    ones = np.ones((16, 16), np.float32)
    np.testing.assert_array_equal(found["y"], x @ w.T)
    np.testing.assert_array_equal(found["grad.x"], ones @ w)
    np.testing.assert_array_equal(found["grad.w"], ones.T @ x)
elif command == "steps":
    found = np.load(folder / "p.npz")
    np.testing.assert_array_equal(found["p"], p - 7)
    np.testing.assert_array_equal(found["rate"], np.float32(8))
    np.testing.assert_array_equal(found["rate.steps"], np.array([2, 4, 8], np.float32))
