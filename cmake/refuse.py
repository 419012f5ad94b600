#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that programs do not compile, and that the compiler prints the message that each announces.

    refuse.py [--cccl DIR] [--toolkit DIR[:DIR]] [--alone] COMPILER FILE...
        COMPILER: g++, clang++ or nvcc; --toolkit: include directories of the CUDA Toolkit; --cccl: a CCCL of version 3.4 or later

Each FILE holds lines

    // refuse: REGEX          the output of the compiler matches REGEX
    // refuse-first: REGEX    so does the first or second line of its first diagnostic
    // refuse-first g++ clang++: REGEX    for these compilers only
    // needs: cuda            it is compiled only if the CUDA Toolkit's headers exist
    // needs: cccl            it is compiled only if a CCCL of version 3.4 or later exists
    // except: nvcc           this compiler accepts the file, and is not run

Most of the time of a compilation goes to vram's headers. Several files are therefore compiled in one unit, which includes all
their headers first and then each file in a namespace of its own. An error belongs to a file if its position, or a position in
the chain of instantiations that leads to it, is in that file and in no other. A file passes there only if it has an error,
and its own errors match what it announces. The other files are compiled in a unit again, because an error in an instantiation
that several files cause is printed for one of them only, and at last each alone. A file fails only by that compilation.

A file that compiles alone cannot pass in the unit by an error of another file, because that belongs to the other one. It could
pass only if the headers of other files, or its namespace, cause an error in it that also matches the announced message: such
messages are vram's for one mistake, and not those of a redefinition or an ambiguous name. A file may pass in the unit
although alone it lacks an #include (cmake/includes.py finds that), or prints another error first, which the unit prints for
another file. --alone compiles every file alone; ./dev test --record does so.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"

# Lines that lead to a diagnostic or show the source, and are no part of its text.
CONTEXT = re.compile(r"^(In file included from|In module| +from |\s*$|.*: (In |required |  required|   recursively)"
                     r"|.*:   (required|recursively)|\s*\d* *\||\s*[|^~])")

# The first line of a diagnostic, and the lines that g++ prints before it.
DIAGNOSTIC = re.compile(r"^(?:(\S[^:(]*)(?::\d+:\d+|\(\d+\)): )?(?:\w+ )?(error|warning|remark)\b")
BEFORE = re.compile(r"^(In file included from| +from |\S[^:(]*: (In|At) |\S[^:(]*:\d+:\d+:   )")

# A position in the chain of instantiations that leads to a diagnostic, as g++, clang and nvcc print it.
CHAIN = re.compile(r"^([^:(]+):\d+:\d+:   (?:required|recursively required|in .constexpr. expansion) "
                   r"|^([^:(]+):\d+:\d+: note: (?:in instantiation of|while substituting) "
                   r"|^ +(?:detected during )?instantiation of .* at line \d+ of (\S+)$")


def first_lines(output):
    """The first two lines of the first diagnostic, each on one line however the compiler breaks it."""
    said = [line for line in output.splitlines() if not CONTEXT.match(line)]
    starts = [i for i, line in enumerate(said) if re.search(r"\b(error|fatal)\b", line)]
    return said[starts[0]:starts[0] + 2] if starts else []


def version_of_cccl(folder):
    """CCCL_VERSION in that folder, such as 3005000, or 0."""
    header = folder / "cuda/std/__cccl/version.h"
    found = re.search(r"^#define CCCL_VERSION (\d+)$", header.read_text(), re.MULTILINE) if header.exists() else None
    return int(found[1]) if found else 0


def errors_by_file(output, files):
    """The errors in the output that belong to one of the files, as text for each of them."""
    blocks, pending = [], []
    for line in output.splitlines():
        start = DIAGNOSTIC.match(line)
        if start:
            blocks.append((start[2], {start[1]}, [*pending, line]))
        elif BEFORE.match(line):
            pending.append(line)
            continue
        elif blocks:
            blocks[-1][2].extend([*pending, line])
        pending = []
    said = {file: "" for file in files}
    for kind, places, lines in blocks:
        for chain in filter(None, map(CHAIN.match, lines)):
            places.update(chain.groups())
        named = [file for file in files if file in places]
        if kind == "error" and len(named) == 1:
            said[named[0]] += "\n".join(lines) + "\n"
    return said


