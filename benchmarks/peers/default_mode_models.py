#!/usr/bin/env python3
"""The kernels of the default mode for models outside of all development.

For each model of benchmarks/suites/default_mode_models.json, engines in several
states meet the same values of m (default_mode_states.py): predict and tune with
an empty cache, tune with small m first, prepared ranges, strict with a cache
that has a pool. The plan of each value is timed beside cuBLASLt's own
choice (default_mode_timing.py). A run writes the result after each model, and
the tables of default_mode_tables.py at its end.

A run of all models takes about eight minutes on 16 CPU cores: 310 cases of 0.4
s, 31 layers of 2.5 s in each of tune, tune ascending and prepared, and some 200
first calls of predict of 0.4 s. --models or --limit-s leave models out; a
later run with --add measures those alone.

Without a GPU: --stand-ins DRIVER,NVRTC makes the first calls on stand-ins of
the driver and the compiler, and times nothing.
"""
import argparse
import contextlib
import ctypes
import json
import pathlib
import sys
import tempfile
import time

import default_mode_cases
import default_mode_tables
import kiln_ctypes
from default_mode_states import STATES, StateRun
from result_files import (Stopwatch, driver_version, parse_with_result,
                          write_document)

WHAT = "The default mode on models that nothing was developed on"
PROTOCOL = (
    "bf16 NT, N(0, 1) data; {values} values of m of each layer, log-uniform in "
    "1..{largest}, seed {seed}; cold L2 (operands rotate over 2 GiB, but 256 "
    "copies at most), CUDA graphs of about 2 ms, all sides of a value "
    "interleaved on the same operands, {gap:g} ms without work before each "
    "graph, median of {rounds} rounds; a spread is (greatest - least) / "
    "median; equal plans are measured once; cuBLASLt by torch.mm: its "
    "heuristic's first choice with 64 MiB of workspace; a first call is "
    "kiln_plan_acquire, in the engine of one model; results are compared, "
    "fp64 says which side is wrong.")


class DryMachine:
    """In place of a GPU: the context of a stand-in of the driver."""

    def __init__(self, stand_ins):
        driver, nvrtc = stand_ins.split(",")
        self.engine_options = {"driver_path": driver, "nvrtc_path": nvrtc}
        cuda, context = ctypes.CDLL(driver), ctypes.c_void_p()
        if (cuda.cuInit(0) or
                cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or
                cuda.cuCtxPushCurrent_v2(context)):
            raise RuntimeError(f"{driver} makes no context")
        self.stream = None

    def head(self):
        return {"gpu": "a stand-in", "cuda": "none"}

    def time_case(self, case, plans):
        return {}, []


class Machine:
    """The GPU and torch."""

    def __init__(self, options, seed):
        import default_mode_timing as timing
        self._timing, self._options = timing, options
        self.engine_options = {"nvrtc_path": options.nvrtc}
        self.stream = timing.start()
        self._memory = timing.Memory(seed)

    def head(self):
        return self._timing.machine()

    def time_case(self, case, plans):
        return self._timing.time_case(case, plans, self._memory,
                                      self._options.rounds,
                                      self._options.gap_ms / 1e3)


#===------------------------------------------------------------------------===#
# One model
#===------------------------------------------------------------------------===#


def sides_of(case, runs):
    """The row of each state, and the plans to time by the side that stands for
    them: the first state with that plan."""
    rows, plans, sides = {}, {}, {}
    for name, run in runs.items():
        meeting = run.meetings[case]
        rows[name] = meeting.row()
        for row, choice, side in (
                (rows[name], meeting.choice, name),
                (rows[name].setdefault("later", {}) if meeting.later else None,
                 meeting.later, f"{name}, later")):
            if not choice:
                continue
            row |= choice.row()
            row["measured_as"] = sides.setdefault(choice.key, side)
            plans.setdefault(row["measured_as"], choice.plan)
    return rows, plans


def measure_case(case, runs, machine):
    """The row of a case."""
    rows, plans = sides_of(case, runs)
    row = {"layer": case.layer.name, "n": case.layer.n, "k": case.layer.k,
           "m": case.m, "band": case.band, "aligned": case.layer.aligned}
    try:
        times, wrong = machine.time_case(case, plans)
    except Exception as error:  # a case that fails is a result
        print(f"{case.text}: {error}", file=sys.stderr)
        return row | {"error": str(error)[:500], "states": rows}
    peer = {f"peer_{key}": value for key, value in
            times.pop("cuBLASLt", {}).items()}
    for state in rows.values():
        for side in (state, state.get("later", {})):
            side |= times.get(side.get("measured_as"), {})
    return row | peer | {"wrong": wrong, "states": rows}


