#!/usr/bin/env python3
"""No environment variable changes the meaning of a program.

The compiler reads the folder of caches and no other variable: recipes, overrides and policies are attributes and options. The runtime
reads the folder of caches and settings of the libraries that it loads, and libte_tcp a folder of the user. te-run reads which launcher started it, and the addresses and the secret of
the other processes. The Python package reads the folder of its libraries and, for programs that were written for TransformerEngine,
NVTE_BACKWARD_OVERRIDE as the default of one field of a recipe, with a warning. No other variable of TransformerEngine is named.
"""

import re
import sys

from lint import ROOT, finish, read, tracked

#: (file, variable) that may be read, none of which changes a result.
ALLOWED = {
    ("lib/Support/CacheFolder.cpp", "XDG_CACHE_HOME"),
    ("lib/Support/CacheFolder.cpp", "HOME"),
    ("lib/Runtime/Cuda/Nccl.cpp", "NCCL_NVLS_ENABLE"),
    ("lib/Tcp/Secret.cpp", "XDG_RUNTIME_DIR"),
    ("python/te_mlir/_capi.py", "TE_MLIR_LIBRARY_PATH"),
    *(
        ("tools/te-run/Job.cpp", name)
        for name in (
            "variable",
            "const char *variable",
            "OMPI_COMM_WORLD_SIZE",
            "PMIX_RANK",
            "PMI_RANK",
            "PMI_ID",
            "RANK",
            "WORLD_SIZE",
            "LOCAL_RANK",
            "TORCHELASTIC_RUN_ID",
            "SLURM_PROCID",
            "SLURM_STEP_ID",
            "SLURM_STEP_NUM_TASKS",
        )
    ),
    ("python/te_mlir/recipes.py", "NVTE_BACKWARD_OVERRIDE"),
    ("python/te_mlir/__main__.py", "NVTE_BACKWARD_OVERRIDE"),
}

problems, count = [], 0
for path in tracked("*.h", "*.cpp", "*.c", "*.cu", "*.cuh", "*.inc", "*.td", "*.py"):
    name = path.relative_to(ROOT).as_posix()
    if not name.startswith(("lib/", "include/", "tools/", "python/")) or name.startswith("python/tests/"):
        continue
    text = read(path)
    count += 1
    for variable in re.findall(r'(?:\bgetenv|fromLauncher|environ\.get|environ)\s*[\[(]\s*["\']?([^"\'\])]*)', text):
        if (name, variable) not in ALLOWED:
            problems.append(f"{name}: reads the environment variable '{variable}'; pass an option or an attribute")
    if "NVTE_" in (text.replace("NVTE_BACKWARD_OVERRIDE", "") if name.startswith("python/") else text):
        problems.append(f"{name}: names a variable of another project")
sys.exit(finish(problems, count, "files read no environment variable that changes a program"))
