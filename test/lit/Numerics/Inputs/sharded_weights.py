"""Weights that are sharded over a group of ranks have the bits of one process that has all of them.

Each rank has its own tokens and some rows of the weight, which the step gathers (te.all_gather) for each layer. A single process
computes the layer of every rank with the whole weight. y and dx of each rank, and the bytes and scales of every cast that a GEMM
reads, have the same bits. The gradient of a shard is the sum over ranks of the single process's gradients, in f32 in the order of
ranks. It is rounded once if the weight is bf16, and not at all if it is an f32 master weight. With uneven shards, the rows end
within a shard; with empty ones, the last rank has only padding. Rows have different magnitudes, so that the amax of one shard is
not that of the weight. Flat shards are cut within rows and blocks, as by TransformerEngine's quantize_master_weights.

All recipes with the same pipeline options are layers of one program, because starting a process on a GPU takes seconds.
"""

import numpy as np
from harness import expect, finish, from_bf16, normal, run, same_bytes, to_bf16
from ranks import CASES, RANKS, add_ranks, later, parts, perform_all, run_ranks, same_sum, single_module, tensor

M, K = 128, 128
DP = '#te.group<id = 0, name = "dp", axis = "dp", size = {0}>'
SPLIT = "te.sharding = [#te.shard<axis = 0, group = 0>]"


def shards_of(whole, ranks, shard):
    """Shards of `shard` rows, with zeros after the end."""
    padded = np.zeros((ranks * shard, *whole.shape[1:]), whole.dtype)
    padded[: len(whole)] = whole
    return parts(padded, ranks, 0)


class Layer:
    """A layer with a shard of `shard` rows of the weight's `rows` or, if `flat`, of `shard` elements."""

    def __init__(self, recipe, override, ranks, rows, shard, master=False, flat=False, cols=K):
        self.recipe, self.ranks, self.rows, self.shard, self.cols = recipe, ranks, rows, shard, cols
        self.master, self.flat = master or flat, flat
        name, _, given = recipe.partition(", ")
        given = [given.strip("{}")] * bool(given) + [f"backward_override = {override}"] * (override != "none")
        self.attribute = f"te.recipe = #te.recipe<{name}{', {' + ', '.join(given) + '}' if given else ''}>"
        self.claim = (
            f"{recipe} {override} {rows}x{cols} in {'flat ' * flat}shards of {shard} over {ranks}{' from f32' * master}"
        )
        rng = np.random.default_rng([ranks, rows, cols, self.master, flat])
        w = normal(rng, rows, cols, scale=0.1)
        if self.master:  # values that bf16 cannot represent
            w = (from_bf16(w) * (1 + rng.uniform(-1, 1, w.shape) * 2.0**-10)).astype(np.float32)
        self.w = w
        self.x = [normal(rng, M, cols) for _ in range(ranks)]
        self.dy = [normal(rng, M, rows) for _ in range(ranks)]

    def shards(self, whole):
        return shards_of(whole.reshape(-1) if self.flat else whole, self.ranks, self.shard)

    def of_rank(self, i):
        """The arguments, the body and the results of one rank's program, as layer `i`."""
        kind, whole = "f32" if self.master else "bf16", tensor(self.rows, self.cols)
        part = (
            (lambda element: f"tensor<{self.shard}x{element}>")
            if self.flat
            else lambda element: tensor(self.shard, self.cols, element=element)
        )
        run = f"tensor<{self.rows * self.cols}xbf16>" if self.flat else whole
        body = f"    %s{i} = arith.truncf %w{i} : {part('f32')} to {part('bf16')}\n" * self.master
        body += (
            f"    %a{i} = te.all_gather %{'s' if self.master else 'w'}{i} group 0 axis 0 : {part('bf16')} -> {run}\n"
        )
        if self.flat:
            body += f"    %v{i} = tensor.expand_shape %a{i} [[0, 1]] output_shape [{self.rows}, {self.cols}] : {run} into {whole}\n"
        x, y = tensor(M, self.cols), tensor(M, self.rows)
        body += (
            f"    %y{i} = te.linear %x{i}, %{'v' if self.flat else 'a'}{i} {{{self.attribute}}} : {x}, {whole} -> {y}\n"
        )
        arguments = (
            f'%x{i}: {x} {{te.name = "x{i}", {SPLIT}}}, %w{i}: {part(kind)} {{te.name = "w{i}", te.weight, {SPLIT}}}'
        )
        return arguments, body, f'{y} {{te.name = "y{i}", {SPLIT}}}', y

    def alone(self, i):
        """The same for a single process, which has the layers of all ranks."""
        arguments, body, results, types = [], "", [], []
        x, w, y = tensor(M, self.cols), tensor(self.rows, self.cols), tensor(M, self.rows)
        for r in range(self.ranks):
            arguments.append(
                f'%x{i}_{r}: {x} {{te.name = "x{i}_{r}"}}, %w{i}_{r}: {w} {{te.name = "w{i}_{r}", te.weight}}'
            )
            body += f"    %y{i}_{r} = te.linear %x{i}_{r}, %w{i}_{r} {{{self.attribute}}} : {x}, {w} -> {y}\n"
            results.append(f'{y} {{te.name = "y{i}_{r}"}}')
            types.append(y)
        return ", ".join(arguments), body, ", ".join(results), ", ".join(types)


