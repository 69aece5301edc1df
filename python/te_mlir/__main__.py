"""`python -m te_mlir doctor` prints what is installed and found, and whether it works."""

from __future__ import annotations

import os
import platform
import sys


def doctor() -> int:
    """Prints one line for each check; returns 0 if a step can be compiled and run."""
    import te_mlir
    from te_mlir import _capi

    failed = False

    def line(what: str, text: object, ok: bool = True) -> None:
        nonlocal failed
        failed = failed or not ok
        print(f"{'ok  ' if ok else 'FAIL'}  {what:<12}  {text}")

    line("python", f"{platform.python_version()} ({sys.executable})")
    line("te_mlir", f"{te_mlir.__version__} ({os.path.dirname(te_mlir.__file__)})")
    line("libraries", _capi.library_folder())
    try:
        line("runtime", f"ABI version {_capi.runtime().te_rt_version()}")
        line("compiler", _capi.compiler().te_compiler_version().decode())
    except te_mlir.TEError as error:
        line("libraries", error, False)
        return 1
    for backend in ("reference", "cuda"):
        try:
            line(backend, te_mlir.Context(backend).description)
        except te_mlir.TEError as error:
            # A machine without a GPU is not an error.
            line(backend, f"not available: {error}", backend == "cuda")
    for package in ("numpy", "ml_dtypes", "torch", "jax", "cupy"):
        try:
            module = __import__(package)
            line(package, getattr(module, "__version__", "found"))
        except ImportError:
            line(package, "not installed (optional)")
    override = os.environ.get("NVTE_BACKWARD_OVERRIDE")
    if override:
        line("override", f"NVTE_BACKWARD_OVERRIDE={override} is the default of recipes")
    try:
        context = te_mlir.Context("reference")
        step = te_mlir.compile(
            'func.func @f(%x: tensor<4xf32> {te.name = "x"}) -> (tensor<4xf32> {te.name = "y"}) {\n'
            "  %y = arith.addf %x, %x : tensor<4xf32>\n  return %y : tensor<4xf32>\n}",
            "f",
            context=context,
        )
        y = step(x=context.full((4,), "float32", 1.5))["y"]
        doubled = y.tobytes() == context.full((4,), "float32", 3.0).tobytes()
        line("a step", "compiled and ran on the reference backend", doubled)
    except te_mlir.TEError as error:
        line("a step", error, False)
    return int(failed)


def main(arguments: list[str]) -> int:
    """Runs the command line."""
    usage = "usage: python3 -m te_mlir doctor    (prints what is installed and found, and whether it works)"
    if arguments == ["doctor"]:
        return doctor()
    if arguments in (["-h"], ["--help"]):
        print(usage)
        return 0
    print(usage, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
