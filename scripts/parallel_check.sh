#!/usr/bin/env bash
# On a machine with several GPUs, from the unpacked portable archive: groups of N
# GPUs, one process a GPU and one thread a GPU.
#   share/te-mlir/parallel_check.sh OUTPUT_FOLDER N [STEP...]
# Steps, each with a time limit: collectives, captured, faults, torchrun, python,
# numerics, overlap, experts, exchanges, weights, amaxes, processes, bench, bandwidth; all if none is named.
# What they print and measure is in OUTPUT_FOLDER; a table comes last. Ends with 1 if
# anything failed. About three minutes over two GPUs. `python` needs the wheel te_mlir and a PyTorch
# with NCCL, and is passed by without them.
# NVLink multicast stays as the environment says (off, if it says nothing).
set -uo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
if [ $# -lt 2 ] || ! [[ $2 =~ ^[1-9][0-9]*$ ]]; then
  echo "parallel_check.sh: expected an output folder and a number of GPUs, but got '$*'" >&2
  exit 2
fi
out=$1
ranks=$2
shift 2
all="collectives captured torchrun python numerics overlap experts exchanges weights amaxes bench bandwidth faults processes"
steps=${*:-$all}
for step in $steps; do
  if [[ " $all " != *" $step "* ]]; then
    echo "parallel_check.sh: expected steps of $all, but got '$step'" >&2
    exit 2
  fi
done
prefix=$(cd "$(dirname "$0")/../.." && pwd)
checks=$prefix/share/te-mlir/checks
mkdir -p "$out"
out=$(cd "$out" && pwd)
status=0
table=()
export PATH=$prefix/bin:$PATH
# NVIDIA's wheels, if there is a python3 that has them.
wheels=$(python3 -c 'import importlib.util as u
spec = u.find_spec("nvidia")
print(":".join(f"{p}/{d}/lib" for p in spec.submodule_search_locations for d in ("nccl", "cu13", "cudnn")) if spec else "")' 2>/dev/null)
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels

# step NAME SECONDS COMMAND...: runs it, notes how it ended, and for how long it ran.
step() {
  local name=$1 limit=$2 begin=$SECONDS code
  shift 2
  timeout --signal=KILL "$limit" "$@" >"$out/$name.txt" 2>&1
  code=$?
  # Nothing was tried if there are too few GPUs.
  if grep -q 'PASSED  \] 0 tests' "$out/$name.txt"; then code=77; fi
  local said
  said=$(grep -E "PASSED|FAILED|claims|^run-faults|error" "$out/$name.txt" | tail -1 | cut -c1-90)
  table+=("$(printf '%-22s %-8s %4d s  %s' "$name" "$([ $code = 0 ] && echo ok || echo "exit $code")" $((SECONDS - begin)) "$said")")
  echo "${table[-1]}"
  [ $code = 0 ] || status=1
  return $code
}
wanted() { [[ " $steps " == *" $1 "* ]]; }

{ te-run --version; nvidia-smi -L; nvidia-smi topo -m; env | grep -E '^NCCL|^CUDA_VISIBLE'; } >"$out/machine.txt" 2>&1
head -1 "$out/machine.txt"

if wanted collectives; then
  NCCL_DEBUG=WARN step collectives 45 te-collective-check --ranks="$ranks" \
    --gtest_filter='-*Captured*:*MissingRanks*:*Bandwidth*:*Observations*'
fi
if wanted captured; then
  NCCL_DEBUG=WARN step captured 30 te-collective-check --ranks="$ranks" \
    --gtest_filter='*CapturedMaximum*:*Observations*' ||
    # Blocking communicators launch on the capturing thread itself.
    NCCL_COMM_BLOCKING=1 step captured-blocking 30 te-collective-check --ranks="$ranks" --gtest_filter='*CapturedMaximum*'
fi
if wanted torchrun; then
  # The example is a program of two ranks.
  step torchrun 45 python3 -m torch.distributed.run --standalone --nproc-per-node=2 --no-python \
    te-run "$checks/tensor_parallel.mlir" --entry=mlp --vjp --seed=1 --steps=3 --backend=cuda --timeout=20 \
    "--outputs=$out/torchrun.{rank}.npz"
fi
if wanted python; then
  if python3 -c 'import te_mlir, torch.distributed as d, sys; sys.exit(not d.is_nccl_available())' 2>/dev/null; then
    step python 60 python3 -m torch.distributed.run --standalone --nproc-per-node="$ranks" \
      "$prefix/share/te-mlir/examples/torch_distributed/tensor_parallel.py" --device=cuda
    tail -2 "$out/python.txt"
  else
    echo "python: passed by, as python3 has no te_mlir, or no PyTorch with NCCL"
  fi
fi
# Those of several ranks against one process; 2 ranks if there are fewer than 4 GPUs.
# against_one NAME SCRIPT [SECONDS]
few=$([ "$ranks" -ge 4 ] && echo 4 || echo 2)
against_one() {
  step "$1" "${3:-90}" python3 "$checks/$2" "$out/$1" --backend=cuda --launcher=torchrun --ranks="$few" --jobs=6
}
if wanted numerics; then against_one numerics tensor_parallel.py; fi
if wanted overlap; then against_one overlap overlap.py; fi
if wanted experts; then against_one experts expert_parallel.py; fi
if wanted exchanges; then against_one exchanges exchanged_casts.py 300; fi
if wanted weights; then against_one weights sharded_weights.py; fi
# This takes four.
if wanted amaxes && [ "$ranks" -ge 4 ]; then against_one amaxes amax_groups.py; fi
if wanted bench; then
  step bench 150 te-bench --suite=parallel --backend=cuda --ranks="$ranks" --json="$out/bench.json"
  grep -v '^te-bench' "$out/bench.txt"
fi
if wanted bandwidth; then
  step bandwidth 30 te-collective-check --ranks="$ranks" --gtest_filter='*Bandwidth*' --json="$out/bandwidth.json"
  grep "134217728\|13421" "$out/bandwidth.txt"
fi
if wanted faults; then
  step faults 40 te-collective-check --ranks="$ranks" --gtest_filter='*MissingRanks*'
fi
if wanted processes; then
  step processes 90 python3 "$checks/run_faults.py" "$out/processes" --size="$ranks" --launcher=torchrun --backend=cuda
  grep "processes, one\|asked again" "$out/processes.txt" | cut -c1-160
fi

echo
printf '%s\n' "${table[@]}" | tee "$out/table.txt"
exit $status
