#!/usr/bin/env bash
# Installs what is missing, builds te-run, and trains the byte-level language
# model under every recipe. The first run compiles for about 7 minutes of processor
# time. Arguments go to examples/byte_lm/train.py:
#   scripts/train_example.sh [--recipe=NAME] [--steps=N] [--backend=auto|reference|cuda] [--text=FILE] [--output=FOLDER]
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."

# CUDA's kernels are only compiled if there is a GPU to run them, or in a build
# that already has them.
groups=(build example)
options=()
if [ -e /dev/nvidiactl ] || grep -Eqs "^TE_CUDA:STRING=(AUTO|ON)" build/dev/CMakeCache.txt; then
  groups+=(cuda)
else
  options=(-DTE_CUDA=OFF)
fi
scripts/setup.sh "${groups[@]}"
scripts/configure.sh dev "${options[@]}"
echo "train_example: building te-run (the first time, about 7 minutes of processor time)"
cmake --build --preset dev --target te-run
exec .venv/bin/python examples/byte_lm/train.py --te-run build/dev/bin/te-run "$@"
