#!/usr/bin/env python3
"""Times Kiln against PyTorch, eager and torch.compile, on the memory-bound
suite, or on the problems of a draw. One GPU, one process, the same inputs for
all sides.

  python3 benchmarks/peers/torch_memory_bound.py --commit COMMIT --out result.json
  python3 benchmarks/peers/torch_memory_bound.py --suite draw.json --most 40 \
      --mode predict --commit COMMIT --out result.json

How it is timed. Each side of a case is captured into a CUDA graph of many
launches, about 2 ms or more, so that no side pays for its host code. The
launches rotate over copies of all operands that together exceed 32 times the
L2, but 1024 copies at most. The graphs are replayed in turns (kiln, eager,
compile, kiln, ...), each behind a short delay that hides the launch of the
graph; the numbers are medians over the rounds. A small case is measured hot as
well: one copy, which stays in the L2.

Outputs. Kiln writes to one output per copy. torch allocates its outputs from
the graph's memory, which would hand the same block, warm in the L2, to every
launch. So an output is kept until `copies` launches later: torch's outputs
rotate over as many blocks as Kiln's. Temporaries inside of a torch function
are freed at once, as in a user's program.
"""
import argparse
import contextlib
import gc
import json
import math
import multiprocessing
import pathlib
import statistics
import sys
import time

import torch

import kiln_ctypes
import memory_bound_cases
import torch_functions
from interleaved import KilnSide, capture, time_graphs, torch_launcher
from result_files import (Stopwatch, driver_version, geomean, number,
                          parse_with_result, write_document)

PROTOCOL = (
    "Cold L2 (operands rotate over copies of 32 times the L2, but 1024 copies "
    "at most), N(0, 1) data, CUDA graphs of about 2 ms or more, all sides "
    "interleaved in one run on the same inputs, median of {rounds} rounds; a "
    "spread is (greatest - least) / median; torch.compile in its default mode "
    "with static shapes; a ratio is the time of the faster of eager and "
    "torch.compile over Kiln's.")

# Length of a graph on the fastest side, and how fast a launch is guessed to be
# at best (of an H200): used to choose the launches of a graph.
REPLAY_US = 2000
FASTEST_BYTES_PER_US = 4.0e6
FASTEST_LAUNCH_US = 1.5

MEMORY_LIMIT_BYTES = 40e9
LEAST_ROTATION_BYTES = 1920 << 20
MOST_COPIES = 1024
# A case up to this size is measured hot as well.
HOT_BYTES = 2 << 20


#===------------------------------------------------------------------------===#
# Data
#===------------------------------------------------------------------------===#


