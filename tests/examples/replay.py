#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line of replay: what it prints, what it refuses, and how it ends. replay.py FOLDER-OF-PROGRAMS"""
import json
import os
import pathlib
import pty
import re
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from program import HEADER, Program, rows_hold

replay = Program("replay")
check, folder = replay.check, replay.folder
top = pathlib.Path(__file__).resolve().parents[2]
recorded = top / "examples" / "data" / "gpt2.csv.gz"

small = replay.file("small.csv", HEADER + "".join(f"1,t,allocate,{i},{i * 1000},{i % 3}\n" for i in range(1, 200))
              + "".join(f"1,t,free,{i},{i * 1000},{i % 3}\n" for i in range(1, 150)))

# --- output -------------------------------------------------------------------------------------------------------

run = replay(recorded, "--passes", 1)
check("the recorded training run is replayed on the simulated device and says so",
      run.returncode == 0 and "on the simulated device" in run.stdout
      and "pool<stream_ordered<sim_resource>>" in run.stdout, run)
for line in (r"operations +201 807$", r"ns per operation +[\d.]+$", r"peak live +40\.9 GiB$", r"peak reserved +\d\d\.\d GiB$",
             r"reserved / live +\d\.\d{3}$", r"largest free block +[\d.]+ [KMG]?i?B$", r"waits +[\d ]+$", r"events +[\d ]+$"):
    check(f"the report has a line {line}", re.search(line, run.stdout, re.MULTILINE), run)
check("no progress bar is drawn into a pipe", "\r" not in run.stderr + run.stdout, run)

run = replay("--list")
names = re.findall(r"^(\S+)  ", run.stdout, re.MULTILINE)
check("the stacks are listed", run.returncode == 0 and {"pool", "async", "stream-ordered"} <= set(names), run)
for name in names:
    run = replay(small, "--stack", name, "--json", folder / "out.json")
    check(f"the stack {name} replays", run.returncode == 0, run)
    rows = json.loads((folder / "out.json").read_text())
    check(f"the figures of {name} are rows",
          rows_hold(rows)
          and {row["bench"] for row in rows} == {"replay"} and {row["case"] for row in rows} == {"small.csv"}, run)
    value = {row["metric"]: row["value"] for row in rows}
    check(f"the figures of {name} are those of the trace",
          value["operations"] == 348 and value["peak live"] == sum(i * 1000 for i in range(1, 200)), run)
    check(f"{name} held what was live, and the time is a time",
          value["peak reserved"] >= value["peak live"] and value["time per operation"] > 0, run)

run = replay(replay.file("small.csv.gz", small.read_text()))
check("a compressed trace says the same", run.returncode == 0 and re.search(r"operations +348$", run.stdout, re.MULTILINE), run)
check("streams are told", re.search(r"streams +3$", run.stdout, re.MULTILINE), run)

try:
    leader, follower = pty.openpty()
except OSError as why:  # a container may have none
    replay.skip("a progress bar is drawn on a terminal", why)
else:
    shown = subprocess.Popen([replay.path, "--device", "sim", recorded, "--passes", "40"], stderr=follower, stdout=subprocess.DEVNULL)
    os.close(follower)
    text = b""
    try:
        while chunk := os.read(leader, 4096):
            text += chunk
    except OSError:
        pass  # the other side is gone
    shown.wait()
    check("a progress bar is drawn on a terminal", shown.returncode == 0 and b"replay [" in text and b"%" in text,
          subprocess.CompletedProcess(shown.args, shown.returncode, "", text.decode()))

zeros = replay.file("zeros.csv", HEADER + "1,t,allocate,1,0,0\n1,t,allocate,2,0,0\n1,t,free,1,0,0\n")
run = replay(zeros, "--json", folder / "zeros.json")
check("a trace of no byte has no ratio, and says so", run.returncode == 0 and "nothing was live" in run.stdout
      and "nan" not in run.stdout and "inf" not in run.stdout, run)
rows = json.loads((folder / "zeros.json").read_text())
check("nor has it one among the figures", rows_hold(rows) and all(row["value"] is not None for row in rows)
      and "peak reserved / peak live" not in {row["metric"] for row in rows}, run)

# --- the output file ----------------------------------------------------------------------------------------------

