"""Common parts of the peer programs that need no torch: result files, options
for them, and figures.
"""
import collections
import contextlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

# Read only.
CLOCKS = ("clocks.sm", "clocks.mem", "clocks.max.sm", "power.draw",
          "temperature.gpu", "clocks_event_reasons.active")


class Stopwatch:
    """Wall time by phase. The phase "measure" holds all but "tune"."""

    def __init__(self):
        self.seconds = collections.defaultdict(float)

    @contextlib.contextmanager
    def phase(self, name):
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - begin


class Progress:
    """Lines on stderr with the seconds since the start."""

    def __init__(self):
        self._began = time.monotonic()

    def seconds(self):
        return time.monotonic() - self._began

    def say(self, text):
        print(f"[{self.seconds():6.1f} s] {text}", file=sys.stderr, flush=True)


def config_of(description):
    """The config in a plan's line "PROBLEM: CONFIG, by SOURCE, ..."; the whole
    line if it looks different."""
    _, colon, rest = description.partition(": ")
    return rest.split(", ")[0] if colon else description


def asked_of_gpu(field):
    """The first GPU's value of a field of nvidia-smi."""
    try:
        return subprocess.run(
            ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"],
            check=True, text=True, capture_output=True).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def driver_version():
    return asked_of_gpu("driver_version").strip()


def gpu_name():
    return asked_of_gpu("name").strip()


def clocks():
    """{field: text} of the GPU now, or what went wrong."""
    try:
        line = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(CLOCKS)}",
             "--format=csv,noheader"], check=True, text=True, timeout=20,
            capture_output=True).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        return {"error": str(error)[:200]}
    return dict(zip(CLOCKS, (field.strip() for field in line.split(","))))


def geomean(values):
    return round(math.exp(statistics.fmean(map(math.log, values))), 4)


def parse_with_result(parser):
    """The options, with where the result goes and the commit that it names."""
    parser.add_argument("--commit", default="",
                        help="noted in the result; --out needs it")
    parser.add_argument("--out", help="path of the result, JSON")
    options = parser.parse_args()
    if options.out and not options.commit:
        parser.error("--out needs --commit, the commit that is measured")
    return options


def write_document(document, path):
    """Writes it after every case: a run that is cut short leaves its rows."""
    if path is None:
        return
    text = json.dumps(document, indent=1)
    beside = pathlib.Path(f"{path}.part")
    beside.write_text(text + "\n")
    os.replace(beside, path)


def number(value, width, digits):
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"
