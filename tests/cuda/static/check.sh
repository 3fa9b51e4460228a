#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What compilers can say of the CUDA part without a GPU. Needs a CUDA toolkit: KVEVICT_CUDA_ROOT, or what
# cmake/cuda_toolkit.sh finds.
#
#     tests/cuda/static/check.sh [--jobs N] [--build-dir DIR] [PART...]      default: all parts
#
# seeds      the checks themselves: defects seeded on purpose must be found
# headers    every .cuh on its own, as device code by nvcc and as C++ under the source emulator; warnings are errors
# kernels    every kernel of every policy and element type (instances.cu) for all architectures; warnings, registers that
#            spill among them, are errors; prints registers and shared memory of each
# clang      the same by clang++ as a second front end (it cannot make objects with this toolkit)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

# Library code does not ask for the architecture, so that one translation to PTX serves several: most of the time goes
# there. Registers, and whether they suffice, are decided behind it, for each architecture.
declare -A architectures=([75]="75 80 86" [90]="90 100 120")
# The one for front ends and for the code for the host.
common=75

jobs=$(setup_jobs)
build=$root/build/cuda-static
parts=()
while (($#)); do
  case $1 in
    --jobs) jobs=$(setup_value "$@"); shift ;;
    --build-dir) build=$(setup_value "$@"); shift ;;
    seeds | headers | kernels | clang) parts+=("$1") ;;
    *) sed -n '4,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
  shift
done
((${#parts[@]})) || parts=(seeds headers kernels clang)
build=$(realpath -m "$build")
mkdir -p "$build"
here=$root/tests/cuda/static
toolkit=$("$root/cmake/cuda_toolkit.sh" --check)
toolkit_headers=$(dirname "$(compgen -G "$toolkit/include/cuda_runtime.h" ||
  compgen -G "$toolkit/targets/*/include/cuda_runtime.h")")
# shellcheck source=tests/cuda/static/compilers.sh
source "$here/compilers.sh"
export root here build toolkit toolkit_headers common
while read -r _ _ name; do export -f "${name?}"; done < <(declare -F)
# What clang asks for and the toolkit no longer has.
mkdir -p "$build/gone"
touch "$build/gone/texture_fetch_functions.h"

# run_tasks WHAT: runs the lines of the standard input, each "NAME FUNCTION [ARGUMENT...]" with a function of
# compilers.sh, and counts.
run_tasks() {
  local what=$1 start=$SECONDS tasks=$build/$1.tasks count passed
  cat >"$tasks"
  rm -rf "${build:?}/$what"
  mkdir "$build/$what"
  # shellcheck disable=SC2016
  xargs -P "$jobs" -d '\n' -I '{}' bash -c 'run_task "$1" $2' _ "$what" '{}' <"$tasks"
  count=$(wc -l <"$tasks")
  passed=$(find "$build/$what" -name '*.passed' | wc -l)
  printf '%s: %d passed, %d failed, %d s\n' "$what" "$passed" "$((count - passed))" "$((SECONDS - start))"
  ((passed == count && count > 0))
}

seeds() {
  echo 'spill seed SPILL nvcc FAILED.*spills'
  echo 'unused seed UNUSED nvcc never'
  echo 'shared seed PLAIN_SHARED emulation KVEVICT_SHARED_is_the_way'
  ! setup_has_command clang++ || echo 'shadow seed SHADOW clang shadow'
}

code=0
for part in "${parts[@]}"; do
  case $part in
    seeds) seeds | run_tasks seeds || code=1 ;;
    headers)
      (cd "$root/include" && find kvevict -name '*.cuh') | LC_ALL=C sort | while read -r header; do
        echo "${header//\//_}_nvcc header_by_nvcc $header"
        echo "${header//\//_}_emulated header_by_emulation $header"
      done | run_tasks headers || code=1
      ;;
    kernels)
      for virtual in "${!architectures[@]}"; do
        echo "from_compute_$virtual kernels_for $virtual ${architectures[$virtual]}"
      done | run_tasks kernels || code=1
      "$here/kernel_table.py" "$build"/kernels/*.log || code=1
      ;;
    clang)
      if ! setup_has_command clang++; then
        echo "SKIPPED: cuda-static: clang++ is not installed, nvcc is the only front end"
        continue
      fi
      echo 'instances second_front_end' | run_tasks clang || code=1
      ;;
  esac
done
exit "$code"
