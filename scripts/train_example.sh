#!/usr/bin/env bash
# Installs what is missing, builds, and trains the byte-level language model
# under every recipe. Arguments go to examples/byte_lm/train.py:
#   scripts/train_example.sh [--recipe=NAME] [--steps=N] [--backend=auto|reference|cuda] [--text=FILE] [--output=FOLDER]
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/configure.sh dev
cmake --build --preset dev --target te-run
exec .venv/bin/python examples/byte_lm/train.py --te-run build/dev/bin/te-run "$@"
