#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's example is the one that is compiled: the lines between the marks of examples/quickstart.cpp, without
their indentation, stand in README.md in one code block. Also: every policy of the library's list has a row in the
README's table, and every relative link leads to a file."""
import pathlib
import re
import sys
import textwrap

root = pathlib.Path(__file__).resolve().parent.parent
readme = (root / "README.md").read_text()
findings = []

source = (root / "examples/quickstart.cpp").read_text()
match = re.search(r"^ *// \[quickstart\]\n(.*?)^ *// \[/quickstart\]", source, re.S | re.M)
if match is None:
    findings.append("examples/quickstart.cpp: the [quickstart] marks are missing")
elif textwrap.dedent(match.group(1)).strip() not in readme:
    findings.append("README.md: the example differs from examples/quickstart.cpp")

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
