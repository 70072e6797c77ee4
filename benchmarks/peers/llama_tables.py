#!/usr/bin/env python3
"""The tables of the results of llama_race.py, llama_forms.py, llama_trace.py,
llama_numerics.py and small_kernels.py. Needs neither torch nor a GPU.

    llama_tables.py RESULT...

Several results are shown one after another.
"""
import json
import pathlib
import sys
import textwrap

from llama_trace import steady_requests
from result_files import geomean

WIDTH = 80
GIGA = 1e9


def bullet(text):
    return "\n".join(textwrap.wrap(text, WIDTH, initial_indent="- ",
                                   subsequent_indent="  ",
                                   break_on_hyphens=False))


def table(columns, rows):
    """Lines of markdown; a cell that is None is "n/a"."""
    lines = [columns, ["---"] * len(columns)] + rows
    return ["| " + " | ".join("n/a" if cell is None else cell
                              for cell in line) + " |" for line in lines]


def figure(value, digits):
    return None if value is None else f"{value:.{digits}f}"


def percent(share):
    return None if share is None else f"{100 * share:.1f} %"


def gaps(document):
    """Lines for what a run did not measure."""
    lines = []
    if document.get("left_out"):
        lines.append(bullet("not measured, for lack of time: "
                            + ", ".join(document["left_out"])))
    if document["interrupted"]:
        lines.append(bullet("the run was cut short: later cases are missing"))
    return lines


def failures(rows, errors):
    """A line for each error; `errors` gives those of a row, by name."""
    return [bullet(f"{row['name']}: {name} failed: {error}")
            for row in rows for name, error in errors(row).items()]


#===------------------------------------------------------------------------===#
# llama_race.py
#===------------------------------------------------------------------------===#


def preparing(ready):
    """The costs of an engine's start."""
    return (f"prepared in {ready['prepare_s']:.1f} s with "
            f"{ready['compiles']} compilations and {ready['trials']} trials")


def engine_line(name, model):
    """The engine's own figures of a model: a line of a list."""
    if "error" in model:
        return bullet(f"`{name}`: the engine failed: {model['error']}")
    text = f"`{name}`: {preparing(model['engine'])}"
    if model.get("gb_per_s"):
        text += (f"; a sum reads {model['gb_per_s']:.0f} GB/s, a product "
                 f"computes {model['product_tflops']:.0f} TFLOP/s")
    memory = model.get("memory", {}).get("memory", {})
    held = [f"{use.removesuffix(' bytes')} {held / GIGA:.2f}"
            for use, held in memory.items()
            if held and use not in ("free bytes", "device bytes",
                                    "host bytes of kiln")]
    if held:
        text += f"; GB: {', '.join(held)}"
    return bullet(text)


def race_tables(document):
    """Each case beside torch and, where it ran, transformers."""
    def side(row, name, key="ms"):
        return row["sides"].get(name, {}).get(key)

    rows = [[row["name"], figure(side(row, "kiln"), 3),
             figure(side(row, "kiln", "tokens_per_s"), 0),
             percent(row.get("share_of_roofline")),
             figure(side(row, "torch"), 3), figure(row.get("ratio_torch"), 3),
             figure(side(row, "transformers"), 3),
             figure(row.get("ratio_transformers"), 3)]
            for row in document["cases"]]
    lines = table(["case", "Kiln ms", "tokens/s", "of the roofline",
                   "torch ms", "ratio", "transformers ms", "ratio"], rows)
    lines += ["", "A ratio is the other side's time over Kiln's: above 1, Kiln "
              "is faster. A case is MODEL:BATCH@KEYS,", "a step of decoding, or "
              "MODEL:SEQUENCESxTOKENS+CACHED, a prefill. The roofline is the "
              "rate at which a sum", "reads the weights, for steps, and that "
              "of a product, for prefills, in the same run.", ""]
    lines += [engine_line(name, model)
              for name, model in document["models"].items()]
    lines += failures(document["cases"], lambda row: {
        name: found["error"] for name, found in row["sides"].items()
        if "error" in found})
    return lines + gaps(document)


#===------------------------------------------------------------------------===#
# llama_forms.py
#===------------------------------------------------------------------------===#


def form_lines(document):
    """A line for each form of each model: its arguments and its start."""
    for model, forms in document["models"].items():
        for name, arguments in document["forms"].items():
            found = forms.get(name, forms)
            how = f" ({arguments})" if arguments else ""
            yield bullet(f"`{name}`{how}, `{model}`: " + (
                f"failed: {found['error']}" if "error" in found
                else preparing(found)))


def forms_tables(document):
    """Each case in all forms, beside the first."""
    first, *others = document["forms"]

    def cells(row, name):
        side = row["sides"].get(name, {})
        ms = figure(side.get("ms"), 3)
        return [ms] if name == first else [ms, figure(side.get("ratio"), 2)]

    lines = table(["case", f"{first}, ms"] +
                  [cell for name in others
                   for cell in (f"{name}, ms", "ratio")],
                  [[row["name"]] + [cell for name in (first, *others)
                                    for cell in cells(row, name)]
                   for row in document["cases"]])
    lines += ["", f"A ratio is the time of `{first}` over the form's: above 1, "
              "the form is faster.", ""]
    return lines + list(form_lines(document)) + gaps(document)


#===------------------------------------------------------------------------===#
# llama_trace.py
#===------------------------------------------------------------------------===#


def trace_row(row):
    ttft, itl = row["ttft_ms"], row["itl_ms"]
    return [row["name"], str(row["seed"]), figure(steady_requests(row), 1),
            percent(row.get("of_capacity")), figure(ttft["p50"], 1),
            figure(ttft["p99"], 1), figure(itl.get("p50"), 2),
            figure(itl.get("p99"), 2)]


