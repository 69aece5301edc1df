#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: the dev preset's, then
# the runtime's under AddressSanitizer and UndefinedBehaviorSanitizer, and those of
# its threads under ThreadSanitizer. Prints at the end which tests were skipped, and why.
# Tests of many combinations take a sample of them; --full runs all combinations, and
# te-conformance under AddressSanitizer as well.
#   scripts/test.sh [--full] [ctest options]      e.g. -L runtime, -R Conformance
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
conformance=OFF
if [ "${1:-}" = --full ]; then
  shift
  export TE_TESTS=full
  conformance=ON
fi
# Without a GPU, no kernel runs, and those of one architecture show what does not compile.
architectures=()
command -v nvidia-smi >/dev/null || architectures=(-DTE_CUDA_ARCHITECTURES=90a)
scripts/setup.sh
for preset in dev asan tsan; do
  echo "== $preset: build"
  case $preset in
    dev) options=("${architectures[@]}") ;;
    asan) options=("-DTE_CONFORMANCE=$conformance") ;;
    tsan) options=() ;;
  esac
  scripts/configure.sh "$preset" "${options[@]}"
  cmake --build --preset "$preset"
done
# All are run even if the first fails: one run shows everything.
status=0
for preset in tsan asan dev; do
  echo "== $preset: test"
  ctest --preset "$preset" --parallel "$(nproc)" "$@" || status=1
done
.venv/bin/python scripts/skipped.py build/{dev,asan,tsan}
exit $status
