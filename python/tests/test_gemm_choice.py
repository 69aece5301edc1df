"""How a context chooses algorithms of GEMMs, on fake libraries of a GPU that compute nothing."""

import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

import te_mlir
import te_mlir.build
from te_mlir import _capi

LINEAR = """
module attributes {te.recipe = #te.recipe<high_precision>} {
  func.func @linear(%x: tensor<512x512xbf16> {te.name = "x"}, %w: tensor<512x512xbf16> {te.name = "w", te.weight})
      -> (tensor<512x512xbf16> {te.name = "y"}) {
    %y = te.linear %x, %w : tensor<512x512xbf16>, tensor<512x512xbf16> -> tensor<512x512xbf16>
    return %y : tensor<512x512xbf16>
  }
}
"""


def gemms(fastest, choice=None, options=""):
    """The GEMMs of a process in which the algorithm number `fastest` is the fastest; `choice` and `options` are arguments."""
    folder = pathlib.Path(os.environ.get("TE_MLIR_LIBRARY_PATH", pathlib.Path(_capi.__file__).parent))
    fakes = folder.parent / "test/unit/Runtime/Cuda/fake"
    if not (fakes / "libcuda.so.1").exists():
        pytest.skip("the fake libraries are not built")
    program = f"""
import te_mlir
context = te_mlir.Context("cuda")
{f"context.set_gemm_choice({choice})" if choice else ""}
print([tuple(g) for g in te_mlir.compile({LINEAR!r}, "linear", context=context, {options}).gemms])
"""
    # Each process has a cache of its own, so that none finds what an earlier one measured.
    with tempfile.TemporaryDirectory() as cache:
        run = subprocess.run(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "LD_LIBRARY_PATH": str(fakes),
                "PYTHONPATH": os.pathsep.join(sys.path),
                "XDG_CACHE_HOME": cache,
                "TE_FAKE_ALGORITHMS": "3",
                "TE_FAKE_FASTEST": str(fastest),
            },
            capture_output=True,
            text=True,
        )
    return run.stdout.strip() or run.stderr.strip().splitlines()[-1]


def test_processes_with_one_file_choose_alike(tmp_path):
    file = repr(str(tmp_path / "tuned.txt"))
    trainer = gemms(2, f"'tuned', {file}")
    assert trainer.startswith("[('w fprop', 'm=512 n=512 k=512 a=bf16 b=bf16 out=bf16', 'measured', 'b-first ")
    assert gemms(1, f"'file', {file}") == trainer.replace("measured", "file")
    other = repr(str(tmp_path / "other.txt"))
    assert gemms(1, f"'tuned', {other}") != trainer
    assert gemms(1, "'first'") == gemms(2, "'first'") != trainer.replace("measured", "first")


def test_deterministic_programs_are_not_chosen_by_time(tmp_path):
    option = "deterministic=True"
    assert gemms(1, None, option) == gemms(2, None, option) == gemms(1, "'first'")
    assert gemms(1) != gemms(2)  # each measured its own
    file = repr(str(tmp_path / "tuned.txt"))
    tuned = gemms(2, f"'tuned', {file}")
    assert gemms(1, f"'file', {file}", option) == tuned.replace("measured", "file")
    assert "compiled with 'deterministic', but it is 'tuned', which measures times" in gemms(
        1, f"'tuned', {file}", option
    )


def test_deterministic_programs_have_one_order_of_sums(reference):
    m = te_mlir.build.Module(recipe=te_mlir.HighPrecision())
    with m.function("attends") as f:
        q, k, v = (f.argument(name, (64, 64)) for name in "qkv")
        f.result("y", f.attention(q, k, v, heads=2, kv_heads=2, sequence=64, deterministic=False))
    options = {"vjp": True, "target": "sm_90", "deterministic": True}
    with pytest.raises(te_mlir.CompileError, match="leave out 'deterministic = false' of te.attention"):
        te_mlir.report(m, "attends", "determinism", **options)
    # The CPU adds in one order.
    assert te_mlir.compile(m, "attends", vjp=True, context=reference, deterministic=True).arguments


def test_a_file_that_is_missing_is_named(tmp_path):
    error = gemms(1, f"'file', {str(tmp_path / 'none.txt')!r}")
    assert "cannot read the tuning file" in error and "none.txt': No such file" in error


def test_the_cpu_has_nothing_to_choose(reference):
    reference.set_gemm_choice("file", "none.txt")
    assert te_mlir.compile(LINEAR, "linear", context=reference).gemms == []
    reference.set_gemm_choice()


def test_wrong_choices_are_refused(reference):
    for arguments, text in (
        (("fast",), "expected choice to be one of"),
        (("first", "a.txt"), "expected no 'file' with the choice 'first'"),
        (("tuned", None, 0), "expected seconds to be positive, but got 0"),
        (("file", None, 1), "expected 'budget_ms' only with the choice 'tuned'"),
    ):
        with pytest.raises(te_mlir.TEError, match=text):
            reference.set_gemm_choice(*arguments)
