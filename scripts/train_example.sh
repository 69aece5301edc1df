#!/usr/bin/env bash
# Installs what is missing, builds, and trains the byte-level language model
# under every recipe. Arguments go to examples/byte_lm/train.py.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/configure.sh dev
cmake --build --preset dev --target te-run
exec .venv/bin/python examples/byte_lm/train.py --te-run build/dev/bin/te-run "$@"
