#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the links between the pages of the documentation lead to files and headings that exist.

    links.py [DIR]       names every broken link (exit 1)
    links.py --self-test
"""
import pathlib
import re
import sys
import tempfile

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(text):
    """The anchors of a page as GitHub makes them from its headings."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        name = re.sub(r"\]\([^)]*\)", "", heading).lower()
        name = re.sub(r"[^\w\- ]", "", name).replace(" ", "-")
        number = 0
        while (fresh := name if number == 0 else f"{name}-{number}") in found:
            number += 1
        found.add(fresh)
    return found


def pages(top):
    patterns = ("*.md", "docs/**/*.md", "include/**/*.md", "tests/*.md", "bench/*.md")
    return [p for pattern in patterns for p in sorted(top.glob(pattern))]


def process(top):
    """The complaints, and the number of links looked at."""
    complaints, count = [], 0
    for page in pages(top):
        for target in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            file, _, anchor = target.partition("#")
            path = page if not file else page.parent / file
            if not path.exists():
                complaints.append(f"{page.relative_to(top)}: {target}: there is no such file")
            elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
                complaints.append(f"{page.relative_to(top)}: {target}: the page has no such heading")
    return complaints, count


def self_test():
    checks = []
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        (top / "docs").mkdir()
        (top / "docs/a.md").write_text("# The `a` page\n## One: two\n## One: two\n```\n# no heading\n```\n")
        for text, broken in (
            ("[a](docs/a.md#the-a-page) [b](docs/a.md#one-two) [c](docs/a.md#one-two-1) [d](#top)\n# Top\n", 0),
            ("[a](docs/b.md)", 1),
            ("[a](docs/a.md#no-heading)", 1),
            ("[a](docs/a.md#one)", 1),
            ("[a](https://example.com/x#y) `[a](docs/b.md)`\n```\n[a](docs/b.md)\n```\n", 0),
        ):
            (top / "README.md").write_text(text)
            checks.append(len(process(top)[0]) == broken)
    print(f"tally: {sum(checks)} passed, {len(checks) - sum(checks)} failed, 0 skipped")
    return not all(checks)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    complaints, count = process(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(complaints) if complaints else f"{count} links lead somewhere")
    sys.exit(bool(complaints))