class program:
    """A file that must not compile, and what it announces for the compiler of this name."""

    def __init__(self, file, compiler):
        self.file, self.text = file, pathlib.Path(file).read_text()
        matches = compiler.startswith
        self.expected = self.lines("refuse")
        self.first = [regex for which, regex in re.findall(r"^// refuse-first((?: [^ :]+)*): (.+)$", self.text, re.MULTILINE)
                      if not which or any(map(matches, which.split()))]
        self.accepted = any(map(matches, self.lines("except")))
        self.needs = self.lines("needs")
        self.includes = re.findall(r"^#include .+$", self.text, re.MULTILINE)
        # Macros would change the files after it.
        self.alone = bool(re.search(r"^\s*#\s*(?!include\b|pragma GCC diagnostic )", self.text, re.MULTILINE))

    def lines(self, key):
        return re.findall(rf"^// {key}: (.+)$", self.text, re.MULTILINE)

    def missing(self, output):
        """Returns what the output of the compiler lacks, or an empty string."""
        for regex in self.expected:
            if not re.search(regex, output):
                return f"does not compile, but without the message: {regex}"
        said = first_lines(output)
        for regex in self.first:
            if not re.search(regex, "\n".join(said)):
                return f"the first two lines do not say: {regex}; they are: {' / '.join(said)}"
        return "" if self.expected or self.first else 'no line "// refuse: REGEX" or "// refuse-first: REGEX"'


def joint_unit(programs):
    """One unit of all programs."""
    includes = dict.fromkeys(line for one in programs for line in one.includes)
    return "\n".join([*includes, *(f'namespace program_{i} {{\n#pragma GCC diagnostic push\n#include "{one.file}"\n'
                                   "#pragma GCC diagnostic pop\n}" for i, one in enumerate(programs)), ""])


