"""Finds the predicates of a C++ source, and makes them arguments of a function that may change them.

For scripts/mutants.py. There is no parser: brackets, separators and the spaces that
clang-format leaves around operators are enough for the sources of this project.
"""

import re

HEADER = r"""// Written by scripts/mutants.py.
#pragma once
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

struct TeMutant {
  int number = 0, log = -1;
  char change = 0;
  TeMutant() {
    if (const char *path = std::getenv("TE_MUTANT_LOG"))
      log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const char *chosen = std::getenv("TE_MUTANT");
    if (!chosen)
      return;
    number = std::atoi(chosen);
    change = std::strchr(chosen, ':')[1];
    const rlimit limit = {10, 10}; // Seconds: a loop that does not end any more.
    setrlimit(RLIMIT_CPU, &limit);
  }
};

inline bool te_mutant(int number, bool value) {
  static const TeMutant mutant;
  static std::atomic<unsigned char> seen[TE_MUTANTS];
  const unsigned char bit = value ? 2 : 1;
  if (mutant.log >= 0 && !(seen[number].fetch_or(bit) & bit)) {
    char line[16];
    if (write(mutant.log, line, std::snprintf(line, sizeof line, "%d %d\n", number, value)) < 0)
      std::abort();
  }
  if (number != mutant.number)
    return value;
  return mutant.change == 'n' ? !value : mutant.change == 't';
}
"""

OPAQUE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
    re.S | re.M,
)
# What separates the pieces of an expression or of statements; '&&' of a reference has no space behind it.
SEPARATOR = re.compile(r"[;,]|(?<=\s)(?:&&|\|\||\?)(?=\s)|(?<!:):(?!:)|(?<=\s)(?:[-+*/%&|^]|<<|>>)?=(?=\s)")
COMPARISON = re.compile(r"\S\s+(?:==|!=|<=|>=|<|>)\s")
# Their arguments are no predicates of a run.
LEFT_OUT = re.compile(r"\b(?:assert|static_assert|decltype|sizeof|noexcept|for|while|if constexpr|[A-Z][A-Z0-9_]+)\s*$")


def blank(code, start, end):
    """`code` with blanks in place of a part, without changing lines."""
    return code[:start] + re.sub(r"[^\n]", " ", code[start:end]) + code[end:]


def mask(text):
    """`text` with blanks for comments and directives, and letters for literals."""
    return OPAQUE.sub(lambda match: re.sub(r"[^\n]", "s" if match[0].lstrip()[0] in "R\"'" else " ", match[0]), text)


def brackets(code):
    """The groups of brackets, as {position of the opening: of the closing}, with those of template arguments."""
    groups, stack = {}, []
    for match in re.finditer(r"[(\[{)\]}]|(?<=\w)<(?![\s<=])|(?<!-)(?<!\s)>", code):
        place, bracket = match.start(), match[0]
        if bracket in "([{<":
            stack.append(place)
            continue
        while stack and bracket != ">" and code[stack[-1]] == "<":
            stack.pop()
        if stack and code[stack[-1]] + bracket in ("()", "[]", "{}", "<>"):
            groups[stack.pop()] = place
    return groups


def pieces(code, groups, start, end):
    """The parts of a group between separators, as (start, end, separator before, separator behind)."""
    found, place, begin, before = [], start, start, ""
    statements = start == 0 or code[start - 1] == "{"
    inner = iter(sorted(each for each in groups if start <= each < end))
    opening = next(inner, end)
    while place < end:
        match = SEPARATOR.search(code, place, opening)
        if match:
            found.append((begin, match.start(), before, match[0]))
            place, begin, before = match.end(), match.end(), match[0]
            continue
        if opening >= end:
            break
        place = groups[opening] + 1
        header = code[opening] == "(" and re.search(r"\b(?:if|for|while|switch|constexpr)\s*$", code[begin:opening])
        block = code[opening] == "{" and re.search(
            r"(?:[);{}]|\b(?:else|do|const|override|mutable))\s*$|^\s*$", code[begin:opening]
        )
        if statements and (header or block):
            found.append((begin, opening, before, "{"))
            begin, before = place, "}"
        opening = next((each for each in inner if each >= place), end)
    found.append((begin, end, before, ""))
    return found


def predicates(text):
    """The places of all predicates in the text of a C++ file, as (start, end)."""
    code = mask(text)
    # Constants and functions of the compiler, each up to its end.
    for match in reversed(list(re.finditer(r"(?<!if )\bconstexpr\b[^;{]*[;{]", code))):
        body = brackets(code[match.end() - 1 :]).get(0, 0) if match[0][-1] == "{" else 0
        code = blank(code, match.start(), match.end() + body)
    groups = brackets(code)
    for opening, closing in groups.items():
        if LEFT_OUT.search(code[max(0, opening - 80) : opening]):
            code = blank(code, opening + 1, closing)
    found = set()
    for opening, closing in [(-1, len(code)), *brackets(code).items()]:
        if opening >= 0 and code[opening] in "<[":
            continue
        is_if = opening > 0 and re.search(r"\bif\s*$", code[max(0, opening - 20) : opening])
        for start, end, before, behind in pieces(code, groups, opening + 1, closing):
            start += re.match(r"\s*(?:(?:return|else|case)\b\s*)?", code[start:end]).end()
            end -= len(code[start:end]) - len(code[start:end].rstrip())
            flat = code[start:end]
            for inner in sorted(each for each in groups if start <= each < end):
                flat = flat[: inner + 1 - start] + "x" * (groups[inner] - inner - 1) + flat[groups[inner] - start :]
            if not re.search(r"\w", flat) or re.fullmatch(r"true|false|\d+|\.\.\.", flat):
                continue
            if re.fullmatch(r"!*\(x*\)", flat) and re.search(r"&&\s|\|\|\s", code[start:end]):
                continue  # Its operands are predicates of their own.
            condition = behind == "?" or (is_if and behind == "" and before in ("", ";"))
            if {before, behind} & {"&&", "||"} or condition or COMPARISON.search(flat):
                found.add((start, end))
    return sorted(found)


def rewrite(text, first):
    """`text` with its predicates as arguments of te_mutant, numbered from `first` on, and their lines."""
    places = predicates(text)
    edits = [(end, 0, -start, "))") for start, end in places]
    edits += [(start, 1, -end, f"te_mutant({first + i}, static_cast<bool>(") for i, (start, end) in enumerate(places)]
    parts, last = ['#include "te_mutant.h"\n#line 1\n'], 0
    for place, _, _, inserted in sorted(edits):
        parts += [text[last:place], inserted]
        last = place
    lines = [[text.count("\n", 0, start) + 1, " ".join(text[start:end].split())] for start, end in places]
    return "".join([*parts, text[last:]]), lines
