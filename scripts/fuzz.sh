#!/usr/bin/env bash
# Fuzzes the readers of files, the runtime's C ABI and the handshake of libte_tcp
# under AddressSanitizer and UBSan, and then the options of te-run as the preset
# dev builds it, which prints what is wrong. What the others find is in
# build/fuzz/test/fuzz/found: inputs that reach new code in a folder for each, and
# 'NAME-crash-*', 'NAME-oom-*' and 'NAME-timeout-*', which te-fuzz-NAME takes as an
# argument. Exits with 1 if there are any.
#
#   scripts/fuzz.sh [SECONDS [NAME...]]     600 seconds for each of: npz,
#                                           safetensors, runtime, tcp, options
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."

seconds=${1:-600}
shift $(($# > 0))
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "fuzz.sh: expected a number of seconds, but got '$seconds'" >&2
  exit 2
fi
given=("$@")
if ((!$#)); then given=(npz safetensors runtime tcp options); fi
names=()
options=0
for name in "${given[@]}"; do
  if [ "$name" = options ]; then
    options=1
  elif [ -d "test/fuzz/corpus/$name" ]; then
    names+=("$name")
  else
    echo "fuzz.sh: expected 'npz', 'safetensors', 'runtime', 'tcp' or 'options', but got '$name'" >&2
    exit 2
  fi
done

status=0
if ((${#names[@]})); then
  scripts/configure.sh fuzz
  cmake --build --preset fuzz --target "${names[@]/#/te-fuzz-}"
fi
for name in "${names[@]}"; do
  found=build/fuzz/test/fuzz/found/$name
  mkdir -p "$found"
  echo "== $name: $seconds s"
  ASAN_OPTIONS=allocator_may_return_null=1 "build/fuzz/bin/te-fuzz-$name" \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$found-" "$found" "test/fuzz/corpus/$name" 2>&1 | tail -n 25 || status=1
done
if ((options)); then
  scripts/configure.sh dev
  cmake --build --preset dev --target te-run
  echo "== options: $seconds s"
  python3 test/fuzz/options.py build/dev/bin/te-run "$RANDOM" "${seconds}s" \
    test/lit/Tools/Inputs/linear.mlir docs/examples/sgd.mlir || status=1
fi
exit $status
