"""The cases of benchmarks/suites/attention.json: Kiln's problem text, every
operand with its slot, shape and type, lengths of sequences, and the work that
counts. Draws random cases as well. Needs neither torch nor a GPU.

`python3 attention_cases.py` lists the texts of a suite; with --library LIBKILN
it also has each text parsed and prints its canonical form; with --draw N those
of a draw.
"""
import argparse
import dataclasses
import functools
import json
import math
import pathlib
import random
import sys

import kiln_ctypes

SUITE = pathlib.Path(__file__).resolve().parent.parent / "suites" / \
    "attention.json"

TYPE_BYTES = {"fp32": 4, "int32": 4, "bf16": 2, "fp16": 2, "e4m3": 1}

# kiln_attention_slot.
SLOTS = {name: slot for slot, name in enumerate(
    ["q", "k", "v", "o", "lse", "query_offsets", "key_offsets", "key_lengths",
     "page_table", "page_offsets", "sinks", "alibi", "q_scale", "k_scale",
     "v_scale"])}

# Keys that these programs make no operands for.
NOT_SERVED = {"alibi", "scales", "poolpages", "tablecols", "ldq",
              "hsq", "bsq", "ldk", "hsk", "bsk", "ldv", "hsv", "bsv", "ldo",
              "hso", "bso"}


@dataclasses.dataclass(frozen=True)
class Operand:
    """One array of a case; `slot` is its index in kiln_arguments."""
    name: str
    shape: tuple
    dtype: str
    output: bool = False

    @property
    def slot(self):
        return SLOTS[self.name]

    @property
    def bytes(self):
        return math.prod(self.shape) * TYPE_BYTES[self.dtype]


def shared_out(total, count, most, generator):
    """`count` lengths of 1 to `most` that add up to `total`, log-uniform as far
    as that allows, one of them `most` where the total leaves room for it."""
    if not count <= total <= count * most:
        raise ValueError(f"{count} lengths up to {most} do not make {total}")
    weights = [math.exp(generator.uniform(0, math.log(64)))
               for _ in range(count)]
    scale = total / sum(weights)
    lengths = [min(most, max(1, round(weight * scale))) for weight in weights]
    if most + count - 1 <= total:
        lengths[generator.randrange(count)] = most
    order = list(range(count))
    generator.shuffle(order)
    # The missing or surplus tokens go to lengths that have room for them; the
    # longest keeps its length as long as it can.
    order.sort(key=lambda index: lengths[index] == most)
    for index in order:
        room = total - sum(lengths)
        lengths[index] = min(most, max(1, lengths[index] + room))
    return lengths


