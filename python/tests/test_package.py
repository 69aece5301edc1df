"""The package: a quick import, without other libraries, and type annotations."""

import os
import pathlib
import subprocess
import sys

import te_mlir


def test_import_loads_little():
    """Checks the imported modules. The time of an import depends too much on the machine for a test."""
    program = "import sys; before = set(sys.modules); import te_mlir; print(*(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    others = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names - {"te_mlir"}
    assert not others
    assert len(loaded) < 80, sorted(loaded)


def test_doctor_finds_a_working_compiler():
    run = subprocess.run([sys.executable, "-m", "te_mlir", "doctor"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "compiled and ran on the reference backend" in run.stdout


def test_doctor_says_what_is_missing():
    environment = {**os.environ, "TE_MLIR_LIBRARY_PATH": os.path.dirname(__file__)}
    run = subprocess.run([sys.executable, "-m", "te_mlir", "doctor"], capture_output=True, text=True, env=environment)
    assert run.returncode == 1
    here = os.path.dirname(os.path.abspath(__file__))
    assert f"expected 'libte_runtime.so.0' in '{here}', but it does not exist" in run.stdout
    assert "set TE_MLIR_LIBRARY_PATH to the 'lib' of a build of this checkout (it is set)" in run.stdout


def test_a_runtime_of_another_version_is_told():
    program = "from te_mlir import _capi; _capi.ABI_VERSION += 1; _capi.runtime()"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "expected a runtime of ABI version" in run.stderr and "of a build of this checkout" in run.stderr


def test_help_says_what_there_is():
    asked = subprocess.run([sys.executable, "-m", "te_mlir", "--help"], capture_output=True, text=True)
    wrong = subprocess.run([sys.executable, "-m", "te_mlir", "docter"], capture_output=True, text=True)
    assert (asked.returncode, wrong.returncode) == (0, 2)
    assert "te_mlir doctor" in asked.stdout and "te_mlir doctor" in wrong.stderr


def test_types_are_announced():
    assert (pathlib.Path(te_mlir.__file__).parent / "py.typed").exists()