def program(parts, values, groups):
    """A function of layers, each with its own recipe."""
    arguments, bodies, results, types = zip(*parts)
    return f"""
module{groups} {{
  func.func @layer({", ".join(arguments)}) -> ({", ".join(results)}) {{
{"".join(bodies)}    return {", ".join(values)} : {", ".join(types)}
  }}
}}"""


def check(layers, options, more=""):
    """Tests all `layers`, which have the same number of ranks, in one program, so that processes start once."""
    ranks = layers[0].ranks
    numbered = list(enumerate(layers))
    text = program(
        [layer.of_rank(i) for i, layer in numbered],
        [f"%y{i}" for i, _ in numbered],
        f" attributes {{te.groups = [{DP.format(ranks)}]}}",
    )
    inputs = [{} for _ in range(ranks)]
    given = {}
    for i, layer in numbered:
        rounded = to_bf16(layer.w) if layer.master else layer.w
        for r, own in enumerate(layer.shards(layer.w)):
            inputs[r] |= {f"x{i}": layer.x[r], f"w{i}": own, f"grad.y{i}": layer.dy[r]}
            given |= {f"x{i}_{r}": layer.x[r], f"w{i}_{r}": rounded, f"grad.y{i}_{r}": layer.dy[r]}
    found = run_ranks(text, "layer", inputs, f"{options} expose-casts=true{more}")

    def alone(some, pipeline):
        own = tuple(f"{name}{i}_" for i, _ in some for name in "xw") + tuple(f"grad.y{i}_" for i, _ in some)
        text = program([layer.alone(i) for i, layer in some], [f"%y{i}_{r}" for i, _ in some for r in range(ranks)], "")
        return run(
            text, "layer", {name: array for name, array in given.items() if name.startswith(own)}, pipeline, vjp=True
        )

    wanted = alone(numbered, f"{options} expose-casts=true")
    # For master weights without rounding, as one process accumulates over micro-batches.
    masters = [(i, layer) for i, layer in numbered if layer.master]
    unrounded = alone(masters, f"{options} main-grad=true") if masters else {}
    for i, layer in numbered:
        claim = layer.claim + more
        summands = [layer.shards((unrounded if layer.master else wanted)[f"grad.w{i}_{r}"]) for r in range(ranks)]
        for r in range(ranks):
            expect(same_bytes(found[r][f"y{i}"], wanted[f"y{i}_{r}"]), f"{claim}: 'y' of rank {r}")
            expect(same_bytes(found[r][f"grad.x{i}"], wanted[f"grad.x{i}_{r}"]), f"{claim}: 'grad.x' of rank {r}")
            expect(same_sum(found[r][f"grad.w{i}"], [each[r] for each in summands]), f"{claim}: 'grad.w' of rank {r}")
            names = [name for name in found[r] if name.startswith(f"cast.w{i}.")]
            expect(layer.recipe == "high_precision" or len(names) >= 4, f"{claim}: casts of rank {r}")
            for name in names:
                rest = name.removeprefix(f"cast.w{i}.")
                expect(same_bytes(found[r][name], wanted[f"cast.w{i}_{r}.{rest}"]), f"{claim}: '{name}' of rank {r}")
        for name in found[0]:
            if name.startswith(f"w{i}.") and "amax_history" in name:
                most = np.max([wanted[f"w{i}_{r}" + name.removeprefix(f"w{i}")] for r in range(ranks)], axis=0)
                expect(
                    all(same_bytes(found[r][name], most) for r in range(ranks)), f"{claim}: state '{name}' of all ranks"
                )


