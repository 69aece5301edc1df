"""Compiles a program in another process first, so that a crash of the compiler does not end the caller's.

A program is compiled twice, because machine code and pointers do not cross a pipe. The first
compilation only shows that the compiler survives the program. Its process is a new interpreter:
a fork of a process with threads may wait forever for a lock that one of them had.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from te_mlir import _capi
from te_mlir.errors import CompileError, Diagnostic

#: The interpreter imports the standard library and this package only, and writes no bytecode.
_INTERPRETER = ("-I", "-S", "-B", "-c")
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from te_mlir import isolation; isolation._serve()"
#: Half of the usual stack of a thread, because the caller has used a part of its own.
_STACK_BYTES = 4 * 2**20
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Isolation:
    """A program is compiled in another process first, within these limits.

    memory_bytes: the address space of that process. seconds: its time, including its start.

    If the process crashes or exceeds a limit, CompileError is raised with a diagnostic of the
    code "isolation", and the caller's process has not read the program. Otherwise the program is
    compiled again in the caller's process. The other process is not a sandbox: it has the rights
    of the user.

        step = te_mlir.compile(text, "mlp", isolation=te_mlir.Isolation(seconds=30))
    """

    memory_bytes: int = 4 * 2**30
    seconds: float = 120.0

    def __post_init__(self) -> None:
        for name, value in (("memory_bytes", self.memory_bytes), ("seconds", self.seconds)):
            if not 0 < value < math.inf:
                raise ValueError(f"expected '{name}' to be positive and finite, but got {value!r}")


def check(isolation: Isolation, function: Callable[..., Any], *arguments: Any) -> None:
    """Calls a function in another process. Raises CompileError if the call does, or if the process does not end well."""
    import json
    import pickle
    import subprocess

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    limits = (str(int(isolation.memory_bytes)), str(os.getpid()))
    try:
        child = subprocess.run(
            (sys.executable or "", *_INTERPRETER, _PROGRAM, package, *limits),
            input=pickle.dumps((function, arguments)),
            capture_output=True,
            timeout=isolation.seconds,
            # The library that this process has loaded.
            env={**os.environ, "TE_MLIR_LIBRARY_PATH": os.path.dirname(_capi.compiler()._name)},
        )
    except subprocess.TimeoutExpired:
        raise _failure(isolation, "did not end in time") from None
    except OSError as error:
        raise _failure(isolation, f"could not be started: {error}") from None
    code = child.returncode
    if code:
        how = f"ended with exit code {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"
        raise _failure(isolation, how, child.stderr.decode(errors="replace"))
    try:
        # JSON, because a pickle could call functions here, and the program may have taken over the process.
        reply = json.loads(child.stdout)
    except ValueError:
        raise _failure(isolation, "gave no answer") from None
    if reply:
        message, diagnostics = reply
        raise CompileError(message, [Diagnostic(*fields) for fields in diagnostics])


def _failure(isolation: Isolation, how: str, said: str = "") -> CompileError:
    message = (
        "expected the compiler to survive the program in a process of its own, "
        f"with {isolation.memory_bytes / 2**20:.0f} MiB and {isolation.seconds:g} s, but it {how}"
    )
    # One line without control characters.
    said = " ".join("".join(c if c.isprintable() else " " for c in said[-1000:]).split())
    diagnostic = Diagnostic("error", "isolation", f"{message}: {said}" if said else message)
    return CompileError(str(diagnostic), [diagnostic])


def _serve() -> None:
    """In the other process: calls the function that comes by a pipe, and writes its CompileError or null as JSON."""
    import json
    import pickle
    import resource

    memory, parent = map(int, sys.argv[2:])
    # The process ends with its caller, which may have ended before this line.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("its caller has ended")
    for what, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_STACK, _STACK_BYTES), (resource.RLIMIT_CORE, 0)):
        before = resource.getrlimit(what)[0]
        most = most if before == resource.RLIM_INFINITY else min(most, before)
        resource.setrlimit(what, (most, most))
    reply = None
    try:
        function, arguments = pickle.load(sys.stdin.buffer)
        function(*arguments)
    except CompileError as error:
        reply = str(error), [astuple(said) for said in error.diagnostics]
    except Exception as error:
        sys.exit(repr(error))
    print(json.dumps(reply))
