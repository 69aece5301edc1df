"""The two C libraries through ctypes: declarations, loading, and errors as exceptions.

Both are loaded at their first use. In a wheel they are beside this file; the
environment variable TE_MLIR_LIBRARY_PATH names another folder, such as the `lib`
of a build tree.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p

from te_mlir.errors import CompileError, Diagnostic, RuntimeFailure, TEError

#: The TE_RT_VERSION of this package's structs.
ABI_VERSION = 18


#: Whether to end a compilation.
IS_INTERRUPTED = ctypes.CFUNCTYPE(c_int32, c_void_p)


class CompileRequest(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("source", c_char_p),
        ("source_size", c_size_t),
        ("source_name", c_char_p),
        ("entry", c_char_p),
        ("pipeline", c_char_p),
        ("backend", c_char_p),
        ("vjp", c_int32),
        ("ir_only", c_int32),
        ("picture", c_char_p),
        ("is_interrupted", IS_INTERRUPTED),
        ("user", c_void_p),
    ]


class ArgumentInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("value_type", c_char_p),
        ("shape", POINTER(c_int64)),
        ("bytes", c_int64),
        ("rank", c_int32),
        ("dtype", c_int32),
        ("role", c_int32),
        ("part", c_int32),
        ("carried_input", c_int32),
        ("flags", c_uint32),
        ("init", c_float),
        ("reserved", c_int32),
        ("arena_offset", c_int64),
    ]


class Module(ctypes.Structure):
    _fields_ = [
        ("magic", c_uint32),
        ("version", c_uint32),
        ("arena_bytes", c_int64),
        ("num_plans", c_int32),
        ("num_arguments", c_int32),
        ("load", c_void_p),
        ("step", c_void_p),
        ("origins", c_char_p),
        ("kernels", c_void_p),
        ("num_kernels", c_int32),
        ("flags", c_uint32),
    ]


class LaunchInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kernel", c_char_p),
        ("name", c_char_p),
        ("location", c_char_p),
    ]


class DiagnosticInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("severity", c_int32),
        ("code", c_char_p),
        ("message", c_char_p),
        ("location", c_char_p),
        ("layer", c_char_p),
    ]


#: te_severity, by number.
SEVERITIES = ("note", "remark", "warning", "error")

#: int exchange(user, send, stride, receive, bytes, timeout_ms, message), a field of te_rt_communicator.
EXCHANGE = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_int64, c_void_p)
#: The size of the buffer for its error message.
MESSAGE_BYTES = 512
#: The size of the id of a group.
GROUP_ID_BYTES = 128


class Communicator(ctypes.Structure):
    _fields_ = [
        ("size", c_int32),
        ("rank", c_int32),
        ("user", c_void_p),
        ("exchange", EXCHANGE),
    ]


TUNING = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)


class GemmOptions(ctypes.Structure):
    _fields_ = [
        ("choice", c_int32),
        ("reserved", c_int32),
        ("file", c_char_p),
        ("budget_ms", c_int64),
        ("tuning", TUNING),
        ("user", c_void_p),
    ]


class GemmInfo(ctypes.Structure):
    _fields_ = [
        ("origin", c_int32),
        ("reserved", c_int32),
        ("gemm", c_char_p),
        ("algorithm", c_char_p),
    ]


_RUNTIME = {
    "te_rt_version": (c_int32, []),
    "te_rt_last_error": (c_char_p, []),
    "te_rt_context_create": (c_int32, [c_char_p, POINTER(c_void_p)]),
    "te_rt_context_create_on_device": (c_int32, [c_char_p, c_int32, POINTER(c_void_p)]),
    "te_rt_context_destroy": (None, [c_void_p]),
    "te_rt_context_backend": (c_char_p, [c_void_p]),
    "te_rt_context_description": (c_char_p, [c_void_p]),
    "te_rt_group_unique_id": (c_int32, [c_char_p]),
    "te_rt_context_bind_group": (c_int32, [c_void_p, c_int32, c_char_p, c_int32, c_int32]),
    "te_rt_context_bind_communicator": (c_int32, [c_void_p, c_int32, POINTER(Communicator)]),
    "te_rt_context_bind_nccl": (c_int32, [c_void_p, c_int32, c_void_p, c_int32, c_int32]),
    "te_rt_context_set_group_timeout": (c_int32, [c_void_p, c_int64]),
    "te_rt_context_set_gemm_options": (c_int32, [c_void_p, POINTER(GemmOptions)]),
    "te_rt_alloc": (c_int32, [c_void_p, c_int64, POINTER(c_void_p)]),
    "te_rt_free": (c_int32, [c_void_p, c_void_p]),
    "te_rt_copy_to_device": (c_int32, [c_void_p, c_void_p, c_void_p, c_int64]),
    "te_rt_copy_to_host": (c_int32, [c_void_p, c_void_p, c_void_p, c_int64]),
    "te_rt_synchronize": (c_int32, [c_void_p]),
    "te_rt_instance_create": (c_int32, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "te_rt_instance_create_without_arena": (c_int32, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "te_rt_instance_set_arena": (c_int32, [c_void_p, c_void_p, c_int64]),
    "te_rt_instance_destroy": (None, [c_void_p]),
    "te_rt_instance_gemm": (c_int32, [c_void_p, c_int32, POINTER(GemmInfo)]),
    "te_rt_instance_run": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "te_rt_instance_run_part": (c_int32, [c_void_p, c_void_p, c_void_p, c_int32, c_int32]),
    "te_rt_instance_run_part_graph": (c_int32, [c_void_p, c_void_p, c_void_p, c_int32, c_int32]),
}

_COMPILER = {
    "te_compiler_version": (c_char_p, []),
    "te_compiler_runtime_version": (c_int32, []),
    "te_compiler_last_error": (c_char_p, []),
    "te_compiler_num_diagnostics": (c_int32, []),
    "te_compiler_diagnostic": (c_int32, [c_int32, POINTER(DiagnosticInfo)]),
    "te_compile": (c_int32, [POINTER(CompileRequest), POINTER(c_void_p)]),
    "te_program_destroy": (None, [c_void_p]),
    "te_program_module": (POINTER(Module), [c_void_p]),
    "te_program_num_arguments": (c_int32, [c_void_p]),
    "te_program_argument": (POINTER(ArgumentInfo), [c_void_p, c_int32]),
    "te_program_argument_uses": (
        c_int32,
        [c_void_p, c_int32, POINTER(c_int32), POINTER(c_int32)],
    ),
    "te_program_num_launches": (c_int32, [c_void_p]),
    "te_program_launch": (c_int32, [c_void_p, c_int32, POINTER(LaunchInfo)]),
    "te_program_recipe": (c_char_p, [c_void_p]),
    "te_program_report": (c_char_p, [c_void_p]),
    "te_program_diagnostics": (c_char_p, [c_void_p]),
    "te_program_num_diagnostics": (c_int32, [c_void_p]),
    "te_program_diagnostic": (c_int32, [c_void_p, c_int32, POINTER(DiagnosticInfo)]),
    "te_program_ir": (c_char_p, [c_void_p]),
}

_loaded: dict[str, ctypes.CDLL] = {}


def library_folder() -> str:
    """The folder that the libraries are loaded from."""
    chosen = os.environ.get("TE_MLIR_LIBRARY_PATH")
    return os.path.abspath(chosen) if chosen else os.path.join(os.path.dirname(__file__), "lib")


def _remedy() -> str:
    return "; install the wheel, or set TE_MLIR_LIBRARY_PATH to the 'lib' of a build of this checkout" + (
        " (it is set)" if os.environ.get("TE_MLIR_LIBRARY_PATH") else ""
    )


def _load(name: str, functions: dict[str, tuple]) -> ctypes.CDLL:
    path = os.path.join(library_folder(), name)
    if not os.path.exists(path):
        raise TEError(f"expected '{name}' in '{library_folder()}', but it does not exist{_remedy()}")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise TEError(f"cannot load '{path}': {error}") from None
    for function, (result, arguments) in functions.items():
        try:
            prototype = getattr(library, function)
        except AttributeError:
            raise TEError(f"'{path}' has no function '{function}': it belongs to another release") from None
        prototype.restype, prototype.argtypes = result, arguments
    return library


def runtime() -> ctypes.CDLL:
    """libte_runtime, loaded once."""
    if "runtime" not in _loaded:
        library = _load("libte_runtime.so.0", _RUNTIME)
        if library.te_rt_version() != ABI_VERSION:
            raise TEError(
                f"expected a runtime of ABI version {ABI_VERSION}, but got "
                f"{library.te_rt_version()} in '{library_folder()}'{_remedy()}"
            )
        _loaded["runtime"] = library
    return _loaded["runtime"]


def compiler() -> ctypes.CDLL:
    """libte_compiler, loaded once."""
    if "compiler" not in _loaded:
        # The runtime is loaded first, so that the compiler uses the same file.
        runtime()
        _loaded["compiler"] = _load("libte_compiler.so.0", _COMPILER)
    return _loaded["compiler"]


def check(status: int) -> None:
    """Raises RuntimeFailure if a call of the runtime failed."""
    if status:
        raise RuntimeFailure(runtime().te_rt_last_error().decode())


def _diagnostics(count: int, read: Callable[[int, object], int]) -> tuple[Diagnostic, ...]:
    """The diagnostics that `read` fills in for each index below `count`."""
    found = []
    for index in range(count):
        info = DiagnosticInfo(struct_size=ctypes.sizeof(DiagnosticInfo))
        if not read(index, ctypes.byref(info)):
            texts = (info.code, info.message, info.location, info.layer)
            code, message, location, layer = (text.decode(errors="replace") for text in texts)
            severity = SEVERITIES[info.severity]
            found.append(Diagnostic(severity, code, message, location, layer))
    return tuple(found)


def program_diagnostics(program: int) -> tuple[Diagnostic, ...]:
    """Warnings and remarks of a compiled program."""
    library = compiler()
    return _diagnostics(
        library.te_program_num_diagnostics(program),
        lambda index, info: library.te_program_diagnostic(program, index, info),
    )


def check_compiler(status: int) -> None:
    """Raises CompileError if a call of the compiler, other than te_compile, failed."""
    if status:
        raise CompileError(compiler().te_compiler_last_error().decode(errors="replace"))


def check_compiled(status: int) -> None:
    """Raises CompileError, with its diagnostics, if te_compile failed."""
    if status:
        library = compiler()
        message = library.te_compiler_last_error().decode(errors="replace")
        found = _diagnostics(library.te_compiler_num_diagnostics(), library.te_compiler_diagnostic)
        raise CompileError(f"internal error: {message}" if status == 3 else message, found)
