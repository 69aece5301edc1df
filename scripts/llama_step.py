#!/usr/bin/env python3
"""Writes a whole training step of a Llama: embedding, layers, head, cross entropy, backward and AdamW.

Masters and moments are f32. Over several ranks each has sequences of its own and a run of the rows of every matrix, of
its moments and of its gradient (FSDP, ZeRO-3); gains are the same on all. Matrices are rounded to bf16 and gathered where
they are read; what the recipe casts is cast before. The head is not quantised. The mean of the loss is over a rank's tokens.

    scripts/llama_step.py --layers=32 --ranks=4 > step.mlir
"""

import argparse

SIZES = dict(
    layers=8, ranks=1, tokens=8192, sequence=8192, hidden=4096, ffn=14336, heads=32, kv_heads=8, vocabulary=128256
)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    helps = dict(tokens="of one rank", sequence="tokens that see each other")
    for name, size in SIZES.items():
        parser.add_argument(
            "--" + name.replace("_", "-"), type=int, default=size, help=f"{helps.get(name, '')} (default {size})"
        )
    options = parser.parse_args()
    for name, size in vars(options).items():
        if size < 1:
            parser.error(f"expected --{name.replace('_', '-')} to be positive, but got {size}")
    for of, by in (
        ("tokens", "sequence"),
        ("hidden", "heads"),
        ("heads", "kv_heads"),
        ("hidden", "ranks"),
        ("vocabulary", "ranks"),
    ):
        if getattr(options, of) % getattr(options, by):
            parser.error(
                f"expected --{of} to be a multiple of --{by.replace('_', '-')} ({getattr(options, by)}), "
                f"but got {getattr(options, of)}"
            )
    dim, ranks = options.hidden // options.heads, options.ranks
    for what, size, by in (
        ("the width of a head", dim, 2),
        ("the rows of wk", dim * options.kv_heads, ranks),
        ("the rows of wu", 2 * options.ffn, ranks),
    ):
        if size % by:
            parser.error(f"expected {what} to be a multiple of {by}, but got {size}")
    return options


def tensor(*shape):
    return f"tensor<{'x'.join(map(str, shape))}>"


