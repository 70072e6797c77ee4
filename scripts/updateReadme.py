#!/usr/bin/env python3
"""Writes what benchmarks/results/*.json say into benchmarks/README.md, a row
and a table for each result, into docs/measured.md, and into README.md and
docs/speed.svg, the front page (frontPage.py).

A text replaces what stands between two lines:
    <!-- summary:begin NAME... -->  and  <!-- summary:end -->
    <!-- results:begin NAME -->     and  <!-- results:end NAME -->
where NAME is the result file's name without ".json". NAME/PART is a table of
those cases alone whose names begin with PART. Sections begin with a verdict
(verdicts.py). These numbers are never typed by
hand. A section with nothing in it waits for its file, which need not
be there yet. With --check nothing is written; the exit code is 1 if a page or
the chart differs from what the results say.
"""
import json
import math
import pathlib
import re
import statistics
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
import default_mode_tables  # noqa: E402
import frontPage  # noqa: E402
import llama_tables  # noqa: E402
import verdicts  # noqa: E402

# Upper bounds of the classes of m: token counts of decoding to prefill.
CLASSES = [(1, "1"), (16, "2 to 16"), (64, "17 to 64"), (256, "65 to 256"),
           (1024, "257 to 1024"), (math.inf, "more than 1024")]

# Bands of draws, as kiln-bench draw calls them: by m, or by bytes beside the
# copy baseline.
DRAW_BANDS = ["1-16", "17-64", "65-256", "257-1024", "above",
              "less than 10 MB", "10 to 100 MB", "over 100 MB"]


# Smaller cases are paced by launches as much as by memory.
LARGE_BYTES = 100e6


def class_of(case, by_m):
    """A case's row of the table: the class of its m, or what its name says."""
    if by_m:
        m = int(re.search(r"/m(\d+)$", case["name"])[1])
        return next(name for bound, name in CLASSES if m <= bound)
    parts = case["name"].split("/")
    return " ".join(parts[:2]) if parts[0] == "layout" else parts[0]


def geomean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def geomean_text(values):
    """The geometric mean of the values that are there, "n/a" if none is."""
    present = [value for value in values if value]
    return f"{geomean(present):.2f}" if present else "n/a"


def origin(result):
    """Where and how a result was measured: a paragraph, and a list of what the
    protocol's semicolons part."""
    where = (f"{result['what']}: {result['gpu']}, driver {result['driver']}"
             + "".join(f", {title} {result[name]}" for name, title in
                       (("cuda", "CUDA"), ("torch", "torch"),
                        ("transformers", "transformers")) if name in result)
             + f", commit {result['commit'] or 'not recorded'}.")
    lines = textwrap.wrap(where, 80, break_on_hyphens=False) + [""]
    for item in result["protocol"].rstrip(".").split("; "):
        lines += textwrap.wrap(item, 80, initial_indent="- ",
                               subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines)


def grouped(cases, by_m=False):
    """(name, cases) of each class, in the order of the table."""
    by_class = {}
    for case in cases:
        by_class.setdefault(class_of(case, by_m), []).append(case)
    order = [name for _, name in CLASSES] if by_m else list(by_class)
    return [(name, by_class[name]) for name in order if name in by_class]


def peer_table(result):
    """Kiln beside a library: a row per class of m or of names."""
    # Cases without a peer are in the file, not in the table.
    compared = [case for case in result["cases"] if case.get("ratio")]
    # A suite of models names its cases by m; the rows follow what is named.
    by_m = all(re.search(r"/m\d+$", case["name"]) for case in compared)
    lines = [
        f"| {'m' if by_m else 'cases'} | number | ratio, geomean | least | greatest | best TFLOP/s |",
        "|---|---|---|---|---|---|",
    ]
    for name, cases in grouped(compared, by_m) + [("**all**", compared)]:
        if not cases:
            continue
        ratios = [case["ratio"] for case in cases]
        lines.append(
            f"| {name} | {len(cases)} | {geomean(ratios):.2f} "
            f"| {min(ratios):.2f} | {max(ratios):.2f} "
            f"| {max(case['tflops'] for case in cases):.0f} |")
    return lines + ["", "A ratio is the peer's time over Kiln's: above 1, Kiln "
                    "is faster."]


