#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of versions in docs/interop.md: the tests of interop/ with each CCCL and RMM that is found.

    versions.py --fetch        downloads each CCCL of FETCHED into .deps/cccl/
    versions.py --write        compiles the tests with each CCCL, runs them on the double of CUDA, and writes the table
                               (about ten minutes of one core; --jobs N)
    versions.py --check CCCL... [--rmm DIR]   the table says of these folders, which a build tests, that their tests run;
                               a version that it does not name (a new release) is skipped
    versions.py --self-test    plants tables and checks which are refused

A CCCL is a folder with cuda/std/__cccl/version.h: that of the Toolkit, of the wheel in .deps/wheels, and .deps/cccl/*.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/interop.md"
TOOLKIT = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
WHEELS = ROOT / ".deps/wheels"
TABLE = re.compile(r"<!-- versions -->\n(.*?)<!-- /versions -->", re.S)
FETCHED = ("13.1.115", "13.2.86", "13.3.3.4.1", "13.3.4.3.1")  # versions of nvidia-cuda-cccl: CCCL 3.1, 3.2, 3.3, 3.4
TESTS = {"mr.hpp": ["mr.cpp"], "thrust.hpp": ["thrust.cpp", "thrust_allocator.cpp"], "cub.hpp": ["cub.cpp"]}
RUNS, FAILS = "runs", "fails"


def version_of(folder):
    """The version of the CCCL in that folder, such as (3, 5, 0), or None."""
    header = folder / "cuda/std/__cccl/version.h"
    found = re.search(r"^#define CCCL_VERSION (\d+)$", header.read_text(), re.M) if header.exists() else None
    return (int(found[1]) // 1000000, int(found[1]) // 1000 % 1000, int(found[1]) % 1000) if found else None


def version_of_rmm(wheels):
    header = wheels / "librmm/include/rmm/version_config.hpp"
    parts = [re.search(rf"^#define RMM_VERSION_{part} (\d+)", header.read_text(), re.M)
             for part in ("MAJOR", "MINOR", "PATCH")] if header.exists() else [None]
    return tuple(int(part[1]) for part in parts) if all(parts) else None


def text(version):
    return ".".join(map(str, version))


def cccls():
    """Each version that is here, with its include folders."""
    found = {}
    folders = [TOOLKIT / "cccl", WHEELS / "nvidia/cu13/include/cccl"]
    folders += sorted((ROOT / ".deps/cccl").glob("*/nvidia/cu13/include/cccl"))
    folders += sorted((ROOT / ".deps/cccl").glob("*/libcudacxx/include"))  # a checkout
    for folder in folders:
        if version := version_of(folder):
            source = folder.parents[1]
            parts = [source / "thrust", source / "cub"] if folder.parent.name == "libcudacxx" else []
            found.setdefault(version, [folder, *parts])
    return dict(sorted(found.items()))


def fetch():
    for wheel in FETCHED:
        target = ROOT / ".deps/cccl" / wheel
        if not target.exists():
            subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target,
                            f"nvidia-cuda-cccl=={wheel}"], check=True)


class Builder:
    def __init__(self, compiler, scratch):
        self.compiler, self.scratch = compiler, pathlib.Path(scratch)
        self.flags = ["-std=c++20", "-O0", "-DVRAM_CUDART_DOUBLE", f"-I{ROOT}/include", f"-I{ROOT}", f"-I{ROOT}/tests"]

    def compile(self, source, name, folders, *more):
        target = self.scratch / f"{name}.o"
        includes = [part for folder in [*folders, TOOLKIT] for part in ("-isystem", folder)]
        made = subprocess.run([*self.compiler.split(), *self.flags, *more, *includes, "-c", source, "-o", target],
                              capture_output=True, text=True)
        return (target, "") if made.returncode == 0 else (None, made.stderr)

    def double(self):
        sources = [ROOT / "tests/main.cpp", *sorted((ROOT / "tests/doubles/cudart").glob("*.cpp"))]
        made = [self.compile(source, f"double-{source.stem}", []) for source in sources]
        assert all(target for target, _ in made), "".join(error for _, error in made)
        return [target for target, _ in made]

    def runs(self, name, sources, folders, double, *libraries, flags=()):
        """Compiles, links and runs these tests; returns whether all pass, and the output."""
        objects = []
        for source in sources:
            target, error = self.compile(ROOT / "tests/interop" / source, f"{name}-{source}", folders, *flags)
            if target is None:
                return False, error
            objects.append(target)
        program = self.scratch / name
        paths = [f"-Wl,-rpath,{pathlib.Path(one).parent}" for one in libraries]
        linked = subprocess.run([self.compiler.split()[-1], *objects, *double, *libraries, *paths, "-o", program,
                                 "-pthread", "-ldl"], capture_output=True, text=True)
        if linked.returncode != 0:
            return False, linked.stderr
        run = subprocess.run([program], capture_output=True, text=True)
        return run.returncode == 0, run.stdout + run.stderr


