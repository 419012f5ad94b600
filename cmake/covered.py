#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header is used in a file that nvcc compiles: its name appears in a .cu file of tests/.

The public headers are those of cmake/reference.py; all others are parts of these.

    covered.py [DIR]         names the public headers that no .cu file uses (exit 1)
    covered.py --self-test   plants a header that no .cu file uses
"""
import pathlib
import re
import sys
import tempfile

import reference

PROSE = re.compile(r'//[^\n]*|/\*.*?\*/|#\s*include[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
# Headers with contents of other names: those that only include others, and the macros for doctest.
OTHER_NAMES = {"vram": None, "cuda": None, "sim": None, "version": "VRAM_VERSION", "doctest": "VRAM_CHECK_NO_LEAK",
               "assertions": "VRAM_CHECK_NO_LEAK", "gtest": None, "catch2": None,
               "typed_source": "typed", "bytes": "_MiB", "tag": "tagged", "error": "error_sink", "contract": None, "align": None,
               "loader_statistics": "statistics", "sim_touch": None,
               "requirements": None, "thrust": "thrust_universal_allocator", "cub": "cub_run", "rmm": "as_rmm", "torch": "torch_allocator", "expandable": "expandable_resource"}


def used(top):
    words = set()
    for path in [*sorted((top / "tests").rglob("*.cu")), *sorted((top / "tests/nvcc").glob("*.hpp"))]:
        text = PROSE.sub("", path.read_text())
        words |= set(re.findall(r"[A-Za-z_]\w*", text)) | {"_" + word for word in re.findall(r"\d_(\w+)", text)}
    return words


def missing(top, public):
    words = used(top)
    found = []
    for folder, names in public.items():
        for name in names.split():
            word = OTHER_NAMES.get(name, name)
            if word is not None and word not in words:
                found.append(f"{folder + '/' if folder else ''}{name}.hpp: no .cu file of tests/ uses {word}")
    return found


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        (top / "tests/nvcc").mkdir(parents=True)
        (top / "tests/nvcc/a.cu").write_text('#include <vram/pool/slab.hpp>\n// slab "slab"\npool memory{64_MiB};\n')
        found = missing(top, {"pool": "pool slab", "base": "bytes"})
    right = len(found) == 1 and found[0].startswith("pool/slab.hpp")
    print(f"tally: {int(right)} passed, {int(not right)} failed, 0 skipped")
    return not right


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--self-test":
        sys.exit(self_test())
    found = missing(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."), reference.PUBLIC)
    print("\n".join(found) if found else "nvcc compiles a use of every public header")
    sys.exit(bool(found))
