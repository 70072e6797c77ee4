"""The cases of small_kernels.py: rope, gather, sample, and the kernels around
experts, as an engine calls them, as Kiln's problem text and operands. Needs
neither torch nor a GPU.

`python3 small_kernel_cases.py` lists the texts; with --library LIBKILN it also
has each text parsed and prints its canonical form.
"""
import argparse
import math
import sys

import kiln_ctypes
import small_expert_cases
from small_kernel_case import TYPE_BYTES, Case, Operand

PAGE = 64
TABLE_ROWS = 8192
HISTORY = 256  # tokens of a row that penalties read
TEMPERATURE, TOP_K, TOP_P, MIN_P = 0.8, 50, 0.9, 0.05
REPETITION, FREQUENCY, PRESENCE = 1.2, 0.3, 0.2


#===------------------------------------------------------------------------===#
# rope
#===------------------------------------------------------------------------===#

# From the config.json of each model; -tp8: an eighth of the heads. Gemma's
# weights are stored less 1. DeepSeek's heads are those of its latent cache,
# where the last 64 of 576 elements are rotated and there is no V.
ROPE = {
    "llama-3-8b": {"heads": 32, "kvheads": 8, "d": 128},
    "llama-3-8b-e4m3": {"heads": 32, "kvheads": 8, "d": 128, "kv": "e4m3"},
    "llama-3-8b-hnd": {"heads": 32, "kvheads": 8, "d": 128, "hnd": True},
    "llama-3-70b-tp8": {"heads": 8, "kvheads": 1, "d": 128},
    "qwen3-8b": {"heads": 32, "kvheads": 8, "d": 128, "norm": True},
    "qwen3-30b-a3b": {"heads": 32, "kvheads": 4, "d": 128, "norm": True},
    "gemma-3-4b": {"heads": 8, "kvheads": 4, "d": 256, "norm": True,
                   "unit": True},
    "phi-4-mini": {"heads": 24, "kvheads": 8, "d": 128, "rotary": 96},
    "deepseek-v3-tp8": {"heads": 16, "kvheads": 1, "d": 576, "rotary": 64,
                        "offset": 512, "style": "interleaved",
                        "values": False},
}
ROPE_DEFAULTS = {"kv": "bf16", "hnd": False, "norm": False, "unit": False,
                 "offset": 0, "style": "halves", "values": True}
ROPE_TOKENS = (1, 16, 64, 333, 2048, 8192)
# The other models have fewer cases.
ROPE_FEW_TOKENS = (64, 2048)


