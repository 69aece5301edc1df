#!/usr/bin/env python3
"""Who may include whom.

lib/Runtime and the runtime's headers know no compiler; lib/Support knows
nobody; stages of lib/Transforms do not include each other's headers; device
headers (.cuh) include no host headers; nothing of the product includes tests.
"""

import re
import sys

from lint import ROOT, finish, read, tracked

STAGES = ("Import", "Autodiff", "Distribute", "Quantize", "Fuse", "Schedule", "Lower", "Verify", "Report", "Instrument")
# (stage, whose helpers it may use; never its passes). The reports describe what
# quantisation decided, the instruments and the lowering keep the names it gave, the check of captured steps asks it
# what a weight is, the constraint
# check asks it what it would do, and autodiff inlines the function it differentiates as import does.
ALLOWED = {("Report", "Quantize"), ("Import", "Quantize"), ("Fuse", "Quantize"),
           ("Lower", "Quantize"), ("Autodiff", "Import"),
           ("Instrument", "Quantize"), ("Verify", "Quantize")}

problems, count = [], 0
for path in tracked("*.h", "*.cpp", "*.cu", "*.cuh", "*.inc", "*.c"):
    name = path.relative_to(ROOT).as_posix()
    includes = re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', read(path), re.M)
    count += len(includes)
    stage = re.match(r"(?:lib|include/TEDialect)/Transforms/(\w+)/", name)
    for include in includes:

        def problem(rule):
            problems.append(f"{name}: includes {include}; {rule}")

        compiler = include.startswith(("mlir", "llvm", "clang", "TEDialect/IR", "TEDialect/TERT",
                                       "TEDialect/Transforms", "TEDialect/Pipelines", "TEDialect/JIT"))
        if name.startswith(("lib/Runtime/", "include/TEDialect/Runtime/")) and compiler:
            problem("the runtime knows no compiler")
        if name.startswith("lib/Support/") and (compiler or include.startswith("TEDialect")):
            problem("lib/Support knows nobody")
        if stage:
            other = re.match(r"TEDialect/Transforms/(\w+)/", include)
            if (other and other[1] in STAGES and other[1] != stage[1] and stage[1] in STAGES
                    and (stage[1], other[1]) not in ALLOWED):
                problem("stages do not include each other's headers")
        if name.endswith(".cuh") and include in ("vector", "string", "memory", "map", "functional", "iostream"):
            problem("device headers include no host headers")
        if not name.startswith("test/") and (include.startswith(("gtest", "gmock")) or "test/" in include):
            problem("nothing outside test/ includes tests")
sys.exit(finish(problems, count, "includes keep the layers"))
