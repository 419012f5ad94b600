#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pool benchmark on the simulated device: its rows, its verdicts, and what it refuses. pool.py FOLDER-OF-PROGRAMS"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from program import Program, names_every_pool, rows_hold

pool = Program("bench-pool")
check, folder = pool.check, pool.folder

OURS = "pool<stream_ordered<sim_resource>>"
BINNED = f"binned<{OURS}>"
SLAB, MONOTONIC = "slab<stream_ordered<sim_resource>>", "monotonic<stream_ordered<sim_resource>>"
CASES = (["hot_256B", "hot_1MiB", "churn_100", "churn_1k", "churn_10k", "churn_50k"]
         + [f"threads_{n}" for n in (1, 2, 4, 8)] + ["threads_2_handed", "threads_8_handed"]
         + ["random_1k_1MiB", "random_1k_64MiB", "random_1k_1GiB", "random_10k_4MiB"]
         + ["cross_4", "cross_4_handed", "cross_4_scarce"]
         + ["fill_1k", "fill_8k"])

# --- output files -----------------------------------------------------------------------------------------------------

out = folder / "out.json"
run = pool("--quick", "--repeat", 2, "--json", out, "--subject", OURS, "--subject", f"locked<{OURS}>",
           "--subject", "malloc", "--subject", "empty loop")
check("a quick run ends well, whatever its verdicts", run.returncode == 0, run)
rows = json.loads(out.read_text())
check("every row has the six fields and no other", rows_hold(rows), run)
check("the bench is named", {row["bench"] for row in rows} == {"pool"}, run)
value = {(row["case"], row["subject"], row["metric"]): row["value"] for row in rows}
check("no row is there twice", len(value) == len(rows), run)
for case in CASES:
    for subject in (OURS, f"locked<{OURS}>", "malloc", "empty loop"):
        check(f"{case} of {subject} has a time, and how far the turns were apart",
              value.get((case, subject, "ns_per_op"), 0) > 0 and value.get((case, subject, "ns_per_op_spread"), -1) >= 0, run)
for case in (c for c in CASES if c.startswith("cross")):
    check(f"{case} counts waits and events",
          value.get((case, OURS, "waits_per_free"), -1) >= 0 and value.get((case, OURS, "events_per_free"), -1) >= 0, run)
    check(f"{case} knows of no waits of malloc's", (case, "malloc", "waits_per_free") not in value, run)
for case in ("threads_2_apart", "threads_8_apart"):
    check(f"{case} is for pools that share nothing",
          value.get((case, OURS, "ns_per_op"), 0) > 0 and (case, "malloc", "ns_per_op") not in value, run)
check("a whole run of a tape has a time", value.get(("random_1k_1MiB", OURS, "us_per_run"), 0) > 0, run)
check("a pool costs more than nothing", value[("hot_256B", OURS, "ns_per_op")] > value[("hot_256B", "empty loop", "ns_per_op")],
      run)
check("what is not here is told", "left out: the GPU and its allocators: --device sim" in run.stdout, run)
check("what stands for the simulator is told", "sim_resource hands out addresses and nothing else" in run.stdout, run)
verdicts = [line for line in run.stdout.splitlines() if "  met  " in line or "  MISSED  " in line]
check("filling, the hot pairs and the crossing streams have verdicts", [line.split()[:2] for line in verdicts] ==
      [[c, OURS] for c in ("fill_8k", "hot_256B", "hot_1MiB", "cross_4", "cross_4")], run)

# --- selection of cases -----------------------------------------------------------------------------------------------

run = pool("--list")
listed = run.stdout.split()
check("--list names the subjects and the cases", run.returncode == 0 and OURS in listed and set(CASES) <= set(listed), run)
check("--list runs nothing", "ns_per_op" not in run.stdout, run)
check("every pool of vram is among the subjects", names_every_pool(listed), run)

few = ["hot_256B", "hot_1MiB", "churn_100", "threads_2", "random_1k_1MiB", "cross_4_handed"]
run = pool("--quick", *(word for case in few for word in ("--case", case)), *(word for one in (BINNED, SLAB, MONOTONIC)
           for word in ("--subject", one)), "--json", out)
rows = json.loads(out.read_text())
took_part = {one: {row["case"] for row in rows if row["subject"] == one} for one in (BINNED, SLAB, MONOTONIC)}
check("the binned takes part in everything, and the slab and the monotonic in the hot pairs", run.returncode == 0 and
      took_part == {BINNED: set(few), SLAB: {"hot_256B", "hot_1MiB"}, MONOTONIC: {"hot_256B", "hot_1MiB"}}, run)
check("the list says what those two take part in", all(
    "hot pairs alone" in line for line in pool("--list").stdout.splitlines() if line.split()[:1] in ([SLAB], [MONOTONIC])), run)

run = pool("--quick", "--case", "hot", "--case", "threads_2", "--subject", "malloc", "--json", out, "--repeat", 3)
rows = json.loads(out.read_text())
check("a case is taken by its name, or all by a part of it",
      run.returncode == 0 and {row["case"] for row in rows} == {"hot_256B", "hot_1MiB", "threads_2"}, run)
check("a subject is taken by its whole name where one has it", {row["subject"] for row in rows} == {"malloc"}, run)
check("the turns are as many as asked for", "medians of 3 turns" in run.stdout, run)
check("a run without a bar says so", "no bar is set" in run.stdout, run)

# --- errors of the command line ---------------------------------------------------------------------------------------

pool.refuses((
    ("an unknown option", 2, "--sise", ("--sise", "1")),
    ("an unknown subject", 2, "no subject 'heap'; --list names them", ("--subject", "heap")),
    ("an unknown case", 2, "no case 'cold'; --list names them", ("--case", "cold")),
    ("no turns", 2, "--repeat", ("--repeat", "0")),
    ("figures that cannot be kept", 3, "No such file or directory", ("--json", folder / "no" / "folder.json")),
), runs_nothing="ns_per_op")

pool.exit()
