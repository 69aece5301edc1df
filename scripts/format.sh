#!/usr/bin/env bash
# Checks that C++, CUDA and Python sources are formatted; --fix formats them.
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
clang=(--dry-run --Werror)
ruff=(--check)
case "${1:-}" in
  '') ;;
  --fix) clang=(-i) ruff=() ;;
  *) echo "format.sh: expected '--fix', but got '$1'" >&2; exit 2 ;;
esac
status=0
git ls-files -z '*.cpp' '*.h' '*.cu' '*.cuh' |
  xargs -0 clang-format-22 "${clang[@]}" || status=1
python=.venv/bin/python
[ -x "$python" ] || python=python3
"$python" -m ruff format --no-cache --quiet "${ruff[@]}" . || status=1
[ ${#ruff[@]} -gt 0 ] || "$python" -m ruff check --no-cache --quiet --fix . || status=1
exit $status
