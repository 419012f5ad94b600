# SPDX-License-Identifier: Apache-2.0
"""Common parts of the scripts that test a program from outside: running it, files for it, and checks that are counted."""
import atexit
import gzip
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADER = "Thread,Time,Action,Pointer,Size,Stream\n"  # the first line of a trace


class Program:
    """The program `name` of the folder that the script was given, on the simulated device, or None if it needs none."""

    def __init__(self, name, device="sim"):
        self.device = () if device is None else ("--device", device)
        self.path = pathlib.Path(sys.argv[1]) / name
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"vram-{name}-"))
        atexit.register(shutil.rmtree, self.folder)
        self.passed, self.failed, self.skipped = 0, 0, 0

    def __call__(self, *arguments, **how):
        """Runs it; `how` is for subprocess.run: input="...", stdout=file."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
        return subprocess.run([self.path, *self.device, *map(str, arguments)], text=True, timeout=200, **streams)

    def refuses_a_full_stdout(self, *arguments):
        """A report that cannot be written is a failure, and so is a closed stdout."""
        if not pathlib.Path("/dev/full").exists():
            return self.skip("a full stdout is a failure", "there is no /dev/full")
        with open("/dev/full", "w") as full:
            run = self(*arguments, stdout=full)
        self.check("a full stdout is a failure", run.returncode == 1 and "No space left" in run.stderr, run)
        command = " ".join(map(shlex.quote, map(str, [self.path, *self.device, *arguments]))) + " >&-"
        run = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200)
        self.check("a closed stdout is a failure", run.returncode == 1 and "stdout" in run.stderr, run)

    def file(self, name, content):
        """A file with that content, bytes or text; compressed if its name says so."""
        data = content.encode() if isinstance(content, str) else content
        path = self.folder / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    def check(self, what, holds, run):
        """Counts a check; if it fails, shows the run."""
        if holds:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAILED: {what}\n  {' '.join(map(str, run.args))}\n  exit {run.returncode}\n{run.stdout or ''}{run.stderr}")

    def skip(self, what, why):
        self.skipped += 1
        print(f"skipped: {what}: {why}")

    def refuses(self, cases, runs_nothing=None):
        """`cases` are (description, exit code, message, arguments); `runs_nothing` is a word that a run would print."""
        for what, code, message, arguments in cases:
            run = self(*arguments)
            self.check(f"{what} ends with {code}", run.returncode == code, run)
            self.check(f"{what} is told in one line", message in run.stderr and run.stderr.count("\n") == 1, run)
            if runs_nothing is not None:
                self.check(f"{what} runs nothing", runs_nothing not in run.stdout, run)

    def helps(self, option):
        run = subprocess.run([self.path, "--help"], capture_output=True, text=True)
        self.check("--help ends well", run.returncode == 0 and option in run.stdout and not run.stderr, run)

    def exit(self):
        print(f"tally: {self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(self.failed != 0)


def names_every_pool(words):
    """Whether each pool of vram is the outermost layer of one of the words. A pool is a header there with a word for `|`."""
    pools = {header.stem for header in (ROOT / "include/vram/pool").glob("*.hpp") if "namespace with {" in header.read_text()}
    return len(pools) >= 5 and pools <= {word.split("<")[0] for word in words if "<" in word}


def rows_hold(rows):
    """Whether each has the six fields of a figure, and no other."""
    return all(set(row) == {"bench", "case", "subject", "metric", "value", "unit"} for row in rows)
