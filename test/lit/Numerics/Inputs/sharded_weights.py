"""Weights that are sharded over a group of ranks have the bits of one process that has all of them.

Each rank has tokens of its own and a run of the rows of the weight, which the step gathers (te.all_gather) where a layer reads
it. One process computes the layer of every rank with the whole weight; equal to the last bit are y and dx of each rank and the
bytes and scales of every cast that a product reads. The gradient of a shard is the sum over ranks of the one process's
gradients, in f32 in the order of ranks: rounded once where the weight is bf16, not at all where it is an f32 master.
Uneven shards end within a rank; of empty ones, the last rank has nothing but padding. Flat ones are cut within rows and blocks. Rows differ in size, so that an amax of one
shard does not stand for all.
"""

import numpy as np
from harness import expect, finish, from_bf16, normal, run, same_bytes, to_bf16
from ranks import CASES, add_ranks, later, parts, perform_all, run_ranks, same_sum, single_module, tensor

M, K = 128, 128
DP = '#te.group<id = 0, name = "dp", axis = "dp", size = {0}>'
SPLIT = "te.sharding = [#te.shard<axis = 0, group = 0>]"


def sharded_module(recipe, ranks, rows, shard, master):
    """One rank's layer on `shard` of `rows` rows of the weight."""
    kind = "f32" if master else "bf16"
    rounded = f"%s = arith.truncf %w : {tensor(shard, K, element='f32')} to {tensor(shard, K)}" if master else ""
    return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>, te.groups = [{DP.format(ranks)}]}} {{
  func.func @layer(%x: {tensor(M, K)} {{te.name = "x", {SPLIT}}}, %w: {tensor(shard, K, element=kind)} {{te.name = "w", te.weight, {SPLIT}}})
      -> ({tensor(M, rows)} {{te.name = "y", {SPLIT}}}) {{
    {rounded}
    %all = te.all_gather {'%s' if master else '%w'} group 0 axis 0 : {tensor(shard, K)} -> {tensor(rows, K)}
    %y = te.linear %x, %all : {tensor(M, K)}, {tensor(rows, K)} -> {tensor(M, rows)}
    return %y : {tensor(M, rows)}
  }}
}}"""


def shards_of(whole, ranks, shard):
    """Runs of `shard` rows, zeros behind the end."""
    padded = np.zeros((ranks * shard, *whole.shape[1:]), whole.dtype)
    padded[:len(whole)] = whole
    return parts(padded, ranks, 0)


def check(recipe, options, override, ranks, rows, shard, master=False, more=""):
    rng = np.random.default_rng([ranks, rows, master])
    w = normal(rng, rows, K, scale=0.1)
    if master:  # not on the grid of bf16
        w = (from_bf16(w) * (1 + rng.uniform(-1, 1, w.shape) * 2.0 ** -10)).astype(np.float32)
    x = [normal(rng, M, K) for _ in range(ranks)]
    dy = [normal(rng, M, rows) for _ in range(ranks)]
    pipeline = f"backward-override={override} {options}"
    claim = f"{recipe} {override} {rows} rows in shards of {shard} over {ranks}{' from f32' * master}{more}"

    inputs = [{"x": x[r], "w": own, "grad.y": dy[r]} for r, own in enumerate(shards_of(w, ranks, shard))]
    found = run_ranks(sharded_module(recipe, ranks, rows, shard, master), "layer", inputs, f"{pipeline} expose-casts=true{more}")
    rounded = to_bf16(w) if master else w
    single = single_module(recipe, [((M, K), (rows, K))] * ranks, False)
    given = {}
    for r in range(ranks):
        given |= {f"x{r}": x[r], f"w{r}": rounded, f"grad.y{r}": dy[r]}
    wanted = run(single, "layer", given, f"{pipeline} expose-casts=true", vjp=True)
    if master:
        # Without rounding: as one process adds them up over micro-batches.
        unrounded = run(single, "layer", given, f"{pipeline} main-grad=true", vjp=True)
    summands = [shards_of((unrounded if master else wanted)[f"grad.w{r}"], ranks, shard) for r in range(ranks)]
    for r in range(ranks):
        expect(same_bytes(found[r]["y"], wanted[f"y{r}"]), f"{claim}: 'y' of rank {r}")
        expect(same_bytes(found[r]["grad.x"], wanted[f"grad.x{r}"]), f"{claim}: 'grad.x' of rank {r}")
        expect(same_sum(found[r]["grad.w"], [each[r] for each in summands]), f"{claim}: 'grad.w' of rank {r}")
        names = [name for name in found[r] if name.startswith("cast.")]
        expect(recipe == "high_precision" or len(names) >= 4, f"{claim}: casts of rank {r}")
        for name in names:
            part = name.rsplit(".", 2)
            expect(same_bytes(found[r][name], wanted[f"cast.w{r}.{part[1]}.{part[2]}"]), f"{claim}: '{name}' of rank {r}")
    for name in found[0]:
        if "amax_history" in name:
            most = np.max([wanted[f"w{r}" + name.removeprefix("w")] for r in range(ranks)], axis=0)
            expect(all(same_bytes(found[r][name], most) for r in range(ranks)), f"{claim}: state '{name}' of all ranks")


def check_flat(recipe, options, override, ranks, rows, shard, cols=K, more=""):
    """Masters in one flat run of `shard` elements for each rank, cut within rows and blocks: a part of a block, or nothing.
    TransformerEngine's quantize_master_weights, of one weight."""
    rng = np.random.default_rng([5, shard])
    w = (from_bf16(normal(rng, rows, cols, scale=0.1)) * (1 + rng.uniform(-1, 1, (rows, cols)) * 2.0 ** -10)).astype(np.float32)
    x, dy = ([normal(rng, M, size) for _ in range(ranks)] for size in (cols, rows))
    kind, size = f"tensor<{shard}xf32>", rows * cols
    text = f"""
module attributes {{te.recipe = #te.recipe<{recipe}>, te.groups = [{DP.format(ranks)}]}} {{
  func.func @layer(%x: {tensor(M, cols)} {{te.name = "x", {SPLIT}}}, %w: {kind} {{te.name = "w", te.weight, {SPLIT}}})
      -> ({tensor(M, rows)} {{te.name = "y", {SPLIT}}}) {{
    %s = arith.truncf %w : {kind} to {tensor(shard)}
    %flat = te.all_gather %s group 0 axis 0 : {tensor(shard)} -> {tensor(size)}
    %all = tensor.expand_shape %flat [[0, 1]] output_shape [{rows}, {cols}] : {tensor(size)} into {tensor(rows, cols)}
    %y = te.linear %x, %all : {tensor(M, cols)}, {tensor(rows, cols)} -> {tensor(M, rows)}
    return %y : {tensor(M, rows)}
  }}
}}"""
    pipeline = f"backward-override={override} {options}{more}"
    inputs = [{"x": x[r], "w": own, "grad.y": dy[r]} for r, own in enumerate(shards_of(w.reshape(-1), ranks, shard))]
    found = run_ranks(text, "layer", inputs, f"{pipeline} expose-casts=true")
    single = single_module(recipe, [((M, cols), (rows, cols))] * ranks, False)
    given = {}
    for r in range(ranks):
        given |= {f"x{r}": x[r], f"w{r}": to_bf16(w), f"grad.y{r}": dy[r]}
    wanted = run(single, "layer", given, f"{pipeline} expose-casts=true", vjp=True)
    unrounded = run(single, "layer", given, f"{pipeline} main-grad=true", vjp=True)
    summands = [shards_of(unrounded[f"grad.w{r}"].reshape(-1), ranks, shard) for r in range(ranks)]
    claim = f"{recipe} {override} flat shards of {shard} of {rows}x{cols}{more}"
    for r in range(ranks):
        expect(same_bytes(found[r]["y"], wanted[f"y{r}"]), f"{claim}: 'y' of rank {r}")
        expect(same_bytes(found[r]["grad.x"], wanted[f"grad.x{r}"]), f"{claim}: 'grad.x' of rank {r}")
        expect(same_sum(found[r]["grad.w"], [each[r] for each in summands]), f"{claim}: 'grad.w' of rank {r}")
        names = [name for name in found[r] if name.startswith("cast.")]
        expect(recipe == "high_precision" or len(names) >= 4, f"{claim}: casts of rank {r}")
        for name in names:
            part = name.rsplit(".", 2)
            expect(same_bytes(found[r][name], wanted[f"cast.w{r}.{part[1]}.{part[2]}"]), f"{claim}: '{name}' of rank {r}")