def check_kept(layers, options):
    """If the flag of micro-batches is set, the cast of a shard does not change, even if the master weight does."""
    ranks = layers[0].ranks
    text = program(
        [layer.of_rank(i) for i, layer in enumerate(layers)],
        [f"%y{i}" for i in range(len(layers))],
        f" attributes {{te.groups = [{DP.format(ranks)}]}}",
    )
    flag = "skip_weight_update"

    def step(skip, factor, kept):
        inputs = [{flag: np.float32(skip)} | kept[r] for r in range(ranks)]
        for i, layer in enumerate(layers):
            for r, own in enumerate(layer.shards(layer.w)):
                inputs[r] |= {
                    f"x{i}": layer.x[r],
                    f"w{i}": (own * np.float32(factor)).astype(np.float32),
                    f"grad.y{i}": layer.dy[r],
                }
        return run_ranks(text, "layer", inputs, f"{options} cache-weights=true")

    def kept(found):
        return [{name: array for name, array in each.items() if ".row." in name or ".col." in name} for each in found]

    first = step(0, 1, [{}] * ranks)
    second = step(1, 3, kept(first))
    third = step(0, 3, kept(first))
    for i, layer in enumerate(layers):
        for r in range(ranks):
            claim = f"{layer.claim}, rank {r}"
            columns = [f"w{i}.col.data", f"w{i}.col.scale"] if layer.recipe.startswith("mx") else []
            for name in (f"y{i}", f"grad.x{i}", f"w{i}.row.data", f"w{i}.row.scale", *columns):
                expect(same_bytes(second[r][name], first[r][name]), f"{claim}: '{name}' is kept")
            expect(not same_bytes(third[r][f"y{i}"], first[r][f"y{i}"]), f"{claim}: a cast without the flag is new")


def check_optimizer(recipe, options, ranks, rows, shard, update):
    """A step on f32 master weights updates the shard like its rows of the whole weight; padding stays zero."""
    rng = np.random.default_rng(11)
    w = (from_bf16(normal(rng, rows, K, scale=0.1)) * 1.001).astype(np.float32)
    x = [normal(rng, M, K) for _ in range(ranks)]
    target = [normal(rng, M, rows) for _ in range(ranks)]
    moments = ["m", "v"] if update == "adamw" else ["m"]

    def step(ranks, shard, gather):
        f32 = tensor(shard, K, element="f32")
        split = f", {SPLIT}" if gather else ""
        whole = f"%a = te.all_gather %s group 0 axis 0 : {tensor(shard, K)} -> {tensor(rows, K)}" if gather else ""
        groups = f", te.groups = [{DP.format(ranks)}]" if gather else ""
        names = "".join(f', %{n}: {f32} {{te.name = "{n}"{split}}}' for n in moments)
        types = "".join(f', {f32} {{te.name = "{n}"{split}}}' for n in moments)
        updated = (
            "%p, %m1, %v1 = te.adamw %w, %g, %m, %v lr %lr step %one {weight_decay = 0.1 : f32}"
            if update == "adamw"
            else "%p, %m1 = te.sgd %w, %g buffer %m lr %lr {momentum = 0.9 : f32}"
        )
        return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>{groups}}} {{
  func.func private @loss(%x: {tensor(M, K)}{f" {{{SPLIT}}}" if gather else ""}, %w: {f32}{f" {{{SPLIT}}}" if gather else ""}, %t: {tensor(M, rows)}{f" {{{SPLIT}}}" if gather else ""}) -> {tensor(M, rows)} {{
    %s = arith.truncf %w : {f32} to {tensor(shard, K)}
    {whole}
    %y = te.linear %x, {"%a" if gather else "%s"} : {tensor(M, K)}, {tensor(rows, K)} -> {tensor(M, rows)}
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
    return %p, %g, {", ".join(f"%{n}1" for n in moments)} : {f32}, {f32}{f", {f32}" * len(moments)}
  }}
}}"""

    zeros = {n: np.zeros((rows, K), np.float32) for n in moments}
    inputs = [
        {"x": x[r], "w": own, "t": target[r]} | {n: shards_of(zeros[n], ranks, shard)[r] for n in moments}
        for r, own in enumerate(shards_of(w, ranks, shard))
    ]
    found = run_ranks(step(ranks, shard, True), "step", inputs, options, vjp=False)
    claim = f"{recipe} {update}, {rows} rows in shards of {shard} over {ranks}"
    gradient = np.concatenate([found[r]["g"] for r in range(ranks)])
    expect(np.any(gradient[:rows] != 0) and not np.any(gradient[rows:]), f"{claim}: no gradient of padding")
    # The whole weight, updated with the same gradient.
    updated = (
        "%p, %m1, %v1 = te.adamw %w, %g, %m, %v lr %lr step %one {weight_decay = 0.1 : f32}"
        if update == "adamw"
        else "%p, %m1 = te.sgd %w, %g buffer %m lr %lr {momentum = 0.9 : f32}"
    )
    whole = tensor(rows, K, element="f32")
    text = f"""
