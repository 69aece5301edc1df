#!/usr/bin/env bash
# Installs what the build needs and the machine lacks: Debian packages, a Python
# environment in .venv for the example and for the tests of the Python package,
# and, where CUDA's compiler is, the headers of cuBLASLt and cuDNN in .deps. Does
# nothing when everything is there.
#
#   scripts/setup.sh          what this machine can build
#   scripts/setup.sh --cuda   also CUDA's compiler, from PyPI, for machines
#                             without a toolkit (about 600 MB)
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."

with_cuda=0
for argument in "$@"; do
  case "$argument" in
    --cuda) with_cuda=1 ;;
    *) echo "setup.sh: expected '--cuda', but got '$argument'" >&2; exit 2 ;;
  esac
done

# LLVM's CMake files look for every -dev package that LLVM was built with.
packages=(
  clang-22 clang-format-22 lld-22 libclang-rt-22-dev
  llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  cmake ninja-build ccache git
  libgtest-dev nlohmann-json3-dev zlib1g-dev libzstd-dev libcurl4-openssl-dev libedit-dev
  libxml2-dev xz-utils python3-venv
  openmpi-bin libopenmpi-dev libasio-dev
)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$package")
done
if ((${#missing[@]})); then
  root=()
  if [ "$(id -u)" != 0 ]; then root=(sudo); fi
  echo "setup: installing ${missing[*]}"
  log=$(mktemp)
  install() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@" >>"$log" 2>&1
  }
  if ! { install update -qq &&
         install install -y -qq --no-install-recommends "${missing[@]}"; }; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get cannot install these packages" >&2
    exit 1
  fi
  rm -f "$log"
fi

if ! .venv/bin/python -c 'import numpy, matplotlib' 2>/dev/null; then
  echo "setup: making .venv with numpy and matplotlib"
  # A clean interpreter: the packages of the environment around stay outside.
  python3 -m venv --clear .venv
  .venv/bin/python -m pip install -qq numpy matplotlib
fi
if ! .venv/bin/python -c 'import torch, transformers, ml_dtypes, pytest, mypy' 2>/dev/null; then
  echo "setup: adding torch, transformers, ml_dtypes, pytest and mypy to .venv (some minutes)"
  # A CPU build (2.13.0+cpu, the higher version) where pip has an index with one.
  # PyPI takes no local versions: there the build for Linux is CUDA's, some GB.
  .venv/bin/python -m pip install -qq torch==2.13.0 transformers==5.23.0 ml_dtypes pytest setuptools mypy==2.4.1
fi
if ! .venv/bin/python -c 'import material, mkdocstrings_handlers.python' 2>/dev/null; then
  echo "setup: adding mkdocs-material to .venv, for the documentation's site"
  .venv/bin/python -m pip install -qq mkdocs-material==9.8.1 mkdocstrings-python==2.0.11
fi
# The last release for Python 3.11; libte_xla is compiled with a header of it.
if ! .venv/bin/python -c 'import jax, optax, equinox, flax' 2>/dev/null; then
  echo "setup: adding jax, optax, equinox and flax to .venv"
  .venv/bin/python -m pip install -qq jax==0.10.2 optax==0.2.8 \
    equinox==0.13.8 flax==0.12.8
fi

# The wheel of the release the kernels were measured with; only headers are
# used, the library itself is loaded at run time.
if { ((with_cuda)) || command -v nvcc >/dev/null; } &&
   [ ! -f .deps/cublas/include/cublasLt.h ]; then
  echo "setup: fetching the headers of cuBLASLt"
  wheel=$(mktemp -d)
  .venv/bin/python -m pip install -qq --no-deps --no-compile \
    --target "$wheel" nvidia-cublas==13.1.0.3
  mkdir -p .deps/cublas
  rm -rf .deps/cublas/include
  cp -r "$wheel"/nvidia/cu13/include .deps/cublas/include
  rm -rf "$wheel"
fi
if { ((with_cuda)) || command -v nvcc >/dev/null; } &&
   [ ! -f .deps/cudnn/include/cudnn_frontend.h ]; then
  echo "setup: fetching the headers of cuDNN and its frontend (about 400 MB)"
  wheel=$(mktemp -d)
  .venv/bin/python -m pip install -qq --no-deps --no-compile \
    --target "$wheel" nvidia-cudnn-cu13==9.19.0.56
  # The frontend's wheel is for one Python, its headers are for all.
  .venv/bin/python -m pip download -qq --no-deps --only-binary=:all: \
    --python-version 3.11 --dest "$wheel" nvidia-cudnn-frontend==1.18.0
  .venv/bin/python -m zipfile -e "$wheel"/nvidia_cudnn_frontend-*.whl "$wheel"
  mkdir -p .deps/cudnn
  rm -rf .deps/cudnn/include
  cp -r "$wheel"/nvidia/cudnn/include .deps/cudnn/include
  cp -r "$wheel"/include/. .deps/cudnn/include
  cp "$wheel"/nvidia_cudnn_frontend-*.dist-info/licenses/LICENSE.txt .deps/cudnn
  rm -rf "$wheel"
fi
if ((with_cuda)) && ! command -v nvcc >/dev/null &&
   [ ! -x .deps/cuda/bin/nvcc ]; then
  echo "setup: fetching CUDA's compiler"
  wheel=$(mktemp -d)
  .venv/bin/python -m pip install -qq --no-deps --no-compile \
    --target "$wheel" nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.* \
    nvidia-nvvm==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.*
  mkdir -p .deps
  rm -rf .deps/cuda
  mv "$wheel"/nvidia/cu13 .deps/cuda
  rm -rf "$wheel"
fi
