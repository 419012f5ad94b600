#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The staging benchmark on the simulated device: its rows, its verdicts, what it refuses. staging.py FOLDER-OF-PROGRAMS"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from program import Program, rows_hold

staging = Program("bench-staging")
check, folder = staging.check, staging.folder

# --- output files -----------------------------------------------------------------------------------------------------

out = folder / "out.json"
run = staging("--quick", "--repeat", 2, "--json", out, "--folder", folder)
check("a quick run ends well", run.returncode == 0, run)
rows = json.loads(out.read_text())
check("every row has the six fields and no other", rows_hold(rows), run)
check("the bench is named", {row["bench"] for row in rows} == {"staging"}, run)
value = {(row["case"], row["subject"], row["metric"]): row["value"] for row in rows}
check("no row is there twice", len(value) == len(rows), run)
moves = [f"{way}_{size}" for size in ("256KiB", "8MiB") for way in ("pageable_to_device", "device_to_pageable")]
moves += ["file_to_device_8MiB", "device_to_file_8MiB"]
for case in moves:
    for subject in ("pinned", "driver", "staging", "staging(threads=4)", "staging(chunks=3)", "staging(memcpy)"):
        for metric in ("ns_per_call", "GBps", "of_link"):
            check(f"{case} of {subject} has {metric}", value.get((case, subject, metric), 0) > 0, run)
        check(f"{case} of {subject} counts allocations", value.get((case, subject, "allocations_per_call"), -1) >= 0, run)
    check(f"{case}: the link is the whole of itself", value[(case, "pinned", "of_link")] == 1, run)
    check(f"{case}: time is virtual, and the same in every turn", value[(case, "pinned", "ns_per_call_spread")] == 0, run)
    if case.endswith("8MiB"):
        check(f"{case} is faster than the driver", value[(case, "staging", "GBps")] > 3 * value[(case, "driver", "GBps")], run)
check("small copies are measured", value[("small_copies", "copy_batch", "us_per_copy_done")] > 0, run)
check("what is not here is told", "left out: pin_64MiB" in run.stdout, run)
check("the file is gone", [path.name for path in folder.iterdir()] == ["out.json"], run)

# --- its bars ---------------------------------------------------------------------------------------------------------

run = staging("--repeat", 1, "--bytes", "512MiB", "--case", "e_512MiB", "--subject", "staging", "--check", "--folder", folder)
verdicts = [line for line in run.stdout.splitlines() if "  met  " in line or "  MISSED  " in line]
check("the ratios of the link are held against their bars, and met", run.returncode == 0 and len(verdicts) == 3
      and "3 met, 0 MISSED" in run.stdout, run)

# --- selection of cases -----------------------------------------------------------------------------------------------

run = staging("--list")
check("--list names the subjects and the cases", run.returncode == 0
      and {"staging(threads=4)", "copy_batch", "pageable_to_device_1GiB", "small_copies"} <= set(run.stdout.split()), run)
check("--list runs nothing", "of_link" not in run.stdout, run)
run = staging("--quick", "--case", "file", "--subject", "staging(threads=3)", "--threads", 2, 3, "--json", out, "--folder", folder)
rows = json.loads(out.read_text())
check("threads are as many as asked for", run.returncode == 0 and {row["subject"] for row in rows} == {"staging(threads=3)"}, run)
check("a case is taken by a part of its name",
      {row["case"] for row in rows} == {"file_to_device_8MiB", "device_to_file_8MiB"}, run)
check("a run without a bar says so", "no bar is set" in run.stdout, run)

# --- errors of the command line ---------------------------------------------------------------------------------------

staging.refuses((
    ("an unknown option", 2, "--sise", ("--sise", "1")),
    ("an unknown subject", 2, "no subject 'heap'; --list names them", ("--quick", "--subject", "heap")),
    ("an unknown case", 2, "no case 'cold'; --list names them", ("--quick", "--case", "cold")),
    ("a size that is none", 2, "--bytes", ("--bytes", "much")),
    ("figures that cannot be kept", 3, "No such file or directory", ("--quick", "--json", folder / "no" / "folder.json")),
), runs_nothing="of_link")

staging.exit()
