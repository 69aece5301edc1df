#!/usr/bin/env bash
# Configures a preset, and says what went wrong if that fails.
#   scripts/configure.sh dev|asan|release [cmake options]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
if [ -x .deps/cuda/bin/nvcc ]; then
  export CUDA_PATH=$PWD/.deps/cuda
fi
log=build/$preset-configure.log
mkdir -p build
if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
grep -i 'cuda' "$log" || true
