"""Runs modules through te-run and compares arrays; what every numerics test shares.

A test is a script with one argument, a folder it may fill. It calls `expect` for every claim, which counts it and prints
those that fail, and ends in `finish`, whose exit status is the test's. bf16 is uint16 in files and float32 in arithmetic here.

    SCRIPT FOLDER [--backend=cuda] [--modes=TEXT]

runs a test on a GPU, and one that goes through `modes` with those modes alone that have TEXT in their name. Everything that a run
leaves, tuned algorithms too, lies in FOLDER: processes with folders of their own do not see each other.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np

#: The arguments of every test; one with more of them has this as a parent.
PARSER = argparse.ArgumentParser(add_help=False)
PARSER.add_argument("folder", type=pathlib.Path)
PARSER.add_argument("--backend", default="reference", choices=("reference", "cuda"))
PARSER.add_argument("--modes", default="", help="only modes that have this in their name")
_given = PARSER.parse_known_args()[0]
FOLDER, BACKEND = _given.folder, _given.backend
FOLDER.mkdir(parents=True, exist_ok=True)
INPUTS = pathlib.Path(__file__).parent
# The model of the quantisers, te_model, is imported from here.
sys.path.append(str(INPUTS.parents[2] / "model"))
RECIPES = ("float8_current_scaling", "float8_block_scaling")
OVERRIDES = ("none", "high_precision", "dequantized")
#: Pipeline options of recipes, with every override they take, that take matrices of any size a multiple of 16,
MODES = ["recipe=high_precision"] + [f"recipe={r} backward-override={o}" for r in RECIPES for o in OVERRIDES]
#: and of every recipe.
ALL_MODES = (
    MODES
    + ["recipe=delayed_scaling"]
    + [
        f"recipe={r}_block_scaling backward-override={o} target=reference"
        for r in ("mxfp8", "nvfp4")
        for o in OVERRIDES
    ]
)

_counts = {"claims": 0, "failed": 0, "runs": 0, "refused": 0}
_lock = threading.Lock()  # a test may make its runs on several threads


def modes(every=ALL_MODES):
    """Those of `every` that the command line asks for, as the backend takes them."""
    # The reference has products that a GPU emulates.
    named = [mode.replace("target=reference", "emulate=true") if BACKEND == "cuda" else mode for mode in every]
    wanted = [mode for mode in named if _given.modes in mode]
    if not wanted:
        sys.exit(
            f"expected '--modes' to be in the name of a mode, but got '{_given.modes}'; modes are {', '.join(named)}"
        )
    return wanted


def expect(holds, claim):
    """Counts `claim`; prints it when it does not hold."""
    with _lock:
        _counts["claims"] += 1
        if not holds:
            _counts["failed"] += 1
            print(f"FAILED: {claim}")
    return holds


def finish(name):
    """Prints what was checked and leaves with the test's status."""
    refused = f", {_counts['refused']} refused" * (_counts["refused"] > 0)
    print(f"{name}: {_counts['claims']} claims, {_counts['failed']} failed, {_counts['runs']} runs of te-run{refused}")
    sys.exit(_counts["failed"] != 0)


class Refused(Exception):
    """What te-run says instead of running on a GPU."""


@contextlib.contextmanager
def refusals(what):
    """Leaves the block where a GPU refuses `what`: that is named and counted, and a failure only where its driver or a library
    reports an error instead of a missing kernel."""
    try:
        yield
    except Refused as refusal:
        said = str(refusal)
        _counts["refused"] += 1
        print(f"{what}: refused: {said.splitlines()[0] if said else 'no message'}", flush=True)
        if not said or "CUDA_ERROR_" in said or "CUBLAS_STATUS_" in said:
            expect(False, f"{what}: {said}")


def run(
    module, entry, arrays, pipeline="", vjp=False, steps=1, graph=False, summary=False, backend=BACKEND, digests=False
):
    """Results of `entry` of `module` (a file, or text) by name, on the backend of the test; with `summary` also what te-run says
    of the run."""
    with _lock:
        number = _counts["runs"]
        _counts["runs"] += 1
    if not isinstance(module, pathlib.Path):
        text, module = module, FOLDER / f"{number}.mlir"
        module.write_text(text)
    given, results, said = (FOLDER / f"{number}.{end}" for end in ("in.npz", "out.npz", "summary.json"))
    np.savez(given, **arrays)
    command = [
        "te-run",
        str(module),
        f"--entry={entry}",
        f"--backend={backend}",
        f"--inputs={given}",
        f"--outputs={results}",
        f"--steps={steps}",
        f"--pipeline={pipeline}",
        "--quiet",
        f"--summary={said}",
    ]
    command += ["--vjp"] * vjp + ["--graph"] * graph + ["--digests"] * digests
    # Algorithms of another process, tuned between two runs of this one, would change bits.
    environment = os.environ | {"XDG_CACHE_HOME": str((FOLDER / "cache").resolve())}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode == 1 and backend != "reference":
        raise Refused(done.stderr.strip())
    if done.returncode or done.stderr:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    with np.load(results) as file:
        found = dict(file)
    return (found, json.loads(said.read_text())) if summary else found


def forget_last_run():
    """Removes the files of the last run, which say nothing more once its claims held."""
    for path in FOLDER.glob(f"{_counts['runs'] - 1}.*"):
        path.unlink()


def compile_to(module, phase, pipeline):
    """The program after `phase`."""
    options = f"--te-training-pipeline={pipeline} compile-to={phase}"
    return subprocess.run(["te-opt", str(module), options], capture_output=True, text=True, check=True).stdout


def same_bytes(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def expect_same(found, wanted, names, claim):
    """Every array of `names` has the same bytes in both."""
    for name in names:
        expect(same_bytes(found[name], wanted[name]), f"{claim}: '{name}'")


def to_bf16(x):
    """Bits of the nearest bf16, ties to even; NaN becomes the canonical one."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), rounded)


def from_bf16(bits):
    """The float32 values of bf16 bits."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def normal(rng, *shape, scale=1.0):
    """bf16 bits of normal numbers, rows of which differ in size by powers of two."""
    rows = 2.0 ** rng.integers(-3, 4, (shape[0],) + (1,) * (len(shape) - 1))
    return to_bf16(rng.normal(0, scale, shape) * rows)
