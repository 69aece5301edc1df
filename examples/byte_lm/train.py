#!/usr/bin/env python3
"""Trains the byte-level language model of train.mlir under every recipe.

The model, its backward and its optimizer are in train.mlir; this file only
makes arrays and runs `te-run`. The text is read as bytes. One .npz file holds
the initial parameters, a batch for every step and the learning rates, and
every run reads the same one, so the curves differ only in precision.

Writes results.json and loss.png into --output and prints a table. Ends with 1
if a run fails or its loss does not fall.
"""

import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# The sizes of train.mlir.
TOKENS, CONTEXT, EMBEDDING, HIDDEN, FFN, VOCABULARY = 256, 8, 32, 256, 256, 256

RUNS = (
    [("high_precision", "none")]
    + [
        (recipe, override)
        for recipe in ("float8_current_scaling", "float8_block_scaling")
        for override in ("none", "high_precision", "dequantized")
    ]
    + [(recipe, "none") for recipe in ("delayed_scaling", "mxfp8_block_scaling", "nvfp4_block_scaling")]
)

# Their GEMMs run in bf16 on GPUs that do not have them, so they do everywhere.
EMULATED = ("mxfp8_block_scaling", "nvfp4_block_scaling")


def initial_state(rng):
    """Parameters and zero AdamW moments, by te.name."""

    def matrix(rows, cols, scale=1.0):
        return rng.normal(0.0, scale / math.sqrt(cols), (rows, cols))

    parameters = {
        "embedding": rng.normal(0.0, 1.0, (VOCABULARY, EMBEDDING)),
        "w_in": matrix(HIDDEN, CONTEXT * EMBEDDING),
        "gamma_out": np.ones(HIDDEN),
        "w_out": matrix(VOCABULARY, HIDDEN, 0.5),
    }
    for block in ("block0", "block1"):
        parameters[f"{block}.gamma"] = np.ones(HIDDEN)
        parameters[f"{block}.w_up"] = matrix(2 * FFN, HIDDEN)
        parameters[f"{block}.w_down"] = matrix(HIDDEN, FFN)
    state = {}
    for name, value in parameters.items():
        state[name] = value.astype(np.float32)
        state[f"{name}.m"] = np.zeros(value.shape, np.float32)
        state[f"{name}.v"] = np.zeros(value.shape, np.float32)
    return state


def batches(text, positions):
    """For every step (row) and position: the CONTEXT bytes before it and the
    byte there."""
    context = text[positions[..., None] + np.arange(-CONTEXT, 0)]
    return context.reshape(len(positions), -1).astype(np.int32), text[positions].astype(np.int32)


