#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles public headers alone, after macros that a user's other headers may have left behind.

    headers.py --compiler C++ [--toolkit DIR[:DIR]] [--wheels DIR] [ROOM...]    each header of the rooms (all rooms)
    headers.py --compiler C++ [...] --for-users [ROOM...]                       each header for users; the others by room
    headers.py --compiler C++ [...] --by-room [ROOM...]                         those of a room in one unit: quicker
    headers.py --compiler C++ [...] --together                                  all of them in one object, linked with itself

A header outside cuda/ and interop/ never sees the Toolkit's include path. A header whose library is not
here is skipped. The compiler may be nvcc.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = TOP / "include"

# Macro names of platform headers, older code and mathematical libraries. Each expands to text that does not compile.
# (libstdc++ undefines min and max as soon as one of its headers is included.)
NAMES = """min max small far near interface check verify assume ensure require expect
ERROR OK IN OUT VOID BOOL BYTE DELETE CONST OPTIONAL DEBUG TRUE FALSE STRICT
I N T B0 B1 Status Success Bool None Always""".split()
HOSTILE = "".join(f"#define {name} @ {name} is a macro here @\n" for name in NAMES)

WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wshadow -Werror".split()

# The libraries that a header of interop/ needs besides the Toolkit. Headers without an entry need none.
NEEDS = {"mr": "cccl", "thrust_allocator": "cccl", "thrust": "cccl", "cub": "cccl", "rmm": "rmm", "torch": "toolkit",
         "nvtx_counters": "toolkit", "nvtx_counter_group": "toolkit", "nvtx_account": "toolkit", "nvtx_counter_books": "toolkit",
         "nvtx_domain": "toolkit", "nvtx_heap": "toolkit", "nvtx_heap_books": "toolkit", "nvtx_memory": "toolkit",
         "nvtx_regions": "toolkit", "nvtx_tagged": "toolkit"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--toolkit", default="", help="include directories of the CUDA Toolkit")
    parser.add_argument("--wheels", default="", help="the folder that holds nvidia/, librmm/ and rapids_logger/")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--by-room", action="store_true")
    parser.add_argument("--for-users", action="store_true")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("rooms", nargs="*")
    return parser.parse_args()

USE = """
namespace {
[[gnu::used]] void use() {
    vram::sim_stream s;
    vram::pool       memory{vram::stream_ordered{vram::sim_resource{}}};
    memory.deallocate(s, memory.allocate(s, 100), 100);
}
} // namespace
"""


class checker:
    def __init__(self, args):
        self.compiler = args.compiler
        self.jobs = args.jobs
        self.nvcc = "nvcc" in pathlib.Path(args.compiler).name
        self.toolkit = [d for d in args.toolkit.split(":") if d]
        self.wheels = pathlib.Path(args.wheels) if args.wheels else None
        # The user's own CPATH must not hide a missing include.
        self.environment = {k: v for k, v in os.environ.items() if k not in ("CPATH", "CPLUS_INCLUDE_PATH")}

    def libraries(self, header):
        """The include directories for `header`, or a sentence that says which library is not here."""
        room = header.parts[0]
        if room not in ("cuda", "interop"):
            return []
        need = NEEDS.get(header.stem) if room == "interop" else "toolkit"
        if need is None:
            return []
        if not self.toolkit and not self.nvcc:
            return "no CUDA Toolkit"
        found = list(self.toolkit)
        if need == "rmm":
            if not self.wheels or not (self.wheels / "librmm").is_dir():
                return "RMM is not here (./dev test --full brings it)"
            found = [str(self.wheels / d) for d in ("nvidia/cu13/include/cccl", "librmm/include", "rapids_logger/include")] + found
        elif need == "cccl":
            found = [d + "/cccl" for d in self.toolkit if os.path.isdir(d + "/cccl")] + found
        return found

    def run(self, text, libraries, *options, both=True):
        command = [self.compiler, "-std=c++20", f"-I{INCLUDE}"]
        for directory in libraries:
            command += ["-isystem", directory]
        suffix = ".cu" if self.nvcc else ".cpp"
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / ("unit" + suffix)
            source.write_text(text)
            if not options and self.nvcc:
                # nvcc has no -fsyntax-only. -cuda reads a file for the host and for the device, and stops before the host
                # compiler, which is checked by itself. -ptx reads it only for the device, which is the same text if no library
                # tells the two apart; the core is read for both in tests/nvcc/ and in the single-file headers.
                options = ("-cuda" if both else "-ptx", "-o", f"{folder}/unit.out")
            elif not options:
                options = ("-fsyntax-only", *WARNINGS)
            result = subprocess.run([*command, *options, str(source)], capture_output=True, text=True,
                                    errors="replace", env=self.environment, cwd=folder)
        return "" if result.returncode == 0 else result.stderr

    def alone(self, header):
        """('passed' | 'failed' | 'skipped', why)"""
        libraries = self.libraries(header)
        if isinstance(libraries, str):
            return "skipped", libraries
        return self.unit([header, header], libraries)

    def by_room(self, headers):
        """Checks units of headers that need equal libraries, by their folders."""
        units, results = {}, {}
        for header in headers:
            libraries = self.libraries(header)
            if isinstance(libraries, str):
                results[header] = "skipped", libraries
            else:
                units.setdefault((header.parts[0], tuple(libraries)), []).append(header)
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            outcomes = pool.map(lambda key: self.unit(units[key], key[1]), units)
            results.update((f"{room} ({len(units[room, libraries])})", outcome)
                           for (room, libraries), outcome in zip(units, outcomes))
        return results

    def unit(self, headers, libraries):
        # Other libraries need not compile after the macros.
        macros = HOSTILE if headers[0].parts[0] not in ("cuda", "interop") else ""
        if self.nvcc:  # nvcc includes standard headers before the first line, so nothing undefines these two later
            macros += "#undef min\n#undef max\n"
        includes = "".join(f"#include <vram/{header}>\n" for header in headers)
        errors = self.run(macros + includes + "int main() {}\n", libraries, both=headers[0].parts[0] in ("cuda", "interop"))
        return ("failed", errors) if errors else ("passed", "")

    def together(self, headers):
        """An object that includes everything must link with itself: nothing is defined twice. AddressSanitizer, if the compiler
        has it, refers to each constant of the object, also to those of inline variables that the linker keeps once."""
        here = [h for h in headers if h.parts[0] != "interop" and not isinstance(self.libraries(h), str)]
        unit = "".join(f"#include <vram/{h}>\n" for h in here) + USE
        options = [f"-L{d}/../lib{bits}" for d in self.toolkit for bits in ("", "64")]
        with tempfile.TemporaryDirectory() as folder:
            made, empty = f"{folder}/unit.o", "int main() {}\n"
            checked = ["-fsanitize=address"]
            if self.run(empty, self.toolkit, *checked, "-o", f"{folder}/empty"):
                checked = []
            errors = self.run(unit, self.toolkit, *checked, "-c", "-o", made) or self.run(
                empty, self.toolkit, *checked, "-pthread", "-o", f"{folder}/both", made, made, *options,
                *(["-lcudart"] if self.toolkit else []))
        return ("failed", errors) if errors else ("passed", "")


def main():
    args = arguments()
    check = checker(args)
    headers = sorted(h.relative_to(INCLUDE / "vram") for h in (INCLUDE / "vram").rglob("*.hpp"))
    chosen = [h for h in headers if not args.rooms or h.parts[0] in args.rooms]
    if args.together:
        results = {"all headers in one object": check.together(headers)}
    elif args.by_room:
        results = check.by_room(chosen)
    elif args.for_users:
        internal = [h for h in chosen if len(h.parts) > 2]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for_users = [h for h in chosen if h not in internal]
            results = dict(zip(for_users, pool.map(check.alone, for_users)))
        results.update(check.by_room(internal))
    else:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            results = dict(zip(chosen, pool.map(check.alone, chosen)))

    for name, (outcome, why) in results.items():
        if outcome == "skipped":
            print(f"skipped: header {name}: {why}")
        elif outcome == "failed":
            print(f"FAILED {name}", *why.splitlines()[:12], sep="\n    ")
    count = [sum(outcome == wanted for outcome, _ in results.values()) for wanted in ("passed", "failed", "skipped")]
    print("tally: {} passed, {} failed, {} skipped".format(*count))
    sys.exit(count[1] > 0)


if __name__ == "__main__":
    main()