def copy_table(result):
    """Kiln beside the copy baseline: the fastest plain kernel that reads and
    writes as many bytes."""
    compared = [case for case in result["cases"] if case.get("fraction")]
    large = [case for case in compared if case["bytes"] > LARGE_BYTES]
    lines = [
        "| cases | number | fraction of the copy baseline, geomean | least | greatest | best GB/s |",
        "|---|---|---|---|---|---|",
    ]
    for name, cases in grouped(compared) + [("**over 100 MB**", large),
                                            ("**all**", compared)]:
        if not cases:
            continue
        fractions = [case["fraction"] for case in cases]
        lines.append(
            f"| {name} | {len(cases)} | {geomean(fractions):.3f} "
            f"| {min(fractions):.3f} | {max(fractions):.3f} "
            f"| {max(case['gbs'] for case in cases):.0f} |")
    return lines + ["", "A fraction is the copy baseline's time over "
                    "Kiln's: at 1, nothing is left to gain."]


def torch_table(result):
    """Kiln beside PyTorch, eager and compiled."""
    compared = [case for case in result["cases"] if case.get("ratio")]
    lines = [
        "| cases | number | ratio, geomean | least | greatest | to eager | to torch.compile | compile s, median |",
        "|---|---|---|---|---|---|---|---|",
    ]

    def present(cases, key):
        return geomean_text([case[key] for case in cases if case.get(key)])

    for name, cases in grouped(compared) + [("**all**", compared)]:
        if not cases:
            continue
        ratios = [case["ratio"] for case in cases]
        seconds = [case["compile_s"] for case in cases
                   if case.get("compile_s") is not None]
        lines.append(
            f"| {name} | {len(cases)} | {geomean(ratios):.2f} "
            f"| {min(ratios):.2f} | {max(ratios):.2f} "
            f"| {present(cases, 'ratio_eager')} "
            f"| {present(cases, 'ratio_compile')} "
            f"| {format(statistics.median(seconds), '.1f') if seconds else 'n/a'} |")
    return lines + ["", "A ratio is the time of the faster of eager and "
                    "torch.compile over Kiln's: above 1, Kiln is faster."]


# Sides of products in torch, by the keys of their times.
PRODUCT_SIDES = {"int4_mm": "`_weight_int4pack_mm`",
                 "int8_mm": "`_weight_int8pack_mm`",
                 "scaled_mm": "`_scaled_mm`", "int_mm": "`_int_mm`",
                 "grouped_mm": "`_grouped_mm`",
                 "scaled_grouped_mm": "`_scaled_grouped_mm`",
                 "triton": "Triton", "loop": "a loop of products"}


def product_table(result):
    """Kiln's products beside torch's and Triton's: a row for each case, and
    how it compares with each side on average."""
    lines = ["| case | us | TFLOP/s | GB/s | fastest peer | its us | ratio |",
             "|---|---|---|---|---|---|---|"]
    timed = [case for case in result["cases"] if case.get("kiln_us")]
    for case in timed:
        sides = {side: case[f"{side}_us"] for side in PRODUCT_SIDES
                 if case.get(f"{side}_us")}
        fastest = min(sides, key=sides.get) if sides else None
        lines.append(
            f"| {case['name']} | {case['kiln_us']:.1f} "
            f"| {case['tflops']:.0f} | {case['kiln_gbs']:.0f} | " + (
                f"{PRODUCT_SIDES[fastest]} | {sides[fastest]:.1f} "
                f"| {case['ratio']:.2f} |" if fastest and case.get("ratio")
                else "n/a | n/a | n/a |"))
    lines += ["", "| beside | cases | ratio, geomean | least | greatest |",
              "|---|---|---|---|---|"]
    for side, name in list(PRODUCT_SIDES.items()) + [(None, "**the fastest**")]:
        key = f"ratio_{side}" if side else "ratio"
        ratios = [case[key] for case in timed if case.get(key)]
        if ratios:
            lines.append(f"| {name} | {len(ratios)} | {geomean(ratios):.2f} "
                         f"| {min(ratios):.2f} | {max(ratios):.2f} |")
    return lines + ["", "A ratio is the other side's time over Kiln's: above "
                    "1, Kiln is faster."]


def rates_table(result):
    """Kiln alone: a row for each case."""
    return ["| case | us | TFLOP/s |", "|---|---|---|"] + [
        f"| {case['name']} | {case['kiln_us']:.1f} | {case['tflops']:.0f} |"
        for case in result["cases"] if case.get("kiln_us")]


