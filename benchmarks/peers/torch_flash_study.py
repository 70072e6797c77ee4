#!/usr/bin/env python3
"""Puts FlashAttention 2 (torch's flash back end) beside a study of named
configs (`kiln-bench study`). One GPU.

  python3 benchmarks/peers/torch_flash_study.py --set tune --commit COMMIT --out study.json \\
      --csv study.csv -- attention batch=4 sq=4096 sk=4096 heads=16 d=128 dtype=bf16

The tool measures its configs in a process of its own, so the peer cannot take
turns with them. It is timed right before and right after instead, cold as they
are; the mean counts, and both stand in the document. Where they differ by more
than a few per cent the clock has drifted, and so may the ratios have.

A ratio is the peer's time over that of a config: above 1, the config is faster.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch

import attention_cases
from interleaved import capture, time_graphs, torch_launcher
from result_files import write_document
from torch_attention import copies_of
from torch_attention_sides import make_inputs, peers_of

LAUNCHES = 8
ROUNDS = 15
GAP_S = 0.005


def case_of(words):
    """The case of a problem's words, "attention" and "key=value"."""
    spec = {"name": "study"}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            spec[key] = int(value) if value.isdigit() else value
    return attention_cases.Case(spec)


def with_type(case, dtype):
    return attention_cases.Case({**case.spec, "dtype": dtype})


class Peer:
    """FlashAttention 2 on one type."""

    def __init__(self, case):
        copies = min(copies_of(case), LAUNCHES)
        self.case, inputs = case, make_inputs(case, copies)
        function = peers_of(case)["fa2"](case, inputs[0])
        launch = torch_launcher(function, inputs, copies)
        self.graph = capture(launch, copies, LAUNCHES)
        self.us = []

    def time(self):
        """One more time, in microseconds."""
        times = time_graphs({"fa2": self.graph}, ROUNDS, LAUNCHES, GAP_S)
        self.us.append(statistics.median(times["fa2"]))


def run_tool(options, folder):
    """The document of the tool's study."""
    out = pathlib.Path(folder) / "study.json"
    command = [options.kiln_bench, "study", f"--set={options.set}", f"--out={out}",
               f"--commit={options.commit}", f"--runs={options.runs}", f"--warmup-runs={options.warmup_runs}",
               *(["--profile"] if options.profile else []), *options.problem]
    result = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if not out.exists():
        sys.exit(f"{' '.join(command)} ended with {result.returncode}")
    return json.loads(out.read_text())


def dtype_of(row):
    return next(word.split("=")[1] for word in row["problem"].split()
                if word.startswith("dtype="))


def join(document, peers):
    """Adds the peers, and the ratio of each config to that of its type."""
    document["peers"] = [
        {"name": f"FlashAttention 2, torch {torch.__version__}",
         "dtype": dtype, "us": round(statistics.fmean(peer.us), 3),
         "before_us": round(peer.us[0], 3), "after_us": round(peer.us[-1], 3),
         "tflops": round(peer.case.flops / statistics.fmean(peer.us) * 1e-6, 1)}
        for dtype, peer in peers.items()]
    for row in document["configs"]:
        if "us" in row:
            peer = peers[dtype_of(row)]
            row["ratio"] = round(statistics.fmean(peer.us) / row["us"], 4)


def write_csv(document, path):
    fields = ["name", "us", "ratio", "tflops", "allTflops", "kernelTflops",
              "registers", "spillBytes", "sharedBytes", "blocksPerSm",
              "correct", "config"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, extrasaction="ignore")
        writer.writeheader()
        for peer in document["peers"]:
            writer.writerow({"name": f"{peer['name']} {peer['dtype']}",
                             "us": peer["us"], "tflops": peer["tflops"],
                             "ratio": 1})
        writer.writerows(document["configs"])


def print_table(document):
    rows = [(peer["us"], 1.0, peer["tflops"], f"{peer['name']} {peer['dtype']}")
            for peer in document["peers"]]
    rows += [(row["us"], row["ratio"], row["tflops"], row["name"])
             for row in document["configs"] if "us" in row]
    print(f"{'us':>9} {'ratio':>6} {'TF/s':>7}")
    for us, ratio, tflops, name in sorted(rows):
        print(f"{us:9.1f} {ratio:6.3f} {tflops:7.1f}  {name}")


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("problem", nargs="+", help="as the tool takes it")
    parser.add_argument("--kiln-bench", default="build/release/bin/kiln-bench")
    parser.add_argument("--set", default="tune")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warmup-runs", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--commit", required=True, help="noted in the document")
    parser.add_argument("--out", help="write the joined document there")
    parser.add_argument("--csv", help="write the joined table there")
    return parser.parse_args()


def main():
    options = parse_options()
    case = case_of(options.problem)
    # The sets have both types, whatever the problem says.
    peers = {dtype: Peer(with_type(case, dtype)) for dtype in ("bf16", "fp16")}
    for peer in peers.values():
        peer.time()
    with tempfile.TemporaryDirectory() as folder:
        document = run_tool(options, folder)
    for peer in peers.values():
        peer.time()
    join(document, peers)
    write_document(document, options.out)
    if options.csv:
        write_csv(document, options.csv)
    print_table(document)


if __name__ == "__main__":
    main()
