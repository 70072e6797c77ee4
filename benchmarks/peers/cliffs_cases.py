"""Pairs of neighbours: a problem that once fell to a far slower kernel, what
stands beside it, and the ratio that it has to reach. Needs neither torch nor a
GPU.

`python3 cliffs_cases.py` lists the texts, for `kiln warmup`.
"""
import dataclasses

HEADS = "heads=32 kvheads=8 d=128"
# Prompts, and chunks of 512 tokens behind a long context.
PREFILLS = [(512, 512), (2048, 2048), (2049, 2049), (4096, 4096), (8192, 8192),
            (16384, 16384), (512, 32768), (512, 131072)]
PAGES = [0, 1, 16, 64]
DECODES = [(32, 4096), (64, 8192), (4, 131072)]
ROW_COLUMNS = [8_388_608, 16_777_217, 33_554_432, 59_000_000]
ROW_PROBLEMS = ["softmax rows={r} cols={c} dtype=bf16",
                "rmsnorm rows={r} cols={c} dtype=bf16 weight=1",
                "layernorm rows={r} cols={c} dtype=bf16 weight=1 bias=1",
                "rowquant rows={r} cols={c} dtype=bf16"]
BYTE_SHAPES = [(4096, 4096, 4096), (2048, 7168, 4096), (16, 4096, 4096),
               (8192, 4096, 4096)]


@dataclasses.dataclass(frozen=True)
class Pair:
    """`subject` has to be at least `goal` times as fast as `beside`: a text of
    Kiln's, or the name of a function of cliffs.py with that problem."""
    name: str
    subject: str
    beside: str
    goal: float

    def texts(self):
        return [text for text in (self.subject, self.beside)
                if " " in text and not text.startswith("torch")]


def attention(batch, queries, keys, page, kv="", heads=HEADS):
    words = [f"attention batch={batch} sq={queries} sk={keys} {heads}",
             "dtype=bf16"]
    if queries > 1:
        words.append("mask=causal")
    if kv:
        words.append(f"kv={kv}")
    if page:
        words.append(f"kvlen=used pages=table page={page}")
    return " ".join(words)


def prefill_pairs():
    for queries, keys in PREFILLS:
        for page in PAGES:
            name = f"prefill/{queries}x{keys}/page{page}"
            yield Pair(name + "/e4m3", attention(1, queries, keys, page, "e4m3"),
                       attention(1, queries, keys, page), 0.8)
        yield Pair(f"prefill/{queries}x{keys}/page1/bf16",
                   attention(1, queries, keys, 1),
                   attention(1, queries, keys, 64), 0.7)


def decode_pairs():
    for batch, keys in DECODES:
        yield Pair(f"decode/{batch}x{keys}/e4m3",
                   attention(batch, 1, keys, 0, "e4m3"),
                   attention(batch, 1, keys, 0), 1.6)


def group_pairs():
    for batch, keys, dim in [(1, 4096, 128), (8, 4096, 128), (8, 8192, 128),
                             (1, 131072, 64)]:
        def of(heads):
            return attention(batch, 1, keys, 0,
                             heads=f"heads={heads} kvheads=1 d={dim}")
        yield Pair(f"group/71/{batch}x{keys}", of(71), of(64), 1 / 1.85)
        yield Pair(f"group/96/{batch}x{keys}", of(96), of(64), 1 / 2.5)


def dim_pairs():
    for batch, keys in [(1, 131072), (16, 8192), (1, 8192)]:
        yield Pair(f"dim100/{batch}x{keys}",
                   attention(batch, 1, keys, 0, heads="heads=32 kvheads=8 d=100"),
                   attention(batch, 1, keys, 0, heads="heads=32 kvheads=8 d=104"),
                   1 / 1.3)
    # Rows that are no whole lines of L2, beside longer ones that are.
    for dim in (104, 96, 80):
        yield Pair(f"dim{dim}/16x8192",
                   attention(16, 1, 8192, 0,
                             heads=f"heads=32 kvheads=8 d={dim}"),
                   attention(16, 1, 8192, 0), 1 / 1.05)
    yield Pair("dim127/decode",
               attention(1, 1, 131072, 0, heads="heads=8 kvheads=1 d=127"),
               attention(1, 1, 131072, 0, heads="heads=8 kvheads=1 d=128"),
               1 / 3)
    yield Pair("dim64/e4m3",
               attention(16, 1, 16384, 0, "e4m3",
                         heads="heads=32 kvheads=8 d=64"),
               attention(16, 1, 16384, 0, heads="heads=32 kvheads=8 d=64"),
               1.6)
    yield Pair("dim127/prefill",
               attention(1, 4096, 4096, 0, heads="heads=32 kvheads=8 d=127"),
               attention(1, 4096, 4096, 0), 1 / 3)


def row_pairs():
    for problem in ROW_PROBLEMS:
        for columns in ROW_COLUMNS:
            text = problem.format(r=1, c=columns)
            yield Pair(f"row/{text.split()[0]}/{columns}", text, "stream", 0.7)


def byte_pairs():
    for dtype in ("e4m3", "int8"):
        for m, n, k in BYTE_SHAPES:
            def of(layout):
                return f"gemm m={m} n={n} k={k} dtype={dtype} layout={layout}"
            for layout in ("NN", "TN", "TT"):
                yield Pair(f"bytes/{dtype}/{m}x{n}x{k}/{layout}", of(layout),
                           of("NT"), 0.8)


def gather_pairs():
    for groups, rows, n, k in [(64, 65536, 2048, 4096), (128, 65536, 1536, 2048)]:
        yield Pair(f"gather/{rows}x{n}x{k}x{groups}",
                   f"gemm m={rows} n={n} k={k} dtype=bf16 layout=NT "
                   f"batch={groups} groups=ends gather=1", "torch", 0.5)


def quantised_pairs():
    def of(m):
        return (f"gemm m={m} n=28672 k=4096 dtype=e4m3 layout=NT "
                "pointwise=swiglu out=e4m3 scale_d=1x128 scale_a=1x128 "
                "scale_b=128x128")
    yield Pair("quantised/20480", of(20480), of(16384), 1 / 1.5)


def all_pairs():
    for pairs in (prefill_pairs, decode_pairs, group_pairs, dim_pairs, row_pairs,
                  byte_pairs, gather_pairs, quantised_pairs):
        yield from pairs()


if __name__ == "__main__":
    for line in dict.fromkeys(text for pair in all_pairs()
                              for text in pair.texts()):
        print(line)
