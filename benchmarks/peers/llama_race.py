#!/usr/bin/env python3
"""Races the engine (kiln-llama) against torch, end to end: decoding and prefill
of whole models with random weights, on one GPU.

  python3 benchmarks/peers/llama_race.py --engine build/release/bin/kiln-llama \
      --commit COMMIT --out result.json

The engine is a child process (llama_engine.py). torch is a hand-written Llama
through torch.compile in one CUDA graph (llama_torch.py); with --transformers
also transformers' compiled model (llama_transformers.py), which costs some 40 s
of compilation a case. llama_race_cases.py says how a case is written.

The sides run blocks in turns, the other ones idle: 32 steps of decoding, or
forward passes of about 4096 tokens. Each block begins at the same lengths.
"""
import argparse
import contextlib
import importlib.metadata
import sys
import time

import torch

import llama_configs
import llama_race_cases
from llama_blocks import Lane, ratios_of, run_rounds
from llama_engine import EngineError, EngineSide, Lockstep, lockstep_command
from llama_torch import TorchSide, load_weights, random_weights
from result_files import (Progress, clocks, driver_version, number,
                          parse_with_result, write_document)

PROTOCOL = (
    "bf16, random weights; blocks of {steps} steps, or of prefills of about "
    "{tokens} tokens, sides in turns, the others idle, {gap:g} ms without work "
    "before each block, all lengths reset before it; {rounds} rounds after an "
    "untimed one; times of the device by events around a block, medians; a "
    "spread is (greatest - least) / median; a ratio is the other side's time "
    "over Kiln's; attention of torch reads a fixed slice of the cache, as long "
    "as the keys of a block's steps are on average.")

#===------------------------------------------------------------------------===#
# One case
#===------------------------------------------------------------------------===#


def lanes_of(case, sides, row, progress):
    """The sides that could be prepared; failures are noted in the row."""
    lanes = []
    for side in sides:
        began = time.monotonic()
        try:
            notes = side.prepare(case)
        except Exception as error:  # a side that fails is a result
            row["sides"][side.name] = {"error": str(error)[:500]}
            progress.say(f"{case.text}: {side.name}: {str(error)[:500]}")
            side.release()
            continue
        seconds = round(time.monotonic() - began, 1)
        lanes.append(Lane(side, notes | {"setup_s": seconds}))
        progress.say(f"{case.text}: {side.name} ready after {seconds} s")
    return lanes


def run_case(case, sides, rates, options, progress):
    """The row of a case. Errors: EngineError if the engine ended."""
    row = {"name": case.text, "model": case.model, "kind": case.kind,
           "batch": case.batch, "tokens": case.tokens, "keys": case.keys,
           "steps": case.steps, "sides": {}}
    began = time.monotonic()
    lanes = lanes_of(case, sides, row, progress)
    try:
        row["clocks_before"] = clocks()
        run_rounds(lanes, options.rounds, options.gap_ms / 1e3,
                   torch.cuda.synchronize)
        row["clocks_after"] = clocks()
        for lane in lanes:
            row["sides"][lane.side.name] = lane.row(case)
    finally:
        for lane in lanes:
            lane.side.release()
    row |= ratios_of(case, row["sides"], rates)
    row["seconds"] = round(time.monotonic() - began, 1)
    return row


def line_of(row):
    def ms(name):
        return number(row["sides"].get(name, {}).get("ms"), 9, 3)

    return (f"{row['name']:28} {ms('kiln')} {ms('torch')} "
            f"{ms('transformers')} {number(row.get('ratio_torch'), 7, 3)} "
            f"{number(row.get('ratio_transformers'), 7, 3)} "
            f"{number(row.get('share_of_roofline'), 6, 3)}")


HEADER = (f"{'case':28} {'kiln ms':>9} {'torch':>9} {'transf.':>9} "
          f"{'/torch':>7} {'/transf':>7} {'share':>6}")


#===------------------------------------------------------------------------===#
# The run
#===------------------------------------------------------------------------===#


