"""A step that is captured once and replayed has the bits of the same step run each time: digests of all results are compared.

    replay.py FOLDER [--backend=cuda] [--replays=1000] [--modes=TEXT]

Dense layers and a mixture of experts run with every recipe and override. All inputs change in every step, including master weights.
A random flag selects the steps that reuse casts and add to gradients. In these steps, cached casts must not change; in others, they
must be those of a step without the flag. With --backend=cuda, FOLDER needs about 500 MB for 1,000 replays, and te-run has to be in
PATH; a mode without kernels on the GPU is printed, and is not a failure.
"""

import argparse

import numpy as np
from harness import PARSER, expect, finish, forget_last_run, modes, refusals, run, to_bf16

parser = argparse.ArgumentParser(parents=[PARSER])
parser.add_argument("--replays", type=int, default=1000)
N = parser.parse_args().replays
#: Rows, columns, hidden columns; experts, and experts of each token.
M, C, H, E, K = 128, 64, 64, 4, 2
ROWS = M * K + E * 128

DENSE = f"""
module {{
  func.func @step(%x: tensor<{M}x{C}xbf16> {{te.name = "x"}}, %g: tensor<{C}xbf16> {{te.name = "g"}},
                  %up: tensor<{2 * H}x{C}xbf16> {{te.name = "up", te.weight}}, %down: tensor<{C}x{H}xbf16> {{te.name = "down", te.weight}})
      -> (tensor<{M}x{C}xbf16> {{te.name = "y"}}) {{
    %n = te.rms_norm %x, %g : tensor<{M}x{C}xbf16>, tensor<{C}xbf16>
    %h = te.linear %n, %up : tensor<{M}x{C}xbf16>, tensor<{2 * H}x{C}xbf16> -> tensor<{M}x{2 * H}xbf16>
    %a = te.activation <swiglu> %h : tensor<{M}x{2 * H}xbf16> -> tensor<{M}x{H}xbf16>
    %d = te.linear %a, %down : tensor<{M}x{H}xbf16>, tensor<{C}x{H}xbf16> -> tensor<{M}x{C}xbf16>
    %y = arith.addf %x, %d : tensor<{M}x{C}xbf16>
    return %y : tensor<{M}x{C}xbf16>
  }}
}}"""
EXPERTS = f"""
module {{
  func.func @step(%x: tensor<{M}x{C}xbf16> {{te.name = "x"}}, %router: tensor<{E}x{C}xbf16> {{te.name = "router", te.weight}},
                  %up: tensor<{E}x{2 * H}x{C}xbf16> {{te.name = "up", te.weight}}, %down: tensor<{E}x{C}x{H}xbf16> {{te.name = "down", te.weight}},
                  %shared: tensor<{C}x{C}xbf16> {{te.name = "shared", te.weight}}) -> (tensor<{M}x{C}xbf16> {{te.name = "y"}}) {{
    %logits = te.linear %x, %router {{te.recipe = #te.recipe<high_precision>}} : tensor<{M}x{C}xbf16>, tensor<{E}x{C}xbf16> -> tensor<{M}x{E}xbf16>
    %ids, %probs, %scores = te.router_topk %logits {{normalize}} : tensor<{M}x{E}xbf16> -> tensor<{M}x{K}xi32>, tensor<{M}x{K}xf32>, tensor<{M}x{E}xf32>
    %rows, %sizes, %row_of, %entry_of, %dropped = te.permute %x, %ids {{alignment = 128 : i64}} : tensor<{M}x{C}xbf16>, tensor<{M}x{K}xi32>
      -> tensor<{ROWS}x{C}xbf16>, tensor<{E}xi32>, tensor<{M * K}xi32>, tensor<{ROWS}xi32>
    %h = te.grouped_linear %rows, %up, %sizes {{alignment = 128 : i64}} : tensor<{ROWS}x{C}xbf16>, tensor<{E}x{2 * H}x{C}xbf16>, tensor<{E}xi32> -> tensor<{ROWS}x{2 * H}xbf16>
    %a = te.activation <swiglu> %h : tensor<{ROWS}x{2 * H}xbf16> -> tensor<{ROWS}x{H}xbf16>
    %d = te.grouped_linear %a, %down, %sizes {{alignment = 128 : i64}} : tensor<{ROWS}x{H}xbf16>, tensor<{E}x{C}x{H}xbf16>, tensor<{E}xi32> -> tensor<{ROWS}x{C}xbf16>
    %routed = te.unpermute %d, %row_of, %entry_of probs %probs : tensor<{M}x{K}xf32> : tensor<{ROWS}x{C}xbf16>, tensor<{M * K}xi32>, tensor<{ROWS}xi32> -> tensor<{M}x{C}xbf16>
    %s = te.linear %x, %shared : tensor<{M}x{C}xbf16>, tensor<{C}x{C}xbf16> -> tensor<{M}x{C}xbf16>
    %y = arith.addf %routed, %s : tensor<{M}x{C}xbf16>
    return %y : tensor<{M}x{C}xbf16>
  }}
}}"""
PROGRAMS = {
    "dense": (DENSE, {"up": (2 * H, C), "down": (C, H)}),
    "experts": (EXPERTS, {"router": (E, C), "up": (E, 2 * H, C), "down": (E, C, H), "shared": (C, C)}),
}

