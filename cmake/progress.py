#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of ctest, and passes on its output about failed tests.

    ctest ... | progress.py    on a terminal one line that changes, else a line for every tenth of the tests
"""
import re
import sys
import time

RESULT = re.compile(r"^ *(\d+)/(\d+) Test +#\d+: (\S+) \.* *(\*{0,3})(\w+)")
QUIET = re.compile(r"^ *(Start +\d+: |\d+/\d+ .* Passed )")


def main():
    terminal = sys.stdout.isatty()
    begin, failed, shown, bar = time.monotonic(), 0, 0, False
    for line in sys.stdin:
        match = RESULT.match(line)
        if bar:
            sys.stdout.write("\r\033[K")
            bar = False
        if not QUIET.match(line):
            sys.stdout.write(line)
        if match:
            done, total, name = int(match[1]), int(match[2]), match[3]
            failed += match[4] == "***" and match[5] != "Skipped"
            seconds = int(time.monotonic() - begin)
            text = f"   {done} of {total} tests, {failed} failed, {seconds // 60}:{seconds % 60:02}"
            if terminal:
                sys.stdout.write(f"{text}  {name}"[:79])
                bar = True
            elif done == total or done * 10 // total > shown:
                shown = done * 10 // total
                sys.stdout.write(text + "\n")
        sys.stdout.flush()
    if bar:
        sys.stdout.write("\r\033[K" + text + "\n")


if __name__ == "__main__":
    main()
