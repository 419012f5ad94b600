#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No requires-expression in a header calls a member function of the enclosing object.

nvcc 13.0 may evaluate `requires { source().fill(to); }`, in a member function, to false without a message if `source` is
a member function called without an object. The tested object is therefore a parameter: `requires(S& s) { s.fill(to); }`.
Without parameters, a requires-expression names types, nests a `requires`, or calls a qualified function.

    requires.py DIR          checks the headers under DIR (include/vram)
    requires.py --self-test  plants requires-expressions of both kinds and checks which are found
"""
import pathlib
import re
import sys
import tempfile

PROSE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
REQUIRES = re.compile(r"\brequires\s*(?=[({])")
EXPRESSION = re.compile(r"(?:[=!(,{?:]|&&|\|\||\brequires|\breturn)\s*$")  # stands before an expression, not before a clause
ALONE = re.compile(r"(typename|requires)\b|\{?\s*(::)?\w+\s*(<[^;]*>)?\s*::")  # expressions without a parameter
CALL = re.compile(r"(?<![\w.>:])([a-z_]\w*)\s*\(\s*\)")  # name(), of no object


def closing(text, at):
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "({[") - (text[i] in ")}]")
        if depth == 0:
            return i + 1
    return len(text)


def requirements(body):
    """The requirements of a requires-expression: `{ a(); } -> c;` and `a();` alike."""
    found, start, depth = [], 0, 0
    for i, c in enumerate(body):
        depth += (c in "({[") - (c in ")}]")
        if c == ";" and depth == 0:
            found.append(body[start:i].strip())
            start = i + 1
    return found


def objections(text):
    """(line, text) of each requires-expression that must be written otherwise."""
    text = PROSE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    for match in REQUIRES.finditer(text):
        at, parameters = match.end(), ""
        if text[at] == "(":
            if not EXPRESSION.search(text[: match.start()]):
                continue  # a clause: `requires(sizeof(T) > 4) { body }`
            end = closing(text, at)
            parameters = text[at:end]
            at = end + len(text[end:]) - len(text[end:].lstrip())
            if at >= len(text) or text[at] != "{":
                continue
        names = set(re.findall(r"\w+", parameters))
        for one in requirements(text[at + 1 : closing(text, at) - 1]):
            of_no_object = [name for name in CALL.findall(one) if name not in names]
            if of_no_object or (not parameters and not ALONE.match(one)):
                yield text.count("\n", 0, match.start()) + 1, " ".join(one.split())


def complaints(top):
    return [f"{path.relative_to(top)}:{line}: requires-expression without the object of '{what}'; nvcc may find it false: "
            f"make the object a parameter, requires(S& s) {{ s.f(); }}"
            for path in sorted(top.rglob("*.hpp")) for line, what in objections(path.read_text())]


PLANTED = [
    "int a() { if constexpr (requires { source().fill(to, i); }) { return 1; } }",
    "int a() { if constexpr (requires { source()(to); }) { return 1; } }",
    "int a() { if constexpr (requires { member_.fill(to); }) { return 1; } }",
    "template <class S> int a(S& s) { return requires { { s.fill() } -> std::same_as<int>; }; }",
    "int a() { if constexpr (requires(int i) { source().fill(i); }) { return 1; } }",
    "int a() requires requires {\n source();\n } { return 1; }",
]
CLEAN = [
    "int a() { if constexpr (requires(S& s) { s.fill(to, i); s(); }) { return source().fill(to, i); } }",
    "template <class T> concept c = requires { typename T::a; requires T::b; };",
    "template <class P> bool a(int s) { return requires { P::ended(s); { ns::P::now().count() } -> d<int>; }; }",
    "template <class P> requires(sizeof(P) > 4) { return source(); }",
    "int a() requires fills { return source(); }",
    "int a() requires(fills && b) { return source(); }",
    "// requires { source(); }\nchar const* a = \"requires { source(); }\";",
]


def self_test():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        for i, code in enumerate(PLANTED + CLEAN):
            (top / f"{i}.hpp").write_text(code)
        found = complaints(top)
    for i, code in enumerate(PLANTED + CLEAN):
        if any(each.startswith(f"{i}.hpp:") for each in found) != (i < len(PLANTED)):
            print(f"{'not found' if i < len(PLANTED) else 'found, though it is right'}: {code}")
            failed += 1
    print(f"tally: {len(PLANTED + CLEAN) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        sys.exit(self_test())
    found = complaints(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "every requires-expression names its objects")
    sys.exit(bool(found))
