#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the code that the documentation shows equal to code that is compiled.

A fenced block under the comment  <!-- snippet: examples/first.cpp#name -->  is the region of that file between
the lines  // [name]  and  // [/name]  (in a file of CMake or Python  # [name]  and  # [/name]),  without its indentation. Without
#name it is the whole file.

Code that launches a kernel (<<<) is compiled by nvcc: in a page its block comes from a .cu file, and the code in a header's
comment (/// and four more spaces or more) stands in a .cu file of tests/ or examples/, but for comments and white space.

The region  // [pool/arena]  of a file of tests/ is code of a comment of include/vram/pool/arena.hpp, compared likewise.

    snippets.py --check [DIR]    names every block that differs (exit 1)
    snippets.py --write [DIR]    rewrites them
    snippets.py --self-test
"""
import pathlib
import re
import sys
import tempfile
import textwrap

BLOCK = re.compile(r"(^<!-- snippet: (?P<file>[^\s#]+?)(?:#(?P<region>\S+))? -->\n+```[^\n]*\n)(?P<code>.*?)(^```$)", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"^\s*(?://|#) \[/?[\w-]+\]\s*$")


class broken(Exception):
    pass


def region(top, file, name):
    path = top / file
    if not path.is_file():
        raise broken(f"no file {file}")
    lines = path.read_text().splitlines()
    if name:
        stripped = [line.strip() for line in lines]
        comment = "#" if path.name == "CMakeLists.txt" or path.suffix in (".cmake", ".py") else "//"
        begin, end = f"{comment} [{name}]", f"{comment} [/{name}]"
        if stripped.count(begin) != 1 or stripped.count(end) != 1:
            raise broken(f"{file} has not exactly one {begin} and one {end}")
        lines = lines[stripped.index(begin) + 1 : stripped.index(end)]
    lines = [line for line in lines if not MARK.match(line)]
    return textwrap.dedent("\n".join(lines)).strip("\n") + "\n"


FENCE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMENT_CODE = re.compile(r"(?:^///(?: {5,}[^\n]*)\n)+", re.MULTILINE)


def bare(code):
    """Code without comments and white space."""
    return re.sub(r"\s+|//[^\n]*", "", code)


def launches(top):
    """Complaints about code that launches a kernel and is not compiled; the number of places looked at."""
    complaints, count = [], 0
    for page in pages(top):
        text = page.read_text()
        from_cu = {m.start("code") for m in BLOCK.finditer(text) if m["file"].endswith(".cu")}
        for fence in FENCE.finditer(text):
            if "<<<" in fence[1]:
                count += 1
                if fence.start(1) not in from_cu:
                    line = text.count("\n", 0, fence.start()) + 1
                    complaints.append(f"{page.relative_to(top)}:{line}: code with <<< that is no snippet of a .cu file")
    compiled = [bare(p.read_text()) for folder in ("tests", "examples") for p in sorted((top / folder).rglob("*.cu"))]
    for header in sorted((top / "include").rglob("*.hpp")):
        text = header.read_text()
        for block in COMMENT_CODE.finditer(text):
            code = re.sub(r"^///", "", block[0], flags=re.MULTILINE)
            if "<<<" in code:
                count += 1
                if not any(bare(code) in each for each in compiled):
                    line = text.count("\n", 0, block.start()) + 1
                    complaints.append(f"{header.relative_to(top)}:{line}: no .cu file of tests/ or examples/ has this code with <<<")
    return complaints, count


REGION = re.compile(r"^ *// \[(\w+/\w+)\]\n(.*?)^ *// \[/\1\]$", re.DOTALL | re.MULTILINE)


def commented(top):
    """Complaints about regions that are named after a header, if no comment of it has their code; the number of regions."""
    complaints, count = [], 0
    for path in sorted(p for kind in ("*.cpp", "*.cu") for p in (top / "tests").rglob(kind)):
        for found in REGION.finditer(path.read_text()):
            count += 1
            header = top / f"include/vram/{found[1]}.hpp"
            text = header.read_text() if header.is_file() else ""
            blocks = [bare(re.sub(r"^///", "", block, flags=re.MULTILINE)) for block in COMMENT_CODE.findall(text)]
            if not any(bare(found[2]) in block for block in blocks):
                complaints.append(f"{path.relative_to(top)}: no comment of {header.relative_to(top)} has the code of [{found[1]}]")
    return complaints, count


def pages(top):
    return [p for p in [*sorted(top.glob("*.md")), *sorted(top.glob("docs/**/*.md")), *sorted(top.glob("include/**/*.md"))]]


def process(top, write):
    """The complaints, and the number of blocks looked at."""
    complaints, count = [], 0
    for page in pages(top):
        text = page.read_text()
        announced = len(re.findall(r"^<!-- snippet:", text, re.MULTILINE))
        seen = 0

        def current(match):
            nonlocal seen
            seen += 1
            label = match["file"] + ("#" + match["region"] if match["region"] else "")
            try:
                code = region(top, match["file"], match["region"])
            except broken as why:
                complaints.append(f"{page.relative_to(top)}: {label}: {why}")
                return match[0]
            if code != match["code"] and not write:
                complaints.append(f"{page.relative_to(top)}: {label} differs; snippets.py --write brings it up to date")
            return match[1] + code + match[5]

        replaced = BLOCK.sub(current, text)
        if seen != announced:
            complaints.append(f"{page.relative_to(top)}: {announced - seen} snippet comments without a fenced block under them")
        if write and replaced != text:
            page.write_text(replaced)
        count += seen
    return complaints, count


def self_test():
    checks = []
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        (top / "a.cpp").write_text("int main() {\n    // [one]\n    int a = 1;\n        a = 2;\n    // [/one]\n}\n")
        readme = top / "README.md"
        readme.write_text("<!-- snippet: a.cpp#one -->\n```c++\nint a = 3;\n```\nText\n")
        checks.append(len(process(top, False)[0]) == 1)
        checks.append(process(top, True) == ([], 1))
        checks.append("```c++\nint a = 1;\n    a = 2;\n```\nText\n" in readme.read_text())
        checks.append(process(top, False) == ([], 1))
        (top / "CMakeLists.txt").write_text("# [one]\nadd_executable(a a.cpp)\n# [/one]\n")
        readme.write_text("<!-- snippet: CMakeLists.txt#one -->\n```cmake\n```\n")
        checks.append(process(top, True) == ([], 1))
        checks.append("```cmake\nadd_executable(a a.cpp)\n```\n" in readme.read_text())
        for planted in ("a.cpp#two -->\n```\nx\n```\n", "b.cpp -->\n```\nx\n```\n", "a.cpp#one -->\nno fence\n"):
            readme.write_text("<!-- snippet: " + planted)
            checks.append(len(process(top, False)[0]) == 1)
        readme.write_text("")
        (top / "tests").mkdir()
        (top / "include").mkdir()
        (top / "tests/a.cu").write_text("void f() {\n    // [one]\n    k<<<1, 2>>>(a); // go\n    // [/one]\n}\n")
        header = top / "include/a.hpp"
        header.write_text("/// Text.\n///\n///     k<<<1,\n///         2>>>(a);\n")
        checks.append(launches(top) == ([], 1))
        header.write_text("///     k<<<1, 3>>>(a);\n")
        checks.append(len(launches(top)[0]) == 1)
        header.write_text("")
        readme.write_text("<!-- snippet: tests/a.cu#one -->\n```c++\nk<<<1, 2>>>(a); // go\n```\n")
        checks.append(process(top, False) == ([], 1) and launches(top) == ([], 1))
        readme.write_text("```c++\nk<<<1, 2>>>(a);\n```\n")
        checks.append(len(launches(top)[0]) == 1)
        (top / "tests/a.cpp").write_text("    // [pool/a]\n    f(1); // go\n    // [/pool/a]\n")
        checks.append(len(commented(top)[0]) == 1)
        (top / "include/vram/pool").mkdir(parents=True)
        (top / "include/vram/pool/a.hpp").write_text("/// Text.\n///\n///     f(1);\n///     g(2);\n")
        checks.append(commented(top) == ([], 1))
        (top / "include/vram/pool/a.hpp").write_text("///     f(2);\n")
        checks.append(len(commented(top)[0]) == 1)
    print(f"tally: {sum(checks)} passed, {len(checks) - sum(checks)} failed, 0 skipped")
    return not all(checks)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("--check", "--write", "--self-test"):
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        sys.exit(self_test())
    top = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".")
    complaints, count = process(top, sys.argv[1] == "--write")
    not_compiled, kernels = launches(top)
    not_in_comments, regions = commented(top)
    complaints += not_compiled + not_in_comments
    count += kernels + regions
    print("\n".join(complaints) if complaints else f"{count} snippets are code that is compiled")
    sys.exit(bool(complaints))
