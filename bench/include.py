#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of including a header: g++ -fsyntax-only of one #include, above that of an empty file.

Every public header of vram is measured; beside them RMM's and CCCL's from the wheels (./dev bench fetches those),
where a CUDA Toolkit is there to compile them. Each round measures every subject once, so that a
slow moment of the machine meets all of them; the medians of processor time over the rounds are compared.

With --nvcc, instead, the time of nvcc -O2 for a whole .cu file: an empty one, one with five headers of the standard library,
one that includes all of vram, and one that uses a pool. The least user time over the rounds is compared, as a multiple of
the time that the five headers add to the empty file, because seconds depend on the machine and its load. The goals are
4.5 s and 5 s on a machine where the empty file takes 0.9 s and the five headers 2.3 s.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
RIVALS = ["rmm/mr/pool_memory_resource.hpp", "rmm/mr/limiting_resource_adaptor.hpp", "rmm/cuda_stream_view.hpp",
          "rmm/device_buffer.hpp", "cuda/memory_resource", "cuda_runtime_api.h"]
GOALS = [("vram/pool/pool.hpp", "rmm/mr/pool_memory_resource.hpp", 0.30),
         ("vram/layer/limiting.hpp", "rmm/mr/limiting_resource_adaptor.hpp", 0.25)]


NVCC_GOAL_EMPTY, NVCC_GOAL_FIVE = 0.9, 2.3  # seconds on the machine of the goals
NVCC_SUBJECTS = {  # name -> the file, and its goal in seconds on that machine
    "empty": ("", None),
    "five standard headers": ("".join(f"#include <{h}>\n" for h in ("vector", "string", "memory", "functional", "algorithm")), None),
    "vram.hpp and cuda/cuda.hpp": ("#include <vram/vram.hpp>\n#include <vram/cuda/cuda.hpp>\n", 4.5),
    "one pool": ("""#include <vram/cuda/cuda.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
int main() {
    vram::pool<vram::stream_ordered<vram::cuda_resource>> memory;
    vram::cuda_stream stream;
    memory.deallocate(stream, memory.allocate(stream, 1000), 1000);
}
""", 5.0),
}


def find_toolkit():
    nvcc = shutil.which("nvcc")
    homes = [os.environ.get("CUDA_PATH"), nvcc and pathlib.Path(nvcc).resolve().parents[1], "/usr/local/cuda"]
    for home in filter(None, homes):
        for include in ("include", "targets/x86_64-linux/include"):
            if (pathlib.Path(home) / include / "cuda_runtime_api.h").exists():
                return pathlib.Path(home) / include
    return None


def compiler_seconds():
    """The processor time of the compilers so far, without other processes."""
    used = os.times()
    return used.children_user + used.children_system


def measure_nvcc(args, toolkit):
    nvcc = toolkit and next((p for p in (shutil.which("nvcc"), toolkit.parent / "bin/nvcc") if p and pathlib.Path(p).exists()), None)
    if not nvcc:
        sys.exit("bench include: no nvcc here")
    times = {name: [] for name in NVCC_SUBJECTS}
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "unit.cu"
        for _ in range(args.rounds):
            for name, (text, _) in NVCC_SUBJECTS.items():
                source.write_text(text)
                start = os.times().children_user
                command = [nvcc, "-std=c++20", "-O2", f"-I{TOP / 'include'}", "-c", str(source), "-o", "/dev/null"]
                if subprocess.run(command).returncode:
                    sys.exit(f"bench include: {name} does not compile")
                times[name].append(os.times().children_user - start)
    least = {name: min(t) for name, t in times.items()}
    unit = least["five standard headers"] - least["empty"]
    rows, missed = [], 0
    print(f"nvcc -O2, user time, the least of {args.rounds}; and above the empty file as a multiple of the five headers:")
    for name, seconds in least.items():
        goal = NVCC_SUBJECTS[name][1]
        multiple = (seconds - least["empty"]) / unit
        verdict = ""
        if goal is not None:
            most = (goal - NVCC_GOAL_EMPTY) / (NVCC_GOAL_FIVE - NVCC_GOAL_EMPTY)
            missed += multiple > most
            verdict = f"  {'ok' if multiple <= most else 'SHORT'} (goal <= {most:.2f}: {least['empty'] + most * unit:.2f} s here)"
        print(f"  {seconds:6.2f} s {multiple:6.2f}  {name}{verdict}")
        rows.append({"bench": "include", "case": "nvcc", "subject": name, "metric": "seconds", "value": seconds, "unit": "s"})
        rows.append({"bench": "include", "case": "nvcc", "subject": name, "metric": "multiple", "value": multiple, "unit": ""})
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return missed > 0


