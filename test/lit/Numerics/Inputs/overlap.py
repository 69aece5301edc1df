"""Collectives on the side stream change no bit.

Two parallel layers with other ops in between run on several processes, forward and backward. With `overlap=always`, launches move
and collectives run beside others. Every rank has the bytes of `overlap=never`, where all launches run in program order on one stream.

    overlap.py FOLDER [RECIPE...] [--backend=cuda] [--launcher=mpirun|torchrun|srun] [--ranks=2,4] [--jobs=N]
"""

import subprocess
import sys
import tempfile

import numpy as np
from harness import BACKEND, expect, finish, normal, same_bytes
from ranks import CASES, RANKS, later, parts, perform_all, run_ranks, tensor

M, K, N = 256, 128, 512


def module(recipe, ranks, sequence):
    own, wide = M // ranks if sequence else M, N // ranks
    suffix = ", sequence" if sequence else ""
    x, h = tensor(own, K), tensor(M, wide)
    shard = ", te.sharding = [#te.shard<axis = 0, group = 0>]" if sequence else ""
    layers, value = "", "x"
    for i in (1, 2):
        layers += f"""
    %n{i} = te.rms_norm %{value}, %g {{epsilon = 1.0e-5 : f32}} : {x}, {tensor(K)}
    %u{i} = te.linear %n{i}, %w{i} parallel <column, group = 0{suffix}> : {x}, {tensor(wide, K)} -> {h}
    %a{i} = te.activation <gelu> %u{i} : {h} -> {h}
    %d{i} = te.linear %a{i}, %v{i} parallel <row, group = 0{suffix}> : {h}, {tensor(K, wide)} -> {x}
    %y{i} = arith.addf %{value}, %d{i} : {x}"""
        value = f"y{i}"
    weights = ", ".join(
        f'%w{i}: {tensor(wide, K)} {{te.name = "w{i}", te.weight}}, %v{i}: {tensor(K, wide)} {{te.name = "v{i}", te.weight}}'
        for i in (1, 2)
    )
    return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>, te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = {ranks}>]}} {{
  func.func @layers(%x: {x} {{te.name = "x"{shard}}}, %g: {tensor(K)} {{te.name = "g", te.weight}}, {weights})
      -> ({x} {{te.name = "y"{shard}}}) {{{layers}
    return %y2 : {x}
  }}
}}"""


def launches(text, pipeline):
    """(kernel, whether it is on the side stream) of the launches of the step, in order."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        done = subprocess.run(
            ["te-opt", file.name, f"--te-training-pipeline=vjp=layers compile-to=schedule {pipeline}"],
            capture_output=True,
            text=True,
        )
    if done.returncode:
        sys.exit(done.stderr)
    lines = [line for line in done.stdout.splitlines() if "tert.launch" in line]
    return [(line.split('"')[1], ") side" in line) for line in lines]


def check(recipe, options, override, ranks, sequence, extra=""):
    rng = np.random.default_rng([ranks, sequence])
    whole = {
        "x": (normal(rng, M, K), 0 if sequence else None),
        "g": (normal(rng, K), None),
        "grad.y": (normal(rng, M, K), 0 if sequence else None),
    }
    for i in (1, 2):
        whole |= {f"w{i}": (normal(rng, N, K, scale=0.1), 0), f"v{i}": (normal(rng, K, N, scale=0.1), 1)}
    inputs = [
        {name: array if axis is None else parts(array, ranks, axis)[rank] for name, (array, axis) in whole.items()}
        for rank in range(ranks)
    ]
    text = module(recipe, ranks, sequence)
    pipeline = f"backward-override={override} {options}{extra}"
    claim = f"{recipe} {override}{' sequence' * sequence} over {ranks}{extra}"

    given, planned = (launches(text, f"{pipeline} overlap={mode}") for mode in ("never", "always"))
    expect(not any(side for _, side in given), f"{claim}: nothing is on the side stream with overlap=never")
    expect(
        [side for _, side in planned] == [kernel.startswith(("all_", "reduce_")) for kernel, _ in planned]
        and any(side for _, side in planned),
        f"{claim}: all collectives and nothing else are on the side stream",
    )
    expect(
        sorted(kernel for kernel, _ in given) == sorted(kernel for kernel, _ in planned), f"{claim}: the same launches"
    )
    if sequence:
        expect([kernel for kernel, _ in given] != [kernel for kernel, _ in planned], f"{claim}: launches move")

    plain = run_ranks(text, "layers", inputs, f"{pipeline} overlap=never")
    for graph in [False, True][: 1 + sequence]:
        beside = run_ranks(text, "layers", inputs, f"{pipeline} overlap=always", more=["--graph"] * graph)
        how = f"{claim}{' captured' * graph}"
        for rank in range(ranks):
            expect(
                plain[rank].keys() == beside[rank].keys() and "grad.w1" in plain[rank], f"{how}: results of rank {rank}"
            )
            for name in plain[rank]:
                expect(same_bytes(plain[rank][name], beside[rank][name]), f"{how}: '{name}' of rank {rank}")


for recipe, options, overrides in CASES:
    for ranks in RANKS:
        later(check, recipe, options, overrides[0], ranks, False)
        # Sequences have every kind of collective, and are also captured. More ranks are planned in the same way.
        for override in overrides if BACKEND == "reference" and ranks == 2 else overrides[:1]:
            later(check, recipe, options, override, ranks, True)
        if BACKEND != "reference" or ranks == 2:
            later(check, recipe, options, overrides[0], ranks, True, " remat=everything")
            later(check, recipe, options, overrides[0], ranks, True, " main-grad=true")
perform_all()
finish("overlap")
