"""Common parts of torch_low_precision.py and torch_grouped.py: measuring a
product beside torch, and the run over all cases.

Each side of a case is captured into a CUDA graph of many launches, so that no
side pays for its host code. The launches rotate over copies of all operands
that together exceed 32 times the L2. The graphs are replayed in turns, with a
gap before each, for these products draw much power. Numbers are medians over
the rounds. A side is timed where its result agrees with fp32 arithmetic.
"""
import argparse
import contextlib
import gc
import math
import statistics
import sys
import time

import torch

import kiln_ctypes
from interleaved import KilnSide, capture, time_graphs, torch_launcher
from result_files import (Stopwatch, driver_version, geomean, number,
                          write_document)

PROTOCOL = (
    "Cold L2 (operands rotate over copies of 32 times the L2, but 256 copies "
    "at most), N(0, 1) data, {data}, CUDA graphs of about 1 ms or more, all "
    "sides interleaved in one run on the same inputs, {gap:g} ms without work "
    "before each graph, median of {rounds} rounds; a spread is (greatest - "
    "least) / median; {sides}; a ratio is the fastest peer's time over Kiln's.")

# Length of a graph, and how fast a launch is guessed to be at best (of an
# H200): used to choose the launches of a graph.
REPLAY_US = 1000
FASTEST_BYTES_PER_US = 4.0e6
FASTEST_FLOP_PER_US = 1.5e9
FASTEST_LAUNCH_US = 1.5

MEMORY_LIMIT_BYTES = 40e9
LEAST_ROTATION_BYTES = 1920 << 20
MOST_COPIES = 256


class Sides:
    """The sides that a program compares Kiln with. A subclass has these:

    what, data, sides: texts of the result's head.
    uncounted: names of sides that no ratio counts.
    missing(): names of functions that this torch lacks.
    held_bytes(case): bytes of a copy, with outputs and torch's own inputs.
    make_data(case, copies): an object with lists `inputs`, `of_torch` and
      `outputs`, which have a dict of tensors by name for each copy; and
      faults_of(side, result), the faults of a result of the last copy, a list
      of texts.
    functions_of(case, data): {side: function of a dict of of_torch}.
    check_call(engine, case, data, kiln): faults of another way to call Kiln.
    """

    uncounted = ()

    def missing(self):
        return []

    def check_call(self, engine, case, data, kiln):
        return []


