"""The gradient of a table that is also the weight of a head, and sums of norms and of what they are added to.

A table's two gradients are added in the rows of tokens. With two tensors, the sum has the same bits: that of the table is rounded,
then added. Rows that no token names are those of the head's gradient, byte by byte. Under `main-grad`, sums are f32, over two
micro-batches, and a table without a head accumulates, too. What is fused has the bits of the same program without fusions.
"""

import numpy as np
from harness import (
    INPUTS,
    compile_to,
    expect,
    expect_same,
    finish,
    from_bf16,
    modes,
    normal,
    run,
    same_bytes,
    to_bf16,
)

TIED = INPUTS / "tied.mlir"
TOKENS, HIDDEN, VOCABULARY = 400, 128, 301
ROWS = "logits-budget=81920"

rng = np.random.default_rng(31)
ids = rng.integers(0, 200, TOKENS).astype(np.int32)
ids[5], ids[6], ids[390] = -1, VOCABULARY, 250
targets = rng.integers(0, VOCABULARY, TOKENS).astype(np.int32)
targets[40:60] = -1
given = {
    "ids": ids,
    "a": normal(rng, HIDDEN, HIDDEN, scale=0.1),
    "b": normal(rng, HIDDEN, HIDDEN, scale=0.1),
    "g": normal(rng, HIDDEN),
    "w": normal(rng, VOCABULARY, HIDDEN, scale=0.05),
    "targets": targets,
    "grad.loss": np.float32(1),
}
apart_given = given | {"table": given["w"]}
named = np.isin(np.arange(VOCABULARY), ids)
unnamed = np.flatnonzero(~named)
# GEMMs of NVFP4 draw random bits.
draws = {"rng_state": np.array([0, 1], np.int32)}


def added(results, wide):
    """The sum of the two gradients of two tensors. Only the rows of tokens are added, so that a zero keeps its sign elsewhere."""
    head, table = (results[f"grad.{name}"] if wide else from_bf16(results[f"grad.{name}"]) for name in ("w", "table"))
    total = np.where(named[:, None], head + table, head)
    return total if wide else to_bf16(total)


for mode in modes(turn=1):
    state = draws if "nvfp4" in mode and "=none" in mode else {}
    for more in ("", f" {ROWS}", " fuse=false"):
        claim = f"{mode}{more}"
        tied = run(TIED, "tied", given | state, claim, vjp=True)
        apart = run(TIED, "apart", apart_given | state, claim, vjp=True)
        expect_same(tied, apart, ("loss", "grad.a", "grad.b", "grad.g"), claim)
        expect(same_bytes(tied["grad.w"], added(apart, wide=False)), f"{claim}: the gradient of the table")
        head, table = apart["grad.w"], from_bf16(apart["grad.table"])
        expect(not table[unnamed].any() and table[named].any(), f"{claim}: which rows have a gradient of the table")
        expect(same_bytes(tied["grad.w"][unnamed], head[unnamed]), f"{claim}: rows that no token names")
        if not more:
            fused = tied
    expect_same(tied, fused, sorted(fused), f"{mode}: fusions change no bit")

for recipe in ("high_precision", "float8_current_scaling", "float8_block_scaling"):
    mode = f"recipe={recipe} main-grad=true"
    # The sums of the first micro-batch overwrite what was there; the second one adds.
    garbage = {f"grad.{name}": np.full(apart_given[name].shape, np.nan, np.float32) for name in ("a", "b", "w")}
    first = run(TIED, "tied", given | garbage | {"skip_weight_update": np.float32(0)}, mode, vjp=True)
    two = garbage | {"grad.table": garbage["grad.w"], "skip_weight_update": np.float32(0)}
    apart = run(TIED, "apart", apart_given | two, mode, vjp=True)
    expect(first["grad.w"].dtype == np.float32, f"{mode}: the sum is f32")
    expect(same_bytes(first["grad.w"], added(apart, wide=True)), f"{mode}: the first micro-batch")
    states = {name: value for name, value in first.items() if name.startswith("grad.") and value.dtype == np.float32}
    flag = {"skip_weight_update": np.float32(1)}
    second = run(TIED, "tied", given | states | flag, mode, vjp=True)
    zeros = {"grad.table": np.zeros((VOCABULARY, HIDDEN), np.float32)}
    apart_two = run(TIED, "apart", apart_given | states | zeros | flag, mode, vjp=True)
    expect(same_bytes(second["grad.w"], added(apart_two, wide=True)), f"{mode}: the second micro-batch")
    expect(same_bytes(apart_two["grad.table"], apart["grad.table"] + 0), f"{mode}: a table by itself")
    again = run(TIED, "apart", apart_given | states | {"grad.table": apart["grad.table"]} | flag, mode, vjp=True)
    expect(same_bytes(again["grad.table"], 2 * apart["grad.table"]), f"{mode}: a table by itself, twice")

# What the programs have to show for it.
for entry in ("tied", "apart"):
    program = compile_to(TIED, "fuse", f"recipe=float8_current_scaling vjp={entry}")
    program = program.split(f"@{entry}(", 1)[1].split("func.func", 1)[0]
    (gradient,) = (line for line in program.splitlines() if "te.embedding_backward" in line)
    expect((" accumulate " in gradient) == (entry == "tied"), f"'{entry}': what is accumulated")
    expect(program.count(" onto ") == 2, f"'{entry}': both norms add")
    tables = [line for line in program.splitlines() if "arith.addf" in line and f"tensor<{VOCABULARY}x" in line]
    expect(not tables, f"'{entry}': no launch adds tables")
finish("tied")
