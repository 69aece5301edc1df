#!/usr/bin/env bash
# Writes docs/generated from the .td files; with --check, fails when a
# committed page differs from what the .td files say now.
set -euo pipefail
cd "$(dirname "$0")/.."
tblgen=$(command -v mlir-tblgen-22 || echo /usr/lib/llvm-22/bin/mlir-tblgen)
include=(-I include -I "$(dirname "$(readlink -f "$tblgen")")/../include")
out=docs/generated
if [ "${1:-}" = --check ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
# The LLVM packages put a "do not edit" banner first, which names its source.
"$tblgen" -gen-dialect-doc -dialect=te "${include[@]}" include/TEDialect/IR/TEDoc.td -o "$out/TEDialect.md"
"$tblgen" -gen-dialect-doc -dialect=tert "${include[@]}" include/TEDialect/TERT/TERTOps.td -o "$out/TERTDialect.md"
for passes in include/TEDialect/Transforms/*/Passes.td; do
  stage=$(basename "$(dirname "$passes")")
  "$tblgen" -gen-pass-doc "${include[@]}" "$passes" -o "$out/${stage}Passes.md"
done
find "$out" -name '*.md.d' -delete
if [ "$out" != docs/generated ]; then
  diff -ru docs/generated "$out" || {
    echo "docs/generated is out of date: run scripts/gen_docs.sh and commit" >&2
    exit 1
  }
  echo "docs/generated is up to date"
fi
