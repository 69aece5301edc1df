#!/usr/bin/env python3
"""Makes the golden vectors of this folder with TransformerEngine's own PyTorch code, on a CPU.

    make.py CHECKOUT                     writes quantizers_1.npz, modules_1.npz and their .json files
    make.py CHECKOUT --check RECORDED    compares with the casts recorded in RECORDED/quantizers_1.npz

CHECKOUT is a checkout of https://github.com/NVIDIA/TransformerEngine, of which nothing is built: only its quantisers in
PyTorch are loaded, with empty modules in the place of what they import.
"""

import importlib
import json
import pathlib
import sys
import types
import zipfile

import numpy as np
import torch

SCALE = 7.3  # of delayed scaling
TYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
MODES = {
    "1d": {},
    "2d": {"quant_tile_shape": (16, 16)},
    "rht": {"with_rht": True},
    "4over6": {"nvfp4_use_4over6": True},
    "4over6_256": {"nvfp4_use_4over6": True, "nvfp4_e4m3_max": 256},
    "rowscaled": {"row_scaled_nvfp4": True, "columnwise": False},
}
#: Multipliers of the amaxes of a sequence. All are powers of two, because PyTorch divides by multiplying with a reciprocal,
#: and TransformerEngine's kernel divides.
STEPS = (1, 1, 64, 2**-9, 2**-9, 4096, np.inf, 1, 1, 1, 2.0**-140, 1, 1, 2, 8, 1, 1, 1)


def load(checkout):
    """TransformerEngine's modules: casts with one scale, with blocks, NVFP4, and the update of delayed scaling."""

    def empty(name, path=None, **members):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = [str(path)] if path else []
        vars(module).update(members)

    class Quantizer:
        def __init__(self, *, rowwise, columnwise):
            self.rowwise_usage, self.columnwise_usage = rowwise, columnwise

    root = pathlib.Path(checkout)
    te = "transformer_engine.pytorch"
    sys.path.insert(0, str(root / "tests/pytorch"))
    empty("transformer_engine")
    empty(te, DType=types.SimpleNamespace(kFloat8E4M3="e4m3", kFloat8E5M2="e5m2"))
    empty(f"{te}.tensor")
    empty(f"{te}.tensor.utils", is_custom=None)
    empty(f"{te}.constants", TE_DType_To_Torch=TYPES)
    empty(f"{te}.custom_recipes", root / "transformer_engine/pytorch/custom_recipes")
    empty(f"{te}.quantized_tensor", QuantizedTensorStorage=object, Quantizer=Quantizer)
    nv = importlib.import_module(f"{te}.custom_recipes.reference_nvfp4")
    tensor = importlib.import_module("references.ref_per_tensor_cs")
    block = importlib.import_module("references.blockwise_quantizer_reference").BlockwiseQuantizerReference()
    # These two functions need nothing of their module, whose imports need a build.
    source = (root / "transformer_engine/pytorch/quantization.py").read_text()
    body = source[source.index("def _update_amax_history(") : source.index("def _compute_amax_and_")]
    body = "\n".join(line for line in body.splitlines() if not line.startswith("@"))
    update = {"torch": torch, "Tuple": tuple, "Optional": lambda kind: kind}
    exec("from __future__ import annotations\n" + body, update)
    return tensor, block, nv.NVFP4QuantizerRef, update


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).numpy() if tensor.dtype != torch.float32 else tensor.numpy()


def cast(code, row, x):
    """The arrays of a case."""
    tensor, block, nvfp4, _ = code
    recipe = row["recipe"]
    if recipe == "nvfp4":
        q = nvfp4(dtype=None, **MODES[row["mode"]])
        data, scale, data_t, scale_t, amax, amax_t = q._quantize(x)
        arrays = {"row": data, "row_scale": scale, "amax_row": amax}
        if q.columnwise_usage:
            arrays |= {"col": data_t, "col_scale": scale_t, "amax_col": amax_t}
        return {name: bits(a) for name, a in arrays.items()}
    if recipe == "block":
        tile = (row["dim"] if row["dim"] == 1 else 128, 128)
        q = block.quantize(x, TYPES[row["dtype"]], True, 0.0, row["pow2"], tile)
        arrays = {"row": q.data, "row_scale_inv": q.scale, "col": q.data_t, "col_scale_inv": q.scale_t}
        return {name: bits(a) for name, a in arrays.items()}
    computed = tensor._ref_compute_amax_scale
    if recipe == "delayed":
        given = torch.tensor([row["scale"]])
        tensor._ref_compute_amax_scale = lambda x, dtype, *options: (given, given.reciprocal(), None)
    data, scale_inv, transposed, _ = tensor.ref_per_tensor_cs_cast(x, row["dtype"], True, row.get("pow2", False))
    tensor._ref_compute_amax_scale = computed
    arrays = {"data": data, "transpose": transposed, "scale_inv": scale_inv.reshape(1)}
    if recipe == "delayed":
        arrays["amax"] = x.float().abs().amax().reshape(1)
    return {name: bits(a) for name, a in arrays.items()}


