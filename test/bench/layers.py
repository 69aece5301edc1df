#!/usr/bin/env python3
"""Prints a model with many layers, to measure how the time of the compiler grows with their number.

    layers.py 80 | te-opt - --te-training-pipeline="vjp=model recipe=float8_block_scaling remat=everything" -o /dev/null

Each layer has the seven GEMMs of a Llama layer, two norms, two residual additions and SwiGLU. Elementwise ops replace attention.
"""

import sys

TOKENS, HIDDEN, FFN = 256, 256, 512


def main():
    layers = int(sys.argv[1])
    hidden, square, vector = (
        f"tensor<{TOKENS}x{HIDDEN}xbf16>",
        f"tensor<{HIDDEN}x{HIDDEN}xbf16>",
        f"tensor<{HIDDEN}xbf16>",
    )
    up, gated, down, wide = (
        f"tensor<{a}x{b}xbf16>" for a, b in ((2 * FFN, HIDDEN), (TOKENS, 2 * FFN), (HIDDEN, FFN), (TOKENS, FFN))
    )
    arguments, lines, x = [f'%x: {hidden} {{te.name = "x"}}'], [], "%x"
    for i in range(layers):
        for name, type in (
            ("g1", vector),
            ("g2", vector),
            ("q", square),
            ("k", square),
            ("v", square),
            ("o", square),
            ("up", up),
            ("down", down),
        ):
            arguments.append(f'%l{i}_{name}: {type} {{te.name = "layers.{i}.{name}", te.weight}}')

        def linear(result, value, weight, types):
            lines.append(f"%l{i}_{result} = te.linear {value}, %l{i}_{weight} : {types}")

        lines.append(f"%l{i}_n = te.rms_norm {x}, %l{i}_g1 : {hidden}, {vector}")
        for name in "qkv":
            linear(f"y{name}", f"%l{i}_n", name, f"{hidden}, {square} -> {hidden}")
        lines += [
            f"%l{i}_s = te.activation <silu> %l{i}_yq : {hidden} -> {hidden}",
            f"%l{i}_p = arith.mulf %l{i}_s, %l{i}_yk : {hidden}",
            f"%l{i}_a = arith.addf %l{i}_p, %l{i}_yv : {hidden}",
        ]
        linear("yo", f"%l{i}_a", "o", f"{hidden}, {square} -> {hidden}")
        lines += [
            f"%l{i}_x = arith.addf {x}, %l{i}_yo : {hidden}",
            f"%l{i}_m = te.rms_norm %l{i}_x, %l{i}_g2 : {hidden}, {vector}",
        ]
        linear("u", f"%l{i}_m", "up", f"{hidden}, {up} -> {gated}")
        lines.append(f"%l{i}_h = te.activation <swiglu> %l{i}_u : {gated} -> {wide}")
        linear("d", f"%l{i}_h", "down", f"{wide}, {down} -> {hidden}")
        lines.append(f"%l{i}_y = arith.addf %l{i}_x, %l{i}_d : {hidden}")
        x = f"%l{i}_y"
    body = "\n    ".join(lines + [f"return {x} : {hidden}"])
    print(f'func.func @model({", ".join(arguments)}) -> ({hidden} {{te.name = "y"}}) {{\n    {body}\n}}')


main()
