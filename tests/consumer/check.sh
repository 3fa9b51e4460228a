#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds and runs a small outside project in each of the ways the README names: find_package on an installed package
# (moved after the install, so nothing may remember where it was built), add_subdirectory, and a copy of the folder.
# With a CUDA toolkit the installed package also makes a program for the GPU, which without one says so.
#
#     tests/consumer/check.sh [BUILD_DIR]      default: build/consumer; emptied first
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath -m "${1:-$root/build/consumer}")
rm -rf "$build"
mkdir -p "$build"
here=$root/tests/consumer

# quietly NAME COMMAND...: what the command prints is shown only if it fails.
quietly() {
  local log=$build/$1.log
  shift
  "$@" >"$log" 2>&1 || { cat "$log"; return 1; }
}

build() {
  local name=$1
  shift
  quietly "$name" cmake -S "$here" -B "$build/$name" -G Ninja -DCMAKE_BUILD_TYPE=Debug "$@"
  quietly "$name" cmake --build "$build/$name"
}

cuda=()
if toolkit=$("$root/cmake/cuda_toolkit.sh" --check); then
  # The program computes next to nothing, so nothing is optimised.
  cuda=(-DWITH_CUDA=ON -DCMAKE_CUDA_COMPILER="$toolkit/bin/nvcc" -DCUDAToolkit_ROOT="$toolkit"
    -DCMAKE_CUDA_ARCHITECTURES=80 -DCMAKE_CUDA_FLAGS="-Werror all-warnings -Xcicc -O0 -Xptxas -O0")
else
  echo "SKIPPED: consumer: no CUDA toolkit for the program that uses it"
fi

quietly package cmake -S "$root" -B "$build/package" -G Ninja -DKVEVICT_BUILD_TESTS=OFF -DKVEVICT_BUILD_EXAMPLES=OFF \
  -DKVEVICT_BUILD_BENCH=OFF -DCMAKE_INSTALL_PREFIX="$build/staged"
quietly package cmake --install "$build/package"
mv "$build/staged" "$build/installed"
list_headers() { (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum); }
if ! diff <(list_headers "$root/include") <(list_headers "$build/installed/include"); then
  echo "the installed headers differ from the sources"
  exit 1
fi
mkdir "$build/copied"
cp -r "$root/include/kvevict" "$build/copied/"

# All at once: each is two large files in the compiler.
build find_package -DCMAKE_PREFIX_PATH="$build/installed" "${cuda[@]}" &
builds=($!)
build add_subdirectory -DKVEVICT_SOURCE_DIR="$root" &
builds+=($!)
quietly copied "${CXX:-c++}" -std=c++20 -O1 -I "$build/copied" -isystem /usr/include/eigen3 -pthread \
  "$here/main.cpp" "$here/elsewhere.cpp" -o "$build/copied/consumer" &
builds+=($!)
for job in "${builds[@]}"; do wait "$job"; done

for way in find_package add_subdirectory copied; do
  printf '%s: ' "$way"
  "$build/$way/consumer"
done
if ((${#cuda[@]})); then
  printf 'find_package, CUDA: '
  LD_LIBRARY_PATH="$toolkit/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$build/find_package/consumer_cuda"
fi
echo "consumer: 3 ways work"
