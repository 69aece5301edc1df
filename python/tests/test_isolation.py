"""te_mlir.Isolation: the process in which programs of strangers are compiled first."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import pytest

import te_mlir
from te_mlir import _capi
from te_mlir.isolation import check

TEXT = """func.func @layer(%x: tensor<32x64xbf16> {te.name = "x"}, %w: tensor<48x64xbf16> {te.name = "w", te.weight})
    -> (tensor<32x48xbf16> {te.name = "y"}) {
  %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<48x64xbf16> -> tensor<32x48xbf16>
  return %y : tensor<32x48xbf16>
}
"""


def failure(function, *arguments, **options):
    with pytest.raises(te_mlir.CompileError) as caught:
        function(*arguments, **options)
    return caught.value


@pytest.fixture
def not_here(monkeypatch):
    """From its call on, this process cannot compile."""
    library = _capi.compiler()

    class Unused:
        _name = library._name

    return lambda: monkeypatch.setattr(_capi, "compiler", Unused)


def test_a_program_is_compiled_as_without_it(reference):
    options = {"recipe": te_mlir.Float8CurrentScaling(), "vjp": True}
    isolation = te_mlir.Isolation()
    step = te_mlir.compile(TEXT, "layer", context=reference, isolation=isolation, **options)
    assert step.arguments == te_mlir.compile(TEXT, "layer", context=reference, **options).arguments
    assert isolation in step.program.__reduce__()[1]
    for function in (te_mlir.lower, te_mlir.report, te_mlir.picture):
        assert function(TEXT, "layer", isolation=isolation, **options) == function(TEXT, "layer", **options)


@pytest.mark.parametrize(
    "text, options",
    [
        (TEXT.replace("te.linear", "te.liner"), {}),
        (TEXT, {"recipe": te_mlir.MXFP8BlockScaling(), "target": "sm_90", "strict": True}),
        (TEXT, {"colour": "red"}),
        # Each byte of a long text arrives, also those that end a string in C.
        (f"//{'x' * 10_000_000}\n// \0 \0\n{TEXT.replace('te.linear', 'te.liner')}", {}),
        (b"\0" + TEXT.encode() + b"\xff", {}),
        (b"ML\xefR damaged", {"source_name": "f.mlirbc"}),
    ],
)
def test_errors_of_a_program_are_as_without_it(reference, not_here, text, options):
    alone = failure(te_mlir.compile, text, "layer", context=reference, **options)
    not_here()
    error = failure(te_mlir.compile, text, "layer", context=reference, isolation=te_mlir.Isolation(), **options)
    assert str(error) == str(alone) and error.diagnostics == alone.diagnostics != ()


@pytest.mark.parametrize(
    "limits, function, arguments, said",
    [
        ({}, os.abort, (), "with 4096 MiB and 120 s, but it was ended by SIGABRT"),
        ({}, ctypes.string_at, (0,), "was ended by SIGSEGV"),
        ({}, bytearray, (2**33,), "ended with exit code 1: MemoryError()"),
        ({"seconds": 0.3}, time.sleep, (60,), "did not end in time"),
        ({}, sys.exit, ("\x1b[2J one\ntwo",), "ended with exit code 1: [2J one two"),
        ({}, os._exit, (0,), "gave no answer"),
    ],
)
def test_the_end_of_the_process_is_an_error(limits, function, arguments, said):
    error = failure(check, te_mlir.Isolation(**limits), function, *arguments)
    (diagnostic,) = error.diagnostics
    assert str(diagnostic) == str(error) and str(error).endswith(said) and diagnostic.code == "isolation"


def test_a_program_that_needs_too_much_memory_is_not_compiled_here(reference, not_here):
    small = (
        f"import te_mlir; te_mlir.compile({TEXT!r}, 'layer', context=te_mlir.Context('reference'))\n"
        "print(open('/proc/self/status').read().partition('VmPeak:')[2].split()[0])"
    )
    kilobytes = int(subprocess.run([sys.executable, "-c", small], capture_output=True, check=True).stdout)
    isolation = te_mlir.Isolation(memory_bytes=kilobytes * 1024 + 2**26)
    not_here()
    large = f"module attributes {{te.large = array<i64: {'1, ' * 5_000_000}1>}} {{ {TEXT} }}"
    error = failure(te_mlir.compile, large, "layer", context=reference, isolation=isolation)
    assert error.diagnostics[0].code == "isolation" and "was ended by SIGABRT: " in str(error)


def test_the_process_has_no_file_of_its_caller_and_leaves_none():
    before = os.listdir("/proc/self/fd")
    with open(__file__) as file:
        os.set_inheritable(file.fileno(), True)
        assert "Bad file descriptor" in str(failure(check, te_mlir.Isolation(), os.fstat, file.fileno()))
    assert os.listdir("/proc/self/fd") == before
    # There is no zombie.
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_threads_compile_at_the_same_time(reference):
    found = {}

    def compile(entry):
        text, isolation = TEXT.replace("@layer", f"@{entry}"), te_mlir.Isolation()
        found[entry] = te_mlir.compile(text, entry, context=reference, isolation=isolation).program.entry

    threads = [threading.Thread(target=compile, args=(entry,)) for entry in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": "a", "b": "b"}


def test_the_process_ends_with_its_caller(tmp_path):
    fifo, script = tmp_path / "fifo", tmp_path / "script.py"
    os.mkfifo(fifo)
    script.write_text(
        f"import time\nwith open({str(fifo)!r}, 'w', 1) as file:\n"
        "  print('began', file=file)\n  time.sleep(10)\n  print('outlived its caller', file=file)\n"
    )
    program = f"import runpy; from te_mlir.isolation import *; check(Isolation(), runpy.run_path, {str(script)!r})"
    caller = subprocess.Popen([sys.executable, "-c", program])
    with open(fifo) as file:
        assert file.readline() == "began\n"
        caller.kill()
        caller.wait()
        assert file.read() == ""


@pytest.mark.parametrize("options", [{"memory_bytes": 0}, {"seconds": float("inf")}, {"seconds": float("nan")}])
def test_limits_are_checked(options):
    with pytest.raises(ValueError, match=f"expected '{next(iter(options))}' to be positive and finite, but got"):
        te_mlir.Isolation(**options)


def test_a_flag_is_not_a_limit(reference):
    with pytest.raises(ValueError, match="expected 'isolation' to be a te_mlir.Isolation or None, but got True"):
        te_mlir.compile(TEXT, "layer", context=reference, isolation=True)
