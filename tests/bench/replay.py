#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The replay benchmark on the simulated device: its rows, its verdicts, and what it refuses. replay.py FOLDER-OF-PROGRAMS"""
import json
import math
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from program import HEADER, Program, names_every_pool, rows_hold

replay = Program("bench-replay")
check, folder = replay.check, replay.folder


def figures(path):
    rows = json.loads(path.read_text())
    return rows_hold(rows), {(row["case"], row["subject"], row["metric"]): row["value"] for row in rows}


OURS = "pool<stream_ordered<sim_resource>>"
BINNED = f"binned<{OURS}>"
out = folder / "out.json"

# --- the traces of the repository -------------------------------------------------------------------------------------

run = replay("--list")
check("--list names the subjects and the five traces", run.returncode == 0 and OURS in run.stdout.split() and
      run.stdout.split()[-5:] == ["bert_checkpoint", "gpt2", "mask_rcnn", "multi_stream", "unet3d_patches"], run)
check("every pool of vram is among the subjects", names_every_pool(run.stdout.split()), run)

run = replay("--quick", "--repeat", 2, "--case", "multi_stream", "--case", "unet3d_patches", "--json", out,
             "--subject", OURS, "--subject", f"locked<{OURS}>", "--subject", BINNED, "--subject", "malloc", "--subject", "empty loop")
check("a quick run ends well, whatever its verdicts", run.returncode == 0, run)
fields_hold, value = figures(out)
check("every row has the six fields and no other", fields_hold, run)
for case, peak in (("multi_stream", 2_060_787_784), ("unet3d_patches", 3_073_312_407)):
    for subject in (OURS, f"locked<{OURS}>", BINNED, "malloc", "empty loop"):
        check(f"{case} on {subject} has its times, cold and warm",
              value.get((case, subject, "ns_per_op"), 0) > 0 and value.get((case, subject, "ns_per_op_cold"), 0) > 0
              and value.get((case, subject, "ns_per_op_spread"), -1) >= 0, run)
        check(f"{case} on {subject} had out what was recorded", value[(case, subject, "peak_live")] == peak, run)
    for subject in (OURS, f"locked<{OURS}>", BINNED):
        held = value[(case, subject, "peak_reserved")]
        check(f"{case}: what {subject} held is the ratio that is told, and no less than what was out",
              held >= peak and math.isclose(value[(case, subject, "reserved_over_live")], held / peak), run)
        check(f"{case}: {subject} gives everything back", value[(case, subject, "left_after_trim")] == 0, run)
    check(f"{case}: malloc tells no footprint", (case, "malloc", "reserved_over_live") not in value, run)
    check(f"{case} has a verdict against the peers", any(
        line.startswith(f"{case} ") and "RMM's pool" in line for line in run.stdout.splitlines()), run)
check("the mean over the traces is their geometric mean", math.isclose(
    value[("geometric_mean", OURS, "reserved_over_live")],
    math.sqrt(value[("multi_stream", OURS, "reserved_over_live")] * value[("unet3d_patches", OURS, "reserved_over_live")])), run)

# --- reserved bytes: bars that do not depend on the machine -----------------------------------------------------------

IN_PLACE = "pool<sim_virtual_resource>(slack)"
REMAP = "pool<sim_virtual_resource>(remap)"
run = replay("--quick", "--repeat", 1, "--subject", OURS, "--subject", IN_PLACE, "--subject", REMAP, "--json", out)
_, value = figures(out)
verdicts = [line for line in run.stdout.splitlines() if line.endswith(("reserved / live", "RMM's pool", "expandable segments",
                                                                      "the best peer", "freed and trimmed"))]
check("each trace has two verdicts on each of three pools, and each pool one on the mean", len(verdicts) == 3 * (2 * 5 + 1), run)
check("they hold what they must", all(" met " in line for line in verdicts), run)
for subject in (OURS, IN_PLACE):
    check(f"no stream waits for another in {subject}", value[("multi_stream", subject, "waits")] == 0, run)

# --- other traces -----------------------------------------------------------------------------------------------------

few = replay.file("few.csv", HEADER + "1,t,allocate,1,1000,0\n1,t,allocate,2,500,7\n1,t,free,1,1000,0\n")
more = replay.file("more.v2.csv.gz", HEADER + "".join(f"1,t,allocate,{i},300,0\n" for i in range(1, 50)))
arguments = ("--quick", "--subject", OURS, "--json", out, "--trace", few, more)
run = replay(*arguments)
_, value = figures(out)
check("a trace is named by its stem, plain or compressed",
      run.returncode == 0 and {case for case, _, _ in value} == {"few", "more", "geometric_mean"}, run)
check("what is out at the end is out when trimmed", value[("few", OURS, "trimmed_over_live")] >= 1, run)
check("few bytes out of a large chunk miss the bar", "MISSED" in run.stdout, run)
run = replay(*arguments, "--check")
check("--check ends with 1 when a bar is missed", run.returncode == 1, run)

run = replay("--quick", "--subject", "slab", "--subject", "monotonic", "--trace", few, "--json", out)
check("what is made for the hot pairs alone plays no trace", run.returncode == 0 and json.loads(out.read_text()) == [], run)

# --- errors of the command line ---------------------------------------------------------------------------------------

replay.refuses((
    ("an unknown subject", 2, "no subject 'heap'; --list names them", ("--subject", "heap")),
    ("an unknown case", 2, "no case 'cold'; --list names them", ("--case", "cold")),
    ("two traces of one name", 2, "are both the case 'few'", ("--trace", few, replay.file("few.b.csv", HEADER))),
    ("a missing trace", 3, "No such file or directory", ("--trace", folder / "missing.csv")),
    ("a malformed trace", 3, "bad.csv:3: the size 'x' is no number",
     ("--trace", few, replay.file("bad.csv", HEADER + "1,t,allocate,1,1,0\n1,t,allocate,2,x,0\n"))),
    ("figures that cannot be kept", 3, "No such file or directory", ("--json", folder / "no" / "folder.json")),
), runs_nothing="ns_per_op")

replay.exit()
