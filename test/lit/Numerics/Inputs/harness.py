"""Helpers of all numerics tests: they run modules with te-run and compare arrays.

A test is a script with one argument, a folder for its files. It calls `expect` for every claim, which counts the claim and prints
it if it fails, and `finish` at the end, whose exit status is that of the test. bf16 is uint16 in files and float32 in arithmetic.

    SCRIPT FOLDER [--backend=cuda] [--modes=TEXT]

--backend=cuda runs a test on a GPU. With --modes, a test that calls `modes` runs only modes with TEXT in their name. All files of
a run, including tuned algorithms, are in FOLDER, so processes with different folders do not affect each other.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np

#: The arguments of every test; tests with further arguments use it as a parent.
PARSER = argparse.ArgumentParser(add_help=False)
PARSER.add_argument("folder", type=pathlib.Path)
PARSER.add_argument("--backend", default="reference", choices=("reference", "cuda"))
PARSER.add_argument("--modes", default="", help="only modes that have this in their name")
_given = PARSER.parse_known_args()[0]
FOLDER, BACKEND = _given.folder, _given.backend
FOLDER.mkdir(parents=True, exist_ok=True)
#: Whether every combination is tested: by hand on a GPU, for chosen modes, and with TE_TESTS=full. Else tests take a sample.
FULL = BACKEND == "cuda" or bool(_given.modes) or os.environ.get("TE_TESTS") == "full"
INPUTS = pathlib.Path(__file__).parent
# te_model, the model of the quantisers, is imported from this folder.
sys.path.append(str(INPUTS.parents[2] / "model"))
RECIPES = ("float8_current_scaling", "float8_block_scaling")
OVERRIDES = ("none", "high_precision", "dequantized")
#: Pipeline options of the recipes for matrices of any multiple of 16, with every override that they support.
MODES = ["recipe=high_precision"] + [f"recipe={r} backward-override={o}" for r in RECIPES for o in OVERRIDES]
#: The same for every recipe.
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
_lock = threading.Lock()  # a test may run several threads


def in_turn(every, turn):
    """One entry of `every` for each recipe, whose overrides take turns from number `turn` on."""
    recipes = {}
    for mode in every:
        recipes.setdefault(mode.split(" backward-override")[0], []).append(mode)
    return [of[(turn + i) % len(of)] for i, of in enumerate(recipes.values())]


def all_pairs(cases):
    """Some of `cases`, tuples of values, in which each two values occur together that do so in one of `cases`."""
    kept, missing = [], set()
    pairs = {case: set(itertools.combinations(enumerate(case), 2)) for case in cases}
    missing.update(*pairs.values())
    while missing:
        best = max(pairs, key=lambda case: len(pairs[case] & missing))
        missing -= pairs[best]
        kept.append(best)
    return kept


def modes(every=ALL_MODES, turn=0, also=()):
    """The entries of `every` that the command line selects, in the form for the backend; one of each recipe, and `also`, unless FULL."""
    every = every if FULL else [*in_turn(every, turn), *also]
    # The reference backend has GEMMs that a GPU emulates.
    named = [mode.replace("target=reference", "emulate=true") if BACKEND == "cuda" else mode for mode in every]
    wanted = [mode for mode in named if _given.modes in mode]
    if not wanted:
        sys.exit(
            f"expected '--modes' to be in the name of a mode, but got '{_given.modes}'; modes are {', '.join(named)}"
        )
    return wanted


def expect(holds, claim):
    """Counts `claim`, and prints it if it is false."""
    with _lock:
        _counts["claims"] += 1
        if not holds:
            _counts["failed"] += 1
            print(f"FAILED: {claim}")
    return holds


def finish(name):
    """Prints the number of claims and exits with the status of the test."""
    refused = f", {_counts['refused']} refused" * (_counts["refused"] > 0)
    print(f"{name}: {_counts['claims']} claims, {_counts['failed']} failed, {_counts['runs']} runs of te-run{refused}")
    sys.exit(_counts["failed"] != 0)


class Refused(Exception):
    """An error of te-run instead of a run on a GPU."""


@contextlib.contextmanager
def refusals(what):
    """Leaves the block if a GPU does not support `what`, which is printed and counted. It is a failure only if the driver or a
    library reports an error, and not if a kernel is missing."""
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
    """Results of `entry` of `module` (a file, or text) by name, on the backend of the test; with `summary`, also te-run's summary
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
    # Algorithms that another process tunes between two runs of this one would change bits.
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
    """Removes the files of the last run, which are not needed after its claims were true."""
    for path in FOLDER.glob(f"{_counts['runs'] - 1}.*"):
        path.unlink()


def compile_to(module, phase, pipeline):
    """The text of the program after `phase`."""
    options = f"--te-training-pipeline={pipeline} compile-to={phase}"
    return subprocess.run(["te-opt", str(module), options], capture_output=True, text=True, check=True).stdout


def same_bytes(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def expect_same(found, wanted, names, claim):
    """Whether every array of `names` has the same bytes in both."""
    for name in names:
        expect(same_bytes(found[name], wanted[name]), f"{claim}: '{name}'")


def to_bf16(x):
    """The bits of the nearest bf16, ties to even; NaN becomes the canonical NaN."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), rounded)


def from_bf16(bits):
    """The float32 values of bf16 bits."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def normal(rng, *shape, scale=1.0):
    """bf16 bits of normal numbers, whose rows are multiplied by different powers of two."""
    rows = 2.0 ** rng.integers(-3, 4, (shape[0],) + (1,) * (len(shape) - 1))
    return to_bf16(rng.normal(0, scale, shape) * rows)
