#!/usr/bin/env bash
# Builds the release of the runtime twice, from copies of the sources in two folders,
# and compares the bytes of its archives; then looks for what hardens the library: no
# path of either folder inside, symbols that are resolved at the start, stack protectors
# and checked functions. Without ccache, cuda and MPI; takes about three minutes.
#   scripts/reproducible.sh
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
archives=()
for folder in first the_second; do
  mkdir -p "$work/$folder"
  git ls-files -z --cached --others --exclude-standard | tar -cf - --null -T - | tar -xf - -C "$work/$folder"
  echo "== building in $work/$folder"
  (cd "$work/$folder" &&
    CCACHE_DISABLE=1 cmake --preset release -DTE_RUNTIME_ONLY=ON -DTE_CUDA=OFF -DTE_MPI=OFF \
      -DTE_XLA=OFF -DTE_CONFORMANCE=OFF &&
    CCACHE_DISABLE=1 cmake --build --preset release --target te_runtime te_tcp TESupport \
      te-collective-check &&
    cd build/release && cpack) >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }
  archives+=("$work/$folder"/build/release/te-mlir-*.tar.xz)
done

# refuse TEXT: says what is wrong and ends.
refuse() { echo "reproducible.sh: $*" >&2; exit 1; }
cmp "${archives[@]}" || refuse "the two archives differ"
library=$work/first/build/release/lib/libte_runtime.so
paths=$(xz -dc "${archives[0]}" | grep -acF "$work" || true)
[ "$paths" = 0 ] || refuse "the archive has the path of its build"
dynamic=$(readelf -dlW "$library")
[[ $dynamic == *GNU_RELRO* ]] || refuse "expected a GNU_RELRO segment"
[[ $dynamic == *BIND_NOW* ]] || refuse "expected BIND_NOW"
symbols=$(readelf --dyn-syms -W "$library")
[[ $symbols == *__stack_chk_fail* ]] || refuse "expected stack protectors"
[[ ${symbols//__stack_chk_fail/} =~ __[a-z]*_chk ]] || refuse "expected checked functions"
sha256sum "${archives[0]}" | sed "s#$work/first/build/release/##"
