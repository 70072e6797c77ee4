#!/usr/bin/env python3
"""Times problems that once fell to a far slower kernel beside their neighbours:
e4m3 caches beside 16-bit ones, small pages beside large ones, 71 heads beside
64, layouts of bytes beside torch's transpositions and the layout NT, gathered
rows beside torch's copy and product, one long row beside a copy of as many
bytes. cliffs_cases.py has the pairs and the ratios that they have to reach.

  python3 benchmarks/peers/cliffs.py --commit COMMIT --out result.json

Each side is captured into a CUDA graph of many launches, which rotate over
copies of all operands that together exceed twice the L2, and the graphs are
replayed in turns. A ratio is the time of the neighbour over that of the problem;
numbers are medians over the rounds.
"""
import argparse
import gc
import math
import statistics
import sys

import torch

import cliffs_cases
import kiln_ctypes
from interleaved import capture, current_stream, time_graphs
from result_files import (config_of, driver_version, parse_with_result,
                          write_document)

PROTOCOL = ("Cold L2 (operands rotate over copies of twice the L2 or more), "
            "N(0, 1) data, CUDA graphs, both sides interleaved in one run, "
            "median of {rounds} rounds; a spread is (greatest - least) / "
            "median; a ratio is the neighbour's time over the problem's.")
TORCH_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16,
               "fp32": torch.float32, "e4m3": torch.float8_e4m3fn,
               "int8": torch.int8, "int32": torch.int32}
TYPE_NAMES = {code: name for name, code in kiln_ctypes.TYPES.items()}
REPLAY_US = 1500
LEAST_ROTATION_BYTES = 120 << 20
MOST_COPIES = 64


def words_of(text):
    return dict(word.split("=") for word in text.split()[1:])


def number_of(text, key, default=1):
    return int(words_of(text).get(key, default))


def integers(text, name, count):
    """The values of an operand of integers."""
    if name == "key_lengths":
        return torch.full((count,), number_of(text, "sk"))
    if name == "group_sizes":
        rows, groups = number_of(text, "m"), number_of(text, "batch")
        return torch.arange(1, groups + 1) * rows // groups
    if name in ("page_table", "row_index"):
        return torch.randperm(count)
    raise ValueError(f"{text}: what does {name} hold?")


def tensor_for(text, info):
    """An operand of a plan, as one row."""
    dtype = TORCH_TYPES[TYPE_NAMES[info.type]]
    count = info.bytes // dtype.itemsize
    name = info.name.decode()
    if dtype == torch.int32:
        return integers(text, name, count).to(torch.int32).cuda()
    if "scale" in name:
        return torch.ones(count, dtype=dtype, device="cuda")
    made = torch.empty(count, dtype=dtype, device="cuda")
    for begin in range(0, count, 1 << 26):
        part = made[begin:begin + (1 << 26)]
        values = torch.randn(part.numel(), device="cuda")
        part.copy_((30 * values).round() if dtype == torch.int8 else values)
    return made


class Side:
    """A plan of Kiln's with operands of its own, several times over."""

    def __init__(self, engine, text, copies=None):
        self.text = text
        self.plan = engine.plan(text, current_stream())
        self.config = config_of(self.plan.describe())
        infos = [info for info in self.plan.operands() if info.bytes]
        held = sum(info.bytes for info in infos)
        self.copies = copies or max(2, min(
            MOST_COPIES, math.ceil(LEAST_ROTATION_BYTES / held)))
        first = {info.slot: tensor_for(text, info) for info in infos}
        self.tensors = [first] + [
            {slot: tensor.clone() for slot, tensor in first.items()}
            for _ in range(self.copies - 1)]
        self.slots = {info.name.decode(): info.slot for info in infos}
        self.arguments = [self.arguments_with(tensors)
                          for tensors in self.tensors]
        need = self.plan.workspace()
        self.memory = torch.zeros(max(1, need.bytes), dtype=torch.uint8,
                                  device="cuda")
        self.workspace = kiln_ctypes.Workspace(
            flags=kiln_ctypes.WORKSPACE_ZEROED, data=self.memory.data_ptr(),
            bytes=need.bytes) if need.bytes else None

    def arguments_with(self, tensors):
        return kiln_ctypes.arguments_of(
            {slot: tensor.data_ptr() for slot, tensor in tensors.items()})

    def tensor(self, copy, name):
        return self.tensors[copy][self.slots[name]]

    def __call__(self, copy):
        self.plan.launch(self.arguments[copy], current_stream(), self.workspace)

    def close(self):
        self.plan.close()


class Transposed:
    """torch transposes what the layout NT has otherwise, then Kiln's product of
    that layout. Reads the operands of `subject`."""

    def __init__(self, engine, subject, text):
        self.nt = Side(engine, text, subject.copies)
        self.config, self.subject = self.nt.config, subject
        self.copies = subject.copies
        layout = words_of(subject.text)["layout"]
        m, n, k = (number_of(subject.text, key) for key in "mnk")
        self.swaps = ([("a", k, m)] if layout[0] == "T" else []) + \
            ([("b", k, n)] if layout[1] == "N" else [])

    def __call__(self, copy):
        for name, rows, columns in self.swaps:
            source = self.subject.tensor(copy, name).view(torch.uint8)
            target = self.nt.tensor(copy, name).view(torch.uint8)
            target.view(columns, rows).copy_(source.view(rows, columns).t())
        self.nt(copy)

    def close(self):
        self.nt.close()


