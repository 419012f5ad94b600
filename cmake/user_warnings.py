#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No warning in a user's program: compiles programs that include vram with -I, optimised, with warnings as errors.

Some warnings (-Wmaybe-uninitialized) appear only with optimisation, and the tests are compiled without.

    user_warnings.py --compiler CXX [--toolkit DIR:DIR] FILE...    prints the warnings of each program (exit 1)
    user_warnings.py --compiler CXX [...] --together FILE...          compiles the programs as one, which is quicker
    user_warnings.py --compiler CXX --self-test                    a planted warning is found
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion"]  # the last: clang's -Wconversion


def command(compiler, toolkit, source):
    if pathlib.Path(compiler).name.startswith("nvcc"):
        return [compiler, "-std=c++20", "-O2", "-Werror=all-warnings", "-Xcompiler=" + ",".join([*WARNINGS, "-Werror"]),
                f"-I{TOP / 'include'}", "-x", "cu", "-c", str(source), "-o", "/dev/null"]
    # Those of clang come from its front end, with and without optimisation.
    level = ["-fsyntax-only"] if pathlib.Path(compiler).name.startswith("clang") else ["-O2"]
    return [compiler, "-std=c++20", *level, *WARNINGS, "-Wpedantic", "-Werror", f"-I{TOP / 'include'}",
            *(flag for folder in toolkit for flag in ("-isystem", folder)), "-x", "c++", "-c", str(source), "-o", "/dev/null"]


def said(compiler, toolkit, source):
    """The warnings of the compiler for a program; empty if it compiles without a warning."""
    result = subprocess.run(command(compiler, toolkit, source), capture_output=True, text=True, errors="replace")
    return "" if result.returncode == 0 else result.stderr + result.stdout or f"exit code {result.returncode}"


def self_test(compiler):
    planted = {"shadow": "int f(int a) { { int a = 1; (void)a; } return a; }", "unused": "void f(int a) {}",
               "narrowing": "char f(int a) { return a; }"}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "user.cpp"
        source.write_text("#include <vram/base/bytes.hpp>\nvram::bytes f() { return {1}; }\n")
        clean = said(compiler, [], source)
        if clean:
            print(f"a program without a fault: {clean}")
            failed += 1
        for name, code in planted.items():
            source.write_text(code + "\n")
            if not said(compiler, [], source):
                print(f"{name}: not found")
                failed += 1
    print(f"tally: {len(planted) + 1 - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--toolkit", default="")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("sources", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    if args.self_test:
        sys.exit(self_test(args.compiler))
    if args.together:
        folder = tempfile.TemporaryDirectory()
        joined = pathlib.Path(folder.name) / "together.cpp"
        subprocess.run([sys.executable, "-B", TOP / "cmake/together.py", joined, *args.sources], check=True)
        args.sources = [joined]
    failed = 0
    for source in args.sources:
        text = said(args.compiler, [d for d in args.toolkit.split(":") if d], source)
        if text:
            print(f"{source}: a user sees warnings\n{text}")
            failed += 1
    print(f"tally: {len(args.sources) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)
