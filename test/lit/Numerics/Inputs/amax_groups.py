"""Each call of a layer has its own amax group: the three cases of TransformerEngine's pull request 3104 and its review.

  two groups, one layer   a second call of a layer with another group does not change the backward of the first call
  recompute               casts that the backward repeats have the scale of the forward, from its group
  empty shard             a rank without rows takes part in the reduction; otherwise, the other ranks would wait forever

Each case also runs without a group: then the claims must fail, or the compiler must reject the step. To test the latter, each
te.amax_reduce of a compiled step is removed in turn.
"""

import re
import subprocess

import numpy as np
from harness import FOLDER, compile_to, expect, finish, from_bf16, normal, run, same_bytes, to_bf16
from ranks import CASES, add_ranks, later, parts, perform_all, run_ranks, single_module, tensor

M, N, K = 256, 128, 128


def two_groups_one_layer(recipe, options, groups=(0, 1)):
    """One weight with two groups of a 2 x 2 mesh. Each call gathers and reduces amaxes over its own group, in forward and backward.
    Yields the claims of both calls; with `groups` other than (0, 1), a call has the wrong group."""
    rng = np.random.default_rng(7)
    rows = M // 2
    w = normal(rng, N, K, scale=0.1)
    x = [
        [normal(rng, M, K) for _ in range(2)] for _ in range(2)
    ]  # The inputs of each call, for the other coordinate of the rank.
    dy = normal(rng, M, N)
    layer = "".join(
        f"""
    %y{i} = te.linear %x{i}, %w parallel <column, group = {groups[i]}, sequence> : {tensor(rows, K)}, {tensor(N, K)} -> {tensor(M, N)}"""
        for i in range(2)
    )
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
            inputs.append(
                {"x0": parts(x[0][b], 2, 0)[a], "x1": parts(x[1][a], 2, 0)[b], "w": w, "grad.y0": dy, "grad.y1": dy}
            )
    found = run_ranks(text, "layer", inputs, options)
    single = single_module(recipe, [((M, K), (N, K))] * 2, False)
    for a in range(2):
        for b in range(2):
            wanted = run(
                single,
                "layer",
                {"x0": x[0][b], "x1": x[1][a], "w0": w, "w1": w, "grad.y0": dy, "grad.y1": dy},
                options,
                vjp=True,
            )
            rank = found[2 * a + b]
            claim = f"two groups, {recipe}, rank {2 * a + b}"
            yield f"{claim}: y", same_bytes(rank["y0"], wanted["y0"]) and same_bytes(rank["y1"], wanted["y1"])
            dw = to_bf16(from_bf16(wanted["grad.w0"]) + from_bf16(wanted["grad.w1"]))
            yield f"{claim}: grad.w", same_bytes(rank["grad.w"], dw)
            # Both ranks of the group have this dx.
            for i, number in ((0, a), (1, b)):
                dx = parts(add_ranks([wanted[f"grad.x{i}"]] * 2), 2, 0)[number]
                yield f"{claim}: grad.x{i}", same_bytes(rank[f"grad.x{i}"], dx)


def empty_shard(reduction="te.amax_reduce %own group 0"):
    """A rank without rows takes part in the reduction of an amax."""
    values = normal(np.random.default_rng(5), 33, K)
    inputs = [{"x": values}, {"x": values[:0]}]
    modules = [
        f"""
module attributes {{te.groups = [#te.group<id = 0, name = "ep", axis = "ep", size = 2>]}} {{
  func.func @step(%x: {tensor(*given["x"].shape)} {{te.name = "x"}}) -> (tensor<f32> {{te.name = "amax"}}) {{
    %own = te.amax %x : {tensor(*given["x"].shape)}
    %all = {reduction}
    return %all : tensor<f32>
  }}
}}"""
        for given in inputs
    ]
    for rank, result in enumerate(run_ranks(modules, "step", inputs, "", vjp=False)):
        yield f"empty shard: amax of rank {rank}", result["amax"] == np.abs(from_bf16(values)).max()


def holds(case):
    for claim, is_true in case:
        expect(is_true, claim)


def fails(case, what):
    """Checks that some claim of `case` fails."""
    expect(not all(is_true for _, is_true in case), f"{what} is seen")


def each_reduction_is_needed(recipe, options):
    """Checks that a step without one of its reductions does not verify."""
    module = FOLDER / f"layers.{recipe.partition(',')[0]}.{'remat' in options}.mlir"
    module.write_text(f"""
module attributes {{te.recipe = #te.recipe<{recipe}>, te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>,
                                                                   #te.group<id = 1, name = "dp", axis = "dp", size = 2>]}} {{
  func.func @layers(%x: {tensor(M // 2, K)} {{te.name = "x"}}, %v: {tensor(N, K)} {{te.name = "v", te.weight}},
                    %w: {tensor(K // 2, N)} {{te.name = "w", te.weight, te.sharding = [#te.shard<axis = 0, group = 1>]}}) -> {tensor(M // 2, K)} {{
    %h = te.linear %x, %v parallel <column, group = 0, sequence> : {tensor(M // 2, K)}, {tensor(N, K)} -> {tensor(M, N)}
    %all = te.all_gather %w group 1 axis 0 : {tensor(K // 2, N)} -> {tensor(K, N)}
    %y = te.linear %h, %all parallel <row, group = 0, sequence> : {tensor(M, N)}, {tensor(K, N)} -> {tensor(M // 2, K)}
    return %y : {tensor(M // 2, K)}
  }}
}}""")
    text = compile_to(module, "quantize", f"vjp=layers {options}")
    reductions = list(re.finditer(r"(%\w+) = te.amax_reduce (%\S+) group \d+.*\n", text))
    # The reductions are those of x, of dy and of the sharded weight, in one usage or two.
    expect(len(reductions) >= 3, f"{recipe} {options}: three reductions or more, but {len(reductions)}")
    for found in reductions:
        without = text[: found.start()] + re.sub(found[1] + r"\b", found[2], text[found.end() :])
        done = subprocess.run(
            ["te-opt", "--te-verify-collectives", "-o", "/dev/null"], input=without, capture_output=True, text=True
        )
        expect(
            done.returncode == 1 and "from an amax that is not reduced over the group" in done.stderr,
            f"{recipe} {options}: an error without {found[0].strip()}",
        )


for recipe, options, _ in CASES:
    if recipe.startswith(("float8_current", "nvfp4")):
        later(holds, two_groups_one_layer(recipe, options))
        later(holds, two_groups_one_layer(recipe, f"{options} remat=everything"))
        later(fails, two_groups_one_layer(recipe, options, groups=(0, 0)), f"{recipe}: the second call's group dropped")
        later(
            fails,
            two_groups_one_layer(recipe, f"{options} remat=everything", groups=(1, 1)),
            f"{recipe}: the first call's group dropped",
        )
        later(each_reduction_is_needed, recipe, options)
        later(each_reduction_is_needed, recipe, f"{options} remat=everything")
later(holds, empty_shard())
later(fails, empty_shard("te.amax %own : tensor<f32>"), "empty shard: the reduction dropped")
perform_all()
finish("amax-groups")
