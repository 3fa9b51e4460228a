#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles every public .hpp on its own, with warnings as errors, and twice in a row in one translation unit.
#
#     tests/headers/check.sh [--jobs N] [COMPILER...]      default: g++ clang++
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

compile_alone() {
  local compiler=$1 header=$2 output
  if ! output=$(printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
    "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
      -I "$root/include" -isystem "${EIGEN_INCLUDE:-/usr/include/eigen3}" -x c++ - 2>&1); then
    printf 'FAILED: %s with %s\n%s\n' "$header" "$compiler" "$output"
    return 1
  fi
}
export -f compile_alone
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
    failed=1
    continue
  fi
  output=$(printf '%s\n' "${headers[@]}" |
    xargs -P "$jobs" -I '{}' bash -c 'compile_alone "$1" "$2"' _ "$compiler" '{}') || failed=1
  [[ -z $output ]] || printf '%s\n' "$output"
  wrong=$(grep -c '^FAILED: ' <<<"$output" || true)
  echo "headers: $compiler: $((${#headers[@]} - wrong)) compile alone, $wrong do not"
done
exit "$failed"