def learning_rates(steps, peak):
    """Linear warm-up over a tenth of the steps, then a cosine to a tenth."""
    step = np.arange(1, steps + 1)
    warmup = max(1, steps // 10)
    progress = np.clip((step - warmup) / max(1, steps - warmup), 0.0, 1.0)
    cosine = 0.55 + 0.45 * np.cos(math.pi * progress)
    return (peak * np.minimum(step / warmup, cosine)).astype(np.float32)


def find_te_run():
    beside = [ROOT / "build" / preset / "bin" / "te-run" for preset in ("dev", "release")]
    beside += [parent / "bin" / "te-run" for parent in (HERE.parent, ROOT, ROOT.parent, ROOT.parent.parent)]
    for candidate in beside:
        if candidate.exists():
            return str(candidate)
    found = shutil.which("te-run")
    if not found:
        sys.exit("train.py: te-run is neither built nor on the PATH; give it with --te-run")
    return found


class Progress:
    """One line that is rewritten on a terminal, a line every few seconds elsewhere."""

    def __init__(self):
        self.terminal = sys.stdout.isatty()
        self.shown = 0.0

    def show(self, text):
        if self.terminal:
            print(f"\r\033[K{text}", end="", flush=True)
        elif time.monotonic() - self.shown > 5.0:
            print(text, flush=True)
            self.shown = time.monotonic()

    def end(self, text):
        print(f"\r\033[K{text}" if self.terminal else text, flush=True)


def te_run(options, entry, steps, pipeline, inputs, outputs, label, progress, *more):
    """Runs te-run, showing its progress; ends this program if it fails."""
    command = [
        options.te_run,
        str(HERE / "train.mlir"),
        f"--entry={entry}",
        f"--pipeline={pipeline}",
        f"--backend={options.backend}",
        f"--steps={steps}",
        f"--inputs={inputs}",
        f"--outputs={outputs}",
        *more,
    ]
    lines = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            lines.append(line.rstrip())
            if line.startswith("step "):
                progress.show(f"{label}: {lines[-1]}")
    if process.returncode != 0:
        progress.end(f"{label}: te-run ended with {process.returncode}")
        sys.exit("\n".join(line for line in lines if not line.startswith("step ")))
    with np.load(outputs) as results:
        arrays = dict(results)
    outputs.unlink()
    return arrays


def pipeline_of(recipe, override):
    return f"recipe={recipe} backward-override={override}" + (" emulate" if recipe in EMULATED else "")


def fit(options, recipe, override, arrays, label, progress):
    """Trains once; returns what te-run says of the run, the loss of every step
    and the trained state."""
    outputs = options.output / f"{recipe}-{override}.npz"
    summary = options.output / f"{recipe}-{override}.json"
    graph = ["--graph"] if options.graph else []
    trained = te_run(
        options,
        "train_step",
        options.steps,
        pipeline_of(recipe, override),
        arrays,
        outputs,
        label,
        progress,
        f"--summary={summary}",
        *graph,
    )
    row = {"recipe": recipe, "override": override, **json.loads(summary.read_text())}
    summary.unlink()
    return row, trained.pop("loss.steps").astype(float), trained


def train(options, recipe, override, arrays, held_out, label, progress):
    """Trains once and measures the held-out text; returns a row of the results."""
    row, losses, trained = fit(options, recipe, override, arrays, label, progress)

    # Only the forward, with the trained parameters, under the same recipe.
    context, targets = held_out
    parameters = {name: value for name, value in trained.items() if name != "loss" and not name.endswith((".m", ".v"))}
    evaluation = options.output / "held_out.npz"
    np.savez(evaluation, **parameters, **{"context.steps": context, "targets.steps": targets})
    held_out_losses = te_run(
        options,
        "loss",
        len(context),
        pipeline_of(recipe, override),
        evaluation,
        options.output / "held_out-loss.npz",
        label,
        progress,
        "--quiet",
    )["loss.steps"]
    evaluation.unlink()

    tail = max(1, options.steps // 10)
    row.update(
        loss_start=losses[0],
        loss_end=float(losses[-tail:].mean()),
        loss_held_out=float(held_out_losses.mean()),
        losses=losses.tolist(),
    )
    progress.end(f"{label}: loss {row['loss_start']:.3f} -> {row['loss_end']:.3f}, held out {row['loss_held_out']:.3f}")
    return row


def print_table(rows):
    header = (
        "recipe",
        "backward override",
        "loss start",
        "loss end",
        "held out",
        "ms/step",
        "planned bytes",
        "backend",
    )
    table = [header] + [
        (
            row["recipe"],
            row["override"],
            f"{row['loss_start']:.4f}",
            f"{row['loss_end']:.4f}",
            f"{row['loss_held_out']:.4f}",
            f"{row['ms_per_step']:.3g}",
            f"{row['arena_bytes']:,}",
            row["backend"],
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in table) for i in range(len(header))]
    for i, line in enumerate(table):
        cells = [
            cell.ljust(width) if column in (0, 1, 7) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths))
        ]
        print("  ".join(cells).rstrip())
        if i == 0:
            print("  ".join("-" * width for width in widths))


