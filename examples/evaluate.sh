#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

usage() {
  cat <<'HELP'
usage: examples/evaluate.sh [options] [options of kvevict_evaluate]

Installs what is missing (Debian, Ubuntu), fetches a small language model, collects the texts, builds kvevict_evaluate
and runs it over the list of contexts that comes with it. Whatever is not listed here is handed to kvevict_evaluate.

  --small          instead: two short contexts that need no download but the model, and a check of the order of policies
                   that is certain (exit code 3 if it is not found)
  --build-dir DIR  build folder (default: build/demo)
  --jobs N         parallel jobs of the build (default: as many as cores and memory allow)
  --help           this text, and that of kvevict_evaluate once it is built

Results go to build/evaluate unless --out says otherwise. Exit code 69 if the model could not be downloaded.
HELP
}

build=$root/build/demo
jobs=
help=no
small=no
arguments=()
while (($#)); do
  case $1 in
    --build-dir) build=$(setup_value "$@"); shift ;;
    --jobs) jobs=$(setup_value "$@"); shift ;;
    --small) small=yes ;;
    --help) help=yes ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
build=$(realpath -m "$build")
program=$build/examples/kvevict_evaluate

if [[ $help == yes ]]; then
  usage
  [[ ! -x $program ]] || { echo && "$program" --help; }
  exit 0
fi

setup_ensure compiler cmake ninja eigen
model=$("$root/examples/fetch_model.sh")
lists=$root/examples/kvevict_evaluate
if [[ $small == yes ]]; then
  # Nothing of an earlier run: what is built is to be checked.
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
  given=(--texts "$root/examples/data" --list "$lists/small.list" --out "$out" --gate --evict-ratio 0.5,0.75
    --policies SnapKV,ProbeAttention,Jacap,KNorm --budget uniform --refit none,values)
else
  texts=$("$root/examples/evaluate_texts.sh")
  given=(--texts "$texts" --list "$lists/contexts.list" --out "$root/build/evaluate")
fi
setup_say "building kvevict_evaluate in $build"
cmake -S "$root" --preset demo -B "$build" --log-level=WARNING >/dev/null
cmake --build "$build" --target kvevict_evaluate --parallel "${jobs:-$(setup_jobs)}"
"$program" --model "$model" "${given[@]}" "${arguments[@]}"
