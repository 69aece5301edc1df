#!/usr/bin/env python3
"""Writes the training step of a small Llama, and batches of a text for it.

    write_llama.py --text=text.txt --steps=40

makes llama.mlir, a model of bytes with grouped-query attention and AdamW, whose parameters are called as in a Hugging Face
checkpoint (gate_proj and up_proj are one matrix, gate_up_proj), and batches.npz with a batch for every step and the
tables of the rotary embedding. Nothing in llama.mlir says how it is quantised.

With --pack, a batch has as many lines of the text as fit, one behind the other, and each attends to itself only. Where
they begin is an input of the step, as are the positions in them, and one compiled step takes them all.
"""

import argparse
import pathlib

import numpy as np

VOCABULARY = 256
IGNORED = -100  # The target of padding.


def most_documents(options):
    """The lines that a packed batch may have."""
    return max(1, options.batch * options.sequence // 8)


def tensor(shape, kind):
    return f"tensor<{'x'.join(map(str, [*shape, kind]))}>"


def parameters(options):
    """(name, shape, initial value or None for a random matrix) in order."""
    h, kv = options.hidden, options.hidden * options.kv_heads // options.heads
    rows = [("model.embed_tokens.weight", (VOCABULARY, h), None)]
    for i in range(options.layers):
        layer = f"model.layers.{i}"
        rows += [
            (f"{layer}.input_layernorm.weight", (h,), 1.0),
            (f"{layer}.self_attn.q_proj.weight", (h, h), None),
            (f"{layer}.self_attn.k_proj.weight", (kv, h), None),
            (f"{layer}.self_attn.v_proj.weight", (kv, h), None),
            (f"{layer}.self_attn.o_proj.weight", (h, h), None),
            (f"{layer}.post_attention_layernorm.weight", (h,), 1.0),
            (f"{layer}.mlp.gate_up_proj.weight", (2 * options.ffn, h), None),
            (f"{layer}.mlp.down_proj.weight", (h, options.ffn), None),
        ]
    return rows + [("model.norm.weight", (h,), 1.0), ("lm_head.weight", (VOCABULARY, h), None)]


def forward(options, rows):
    """The loss of one batch."""
    tokens, h, ffn = options.batch * options.sequence, options.hidden, options.ffn
    kv = h * options.kv_heads // options.heads
    x, wide = tensor((tokens, h), "bf16"), tensor((tokens, 2 * ffn), "bf16")
    narrow, keys = tensor((tokens, ffn), "bf16"), tensor((tokens, kv), "bf16")
    ids, table = tensor((tokens,), "i32"), tensor((options.sequence, h // options.heads // 2), "f32")
    documents = tensor((most_documents(options) + 1,), "i32")
    places, bounds = (
        (f" positions %positions : {ids}", f" documents %documents : {documents}") if options.pack else ("", "")
    )
    shape = {name: shape for name, shape, _ in rows}
    at = {name: f"%b{i}" for i, (name, _, _) in enumerate(rows)}
    lines = [
        f"    %b{i} = arith.truncf %p{i} : {tensor(s, 'f32')} to {tensor(s, 'bf16')}"
        for i, (_, s, _) in enumerate(rows)
    ]

    def add(result, op, operands, types):
        lines.append(f"    %{result} = {op} {operands} : {types}")
        return f"%{result}"

    def linear(result, operand, name, inner, outer):
        return add(result, "te.linear", f"{operand}, {at[name]}", f"{inner}, {tensor(shape[name], 'bf16')} -> {outer}")

    def norm(result, operand, name):
        return add(
            result,
            "te.rms_norm",
            f"{operand}, {at[name]} {{epsilon = 1.0e-5 : f32}}",
            f"{x}, {tensor(shape[name], 'bf16')}",
        )

    state = add(
        "x",
        "te.embedding",
        f"%tokens, {at['model.embed_tokens.weight']}",
        f"{ids}, {tensor((VOCABULARY, h), 'bf16')} -> {x}",
    )
    for i in range(options.layers):
        layer, n = f"model.layers.{i}", f"_{i}"
        normed = norm("n" + n, state, f"{layer}.input_layernorm.weight")
        q = linear("q" + n, normed, f"{layer}.self_attn.q_proj.weight", x, x)
        k = linear("k" + n, normed, f"{layer}.self_attn.k_proj.weight", x, keys)
        v = linear("v" + n, normed, f"{layer}.self_attn.v_proj.weight", x, keys)
        q = add("rq" + n, "te.rope", f"{q}, %cos, %sin{places} {{heads = {options.heads} : i64}}", f"{x}, {table}")
        k = add(
            "rk" + n, "te.rope", f"{k}, %cos, %sin{places} {{heads = {options.kv_heads} : i64}}", f"{keys}, {table}"
        )
        a = add(
            "a" + n,
            "te.attention",
            f"{q}, {k}, {v}{bounds} {{heads = {options.heads} : i64, kv_heads = "
            f"{options.kv_heads} : i64, sequence = {options.sequence} : i64, causal}}",
            f"{x}, {keys}",
        )
        o = linear("o" + n, a, f"{layer}.self_attn.o_proj.weight", x, x)
        state = add("r" + n, "arith.addf", f"{state}, {o}", x)
        normed = norm("m" + n, state, f"{layer}.post_attention_layernorm.weight")
        u = linear("u" + n, normed, f"{layer}.mlp.gate_up_proj.weight", x, wide)
        g = add("g" + n, "te.activation <swiglu>", u, f"{wide} -> {narrow}")
        d = linear("d" + n, g, f"{layer}.mlp.down_proj.weight", narrow, x)
        state = add("y" + n, "arith.addf", f"{state}, {d}", x)
    last = norm("last", state, "model.norm.weight")
    logits = linear("logits", last, "lm_head.weight", x, tensor((tokens, VOCABULARY), "bf16"))
    add("loss", "te.cross_entropy", f"{logits}, %targets", f"{tensor((tokens, VOCABULARY), 'bf16')}, {ids}")
    inputs = [("tokens", ids), ("targets", ids), ("cos", table), ("sin", table)]
    if options.pack:
        inputs += [("documents", documents), ("positions", ids)]
    return inputs, lines


def module(options):
    rows = parameters(options)
    inputs, body = forward(options, rows)
    types = [tensor(shape, "f32") for _, shape, _ in rows]
    number = "tensor<f32>"
    text = [
        "// A small Llama and its training step, written by write_llama.py.",
        "module {",
        "  // The mean loss in nats a byte.",
        "  func.func private @loss("
        + ", ".join([f"%{name}: {kind}" for name, kind in inputs] + [f"%p{i}: {kind}" for i, kind in enumerate(types)])
        + f") -> {number} {{",
        *body,
        f"    return %loss : {number}",
        "  }",
        "",
    ]
    arguments = [f'%{name}: {kind} {{te.name = "{name}"}}' for name, kind in inputs]
    arguments.append(f'%step: {number} {{te.name = "step", te.init = 1.0 : f32}}')
    results = [f'{number} {{te.name = "loss"}}', f'{number} {{te.name = "step"}}']
    updates, next_values = [], []
    for i, ((name, shape, init), kind) in enumerate(zip(rows, types)):
        start = "" if init is None else f", te.init = {init} : f32"
        arguments.append(f'%p{i}: {kind} {{te.name = "{name}", te.weight{start}}}')
        arguments += [f'%{m}{i}: {kind} {{te.name = "{name}.{m}", te.init = 0.0 : f32}}' for m in "mv"]
        results += [f'{kind} {{te.name = "{name}{part}"}}' for part in ("", ".m", ".v")]
        decay = 0.01 if len(shape) > 1 else 0.0
        updates.append(
            f"    %pn{i}, %mn{i}, %vn{i} = te.adamw %p{i}, %l#{i + 1}, %m{i}, %v{i} lr %lr step %step "
            f"{{weight_decay = {decay} : f32}} : {kind}, {kind}"
        )
        next_values += [f"%pn{i}", f"%mn{i}", f"%vn{i}"]
    operands = ", ".join([f"%{name}" for name, _ in inputs] + [f"%p{i}" for i in range(len(rows))])
    kinds = ", ".join([kind for _, kind in inputs] + types)
    wrt = ", ".join(str(len(inputs) + i) for i in range(len(rows)))
    triple = ", ".join(kind for kind in types for _ in range(3))
    separator = ",\n                        "
    text += [
        "  // A result named like an argument is its next value.",
        f"  func.func @train_step({separator.join(arguments)})",
        f"      -> ({separator.join(results)}) {{",
        f"    %one = arith.constant dense<1.0> : {number}",
        f"    %lr = arith.constant dense<{options.lr:e}> : {number}",
        f"    %l:{len(rows) + 1} = te.vjp @loss({operands}) cotangents(%one) wrt [{wrt}] : ({kinds}), ({number})"
        f" -> ({number}, {', '.join(types)})",
        *updates,
        f"    %later = arith.addf %step, %one : {number}",
        f"    return %l#0, %later, {', '.join(next_values)} : {number}, {number}, {triple}",
        "  }",
        "}",
    ]
    return "\n".join(text) + "\n"


def windows(options, rng, text):
    """Windows of the text, each `sequence` bytes and the byte behind each."""
    starts = rng.integers(0, len(text) - options.sequence, (options.steps, options.batch))
    bytes_ = text[starts[..., None] + np.arange(options.sequence + 1)].astype(np.int32)
    return {
        "tokens.steps": bytes_[..., :-1].reshape(options.steps, -1),
        "targets.steps": bytes_[..., 1:].reshape(options.steps, -1),
    }


def lines_of(options, text):
    """The lines of the text; what is longer than `sequence` goes on as another line, from the last byte on."""
    ends = np.flatnonzero(text == ord("\n")) + 1
    lines = np.split(text.astype(np.int32), ends)
    cut = [
        line[start : start + options.sequence + 1] for line in lines for start in range(0, len(line), options.sequence)
    ]
    return [line for line in cut if len(line) > 1]


def packed(options, rng, text):
    """As many lines as fit in a batch, and where they begin; documents that are not there are empty."""
    lines, rows, most = lines_of(options, text), options.batch * options.sequence, most_documents(options)
    arrays = {
        "tokens.steps": np.zeros((options.steps, rows), np.int32),
        "targets.steps": np.full((options.steps, rows), IGNORED, np.int32),
        "positions.steps": np.zeros((options.steps, rows), np.int32),
        "documents.steps": np.zeros((options.steps, most + 1), np.int32),
    }
    for tokens, targets, positions, documents in zip(*arrays.values()):
        end = 0
        for d in range(most):
            line = lines[rng.integers(len(lines))]
            begin, end = end, end + len(line) - 1
            if end > rows:
                documents[d + 1 :] = begin
                break
            tokens[begin:end], targets[begin:end] = line[:-1], line[1:]
            positions[begin:end] = np.arange(end - begin)
            documents[d + 1 :] = end
    return arrays


def batches(options, text):
    rng = np.random.default_rng(options.seed)
    rotary = options.hidden // options.heads // 2
    angles = np.arange(options.sequence)[:, None] * 10000.0 ** (-np.arange(rotary) / rotary)
    return {
        **(packed if options.pack else windows)(options, rng, text),
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=pathlib.Path, required=True, help="is read as bytes")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), help="folder to write to")
    for name, value in (
        ("steps", 100),
        ("seed", 0),
        ("layers", 2),
        ("hidden", 128),
        ("heads", 4),
        ("kv-heads", 2),
        ("ffn", 256),
        ("batch", 4),
        ("sequence", 64),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--pack", action="store_true", help="batches of whole lines, packed")
    parser.add_argument("--lr", type=float, default=3e-3)
    options = parser.parse_args()
    if options.hidden % options.heads or options.heads % options.kv_heads or options.hidden // options.heads % 2:
        parser.error("expected --hidden to be even multiples of --heads, and --heads multiples of --kv-heads")
    text = np.frombuffer(options.text.read_bytes(), np.uint8)
    if len(text) <= options.sequence + 1:
        parser.error(f"expected more than {options.sequence + 1} bytes of text, but got {len(text)}")
    (options.output / "llama.mlir").write_text(module(options))
    np.savez(options.output / "batches.npz", **batches(options, text))
    count = sum(int(np.prod(shape)) for _, shape, _ in parameters(options))
    print(
        f"llama.mlir: {options.layers} layers, {count} parameters; batches.npz: {options.steps} batches of "
        f"{options.batch * options.sequence} bytes"
    )


if __name__ == "__main__":
    main()
