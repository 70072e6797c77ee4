#!/usr/bin/env python3
"""Times the small kernels of an engine, rope, gather, sample, route and combine,
beside torch and beside a copy of as many bytes, and checks what they compute.

  python3 benchmarks/peers/small_kernels.py --commit COMMIT --out result.json

Each side of a case is a CUDA graph of some 50 launches, which rotate over
operands of their own; before each replay another array is read that is larger
than the L2. So operands come from memory. Cases of few bytes are measured hot as
well, on one copy. `kiln` launches as any call does, `dependent` with
KILN_CALL_DEPENDENT, as in an engine's step. The stream is torch's copy of half
of the bytes from array to array; for sample, which only reads, a sum of them.

--checks adds the checks of sample_checks.py.
"""
import argparse
import gc
import math
import statistics
import sys

import torch

import kiln_ctypes
import sample_checks
import small_kernel_cases
import small_kernel_data
import small_kernel_peers
from interleaved import (KilnSide, capture, current_stream, time_graphs,
                         torch_launcher)
from result_files import (Progress, clocks, driver_version, geomean, number,
                          parse_with_result, write_document)

PROTOCOL = (
    "CUDA graphs of {launches} launches or more on operands of their own, L2 "
    "emptied before each replay, sides in turns, median of {rounds} rounds; a "
    "spread is (greatest - least) / median; a ratio is the time of torch's "
    "fastest side over Kiln's, dependent launches; share_of_stream is the "
    "stream's time over Kiln's; hot: one copy of the operands.")

LAUNCHES = 50
HOT_BYTES = 2 << 20
CALL_DEPENDENT = 0x10000


class NamedSide(KilnSide):
    """Kiln's plan of a text, bound to tensors by the names of its operands."""

    def __init__(self, engine, case, options):
        super().__init__(engine, case, options)
        self._slots = {info.name.decode(): info
                       for info in self.plan.operands()}
        self._copies = []

    def bind_names(self, copies, constants):
        """Takes a dict of tensors for each copy. Errors: RuntimeError if an
        operand is missing or too small."""
        self._copies = copies  # keeps them
        self.arguments = [self._arguments(copy) for copy in copies]
        self._dependent = [self._arguments(copy) for copy in copies]
        for arguments in self._dependent:
            arguments.flags = CALL_DEPENDENT
            for name in constants & set(self._slots):
                arguments.constants |= 1 << self._slots[name].slot

    def _arguments(self, tensors):
        addresses = {}
        for name, info in self._slots.items():
            tensor = tensors.get(name)
            if tensor is None:
                raise RuntimeError(f"the case has no {name}")
            room = tensor.untyped_storage().nbytes() - \
                tensor.storage_offset() * tensor.element_size()
            if info.bytes > room:
                raise RuntimeError(f"the plan wants {info.bytes} bytes of "
                                   f"{name}, the case has {room}")
            addresses[info.slot] = tensor.data_ptr()
        return kiln_ctypes.arguments_of(addresses)

    def launch_dependent(self, copy):
        self.plan.launch(self._dependent[copy], current_stream(),
                         self.workspace)


#===------------------------------------------------------------------------===#
# One case
#===------------------------------------------------------------------------===#


