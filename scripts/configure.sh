#!/usr/bin/env bash
# Configures a preset, and says what went wrong if that fails.
#   scripts/configure.sh dev|asan|asan-compiler|tsan|fuzz|coverage|release [cmake options]
# The cuda backend is built if its compiler and headers are found, unless an option
# says otherwise, whatever an earlier configuration of the folder said; never by tsan and fuzz.
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
case "${1:-}" in
  dev | asan | asan-compiler | tsan | fuzz | coverage | release) ;;
  *) echo "configure.sh: expected a preset (dev, asan, asan-compiler, tsan, fuzz, coverage or release), but got '${1:-}'" >&2; exit 2 ;;
esac
preset=$1
shift
if [ -x .deps/cuda/bin/nvcc ]; then
  export CUDA_PATH=$PWD/.deps/cuda
fi
cuda=AUTO
case "$preset" in tsan | fuzz) cuda=OFF ;; esac
log=build/$preset-configure.log
mkdir -p build
if ! cmake --preset "$preset" -DTE_CUDA="$cuda" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
grep -i 'cuda' "$log" || true
