"""Checks that each kernel begins by waiting for the kernels before it (Device/launch_sm90.cuh), since the runtime lets it
start before they end, and that no accesses to memory are written in a way in which the compiler may move them before that.
`cuobjdump -sass` shows what it did: no access before ACQBULK."""

import re
import sys

import lint

#: The body of a kernel, which starts with one of these calls. In a macro, lines end with backslashes.
STARTS = re.compile(r"[\s\\]*(?:te::rt::cuda::)?ptx::begin(?:Persistent)?Kernel\(\);")

#: Loads that may move before others; and assembler that is not volatile and accesses memory.
MOVABLE = re.compile(r"\b__ldg\b|__restrict__|\basm\(\s*\"[^;]*\b(?:ld|st|atom|red)\.")


def body_of(text, at):
    """Where the body of the function that is declared at `at` begins; 0 if it has none."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0 and text[i] in "{;":
            return i + 1 if text[i] == "{" else 0
    return 0


def main():
    problems, checked = [], 0
    for path in lint.tracked("lib/Runtime/*.cu", "lib/Runtime/*.cuh"):
        text, name = lint.read(path), path.relative_to(lint.ROOT)
        for found in re.finditer("__global__", text):
            body = body_of(text, found.end())
            line = text.count("\n", 0, found.start()) + 1
            checked += 1
            if body and not STARTS.match(text, body):
                problems.append(f"{name}:{line}: expected the kernel to start with 'ptx::beginKernel();'")
        for found in MOVABLE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            problems.append(
                f"{name}:{line}: expected no '{found.group()}': the compiler may load before the kernel has waited"
            )
    return lint.finish(problems, checked, "kernels begin by waiting")


sys.exit(main())
