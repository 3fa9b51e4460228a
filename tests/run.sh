#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

usage() {
  cat <<'HELP'
usage: tests/run.sh [options] [-- ctest options]

Installs what is missing (Debian, Ubuntu), builds the library's tests and examples, and runs the tests.

  --check          only report what is missing; exit code 1 if anything is
  --build-dir DIR  build folder (default: build/release, with --sanitize build/asan)
  --jobs N         parallel jobs (default: as many as cores and memory allow)
  --sanitize       build with address and undefined-behaviour sanitizers and with assertions
  --werror         treat warnings as errors
  --help           this text
HELP
}

check=()
preset=release
build=
jobs=
werror=OFF
while (($#)); do
  case $1 in
    --check) check=(--check) ;;
    --build-dir) build=$(setup_value "$@"); shift ;;
    --jobs) jobs=$(setup_value "$@"); shift ;;
    --sanitize) preset=asan ;;
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
[[ ${#check[@]} == 0 ]] || exit 0

setup_say "configuring in $build"
cmake -S "$root" --preset "$preset" -B "$build" -DKVEVICT_WERROR="$werror" --log-level=WARNING >/dev/null
setup_say "building with $jobs jobs"
cmake --build "$build" --parallel "$jobs"
setup_say "testing"
rm -f "$build/test-results.xml"
ctest --test-dir "$build" --parallel "$jobs" --output-on-failure --no-tests=error --label-exclude smoke \
  --output-junit "$build/test-results.xml" "$@"
