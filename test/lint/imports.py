#!/usr/bin/env python3
"""The imports of the Python package have no cycles.

All imports count, including those in functions and for types. `from te_mlir import build`
imports the module `build`, but not the package.
"""

import ast
import sys

from lint import ROOT, finish, read, tracked

PACKAGE = ROOT / "python" / "te_mlir"


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree, modules):
    """The modules of the package that a file imports, with line numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in inner]
        else:
            continue
        yield from ((name, node.lineno) for name in names if name in modules)


def cycles(edges):
    """The shortest cycle through each module that has one."""
    seen = set()
    for start in sorted(edges):
        paths = [[start]]
        visited = set()
        while paths:
            path = paths.pop(0)
            for name in sorted(edges[path[-1]]):
                if name == start:
                    if not seen & set(path):
                        seen.update(path)
                        yield [*path, start]
                    paths = []
                    break
                if name not in visited:
                    visited.add(name)
                    paths.append([*path, name])


files = {name_of(path): path for path in tracked("python/te_mlir/*.py") if PACKAGE in path.parents}
edges, lines = {}, {}
for name, path in files.items():
    found = list(imported(ast.parse(read(path)), files))
    edges[name] = {other for other, _ in found if other != name}
    lines.update({(name, other): line for other, line in found})
problems = []
for cycle in cycles(edges):
    place = files[cycle[0]].relative_to(ROOT).as_posix()
    problems.append(f"{place}:{lines[cycle[0], cycle[1]]}: imports itself: {' -> '.join(cycle)}")
sys.exit(finish(problems, len(files), "modules import no module that imports them"))
