#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layering rule of include/vram: a room includes only rooms above it, and other libraries stay in their rooms.
Every header also includes base/requirements.hpp, itself or through the headers that it includes. No header that
vram.hpp or cuda/cuda.hpp includes, itself or through others, includes a standard header that costs much compile time.

    layering.py DIR          checks the headers under DIR (include/vram)
    layering.py --self-test  plants one violation of each kind and checks that it is found
"""
import pathlib
import re
import sys
import tempfile

ROOMS = ["base", "concepts", "source", "order", "layer", "pool", "handle", "data", "staging", "transfer", "pressure", "probe", "history",
         "cuda", "sim", "interop"]
REQUIREMENTS = "vram/base/requirements.hpp"
COSTLY = {"algorithm", "chrono", "functional", "iterator", "ranges", "unordered_map", "sstream", "iostream", "regex", "filesystem"}
COSTLY_ALLOWED = {"base/core/range_concepts.hpp"}  # only for standard libraries without a cheaper header
EVERYWHERE = ["vram.hpp", "cuda/cuda.hpp"]  # what most programs include
WITHOUT_REQUIREMENTS = {"base/requirements.hpp", "version.hpp"}  # these compile in any mode
PLATFORM = {"base", "concepts", "source", "order", "layer", "handle"}  # folders that the two platforms may include

INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
LIBCUDACXX = re.compile(r"(cuda|nv)/")
LIBRARY = re.compile(r"(thrust|cub|rmm|torch|ATen|c10|dlpack)/")
TOOLKIT = re.compile(r"cuda|nv|cooperative_groups|driver_types|vector_types|device_")


def allowed_rooms(room):
    if room in ("cuda", "sim"):
        return PLATFORM | {room}
    if room == "interop":
        return set(ROOMS)
    last = ROOMS.index(room) if room else len(ROOMS) - 1  # a header in no room (vram.hpp) gathers the others
    return set(ROOMS[: last + 1]) - {"cuda", "sim", "interop"}


def objection(header, room, included):
    """The reason why `header` may not include `included`; None if it may."""
    if included.startswith("vram/"):
        other = included.split("/")[1]
        if other in ROOMS and other not in allowed_rooms(room):
            return f"{room or 'a header outside the rooms'} stands above {other}"
        return None
    if LIBCUDACXX.match(included):
        return None if header == "interop/mr.hpp" else "libcu++ comes in through interop/mr.hpp alone"
    if LIBRARY.match(included):
        return None if room == "interop" else "other libraries come in through interop/ alone"
    if TOOLKIT.match(included):
        return None if room in ("cuda", "interop") else "CUDA comes in through cuda/ and interop/ alone"
    return None


def violations(top):
    found = []
    for path in sorted(top.rglob("*.hpp")):
        header = path.relative_to(top)
        room = header.parts[0] if len(header.parts) > 1 else ""
        if room and room not in ROOMS:
            found.append(f"{header}: no room of this name; the rooms are {', '.join(ROOMS)}")
            continue
        reaches = str(header) in WITHOUT_REQUIREMENTS
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            included = match.group(1)
            if (path.parent / included).is_file():  # "gauge.hpp" beside it, "../pool/pool.hpp"
                included = "vram/" + str((path.parent / included).resolve().relative_to(top.resolve()))
            reaches |= included.startswith("vram/") and included[5:] not in WITHOUT_REQUIREMENTS or included == REQUIREMENTS
            why = objection(str(header), room, included)
            if why:
                found.append(f"{header}:{number}: includes {match.group(1)}: {why}")
        if not reaches:
            found.append(f"{header}: does not include <{REQUIREMENTS}>, and no header that does")
    return found + costly(top)


def costly(top):
    """Includes of costly standard headers behind the headers of EVERYWHERE."""
    found, seen, waiting = [], set(), list(EVERYWHERE)
    while waiting:
        header = waiting.pop()
        if header in seen or not (top / header).is_file():
            continue
        seen.add(header)
        for number, line in enumerate((top / header).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            included = match.group(1) if match else ""
            if included.startswith("vram/"):
                waiting.append(included[5:])
            elif included in COSTLY and header not in COSTLY_ALLOWED:
                found.append(f"{header}:{number}: includes {included}: docs/design.md, compile time, names cheaper headers")
    return sorted(found)


PLANTED = {  # header -> the include that must be found in it, or None if the include is allowed
    "base/up.hpp": "<vram/layer/limiting.hpp>",
    "layer/relative.hpp": '"../pool/pool.hpp"',
    "pool/platform.hpp": "<vram/sim/sim.hpp>",
    "sim/beside.hpp": "<vram/cuda/cuda.hpp>",
    "probe/runtime.hpp": "<cuda_runtime_api.h>",
    "cuda/libcudacxx.hpp": "<cuda/memory_resource>",
    "interop/rmm.hpp": "<cuda/memory_resource>",
    "cuda/library.hpp": "<thrust/device_vector.h>",
    "utility/any.hpp": "<cstddef>",
    "vram.hpp": "<vram/cuda/cuda.hpp>",
    "base/leaf.hpp": "<cstddef>",
    "cuda/core/sorting.hpp": "<algorithm>",
}
CLEAN = {
    "pool/pool.hpp": "<vram/layer/limiting.hpp>",
    "cuda/cuda.hpp": "<vram/cuda/core/sorting.hpp>",
    "cuda/runtime.hpp": "<cuda_runtime_api.h>",
    "history/sorting.hpp": "<algorithm>",
    "interop/mr.hpp": "<cuda/memory_resource>",
    "interop/cub.hpp": "<cub/cub.cuh>",
}


def self_test():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        for header, include in (PLANTED | CLEAN).items():
            (top / header).parent.mkdir(parents=True, exist_ok=True)
            own = "" if header == "base/leaf.hpp" else f"#include <{REQUIREMENTS}>\n"
            (top / header).write_text(f"{own}#include {include}\n")
        found = violations(top)
    for header in PLANTED | CLEAN:
        hits = [v for v in found if v.startswith(header + ":")]
        if len(hits) != (header in PLANTED):
            print(f"{header}: {'not found' if header in PLANTED else hits}")
            failed += 1
    print(f"tally: {len(PLANTED | CLEAN) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        sys.exit(self_test())
    offences = violations(pathlib.Path(sys.argv[1]))
    print("\n".join(offences))
    sys.exit(bool(offences))