class Copied:
    """torch's copy of as many bytes as the problem has to move."""

    config = "copy"

    def __init__(self, subject):
        self.copies = subject.copies
        bytes_ = sum(tensor.nbytes for tensor in subject.tensors[0].values())
        self.pairs = [[torch.empty(bytes_ // 2, dtype=torch.uint8,
                                   device="cuda") for _ in range(2)]
                      for _ in range(self.copies)]

    def __call__(self, copy):
        self.pairs[copy][1].copy_(self.pairs[copy][0])

    def close(self):
        pass


class Gathered:
    """torch's copy of the rows, and its grouped product."""

    config = "index_select, _grouped_mm"

    def __init__(self, subject):
        self.subject, self.copies = subject, subject.copies
        self.extents = {key: number_of(subject.text, key)
                        for key in ("m", "n", "k", "batch")}

    def __call__(self, copy):
        m, n, k, groups = (self.extents[key]
                           for key in ("m", "n", "k", "batch"))
        a = self.subject.tensor(copy, "a").view(m, k)
        b = self.subject.tensor(copy, "b").view(groups, n, k)
        index = self.subject.tensor(copy, "row_index")
        rows = torch.index_select(a, 0, index)
        torch._grouped_mm(rows, b.transpose(-2, -1),
                          offs=self.subject.tensor(copy, "group_sizes"))

    def close(self):
        pass


def beside_of(engine, pair, subject):
    if pair.beside == "torch":
        return Gathered(subject)
    if pair.beside == "stream":
        return Copied(subject)
    if pair.name.startswith("bytes/"):
        return Transposed(engine, subject, pair.beside)
    return Side(engine, pair.beside)


def measure(engine, pair, rounds):
    subject = Side(engine, pair.subject)
    sides = {"subject": subject, "beside": beside_of(engine, pair, subject)}
    graphs, launches = {}, {}
    for name, side in sides.items():
        once = capture(side, side.copies, side.copies)
        us = statistics.median(time_graphs({"once": once}, 3, side.copies)
                               ["once"])
        launches[name] = side.copies * max(
            1, math.ceil(REPLAY_US / us / side.copies))
        graphs[name] = once if launches[name] == side.copies else \
            capture(side, side.copies, launches[name])
    times = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            times[name] += time_graphs({name: graph}, 1, launches[name])[name]
    medians = {name: statistics.median(values)
               for name, values in times.items()}
    row = {"name": pair.name, "text": pair.subject, "beside": pair.beside,
           "config": subject.config, "beside_config": sides["beside"].config,
           "us": round(medians["subject"], 3),
           "beside_us": round(medians["beside"], 3),
           "ratio": round(medians["beside"] / medians["subject"], 4),
           "goal": round(pair.goal, 4),
           "spread": round(max((max(v) - min(v)) / medians[n]
                               for n, v in times.items()), 4)}
    row["reached"] = row["ratio"] >= pair.goal
    for side in sides.values():
        side.close()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", help="libkiln.so")
    parser.add_argument("--mode", default="predict",
                        choices=["tune", "predict", "strict"])
    parser.add_argument("--filter", default="",
                        help="pairs whose name contains one of these: A,B")
    parser.add_argument("--cache-dir")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--verbose", action="store_true")
    options = parse_with_result(parser)
    library = kiln_ctypes.Library(kiln_ctypes.find_library(options.library))
    document = {"what": "cliffs", "commit": options.commit,
                "gpu": torch.cuda.get_device_name(0),
                "driver": driver_version(), "cuda": torch.version.cuda,
                "mode": options.mode,
                "protocol": PROTOCOL.format(rounds=options.rounds),
                "cases": []}
    failed = 0
    filters = options.filter.split(",")
    log = (lambda text: print(text, file=sys.stderr)) \
        if options.verbose else None
    with kiln_ctypes.Engine(library, mode=options.mode, log=log,
                            cache_dir=options.cache_dir) as engine:
        for pair in cliffs_cases.all_pairs():
            if not any(part in pair.name for part in filters):
                continue
            try:
                row = measure(engine, pair, options.rounds)
            except (RuntimeError, ValueError) as error:
                row = {"name": pair.name, "text": pair.subject,
                       "goal": round(pair.goal, 4), "error": str(error)[:300], "reached": False}
            failed += not row["reached"]
            document["cases"].append(row)
            print(f"{'ok  ' if row['reached'] else 'FAIL'} {pair.name}: " +
                  (row["error"] if "error" in row else
                   f"{row['us']:.1f} us, beside {row['beside_us']:.1f}, ratio "
                   f"{row['ratio']:.3f} of {row['goal']:.3f}, spread "
                   f"{row['spread']:.2f}, {row['config']} | "
                   f"{row['beside_config']}"), flush=True)
            write_document(document, options.out)
            gc.collect()
            torch.cuda.empty_cache()
    print(f"{len(document['cases']) - failed} of {len(document['cases'])} "
          "reach their ratio")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
