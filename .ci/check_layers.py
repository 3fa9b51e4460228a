#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the structure of include/kvevict: who may include whom, macros, the size of headers, and what device code
may not use.

    check_layers.py [--root DIR]     checks DIR/include/kvevict; exit code 1 if anything is wrong
    check_layers.py --self-test      seeds one violation of each rule and expects it to be found
"""

import argparse
import pathlib
import re
import statistics
import sys
import tempfile

MAX_LINES = 400

# A folder may include itself and what stands here. Policies and backends do not know each other: a policy calls ops,
# and argument-dependent lookup finds the backend when the caller instantiates it.
BASE = {"core", "math", "ops"}
MAY_INCLUDE = {
    "core": set(),
    "math": {"core"},
    "ops": {"core", "math"},
    "cpu": BASE,
    "cuda": BASE,
    "policies": BASE,
    "decorators": BASE | {"policies"},
    "allocators": BASE,
    "top": BASE | {"policies", "decorators", "allocators"},
}
# Umbrellas only include; they alone may name a backend.
UMBRELLAS = {"kvevict.hpp": {"cpu"}, "cuda.cuh": {"cuda"}}
# One place settles how Eigen is configured.
EIGEN_HOME = "cpu/eigen.hpp"
# What differs between compilers is settled here and nowhere else.
MACRO_HOMES = {"core/config.hpp", "cuda/compat.cuh"}
# Numerical code and what is built on it has one path for all compilers and backends. Device code too: what only one
# compiler sees, the emulators do not execute.
NO_CONDITIONALS = {"math", "ops", "policies", "decorators", "allocators", "cuda"}
# What .cuh files may not say: (rule, pattern, headers where it is right, what to do instead).
DEVICE_RULES = [
    ("launch", r"<<<|\bcudaLaunch\w*\s*\(", {"cuda/compat.cuh"}, "kernels are launched by launch(res, ...)"),
    ("launch", r"\blaunch_kernel\s*\(", {"cuda/compat.cuh", "cuda/launch.cuh", "cuda/upload.cuh"},
     "kernels are launched by launch(res, ...)"),
    ("shared", r"\b__shared__\b", {"cuda/compat.cuh"}, "shared memory is declared by KVEVICT_SHARED or carved"),
    ("memory", r"\bcuda(Malloc|Free|HostAlloc|HostRegister)\w*\s*\(", {"cuda/memory.cuh"},
     "device memory comes from the workspace or a DeviceArray"),
    ("wait", r"\bcuda(Device|Stream|Event)Synchronize\s*\(|\bcuda(Memcpy|Memset)(2D|3D)?\s*\(",
     {"cuda/resources.cuh", "cuda/selection.cuh"}, "only Resources::wait waits"),
    ("device", r"\b__constant__\b|\b__activemask\b|\basm\b|\bprintf\s*\(|\bcooperative_groups\b|<cub/", set(),
     "this cannot be executed without a GPU"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
DIRECTIVE = re.compile(r"^\s*#\s*(\w+)\s*(\w*)")
COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\[^\']+|[^\'\\\n])\'', re.S)


def without_comments(text):
    """The text with comments blanked; line numbers stay, and so do strings, which includes need."""
    def blank(match):
        found = match.group(0)
        return found if found[0] not in "/" else re.sub(r"[^\n]", " ", found)
    return COMMENT_OR_STRING.sub(blank, text)


class Header:
    def __init__(self, path, name):
        self.name = name
        self.layer = name.split("/")[0] if "/" in name else "top"
        text = path.read_text(encoding="utf-8")
        self.line_count = len(text.splitlines())
        self.lines = without_comments(text).splitlines()
        self.includes = []  # (line number, delimiter and what follows, name under include/kvevict or None)
        for number, line in enumerate(self.lines, 1):
            match = INCLUDE.match(line)
            if match:
                delimiter, written = match.groups()
                own = written.startswith("kvevict/")
                target = written[len("kvevict/"):] if own else None
                self.includes.append((number, delimiter + written, target))


def check_includes(header, headers, report):
    allowed = MAY_INCLUDE.get(header.layer)
    if allowed is None:
        report(header, 1, "folder", f"'{header.layer}' is no folder of the layer order")
        return
    allowed = allowed | {header.layer} | UMBRELLAS.get(header.name, set())
    for number, written, target in header.includes:
        if re.match(r'[<"](unsupported/|eigen3/)?Eigen/', written):
            if header.name != EIGEN_HOME:
                report(header, number, "eigen", f"only {EIGEN_HOME} includes Eigen")
        elif target is None:
            if written.startswith('"'):
                report(header, number, "spelling", f'{written}" should be spelled "kvevict/..."')
        elif target not in headers:
            report(header, number, "missing", f"there is no {target}")
        else:
            layer = headers[target].layer
            if layer not in allowed:
                report(header, number, "layer", f"{header.layer} must not include {layer} ({target})")
            if header.name.endswith(".hpp") and target.endswith(".cuh"):
                report(header, number, "ending", f"a .hpp is for host compilers, {target} is not")
    if header.name not in UMBRELLAS and header.name.endswith(".cuh") != (header.layer == "cuda"):
        report(header, 1, "ending", "what lies in cuda/, and nothing else, ends in .cuh")


def check_macros(header, report):
    for number, line in enumerate(header.lines, 1):
        match = DIRECTIVE.match(line)
        if not match:
            continue
        directive, word = match.groups()
        if directive in ("define", "undef"):
            if header.name not in MACRO_HOMES:
                report(header, number, "macro", f"macros belong in {' or '.join(sorted(MACRO_HOMES))}")
            elif not word.startswith("KVEVICT_"):
                report(header, number, "macro", f"'{word}' does not start with KVEVICT_")
        elif (directive in ("if", "ifdef", "ifndef") and header.layer in NO_CONDITIONALS
              and header.name not in MACRO_HOMES):
            report(header, number, "conditional", f"no #{directive} in {header.layer}/")


def check_device_code(header, report):
    if not header.name.endswith(".cuh"):
        return
    for number, line in enumerate(header.lines, 1):
        for rule, pattern, homes, instead in DEVICE_RULES:
            match = re.search(pattern, line)
            if match and header.name not in homes:
                report(header, number, rule, f"'{match.group(0)}': {instead}")
        if "__global__" in line and header.name not in MACRO_HOMES:
            before = header.lines[number - 2].strip()
            if not re.search(r"__global__ void __launch_bounds__\(", line):
                report(header, number, "kernel", "a kernel is declared '__global__ void __launch_bounds__(...)'")
            if not (line.startswith(("static ", "template <")) or before.endswith(">")):
                report(header, number, "kernel", "a kernel is a template or static")


def check_form(header, report):
    if header.line_count > MAX_LINES:
        report(header, header.line_count, "size",
               f"{header.line_count} lines, at most {MAX_LINES}: something wants splitting")
    if not any(line.strip() == "#pragma once" for line in header.lines):
        report(header, 1, "once", "no #pragma once")
    for number, line in enumerate(header.lines, 1):
        if re.match(r"\s*using\s+namespace\b", line):
            report(header, number, "using", "no 'using namespace' in a header")
    if header.name in UMBRELLAS:
        for number, line in enumerate(header.lines, 1):
            if line.strip() and not line.lstrip().startswith("#"):
                report(header, number, "umbrella", "an umbrella only includes")
                break


def check_cycles(headers, report):
    """Depth-first search; every ring is reported once, at the include that closes it."""
    done, path = set(), []

    def visit(name):
        path.append(name)
        for number, _, target in headers[name].includes:
            if target in path:
                ring = " -> ".join(path[path.index(target):] + [target])
                report(headers[name], number, "ring", ring)
            elif target in headers and target not in done:
                visit(target)
        path.pop()
        done.add(name)

    for name in headers:
        if name not in done:
            visit(name)


def check_reach(headers, report):
    """Whatever no umbrella brings is missing for a user who includes it."""
    reached, to_do = set(), [name for name in UMBRELLAS if name in headers]
    while to_do:
        name = to_do.pop()
        if name not in reached and name in headers:
            reached.add(name)
            to_do += [target for _, _, target in headers[name].includes]
    for name in headers:
        if name not in reached:
            report(headers[name], 1, "reach", f"none of {', '.join(sorted(UMBRELLAS))} includes it")


def check(root):
    """All findings of a tree as (place, rule, message), and its headers."""
    base = root / "include" / "kvevict"
    paths = sorted(p for p in base.rglob("*") if p.suffix in (".hpp", ".cuh"))
    headers = {}
    for path in paths:
        name = path.relative_to(base).as_posix()
        headers[name] = Header(path, name)
    findings = []

    def report(header, number, rule, message):
        findings.append((f"include/kvevict/{header.name}:{number}", rule, message))

    for header in headers.values():
        check_includes(header, headers, report)
        check_macros(header, report)
        check_device_code(header, report)
        check_form(header, report)
    check_cycles(headers, report)
    check_reach(headers, report)
    return findings, headers


GOOD_TREE = {
    "core/config.hpp": "#if defined(__CUDACC__)\n#define KVEVICT_DEVICE 1\n#endif\n",
    "core/view.hpp": '#include <vector>\n#include "kvevict/core/config.hpp"\n',
    "math/rope.hpp": '#include "kvevict/core/view.hpp"\n',
    "ops/norms.hpp": '#include "kvevict/math/rope.hpp"\n// #include "kvevict/cpu/eigen.hpp"\n',
    "cpu/eigen.hpp": "#include <Eigen/Core>\n",
    "cpu/norms.hpp": '#include "kvevict/cpu/eigen.hpp"\n#include "kvevict/ops/norms.hpp"\n',
    "cuda/compat.cuh": "#if defined(__CUDACC__)\n#define KVEVICT_SHARED(T, name) __shared__ T name\n#endif\n",
    "cuda/memory.cuh": "void* p = cudaMallocAsync(&p, 1, stream);\n",
    "cuda/norms.cuh": '#include "kvevict/cuda/compat.cuh"\n#include "kvevict/cuda/memory.cuh"\n'
                      '#include "kvevict/ops/norms.hpp"\n// no <<<, no printf(\n'
                      "template <class T>\n__global__ void __launch_bounds__(32) norms(T* to);\n"
                      "static __global__ void __launch_bounds__(Shape::threads)\n    longest(float* to);\n",
    "policies/knorm.hpp": '#include "kvevict/ops/norms.hpp"\n/* using namespace std;\n#if 0 */\n',
    "decorators/chunk.hpp": '#include "kvevict/policies/knorm.hpp"\n',
    "allocators/uniform.hpp": '#include "kvevict/core/view.hpp"\n',
    "evict.hpp": '#include "kvevict/decorators/chunk.hpp"\n#include "kvevict/allocators/uniform.hpp"\n',
    "allocators/free.hpp": "",
    "version.hpp": "",
    "kvevict.hpp": '#include "kvevict/cpu/norms.hpp"\n#include "kvevict/evict.hpp"\n'
                   '#include "kvevict/allocators/free.hpp"\n#include "kvevict/version.hpp"\n',
    "cuda.cuh": '#include "kvevict/cuda/norms.cuh"\n#include "kvevict/kvevict.hpp"\n',
}

# (rule or rules, header, what is appended to it): each must be found, and nothing else with it.
SEEDS = [
    ("layer", "core/view.hpp", '#include "kvevict/allocators/free.hpp"\n'),
    ("layer", "math/rope.hpp", '#include "kvevict/allocators/free.hpp"\n'),
    ("layer", "ops/norms.hpp", '#include "kvevict/cpu/eigen.hpp"\n'),
    ("layer", "cpu/norms.hpp", '#include "kvevict/policies/knorm.hpp"\n'),
    ("layer", "cuda/norms.cuh", '#include "kvevict/cpu/norms.hpp"\n'),
    ("layer", "cuda/norms.cuh", '#include "kvevict/policies/knorm.hpp"\n'),
    ("layer", "policies/knorm.hpp", '#include "kvevict/cpu/norms.hpp"\n'),
    ("layer", "policies/knorm.hpp", '#include "kvevict/allocators/uniform.hpp"\n'),
    ("layer", "policies/knorm.hpp", '#  include <kvevict/cpu/norms.hpp>\n'),
    ("layer", "decorators/chunk.hpp", '#include "kvevict/version.hpp"\n'),
    ("layer", "evict.hpp", '#include "kvevict/cpu/norms.hpp"\n'),
    (("layer", "ending"), "evict.hpp", '#include "kvevict/cuda/norms.cuh"\n'),
    ("layer", "cuda/norms.cuh", '#include "kvevict/allocators/uniform.hpp"\n'),
    ("layer", "cuda/norms.cuh", '#include "kvevict/version.hpp"\n'),
    (("ending", "reach"), "cuda/host.hpp", ""),
    (("ending", "reach"), "ops/device.cuh", ""),
    (("layer", "ending"), "ops/norms.hpp", '#include "kvevict/cuda/memory.cuh"\n'),
    ("launch", "cuda/norms.cuh", "norms<<<1, 32>>>();\n"),
    ("launch", "cuda/norms.cuh", "cudaLaunchKernelEx(&config, norms);\n"),
    ("launch", "cuda/norms.cuh", 'detail::launch_kernel("norms", norms);\n'),
    ("shared", "cuda/norms.cuh", "__shared__ float sums[32];\n"),
    ("shared", "cuda/norms.cuh", "extern __shared__ float sums[];\n"),
    ("memory", "cuda/norms.cuh", "cudaMalloc(&p, 1);\n"),
    ("memory", "cuda/norms.cuh", "cudaFreeAsync (p, stream);\n"),
    ("memory", "cuda/norms.cuh", "cudaMallocHost(&p, 1);\n"),
    ("memory", "cuda/compat.cuh", "cudaHostAlloc(&p, 1, 0);\n"),
    ("wait", "cuda/norms.cuh", "cudaDeviceSynchronize();\n"),
    ("wait", "cuda/memory.cuh", "cudaStreamSynchronize(stream);\n"),
    ("wait", "cuda/norms.cuh", "cudaEventSynchronize(event);\n"),
    ("wait", "cuda/norms.cuh", "cudaMemcpy(to, from, 1, cudaMemcpyDefault);\n"),
    ("device", "cuda/norms.cuh", "const unsigned mask = __activemask();\n"),
    ("device", "cuda/norms.cuh", 'asm("exit;");\n'),
    ("device", "cuda/norms.cuh", "__constant__ float table[32];\n"),
    ("device", "cuda/norms.cuh", 'printf("%d", 1);\n'),
    ("device", "cuda/norms.cuh", "#include <cub/block/block_reduce.cuh>\n"),
    ("kernel", "cuda/norms.cuh", "__global__ void __launch_bounds__(32) norms(float* to);\n"),
    ("kernel", "cuda/norms.cuh", "template <class T>\n__global__ void norms(T* to);\n"),
    ("kernel", "cuda/norms.cuh", "static __global__ void norms(float* to);\n"),
    ("macro", "cuda/norms.cuh", "#define KVEVICT_THREADS 128\n"),
    ("conditional", "cuda/norms.cuh", "#if __CUDA_ARCH__ >= 800\n#endif\n"),
    ("size", "cuda/norms.cuh", "\n" * MAX_LINES),
    ("eigen", "cpu/norms.hpp", "#include <Eigen/Cholesky>\n"),
    ("eigen", "cuda/norms.cuh", "#include <eigen3/Eigen/Core>\n"),
    ("missing", "evict.hpp", '#include "kvevict/core/absent.hpp"\n'),
    ("spelling", "core/view.hpp", '#include "config.hpp"\n'),
    ("spelling", "cpu/norms.hpp", '#include "../ops/norms.hpp"\n'),
    ("ring", "core/config.hpp", '#include "kvevict/core/view.hpp"\n'),
    ("ring", "core/view.hpp", '#include "kvevict/core/view.hpp"\n'),
    ("macro", "ops/norms.hpp", "#define KVEVICT_X 1\n"),
    ("macro", "core/config.hpp", "#define DEVICE 1\n"),
    ("macro", "cpu/eigen.hpp", "#undef KVEVICT_DEVICE\n"),
    ("conditional", "ops/norms.hpp", "#if 1\n#endif\n"),
    ("conditional", "policies/knorm.hpp", "  # ifdef NDEBUG\n#endif\n"),
    ("conditional", "math/rope.hpp", "#ifndef NDEBUG\n#endif\n"),
    ("using", "core/view.hpp", "using namespace std;\n"),
    ("umbrella", "kvevict.hpp", "namespace kvevict {}\n"),
    ("size", "core/view.hpp", "\n" * (MAX_LINES + 1)),
    (("folder", "reach"), "extras/more.hpp", ""),
    ("reach", "cuda/forgotten.cuh", ""),
    ("reach", "ops/forgotten.hpp", ""),
]


def write_tree(root, tree):
    for name, text in tree.items():
        path = root / "include" / "kvevict" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#pragma once\n" + text, encoding="utf-8")


def self_test():
    base = GOOD_TREE
    failures = 0

    def expect(what, tree, rules, edit=None):
        nonlocal failures
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            write_tree(root, tree)
            if edit:
                edit(root / "include" / "kvevict")
            found = [rule for _, rule, _ in check(root)[0]]
        if found != rules:
            failures += 1
            print(f"self-test: {what}: expected {rules}, found {found}")

    expect("clean tree", base, [])
    for rule, name, addition in SEEDS:
        tree = dict(base)
        tree[name] = tree.get(name, "") + addition
        rules = [rule] if isinstance(rule, str) else list(rule)
        expect(f"{rules} seeded in {name} by {addition.strip()!r}", tree, rules)
    expect("once", base, ["once"], lambda top: (top / "version.hpp").write_text("\n"))
    print(f"layers self-test: {len(SEEDS) + 2 - failures} passed, {failures} failed")
    return failures == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return 0 if self_test() else 1
    findings, headers = check(arguments.root)
    if not headers:
        print(f"{arguments.root}: no headers under include/kvevict")
        return 1
    for place, rule, message in findings:
        print(f"{place}: [{rule}] {message}")
    sizes = [header.line_count for header in headers.values()]
    print(f"layers: {len(headers)} headers, median {statistics.median(sizes):g} lines, largest {max(sizes)}, "
          f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
