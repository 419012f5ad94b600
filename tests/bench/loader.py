#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loader benchmark on the simulated device: its figures, its bars, its picture. loader.py FOLDER-OF-PROGRAMS"""
import json
import pathlib
import sys
import xml.etree.ElementTree

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from program import Program, rows_hold

loader = Program("bench-loader")
check, folder = loader.check, loader.folder

SIZES = ("1MiB", "16MiB", "64MiB", "256MiB")
CASES = [f"{size}_{bound}" for size in SIZES for bound in ("producer", "transfer", "compute", "loop")] + ["64MiB_memcpy"]
SUBJECTS = ("loader", "loader(depth=1)", "loader(depth=3)", "loader(depth=4)", "loader(call_back=false)",
            "serial_pageable", "serial_pinned", "side_stream")
METRICS = {"overlap_efficiency", "ms_per_batch", "GBps", "allocations_per_batch", "host_waits_per_batch"}

# --- the bars: exact, in simulated time -------------------------------------------------------------------------------

out = folder / "out.json"
run = loader("--check", "--json", out)
check("on the simulated device no bar is missed", run.returncode == 0 and ", 0 MISSED" in run.stdout, run)
rows = json.loads(out.read_text())
check("every row has the six fields and no other", rows_hold(rows), run)
check("the bench is named", {row["bench"] for row in rows} == {"loader"}, run)
value = {(row["case"], row["subject"], row["metric"]): row["value"] for row in rows}
check("no row is there twice", len(value) == len(rows), run)
check("every case has every subject with every metric",
      set(value) == {(c, s, m) for c in CASES for s in SUBJECTS for m in METRICS}, run)
for case in CASES:
    efficiency = {s: value[(case, s, "overlap_efficiency")] for s in SUBJECTS}
    check(f"{case}: a loader hides all but the slowest stage", 0.97 <= efficiency["loader"] <= 1, run)
    check(f"{case}: it allocates nothing and waits for nothing, like no loop by hand",
          value[(case, "loader", "allocations_per_batch")] == 0 and value[(case, "loader", "host_waits_per_batch")] == 0
          and value[(case, "serial_pinned", "host_waits_per_batch")] == 1
          and value[(case, "loader(call_back=false)", "host_waits_per_batch")] > 0.5, run)
    busy = case.endswith("_loop")  # the loop's own work, which hides what the device does
    check(f"{case}: one thing after the other hides little", efficiency["serial_pinned"] < (0.81 if busy else 0.6), run)
    check(f"{case}: pageable memory is slower yet", efficiency["serial_pageable"] < efficiency["serial_pinned"], run)
    check(f"{case}: one slot overlaps less than two", busy or efficiency["loader(depth=1)"] < efficiency["loader"], run)
    check(f"{case}: no loop by hand is better", efficiency["side_stream"] <= efficiency["loader"], run)
check("64 MiB filled by 8 producers and used in 5 ms take 5 ms", value[("64MiB_memcpy", "loader", "ms_per_batch")] <= 5.25, run)

# --- a cell given by the user -----------------------------------------------------------------------------------------

run = loader("--bytes", "55MB", "--fill-us", 3000, "--kernel-us", 500, "--producers", 2, "--batches", 10,
             "--subject", "loader", "--json", out)
value = {(row["case"], row["metric"]): row["value"] for row in json.loads(out.read_text())}
check("knobs make a case: 2 producers of 3 ms, copies of 1 ms, a kernel of 0.5 ms",
      run.returncode == 0 and 1.5 < value[("custom", "ms_per_batch")] < 1.8, run)

# --- the diagram ------------------------------------------------------------------------------------------------------

svg = folder / "loading.svg"
run = loader("--svg", svg)
boxes = xml.etree.ElementTree.parse(svg).getroot().findall("{http://www.w3.org/2000/svg}rect")
check("the picture has a box for each of 6 batches in 3 rows of 2 loops", run.returncode == 0 and len(boxes) == 1 + 36, run)
checked_in = pathlib.Path(__file__).resolve().parents[2] / "docs" / "loading.svg"
check("it is the one in docs/", svg.read_text() == checked_in.read_text(), run)

# --- selection of cases -----------------------------------------------------------------------------------------------

run = loader("--list")
check("--list names the subjects and the cases",
      run.returncode == 0 and set(CASES) | set(SUBJECTS) | {"torch_dataloader"} <= set(run.stdout.split()), run)
run = loader("--quick", "--case", "64MiB_compute", "--subject", "serial_pinned", "--json", out)
rows = json.loads(out.read_text())
check("a case and a subject are taken by name",
      run.returncode == 0 and {(r["case"], r["subject"]) for r in rows} == {("64MiB_compute", "serial_pinned")}, run)
check("a run without a bar says so", "no bar is set" in run.stdout, run)

# --- errors of the command line ---------------------------------------------------------------------------------------

loader.refuses((
    ("an unknown option", 2, "--sise", ("--sise", "1")),
    ("an unknown subject", 2, "no subject 'feeder'; --list names them", ("--subject", "feeder")),
    ("an unknown case", 2, "no case 'cold'; --list names them", ("--case", "cold")),
    ("a size that is none", 2, "--bytes", ("--bytes", "many")),
    ("figures that cannot be kept", 3, "No such file or directory",
     ("--json", folder / "no" / "folder.json")),
), runs_nothing="overlap  ")

loader.exit()
