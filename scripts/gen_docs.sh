#!/usr/bin/env bash
# Writes docs/generated and the rows of the support table from the .td files;
# with --check, fails when a committed file differs from what they say now. The
# support table needs te-tblgen: TE_TBLGEN, or that of a build folder beside or
# inside the source tree; without it, writing leaves its files as they are.
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
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

rows=include/TEDialect/Support/SupportRows.inc
support=(-I include include/TEDialect/Support/TESupport.td)
te_tblgen=${TE_TBLGEN:-$(ls build/bin/te-tblgen ../build/bin/te-tblgen 2>/dev/null | head -1 || true)}
if [ -n "$te_tblgen" ]; then
  "$te_tblgen" -gen-support-doc "${support[@]}" -o "$out/support.md"
  "$te_tblgen" -gen-support-json "${support[@]}" -o "$out/support.json"
  if [ "$out" = docs/generated ]; then
    "$te_tblgen" -gen-support-rows "${support[@]}" -o $rows
  fi
elif [ "$out" = docs/generated ]; then
  echo "te-tblgen is not built: the support table is left as it is" >&2
else
  echo "the check needs te-tblgen: build it, or set TE_TBLGEN" >&2
  exit 1
fi

if [ "$out" != docs/generated ]; then
  diff -ru docs/generated "$out" && diff -u $rows <("$te_tblgen" -gen-support-rows "${support[@]}") || {
    echo "docs/generated is out of date: run scripts/gen_docs.sh and commit" >&2
    exit 1
  }
  echo "docs/generated is up to date"
fi
