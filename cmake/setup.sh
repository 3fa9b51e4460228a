# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Set-up shared by tests/run.sh, examples/demo.sh and .ci/run; to be sourced by bash with `set -euo pipefail`.
# It finds what is missing, and on Debian and Ubuntu installs it.

# What can be asked for, and the package that brings it.
declare -A setup_packages=(
  [compiler]=g++
  [cmake]=cmake
  [ninja]=ninja-build
  [eigen]=libeigen3-dev
  [catch2]=catch2
  [benchmark]=libbenchmark-dev
  [clang]=clang
  [clang-runtime]=libclang-rt-dev
  [clang-format]=clang-format-14
  [clang-tidy]=clang-tidy
  [python]=python3
  [pip]=python3-pip
  [mpi]=libopenmpi-dev
)

setup_say() { printf -- '-- %s\n' "$*" >&2; }

setup_die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

setup_has_command() { command -v "$1" >/dev/null 2>&1; }

# Whether a header is where compilers and CMake look for it.
setup_has_header() {
  local prefix
  for prefix in /usr /usr/local ${CMAKE_PREFIX_PATH:+${CMAKE_PREFIX_PATH//[:;]/ }}; do
    [[ -f $prefix/include/$1 ]] && return 0
  done
  return 1
}

setup_compiles_cxx20() {
  "${CXX:-c++}" -std=c++20 -fsyntax-only -x c++ - >/dev/null 2>&1 <<'CXX'
#include <bit>
#include <concepts>
#include <span>
template <std::integral T> constexpr T one = 1;
static_assert(std::popcount(one<unsigned>) == 1);
CXX
}

# Where the sanitizers of clang++ are a package of their own, clang only recommends it: ask once clang is there.
setup_links_sanitizers() {
  clang++ -fsanitize=address,undefined -x c++ - -o /dev/null >/dev/null 2>&1 <<<'int main() {}'
}

setup_cmake_is_recent() {
  local version
  setup_has_command cmake || return 1
  version=$(cmake --version | sed -n '1s/.* \([0-9]*\.[0-9]*\).*/\1/p')
  [[ $(printf '3.22\n%s\n' "$version" | sort -V | head -n 1) == 3.22 ]]
}

# The first Python that has pip. A machine may have one of its own before the system's.
setup_python_with_pip() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python"
      return 0
    fi
  done
  return 1
}

setup_has() {
  case $1 in
    compiler) setup_compiles_cxx20 ;;
    cmake) setup_cmake_is_recent ;;
    ninja) setup_has_command ninja ;;
    eigen) setup_has_header eigen3/Eigen/Core ;;
    catch2) setup_has_header catch2/catch.hpp || setup_has_header catch2/catch_all.hpp ;;
    benchmark) setup_has_header benchmark/benchmark.h ;;
    clang) setup_has_command clang++ ;;
    clang-runtime) setup_links_sanitizers ;;
    clang-format) setup_has_command clang-format-14 ;;
    clang-tidy) setup_has_command clang-tidy ;;
    python) setup_has_command python3 ;;
    pip) setup_python_with_pip >/dev/null ;;
    mpi) setup_has_command mpicxx && setup_has_command mpirun ;;
    *) setup_die "set-up: unknown requirement '$1'" ;;
  esac
}

# Prints those of the given requirements that this machine lacks, one a line.
setup_missing() {
  local name
  for name in "$@"; do
    setup_has "$name" || echo "$name"
  done
}

setup_install() {
  local as_root=() log
  if ((EUID != 0)); then
    setup_has_command sudo ||
      setup_die "no administrator rights and no sudo: run 'apt-get install $*' as root"
    as_root=(sudo)
    # Without a terminal nobody could answer a question for the password.
    [[ -t 0 ]] || as_root+=(-n)
    setup_say "using sudo to install packages"
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600)
  log=$(mktemp)
  # One unreachable source of many makes `update` fail; what counts is whether the packages can be had.
  "${as_root[@]}" update >"$log" 2>&1 || setup_say "apt-get update failed, trying with the lists that are here"
  if ! "${as_root[@]}" install --no-install-recommends "$@" >>"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    setup_die "apt-get could not install: $*"
  fi
  rm -f "$log"
}

# setup_ensure [--check] REQUIREMENT...
#
# Installs what is missing, says so, and stops the script if that cannot be done. With --check it only reports, and
# returns 1 if something is missing.
setup_ensure() {
  local check=no missing packages name
  if [[ $1 == --check ]]; then
    check=yes
    shift
  fi
  mapfile -t missing < <(setup_missing "$@")
  if ((${#missing[@]} == 0)); then
    setup_say "set-up: everything needed is here ($*)"
    return 0
  fi
  packages=()
  for name in "${missing[@]}"; do
    packages+=("${setup_packages[$name]}")
  done
  if [[ $check == yes ]]; then
    setup_say "set-up: missing: ${missing[*]} (Debian and Ubuntu packages: ${packages[*]})"
    return 1
  fi
  setup_has_command apt-get ||
    setup_die "missing: ${missing[*]}; only apt-get (Debian, Ubuntu) is known here, please install them yourself"
  setup_say "set-up: installing ${packages[*]}"
  setup_install "${packages[@]}"
  hash -r
  mapfile -t missing < <(setup_missing "$@")
  ((${#missing[@]} == 0)) ||
    setup_die "still missing or too old after installing: ${missing[*]} (needed: C++20 as of g++ 11, CMake 3.22)"
}

# As many jobs as cores, but no more than memory allows: a translation unit with Eigen can take 1.5 GB.
setup_jobs() {
  local cores memory=''
  cores=$(nproc)
  [[ -r /proc/meminfo ]] && memory=$(awk '/^MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
  if [[ -n $memory ]] && ((memory < cores)); then
    echo $((memory > 1 ? memory : 1))
  else
    echo "$cores"
  fi
}

# setup_value OPTION ARGUMENT...: the value of an option, which must be there.
setup_value() {
  (($# >= 2)) || setup_die "$1 needs a value"
  printf '%s\n' "$2"
}
