#!/usr/bin/env bash
# Configures a preset, and says what went wrong if that fails.
#   scripts/configure.sh dev|asan|release [cmake options]
# The cuda backend is built if its compiler and headers are found, unless an option
# says otherwise, whatever an earlier configuration of the folder said.
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
case "${1:-}" in
  dev | asan | release) ;;
  *) echo "configure.sh: expected a preset (dev, asan or release), but got '${1:-}'" >&2; exit 2 ;;
esac
preset=$1
shift
if [ -x .deps/cuda/bin/nvcc ]; then
  export CUDA_PATH=$PWD/.deps/cuda
fi
log=build/$preset-configure.log
mkdir -p build
if ! cmake --preset "$preset" -DTE_CUDA=AUTO "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
grep -i 'cuda' "$log" || true
