#!/usr/bin/env python3
"""Writes a whole training step of a Llama: embedding, layers, head, cross entropy, backward and AdamW.

Masters are f32, moments f32 or bf16. Over several ranks each has sequences of its own and a run of the rows of every matrix, of
its moments and of its gradient (FSDP, ZeRO-3); gains are the same on all. Matrices are rounded to bf16 and gathered where
they are read; what the recipe casts is cast before. The head is quantised only with `--head=recipe`. The mean of the loss is
over a rank's tokens.

With `--micro-batches=16`, the gradients of a sixteenth of the loss are results, which the option `main-grad` adds up, and AdamW
runs only where the argument `skip_optimizer` is not 1.

    scripts/llama_step.py --layers=32 --ranks=4 > step.mlir
"""

import argparse

SIZES = dict(
    layers=8, ranks=1, tokens=8192, sequence=8192, hidden=4096, ffn=14336, heads=32, kv_heads=8, vocabulary=128256
)
#: Between the arguments and results of a function.
SEPARATOR = ",\n      "


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    helps = dict(tokens="of one rank", sequence="tokens that see each other")
    for name, size in SIZES.items():
        parser.add_argument(
            "--" + name.replace("_", "-"), type=int, default=size, help=f"{helps.get(name, '')} (default {size})"
        )
    parser.add_argument(
        "--moments", choices=("f32", "bf16"), default="f32", help="type of AdamW's moments (default f32)"
    )
    parser.add_argument(
        "--head",
        choices=("high_precision", "recipe"),
        default="high_precision",
        help="the recipe of the head's GEMMs: bf16, or that of the step (default high_precision)",
    )
    parser.add_argument(
        "--deterministic",
        choices=("true", "false"),
        default="true",
        help="whether gradients of attention have the same bits in each run (default true)",
    )
    parser.add_argument(
        "--micro-batches", type=int, default=1, help="steps of which the last one updates the weights (default 1)"
    )
    options = parser.parse_args()
    for name in (*SIZES, "micro_batches"):
        size = getattr(options, name)
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


def whole(shape):
    return tensor(*shape, "bf16")


def argument(name, type, more=""):
    return f'%{name.replace(".", "_")}: {type} {{te.name = "{name}"{more}}}'


