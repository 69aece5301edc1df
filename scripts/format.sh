#!/usr/bin/env bash
# Checks that C++ and CUDA sources are formatted; --fix formats them.
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
mode=(--dry-run --Werror)
case "${1:-}" in
  '') ;;
  --fix) mode=(-i) ;;
  *) echo "format.sh: expected '--fix', but got '$1'" >&2; exit 2 ;;
esac
git ls-files -z '*.cpp' '*.h' '*.cu' '*.cuh' |
  xargs -0 clang-format-22 "${mode[@]}"
