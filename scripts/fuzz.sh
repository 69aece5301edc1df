#!/usr/bin/env bash
# Fuzzes the readers of files, the runtime's C ABI and the handshake of libte_tcp
# under AddressSanitizer and UBSan, one after the other. What is found is in
# build/fuzz/test/fuzz/found: inputs that reach new code in a folder for each, and
# 'NAME-crash-*', 'NAME-oom-*' and 'NAME-timeout-*', which te-fuzz-NAME takes as an
# argument. Exits with 1 if there are any.
#
#   scripts/fuzz.sh [SECONDS [NAME...]]     600 seconds for each of: npz,
#                                           safetensors, runtime, tcp
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."

seconds=${1:-600}
shift $(($# > 0))
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "fuzz.sh: expected a number of seconds, but got '$seconds'" >&2
  exit 2
fi
names=("$@")
if ((!$#)); then names=(npz safetensors runtime tcp); fi
for name in "${names[@]}"; do
  if [ ! -d "test/fuzz/corpus/$name" ]; then
    echo "fuzz.sh: expected 'npz', 'safetensors', 'runtime' or 'tcp', but got '$name'" >&2
    exit 2
  fi
done

scripts/configure.sh fuzz
cmake --build --preset fuzz --target "${names[@]/#/te-fuzz-}"
status=0
for name in "${names[@]}"; do
  found=build/fuzz/test/fuzz/found/$name
  mkdir -p "$found"
  echo "== $name: $seconds s"
  ASAN_OPTIONS=allocator_may_return_null=1 "build/fuzz/bin/te-fuzz-$name" \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$found-" "$found" "test/fuzz/corpus/$name" 2>&1 | tail -n 25 || status=1
done
exit $status
