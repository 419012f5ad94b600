#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The output that the pages show is the output of the programs. printed.py FOLDER-OF-PROGRAMS

In a page, a fenced block under the comment  <!-- printed: examples/first.cpp -->  is part of the standard output of that program,
whole lines of it.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^<!-- printed: examples/(?P<name>\w+)\.cpp -->\n+```text\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def is_part(text, output):
    """Whether the lines of `text` are consecutive lines of `output`."""
    return text != "" and ("\n" + text) in ("\n" + output)


def check(folder):
    failed, passed, skipped, outputs = 0, 0, 0, {}
    for page in PAGES:
        content = page.read_text()
        blocks = list(BLOCK.finditer(content))
        if len(blocks) != len(re.findall(r"^<!-- printed:", content, re.MULTILINE)):
            failed += 1
            print(f"FAILED: {page.relative_to(ROOT)}: a printed comment without a fenced block of text under it")
        for block in blocks:
            name = block["name"]
            if not (folder / name).exists() and (ROOT / "examples" / f"{name}.cpp").exists():
                skipped += 1
                print(f"skipped: {name} is not built in the quick tier")
                continue
            if name not in outputs:
                outputs[name] = subprocess.run([folder / name], capture_output=True, text=True, timeout=200).stdout
            if is_part(block["text"], outputs[name]):
                passed += 1
            else:
                failed += 1
                print(f"FAILED: {page.relative_to(ROOT)}: {name} prints\n{outputs[name]}and the page shows\n{block['text']}")
    return passed, failed, skipped


assert is_part("b\nc\n", "a\nb\nc\nd\n") and not is_part("b\n", "ab\n") and not is_part("b\n", "bc\n") and not is_part("", "a\n")
passed, failed, skipped = check(pathlib.Path(sys.argv[1]))
if passed + failed + skipped == 0:
    failed = 1
    print("FAILED: no page shows the output of a program")
print(f"tally: {passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0)
