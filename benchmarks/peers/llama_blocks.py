"""Blocks of the race, its sides in turns, and the figures of a case. Needs
neither torch nor a GPU.

A side has a name; prepare(case), which returns what the result notes of it;
block(), which runs one block of the case and returns a Block; and release().
"""
import collections
import statistics
import time

# Milliseconds of the device, one value for each forward pass or one mean of all
# steps; milliseconds of the host for the whole block; the tokens it chose.
Block = collections.namedtuple("Block", "ms wall_ms tokens")


class Lane:
    """The blocks of one side in one case."""

    def __init__(self, side, notes):
        self.side, self.notes = side, notes
        self._ms, self._wall, self._tokens = [], [], []

    def add(self, block):
        self._ms += block.ms
        self._wall.append(block.wall_ms)
        self._tokens.append(block.tokens)

    def row(self, case):
        """The figures of a side: ms are of a step or a forward pass."""
        ms = statistics.median(self._ms)
        return {
            "ms": round(ms, 4),
            "spread": round((max(self._ms) - min(self._ms)) / ms, 4),
            "wall_ms": round(statistics.median(self._wall) / case.steps, 4),
            "tokens_per_s": round(1e3 * case.pass_tokens / ms, 1),
            # Greedy blocks that begin alike choose alike.
            "same_tokens": all(tokens == self._tokens[0]
                               for tokens in self._tokens),
            "samples": [round(value, 4) for value in self._ms], **self.notes}


def run_rounds(lanes, rounds, gap_s, wait):
    """Blocks in turns; the first round is not counted. `wait` returns when this
    process has left the device idle."""
    for counted in [False] + [True] * rounds:
        for lane in lanes:
            wait()
            time.sleep(gap_s)
            block = lane.side.block()
            if counted:
                lane.add(block)
        # So that no side always follows the same one.
        lanes = lanes[::-1]


def ratios_of(case, sides, rates):
    """The other sides' times over Kiln's, the fastest one's as "ratio", and
    Kiln's share of the roofline: when it decodes, of the rate at which memory is
    read, else of the rate of products. `rates` has gb_per_s and
    product_tflops, or nothing."""
    kiln = sides.get("kiln", {}).get("ms")
    if kiln is None:
        return {}
    found = {f"ratio_{name}": round(side["ms"] / kiln, 4)
             for name, side in sides.items()
             if name != "kiln" and "ms" in side}
    if found:
        found["ratio"] = min(found.values())
    if case.kind == "decode":
        unit, rate = "gb_per_s", case.bytes / kiln / 1e6
        found["bytes"], roof = case.bytes, rates.get("gb_per_s")
    else:
        unit, rate = "tflops", case.flops / kiln / 1e9
        found["flops"], roof = case.flops, rates.get("product_tflops")
    found[unit] = round(rate, 1)
    if roof:
        found["share_of_roofline"] = round(rate / roof, 4)
    return found