module {{
  func.func @update(%w: {whole} {{te.name = "w"}}, %g: {whole} {{te.name = "g"}}{"".join(f', %{n}: {whole} {{te.name = "{n}"}}' for n in moments)})
      -> ({whole} {{te.name = "w"}}{"".join(f', {whole} {{te.name = "{n}"}}' for n in moments)}) {{
    %lr = arith.constant dense<0.01> : tensor<f32>
    %one = arith.constant dense<1.0> : tensor<f32>
    {updated} : {whole}, {whole}
    return %p, {", ".join(f"%{n}1" for n in moments)} : {whole}{f", {whole}" * len(moments)}
  }}
}}"""
    wanted = run(text, "update", {"w": w, "g": gradient[:rows]} | zeros)
    for name in ["w", *moments]:
        for r, own in enumerate(shards_of(wanted[name], ranks, shard)):
            expect(same_bytes(found[r][name], own), f"{claim}: '{name}' of rank {r}")


def sharded_within_tensor_parallel(recipe, options):
    """A 2 x 2 mesh: rows of a column-parallel weight over tp, and those over dp.

    The amax of a tp part is reduced over dp.
    """
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
    inputs = [
        {"x": x[dp], "w": parts(w, 4, 0)[2 * tp + dp], "grad.y": parts(dy[dp], 2, 1)[tp]}
        for tp in range(2)
        for dp in range(2)
    ]
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


MOST = max(RANKS)
layers = {}  # layers of one program, by pipeline options and number of ranks
for recipe, options, overrides in CASES:
    block = {"float8_block_scaling": 128, "mxfp8_block_scaling": 32}.get(recipe, 16)

    def add(override, ranks, *arguments, more="", options=options, recipe=recipe, **named):
        layers.setdefault((options, more, ranks), []).append(Layer(recipe, override, ranks, *arguments, **named))

    for override in overrides:
        add(override, 2, 2 * 128, 128)
    # With four ranks, the rows end in the third shard, and the fourth is empty.
    rows, shard = (2 * 128 + 128, 128) if block == 128 else (2 * 64 + 32, 64)
    shard *= 1 if MOST >= 4 else 2
    ranks = min(MOST, 4)
    add("none", ranks, rows, shard)
    add(overrides[-1], ranks, rows, shard, master=True)
    add("none", 2, rows, rows // 2 // block * block + block, more=" remat=everything")
    # The shards are cut within rows and blocks. The last rank has no elements, or few; blocks at the end of rows are
    # cut, too. In FP4, a byte has two elements, so an odd number of elements is gathered in bf16.
    even = int(recipe.startswith("nvfp4"))
    add("none", ranks, rows, rows * K // ranks + 77 + even, flat=True)
    add(overrides[-1], ranks, rows, rows * K // (ranks - 1) + (5 + even if ranks > 2 else 0), flat=True)
    add("none", 2, 160, 160 * 288 // 2 + 41 + even, cols=288, flat=True)
    add("none", 2, 160, 160 * K // 2 + 3 + even, more=" remat=everything", flat=True)
    if even:
        add("none", 2, 160, 160 * K // 2 + 3, flat=True)
        one = recipe.replace("{", "{w_2d = false, ")
        add("none", ranks, rows, rows * K // ranks + 78, flat=True, recipe=one)
        add("dequantized", 2, 160, 160 * 288 // 2 + 42, cols=288, flat=True, recipe=one)
        add("none", 2, 160, 160 * K // 2 + 4, more=" remat=everything", flat=True, recipe=one)
    if recipe.startswith(("float8_current", "nvfp4", "mxfp8", "high")) and MOST >= 4:
        later(sharded_within_tensor_parallel, recipe, options)
    later(check_optimizer, recipe, options, ranks, rows, shard, "adamw")
# MX blocks for weights that are square.
for name, options, _ in CASES:
    if name == "mxfp8_block_scaling":
        square = f"{name}, {{w_2d = true}}"
        ranks = min(MOST, 4)
        layers.setdefault((options, "", ranks), []).append(
            Layer(square, "none", ranks, 160, 160 * K // ranks + 77, flat=True)
        )
        layers.setdefault((options, "", 2), []).append(
            Layer(square, "dequantized", 2, 160, 160 * 288 // 2 + 41, cols=288, flat=True)
        )
for (options, more, _), some in layers.items():
    later(check, tuple(some), options, more)
kept = {}  # by pipeline options
for recipe, options, _ in CASES:
    if recipe != "high_precision":
        kept.setdefault(options, []).append(
            Layer(recipe, "none", 2, 160, 160 * K // 2 + 3 + recipe.startswith("nvfp4"), flat=True)
        )
for options, some in kept.items():
    later(check_kept, tuple(some), options)
later(check_optimizer, *CASES[0][:2], 2, 160, 96, "sgd")
perform_all()
finish("sharded-weights")
