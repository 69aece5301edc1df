"""Checks the rows of `te-bench --suite=parallel` for a layer over two ranks."""

import json
import sys

with open(sys.argv[1]) as file:
    report = json.load(file)
rows = {(row["ranks"], row["recipe"]): row for row in report["parallel"]}
assert len(rows) == 8, rows.keys()
for (ranks, recipe), row in rows.items():
    assert row["graph_sustained_ms"] > 0 and row["run_sustained_ms"] > 0, row
    assert (row["num_collectives"] == 0) == (ranks == 1), row
    assert (row["collectives_ms"] > 0) == (ranks == 2), row
    # Only recipes whose scale depends on the amax of the gathered tensor reduce an amax.
    reduces = ranks == 2 and recipe in ("float8_current_scaling", "delayed_scaling")
    assert (row["num_amax_reductions"] > 0) == reduces == (row["amax_ms"] > 0), row
bf16, fp8 = (rows[2, recipe]["gathered_bytes_received"] for recipe in ("high_precision", "float8_current_scaling"))
assert bf16 < 2.2 * fp8 and 1.9 * fp8 < bf16, (bf16, fp8)
# 256 rows of 128 columns, in both directions: 128 bytes and one scale are half of bf16.
exchanges = {row["payload"]: row for row in report["exchanges"]}
assert list(exchanges) == ["bf16", "f8E4M3FN", "f8E4M3FN and casts"], exchanges.keys()
for payload, row in exchanges.items():
    assert row["ranks"] == 2 and row["same_bits"] and row["graph_sustained_ms"] > 0, row
    assert row["exchanged_bytes"] == 2 * 256 * (256 if payload == "bf16" else 132), row
