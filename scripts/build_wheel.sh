#!/usr/bin/env bash
# Makes a wheel of the Python package with the libraries of a build tree inside.
#
#   scripts/build_wheel.sh BUILD [OUT]   e.g. build/release dist
#
# Of the release preset it runs on machines without LLVM; of another it needs the
# LLVM libraries that it was built with.
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "build_wheel.sh: expected a build folder and where to put the wheel, but got $# arguments" >&2
  exit 2
fi
build=$1
out=${2:-dist}
if [ ! -e "$build/lib/libte_compiler.so.0" ]; then
  echo "build_wheel.sh: expected a folder with a built 'lib/libte_compiler.so.0', but got '$build';" \
    "'scripts/configure.sh release && cmake --build --preset release' makes build/release" >&2
  exit 2
fi
python=python3
if [ -x .venv/bin/python ]; then python=$PWD/.venv/bin/python; fi
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cp -r python/te_mlir python/pyproject.toml python/setup.py LICENSE "$stage"
find "$stage" -name __pycache__ -prune -exec rm -rf {} +
mkdir -p "$stage/te_mlir/lib" "$out"
libraries=(te_runtime te_compiler)
# Where XLA's header was found when the folder was configured: for JAX.
if [ -e "$build/lib/libte_xla.so.0" ]; then libraries+=(te_xla); fi
for library in "${libraries[@]}"; do
  cp "$build/lib/lib$library.so.0" "$stage/te_mlir/lib/lib$library.so.0"
  strip --strip-unneeded "$stage/te_mlir/lib/lib$library.so.0" 2>/dev/null ||
    llvm-strip-22 --strip-unneeded "$stage/te_mlir/lib/lib$library.so.0"
done
# Notices of what is linked into the libraries. setuptools takes files of such names.
# notice NAME FILE: adds a notice, which has to exist.
notice() {
  if [ ! -s "$2" ]; then
    echo "build_wheel.sh: expected the notice of $1 in '$2', without which a wheel must not be given away" >&2
    exit 1
  fi
  cp "$2" "$stage/LICENSE.$1"
}
for package in libmlir-22 libzstd1 nlohmann-json3-dev; do
  notice "$package" "/usr/share/doc/$package/copyright"
done
# The frontend of cuDNN is compiled into the runtime where its headers were found.
if grep -q "^TE_CUDNN_FRONTEND_INCLUDE_DIR:PATH=/" "$build/CMakeCache.txt"; then
  notice cudnn-frontend .deps/cudnn/LICENSE.txt
fi
"$python" scripts/sbom.py >"$stage/te_mlir/sbom.cdx.json"
"$python" -m pip wheel -q --no-build-isolation --no-deps -w "$out" "$stage"
ls "$out"/te_mlir-*.whl
