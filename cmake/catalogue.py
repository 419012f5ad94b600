#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the table of checks in docs/simulator.md equal to the catalogue of programs, tests/catalogue/*.cpp.

    catalogue.py --check [DIR]    exit 1 if the table differs
    catalogue.py --write [DIR]    rewrites it
    catalogue.py --self-test      plants a catalogue and a page that differ
"""
import collections
import pathlib
import re
import sys
import tempfile

BEGIN, END = "<!-- catalogue: cmake/catalogue.py --write -->\n", "<!-- end of catalogue -->\n"
GROUP = re.compile(r'^GROUP\(\s*"([^"]+)"\s*\)', re.M)
PAIR = re.compile(r'^PAIR\(\s*(\w+),\s*([\w:]+(?:\(\s*[\w:]*\s*\))?),\s*((?:"[^"]*"\s*)+)', re.M)


def pairs(top):
    """(group, name, expected) of every pair, in the sequence of the files."""
    found = []
    for path in sorted((top / "tests/catalogue").glob("*.cpp")):
        text = path.read_text()
        marks = sorted([*GROUP.finditer(text), *PAIR.finditer(text)], key=lambda mark: mark.start())
        group = None
        for mark in marks:
            if mark.re is GROUP:
                group = mark[1]
            else:
                found.append((group, mark[1].replace("_", " "), mark[2]))
        if len(re.findall(r"^PAIR\(", text, re.M)) != sum(mark.re is PAIR for mark in marks):
            sys.exit(f"{path}: a PAIR( has another form than name, expected result, \"rule\"")
    return found


def kind(expected):
    """The kind of a report: its name in words, or 'an error' for a call that is refused."""
    inner = re.search(r"\((?:\w+::)?(\w+)\)", expected)
    if expected.startswith("refused"):
        return "error `" + inner[1] + "`"
    return (inner[1] if inner else expected).replace("_", " ")


def table(found):
    groups = collections.defaultdict(list)
    for group, name, expected in found:
        groups[group].append((name, expected))
    unchecked = sum(expected.startswith("not_checked") for _, _, expected in found)
    lines = [f"{len(found)} pairs of a wrong and a correct program are in [`tests/catalogue/`](../tests/catalogue/), with the rule of each.",
             f"{len(found) - unchecked} wrong programs are reported or refused at the line of the mistake, {unchecked} are not; no correct program is reported.",
             "", "| group | pairs | reported, or refused with an error | not checked |", "|---|---|---|---|"]
    for group, members in groups.items():
        seen = collections.Counter(kind(expected) for _, expected in members if not expected.startswith("not_checked"))
        reported = ", ".join(f"{name} {count}" for name, count in sorted(seen.items(), key=lambda each: (-each[1], each[0])))
        missing = "; ".join(f"{name} ({kind(expected)})" for name, expected in members if expected.startswith("not_checked"))
        lines.append(f"| {group} | {len(members)} | {reported} | {missing} |")
    return "\n".join(lines) + "\n"


def rewritten(page, found):
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit("docs/simulator.md has no place for the table of checks")
    return before + BEGIN + table(found) + END + after


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        (top / "tests/catalogue").mkdir(parents=True)
        (top / "tests/catalogue/a.cpp").write_text(
            'GROUP("streams")\nPAIR(two_writes, race, "a rule") {}\nPAIR(x, refused(sim_status::no), "a " "rule") {}\n'
            'GROUP("more")\nPAIR(the_third,\n     not_checked(use_after_free),\n     "rule", .devices = 2) {}\n')
        page = "a\n" + BEGIN + "old\n" + END + "z\n"
        wanted = ["| streams | 2 | error `no` 1, race 1 |  |", "| more | 1 |  | the third (use after free) |"]
        text = rewritten(page, pairs(top))
        right = all(line in text for line in wanted) and text != page and text == rewritten(text, pairs(top))
    print(f"tally: {int(right)} passed, {int(not right)} failed, 0 skipped")
    return not right


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    top = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".")
    page = top / "docs/simulator.md"
    found = pairs(top)
    new = rewritten(page.read_text(), found)
    if sys.argv[1] == "--write":
        page.write_text(new)
        return 0
    if page.read_text() != new:
        print("docs/simulator.md differs from tests/catalogue: run cmake/catalogue.py --write")
        return 1
    print(f"{len(found)} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
