#!/usr/bin/env python3
"""Writes the tables of docs/performance/tables.md from te-bench's JSON.

    bench_table.py          rewrites the text between the page's two markers
    bench_table.py --check  fails if the page differs from the JSON

One section for each docs/results/*.json that te-bench wrote, by name. Nothing
in it is typed by hand: those files are the only source.
"""

import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/performance/tables.md"
RESULTS = ROOT / "docs/results"
MARKED = re.compile(r"(<!-- results -->\n).*(<!-- end of results -->)", re.S)


def table(header, rows, right_from=1):
    marks = ["---" if i < right_from else "---:" for i in range(len(header))]
    lines = [header, marks] + rows
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def device(report):
    return (
        f"* machine: {report['device']}\n* backend: `{report['backend']}`\n"
        f"* data: {report['data']}\n* timing: {report['timing']}\n"
    )


def mlp(report):
    header = [
        "recipe",
        "override",
        "burst ms",
        "sustained ms",
        "x bf16 burst",
        "x bf16 sustained",
        "graph, sustained ms",
        "arena MiB",
        "launches",
        "host µs/launch",
        "same forward",
    ]
    return table(
        header,
        [
            [
                f"`{row['recipe']}`",
                f"`{row['backward_override']}`",
                f"{row['burst_ms']:.3f}",
                f"{row['sustained_ms']:.3f}",
                f"{row['speedup_burst']:.2f}",
                f"{row['speedup_sustained']:.2f}",
                f"{row['graph_sustained_ms']:.3f}",
                f"{row['arena_bytes'] / 2**20:.0f}",
                str(row["launches"]),
                f"{row['host_us_per_launch']:.2f}",
                "yes" if row["forward_same_as_no_override"] else "NO",
            ]
            for row in report["mlp_block"]
        ],
        right_from=2,
    )


def bytes_moved(report):
    """Kernels that are limited by memory."""
    header = ["kernel", "burst µs", "sustained µs", "MB moved", "TB/s", "% of a copy"]
    return table(
        header,
        [
            [
                row["name"],
                f"{row['burst_us']:.1f}",
                f"{row['sustained_us']:.1f}",
                f"{row['bytes'] / 1e6:.1f}",
                f"{row['bytes'] / row['sustained_us'] * 1e-6:.2f}",
                f"{row['fraction_of_copy'] * 100:.0f}",
            ]
            for row in report["kernels"]
            if "bytes" in row
        ],
    )


def gemms(report):
    header = ["GEMM", "burst µs", "sustained µs", "TFLOPS burst", "TFLOPS sustained"]
    return table(
        header,
        [
            [
                row["name"],
                f"{row['burst_us']:.1f}",
                f"{row['sustained_us']:.1f}",
                f"{row['tflops_burst']:.0f}",
                f"{row['tflops_sustained']:.0f}",
            ]
            for row in report["kernels"]
            if "bytes" not in row
        ],
    )


def grouped(report):
    header = ["GEMM", "burst µs", "sustained µs", "TFLOPS burst", "TFLOPS sustained"]
    return table(
        header,
        [
            [
                row["name"],
                f"{row['burst_us']:.1f}",
                f"{row['sustained_us']:.1f}",
                *(f"{row[key]:.0f}" if row[key] else "" for key in ("tflops_burst", "tflops_sustained")),
            ]
            for row in report["grouped"]
        ],
    )


def memory(report):
    header = [
        "recipe",
        "transposes",
        "planned MiB",
        "device MiB",
        "arguments, MiB",
        "launches",
        "burst ms",
        "sustained ms",
        "same results",
    ]
    mib = lambda count: f"{count / 2**20:.1f}"
    return table(
        header,
        [
            [
                f"`{row['recipe']}`",
                f"`{row['transpose_policy']}`",
                mib(row["plan_bytes"]),
                mib(row["device_bytes"]),
                mib(row["argument_bytes"]),
                str(row["launches"]),
                f"{row['burst_ms']:.1f}",
                f"{row['sustained_ms']:.1f}",
                "yes" if row["results_same_as_eager"] else "NO",
            ]
            for row in report["memory"]
        ],
        right_from=2,
    )


def moe(report):
    header = [
        "recipe",
        "step",
        "transposes",
        "micro-batch",
        "burst ms",
        "sustained ms",
        "host µs",
        "launches",
        "arena MiB",
    ]
    return table(
        header,
        [
            [
                f"`{row['recipe']}`",
                row["step"],
                f"`{row.get('transpose_policy', 'on-demand')}`",
                row["micro_batch"],
                f"{row['graph_burst_ms']:.3f}",
                f"{row['graph_sustained_ms']:.3f}",
                f"{row['graph_host_us']:.1f}",
                str(row["launches"]),
                f"{row['arena_bytes'] / 2**20:.1f}",
            ]
            for row in report["moe"]
        ],
        right_from=4,
    )


def parallel(report):
    header = [
        "recipe",
        "ranks",
        "overlap",
        "burst ms",
        "sustained ms",
        "x one rank",
        "collectives only, ms",
        "share",
        "hidden, ms",
        "share",
        "amax reductions",
        "ms",
        "share",
        "gathered MiB a rank",
    ]
    return table(
        header,
        [
            [
                f"`{row['recipe']}`",
                str(row["ranks"]),
                row.get("overlap", "never"),
                f"{row['graph_burst_ms']:.2f}",
                f"{row['graph_sustained_ms']:.2f}",
                f"{row['speedup_over_one_rank']:.2f}",
                f"{row['collectives_ms']:.2f}",
                f"{row['collectives_share']:.1%}",
                f"{row.get('hidden_ms', 0):.2f}",
                f"{row.get('hidden_share', 0):.0%}",
                str(row["num_amax_reductions"]),
                f"{row['amax_ms']:.3f}",
                f"{row['amax_share']:.2%}",
                f"{row['gathered_bytes_received'] / 2**20:.0f}",
            ]
            for row in report["parallel"]
        ],
    )


