#!/usr/bin/env bash
# Installs what this machine lacks: Debian packages, a Python environment in .venv,
# and headers of cuBLASLt and cuDNN in .deps if there is a CUDA compiler. Does
# nothing if everything is there.
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

# python_group NOTE IMPORTS REQUIREMENT...: installs the requirements in .venv
# unless all imports work.
python_group() {
  local note=$1 imports=$2
  shift 2
  if ! .venv/bin/python -c "import $imports" 2>/dev/null; then
    say "installing ${imports//,/} in .venv ($note)"
    .venv/bin/python -m pip install -qq "$@"
  fi
}

if ! .venv/bin/python -c '' 2>/dev/null; then
  say "making .venv"
  # A clean interpreter: packages of the environment around it stay outside.
  python3 -m venv --clear .venv
fi
if wants example; then
  python_group "seconds" "numpy, matplotlib" numpy matplotlib
fi
if wants test; then
  # A CPU build (2.13.0+cpu, the higher version) if pip has an index with one.
  # PyPI takes no local versions: its build for Linux is CUDA's, some GB.
  python_group "about a minute" "torch, transformers, accelerate, ml_dtypes, pytest" \
    torch==2.13.0 transformers==5.23.0 accelerate==1.15.0 ml_dtypes pytest setuptools
  # With pyarrow and pandas, about 250 MB.
  python_group "half a minute" "trl" trl==1.16.0
  python_group "seconds" "lightning" lightning==2.6.6
  # Without its other dependencies, which only its trainer needs (Triton alone has 1 GB).
  python_group "seconds" "torchtitan, spmd_types, tyro, docstring_parser" --no-deps \
    torchtitan==0.3.0 spmd_types==0.2.3 tyro==1.0.17 docstring_parser==0.18.0
  python_group "seconds" "mypy, ruff" mypy==2.4.1 ruff==0.17.6
  # The documentation's site.
  python_group "seconds" "material, mkdocstrings_handlers.python" \
    mkdocs-material==9.8.1 mkdocstrings-python==2.0.11
  # The last release for Python 3.11; libte_xla is compiled with a header of it.
  python_group "about half a minute" "jax, optax, equinox, flax" \
    jax==0.10.2 optax==0.2.8 equinox==0.13.8 flax==0.12.8
fi

# lacks_cuda_header FILE: whether this header is wanted and missing.
lacks_cuda_header() {
  wants cuda && { ((with_cuda)) || command -v nvcc >/dev/null; } && [ ! -f "$1" ]
}

# fetch FOLDER REQUIREMENT...: unpacks wheels into a folder without installing them.
fetch() {
  local folder=$1
  shift
  .venv/bin/python -m pip install -qq --no-deps --no-compile --target "$folder" "$@"
}

# Wheels of the releases that the kernels were measured with. Only headers are
# used; the libraries are loaded at run time.
if lacks_cuda_header .deps/cublas/include/cublasLt.h; then
  say "fetching the headers of cuBLASLt"
  wheel=$(mktemp -d)
  fetch "$wheel" nvidia-cublas==13.1.0.3
  mkdir -p .deps/cublas
  rm -rf .deps/cublas/include
  cp -r "$wheel"/nvidia/cu13/include .deps/cublas/include
  rm -rf "$wheel"
fi
if lacks_cuda_header .deps/cudnn/include/cudnn_frontend.h; then
  say "fetching the headers of cuDNN and its frontend (about 400 MB)"
  wheel=$(mktemp -d)
  fetch "$wheel" nvidia-cudnn-cu13==9.19.0.56
  # The frontend's wheel is for one Python; its headers are for all.
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
if ((with_cuda)) && ! command -v nvcc >/dev/null && [ ! -x .deps/cuda/bin/nvcc ]; then
  say "fetching CUDA's compiler"
  wheel=$(mktemp -d)
  fetch "$wheel" nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.* \
    nvidia-nvvm==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.*
  mkdir -p .deps
  rm -rf .deps/cuda
  mv "$wheel"/nvidia/cu13 .deps/cuda
  rm -rf "$wheel"
fi
