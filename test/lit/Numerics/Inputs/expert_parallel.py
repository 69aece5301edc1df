"""Experts on several processes have the bits of one process with all tokens and all experts.

Every rank has its own tokens and experts. It routes its tokens, groups rows by expert (te.permute, padded to the capacity), and
exchanges them (te.all_to_all). An expert then has the rows of rank 0, those of rank 1, and so on, each in the order of the
tokens, with `capacity` rows per rank. The results are exchanged back and summed by token. The gradient of an exchange is the
opposite exchange.

The single process has the same rows at the same positions: group e * ranks + r of its te.permute has expert e's rows of rank r's
tokens, so that `ranks` groups belong to an expert. Sums over rows (gradients of weights, amaxes, blocks) are therefore over the
same rows in the same order, under every recipe. The single process runs the router for each rank, because its gradient is the sum
over ranks, in f32 in their order. Capacities that drop rows, and experts without tokens, are tested, too.

If the backward reads only row-wise casts of the first exchange's rows, and the sizes of groups are constants, casts are
exchanged. The bytes of every launch are counted: those of casts in this case, and those of bf16 otherwise. The casts that the
experts read are compared with those of the single process, too.
"""

import re

import numpy as np
from harness import BACKEND, FOLDER, compile_to, expect, finish, from_bf16, normal, run, same_bytes, to_bf16
from ranks import CASES, NAMED, RANKS, later, parts, perform_all, run_ranks, same_sum, tensor

T, H, F, K = 96, 64, 64, 2  # tokens of a rank, columns, columns in an expert, experts of a token
EP = '#te.group<id = 0, name = "ep", axis = "ep", size = {0}>'
#: Further recipes whose casts are exchanged: the bytes of a row of H elements, and the overrides.
BLOCKS = "float8_block_scaling"
COLUMNS_OF_ROWS = (
    f"custom, {{fprop = #te.recipe<{BLOCKS}>, dgrad = #te.recipe<{BLOCKS}>, wgrad = #te.recipe<{BLOCKS}>, "
    "x_col_source = rowwise_dequantized, grad_col_source = rowwise_dequantized}"
)
ROW_SCALED = "nvfp4_block_scaling, {hadamard = false, row_scaled_activation = true, stochastic_rounding = false}"
BYTES_OF_ROW = {BLOCKS: H + 4, "mxfp8_block_scaling": H + 4, ROW_SCALED: H // 2 + 4 + 4, COLUMNS_OF_ROWS: H + 4}
SPLIT = "te.sharding = [#te.shard<axis = 0, group = 0>]"


def experts_on(rows, experts, done, written):
    """Two layers for each expert on `rows` rows, from %mine to `done`.

    The sizes of groups are constants or arguments.
    """
    sizes = tensor(experts, element="i32")
    return (
        (f"\n    %sizes = arith.constant dense<{rows // experts}> : {sizes}" if written else "")
        + f"""
    %gated = te.grouped_linear %mine, %up, %sizes {{alignment = {rows // experts} : i64}}
      : {tensor(rows, H)}, {tensor(experts, 2 * F, H)}, {sizes} -> {tensor(rows, 2 * F)}
    %hidden = te.activation <swiglu> %gated : {tensor(rows, 2 * F)} -> {tensor(rows, F)}
    {done} = te.grouped_linear %hidden, %down, %sizes {{alignment = {rows // experts} : i64}}
      : {tensor(rows, F)}, {tensor(experts, H, F)}, {sizes} -> {tensor(rows, H)}"""
    )


def router(experts):
    logits, ids, probs = tensor(T, experts), tensor(T, K, element="i32"), tensor(T, K, element="f32")
    return f"""
    %logits = te.linear %x, %router {{te.recipe = #te.recipe<high_precision>}} : {tensor(T, H)}, {tensor(experts, H)} -> {logits}
    %ids, %probs, %scores = te.router_topk %logits {{normalize}} : {logits} -> {ids}, {probs}, {tensor(T, experts, element="f32")}"""


def permute(tokens, groups, capacity, rows):
    count = groups * capacity
    return f"""
    {rows}, %taken, %row_of, %entry_of, %dropped = te.permute %x, %ids {{alignment = {capacity} : i64, capacity = {capacity} : i64, padded}}
      : {tensor(tokens, H)}, {tensor(tokens, K, element="i32")}
      -> {tensor(count, H)}, {tensor(groups, element="i32")}, {tensor(tokens * K, element="i32")}, {tensor(count, element="i32")}"""


def unpermute(tokens, rows):
    return f"""
    %y = te.unpermute %back, %row_of, %entry_of probs %probs : {tensor(tokens, K, element="f32")}
      : {tensor(rows, H)}, {tensor(tokens * K, element="i32")}, {tensor(rows, element="i32")} -> {tensor(tokens, H)}
    return %y : {tensor(tokens, H)}"""


def argument_of_sizes(experts, written):
    return "" if written else f', %sizes: {tensor(experts, element="i32")} {{te.name = "sizes"}}'


def parallel_module(recipe, ranks, experts, capacity, written):
    """The program of one rank, with its tokens and experts."""
    own, rows = experts // ranks, experts * capacity
    flat, sent, received = tensor(rows, H), tensor(experts, capacity, H), tensor(own, ranks * capacity, H)
    return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>, te.groups = [{EP.format(ranks)}]}} {{
  func.func @moe(%x: {tensor(T, H)} {{te.name = "x", {SPLIT}}}, %router: {tensor(experts, H)} {{te.name = "router", te.weight}},
                 %up: {tensor(own, 2 * F, H)} {{te.name = "up", te.weight, {SPLIT}}},
                 %down: {tensor(own, H, F)} {{te.name = "down", te.weight, {SPLIT}}}{argument_of_sizes(own, written)})
      -> ({tensor(T, H)} {{te.name = "y", {SPLIT}}}) {{{router(experts)}
    {permute(T, experts, capacity, "%rows")}
    %by_expert = tensor.expand_shape %rows [[0, 1], [2]] output_shape [{experts}, {capacity}, {H}] : {flat} into {sent}
    %exchanged = te.all_to_all %by_expert group 0 split 0 concat 1 : {sent} -> {received}
    %mine = tensor.collapse_shape %exchanged [[0, 1], [2]] : {received} into {flat}
    {experts_on(rows, own, "%done", written)}
    %of_experts = tensor.expand_shape %done [[0, 1], [2]] output_shape [{own}, {ranks * capacity}, {H}] : {flat} into {received}
    %returned = te.all_to_all %of_experts group 0 split 1 concat 0 : {received} -> {sent}
    %back = tensor.collapse_shape %returned [[0, 1], [2]] : {sent} into {flat}
    {unpermute(T, rows)}
  }}
}}"""


def router_module(recipe, experts, *results):
    """Computes `results` from ids and probs."""
    types = {"ids": tensor(T, K, element="i32"), "probs": tensor(T, K, element="f32")}
    named = ", ".join(f'{types[name]} {{te.name = "{name}"}}' for name in results)
    return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>}} {{
  func.func @router(%x: {tensor(T, H)} {{te.name = "x"}}, %router: {tensor(experts, H)} {{te.name = "router", te.weight}}) -> ({named}) {{{router(experts)}
    return {", ".join("%" + name for name in results)} : {", ".join(types[name] for name in results)}
  }}
}}"""