def measure(compiler, jobs):
    """The result of each header with each version, and that of RMM."""
    versions = cccls()
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(jobs) as threads:
        build = Builder(compiler, scratch)
        double = build.double()

        def one(header, version):
            good, said = build.runs(f"{header}-{text(version)}", TESTS[header], versions[version], double)
            print(f"{header} with CCCL {text(version)}: {RUNS if good else FAILS}", flush=True)
            if not good:
                print("\n".join([line for line in said.splitlines() if "error" in line.lower()][:5]), flush=True)
            return good

        cells = {(header, version): threads.submit(one, header, version) for header in TESTS for version in versions}
        rmm, newest = version_of_rmm(WHEELS), version_of(WHEELS / "nvidia/cu13/include/cccl")
        of_rmm = None
        if rmm and newest:
            folders = [*versions[newest], WHEELS / "librmm/include", WHEELS / "rapids_logger/include"]
            libraries = [WHEELS / "librmm/lib64/librmm.so", WHEELS / "rapids_logger/lib64/librapids_logger.so"]
            good, said = build.runs("rmm", ["rmm.cpp", "rmm_to_vram.cpp"], folders, double, *libraries,
                                    flags=["-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE"])
            print(f"rmm.hpp with RMM {text(rmm)} and CCCL {text(newest)}: {RUNS if good else FAILS}")
            if not good:
                print(said[-2000:])
            of_rmm = (rmm, newest, good)
        return list(versions), {key: cell.result() for key, cell in cells.items()}, of_rmm


def table(versions, cells, of_rmm):
    word = {True: RUNS, False: FAILS, None: ""}
    lines = ["| | " + " | ".join(f"CCCL {text(version)}" for version in versions) + " |",
             "|---|" + "---|" * len(versions)]
    lines += [f"| `{header}` | " + " | ".join(word[cells[header, version]] for version in versions) + " |"
              for header in TESTS]
    if of_rmm:
        rmm, newest, good = of_rmm
        lines.append(f"| `rmm.hpp` with RMM {text(rmm)} | "
                     + " | ".join(word[good] if version == newest else "" for version in versions) + " |")
    return "\n".join(lines) + "\n"


def problems(page, folders, rmm):
    """What the table of that page lacks, of the versions in these folders."""
    found = TABLE.search(page)
    if not found:
        return ["the page has no table of versions"]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[1].splitlines()]
    columns = {name: i for i, name in enumerate(lines[0])} if lines else {}
    rows = {cells[0].replace("`", ""): cells for cells in lines[2:]}
    wrong = []
    newest = None
    for folder in folders:
        version = version_of(folder)
        if version is None:
            continue
        newest = max(version, newest or version)
        at = columns.get(f"CCCL {text(version)}")
        for header in TESTS:
            if at is None or rows.get(header, [""] * (at + 1))[at] != RUNS:
                wrong.append(f"{header} with CCCL {text(version)} is not said to run")
    if rmm and newest:
        row = rows.get(f"rmm.hpp with RMM {text(rmm)}")
        if row is None or RUNS not in row:
            wrong.append(f"rmm.hpp with RMM {text(rmm)} is not said to run")
    return wrong


def self_test():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        cccl = pathlib.Path(scratch)
        (cccl / "cuda/std/__cccl").mkdir(parents=True)
        (cccl / "cuda/std/__cccl/version.h").write_text("#define CCCL_VERSION 3005000\n")
        good = {(header, (3, 5, 0)): True for header in TESTS}
        page = "<!-- versions -->\n{}<!-- /versions -->\n"
        whole = page.format(table([(3, 5, 0)], good, ((26, 10, 0), (3, 5, 0), True)))
        for what, expected, text_of_page, rmm in (
                ("a whole table", 0, whole, (26, 10, 0)),
                ("no table", 1, "", None),
                ("another version of CCCL", len(TESTS), whole.replace("3.5.0", "3.4.0"), None),
                ("another version of RMM", 1, whole, (26, 12, 0)),
                ("a failure", 1, page.format(table([(3, 5, 0)], good | {("cub.hpp", (3, 5, 0)): False}, None)), None),
                ("a missing header", 1, whole.replace("`cub.hpp`", "`cup.hpp`"), None)):
            found = problems(text_of_page, [cccl], rmm)
            passed, failed = passed + (len(found) == expected), failed + (len(found) != expected)
            if len(found) != expected:
                print(f"FAILED: {what}: {found}")
        both = version_of(cccl) == (3, 5, 0) and version_of(cccl / "cuda") is None
        passed, failed = passed + both, failed + (not both)
    print(f"tally: {passed} passed, {failed} failed, 0 skipped")
    return failed != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    for action in ("--fetch", "--write", "--self-test"):
        what.add_argument(action, action="store_true")
    what.add_argument("--check", nargs="+", type=pathlib.Path, metavar="CCCL")
    parser.add_argument("--rmm", type=pathlib.Path, metavar="DIR", help="the folder that contains librmm/")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--jobs", type=int, default=1)
    o = parser.parse_args()
    if o.self_test:
        return self_test()
    if o.fetch:
        return fetch()
    if o.check:
        page = PAGE.read_text()
        unknown = [text(version) for version in map(version_of, o.check) if version and f"CCCL {text(version)} " not in page]
        if unknown:
            print(f"skipped: docs/interop.md does not name CCCL {' and '.join(unknown)}; cmake/versions.py --write adds it")
            return 0
        wrong = problems(page, o.check, version_of_rmm(o.rmm) if o.rmm else None)
        print("\n".join([*wrong, "run cmake/versions.py --write"] if wrong else ["docs/interop.md names these versions"]))
        return bool(wrong)
    written = table(*measure(o.compiler, o.jobs))
    PAGE.write_text(TABLE.sub(lambda _: f"<!-- versions -->\n{written}<!-- /versions -->", PAGE.read_text()))
    return "fails" in written


if __name__ == "__main__":
    sys.exit(main())
