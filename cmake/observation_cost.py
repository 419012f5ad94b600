#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Without an observer, notifications cost nothing: the machine code of the pools is that of the same headers without them.

    observation_cost.py --compiler CXX [DIR]    exit 1 if the machine code differs

A program allocates and frees with each pool. It is compiled with the headers, and with a copy from which every
statement is removed that creates an observation or notifies one. The functions of the fast paths must be equal in both.
Compiled for an observing platform, each must call it. Nothing in the program may read the tag of a scope; with a layer
`tracking` in the program, that layer must. Only functions that must be inlined are inlined: otherwise the compiler's
estimates of sizes, which count removed statements, decide which functions are compared.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent

PROGRAM = r"""
#include "support/address_resource.hpp"
#include <vram/vram.hpp>
using namespace vram;
using plain  = bench::address_resource<bench::streams_are::idle>;
struct watching : plain::platform {
    static void observe(memory_event<stream> const&) noexcept;
    static void begin_resource_call() noexcept;
    static void end_resource_call() noexcept;
    static unsigned begin_program_call() noexcept;
    static void end_program_call(unsigned) noexcept;
};
struct watched : plain { using platform = watching; };
using source = stream_ordered<SOURCE>;
using stream = plain::platform::stream;
#define CALLS(name, ...)                                                                                              \
    extern "C" void* name##_allocate(__VA_ARGS__& m, stream s, std::size_t n) { return m.allocate(s, n); }             \
    extern "C" void* name##_allocate_sync(__VA_ARGS__& m, std::size_t n) { return m.allocate_sync(n); }                \
    extern "C" void  name##_deallocate(__VA_ARGS__& m, stream s, void* p, std::size_t n) { m.deallocate(s, p, n); }    \
    extern "C" void  name##_deallocate_sync(__VA_ARGS__& m, void* p, std::size_t n) { m.deallocate_sync(p, n); }
CALLS(pool, vram::pool<source>)
CALLS(arena, vram::arena<source>)
CALLS(slab, vram::slab<source>)
CALLS(binned, vram::binned<source>)
CALLS(monotonic, vram::monotonic<source>)
#ifdef TRACKED
CALLS(tracked, vram::tracking<vram::pool<source>>)
#endif
"""

TAG = "_ZN4vram11current_tagEv"
OBSERVATION = "6detail11observationI"  # in the mangled names of its functions
INTERNAL = re.compile(r"9pool_core.*E(8allocate|13allocate_sync|14try_deallocate|19try_deallocate_sync|"
                      r"19try_allocate_cached)E|4slab.*E(9get_block|9put_block)|9monotonic.*E(3get|3put)[IE]|6binned.*E7get_any")
PUBLIC = re.compile(r"^(pool|arena|slab|binned|monotonic)_(de)?allocate(_sync)?$")


def braced(text, at):
    """The end of the bracketed text that begins at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i + 1
    sys.exit("observation_cost: unbalanced brackets")


def without_notifications(text):
    """The text of a header without the statements about an observation; each call of `seen.allocate` becomes the
    allocation itself."""
    while found := re.search(r"\bseen\.allocate\(", text):
        end = braced(text, found.end() - 1)
        call = text[found.end():end - 1]
        text = text[:found.start()] + call[call.index("[&]"):].strip() + "()" + text[end:]
    while found := re.search(r"(?<![\w.>])[\w.>-]*\bseen(?:\(\))?\.notify\(", text):
        returned = text[:found.start()].rstrip().endswith("return")
        rest = text[braced(text, found.end() - 1):]
        text = text[:found.start()] + (rest if returned else rest.removeprefix(";"))
    text = re.sub(r"(?:detail::)?resource_call(?:<platform>)? const\s+own;", "", text)
    text = re.sub(r"auto const\s+waits\s+= \w+\.watch\(\);", "", text)
    return re.sub(r"[\w:<>]+ const\s+seen\s+= [^;]*;(?![^}]*\bseen\b)", "", text)


def copy_without(root, to):
    shutil.copytree(root / "include", to / "include")
    removed = 0
    for header in [*(to / "include/vram/pool").rglob("*.hpp"), *(to / "include/vram/layer").rglob("*.hpp")]:
        old = header.read_text()
        new = without_notifications(old)
        removed += old != new
        header.write_text(new)
    return removed


def functions(compiler, root, folder, source, *more):
    """The instructions of each function of the program, without addresses and without the numbers of lambdas."""
    program, made = folder / "program.cpp", folder / "program.o"
    program.write_text(PROGRAM)
    subprocess.run([compiler, "-std=c++20", "-O2", "-fno-inline", "-DNDEBUG", "-fno-asynchronous-unwind-tables",
                    f"-DSOURCE={source}", *more, f"-I{root / 'include'}", f"-I{TOP / 'bench'}", "-c", str(program), "-o", str(made)], check=True)
    said = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", "--no-addresses", str(made)], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for part in re.split(r"\n(?=<.*>:\n)", said):
        head = re.match(r"\s*<(.*)>:\n", part)
        if head:
            # A relocation follows each jump to another function; the name beside the jump may be any.
            found[head.group(1)] = re.sub(r"<.*>|\+0x[0-9a-f]+|\.L\w+|\.rodata\S*", "", part[head.end():])
    return found


def failures_of(compiler, root, folder):
    bare = folder / "bare"
    if copy_without(root, bare) < 6:
        return ["the notifications were not found in the headers"]
    plain = functions(compiler, root, folder, "plain")
    stripped = functions(compiler, bare, folder, "plain")
    # These two must contain certain calls, and are compared with nothing: -O1 is enough.
    watched = functions(compiler, root, folder, "watched", "-O1")
    tracked = functions(compiler, root, folder, "plain", "-DTRACKED", "-O1")
    failures = []
    if any(TAG in code for code in plain.values()):
        failures.append("a program without a probe reads the tag of a scope")
    if not any(TAG in code for code in tracked.values()):
        failures.append("a program with a layer tracking does not read the tag of a scope, so it proves nothing")
    fast = sorted(name for name in plain if PUBLIC.match(name) or INTERNAL.search(name))
    if len([name for name in fast if PUBLIC.match(name)]) != 20 or len(fast) < 28:
        failures.append(f"only {len(fast)} functions of the fast paths were found")
    for name in fast:
        if plain[name] != stripped.get(name):
            failures.append(f"{name}: {len(plain[name].splitlines())} lines of machine code, and "
                            f"{len(stripped.get(name, '').splitlines())} without notifications")
        if OBSERVATION in plain[name]:
            failures.append(f"{name} contains an observation, without an observer")
        if PUBLIC.match(name) and OBSERVATION not in watched.get(name, ""):
            failures.append(f"{name} does not notify an observing platform, so it proves nothing")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("directory", nargs="?", default=TOP, type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        failures = failures_of(args.compiler, args.directory, pathlib.Path(scratch))
    for failure in failures:
        print("FAILED:", failure)
    print(f"{len(failures)} functions of the pools cost something for notifications or tags")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
