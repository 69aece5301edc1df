"""The package itself: quick to import, alone, typed."""

import os
import pathlib
import subprocess
import sys

import te_mlir


def test_import_loads_nothing_heavy():
    program = "import sys, te_mlir; print([m for m in ('torch', 'numpy', 'jax') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_import_takes_less_than_50_ms():
    program = "import time; s = time.process_time(); import te_mlir; print(time.process_time() - s)"
    times = []
    # Other programs on the machine make it slower, nothing makes it faster.
    while len(times) < 20 and (not times or min(times) >= 0.05):
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        times.append(float(run.stdout))
    assert min(times) < 0.05, times


def test_doctor_finds_a_working_compiler():
    run = subprocess.run([sys.executable, "-m", "te_mlir", "doctor"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "compiled and ran on the reference backend" in run.stdout


def test_doctor_says_what_is_missing():
    environment = {**os.environ, "TE_MLIR_LIBRARY_PATH": os.path.dirname(__file__)}
    run = subprocess.run([sys.executable, "-m", "te_mlir", "doctor"], capture_output=True, text=True, env=environment)
    assert run.returncode == 1
    assert "set TE_MLIR_LIBRARY_PATH" in run.stdout


def test_types_are_announced():
    assert (pathlib.Path(te_mlir.__file__).parent / "py.typed").exists()
