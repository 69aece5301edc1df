#!/usr/bin/env python3
"""Writes the table of docs/guides/memory.md from the compiler's memory report.

    saved_bytes.py          rewrites the text between the page's two markers
    saved_bytes.py --check  fails if the page differs from what te-opt reports

A norm and a linear layer are compiled under every recipe and backward override; what the layer saves of its input x and its
weight w for the backward is read off the buffers with the cause "residual". Needs te-opt in PATH, or --te-opt.
"""

import json
import re
import subprocess
import sys

import memory_page

M, N, K = 1024, 2048, 4096
LAYER = f"""
func.func @layer(%x: tensor<{M}x{K}xbf16> {{te.name = "x"}}, %gamma: tensor<{K}xbf16>,
                 %w: tensor<{N}x{K}xbf16> {{te.name = "w", te.weight}}) -> tensor<{M}x{N}xbf16> {{
  %n = te.rms_norm %x, %gamma : tensor<{M}x{K}xbf16>, tensor<{K}xbf16>
  %y = te.linear %n, %w : tensor<{M}x{K}xbf16>, tensor<{N}x{K}xbf16> -> tensor<{M}x{N}xbf16>
  return %y : tensor<{M}x{N}xbf16>
}}
"""
MODES = ("none", "high_precision", "dequantized")
#: (name of the row, recipe as the option takes it, its overrides)
ROWS = [("high_precision", "high_precision", ("none",)), ("delayed_scaling", "delayed_scaling", ("none",))]
ROWS += [
    (name, name, MODES)
    for name in ("float8_current_scaling", "float8_block_scaling", "mxfp8_block_scaling", "nvfp4_block_scaling")
]
ROWS += [
    (
        "nvfp4_block_scaling, row-scaled x",
        "{{nvfp4_block_scaling,{{row_scaled_activation=true,hadamard=false,stochastic_rounding=false,backward_override={}}}}}",
        ("high_precision", "dequantized"),
    )
]


def saved(te_opt, recipe, override):
    """Bytes saved of x and of w."""
    # Row scaling is refused unless the recipe itself has an override.
    recipe = recipe.format(override) if "{" in recipe else recipe
    options = f"vjp=layer target=reference recipe={recipe}" + (
        f" backward-override={override}" if recipe != "high_precision" else ""
    )
    report = subprocess.run(
        [te_opt, "-", f"--te-training-pipeline={options}", "--te-report=memory", "--te-report-format=json"],
        input=LAYER,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (step,) = json.loads(report)["memory"]
    residuals = [buffer for buffer in step["buffers"] if buffer["cause"] == "residual"]
    return [
        sum(buffer["bytes"] for buffer in residuals if re.fullmatch(rf"{name}(\..*)?", buffer["name"]))
        for name in (r"linear0\.x", "w")
    ]


def measure(te_opt):
    """(bytes of x, bytes of w) by row and mode."""
    return {name: {mode: saved(te_opt, recipe, mode) for mode in modes} for name, recipe, modes in ROWS}


def per_element(bytes, elements):
    return f"{bytes / elements:.6f}".rstrip("0").rstrip(".") if bytes else "0"


def table(measured):
    lines = [
        f"Of a linear layer with {M} tokens, {K} inputs and {N} outputs, bytes (bytes per element):\n",
        "| recipe | of | " + " | ".join(f"`{mode}`" for mode in MODES) + " |",
        "| --- | --- |" + " ---: |" * len(MODES),
    ]
    for name, modes in measured.items():
        for index, (what, elements) in enumerate((("x", M * K), ("w", N * K))):
            cells = [
                f"{modes[mode][index]} ({per_element(modes[mode][index], elements)})" if mode in modes else "-"
                for mode in MODES
            ]
            lines.append(f"| `{name}` | {what} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(memory_page.main(__doc__, "saved bytes", lambda te_opt: table(measure(te_opt))))
