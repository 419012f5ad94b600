#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer finds one planted fault of a kernel in each pool, and names the right block.

    planted.py PROGRAM [POOL...]   runs PROGRAM (planted.cu) for each pool and fault; prints "skipped:" without a GPU
    planted.py --self-test         checks the reader of reports

For each pool there are five runs: correct use under memcheck and initcheck, a write behind a block, a write into a freed
block, and a read of a block that was never written. If the tool does not accept the pool's chunks, the runs count as
skipped, which only virtual memory may do.
"""
import pathlib
import re
import shutil
import subprocess
import sys

RUNS = (("none", "memcheck"), ("none", "initcheck"), ("overrun", "memcheck"), ("freed", "memcheck"),
        ("uninitialised", "initcheck"))
MAY_BE_REFUSED = ("pool_pages", "pool_remap")
SIZE = 1000


def judge(fault, text, code=0):
    """What is wrong with a run with this output and exit status, or an empty string; None if the tool refused the chunk."""
    block = re.search(r"^block 0x([0-9a-f]+) known ([01])$", text, re.M)
    if not block:
        return "the program did not print its block"
    if fault == "none" and code != 0:
        return f"the correct program ended with {code}"
    at = int(block[1], 16)
    if block[2] == "0":
        return None
    errors = re.search(r"ERROR SUMMARY: (\d+) error", text)
    if not errors:
        return "the tool printed no summary"
    if fault == "none":
        return "" if errors[1] == "0" else f"{errors[1]} errors in a correct program"
    if errors[1] == "0":
        return "the tool reports no error"
    what = "Uninitialized __global__ memory read" if fault == "uninitialised" else "Invalid __global__ write"
    if what not in text:
        return f"no report '{what}'"
    address = re.search(re.escape(what) + r".*?\b(?:Address|address|Access to) (0x[0-9a-f]+)", text, re.S)
    wanted = at + SIZE if fault == "overrun" else at
    if not address or int(address[1], 16) != wanted:
        return f"the report names {address[1] if address else 'no address'}, not {wanted:#x}"
    if fault == "overrun":
        near = re.search(r"([\d,]+) bytes? after the nearest allocation at (0x[0-9a-f]+) of size ([\d,]+) bytes", text)
        if not near or int(near[2], 16) != at or near[3].replace(",", "") != str(SIZE):
            return f"the nearest allocation is not the block of {SIZE} bytes at {at:#x}"
    return ""


def run(tool, program, pool, fault, check):
    command = [tool, "--tool", check, "--print-limit", "4", program, pool, fault]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=120)
    return done.stdout, done.returncode


def sanitizer():
    for folder in ("", "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"):
        found = shutil.which("compute-sanitizer", path=folder or None)
        if found:
            return found
    return None


def has_gpu():
    try:
        devices = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except OSError:
        return False
    return devices.returncode == 0 and "GPU 0" in devices.stdout


def self_test():
    good = "block 0x7f00000400 known 1\n========= Invalid __global__ write of size 1 bytes\n" \
           "=========     at write_byte\n=========     Address 0x7f000007e8 is out of bounds\n" \
           "=========     and is 1 bytes after the nearest allocation at 0x7f00000400 of size 1,000 bytes\n" \
           "========= ERROR SUMMARY: 1 error\n"
    read = "block 0x7f00000400 known 1\n========= Uninitialized __global__ memory read of size 1 bytes\n" \
           "=========     Address 0x7f00000400\n========= ERROR SUMMARY: 1 error\n"
    newer = good.replace("Address 0x7f000007e8", "Access to 0x7f000007e8")  # of the sanitizer of CUDA 13.0
    freed = newer.replace("0x7f000007e8", "0x7f00000400").replace("is 1 bytes", "is 25 bytes").replace("at 0x7f00000400 of", "at 0x7f00000000 of")
    clean = "block 0x7f00000400 known 1\n========= ERROR SUMMARY: 0 errors\n"
    right = [judge("overrun", good) == "", judge("uninitialised", read) == "", judge("none", clean) == "",
             judge("overrun", newer) == "", judge("freed", freed) == "", judge("freed", newer), judge("overrun", freed),
             judge("overrun", newer.replace("Access to 0x7f000007e8", "Access to 0x7f000007e9")),
             judge("overrun", clean), judge("none", good), judge("freed", good), judge("uninitialised", good),
             judge("overrun", good.replace("1,000", "2,097,152")), judge("overrun", good.replace("0x7f000007e8", "0x7f000007e9")),
             judge("overrun", good.replace("allocation at 0x7f00000400", "allocation at 0x7f00000000")),
             judge("none", "ERROR SUMMARY: 0 errors"), judge("none", clean, 2), judge("none", clean, -11),
             judge("none", clean.replace("known 1", "known 0"), 2), judge("overrun", good, 1) == "",
             judge("none", clean.replace("known 1", "known 0")) is None]
    failed = sum(not each for each in right)
    print(f"tally: {len(right) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


def main(program, pools):
    tool = sanitizer()
    if not has_gpu() or not tool:
        print("skipped: planted faults: there is no GPU" if tool else "skipped: planted faults: there is no compute-sanitizer")
        return 0
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    passed = failed = refused = 0
    for pool in pools or listed:
        for fault, check in RUNS:
            text, code = run(tool, program, pool, fault, check)
            wrong = judge(fault, text, code)
            if wrong is None and pool not in MAY_BE_REFUSED:
                wrong = "the tool does not know the chunk"
            print(f"{pool:<16}{fault:<16}{check:<12}{'refused' if wrong is None else wrong or 'found' if fault != 'none' else wrong or 'clean'}")
            if wrong:
                print(text)
            passed, failed, refused = passed + (wrong == ""), failed + bool(wrong), refused + (wrong is None)
    print(f"tally: {passed} passed, {failed} failed, {refused} skipped")
    return failed != 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]))
