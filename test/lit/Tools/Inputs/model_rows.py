"""Checks the rows of te-bench's suite 'model', for one and two ranks."""

import json
import sys

one, two = (json.load(open(path))["model"] for path in sys.argv[1:])
assert [row["overlap"] for row in one] == ["never"] * 4 and len(two) == 8
for row in one + two:
    assert row["same_losses"] and len(row["losses"]) == 3 and row["losses"][0] > row["losses"][-1] > 5, row
    # Six GEMMs of a layer and the head's, each three times in a step; and those of attention (two forward, five
    # backward), half of whose scores are visible.
    dim, tokens, vocabulary = 128, 64, 256
    products = (2 * dim + 2 * dim // 2 + 3 * dim + vocabulary) * dim
    attention = 7 * tokens * 32 * dim
    assert row["flops"] == 6 * tokens * products + attention, (row["flops"], 6 * tokens * products, attention)
    assert row["tokens"] == tokens
    # Two matrices of the vocabulary, those of the layer, and three gains. With two ranks, half of each matrix.
    matrices = 2 * vocabulary * dim + (2 * dim + 2 * dim // 2 + 3 * dim) * dim
    assert row["weight_elements"] == matrices // row["ranks"] + 3 * dim
    plain = next(other for other in (one if row["ranks"] == 1 else two) if other["overlap"] == row["overlap"])
    assert plain["recipe"] == "high_precision"
    assert row["speedup_over_bf16"] == plain["graph_sustained_ms"] / row["graph_sustained_ms"]
for row in two:
    assert row["launches"] > one[0]["launches"]