def trace_tables(document):
    """Each run as its clients see it, and the faults."""
    cases = document["cases"]
    lines = table(["load", "seed", "requests/s", "of the capacity",
                   "TTFT p50, ms", "p99", "ITL p50, ms", "p99"],
                  [trace_row(row) for row in cases])
    faults = [bullet(f"{row['name']}, seed {row['seed']}: {row['faults']}")
              for row in cases if row["faults"]]
    if "error" in document:
        faults.append(bullet(f"failed: {document['error']}"))
    return lines + [""] + (faults or [
        "No run compiled or measured anything, and no call of Kiln waited for "
        "5 ms."]) + gaps(document)


#===------------------------------------------------------------------------===#
# llama_numerics.py
#===------------------------------------------------------------------------===#


def numerics_row(row):
    if "error" in row:
        return [row["model"], "failed"] + [None] * 8
    kiln, peer, chosen = row["kiln"], row["transformers_bf16"], row["greedy"]
    outside = [way for way, figures in row.get("ways", {}).items()
               if not figures["within"]]
    ways = (", ".join(outside) or "within") if "ways" in row else None
    wrong = f"{chosen['wrong_where_decided']} of {chosen['decided']}"
    return [row["model"], str(row["positions"]),
            figure(kiln["rms_over_std"], 5), figure(peer["rms_over_std"], 5),
            figure(row["ratio_rms"], 3), figure(row["ratio_kl"], 3),
            figure(row["ratio_max"], 3), wrong,
            percent(chosen["undecided_share"]), ways]


def numerics_tables(document):
    """Deviations of the engine's logits beside those of transformers' bf16."""
    lines = table(["model", "positions", "RMS / std", "bf16's", "ratio of RMS",
                   "ratio of KL", "ratio of greatest", "wrong where decided",
                   "undecided", "other ways"],
                  [numerics_row(row) for row in document["models"]])
    lines += ["", "A ratio is Kiln's deviation from fp32 over that of "
              f"transformers in bf16; the bar is {document['bar']:g} for RMS "
              "and", "KL. Other ways are chunks, single tokens and a prompt "
              "alone: within transformers' RMS of the first way.", ""]
    lines += [bullet(f"{row['model']}: "
                     + "; ".join(row.get("faults", [row.get("error")])))
              for row in document["models"]
              if row.get("faults") or "error" in row]
    lines += gaps(document)
    return lines if lines[-1] else lines[:-1]


#===------------------------------------------------------------------------===#
# small_kernels.py
#===------------------------------------------------------------------------===#

FAMILIES = ("rope", "gather", "sample", "route", "combine")


def kernel_row(row):
    if "error" in row:
        return [row["name"], "failed"] + [None] * 7
    us = row["us"]
    best = row.get("best_peer")
    return [row["name"], figure(row["bytes"] / 1e6, 3),
            figure(us["kiln"], 2), figure(us["dependent"], 2),
            figure(row.get("hot", {}).get("dependent"), 2), best,
            figure(us.get(best), 2), figure(row.get("ratio"), 2),
            figure(row["share_of_stream"], 3)]


def family_row(family, cases):
    """The geometric means of a family, and its least ratio."""
    own = [row for row in cases if row["name"].startswith(f"{family}/")]
    ratios = [row["ratio"] for row in own if row.get("ratio")]
    shares = [row["share_of_stream"] for row in own
              if row.get("share_of_stream")]
    if not shares:
        return []
    spread = [figure(geomean(ratios), 2), figure(min(ratios), 2),
              figure(max(ratios), 2)] if ratios else [None] * 3
    return [[family, str(len(own))] + spread + [
        figure(geomean(shares), 3), figure(min(shares), 3)]]


def check_lines(checks):
    """How many checks of sample pass, and those that do not."""
    passed = sum(check["passes"] for check in checks)
    lines = [bullet(f"{passed} of {len(checks)} checks of sample pass")]
    lines += [bullet("not passed: " + ", ".join(
        f"{key} {value}" for key, value in check.items() if key != "passes"))
        for check in checks if not check["passes"]]
    return lines if checks else []


def kernel_tables(document):
    """Families, then each case beside torch's fastest and the stream."""
    cases = document["cases"]
    lines = table(["family", "cases", "ratio, geomean", "least", "greatest",
                   "of the stream, geomean", "least"],
                  [row for family in FAMILIES
                   for row in family_row(family, cases)])
    lines += [""] + table(
        ["case", "MB", "us", "dependent us", "hot us", "fastest of torch",
         "its us", "ratio", "of the stream"], [kernel_row(row) for row in cases])
    lines += ["", "A ratio is the time of torch's fastest side over Kiln's, "
              "dependent launches: above 1, Kiln is faster."]
    notes = [bullet(f"{row['name']}: {', '.join(row['wrong'])} wrong")
             for row in cases if row.get("wrong")]
    notes += check_lines(document.get("checks", []))
    notes += failures(cases, lambda row: {"Kiln": row["error"]}
                      if "error" in row else row.get("peer_errors", {}))
    notes += gaps(document)
    return lines + ([""] + notes if notes else [])


#===------------------------------------------------------------------------===#
# All
#===------------------------------------------------------------------------===#

# By the member `what` of a result.
TABLES = {"llama_race": race_tables, "llama_forms": forms_tables,
          "llama_trace": trace_tables, "llama_numerics": numerics_tables,
          "small_kernels": kernel_tables}


def main(paths):
    for path in paths:
        document = json.loads(pathlib.Path(path).read_text())
        print("\n".join(TABLES[document["what"]](document)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
