"""The model in test/model has the bits of arrays recorded from TransformerEngine.

This checks the model, with which te-run is compared, against a third implementation.
"""

import json
import os
import pathlib

import numpy as np
from harness import expect, finish
from te_model import block_scaling, delayed, nvfp4, tensor_scaling
from te_model.formats import E4M3, E5M2, bf16_values

FORMATS = {"e4m3": E4M3, "e5m2": E5M2}
golden = pathlib.Path(os.environ["TE_GOLDEN_DIR"])
compared = {}


def same(kind, claim, found, recorded):
    found = np.ascontiguousarray(found)
    if not expect(
        found.dtype == recorded.dtype and found.shape == recorded.shape,
        f"{claim}: {found.dtype}{found.shape} for {recorded.dtype}{recorded.shape}",
    ):
        return
    equal = (found == recorded) | ((found != found) & (recorded != recorded))
    compared[kind] = compared.get(kind, 0) + equal.size
    expect(equal.all(), f"{claim}: {np.count_nonzero(~equal)} of {equal.size} elements differ")


def per_tensor(row, x, arrays):
    format, largest = FORMATS[row["dtype"]], tensor_scaling.amax(x)
    if row["recipe"] == "current":
        scale = tensor_scaling.compute_scale(largest, format.max, row["pow2"])
    else:
        scale = np.float32(row["scale"])
        yield "amax", largest.reshape(1), arrays["amax"]
    q = tensor_scaling.quantize(x, format, 1, scale)
    yield "data", q.data, arrays["data"]
    yield "transpose", tensor_scaling.transpose(q).data, arrays["transpose"]
    yield "scale_inv", q.scale, arrays["scale_inv"]


def block(row, x, arrays):
    scheme = "block_1x128" if row["dim"] == 1 else "block_128x128"
    usages = {
        axis: block_scaling.quantize(x, FORMATS[row["dtype"]], scheme, axis, "bf16", row["pow2"]) for axis in (0, 1)
    }
    pairs = [("row", usages[1]), ("col", usages[0])]
    if row["dim"] == 2:
        pairs.append(("col", block_scaling.transpose(usages[1])))
    for name, q in pairs:
        yield name, q.data, arrays[name]
        # The recording has no padding.
        used = q.data.shape[0] if row["dim"] == 1 else -(-q.data.shape[1] // 128)
        scale = arrays[f"{name}_scale_inv"]
        yield f"shape of {name}_scale_inv", np.array(q.scale.shape), np.array(scale.shape)
        yield f"{name}_scale_inv", q.scale[:, :used], scale[:, :used]


def nv(row, x, arrays):
    mode = row["mode"]
    scheme = "nv_16x16" if mode == "2d" else "nv_1x16"
    options = {
        "scale_max": 256 if mode.endswith("256") else 448,
        "four_over_six": "mae" if mode.startswith("4over6") else None,
    }
    for axis, name in ((1, "row"), (0, "col")):
        if name not in arrays:
            continue
        source = nvfp4.hadamard(x) if mode == "rht" and axis == 0 else x
        largest = nvfp4.amax_rows(x) if mode == "rowscaled" else tensor_scaling.amax(source).reshape(1)
        q = nvfp4.quantize(source, scheme, axis, largest, **options)
        found = [q] if mode != "2d" or axis == 1 else [q, nvfp4.transpose(nvfp4.quantize(x, scheme, 1, largest))]
        for q in found:
            rows, columns = arrays[f"{name}_scale"].shape
            yield name, q.data, arrays[name]
            yield f"{name}_scale", q.scale[:rows, :columns], arrays[f"{name}_scale"]
            expect(
                not q.scale[rows:].any() and not q.scale[:, columns:].any(),
                f"{row['case']}: padding of {name}_scale is zero",
            )
        yield f"amax_{name}", q.amax, arrays[f"amax_{name}"]


def quantizers():
    recorded, arrays = np.load(golden / "quantizers_1.npz"), {}
    for key in recorded.files:
        case, name = key.split("/")
        arrays.setdefault(case, {})[name] = recorded[key]
    rules = {"current": per_tensor, "delayed": per_tensor, "block": block, "nvfp4": nv}
    cases = [row for row in json.loads((golden / "quantizers_1.json").read_text()) if "recipe" in row]
    for row in cases:
        x = bf16_values(arrays[row["input"]]["x"])
        for name, found, wanted in rules[row["recipe"]](row, x, arrays[row["case"]]):
            same(row["recipe"], f"{row['case']}: {name}", found, wanted)
    return len(cases)


def sequences():
    recorded = np.load(golden / "modules_1.npz")
    cases = [row for row in json.loads((golden / "modules_1.json").read_text()) if "algo" in row]
    for row in cases:
        x, w, dy = (recorded[f"{row['case']}/amax_{name}"] for name in ("x", "w", "dy"))
        # The slots are x, w, output, dy and dx; outputs are not cast. A NaN amax of the recording is 0 in a cast, which
        # ignores NaN.
        for side, format, measured in (("f", E4M3, (x, w, 0)), ("b", E5M2, (dy, 0))):
            steps = len(row["mul"])
            amaxes = np.nan_to_num(np.stack([np.broadcast_to(m, steps) for m in measured], 1), posinf=np.inf).astype(
                np.float32
            )
            history, scale = np.zeros((row["hist"], len(measured)), np.float32), np.ones(len(measured), np.float32)
            for step in range(steps):
                history, scale = delayed.update(amaxes[step], history, scale, format.max, row["algo"])
                for name, found in (("hist", history), ("scale", scale)):
                    same(
                        "sequence",
                        f"{row['case']}: {side}_{name} after step {step + 1}",
                        found,
                        recorded[f"{row['case']}/{side}_{name}"][step],
                    )
    return len(cases)


cases, runs = quantizers(), sequences()
print(f"model-golden: {cases} casts, {runs} sequences: " + ", ".join(f"{n} {kind}" for kind, n in compared.items()))
finish("model-golden")
