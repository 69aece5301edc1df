#!/usr/bin/env python3
"""The kernel list is the single source of the runtime's ABI.

Rows of te_runtime_kernels.inc are sorted, have unique names and buffers, and
each has a reference implementation, a plan of the cuda backend and a case of
the conformance suite. A change of the rows or of the shared structs must bump
TE_RT_VERSION: their digest is recorded beside the version in abi.lock, which
`abi.py --update` rewrites.
"""

import hashlib
import re
import sys

from lint import ROOT, finish, read

RUNTIME = ROOT / "include/TEDialect/Runtime"
LOCK = ROOT / "test/lint/abi.lock"


def without_comments(text):
    return re.sub(r"//.*|/\*(?:.|\n)*?\*/", "", text)


def sources(folder, *patterns):
    return "\n".join(read(path) for pattern in patterns for path in (ROOT / folder).rglob(pattern))


rows = re.findall(r"TE_RT_KERNEL\((\w+),(.*?)\)\s*(?=TE_RT_KERNEL\(|#undef)",
                  without_comments(read(RUNTIME / "te_runtime_kernels.inc")), re.S)
names = [name for name, _ in rows]
problems = []
if names != sorted(names):
    first = next(a for a, b in zip(names, sorted(names)) if a != b)
    problems.append(f"te_runtime_kernels.inc: rows are not sorted, first at '{first}'")
reference = sources("lib/Runtime/Reference", "*.cpp")
cuda = sources("lib/Runtime", "Kernels/**/*.cpp", "Cuda/*.cpp", "Gemm/*.cpp",
               "Attention/*.cpp")
conformance = sources("test/unit/Conformance", "*.cpp", "*.h")
for name, body in rows:
    buffers = re.findall(r"TE_RT_(?:IN|OUT)(?:_OPT)?\((\w+)\)", body)
    if not buffers or len(set(buffers)) != len(buffers):
        problems.append(f"{name}: expected named, distinct buffers, but got {buffers}")
    if not re.search(rf"\b(?:void|Status) {name}\(const {name}_params\b|\b{name}_params &", reference):
        problems.append(f"{name}: no reference implementation in lib/Runtime/Reference")
    if not re.search(rf"\bplan_{name}\(", cuda):
        problems.append(f"{name}: no plan of the cuda backend")
    if not re.search(rf"\b{name}\b|{name}_params", conformance):
        problems.append(f"{name}: the conformance suite does not name it")

types = without_comments(read(RUNTIME / "te_runtime_types.h"))
version = re.search(r"#define TE_RT_VERSION (\d+)", types)[1]
contract = " ".join((types.replace(f"TE_RT_VERSION {version}", "") + repr(rows)).split())
lock = f"{version} {hashlib.sha256(contract.encode()).hexdigest()[:16]}\n"
if "--update" in sys.argv[1:]:
    LOCK.write_text(lock)
elif not LOCK.exists() or LOCK.read_text() != lock:
    problems.append(f"the ABI changed: bump TE_RT_VERSION (now {version}; abi.lock has "
                    f"{LOCK.read_text().split()[0] if LOCK.exists() else 'none'}), then run abi.py --update")
sys.exit(finish(problems, len(rows), "kernels: sorted, on both backends, in the conformance suite"))
