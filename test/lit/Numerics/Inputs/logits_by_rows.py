"""A head and its loss compute the same over a few rows of logits at a time.

Losses and gradients have the bits that they have with whole logits, if the cotangent of the loss is a power of two. With another
cotangent, and with current scaling, whose scale comes from a bound of the amax, they differ by roundings of the gradient of the
logits, which the bound below adds up.
"""

import numpy as np
from harness import INPUTS, compile_to, expect, expect_same, finish, from_bf16, normal, run

HEAD = INPUTS / "head.mlir"
WHOLE, ROWS = "logits-budget=0", "logits-budget=81920"
TOKENS, HIDDEN, VOCABULARY = 400, 128, 320
OVERRIDES = [
    f"recipe=float8_block_scaling backward-override={override}" for override in ("high_precision", "dequantized")
]
EXACT = ["recipe=high_precision", "recipe=float8_block_scaling", *OVERRIDES]
CURRENT = "recipe=float8_current_scaling"

rng = np.random.default_rng(21)
targets = rng.integers(0, VOCABULARY, TOKENS).astype(np.int32)
targets[rng.integers(0, TOKENS, 40)] = -1
targets[130:140] = VOCABULARY  # outside of the vocabulary: ignored
inputs = {
    "x": normal(rng, TOKENS, HIDDEN),
    "g": normal(rng, HIDDEN),
    "w": normal(rng, VOCABULARY, HIDDEN, scale=0.02),  # so small that no gradient is subnormal
    "large": normal(rng, VOCABULARY, HIDDEN, scale=0.3),  # logits of about 3.4
    "targets": targets,
    "bias": normal(rng, 301),
}


def arrays(entry, dloss=None):
    names = {"head": ("x", "g", "w", "targets"), "frozen": ("x", "targets"), "biased": ("x", "w", "bias", "targets")}
    given = {name: inputs[name] for name in names.get(entry, ("x", "w", "targets"))}
    if entry in ("capped", "odd", "biased"):
        given["w"] = inputs["large"][: VOCABULARY if entry == "capped" else 301]
    if entry == "transposed":
        given["w"] = np.ascontiguousarray(inputs["w"].T)
    return given if dloss is None else given | {"grad.loss": np.float32(dloss)}


def both(entry, recipe, dloss=None, by_rows=ROWS, **options):
    """The results with whole logits and by rows. The programs differ, unless the wgrad reads the gradient of all logits in bf16."""
    reads_all = dloss is not None and entry != "frozen" and recipe in ("recipe=high_precision", *OVERRIDES)
    for budget, wanted in ((WHOLE, False), (by_rows, not reads_all)):
        vjp = "" if dloss is None else f" vjp={entry}"
        program = compile_to(HEAD, "fuse", f"{recipe} {budget}{vjp}").split(f"@{entry}(", 1)[1].split("func.func", 1)[0]
        expect(("te.by_rows" in program) == wanted, f"{recipe} of {entry}, {budget}: by rows is {wanted}")
    given = arrays(entry, dloss)
    return [
        run(HEAD, entry, given, f"{recipe} {budget}", vjp=dloss is not None, **options) for budget in (WHOLE, by_rows)
    ]


for recipe in EXACT:
    for entry in ("head", "frozen", "transposed", "capped", "odd", "biased"):
        whole, rows = both(entry, recipe)
        expect_same(rows, whole, sorted(whole), f"{recipe} of {entry}: loss")
        for dloss in (1.0, 0.25):
            whole, rows = both(entry, recipe, dloss)
            expect_same(rows, whole, sorted(whole), f"{recipe} of {entry}, cotangent {dloss}: gradients")

# Three steps, whose states hold the amaxes of the gradient of the logits.
for entry in ("transposed", "capped", "odd", "biased"):
    whole, rows = both(entry, "recipe=delayed_scaling", 1.0, steps=3)
    expect(any(name.endswith("dy.scale") for name in whole), f"delayed scaling of {entry} has a state")
    expect_same(rows, whole, sorted(whole), f"delayed scaling of {entry}: gradients and states")

# A part has two runs of 128 rows, of which the gradient of the bias adds up the sums.
whole, rows = both("biased", "recipe=float8_block_scaling", 1.0, "logits-budget=160000")
expect_same(rows, whole, sorted(whole), "256 rows of 'biased': gradients")

# The gradient of a logit is rounded to bf16, with a relative error below u, and to FP8, with one below e, or, below the normal numbers
# of the type, with an error of at most `tiny` of the largest gradient that there may be. Both programs do so, at different
# points. The result is rounded to bf16, by rows twice. Casts of x and w, which are the same in both, grow by at most 2^-4.
# Everything else is in f32, and covered by the last factor.
u = 2.0**-8


def check(recipe, e, dloss, tiny):
    whole, rows = both("transposed", recipe, dloss)
    expect(np.array_equal(whole["loss"], rows["loss"]), f"{recipe}, cotangent {dloss}: the loss has the same bits")
    forward = {name: value for name, value in arrays("transposed").items() if name != "targets"}
    logits = from_bf16(run(HEAD, "logits", forward, recipe)["logits"]).astype(np.float64)
    x, w = from_bf16(inputs["x"]).astype(np.float64), from_bf16(inputs["w"]).astype(np.float64)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    counted = (targets >= 0) & (targets < VOCABULARY)
    largest = abs(dloss) / counted.sum()
    d = np.abs(p - (np.arange(VOCABULARY) == targets[:, None])) * counted[:, None] * largest
    error = 2 * ((u + e) * d + tiny * largest * counted[:, None]) + 3 * u * d
    for name, bound in (("grad.x", error @ np.abs(w)), ("grad.w", np.abs(x).T @ error)):
        a, b = (from_bf16(found[name]).astype(np.float64) for found in (whole, rows))
        used = np.max(np.abs(a - b) / (bound * (1 + 2.0**-4) * 1.05 + 1e-30))
        expect(used <= 1, f"{recipe}, cotangent {dloss}: '{name}' takes {used:.2f} of its bound")
        expect(used > 0, f"{recipe}, cotangent {dloss}: '{name}' is rounded elsewhere")


check("recipe=float8_block_scaling", 2.0**-4, 0.3, 2.0**-9 / 448)
check(CURRENT, 2.0**-3, 1.0, 2.0**-17 / 57344)
check(CURRENT, 2.0**-3, 0.3, 2.0**-17 / 57344)
for entry in ("head", "capped", "odd", "biased"):
    whole, rows = both(entry, CURRENT)
    expect_same(rows, whole, sorted(whole), f"{CURRENT} of {entry}: loss")
finish("logits-by-rows")
