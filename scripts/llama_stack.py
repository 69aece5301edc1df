#!/usr/bin/env python3
"""Writes a training step of N Llama-like layers over several micro-batches.

A layer is x + out(swiglu(qkv(rms_norm(x)))) and then x + down(swiglu(up(rms_norm(x)))): the four linear layers of a
Llama layer with a gate where attention stands. Weights are arguments in bf16; every micro-batch casts them alike, so a
compiler casts them once a step. Results are the gradient of the first input and, for each weight, the sum of its gradients.

    scripts/llama_stack.py --layers=8 > stack.mlir
"""

import argparse


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=4096, help="of one micro-batch")
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--ffn", type=int, default=14336)
    return parser.parse_args()


def write(layers, micro_batches, tokens, hidden, ffn):
    weights = [
        (f"l{i}.{name}", f"!{kind}")
        for i in range(layers)
        for name, kind in (
            ("gamma0", "gamma"),
            ("qkv", "qkv"),
            ("out", "out"),
            ("gamma1", "gamma"),
            ("up", "up"),
            ("down", "down"),
        )
    ]
    kinds = ", ".join(kind for _, kind in weights)
    lines = [
        f"// {layers} Llama-like layers, {micro_batches} micro-batches of {tokens} tokens: scripts/llama_stack.py.",
        "",
        f"!x = tensor<{tokens}x{hidden}xbf16>",
        f"!gamma = tensor<{hidden}xbf16>",
        f"!qkv = tensor<{2 * hidden}x{hidden}xbf16>",
        f"!out = tensor<{hidden}x{hidden}xbf16>",
        f"!up = tensor<{2 * ffn}x{hidden}xbf16>",
        f"!down = tensor<{hidden}x{ffn}xbf16>",
        f"!gates = tensor<{tokens}x{2 * hidden}xbf16>",
        f"!wide = tensor<{tokens}x{2 * ffn}xbf16>",
        f"!ffn = tensor<{tokens}x{ffn}xbf16>",
        "",
        "module {",
        "  func.func private @layer(%x: !x, %gamma0: !gamma, %qkv: !qkv, %out: !out, %gamma1: !gamma, %up: !up, %down: !down) -> !x {",
        "    %n0 = te.rms_norm %x, %gamma0 : !x, !gamma",
        "    %q = te.linear %n0, %qkv : !x, !qkv -> !gates",
        "    %g = te.activation <swiglu> %q : !gates -> !x",
        "    %o = te.linear %g, %out : !x, !out -> !x",
        "    %y = arith.addf %x, %o : !x",
        "    %n1 = te.rms_norm %y, %gamma1 : !x, !gamma",
        "    %u = te.linear %n1, %up : !x, !up -> !wide",
        "    %a = te.activation <swiglu> %u : !wide -> !ffn",
        "    %d = te.linear %a, %down : !ffn, !down -> !x",
        "    %z = arith.addf %y, %d : !x",
        "    return %z : !x",
        "  }",
        "",
    ]
    parameters = ", ".join(f"%w{i}: {kind}" for i, (_, kind) in enumerate(weights))
    lines.append(f"  func.func private @stack(%x0: !x, {parameters}) -> !x {{")
    for i in range(layers):
        own = range(6 * i, 6 * i + 6)
        lines.append(
            f"    %x{i + 1} = func.call @layer(%x{i}, {', '.join(f'%w{j}' for j in own)}) : "
            f"(!x, {', '.join(weights[j][1] for j in own)}) -> !x"
        )
    lines += [f"    return %x{layers} : !x", "  }", ""]

    batches = range(micro_batches)
    inputs = [f'%{name}{b}: !x {{te.name = "{name}{b}"}}' for b in batches for name in ("x", "dy")]
    inputs += [f'%w{i}: {kind} {{te.name = "{name}", te.weight}}' for i, (name, kind) in enumerate(weights)]
    results = ['!x {te.name = "dx0"}'] + [f'{kind} {{te.name = "d.{name}"}}' for name, kind in weights]
    separator = ",\n                  "
    lines += [f"  func.func @step({separator.join(inputs)})", f"      -> ({separator.join(results)}) {{"]
    wrt = ", ".join(str(i) for i in range(len(weights) + 1))
    for b in batches:
        lines.append(
            f"    %r{b}:{len(weights) + 2} = te.vjp @stack(%x{b}, {', '.join(f'%w{i}' for i in range(len(weights)))})"
            f" cotangents(%dy{b}) wrt [{wrt}] : (!x, {kinds}), (!x) -> (!x, !x, {kinds})"
        )
    sums = [f"%r0#{i + 2}" for i in range(len(weights))]
    for b in batches[1:]:
        for i, (_, kind) in enumerate(weights):
            lines.append(f"    %s{b}_{i} = arith.addf {sums[i]}, %r{b}#{i + 2} : {kind}")
            sums[i] = f"%s{b}_{i}"
    lines += [f"    return %r0#1, {', '.join(sums)} : !x, {kinds}", "  }", "}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    options = arguments()
    print(write(options.layers, options.micro_batches, options.tokens, options.hidden, options.ffn), end="")
