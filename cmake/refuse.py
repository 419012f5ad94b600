#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a file does not compile, and that the compiler says what the file announces.

    refuse.py COMPILER FILE    FILE holds a line "// refuse: REGEX"; the compiler's output must match it
"""
import pathlib
import re
import subprocess
import sys

compiler, file = sys.argv[1], pathlib.Path(sys.argv[2])
include = pathlib.Path(__file__).resolve().parent.parent / "include"
expected = re.findall(r"^// refuse: (.+)$", file.read_text(), re.MULTILINE)
if not expected:
    sys.exit(f'{file}: no line "// refuse: REGEX"')

result = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", f"-I{include}", file],
                        capture_output=True, text=True, errors="replace")
if result.returncode == 0:
    sys.exit(f"{file}: compiles, and must not")
missing = [regex for regex in expected if not re.search(regex, result.stderr)]
if missing:
    sys.exit(f"{result.stderr}\n{file}: does not compile, but without the message: {missing[0]}")
