"""Makes and checks the files of te-run-checkpoint.test.

checkpoint.py resume FILE.mlir FOLDER   compares one run with the same run in two parts
checkpoint.py switch FILE.mlir FOLDER   resumes under every recipe what every other one saved
checkpoint.py types FOLDER              reads a checkpoint without te_mlir
checkpoint.py damage FOLDER             writes invalid files from a valid one
"""

import json
import pathlib
import struct
import subprocess
import sys

import numpy as np

RECIPES = [
    "high_precision",
    "float8_current_scaling",
    "float8_block_scaling",
    "delayed_scaling",
    "mxfp8_block_scaling",
    "nvfp4_block_scaling",
]
# The documented states of two linear layers, besides parameters and moments.
SLOTS = [f"{layer}.{role}" for layer in ("first", "second") for role in ("x", "w", "dy")]
STATES = {
    "delayed_scaling": {f"{slot}.{part}" for slot in SLOTS for part in ("amax_history", "scale")},
    "nvfp4_block_scaling": {"rng_state"},
}
COMMON = {"step", "w1", "w1.m", "w1.v", "w2", "w2.m", "w2.v"}


def read(path):
    """Reads the format in five lines: header, metadata, and bytes by name."""
    contents = path.read_bytes()
    (size,) = struct.unpack("<Q", contents[:8])
    header = json.loads(contents[8 : 8 + size])
    metadata = header.pop("__metadata__")
    data = contents[8 + size :]
    return header, metadata, {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}


