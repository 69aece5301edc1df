"""Parallel layers over several processes have the bits of one process that is given what they gather.

Each case is one te.linear over P ranks. One process computes, for every rank, the layer on that rank's weights and on the whole of
what the ranks gather, as a layer of its own; what has to be equal to the last bit: y and dw of each rank, and the casts of what
is gathered. Sums over ranks (y of row, dx of column) are added here from the one process's summands, in f32 in the order of
ranks, and rounded once, as the reference backend adds. Weights of ranks differ in size, so that nothing fits by chance, and
rows do too, so that an amax which is not of the group would show.

On cuda (`--backend=cuda`) the same holds, as all products are too small to be tuned: one shape has one algorithm. Only sums over more
than two ranks are NCCL's, within (R-1)u / (1-(R-1)u) of the sum of magnitudes. There a run that fails is a claim that fails.

    tensor_parallel.py FOLDER [RECIPE...] [--backend=cuda] [--launcher=mpirun|torchrun|srun] [--ranks=2,4] [--jobs=N]
"""

import concurrent.futures
import itertools
import os
import subprocess
import sys

import numpy as np
from harness import BACKEND, FOLDER, INPUTS, Refused, expect, finish, from_bf16, normal, run, same_bytes, to_bf16

# In the installed folder of checks it is beside this file.
sys.path += [str(INPUTS.parents[2] / "unit" / "Runtime" / "Mpi")] * (len(INPUTS.parents) > 2)
import launch  # noqa: E402


def option(name, default):
    return next((word.split("=", 1)[1] for word in sys.argv if word.startswith(f"--{name}=")), default)


LAUNCHER = option("launcher", "mpirun")
RANKS = [int(number) for number in option("ranks", "2,4").split(",")]
JOBS = int(option("jobs", "1"))
# As in the harness; processes inherit it.
os.environ["XDG_CACHE_HOME"] = str((FOLDER / "cache").resolve())

M, N, K = 256, 128, 128
NO_RANDOM = "{stochastic_rounding = false}"
ALL = ("none", "high_precision", "dequantized")
CASES = [("high_precision", "", ("none",)),
         ("float8_current_scaling", "", ALL),
         ("delayed_scaling", "", ("none",)),
         ("float8_block_scaling", "", ALL),
         ("mxfp8_block_scaling", "target=reference", ALL),
         (f"nvfp4_block_scaling, {NO_RANDOM}", "target=reference", ALL)]


def tensor(*shape):
    return f"tensor<{'x'.join(map(str, shape))}xbf16>"