def copies_of(case, held_bytes):
    """Copies of the operands: over 32 x L2 together and two at least."""
    properties = torch.cuda.get_device_properties(0)
    rotation = max(LEAST_ROTATION_BYTES,
                   32 * getattr(properties, "L2_cache_size", 0))
    wanted = min(MOST_COPIES, max(2, math.ceil(rotation / case.bytes)))
    return max(1, min(wanted, int(MEMORY_LIMIT_BYTES // held_bytes)))


def launches_of(case, copies):
    """Launches of a graph: a multiple of the copies."""
    fastest_us = max(case.bytes / FASTEST_BYTES_PER_US,
                     case.flops / FASTEST_FLOP_PER_US) + FASTEST_LAUNCH_US
    return math.ceil(REPLAY_US / fastest_us / copies) * copies


#===------------------------------------------------------------------------===#
# One case
#===------------------------------------------------------------------------===#


class CaseRun:
    """Measures one case; failures are noted in its row."""

    def __init__(self, engine, case, sides, options, watch):
        self.engine, self.case, self.sides = engine, case, sides
        self.options, self.watch = options, watch
        self.row = {"name": case.name, "text": case.text, "bytes": case.bytes}

    def run(self):
        """The row of the result."""
        with contextlib.ExitStack() as stack:
            kiln = self._attempt("kiln", "tune", KilnSide, self.engine,
                                 self.case, self.options)
            if kiln:
                stack.callback(kiln.close)
                self.row |= {"kiln_config": kiln.config,
                             "kiln_plan": kiln.description,
                             "kiln_from": kiln.source,
                             "kiln_predicted_us": round(kiln.predicted_us, 3)}
            self._attempt("case", "measure", self._measure, kiln)
        # The launchers, graphs and tensors of the case are gone by now.
        gc.collect()
        torch.cuda.empty_cache()
        return self.row

    def _attempt(self, side, phase, function, *arguments):
        """The function's result, or None and a note of why there is none."""
        try:
            with self.watch.phase(phase):
                return function(*arguments)
        except Exception as error:  # any failure of a side is a result
            text = str(error).strip() or type(error).__name__
            self.row[f"{side}_error"] = text[:500]
            print(f"{self.case.name}: {side}: {text[:500]}", file=sys.stderr)
            return None

    def _measure(self, kiln):
        case = self.case
        copies = copies_of(case, self.sides.held_bytes(case))
        with self.watch.phase("data"):
            data = self.sides.make_data(case, copies)
        launchers = {}
        if kiln and self._attempt("kiln", "check", self._check_kiln, kiln,
                                  data):
            launchers["kiln"] = kiln.launch
        functions = self._attempt("torch", "check", self.sides.functions_of,
                                  case, data)
        for side, function in (functions or {}).items():
            if self._attempt(side, "check", self._check_torch, side, function,
                             data):
                launchers[side] = torch_launcher(function, data.of_torch,
                                                 copies)
        launches = launches_of(case, copies)
        graphs = {side: self._attempt(side, "capture", capture, launch, copies,
                                      launches)
                  for side, launch in launchers.items()}
        graphs = {side: graph for side, graph in graphs.items() if graph}
        with self.watch.phase("timing"):
            times = time_graphs(graphs, self.options.rounds, launches,
                                self.options.gap_ms / 1e3)
        self.row |= {"copies": copies, "launches": launches}
        self.row |= summary_of(case, times, self.sides.uncounted)

    def _check_kiln(self, kiln, data):
        """Runs every copy once and checks the last; True when it could run."""
        kiln.bind(self.case, data.inputs, data.outputs)
        for copy in range(len(data.inputs)):
            kiln.launch(copy)
        torch.cuda.synchronize()
        faults = data.faults_of("kiln", data.outputs[-1]["d"])
        faults += self.sides.check_call(self.engine, self.case, data, kiln)
        self.row["agrees"] = not faults
        if faults:
            self.row["disagrees"] = faults
        # Memory of the check must not be missing in the graphs' pools.
        torch.cuda.empty_cache()
        return True

    def _check_torch(self, side, function, data):
        """True where torch computes it. Errors: RuntimeError, what differs."""
        faults = data.faults_of(side, function(**data.of_torch[-1]))
        if faults:
            raise RuntimeError(f"differs from fp32: {faults[0]}")
        return True


def summary_of(case, times, uncounted):
    """The figures of a row from the samples of its sides; a ratio is null if
    one of its sides is missing."""
    row = {}
    medians = {side: statistics.median(values)
               for side, values in times.items()}
    for side, median in medians.items():
        row[f"{side}_us"] = round(median, 4)
        row[f"{side}_spread"] = round(
            (max(times[side]) - min(times[side])) / median, 4)
    kiln = medians.pop("kiln", None)

    def ratio(peer):
        return round(peer / kiln, 4) if peer and kiln else None

    row["kiln_gbs"] = round(case.bytes / kiln / 1e3, 1) if kiln else None
    row["tflops"] = round(case.flops / kiln / 1e6, 1) if kiln else None
    row["ratio"] = ratio(min((median for side, median in medians.items()
                              if side not in uncounted), default=None))
    row |= {f"ratio_{side}": ratio(median)
            for side, median in medians.items()}
    return row


#===------------------------------------------------------------------------===#
# Report
#===------------------------------------------------------------------------===#


def add_summary(document):
    """Sets the geometric mean and least ratio over the cases so far."""
    ratios = [(row["ratio"], row["name"]) for row in document["cases"]
              if row.get("ratio")]
    if ratios:
        document["geomean"] = geomean([value for value, _ in ratios])
        document["least"], document["least_case"] = min(ratios)


HEADER = (f"{'case':40} {'kiln us':>9} {'TFLOP/s':>8} {'GB/s':>6} "
          f"{'ratio':>6} {'spread %':>8} agrees; others us; config")


def table_line(row):
    spread = row.get("kiln_spread")
    others = ", ".join(
        f"{key[:-3]} {value:.2f}" for key, value in row.items()
        if key.endswith("_us") and not key.startswith("kiln_"))
    return (f"{row['name']:40} {number(row.get('kiln_us'), 9, 2)} "
            f"{number(row.get('tflops'), 8, 1)} "
            f"{number(row.get('kiln_gbs'), 6, 0)} "
            f"{number(row.get('ratio'), 6, 3)} "
            f"{number(None if spread is None else 100 * spread, 8, 1)} "
            f"{'yes' if row.get('agrees') else 'NO':6} "
            f"[{others or 'none'}] {row.get('kiln_config', '-')}")


#===------------------------------------------------------------------------===#
# Run
#===------------------------------------------------------------------------===#


def options_parser(description):
    """The options that both programs have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--most", type=int, metavar="N",
                        help="N cases at most, spread over all")
    parser.add_argument("--filter", default="",
                        help="parts of names, joined by commas")
    parser.add_argument("--library", help="libkiln.so; default: of the build")
    parser.add_argument("--mode", choices=sorted(kiln_ctypes.MODES),
                        default="tune")
    parser.add_argument("--budget-ms", type=int, default=500,
                        help="of tuning, for each case")
    parser.add_argument("--limit-s", type=float, default=80,
                        help="no case begins later than this; 0: no limit")
    parser.add_argument("--retune", action="store_true",
                        help="measure although the cache has a record")
    parser.add_argument("--cache-dir", help="default: KILN_CACHE_DIR")
    parser.add_argument("--nvrtc", help="path of the NVRTC that Kiln opens")
    parser.add_argument("--scratch-gib", type=int, default=16,
                        help="device memory that Kiln's trials may hold")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gap-ms", type=float, default=5,
                        help="idle time before each graph")
    parser.add_argument("--verbose", action="store_true",
                        help="print Kiln's log")
    return parser


def make_engine(options):
    library = kiln_ctypes.Library(kiln_ctypes.find_library(options.library))
    log = (lambda text: print(text, file=sys.stderr)) if options.verbose \
        else None
    return kiln_ctypes.Engine(
        library, mode=options.mode, log=log,
        tune_budget_ms=options.budget_ms, cache_dir=options.cache_dir,
        nvrtc_path=options.nvrtc, scratch_limit_bytes=options.scratch_gib << 30)


def new_document(sides, options):
    return {"what": sides.what, "peer": "torch",
            "gpu": torch.cuda.get_device_name(0), "driver": driver_version(),
            "cuda": torch.version.cuda, "commit": options.commit,
            "torch": torch.__version__, "mode": options.mode,
            "budget_ms": options.budget_ms,
            "protocol": PROTOCOL.format(
                rounds=options.rounds, gap=options.gap_ms, data=sides.data,
                sides=sides.sides),
            "interrupted": True, "cases": []}


def measure_all(cases, sides, options, document, watch):
    """Adds a row for each case until the time is up."""
    begin = time.monotonic()
    with make_engine(options) as engine:
        for index, case in enumerate(cases):
            if 0 < options.limit_s < time.monotonic() - begin:
                left_out = [left.name for left in cases[index:]]
                print(f"left out after {options.limit_s:g} s: "
                      f"{', '.join(left_out)}", file=sys.stderr)
                document["left_out"] = left_out
                break
            row = CaseRun(engine, case, sides, options, watch).run()
            print(table_line(row), flush=True)
            document["cases"].append(row)
            add_summary(document)
            write_document(document, options.out)
        torch.cuda.synchronize()


def run(cases, sides, options):
    """Measures the cases and writes the result; the program's exit code."""
    missing = sides.missing()
    if missing:
        print(f"torch {torch.__version__} has no {', '.join(missing)}",
              file=sys.stderr)
    watch = Stopwatch()
    # Makes the device's primary context, Kiln's too, current.
    torch.zeros(1, device="cuda")
    # Results are checked with fp32.
    torch.backends.cuda.matmul.allow_tf32 = False
    document = new_document(sides, options)
    print(HEADER)
    with watch.phase("total"), torch.no_grad():
        measure_all(cases, sides, options, document, watch)
    document["interrupted"] = False
    document["seconds"] = {phase: round(seconds, 1)
                           for phase, seconds in watch.seconds.items()}
    write_document(document, options.out)
    if "geomean" in document:
        print(f"against torch: geomean {document['geomean']:.3f}, least "
              f"{document['least']:.3f} ({document['least_case']})")
    print("seconds: " + ", ".join(f"{phase} {seconds:.1f}" for phase, seconds
                                  in watch.seconds.items()))
    # Kiln's numbers stand only if it computes what fp32 does.
    return 0 if all(row.get("agrees") for row in document["cases"]) else 1
