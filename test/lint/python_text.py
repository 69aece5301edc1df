#!/usr/bin/env python3
"""The Python package reads records instead of text.

build.Function.ops has the ops of a program, and CompileError.diagnostics has the errors
of the compiler, so neither printed IR nor messages are searched. Only the files below use
regular expressions, each for text of another library, and no exception is distinguished
by the text of its message.
"""

import ast
import sys

from lint import ROOT, finish, read, tracked

#: Files that may import `re`, and whose text they read.
ALLOWED = {
    "python/te_mlir/jax/calls.py": "paths in a pytree, as jax.tree_util.keystr writes them",
    "python/te_mlir/jax/arguments.py": "names of arguments, of which some are taken",
    "python/te_mlir/torch/graph.py": "sources of arguments, as TorchDynamo writes them",
    "python/te_mlir/torch/lines.py": "stack traces, as torch.fx keeps them",
}


def imports_re(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "re" for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "re":
            return True
    return False


def searched(tree):
    """The lines that compare or search the text of a caught exception."""
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or not handler.name:
            continue
        for node in ast.walk(handler):
            if isinstance(node, ast.Compare) and any(
                is_text(part, handler.name) for part in [node.left, *node.comparators]
            ):
                yield node.lineno


def is_text(node, name):
    """Whether `node` is str(name), repr(name), name.args or a part of one of these."""
    while (
        isinstance(node, (ast.Subscript, ast.Attribute))
        or isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
    ):
        if isinstance(node, ast.Attribute) and node.attr == "args":
            return isinstance(node.value, ast.Name) and node.value.id == name
        node = node.func.value if isinstance(node, ast.Call) else node.value
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("str", "repr")
        and any(isinstance(argument, ast.Name) and argument.id == name for argument in node.args)
    )


problems, count = [], 0
users = set()
for path in tracked("python/te_mlir/*.py"):
    name = path.relative_to(ROOT).as_posix()
    tree = ast.parse(read(path))
    count += 1
    if imports_re(tree):
        users.add(name)
        if name not in ALLOWED:
            problems.append(
                f"{name}: imports 're'; ask build.Function.ops or CompileError.diagnostics, or say in "
                "test/lint/python_text.py whose text is read"
            )
    problems.extend(
        f"{name}:{line}: searches the text of an exception; ask its diagnostics or its type" for line in searched(tree)
    )
problems.extend(
    f"{name}: does not import 're'; take it off the list of test/lint/python_text.py"
    for name in sorted(set(ALLOWED) - users)
)
sys.exit(finish(problems, count, "files ask records"))
