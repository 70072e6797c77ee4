"""The parts of README.md that show benchmarks/results: sentences, a table of seven
results, and the chart docs/speed.svg. updateReadme.py writes and checks them.

A text replaces what stands between two lines:
    <!-- front:begin PART -->  and  <!-- front:end PART -->
where PART is "lead", "stall", "table" or "weak". A figure is the other side's time over
Kiln's, as everywhere else: above 1, Kiln is faster.
"""
import html
import json
import math
import pathlib
import re
import statistics
import textwrap

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "benchmarks/results"
CHART = "docs/speed.svg"
CUBLASLT = "cuBLASLt"
ATTENTION_PEERS = {"cudnn": "cuDNN", "fa2": "FlashAttention 2",
                   "fa3": "FlashAttention 3"}


def short_gpu(result):
    """The model of a GPU, as H100 of NVIDIA H100 80GB HBM3."""
    return result["gpu"].removeprefix("NVIDIA ").split()[0]


class Row:
    """A family's comparison with a library. state picks a state of a draw,
    cases the cases whose names begin so, and peer names the other side where
    the result does not."""

    def __init__(self, label, result, state=None, cases="", peer=None):
        self.label, self.suite = label, f"`{result}`"
        document = json.loads((RESULTS / f"{result}.json").read_text())
        self.gpu = short_gpu(document)
        self.peer = peer or document.get("peer") or attention_peers(document)
        if state:
            self.suite += f", {state}"
            figures = document["draw"][state]
            self.bands = figures["bands"] | {
                group["name"]: group for group in figures.get("groups", [])}
            figures = figures["all"]
            self.count, self.geomean = figures["cases"], figures["geomean"]
            self.least, self.greatest = figures["least"], figures["greatest"]
            return
        key = "fraction" if any("fraction" in case
                                for case in document["cases"]) else "ratio"
        ratios = [case[key] for case in document["cases"]
                  if case.get(key) and case["name"].startswith(cases)]
        self.count = len(ratios)
        self.missed = sum(case.get("reached") is False
                          for case in document["cases"])
        self.geomean = statistics.geometric_mean(ratios)
        self.least, self.greatest = min(ratios), max(ratios)


def attention_peers(document):
    """The libraries that an attention result has times of."""
    names = [name for key, name in ATTENTION_PEERS.items()
             if any(case.get(f"ratio_{key}") for case in document["cases"])]
    return "the faster of " + " and ".join(names)


def rows():
    """The comparisons of the chart, from top to bottom, by name."""
    return {
        "llm": Row("bf16 GEMM, layers of LLMs", "gemm_llm_bf16"),
        "drawn": Row("bf16 GEMM, unseen m, layer prepared", "gemm_draws",
                     "prepared"),
        "first": Row("bf16 GEMM, unseen sizes, no trials", "gemm_draws",
                     "first"),
        "fp8": Row("fp8 GEMM: block, row, tensor scales", "gemm_fp8"),
        "int8": Row("int8 GEMM (W8A8)", "gemm_int8",
                    peer="cuBLASLt, which makes int32 sums alone"),
        "w4a16": Row("W4A16 GEMM", "low_precision_torch", cases="int4/",
                     peer="torch `_weight_int4pack_mm`"),
        "moe": Row("MoE, grouped GEMM", "grouped_torch",
                   peer="the fastest of torch and Triton"),
        "tf32": Row("tf32 GEMM, unseen sizes, no trials", "gemm_tf32_draws",
                    "first"),
        "fp32": Row("fp32 GEMM, unseen sizes, no trials", "gemm_fp32_draws",
                    "first"),
        "attention": Row("attention", "attention"),
        "memory": Row("norms, softmax, quantisation", "memory_bound_torch",
                      peer="the faster of PyTorch eager and torch.compile"),
        "engine": Row("Llama 3 8B end to end, bf16", "llama_race",
                      peer="a Llama in torch.compile and one CUDA graph"),
    }


# The rows of the table in README.md.
TABLE = ["llm", "drawn", "fp8", "w4a16", "moe", "attention", "memory",
         "engine"]


def wrapped(text):
    return "\n".join(textwrap.wrap(" ".join(text.split()), 120,
                                   break_on_hyphens=False))


def lead(all_rows):
    def figure(name):
        row = all_rows[name]
        return f"**{row.geomean:.2f}x** (worst case {row.least:.2f}x)"

    return wrapped(f"""
        A JIT kernel compiler and runtime for NVIDIA GPUs, for authors of
        inference engines: bf16 GEMM at unseen m runs at
        {figure("drawn")} the speed of {CUBLASLT}, MoE grouped GEMM at
        {figure("moe")} that of {all_rows["moe"].peer}, attention at
        {figure("attention")} that of {all_rows["attention"].peer}.""")


def stall(all_rows):
    """How long calls take while the mode background works."""
    document = json.loads((RESULTS / "background.json").read_text())
    figures = document["background"]
    busy, first = figures["busy"]["us"], figures["first"]
    return wrapped(f"""
        *Measured* ({short_gpu(document)}): the first call of a signature took
        {first["most"] / 1e3:.0f} ms, and of the {busy["count"]:,} calls that
        were made while kernels were compiled, loaded and measured the slowest
        took {busy["most"] / 1e3:.1f} ms of host time. Single
        calls of other runs took longer (`docs/api.md`).""")