def measure_model(model, suite, machine, library, options, watch):
    """(cases, states) of the result. Minutes."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(
            prefix="kiln-default-mode-", dir=options.caches))
        runs = {}
        for name in options.states:
            own = (options.pool if STATES[name].from_pool
                   else f"{folder}/{name.replace(' ', '-')}")
            run = StateRun(library, name, own, machine.stream,
                           **machine.engine_options)
            stack.callback(run.close)
            with watch.phase(name):
                run.run(model, suite.seed)
            runs[name] = run
            print(f"{model.name}: {name}: {json.dumps(run.summary())}",
                  file=sys.stderr, flush=True)
        measured = {name: run for name, run in runs.items()
                    if not run.skipped}
        with watch.phase("timing"):
            cases = [measure_case(case, measured, machine)
                     for case in model.cases]
        return cases, {name: run.summary() for name, run in runs.items()}


#===------------------------------------------------------------------------===#
# The run
#===------------------------------------------------------------------------===#


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    default_mode_cases.add_suite_options(parser)
    parser.add_argument("--states", default=",".join(STATES), metavar="A,B",
                        help=f"some of {', '.join(STATES)}")
    parser.add_argument("--pool", metavar="DIR",
                        help="cache folder of the state strict, which is left "
                        "out without one")
    parser.add_argument("--library", help="libkiln.so; default: of the build")
    parser.add_argument("--nvrtc", help="path of the NVRTC that Kiln opens")
    parser.add_argument("--caches", help="folder of the engines' caches")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gap-ms", type=float, default=5,
                        help="idle time before each graph")
    parser.add_argument("--limit-s", type=float, default=540,
                        help="no model begins that would end later; 0: none")
    parser.add_argument("--add", action="store_true",
                        help="keep the models that --out has of this commit")
    parser.add_argument("--stand-ins", metavar="DRIVER,NVRTC",
                        help="times nothing, and needs no GPU")
    options = parse_with_result(parser)
    options.states = options.states.split(",")
    unknown = [name for name in options.states if name not in STATES]
    if unknown:
        parser.error(f"no state {', '.join(unknown)}")
    return options


def new_document(suite, machine, options):
    skipped = {}
    if "strict" in options.states and not options.pool:
        options.states.remove("strict")
        skipped["strict"] = "no --pool"
    return {"what": WHAT, "peer": "cuBLASLt", **machine.head(),
            "driver": driver_version(), "commit": options.commit,
            "protocol": PROTOCOL.format(
                values=suite.values, largest=default_mode_cases.LARGEST,
                seed=suite.seed, gap=options.gap_ms, rounds=options.rounds),
            "seed": suite.seed, "values": suite.values,
            "skipped_states": skipped, "left_out": [], "models": {},
            "cases": []}


def add_earlier(document, path):
    """Takes the models of the result that is there, if it is of the same."""
    if not pathlib.Path(path).exists():
        return
    earlier = json.loads(pathlib.Path(path).read_text())
    for key in ("gpu", "driver", "commit", "protocol", "skipped_states"):
        if earlier[key] != document[key]:
            raise SystemExit(f"--add: {path} has {key} {earlier[key]}, this "
                             f"run {document[key]}")
    document["models"] |= earlier["models"]
    document["cases"] += earlier["cases"]


def measure_all(suite, machine, document, options):
    library = kiln_ctypes.Library(kiln_ctypes.find_library(options.library))
    begin, longest = time.monotonic(), 0
    for model in suite.models:
        if model.name in document["models"]:
            continue
        started = time.monotonic()
        if 0 < options.limit_s < started - begin + longest:
            document["left_out"].append(model.name)
            continue
        watch = Stopwatch()
        cases, states = measure_model(model, suite, machine, library, options,
                                      watch)
        longest = max(longest, time.monotonic() - started)
        document["cases"] += cases
        document["models"][model.name] = {
            "kind": model.kind, "states": states,
            "seconds": {phase: round(seconds, 1)
                        for phase, seconds in watch.seconds.items()}}
        write_document(document, options.out)
        print(f"{model.name}: {document['models'][model.name]['seconds']}",
              file=sys.stderr, flush=True)
    write_document(document, options.out)


def main():
    options = parse_options()
    suite = default_mode_cases.suite_of(options)
    machine = (DryMachine(options.stand_ins) if options.stand_ins
               else Machine(options, suite.seed))
    document = new_document(suite, machine, options)
    if options.add and options.out:
        add_earlier(document, options.out)
    measure_all(suite, machine, document, options)
    print("\n".join(default_mode_tables.tables(document)))
    # Kiln's numbers stand only if it computes what fp64 does.
    return 1 if default_mode_tables.faults(document) else 0


if __name__ == "__main__":
    sys.exit(main())
