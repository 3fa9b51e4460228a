# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# The compiler runs of check.sh, which sources this and exports root, here, build, toolkit, toolkit_headers and common.
# Functions for tasks get the path that their results are named after as the last argument.

# run_task WHAT NAME FUNCTION [ARGUMENT...]: leaves NAME.passed, or prints what went wrong.
run_task() {
  local at=$build/$1/$2
  if "${@:3}" "$at" >"$at.log" 2>&1; then
    touch "$at.passed"
  else
    printf 'FAILED: %s: %s\n' "$1" "$2"
    head -n 60 "$at.log"
  fi
}

by_nvcc() { "$toolkit/bin/nvcc" -std=c++20 -Werror all-warnings -I "$root/include" "$@"; }

by_emulation() {
  "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
    -isystem "$toolkit_headers" -include "$root/tests/cuda/emu/emulator.hpp" -I "$root/include" -x c++ "$@"
}

# clang knows no toolkit as new as this one: it warns of that, and includes a header that is gone. The integer functions
# of its own headers take and return int, hence no warnings of signs.
by_clang() {
  clang++ -x cuda --cuda-path="$toolkit" --cuda-gpu-arch="sm_$common" -std=c++20 -fsyntax-only -Wall -Wextra \
    -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -Wno-unknown-cuda-version \
    -D__CLANG_CUDA_TEXTURE_INTRINSICS_H__ -I "$build/gone" -I "$root/include" "$@"
}

# Twice, since no header may mind that.
alone() { printf '#include "%s"\n#include "%s"\n' "$1" "$1"; }

header_by_nvcc() {
  alone "$1" >"$2.cu"
  by_nvcc -arch="sm_$common" -ptx -o "$2.ptx" "$2.cu"
}
header_by_emulation() { alone "$1" | by_emulation -; }

# kernels_for VIRTUAL REAL...: device code for the real architectures by way of the PTX of the virtual one. One of those
# stands for what nvcc says of the code for the host.
kernels_for() {
  local virtual=$1 at=${*: -1} options=(-Xptxas -v) real
  for real in "${@:2:$#-2}"; do options+=(-gencode "arch=compute_$virtual,code=sm_$real"); done
  if [[ $virtual == "$common" ]]; then
    by_nvcc "${options[@]}" -c -o "$at.o" "$here/instances.cu"
  else
    by_nvcc "${options[@]}" -fatbin -o "$at.fatbin" "$here/instances.cu"
  fi
}

second_front_end() { by_clang "$here/instances.cu"; }

# seed DEFECT COMPILER EXPECTED: passes if the defect is refused with the expected words.
seed() {
  local output=
  case $2 in
    nvcc)
      by_nvcc -arch="sm_$common" -Xptxas -v -cubin -o "$4.cubin" -DKVEVICT_SEED_"$1" "$here/seeds.cu" &>"$4.nvcc" &&
        output=$("$here/kernel_table.py" "$4.nvcc") && return 1
      output+=$(<"$4.nvcc")
      ;;
    emulation) output=$(by_emulation -DKVEVICT_SEED_"$1" "$here/seeds.cu" 2>&1) && return 1 ;;
    clang) output=$(by_clang -DKVEVICT_SEED_"$1" "$here/seeds.cu" 2>&1) && return 1 ;;
  esac
  printf '%s\n' "$output"
  grep -q -e "$3" <<<"$output"
}
