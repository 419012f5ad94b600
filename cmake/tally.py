#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up the results of several test runs.

    tally.py DIR    DIR holds ctest's JUnit files (NAME.xml) and, for runs without ctest, the output as
                    NAME.passed, NAME.failed or, with the reason in its last line, NAME.skipped

A run that prints "tally: 3 passed, 0 failed, 1 skipped" counts as that many; any other run counts as one.
The last line is "N passed, N failed, N skipped"; the exit status is 1 if anything failed, or
if nothing passed.
"""
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as tree

TALLY = re.compile(r"^tally: (\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
SKIPPED = re.compile(r"^skipped: (.*): (.*)$", re.MULTILINE)

total = collections.Counter()
failures = []
reasons = collections.defaultdict(list)


def add(name, status, output, why):
    """One check that ended as `status` (passed, failed, skipped), or as many as its output says."""
    counts = TALLY.findall(output)
    here = collections.Counter(dict(zip(("passed", "failed", "skipped"), map(int, counts[-1]))) if counts else {status: 1})
    if status == "failed" and not here["failed"]:
        here["failed"] = 1  # it crashed, or failed beside its cases
    if here["failed"]:
        failures.append(name)
    named = SKIPPED.findall(output)
    for what, reason in named:
        reasons[reason].append(what)
    if here["skipped"] and not named:
        reasons[why].append(name)
    total.update(here)


for result in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    if result.suffix == ".xml":
        for case in tree.parse(result).getroot().iter("testcase"):
            status = {"run": "passed", "fail": "failed"}.get(case.get("status"), "skipped")
            skip = case.find("skipped")
            why = skip.get("message", "") if skip is not None else case.get("status")
            if status == "skipped" and not why.startswith("SKIP_"):
                status = "failed"  # it asked for no skip: its program is missing, or cannot be run
            add(f"{result.stem}: {case.get('name')}", status, case.findtext("system-out") or "", why)
    elif result.suffix in (".passed", ".failed", ".skipped"):
        output = result.read_text(errors="replace")
        add(result.stem, result.suffix[1:], output, (output.strip().splitlines() or [""])[-1])

for why, what in sorted(reasons.items()):
    print(f"skipped  {len(what)}: {why}" if len(what) > 3 else f"skipped  {', '.join(what)}: {why}")
for name in failures:
    print(f"FAILED   {name}")
print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
sys.exit(total["failed"] > 0 or total["passed"] == 0)
