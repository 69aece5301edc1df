#!/usr/bin/env python3
"""Asks whether quantised training stays inside the band of bf16 training.

Five seeds are trained under high_precision, and the same five under every other
recipe and backward override. A seed decides the initial parameters and the
batches, so two runs of one seed differ only in precision. docs/how_it_works/training.md
derives the band and says what is judged. These rules were written before any run:

* A curve is the running mean of the loss over WINDOW steps.
* The band at a step is the 95 % prediction interval of one more bf16 run, from
  the five bf16 curves. The narrower band from their smallest to their largest is
  called the range.
* A recipe stays inside if every point of each of its five curves is inside the
  band, and every point of the mean of the five inside the range. NVFP4 is
  reported and not judged.

Writes loss_band.json and loss_band.png into --output and prints the table.
Ends with 1 if a judged recipe leaves.
"""

import argparse
import json
import math
import pathlib
import sys

import numpy as np
import train

SEEDS = 5
WINDOW = 10
REPORTED = ("nvfp4_block_scaling",)

# Quantile 0.975 of Student's t distribution, by degrees of freedom.
T_975 = {1: 12.706204736, 2: 4.302652730, 3: 3.182446305, 4: 2.776445105}


def curves_of(losses):
    """Running means over WINDOW steps, the last axis being steps."""
    return np.lib.stride_tricks.sliding_window_view(np.asarray(losses, float), WINDOW, axis=-1).mean(axis=-1)


def band_of(curves):
    """Bounds of a further curve that is drawn as `curves` (one a row) were:
    mean -+ t s sqrt(1 + 1/n) at every point."""
    n = len(curves)
    half = T_975[n - 1] * curves.std(axis=0, ddof=1) * math.sqrt(1 + 1 / n)
    return curves.mean(axis=0) - half, curves.mean(axis=0) + half


def range_of(curves):
    return curves.min(axis=0), curves.max(axis=0)


def inside(curve, bounds):
    """The part of the points inside `bounds`, and how far outside they get.
    Not a number is outside."""
    low, high = bounds
    excursion = np.maximum(np.maximum(low - curve, curve - high), 0.0)
    return {"part": float(np.mean((curve >= low) & (curve <= high))), "excursion": float(excursion.max())}


def standard_error(values):
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def judge(baseline, losses):
    """One recipe's losses against the bf16 ones; a row is a seed."""
    bf16, curves = curves_of(baseline), curves_of(losses)
    band, extremes = band_of(bf16), range_of(bf16)
    seeds = []
    for i, curve in enumerate(curves):
        others = np.delete(bf16, i, axis=0)
        seeds.append(
            {
                "band": inside(curve, band),
                "range": inside(curve, extremes),
                "range_of_other_seeds": inside(curve, range_of(others)),
                "end_minus_bf16": float(curve[-1] - bf16[i, -1]),
                "largest_minus_bf16": float(np.abs(curve - bf16[i]).max()),
            }
        )
    mean = inside(curves.mean(axis=0), extremes)
    paired = [seed["end_minus_bf16"] for seed in seeds]
    return {
        "seeds": seeds,
        "mean_in_range": mean,
        "end": float(curves[:, -1].mean()),
        "end_minus_bf16": float(np.mean(paired)),
        "end_minus_bf16_error": standard_error(paired),
        "stays_inside": mean["part"] == 1.0 and all(seed["band"]["part"] == 1.0 for seed in seeds),
    }


def table(report):
    """Markdown, one row a recipe: the least part and the largest excursion of
    its seeds."""
    header = [
        "recipe",
        "backward override",
        "end",
        "end minus bf16",
        "in the band",
        "out by",
        "in the range",
        "out by",
        "in others' range",
        "mean in the range",
        "out by",
        "stays inside",
    ]
    lines = ["| " + " | ".join(header) + " |", "| --- | --- " + "| ---: " * (len(header) - 3) + "| --- |"]
    for row in report["recipes"]:
        judged = row["judged"]

        def worst(what):
            return (
                f"{min(seed[what]['part'] for seed in judged['seeds']):.0%}",
                f"{max(seed[what]['excursion'] for seed in judged['seeds']):.3f}",
            )

        verdict = "yes" if judged["stays_inside"] else "no"
        if row["recipe"] in REPORTED:
            verdict += ", not judged"
        lines.append(
            "| "
            + " | ".join(
                [
                    f"`{row['recipe']}`",
                    f"`{row['override']}`",
                    f"{judged['end']:.4f}",
                    f"{judged['end_minus_bf16']:+.4f} ± {judged['end_minus_bf16_error']:.4f}",
                    *worst("band"),
                    *worst("range"),
                    worst("range_of_other_seeds")[0],
                    f"{judged['mean_in_range']['part']:.0%}",
                    f"{judged['mean_in_range']['excursion']:.3f}",
                    verdict,
                ]
            )
            + " |"
        )
    return "\n".join(lines)


