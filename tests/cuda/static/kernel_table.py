#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what ptxas says of each kernel: registers by architecture, static shared memory and stack in bytes, and which
of them spill registers; exit code 1 if any does.

    kernel_table.py LOG...      LOG: output of nvcc with -Xptxas -v
"""
import collections
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def read(paths):
    """kernel -> architecture -> (registers, shared, stack, spilled)."""
    kernels = collections.defaultdict(dict)
    for path in paths:
        entry, stack, spilled = None, 0, 0
        for line in pathlib.Path(path).read_text().splitlines():
            if match := ENTRY.search(line):
                entry = match.groups()
            elif match := STACK.search(line):
                stack, stores, loads = map(int, match.groups())
                spilled = stores + loads
            elif (match := USED.search(line)) and entry:
                shared = SHARED.search(line)
                kernels[entry[0]][int(entry[1])] = (
                    int(match.group(1)), int(shared.group(1)) if shared else 0, stack, spilled)
                entry, stack, spilled = None, 0, 0
    return kernels


def readable(names):
    """Mangled names -> those of the source, without parameters and what all have in common."""
    names = list(names)
    demangled = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True)
    short = {}
    for name, text in zip(names, demangled.stdout.splitlines()):
        text = re.sub(r"\((?:anonymous namespace|[\w:]+)\)(?=\d|::)", "", text)
        for common in ("kvevict::cuda::detail::", "kvevict::cuda::kernels::", "kvevict::cuda::", "kvevict::"):
            text = text.replace(common, "")
        short[name] = re.sub(r"^(?:void|static) ", "", text)
    return short


def main():
    kernels = read(sys.argv[1:])
    if not kernels:
        print("kernels: ptxas named none")
        return 1
    names = readable(kernels)
    architectures = sorted({architecture for by in kernels.values() for architecture in by})
    width = min(72, max(len(name) for name in names.values()))
    print(f"{'registers on sm_':<{width}}", *(f"{architecture:>4}" for architecture in architectures), " shared  stack")
    most = 0
    for kernel, name in sorted(names.items(), key=lambda item: item[1]):
        by = kernels[kernel]
        registers = [f"{by[architecture][0]:>4}" if architecture in by else "   -" for architecture in architectures]
        most = max([most] + [used[0] for used in by.values()])
        shared, stack = (max(used[column] for used in by.values()) for column in (1, 2))
        print(f"{name[:width]:<{width}}", *registers, f"{shared:>7} {stack:>6}")
    spills = 0
    for kernel, name in sorted(names.items(), key=lambda item: item[1]):
        for architecture, (_, _, _, spilled) in sorted(kernels[kernel].items()):
            if spilled:
                print(f"FAILED: {name} spills {spilled} bytes on sm_{architecture}")
                spills += 1
    print(f"kernels: {len(kernels)}, at most {most} registers, on {len(architectures)} architectures, {spills} spills")
    return 1 if spills else 0


if __name__ == "__main__":
    sys.exit(main())