def single_module(recipe, ranks, experts, capacity, written):
    """The program with all tokens and experts. `ids` name one group for each expert and rank."""
    tokens, rows = ranks * T, ranks * experts * capacity
    return f"""
module attributes {{te.recipe = #te.recipe<{recipe}>}} {{
  func.func @moe(%x: {tensor(tokens, H)} {{te.name = "x"}}, %ids: {tensor(tokens, K, element="i32")} {{te.name = "ids"}},
                 %probs: {tensor(tokens, K, element="f32")} {{te.name = "probs"}}, %up: {tensor(experts, 2 * F, H)} {{te.name = "up", te.weight}},
                 %down: {tensor(experts, H, F)} {{te.name = "down", te.weight}}{argument_of_sizes(experts, written)})
      -> ({tensor(tokens, H)} {{te.name = "y"}}) {{
    {permute(tokens, ranks * experts, capacity, "%mine")}
    {experts_on(rows, experts, "%back", written)}
    {unpermute(tokens, rows)}
  }}
}}"""


def exchanged_bytes(module, pipeline):
    """The bytes that the launches of a rank's step exchange."""
    path = FOLDER / f"counted{hash((module, pipeline)) & 0xFFFFFFFF}.mlir"
    path.write_text(module)
    launches = re.findall(
        r'"all_to_all" {bytes = (\d+) : i64, group_id = 0 : i32, ranks = (\d+) : i32, scale_bytes = (\d+) : i64}',
        compile_to(path, "schedule", pipeline),
    )
    return [(int(data) + int(scales)) * int(ranks) for data, ranks, scales in launches]


def expect_bytes(module, recipe, pipeline, override, rows, vjp, written, claim):
    """Checks that casts are exchanged if they are the only readers."""
    plain, cast = 2 * rows * H, rows * BYTES_OF_ROW.get(recipe, 2 * H)
    if not written:
        cast = plain
    own_columns = vjp and recipe != COLUMNS_OF_ROWS and override == "none"
    of_x = plain if own_columns or override == "high_precision" else cast
    wanted = [of_x, plain] + [cast if recipe == COLUMNS_OF_ROWS and override == "none" else plain, plain] * vjp
    found = exchanged_bytes(module, f"{'vjp=moe ' * vjp}{pipeline}")
    # The amaxes of rows are exchanged separately.
    if recipe == ROW_SCALED and of_x == cast and len(found) == len(wanted) + 1:
        found = [found[0] + found[1], *found[2:]]
    expect(found == wanted, f"{claim}: {found} bytes are exchanged instead of {wanted}")


