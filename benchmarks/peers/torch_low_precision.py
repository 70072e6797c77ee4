#!/usr/bin/env python3
"""Times Kiln against PyTorch on products of fp8 (torch._scaled_mm with scales of
tensors and rows, and of blocks where torch has them) and int8 (torch._int_mm).
One GPU, one process, the same inputs for all sides.

  python3 benchmarks/peers/torch_low_precision.py --commit COMMIT --out result.json

How it is timed. Each side of a case is captured into a CUDA graph of many
launches, so that no side pays for its host code. The launches rotate over
copies of all operands that together exceed 32 times the L2. The graphs are
replayed in turns, with a gap before each, for these products draw much power.
Numbers are medians over the rounds. A side is timed where its result agrees
with fp32 arithmetic. Sums are fast in torch exactly where the problem says
compute=fast_fp8.

torch._int_mm computes int32 sums alone, Kiln's int8 result and scales besides:
such ratios favour torch.
"""
import argparse
import contextlib
import gc
import math
import statistics
import sys

import torch

import kiln_ctypes
import low_precision_cases
import torch_scaled_mm
from interleaved import (KilnSide, Stopwatch, capture, current_stream,
                         driver_version, geomean, number, parse_with_result,
                         time_graphs, torch_launcher, write_document)

PROTOCOL = (
    "Cold L2 (operands rotate over copies of 32 times the L2, but 256 copies "
    "at most), N(0, 1) data, scales powers of two, CUDA graphs of about 1 ms "
    "or more, all sides interleaved in one run on the same inputs, {gap:g} ms "
    "without work before each graph, median of {rounds} rounds; a spread is "
    "(greatest - least) / median; torch sums fast where the problem does; "
    "torch._int_mm computes the int32 sums alone; a ratio is torch's time over "
    "Kiln's.")

# Length of a graph, and how fast a launch is guessed to be at best (of an
# H200): used to choose the launches of a graph.
REPLAY_US = 1000
FASTEST_BYTES_PER_US = 4.0e6
FASTEST_FLOP_PER_US = 1.5e9
FASTEST_LAUNCH_US = 1.5

MEMORY_LIMIT_BYTES = 40e9
LEAST_ROTATION_BYTES = 1920 << 20
MOST_COPIES = 256


