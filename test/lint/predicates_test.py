#!/usr/bin/env python3
"""scripts/predicates.py finds the predicates of a source and nothing else, and the switch changes them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from lint import ROOT, finish

sys.path.append(str(ROOT / "scripts"))
import predicates  # noqa: E402

# Predicates are between '[[' and ']]'.
MARKED = r"""
#define SUM(x) ((x) && (x) ? 1 : 0) /* a && b */
template <typename T, int n> static bool same(T &&x, const T &y) {
  return [[x == y]]; // a && b
}
static constexpr bool less = 1 < 2 && 3 < 4;
constexpr int twice(int x) { return x < 0 ? 0 : 2 * x; }
static_assert(less && twice(1) == 2);
template <typename F> bool any(F f, int n) {
  for (int i = 0; i < n && i != 9; ++i)
    if ([[f(i)]])
      return true;
  return false;
}
int main(int count, char **arguments) {
  struct Pair {
    int first, second;
  };
  const char *text = "a && b ? c : d";
  if (int *none = nullptr)
    return *none;
  if (const char *last = arguments[count]; [[!last]] && ([[*text == 'a']] || [[count]]))
    return [[any([&](int x) { return [[x > 3]] && [[x < 5]]; }, 10)]] ? 4 : 0;
  else if ([[text]])
    return 2;
  if constexpr (sizeof(int) == 1)
    return 3;
  bool large = [[count > 100]];
  SUM(large && less);
  return [[same<int, 1>(Pair{1, 2}.first, 2)]] || [[large]];
}
"""


def unmarked():
    """MARKED without its marks, and the places that were between them."""
    text, places, begun = "", [], []
    for part in re.split(r"(\[\[|\]\])", MARKED):
        if part == "[[":
            begun.append(len(text))
        elif part == "]]":
            places.append((begun.pop(), len(text)))
        else:
            text += part
    return text, sorted(places)


problems = []
text, expected = unmarked()
found = predicates.predicates(text)
problems += [f"expected a predicate: {text[slice(*place)]}" for place in expected if place not in found]
problems += [f"expected no predicate: {text[slice(*place)]}" for place in found if place not in expected]
rewritten, lines = predicates.rewrite(text, 1)
names = [line[1] for line in lines]

compiler = shutil.which("clang++", path="/usr/lib/llvm-22/bin") or shutil.which("c++")
if compiler:
    with tempfile.TemporaryDirectory() as folder:
        source, program, log = (pathlib.Path(folder, name) for name in ("a.cpp", "a.out", "log"))
        source.write_text(rewritten)
        pathlib.Path(folder, "te_mutant.h").write_text(predicates.HEADER.replace("TE_MUTANTS", str(len(names) + 1)))
        subprocess.run([compiler, "-std=c++20", "-w", source, "-o", program], check=True)

        def returned(**environment):
            return subprocess.run([program], env={**os.environ, **environment}).returncode

        if returned(TE_MUTANT_LOG=str(log)) != 4:
            problems.append("expected a program without a mutant to return what it did")
        seen = {
            f"{names[int(number) - 1]} is {value}" for number, value in map(str.split, log.read_text().splitlines())
        }
        for each, evaluated in (
            ("x < 5 is 1", True),
            ("x > 3 is 0", True),
            ("count > 100 is 0", False),
            ("count is 1", False),
        ):
            if (each in seen) != evaluated:
                problems.append(
                    f"expected the log {'to' if evaluated else 'not to'} say that {each}, but got {sorted(seen)}"
                )
        for name, change, result in (
            ("!last", "not", 2),
            ("!last", "true", 4),
            ("x > 3", "true", 4),
            ("x > 3", "false", 0),
            ("x < 5", "not", 4),
            ("x < 5", "false", 0),
        ):
            got = returned(TE_MUTANT=f"{names.index(name) + 1}:{change}")
            if got != result:
                problems.append(f"expected {result} if '{name}' is changed ({change}), but got {got}")
sys.exit(finish(problems, len(expected), "predicates of a source are found, and changed by their number"))
