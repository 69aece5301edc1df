#!/usr/bin/env python3
"""Files and functions are short, and code has comments.

Hand-written C++, CUDA, TableGen and Python has at most 700 lines in a file and 120 in a function. Most files are much
shorter: one in ten may have more than 350 lines (C++) or 450 (Python). The product has at least 15 lines with comments
for 100 lines of code. Text that tools read or write (tests of passes, generated tables) has at most 1,000 lines.
"""

import ast
import io
import re
import sys
import tokenize

from lint import ROOT, finish, read, tracked

FILE_LINES, TEXT_LINES, FUNCTION_LINES, COMMENTS = 700, 1000, 120, 0.15
CPP = ("*.cpp", "*.h", "*.cu", "*.cuh", "*.c", "*.inc")
TEXT = ("*.mlir", "*.sh", "*.cmake", "*.txt")
#: Comments, and literals of C++ in which braces and comment signs are ignored.
TOKENS = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<end>\w*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|(?<!\d)\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
#: The blocks that may contain a function.
SCOPE = re.compile(
    r"(?:inline\s+)?namespace\b|extern\s*$|(?:template\s*<.*>\s*)?(?:struct|class|union)\b[^()]*$", re.DOTALL
)


def blank(found):
    return re.sub(r"[^\n]", " ", found[0])


def cpp_functions(text):
    """(First line, lines) of each function: a block after parameters, whose scopes are all namespaces or classes."""
    text = DIRECTIVE.sub(blank, TOKENS.sub(blank, text))
    heads, begin = [], 0
    for found in re.finditer(r"[{};]", text):
        if found[0] == "{":
            heads.append((begin, text[begin : found.start()]))
        elif found[0] == "}":
            start, head = heads.pop()
            if "(" in head and all(SCOPE.match(outer.strip()) for _, outer in heads):
                first = text.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
                yield first, text.count("\n", 0, found.start()) + 2 - first
        begin = found.end()


def cpp_comments(text):
    """The number of lines with a comment, and of lines with code."""
    commented = set()
    for found in TOKENS.finditer(text):
        if found["comment"]:
            first = text.count("\n", 0, found.start())
            commented.update(range(first, first + found[0].count("\n") + 1))
    code = TOKENS.sub(lambda found: blank(found) if found["comment"] else found[0], text)
    return len(commented), sum(1 for line in code.split("\n") if line.strip())


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def python_comments(text):
    """Like `cpp_comments`. Docstrings count as comments."""
    documentation, commented, code = set(), set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            documentation.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            commented.add(token.start[0])
        elif token.type not in layout:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(commented | documentation), len(code - documentation)


def is_generated(path):
    return "\n// Written by scripts/" in read(path)[:300]


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


problems, numbers, count = [], [], 0


def check_lines(path, limit):
    global count
    count += 1
    lines = len(read(path).splitlines())
    if lines > limit:
        problems.append(f"{path.relative_to(ROOT).as_posix()}: {lines} lines; expected at most {limit}")
    return lines


def check_language(language, paths, product, functions, comments, bar):
    """Checks all files. product: the prefixes of files that are installed or that users run."""
    lines = {path: check_lines(path, FILE_LINES) for path in paths}
    longest, commented, code = 0, 0, 0
    for path in paths:
        for first, length in functions(read(path)):
            longest = max(longest, length)
            if length > FUNCTION_LINES:
                name = path.relative_to(ROOT).as_posix()
                problems.append(f"{name}:{first}: a function of {length} lines; expected at most {FUNCTION_LINES}")
    shipped = [path for path in paths if path.relative_to(ROOT).as_posix().startswith(product)]
    for path in shipped:
        found = comments(read(path))
        commented, code = commented + found[0], code + found[1]
    ratio = commented / max(code, 1)
    if ratio < COMMENTS:
        problems.append(f"{language}: {ratio:.3f} lines with comments to one of code; expected {COMMENTS} or more")
    for what, some in (("product", shipped), ("with tests", paths)):
        values = [lines[path] for path in some]
        p50, p90 = quantile(values, 0.5), quantile(values, 0.9)
        if p90 > bar:
            problems.append(f"{language} {what}: a 90th percentile of {p90} lines a file; expected at most {bar}")
        numbers.append(f"{language} {what}: {len(values)} files, p50 {p50}, p90 {p90}, max {max(values)} lines")
    numbers.append(f"{language}: longest function {longest} lines, comments {ratio:.3f} of code")


cpp = [path for path in tracked(*CPP) if not is_generated(path)]
check_language("C++", cpp, ("include/", "lib/", "tools/", "examples/"), cpp_functions, cpp_comments, 350)
check_language("Python", tracked("*.py"), "python/te_mlir/", python_functions, python_comments, 450)
for path in tracked("*.td"):
    check_lines(path, FILE_LINES)
for path in [*tracked(*TEXT), *(path for path in tracked("*.inc") if is_generated(path))]:
    check_lines(path, TEXT_LINES)
if not problems:
    print("\n".join(numbers))
sys.exit(finish(problems, count, "files are short"))