rng = np.random.default_rng(29)
flags = rng.integers(0, 2, N).astype(np.float32)
# Steps with each value of the flag, runs of both, and values other than 0 and 1.
flags[:8] = [0, 1, 1, 0, 0, 2, 1, np.nan]


def draw(*shape, scale):
    return to_bf16(rng.standard_normal(shape, np.float32) * scale)


def feed_for(name, weights):
    feed = {"x": draw(N, M, C, scale=1), "grad.y": draw(N, M, C, scale=0.1), "skip_weight_update": flags}
    feed |= {weight: draw(N, *shape, scale=0.15) for weight, shape in weights.items()}
    if name == "dense":
        feed["g"] = draw(N, C, scale=1)
    return {f"{key}.steps": value for key, value in feed.items()}


def check(name, mode):
    module, weights = PROGRAMS[name]
    feed = feeds[name]

    def steps(graph, arrays):
        found = run(
            module,
            "step",
            arrays,
            f"{mode} cache-weights=true main-grad=true",
            vjp=True,
            steps=N,
            graph=graph,
            digests=True,
        )
        forget_last_run()
        return {key.removesuffix(".digests"): value for key, value in found.items() if key.endswith(".digests")}

    claim = f"{name}, {mode}"
    ran, replayed = steps(False, feed), steps(True, feed)
    differ = {key: int((ran[key] != replayed[key]).argmax()) for key in ran if (ran[key] != replayed[key]).any()}
    expect(not differ, f"{claim}: results differ, first at step {differ}")
    for key in ("y", *(f"grad.{weight}" for weight in weights)):
        expect(len(set(replayed[key])) == N, f"{claim}: '{key}' is another one in every step")
    kept = [
        key for key in replayed if key.startswith(tuple(f"{w}.{usage}." for w in weights for usage in ("row", "col")))
    ]
    expect(bool(kept) == (mode != "recipe=high_precision"), f"{claim}: casts are kept")
    keeps = np.flatnonzero(flags == 1)
    for key in kept:
        expect((replayed[key][keeps] == replayed[key][keeps - 1]).all(), f"{claim}: '{key}' stays under the flag")
    if "delayed" in mode:
        measured = [key for key in replayed if key.startswith(tuple(f"{w}.w." for w in weights))]
        expect(
            len(measured) == 2 * len({key.split(".")[0] for key in kept}),
            f"{claim}: what is kept has a history and a scale",
        )
        for key in measured:
            expect((replayed[key][keeps] == replayed[key][keeps - 1]).all(), f"{claim}: '{key}' stays under the flag")
            expect(len(set(replayed[key])) > 1 or key.endswith(".scale"), f"{claim}: '{key}' moves without it")
        return  # Casts depend on earlier steps.
    fresh = steps(True, feed | {"skip_weight_update.steps": np.zeros_like(flags)})
    casts = np.flatnonzero(flags != 1)
    for key in [*kept, *(f"grad.{weight}" for weight in weights)]:
        expect((replayed[key][casts] == fresh[key][casts]).all(), f"{claim}: '{key}' is a fresh one without the flag")
    for key in kept:
        expect(not key.endswith("data") or len(set(fresh[key])) == N, f"{claim}: '{key}' changes with its master")


feeds = {name: feed_for(name, weights) for name, (_, weights) in PROGRAMS.items()}
for mode in modes(turn=1):
    for name in PROGRAMS:
        with refusals(f"{name}, {mode}"):
            check(name, mode)
            print(f"{name}, {mode}: {N} replays", flush=True)
finish("replay")
