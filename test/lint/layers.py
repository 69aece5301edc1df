#!/usr/bin/env python3
"""Which folders may include headers of which others.

* lib/Runtime and the runtime's headers do not include compiler headers.
* lib/Support includes no other folder, and lib/Analysis no pass.
* Phases of lib/Transforms include lib/Analysis and their Utils, but not each
  other's headers.
* Device headers (.cuh) include no host headers, and those of Kernels/Device
  include only each other. Inline PTX is only in Kernels/Device.
* The product does not include tests.
"""

import re
import sys

from lint import ROOT, finish, read, tracked

problems, count = [], 0
for path in tracked("*.h", "*.cpp", "*.cu", "*.cuh", "*.inc", "*.c"):
    name = path.relative_to(ROOT).as_posix()
    includes = re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', read(path), re.M)
    count += len(includes)
    if (
        name.startswith("lib/Runtime/Kernels/")
        and "/Kernels/Device/" not in name
        and re.search(r"\basm\b\s*(volatile)?\s*\(", read(path))
    ):
        problems.append(f"{name}: has inline PTX; expected that in lib/Runtime/Kernels/Device only")
    phase = re.match(r"(?:lib|include/TEDialect)/Transforms/(\w+)/", name)
    for include in includes:

        def problem(rule):
            problems.append(f"{name}: includes {include}; {rule}")

        compiler = include.startswith(
            (
                "mlir",
                "llvm",
                "clang",
                "TEDialect/IR",
                "TEDialect/TERT",
                "TEDialect/Analysis",
                "TEDialect/Transforms",
                "TEDialect/Pipelines",
                "TEDialect/JIT",
            )
        )
        if name.startswith(("lib/Runtime/", "include/TEDialect/Runtime/")) and compiler:
            problem("the runtime knows no compiler")
        if name.startswith("lib/Support/") and (compiler or include.startswith("TEDialect")):
            problem("lib/Support knows nobody")
        other = re.match(r"TEDialect/Transforms/(\w+)/", include)
        if other and re.match(r"(?:lib|include/TEDialect)/Analysis/", name):
            problem("lib/Analysis knows no pass")
        if other and phase and phase[1] != "Pipelines" and other[1] not in (phase[1], "Utils"):
            problem("phases do not include each other's headers")
        if name.endswith(".cuh") and include in ("vector", "string", "memory", "map", "functional", "iostream"):
            problem("device headers include no host headers")
        if "/Kernels/Device/" in name and include.startswith("Kernels/") and not include.startswith("Kernels/Device/"):
            problem("headers of Kernels/Device include no kernels")
        if not name.startswith("test/") and (include.startswith(("gtest", "gmock")) or "test/" in include):
            problem("nothing outside test/ includes tests")
sys.exit(finish(problems, count, "includes keep the layers"))
