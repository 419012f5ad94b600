#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps docs/reference.md equal to the headers: a row for each public header, with the first sentence of its \\file
comment.

    reference.py --check [DIR]    exit 1 if the page differs
    reference.py --write [DIR]    rewrites it
"""
import pathlib
import re
import sys

# The headers for users: those at the top level of their folders. All others are internal.
PUBLIC = {
    "": "vram version",
    "base": "bytes align requirements contract call_site error error_kind error_text out_of_memory over_limit "
    "over_size memory_usage counter tag call_stack",
    "concepts": "resource powers platform platform_of property growth retry memory_info memory_kind pitched_copy "
    "batched_copies completion_flags virtual_memory expandable sited observer",
    "source": "host_resource host_platform region_resource null_resource virtual_source virtual_options",
    "layer": "with stream_ordered stream_ordered_options limiting statistics histograms retrying fallback segregated aligned locked observed ancestor "
    "layer_base",
    "pool": "pool pool_options event_policy arena arena_options arena_key slab binned binned_options monotonic "
    "monotonic_mark geometric_growth exact_growth fixed_growth device_share_growth default_growth "
    "fragmentation free_pieces peak_scope",
    "handle": "buffer array resource_ref any_resource shared current current_resource_guard std_allocator",
    "data": "file file_error file_records file_chunks mapped_file memory_chunks pinned_chunks chunking concat "
    "fields layout_error tiles boundary tile_source pinned_tile_source tile_sink",
    "staging": "staging staging_options staging_result staging_error transfer_path copy_batch",
    "transfer": "loader loader_options loader_error loader_statistics slot_states batch typed_source unloader "
    "unloader_options platform_clock",
    "pressure": "split_on_oom trim_upstream calling wait_backoff drain",
    "probe": "memory_delta leak_check error_count device_delta report layer_name explain tracking tracking_options tracked_block tracked_owner survives_oom survives_oom_options oom_survival refusing guarded "
    "guarded_options "
    "timed profile profile_row growth_watch growth_options memory_growth assertions doctest gtest catch2",
    "history": "logging history history_record history_trigger viewer_pickle viewer_json perfetto_trace chrome_trace rmm_csv history_columns "
    "read_history",
    "cuda": "cuda cuda_resource cuda_async_resource cuda_pool virtual_resource managed_resource pinned_resource "
    "registered_resource cuda_stream cuda_stream_view cuda_event cuda_device cuda_device_guard cuda_error "
    "cuda_memory_info cuda_copy cuda_fill cuda_thread cuda_platform",
    "sim": "sim sim_node sim_options sim_device sim_stream sim_stream_view sim_event sim_wait_value sim_launch "
    "sim_touch sim_range sim_copy sim_graph sim_resource sim_async_resource sim_virtual_resource "
    "sim_managed_resource sim_pinned_resource sim_report sim_error sim_faults sim_interrupt sim_figures "
    "sim_time sim_explore sim_gate sim_thread sim_platform",
    "interop": "mr thrust_allocator thrust cub rmm torch dlpack dlpack_error pmr cufile nvtx_counters nvtx_memory nvtx_tagged",
}
TITLES = {
    "": "Everything",
    "base": "Sizes and errors",
    "concepts": "Concepts",
    "source": "Resources of the host",
    "layer": "Layers",
    "pool": "Pools",
    "handle": "Handles and owners of memory",
    "data": "Files, fields, tiles",
    "staging": "Staging",
    "transfer": "Loader and unloader",
    "pressure": "Memory shortage",
    "probe": "Probes",
    "history": "Histories of events",
    "cuda": "CUDA",
    "sim": "The simulated device",
    "interop": "Other libraries",
}
# Headers that include the others of these folders, and those that a program includes itself (include/vram/README.md).
GATHERED = {"vram.hpp": [folder for folder in PUBLIC if folder not in ("", "cuda", "sim", "interop", "history")],
            "cuda/cuda.hpp": ["cuda"], "sim/sim.hpp": ["sim"]}
OPT_IN = {"probe/assertions.hpp", "probe/doctest.hpp", "probe/gtest.hpp", "probe/catch2.hpp"}
# Former paths of headers that moved: each only includes its header, until version 0.2.
FORMER = {"transfer/concat.hpp", "transfer/fields.hpp", "transfer/file_error.hpp", "transfer/memory_chunks.hpp"}
SENTENCE = re.compile(r"/// \\file\n((?:/// .*\n)+)")


def complaints(top):
    """Where PUBLIC, the top levels of the folders, and the headers that include the others disagree."""
    include = top / "include/vram"
    listed = {f"{folder}/{name}.hpp".lstrip("/") for folder, names in PUBLIC.items() for name in names.split()}
    there = {str(path.relative_to(include)) for path in [*include.glob("*.hpp"), *include.glob("*/*.hpp")]}
    found = [f"{header} is at the top level of its folder, and reference.py does not list it" for header in sorted(there - listed - FORMER)]
    found += [f"reference.py lists {header}, which does not exist" for header in sorted(listed - there)]
    for gathering, folders in GATHERED.items():
        has = set(re.findall(r"#include <vram/([^>]+)>", (include / gathering).read_text()))
        wanted = {header for header in listed if header.split("/")[0] in folders} - OPT_IN - {gathering}
        found += [f"{gathering} does not include {header}" for header in sorted(wanted - has)]
        found += [f"{gathering} includes {header}" for header in sorted(has - wanted - {"version.hpp"})]
    return found


def sentence(path):
    found = SENTENCE.search(path.read_text())
    if not found:
        raise SystemExit(f"{path} has no \\file comment")
    text = " ".join(line[3:].strip() for line in found[1].splitlines())
    text = re.split(r"(?<=[.:])\s+(?=[A-Z`]|$)", text)[0].rstrip(":")
    return text if text.endswith(".") else text + "."


def page(top):
    lines = [
        "# Reference",
        "",
        "Each header for users defines the type or function of its name in the namespace `vram`, and describes it in the comment",
        "above it: an example, and the rows *Failure, Threads, Streams, Cost*. Functions that every resource has are listed in",
        "[include/vram/README.md](../include/vram/README.md). `cmake/reference.py --write` makes this page from the headers.",
    ]
    for folder, names in PUBLIC.items():
        lines += ["", f"## {TITLES[folder]}", "", "| header | |", "|---|---|"]
        for name in names.split():
            header = f"vram/{folder}/{name}.hpp" if folder else f"vram/{name}.hpp"
            path = top / "include" / header
            lines.append(f"| [`{header}`](../include/{header}) | {sentence(path).replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("--check", "--write"):
        sys.exit(__doc__)
    top = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".")
    if found := complaints(top):
        sys.exit("\n".join(found))
    path, text = top / "docs/reference.md", page(top)
    if sys.argv[1] == "--write":
        path.write_text(text)
    elif not path.is_file() or path.read_text() != text:
        sys.exit("docs/reference.md differs from the headers; cmake/reference.py --write makes it again")
    print(f"docs/reference.md has {text.count('| [')} headers")
