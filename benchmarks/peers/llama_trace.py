#!/usr/bin/env python3
"""Serves traces with the engine (kiln-llama bench) at parts of its capacity, and
checks what a server is held to. Needs no torch.

  python3 benchmarks/peers/llama_trace.py --engine build/release/bin/kiln-llama \
      --seeds 11,12,13 --commit COMMIT --out result.json

The capacity of a seed is the rate of a closed loop: many requests of the same
lengths are there at the start, and as many run as the engine takes. Then
requests arrive as a Poisson process at parts of that rate. Rates are those of the
middle half of the tokens: at the end of a trace the last requests are alone. The
time of a prefill alone is that of requests for one token that arrive far apart.

Every engine serves in the mode strict, from the cache that the first one
filled: nothing may be compiled or measured while a trace is served, and no call
of Kiln may wait. It ends with 1 if a run fails or breaks that.
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

from result_files import (Progress, driver_version, gpu_name, number,
                          parse_with_result, write_document)

PROTOCOL = (
    "random weights; {requests} requests a run, lognormal lengths (sigma 1) of "
    "median {prompt}, at most {most_prompt}, tokens in and {new}, at most "
    "{most_new}, tokens out; steps of at most {budget} tokens, {batch} sequences "
    "at once; capacity: {closed} times as many requests, all there at the start; "
    "load: Poisson arrivals at that part of the capacity; rates are those of the "
    "middle half of the tokens; alone: requests for one token, {gap} a second; "
    "ms as a client sees them.")

# Arrivals so close that all requests are there at the start; how many times
# those of a trace they are.
AT_ONCE = 1e6
CLOSED = 3
# Arrivals a second of requests that are served alone.
APART = 8
ALONE_REQUESTS = 40


class RunFailed(RuntimeError):
    """The engine ended with an error, and without a report."""


def run_bench(options, seed, rate, requests, new_tokens):
    """The report of one run."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "report.json")
        command = [
            options.engine, "bench", "--model", options.model,
            "--rate", str(rate), "--requests", str(requests),
            "--workload-seed", str(seed), "--prompt", str(options.prompt),
            "--most-prompt", str(options.most_prompt),
            "--new", str(new_tokens[0]), "--most-new", str(new_tokens[1]),
            "--token-budget", str(options.token_budget),
            "--max-sequences", str(options.max_sequences),
            "--max-positions", str(options.most_prompt + options.most_new),
            "--json", str(path), *options.engine_args]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False,
                              timeout=options.run_s)
        if not path.exists():
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise RunFailed(f"exit code {done.returncode}: {lines[-1]}")
        return json.loads(path.read_text())


def faults_of(report):
    """The counts that a strict engine must not have, and stalls."""
    counts = report["counts"]
    return {name: counts[name] for name in
            ("compiles", "trials", "fallback launches")
            if counts[name]} | ({"stalls": report["stalls"]}
                                if report["stalls"] else {})


def row_of(name, seed, report):
    return {"name": name, "seed": seed, "prepare_s": report["prepare_s"],
            "faults": faults_of(report), "counts": report["counts"],
            "roofline": report["roofline"], **report["metrics"]}


def steady_requests(row):
    """Requests a second of the middle half of a run."""
    return row["steady_tokens_per_second"] / row["new_tokens"] * \
        row["requests"]


def line_of(row):
    return (f"{row['name']:10} {row['seed']:4} "
            f"{number(steady_requests(row), 8, 2)} "
            f"{number(row.get('of_capacity'), 8, 3)} "
            f"{number(row['ttft_ms']['p50'], 9, 1)} "
            f"{number(row['ttft_ms']['p99'], 9, 1)} "
            f"{number(row['itl_ms'].get('p50'), 8, 2)} "
            f"{number(row['itl_ms'].get('p99'), 8, 2)} "
            f"{row['faults'] or ''}")


HEADER = (f"{'load':10} {'seed':>4} {'req/s':>8} {'of cap.':>8} "
          f"{'TTFT p50':>9} {'p99':>9} {'ITL p50':>8} {'p99':>8} faults")


class TraceRun:
    """All runs, and their document."""

    def __init__(self, options, document, progress):
        self._options, self._document = options, document
        self._progress = progress

    def run(self):
        options = self._options
        lengths = options.new, options.most_new
        for seed in options.seeds:
            self._serve("alone", seed, APART, ALONE_REQUESTS, (1, 1))
            closed = self._serve("capacity", seed, AT_ONCE,
                                 CLOSED * options.requests, lengths)
            for load in options.loads:
                self._serve(f"{100 * load:g} %", seed,
                            load * steady_requests(closed), options.requests,
                            lengths, closed)

    def _serve(self, name, seed, rate, requests, lengths, closed=None):
        row = row_of(name, seed, run_bench(self._options, seed, rate, requests,
                                           lengths))
        if closed:
            row["offered_per_second"] = round(rate, 3)
            row["of_capacity"] = round(row["steady_tokens_per_second"] /
                                       closed["steady_tokens_per_second"], 4)
        self._document["cases"].append(row)
        write_document(self._document, self._options.out)
        print(line_of(row), flush=True)
        return row


def numbers(kind):
    return lambda text: [kind(part) for part in text.split(",")]


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engine", required=True, help="path of kiln-llama")
    parser.add_argument("--engine-args", default=[], type=shlex.split,
                        metavar="TEXT", help="further arguments of the engine")
    parser.add_argument("--model", default="llama-3-8b")
    parser.add_argument("--seeds", type=numbers(int), default=[1, 2, 3],
                        metavar="N,N")
    parser.add_argument("--loads", type=numbers(float), default=[0.5, 0.8, 1],
                        metavar="X,X", help="parts of the capacity")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--prompt", type=int, default=256, help="median")
    parser.add_argument("--most-prompt", type=int, default=2000)
    parser.add_argument("--new", type=int, default=64, help="median")
    parser.add_argument("--most-new", type=int, default=500)
    parser.add_argument("--token-budget", type=int, default=512)
    parser.add_argument("--max-sequences", type=int, default=64)
    parser.add_argument("--run-s", type=float, default=300,
                        help="no run takes longer")
    return parse_with_result(parser)


def main():
    options, progress = parse_options(), Progress()
    document = {"what": "llama_trace", "gpu": gpu_name(),
                "driver": driver_version(), "commit": options.commit,
                "model": options.model, "engine_args": options.engine_args,
                "protocol": PROTOCOL.format(
                    requests=options.requests, prompt=options.prompt,
                    most_prompt=options.most_prompt, new=options.new,
                    most_new=options.most_new, budget=options.token_budget,
                    batch=options.max_sequences, gap=APART, closed=CLOSED),
                "interrupted": True, "cases": []}
    print(HEADER)
    try:
        TraceRun(options, document, progress).run()
        document["interrupted"] = False
    except (RunFailed, OSError, subprocess.TimeoutExpired) as error:
        document["error"] = str(error)
        progress.say(str(error))
    document["seconds"] = round(progress.seconds(), 1)
    write_document(document, options.out)
    return 1 if "error" in document or any(
        row["faults"] for row in document["cases"]) else 0


if __name__ == "__main__":
    sys.exit(main())
