#!/usr/bin/env python3
"""Races forms of the engine (kiln-llama) against each other: types of weights
and caches, numbers of GPUs. Needs no torch.

  python3 benchmarks/peers/llama_forms.py --engine build/release/bin/kiln-llama \
      --form bf16= --form 'fp8=--weights fp8 --head e4m3' \
      --cases llama-3-8b:1@1024,llama-3-8b:16@1024 --commit COMMIT --out FILE

A form is a name and further arguments of the engine. The first form is what the
others are compared with. Each is a process of its own, and all of them hold
their weights at the same time; the blocks of a case take turns, as those of
llama_race.py do, whose cases these are.
"""
import argparse
import contextlib
import sys
import time

import llama_race_cases
from llama_blocks import Lane, run_rounds
from llama_engine import EngineError, EngineSide, Lockstep, lockstep_command
from result_files import (Progress, clocks, driver_version, gpu_name, number,
                          parse_with_result, write_document)

PROTOCOL = (
    "random weights; blocks of {steps} steps, or of prefills of about {tokens} "
    "tokens, forms in turns, the others idle, {gap:g} ms without work before "
    "each block, all lengths reset before it; {rounds} rounds after an untimed "
    "one; times of the device by events around a block, medians; a spread is "
    "(greatest - least) / median; a ratio is the first form's time over "
    "another's.")


class FormSide(EngineSide):
    """One form of the engine."""

    def __init__(self, name, engine):
        super().__init__(engine)
        self.name = name


def start_forms(stack, model, cases, document, options, progress):
    """The forms whose engines are ready, one after the other: each may tune,
    for which the GPU has to be idle."""
    sides = []
    for name, arguments in options.forms.items():
        progress.say(f"{model}: starting {name}")
        try:
            engine = stack.enter_context(Lockstep(
                lockstep_command(options.engine, model, cases, options.seed) +
                arguments, start_s=options.engine_start_s))
        except (EngineError, OSError) as error:
            document["models"].setdefault(model, {})[name] = \
                {"error": str(error)}
            progress.say(f"{model}: {name}: {error}")
            continue
        document["models"].setdefault(model, {})[name] = engine.ready
        progress.say(f"{model}: {name} is ready: {engine.ready}")
        sides.append(FormSide(name, engine))
    return sides


def run_case(case, sides, options):
    """The row of a case."""
    row = {"name": case.text, "model": case.model, "kind": case.kind,
           "batch": case.batch, "tokens": case.tokens, "keys": case.keys,
           "steps": case.steps, "sides": {}, "clocks_before": clocks()}
    lanes = [Lane(side, side.prepare(case)) for side in sides]
    run_rounds(lanes, options.rounds, options.gap_ms / 1e3, lambda: None)
    row["clocks_after"] = clocks()
    for lane in lanes:
        row["sides"][lane.side.name] = lane.row(case)
    first = row["sides"].get(next(iter(options.forms)), {}).get("ms")
    if first:
        for side in row["sides"].values():
            side["ratio"] = round(first / side["ms"], 4)
    return row


def line_of(row, forms):
    cells = []
    for name in forms:
        side = row["sides"].get(name, {})
        cells.append(f"{number(side.get('ms'), 9, 3)} "
                     f"{number(side.get('ratio'), 6, 3)}")
    return f"{row['name']:28} " + "  ".join(cells)


def run_model(model, cases, document, options, progress):
    with contextlib.ExitStack() as stack:
        sides = start_forms(stack, model, cases, document, options, progress)
        for case in cases:
            if 0 < options.limit_s < progress.seconds():
                document["left_out"].append(case.text)
                progress.say(f"{case.text}: left out, no time")
                continue
            began = time.monotonic()
            row = run_case(case, sides, options)
            row["seconds"] = round(time.monotonic() - began, 1)
            document["cases"].append(row)
            write_document(document, options.out)
            print(line_of(row, options.forms), flush=True)


def parse_form(text):
    name, equals, arguments = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError("expected NAME=ARGUMENTS")
    return name, arguments.split()


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engine", required=True, help="path of kiln-llama")
    parser.add_argument("--form", type=parse_form, action="append",
                        required=True, dest="forms", metavar="NAME=ARGUMENTS")
    parser.add_argument("--cases", required=True, metavar="A,B",
                        help="as llama_race.py has them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=32,
                        help="of a block of decoding")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gap-ms", type=float, default=5,
                        help="idle time before each block")
    parser.add_argument("--limit-s", type=float, default=0,
                        help="no case begins later; 0: none")
    parser.add_argument("--engine-start-s", type=float, default=300)
    options = parse_with_result(parser)
    options.forms = dict(options.forms)
    try:
        options.models = llama_race_cases.parse_cases(options.cases,
                                                      options.steps)
    except ValueError as error:
        parser.error(str(error))
    return options


def main():
    options, progress = parse_options(), Progress()
    document = {"what": "llama_forms", "gpu": gpu_name(),
                "driver": driver_version(), "commit": options.commit,
                "forms": {name: " ".join(arguments)
                          for name, arguments in options.forms.items()},
                "protocol": PROTOCOL.format(
                    steps=options.steps, tokens=llama_race_cases.BLOCK_TOKENS,
                    gap=options.gap_ms, rounds=options.rounds),
                "interrupted": True, "left_out": [], "models": {}, "cases": []}
    print(f"{'case, ms and ratio of':28} " + "  ".join(
        f"{name:>16}" for name in options.forms))
    for model, cases in options.models.items():
        try:
            run_model(model, cases, document, options, progress)
        except EngineError as error:
            document["models"].setdefault(model, {})["error"] = str(error)
            progress.say(f"{model}: {error}")
    document["interrupted"] = False
    document["seconds"] = round(progress.seconds(), 1)
    write_document(document, options.out)
    return 1 if any("error" in form for model in document["models"].values()
                    for form in [model, *model.values()]
                    if isinstance(form, dict)) else 0


if __name__ == "__main__":
    sys.exit(main())