def sequence(code, row, amaxes):
    """Histories and scales after each step of delayed scaling, as TransformerEngine's update gives them."""
    get, compute = (code[3][f"_default_{name}"] for name in ("get_amax_and_update_history", "sf_compute"))
    found = {f"amax_{name}": values for name, values in amaxes.items()}
    for side, largest, names in (("f", 448.0, ("x", "w")), ("b", 57344.0, ("dy",))):
        slots = len(names) + 1
        history, scale = torch.zeros(row["hist"], slots), torch.ones(slots)
        rows = {"hist": [], "scale": []}
        for step in range(len(row["mul"])):
            # The casts of the step measure into the first row.
            for slot, name in enumerate(names):
                history[0, slot] = float(np.broadcast_to(amaxes[name], len(STEPS))[step])
            history, amax = get(history, row["algo"])
            scale = compute(amax, scale, largest, 0)
            rows["hist"].append(history.numpy().copy())
            rows["scale"].append(scale.numpy().copy())
        found |= {f"{side}_{name}": np.stack(values) for name, values in rows.items()}
    return found


def as_bf16(x):
    return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)


def check(code, folder):
    """Prints how many recorded cases are equal, by recipe and kind of input."""
    recorded, tally = np.load(folder / "quantizers_1.npz"), {}
    for row in json.loads((folder / "quantizers_1.json").read_text()):
        if "recipe" not in row:
            continue
        x, equal = as_bf16(recorded[f"{row['input']}/x"]), True
        for name, array in cast(code, row, x).items():
            theirs = recorded[f"{row['case']}/{name}"]
            if name.endswith("_scale_inv") and row["recipe"] == "block":  # Padding is undefined.
                outer = name.startswith("col")
                size = x.shape[outer] if row["dim"] == 1 else -(-x.shape[not outer] // 128)
                array, theirs = array[:, :size], theirs[:, :size]
            equal &= array.tobytes() == theirs.tobytes()
        tally.setdefault((row["recipe"], row["input"].rsplit("_", 1)[1]), []).append(equal)
    for key, found in sorted(tally.items()):
        print(*key, f"{sum(found)} of {len(found)} equal")


def inputs():
    """(Name, bf16) of each input."""
    rng = np.random.default_rng(2026)
    for prefix, shapes in (("", ((32, 144), (144, 16), (16, 48))), ("nv_", ((32, 96), (16, 160), (32, 48)))):
        for rows, columns in shapes:
            normal = rng.standard_normal((rows, columns)).astype(np.float32)
            kinds = {
                "normal": normal,
                "wide": normal * np.exp2(rng.integers(-50, 50, normal.shape)).astype(np.float32),
                "zeros": np.zeros_like(normal),
            }
            if not prefix:
                kinds["tiny"] = normal * np.float32(2.0**-124)
                # Negative zeros, subnormal numbers and numbers of both ends.
                kinds["special"] = rng.choice(
                    np.float32([-0.0, 0.0, 2.0**-130, -(2.0**-133), 3e38, -1.0]), normal.shape
                )
            for kind, values in kinds.items():
                yield f"in_{prefix}{rows}x{columns}_{kind}", torch.from_numpy(values).bfloat16()


def casts(name):
    """One row for each cast of an input."""
    what = name.removeprefix("in_")
    if what.startswith("nv_"):
        for mode in MODES:
            yield {"case": f"nvfp4_{mode}_{what}", "recipe": "nvfp4", "mode": mode}
        return
    for dtype in TYPES:
        for pow2 in (False, True):
            row = {"dtype": dtype, "pow2": pow2}
            yield {"case": f"current_{dtype}_{pow2:d}_{what}", "recipe": "current"} | row
            for dim in (1, 2):
                yield {"case": f"block{dim}d_{dtype}_{pow2:d}_{what}", "recipe": "block", "dim": dim} | row
        # PyTorch's casts do not saturate.
        if not what.endswith(("wide", "special")):
            yield {"case": f"delayed_{dtype}_{what}", "recipe": "delayed", "dtype": dtype, "scale": SCALE}


def write(path, rows, arrays):
    """The rows, and the arrays, the same bytes for the same arrays."""
    path.with_suffix(".json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w") as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array))


def make(code, folder):
    rows, arrays = [], {}
    for name, x in inputs():
        rows.append({"case": name, "kind": "input", "shape": list(x.shape)})
        arrays[f"{name}/x"] = x.view(torch.int16).numpy().view(np.uint16)
        for row in casts(name):
            rows.append(row | {"input": name})
            arrays |= {f"{row['case']}/{key}": array for key, array in cast(code, row, x).items()}
    write(folder / "quantizers_1.npz", rows, arrays)
    rows, arrays = [], {}
    for length in (2, 5):
        for algorithm in ("max", "most_recent"):
            row = {"case": f"delayed_seq_{length}_{algorithm}", "hist": length, "algo": algorithm}
            rows.append(row | {"mul": [str(step) for step in STEPS]})
            amaxes = {n: np.array(STEPS) * a for n, a in (("x", 4.0), ("dy", 0.0625))} | {"w": np.float32([0.25])}
            arrays |= {f"{row['case']}/{key}": array for key, array in sequence(code, rows[-1], amaxes).items()}
    write(folder / "modules_1.npz", rows, arrays)


if __name__ == "__main__":
    code = load(sys.argv[1])
    if sys.argv[2:3] == ["--check"]:
        check(code, pathlib.Path(sys.argv[3]))
    else:
        make(code, pathlib.Path(__file__).absolute().parent)
