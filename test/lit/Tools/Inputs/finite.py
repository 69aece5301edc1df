"""Creates and checks the arrays of te-run-check-finite.test."""

import pathlib
import sys

import numpy as np

command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
if command == "make":
    tens = np.full((4, 8), 10, np.float32)
    np.savez(folder / "tens.npz", x=tens)
    tens[1, 3] = np.nan
    tens[2, 5] = -np.inf
    np.savez(folder / "bad.npz", x=tens)
    # bf16 as uint16. 480 is larger than E4M3's maximum, and the first step's scale is 1.
    x = np.ones((3, 32, 16), np.float32)
    x[0, :2, 4], x[1, 7, 7], x[2, 1, 1] = 480, 600, np.inf
    w = np.ones((16, 16), np.float32)
    np.savez(
        folder / "layer.npz",
        **{"x.steps": (x.view(np.uint32) >> 16).astype(np.uint16), "w": (w.view(np.uint32) >> 16).astype(np.uint16)},
    )
elif command == "check":
    with np.load(folder / "out.npz") as found:
        assert found["nonfinite"].shape == (3, 3) and not found["nonfinite"].any(), found["nonfinite"]
        assert found["x"].max() == np.float32(1e32), found["x"]
