"""Launches one kernel of libte_runtime through its C ABI, as a compiled step would.

Signatures are read from te_runtime_kernels.inc and enumerators from te_runtime_types.h, so changes of rows take effect here.
"""

import ctypes
import pathlib
import re

import numpy as np

HEADERS = pathlib.Path(__file__).parents[4] / "include" / "TEDialect" / "Runtime"
_types = (HEADERS / "te_runtime_types.h").read_text()
#: Enumerators without their prefix: "BF16", "NV_1X16".
ENUM = {name: int(value) for name, value in re.findall(r"TE_RT_(\w+) = (\d+)", _types)}
_version = int(re.search(r"#define TE_RT_VERSION (\d+)", _types)[1])
_magic = int(re.search(r"#define TE_RT_MODULE_MAGIC (0x[0-9a-f]+)", _types)[1], 16)


def _rows():
    rows = {}
    text = re.sub(r"//.*", "", (HEADERS / "te_runtime_kernels.inc").read_text())
    for name, body in re.findall(r"TE_RT_KERNEL\((\w+),((?:[^()]|\(\w+\))*)\)", text):
        words = re.findall(r"TE_RT_(I64|I32|F32|IN_OPT|IN|OUT_OPT|OUT)\((\w+)\)", body)
        c_types = {"I64": ctypes.c_int64, "I32": ctypes.c_int32, "F32": ctypes.c_float}
        rows[name] = (
            [(word, c_types[kind]) for kind, word in words if kind in c_types],
            [(word, kind) for kind, word in words if kind not in c_types],
        )
    return rows


#: kernel -> (parameters with their C types, buffers with their kinds)
KERNELS = _rows()
_LOAD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_STEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


class _Module(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("arena_bytes", ctypes.c_int64),
        ("num_plans", ctypes.c_int32),
        ("num_arguments", ctypes.c_int32),
        ("load", _LOAD),
        ("step", _STEP),
        ("origins", ctypes.c_char_p),
        ("kernels", ctypes.c_void_p),
        ("num_kernels", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    ]


class Runtime:
    """A context of a backend."""

    def __init__(self, library, backend="reference"):
        self.library = ctypes.CDLL(str(library))
        self.library.te_rt_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        self._do("te_rt_context_create", backend.encode(), ctypes.byref(self.context))

    def _do(self, name, *arguments):
        if getattr(self.library, name)(*arguments):
            raise RuntimeError(self.library.te_rt_last_error().decode())

    def launch(self, kernel, parameters, inputs, outputs):
        """Arrays of the results. `outputs` gives their shapes and types; they start as junk, so what is not written shows."""
        types, buffers = KERNELS[kernel]
        if {name for name, _ in types} != set(parameters):
            raise KeyError(f"'{kernel}' has parameters {[name for name, _ in types]}, but got {list(parameters)}")
        unknown = (set(inputs) | set(outputs)) - {name for name, _ in buffers}
        if unknown:
            raise KeyError(f"'{kernel}' has buffers {[name for name, _ in buffers]}, but got {sorted(unknown)}")
        host = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        for name, (shape, dtype) in outputs.items():
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            host[name] = np.full(size, 0xA5, np.uint8).view(dtype).reshape(shape)
        device = {name: ctypes.c_void_p() for name in host}
        for name, array in host.items():
            self._do("te_rt_alloc", self.context, ctypes.c_int64(array.nbytes), ctypes.byref(device[name]))
            self._do(
                "te_rt_copy_to_device",
                self.context,
                device[name],
                ctypes.c_void_p(array.ctypes.data),
                ctypes.c_int64(array.nbytes),
            )
        pointers = (ctypes.c_void_p * len(buffers))(*(device.get(name) for name, _ in buffers))

        def load(instance):
            values = [c_type(parameters[name]) for name, c_type in types]
            return getattr(self.library, f"te_rt_plan_{kernel}")(ctypes.c_void_p(instance), ctypes.c_int32(0), *values)

        def step(instance, arena, arguments):
            self.library.te_rt_launch(ctypes.c_void_p(instance), ctypes.c_int32(0), pointers)

        module = _Module(_magic, _version, 0, 1, 0, _LOAD(load), _STEP(step))
        instance = ctypes.c_void_p()
        self._do("te_rt_instance_create", self.context, ctypes.byref(module), ctypes.byref(instance))
        self._do("te_rt_instance_run", instance, pointers, None)
        for name in outputs:
            array = host[name]
            self._do(
                "te_rt_copy_to_host",
                self.context,
                ctypes.c_void_p(array.ctypes.data),
                device[name],
                ctypes.c_int64(array.nbytes),
            )
        self.library.te_rt_instance_destroy(instance)
        for pointer in device.values():
            self._do("te_rt_free", self.context, pointer)
        return {name: host[name] for name in outputs}
