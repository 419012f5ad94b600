#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Joins the headers into two files that can be copied into a project: vram.hpp, the core and the simulated device, and
vram_cuda.hpp, the CUDA platform, which includes vram.hpp. The opt-in headers (interop/, the check macros) are not in them.

    single.py DIR                                        writes DIR/vram.hpp and DIR/vram_cuda.hpp
    single.py --test [--nvcc NVCC] [--toolkit DIRS] COMPILER
                                                         compiles the programs that the README shows with these files alone,
                                                         and runs those that need no GPU
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"
OWN = re.compile(r"^#include <(vram/[^>]+)>")
CORE = ("vram/vram.hpp", "vram/sim/sim.hpp")
CUDA = ("vram/cuda/cuda.hpp",)


def join(headers, seen):
    """The text of `headers` and of all headers of vram that they include, each once and before its first use. A header that
    is included inside a conditional comes before that conditional."""
    text = []

    def add(name):
        if name in seen:
            return
        seen.add(name)
        lines = []
        for line in (INCLUDE / name).read_text().splitlines():
            own = OWN.match(line)
            if own:
                add(own[1])
            elif line != "#pragma once" and not line.startswith("// SPDX-License-Identifier"):
                lines.append(line)
        text.append(f"// ---- {name}\n" + "\n".join(lines).strip("\n") + "\n")

    for name in headers:
        add(name)
    return "\n".join(text)


def version():
    return re.search(r'VRAM_VERSION_STRING "([^"]+)"', (INCLUDE / "vram/version.hpp").read_text())[1]


def folders(text):
    """The definition of a function that returns the folder of the header from which a line of the file `text` comes: reports of
    the simulated device name the part of vram that a line belongs to."""
    parts = []
    for number, line in enumerate(text.splitlines(), 1):
        begin = re.match(r"// ---- vram/(\w+/|)", line)
        if begin and (not parts or parts[-1][1] != begin[1]):
            parts.append((number, begin[1]))
    rows = "\n".join(f'        {{{number}, "{folder}"}},' for number, folder in parts)
    return f"""
namespace vram::detail {{
inline std::string_view single_file_folder(unsigned line) noexcept {{
    struct part {{
        unsigned         first;
        std::string_view folder;
    }};
    static constexpr part parts[] = {{
{rows}
    }};
    std::string_view folder;
    for (part const& each : parts) {{
        if (each.first <= line) {{ folder = each.folder; }}
    }}
    return folder;
}}
}} // namespace vram::detail
"""


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    seen = set()
    head = f"// SPDX-License-Identifier: Apache-2.0\n// vram {version()}"
    core = join(CORE, seen)
    core = f"{head}: the core and the simulated device, in one file.\n#pragma once\n\n#define VRAM_SINGLE_FILE\n\n{core}"
    (folder / "vram.hpp").write_text(core + folders(core))
    cuda = join(CUDA, seen)
    (folder / "vram_cuda.hpp").write_text(
        f'{head}: the CUDA platform, in one file beside vram.hpp.\n#pragma once\n\n#include "vram.hpp"\n\n{cuda}')


def programs():
    """The C++ programs of which the README shows a part, or the output."""
    found = re.findall(r"<!-- (?:snippet|printed): (examples/[\w/]+\.(?:cpp|cu))", (ROOT / "README.md").read_text())
    return [ROOT / name for name in dict.fromkeys(found)]


OPTIONS = ["-std=c++20", "-Wall", "-Wextra", "-pthread"]

LEAK = r"""
#include <cstdio>
#include <string_view>
int main() {
    vram::sim_node node{{.on_report = vram::sim_on_report::collect}};
    auto* const memory = new vram::pool<vram::stream_ordered<vram::sim_resource>>;
    vram::sim_stream const stream;
    (void)memory->allocate(stream, 1000);
    (void)vram::sim_resource{}.allocate_sync(64);
    stream.synchronize();
    node.finish();
    auto const all   = node.take_reports();
    int        parts = 0, own = 0;
    for (vram::sim_report const& r : all) {
        std::puts(r.text().c_str());
        parts += r.text().find("a pool for its chunks") != std::string_view::npos;
        own += r.text().find("Free every block") != std::string_view::npos;
    }
    std::fflush(stdout);
    std::_Exit(parts == 1 && own == 1 && all.size() == 2 ? 0 : 1); // the pool still has memory of the node
}
"""


def run(*command, **how):
    """What is wrong with the command; empty if it succeeds."""
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, **how)
    return f"exit code {ran.returncode}\n{ran.stdout}{ran.stderr}" if ran.returncode else ""


def test(compiler, nvcc, toolkit):
    passed = failed = skipped = 0
    outcomes, joined = {}, []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write(folder)
        leak = folder / "names_the_part_that_leaks.cpp"
        leak.write_text(LEAK.replace("#include <cstdio>", "#include <vram/vram.hpp>\n#include <cstdio>\n#include <cstdlib>"))
        for path in [*programs(), leak]:
            text = path.read_text()
            includes = re.findall(r"^#include <(vram/[^>]+)>", text, re.MULTILINE)
            opt_in = [name for name in includes if re.match(r"vram/(interop/|probe/(doctest|gtest|catch2|assertions))", name)]
            device = path.suffix == ".cu"
            if opt_in or (device and not nvcc):
                print(f"skipped: {path.name}: {opt_in[0] + ' is not in the single files' if opt_in else 'there is no nvcc'}")
                skipped += 1
                continue
            wanted = "vram_cuda.hpp" if any(name.startswith("vram/cuda") for name in includes) else "vram.hpp"
            text = re.sub(r"^#include <vram/[^>]+>.*$", "", text, flags=re.MULTILINE)
            copy = folder / path.name
            copy.write_text(f'#include "{wanted}"\n{text}')
            if device:
                outcomes[f"{path.name} with {wanted} alone"] = run(nvcc, "-std=c++20", copy, "-o", folder / path.stem)
            elif wanted == "vram.hpp":
                joined.append(copy)
            else:
                outcomes[f"{path.name} with {wanted} alone"] = (
                    run(compiler, *OPTIONS, *(f"-isystem{each}" for each in toolkit), copy, "-o", folder / path.stem)
                    or run(folder / path.stem))
        # Most of the time goes to vram.hpp, so the programs with it are compiled as one.
        source, program = folder / "joined.cpp", folder / "joined"
        wrong = run(sys.executable, "-B", ROOT / "cmake/together.py", source, *joined) or run(
            compiler, *OPTIONS, source, "-o", program)
        for copy in joined:
            outcomes[f"{copy.name} with vram.hpp alone"] = wrong or run(copy.stem, executable=program)
        for name, wrong in outcomes.items():
            print(f"{'FAILED' if wrong else 'passed'}: {name}\n{wrong}".rstrip())
            failed += bool(wrong)
            passed += not wrong
    print(f"tally: {passed} passed, {failed} failed, {skipped} skipped")
    return failed == 0 and passed > 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--test", action="store_true")
    arguments.add_argument("--nvcc", default="")
    arguments.add_argument("--toolkit", default="", help="folders with the Toolkit's headers, separated by ':'")
    arguments.add_argument("target", metavar="DIR|COMPILER")
    asked = arguments.parse_args()
    if asked.test:
        sys.exit(not test(asked.target, asked.nvcc, list(filter(None, asked.toolkit.split(":")))))
    write(pathlib.Path(asked.target))


if __name__ == "__main__":
    main()
