#!/usr/bin/env bash
# Fuzzes the readers of files, the runtime's C ABI and the connections of libte_tcp
# under AddressSanitizer and UBSan, then the compiler with changed programs and
# random models, and te-run with random options, as the preset dev builds them. A fuzzer is run by as
# many processes as there are processors, or FUZZ_PROCESSES of them, each with a
# seed of its own from FUZZ_SEED, or any number, on. What is found is in
# build/fuzz/test/fuzz/found: inputs that reach new code in a folder for each, and
# 'NAME-crash-*', 'NAME-oom-*' and 'NAME-timeout-*', which te-fuzz-NAME takes as an
# argument; programs as 'program-*.mlir'; command lines in 'options-*.log';
# models in 'models-*.log'. Exits with 1 if there are any.
#
#   scripts/fuzz.sh [AMOUNT [NAME...]]     for each of npz, safetensors, runtime, tcp, program, options, models:
#                                          600 seconds, or an amount of seconds such as 60, or
#                                          of executions such as 10000000x
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."

amount=${1:-600}
shift $(($# > 0))
case $amount in *x) unit=--runs ;; *) unit=--seconds ;; esac
if ! [[ $amount =~ ^[1-9][0-9]*x?$ ]]; then
  echo "fuzz.sh: expected a number of seconds, or of executions as in '1000x', but got '$amount'" >&2
  exit 2
fi
names=("$@")
if ((!$#)); then names=(npz safetensors runtime tcp program options models); fi
fuzz=() dev=()
for name in "${names[@]}"; do
  case $name in
    npz | safetensors | runtime | tcp) fuzz+=("te-fuzz-$name") ;;
    program) dev+=(te-fuzz-program) ;;
    options) dev+=(te-run) ;;
    models) dev+=(te_compiler) ;;
    *)
      echo "fuzz.sh: expected 'npz', 'safetensors', 'runtime', 'tcp', 'program', 'options' or 'models', but got '$name'" >&2
      exit 2
      ;;
  esac
done

if ((${#fuzz[@]})); then
  scripts/configure.sh fuzz
  cmake --build --preset fuzz --target "${fuzz[@]}"
fi
if ((${#dev[@]})); then
  scripts/configure.sh dev
  cmake --build --preset dev --target "${dev[@]}"
fi
python=.venv/bin/python
[ -x "$python" ] || python=python3
exec "$python" test/fuzz/many.py --processes "${FUZZ_PROCESSES:-$(nproc)}" --seed "${FUZZ_SEED:-$((RANDOM * 100 + 1))}" \
  "$unit" "${amount%x}" "${names[@]}"
