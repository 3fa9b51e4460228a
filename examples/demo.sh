#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

usage() {
  cat <<'HELP'
usage: examples/demo.sh [options] [options of kvevict_demo]

Installs what is missing (Debian, Ubuntu), fetches a small language model, builds the demo and runs it. Whatever is not
listed here is handed to kvevict_demo.

  --check          only report what is missing; exit code 1 if anything is
  --build-dir DIR  build folder (default: build/demo)
  --jobs N         parallel jobs of the build (default: as many as cores and memory allow)
  --help           this text, and that of kvevict_demo once it is built

With --model FILE nothing is downloaded. Exit code 69 if the download was not possible.
HELP
}

check=()
build=$root/build/demo
jobs=
help=no
own_model=no
arguments=()
while (($#)); do
  case $1 in
    --check) check=(--check) ;;
    --build-dir) build=$(setup_value "$@"); shift ;;
    --jobs) jobs=$(setup_value "$@"); shift ;;
    --help) help=yes ;;
    --model | --model=*) own_model=yes && arguments+=("$1") ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
build=$(realpath -m "$build")

if [[ $help == yes ]]; then
  usage
  [[ ! -x $build/examples/kvevict_demo ]] || { echo && "$build/examples/kvevict_demo" --help; }
  exit 0
fi

complete=yes
setup_ensure "${check[@]}" compiler cmake ninja eigen || complete=no
if [[ $own_model == no ]]; then
  if [[ ${#check[@]} == 0 ]]; then
    model=$("$root/examples/fetch_model.sh")
    arguments=(--model "$model" "${arguments[@]}")
  elif ! "$root/examples/fetch_model.sh" --check >/dev/null; then
    complete=no
    setup_ensure --check python pip || true
  fi
fi
if [[ ${#check[@]} != 0 ]]; then
  [[ $complete == yes ]]
  exit
fi

setup_say "building the demo in $build"
cmake -S "$root" --preset demo -B "$build" --log-level=WARNING >/dev/null
cmake --build "$build" --target kvevict_demo --parallel "${jobs:-$(setup_jobs)}"
exec "$build/examples/kvevict_demo" "${arguments[@]}"
