#!/usr/bin/env python3
"""Times Kiln's attention against torch's back ends, cuDNN and FlashAttention 2,
and against FlashAttention 3 where its package is installed. One GPU, one
process, the same inputs for all sides.

  python3 benchmarks/peers/torch_attention.py --commit COMMIT --out result.json
  python3 benchmarks/peers/torch_attention.py --draw 40 --seed 1 --mode predict

How it is timed. Each side of a case is captured into a CUDA graph of many
launches, about a millisecond or more. The launches rotate over copies of all
operands that together exceed 8 times the L2. The graphs are replayed in turns
(kiln, cudnn, fa2, kiln, ...), each after a gap in which the device idles, so
that the side that draws most power does not lose clock for it; the numbers are
medians over the rounds.

Checks. Every side's result is compared with fp32 arithmetic at some
rows of some heads before it is timed. A peer that computes another thing, as
one whose causal mask begins at the first key does, is left out and noted.
"""
import argparse
import contextlib
import gc
import math
import statistics
import sys

import torch

import attention_cases
import kiln_ctypes
from interleaved import KilnSide, capture, time_graphs, torch_launcher
from result_files import (Stopwatch, driver_version, geomean, number,
                          parse_with_result, write_document)
from torch_attention_sides import FA3, TYPES, faults_of, make_inputs, peers_of

PROTOCOL = (
    "Cold L2 (operands rotate over copies of 8 times the L2), N(0, 1) data, "
    "CUDA graphs of about 1 ms or more, all sides interleaved in one run on "
    "the same inputs, {gap_ms:g} ms without work before each graph, median of "
    "{rounds} rounds; a spread is (greatest - least) / median; every result "
    "is compared with fp32 first, and a peer that computes another thing is "
    "left out; a ratio is the time of the fastest peer over Kiln's.")

# Length of a graph, and how fast a launch is guessed to be at best (of an
# H200): used to choose the launches of a graph.
REPLAY_US = 1000
FASTEST_BYTES_PER_US = 4.0e6
FASTEST_FLOPS_PER_US = 0.7e9
FASTEST_LAUNCH_US = 4

MEMORY_LIMIT_BYTES = 40e9
LEAST_ROTATION_BYTES = 480 << 20
MOST_COPIES = 256