def write(layers, ranks, tokens, sequence, hidden, ffn, heads, kv_heads, vocabulary):
    dim = hidden // heads
    kv_width = dim * kv_heads
    split = ", te.sharding = [#te.shard<axis = 0, group = 0>]" if ranks > 1 else ""
    x, q, kv = (f"tensor<{tokens}x{n}xbf16>" for n in (hidden, hidden, kv_width))
    ids, table = f"tensor<{tokens}xi32>", f"tensor<{sequence}x{dim // 2}xf32>"
    logits, wide, narrow = (f"tensor<{tokens}x{n}xbf16>" for n in (vocabulary, 2 * ffn, ffn))
    gain = (hidden,)
    own = {
        "g1": gain,
        "wq": (hidden, hidden),
        "wk": (kv_width, hidden),
        "wv": (kv_width, hidden),
        "wo": (hidden, hidden),
        "g2": gain,
        "wu": (2 * ffn, hidden),
        "wd": (hidden, ffn),
    }

    def master(shape):
        """The type of a rank's part."""
        return tensor(*((shape[0] // ranks, *shape[1:]) if len(shape) == 2 else shape), "f32")

    def whole(shape):
        return tensor(*shape, "bf16")

    weights = [("embedding", (vocabulary, hidden))]
    weights += [(f"l{i}.{name}", shape) for i in range(layers) for name, shape in own.items()]
    weights += [("gain", gain), ("head", (vocabulary, hidden))]
    given = [(f"%{name}", type) for name, type in (("ids", ids), ("targets", ids), ("cos", table), ("sin", table))]

    lines = []

    def read(to, name, shape):
        """`to` is the whole weight in bf16."""
        mine = master(shape).replace("f32", "bf16")
        if ranks == 1 or len(shape) == 1:
            lines.append(f"    %{to} = arith.truncf %{name} : {master(shape)} to {mine}")
            return
        lines.append(f"    %{to}_own = arith.truncf %{name} : {master(shape)} to {mine}")
        lines.append(f"    %{to} = te.all_gather %{to}_own group 0 axis 0 : {mine} -> {whole(shape)}")

    def linear(to, value, name, types, more=""):
        lines.append(
            f"    %{to} = te.linear %{value}, %{name}_all{more} : {types[0]}, {whole(own.get(name, (vocabulary, hidden)))} -> {types[1]}"
        )

    groups = (
        f' attributes {{te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = {ranks}>]}}'
        if ranks > 1
        else ""
    )
    sizes = f"{layers} layers of {hidden} and {ffn}, {tokens} tokens in sequences of {sequence}, a vocabulary of {vocabulary}"
    lines += [
        f"// A training step of a Llama over {ranks} rank{'s' * (ranks > 1)}: {sizes}; scripts/llama_step.py.",
        "",
        f"module{groups} {{",
    ]

    # A layer.
    parameters = ", ".join(
        f"%{name}: {master(shape)}{f' {{{split[2:]}}}' if split and len(shape) == 2 else ''}"
        for name, shape in own.items()
    )
    lines.append(f"  func.func private @layer(%x: {x}, %cos: {table}, %sin: {table}, {parameters}) -> {x} {{")
    for name, shape in own.items():
        read(f"{name}_all", name, shape)
    norm = f"{{epsilon = 1.0e-5 : f32}} : {x}, {whole(gain)}"
    lines.append(f"    %n1 = te.rms_norm %x, %g1_all {norm}")
    linear("q0", "n1", "wq", (x, q))
    linear("k0", "n1", "wk", (x, kv))
    linear("v", "n1", "wv", (x, kv))
    lines += [
        f"    %q = te.rope %q0, %cos, %sin {{heads = {heads} : i64}} : {q}, {table}",
        f"    %k = te.rope %k0, %cos, %sin {{heads = {kv_heads} : i64}} : {kv}, {table}",
        f"    %a = te.attention %q, %k, %v {{heads = {heads} : i64, kv_heads = {kv_heads} : i64, sequence = {sequence} : i64, causal}} : {q}, {kv}",
    ]
    linear("o", "a", "wo", (q, x))
    lines += [f"    %r = arith.addf %x, %o : {x}", f"    %n2 = te.rms_norm %r, %g2_all {norm}"]
    linear("u", "n2", "wu", (x, wide))
    lines.append(f"    %h = te.activation <swiglu> %u : {wide} -> {narrow}")
    linear("d", "h", "wd", (narrow, x))
    lines += [f"    %y = arith.addf %r, %d : {x}", f"    return %y : {x}", "  }", ""]

    # The loss.
    def argument(name, type, more=""):
        return f'%{name.replace(".", "_")}: {type} {{te.name = "{name}"{more}}}'

    def inputs():
        return [
            argument("ids", ids, split),
            argument("targets", ids, split),
            argument("cos", table),
            argument("sin", table),
        ]

    def marks(shape):
        return split if len(shape) == 2 else ""

    parameters = [argument(name, master(shape), marks(shape)) for name, shape in weights]
    separator = ",\n      "
    lines.append(f"  func.func private @loss({separator.join(inputs() + parameters)}) -> tensor<f32> {{")
    read("embedding_all", "embedding", (vocabulary, hidden))
    lines.append(f"    %x0 = te.embedding %ids, %embedding_all : {ids}, {whole((vocabulary, hidden))} -> {x}")
    for i in range(layers):
        names = ", ".join(f"%l{i}_{name}" for name in own)
        types = ", ".join(master(shape) for shape in own.values())
        lines.append(
            f"    %x{i + 1} = func.call @layer(%x{i}, %cos, %sin, {names}) : ({x}, {table}, {table}, {types}) -> {x}"
        )
    read("gain_all", "gain", gain)
    lines.append(f"    %n = te.rms_norm %x{layers}, %gain_all {norm}")
    read("head_all", "head", (vocabulary, hidden))
    linear("logits", "n", "head", (x, logits), " {te.recipe = #te.recipe<high_precision>}")
    lines += [
        f"    %loss = te.cross_entropy %logits, %targets : {logits}, {ids}",
        "    return %loss : tensor<f32>",
        "  }",
        "",
    ]

    # The step.
    states, results = [], ['tensor<f32> {te.name = "loss"}']
    for name, shape in weights:
        for suffix, more in (("", ", te.weight"), (".m", ", te.init = 0.0 : f32"), (".v", ", te.init = 0.0 : f32")):
            states.append(argument(name + suffix, master(shape), more + marks(shape)))
            results.append(f'{master(shape)} {{te.name = "{name}{suffix}"}}')
    scalars = [argument("lr", "tensor<f32>"), argument("step", "tensor<f32>")]
    lines.append(
        f"  func.func @step({separator.join(inputs() + scalars + states)})\n      -> ({separator.join(results)}) {{"
    )
    lines.append("    %one = arith.constant dense<1.0> : tensor<f32>")
    names = [name.replace(".", "_") for name, _ in weights]
    types = [master(shape) for _, shape in weights]
    wrt = ", ".join(str(len(given) + i) for i in range(len(weights)))
    all_types = ", ".join([type for _, type in given] + types)
    lines.append(
        f"    %loss{''.join(f', %{name}_grad' for name in names)}\n      = te.vjp @loss({', '.join([n for n, _ in given] + ['%' + n for n in names])})"
        f" cotangents(%one) wrt [{wrt}]\n      : ({all_types}), (tensor<f32>) -> ({', '.join(['tensor<f32>', *types])})"
    )
    returned = ["%loss"]
    for name, (_, shape), type in zip(names, weights, types):
        after = [f"%{name}{suffix}_next" for suffix in ("", "_m", "_v")]
        decay = "0.1" if len(shape) == 2 else "0.0"
        lines.append(
            f"    {', '.join(after)} = te.adamw %{name}, %{name}_grad, %{name}_m, %{name}_v lr %lr step %step "
            f"{{weight_decay = {decay} : f32}} : {type}, {type}"
        )
        returned += after
    returned_types = ", ".join(["tensor<f32>"] + [type for type in types for _ in range(3)])
    lines += [f"    return {', '.join(returned)}\n      : {returned_types}", "  }", "}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(write(**vars(arguments())), end="")