def copies_of(case):
    """Copies of the operands: over 32 x L2 together and two at least, but no
    more than MOST_COPIES, and than fit the memory limit."""
    properties = torch.cuda.get_device_properties(0)
    rotation = max(LEAST_ROTATION_BYTES,
                   32 * getattr(properties, "L2_cache_size", 0))
    # Inputs are shared; outputs are Kiln's, eager's and torch.compile's.
    held = sum(operand.bytes * (3 if operand.output else 1)
               for operand in case.operands())
    wanted = min(MOST_COPIES, max(2, math.ceil(rotation / case.bytes)))
    return max(1, min(wanted, int(MEMORY_LIMIT_BYTES // held)))


def launches_of(case, copies):
    """Launches of a graph: a multiple of the copies."""
    fastest_us = case.bytes / FASTEST_BYTES_PER_US + FASTEST_LAUNCH_US
    return math.ceil(REPLAY_US / fastest_us / copies) * copies


def make_inputs(case, copies):
    """A dict of inputs by name for each copy: N(0, 1), or any integers."""
    generator = torch.Generator(device="cuda").manual_seed(20240501)

    def make(operand):
        dtype = torch_functions.TYPES[operand.dtype]
        if not dtype.is_floating_point:
            limits = torch.iinfo(dtype)
            return torch.randint(limits.min, limits.max + 1, operand.shape,
                                 device="cuda", dtype=dtype,
                                 generator=generator)
        return torch.empty(operand.shape, device="cuda", dtype=dtype).normal_(
            generator=generator)

    return [{operand.name: make(operand) for operand in case.inputs()}
            for _ in range(copies)]


def make_outputs(case, copies):
    """The same for Kiln's outputs, filled with NaN or -1."""
    outputs = [{operand.name: torch.empty(
                   operand.shape, device="cuda",
                   dtype=torch_functions.TYPES[operand.dtype])
                for operand in case.outputs()} for _ in range(copies)]
    for copy in outputs:
        for tensor in copy.values():
            tensor.view(torch.uint8).fill_(255)
    return outputs


#===------------------------------------------------------------------------===#
# Sides
#===------------------------------------------------------------------------===#


def compile_function(function, inputs):
    """(compiled function, seconds of its first call)."""
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=False)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    compiled(**inputs)
    torch.cuda.synchronize()
    return compiled, time.perf_counter() - begin


def start_compiler():
    """The first compilation of a process imports what all of them need."""
    torch.zeros(1, device="cuda")
    with torch.no_grad():
        torch.compile(lambda x: x + 1, dynamic=False)(
            torch.zeros(8, device="cuda"))


def compile_ahead(spec):
    """(name, seconds or None) of a case that this process compiles, for
    Inductor's cache on disk. A failure comes again where it is noted."""
    case = memory_bound_cases.Case(spec)
    try:
        with torch.no_grad():
            _, seconds = compile_function(torch_functions.function_of(case),
                                          make_inputs(case, 1)[0])
    except Exception:
        seconds = None
    torch.cuda.empty_cache()
    return case.name, seconds


def compile_all(cases, jobs):
    """{name: seconds} of cases that are compiled by so many processes at once.
    Theirs is the cache from which this one takes them in its turn."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, start_compiler) as pool:
        return dict(pool.imap_unordered(compile_ahead,
                                        [case.spec for case in cases]))


#===------------------------------------------------------------------------===#
# One case
#===------------------------------------------------------------------------===#


class CaseRun:
    """Measures one case; failures are noted in its row."""

    def __init__(self, engine, case, options, watch, compile_s=None):
        """`compile_s`: the time of another process that compiled it."""
        self.engine, self.case, self.options = engine, case, options
        self.watch, self.compile_s = watch, compile_s
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
        copies = copies_of(self.case)
        with self.watch.phase("data"):
            inputs = make_inputs(self.case, copies)
            outputs = make_outputs(self.case, copies)
        functions = self._torch_functions(inputs[0])
        if kiln and self._attempt("kiln", "check", self._bind_and_check, kiln,
                                  inputs, outputs) is None:
            kiln = None
        times, launches = self._times(kiln, functions, inputs, copies)
        self.row |= {"copies": copies, "launches": launches}
        self.row |= summary_of(self.case, times)
        if self.case.bytes <= HOT_BYTES:
            times, launches = self._times(kiln, functions, inputs, 1)
            self.row["hot"] = {"launches": launches} | {
                f"{side}_hot_us": round(statistics.median(values), 4)
                for side, values in times.items()}

    def _torch_functions(self, inputs):
        """{side: function} of torch's sides."""
        eager = self._attempt("eager", "check", torch_functions.function_of,
                              self.case)
        functions = {"eager": eager} if eager else {}
        if eager and not self.options.no_compile:
            made = self._attempt("compile", "compile", compile_function, eager,
                                 inputs)
            if made:
                functions["compile"], seconds = made
                self.row["compile_s"] = round(self.compile_s or seconds, 3)
        return functions

    def _bind_and_check(self, kiln, inputs, outputs):
        """Runs every copy once, checks the last; True when it could run."""
        kiln.bind(self.case, inputs, outputs)
        for copy in range(len(inputs)):
            kiln.launch(copy)
        torch.cuda.synchronize()
        faults = torch_functions.faults_of(self.case, inputs[-1], outputs[-1])
        self.row["agrees"] = not faults
        if faults:
            self.row["disagrees"] = faults
        # Memory of the check must not be missing in the graphs' pools.
        torch.cuda.empty_cache()
        return True

    def _times(self, kiln, functions, inputs, copies):
        """({side: samples}, launches of a graph)."""
        launches = launches_of(self.case, copies)
        launchers = {"kiln": kiln.launch} if kiln else {}
        launchers |= {side: torch_launcher(function, inputs, copies)
                      for side, function in functions.items()}
        graphs = {side: self._attempt(side, "capture", capture, launch, copies,
                                      launches)
                  for side, launch in launchers.items()}
        graphs = {side: graph for side, graph in graphs.items() if graph}
        with self.watch.phase("timing"):
            times = time_graphs(graphs, self.options.rounds, launches)
        return times, launches


def summary_of(case, times):
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

    def ratio(time_us):
        return round(time_us / kiln, 4) if time_us and kiln else None

    row["kiln_gbs"] = round(case.bytes / kiln / 1e3, 1) if kiln else None
    row["ratio"] = ratio(min(medians.values(), default=None))
    row["ratio_eager"] = ratio(medians.get("eager"))
    row["ratio_compile"] = ratio(medians.get("compile"))
    return row


#===------------------------------------------------------------------------===#
# Report
#===------------------------------------------------------------------------===#


def triton_version():
    try:
        import triton
        return triton.__version__
    except ImportError:
        return "none"


def add_summary(document):
    """Sets the geometric means and least ratios over the cases so far."""
    for suffix in ("", "_eager", "_compile"):
        ratios = [(row[f"ratio{suffix}"], row["name"])
                  for row in document["cases"] if row.get(f"ratio{suffix}")]
        if ratios:
            document[f"geomean{suffix}"] = geomean([value for value, _ in
                                                    ratios])
            (document[f"least{suffix}"],
             document[f"least{suffix}_case"]) = min(ratios)


HEADER = (f"{'case':32} {'MB':>8} {'kiln us':>9} {'eager us':>9} "
          f"{'compile us':>10} {'GB/s':>6} {'ratio':>6} {'spread %':>8} "
          f"{'hot k/e/c us':>17} agrees config")


def table_line(row):
    hot = row.get("hot", {})
    hot_text = "/".join(number(hot.get(f"{side}_hot_us"), 1, 2)
                        for side in ("kiln", "eager", "compile")) if hot else ""
    spread = row.get("kiln_spread")
    return (f"{row['name']:32} {row['bytes'] / 1e6:8.2f} "
            f"{number(row.get('kiln_us'), 9, 2)} "
            f"{number(row.get('eager_us'), 9, 2)} "
            f"{number(row.get('compile_us'), 10, 2)} "
            f"{number(row.get('kiln_gbs'), 6, 0)} "
            f"{number(row.get('ratio'), 6, 3)} "
            f"{number(None if spread is None else 100 * spread, 8, 1)} "
            f"{hot_text:>17} {'yes' if row.get('agrees') else 'NO':6} "
            f"{row.get('kiln_config', '-')}")


def print_summary(document, watch):
    for suffix, peer in (("", "the faster of both"), ("_eager", "eager"),
                         ("_compile", "torch.compile")):
        if f"geomean{suffix}" in document:
            print(f"against {peer}: geomean {document[f'geomean{suffix}']:.3f},"
                  f" least {document[f'least{suffix}']:.3f} "
                  f"({document[f'least{suffix}_case']})")
    print("seconds: " + ", ".join(f"{phase} {seconds:.1f}" for phase, seconds
                                  in watch.seconds.items()))


#===------------------------------------------------------------------------===#
# Run
#===------------------------------------------------------------------------===#


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--suite", default=memory_bound_cases.SUITE,
                        help="or a result of kiln-bench draw")
    parser.add_argument("--most", type=int, metavar="N",
                        help="N cases at most, spread over all of the suite")
    parser.add_argument("--filter", default="",
                        help="parts of names, joined by commas")
    parser.add_argument("--library", help="libkiln.so; default: of the build")
    parser.add_argument("--mode", choices=sorted(kiln_ctypes.MODES),
                        default="tune")
    parser.add_argument("--budget-ms", type=int, default=2000,
                        help="of tuning, for each case")
    parser.add_argument("--retune", action="store_true",
                        help="measure although the cache has a record")
    parser.add_argument("--cache-dir", help="default: KILN_CACHE_DIR")
    parser.add_argument("--nvrtc", help="path of the NVRTC that Kiln opens")
    parser.add_argument("--scratch-gib", type=int, default=16,
                        help="device memory that Kiln's trials may hold")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--no-compile", action="store_true",
                        help="leave torch.compile out")
    parser.add_argument("--compile-jobs", type=int, default=1, metavar="N",
                        help="processes that compile ahead; each holds the "
                        "operands of a case")
    parser.add_argument("--verbose", action="store_true",
                        help="print Kiln's log")
    return parse_with_result(parser)