def main():
    parser = argparse.ArgumentParser(prog="./dev bench include", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--only", action="append", default=[], help="headers whose path contains this")
    parser.add_argument("--wheels", type=pathlib.Path, default=TOP / ".deps/wheels")
    parser.add_argument("--nvcc", action="store_true", help="whole .cu files with nvcc -O2 instead")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path)
    args = parser.parse_args()

    toolkit = find_toolkit()
    if args.nvcc:
        return measure_nvcc(args, toolkit)
    wheel_includes = [args.wheels / d for d in ("nvidia/cu13/include/cccl", "librmm/include", "rapids_logger/include")]
    vram = [f"-I{TOP / 'include'}"]
    cuda = vram + (["-isystem", str(toolkit)] if toolkit else [])
    peers = [flag for d in wheel_includes for flag in ("-isystem", str(d))] + cuda

    subjects = {"": vram}  # header -> how it is compiled; the empty one is the reference of all others
    for path in sorted((TOP / "include/vram").rglob("*.hpp")):
        header = path.relative_to(TOP / "include")
        room = header.parts[1]
        if room in ("cuda", "interop") and not toolkit:
            continue
        subjects[str(header)] = {"cuda": cuda, "interop": peers}.get(room, vram)
    if toolkit and all(d.is_dir() for d in wheel_includes):
        subjects |= {header: peers for header in RIVALS}
    else:
        missing = "CUDA Toolkit is" if not toolkit else "wheels of CCCL and RMM are"
        print(f"No comparison with RMM and CCCL: the {missing} not here.")
    if args.only:
        subjects = {h: f for h, f in subjects.items() if not h or any(part in h for part in args.only)}

    times = {header: [] for header in subjects}
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "unit.cpp"
        for turn in range(args.rounds + 1):  # the first warms the file cache and is not counted
            for header in list(times):
                source.write_text(f"#include <{header}>\n" if header else "")
                command = [args.compiler, "-std=c++20", "-fsyntax-only", *subjects[header], str(source)]
                start = compiler_seconds()
                result = subprocess.run(command, capture_output=True, text=True, errors="replace")
                if result.returncode:
                    error = next((line for line in result.stderr.splitlines() if "error" in line), "")
                    print(f"left out: {header} does not compile here: {error}")
                    del times[header]
                elif turn:
                    times[header].append(compiler_seconds() - start)

    empty = statistics.median(times.pop(""))
    cost = {header: max(0.0, statistics.median(t) - empty) for header, t in times.items()}
    print(f"empty file {empty * 1000:.0f} ms; above it, median of {args.rounds}:")
    for header, seconds in cost.items():
        print(f"  {seconds * 1000:6.0f} ms  {header}")

    rows = [{"bench": "include", "case": "cost", "subject": h, "metric": "seconds", "value": s, "unit": "s"}
            for h, s in cost.items()]
    missed = 0
    for ours, theirs, goal in GOALS:
        if ours in cost and theirs in cost:
            ratio = cost[ours] / cost[theirs]
            missed += ratio > goal
            print(f"{'ok   ' if ratio <= goal else 'SHORT'} {ours} is {ratio:.2f} of {theirs} (goal <= {goal:.2f})")
            rows.append({"bench": "include", "case": f"{ours} : {theirs}", "subject": ours, "metric": "ratio",
                         "value": ratio, "unit": ""})
        else:
            print(f"open  {ours} : {theirs} (goal <= {goal:.2f}): not both are here")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
