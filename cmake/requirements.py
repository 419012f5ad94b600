#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a compiler that is not set up for vram prints one error, and that it says which flag to set; and that one
error says which CUDA Toolkit is needed.

    requirements.py [--toolkit DIR[:DIR]] COMPILER...    for each compiler; nvcc may be one
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"
CXX20 = "vram needs C++20: compile with -std=c++20"
EXCEPTIONS = "vram needs exceptions: compile without -fno-exceptions"
MODES = [(["-std=c++17"], CXX20), (["-std=c++20", "-fno-exceptions"], EXCEPTIONS), (["-std=c++17", "-fno-exceptions"], CXX20)]
TOOLKIT = "vram/cuda needs the CUDA Toolkit 12.8 or later"
OLDER = "#include_next <cuda_runtime_api.h>\n#undef CUDART_VERSION\n#define CUDART_VERSION 12040\n"
# Code of a user below the include. It must not add another error.
PROGRAM = "int main() { vram::pool<vram::stream_ordered<vram::host_resource>> memory; try { } catch (...) { throw; } }\n"


def errors(compiler, toolkit, header, flags, older):
    nvcc = "nvcc" in pathlib.Path(compiler).name
    if nvcc:
        flags = [f if f.startswith("-std") else f"-Xcompiler={f}" for f in flags]
    system = [part for folder in toolkit for part in ("-isystem", folder)]
    with tempfile.TemporaryDirectory() as folder:
        if older:
            (pathlib.Path(folder) / "cuda_runtime_api.h").write_text(OLDER)
            system = ["-isystem", folder, *system]
        source = pathlib.Path(folder) / ("unit.cu" if nvcc else "unit.cpp")
        source.write_text(f"#include <vram/{header}>\n{PROGRAM}")
        result = subprocess.run([compiler, *flags, f"-I{INCLUDE}", *system, "-c", "-o", f"{folder}/unit.o", str(source)],
                                capture_output=True, text=True, errors="replace")
    return result.returncode, [line for line in result.stderr.splitlines() if re.search(r"\berror: ", line)], result.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--toolkit", default="")
    parser.add_argument("compilers", nargs="+")
    args = parser.parse_args()
    toolkit = [folder for folder in args.toolkit.split(":") if folder]
    passed = failed = 0
    for compiler in args.compilers:
        headers = ["vram.hpp", "sim/sim.hpp", "interop/pmr.hpp"]
        if toolkit or "nvcc" in pathlib.Path(compiler).name:
            headers.append("cuda/cuda.hpp")
        for header in headers:
            modes = [(*mode, False) for mode in MODES]
            if header.startswith("cuda/") and toolkit:
                modes.append((["-std=c++20"], TOOLKIT, True))
            for flags, expected, older in modes:
                status, found, output = errors(compiler, toolkit, header, flags, older)
                if status and len(found) == 1 and expected in found[0]:
                    passed += 1
                else:
                    failed += 1
                    print(f"FAILED {compiler} {' '.join(flags)} <vram/{header}>: {len(found)} errors, 1 expected: {expected}", output, sep="\n")
    print(f"tally: {passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