def check(recipe, options, override, ranks, experts, capacity, written, vjp=True):
    rng = np.random.default_rng([ranks, experts, capacity])
    x, dy = normal(rng, ranks * T, H), normal(rng, ranks * T, H)
    up, down = normal(rng, experts, 2 * F, H, scale=0.1), normal(rng, experts, H, F, scale=0.1)
    # All tokens choose the first expert; no token chooses the last one, if there are enough experts.
    gate = normal(rng, experts, H, scale=0.1)
    x[:, 0] = to_bf16(np.float32(8))
    gate[:, 0] = to_bf16(np.float32([64] + [0] * (experts - 2) + [-64]))
    pipeline = f"backward-override={override} {options}"
    claim = f"{recipe} {override} {experts} experts of {capacity} rows over {ranks}, {'written' if written else 'passed'}, {'step' if vjp else 'forward'}"

    inputs = [
        {"x": parts(x, ranks, 0)[r], "router": gate, "up": parts(up, ranks, 0)[r], "down": parts(down, ranks, 0)[r]}
        | ({"grad.y": parts(dy, ranks, 0)[r]} if vjp else {})
        | ({} if written else {"sizes": np.full(experts // ranks, ranks * capacity, np.int32)})
        for r in range(ranks)
    ]
    module = parallel_module(recipe, ranks, experts, capacity, written)
    if BACKEND == "reference":  # te-opt is available where tests run
        expect_bytes(module, recipe, pipeline, override, experts * capacity, vjp, written, claim)
    found = run_ranks(module, "moe", inputs, pipeline, vjp=vjp)

    routed = [
        run(router_module(recipe, experts, "ids", "probs"), "router", {"x": each["x"], "router": gate})
        for each in inputs
    ]
    groups = np.concatenate([each["ids"] * ranks + r for r, each in enumerate(routed)]).astype(np.int32)
    wanted = run(
        single_module(recipe, ranks, experts, capacity, written),
        "moe",
        {"x": x, "ids": groups, "probs": np.concatenate([each["probs"] for each in routed]), "up": up, "down": down}
        | ({"grad.y": dy} if vjp else {})
        | ({} if written else {"sizes": np.full(experts, ranks * capacity, np.int32)}),
        pipeline,
        vjp=vjp,
    )
    if not vjp:
        for r in range(ranks):
            expect(same_bytes(found[r]["y"], parts(wanted["y"], ranks, 0)[r]), f"{claim}: 'y' of rank {r}")
        return
    behind = [
        run(
            router_module(recipe, experts, "probs"),
            "router",
            {"x": each["x"], "router": gate, "grad.probs": parts(wanted["grad.probs"], ranks, 0)[r]},
            pipeline,
            vjp=True,
        )
        for r, each in enumerate(inputs)
    ]

    chosen = np.bincount(groups.ravel() // ranks, minlength=experts)
    lost = int(np.maximum(np.bincount(groups.ravel(), minlength=experts * ranks) - capacity, 0).sum())
    expect(
        chosen[0] == ranks * T and (experts == K or chosen[-1] == 0) and (lost > 0) == (capacity < T),
        f"{claim}: choices {chosen}, {lost} lost",
    )
    for r in range(ranks):
        for name in ("y", "grad.up", "grad.down"):
            expect(same_bytes(found[r][name], parts(wanted[name], ranks, 0)[r]), f"{claim}: '{name}' of rank {r}")
        # x has two readers.
        dx = to_bf16(from_bf16(parts(wanted["grad.x"], ranks, 0)[r]) + from_bf16(behind[r]["grad.x"]))
        expect(same_bytes(found[r]["grad.x"], dx), f"{claim}: 'grad.x' of rank {r}")
        expect(
            same_sum(found[r]["grad.router"], [each["grad.router"] for each in behind]),
            f"{claim}: 'grad.router' of rank {r}",
        )


def named(*recipes):
    return [recipe for recipe in recipes if not NAMED or recipe in NAMED]


for recipe, options, overrides in CASES:
    for ranks in RANKS:
        # With one expert for each rank, rows arrive in place; with four, they are copied. In the second case, the
        # capacity is too small.
        for experts, capacity in ((ranks, 128), (4 * ranks, 128 // ranks)):
            for override in overrides if BACKEND == "reference" and capacity < T else overrides[:1]:
                later(check, recipe, options, override, ranks, experts, capacity, capacity < T)
for ranks in RANKS:
    for recipe in named(BLOCKS, "mxfp8_block_scaling"):
        if BACKEND == "reference" or recipe == BLOCKS:
            options = "target=reference" if recipe != BLOCKS else ""
            later(check, recipe, options, "dequantized", ranks, ranks, 128, True)
            later(check, recipe, options, "none", ranks, ranks, 128, True)
            later(check, recipe, options, "none", ranks, 4 * ranks, 128 // ranks, True, False)
            later(check, recipe, options, "none", ranks, 4 * ranks, 128 // ranks, False, False)
    if not NAMED:
        later(check, COLUMNS_OF_ROWS, "", "none", ranks, 4 * ranks, 128 // ranks, True)
        if BACKEND == "reference":
            later(check, ROW_SCALED, "target=reference", "dequantized", ranks, 4 * ranks, 128 // ranks, True)
            later(check, ROW_SCALED, "target=reference", "none", ranks, ranks, 128, True, False)
perform_all()
finish("expert-parallel")