class checker:
    def __init__(self, compiler, folders, cccl):
        self.compiler, self.folders, self.cccl = compiler, folders, cccl
        self.name = pathlib.Path(compiler).name
        self.nvcc = self.name.startswith("nvcc")

    def diagnose(self, file, needs, *options):
        """Compiles the file, and returns true if that succeeds, and the output."""
        folders = [self.cccl, *self.folders] if "cccl" in needs else self.folders
        command = [self.compiler, "-std=c++20", f"-I{INCLUDE}", *(part for one in folders for part in ("-isystem", one))]
        with tempfile.TemporaryDirectory() as scratch:
            command += ["-x", "cu", "-o", f"{scratch}/out"] if self.nvcc else ["-fsyntax-only"]
            result = subprocess.run([*command, *options, file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    errors="replace")
        return result.returncode == 0, result.stdout

    def skips(self, one):
        """Returns why the program is not compiled, or an empty string."""
        if one.accepted:
            return f"{self.name} accepts the file"
        if "cuda" in one.needs and not self.nvcc and not self.folders:
            return "the CUDA Toolkit is not here"
        if "cccl" in one.needs and (self.cccl is None or version_of_cccl(self.cccl) < 3004000):
            return "no CCCL of version 3.4 or later is here"
        return ""

    def fault_alone(self, one):
        """Compiles a program, and returns what is wrong, or an empty string, and the output."""
        # With -c the front end of nvcc reads the file twice, for the host and for the device; with -ptx only for the
        # device. What it accepts there may still be refused for the host, or by the host compiler.
        compiles, output = self.diagnose(one.file, one.needs, *(["-ptx"] if self.nvcc else []))
        if compiles and self.nvcc:
            compiles, output = self.diagnose(one.file, one.needs, "-c")
        if compiles:
            return "compiles, and must not", output
        return one.missing(output), output

    def left_over(self, programs):
        """Compiles the programs in one unit, and returns those that did not show their errors there."""
        limit = ["-ferror-limit=0"] if "clang" in self.name else ["-ptx", "-Xcudafe", "--error_limit=100000"] if self.nvcc else []
        with tempfile.TemporaryDirectory() as scratch:
            unit = pathlib.Path(scratch) / "together.cpp"
            unit.write_text(joint_unit(programs))
            _, output = self.diagnose(unit, {need for one in programs for need in one.needs}, *limit)
        said = errors_by_file(output, [one.file for one in programs])
        return [one for one in programs if not said[one.file] or one.missing(said[one.file])]

    def faults(self, programs, alone):
        """What is wrong with each program that does not pass, and the output, by its file."""
        rest = [] if alone else [one for one in programs if not one.alone]
        by_itself = [one for one in programs if one not in rest]
        several = len(rest) > 1
        while several:
            before, rest = len(rest), self.left_over(rest)
            several = 1 < len(rest) < before - 1  # if the unit found one, to compile each alone takes no longer
        found = {one.file: self.fault_alone(one) for one in [*by_itself, *rest]}
        return {file: fault for file, fault in found.items() if fault[0]}


def self_test():
    gcc = ("In file included from a.hpp:1,\n                 from b.cpp:2:\na.hpp: In instantiation of ‘f()’:\n"
           "b.cpp:9:3:   required from here\na.hpp:5:1: error: static assertion failed: write this\n    5 | x\n"
           "      | ^\na.hpp:5:1: note: second\na.hpp:6:1: error: third\n")
    nvcc = 'b.cu(9): error: static assertion failed with "write this"\n  static_assert(x);\n  ^\n'
    failed = [said for said, output in (("gcc", gcc), ("nvcc", nvcc)) if "write this" not in " ".join(first_lines(output))]
    if "third" in " ".join(first_lines(gcc)):
        failed.append("gcc: more than two lines")

    # Each output has the errors "of b" and "also of b" in b.cpp, and "of c" in c.cpp. A warning, an error with a note about
    # another file, and an error that names both files belong to nobody else.
    gcc = ("b.cpp: In function ‘void program_0::f()’:\nb.cpp:3:1: warning: not an error of c\n"
           "b.cpp:4:1: error: of b\n    4 | x\nc.cpp:1:1: note: declared here\na.hpp:5:1: note: no match\n"
           "a.hpp: In substitution of ‘f()’:\nb.cpp:4:1:   required from here\na.hpp:6:1: note: evaluated to false\n"
           "In file included from a.hpp:1:\na.hpp: In instantiation of ‘g()’:\na.hpp:9:1:   required from ‘h()’\n"
           "b.cpp:5:1:   required from here\na.hpp:7:1: error: also of b\n"
           "a.hpp: In instantiation of ‘g()’:\nc.cpp:2:1:   required from here\na.hpp:7:1: error: of c\n    7 | x\n"
           "a.hpp:8:1: error: of nobody\n"
           "b.cpp:5:1:   in ‘constexpr’ expansion of ‘h()’\nc.cpp:5:1:   required from here\na.hpp:7:1: error: of both\n"
           "c.cpp:9:1: warning: not an error\n")
    clang = ("b.cpp:3:1: warning: not an error of c\nb.cpp:4:1: error: of b\n    x\n    ^\nc.cpp:1:1: note: declared here\n"
             "In file included from unit.cpp:1:\na.hpp:7:1: error: also of b\n"
             "a.hpp:9:1: note: in instantiation of template class 'h' requested here\n"
             "b.cpp:5:1: note: in instantiation of template class 'k' requested here\n"
             "In file included from unit.cpp:1:\na.hpp:7:1: error: of c\n"
             "c.cpp:2:1: note: in instantiation of template class 'h' requested here\na.hpp:8:1: error: of nobody\n"
             "a.hpp:7:1: error: of both\nb.cpp:5:1: note: while substituting x\nc.cpp:5:1: note: in instantiation of x\n"
             "c.cpp:9:1: warning: not an error\n")
    nvcc = ('b.cpp(3): warning #1: not an error of c\n\nb.cpp(4): error: of b "f()" (declared at line 1 of c.cpp) is deleted\n'
            '    x\n    ^\n\na.hpp(7): error #20: also of b\n          detected during:\n'
            '            instantiation of class "h" at line 9\n            instantiation of class "k" at line 5 of b.cpp\n\n'
            'a.hpp(7): error: of c\n          detected during instantiation of class "h" at line 2 of c.cpp\n\n'
            'a.hpp(8): error: of nobody\n\na.hpp(7): error: of both\n          detected during:\n'
            '            instantiation of "x" at line 5 of b.cpp\n            instantiation of "x" at line 5 of c.cpp\n\n'
            'c.cpp(9): warning #1: not an error\n\n4 errors detected in the compilation of "unit.cu".\n')
    for who, output in (("gcc", gcc), ("clang", clang), ("nvcc", nvcc)):
        said = errors_by_file(output, ["b.cpp", "c.cpp"])
        found = {file: re.findall(r"error(?: #\d+)?: ((?:also )?of \w+)", text) for file, text in said.items()}
        if found != {"b.cpp": ["of b", "also of b"], "c.cpp": ["of c"]}:
            failed.append(f"{who}: attributed {found}")
        if "not an error" in "".join(said.values()):
            failed.append(f"{who}: a warning counts as an error")
    if "evaluated to false" not in errors_by_file(gcc, ["b.cpp", "c.cpp"])["b.cpp"]:
        failed.append("gcc: a note is lost")
    if any(errors_by_file("a.cpp:1:1: error: x\nfatal error: y\n", ["b.cpp"]).values()):
        failed.append("an error of another file")
    print(*failed, f"tally: {11 - len(failed)} passed, {len(failed)} failed, 0 skipped", sep="\n")
    sys.exit(1 if failed else 0)


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cccl", type=pathlib.Path)
    parser.add_argument("--toolkit", default="")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("compiler")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()

    check = checker(args.compiler, [one for one in args.toolkit.split(":") if one], args.cccl)
    programs, skipped = [], 0
    for one in (program(str(pathlib.Path(file).resolve()), check.name) for file in args.files):
        why = check.skips(one)
        if why:
            print(f"skipped: {pathlib.Path(one.file).name} with {check.name}: {why}")
            skipped += 1
        else:
            programs.append(one)
    faults = check.faults(programs, args.alone)
    for file, (why, output) in faults.items():
        print(f"{file} with {check.name}:\n{output}")
    for file, (why, output) in faults.items():
        print(f"FAILED {file}: {why}")
    print(f"tally: {len(programs) - len(faults)} passed, {len(faults)} failed, {skipped} skipped")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
