#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

usage() {
  cat <<'HELP'
usage: cmake/cuda_toolkit.sh [--check] [--fetch] [DIR]

Prints the folder of a CUDA toolkit with a compiler of release 12.8 or later and the headers of cuBLAS and cuSOLVER. It
looks in $KVEVICT_CUDA_ROOT, at $CUDACXX, nvcc on the PATH, $CUDA_HOME and /usr/local/cuda; without one there it puts
the Python packages of CUDA 13.0 into DIR (default: build/cuda; 0.9 GB to download, 1.4 GB on disk).

  --check   download nothing: exit code 1 if there is no toolkit
  --fetch   do not look at what the machine has

Exit code 69 if the packages could not be downloaded, 2 if $KVEVICT_CUDA_ROOT is set to something else.
HELP
}

# Together a toolkit: the compiler with its back ends, the run-time library, and what the backend links.
packages=(
  nvidia-cuda-nvcc==13.0.88
  nvidia-cuda-crt==13.0.88
  nvidia-nvvm==13.0.88
  nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85
  nvidia-cublas==13.1.0.3
  nvidia-cusolver==12.0.4.66
  nvidia-cusparse==12.6.3.3
  nvidia-nvjitlink==13.0.88
)
# The first release that knows all architectures which the library is checked for.
oldest=12.8
headers=(cuda_runtime.h cuda_fp16.h cuda_bf16.h cublas_v2.h cusolverDn.h)

check=no
look=yes
folder=$root/build/cuda
while (($#)); do
  case $1 in
    --check) check=yes ;;
    --fetch) look=no ;;
    --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) folder=$1 ;;
  esac
  shift
done
folder=$(realpath -m "$folder")

# Prints what a folder lacks to be a toolkit, nothing if it is one.
lacks() {
  local top=$1 header release
  [[ -x $top/bin/nvcc ]] || { echo "no bin/nvcc" && return; }
  release=$("$top/bin/nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
  if [[ $(printf '%s\n%s\n' "$oldest" "$release" | sort -V | head -n 1) != "$oldest" ]]; then
    echo "nvcc is of release ${release:-unknown}, $oldest is needed"
    return
  fi
  for header in "${headers[@]}"; do
    compgen -G "$top/include/$header" >/dev/null || compgen -G "$top/targets/*/include/$header" >/dev/null ||
      { echo "no $header" && return; }
  done
}

# The folder of a toolkit, given its compiler; empty if that is not there.
top_of() {
  local compiler
  compiler=$(command -v "$1" 2>/dev/null) || return 0
  dirname "$(dirname "$(realpath "$compiler")")"
}

if [[ $look == yes ]]; then
  if [[ -n ${KVEVICT_CUDA_ROOT:-} ]]; then
    lack=$(lacks "$KVEVICT_CUDA_ROOT")
    if [[ -n $lack ]]; then
      setup_say "cuda: KVEVICT_CUDA_ROOT=$KVEVICT_CUDA_ROOT is no CUDA toolkit: $lack"
      exit 2
    fi
    realpath "$KVEVICT_CUDA_ROOT"
    exit 0
  fi
  seen=:
  for top in "$(top_of "${CUDACXX:-nvcc}")" "$(top_of nvcc)" "${CUDA_HOME:-}" /usr/local/cuda; do
    [[ -d $top ]] || continue
    top=$(realpath "$top")
    [[ $seen != *:$top:* ]] || continue
    seen+=$top:
    lack=$(lacks "$top")
    if [[ -z $lack ]]; then
      echo "$top"
      exit 0
    fi
    setup_say "cuda: $top is not used: $lack"
  done
fi

top=$folder/nvidia/cu13
if [[ -f $folder/complete && $(<"$folder/complete") == "${packages[*]}" ]]; then
  echo "$top"
  exit 0
fi
if [[ $check == yes ]]; then
  setup_say "cuda: no toolkit on this machine (Python packages: ${packages[*]})"
  exit 1
fi

setup_ensure python pip >&2
python=$(setup_python_with_pip)
mkdir -p "$(dirname "$folder")"
# Everything happens in a folder of its own; only what works leaves it.
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
setup_say "cuda: no toolkit on this machine, downloading ${packages[*]} (0.9 GB)"
if ! PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --no-deps --only-binary=:all: --no-cache-dir \
  --no-compile --target "$work" "${packages[@]}" >&2; then
  setup_say "cuda: could not download the toolkit; is the Python package index reachable?"
  exit 69
fi
# Linkers look for names without a version, and both of them and CMake for lib64.
for library in "$work"/nvidia/cu13/lib/*.so.*; do
  ln -s "$(basename "$library")" "${library%.so.*}.so"
done
ln -s lib "$work/nvidia/cu13/lib64"
lack=$(lacks "$work/nvidia/cu13")
[[ -z $lack ]] || setup_die "cuda: the packages are no toolkit: $lack"
printf '#include <%s>\n' "${headers[@]}" | "$work/nvidia/cu13/bin/nvcc" -std=c++20 -x cu -c -o "$work/trial.o" - ||
  setup_die "cuda: the downloaded compiler does not work with this machine's C++ compiler"
rm "$work/trial.o"
printf '%s\n' "${packages[*]}" >"$work/complete"
rm -rf "$folder"
chmod 755 "$work"
mv "$work" "$folder"
setup_say "cuda: toolkit of $("$top/bin/nvcc" --version | sed -n 's/.*\(release [0-9.]*\).*/\1/p') in $top"
echo "$top"
