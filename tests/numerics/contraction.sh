#!/usr/bin/env bash
# Proves that the compiler adds no fma of its own to the scalar specification under the build's
# flags: with each fma that the source spells made a call, the object must hold no fma instruction.
# The control allows contraction and must find some, so that a wrong pattern can't pass.
# usage: contraction.sh COMPILER SOURCE FLAGS...
set -euo pipefail
compiler=$1 source=$2
shift 2
case "$("$compiler" -dumpmachine)" in
  x86_64-*) isa=-mfma pattern='\bvf(n?m(add|sub)|m(addsub|subadd))' ;;
  aarch64-*) isa= pattern='\bf(n?m(add|sub)|ml[as])\b' ;;
  *) echo "no fma pattern for this machine"; exit 1 ;;
esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/calls.h" <<'HEADER'
extern "C" float CalledFma(float, float, float);
extern "C" double CalledFma64(double, double, double);
#define __builtin_fmaf CalledFma
#define __builtin_fma CalledFma64
HEADER
count() {  # FLAGS... -> fma instructions
  "$compiler" -std=c++20 -O2 $isa -include "$scratch/calls.h" "$@" -c "$source" -o "$scratch/object.o"
  objdump -d --no-show-raw-insn "$scratch/object.o" | grep -Ec "$pattern" || true
}
ours=$(count "$@")
control=$(count "$@" -ffp-contract=fast)
echo "fma instructions that the source doesn't spell: $ours; with contraction allowed: $control"
[ "$ours" = 0 ] && [ "$control" -gt 0 ]
