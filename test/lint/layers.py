#!/usr/bin/env python3
"""Who may include whom.

lib/Runtime and the runtime's headers know no compiler; lib/Support knows
nobody; lib/Analysis knows no pass; phases of lib/Transforms share what is in
lib/Analysis and in their Utils, and do not include each other's headers; device
headers (.cuh) include no host headers, and those of Kernels/Device only each
other; inline PTX is in Kernels/Device; nothing of the product includes tests.
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
