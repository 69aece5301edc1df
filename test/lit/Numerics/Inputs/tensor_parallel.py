"""Parallel layers on several processes have the bits of a single process with the gathered tensors.

Each case is one te.linear over P ranks. A single process computes the layer of each rank, with that rank's weights and the gathered
input. y and dw of each rank, and the casts of gathered tensors, must have the same bits. The test itself adds sums over ranks (y of
row, dx of column) from the single process's summands, in f32 in the order of ranks, and rounds once, as the reference backend does.
The weights and the rows have different magnitudes, so that a wrong weight, or an amax that is not reduced, changes the result.

With --backend=cuda the same holds, because all GEMMs are too small to be tuned, so one shape has one algorithm. Only sums over more
than two ranks are in NCCL's order, within (R-1)u / (1-(R-1)u) of the sum of magnitudes. A run that fails is a failed claim there.

    tensor_parallel.py FOLDER [RECIPE...] [--backend=cuda] [--launcher=mpirun|torchrun|srun] [--ranks=2,4] [--jobs=N]
"""

import numpy as np
from harness import expect, finish, from_bf16, normal, run, same_bytes, to_bf16
from ranks import BACKEND, CASES, RANKS, later, parts, perform_all, run_ranks, same_sum, single_module, tensor

M, N, K = 256, 128, 128


def parallel_module(recipe, ranks, mode, sequence, group=0, groups=None):
    """One rank's layer. mode: column or row."""
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
        inputs.append(
            {
                "x": parts(own_x, ranks, 0)[r] if column and sequence else own_x,
                "w": own_w,
                "b": own_b,
                "grad.y": parts(own_dy, ranks, 0)[r] if not column and sequence else own_dy,
            }
        )
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
        # With column, the bias is that of a rank; with row, all ranks have it, and there is one gradient.
        expect(
            same_bytes(found[r]["grad.b"], wanted[f"grad.b{r}"] if column else found[0]["grad.b"]),
            f"{claim}: 'grad.b' of rank {r}",
        )
        # The tensor that every rank multiplies, gathered or not.
        names = [name for name in found[r] if name.startswith("cast.")]
        expect(recipe == "high_precision" or len(names) >= 4, f"{claim}: casts of rank {r}")
        for name in names:
            part = name.rsplit(".", 2)
            expect(
                same_bytes(found[r][name], wanted[f"cast.w{r}.{part[1]}.{part[2]}"]), f"{claim}: '{name}' of rank {r}"
            )
    if recipe == "delayed_scaling":
        for name in found[0]:
            if "amax_history" in name or name.endswith(".scale") and not name.startswith("cast."):
                most = np.max([wanted[f"w{r}" + name.removeprefix("w")] for r in range(ranks)], axis=0)
                for r in range(ranks):
                    if "amax_history" in name:
                        expect(same_bytes(found[r][name], most), f"{claim}: state '{name}' of rank {r}")
                    expect(same_bytes(found[r][name], found[0][name]), f"{claim}: one state '{name}'")


for recipe, options, overrides in CASES:
    for ranks in RANKS:
        for mode in ("column", "row"):
            for sequence in (False, True):
                # Time on a GPU is limited.
                for override in overrides if BACKEND == "reference" or ranks == 2 else overrides[:1]:
                    later(check, recipe, options, override, ranks, mode, sequence)
                if sequence:
                    later(check, recipe, options, overrides[0], ranks, mode, sequence, " remat=everything")
perform_all()
finish("tensor-parallel")
