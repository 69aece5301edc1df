#!/usr/bin/env bash
# Builds the release of the runtime library twice, from copies of the sources in two
# folders, and compares the bytes; then looks for what hardens it: no path of either
# folder inside, symbols that are resolved at the start, stack protectors and checked
# functions. Without ccache and cuda; takes about two minutes.
#   scripts/reproducible.sh
set -euo pipefail
case " $* " in *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=()
for folder in first the_second; do
  mkdir -p "$work/$folder"
  git ls-files -z --cached --others --exclude-standard | tar -cf - --null -T - | tar -xf - -C "$work/$folder"
  echo "== building in $work/$folder"
  (cd "$work/$folder" &&
    CCACHE_DISABLE=1 cmake --preset release -DTE_RUNTIME_ONLY=ON -DTE_CUDA=OFF -DTE_MPI=OFF &&
    CCACHE_DISABLE=1 cmake --build --preset release --target te_runtime) >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }
  libraries+=("$work/$folder/build/release/lib/libte_runtime.so")
done

# refuse TEXT: says what is wrong and ends.
refuse() { echo "reproducible.sh: $*" >&2; exit 1; }
cmp "${libraries[@]}" || refuse "the two libraries differ"
library=${libraries[0]}
if grep -aqF "$work" "$library"; then refuse "the library has the path of its build"; fi
dynamic=$(readelf -dlW "$library")
[[ $dynamic == *GNU_RELRO* ]] || refuse "expected a GNU_RELRO segment"
[[ $dynamic == *BIND_NOW* ]] || refuse "expected BIND_NOW"
symbols=$(readelf --dyn-syms -W "$library")
[[ $symbols == *__stack_chk_fail* ]] || refuse "expected stack protectors"
[[ ${symbols//__stack_chk_fail/} =~ __[a-z]*_chk ]] || refuse "expected checked functions"
sha256sum "$library" | sed "s#$work/first/##"
