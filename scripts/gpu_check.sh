#!/usr/bin/env bash
# On a machine with a GPU, from the unpacked portable archive: the conformance
# suite on both backends, groups of two GPUs if there are two, the training
# example, and the benchmarks.
#   share/te-mlir/gpu_check.sh OUTPUT_FOLDER
# Writes conformance.txt, collective.txt, collective.json, train/, bench.json and bench.txt there.
# Ends with 1 if anything failed. TE_GOLDEN_DIR, when set, points to golden
# vectors.
set -uo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
prefix=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# != 1 ]; then
  echo "gpu_check.sh: expected an output folder, but got $# arguments" >&2
  exit 2
fi
out=$1
mkdir -p "$out"
status=0
share=$prefix/share/te-mlir

"$prefix/bin/te-run" --version || status=1

"$prefix/bin/te-conformance" >"$out/conformance.txt" 2>&1 || status=1
grep -E "FAILED|PASSED|fraction|of the bound" "$out/conformance.txt" | tail -25

"$prefix/bin/te-collective-check" --json="$out/collective.json" >"$out/collective.txt" 2>&1 || status=1
grep -E "FAILED|PASSED|ranks" "$out/collective.txt" | sort -u | tail -10

python3 "$share/examples/byte_lm/train.py" --backend cuda --output "$out/train" || status=1

"$prefix/bin/te-bench" --mlp="$share/bench/llama_mlp.mlir" --stack="$share/bench/llama_stack.mlir" --json="$out/bench.json" \
  | tee "$out/bench.txt" || status=1
exit $status