class ModelRun:
    """The cases of one model."""

    def __init__(self, model, document, options, progress):
        self._model, self._document = model, document
        self._options, self._progress = options, progress

    def run(self, cases):
        with contextlib.ExitStack() as stack:
            sides, rates = [], {}
            # First the engine: it tunes, for which the GPU has to be idle.
            if "kiln" in self._options.sides:
                engine = stack.enter_context(self._start_engine(cases))
                rates = self._note_engine(engine)
                sides.append(EngineSide(engine))
            sides += self._peers(cases[0].shape)
            for case in cases:
                self._run_case(case, sides, rates)
            if "kiln" in self._options.sides:
                self._document["models"][self._model]["memory"] = \
                    engine.call("memory")
        torch.cuda.empty_cache()

    def _start_engine(self, cases):
        options = self._options
        self._progress.say(f"{self._model}: starting the engine")
        return Lockstep(
            lockstep_command(options.engine, self._model, cases, options.seed,
                             options.weights) + options.engine_args,
            start_s=options.engine_start_s, answer_s=options.engine_answer_s)

    def _note_engine(self, engine):
        """Notes what the engine says of itself; the rates of the device."""
        names = ["gb_per_s", "product_tflops"]
        answer = engine.call("rates", names)
        rates = {name: answer[name] for name in names}
        self._document["models"][self._model] = {"engine": engine.ready,
                                                 **rates}
        self._progress.say(f"{self._model}: the engine is ready: "
                           f"{engine.ready}, {rates}")
        return rates

    def _peers(self, shape):
        options, sides = self._options, []
        if "torch" in options.sides:
            weights = (load_weights(shape, options.weights) if options.weights
                       else random_weights(shape, options.seed))
            torch.cuda.synchronize()
            self._progress.say(f"{self._model}: torch has its weights")
            sides.append(TorchSide(weights, options))
        if options.transformers:
            from llama_transformers import TransformersSide
            sides.append(TransformersSide(llama_configs.RACE[self._model],
                                          options))
        return sides

    def _run_case(self, case, sides, rates):
        document, progress = self._document, self._progress
        longest = max((row["seconds"] for row in document["cases"]),
                      default=0)
        if 0 < self._options.limit_s < progress.seconds() + longest:
            document["left_out"].append(case.text)
            progress.say(f"{case.text}: left out, no time")
            return
        raced = [side for side in sides
                 if case.kind == "decode" or side.name != "transformers"]
        row = run_case(case, raced, rates, self._options, progress)
        document["cases"].append(row)
        write_document(document, self._options.out)
        print(line_of(row), flush=True)


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engine", help="path of kiln-llama")
    parser.add_argument("--cases", default=llama_race_cases.DEFAULT,
                        metavar="A,B", help="default: %(default)s")
    parser.add_argument("--sides", default="kiln,torch",
                        help="kiln and torch, or one of them")
    parser.add_argument("--transformers", action="store_true",
                        help="race transformers' compiled model as well")
    parser.add_argument("--weights", type=lambda text: None
                        if text == "random" else text, metavar="DIR",
                        help="a checkpoint for all sides; default: random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=32,
                        help="of a block of decoding")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gap-ms", type=float, default=5,
                        help="idle time before each block")
    parser.add_argument("--limit-s", type=float, default=540,
                        help="no case begins that would end later; 0: none")
    parser.add_argument("--sdpa", default="default",
                        choices=["default", "cudnn", "flash"],
                        help="back end of torch's attention")
    parser.add_argument("--inductor", default="", metavar="A,B",
                        help="options of torch.compile to set, for example "
                        "coordinate_descent_tuning")
    parser.add_argument("--engine-args", default=[], type=str.split,
                        metavar="TEXT", help="more arguments of the engine")
    parser.add_argument("--engine-start-s", type=float, default=300)
    parser.add_argument("--engine-answer-s", type=float, default=240)
    options = parse_with_result(parser)
    options.sides = options.sides.split(",")
    options.inductor = {name: True for name in options.inductor.split(",")
                        if name}
    if set(options.sides) - {"kiln", "torch"}:
        parser.error("--sides are kiln and torch")
    if "kiln" in options.sides and not options.engine:
        parser.error("--engine names kiln-llama")
    try:
        options.models = llama_race_cases.parse_cases(options.cases,
                                                      options.steps)
    except ValueError as error:
        parser.error(str(error))
    return options


def new_document(options):
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    for name in ("triton", "transformers"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {"what": "llama_race", "gpu": torch.cuda.get_device_name(0),
            "driver": driver_version(), "commit": options.commit, **versions,
            "protocol": PROTOCOL.format(
                steps=options.steps, tokens=llama_race_cases.BLOCK_TOKENS,
                gap=options.gap_ms, rounds=options.rounds),
            "weights": options.weights or f"random, seed {options.seed}",
            "sdpa": options.sdpa, "inductor": options.inductor,
            "interrupted": True, "left_out": [], "models": {}, "cases": []}


def main():
    options, progress = parse_options(), Progress()
    torch.zeros(1, device="cuda")
    document = new_document(options)
    print(HEADER)
    for model, cases in options.models.items():
        try:
            ModelRun(model, document, options, progress).run(cases)
        except (EngineError, OSError) as error:
            document["models"].setdefault(model, {})["error"] = str(error)
            progress.say(f"{model}: {error}")
    document["interrupted"] = False
    document["seconds"] = round(progress.seconds(), 1)
    write_document(document, options.out)
    failed = [side for row in document["cases"]
              for side in row["sides"].values() if "error" in side]
    failed += [model for model in document["models"].values()
               if "error" in model]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
