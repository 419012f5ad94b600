#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted times of the simulated device beside those that a GPU measured: the table of docs/simulator.md.

    predict.py                    predicts with a profile, and compares with bench/measured/PROFILE.json
    predict.py --measure          first measures on this machine's GPU, and replaces that file
    predict.py --write            also replaces the table in docs/simulator.md

The cells are those of bench/loader, bench/staging and bench/calls. The measured file also has the rows of bench/costs, from which
the profile's numbers were taken.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
PAGE = TOP / "docs" / "simulator.md"
BEGIN, END = "<!-- predicted: bench/predict.py --write -->", "<!-- /predicted -->"

LOADER = [f"{size}_{bound}" for size in ("1MiB", "16MiB", "64MiB") for bound in ("producer", "transfer", "compute")]
STAGED = ("pageable_to_device", "device_to_pageable", "file_to_device")
RUNS = {
    "loader": ["--subject", "loader", *(word for cell in LOADER for word in ("--case", cell))],
    "staging": ["--threads", "8", "4", "--subject", "pinned", "--subject", "driver", "--subject", "staging",
                "--subject", "staging(threads=4)", "--case", "pageable", "--case", "file_to_device"],
    "calls": [],
}
METRICS = {"loader": ("ms_per_batch",), "staging": ("ns_per_call",), "calls": ("ms_of_calls_cold", "ms_of_calls_warm")}
BARS = {"loader": 0.03, "staging": 0.10, "calls": 0.10}
UNITS = {"ms_per_batch": ("ms", 1), "ns_per_call": ("ms", 1e-6), "ms_of_calls_cold": ("ms", 1), "ms_of_calls_warm": ("ms", 1)}


def program(programs, name):
    path = programs / f"bench-{name}"
    if not path.exists():
        subprocess.run([str(TOP / "dev"), "bench", name, "--list"], check=True, stdout=subprocess.DEVNULL)
    return path


def rows_of(programs, name, *options):
    """The rows of one run of a benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        command = [str(program(programs, name)), *options, "--json", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text())


def predict(programs, profile):
    rows = []
    for name, cells in RUNS.items():
        once = ["--repeat", "1"] + (["--batches", "500"] if name == "loader" else [])
        rows += rows_of(programs, name, "--device", "sim", "--profile", profile, *once, *cells)
    return rows


def measure(programs):
    """The smallest value of each figure in five rounds: other programs of the host make calls up to twice as slow for minutes."""
    least = {}
    for _ in range(5):
        for name, cells in (*RUNS.items(), ("costs", [])):
            for row in rows_of(programs, name, "--device", "cuda", "--repeat", "1", *cells):
                if row["metric"] not in (*METRICS.get(row["bench"], ()), "ns"):
                    continue
                key = (row["bench"], row["case"], row["subject"], row["metric"])
                if key not in least or row["value"] < least[key]["value"]:
                    least[key] = row
    return [{**row, "value": float(f"{row['value']:.5g}")} for row in least.values()]


def values(rows):
    return {(r["bench"], r["case"], r["subject"], r["metric"]): r["value"] for r in rows
            if r["metric"] in METRICS.get(r["bench"], ())}


def compare(predicted, measured):
    """(bench, cell, predicted, measured, difference) of each cell that both have."""
    ours, theirs = values(predicted), values(measured)
    for key, true in theirs.items():
        bench, case, subject, metric = key
        if key not in ours or (bench == "staging" and (not case.startswith(STAGED) or subject == "driver")):
            continue  # the driver's own copies of pageable memory are numbers of the profile
        scale = UNITS[metric][1]
        cell = case if bench == "loader" else f"{case}, {subject}"
        if bench == "calls":
            cell += ", " + metric.removeprefix("ms_of_calls_")
        if true >= 0.01 * 1e-6 / scale:
            yield bench, cell, ours[key] * scale, true * scale, ours[key] / true - 1


def table(cells):
    lines = ["| cell | predicted, ms | measured, ms | difference | within the bar |", "|---|--:|--:|--:|---|"]
    for bench, cell, ours, true, apart in cells:
        met = "yes" if abs(apart) <= BARS[bench] else "no"
        lines.append(f"| {bench} {cell.replace('_', ' ')} | {ours:.4g} | {true:.4g} | {100 * apart:+.1f} % | {met} |")
    return "\n".join(lines) + "\n"


def summary(cells):
    lines = []
    for bench, bar in BARS.items():
        own = [abs(c[4]) for c in cells if c[0] == bench]
        met = sum(a <= bar for a in own)
        lines.append(f"{bench}: {met} of {len(own)} cells within {100 * bar:.0f} %")
    return "; ".join(lines)


def write(text):
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:begin] + "\n\n" + text + "\n" + page[end:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=("h100", "h200"), default="h200")
    parser.add_argument("--programs", type=pathlib.Path, default=TOP / "build" / "release" / "bench")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--write", action="store_true")
    o = parser.parse_args()
    file = TOP / "bench" / "measured" / f"{o.profile}.json"
    if o.measure:
        device = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True,
                                capture_output=True, text=True).stdout.splitlines()[0]
        rows = ",\n  ".join(json.dumps(row) for row in measure(o.programs))
        file.write_text(f'{{\n "device": {json.dumps(device)},\n "date": "{datetime.date.today()}",\n "rows": [\n  {rows}\n ]\n}}\n')
    if not file.exists():
        print(f"predict: no {file.relative_to(TOP)}; --measure writes it on a machine with that GPU", file=sys.stderr)
        return 2
    recorded = json.loads(file.read_text())
    cells = list(compare(predict(o.programs, o.profile), recorded["rows"]))
    text = f"Measured on {recorded['date']}: {recorded['device']}. {summary(cells)}.\n\n{table(cells)}"
    print(text, end="")
    if o.write:
        write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
