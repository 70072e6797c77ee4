#!/usr/bin/env python3
"""Draws a study of configs (`kiln-bench study --set NAME --out FILE`) as SVG: a bar
for each config in the order of its set, its rate, and what it gains over the
one before. Rates of peers are lines across.

  scripts/plotStudy.py benchmarks/results/attention_prog.json docs/attention_prog.svg
"""
import argparse
import html
import json
import pathlib

WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 960, 390, 110, 56, 22, 8
FONT = "font-family='sans-serif' font-size='12'"
COLOURS = {"bar": "#4878a8", "spilled": "#b0b0b0", "peer": "#c04040",
           "text": "#303030", "grid": "#e0e0e0"}


def text(x, y, content, anchor="start", extra=""):
    return (f"<text x='{x:.1f}' y='{y:.1f}' {FONT} fill='{COLOURS['text']}' "
            f"text-anchor='{anchor}' {extra}>{html.escape(content)}</text>")


def step_of(most):
    """Distance of the lines of the grid: 1, 2 or 5 times a power of ten."""
    step = next(factor * 10 ** power for power in range(9)
                for factor in (1, 2, 5) if most / (factor * 10 ** power) <= 8)
    return step


class Plot:
    def __init__(self, document, dtype):
        rows = [row for row in document["configs"] if "us" in row]
        rows.sort(key=lambda row: row["place"])
        self.rows = rows
        self.peers = [peer for peer in document.get("peers", [])
                      if dtype is None or peer["dtype"] == dtype]
        self.title = f"{rows[0]['problem']}, set {document['set']}"
        self.setting = f"{document['gpu']}, driver {document['driver']}, " \
                       f"CUDA {document['cuda']}"
        self.most = 1.12 * max([row["tflops"] for row in rows] +
                               [peer["tflops"] for peer in self.peers])
        self.bottom = TOP + len(rows) * (BAR + GAP)

    def x(self, tflops):
        return LEFT + tflops / self.most * (WIDTH - LEFT - RIGHT)

    def grid(self):
        step = step_of(self.most)
        for value in range(0, int(self.most) + 1, step):
            x = self.x(value)
            yield (f"<line x1='{x:.1f}' y1='{TOP}' x2='{x:.1f}' "
                   f"y2='{self.bottom}' stroke='{COLOURS['grid']}'/>")
            yield text(x, self.bottom + 16, str(value), "middle")
        yield text((LEFT + WIDTH - RIGHT) / 2, self.bottom + 34, "TFLOP/s",
                   "middle")

    def bars(self):
        before = None
        for place, row in enumerate(self.rows):
            y = TOP + place * (BAR + GAP)
            width = self.x(row["tflops"]) - LEFT
            colour = COLOURS["spilled" if row["spillBytes"] else "bar"]
            yield text(LEFT - 8, y + BAR - 6, row["name"].partition(": ")[2]
                       if len({r["name"].partition(": ")[0]
                               for r in self.rows}) == 1 else row["name"],
                       "end")
            yield (f"<rect x='{LEFT}' y='{y}' width='{width:.1f}' "
                   f"height='{BAR}' fill='{colour}'/>")
            gain = "" if before is None else \
                f" ({100 * (row['tflops'] / before - 1):+.1f} %)"
            yield text(LEFT + width + 6, y + BAR - 6,
                       f"{row['tflops']:.0f}{gain}")
            before = row["tflops"]

    def lines(self):
        for peer in self.peers:
            x = self.x(peer["tflops"])
            yield (f"<line x1='{x:.1f}' y1='{TOP - 6}' x2='{x:.1f}' "
                   f"y2='{self.bottom}' stroke='{COLOURS['peer']}' "
                   f"stroke-dasharray='4 3'/>")
            yield text(x, TOP - 10, f"{peer['name']}: {peer['tflops']:.0f}",
                       "middle")

    def svg(self):
        height = self.bottom + 48
        parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' "
            f"height='{height}' viewBox='0 0 {WIDTH} {height}'>",
            f"<rect width='{WIDTH}' height='{height}' fill='white'/>",
            text(12, 18, self.title, extra="font-weight='bold'"),
            text(12, 34, self.setting),
            *self.grid(), *self.bars(), *self.lines(), "</svg>"]
        return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("study")
    parser.add_argument("svg")
    parser.add_argument("--peer", help="only peers of this type: fp16, bf16")
    options = parser.parse_args()
    document = json.loads(pathlib.Path(options.study).read_text())
    pathlib.Path(options.svg).write_text(Plot(document, options.peer).svg())


if __name__ == "__main__":
    main()
