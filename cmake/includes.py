#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests include the headers of the names that they use: a test with the name `lock` includes <vram/base/lock.hpp>,
itself or through its includes.

If files are compiled together each sees the headers of those before it, so a missing include is only found by a build
of that file alone.

    includes.py DIR          checks the tests under DIR (tests) against include/vram beside it
    includes.py --self-test  plants tests with and without their headers and checks what is found
"""
import functools
import pathlib
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
PROSE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|#\s*include[^\n]*', re.S)  # and strings, and includes
# An unqualified name of a type, a template or a namespace.
NAMED = re.compile(r"(?<![\w.>:])(?:vram::)?(?:detail::)?([a-z]\w+)(?=\s*[<>{]|\s+[a-z]\w*\s*[;{(=,)]|::|\s+const\b|&)")
NO_IDEA = {"vram", "doctest", "platform"}  # namespaces, and a member of every resource


def declares(text, name):
    """Whether `text` gives the name a meaning of its own: a type, an alias, a variable."""
    type_of_its_own = rf"\b(?:class|struct|using|enum|typename)\s+(?:\w+::)?{name}\b"
    return re.search(rf"{type_of_its_own}|[\w>&*]\s+{name}\s*[\[;{{=,(:)]", text)


def missing(tests):
    include = tests.parent / "include"
    owner = {}  # the name of an idea -> the headers that are called so
    for header in (include / "vram").rglob("*.hpp"):
        owner.setdefault(header.stem, set()).add(header)

    @functools.cache
    def included(path):
        places = (include, tests, tests.parent / "examples", path.parent)
        found = ((place / name).resolve() for name in INCLUDE.findall(path.read_text()) for place in places)
        return {each for each in found if each.is_file()}

    def reached(path):
        seen, ahead = set(), [path]
        while ahead:
            fresh = included(ahead.pop()) - seen
            seen |= fresh
            ahead += fresh
        return seen

    found = []
    for path in sorted(tests.rglob("*.cpp")):
        text = PROSE.sub("", path.read_text())
        headers = reached(path)
        own = text + "".join(PROSE.sub("", each.read_text()) for each in headers if tests in each.parents)
        stems = {header.stem for header in headers}  # a header of the tests may be called so too
        for name in sorted(set(NAMED.findall(text)) & owner.keys() - stems - NO_IDEA):
            if not declares(own, name):
                wanted = " or ".join(sorted(str(each.relative_to(include)) for each in owner[name]))
                found.append(f"{path.relative_to(tests)}: names {name} without <{wanted}>")
    return found


PLANTED = ["lock l;", "vram::lock l;", "auto x = lock{};", "lock::guard g;", "void f(lock const& l);", "pool<lock> p;"]
CLEAN = ["#include <vram/base/lock.hpp>\nlock l;", "#include <vram/base/all.hpp>\nlock l;", "// lock l;", "x.lock();",
         "std::lock(a, b);", "mutex lock;", "struct lock {}; lock l;"]


def self_test():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        tests = pathlib.Path(folder).resolve() / "tests"
        base = tests.parent / "include/vram/base"
        base.mkdir(parents=True)
        tests.mkdir()
        (base / "lock.hpp").touch()
        (base / "all.hpp").write_text("#include <vram/base/lock.hpp>\n")
        for text in PLANTED + CLEAN:
            (tests / "it.cpp").write_text(text)
            if bool(missing(tests)) != (text in PLANTED):
                print(f"{'not found' if text in PLANTED else 'found'}: {text}")
                failed += 1
    print(f"tally: {len(PLANTED + CLEAN) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        sys.exit(self_test())
    offences = missing(pathlib.Path(sys.argv[1]).resolve())
    print("\n".join(offences))
    sys.exit(bool(offences))