def exchanges(report):
    header = [
        "payload",
        "ranks",
        "experts",
        "rows of each",
        "columns",
        "burst ms",
        "sustained ms",
        "x bf16",
        "exchanged MiB a rank",
    ]
    return table(
        header,
        [
            [
                row["payload"],
                str(row["ranks"]),
                str(row["experts"]),
                str(row["capacity"]),
                str(row["hidden"]),
                f"{row['graph_burst_ms']:.3f}",
                f"{row['graph_sustained_ms']:.3f}",
                f"{row['speedup_over_bf16']:.2f}",
                f"{row['exchanged_bytes'] / 2**20:.1f}",
            ]
            for row in report["exchanges"]
        ],
    )


def model(report):
    header = [
        "recipe",
        "ranks",
        "overlap",
        "weights of a rank, M",
        "tokens of a rank",
        "burst ms",
        "sustained ms",
        "tokens/s a rank",
        "TFLOPS a rank",
        "x bf16",
        "arguments MiB",
        "arena MiB",
        "workspace MiB",
        "launches",
    ]
    mib = lambda count: f"{count / 2**20:.0f}"
    plain = {row["overlap"]: row["graph_sustained_ms"] for row in report["model"] if row["recipe"] == "high_precision"}
    return table(
        header,
        [
            [
                f"`{row['recipe']}`",
                str(row["ranks"]),
                row["overlap"],
                f"{row['weight_elements'] / 1e6:.0f}" if "weight_elements" in row else "",
                str(row["tokens"]),
                f"{row['graph_burst_ms']:.1f}",
                f"{row['graph_sustained_ms']:.1f}",
                f"{row['tokens_per_second']:.0f}",
                f"{row['tflops']:.0f}",
                f"{plain[row['overlap']] / row['graph_sustained_ms']:.2f}" if plain else "",
                mib(row["argument_bytes"]),
                mib(row["arena_bytes"]),
                mib(row["workspace_bytes"]),
                str(row["launches"]),
            ]
            for row in report["model"]
        ],
    )


def model_kernels(report):
    """Milliseconds of a step by kernel, launches one after another; those of a millisecond or more."""
    rows = [row for row in report["model"] if row["overlap"] == "never"]
    sums = {}
    for column, row in enumerate(rows):
        for kernel in row["kernels"]:
            name = kernel["kernel"].split()[0]
            sums.setdefault(name, [0.0] * len(rows))[column] += kernel["ms"]
    names = [name for name in sorted(sums, key=lambda name: -max(sums[name])) if max(sums[name]) >= 1]
    return table(
        ["kernel, ms", *(f"`{row['recipe']}`" for row in rows)],
        [[f"`{name}`", *(f"{ms:.1f}" if ms else "" for ms in sums[name])] for name in names],
    )


def section(path):
    """The tables of one file; empty for JSON that te-bench did not write."""
    report = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(report, dict) or not {"device", "timing"} <= report.keys():
        return ""
    text = f"### {path.stem}\n\n{device(report)}\n"
    text += f"Source: [`results/{path.name}`](../results/{path.name})\n\n"
    if "mlp_block" in report:
        text += "The MLP block, forward and backward:\n\n" + mlp(report) + "\n"
    if "kernels" in report:
        text += "Kernels that memory limits:\n\n" + bytes_moved(report) + "\n"
        text += "Matrix products and attention:\n\n" + gemms(report) + "\n"
    if "grouped" in report:
        text += "GEMMs of groups of rows; TFLOPS count the rows that the groups have:\n\n" + grouped(report) + "\n"
    if "moe" in report:
        text += "64 experts of 512 rows, 2048 to 1536, forward and backward as one graph:\n\n" + moe(report) + "\n"
    if "parallel" in report:
        text += (
            "A Llama-8B layer of 8192 tokens, tensor and sequence parallel, forward and backward as one graph:\n\n"
            + parallel(report)
            + "\n"
        )
    if "exchanges" in report:
        text += "Rows of experts, to their ranks and back, as one graph:\n\n" + exchanges(report) + "\n"
    if "model" in report:
        batches = max(row.get("micro_batches", 1) for row in report["model"])
        period = f", with {batches} micro-batches for each update" if batches > 1 else ""
        text += (
            f"A whole training step of a Llama, forward, backward and AdamW on f32 masters, as one graph{period}:\n\n"
            + model(report)
            + "\n"
        )
        if all("kernels" in row for row in report["model"]):
            text += "Where the time goes, launches one after another:\n\n" + model_kernels(report) + "\n"
    if "memory" in report:
        text += "Eight layers over four micro-batches, forward and backward:\n\n" + memory(report) + "\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when the page is out of date")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    sections = [text for path in sorted(RESULTS.glob("*.json")) if (text := section(path))]
    body = "\n" + ("".join(sections) or "There is no file of te-bench in `docs/results`.\n\n")
    filled, count = MARKED.subn(lambda match: match[1] + body + match[2], page)
    if count != 1:
        print(f"expected docs/performance/tables.md to have one pair of markers, but got {count}")
        return 1
    if options.check and filled != page:
        print("docs/performance/tables.md differs from docs/results: run scripts/bench_table.py and commit")
        return 1
    if not options.check:
        PAGE.write_text(filled, encoding="utf-8")
    print(f"docs/performance/tables.md shows {len(sections)} files of docs/results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
