#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's examples are those that are compiled: the lines between the marks // [NAME] and // [/NAME] of a source,
without their indentation, stand in README.md in one code block. A name may mark several stretches, which stand in their
order, with other lines between them or not. Also: every policy of the library's list has a row in the README's table,
and every relative link leads to a file."""
import pathlib
import re
import sys
import textwrap

root = pathlib.Path(__file__).resolve().parent.parent
readme = (root / "README.md").read_text()
findings = []

blocks = re.findall(r"^```cpp\n(.*?)^```$", readme, re.S | re.M)


def stand_in(block, stretches):
    """Whether a block has the stretches, whole lines, in this order."""
    at = 0
    for stretch in stretches:
        found = f"\n{block}".find(f"\n{stretch}", at)
        if found < 0:
            return False
        at = found + len(stretch)
    return True


for path, name in (("examples/quickstart.cpp", "quickstart"), ("examples/decode_loop.cpp", "decode_loop"), ("examples/cuda_evict.cu", "cuda"),
                   ("examples/cuda_evict.cu", "cuda_graph")):
    source = (root / path).read_text()
    stretches = [textwrap.dedent(text)
                 for text in re.findall(rf"^ *// \[{name}\]\n(.*?)^ *// \[/{name}\]", source, re.S | re.M)]
    if not stretches:
        findings.append(f"{path}: the [{name}] marks are missing")
    elif not any(stand_in(block, stretches) for block in blocks):
        findings.append(f"README.md: the example differs from [{name}] of {path}")

policies = re.search(r"using AllPolicies\s*=\s*TypeList<(.*?)>;", (root / "include/kvevict/policies/all.hpp").read_text(), re.S)
for name in re.findall(r"\w+", policies.group(1)) if policies else []:
    if f"| `{name}` |" not in readme:
        findings.append(f"README.md: no row for the policy {name}")

for target in re.findall(r"\]\(([^)#:]+)\)", readme):
    if not (root / target).exists():
        findings.append(f"README.md: {target} does not exist")

for finding in findings:
    print(finding)
print(f"readme: {len(findings)} findings")
sys.exit(1 if findings else 0)
