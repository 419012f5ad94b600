#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of placement on paper: what they hold of traces that can be counted by hand. placement.py FOLDER-OF-PROGRAMS"""
import json
import math
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from program import HEADER, Program, rows_hold

placement = Program("bench-placement", device=None)
check, folder = placement.check, placement.folder
out = folder / "out.json"
MIB = 1 << 20


def trace(name, *steps):
    """A file of (slot, MiB): taken where it is not out, else given back."""
    lines, live = [], set()
    for slot, size in steps:
        action = "free" if slot in live else "allocate"
        live ^= {slot}
        lines.append(f"1,t,{action},{slot},{int(size * MIB)},0\n")
    return placement.file(name, HEADER + "".join(lines))


# Two holes: a block of 4 MiB in the tighter one leaves room for 8 MiB in the other.
holes = trace("holes.csv", (1, 8), (2, 2), (3, 4), (4, 2), (1, 8), (3, 4), (5, 4), (6, 8))
# A hole in which the next block has no room, whatever the rule.
wall = trace("wall.csv.gz", (1, 4), (2, 2), (1, 4), (3, 6))
# Small blocks have pages of their own, and the end of a span is whole pages.
small = trace("small.csv", (1, 0.5), (2, 3))

run = placement("--json", out, "--trace", holes, wall, small)
rows = json.loads(out.read_text())
value = {(row["case"], row["subject"]): row["value"] for row in rows}
rules = {row["subject"] for row in rows}
check("it ends well", run.returncode == 0, run)
check("every row has the six fields and no other", rows_hold(rows), run)
check("all are ratios of what is held", {(r["bench"], r["metric"], r["unit"]) for r in rows} ==
      {("placement", "reserved_over_live", "ratio")}, run)
check("the best fit keeps the large hole whole", value[("holes", "best_fit")] == 1, run)
check("the first fit cuts it", value[("holes", "first_fit")] == 1.5, run)
check("no rule has room where there is none", all(value[("wall", rule)] == 1.5 for rule in rules), run)
check("small blocks are kept apart", math.isclose(value[("small", "first_fit")], (2 + 4) / 3.5), run)
check("the best rule for each is the least of all", all(
    value[(case, "the best rule for each")] == min(value[(case, rule)] for rule in rules)
    for case in ("holes", "wall", "small")), run)
check("the mean is that of the traces", math.isclose(
    value[("geometric_mean", "best_fit")] ** 3,
    value[("holes", "best_fit")] * value[("wall", "best_fit")] * value[("small", "best_fit")]), run)
check("some rules know deaths", sum(rule.startswith("knows_deaths(") for rule in rules) > 20, run)

placement.refuses((
    ("a missing trace", 3, "No such file or directory", ("--trace", folder / "missing.csv")),
    ("two traces of one name", 2, "are both the case 'small'", ("--trace", small, placement.file("small.b.csv", HEADER))),
), runs_nothing="first_fit")
placement.helps("--trace")
placement.exit()