class Stream:
    """The array that empties the L2, and the baseline of as many bytes."""

    def __init__(self, l2_bytes):
        self._other = torch.zeros(l2_bytes, device="cuda")  # four times the L2

    def empty_l2(self):
        self._other.sum()

    @staticmethod
    def launcher(case, copies):
        half = max(1, case.bytes // 2)
        if case.family == "sample":
            arrays = [torch.ones(max(1, case.bytes // 4), device="cuda")
                      for _ in range(copies)]
            return torch_launcher(lambda x: x.sum(),
                                  [{"x": x} for x in arrays], copies)
        source, target = (
            [torch.zeros(half, device="cuda", dtype=torch.uint8)
             for _ in range(copies)] for _ in range(2))
        return lambda copy: target[copy].copy_(source[copy])


def peer_launchers(case, copies, row):
    """{name: launcher} of torch's functions, compiled where that helps."""
    launchers = {}
    for name, function in small_kernel_peers.peers_of(case).items():
        try:
            if name in small_kernel_peers.COMPILED:
                torch._dynamo.reset()
                function = torch.compile(function, fullgraph=True,
                                         dynamic=False)
            function(**copies[0])
            torch.cuda.synchronize()
        except Exception as error:  # a peer that fails is a result
            row.setdefault("peer_errors", {})[name] = str(error)[:300]
            continue
        launchers[name] = torch_launcher(function, copies, len(copies))
    return launchers


def times_of(launchers, copies, rounds, before):
    """{side: samples in us}."""
    launches = LAUNCHES if copies == 1 else \
        math.ceil(LAUNCHES / copies) * copies
    graphs = {name: capture(launch, copies, launches)
              for name, launch in launchers.items()}
    return time_graphs(graphs, rounds, launches, before=before)


def run_case(case, engine, stream, l2_bytes, options):
    """The row of a case. One to three seconds."""
    row = {"name": case.name, "text": case.text, "bytes": case.bytes}
    count = small_kernel_cases.copies_of(case.bytes, l2_bytes)
    side = NamedSide(engine, case, options)
    try:
        row |= {"config": side.config, "from": side.source, "copies": count}
        copies = small_kernel_data.make_copies(case, count)
        side.bind_names(copies, {
            operand.name for operand in small_kernel_cases.operands_of(case)
            if operand.constant})
        # All copies: a later one must not undo what an earlier one wrote.
        for launch in (side.launch, side.launch_dependent):
            for copy in range(count):
                launch(copy)
        torch.cuda.synchronize()
        row["wrong"] = sorted(
            {name for data in (copies[0], copies[-1])
             for name in small_kernel_peers.faults_of(case, data)})
        launchers = {"kiln": side.launch, "dependent": side.launch_dependent,
                     "stream": stream.launcher(case, count)}
        launchers |= peer_launchers(case, copies, row)
        row |= figures_of(times_of(launchers, count, options.rounds,
                                   stream.empty_l2))
        if case.bytes <= HOT_BYTES:
            row["hot"] = {name: round(statistics.median(samples), 3)
                          for name, samples in times_of(
                              launchers, 1, options.rounds, None).items()}
    finally:
        side.close()
    return row


def figures_of(times):
    medians = {name: statistics.median(samples)
               for name, samples in times.items()}
    row = {"us": {name: round(us, 3) for name, us in medians.items()},
           "spread": {name: round((max(samples) - min(samples)) /
                                  medians[name], 3)
                      for name, samples in times.items()}}
    kiln = medians["dependent"]
    peers = {name: us for name, us in medians.items()
             if name not in ("kiln", "dependent", "stream")}
    row["share_of_stream"] = round(medians["stream"] / kiln, 4)
    if peers:
        best = min(peers, key=peers.get)
        row |= {"best_peer": best, "ratio": round(peers[best] / kiln, 4),
                "ratio_plain": round(peers[best] / medians["kiln"], 4)}
    return row


HEADER = (f"{'case':36} {'KB':>9} {'kiln us':>8} {'dep. us':>8} "
          f"{'torch us':>8} {'ratio':>6} {'stream':>6} {'hot us':>7}  wrong")


def line_of(row):
    if "error" in row:
        return f"{row['name']:36} {row['error']}"
    us = row["us"]
    return (f"{row['name']:36} {row['bytes'] / 1e3:9.1f} "
            f"{number(us['kiln'], 8, 2)} {number(us['dependent'], 8, 2)} "
            f"{number(us.get(row.get('best_peer')), 8, 2)} "
            f"{number(row.get('ratio'), 6, 2)} "
            f"{number(row['share_of_stream'], 6, 3)} "
            f"{number(row.get('hot', {}).get('dependent'), 7, 2)}  "
            f"{', '.join(row['wrong']) or '-'}")


#===------------------------------------------------------------------------===#
# The checks
#===------------------------------------------------------------------------===#


class TextCase:
    """A problem of which only the text is known."""

    def __init__(self, text):
        self.text = text


def run_checks(engine, options):
    """The rows of sample_checks.py."""
    open_sides = []

    def sampler(text, data):
        side = NamedSide(engine, TextCase(text), options)
        open_sides.append(side)
        side.bind_names([data], set())
        return lambda: side.launch(0)

    try:
        return sample_checks.check_greedy(sampler) + \
            sample_checks.check_draws(sampler)
    finally:
        torch.cuda.synchronize()
        for side in open_sides:
            side.close()


#===------------------------------------------------------------------------===#
# The run
#===------------------------------------------------------------------------===#


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--filter", default="", metavar="A,B",
                        help="cases whose name contains one of these")
    parser.add_argument("--every", action="store_true",
                        help="all numbers of tokens of all models")
    parser.add_argument("--checks", action="store_true",
                        help="also check draws of sample: some ten seconds")
    parser.add_argument("--library", help="libkiln.so; default: of the build")
    parser.add_argument("--mode", choices=sorted(kiln_ctypes.MODES),
                        default="tune")
    parser.add_argument("--budget-ms", type=int, default=300,
                        help="of tuning, for each case")
    parser.add_argument("--retune", action="store_true")
    parser.add_argument("--cache-dir", help="default: KILN_CACHE_DIR")
    parser.add_argument("--nvrtc", help="path of the NVRTC that Kiln opens")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--limit-s", type=float, default=300,
                        help="no case begins later; 0: none")
    return parse_with_result(parser)


def new_document(options):
    return {"what": "small_kernels", "gpu": torch.cuda.get_device_name(0),
            "driver": driver_version(), "cuda": torch.version.cuda,
            "commit": options.commit, "torch": torch.__version__,
            "mode": options.mode, "budget_ms": options.budget_ms,
            "protocol": PROTOCOL.format(launches=LAUNCHES,
                                        rounds=options.rounds),
            "clocks": clocks(), "interrupted": True, "left_out": [],
            "cases": []}


def add_summary(document):
    """The geometric mean and least ratio of each family."""
    for family in small_kernel_cases.OPERANDS:
        ratios = [(row["ratio"], row["name"]) for row in document["cases"]
                  if row["name"].startswith(family) and "ratio" in row]
        if ratios:
            least, name = min(ratios)
            document[family] = {"geomean": geomean([value for value, _ in
                                                    ratios]),
                                "least": least, "least_case": name}


def run_all(cases, engine, l2_bytes, document, options, progress):
    stream = Stream(l2_bytes)
    for case in cases:
        if 0 < options.limit_s < progress.seconds():
            document["left_out"].append(case.name)
            continue
        try:
            row = run_case(case, engine, stream, l2_bytes, options)
        except Exception as error:  # a case that fails is a result
            row = {"name": case.name, "text": case.text,
                   "error": str(error)[:500]}
        # Graphs and tensors of the case are gone by now.
        gc.collect()
        torch.cuda.empty_cache()
        document["cases"].append(row)
        add_summary(document)
        write_document(document, options.out)
        print(line_of(row), flush=True)
    progress.say("all cases are done")


def main():
    options, progress = parse_options(), Progress()
    torch.zeros(1, device="cuda")
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    document = new_document(options)
    wanted = options.filter.split(",")
    cases = [case for case in
             small_kernel_cases.all_cases(l2_bytes, options.every)
             if any(part in case.name for part in wanted)]
    library = kiln_ctypes.Library(kiln_ctypes.find_library(options.library))
    with torch.no_grad(), kiln_ctypes.Engine(
            library, mode=options.mode, tune_budget_ms=options.budget_ms,
            cache_dir=options.cache_dir, nvrtc_path=options.nvrtc) as engine:
        if options.checks:
            document["checks"] = run_checks(engine, options)
            progress.say("the checks are done")
            for row in document["checks"]:
                print(row, flush=True)
        print(HEADER)
        run_all(cases, engine, l2_bytes, document, options, progress)
        torch.cuda.synchronize()
    document["interrupted"] = False
    document["seconds"] = round(progress.seconds(), 1)
    write_document(document, options.out)
    failed = any(row.get("wrong", ["error"]) for row in document["cases"])
    return 1 if failed or not all(
        row["passes"] for row in document.get("checks", [])) else 0


if __name__ == "__main__":
    sys.exit(main())