def attention_class(case):
    """prefill by head dim, a draw by form, others by the first of the name."""
    parts = case["name"].split("/")
    if parts[0] == "prefill":
        return " ".join(parts[:2])
    return parts[1] if parts[0].startswith("draw") else parts[0]


def attention_table(result):
    """Kiln beside the attention of other libraries. Classes without a peer have
    their rates alone."""
    lines = [
        "| cases | number | ratio, geomean | least | greatest | to cuDNN | to FlashAttention 2 | to FlashAttention 3 | best TFLOP/s | best GB/s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    by_class = {}
    for case in result["cases"]:
        if case.get("kiln_us"):
            by_class.setdefault(attention_class(case), []).append(case)
    timed = [case for cases in by_class.values() for case in cases]
    for name, cases in list(by_class.items()) + [("**all**", timed)]:
        ratios = [case["ratio"] for case in cases if case.get("ratio")]
        spread = [f"{min(ratios):.2f}", f"{max(ratios):.2f}"] if ratios \
            else ["n/a", "n/a"]
        peers = [geomean_text([case.get(f"ratio_{peer}") for case in cases])
                 for peer in ("cudnn", "fa2", "fa3")]
        lines.append("| " + " | ".join(
            [name, str(len(cases)), geomean_text(ratios)] + spread + peers +
            [f"{max(case['tflops'] for case in cases):.0f}",
             f"{max(case['gbs'] for case in cases):.0f}"]) + " |")
    return lines + ["", "A ratio is the time of the fastest peer that computes "
                    "the same over Kiln's: above 1, Kiln is faster."]


def seconds(ms):
    return f"{ms / 1e3:.1f} s" if ms >= 1e3 else f"{ms:.2f} ms"


def draw_costs(state, figures):
    """The cost of a state besides time on the device: a line of a list."""
    parts = [f"`{state}`: {figures['compiles']} kernels compiled, "
             f"{figures['kernels']} kept or used "
             f"({figures['cubin_bytes'] / 1e6:.1f} MB of cubins)"]
    if "first_call_ms" in figures:
        calls = figures["first_call_ms"]
        parts.append(f"first calls took {seconds(calls['sum'])} of host time "
                     f"in all, median {seconds(calls['median'])}, most "
                     f"{seconds(calls['most'])}")
    if "layer_ms" in figures:
        layers, kernels = figures["layer_ms"], figures["layer_kernels"]
        parts.append(f"a layer was prepared in {seconds(layers['median'])} "
                     f"(median; most {seconds(layers['most'])}) and keeps "
                     f"{kernels['median']:.0f} kernels (most "
                     f"{kernels['most']:.0f})")
    if "tune_ms" in figures:
        parts.append(f"tuned in {seconds(figures['tune_ms'])} in all")
    return "\n".join(textwrap.wrap("; ".join(parts), 80, initial_indent="- ",
                                   subsequent_indent="  ",
                                   break_on_hyphens=False))


def is_copy_draw(result):
    """Whether a draw was held against the copy baseline, and not a library."""
    return any("bytes" in case for case in result["cases"])


def draw_table(result):
    """Kiln beside a library or the copy baseline at drawn sizes: a row per
    state and band of m or of bytes, and per other group of the result."""
    copied = is_copy_draw(result)
    limit = "0.90" if copied else "0.95"
    lines = [
        f"| state | {'cases' if copied else 'm'} | number "
        f"| {'fraction of the copy baseline' if copied else 'ratio'}, "
        f"geomean | least | tenth percentile | below {limit} |",
        "|---|---|---|---|---|---|---|",
    ]
    for state, figures in result["draw"].items():
        groups = [(name, figures["bands"][name]) for name in DRAW_BANDS
                  if name in figures["bands"]]
        groups += [(row["name"], row) for row in figures.get("groups", [])]
        for name, row in groups + [("**all**", figures["all"])]:
            if not row["cases"]:
                continue
            lines.append(
                f"| {state} | {name} | {row['cases']} | {row['geomean']:.3f} "
                f"| {row['least']:.2f} | {row['tenth_percentile']:.3f} "
                f"| {100 * row[f'below_{limit}']:.1f} % |")
    lines += ["", "A fraction is the copy baseline's time over Kiln's: at 1, "
              "nothing is left to gain." if copied else "A ratio is the peer's "
              "time over Kiln's: above 1, Kiln is faster.", ""]
    return lines + [draw_costs(state, figures)
                    for state, figures in result["draw"].items()]


def chain_table(result):
    """Chains of launches that begin before the one ahead has ended, beside the
    same in full order."""
    def one(chain, link, key, digits):
        value = chain[link].get(key)
        return format(value, f".{digits}f") if value else "n/a"

    lines = ["| chain | launches | in full order us | dependent us | ratio "
             "| with constant operands us | ratio |",
             "|---|---|---|---|---|---|---|"]
    for chain in result["chains"]:
        lines.append(f"| {chain['name']} | {len(chain['steps'])} | "
                     + " | ".join([one(chain, "ordered", "us", 1)] + [
                         one(chain, link, key, digits)
                         for link in ("dependent", "constant")
                         for key, digits in (("us", 1), ("ratio", 3))]) + " |")
    means = [result["summary"][link] for link in ("dependent", "constant")]
    lines.append("| **geomean** | | | | " + " | | ".join(
        f"{mean['geomean']:.3f}" if mean["cases"] else "n/a"
        for mean in means) + " |")
    return lines + ["", "A ratio is the time in full order over the other: "
                    "above 1, the other is faster."]


def host_times(us):
    return (f"{us['count']} calls: median {us['median']:.1f} us, p99 "
            f"{us['p99']:.1f} us, p99.9 {us['p99.9']:.1f} us, most "
            f"{us['most']:.1f} us")


def background_table(result):
    """The promises of the mode background, the measured figures, and the bars.
    A figure that was not reached has no row."""
    figures = result["background"]
    lines = ["| of | bar | measured |", "|---|---|---|"]

    def row(key, name, bar, text):
        if key in figures:
            lines.append(f"| {name} | {bar} | {text(figures[key])} |")

    allowed = 100 * figures["allowed_share"]
    row("first", "host time of the first call of a signature", "none",
        lambda us: f"{us['most'] / 1e3:.0f} ms")
    row("fresh", "host time of the calls behind it", "2 ms at most",
        lambda calls: host_times(calls["us"]))
    row("busy", "host time of calls while kernels are compiled, loaded and "
        "measured", "2 ms at most", lambda calls: host_times(calls["us"]))
    row("busy", "the GPU's time that trials take", f"{allowed + 1:.1f} %",
        lambda calls: f"{100 * calls['share']:.2f} %, for {calls['trials']} "
        f"trials and {calls['swaps']} swaps")
    row("foreground", "calls that the foreground loses to them",
        f"{allowed + 1:.1f} %",
        lambda foreground: f"{100 * foreground['loss']:.2f} %")
    row("checked", "results while plans are swapped", "0 wrong",
        lambda checked: f"{checked['wrong']} wrong, {checked['failed']} calls "
        f"failed of {checked['calls']}, {checked['swaps']} swaps")
    row("checked", "captures of another thread", "0 failed",
        lambda checked: f"{checked['failed_captures']} failed of "
        f"{checked['captures']}, {checked['not_prepared']} calls not prepared")
    row("checked", "quiet after", "none",
        lambda checked: f"{checked['quiet_seconds']:.1f} s with all of the "
        f"GPU for trials, of which they took {checked['trial_seconds']:.1f} s"
        if checked["quiet"] else f"not yet, {checked['pending']} pending")
    row("speed", "speed after quiet over a tuned engine's", "0.98",
        lambda speed: f"geomean {speed['summary']['geomean']:.3f}, least "
        f"{speed['summary']['least']:.3f} of {speed['summary']['cases']} "
        "values")
    return lines


def default_mode_table(result):
    """The mode tune beside predict: a row for each layer."""
    lines = ["| layer (n x k) | values | first calls | geomean | least | at |",
             "|---|---|---|---|---|---|"]
    layers = dict.fromkeys(row["layer"] for row in result["rows"])
    for layer in layers:
        rows = [row for row in result["rows"] if row["layer"] == layer]
        least = min(rows, key=lambda row: row["ratio"])
        firsts = ", ".join(str(first) for first in
                           dict.fromkeys(row["first"] for row in rows))
        lines.append(
            f"| {layer} | {len({row['m'] for row in rows})} | m = {firsts} | "
            f"{geomean([row['ratio'] for row in rows]):.3f} | "
            f"{least['ratio']:.3f} | m = {least['m']} |")
    return lines + [
        "", "A ratio is the time of the mode predict over that of the mode "
        "tune: above 1, tune is", "faster."]


def short_number(value):
    """Four digits, and whole numbers as they are."""
    return str(value) if value == int(value) else f"{value:.4g}"


def plain_table(cases):
    """A row for each case; a column for each figure where all cases have the
    same ones, else one for all."""
    names = [case["name"].split("/", 1)[1].replace("_", " ")
             for case in cases]
    figures = [{key: value for key, value in case.items() if key != "name"}
               for case in cases]
    keys = list(figures[0])
    if any(list(row) != keys for row in figures):
        return ["| case | found |", "|---|---|"] + [
            f"| {name} | " + ", ".join(
                f"{key.replace('_', ' ')} {short_number(value)}"
                for key, value in row.items()) + " |"
            for name, row in zip(names, figures)]
    return ["| case | " + " | ".join(key.replace("_", " ") for key in keys)
            + " |", "|---" * (len(keys) + 1) + "|"] + [
        f"| {name} | " + " | ".join(short_number(row[key]) for key in keys)
        + " |" for name, row in zip(names, figures)]


def part_table(result, part):
    """The cases of one part of a result without peers. Errors: SystemExit if
    it has none."""
    cases = [case for case in result["cases"]
             if case["name"].split("/")[0] == part]
    if not cases:
        sys.exit(f"updateReadme: {result['what']} has no cases of {part}")
    return "\n".join(plain_table(cases))


def kind_of(result):
    """The peer of a result: "copy", "torch", "attention",
    "product" or "peer", "draw" for a peer or the copy baseline at drawn sizes,
    or itself: "chain", "background", "cliffs", "quality", "default mode",
    "default mode models" or a result of the engine (llama_tables.py).
    Nothing: "micro" and "rates"."""
    if result["what"] in ("micro", "cliffs", *llama_tables.TABLES):
        return result["what"]
    if default_mode_tables.is_result(result):
        return "default mode models"
    if "not_replayed" in result:
        return "quality"
    if "background" in result:
        return "background"
    if "rows" in result:
        return "default mode"
    if "chains" in result:
        return "chain"
    if result["what"].startswith("attention"):
        return "attention"
    if "draw" in result:
        return "draw"
    keys = set().union(*(case.keys() for case in result["cases"]))
    if "fraction" in keys:
        return "copy"
    if "ratio_eager" not in keys and "kiln_gbs" in keys:
        return "product"
    if not any(case.get("ratio") for case in result["cases"]):
        return "rates"
    return "torch" if keys & {"eager_us", "compile_us"} else "peer"


def cliffs_table(result):
    """A row for each pair: a problem, its neighbour, and what is asked."""
    lines = ["| problem | us | neighbour, us | ratio | at least |",
             "|---|---|---|---|---|"]
    for case in result["cases"]:
        if "error" in case:
            lines.append(f"| {case['name']} | failed | | | {case['goal']:.2f} |")
            continue
        ratio = f"{case['ratio']:.2f}"
        lines.append(f"| {case['name']} | {case['us']:.1f} "
                     f"| {case['beside_us']:.1f} "
                     f"| {ratio if case['reached'] else f'**{ratio}**'} "
                     f"| {case['goal']:.2f} |")
    return lines


def quality_table(result):
    """The order of recorded configs by the estimate: a row for each family and
    split."""
    def share(value):
        return f"{100 * value:.1f}" if value else "n/a"

    lines = ["| family | split | problems | configs | top1 %, geomean | least "
             "| top5 %, geomean | least | choice off % | classic top1 % "
             "| random top1 % |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for family, splits in result["families"].items():
        for split, row in splits.items():
            lines.append(f"| {family} | {split} | {row['problems']} "
                         f"| {row['configs']} | " + " | ".join(
                             share(row[key]) for key in
                             ("top1", "top1_least", "top5", "top5_least",
                              "choice_error", "classic_top1", "random_top1"))
                         + " |")
    return lines + [
        "", "top1 is the best measured time over that of the estimate's first "
        "choice, top5 over the", "fastest of its first five. Choice off is the "
        "median error of the first choice's predicted", "time. The classic "
        "model is judged on the problems that it describes."]


def table(result):
    """The markdown of one result: where it was measured, and its rows, if it
    does not show them in parts."""
    if kind_of(result) == "micro":
        return origin(result)
    rows = {"copy": copy_table, "torch": torch_table,
            "attention": attention_table, "peer": peer_table,
            "product": product_table, "rates": rates_table,
            "draw": draw_table, "chain": chain_table,
            "background": background_table, "cliffs": cliffs_table,
            "quality": quality_table,
            "default mode": default_mode_table,
            "default mode models": default_mode_tables.tables,
            **llama_tables.TABLES}[kind_of(result)](result)
    return "\n".join([origin(result), ""] + rows)


def summary(results):
    """A row for each named result."""
    lines = ["| suite | GPU | cases | compared with | geomean | least "
             "| greatest |",
             "|---|---|---|---|---|---|---|"]
    for name, result in results:
        kind = kind_of(result)
        gpu = frontPage.short_gpu(result)
        if kind == "draw":
            peer = "the copy baseline" \
                if is_copy_draw(result) else result["peer"]
            lines += [f"| `{name}`, {state} | {gpu} | {row['cases']} | {peer} "
                      f"| {row['geomean']:.2f} | {row['least']:.2f} "
                      f"| {row['greatest']:.2f} |"
                      for state, row in ((state, figures["all"]) for
                                         state, figures in
                                         result["draw"].items())]
            continue
        if kind == "chain":
            lines += [f"| `{name}`, {link} | {gpu} | {row['cases']} "
                      f"| the same in full order | {row['geomean']:.2f} "
                      f"| {row['least']:.2f} "
                      f"| {row['greatest']:.2f} |"
                      for link, row in result["summary"].items()
                      if row["cases"]]
            continue
        peer = {"copy": "the copy baseline",
                "torch": "the faster of PyTorch eager and torch.compile",
                "attention": "the fastest of cuDNN and FlashAttention",
                "product": "the fastest of torch's products and Triton",
                "llama_race": "a Llama in torch.compile and one CUDA graph",
                "small_kernels": "the fastest of torch's functions",
                "peer": result.get("peer")}[kind]
        key = "fraction" if kind == "copy" else "ratio"
        ratios = [case[key] for case in result["cases"] if case.get(key)]
        lines.append(f"| `{name}` | {gpu} | {len(ratios)} | {peer} "
                     f"| {geomean(ratios):.2f} | {min(ratios):.2f} "
                     f"| {max(ratios):.2f} |")
    gpus = " and ".join(sorted({result["gpu"] for _, result in results}))
    return "\n".join(lines + ["", f"Measured on {gpus}.",
                              "A figure is the other side's time over Kiln's: "
                              "above 1, Kiln is faster."])


def path_of(name):
    """The file of NAME or NAME/PART."""
    return ROOT / "benchmarks" / "results" / f"{name.split('/')[0]}.json"


def load(name, page):
    path = path_of(name)
    if not path.exists():
        sys.exit(f"updateReadme: {page} shows {path}, which is missing")
    return json.loads(path.read_text())


def updated(text, page):
    """A page's text with every section replaced by what the results say."""
    def results(match):
        if not match["body"].strip() and not path_of(match["name"]).exists():
            return match[0]
        result = load(match["name"], page)
        part = match["name"].partition("/")[2]
        body = part_table(result, part) if part else table(result)
        return f"{match['begin']}\n{body}\n{match['end']}"

    def summaries(match):
        body = summary([(name, load(name, page))
                        for name in match["names"].split()])
        return f"{match['begin']}\n{body}\n{match['end']}"

    text = re.sub(
        r"(?P<begin><!-- results:begin (?P<name>\S+) -->)\n(?P<body>.*?)"
        r"(?P<end><!-- results:end (?P=name) -->)",
        results, text, flags=re.DOTALL)
    return re.sub(
        r"(?P<begin><!-- summary:begin (?P<names>[^>]+) -->)\n.*?"
        r"(?P<end><!-- summary:end -->)",
        summaries, text, flags=re.DOTALL)


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit("usage: updateReadme.py [--check]")
    for page in ("README.md", "benchmarks/README.md", "docs/measured.md",
                 frontPage.CHART):
        path = ROOT / page
        before = path.read_text() if path.exists() else ""
        if page == frontPage.CHART:
            after = frontPage.chart(frontPage.rows())
        elif page == "README.md":
            after = frontPage.updated(before)
        else:
            after = verdicts.updated(updated(before, page))
        if before == after:
            continue
        if arguments:
            sys.exit(f"updateReadme: {page} is not what the results say")
        path.write_text(after)


if __name__ == "__main__":
    main(sys.argv[1:])
