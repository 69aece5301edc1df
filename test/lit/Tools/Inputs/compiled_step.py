"""Loads the output of te-compile with only the runtime, and compares its results with te-run.

    compiled_step.py FILE.mlir LIBTE_RUNTIME FOLDER

The structs are defined here again, as in the ABI's header.
"""

import ctypes
import pathlib
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
STEPS = 3
TYPES = {0: np.float32, 1: np.uint16, 2: np.uint16, 3: np.uint8, 4: np.uint8, 5: np.int32, 6: np.uint8, 7: np.uint8}


class Argument(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("value_type", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("role", ctypes.c_int32),
        ("part", ctypes.c_int32),
        ("carried_input", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("init", ctypes.c_float),
        ("reserved", ctypes.c_int32),
        ("arena_offset", ctypes.c_int64),
    ]


class Signature(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_char * 4),
        ("version", ctypes.c_uint32),
        ("entry", ctypes.c_char_p),
        ("recipe", ctypes.c_char_p),
        ("pipeline", ctypes.c_char_p),
        ("num_arguments", ctypes.c_int32),
        ("argument_bytes", ctypes.c_int32),
        ("arguments", ctypes.POINTER(Argument)),
    ]


def check(runtime, status):
    if status != 0:
        sys.exit(runtime.te_rt_last_error().decode())


def run(runtime, path, pipeline, arrays):
    """The results of the last step by name. On the reference backend, device memory is host memory."""
    step = ctypes.CDLL(str(path))
    signature = Signature.in_dll(step, "te_module_signature")
    assert signature.magic == b"TERS" and signature.version == runtime.te_rt_version()
    assert signature.argument_bytes == ctypes.sizeof(Argument) == 72
    assert signature.entry == b"step" and signature.pipeline == pipeline.encode()
    context, instance = ctypes.c_void_p(), ctypes.c_void_p()
    check(runtime, runtime.te_rt_context_create(b"reference", ctypes.byref(context)))
    module = ctypes.c_byte.in_dll(step, "te_module")
    check(runtime, runtime.te_rt_instance_create(context, ctypes.byref(module), ctypes.byref(instance)))
    table = signature.arguments[: signature.num_arguments]
    pointers, buffers = (ctypes.c_void_p * len(table))(), []
    for index, info in enumerate(table):
        assert (
            info.shape[: info.rank]
            and TYPES[info.dtype]().itemsize * np.prod(info.shape[: info.rank]) == info.bytes
            or info.rank == 0
            and info.bytes == 4
        )
        if info.carried_input >= 0:
            buffers.append(buffers[info.carried_input])
            assert info.role == 1 and table[info.carried_input].name == info.name
            pointers[index] = pointers[info.carried_input]
            continue
        # Memory aligned to 16 bytes, from numpy. One more element, so that no array is empty.
        buffer = np.zeros(info.shape[: info.rank], TYPES[info.dtype])
        if info.role == 0 and info.name.decode() in arrays:
            buffer[...] = arrays[info.name.decode()]
        elif info.flags & 2:
            buffer[...] = info.init
        buffers.append(buffer)
        pointers[index] = buffer.ctypes.data
    for _ in range(STEPS):
        check(runtime, runtime.te_rt_instance_run(instance, pointers, None))
    runtime.te_rt_instance_destroy(instance)
    runtime.te_rt_context_destroy(context)
    return {info.name.decode(): buffer for info, buffer in zip(table, buffers) if info.role == 1}


def bytes_of(array):
    return np.ascontiguousarray(array).tobytes()


mlir, library, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
runtime = ctypes.CDLL(library)
runtime.te_rt_last_error.restype = ctypes.c_char_p
runtime.te_rt_instance_create.argtypes = [ctypes.c_void_p] * 3
runtime.te_rt_instance_run.argtypes = [ctypes.c_void_p] * 3
runtime.te_rt_instance_destroy.argtypes = runtime.te_rt_context_destroy.argtypes = [ctypes.c_void_p]

rng = np.random.default_rng(0)
x = rng.normal(0, 3, (32, 64)).astype(np.float32)
x[0, :], x[1, 2], x[3, 4] = 0, -0.0, 1e-40
arrays = {
    "x": (x.view(np.uint32) >> 16).astype(np.uint16),
    "targets": rng.integers(0, 64, 32).astype(np.int32),
    "w1": rng.normal(0, 0.1, (64, 64)).astype(np.float32),
    "w2": rng.normal(0, 0.1, (64, 64)).astype(np.float32),
}
for recipe in RECIPES:
    pipeline = f"recipe={recipe} target=reference emulate"
    states = {"rng_state": np.array([3, 5], np.int32)} if recipe.startswith("nvfp4") else {}
    np.savez(folder / "in.npz", **arrays, **states)
    subprocess.run(
        ["te-compile", mlir, "--entry=step", "-o", folder / f"{recipe}.so", f"--pipeline={pipeline}"], check=True
    )
    subprocess.run(
        [
            "te-run",
            mlir,
            "--entry=step",
            "--backend=reference",
            "--quiet",
            f"--steps={STEPS}",
            f"--pipeline={pipeline}",
            f"--inputs={folder / 'in.npz'}",
            f"--outputs={folder / 'out.npz'}",
        ],
        check=True,
    )
    mine = run(runtime, folder / f"{recipe}.so", pipeline, arrays | states)
    other = run(runtime, folder / f"{recipe}.so", pipeline, arrays | states | {"targets": arrays["targets"] ^ 1})
    with np.load(folder / "out.npz") as wanted:
        for name, buffer in mine.items():
            if bytes_of(buffer) != bytes_of(wanted[name]):
                sys.exit(f"{recipe}: '{name}' differs from te-run's")
    if bytes_of(mine["w1"]) == bytes_of(other["w1"]):
        sys.exit(f"{recipe}: 'w1' does not depend on 'targets'")
print(len(RECIPES), "recipes: equal te-run, and another input differs")
