#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
#     mpi_budget.sh PROGRAM
#
# Runs the example with one, two, three and four processes. Exit code 77, with the reason, where MPI is missing.
set -euo pipefail
if [[ -z ${1-} ]]; then
  echo "SKIPPED: mpi_budget: built without MPI"
  exit 77
fi
if ! command -v mpirun >/dev/null; then
  echo "SKIPPED: mpi_budget: there is no mpirun"
  exit 77
fi
options=()
# Open MPI wants to be told that processes may share a core, and that root may do this.
if mpirun --version | grep -q 'Open MPI'; then
  options=(--oversubscribe)
  [[ $(id -u) == 0 ]] && options+=(--allow-run-as-root)
fi
for processes in 1 2 3 4; do
  echo "$processes processes:"
  mpirun "${options[@]}" -n "$processes" "$1"
done