def check_optimizer(recipe, options, ranks, rows, shard, update):
    """A step on f32 masters: the shard moves as its rows of the whole do, and padding stays zeros."""
    rng = np.random.default_rng(11)
    f32 = tensor(shard, K, element="f32")
    w = (from_bf16(normal(rng, rows, K, scale=0.1)) * 1.001).astype(np.float32)
    x = [normal(rng, M, K) for _ in range(ranks)]
    target = [normal(rng, M, rows) for _ in range(ranks)]
    moments = ["m", "v"] if update == "adamw" else ["m"]

    def step(ranks, shard, gather):
        f32 = tensor(shard, K, element="f32")
        split = f", {SPLIT}" if gather else ""
        whole = (f"%a = te.all_gather %s group 0 axis 0 : {tensor(shard, K)} -> {tensor(rows, K)}" if gather else "")
        groups = f", te.groups = [{DP.format(ranks)}]" if gather else ""
        names = "".join(f', %{n}: {f32} {{te.name = "{n}"{split}}}' for n in moments)
        types = "".join(f', {f32} {{te.name = "{n}"{split}}}' for n in moments)
        updated = ("%p, %m1, %v1 = te.adamw %w, %g, %m, %v lr %lr step %one {weight_decay = 0.1 : f32}" if update == "adamw"
                   else "%p, %m1 = te.sgd %w, %g buffer %m lr %lr {momentum = 0.9 : f32}")
        return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>{groups}}} {{
  func.func private @loss(%x: {tensor(M, K)}{f' {{{SPLIT}}}' if gather else ''}, %w: {f32}{f' {{{SPLIT}}}' if gather else ''}, %t: {tensor(M, rows)}{f' {{{SPLIT}}}' if gather else ''}) -> {tensor(M, rows)} {{
    %s = arith.truncf %w : {f32} to {tensor(shard, K)}
    {whole}
    %y = te.linear %x, {'%a' if gather else '%s'} : {tensor(M, K)}, {tensor(rows, K)} -> {tensor(M, rows)}
    %e = arith.subf %y, %t : {tensor(M, rows)}
    return %e : {tensor(M, rows)}
  }}
  func.func @step(%x: {tensor(M, K)} {{te.name = "x"{split}}}, %w: {f32} {{te.name = "w", te.weight{split}}}, %t: {tensor(M, rows)} {{te.name = "t"{split}}}{names})
      -> ({f32} {{te.name = "w"{split}}}, {f32} {{te.name = "g"{split}}}{types}) {{
    %lr = arith.constant dense<0.01> : tensor<f32>
    %one = arith.constant dense<1.0> : tensor<f32>
    %e0 = func.call @loss(%x, %w, %t) : ({tensor(M, K)}, {f32}, {tensor(M, rows)}) -> {tensor(M, rows)}
    %e, %g = te.vjp @loss(%x, %w, %t) cotangents(%e0) wrt [1]
      : ({tensor(M, K)}, {f32}, {tensor(M, rows)}), ({tensor(M, rows)}) -> ({tensor(M, rows)}, {f32})
    {updated} : {f32}, {f32}
    return %p, %g, {', '.join(f'%{n}1' for n in moments)} : {f32}, {f32}{f', {f32}' * len(moments)}
  }}
}}"""

    zeros = {n: np.zeros((rows, K), np.float32) for n in moments}
    inputs = [{"x": x[r], "w": own, "t": target[r]} | {n: shards_of(zeros[n], ranks, shard)[r] for n in moments}
              for r, own in enumerate(shards_of(w, ranks, shard))]
    found = run_ranks(step(ranks, shard, True), "step", inputs, options, vjp=False)
    claim = f"{recipe} {update}, {rows} rows in shards of {shard} over {ranks}"
    gradient = np.concatenate([found[r]["g"] for r in range(ranks)])
    expect(np.any(gradient[:rows] != 0) and not np.any(gradient[rows:]), f"{claim}: no gradient of padding")
    # The whole weight, moved by the same gradient.
    updated = ("%p, %m1, %v1 = te.adamw %w, %g, %m, %v lr %lr step %one {weight_decay = 0.1 : f32}" if update == "adamw"
               else "%p, %m1 = te.sgd %w, %g buffer %m lr %lr {momentum = 0.9 : f32}")
    whole = tensor(rows, K, element="f32")
    text = f"""