@dataclasses.dataclass(frozen=True)
class Case:
    """One case of the suite, as its JSON object `spec` says. Errors: ValueError
    for what Kiln knows but these programs have no operands for."""
    spec: dict

    def __post_init__(self):
        for key in NOT_SERVED & self.spec.keys():
            raise ValueError(f"{self.name}: {key} is not served")

    def get(self, key, default=None):
        return self.spec.get(key) or default

    @property
    def name(self):
        return self.spec["name"]

    @property
    def batch(self):
        return self.get("batch", 1)

    @property
    def queries(self):
        return self.spec["sq"]

    @property
    def keys(self):
        return self.spec["sk"]

    @property
    def heads(self):
        return self.spec["heads"]

    @property
    def kv_heads(self):
        return self.get("kvheads", self.heads)

    @property
    def head_dim(self):
        return self.spec["d"]

    @property
    def value_dim(self):
        return self.get("dv", self.head_dim)

    @property
    def dtype(self):
        return self.spec["dtype"]

    @property
    def kv_dtype(self):
        return self.get("kv", self.dtype)

    @property
    def out(self):
        return self.get("out", "bf16" if self.dtype == "e4m3" else self.dtype)

    @property
    def mask(self):
        return self.get("mask", "none")

    @property
    def scale(self):
        return self.get("scale", self.head_dim ** -0.5)

    @property
    def softcap(self):
        return self.get("softcap", 0)

    @property
    def packs_queries(self):
        return self.get("qlen") == "packed"

    @property
    def packs_keys(self):
        return self.get("kvlen") == "packed"

    @property
    def is_uniform(self):
        """All sequences have as many queries and keys as the problem says."""
        return not self.get("qlen") and not self.get("kvlen")

    @property
    def pages(self):
        return self.get("pages")

    @property
    def page(self):
        return self.get("page", 0)

    @property
    def pages_of_sequence(self):
        return -(-self.keys // self.page)

    @functools.cached_property
    def query_lengths(self):
        if not self.packs_queries:
            return [self.queries] * self.batch
        return shared_out(self.get("totalq", self.batch * self.queries),
                          self.batch, self.queries, random.Random(11))

    @functools.cached_property
    def key_lengths(self):
        kind = self.get("kvlen", "uniform")
        if kind == "uniform":
            return [self.keys] * self.batch
        total = self.get("totalk") if kind == "packed" else \
            self.batch * self.get("skhint", self.keys)
        # The same seed: with equal totals both lengths of a sequence agree.
        return shared_out(total or self.batch * self.keys, self.batch,
                          self.keys, random.Random(11))

    @property
    def text(self):
        """The problem as Kiln's text."""
        parts = ["attention"]
        for key, value in self.spec.items():
            if key not in ("name", "family"):
                parts.append(f"{key}={value}")
        return " ".join(parts)

    def operands(self):
        """Every operand."""
        rows = (self.batch, self.queries)
        if self.packs_queries:
            rows = (sum(self.query_lengths),)
        tokens = (self.batch, self.keys)
        if self.pages:
            tokens = (self.batch * self.pages_of_sequence, self.page)
        elif self.packs_keys:
            tokens = (sum(self.key_lengths),)
        kv = self.kv_dtype
        found = [
            Operand("q", rows + (self.heads, self.head_dim), self.dtype),
            Operand("k", tokens + (self.kv_heads, self.head_dim), kv),
            Operand("o", rows + (self.heads, self.value_dim), self.out, True)]
        if not self.get("latent"):
            found.append(
                Operand("v", tokens + (self.kv_heads, self.value_dim), kv))
        if self.get("lse"):
            found.append(Operand("lse", rows[:-1] + (self.heads, rows[-1]),
                                 "fp32", True))
        if self.packs_queries:
            found.append(Operand("query_offsets", (self.batch + 1,), "int32"))
        if self.packs_keys:
            found.append(Operand("key_offsets", (self.batch + 1,), "int32"))
        if self.get("kvlen") == "used":
            found.append(Operand("key_lengths", (self.batch,), "int32"))
        if self.pages == "table":
            found.append(Operand("page_table",
                                 (self.batch, self.pages_of_sequence), "int32"))
        if self.pages == "list":
            found += [Operand("page_table",
                              (self.batch * self.pages_of_sequence,), "int32"),
                      Operand("page_offsets", (self.batch + 1,), "int32")]
        if self.get("sinks"):
            found.append(Operand("sinks", (self.heads,), "fp32"))
        return found

    def keys_of(self, row, queries, keys):
        """range of the keys that query `row` of a sequence sees."""
        begin, end, position = 0, keys, row + keys - queries
        if self.mask != "none":
            right = 0 if self.mask == "causal" else self.spec.get("right", keys)
            end = min(keys, position + right + 1)
        if self.mask == "window":
            begin = max(0, position - self.spec.get("left", keys))
        return range(begin, max(begin, end))

    @functools.cached_property
    def pairs(self):
        """Pairs of a query and a key that it sees, of all heads; with a causal
        mask and as many keys as queries half of all, as is usual."""
        total = 0
        for queries, keys in zip(self.query_lengths, self.key_lengths):
            if self.mask == "none":
                total += queries * keys
            elif self.mask == "causal" and queries == keys:
                total += queries * keys / 2
            else:
                total += sum(len(self.keys_of(row, queries, keys))
                             for row in range(queries))
        return total * self.heads

    @property
    def flops(self):
        return 2 * (self.head_dim + self.value_dim) * self.pairs

    @property
    def bytes(self):
        """Q, O and the keys that there are, once."""
        values = 0 if self.get("latent") else self.value_dim
        token = self.kv_heads * (self.head_dim + values) * \
            TYPE_BYTES[self.kv_dtype]
        rows = [operand.bytes for operand in self.operands()
                if operand.name in ("q", "o")]
        return sum(rows) + token * sum(self.key_lengths)


def load_suite(path, filters=""):
    """The cases of a suite whose names have one of the filters' parts."""
    parts = [part for part in filters.split(",") if part]
    cases = [Case(spec) for spec in
             json.loads(pathlib.Path(path).read_text())["cases"]]
    return [case for case in cases
            if not parts or any(part in case.name for part in parts)]


#===------------------------------------------------------------------------===#
# Draws
#===------------------------------------------------------------------------===#

# Bounds of what is drawn: bytes of K and V, and pairs of all heads.
MOST_BYTES = 2 << 30
MOST_PAIRS = 2 ** 37
MOST_HEADS = 128


def log_uniform(generator, least, most):
    return min(most, int(math.exp(generator.uniform(math.log(least),
                                                    math.log(most + 1)))))


def drawn_spec(generator):
    """One problem: prefill, a chunk behind a cache, or decode."""
    form = generator.choice(["prefill", "prefill", "chunk", "decode"])
    kv_heads = 2 ** generator.randint(0, 5)
    group = generator.choice([1, 1, 2, 3, 4, 4, 7, 8, 8, 16])
    dim = generator.choice([64, 64, 128, 128, 128, 128, 256, 96])
    spec = {"heads": kv_heads * group, "kvheads": kv_heads, "d": dim,
            "dtype": generator.choice(["bf16", "bf16", "bf16", "fp16"])}
    if form == "prefill":
        length = log_uniform(generator, 32, 16384)
        spec |= {"batch": log_uniform(generator, 1, 32), "sq": length,
                 "sk": length}
        if generator.random() < 0.6:
            spec["mask"] = "causal"
    elif form == "chunk":
        queries = log_uniform(generator, 2, 2048)
        spec |= {"batch": log_uniform(generator, 1, 16), "sq": queries,
                 "sk": queries + log_uniform(generator, 64, 32768)}
        if generator.random() < 0.5:
            spec["mask"] = "causal"
    else:
        spec |= {"batch": log_uniform(generator, 1, 128), "sq": 1,
                 "sk": log_uniform(generator, 64, 65536)}
    return form, spec


def draw(count, seed):
    """`count` cases; the same for the same seed everywhere."""
    generator, cases = random.Random(seed), []
    while len(cases) < count:
        form, spec = drawn_spec(generator)
        name = (f"draw{seed}/{form}/b{spec['batch']}xq{spec['sq']}xk{spec['sk']}"
                f"xh{spec['heads']}x{spec['kvheads']}xd{spec['d']}"
                f"/{spec.get('mask', 'full')}/{spec['dtype']}")
        case = Case({"name": name, "family": "attention", **spec})
        rows = case.batch * case.queries * case.heads * case.head_dim * 2
        if case.heads <= MOST_HEADS and case.bytes <= MOST_BYTES and \
                rows <= MOST_BYTES / 4 and case.pairs <= MOST_PAIRS:
            cases.append(case)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default=SUITE)
    parser.add_argument("--filter", default="")
    parser.add_argument("--draw", type=int, metavar="N",
                        help="N random cases instead of the suite's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--library", help="libkiln.so: show canonical texts")
    options = parser.parse_args()
    library = kiln_ctypes.Library(options.library) if options.library else None
    cases = draw(options.draw, options.seed) if options.draw else \
        load_suite(options.suite, options.filter)
    for case in cases:
        text = library.canonical(case.text) if library else case.text
        print(f"{case.name:48} {case.flops / 1e9:10.2f} GF "
              f"{case.bytes / 1e6:8.1f} MB  {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
