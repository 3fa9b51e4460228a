#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the layout of all C++ files under version control. `--fix` rewrites them instead.
# Versions of clang-format differ in what they make of one configuration: 14 decides, and without it the check is
# skipped (exit code 77).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
    tool=$candidate
    break
  fi
done
if [[ -z $tool ]]; then
  echo "SKIPPED: format: clang-format 14 is not installed"
  exit 77
fi

mapfile -d '' -t files < <(git ls-files -z -- '*.hpp' '*.cpp' '*.cuh' '*.cu')
if ((${#files[@]} == 0)); then
  echo "format: no C++ files under version control"
  exit 1
fi
case ${1-} in
  --fix) "$tool" -i "${files[@]}" ;;
  '') "$tool" --dry-run -Werror "${files[@]}" ;;
  *)
    echo "usage: check_format.sh [--fix]" >&2
    exit 2
    ;;
esac
echo "format: ${#files[@]} files"