def pages_of(tokens):
    """Pages that the tokens are in: full ones, or, of no more tokens than a page
    has, one each, as when sequences decode."""
    return -(-tokens // PAGE) if tokens > PAGE else tokens


def rope_case(model, tokens, pools):
    """`pools`: the copies of the problem that share a cache, each in its own
    pages."""
    sizes = ROPE_DEFAULTS | ROPE[model]
    sizes.setdefault("rotary", sizes["d"])
    heads, kv_heads, d = sizes["heads"], sizes["kvheads"], sizes["d"]
    has_values = sizes["values"]
    row = (heads + (2 if has_values else 1) * kv_heads) * d
    pages = pages_of(tokens) * pools
    words = [f"rope tokens={tokens} heads={heads} kvheads={kv_heads} d={d} "
             f"dtype=bf16 rotary={sizes['rotary']} tablerows={TABLE_ROWS} "
             f"kcache=1 slots=array page={PAGE} poolpages={pages} "
             f"ldq={row} ldk={row}"]
    if has_values:
        words.append(f"vcache=1 ldv={row}")
    if sizes["offset"]:
        words.append(f"offset={sizes['offset']}")
    if sizes["style"] != "halves":
        words.append(f"style={sizes['style']}")
    if sizes["norm"]:
        words.append("qnorm=1 knorm=1 eps=1e-6")
    if sizes["unit"]:
        words.append("unit=1")
    if sizes["kv"] == "e4m3":
        words.append("kv=e4m3 scales=tensor")
    if sizes["hnd"]:
        for cache in ("kc", "vc"):
            words.append(f"ld{cache}={d} hs{cache}={PAGE * d} "
                         f"bs{cache}={kv_heads * PAGE * d}")
    cached = row - heads * d
    return Case(f"rope/{model}/{tokens}", " ".join(words),
                sizes | {"tokens": tokens, "row": row, "pages": pages},
                read=tokens * (2 * row + 4 * sizes["rotary"]),
                written=tokens * (2 * heads * d +
                                  TYPE_BYTES[sizes["kv"]] * cached))


def rope_operands(case):
    s = case.sizes
    cache = (s["pages"], s["kvheads"], PAGE, s["d"]) if s["hnd"] else \
        (s["pages"], PAGE, s["kvheads"], s["d"])
    found = [Operand("qkv", (s["tokens"], s["row"]), "bf16"),
             Operand("q_out", (s["tokens"], s["heads"], s["d"]), "bf16"),
             Operand("k_cache", cache, s["kv"]),
             Operand("table", (TABLE_ROWS, s["rotary"]), "fp32", True),
             Operand("positions", (s["tokens"],), "int32", True),
             Operand("slots", (s["tokens"],), "int32", True)]
    if s["values"]:
        found.append(Operand("v_cache", cache, s["kv"]))
    if s["norm"]:
        found += [Operand(name, (s["d"],), "bf16", True)
                  for name in ("q_weight", "k_weight")]
    if s["kv"] == "e4m3":
        found += [Operand(name, (1,), "fp32", True)
                  for name in ("k_scale", "v_scale")]
    return found


#===------------------------------------------------------------------------===#
# gather
#===------------------------------------------------------------------------===#

# vocab_size and hidden_size; a shard has some of the rows, from its first on.
GATHER = {
    "llama-3-8b": {"vocab": 128256, "cols": 4096},
    "qwen2.5-0.5b": {"vocab": 151936, "cols": 896},
    "gemma-3-12b": {"vocab": 262208, "cols": 3840},
    "llama-3-70b-tp4": {"vocab": 128256, "cols": 8192, "rows": 32064,
                        "first": 32064},
}
GATHER_TOKENS = (1, 64, 2048, 8192)


def gather_case(model, tokens, pools):
    sizes = {"first": 0} | GATHER[model]
    sizes.setdefault("rows", sizes["vocab"])
    text = (f"gather rows={tokens} cols={sizes['cols']} "
            f"xrows={sizes['rows']} dtype=bf16 index=int32")
    if sizes["first"]:
        text += f" first={sizes['first']}"
    moved = 2 * tokens * sizes["cols"]
    # A shard reads the rows that are its own.
    own = sizes["rows"] / sizes["vocab"]
    return Case(f"gather/{model}/{tokens}", text, sizes | {"tokens": tokens},
                read=int(moved * own) + 4 * tokens, written=moved)


def gather_operands(case):
    s = case.sizes
    return [Operand("x", (s["rows"], s["cols"]), "bf16", True),
            Operand("indices", (s["tokens"],), "int32"),
            Operand("y", (s["tokens"], s["cols"]), "bf16")]


#===------------------------------------------------------------------------===#
# sample
#===------------------------------------------------------------------------===#

# By kind, the words of the text, and each row's operands.
SAMPLE = {
    "greedy": (),
    "temperature": ("temperature",),
    "topk": ("temperature", "topk"),
    "topp": ("temperature", "topp"),
    "topk_topp": ("temperature", "topk", "topp"),
    "minp": ("temperature", "minp"),
    "penalties": ("temperature", "repetition", "frequency", "presence"),
}
SAMPLE_OPERANDS = {
    "temperature": ("temperature", "fp32"), "topk": ("top_k", "int32"),
    "topp": ("top_p", "fp32"), "minp": ("min_p", "fp32"),
    "repetition": ("repetition", "fp32"), "frequency": ("frequency", "fp32"),
    "presence": ("presence", "fp32")}
VOCAB = 128256
# (kind, rows, vocabulary, type of the logits)
SAMPLE_CASES = (
    [("greedy", rows, VOCAB, "fp32") for rows in (1, 4, 16, 64, 256)] +
    [("greedy", 64, VOCAB, "bf16")] +
    [("topk_topp", rows, VOCAB, "fp32") for rows in (1, 16, 64, 256)] +
    [(kind, rows, VOCAB, "fp32") for kind in ("temperature", "topk", "topp")
     for rows in (1, 64)] +
    [("minp", 64, VOCAB, "fp32"), ("penalties", 64, VOCAB, "fp32")] +
    [(kind, 64, vocab, "fp32") for vocab in (32000, 151936, 262144)
     for kind in ("greedy", "topk_topp")])


def sample_text(rows, vocab, dtype, words):
    text = f"sample rows={rows} vocab={vocab} dtype={dtype}"
    if "repetition" in words:
        text += f" history={rows * HISTORY}"
    return " ".join([text] + [f"{word}=1" for word in words])


def sample_case(kind, rows, vocab, dtype):
    words = SAMPLE[kind]
    history = 4 * rows * HISTORY if "repetition" in words else 0
    return Case(f"sample/{kind}/{rows}x{vocab}/{dtype}",
                sample_text(rows, vocab, dtype, words),
                {"kind": kind, "rows": rows, "vocab": vocab, "dtype": dtype,
                 "words": words},
                read=rows * vocab * TYPE_BYTES[dtype] + history,
                written=4 * rows)


def sample_operands(case):
    s = case.sizes
    rows, words = (s["rows"],), s["words"]
    found = [Operand("logits", (s["rows"], s["vocab"]), s["dtype"]),
             Operand("tokens", rows, "int32")]
    found += [Operand(*SAMPLE_OPERANDS[word][:1], rows,
                      SAMPLE_OPERANDS[word][1], True) for word in words]
    if "temperature" in words:
        found += [Operand("seeds", rows, "uint64", True),
                  Operand("positions", rows, "int32", True)]
    if "repetition" in words:
        found.append(Operand("history", (s["rows"] * HISTORY,), "int32", True))
        found += [Operand(name, rows, "int32", True) for name in
                  ("history_begins", "history_ends", "prompt_lengths")]
    return found


#===------------------------------------------------------------------------===#
# All
#===------------------------------------------------------------------------===#

OPERANDS = {"rope": rope_operands, "gather": gather_operands,
            "sample": sample_operands} | small_expert_cases.OPERANDS


def operands_of(case):
    return OPERANDS[case.family](case)


def copies_of(moved, l2_bytes):
    """Copies of operands: together more than twice the L2, but 50 at most and
    2 at least. With 50 that are smaller, a graph uses each of them once."""
    return max(2, min(50, math.ceil(2.5 * l2_bytes / moved)))


def all_cases(l2_bytes, every=False):
    """The cases; with `every`, each model of rope at all numbers of tokens."""
    def with_pools(make, model, tokens):
        moved = make(model, tokens, 1).bytes
        return make(model, tokens, copies_of(moved, l2_bytes))

    cases = [with_pools(rope_case, model, tokens) for model in ROPE
             for tokens in (ROPE_TOKENS if every or model == "llama-3-8b"
                            else ROPE_FEW_TOKENS)]
    cases += [with_pools(gather_case, model, tokens) for model in GATHER
              for tokens in GATHER_TOKENS]
    cases += [sample_case(*given) for given in SAMPLE_CASES]
    return cases + small_expert_cases.all_cases()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", help="have each text parsed by this one")
    parser.add_argument("--every", action="store_true")
    options = parser.parse_args()
    library = kiln_ctypes.Library(options.library) if options.library else None
    faults = 0
    for case in all_cases(50 << 20, options.every):
        print(f"{case.name}: {case.text}")
        try:
            if library:
                print(f"  {library.canonical(case.text)}")
        except kiln_ctypes.KilnError as error:
            print(f"  {error}")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