kept = replay.file("kept.json", "the figures of yesterday")
run = replay(small, "--capacity", "1MiB", "--json", kept)
check("a run that fails leaves a file as it was", run.returncode == 4 and kept.read_text() == "the figures of yesterday", run)
fresh = folder / "fresh.json"
run = replay(small, "--capacity", "1MiB", "--json", fresh)
check("and makes none", run.returncode == 4 and not fresh.exists(), run)
run = replay(small, "--json", kept)
check("a run that ends well replaces it", run.returncode == 0 and rows_hold(json.loads(kept.read_text())), run)
if pathlib.Path("/dev/full").exists():
    run = replay(small, "--json", "/dev/full")
    check("figures that do not fit are told at the end", run.returncode == 1 and "No space left" in run.stderr, run)
else:
    replay.skip("figures that do not fit are told at the end", "there is no /dev/full")

for name, link in (("the trace itself", None), ("a symbolic link to the trace", "symlink_to"), ("a hard link to the trace", "hardlink_to")):
    target = small
    if link:
        target = folder / link
        getattr(target, link)(small)
    before = small.read_bytes()
    run = replay(small, "--json", target)
    check(f"figures are not written over {name}", run.returncode == 2 and small.read_bytes() == before
          and "overwrite the input" in run.stderr and "operations" not in run.stdout, run)
report = folder / "report.txt"
with open(report, "w") as out:
    run = replay(small, "--json", report, stdout=out)
check("figures are not written over the report", run.returncode == 2 and "overwrite what the program prints" in run.stderr, run)
run = replay(small, "--json", "-")
check("with --json - the figures are alone in stdout, and the report is in stderr",
      run.returncode == 0 and rows_hold(json.loads(run.stdout)) and re.search(r"operations +348$", run.stderr, re.MULTILINE), run)
check("and no file of that name is made", not pathlib.Path("-").exists(), run)
run = replay("-", input=small.read_text())
check("a trace is read from stdin", run.returncode == 0 and re.search(r"operations +348$", run.stdout, re.MULTILINE), run)
nil = replay.file("nil.csv", HEADER + "7,t,allocate,(nil),0,0\n7,t,allocate,0x200,256,0\n7,t,free,(nil),0,0\n7,t,free,0x200,256,0\n")
run = replay(nil)
check("a null pointer as glibc prints it is read", run.returncode == 0 and re.search(r"operations +2$", run.stdout, re.MULTILINE), run)
replay.refuses_a_full_stdout(small)

# --- errors of the command line -----------------------------------------------------------------------------------

replay.refuses((
    ("no trace", 2, "which trace?", ()),
    ("an unknown option", 2, "--sise", (small, "--sise", "1")),
    ("an unknown stack", 2, "no stack 'heap'; --list names them", (small, "--stack", "heap")),
    ("a capacity that is no size", 2, "--capacity", (small, "--capacity", "lots")),
    ("a capacity of nothing", 2, "holds nothing", (small, "--capacity", "0")),
    ("no passes", 2, "--passes", (small, "--passes", "0")),
    ("a missing file", 3, "No such file or directory", (folder / "missing.csv",)),
    ("a folder", 3, "Is a directory", (folder,)),
    ("an empty file", 3, "the file is empty", (replay.file("empty.csv", ""),)),
    ("a trace of nothing", 3, "holds no allocation", (replay.file("nothing.csv", HEADER),)),
    ("a file without the header", 3, "headless.csv:1: the first line", (replay.file("headless.csv", "1,t,allocate,1,1,0\n"),)),
    ("a malformed line", 3, "bad.csv:3: the size 'x' is no number",
     (replay.file("bad.csv", HEADER + "1,t,allocate,1,1,0\n1,t,allocate,2,x,0\n"),)),
    ("a free of what is not out", 3, "free.csv:2: 0x9 is freed but not out", (replay.file("free.csv", HEADER + "1,t,free,0x9,1,0\n"),)),
    ("figures that cannot be kept", 3, "No such file or directory", (small, "--json", folder / "no" / "folder.json")),
    ("a device too small", 4, "could not be allocated",
     (small, "--capacity", "1MiB")),
), runs_nothing="operations")

replay.helps("--capacity")

replay.exit()