def write(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def run(mlir, folder, recipe, steps, inputs, *options, said=None):
    """The results of te-run; appends what it printed to `said`."""
    done = subprocess.run(
        [
            "te-run",
            mlir,
            "--entry=step",
            "--backend=reference",
            "--quiet",
            f"--steps={steps}",
            f"--pipeline=recipe={recipe}",
            f"--outputs={folder / 'out.npz'}",
            *([f"--inputs={inputs}"] if inputs else []),
            *options,
        ],
        check=True,
        text=True,
        stderr=subprocess.PIPE if said is not None else None,
    )
    if said is not None:
        said.append(done.stderr)
    with np.load(folder / "out.npz") as arrays:
        return dict(arrays)


def resume(mlir, folder):
    rng = np.random.default_rng(0)
    steps, first = 7, 4
    x = rng.normal(0, 3, (steps, 32, 64)).astype(np.float32)
    x[1, 0, :] = 0
    x[2, 3, 4] = -0.0
    x[5, 0, 0] = 1e-40
    batches = {
        "x.steps": (x.view(np.uint32) >> 16).astype(np.uint16),
        "targets.steps": rng.integers(0, 64, (steps, 32)).astype(np.int32),
    }
    start = {name: rng.normal(0, 0.1, (64, 64)).astype(np.float32) for name in ("w1", "w2")}
    np.savez(folder / "all.npz", **batches, **start)
    np.savez(folder / "first.npz", **{name: array[:first] for name, array in batches.items()}, **start)
    np.savez(folder / "second.npz", **{name: array[first:] for name, array in batches.items()})
    for recipe in RECIPES:
        whole = run(mlir, folder, recipe, steps, folder / "all.npz", f"--save={folder / 'whole.safetensors'}")
        begin = run(mlir, folder, recipe, first, folder / "first.npz", f"--save={folder / 'half.safetensors'}")
        end = run(
            mlir,
            folder,
            recipe,
            steps - first,
            folder / "second.npz",
            f"--load={folder / 'half.safetensors'}",
            f"--save={folder / 'end.safetensors'}",
        )
        assert (folder / "whole.safetensors").read_bytes() == (folder / "end.safetensors").read_bytes(), recipe
        losses = np.concatenate([begin["loss.steps"], end["loss.steps"]])
        assert losses.tobytes() == whole["loss.steps"].tobytes(), recipe
        header, metadata, data = read(folder / "end.safetensors")
        assert metadata["te.step"] == "7" and recipe in metadata["te.recipe"], metadata
        assert set(data) == COMMON | STATES.get(recipe, set()), sorted(data)
        for name in data:
            assert data[name] == whole[name].tobytes(), (recipe, name)
        # The recipe's states matter: without them, the run continues differently.
        if recipe in STATES:
            others = {
                name: np.frombuffer(data, np.float32).reshape((64, 64) if len(data) > 4 else ())
                for name, data in read(folder / "half.safetensors")[2].items()
                if name in COMMON
            }
            np.savez(folder / "forgetful.npz", **{name: array[first:] for name, array in batches.items()}, **others)
            lost = run(mlir, folder, recipe, steps - first, folder / "forgetful.npz")
            assert lost["w1"].tobytes() != end["w1"].tobytes(), recipe
    print(f"{len(RECIPES)} recipes resume")


def switch(mlir, folder):
    """The step after a switch is that of a run with the same parameters and moments, whose recipe is new."""
    for recipe in RECIPES:
        run(mlir, folder, recipe, 2, None, "--seed=1", f"--save={folder / recipe}")
    count = 0
    for before in RECIPES:
        # The same states without those of a recipe.
        header, metadata, data = read(folder / before)
        assert set(json.loads(metadata["te.recipe_states"])) == STATES.get(before, set()), metadata
        plain = {
            name: np.frombuffer(data[name], np.float32).reshape(header[name]["shape"])
            for name in header
            if name in COMMON
        }
        np.savez(folder / "plain.npz", **plain)
        for after in RECIPES:
            if after == before:
                continue
            said = []
            got = run(mlir, folder, after, 1, None, "--seed=1", f"--load={folder / before}", said=said)
            wanted = run(mlir, folder, after, 1, folder / "plain.npz", "--seed=1")
            assert got.keys() == wanted.keys()
            assert all(got[name].tobytes() == wanted[name].tobytes() for name in got), (before, after)
            texts = [f"was saved under #te.recipe<{before}>, but this step has #te.recipe<{after}>"]
            left, new = (len(STATES.get(recipe, ())) for recipe in (before, after))
            texts += [f"{left} state{'s' * (left > 1)} of recipes in the file"] * (left > 0)
            texts += [f"{new} state{'s' * (new > 1)} of this step's recipes"] * (new > 0)
            (line,) = "".join(said).splitlines()
            parts = line.split("; ")
            assert len(parts) == len(texts) and all(text in part for text, part in zip(texts, parts)), line
            count += 1
    print(f"{count} switches resume")


def types(folder):
    header, _, data = read(folder / "types.safetensors")
    expected = {
        "a": ("BF16", [2, 3]),
        "b": ("F16", [3]),
        "c": ("I32", [2]),
        "mx.data": ("F8_E4M3", [32, 64]),
        "mx.scale": ("F8_E8M0", [128, 4]),
        "nv.data": ("F4", [32, 64]),
        "nv.scale": ("F8_E4M3", [128, 4]),
        "nv.amax": ("F32", [1]),
        "pt.data": ("F8_E5M2", [32, 64]),
        "pt.scale": ("F32", [1]),
    }
    assert {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()} == expected, header
    with np.load(folder / "types.npz") as arrays:
        for name in expected:
            assert data[name] == arrays[name].tobytes(), name
    print("types agree")


def damage(folder):
    good = (folder / "half.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", good[:8])
    header, data = json.loads(good[8 : 8 + size]), good[8 + size :]

    def changed(name, change):
        copy = json.loads(json.dumps(header))
        write(folder / f"{name}.safetensors", copy, change(copy) or data)

    (folder / "truncated.safetensors").write_bytes(good[:-1])
    write(folder / "nonsense.safetensors", b'{"a": \xff}', b"")
    changed("version", lambda copy: copy["__metadata__"].update({"te.format": "2"}))
    changed("foreign", lambda copy: copy.pop("__metadata__") and None)
    changed("count", lambda copy: copy["__metadata__"].update({"te.step": "4x"}))
    for name, steps in [("last", 2**63 - 1), ("huge", 10**20), ("almost", 2**63 - 2)]:
        changed(name, lambda copy, steps=steps: copy["__metadata__"].update({"te.step": str(steps)}))
    changed("missing", lambda copy: copy.update({"w1.moment": copy.pop("w1.m")}))
    changed("shape", lambda copy: copy["w1"].update({"shape": [4096]}))
    changed("dtype", lambda copy: copy["w1"].update({"dtype": "I32"}))

    # Only the weights, from another program.
    def weights(copy):
        for name in set(copy) - {"w1", "w2"}:
            del copy[name]
        out = b""
        for name in copy:
            begin, end = copy[name]["data_offsets"]
            copy[name]["data_offsets"] = [len(out), len(out) + end - begin]
            out += data[begin:end]
        return out

    changed("weights", weights)


{"resume": resume, "switch": switch, "types": types, "damage": damage}[sys.argv[1]](
    *[arg if arg.endswith(".mlir") else pathlib.Path(arg) for arg in sys.argv[2:]]
)
