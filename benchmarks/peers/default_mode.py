#!/usr/bin/env python3
"""The kernels of the default mode beside those of the mode predict.

A layer's first call in the mode tune measures its portfolio, from which all
later values of the layer choose. This program lets several values come first,
each in an engine with an empty cache of its own, and times the choice at each
value beside predict's choice there: measuring may only help. bf16, NT.
"""
import argparse
import math
import statistics
import sys
import tempfile
import time

import torch

import kiln_ctypes
from interleaved import capture, current_stream, time_graphs
from result_files import (config_of, driver_version, geomean, parse_with_result,
                          write_document)

LAYERS = ((5376, 21504), (43008, 5376), (8192, 5376), (5376, 4096))
VALUES = (160, 631, 1590, 2456, 8192)
FIRST = (1, 203, 2456)
ROTATION_BYTES = 1 << 31
GRAPH_US = 2000
# Without work before each graph: a card at its power limit changes its clock
# for what ran before.
GAP_S = 0.005
TFLOPS = 700e12


def text_of(layer, m):
    return f"gemm m={m} n={layer[0]} k={layer[1]} dtype=bf16 layout=NT"


class Operands:
    """Copies of one value's operands, which rotate."""

    def __init__(self, layer, m):
        n, k = layer
        bytes_each = 2 * (m * k + n * k + m * n)
        self.copies = max(2, min(64, ROTATION_BYTES // bytes_each))
        make = lambda *shape: torch.randn(*shape, device="cuda").bfloat16()
        self.a = [make(m, k) for _ in range(self.copies)]
        self.b = [make(n, k) for _ in range(self.copies)]
        self.d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        flops = 2 * m * n * k
        us = max(flops / TFLOPS * 1e6, bytes_each / 4e6, 3)
        self.launches = max(1, math.ceil(GRAPH_US / us))

    def arguments(self, index):
        return kiln_ctypes.arguments_of({
            0: self.a[index].data_ptr(), 1: self.b[index].data_ptr(),
            3: self.d.data_ptr()})


def choices(library, layer, first, values, mode, caches):
    """({value: plan}, seconds of the first call) of one engine, which stays."""
    folder = tempfile.mkdtemp(prefix=f"{layer[0]}x{layer[1]}-{mode}{first}-",
                              dir=caches)
    engine = kiln_ctypes.Engine(library, mode=mode, cache_dir=folder)
    begin = time.perf_counter()
    if first:
        engine.plan(text_of(layer, first), current_stream()).close()
    seconds = time.perf_counter() - begin
    plans = {m: engine.plan(text_of(layer, m), current_stream())
             for m in values}
    return engine, plans, seconds


def time_value(layer, m, plans, rounds, gap_s):
    """Median time by side, in us, of plans by side; equal configs once."""
    operands = Operands(layer, m)
    arguments = [operands.arguments(i) for i in range(operands.copies)]
    graphs, held = {}, []
    for side, plan in plans.items():
        need = plan.workspace()
        workspace = None
        if need.bytes:
            memory = torch.zeros(need.bytes, dtype=torch.uint8, device="cuda")
            workspace = kiln_ctypes.Workspace(
                flags=kiln_ctypes.WORKSPACE_ZEROED, data=memory.data_ptr(),
                bytes=need.bytes)
            held.append((memory, workspace))
        launch = lambda i, plan=plan, workspace=workspace: plan.launch(
            arguments[i], current_stream(), workspace)
        graphs[side] = capture(launch, operands.copies, operands.launches)
    times = time_graphs(graphs, rounds, operands.launches, gap_s)
    return {side: statistics.median(each) for side, each in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--gap-ms", type=float, default=GAP_S * 1000)
    parser.add_argument("--caches", help="folder of the engines' caches")
    parser.add_argument("--layers", help="NxK,NxK,..")
    parser.add_argument("--values", help="M,M,..")
    parser.add_argument("--first", help="M,M,..")
    options = parse_with_result(parser)
    numbers = lambda text, default: (tuple(map(int, text.split(",")))
                                     if text else default)
    layers = (tuple(tuple(map(int, one.split("x")))
                    for one in options.layers.split(","))
              if options.layers else LAYERS)
    values = numbers(options.values, VALUES)
    firsts = numbers(options.first, FIRST)
    library = kiln_ctypes.Library(kiln_ctypes.find_library(options.library))
    torch.zeros(1, device="cuda")
    rows = []
    for layer in layers:
        engines = {"predict": choices(library, layer, 0, values, "predict",
                                      options.caches)}
        for first in firsts:
            engines[first] = choices(library, layer, first, values, "tune",
                                     options.caches)
        for m in values:
            plans = {side: made[1][m] for side, made in engines.items()}
            times = time_value(layer, m, plans, options.rounds,
                               options.gap_ms / 1000)
            for first in firsts:
                row = {"layer": f"{layer[0]}x{layer[1]}", "m": m,
                       "first": first,
                       "first_call_s": round(engines[first][2], 3),
                       "predict_us": round(times["predict"], 2),
                       "tune_us": round(times[first], 2),
                       "predict": config_of(plans["predict"].describe()),
                       "tune": plans[first].describe().split(": ", 1)[1],
                       "ratio": round(times["predict"] / times[first], 4)}
                rows.append(row)
                print("{layer:12} m={m:<5} first={first:<5} predict "
                      "{predict_us:9.1f} us  tune {tune_us:9.1f} us  {ratio:.3f}"
                      "  {tune}".format(**row), flush=True)
        for engine, plans, _ in engines.values():
            for plan in plans.values():
                plan.close()
            engine.close()
    ratios = [row["ratio"] for row in rows]
    print(f"geomean {geomean(ratios):.3f}, least {min(ratios):.3f} of "
          f"{len(ratios)}")
    write_document(
        {"what": __doc__.splitlines()[0].rstrip("."), "commit": options.commit,
         "gpu": torch.cuda.get_device_name(0), "driver": driver_version(),
         "cuda": torch.version.cuda,
         "protocol": "bf16 NT, N(0, 1) data, cold L2 (operands rotate over 2 "
         "GiB), CUDA graphs of 2 ms, all sides interleaved, median of "
         f"{options.rounds} rounds, {options.gap_ms:g} ms without work before "
         "each; a ratio is predict's time over tune's.",
         "rows": rows}, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
