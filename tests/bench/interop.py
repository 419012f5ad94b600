#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of other libraries: what it refuses without a GPU; with one its rows and verdicts. interop.py FOLDER-OF-PROGRAMS"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from program import Program, rows_hold

interop = Program("bench-interop", device=None)
check, folder = interop.check, interop.folder

OURS = "pool<stream_ordered<cuda_resource>>"
SUBJECTS = (OURS, "cudaMallocAsync", "cudaMallocAsync(default)", "its own")
ALGORITHMS = ("thrust_sort_2^16", "thrust_sort_2^26", "cub_sum_2^16", "cub_sum_2^26")

run = interop("--list")
check("--list names the subjects and the cases", run.returncode == 0
      and all(name in run.stdout for name in (*SUBJECTS, *ALGORITHMS, "rmm_uvector_churn")), run)
check("--list runs nothing", "us for a call" not in run.stdout, run)
interop.helps("--json")

interop.refuses((
    ("an unknown option", 2, "--sise", ("--sise", "1")),
    ("an unknown subject", 2, "no subject 'heap'; --list names them", ("--subject", "heap")),
    ("an unknown case", 2, "no case 'cold'; --list names them", ("--case", "cold")),
    ("the simulated device", 2, "the simulated device runs no kernels", ("--device", "sim")),
), runs_nothing="us for a call")

out = folder / "out.json"
run = interop("--quick", "--json", out)
if run.returncode == 2:
    check("without a GPU it ends with one line that says so", run.stderr.count("\n") == 1
          and ("there is no GPU: " in run.stderr or "this build has no nvcc" in run.stderr), run)
    check("without a GPU no figures are written", not out.exists() or not out.read_text(), run)
    interop.skip("rows and verdicts", run.stderr.strip())
    interop.exit()

check("a quick run ends well, whatever its verdicts", run.returncode == 0, run)
rows = json.loads(out.read_text())
check("every row has the six fields and no other", rows_hold(rows), run)
check("the bench is named", {row["bench"] for row in rows} == {"interop"}, run)
value = {(row["case"], row["subject"], row["metric"]): row["value"] for row in rows}
for case in ALGORITHMS:
    for subject in SUBJECTS:
        check(f"{case} of {subject} has a time", value.get((case, subject, "ns_per_call"), 0) > 0, run)
    check(f"{case} on a warm stack makes no call that allocates",
          value.get((case, OURS, "allocation_calls")) == 0 and value.get((case, OURS, "free_calls")) == 0, run)
    for subject in SUBJECTS[1:]:
        check(f"{case} of {subject} makes calls that allocate", value.get((case, subject, "allocation_calls"), 0) >= 1, run)
check("the bars are held against the figures", run.stdout.count("  met  ") + run.stdout.count("  MISSED  ") == 17, run)

interop.exit()