def weak(all_rows):
    """Where Kiln is behind, by the same results."""
    drawn = all_rows["drawn"].bands["65-256"]
    long_k = all_rows["fp32"].bands["above"]
    memory = Row("", "memory_bound_draws", "tuned").bands
    long_rows = Row("", "long_rows")
    return wrapped(f"""
        Where it is behind: bf16 GEMM of random m = 65 to 256 in a prepared
        range reaches {drawn["geomean"]:.2f} of {CUBLASLT} (least
        {drawn["least"]:.2f}), fp32 GEMM of more than 1024 rows
        {long_k["geomean"]:.2f}. Memory-bound kernels at random sizes reach
        {memory["less than 10 MB"]["geomean"]:.2f} of the speed of a
        plain copy of as many bytes where they are below 10 MB, and {memory["over 100 MB"]["geomean"]:.2f} above 100
        MB; layer norms ({memory["layernorm"]["geomean"]:.2f}), transpositions
        ({memory["transpose2d"]["geomean"]:.2f}) and single rows that are too
        long for the registers and shared memory of the whole GPU ({long_rows.geomean:.2f}) are slowest.""")


def table(all_rows):
    lines = ["| suite | GPU | beside | cases | geomean | least |",
             "|---|---|---|---|---|---|"]
    for row in (all_rows[name] for name in TABLE):
        lines.append(f"| {row.label}: {row.suite} | {row.gpu} | {row.peer} "
                     f"| {row.count} | {row.geomean:.2f} | {row.least:.2f} |")
    return "\n".join(lines)


# The chart: a line of each family from the least ratio to the greatest, and a
# mark at the geometric mean, over an axis of logarithms.
WIDTH, LEFT, RIGHT, TOP, LINE = 960, 390, 200, 46, 30
AXIS = [0.5, 1, 2, 4, 8, 16]
COLOURS = {"text": "#303030", "grid": "#e0e0e0", "one": "#c04040",
           "range": "#9dbad5", "mean": "#1f5a94", "quiet": "#707070"}


def x_of(ratio):
    share = math.log(ratio / AXIS[0]) / math.log(AXIS[-1] / AXIS[0])
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def label(x, y, text, anchor="start", colour="text", size=13):
    return (f"<text x='{x:.1f}' y='{y:.1f}' font-family='sans-serif' "
            f"font-size='{size}' fill='{COLOURS[colour]}' "
            f"text-anchor='{anchor}'>{html.escape(text)}</text>")


def chart_row(row, y):
    least, mean, greatest = (x_of(value) for value in
                             (row.least, row.geomean, row.greatest))
    peer = f"{row.gpu}, {row.count} cases, {row.peer.replace('`', '')}"
    return [label(LEFT - 14, y - 2, row.label, "end"),
            label(LEFT - 14, y + 11, peer, "end", "quiet", 10),
            f"<rect x='{least:.1f}' y='{y - 4}' width='{greatest - least:.1f}' "
            f"height='8' fill='{COLOURS['range']}'/>",
            f"<rect x='{mean - 3:.1f}' y='{y - 8}' width='6' height='16' "
            f"fill='{COLOURS['mean']}'/>",
            label(WIDTH - RIGHT + 20, y + 4, f"{row.geomean:.2f}"
                  f"   ({row.least:.2f} .. {row.greatest:.2f})")]


def chart(all_rows):
    """The SVG's text."""
    bottom = TOP + LINE * len(all_rows)
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' "
             f"height='{bottom + 40}' viewBox='0 0 {WIDTH} {bottom + 40}'>",
             "<rect width='100%' height='100%' fill='white'/>",
             label(LEFT - 14, 22, "time of the other library / time of Kiln",
                   "end", size=14),
             label(WIDTH - RIGHT + 20, 22, "geomean (least .. greatest)")]
    for value in AXIS:
        x = x_of(value)
        colour = COLOURS["one" if value == 1 else "grid"]
        parts += [f"<line x1='{x:.1f}' y1='{TOP - 12}' x2='{x:.1f}' "
                  f"y2='{bottom - 8}' stroke='{colour}'/>",
                  label(x, bottom + 8, f"{value:g}", "middle")]
    parts.append(label(x_of(1), bottom + 26, "right of 1, Kiln is faster",
                       "middle", "one", 12))
    for place, row in enumerate(all_rows.values()):
        parts += chart_row(row, TOP + LINE * place + 8)
    return "\n".join(parts + ["</svg>", ""])


def updated(text):
    """README.md's text with every part replaced by what the results say."""
    all_rows = rows()
    for name, part in (("lead", lead), ("stall", stall), ("table", table),
                       ("weak", weak)):
        text = re.sub(
            rf"(<!-- front:begin {name} -->\n).*?(<!-- front:end {name} -->)",
            lambda match, part=part: match[1] + part(all_rows) + "\n" +
            match[2], text, flags=re.DOTALL)
    return text