def parallel_module(recipe, ranks, mode, sequence, group=0, groups=None):
    """One rank's layer: `mode` is column or row."""
    column = mode == "column"
    x = (M // ranks if column and sequence else M, K if column else K // ranks)
    w = (N // ranks, K) if column else (N, K // ranks)
    y = (M // ranks if not column and sequence else M, w[0])
    groups = groups or f'#te.group<id = 0, name = "tp", axis = "tp", size = {ranks}>'
    suffix = ", sequence" if sequence else ""
    return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>, te.groups = [{groups}]}} {{
  func.func @layer(%x: {tensor(*x)} {{te.name = "x"}}, %w: {tensor(*w)} {{te.name = "w", te.weight}}, %b: {tensor(w[0])} {{te.name = "b"}})
      -> ({tensor(*y)} {{te.name = "y"}}) {{
    %y = te.linear %x, %w bias %b : {tensor(w[0])} parallel <{mode}, group = {group}{suffix}>
      : {tensor(*x)}, {tensor(*w)} -> {tensor(*y)}
    return %y : {tensor(*y)}
  }}
}}"""


def single_module(recipe, shapes, bias):
    """A layer for each of `shapes`, (x, w), in one process."""
    arguments, body, results = [], "", []
    for i, (x, w) in enumerate(shapes):
        arguments += [f'%x{i}: {tensor(*x)} {{te.name = "x{i}"}}', f'%w{i}: {tensor(*w)} {{te.name = "w{i}", te.weight}}']
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
  func.func @layer({', '.join(arguments)}) -> ({', '.join(results)}) {{
{body}    return {values} : {types}
  }}
}}"""


_launches = itertools.count(1)


def run_ranks(modules, entry, inputs, pipeline, vjp=True):
    """Results of each rank, by name; `modules` is one text for all, or one each."""
    name = FOLDER / f"ranks{next(_launches)}"
    for rank, arrays in enumerate(inputs):
        np.savez(f"{name}.{rank}.in.npz", **arrays)
    one = isinstance(modules, str)
    commands = []
    for rank in range(len(inputs)):
        path = f"{name}.{0 if one else rank}.mlir"
        with open(path, "w") as file:
            file.write(modules if one else modules[rank])
        commands.append(["te-run", path, f"--entry={entry}", f"--backend={BACKEND}", f"--inputs={name}.{{rank}}.in.npz",
                         f"--outputs={name}.{{rank}}.out.npz", f"--pipeline={pipeline}", "--quiet", "--timeout=60"])
        commands[-1] += ["--vjp"] * vjp
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
    wanted = add_ranks(summands)
    if bias is not None:
        wanted = to_bf16(from_bf16(wanted) + bias)
    if BACKEND == "reference" or len(summands) <= 2:
        return same_bytes(found, wanted)
    ranks, u = len(summands), 2.0**-8  # the unit roundoff of bf16
    exact = sum(from_bf16(each).astype(np.float64) for each in summands)
    off = (ranks - 1) * u / (1 - (ranks - 1) * u) * sum(np.abs(from_bf16(each).astype(np.float64)) for each in summands)
    if bias is not None:
        exact = exact + bias
        off = off + u * (np.abs(exact) + off)
    return bool(np.all(np.abs(from_bf16(found).astype(np.float64) - exact) <= off))


def add_ranks(summands):
    """In f32, in the order of ranks, rounded once."""
    total = from_bf16(summands[0])
    for summand in summands[1:]:
        total = (total + from_bf16(summand)).astype(np.float32)
    return to_bf16(total)


def check(recipe, options, override, ranks, mode, sequence, remat=""):
    rng = np.random.default_rng([ranks, mode == "column", sequence])
    column = mode == "column"
    x, w, dy = normal(rng, M, K), normal(rng, N, K, scale=0.1), normal(rng, M, N)
    b = normal(rng, N)
    wide = to_bf16(from_bf16(w) * 2.0 ** np.repeat(np.arange(ranks), N // ranks)[:, None]) if column else w
    pipeline = f"backward-override={override} expose-casts=true {options}"
    claim = f"{recipe} {override} {mode}{' sequence' * sequence} over {ranks}{remat}"

    inputs, singles, shapes = [], {}, []
    for r in range(ranks):
        own_w = parts(wide, ranks, 0 if column else 1)[r]
        own_x = x if column else parts(x, ranks, 1)[r]
        own_dy = parts(dy, ranks, 1)[r] if column else dy
        own_b = parts(b, ranks, 0)[r] if column else b
        inputs.append({"x": parts(own_x, ranks, 0)[r] if column and sequence else own_x, "w": own_w, "b": own_b,
                       "grad.y": parts(own_dy, ranks, 0)[r] if not column and sequence else own_dy})
        singles |= {f"x{r}": own_x, f"w{r}": own_w, f"grad.y{r}": own_dy} | ({f"b{r}": own_b} if column else {})
        shapes.append((own_x.shape, own_w.shape))
    found = run_ranks(parallel_module(recipe, ranks, mode, sequence), "layer", inputs, f"{pipeline}{remat}")
    wanted = run(single_module(recipe, shapes, column), "layer", singles, pipeline, vjp=True)

    for r in range(ranks):
        def own_rows(array, split):
            return parts(array, ranks, 0)[r] if split else array
        if column:
            expect(same_bytes(found[r]["y"], wanted[f"y{r}"]), f"{claim}: 'y' of rank {r}")
        else:
            summands = [own_rows(wanted[f"y{s}"], sequence) for s in range(ranks)]
            expect(same_sum(found[r]["y"], summands, from_bf16(b)[None, :]), f"{claim}: 'y' of rank {r}")
        expect(same_bytes(found[r]["grad.w"], wanted[f"grad.w{r}"]), f"{claim}: 'grad.w' of rank {r}")
        if column:
            summands = [own_rows(wanted[f"grad.x{s}"], sequence) for s in range(ranks)]
            expect(same_sum(found[r]["grad.x"], summands), f"{claim}: 'grad.x' of rank {r}")
        else:
            expect(same_bytes(found[r]["grad.x"], wanted[f"grad.x{r}"]), f"{claim}: 'grad.x' of rank {r}")
        # The bias of a column is a rank's own; else all have it, and one gradient.
        expect(same_bytes(found[r]["grad.b"], wanted[f"grad.b{r}"] if column else found[0]["grad.b"]), f"{claim}: 'grad.b' of rank {r}")
        # What every rank multiplies, gathered or not.
        names = [name for name in found[r] if name.startswith("cast.")]
        expect(recipe == "high_precision" or len(names) >= 4, f"{claim}: casts of rank {r}")
        for name in names:
            part = name.rsplit(".", 2)
            expect(same_bytes(found[r][name], wanted[f"cast.w{r}.{part[1]}.{part[2]}"]), f"{claim}: '{name}' of rank {r}")
    if recipe == "delayed_scaling":
        for name in found[0]:
            if "amax_history" in name or name.endswith(".scale") and not name.startswith("cast."):
                most = np.max([wanted[f"w{r}" + name.removeprefix("w")] for r in range(ranks)], axis=0)
                for r in range(ranks):
                    if "amax_history" in name:
                        expect(same_bytes(found[r][name], most), f"{claim}: state '{name}' of rank {r}")
                    expect(same_bytes(found[r][name], found[0][name]), f"{claim}: one state '{name}'")


def two_groups_one_layer(recipe, options):
    """One weight under two groups of a 2 x 2 mesh: each call gathers, and reduces its amaxes, over its own."""
    rng = np.random.default_rng(7)
    rows = M // 2
    w = normal(rng, N, K, scale=0.1)
    x = [[normal(rng, M, K) for _ in range(2)] for _ in range(2)]  # by call and the number in the other group
    dy = normal(rng, M, N)
    layer = "".join(f"""
    %y{i} = te.linear %x{i}, %w parallel <column, group = {i}, sequence> : {tensor(rows, K)}, {tensor(N, K)} -> {tensor(M, N)}"""
                    for i in range(2))
    split = "[#te.shard<axis = 0, group = 0>, #te.shard<axis = 0, group = 1>]"
    text = f"""
module attributes {{te.recipe = #te.recipe<{recipe}>, te.groups = [#te.group<id = 0, name = "a", axis = "a", size = 2>,
                                                                   #te.group<id = 1, name = "b", axis = "b", size = 2>]}} {{
  func.func @layer(%x0: {tensor(rows, K)} {{te.name = "x0", te.sharding = {split}}}, %x1: {tensor(rows, K)} {{te.name = "x1", te.sharding = {split}}},
                   %w: {tensor(N, K)} {{te.name = "w", te.weight}})
      -> ({tensor(M, N)} {{te.name = "y0"}}, {tensor(M, N)} {{te.name = "y1"}}) {{{layer}
    return %y0, %y1 : {tensor(M, N)}, {tensor(M, N)}
  }}
}}"""
    inputs = []
    for a in range(2):
        for b in range(2):
            inputs.append({"x0": parts(x[0][b], 2, 0)[a], "x1": parts(x[1][a], 2, 0)[b], "w": w, "grad.y0": dy, "grad.y1": dy})
    found = run_ranks(text, "layer", inputs, options)
    single = single_module(recipe, [((M, K), (N, K))] * 2, False)
    for a in range(2):
        for b in range(2):
            wanted = run(single, "layer", {"x0": x[0][b], "x1": x[1][a], "w0": w, "w1": w, "grad.y0": dy, "grad.y1": dy}, options, vjp=True)
            rank = found[2 * a + b]
            claim = f"two groups, {recipe}, rank {2 * a + b}"
            expect(same_bytes(rank["y0"], wanted["y0"]) and same_bytes(rank["y1"], wanted["y1"]), f"{claim}: y")
            dw = to_bf16(from_bf16(wanted["grad.w0"]) + from_bf16(wanted["grad.w1"]))
            expect(same_bytes(rank["grad.w"], dw), f"{claim}: grad.w")
            # Both ranks of the group have this dx.
            for i, number in ((0, a), (1, b)):
                dx = parts(add_ranks([wanted[f"grad.x{i}"]] * 2), 2, 0)[number]
                expect(same_bytes(rank[f"grad.x{i}"], dx), f"{claim}: grad.x{i}")


def empty_part():
    """A rank without a row takes part in the reduction of an amax."""
    values = normal(np.random.default_rng(5), 33, K)
    inputs = [{"x": values}, {"x": values[:0]}]
    modules = [f"""
module attributes {{te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]}} {{
  func.func @step(%x: {tensor(*given["x"].shape)} {{te.name = "x"}}) -> (tensor<f32> {{te.name = "amax"}}) {{
    %own = te.amax %x : {tensor(*given["x"].shape)}
    %all = te.amax_reduce %own group 0
    return %all : tensor<f32>
  }}
}}""" for given in inputs]
    for rank, result in enumerate(run_ranks(modules, "step", inputs, "", vjp=False)):
        expect(result["amax"] == np.abs(from_bf16(values)).max(), f"empty part: amax of rank {rank}")


# Arguments behind the folder name recipes, and nothing else is tried.
NAMED = [word for word in sys.argv[2:] if not word.startswith("--")]
CASES = [case for case in CASES if not NAMED or case[0] in NAMED]
if BACKEND != "reference":
    CASES = [case for case in CASES if "reference" not in case[1]]
work = []


def later(test, *arguments):
    work.append((test, arguments))


def perform(item):
    test, arguments = item
    try:
        test(*arguments)
    except Refused as refusal:
        expect(False, f"{test.__name__}{arguments}: {refusal}")


for recipe, options, _ in CASES:
    if recipe.startswith(("float8_current", "nvfp4")) and 4 in RANKS:
        later(two_groups_one_layer, recipe, options)
        later(two_groups_one_layer, recipe, f"{options} remat=everything")
if 2 in RANKS:
    later(empty_part)
for recipe, options, overrides in CASES:
    for mode in ("column", "row"):
        for sequence in (False, True):
            for override in overrides if 2 in RANKS else ():
                later(check, recipe, options, override, 2, mode, sequence)
            if sequence and recipe.startswith(("float8", "nvfp4")):
                if 4 in RANKS:
                    later(check, recipe, options, overrides[0], 4, mode, sequence)
                if 2 in RANKS:
                    later(check, recipe, options, overrides[0], 2, mode, sequence, " remat=everything")
with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
    for outcome in [pool.submit(perform, item) for item in work]:
        outcome.result()
finish("tensor-parallel")