class Writer:
    """The lines of a program, and the types in it."""

    def __init__(self, options):
        tokens, hidden, ffn, vocabulary = options.tokens, options.hidden, options.ffn, options.vocabulary
        layers, ranks, heads, kv_heads = options.layers, options.ranks, options.heads, options.kv_heads
        self.lines, self.layers, self.ranks, self.moments = [], layers, ranks, options.moments
        self.sequence, self.heads, self.kv_heads = options.sequence, heads, kv_heads
        self.head = " {te.recipe = #te.recipe<high_precision>}" if options.head == "high_precision" else ""
        self.attention = "" if options.deterministic == "true" else ", deterministic = false"
        self.micro_batches = options.micro_batches
        self.skip = " unless %skip_optimizer" if options.micro_batches > 1 else ""
        self.title = (
            f"A training step of a Llama over {ranks} rank{'s' * (ranks > 1)}: {layers} layers of {hidden} and {ffn}, "
            f"{tokens} tokens in sequences of {self.sequence}, a vocabulary of {vocabulary}; scripts/llama_step.py."
        )
        self.split = ", te.sharding = [#te.shard<axis = 0, group = 0>]" if ranks > 1 else ""
        kv_width = hidden // heads * kv_heads
        self.x, self.kv, self.logits, self.wide, self.narrow = (
            tensor(tokens, n, "bf16") for n in (hidden, kv_width, vocabulary, 2 * ffn, ffn)
        )
        self.ids, self.table = tensor(tokens, "i32"), tensor(self.sequence, hidden // heads // 2, "f32")
        self.gain, self.words = (hidden,), (vocabulary, hidden)
        #: Shapes of the weights of a layer.
        self.own = {
            "g1": self.gain,
            "wq": (hidden, hidden),
            "wk": (kv_width, hidden),
            "wv": (kv_width, hidden),
            "wo": (hidden, hidden),
            "g2": self.gain,
            "wu": (2 * ffn, hidden),
            "wd": (hidden, ffn),
        }
        #: (name, shape) of every weight of the model.
        self.weights = [
            ("embedding", self.words),
            *((f"l{i}.{name}", shape) for i in range(layers) for name, shape in self.own.items()),
            ("gain", self.gain),
            ("head", self.words),
        ]
        self.norm = f"{{epsilon = 1.0e-5 : f32}} : {self.x}, {whole(self.gain)}"

    def master(self, shape):
        """The type of a rank's part."""
        return tensor(*((shape[0] // self.ranks, *shape[1:]) if len(shape) == 2 else shape), "f32")

    def moment(self, shape):
        return self.master(shape).replace("f32", self.moments)

    def marks(self, shape):
        return self.split if len(shape) == 2 else ""

    def inputs(self):
        return [
            argument("ids", self.ids, self.split),
            argument("targets", self.ids, self.split),
            argument("cos", self.table),
            argument("sin", self.table),
        ]

    def op(self, line):
        self.lines.append(f"    {line}")

    def read(self, to, name, shape):
        """`to` is the whole weight in bf16."""
        mine = self.master(shape).replace("f32", "bf16")
        if self.ranks == 1 or len(shape) == 1:
            self.op(f"%{to} = arith.truncf %{name} : {self.master(shape)} to {mine}")
            return
        self.op(f"%{to}_own = arith.truncf %{name} : {self.master(shape)} to {mine}")
        self.op(f"%{to} = te.all_gather %{to}_own group 0 axis 0 : {mine} -> {whole(shape)}")

    def linear(self, to, value, name, types, more=""):
        weight = whole(self.own.get(name, self.words))
        self.op(f"%{to} = te.linear %{value}, %{name}_all{more} : {types[0]}, {weight} -> {types[1]}")

    def layer(self):
        x, kv, table = self.x, self.kv, self.table
        parameters = ", ".join(
            f"%{name}: {self.master(shape)}{f' {{{self.split[2:]}}}' if self.marks(shape) else ''}"
            for name, shape in self.own.items()
        )
        self.lines.append(f"  func.func private @layer(%x: {x}, %cos: {table}, %sin: {table}, {parameters}) -> {x} {{")
        for name, shape in self.own.items():
            self.read(f"{name}_all", name, shape)
        self.op(f"%n1 = te.rms_norm %x, %g1_all {self.norm}")
        self.linear("q0", "n1", "wq", (x, x))
        self.linear("k0", "n1", "wk", (x, kv))
        self.linear("v", "n1", "wv", (x, kv))
        self.op(f"%q = te.rope %q0, %cos, %sin {{heads = {self.heads} : i64}} : {x}, {table}")
        self.op(f"%k = te.rope %k0, %cos, %sin {{heads = {self.kv_heads} : i64}} : {kv}, {table}")
        self.op(
            f"%a = te.attention %q, %k, %v {{heads = {self.heads} : i64, kv_heads = {self.kv_heads} : i64, "
            f"sequence = {self.sequence} : i64, causal{self.attention}}} : {x}, {kv}"
        )
        self.linear("o", "a", "wo", (x, x))
        self.op(f"%r = arith.addf %x, %o : {x}")
        self.op(f"%n2 = te.rms_norm %r, %g2_all {self.norm}")
        self.linear("u", "n2", "wu", (x, self.wide))
        self.op(f"%h = te.activation <swiglu> %u : {self.wide} -> {self.narrow}")
        self.linear("d", "h", "wd", (self.narrow, x))
        self.op(f"%y = arith.addf %r, %d : {x}")
        self.op(f"return %y : {x}")
        self.lines += ["  }", ""]

    def loss(self):
        x, table = self.x, self.table
        parameters = [argument(name, self.master(shape), self.marks(shape)) for name, shape in self.weights]
        self.lines.append(f"  func.func private @loss({SEPARATOR.join(self.inputs() + parameters)}) -> tensor<f32> {{")
        self.read("embedding_all", "embedding", self.words)
        self.op(f"%x0 = te.embedding %ids, %embedding_all : {self.ids}, {whole(self.words)} -> {x}")
        types = ", ".join(self.master(shape) for shape in self.own.values())
        for i in range(self.layers):
            names = ", ".join(f"%l{i}_{name}" for name in self.own)
            self.op(
                f"%x{i + 1} = func.call @layer(%x{i}, %cos, %sin, {names}) : ({x}, {table}, {table}, {types}) -> {x}"
            )
        self.read("gain_all", "gain", self.gain)
        self.op(f"%n = te.rms_norm %x{self.layers}, %gain_all {self.norm}")
        self.read("head_all", "head", self.words)
        self.linear("logits", "n", "head", (x, self.logits), self.head)
        self.op(f"%loss = te.cross_entropy %logits, %targets : {self.logits}, {self.ids}")
        self.op("return %loss : tensor<f32>")
        self.lines += ["  }", ""]

    def gradients(self):
        """The loss, and a gradient of each weight."""
        given = [("%ids", self.ids), ("%targets", self.ids), ("%cos", self.table), ("%sin", self.table)]
        names = [name.replace(".", "_") for name, _ in self.weights]
        types = [self.master(shape) for _, shape in self.weights]
        operands = ", ".join([name for name, _ in given] + [f"%{name}" for name in names])
        wrt = ", ".join(str(len(given) + i) for i in range(len(self.weights)))
        scale = "1.0" if self.micro_batches == 1 else f"{1 / self.micro_batches:.9e}"
        self.op(f"%share = arith.constant dense<{scale}> : tensor<f32>")
        self.op(
            f"%loss{''.join(f', %{name}_grad' for name in names)}\n      = te.vjp @loss({operands})"
            f" cotangents(%share) wrt [{wrt}]\n      : ({', '.join([type for _, type in given] + types)}), (tensor<f32>)"
            f" -> ({', '.join(['tensor<f32>', *types])})"
        )

    def step(self):
        states, results = [], ['tensor<f32> {te.name = "loss"}']
        for name, shape in self.weights:
            for suffix, more in (("", ", te.weight"), (".m", ", te.init = 0.0 : f32"), (".v", ", te.init = 0.0 : f32")):
                type = self.moment(shape) if suffix else self.master(shape)
                states.append(argument(name + suffix, type, more + self.marks(shape)))
                results.append(f'{type} {{te.name = "{name}{suffix}"}}')
        scalars = [argument("lr", "tensor<f32>"), argument("step", "tensor<f32>")]
        summed = self.weights if self.skip else []
        if self.skip:
            scalars.append(argument("skip_optimizer", "tensor<f32>", ", te.init = 0.0 : f32"))
        results += [f'{self.master(shape)} {{te.name = "grad.{name}"}}' for name, shape in summed]
        self.lines.append(
            f"  func.func @step({SEPARATOR.join(self.inputs() + scalars + states)})\n"
            f"      -> ({SEPARATOR.join(results)}) {{"
        )
        self.gradients()
        returned, types = ["%loss"], ["tensor<f32>"]
        for seed, (weight, shape) in enumerate(self.weights):
            name, type, moment = weight.replace(".", "_"), self.master(shape), self.moment(shape)
            rounding = (
                f", seed = {seed} : i32}} : {type}, {type}, {moment}" if moment != type else f"}} : {type}, {type}"
            )
            after = [f"%{name}{suffix}_next" for suffix in ("", "_m", "_v")]
            decay = "0.1" if len(shape) == 2 else "0.0"
            self.op(
                f"{', '.join(after)} = te.adamw %{name}, %{name}_grad, %{name}_m, %{name}_v lr %lr step %step"
                f"{self.skip} {{weight_decay = {decay} : f32{rounding}"
            )
            returned += after
            types += [type, moment, moment]
        returned += [f"%{name.replace('.', '_')}_grad" for name, _ in summed]
        types += [self.master(shape) for _, shape in summed]
        self.op(f"return {', '.join(returned)}\n      : {', '.join(types)}")
        self.lines.append("  }")

    def text(self):
        groups = f'#te.group<id = 0, name = "dp", axis = "dp", size = {self.ranks}>'
        attributes = f" attributes {{te.groups = [{groups}]}}" if self.ranks > 1 else ""
        self.lines += [f"// {self.title}", "", f"module{attributes} {{"]
        self.layer()
        self.loss()
        self.step()
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"


if __name__ == "__main__":
    print(Writer(arguments()).text(), end="")
