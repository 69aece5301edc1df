#!/usr/bin/env python3
"""Writes the table and the plot of docs/performance/results.md from docs/results.

    results_page.py          rewrites the text between the page's two markers, and speedups.svg
    results_page.py --check  fails where either differs from the JSON

Every number is read from a file that a benchmark wrote. What is written here is
what each row measures, and of which commit.
"""

import argparse
import json
import pathlib
import re
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/performance/results.md"
PLOT = ROOT / "docs/performance/speedups.svg"
RESULTS = ROOT / "docs/results"
MARKED = re.compile(r"(<!-- results -->\n).*(<!-- end of results -->)", re.DOTALL)

# The commit that each file was measured with, and its date.
MEASURED = {
    "h200-mlp": ("7e198c10", "2026-11-28"),
    "h200-grouped": ("e38c5ff", "2026-11-22"),
    "h200-model-8-layers-1-gpu": ("4b770da9", "2026-11-29"),
    "h200-model-8-layers": ("28187d8", "2026-11-22"),
    "h200-model-32-layers": ("28187d8", "2026-11-22"),
    "h200-moe": ("b8fc9de", "2026-11-21"),
    "h200-parallel": ("0fccedc", "2026-11-22"),
    "h200-torch-llama-speed": ("11e7665", "2026-11-27"),
    "h200-torch-qwen3-speed": ("cf764dfe", "2026-11-27"),
    "h200-torch-experts": ("ea61b0f0", "2026-11-30"),
    "h200-torch-recompute-speed": ("3e9cbe37", "2026-11-27"),
    "h200-torch-gpt2-speed": ("31cdaa73", "2026-11-28"),
    "h200-torch-update": ("ee1f0646", "2026-11-29"),
    "h200-host-cost": ("901c88e", "2026-11-22"),
}
NAMES = {
    "float8_current_scaling": "current scaling",
    "float8_block_scaling": "block scaling",
    "delayed_scaling": "delayed scaling",
}


@dataclass
class Row:
    what: str
    result: str
    against: str
    file: str

    def cells(self):
        commit, date = MEASURED[self.file]
        return [self.what, self.result, self.against, f"{date}, `{commit}`, [data](../results/{self.file}.json)"]


@dataclass
class Bar:
    label: str
    factor: float


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def only(rows, **fields):
    found = [row for row in rows if all(row[key] == value for key, value in fields.items())]
    assert len(found) == 1, f"expected one row with {fields}, but got {len(found)}"
    return found[0]


def pair(value):
    """`value(recipe)` of current and of block scaling."""
    return " and ".join(
        f"{value(recipe)} ({NAMES[recipe]})" for recipe in ("float8_current_scaling", "float8_block_scaling")
    )


def rows_of_pytorch():
    torch = read("h200-torch-llama-speed")["rows"]
    recipes = ("delayed", "current", "block")
    row_of = lambda name: only(torch, row=name)
    each = lambda value: ", ".join(f"{value(name)} ({name})" for name in recipes)
    peer = row_of("torch")
    factors = {name: peer["ms"] / row_of(f"te-{name}")["ms"] for name in recipes}
    yield (
        Row(
            "transformers' Llama from PyTorch, 4 layers of Llama-8B's size, 128,256 words, 8192 tokens: forward and backward",
            each(lambda name: f"**{factors[name]:.2f}x**"),
            f"`torch.compile` in bf16, with causal flash attention ({peer['ms']:.1f} ms)",
            "h200-torch-llama-speed",
        ),
        Bar("transformers' Llama, against torch.compile", factors["current"]),
    )
    yield (
        Row(
            "The same",
            each(lambda name: f"**{row_of(f'transformer-engine-{name}')['ms'] / row_of(f'te-{name}')['ms']:.2f}x**"),
            "TransformerEngine 2.20.2 with the same recipe, fused weights and its fused cross entropy",
            "h200-torch-llama-speed",
        ),
        None,
    )
    memory = lambda name: row_of(name)["device_mib"]
    yield (
        Row(
            "The same: GPU memory in use after a step, without the weights",
            f"**{memory('te-current') / memory('torch'):.2f}x**, "
            f"**{memory('te-current') / memory('transformer-engine-current'):.2f}x** (current)",
            "`torch.compile` in bf16, TransformerEngine",
            "h200-torch-llama-speed",
        ),
        None,
    )


