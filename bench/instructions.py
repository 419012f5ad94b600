#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions that a pool executes for an allocation and its free, counted by callgrind: no clock, no GPU.

The pool allocates from `address_resource`, which hands out addresses only. `hot` frees a block of 1 MiB and allocates it
again on one stream. `churn` replaces one of 10 000 live blocks of random sizes. Each case runs with two numbers of
pairs; the difference of the two counts, divided by the difference of the pairs, is the count of one pair.
"""
import argparse
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
PAIRS = (20_000, 60_000)

PROGRAM = r"""
#include "support/address_resource.hpp"
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <cstdlib>
#include <cstring>
#include <vector>
using namespace vram;
using source = bench::address_resource<bench::streams_are::idle>;
int main(int, char** argv) {
    std::size_t const pairs = std::strtoul(argv[2], nullptr, 10);
    pool<stream_ordered<source>> memory;
    source::platform::stream const stream{1};
    std::size_t random = 1;
    auto const next = [&] { return random = random * 6364136223846793005u + 1442695040888963407u, random >> 33; };
    auto const size = [&] { return (std::size_t{1} << (9 + next() % 12)) + next() % 512; };
    if (std::strcmp(argv[1], "hot") == 0) {
        for (std::size_t i = 0; i < pairs; ++i) { memory.deallocate(stream, memory.allocate(stream, 1_MiB), 1_MiB); }
        return 0;
    }
    struct block { void* p; std::size_t bytes; };
    std::vector<block> live(10'000);
    for (auto& b : live) { b = {nullptr, size()}; b.p = memory.allocate(stream, b.bytes); }
    for (std::size_t i = 0; i < pairs; ++i) {
        auto& b = live[next() % live.size()];
        memory.deallocate(stream, b.p, b.bytes);
        b.bytes = size();
        b.p = memory.allocate(stream, b.bytes);
    }
    for (auto& b : live) { memory.deallocate(stream, b.p, b.bytes); }
}
"""


def tree(commit, folder):
    """Unpacks the headers and the benchmark's support files of `commit`."""
    archive = subprocess.run(["git", "-C", str(TOP), "archive", commit, "include", "bench/support"], check=True,
                             stdout=subprocess.PIPE).stdout
    tarfile.open(fileobj=io.BytesIO(archive)).extractall(folder)
    return folder


def build(root, folder, compiler):
    source, program = folder / "pairs.cpp", folder / "pairs"
    source.write_text(PROGRAM)
    subprocess.run([compiler, "-std=c++20", "-O2", "-DNDEBUG", "-I", str(root / "include"), "-I", str(root / "bench"), str(source),
                    "-o", str(program), "-pthread"], check=True)
    return program


def count(program, case, pairs, folder):
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", str(program), case, str(pairs)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    return int(re.search(r"Collected : (\d+)", said).group(1))


def per_pair(program, case, folder):
    few, many = (count(program, case, pairs, folder) for pairs in PAIRS)
    return (many - few) / (PAIRS[1] - PAIRS[0])


def main():
    parser = argparse.ArgumentParser(prog="./dev bench instructions", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="compare with the headers of this commit")
    parser.add_argument("--most", type=float, default=2.0, help="allowed growth in per cent (2)")
    parser.add_argument("--compiler", default="g++")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("instructions: valgrind is not installed (Debian: valgrind)")

    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        programs = {}
        for name, root in [("now", TOP)] + ([(args.against, None)] if args.against else []):
            folder = scratch / name
            folder.mkdir()
            programs[name] = build(root or tree(args.against, folder), folder, args.compiler)
        for case in ("hot", "churn"):
            counts = {name: per_pair(program, case, scratch) for name, program in programs.items()}
            line = f"{case:6} {counts['now']:8.1f} instructions for a pair"
            if args.against:
                growth = 100 * (counts["now"] / counts[args.against] - 1)
                failed |= growth > args.most
                line += f", {counts[args.against]:.1f} at {args.against} ({growth:+.1f} %)"
            print(line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
