"""Writes the programs of te-opt-strangers.test to a folder."""

import pathlib
import sys

folder = pathlib.Path(sys.argv[1])


def function(name, body):
    return f"func.func {name}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}  return %y : tensor<4xf32>\n}}\n"


def expand(operation, left="", right=" into"):
    types = f"{left}tensor<4x4xf32>{right} tensor<2x2x4xf32>"
    return f"func.func @step(%x: tensor<4x4xf32>) {{\n  %e = {operation} {types}\n  return\n}}\n"


def call(result, name, operand):
    return f"  {result} = call @{name}({operand}) : (tensor<4xf32>) -> tensor<4xf32>\n"


def linalg(operation, what):
    """An op with a list of dimensions, which is all that `what` changes."""
    types = "ins(%x : tensor<4x4xf32>) outs(%x : tensor<4x4xf32>)"
    return f"func.func @step(%x: tensor<4x4xf32>) {{\n  %t = linalg.{operation} {types} {what}\n  return\n}}\n"


def aliases(sigil, first, following, count, use):
    """Aliases whose definitions name the one before."""
    lines = [f"{sigil}a0 = {first}"]
    lines += [f"{sigil}a{i} = {following.replace('$', f'{sigil}a{i - 1}')}" for i in range(1, count)]
    return "\n".join([*lines, use.replace("$", f"{sigil}a{count - 1}")]) + "\n"


ATTRIBUTE, TYPE = "module attributes {x.a = $} {}", "func.func private @f($)"


def calls(functions, times):
    """Functions that call the one before, so many times."""
    text = function("private @f0", "  %y = arith.addf %x, %x : tensor<4xf32>\n")
    for i in range(1, functions):
        first = call("%a", f"f{i - 1}", "%x") if times == 2 else ""
        body = first + call("%y", f"f{i - 1}", "%a" if times == 2 else "%x")
        text = function(f"private @f{i}", body) + text
    return function("@step", call("%y", f"f{functions - 1}", "%x")) + text


programs = {
    "index": "module attributes {\n  a = array <index: 1>} {}",
    "alias": "!i = index\nmodule attributes {a = array< !i: 1>} {}",
    "empty": expand("tensor.expand_shape %x [[0, 1], [ // None.\n ]] output_shape [2, 2, 4] :"),
    "named": "#none = []\n" + expand('"tensor.expand_shape"(%x) <{reassociation = [[0, 1], #none], '
    'static_output_shape = array<i64: 2, 2, 4>}> :', "(", ") ->"),
    "brackets": "module attributes {a = " + "[" * 10000 + "]" * 10000 + "} {}",
    "modules": "module {" * 10000 + "}" * 10000,
    "types": "func.func private @f(" + "tuple<" * 10000 + ">" * 10000 + ")",
    # Closing brackets that no bracket is open for do not count.
    "hidden": "module attributes {a = " + "[(>}" * 10000,
    "signs": "#m = affine_map<(d0) -> (" + "- " * 10000 + "d0)>",
    "deep": "module {" * 255 + "}" * 255,
    "lists": "module attributes {x.a = [], x.b = [[1], [2]], x.c = [{d = []}]} {}",
    "plain": "// " + "(" * 300 + '\nmodule attributes {x.a = "' + r"([\"" * 300 + '"} {\n'
    + "func.func private @f(" + ", ".join(["() -> ()"] * 300) + ")\n}",
    "calls": calls(30, 2),
    "chain": calls(5000, 1),
    "unclosed": linalg("transpose", "permutation = [1, 0"),
    "unopened": linalg("broadcast", "dimensions = // None.\n 0]"),
    "word": linalg("reduce { arith.addf }", "dimensions = [f32]"),
    "large": linalg("transpose", "permutation = [1, 9223372036854775808]"),
    "permuted": linalg("transpose", "permutation =[ 1, // Rows.\n 0x0]").replace("func.func", "#dimensions = [f32]\n"
    "module attributes {x.a = {dimensions = array<i64: 1>, permutation = #dimensions}, x.b = {permutation = 1}} {}\n"
    "func.func"),
    "long": aliases("#", "[1]", "[$]", 20000, ATTRIBUTE),
    "behind": aliases("!", "tuple<i32>", "tuple<$>", 200, "func.func private @f(" + "tuple<" * 60 + "$" + ">" * 60 + ")"),
    "wide": aliases("!", "tuple<i32>", "tuple<$, $>", 60, TYPE),
    "broad": aliases("#", '"' + "x" * 1000 + '"', "[" + ", ".join(["$"] * 100) + "]", 4, ATTRIBUTE),
    "locations": aliases("#", 'loc("a")', "loc(callsite($ at $))", 60, "module {} loc($)"),
    # What stands behind a definition is no part of it.
    "many": aliases("#", '"' + "x" * 1000 + '"', "[$]", 200, "func.func private @f("
    + ", ".join("i32 {x.a = $}" for _ in range(2000)) + ")\n#b = [1] func.func private @g()\n#c = [#b]"),
    "step": function("@step", "  %y = arith.addf %x, %x : tensor<4xf32>\n"),
}  # fmt: skip
for name, text in programs.items():
    (folder / f"{name}.mlir").write_text(text)
