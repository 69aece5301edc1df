"""Compares the bytes saved for the backward of a linear layer, computed from the formats, with the compiler's report."""

import sys

sys.path.append(sys.argv[1])
from saved_bytes import K, M, N, measure

X, W = M * K, N * K


def per_tensor(elements):
    return elements + 4


def blocks(elements, block):
    return elements + 4 * (elements // block)


def mx(elements):
    return elements + elements // 32


def nv(elements, amaxes=1):
    return elements // 2 + elements // 16 + 4 * amaxes


FORMATS = {
    "float8_current_scaling": (per_tensor(X), per_tensor(W)),
    "float8_block_scaling": (blocks(X, 128), blocks(W, 128 * 128)),
    "mxfp8_block_scaling": (mx(X), mx(W)),
    "nvfp4_block_scaling": (nv(X), nv(W)),
}
# In high precision, the layer's input is saved in bf16, and its weight is an argument.
WANTED = {
    "high_precision": {"none": (2 * X, 0)},
    "delayed_scaling": {"none": (per_tensor(X), per_tensor(W))},
    "nvfp4_block_scaling, row-scaled x": {"high_precision": (2 * X, 0), "dequantized": (nv(X, amaxes=M), nv(W))},
}
WANTED |= {
    recipe: {"none": saved, "high_precision": (2 * X, 0), "dequantized": saved} for recipe, saved in FORMATS.items()
}

found = {name: {mode: tuple(saved) for mode, saved in modes.items()} for name, modes in measure("te-opt").items()}
failed = figures = 0
for name in sorted(set(WANTED) | set(found)):
    for mode in sorted(set(WANTED.get(name, {})) | set(found.get(name, {}))):
        wanted, got = WANTED.get(name, {}).get(mode), found.get(name, {}).get(mode)
        figures += 2
        if wanted != got:
            failed += 1
            print(f"FAILED: {name}, {mode}: {got} bytes of x and w, not {wanted}")
print(f"saved-bytes: {figures} figures, {failed} failed")
sys.exit(failed != 0)
