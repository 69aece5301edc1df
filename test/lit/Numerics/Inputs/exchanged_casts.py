"""The exchange of a cast has the bytes of the cast of the exchanged tensor, including scales and padding.

For every scheme and axis, rows grouped by expert and back, over two and four processes, te.all_to_all of the te.quantize of a
tensor is compared with te.quantize of the te.all_to_all. The number of rows is odd if blocks permit it. Every rank has
different values, including zeros, -0, inf, NaN and subnormals. Both results are also dequantised, to compare what readers get.
The exchanged tensor is a result of the program, because otherwise the compiler would move its cast before the exchange.
"""

import numpy as np
from harness import expect, finish, normal, same_bytes, to_bf16
from ranks import RANKS, later, perform_all, run_ranks, tensor

EP = '#te.group<id = 0, name = "ep", axis = "ep", size = {0}>'
#: Type, contracted axis, multiple of the rows that travel together, multiple of all rows, columns.
TYPES = [
    ("f8E4M3FN", "block_1x128", 1, 1, 4, 192),
    ("f8E4M3FN", "block_1x128, pow2", 0, 128, 1, 48),
    ("f8E5M2", "block_128x128", 1, 128, 1, 192),
    ("f8E4M3FN", "block_128x128, pow2", 0, 128, 512, 48),
    ("f8E4M3FN", "mx_1x32", 1, 1, 1, 96),
    ("f8E5M2", "mx_1x32", 0, 32, 1, 96),
    ("f8E4M3FN", "mx_32x32", 1, 32, 1, 96),
    ("f8E4M3FN", "mx_32x32", 0, 32, 1, 160),
    ("f4E2M1FN", "nv_1x16, row_scaled", 1, 16, 1, 48),
]


def check(element, scheme, contract, run, multiple, columns, ranks, groups, split, concat):
    """A program on `groups` of this rank's rows, each of the smallest supported size; 0 means no groups."""
    parts = ranks * (split == 1 or groups == 0)
    rows = max(groups, 1) * max(parts, 1) * run
    if split == concat == 0 and groups:
        rows = groups * run
    while rows % multiple or (scheme.startswith("mx") or scheme.startswith("nv")) and rows % 32:
        rows += max(groups, 1) * max(parts, 1) * run
    after = groups if split == concat else groups // ranks if split == 0 else groups * ranks
    own = f"{rows}x{columns}x{element}, {scheme}, contract = {contract}"
    sent, received = f"!te.scaled<{own}>", f"!te.scaled<{own}{f', groups = {after}' * bool(after)}>"
    flat = tensor(rows, columns)
    claim = f"{own} of {groups} groups over {ranks}, split {split} concat {concat}"
    if groups:
        size = rows // groups
        shape, exchanged = tensor(groups, size, columns), tensor(after, rows // after, columns)
        move = f"""
    %split = tensor.expand_shape %x [[0, 1], [2]] output_shape [{groups}, {size}, {columns}] : {flat} into {shape}
    %moved = te.all_to_all %split group 0 split {split} concat {concat} : {shape} -> {exchanged}
    %mine = tensor.collapse_shape %moved [[0, 1], [2]] : {exchanged} into {flat}"""
    else:
        move = f"\n    %mine = te.all_to_all %x group 0 split 0 concat 0 : {flat} -> {flat}"
    sizes = f"\n    %sizes = arith.constant dense<{rows // after}> : {tensor(after, element='i32')}" if after else ""
    of = f"sizes %sizes {{alignment = {rows // after} : i64}}" if after else ""

    def amax(name, value):
        if not scheme.startswith("nv"):
            return "", ""
        return f"    %{name} = te.amax_rows {value} : {flat} -> {tensor(rows, element='f32')}\n", f"amax %{name} "

    before, given = amax("a", "%x")
    behind, given_behind = amax("b", "%mine")
    module = f"""
module attributes {{te.groups = [{EP.format(ranks)}]}} {{
  func.func @step(%x: {flat} {{te.name = "x"}})
      -> ({received} {{te.name = "q"}}, {received} {{te.name = "p"}}, {flat} {{te.name = "y"}}, {flat} {{te.name = "z"}}, {flat} {{te.name = "mine"}}) {{{sizes}
{before}    %s = te.quantize %x {given}: {flat} -> {sent}
    %q = te.all_to_all %s group 0 split {split} concat {concat} : {sent} -> {received}{move}
{behind}    %p = te.{"grouped_" * bool(after)}quantize %mine {given_behind}{of} : {flat} -> {received}
    %y = te.dequantize %q {of} : {received} -> {flat}
    %z = te.dequantize %p {of} : {received} -> {flat}
    return %q, %p, %y, %z, %mine : {received}, {received}, {flat}, {flat}, {flat}
  }}
}}"""
    rng = np.random.default_rng([ranks, rows, columns])
    inputs = []
    for _ in range(ranks):
        x = normal(rng, rows, columns)
        specials = to_bf16(np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -3e-39, 3e38, 1e-30]))
        places = rng.integers(0, x.size, 3 * len(specials))
        x.reshape(-1)[places] = np.tile(specials, 3)
        x[rng.integers(0, rows)] = 0
        inputs.append({"x": x})
    for rank, found in enumerate(run_ranks(module, "step", inputs, "", vjp=False)):
        names = [name for name in found if name == "q" or name.startswith("q.")]
        expect(len(names) >= 2, f"{claim}: results {sorted(found)}")
        for name in names:
            expect(same_bytes(found[name], found["p" + name[1:]]), f"{claim}: '{name}' of rank {rank}")
        expect(same_bytes(found["y"], found["z"]), f"{claim}: 'y' of rank {rank}")
        expect(rank == 0 or not same_bytes(found["y"], inputs[rank]["x"]), f"{claim}: rank {rank} has its own rows")


for ranks in RANKS:
    for each in TYPES:
        for groups, split, concat in ((2 * ranks, 0, 1), (3, 1, 0), (2 * ranks, 0, 0), (3, 1, 1), (0, 0, 0)):
            later(check, *each, ranks, groups, split, concat)
perform_all()
finish("exchanged-casts")