def plot(rows, entropy, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {
        "high_precision": "black",
        "float8_current_scaling": "tab:blue",
        "float8_block_scaling": "tab:orange",
        "delayed_scaling": "tab:green",
        "mxfp8_block_scaling": "tab:purple",
        "nvfp4_block_scaling": "tab:red",
    }
    styles = {"none": "-", "high_precision": "--", "dequantized": ":"}
    figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(9, 8), height_ratios=(3, 2))
    baseline = np.array(rows[0]["losses"])
    for row in rows:
        losses = np.array(row["losses"])
        style = {
            "color": colours[row["recipe"]],
            "linestyle": styles[row["override"]],
            "linewidth": 1.3,
            "label": f"{row['recipe']}, {row['override']}",
        }
        steps = np.arange(1, len(losses) + 1)
        top.plot(steps, losses, **style)
        bottom.plot(steps, losses - baseline, **style)
    top.axhline(entropy, color="grey", linewidth=0.8)
    top.annotate(
        "byte frequencies only",
        (1, entropy),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 3),
        textcoords="offset points",
        ha="right",
        color="grey",
        fontsize=8,
    )
    top.set_ylabel("loss (nats per byte)")
    top.set_title(f"Byte-level language model on the {rows[0]['backend']} backend")
    top.legend(title="recipe, backward override", fontsize=8)
    bottom.set_xlabel("step")
    bottom.set_ylabel(f"loss minus that of\n{rows[0]['recipe']}, {rows[0]['override']}")
    for axes in (top, bottom):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def add_options(parser):
    """The options of every script of this example."""
    parser.add_argument("--te-run", help="the te-run to use (default: build/dev, build/release, PATH)")
    parser.add_argument("--backend", default="auto", choices=("auto", "reference", "cuda"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, default=3e-3, help="peak learning rate")
    parser.add_argument("--graph", action="store_true", help="capture the step and replay it")
    parser.add_argument("--recipe", help="only this recipe")
    parser.add_argument("--text", type=pathlib.Path, default=HERE / "text.txt")
    # An installed example does not write into its folder.
    output = ROOT / "build" / "byte_lm" if (ROOT / "CMakeLists.txt").exists() else pathlib.Path("byte_lm")
    parser.add_argument("--output", type=pathlib.Path, default=output, help=f"folder (default: {output})")


def check_options(parser, options):
    """Finds te-run and makes the output folder; returns the runs that were
    asked for and the text, as bytes to train on and held-out bytes."""
    options.te_run = options.te_run or find_te_run()
    if not shutil.which(options.te_run):
        parser.error(f"expected --te-run to be a program, but got '{options.te_run}'")
    if options.steps < 1:
        parser.error(f"expected --steps to be positive, but got {options.steps}")
    runs = [run for run in RUNS if options.recipe in (None, run[0])]
    if not runs:
        parser.error(
            f"expected --recipe to be one of {', '.join(sorted({r for r, _ in RUNS}))}, but got '{options.recipe}'"
        )
    try:
        text = np.frombuffer(options.text.read_bytes(), np.uint8)
    except OSError as error:
        parser.error(f"cannot read '{options.text}': {error.strerror}")
    shortest = 20 * (TOKENS + CONTEXT)
    if len(text) < shortest:
        parser.error(f"expected at least {shortest} bytes of text, but got {len(text)}")
    options.output.mkdir(parents=True, exist_ok=True)
    # The last tenth of the text is never trained on.
    split = len(text) - len(text) // 10
    return runs, text[:split], text[split:]


def write_arrays(options, seed, text):
    """Writes the file that every run of `seed` reads; returns its path and the
    number of parameters."""
    rng = np.random.default_rng(seed)
    state = initial_state(rng)
    context, targets = batches(text, rng.integers(CONTEXT, len(text), (options.steps, TOKENS)))
    path = options.output / "inputs.npz"
    np.savez(
        path,
        **state,
        **{
            "context.steps": context,
            "targets.steps": targets,
            "lr.steps": learning_rates(options.steps, options.lr),
            "step.steps": np.arange(1, options.steps + 1, dtype=np.float32),
        },
    )
    return path, sum(v.size for name, v in state.items() if not name.endswith((".m", ".v")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    runs, text, rest = check_options(parser, options)

    test_steps = (len(rest) - CONTEXT) // TOKENS
    held_out = batches(rest, CONTEXT + np.arange(test_steps * TOKENS).reshape(test_steps, TOKENS))
    frequencies = np.bincount(np.concatenate([text, rest]), minlength=VOCABULARY) / (len(text) + len(rest))
    frequencies = frequencies[frequencies > 0]
    entropy = float(-(frequencies * np.log(frequencies)).sum())

    arrays, parameters = write_arrays(options, options.seed, text)
    print(
        f"{len(text) + len(rest):,} bytes of text, {parameters:,} parameters, {len(runs)} runs of {options.steps} steps"
    )

    progress = Progress()
    rows = []
    for i, (recipe, override) in enumerate(runs):
        label = f"[{i + 1}/{len(runs)}] {recipe}, backward {override}"
        rows.append(train(options, recipe, override, arrays, held_out, label, progress))
    arrays.unlink()

    print()
    print_table(rows)
    print(
        f"\nA model of only the byte frequencies has a loss of {entropy:.4f} nats. Device: {rows[0]['device'].split(';')[0]}"
    )
    (options.output / "results.json").write_text(json.dumps({"entropy": entropy, "runs": rows}, indent=1) + "\n")
    try:
        plot(rows, entropy, options.output / "loss.png")
        print(f"Wrote {options.output / 'loss.png'} and results.json beside it.")
    except ModuleNotFoundError as error:
        print(f"Wrote {options.output / 'results.json'}, and no loss.png: {error}.")
    stuck = [row for row in rows if not row["loss_end"] < row["loss_start"]]
    if stuck:
        sys.exit(
            "train.py: the loss did not fall under " + ", ".join(f"{row['recipe']}/{row['override']}" for row in stuck)
        )


if __name__ == "__main__":
    main()
