#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a file does not compile, and that the compiler prints the message that the file announces.

    refuse.py [--cccl DIR] [--precompiled FOLDER] COMPILER FILE [INCLUDE...]
        COMPILER: g++, clang++ or nvcc; INCLUDE: further folders, for "// needs: cuda"; DIR: a CCCL of version 3.4 or later;
        FOLDER: vram's headers, precompiled for this compiler
    refuse.py --precompile FOLDER COMPILER    writes FOLDER; for g++ and clang++

FILE holds lines

    // refuse: REGEX          the output of the compiler matches REGEX
    // refuse-first: REGEX    so does the first or second line of its first diagnostic
    // refuse-first g++ clang++: REGEX    for these compilers only
    // needs: cuda            it is compiled only if the CUDA Toolkit's headers exist
    // needs: cccl            it is compiled only if a CCCL of version 3.4 or later exists
    // except: nvcc           this compiler accepts the file, and is not run
"""
import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"

# Lines that lead to a diagnostic or show the source, and are no part of its text.
CONTEXT = re.compile(r"^(In file included from|In module| +from |\s*$|.*: (In |required |  required|   recursively)"
                     r"|.*:   (required|recursively)|\s*\d* *\||\s*[|^~])")


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


def self_test():
    gcc = ("In file included from a.hpp:1,\n                 from b.cpp:2:\na.hpp: In instantiation of ‘f()’:\n"
           "b.cpp:9:3:   required from here\na.hpp:5:1: error: static assertion failed: write this\n    5 | x\n"
           "      | ^\na.hpp:5:1: note: second\na.hpp:6:1: error: third\n")
    nvcc = 'b.cu(9): error: static assertion failed with "write this"\n  static_assert(x);\n  ^\n'
    failed = [said for said, output in (("gcc", gcc), ("nvcc", nvcc)) if "write this" not in " ".join(first_lines(output))]
    if "third" in " ".join(first_lines(gcc)):
        failed.append("gcc: more than two lines")
    print(f"tally: {3 - len(failed)} passed, {len(failed)} failed, 0 skipped")
    sys.exit(1 if failed else 0)


def precompile(folder, compiler):
    folder.mkdir(parents=True, exist_ok=True)
    header = folder / "headers.hpp"
    header.write_text("#include <vram/vram.hpp>\n#include <vram/sim/sim.hpp>\n")
    # For "-include headers.hpp", clang takes headers.hpp.pch and g++ takes headers.hpp.gch.
    clang = "clang" in pathlib.Path(compiler).name
    options = ["-o", f"{header}.pch", "-fpch-instantiate-templates"] if clang else ["-o", f"{header}.gch"]
    subprocess.run([compiler, "-std=c++20", f"-I{INCLUDE}", *options, "-x", "c++-header", header], check=True)


def worth_precompiled(compiler, text):
    """Returns true if the program `text` compiles faster with the precompiled headers. g++ instantiates their templates
    again in every program, which takes longer than to parse the few headers of a program without the simulated device."""
    return "clang" in compiler or re.search(r"^#include <vram/sim/", text, re.MULTILINE)


def diagnose(command, file):
    """Compiles the file, and returns the exit status and the output."""
    result = subprocess.run([*command, file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return result.returncode, result.stdout


def main():
    if sys.argv[1] == "--self-test":
        self_test()
    if sys.argv[1] == "--precompile":
        precompile(pathlib.Path(sys.argv[2]), sys.argv[3])
        return
    cccl = None
    if sys.argv[1] == "--cccl":
        cccl = pathlib.Path(sys.argv[2])
        del sys.argv[1:3]
    first_includes = []
    if sys.argv[1] == "--precompiled":
        first_includes = ["-include", f"{sys.argv[2]}/headers.hpp"]
        del sys.argv[1:3]
    compiler, file, folders = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    text = file.read_text()
    if not worth_precompiled(pathlib.Path(compiler).name, text):
        first_includes = []
    expected = re.findall(r"^// refuse: (.+)$", text, re.MULTILINE)
    name = pathlib.Path(compiler).name
    nvcc = name.startswith("nvcc")
    first = [regex for which, regex in re.findall(r"^// refuse-first((?: [^ :]+)*): (.+)$", text, re.MULTILINE)
             if not which or any(name.startswith(one) for one in which.split())]
    if not expected and not first:
        sys.exit(f'{file}: no line "// refuse: REGEX" or "// refuse-first: REGEX"')
    if any(name.startswith(one) for one in re.findall(r"^// except: (\S+)$", text, re.MULTILINE)):
        print(f"skipped: {name} accepts the file")
        return
    if re.search(r"^// needs: cuda$", text, re.MULTILINE) and not nvcc and not folders:
        print("skipped: the CUDA Toolkit is not here")
        return
    if re.search(r"^// needs: cccl$", text, re.MULTILINE):
        if cccl is None or version_of_cccl(cccl) < 3004000:
            print("skipped: no CCCL of version 3.4 or later is here")
            return
        folders = [cccl, *folders]

    with tempfile.TemporaryDirectory() as scratch:
        command = [compiler, "-std=c++20", f"-I{INCLUDE}", *(part for folder in folders for part in ("-isystem", folder))]
        if nvcc:
            # With -c the front end of nvcc reads the file twice, for the host and for the device; with -ptx only for the
            # device. What it accepts there may still be refused for the host, or by the host compiler.
            command += ["-x", "cu", "-o", f"{scratch}/out"]
            status, output = diagnose([*command, "-ptx"], file)
            if status == 0:
                status, output = diagnose([*command, "-c"], file)
        else:
            status, output = diagnose([*command, *first_includes, "-fsyntax-only"], file)
    if status == 0:
        sys.exit(f"{file}: compiles, and must not")
    missing = [regex for regex in expected if not re.search(regex, output)]
    if missing:
        sys.exit(f"{output}\n{file}: does not compile, but without the message: {missing[0]}")
    said = "\n".join(first_lines(output))
    missing = [regex for regex in first if not re.search(regex, said)]
    if missing:
        sys.exit(f"{output}\n{file}: the first two lines do not say: {missing[0]}\nthey are\n{said}")


if __name__ == "__main__":
    main()