module {{
  func.func @update(%w: {whole} {{te.name = "w"}}, %g: {whole} {{te.name = "g"}}{''.join(f', %{n}: {whole} {{te.name = "{n}"}}' for n in moments)})
      -> ({whole} {{te.name = "w"}}{''.join(f', {whole} {{te.name = "{n}"}}' for n in moments)}) {{
    %lr = arith.constant dense<0.01> : tensor<f32>
    %one = arith.constant dense<1.0> : tensor<f32>
    {updated} : {whole}, {whole}
    return %p, {', '.join(f'%{n}1' for n in moments)} : {whole}{f', {whole}' * len(moments)}
  }}
}}"""
    wanted = run(text, "update", {"w": w, "g": gradient[:rows]} | zeros)
    for name in ["w", *moments]:
        for r, own in enumerate(shards_of(wanted[name], ranks, shard)):
            expect(same_bytes(found[r][name], own), f"{claim}: '{name}' of rank {r}")


def sharded_within_tensor_parallel(recipe, options):
    """A 2 x 2 mesh: rows of a column-parallel weight over tp, and those again over dp. An amax is of one tp part, over dp."""
    rng = np.random.default_rng(3)
    rows = 128
    split = "[#te.shard<axis = 0, group = 0>, #te.shard<axis = 0, group = 1>]"
    text = f"""