def copies_of(case):
    """Copies of the operands: over 8 x L2 together and two at least, but no
    more than MOST_COPIES, and than fit the memory limit."""
    properties = torch.cuda.get_device_properties(0)
    rotation = max(LEAST_ROTATION_BYTES,
                   8 * getattr(properties, "L2_cache_size", 0))
    # Inputs are shared; outputs are those of four sides.
    held = sum(operand.bytes * (4 if operand.output else 1)
               for operand in case.operands())
    wanted = min(MOST_COPIES, max(2, math.ceil(rotation / case.bytes)))
    return max(1, min(wanted, int(MEMORY_LIMIT_BYTES // held)))


def launches_of(case, copies):
    """Launches of a graph: all copies, where a launch is short, many times."""
    fastest_us = max(case.bytes / FASTEST_BYTES_PER_US,
                     case.flops / FASTEST_FLOPS_PER_US) + FASTEST_LAUNCH_US
    wanted = math.ceil(REPLAY_US / fastest_us)
    return max(2, min(wanted, copies) if wanted < copies
               else math.ceil(wanted / copies) * copies)


def make_outputs(case, copies):
    """Kiln's outputs by name for each copy, filled with NaN."""
    return [{operand.name: torch.full(operand.shape, math.nan, device="cuda",
                                      dtype=TYPES[operand.dtype])
             for operand in case.operands() if operand.output}
            for _ in range(copies)]


class CaseRun:
    """Measures one case; failures are noted in its row."""

    def __init__(self, engine, case, options, watch):
        self.engine, self.case, self.options = engine, case, options
        self.watch = watch
        self.row = {"name": case.name, "text": case.text, "bytes": case.bytes,
                    "flops": case.flops}

    def run(self):
        """The row of the result."""
        with contextlib.ExitStack() as stack:
            kiln = self._attempt("kiln", "tune", KilnSide, self.engine,
                                 self.case, self.options)
            if kiln:
                stack.callback(kiln.close)
                self.row |= {"kiln_config": kiln.config,
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
            if side in ("kiln", "case"):
                print(f"{self.case.name}: {side}: {text[:500]}",
                      file=sys.stderr)
            return None

    def _measure(self, kiln):
        copies = copies_of(self.case)
        with self.watch.phase("data"):
            inputs = make_inputs(self.case, copies)
            outputs = make_outputs(self.case, copies)
        if kiln and self._attempt("kiln", "check", self._bind_and_check, kiln,
                                  inputs, outputs) is None:
            kiln = None
        launches = launches_of(self.case, copies)
        launchers = {"kiln": kiln.launch} if kiln else {}
        for side, make in peers_of(self.case).items():
            if side in self.options.peers:
                function = self._attempt(side, "check", self._checked_peer,
                                         make, inputs)
                if function:
                    launchers[side] = torch_launcher(function, inputs, copies)
        graphs = {side: self._attempt(side, "capture", capture, launch, copies,
                                      launches)
                  for side, launch in launchers.items()}
        graphs = {side: graph for side, graph in graphs.items() if graph}
        with self.watch.phase("timing"):
            times = time_graphs(graphs, self.options.rounds, launches,
                                1e-3 * self.options.gap_ms)
        self.row |= {"copies": copies, "launches": launches}
        self.row |= summary_of(self.case, times)

    def _checked_peer(self, make, inputs):
        """The peer's function if it computes what the case asks for. Errors:
        ValueError."""
        function = make(self.case, inputs[0])
        faults = faults_of(self.case, inputs[0], {"o": function(**inputs[0])})
        if faults:
            raise ValueError(f"computes another thing: {faults}")
        return function

    def _bind_and_check(self, kiln, inputs, outputs):
        """Runs every copy once, checks the first and the last; True when it
        could run."""
        kiln.bind(self.case, inputs, outputs)
        for copy in range(len(inputs)):
            kiln.launch(copy)
        torch.cuda.synchronize()
        faults = [fault for copy in {0, len(inputs) - 1} for fault in
                  faults_of(self.case, inputs[copy], outputs[copy])]
        self.row["agrees"] = not faults
        if faults:
            self.row["disagrees"] = faults
        return True


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

    row["tflops"] = round(case.flops / kiln / 1e6, 2) if kiln else None
    row["gbs"] = round(case.bytes / kiln / 1e3, 1) if kiln else None
    row["ratio"] = ratio(min(medians.values(), default=None))
    for side, median in medians.items():
        row[f"ratio_{side}"] = ratio(median)
    return row


#===------------------------------------------------------------------------===#
# Report
#===------------------------------------------------------------------------===#

PEERS = {"": "the fastest peer", "_cudnn": "cuDNN", "_fa2": "FlashAttention 2",
         "_fa3": "FlashAttention 3"}


def group_of(name):
    """Cases of one group have one geometric mean: "prefill/d128"."""
    parts = name.split("/")
    if name.startswith("draw"):
        return "/".join(parts[:2])
    return "/".join(parts[:2]) if parts[0] == "prefill" else parts[0]


def add_summary(document):
    """Sets the geometric means and least ratios over the cases so far, of all
    and of groups."""
    groups = {}
    for suffix in PEERS:
        ratios = [(row[f"ratio{suffix}"], row["name"])
                  for row in document["cases"] if row.get(f"ratio{suffix}")]
        if not ratios:
            continue
        document[f"geomean{suffix}"] = geomean([value for value, _ in ratios])
        document[f"least{suffix}"], document[f"least{suffix}_case"] = \
            min(ratios)
        by_group = {}
        for value, name in ratios:
            by_group.setdefault(group_of(name), []).append(value)
        for group, values in by_group.items():
            groups.setdefault(group, {})[f"geomean{suffix}"] = geomean(values)
            groups[group][f"least{suffix}"] = min(values)
    document["groups"] = groups


HEADER = (f"{'case':42} {'kiln us':>9} {'cudnn us':>9} {'fa2 us':>9} "
          f"{'fa3 us':>9} {'TF/s':>6} {'GB/s':>6} {'ratio':>6} {'spread %':>8} "
          f"agrees config")


def table_line(row):
    spread = row.get("kiln_spread")
    agrees = {True: "yes", False: "NO", None: "-"}[row.get("agrees")]
    return (f"{row['name']:42} {number(row.get('kiln_us'), 9, 2)} "
            f"{number(row.get('cudnn_us'), 9, 2)} "
            f"{number(row.get('fa2_us'), 9, 2)} "
            f"{number(row.get('fa3_us'), 9, 2)} "
            f"{number(row.get('tflops'), 6, 0)} {number(row.get('gbs'), 6, 0)} "
            f"{number(row.get('ratio'), 6, 3)} "
            f"{number(None if spread is None else 100 * spread, 8, 1)} "
            f"{agrees:6} {row.get('kiln_config', '-')}")


def print_summary(document, watch):
    for suffix, peer in PEERS.items():
        if f"geomean{suffix}" in document:
            print(f"against {peer}: geomean {document[f'geomean{suffix}']:.3f},"
                  f" least {document[f'least{suffix}']:.3f} "
                  f"({document[f'least{suffix}_case']})")
    for group, figures in document["groups"].items():
        print(f"  {group:24} " + ", ".join(
            f"{peer} {figures[f'geomean{suffix}']:.3f} "
            f"(least {figures[f'least{suffix}']:.3f})"
            for suffix, peer in PEERS.items() if f"geomean{suffix}" in figures))
    print("seconds: " + ", ".join(f"{phase} {seconds:.1f}" for phase, seconds
                                  in watch.seconds.items()))


#===------------------------------------------------------------------------===#
# Run
#===------------------------------------------------------------------------===#


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--suite", default=attention_cases.SUITE)
    parser.add_argument("--filter", default="",
                        help="parts of names, joined by commas")
    parser.add_argument("--draw", type=int, metavar="N",
                        help="N random cases instead of the suite's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", default="cudnn,fa2,fa3")
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
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gap-ms", type=float, default=5,
                        help="without work before each replay")
    parser.add_argument("--verbose", action="store_true",
                        help="print Kiln's log")
    options = parse_with_result(parser)
    options.peers = options.peers.split(",")
    return options


def make_engine(options):
    library = kiln_ctypes.Library(kiln_ctypes.find_library(options.library))
    log = (lambda text: print(text, file=sys.stderr)) if options.verbose \
        else None
    return kiln_ctypes.Engine(
        library, mode=options.mode, log=log,
        tune_budget_ms=options.budget_ms, cache_dir=options.cache_dir,
        nvrtc_path=options.nvrtc, scratch_limit_bytes=options.scratch_gib << 30)


def new_document(options):
    what = f"attention_draw{options.seed}" if options.draw else "attention"
    return {"what": what, "gpu": torch.cuda.get_device_name(0),
            "driver": driver_version(), "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), "commit": options.commit,
            "torch": torch.__version__, "fa3": FA3 is not None,
            "mode": options.mode, "budget_ms": options.budget_ms,
            "protocol": PROTOCOL.format(rounds=options.rounds,
                                        gap_ms=options.gap_ms),
            "interrupted": True, "cases": []}


def main():
    options = parse_options()
    cases = attention_cases.draw(options.draw, options.seed) if options.draw \
        else attention_cases.load_suite(options.suite, options.filter)
    watch = Stopwatch()
    # Makes the device's primary context, Kiln's too, current.
    torch.zeros(1, device="cuda")
    document = new_document(options)
    print(HEADER, flush=True)
    with make_engine(options) as engine:
        for case in cases:
            row = CaseRun(engine, case, options, watch).run()
            document["cases"].append(row)
            add_summary(document)
            write_document(document, options.out)
            print(table_line(row), flush=True)
    document["interrupted"] = False
    add_summary(document)
    write_document(document, options.out)
    print_summary(document, watch)
    return 0 if all(row.get("agrees") for row in document["cases"]) else 1


if __name__ == "__main__":
    sys.exit(main())