def rows_of_whole_steps():
    """Forward, backward, clipping and AdamW from PyTorch."""
    rows = read("h200-torch-update")["rows"]
    base = only(rows, row="torch")
    names = ("delayed", "current", "block")
    factor = lambda key, name: only(rows, row=f"te-{name}")[key] / base[key]
    times = ", ".join(f"**{1 / factor('ms', name):.2f}x** ({name})" for name in names)
    yield (
        Row(
            "The same Llama, whole steps: gradients are clipped, and AdamW with moments of bf16 updates 1.9 billion parameters",
            f"{times}; memory **{factor('device_mib', 'current'):.2f}x** (current)",
            f"`torch.compile` in bf16, `clip_grad_norm_` and `AdamW(fused=True)` ({base['ms']:.1f} ms, "
            f"{base['device_mib']:,.0f} MiB)",
            "h200-torch-update",
        ),
        None,
    )


def rows_of_more_pytorch():
    """Other models from PyTorch: time and memory beside torch.compile's."""
    for what, file, peer in (
        (
            "transformers' Qwen 3 from PyTorch, 4 layers of Qwen3-8B's size, 151,936 words, 8192 tokens",
            "h200-torch-qwen3-speed",
            "`torch.compile` in bf16",
        ),
        (
            "transformers' Qwen 3 MoE from PyTorch, 4 layers of 128 experts of Qwen3 30B-A3B's size, 8192 tokens",
            "h200-torch-experts",
            "`torch.compile` in bf16",
        ),
        (
            "transformers' Llama from PyTorch, 16 layers of Llama-8B's size, activations computed again in the backward",
            "h200-torch-recompute-speed",
            "`torch.compile` in bf16 with a checkpoint for each layer",
        ),
        (
            "transformers' GPT-2 from PyTorch, 12 layers of GPT-2 XL's size, 50,257 words, 8 sequences of 1024 tokens",
            "h200-torch-gpt2-speed",
            "`torch.compile` in bf16",
        ),
    ):
        rows = read(file)["rows"]
        base = only(rows, row="torch")
        measured = {row["row"] for row in rows}
        names = [name for name in ("delayed", "current", "block") if f"te-{name}" in measured]
        factor = lambda key, name: only(rows, row=f"te-{name}")[key] / base[key]
        times = ", ".join(f"**{1 / factor('ms', name):.2f}x** ({name})" for name in names)
        memory = f"memory **{factor('device_mib', 'current'):.2f}x** (current)"
        against = f"{peer}, with causal flash attention ({base['ms']:.1f} ms, {base['device_mib']:,.0f} MiB)"
        yield Row(what, f"{times}; {memory}", against, file), None


def rows_and_bars():
    yield from rows_of_pytorch()
    yield from rows_of_whole_steps()
    yield from rows_of_more_pytorch()
    step = read("h200-model-8-layers-1-gpu")["model"]
    bf16 = only(step, recipe="high_precision")
    factor = lambda rows, base, recipe, **more: (
        base["graph_sustained_ms"] / only(rows, recipe=recipe, **more)["graph_sustained_ms"]
    )
    yield (
        Row(
            "A whole training step on one GPU: Llama, 8 layers, 2.8 billion parameters, 8192 tokens, AdamW",
            pair(lambda recipe: f"**{factor(step, bf16, recipe):.2f}x**"),
            f"te in bf16 ({bf16['graph_sustained_ms']:.0f} ms)",
            "h200-model-8-layers-1-gpu",
        ),
        Bar("training step, 8 layers, current scaling", factor(step, bf16, "float8_current_scaling")),
    )
    arena = lambda recipe: f"**{only(step, recipe=recipe)['arena_bytes'] / bf16['arena_bytes']:.2f}x**"
    yield (
        Row(
            "The same: planned memory of all temporary values (the arena)",
            pair(arena),
            f"te in bf16 ({bf16['arena_bytes'] / 2**30:.1f} GiB)",
            "h200-model-8-layers-1-gpu",
        ),
        None,
    )
    four = read("h200-model-8-layers")["model"]
    base = only(four, recipe="high_precision", overlap="auto")
    yield (
        Row(
            "The same step over four GPUs, every matrix sharded (FSDP), 8192 tokens each",
            pair(lambda recipe: f"**{factor(four, base, recipe, overlap='auto'):.2f}x**"),
            f"te in bf16 ({base['tokens_per_second']:,.0f} tokens/s a GPU)",
            "h200-model-8-layers",
        ),
        Bar("training step over 4 GPUs, current scaling", factor(four, base, "float8_current_scaling", overlap="auto")),
    )
    whole = read("h200-model-32-layers")["model"]
    rate = lambda recipe: f"**{only(whole, recipe=recipe, overlap='auto')['tokens_per_second']:,.0f} tokens/s** a GPU"
    yield (
        Row(
            "Llama-8B, all 32 layers, sharded over four GPUs, one sequence of 8192 tokens each",
            pair(rate),
            "no baseline measured",
            "h200-model-32-layers",
        ),
        None,
    )
    mlp = read("h200-mlp")["mlp_block"]
    speed = lambda recipe: only(mlp, recipe=recipe, backward_override="none")["speedup_sustained"]
    base = only(mlp, recipe="high_precision", backward_override="none")
    yield (
        Row(
            "MLP block of Llama-8B, 8192 tokens, forward and backward, weights cast in every step",
            pair(lambda recipe: f"**{speed(recipe):.2f}x**"),
            f"te in bf16 ({base['sustained_ms']:.1f} ms)",
            "h200-mlp",
        ),
        (
            Bar("MLP block, current scaling", speed("float8_current_scaling")),
            Bar("MLP block, block scaling", speed("float8_block_scaling")),
        ),
    )
    grouped = read("h200-grouped")["grouped"]
    tflops = lambda kind: only(grouped, name=f"{kind} 8x4096 7168->4096 even")["tflops_burst"]
    yield (
        Row(
            "GEMM of 8 experts of 4096 rows, forward, block scaling",
            f"**{tflops('grouped block fprop'):.0f} TFLOPS** (burst)",
            f"one launch for each expert: {tflops('loop of block fprop (one matrix each)'):.0f}; in bf16: {tflops('grouped bf16 fprop'):.0f}",
            "h200-grouped",
        ),
        Bar("GEMM of 8 experts, block scaling", tflops("grouped block fprop") / tflops("grouped bf16 fprop")),
    )
    parallel = read("h200-parallel")["parallel"]
    at = lambda recipe, ranks, overlap: only(parallel, recipe=recipe, ranks=ranks, overlap=overlap)[
        "graph_sustained_ms"
    ]
    scaled = lambda recipe, ranks: at(recipe, 1, "never") / at(recipe, ranks, "auto")
    yield (
        Row(
            "A Llama-8B layer with tensor and sequence parallelism over 2, 4 and 8 GPUs, current scaling",
            ", ".join(f"**{scaled('float8_current_scaling', ranks):.2f}x**" for ranks in (2, 4, 8)),
            f"the same layer on one GPU ({at('float8_current_scaling', 1, 'never'):.1f} ms)",
            "h200-parallel",
        ),
        None,
    )
    cost = read("h200-host-cost")["rows"]
    yield (
        Row(
            "Host time of a compiled forward and backward from Python (36 tensors), beyond the launches",
            f"**{cost['step']['beyond_us']:.0f} µs**",
            "no baseline measured",
            "h200-host-cost",
        ),
        None,
    )


