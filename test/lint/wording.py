#!/usr/bin/env python3
"""No text uses phrases that readers had to decode. docs/contributing/style.md says what to write instead.

EVERYWHERE has phrases that are searched for in all sources. PROSE has phrases that may be right in code
(`a product of two numbers`), so they are searched for only in pages and examples.
"""

import re
import sys

from lint import ROOT, finish, read, tracked

# Each entry is (a phrase, what to write instead).
EVERYWHERE = [
    (r"without a word", "silently"),
    (r"(?<!#)\banew\b", "again"),
    (r"once more", "again"),
    (r"in vain", "timed out, for nothing"),
    (r"for ever\b", "forever"),
    (r"(?:is|are|was|were) told\b", "is reported, is printed, gets an error"),
    (r"tells? (?!(?:[a-z]+ )?reader)\S+ from", "distinguishes ... from"),
    (r"what the device lacks", "device memory in use"),
    (r"\bwhoever\b", "a reader, a rank that"),
    (r"\bbut for\b", "except"),
    (r"\bnobody (?:looks|reads|asks|needs|uses|calls)\b", "is not read, is not needed"),
    (r"\bis no (?:matrix|tensor|argument|error|parameter|multiple|power|weight|matter|mask)\b", "is not a"),
    (r"\blies? (?:one after|side by|beside|behind)\b", "is stored"),
    (r"\b(?:a|the) former (?:run|step|version|value|sum)s?\b", "an earlier run, an earlier step"),
    (r"\b(?:held|hold) (?:still|instead|no more|anyway)\b", "saved"),
    (r"\b(?:is|are) (?:there|here) anyway\b", "is available"),
    (r"\bmade (?:anew|again)\b", "computed again, created again"),
]
PROSE = [
    (r"\blies?\b(?! about)", "is stored, is, starts"),
    (r"(?:held|holds?|keeps?|kept) for (?:a|the|its) backward", "saved for the backward"),
    (r"\bmakes of (?:it|them|a|the)\b", "computes from, compiles to"),
    (r"(?:by|of|in|for|from|with|takes|gives) (?:\w+ )?\w+ alone\b", "only"),
    (r"\bwhere there (?:is|are) (?:one|none)\b", "if there is one"),
]
PAGES = ("*.md", "examples/*")
SOURCES = (
    "*.py",
    "*.cpp",
    "*.h",
    "*.td",
    "*.inc",
    "*.cu",
    "*.cuh",
    "*.c",
    "*.sh",
    "*.cmake",
    "*.txt",
    "*.toml",
    "*.yml",
)
# These files contain the phrases as examples.
EXEMPT = ("docs/contributing/style.md", "test/lint/wording.py", "examples/byte_lm/text.txt")


def joined(text):
    """The text with line breaks, comment signs and margins replaced by blanks, so that phrases match across lines."""
    return re.sub(r"[ \t]*\n[ \t]*(?://+|#|\*)?[ \t]*", lambda found: " ".ljust(len(found[0])), text)


def main():
    pages = set(tracked(*PAGES))
    problems, count = [], 0
    for path in sorted(pages | set(tracked(*SOURCES))):
        name = path.relative_to(ROOT).as_posix()
        if name in EXEMPT:
            continue
        try:
            text = read(path)
        except UnicodeDecodeError:
            continue
        count += 1
        for phrase, instead in EVERYWHERE + (PROSE if path in pages else []):
            for found in re.finditer(phrase.replace(" ", r"\s+"), joined(text), re.IGNORECASE):
                line = text.count("\n", 0, found.start()) + 1
                problems.append(f"{name}:{line}: '{' '.join(found[0].split())}': write '{instead}'")
    return finish(problems, count, "files use plain words")


if __name__ == "__main__":
    sys.exit(main())
