#!/usr/bin/env bash
# Installs what this machine lacks: Debian packages, a Python environment in .venv,
# and headers of cuBLASLt and cuDNN in .deps if there is a CUDA compiler. Does
# nothing if everything is there. scripts/requirements.txt has the versions and
# hashes of what comes from PyPI.
#
#   scripts/setup.sh                  everything: build, cuda, example and test
#   scripts/setup.sh GROUP...         only these groups
#   scripts/setup.sh --cuda           also CUDA's compiler, from PyPI, for machines
#                                     without a toolkit (about 600 MB)
#
# Groups
#   build     compiler, LLVM and MLIR (about a minute)
#   cuda      headers of cuBLASLt and cuDNN, if there is a CUDA compiler (a minute)
#   example   NumPy and matplotlib, for examples/byte_lm (seconds)
#   test      PyTorch, JAX and what else only tests import (about 2 minutes)
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."

with_cuda=0
groups=" "
for argument in "$@"; do
  case "$argument" in
    --cuda) with_cuda=1 ;;
    build | cuda | example | test) groups+="$argument " ;;
    *) echo "setup.sh: expected 'build', 'cuda', 'example', 'test' or '--cuda', but got '$argument'" >&2; exit 2 ;;
  esac
done
if [ "$groups" = " " ]; then
  groups=" build cuda example test "
elif ((with_cuda)); then
  groups+="cuda "
fi
wants() { [[ $groups == *" $1 "* ]]; }

# say TEXT: one line of progress, with the seconds since the start.
say() { echo "setup: [${SECONDS}s] $*"; }

packages=(python3-venv)
# LLVM's CMake files look for every -dev package that LLVM was built with.
if wants build; then
  packages+=(
    clang-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
    cmake ninja-build ccache git
    libgtest-dev nlohmann-json3-dev zlib1g-dev libzstd-dev libcurl4-openssl-dev libedit-dev
    libxml2-dev xz-utils libasio-dev
  )
fi
if wants test; then
  packages+=(clang-format-22 libclang-rt-22-dev openmpi-bin libopenmpi-dev)
fi
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$package")
done
if ((${#missing[@]})); then
  root=()
  if [ "$(id -u)" != 0 ]; then root=(sudo); fi
  say "installing ${missing[*]} (about a minute)"
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

# pinned SECTION [NAME...]: versions and hashes of a section of requirements.txt.
pinned() {
  local section=$1
  shift
  local names="$*"
  awk -v section="[$section]" -v names="^(${names// /|})==" \
    '$1 == "#" { wanted = $2 == section } wanted && (names == "^()==" ? NF : $1 ~ names)' scripts/requirements.txt
}

# pip_install SECTION: the section has what its packages need, too.
pip_install() { .venv/bin/python -m pip install -qq --no-deps --require-hashes -r <(pinned "$1"); }

# python_group NOTE MODULES SECTION: installs the section in .venv unless it has all modules.
python_group() {
  # timm is found, but cannot be imported without torchvision, which its tests do not need.
  if ! .venv/bin/python -c "import sys, importlib.util as u
sys.exit(any(u.find_spec(name.strip()) is None for name in '$2'.split(',')))" 2>/dev/null; then
    say "installing the packages of [$3] in .venv ($1)"
    pip_install "$3"
  fi
}

if ! .venv/bin/python -c '' 2>/dev/null; then
  say "making .venv"
  # A clean interpreter: packages of the environment around it stay outside.
  python3 -m venv --clear .venv
fi
if wants example; then
  python_group "seconds" "numpy, matplotlib" example
fi
if wants test; then
  if ! .venv/bin/python -c "import torch" 2>/dev/null; then
    say "installing PyTorch in .venv (about a minute)"
    # A CPU build if pip has an index with one. PyPI takes no local versions: its
    # build for Linux is CUDA's, some GB.
    pip_install torch-cpu 2>/dev/null || pip_install torch
  fi
  python_group "about a minute" "transformers, accelerate, ml_dtypes, pytest, trl, lightning,\
torchtitan, spmd_types, tyro, docstring_parser, litgpt, timm, diffusers, peft, mypy, ruff, material, mkdocstrings_handlers.python,\
jax, optax, equinox, flax" test
fi

# lacks_cuda_header FILE: whether this header is wanted and missing.
lacks_cuda_header() {
  wants cuda && { ((with_cuda)) || command -v nvcc >/dev/null; } && [ ! -f "$1" ]
}

# fetch FOLDER NAME...: unpacks wheels into a folder without installing them.
fetch() {
  .venv/bin/python -m pip install -qq --no-deps --no-compile --require-hashes --target "$1" \
    -r <(pinned cuda "${@:2}")
}

# Wheels of the releases that the kernels were measured with. Only headers are
# used; the libraries are loaded at run time.
if lacks_cuda_header .deps/cublas/include/cublasLt.h; then
  say "fetching the headers of cuBLASLt"
  wheel=$(mktemp -d)
  fetch "$wheel" nvidia-cublas
  mkdir -p .deps/cublas
  rm -rf .deps/cublas/include
  cp -r "$wheel"/nvidia/cu13/include .deps/cublas/include
  rm -rf "$wheel"
fi
if lacks_cuda_header .deps/cudnn/include/cudnn_frontend.h; then
  say "fetching the headers of cuDNN and its frontend (about 400 MB)"
  wheel=$(mktemp -d)
  fetch "$wheel" nvidia-cudnn-cu13
  # The frontend's wheel is for one Python; its headers are for all.
  .venv/bin/python -m pip download -qq --no-deps --only-binary=:all: \
    --python-version 3.11 --dest "$wheel" --require-hashes -r <(pinned cuda nvidia-cudnn-frontend)
  .venv/bin/python -m zipfile -e "$wheel"/nvidia_cudnn_frontend-*.whl "$wheel"
  mkdir -p .deps/cudnn
  rm -rf .deps/cudnn/include
  cp -r "$wheel"/nvidia/cudnn/include .deps/cudnn/include
  cp -r "$wheel"/include/. .deps/cudnn/include
  cp "$wheel"/nvidia_cudnn_frontend-*.dist-info/licenses/LICENSE.txt .deps/cudnn
  rm -rf "$wheel"
fi
if ((with_cuda)) && ! command -v nvcc >/dev/null && [ ! -x .deps/cuda/bin/nvcc ]; then
  say "fetching CUDA's compiler"
  wheel=$(mktemp -d)
  fetch "$wheel" nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl
  mkdir -p .deps
  rm -rf .deps/cuda
  mv "$wheel"/nvidia/cu13 .deps/cuda
  rm -rf "$wheel"
fi
