#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The growth of the simulated device's cost, with small sizes: no row may grow clearly. sim_scale.py FOLDER-OF-PROGRAMS"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from program import Program, rows_hold

scale = Program("bench-sim_scale", device=None)
check, folder = scale.check, scale.folder

out = folder / "out.json"
# Points from 33 to 3333 operations, blocks or events, and up to 68 streams; the first is dominated by the start.
run = scale("--divide", 30, "--repeat", 3, "--json", out)
check("a run ends well", run.returncode == 0, run)
rows = json.loads(out.read_text())
check("every row has the six fields and no other", rows_hold(rows), run)
check("the bench is named", {row["bench"] for row in rows} == {"sim_scale"}, run)
exponents = {row["case"]: row["value"] for row in rows if row["metric"] == "exponent"}
check("every row has an exponent", len(exponents) == len(run.stdout.splitlines()), run)
for case, exponent in exponents.items():
    # Quadratic costs have exponents near 1. Noise of a loaded machine is below 0.3.
    check(f"{case} grows with an exponent of {exponent:.2f}", exponent <= 0.3, run)

run = scale("--row", "kernels", "--divide", 100, "--bar", -9)
check("a missed bar is an error", run.returncode == 1 and "kernels" in run.stdout, run)

scale.exit()