module attributes {{te.recipe = #te.recipe<{recipe}>, te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>,
                                                                   #te.group<id = 1, name = "dp", axis = "dp", size = 2>]}} {{
  func.func @layer(%x: {tensor(M, K)} {{te.name = "x", te.sharding = [#te.shard<axis = 0, group = 1>]}},
                   %w: {tensor(rows // 2, K)} {{te.name = "w", te.weight, te.sharding = {split}}})
      -> ({tensor(M, rows)} {{te.name = "y"}}) {{
    %all = te.all_gather %w group 1 axis 0 : {tensor(rows // 2, K)} -> {tensor(rows, K)}
    %y = te.linear %x, %all parallel <column, group = 0> : {tensor(M, K)}, {tensor(rows, K)} -> {tensor(M, rows)}
    return %y : {tensor(M, rows)}
  }}
}}"""
    x, dy = ([normal(rng, M, size) for _ in range(2)] for size in (K, 2 * rows))  # by dp
    w = normal(rng, 2 * rows, K, scale=0.1)
    w[rows:] = to_bf16(from_bf16(w[rows:]) * 16)
    inputs = [{"x": x[dp], "w": parts(w, 4, 0)[2 * tp + dp], "grad.y": parts(dy[dp], 2, 1)[tp]} for tp in range(2) for dp in range(2)]
    found = run_ranks(text, "layer", inputs, options)
    single = single_module(recipe, [((M, K), (rows, K))] * 4, False)
    given = {}
    for r in range(4):
        given |= {f"x{r}": x[r % 2], f"w{r}": parts(w, 2, 0)[r // 2], f"grad.y{r}": inputs[r]["grad.y"]}
    wanted = run(single, "layer", given, options, vjp=True)
    for r in range(4):
        claim = f"{recipe} tp x dp, rank {r}"
        expect(same_bytes(found[r]["y"], wanted[f"y{r}"]), f"{claim}: y")
        dx = add_ranks([wanted[f"grad.x{tp * 2 + r % 2}"] for tp in range(2)])
        expect(same_bytes(found[r]["grad.x"], dx), f"{claim}: grad.x")
        dw = add_ranks([wanted[f"grad.w{r // 2 * 2 + dp}"] for dp in range(2)])
        expect(same_bytes(found[r]["grad.w"], parts(dw, 2, 0)[r % 2]), f"{claim}: grad.w")


for recipe, options, overrides in CASES:
    block = {"float8_block_scaling": 128, "mxfp8_block_scaling": 32}.get(recipe, 16)
    for override in overrides:
        later(check, recipe, options, override, 2, 2 * 128, 128)
    # Ends in the third of four shards, the fourth is empty.
    uneven = (2 * 128 + 128, 128) if block == 128 else (2 * 64 + 32, 64)
    later(check, recipe, options, "none", 4, *uneven)
    later(check, recipe, options, overrides[-1], 4, *uneven, master=True)
    later(check, recipe, options, "none", 2, *uneven[:1], uneven[1] * 2, more=" remat=everything")
    if recipe.startswith(("float8_current", "nvfp4", "mxfp8", "high")):
        later(sharded_within_tensor_parallel, recipe, options)
    later(check_optimizer, recipe, options, 4, *uneven, "adamw")
    later(check_flat, recipe, options, "none", 4, uneven[0], uneven[0] * K // 4 + 77)
    later(check_flat, recipe, options, overrides[-1], 4, uneven[0], uneven[0] * K // 3 + 5)
    # Blocks that are cut at the end of rows, too; and all that the backward reads is made again.
    later(check_flat, recipe, options, "none", 2, 160, 160 * 288 // 2 + 41, cols=288)
    later(check_flat, recipe, options, "none", 2, 160, 160 * K // 2 + 3, more=" remat=everything")
later(check_optimizer, *CASES[0][:2], 2, 160, 96, "sgd")
perform_all()
finish("sharded-weights")
