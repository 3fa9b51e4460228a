#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles every public .hpp on its own, with warnings as errors, and twice in a row in one translation unit. What a
# header lacks is the same for every compiler, but their warnings are not: the others see all headers in one unit, in
# both orders.
#
#     tests/headers/check.sh [--jobs N] [COMPILER [COMPILER...]]      default: g++, and all at once by clang++
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

jobs=$(nproc)
compilers=()
while (($#)); do
  case $1 in
    --jobs) jobs=$2 && shift 2 ;;
    -*) echo "usage: check.sh [--jobs N] [COMPILER...]" >&2 && exit 2 ;;
    *) compilers+=("$1") && shift ;;
  esac
done
((${#compilers[@]})) || compilers=(g++ clang++)

# compile NAME COMPILER HEADER...: the headers in one translation unit.
compile() {
  local name=$1 compiler=$2 output
  shift 2
  if ! output=$(printf '#include "%s"\n' "$@" |
    "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
      -I "$root/include" -isystem "${EIGEN_INCLUDE:-/usr/include/eigen3}" -x c++ - 2>&1); then
    printf 'FAILED: %s with %s\n%s\n' "$name" "$compiler" "$output"
    return 1
  fi
}
export -f compile
export root

cd "$root/include"
mapfile -t headers < <(find kvevict -name '*.hpp' | LC_ALL=C sort)
if ((${#headers[@]} == 0)); then
  echo "headers: none found"
  exit 1
fi
failed=0
for compiler in "${compilers[@]}"; do
  if ! command -v "$compiler" >/dev/null; then
    echo "headers: $compiler is not installed"
    exit 1
  fi
done
output=$(printf '%s\n' "${headers[@]}" |
  xargs -P "$jobs" -I '{}' bash -c 'compile "$2" "$1" "$2" "$2"' _ "${compilers[0]}" '{}') || failed=1
[[ -z $output ]] || printf '%s\n' "$output"
wrong=$(grep -c '^FAILED: ' <<<"$output" || true)
echo "headers: ${compilers[0]}: $((${#headers[@]} - wrong)) compile alone, $wrong do not"
mapfile -t backwards < <(printf '%s\n' "${headers[@]}" | tac)
for compiler in "${compilers[@]:1}"; do
  if compile "all headers" "$compiler" "${headers[@]}" &&
    compile "all headers backwards" "$compiler" "${backwards[@]}"; then
    echo "headers: $compiler: all ${#headers[@]} compile together"
  else
    failed=1
  fi
done
exit "$failed"
