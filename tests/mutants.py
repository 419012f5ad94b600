#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the mutants of tests/mutants: each changes lines of a header so that it is wrong, and tests must fail.

    mutants.py                       all of them
    mutants.py PATTERN...            those with a pattern in the header, the tests or the sentence
    mutants.py [PATTERN...] --jobs N N at the same time
    mutants.py --check               checks only that each header contains the quoted lines
    mutants.py --count               prints the number of mutants of each header

The lines are changed in a copy of include; only the named tests are compiled, with g++ or $CXX, and run. A test that
takes more than a minute has failed.

A recipe consists of a sentence that describes the wrong behaviour, the header (in include/vram/pool unless it names a
folder), the tests that must fail, the lines that are removed (-) and the lines in their place (+). The removed lines must
be in the header exactly once; spaces and comments do not matter. A blank line ends the recipe.

    # a freed block stays in the table of live blocks
    block_heap.hpp  pool/core/block_heap.cpp
    - live_.erase(b);
    - if (live_.size() == 0 && taken_ >= enough) { all_freed_ = true; }
    + if (live_.size() == 0 && taken_ >= enough) { all_freed_ = true; }
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
SECONDS = 60  # a test that takes longer hangs
COMPILE = [os.environ.get("CXX", "g++"), "-std=c++20", "-O0", "-pthread", f"-I{TESTS}"]


@dataclasses.dataclass
class Mutant:
    sentence: str
    header: str  # below include/vram
    tests: tuple[str, ...]  # below tests
    old: list[str]
    new: list[str]

    def __str__(self):
        return f"{self.header}: {self.sentence}"

    def holds(self, pattern):
        return any(pattern in text for text in (self.sentence, self.header, *self.tests))

    def broken(self):
        """The header with the new lines in place of the old ones. ValueError unless these are there exactly once."""
        lines = (ROOT / "include/vram" / self.header).read_text().splitlines()
        shown = [i for i in range(len(lines)) if code(lines[i])]
        plain, old = [code(lines[i]) for i in shown], list(filter(None, map(code, self.old)))
        places = [i for i in range(len(plain)) if plain[i : i + len(old)] == old]
        if not old or len(places) != 1:
            raise ValueError(f"the old lines are there {len(places)} times")
        first, last = shown[places[0]], shown[places[0] + len(old) - 1]
        lines[first : last + 1] = self.new
        return "\n".join(lines) + "\n"


def code(line):
    """The code of a line: without a comment, with single spaces."""
    return " ".join(re.sub(r"(^|\s)//.*", "", line).split())


def recipes(path):
    """The mutants of a file."""
    for recipe in path.read_text().strip().split("\n\n"):
        marked = {mark: [] for mark in "#-+ "}
        for line in recipe.strip().splitlines():
            mark, rest = (line[0], line[1:]) if line[0] in "#-+" else (" ", line)
            marked[mark].append(rest.strip())
        if len(marked["#"]) == len(recipe.strip().splitlines()):
            continue  # a comment
        words = " ".join(marked[" "]).split()
        if len(words) < 2 or not marked["-"]:
            sys.exit(f"{path.name}: not a recipe:\n{recipe}")
        header, *tests = words
        header = header if "/" in header else f"pool/{header}"
        yield Mutant(" ".join(marked["#"]), header, tuple(tests), marked["-"], list(filter(None, marked["+"])))


class Bench:
    """Builds tests in a folder and runs them."""

    def __init__(self, folder):
        self.folder = folder
        self.main = folder / "main.o"
        subprocess.run([*COMPILE, "-c", TESTS / "main.cpp", "-o", self.main], check=True)

    def passes(self, tests, include):
        """Returns True if the tests pass with these headers. ValueError if they do not compile."""
        with tempfile.TemporaryDirectory(dir=self.folder) as own:
            program = pathlib.Path(own) / "tests"
            sources = [TESTS / test for test in tests]
            built = subprocess.run([*COMPILE, f"-I{include}", *sources, self.main, "-o", program], capture_output=True)
            if built.returncode != 0:
                raise ValueError("does not compile")
            try:
                return subprocess.run([program], cwd=own, capture_output=True, timeout=SECONDS).returncode == 0
            except subprocess.TimeoutExpired:
                return False

    def unbroken(self, tests):
        """The error of tests that should pass, or an empty string."""
        try:
            return "" if self.passes(tests, ROOT / "include") else "fails"
        except ValueError as wrong:
            return str(wrong)

    def verdict(self, mutant):
        """The result of a mutant."""
        try:
            text = mutant.broken()
            with tempfile.TemporaryDirectory(dir=self.folder) as own:
                include = shutil.copytree(ROOT / "include", pathlib.Path(own) / "include")
                (include / "vram" / mutant.header).write_text(text)
                return "LIVED" if self.passes(mutant.tests, include) else "died"
        except (OSError, ValueError) as wrong:
            return str(wrong)


def run(mutants, jobs):
    """Prints the result of each as it ends, and the sums. Returns True if all died."""
    counts = {"died": 0, "LIVED": 0}
    with tempfile.TemporaryDirectory(prefix="vram-mutants-") as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            bench = Bench(pathlib.Path(folder))
            used = list(dict.fromkeys(m.tests for m in mutants))
            wrong = {tests: what for tests, what in zip(used, pool.map(bench.unbroken, used)) if what}
            for tests, what in wrong.items():
                print(f"unbroken, {' '.join(tests)} {what}", flush=True)
            ends = {pool.submit(bench.verdict, m): m for m in mutants if m.tests not in wrong}
            for end in concurrent.futures.as_completed(ends):
                counts[end.result()] = counts.get(end.result(), 0) + 1
                print(f"{end.result()}: {ends[end]}", flush=True)
        except BaseException:  # interrupted: the rest is not started
            pool.shutdown(cancel_futures=True)
            raise
    died, lived = counts["died"], counts["LIVED"]
    print(f"{died} died, {lived} lived, {len(mutants) - died - lived} errors")
    return died == len(mutants)


def check(mutants):
    """Prints the recipes whose lines are missing. Returns True if there are none."""
    wrong = 0
    for mutant in mutants:
        try:
            mutant.broken()
            missing = [test for test in mutant.tests if not (TESTS / test).is_file()]
            if missing:
                raise ValueError(f"there is no {' '.join(missing)}")
        except (OSError, ValueError) as what:
            wrong += 1
            print(f"{what}: {mutant}")
    print(f"tally: {len(mutants) - wrong} passed, {wrong} failed, 0 skipped")
    return wrong == 0


def count(mutants):
    """Prints the number of mutants of each header."""
    for header, number in sorted(collections.Counter(m.header for m in mutants).items()):
        print(f"{number:5} {header}")
    print(f"{len(mutants):5} in all")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("patterns", metavar="PATTERN", nargs="*")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--count", action="store_true")
    asked = arguments.parse_args()
    mutants = [m for path in sorted((TESTS / "mutants").glob("*.txt")) for m in recipes(path)]
    if asked.patterns:
        mutants = [m for m in mutants if any(map(m.holds, asked.patterns))]
    if not mutants:
        sys.exit("there is no such mutant")
    if asked.count:
        return count(mutants)
    if asked.check:
        sys.exit(not check(mutants))
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: sys.exit("interrupted"))  # when those that run have ended, and the folders are gone
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # many crash
    sys.exit(not run(mutants, asked.jobs))


if __name__ == "__main__":
    main()
