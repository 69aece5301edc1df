"""Binds libte_xla through ctypes, and registers its handlers as targets of XLA's FFI.

A `Loaded` is a program that XLA can call. A `Call` is a range of the program's launches, as a JAX
primitive. The library has an instance of the program for each device and stream. The memory for
temporaries is an array that XLA allocates in each call.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from te_mlir import _capi
from te_mlir.dtypes import DType
from te_mlir.errors import ArgumentError, RuntimeFailure, TEError
from te_mlir.jax.varying import varying_axes
from te_mlir.program import Program

TARGET = "te_mlir_step"

#: The index of the buffer of temporaries (TE_XLA_ARENA).
ARENA = -1


class _CallRequest(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("begin", c_int32),
        ("end", c_int32),
        ("num_arguments", c_int32),
        ("num_results", c_int32),
        ("argument_places", POINTER(c_int32)),
        ("result_places", POINTER(c_int32)),
    ]


_XLA: dict[str, tuple[Any, list[Any]]] = {
    "te_xla_runtime_version": (c_int32, []),
    "te_xla_last_error": (c_char_p, []),
    "te_xla_program_create": (
        c_int32,
        [c_void_p, POINTER(_capi.ArgumentInfo), c_char_p, c_int32, c_char_p, POINTER(c_int64)],
    ),
    "te_xla_program_destroy": (None, [c_int64]),
    "te_xla_call_create": (c_int32, [c_int64, POINTER(_CallRequest), POINTER(c_int64)]),
    "te_xla_program_counts": (c_int32, [c_int64, POINTER(c_int64), POINTER(c_int64)]),
}

_library: ctypes.CDLL | None = None
_lock = threading.Lock()


def library() -> ctypes.CDLL:
    """Loads libte_xla and registers its handlers at the first call, and returns the library."""
    global _library
    with _lock:
        if _library is None:
            # The runtime is loaded first, so that there is only one in the process.
            _capi.runtime()
            loaded = _capi._load("libte_xla.so.0", _XLA)
            if loaded.te_xla_runtime_version() != _capi.ABI_VERSION:
                raise TEError(
                    f"expected libte_xla for ABI version {_capi.ABI_VERSION}, but got one for "
                    f"{loaded.te_xla_runtime_version()} in '{_capi.library_folder()}'"
                )
            for platform, handler in (("cpu", loaded.te_xla_execute_cpu), ("CUDA", loaded.te_xla_execute_cuda)):
                jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler), platform=platform)
            _library = loaded
    return _library


def _check(status: int) -> None:
    if status:
        raise RuntimeFailure(library().te_xla_last_error().decode())


def jax_dtype(dtype: DType) -> np.dtype:
    """The element type of arrays for `dtype`; two FP4 elements are one uint8."""
    return np.dtype(np.uint8) if dtype.name == "float4_e2m1fn" else jnp.dtype(dtype.name)


class Loaded:
    """A program that XLA can call, on every device of its platform.

    platform: "cpu" or "cuda". device: the number of the GPU on which the program is loaded first, to
    check it. A Call must not run after its Loaded was destroyed.
    """

    def __init__(self, program: Program, platform: str, device: int = 0) -> None:
        handles = library()
        compiler = _capi.compiler()
        self.program, self.platform = program, platform
        module = compiler.te_program_module(program.handle)
        self.num_launches: int = program.num_launches
        program.refuse_results_in_arena()
        arena = program.arena_bytes
        #: Type of the array of temporaries; None if there are none. It has two dimensions, so that
        #: each size fits in 32 bits even if the array has more than 2**31 bytes.
        self.arena = jax.ShapeDtypeStruct((-(-arena // 256), 256), np.uint8) if arena else None
        count = len(program.arguments)
        infos = (_capi.ArgumentInfo * max(count, 1))(
            *(compiler.te_program_argument(program.handle, i).contents for i in range(count))
        )
        number = c_int64()
        backend = b"reference" if platform == "cpu" else b"cuda"
        _check(
            handles.te_xla_program_create(module, infos, backend, device, program.entry.encode(), ctypes.byref(number))
        )
        self.number: int = number.value
        # Passing `program` keeps its code loaded until the handle that runs it is destroyed.
        finalizer = weakref.finalize(
            self, lambda program, number: handles.te_xla_program_destroy(number), program, self.number
        )
        finalizer.atexit = False

    def counts(self) -> tuple[int, int]:
        """(The number of calls that have run, the number of instances.)"""
        runs, instances = c_int64(), c_int64()
        _check(library().te_xla_program_counts(self.number, ctypes.byref(runs), ctypes.byref(instances)))
        return runs.value, instances.value

    def type_of(self, place: int) -> jax.ShapeDtypeStruct:
        """Shape and element type of the array at an index."""
        if place == ARENA:
            assert self.arena is not None
            return self.arena
        argument = self.program.arguments[place]
        return jax.ShapeDtypeStruct(argument.shape, jax_dtype(argument.dtype))


class Call:
    """A range of a program's launches as a function of arrays, which JAX can trace.

    inputs, results: the indices of its arrays among the program's pointers, or ARENA. A result that is
    the next value of an input, or that is also an input (such as the arena), is aliased to the input:
    XLA writes in place if the old value is not needed, and otherwise copies it first.
    """

    def __init__(
        self, loaded: Loaded, inputs: Sequence[int], results: Sequence[int], begin: int = 0, end: int | None = None
    ) -> None:
        if loaded.arena is None:
            inputs, results = ([p for p in places if p != ARENA] for places in (inputs, results))
        self.loaded, self.inputs, self.results = loaded, list(inputs), list(results)
        request = _CallRequest(
            struct_size=ctypes.sizeof(_CallRequest),
            begin=begin,
            end=loaded.num_launches if end is None else end,
            num_arguments=len(self.inputs),
            num_results=len(self.results),
            argument_places=(c_int32 * max(len(self.inputs), 1))(*self.inputs),
            result_places=(c_int32 * max(len(self.results), 1))(*self.results),
        )
        number = c_int64()
        _check(library().te_xla_call_create(loaded.number, ctypes.byref(request), ctypes.byref(number)))
        arguments = loaded.program.arguments
        aliases = {}
        for index, place in enumerate(self.results):
            # An index that is both input and result is the arena, or a gradient whose memory has intermediates.
            before = place if place == ARENA or place in self.inputs else arguments[place].carried_input
            if before in self.inputs and (before == place or before >= 0):
                aliases[self.inputs.index(before)] = index
        self._types = [loaded.type_of(p) for p in self.results]
        self._make = functools.partial(jax.ffi.ffi_call, TARGET, input_output_aliases=aliases, vmap_method=None)
        self._call = self._make(self._types)
        self._number = np.int64(number.value)

    def __call__(self, *arrays: Any) -> list[Any]:
        call, axes = self._call, varying_axes(arrays)
        if axes:
            mesh = next(jax.typeof(array).sharding.mesh for array in arrays if varying_axes([array]))
            place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
            manual = jax.sharding.ManualAxisType(varying=axes)
            call = self._make(
                [jax.ShapeDtypeStruct(t.shape, t.dtype, sharding=place, manual_axis_type=manual) for t in self._types]
            )
        try:
            return list(call(*arrays, call=self._number))
        except NotImplementedError:
            # JAX's own message would suggest options of custom calls that users cannot set.
            raise ArgumentError(
                f"'{self.loaded.program.entry}': expected arrays of the shapes that it was compiled for, but jax.vmap "
                "would add a dimension; compile it for the batch, or use jax.lax.map"
            ) from None
        except ValueError:
            # Only tracers of automatic differentiation have a tangent.
            if not any(isinstance(array, jax.core.Tracer) and hasattr(array, "tangent") for array in arrays):
                raise
            raise ArgumentError(
                f"'{self.loaded.program.entry}': expected a gradient of results, but got one of a gradient (jax.hessian, "
                "jax.grad of jax.grad); te has no second derivatives"
            ) from None