def make_engine(options):
    library = kiln_ctypes.Library(kiln_ctypes.find_library(options.library))
    log = (lambda text: print(text, file=sys.stderr)) if options.verbose \
        else None
    return kiln_ctypes.Engine(
        library, mode=options.mode, log=log,
        tune_budget_ms=options.budget_ms, cache_dir=options.cache_dir,
        nvrtc_path=options.nvrtc, scratch_limit_bytes=options.scratch_gib << 30)


def allow_many_compilations():
    """Raises Dynamo's limits, which have had several names."""
    import torch._dynamo
    for name in ("cache_size_limit", "recompile_limit",
                 "accumulated_cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 4096)


def what_of(options):
    """The name of the measurement; for a draw, with the draw's own name."""
    drawn = json.loads(pathlib.Path(options.suite).read_text()).get("what")
    return f"memory_bound_torch: {drawn}" if drawn else "memory_bound_torch"


def new_document(options):
    return {"what": what_of(options),
            "gpu": torch.cuda.get_device_name(0), "driver": driver_version(),
            "cuda": torch.version.cuda, "commit": options.commit,
            "torch": torch.__version__, "triton": triton_version(),
            "mode": options.mode, "budget_ms": options.budget_ms,
            "protocol": PROTOCOL.format(rounds=options.rounds),
            "interrupted": True, "cases": []}


def main():
    options = parse_options()
    cases = memory_bound_cases.load_suite(options.suite, options.filter,
                                          options.most)
    watch = Stopwatch()
    # Makes the device's primary context, Kiln's too, current.
    torch.zeros(1, device="cuda")
    if not options.no_compile:
        allow_many_compilations()
    document = new_document(options)
    compile_s = {}
    if options.compile_jobs > 1 and not options.no_compile:
        with watch.phase("compile ahead"):
            compile_s = compile_all(cases, options.compile_jobs)
    print(HEADER)
    with watch.phase("total"), torch.no_grad(), make_engine(options) as engine:
        for case in cases:
            row = CaseRun(engine, case, options, watch,
                          compile_s.get(case.name)).run()
            print(table_line(row), flush=True)
            document["cases"].append(row)
            add_summary(document)
            write_document(document, options.out)
        torch.cuda.synchronize()
    document["interrupted"] = False
    document["seconds"] = {phase: round(seconds, 1)
                           for phase, seconds in watch.seconds.items()}
    write_document(document, options.out)
    print_summary(document, watch)
    # Kiln's numbers stand only if it computes what torch computes.
    return 0 if all(row.get("agrees") for row in document["cases"]) else 1


if __name__ == "__main__":
    sys.exit(main())