def copies_of(case):
    """Copies of the operands: over 32 x L2 together and two at least."""
    properties = torch.cuda.get_device_properties(0)
    rotation = max(LEAST_ROTATION_BYTES,
                   32 * getattr(properties, "L2_cache_size", 0))
    # Inputs are shared, outputs are each side's; those of int32 are larger.
    held = sum(operand.bytes * (4 if operand.output else 1)
               for operand in case.operands())
    wanted = min(MOST_COPIES, max(2, math.ceil(rotation / case.bytes)))
    return max(1, min(wanted, int(MEMORY_LIMIT_BYTES // held)))


def launches_of(case, copies):
    """Launches of a graph: a multiple of the copies."""
    fastest_us = max(case.bytes / FASTEST_BYTES_PER_US,
                     case.flops / FASTEST_FLOP_PER_US) + FASTEST_LAUNCH_US
    return math.ceil(REPLAY_US / fastest_us / copies) * copies


def make_inputs(case, copies):
    """A dict of inputs by name for each copy."""
    generator = torch.Generator(device="cuda").manual_seed(20240501)
    return [{operand.name: torch_scaled_mm.make_operand(operand, generator)
             for operand in case.inputs()} for _ in range(copies)]


def make_outputs(case, copies):
    """The same for Kiln's outputs, filled with NaN."""
    outputs = [{operand.name: torch.empty(
                   operand.shape, device="cuda",
                   dtype=torch_scaled_mm.TYPES[operand.dtype])
                for operand in case.outputs()} for _ in range(copies)]
    for copy in outputs:
        copy["d"].view(torch.uint8).fill_(255)
    return outputs


#===------------------------------------------------------------------------===#
# One case
#===------------------------------------------------------------------------===#


class CaseRun:
    """Measures one case; what fails of it is noted in its row."""

    def __init__(self, engine, case, options, watch):
        self.engine, self.case, self.options = engine, case, options
        self.watch = watch
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
        launchers = {}
        if kiln and self._attempt("kiln", "check", self._check_kiln, kiln,
                                  inputs, outputs):
            launchers["kiln"] = kiln.launch
        functions = self._attempt("torch", "check",
                                  torch_scaled_mm.functions_of, self.case)
        for side, function in (functions or {}).items():
            if self._attempt(side, "check", self._check_torch, side, function,
                             inputs[-1]):
                launchers[side] = torch_launcher(function, inputs, copies)
        launches = launches_of(self.case, copies)
        graphs = {side: self._attempt(side, "capture", capture, launch, copies,
                                      launches)
                  for side, launch in launchers.items()}
        graphs = {side: graph for side, graph in graphs.items() if graph}
        with self.watch.phase("timing"):
            times = time_graphs(graphs, self.options.rounds, launches,
                                self.options.gap_ms / 1e3)
        self.row |= {"copies": copies, "launches": launches}
        self.row |= summary_of(self.case, times)

    def _check_kiln(self, kiln, inputs, outputs):
        """Runs every copy once, checks the last, and the same by kiln_gemm()
        with its scales in structs; True when it could run."""
        kiln.bind(self.case, inputs, outputs)
        for copy in range(len(inputs)):
            kiln.launch(copy)
        torch.cuda.synchronize()
        faults = torch_scaled_mm.faults_of(self.case, inputs[-1],
                                           outputs[-1]["d"])
        self.row["agrees"] = not faults
        if faults:
            self.row["disagrees"] = faults
        called = make_outputs(self.case, 1)[0]
        addresses = {name: tensor.data_ptr()
                     for name, tensor in {**inputs[-1], **called}.items()}
        self.engine.gemm(self.case.args(addresses), current_stream(),
                         kiln.workspace)
        torch.cuda.synchronize()
        if torch_scaled_mm.faults_of(self.case, inputs[-1], called["d"]):
            self.row["agrees"] = False
            self.row["disagrees"] = faults + ["kiln_gemm() differs"]
        # What the check took must not be missing in the graphs' pools.
        torch.cuda.empty_cache()
        return True

    def _check_torch(self, side, function, inputs):
        """True where torch computes it. Errors: RuntimeError, what differs."""
        faults = torch_scaled_mm.faults_of(
            self.case, inputs, function(**inputs),
            with_scales=side != "int_mm")
        if faults:
            raise RuntimeError(f"differs from fp32: {faults[0]}")
        return True


def summary_of(case, times):
    """What a row says about the samples of its sides; a ratio is null if one
    of its sides is missing."""
    row = {}
    medians = {side: statistics.median(values)
               for side, values in times.items()}
    for side, median in medians.items():
        row[f"{side}_us"] = round(median, 4)
        row[f"{side}_spread"] = round(
            (max(times[side]) - min(times[side])) / median, 4)
    kiln = medians.pop("kiln", None)
    peer = min(medians.values(), default=None)
    row["kiln_gbs"] = round(case.bytes / kiln / 1e3, 1) if kiln else None
    row["tflops"] = round(case.flops / kiln / 1e6, 1) if kiln else None
    row["ratio"] = round(peer / kiln, 4) if peer and kiln else None
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


HEADER = (f"{'case':40} {'kiln us':>9} {'torch us':>9} {'TFLOP/s':>8} "
          f"{'GB/s':>6} {'ratio':>6} {'spread %':>8} agrees config")


def table_line(row):
    torch_us = row.get("scaled_mm_us", row.get("int_mm_us"))
    spread = row.get("kiln_spread")
    return (f"{row['name']:40} {number(row.get('kiln_us'), 9, 2)} "
            f"{number(torch_us, 9, 2)} {number(row.get('tflops'), 8, 1)} "
            f"{number(row.get('kiln_gbs'), 6, 0)} "
            f"{number(row.get('ratio'), 6, 3)} "
            f"{number(None if spread is None else 100 * spread, 8, 1)} "
            f"{'yes' if row.get('agrees') else 'NO':6} "
            f"{row.get('kiln_config', '-')}")


#===------------------------------------------------------------------------===#
# Run
#===------------------------------------------------------------------------===#


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--suite", action="append",
                        help="may be given more than once; default: "
                        "gemm_fp8.json and gemm_int8.json")
    parser.add_argument("--most", type=int, metavar="N",
                        help="N cases at most, spread over all of the suites")
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
    parser.add_argument("--gap-ms", type=float, default=5,
                        help="idle time before each graph")
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


def new_document(options):
    return {"what": "low_precision_torch",
            "gpu": torch.cuda.get_device_name(0), "driver": driver_version(),
            "cuda": torch.version.cuda, "commit": options.commit,
            "torch": torch.__version__, "mode": options.mode,
            "budget_ms": options.budget_ms,
            "protocol": PROTOCOL.format(rounds=options.rounds,
                                        gap=options.gap_ms),
            "interrupted": True, "cases": []}


def main():
    options = parse_options()
    cases = low_precision_cases.load_suites(options.suite, options.filter,
                                            options.most)
    watch = Stopwatch()
    # Makes the device's primary context, Kiln's too, current.
    torch.zeros(1, device="cuda")
    # What results are checked with is fp32.
    torch.backends.cuda.matmul.allow_tf32 = False
    document = new_document(options)
    print(HEADER)
    with watch.phase("total"), torch.no_grad(), make_engine(options) as engine:
        for case in cases:
            row = CaseRun(engine, case, options, watch).run()
            print(table_line(row), flush=True)
            document["cases"].append(row)
            add_summary(document)
            write_document(document, options.out)
        torch.cuda.synchronize()
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


if __name__ == "__main__":
    sys.exit(main())
