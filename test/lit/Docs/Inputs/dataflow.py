"""Compares the usages that GEMMs read, and the tensors that are saved, with those of TransformerEngine's rules.

fprop multiplies row(x) and row(w), dgrad row(dy) and col(w), and wgrad col(dy) and col(x). Under an override, dy is not cast, and x and w are the
tensors or the dequantised rows. A module saves the input of each layer in the form that wgrad reads, the weight in the form
that dgrad reads, the values that its norm and activation need, and no argument twice.
"""

import sys

sys.path.append(sys.argv[1])
from dataflow_table import measure

NONE = {"fprop": ("row", "row"), "dgrad": ("row", "saved col"), "wgrad": ("col", "saved col")}
HIGH = {"fprop": ("row", "row"), "dgrad": ("as it is", "as it is"), "wgrad": ("as it is", "as it is")}
DECODED = {
    "fprop": ("row", "row"),
    "dgrad": ("as it is", "saved row, decoded"),
    "wgrad": ("as it is", "saved row, decoded"),
}
READS = {("high_precision", "none"): dict.fromkeys(NONE, ("as it is", "as it is")), ("delayed_scaling", "none"): NONE}
for recipe in ("float8_current_scaling", "float8_block_scaling", "mxfp8_block_scaling", "nvfp4_block_scaling"):
    READS |= {(recipe, "none"): NONE, (recipe, "high_precision"): HIGH, (recipe, "dequantized"): DECODED}
READS["nvfp4_block_scaling", "none"] = NONE | {"wgrad": ("col of RHT", "saved col of RHT")}
# Tensor cores that contract any axis read only rows.
ROWS = {"fprop": ("row", "row"), "dgrad": ("row", "saved row"), "wgrad": ("row", "saved row")}
for recipe in ("delayed_scaling", "float8_current_scaling"):
    READS[f"{recipe} target=sm_100", "none"] = ROWS
READS |= {
    ("float8_current_scaling target=sm_100", "high_precision"): HIGH,
    ("float8_current_scaling target=sm_100", "dequantized"): DECODED,
}
SIDES = {"fprop": ("x", "w"), "dgrad": ("dy", "w"), "wgrad": ("dy", "x")}

#: Casts of layer inputs and of weights (all col), and tensors that are saved without a cast.
HELD = {
    "linear": (1, {"w"}, set()),
    "layernorm_linear": (1, {"w"}, {"layer_norm0.mu", "layer_norm0.rsigma"}),
    "layernorm_mlp": (2, {"fc1", "fc2"}, {"layer_norm0.mu", "layer_norm0.rsigma", "activation0.x"}),
    "grouped_linear": (1, {"w"}, set()),
    # The layers of q, k and v share the cast of their input.
    "gpt_layer": (
        4,
        {"wq", "wk", "wv", "wo", "fc1", "fc2"},
        {f"layer_norm{i}.{part}" for i in (0, 1) for part in ("mu", "rsigma")}
        | {"layer_norm1.x", "activation0.x"}
        | {f"attention0.{part}" for part in ("q", "k", "v", "o", "lse")},
    ),
    "llama_layer": (
        5,
        {"wq", "wk", "wv", "wo", "gate_up", "down", "head"},
        {
            "rms_norm0.rsigma",
            "rms_norm1.rsigma",
            "rms_norm1.x",
            "activation0.x",
            "cross_entropy0.logits",
            "cross_entropy0.lse",
        }
        | {f"attention0.{part}" for part in ("q", "k", "v", "o", "lse")},
    ),
}

reads, saved = measure("te-opt")
failed = claims = 0


def expect(holds, claim):
    global failed, claims
    claims += 1
    if not holds:
        failed += 1
        print(f"FAILED: {claim}")


expect(set(reads) == set(READS), f"modes are {sorted(reads)}")
for mode, products in READS.items():
    for gemm, texts in products.items():
        for side, text in zip(SIDES[gemm], texts):
            found = reads[mode].get((gemm, side))
            expect(found == {text}, f"{mode}: {gemm} reads '{found}' of {side}, not '{text}'")
for layer, (inputs, weights, tensors) in HELD.items():
    casts = {name for name, form in saved[layer] if form == "col"}
    expect(weights <= casts, f"{layer}: casts saved are {sorted(casts)}, with those of {sorted(weights)}")
    expect(len(casts - weights) == inputs, f"{layer}: {saved[layer]} has {inputs} layer inputs")
    as_they_are = {name for name, form in saved[layer] if form == "as it is"}
    expect(as_they_are == tensors, f"{layer}: saved as they are: {sorted(as_they_are)}")
print(f"dataflow: {claims} claims, {failed} failed")
sys.exit(failed != 0)
