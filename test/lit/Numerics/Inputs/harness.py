"""Runs modules through te-run and compares arrays; what every numerics test shares.

A test is a script with one argument, a folder it may fill. It calls `expect` for every claim, which counts it and prints
those that fail, and ends in `finish`, whose exit status is the test's. bf16 is uint16 in files and float32 in arithmetic here.
`--backend=cuda` behind the arguments runs a test on a GPU.
"""

import json
import pathlib
import subprocess
import sys

import numpy as np

FOLDER = pathlib.Path(sys.argv[1])
BACKEND = next((word.split("=")[1] for word in sys.argv if word.startswith("--backend=")), "reference")
FOLDER.mkdir(parents=True, exist_ok=True)
INPUTS = pathlib.Path(__file__).parent
# The model of the quantisers, te_model, is imported from here.
sys.path.append(str(INPUTS.parents[2] / "model"))
RECIPES = ("float8_current_scaling", "float8_block_scaling")
OVERRIDES = ("none", "high_precision", "dequantized")
#: Pipeline options of recipes, with every override they take, that take matrices of any size a multiple of 16,
MODES = ["recipe=high_precision"] + [f"recipe={r} backward-override={o}" for r in RECIPES for o in OVERRIDES]
#: and of every recipe.
ALL_MODES = MODES + ["recipe=delayed_scaling"] + [f"recipe={r}_block_scaling backward-override={o} target=reference"
                                                  for r in ("mxfp8", "nvfp4") for o in OVERRIDES]

_counts = {"claims": 0, "failed": 0, "runs": 0}


def expect(holds, claim):
    """Counts `claim`; prints it when it does not hold."""
    _counts["claims"] += 1
    if not holds:
        _counts["failed"] += 1
        print(f"FAILED: {claim}")
    return holds


def finish(name):
    """Prints what was checked and leaves with the test's status."""
    print(f"{name}: {_counts['claims']} claims, {_counts['failed']} failed, {_counts['runs']} runs of te-run")
    sys.exit(_counts["failed"] != 0)


class Refused(Exception):
    """What te-run says instead of running on a GPU."""


def run(module, entry, arrays, pipeline="", vjp=False, steps=1, graph=False, summary=False, backend=BACKEND, digests=False):
    """Results of `entry` of `module` (a file, or text) by name, on the backend of the test; with `summary` also what te-run says
    of the run."""
    number = _counts["runs"]
    _counts["runs"] += 1
    if not isinstance(module, pathlib.Path):
        text, module = module, FOLDER / f"{number}.mlir"
        module.write_text(text)
    given, results, said = (FOLDER / f"{number}.{end}" for end in ("in.npz", "out.npz", "summary.json"))
    np.savez(given, **arrays)
    command = ["te-run", str(module), f"--entry={entry}", f"--backend={backend}", f"--inputs={given}",
               f"--outputs={results}", f"--steps={steps}", f"--pipeline={pipeline}", "--quiet",
               f"--summary={said}"]
    command += ["--vjp"] * vjp + ["--graph"] * graph + ["--digests"] * digests
    done = subprocess.run(command, capture_output=True, text=True)
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
