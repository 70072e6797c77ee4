#!/usr/bin/env python3
"""Writes the tables of benchmarks/results/*.json into README.md.

A table replaces what stands between the lines
    <!-- results:begin NAME -->  and  <!-- results:end NAME -->
where NAME is the result file's name without ".json". Numbers in README.md are
never typed by hand. With --check nothing is written; the exit code is 1 if the
README differs from what the results say.
"""
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Upper bounds of the classes of m: token counts of decoding to prefill.
CLASSES = [(1, "1"), (16, "2 to 16"), (64, "17 to 64"), (256, "65 to 256"),
           (1024, "257 to 1024"), (math.inf, "more than 1024")]


def class_of(case, by_m):
    """A case's row of the table: the class of its m, or what its name says."""
    if by_m:
        m = int(re.search(r"/m(\d+)$", case["name"])[1])
        return next(name for bound, name in CLASSES if m <= bound)
    parts = case["name"].split("/")
    return " ".join(parts[:2]) if parts[0] == "layout" else parts[0]


def geomean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def table(result):
    """The markdown of one result: where it was measured, and a row per class."""
    by_class = {}
    # What has no peer is in the file, not in the table.
    compared = [case for case in result["cases"] if case["ratio"]]
    # A suite of models names its cases by m; the rows follow what is named.
    by_m = all(re.search(r"/m\d+$", case["name"]) for case in compared)
    for case in compared:
        by_class.setdefault(class_of(case, by_m), []).append(case)
    lines = [
        f"{result['what']}; {result['gpu']}, driver {result['driver']}, "
        f"CUDA {result['cuda']}, commit {result['commit']}. "
        f"{result['protocol']}",
        "",
        f"| {'m' if by_m else 'cases'} | number | ratio, geomean | least | greatest | best TFLOP/s |",
        "|---|---|---|---|---|---|",
    ]
    order = [name for _, name in CLASSES] if by_m else list(by_class)
    groups = [(name, by_class[name]) for name in order if name in by_class]
    for name, cases in groups + [("**all**", compared)]:
        ratios = [case["ratio"] for case in cases]
        lines.append(
            f"| {name} | {len(cases)} | {geomean(ratios):.2f} "
            f"| {min(ratios):.2f} | {max(ratios):.2f} "
            f"| {max(case['tflops'] for case in cases):.0f} |")
    lines += ["", "A ratio is the peer's time over Kiln's: above 1, Kiln is "
              "faster."]
    return "\n".join(lines)


def updated(text):
    """README text with every section replaced whose result file exists."""
    def replace(match):
        path = ROOT / "benchmarks" / "results" / f"{match['name']}.json"
        if not path.exists():
            return match[0]
        body = table(json.loads(path.read_text()))
        return f"{match['begin']}\n{body}\n{match['end']}"

    return re.sub(
        r"(?P<begin><!-- results:begin (?P<name>\S+) -->)\n.*?"
        r"(?P<end><!-- results:end (?P=name) -->)",
        replace, text, flags=re.DOTALL)


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit("usage: updateReadme.py [--check]")
    path = ROOT / "README.md"
    before = path.read_text()
    after = updated(before)
    if arguments:
        if before != after:
            sys.exit("updateReadme: README.md is not what the results say")
    elif before != after:
        path.write_text(after)


if __name__ == "__main__":
    main(sys.argv[1:])