def page_text(rows):
    header = ["what", "result", "against", "measured"]
    lines = [header, ["---"] * 4] + [row.cells() for row in rows]
    return (
        "\n" + "".join("| " + " | ".join(line) + " |\n" for line in lines) + "\n![Speed against bf16](speedups.svg)\n\n"
    )


def plot_text(bars):
    """Horizontal bars, with the factor at the end of each and a line at 1."""
    height, left, unit = 34, 290, 170
    full = left + round(unit * max(bar.factor for bar in bars)) + 60
    bottom = 20 + height * len(bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full} {bottom + 24}" width="{full}" font-family="sans-serif" font-size="13">',
        "<title>How many times as fast as in bf16, on NVIDIA H200s</title>",
        f'<rect width="{full}" height="{bottom + 24}" fill="#ffffff"/>',
    ]
    for index, bar in enumerate(bars):
        y = 14 + index * height
        width = round(unit * bar.factor)
        parts += [
            f'<text x="{left - 8}" y="{y + 15}" text-anchor="end" fill="#222222">{bar.label}</text>',
            f'<rect x="{left}" y="{y}" width="{width}" height="22" fill="#3f51b5"/>',
            f'<text x="{left + width + 6}" y="{y + 15}" fill="#222222">{bar.factor:.2f}x</text>',
        ]
    parts += [
        f'<line x1="{left + unit}" x2="{left + unit}" y1="6" y2="{bottom}" stroke="#e65100" stroke-dasharray="4 3"/>',
        f'<text x="{left + unit}" y="{bottom + 16}" text-anchor="middle" fill="#e65100">bf16</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail when the page or the plot is out of date"
    )
    options = parser.parse_args()
    found = list(rows_and_bars())
    bars = [bar for _, some in found if some for bar in (some if isinstance(some, tuple) else (some,))]
    page = PAGE.read_text(encoding="utf-8")
    filled, count = MARKED.subn(lambda match: match[1] + page_text([row for row, _ in found]) + match[2], page)
    if count != 1:
        print(f"expected {PAGE.relative_to(ROOT)} to have one pair of markers, but got {count}")
        return 1
    for path, text in ((PAGE, filled), (PLOT, plot_text(bars))):
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} differs from docs/results: run scripts/results_page.py and commit")
            return 1
    print(f"{PAGE.relative_to(ROOT)} shows {len(found)} results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
