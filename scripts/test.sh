#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: the dev preset's, then
# the runtime's under AddressSanitizer and UndefinedBehaviorSanitizer, and those of
# its threads under ThreadSanitizer. Prints at the end which tests were skipped, and why.
#   scripts/test.sh [ctest options]      e.g. -L runtime, -R Conformance
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
scripts/setup.sh
for preset in dev asan tsan; do
  echo "== $preset: build"
  scripts/configure.sh "$preset"
  cmake --build --preset "$preset"
done
# Both are run even if the first fails: one run shows everything.
status=0
for preset in tsan asan dev; do
  echo "== $preset: test"
  ctest --preset "$preset" --parallel "$(nproc)" "$@" || status=1
done
.venv/bin/python scripts/skipped.py build/{dev,asan,tsan}
exit $status
