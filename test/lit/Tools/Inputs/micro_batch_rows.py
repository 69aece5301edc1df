"""Checks rows of te-bench's suite 'model' with two micro-batches for each update against those with one."""

import json
import sys

one, two = (json.load(open(path))["model"] for path in sys.argv[1:])
assert [row["recipe"] for row in one] == [row["recipe"] for row in two]
for single, row in zip(one, two, strict=True):
    assert single["micro_batches"] == 1 and row["micro_batches"] == 2
    assert row["update_period_ms"] == 2 * row["graph_sustained_ms"]
    assert row["tokens_per_second"] == 1e3 * row["tokens"] * 2 / row["update_period_ms"]
    # The gradients of a weight are added in f32, in the state of the step.
    assert row["argument_bytes"] > single["argument_bytes"] + 4 * row["weight_elements"]
    falls = [a - b for a, b in zip(row["losses"], row["losses"][1:])]
    expected = [a - b for a, b in zip(single["losses"], single["losses"][1:])]
    # Under delayed scaling, the second micro-batch casts with the scales that the first one found.
    if row["recipe"] != "delayed_scaling":
        assert row["losses"][0] == single["losses"][0]
    # An update too many, or one too few, would double a fall, or make it 0.
    assert all(0.5 * b < a < 1.5 * b for a, b in zip(falls, expected)), (falls, expected)
