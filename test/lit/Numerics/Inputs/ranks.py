"""Helpers of the tests of groups, which run modules in several processes.

TEST.py FOLDER [RECIPE...] [--backend=cuda] [--launcher=mpirun|torchrun|srun] [--ranks=2,4] [--jobs=N]
"""

import concurrent.futures
import itertools
import os
import subprocess
import sys

import numpy as np
from harness import BACKEND, FOLDER, FULL, INPUTS, Refused, all_pairs, expect, from_bf16, same_bytes, to_bf16

# In an installed folder of checks, it is beside this file.
sys.path += [str(INPUTS.parents[2] / "unit" / "Runtime" / "Mpi")] * (len(INPUTS.parents) > 2)
import launch  # noqa: E402


def option(name, default):
    return next((word.split("=", 1)[1] for word in sys.argv if word.startswith(f"--{name}=")), default)


LAUNCHER = option("launcher", "mpirun")
RANKS = [int(number) for number in option("ranks", "2,4").split(",")]
JOBS = int(option("jobs", "1"))
# As in the harness. Child processes inherit the setting.
os.environ["XDG_CACHE_HOME"] = str((FOLDER / "cache").resolve())

NO_RANDOM = "{stochastic_rounding = false}"
ALL = ("none", "high_precision", "dequantized")
#: (recipe, pipeline options, supported overrides).
CASES = [
    ("high_precision", "", ("none",)),
    ("float8_current_scaling", "", ALL),
    ("delayed_scaling", "", ("none",)),
    ("float8_block_scaling", "", ALL),
    ("mxfp8_block_scaling", "target=reference", ALL),
    (f"nvfp4_block_scaling, {NO_RANDOM}", "target=reference", ALL),
]
# Arguments after the folder are the names of recipes to test.
NAMED = [word for word in sys.argv[2:] if not word.startswith("--")]
CASES = [case for case in CASES if not NAMED or case[0] in NAMED]
if BACKEND != "reference":
    # A recipe whose GEMMs Hopper does not have is emulated if it is named.
    CASES = [
        (recipe, options.replace("target=reference", "emulate=true"), overrides)
        for recipe, options, overrides in CASES
        if NAMED or "reference" not in options
    ]
_work = []


def tensor(*shape, element="bf16"):
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def single_module(recipe, shapes, bias):
    """A layer for each (x, w) of `shapes`, in one process."""
    arguments, body, results = [], "", []
    for i, (x, w) in enumerate(shapes):
        arguments += [
            f'%x{i}: {tensor(*x)} {{te.name = "x{i}"}}',
            f'%w{i}: {tensor(*w)} {{te.name = "w{i}", te.weight}}',
        ]
        with_bias = ""
        if bias:
            arguments.append(f'%b{i}: {tensor(w[0])} {{te.name = "b{i}"}}')
            with_bias = f" bias %b{i} : {tensor(w[0])}"
        body += f"    %y{i} = te.linear %x{i}, %w{i}{with_bias} : {tensor(*x)}, {tensor(*w)} -> {tensor(x[0], w[0])}\n"
        results.append(f'{tensor(x[0], w[0])} {{te.name = "y{i}"}}')
    values = ", ".join(f"%y{i}" for i in range(len(shapes)))
    types = ", ".join(tensor(x[0], w[0]) for x, w in shapes)
    return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>}} {{
  func.func @layer({", ".join(arguments)}) -> ({", ".join(results)}) {{
{body}    return {values} : {types}
  }}
}}"""


_launches = itertools.count(1)


def run_ranks(modules, entry, inputs, pipeline, vjp=True, more=()):
    """The results of each rank by name. modules: one text for all, or one each. more: options of te-run."""
    name = FOLDER / f"ranks{next(_launches)}"
    for rank, arrays in enumerate(inputs):
        np.savez(f"{name}.{rank}.in.npz", **arrays)
    one = isinstance(modules, str)
    commands = []
    for rank in range(len(inputs)):
        path = f"{name}.{0 if one else rank}.mlir"
        with open(path, "w") as file:
            file.write(modules if one else modules[rank])
        commands.append(
            [
                "te-run",
                path,
                f"--entry={entry}",
                f"--backend={BACKEND}",
                f"--inputs={name}.{{rank}}.in.npz",
                f"--outputs={name}.{{rank}}.out.npz",
                f"--pipeline={pipeline}",
                "--quiet",
                "--timeout=60",
            ]
        )
        commands[-1] += ["--vjp"] * vjp + list(more)
    if LAUNCHER == "mpirun":
        command = ["mpirun", "--oversubscribe", "--bind-to", "none"]
        for rank, each in enumerate(commands[:1] if one else commands):
            command += [":"] * (rank > 0) + ["-n", str(len(inputs) if one else 1), *each]
        done = subprocess.run(command, capture_output=True, text=True, env=launch.environment())
        codes, said = [done.returncode], done.stdout + done.stderr
    else:
        codes, texts = launch.Job(LAUNCHER, commands).wait(90)
        said = "".join(texts)
    if any(codes):
        if BACKEND != "reference":
            raise Refused(f"{name}: exit codes {codes}: {said}")
        sys.exit(f"{' '.join(commands[0])}: exit codes {codes}\n{said}")
    results = []
    for rank in range(len(inputs)):
        with np.load(f"{name}.{rank}.out.npz") as file:
            results.append(dict(file))
    return results


def parts(array, ranks, axis):
    return np.split(array, ranks, axis)


def same_sum(found, summands, bias=None):
    """Whether `found` is the sum over ranks, plus a bias, each rounded once; on cuda of many ranks, within the bound of its order."""
    wanted, is_f32 = add_ranks(summands), summands[0].dtype == np.float32
    if bias is not None:
        wanted = to_bf16(from_bf16(wanted) + bias)
    if BACKEND == "reference" or len(summands) <= 2:
        return same_bytes(found, wanted)
    ranks, u = len(summands), 2.0**-24 if is_f32 else 2.0**-8  # the unit roundoff
    exact = sum(_values(each).astype(np.float64) for each in summands)
    off = (ranks - 1) * u / (1 - (ranks - 1) * u) * sum(np.abs(_values(each).astype(np.float64)) for each in summands)
    if bias is not None:
        exact = exact + bias
        off = off + u * (np.abs(exact) + off)
    return found.dtype == wanted.dtype and bool(np.all(np.abs(_values(found).astype(np.float64) - exact) <= off))


def _values(array):
    return array if array.dtype == np.float32 else from_bf16(array)


def add_ranks(summands):
    """The sum in f32, in the order of ranks; a bf16 result is rounded once."""
    total = _values(summands[0])
    for summand in summands[1:]:
        total = (total + _values(summand)).astype(np.float32)
    return total if summands[0].dtype == np.float32 else to_bf16(total)


def later(test, *arguments):
    """Adds a test to the list of `perform_all`."""
    _work.append((test, *arguments))


def _perform(item):
    test, *arguments = item
    try:
        test(*arguments)
    except Refused as refusal:
        expect(False, f"{test.__name__}{arguments}: {refusal}")


def perform_all():
    """Performs the tests of `later`; unless FULL, as many of them as it takes for all pairs of arguments."""
    work = _work if FULL else all_pairs(_work)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for outcome in [pool.submit(_perform, item) for item in work]:
            outcome.result()
