#!/usr/bin/env bash
# Builds te-opt under AddressSanitizer, and runs the tests of ops and passes with it.
# LLVM's own libraries are not instrumented: what they do with memory is not checked. Needs
# a build of the preset dev, whose kernels it takes.
#   scripts/asan_compiler.sh [lit options]      e.g. --filter Transforms/Fuse
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
scripts/configure.sh asan-compiler
cmake --build --preset asan-compiler --target te-opt te-opt-test te-tblgen
# LLVM's allocators mark memory in headers that both sides compile, and vectors are filled
# on both sides. What a process has not freed at its end is LLVM's.
export ASAN_OPTIONS=allow_user_poisoning=0:detect_container_overflow=0:detect_leaks=0
[ $# != 0 ] || set -- --filter '^[^/]*(IR|Support|Transforms)/'
"${LLVM_DIR:-/usr/lib/llvm-22}/bin/lit" -sv "$@" build/asan-compiler/test/lit
