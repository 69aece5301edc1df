#!/usr/bin/env python3
"""Every pass is documented and tested.

A pass of a Passes.td has a mnemonic that is its class name in kebab case (def
FooBarPass: "te-foo-bar"), a summary, a description with an ```mlir example
(optional for report and verify passes, which change nothing), a statistic,
and a lit test with its name that runs it.
"""

import re
import sys

from lint import ROOT, finish, read


def kebab(name):
    # Acronyms count as one word: ConvertTERTToLLVM becomes convert-tert-to-llvm.
    words = re.findall(r"TERT|LLVM|TE|[A-Z][a-z0-9]*", name)
    return "te-" + "-".join(words).lower()


problems, count = [], 0
tests = "\n".join(read(path) for path in (ROOT / "test/lit").rglob("*.mlir"))
for path in sorted((ROOT / "include").rglob("Passes.td")):
    stage = path.parent.name
    # A definition ends at the start of the next one.
    for body in re.split(r"^def ", read(path), flags=re.M)[1:]:
        match = re.match(r'(\w+)Pass\s*:\s*Pass<"([\w-]+)"', body)
        if not match:
            continue
        count += 1
        name, mnemonic = match.groups()

        def problem(text):
            problems.append(f"{path.relative_to(ROOT)}: {mnemonic}: {text}")

        if mnemonic != kebab(name):
            problem(f"expected the mnemonic {kebab(name)}, from class {name}Pass")
        if not re.search(r'let summary\s*=\s*"[^"]{10,}', body):
            problem("no summary")
        description = re.search(r"let description\s*=\s*\[\{(.*?)\}\];", body, re.S)
        if not description or len(description[1].split()) < 20:
            problem("no description, or one of fewer than 20 words")
        elif "```mlir" not in description[1] and stage not in ("Report", "Verify"):
            problem("no ```mlir example in its description")
        if "Statistic<" not in body:
            problem("no statistic")
        if not re.search(rf"(?<!\w){mnemonic}(?![\w-])", tests):
            problem("no lit test runs it")
sys.exit(finish(problems, count, "passes are documented and tested"))
