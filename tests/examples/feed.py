#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line of feed: right results whatever the batch and the budget, and how it ends. feed.py FOLDER-OF-PROGRAMS"""
import mmap
import os
import pathlib
import re
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from program import Program

feed = Program("feed")
check, folder = feed.check, feed.folder

def says(run, what, pattern=r".+"):
    found = re.search(rf"^{what}  +({pattern})$", run.stdout, re.MULTILINE)
    return found and found[1]


# --- right results ------------------------------------------------------------------------------------------------

run = feed()
check("without arguments a file of the project is fed", run.returncode == 0 and "gpt2.csv.gz" in run.stdout, run)
check("it says on which machine", "on the simulated device" in run.stdout, run)
check("every batch is what the CPU says", says(run, "checked") == "all, against the CPU", run)
check("no progress bar is drawn into a pipe", "\r" not in run.stdout + run.stderr, run)
checksum = says(run, "checksum", "[0-9a-f]{16}")
check("there is a checksum", checksum is not None, run)
for words in ("overlap", "host waits", "layer"):
    check(f"the report speaks of {words}", words in run.stdout, run)

for arguments in (("--batch", "4KiB"), ("--batch", "1MiB"), ("--batch", "100000"), ("--batch", "1GiB", "--budget", "3MiB"),
                  ("--depth", 0), ("--depth", 1), ("--depth", 3), ("--depth", 16, "--batch", "16KiB"),
                  ("--budget", "64KiB"), ("--budget", "20KiB"), ("--budget", "600KiB"), ("--budget", "1GiB")):
    run = feed(*arguments)
    check(f"{arguments} give the same checksum", run.returncode == 0 and says(run, "checksum") == checksum, run)

run = feed("--budget", "64KiB")
check("a budget too small for a batch makes an out-of-memory happen", int(says(run, "out of memory", r"\d+ times?").split()[0]) > 0, run)
check("it is explained", "256 KiB could not be allocated" in run.stdout and "at most 64.0 KiB" in run.stdout, run)
check("it is met by splitting", says(run, "  met by") is not None, run)
taken = re.search(r"^ +limiting +([\d.]+) KiB +64\.0 KiB$", run.stdout, re.MULTILINE)
check("the budget holds", taken and float(taken[1]) <= 64, run)
check("nothing is left out", says(run, "  still out") == "0 B", run)
run = feed("--batch", "248KiB", "--budget", "530KiB")
check("work is split where the slots fit and the scratch does not", "in pieces of" in run.stdout, run)
run = feed("--budget", "1GiB")
check("a budget that is large enough is never spoken of", "out of memory" not in run.stdout, run)

short = feed.file("short", b"a few bytes")
run = feed(short)
check("a file shorter than a batch is one batch, and that is said",
      run.returncode == 0 and says(run, "batches") == "1" and "shorter than a batch" in run.stdout, run)
check("its most frequent byte is told", "0x20, 2 times" in run.stdout, run)
exact = feed.file("exact", bytes(range(256)) * 64)
run = feed(exact, "--batch", "4KiB")
check("a file of whole batches has no batch more", run.returncode == 0 and says(run, "batches") == "4", run)
one = feed.file("one", b"x")
run = feed(one)
check("a file of one byte is fed", run.returncode == 0 and "0x78, 1 time" in run.stdout, run)

# Inputs whose length is unknown.
recorded = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data" / "gpt2.csv.gz"
for arguments in ((), ("--batch", "100000"), ("--depth", 0), ("--depth", 16, "--batch", "16KiB"), ("--budget", "64KiB")):
    with open(recorded) as bytes_in:
        run = feed("-", *arguments, stdin=bytes_in)
    check(f"stdin with {arguments} gives the same checksum", run.returncode == 0 and says(run, "checksum") == checksum, run)
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(recorded.read_bytes()))
    writer.start()
    run = feed(pipe, *arguments)
    writer.join()
    pipe.unlink()
    check(f"a FIFO with {arguments} gives the same checksum", run.returncode == 0 and says(run, "checksum") == checksum, run)
run = feed("-", input="")
check("an empty stdin ends with 3", run.returncode == 3 and "stdin: is empty" in run.stderr, run)
feed.refuses_a_full_stdout(short)

# The file changes during the run: the device received other bytes than the CPU reads afterwards.
moving = feed.file("moving", bytes(16 << 20))
with open(moving, "r+b") as behind, mmap.mmap(behind.fileno(), 0) as view:
    stop = threading.Event()

    def change():
        turns = 0
        while not stop.is_set():
            view[:] = bytes([turns % 251]) * len(view)
            turns += 1

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(20):
            run = feed(moving)
            if run.returncode != 0:
                break
    finally:
        stop.set()
        changing.join()
check("an answer that is not the CPU's ends with 5", run.returncode == 5, run)
check("it is told in one line, with the batch", run.stderr.count("\n") == 1 and "batch" in run.stderr, run)

# --- errors of the command line -----------------------------------------------------------------------------------

unreadable = feed.file("unreadable", b"secret")
unreadable.chmod(0)
cases = [
    ("an unknown option", 2, "--sise", ("--sise",)),
    ("a batch of nothing", 2, "--batch", ("--batch", "0")),
    ("a batch that is no size", 2, "--batch", ("--batch", "much")),
    ("a depth that is no number", 2, "--depth", ("--depth", "deep")),
    ("two files", 2, "not expected", (short, short)),
    ("a missing file", 3, "No such file or directory", (folder / "missing",)),
    ("a folder", 3, "is a folder", (folder,)),
    ("an empty file", 3, "the file is empty", (feed.file("empty", b""),)),
    ("a budget for nothing", 4, "The budget is 1.00 KiB", ("--budget", "1KiB")),
]
if os.geteuid() != 0:
    cases.append(("an unreadable file", 3, "Permission denied", (unreadable,)))
feed.refuses(cases)

feed.helps("--budget")

feed.exit()
