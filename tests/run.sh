#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

usage() {
  cat <<'HELP'
usage: tests/run.sh [options] [-- ctest options]

Installs what is missing (Debian, Ubuntu), builds the library's tests and the examples that they run, and runs them.

  --check          only report what is missing; exit code 1 if anything is
  --build-dir DIR  build folder (default: build/release, with --sanitize build/asan)
  --jobs N         parallel jobs (default: as many as cores and memory allow)
  --sanitize       build with address and undefined-behaviour sanitizers and with assertions; without the CUDA part,
                   whose tests do that by themselves
  --no-cuda        leave out the CUDA part
  --only-cuda      only the CUDA part
  --werror         treat warnings as errors
  --help           this text

The CUDA part needs a CUDA toolkit, but no GPU. One that the machine does not have is downloaded (0.9 GB, Python
packages, to build/cuda); where that is not possible the CUDA part is skipped.
HELP
}

check=()
preset=release
build=
jobs=
werror=OFF
cuda=yes
while (($#)); do
  case $1 in
    --check) check=(--check) ;;
    --build-dir) build=$(setup_value "$@"); shift ;;
    --jobs) jobs=$(setup_value "$@"); shift ;;
    --sanitize) preset=asan && cuda=no ;;
    --no-cuda) cuda=no ;;
    --only-cuda) cuda=only ;;
    --werror) werror=ON ;;
    --help) usage && exit 0 ;;
    --) shift && break ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done
build=$(realpath -m "${build:-$root/build/$preset}")
jobs=${jobs:-$(setup_jobs)}

setup_ensure "${check[@]}" compiler cmake ninja eigen catch2
if [[ $preset == asan ]]; then
  setup_ensure "${check[@]}" clang
  setup_ensure "${check[@]}" clang-runtime
fi
skipped=
options=(-DKVEVICT_WERROR="$werror" -DKVEVICT_CUDA_TESTS=OFF -DKVEVICT_GPU=OFF)
if [[ $cuda != no ]]; then
  code=0
  toolkit=$("$root/cmake/cuda_toolkit.sh" "${check[@]}") || code=$?
  if ((code == 0)); then
    setup_say "CUDA toolkit: $toolkit"
    options+=(-DKVEVICT_CUDA_TESTS=ON -DKVEVICT_CUDA_ROOT="$toolkit")
  elif [[ $cuda == only || $code == 2 ]]; then
    exit "$code"
  else
    skipped="the CUDA part is skipped: there is no CUDA toolkit"
    setup_say "$skipped"
  fi
fi
[[ ${#check[@]} == 0 ]] || exit 0

# What tests run: the demo and the evaluation on a model have scripts of their own.
targets=(--target tests/all tested_examples)
selected=(--label-exclude smoke)
if [[ $cuda == only ]]; then
  targets=(--target tests/cuda/all)
  selected=(--label-regex '^cuda$')
fi
setup_say "configuring in $build"
cmake -S "$root" --preset "$preset" -B "$build" "${options[@]}" --log-level=WARNING >/dev/null
setup_say "building with $jobs jobs"
cmake --build "$build" --parallel "$jobs" "${targets[@]}"
setup_say "testing"
rm -f "$build/test-results.xml"
ctest --test-dir "$build" --parallel "$jobs" --output-on-failure --no-tests=error "${selected[@]}" \
  --output-junit "$build/test-results.xml" "$@"
[[ -z $skipped ]] || setup_say "$skipped"
