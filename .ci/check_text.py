#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the text of all files under version control.

    check_text.py [--root DIR]     exit code 1 if anything is wrong
    check_text.py --self-test      seeds one violation of each rule and expects it to be found
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# What only exists on the machine where the code was written, and work left undone. The patterns are written such that
# this file does not match them.
FORBIDDEN = [
    ("path", re.compile(r"(?<![\w.}])/(?:work|root|home/\w+|tmp/bash\w*)\b")),
    ("reference", re.compile(r"\bshared/(?:cudaemu|design|goldens|hooks|reference|spec)\b")),
    ("host", re.compile(r"\b(?:pypi\.org|pythonhosted\.org|deb\.debian\.org|archive\.ubuntu\.com)\b")),
    ("unfinished", re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")),
    ("tab", re.compile(r"\t")),
    ("space", re.compile(r"[ \r]$")),
]
SOURCES = {".hpp", ".cuh", ".cpp", ".cu", ".py", ".sh", ".cmake"}
NAMED_SOURCES = {"CMakeLists.txt", "run"}
TABLES = {".tsv"}


def is_source(path):
    return path.suffix in SOURCES or path.name in NAMED_SOURCES


def check_file(name, data):
    """Findings of one file as (place, rule, message). Files with a zero byte are binary and of no interest."""
    if b"\0" in data:
        return []
    path = pathlib.PurePosixPath(name)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return [(name, "encoding", f"not UTF-8: {error.reason} at byte {error.start}")]
    findings = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        for rule, pattern in FORBIDDEN:
            match = pattern.search(line)
            if match and not (rule == "tab" and path.suffix in TABLES):
                findings.append((f"{name}:{number}", rule, repr(match.group(0))))
    if text and not text.endswith("\n"):
        findings.append((f"{name}:{len(lines)}", "ending", "the last line has no newline"))
    if text.endswith("\n\n"):
        findings.append((f"{name}:{len(lines) - 1}", "ending", "empty lines at the end"))
    if is_source(path):
        top = lines[1 if lines[0].startswith("#!") else 0]
        if not re.fullmatch(r"(//|#) SPDX-License-Identifier: Apache-2\.0", top):
            findings.append((f"{name}:1", "licence", "no SPDX line at the top"))
    return findings


def tracked_files(root):
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], check=True, capture_output=True)
    return [name for name in listing.stdout.decode("utf-8").split("\0") if name]


def check(root):
    findings, count = [], 0
    for name in tracked_files(root):
        path = root / name
        if path.is_symlink() or not path.is_file():
            continue
        count += 1
        findings += check_file(name, path.read_bytes())
    return findings, count


# (rule or None, name, content)
SEEDS = [
    (None, "a.hpp", "// SPDX-License-Identifier: Apache-2.0\n#pragma once\n"),
    (None, "a.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\ncd \"${top}/work\" && ls ../ro" + "ot/x\n"),
    (None, "README.md", "homework/rooted, shared/global memory, a/shared/buffer\n"),
    (None, "empty.txt", ""),
    (None, "index.tsv", "a\tb\n"),
    (None, "tensor.npy", "\0\t /" + "work/x"),
    ("path", "a.md", "see /" + "work/main\n"),
    ("path", "a.md", "in `/" + "root/.cache`\n"),
    ("path", "a.md", "in /" + "home/someone/x\n"),
    ("path", "a.md", "/" + "tmp/bash_jobs\n"),
    ("reference", "a.md", "see shared/" + "spec/policies.md\n"),
    ("reference", "a.md", "(../shared/" + "goldens)\n"),
    ("host", "a.md", "https://pypi" + ".org/simple\n"),
    ("unfinished", "a.md", "TO" + "DO: more\n"),
    ("unfinished", "a.md", "// FIX" + "ME\n"),
    ("unfinished", "a.md", "X" + "XX\n"),
    ("tab", "a.md", "a\tb\n"),
    ("space", "a.md", "a \nb\n"),
    ("space", "a.md", "a\r\nb\n"),
    ("ending", "a.md", "a"),
    ("ending", "a.md", "a\n\n"),
    ("encoding", "a.md", b"\xff\n"),
    ("licence", "a.hpp", "#pragma once\n"),
    ("licence", "a.py", "#!/usr/bin/env python3\nimport sys\n"),
    ("licence", "x/CMakeLists.txt", "project(x)\n"),
    ("licence", "a.cpp", "// SPDX-License-Identifier: MIT\n"),
]


def self_test():
    failures = 0
    for rule, name, content in SEEDS:
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        found = [entry[1] for entry in check_file(name, data)]
        if found != ([rule] if rule else []):
            failures += 1
            print(f"self-test: {name} with {content!r}: expected {rule}, found {found}")
    # Only what is under version control counts.
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        subprocess.run(["git", "init", "-q", folder], check=True)
        (root / "tracked.md").write_text("a\tb\n")
        (root / "untracked.md").write_text("a\tb\n")
        subprocess.run(["git", "-C", folder, "add", "tracked.md"], check=True)
        places = [entry[0] for entry in check(root)[0]]
    if places != ["tracked.md:1"]:
        failures += 1
        print(f"self-test: tracked files: found {places}")
    print(f"text self-test: {len(SEEDS) + 1 - failures} passed, {failures} failed")
    return failures == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return 0 if self_test() else 1
    findings, count = check(arguments.root)
    for place, rule, message in findings:
        print(f"{place}: [{rule}] {message}")
    print(f"text: {count} files, {len(findings)} findings")
    return 1 if findings or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
