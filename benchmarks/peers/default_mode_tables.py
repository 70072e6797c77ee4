#!/usr/bin/env python3
"""The tables of a result of default_mode_models.py: for each state the speed of
its plans beside cuBLASLt and beside plans of the mode predict, by bands of m,
aligned and odd sizes apart, and the cost of the state.

    default_mode_tables.py RESULT...

Several results are shown one after another.
"""
import json
import math
import pathlib
import statistics
import sys
import textwrap

from default_mode_cases import ALIGNED, BANDS

WIDTH = 80
BASELINE = "predict"


def is_result(document):
    """Whether a result is one of default_mode_models.py."""
    return "skipped_states" in document


def faults(document):
    """Kiln's faults in a result, a list of texts: failed cases, and wrong
    results. A value that strict mode does not have is not a fault."""
    found = []
    for case in document["cases"]:
        where = f"{case['layer']} m={case['m']}"
        if "error" in case:
            found.append(f"{where}: {case['error']}")
        found += [f"{where}: {side} is wrong" for side in case.get("wrong", ())
                  if side != document["peer"]]
        found += [f"{where}: {name}: {state['error']}"
                  for name, state in case["states"].items()
                  if "error" in state and name != "strict"]
    return found


def geomean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def states_of(document):
    """The states that some model has results of, in their order."""
    return list(dict.fromkeys(
        name for model in document["models"].values()
        for name, state in model["states"].items() if "skipped" not in state))


def is_wrong(case, side):
    return side in case.get("wrong", ())


def ratios_of(document, cases, state):
    """(cuBLASLt's times over the state's, predict's times over the state's). A
    peer whose result is wrong has no ratio, and neither has a wrong plan."""
    beside_peer, beside_predict = [], []
    for case in cases:
        own = case["states"].get(state, {})
        if "us" not in own or is_wrong(case, own["measured_as"]):
            continue
        if not is_wrong(case, document["peer"]):
            beside_peer.append(case["peer_us"] / own["us"])
        baseline = case["states"].get(BASELINE, {})
        if "us" in baseline and not is_wrong(case, baseline["measured_as"]):
            beside_predict.append(baseline["us"] / own["us"])
    return beside_peer, beside_predict


def figures(ratios):
    return (f"{geomean(ratios):.3f} | {min(ratios):.3f}" if ratios
            else "n/a | n/a")


def rows_of(document, cases):
    """The rows of a table: a state and a band of m each."""
    rows = []
    for state in states_of(document):
        bands = [(band, [case for case in cases if case["band"] == band])
                 for band, _ in BANDS]
        for band, own in bands + [("**all**", cases)]:
            beside_peer, beside_predict = ratios_of(document, own, state)
            if beside_peer or beside_predict:
                rows.append(
                    f"| {state} | {band} | {len(beside_peer)} "
                    f"| {figures(beside_peer)} | "
                    + ("| |" if state == BASELINE
                       else f"{figures(beside_predict)} |"))
    return rows


def kinds_table(document):
    """A row for each kind of models and state."""
    kinds = list(dict.fromkeys(model["kind"]
                               for model in document["models"].values()))
    rows = []
    for kind in kinds:
        cases = [case for case in document["cases"]
                 if case["layer"].split("/")[0] == kind]
        for state in states_of(document):
            beside_peer, beside_predict = ratios_of(document, cases, state)
            if beside_peer:
                rows.append(f"| {kind} | {state} | {len(beside_peer)} "
                            f"| {figures(beside_peer)} | "
                            + ("| |" if state == BASELINE
                               else f"{figures(beside_predict)} |"))
    return ["| models | state | values | beside cuBLASLt, geomean | least "
            "| beside predict, geomean | least |",
            "|---|---|---|---|---|---|---|"] + rows if rows else []


def sizes_tables(document):
    lines = []
    for title, aligned in ((f"n and k are multiples of {ALIGNED}", True),
                           ("Odd n or k", False)):
        rows = rows_of(document, [case for case in document["cases"]
                                  if case["aligned"] == aligned])
        if rows:
            lines += ["", f"{title}:", "",
                      "| state | m | values | beside cuBLASLt, geomean | least "
                      "| beside predict, geomean | least |",
                      "|---|---|---|---|---|---|---|"] + rows
    return lines


def bullet(text):
    return "\n".join(textwrap.wrap(text, WIDTH, initial_indent="- ",
                                   subsequent_indent="  ",
                                   break_on_hyphens=False))


def time_text(seconds):
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1e3 * seconds:.0f} ms" if seconds >= 1e-2 \
        else f"{1e3 * seconds:.2f} ms"


def cost_line(document, state):
    """The cost of a state: a line of a list."""
    own = [model["states"][state] for model in document["models"].values()
           if "skipped" not in model["states"].get(state, {"skipped": ""})]
    seconds = [case["states"][state]["first_call_s"]
               for case in document["cases"] if state in case["states"]]
    text = (f"`{state}`: {sum(row['compiles'] for row in own)} kernels "
            f"compiled, {sum(row['trials'] for row in own)} trials; "
            f"{len(seconds)} first calls took {time_text(sum(seconds))}, "
            f"median {time_text(statistics.median(seconds))}, most "
            f"{time_text(max(seconds))}")
    layers = [layer for row in own for layer in row.get("layers", ())]
    if layers:
        took = [layer["s"] for layer in layers]
        kernels = [layer["kernels"] for layer in layers]
        text += (f"; a layer was prepared in "
                 f"{time_text(statistics.median(took))} (median; most "
                 f"{time_text(max(took))}) and loaded "
                 f"{statistics.median(kernels):.0f} kernels (most "
                 f"{max(kernels)})")
    failed = sum(row["failed"] for row in own)
    if failed:
        text += f"; {failed} calls found no plan"
    changed = [case["states"][state] for case in document["cases"]
               if "later" in case["states"].get(state, {})]
    if changed:
        timed = [row["us"] / row["later"]["us"] for row in changed
                 if "us" in row]
        text += (f"; {len(changed)} values had another plan after all calls"
                 + (f", of {geomean(timed):.3f} times the speed" if timed
                    else ""))
    return bullet(text)


def wrong_lines(document):
    """Wrong results, a line for each side that has some."""
    sides = {}
    for case in document["cases"]:
        for side in case.get("wrong", ()):
            sides.setdefault(side, []).append(
                f"{case['m']} x {case['n']} x {case['k']}")
    return [bullet(f"{side} computes wrong results at {', '.join(places)}")
            for side, places in sides.items()]


def band_line(document):
    counts = {band: 0 for band, _ in BANDS}
    for case in document["cases"]:
        counts[case["band"]] += 1
    return bullet("values of m: " + ", ".join(
        f"{count} in {band}" if band != "above" else f"{count} {band}"
        for band, count in counts.items()))


def tables(document):
    """The lines of markdown behind the origin of a result."""
    lines = kinds_table(document) + sizes_tables(document)
    lines += ["", "A ratio is the other side's time over that of the state: "
              "above 1, the state is faster.", "", band_line(document)]
    lines += [cost_line(document, state) for state in states_of(document)]
    lines += [bullet(f"`{state}` was not measured: {reason}") for state, reason
              in document["skipped_states"].items()]
    return lines + wrong_lines(document)


def main(paths):
    for path in paths:
        print("\n".join(tables(json.loads(pathlib.Path(path).read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