def plot(report, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    bf16 = curves_of(report["recipes"][0]["losses"])
    steps = np.arange(WINDOW, WINDOW + bf16.shape[1])
    centre = bf16.mean(axis=0)
    rows = report["recipes"]
    columns = min(5, len(rows))
    figure, axes = plt.subplots(
        -(-len(rows) // columns),
        columns,
        figsize=(3.2 * columns, 3.1 * -(-len(rows) // columns)),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for row, panel in zip(rows, axes.flat):
        for (low, high), colour in ((band_of(bf16), "0.9"), (range_of(bf16), "0.75")):
            panel.fill_between(steps, low - centre, high - centre, color=colour, linewidth=0)
        curves = curves_of(row["losses"])
        for i, curve in enumerate(curves):
            panel.plot(steps, curve - centre, color=f"C{i}", linewidth=1, label=f"seed {i}")
        panel.plot(steps, curves.mean(axis=0) - centre, color="black", linewidth=1.5, label="mean")
        panel.set_title(f"{row['recipe']}\n{row['override']}", fontsize=8)
        panel.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=6)
    figure.supxlabel("step", fontsize=9)
    figure.supylabel(f"mean loss of {WINDOW} steps, minus the mean of the bf16 seeds", fontsize=9)
    figure.suptitle(f"Band (light) and range (dark) of the bf16 seeds, {report['backend']} backend", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=75)


def measure(options, runs, text):
    """Trains every recipe under every seed."""
    progress = train.Progress()
    rows = [{"recipe": recipe, "override": override, "losses": []} for recipe, override in runs]
    for seed in range(options.seeds):
        arrays, _ = train.write_arrays(options, seed, text)
        for row in rows:
            label = f"[seed {seed}] {row['recipe']}, backward {row['override']}"
            said, losses, _ = train.fit(options, row["recipe"], row["override"], arrays, label, progress)
            row["losses"].append(np.round(losses, 7).tolist())
            progress.end(f"{label}: loss {losses[0]:.3f} -> {losses[-WINDOW:].mean():.3f}")
        arrays.unlink()
    for row in rows:
        row["judged"] = judge(rows[0]["losses"], row["losses"])
    return {
        "backend": said["backend"],
        "device": said["device"],
        "steps": options.steps,
        "lr": options.lr,
        "seeds": options.seeds,
        "window": WINDOW,
        "recipes": rows,
    }


def to_json(report):
    """One line a recipe."""
    head = json.dumps({**report, "recipes": []}, indent=1)
    rows = ",\n  ".join(json.dumps(row) for row in report["recipes"])
    return head.replace('"recipes": []', f'"recipes": [\n  {rows}\n ]') + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    train.add_options(parser)
    parser.add_argument("--seeds", type=int, default=SEEDS, choices=range(2, SEEDS + 1))
    parser.add_argument(
        "--judge", type=pathlib.Path, metavar="JSON", help="train nothing, and judge the losses of an earlier run again"
    )
    options = parser.parse_args()
    if options.judge:
        report = json.loads(options.judge.read_text())
        for row in report["recipes"]:
            row["judged"] = judge(report["recipes"][0]["losses"], row["losses"])
    else:
        runs, text, _ = train.check_options(parser, options)
        if options.steps < WINDOW:
            parser.error(f"expected --steps to be at least {WINDOW}, but got {options.steps}")
        baseline = train.RUNS[0]
        report = measure(options, [baseline] + [run for run in runs if run != baseline], text)
        (options.output / "loss_band.json").write_text(to_json(report))
    print(table(report))
    if not options.judge:
        plot(report, options.output / "loss_band.png")
    left = [
        f"{row['recipe']}/{row['override']}"
        for row in report["recipes"]
        if row["recipe"] not in REPORTED and not row["judged"]["stays_inside"]
    ]
    if left:
        sys.exit("loss_band.py: outside of the band: " + ", ".join(left))


if __name__ == "__main__":
    main()
