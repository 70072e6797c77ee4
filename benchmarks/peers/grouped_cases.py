"""Grouped GEMMs of MoE: rows of tokens in groups, a weight for each group.
 Kiln's problem text, the sizes of the groups, and every operand with its
slot, shape and type. Needs neither torch nor a GPU.

`python3 grouped_cases.py` lists all cases; with --library LIBKILN it also has
each text parsed, prints its canonical form, and compares that with what the
case's struct is understood as.
"""
import argparse
import dataclasses
import functools

import random
import sys
from ctypes import pointer

import kiln_ctypes
from low_precision_cases import (BLOCK, PACKED_BLOCK, WEIGHT_BITS,
                                 Operand)

SLOTS = {"a": 0, "b": 1, "d": 3, "scale_a": 8, "scale_b": 9, "group_sizes": 12}

# How scales are shared, as the words of a problem's text for A and for B.
SCHEMES = {"bf16": (None, None), "row": ("row", "row"),
           "block": ("1x128", "128x128"), "int4": (None, "1x128"),
           "mxfp4": (None, "1x32")}
TYPES_A = {"bf16": "bf16", "row": "e4m3", "block": "e4m3", "int4": "bf16",
           "mxfp4": "bf16"}
TYPES_B = {"bf16": "bf16", "row": "e4m3", "block": "e4m3", "int4": "int4",
           "mxfp4": "e2m1"}
WEIGHT_GROUPS = {"int4": 128, "mxfp4": 32}


@dataclasses.dataclass(frozen=True)
class GroupedOperand(Operand):
    @property
    def slot(self):
        return SLOTS[self.name]


@dataclasses.dataclass(frozen=True)
class GroupedCase:
    """`n` by `k` weights of `groups` experts. `kind` is "ends" (rows of a group
    follow those of the one before, from a multiple of `align` on) or "masked"
    (`room` rows for each group). `rows` has the size of each group."""
    name: str
    scheme: str
    n: int
    k: int
    rows: tuple
    kind: str = "ends"
    align: int = 1
    room: int = 0

    @property
    def groups(self):
        return len(self.rows)

    @property
    def dtype(self):
        return TYPES_A[self.scheme]

    @property
    def out(self):
        return "bf16"

    @property
    def is_packed(self):
        return self.scheme in WEIGHT_GROUPS

    @property
    def begins(self):
        """The first row of each group, in all of A's rows."""
        if self.kind == "masked":
            return [group * self.room for group in range(self.groups)]
        begins, end = [], 0
        for size in self.rows:
            begins.append(-(-end // self.align) * self.align)
            end = begins[-1] + size
        return begins

    @property
    def ends(self):
        return [begin + size for begin, size in zip(self.begins, self.rows)]

    @property
    def sizes(self):
        """The group sizes that Kiln reads on the device: ends, or counts."""
        return list(self.rows) if self.kind == "masked" else self.ends

    @property
    def m(self):
        """The m of the problem: all rows, or the expected rows of a group."""
        if self.kind == "masked":
            return max(1, -(-sum(self.rows) // self.groups))
        return max(1, self.ends[-1])

    @property
    def all_rows(self):
        """Rows of A and D in memory."""
        return self.groups * self.room if self.kind == "masked" else self.m

    @property
    def text(self):
        """The problem as Kiln's text."""
        scale_a, scale_b = SCHEMES[self.scheme]
        words = {"m": self.m, "n": self.n, "k": self.k, "dtype": self.dtype,
                 "layout": "NT", "batch": self.groups, "groups": self.kind}
        if self.kind == "masked":
            words["room"] = self.room
        elif self.align > 1:
            words["group_align"] = self.align
        if self.is_packed:
            words |= {"b": TYPES_B[self.scheme], "order_b": "k64r16"}
        if scale_a:
            words["scale_a"] = scale_a
        if scale_b:
            words["scale_b"] = scale_b
        return "gemm " + " ".join(f"{key}={value}"
                                  for key, value in words.items())

    def operands(self):
        """Every operand, by slot."""
        rows, n, k, groups = self.all_rows, self.n, self.k, self.groups
        operands = [GroupedOperand("a", (rows, k), self.dtype),
                    GroupedOperand("d", (rows, n), self.out, True),
                    GroupedOperand("group_sizes", (groups,), "int32")]
        if self.is_packed:
            blocks = n // PACKED_BLOCK, k // PACKED_BLOCK
            bits = WEIGHT_BITS[TYPES_B[self.scheme]]
            steps = -(-k // WEIGHT_GROUPS[self.scheme])
            return operands + [
                GroupedOperand("b", (groups, *blocks,
                                     PACKED_BLOCK ** 2 * bits // 8), "uint8"),
                GroupedOperand("scale_b", (groups, blocks[0], steps,
                                           PACKED_BLOCK),
                               "fp16" if self.scheme == "int4" else "e8m0")]
        operands.append(GroupedOperand("b", (groups, n, k), self.dtype))
        if self.scheme == "row":
            operands += [GroupedOperand("scale_a", (rows,), "fp32"),
                         GroupedOperand("scale_b", (groups, n), "fp32")]
        if self.scheme == "block":
            depths = -(-k // BLOCK)
            operands += [GroupedOperand("scale_a", (rows, depths), "fp32"),
                         GroupedOperand("scale_b", (groups, -(-n // BLOCK),
                                                    depths), "fp32")]
        return operands

    def args(self, addresses):
        """The case as kiln_gemm takes it, of operands by name at these
        addresses."""
        n, k, rows = self.n, self.k, self.all_rows
        # A and D of groups with ends are one matrix.
        stride = self.room if self.kind == "masked" else 0

        def operand(name, dtype, batch_stride, **others):
            return kiln_ctypes.Operand(
                type=kiln_ctypes.TYPES[dtype], data=addresses[name],
                batch_stride=batch_stride, **others)

        groups = kiln_ctypes.GemmGroups(
            kind=kiln_ctypes.GROUP_KINDS[self.kind],
            sizes=addresses["group_sizes"], room=self.room,
            align=self.align if self.kind == "ends" else 0)
        return kiln_ctypes.GemmArgs(
            layout=kiln_ctypes.LAYOUTS["NT"], m=self.m, n=n, k=k,
            batch=self.groups, groups=pointer(groups),
            a=operand("a", self.dtype, stride * k),
            b=operand("b", TYPES_B[self.scheme],
                      0 if self.is_packed else n * k),
            d=operand("d", self.out, stride * n), **self._parts(addresses, rows))

    def _parts(self, addresses, rows):
        """The structs of scales and packed weights that the call points to."""
        scales = {which: scale for which, size in (("a", rows), ("b", self.n))
                  if (scale := self._scale(which, addresses, size))}
        parts = {}
        if self.is_packed:
            parts["packed_b"] = pointer(kiln_ctypes.GemmPackedB(
                order=kiln_ctypes.WEIGHT_ORDERS["k64r16"],
                scale=scales.pop("b")))
        if scales:
            parts["scales"] = pointer(kiln_ctypes.GemmScales(**scales))
        return parts

    def _scale(self, which, addresses, rows):
        """The scales of A or B, or None."""
        kind = SCHEMES[self.scheme][which == "b"]
        if kind is None:
            return None
        address, depths = addresses[f"scale_{which}"], -(-self.k // BLOCK)
        if kind == "row":
            scale = kiln_ctypes.scale_of("row", address)
            of_matrix = self.n
        elif self.is_packed:
            group = WEIGHT_GROUPS[self.scheme]
            scale = kiln_ctypes.scale_of(
                "block", address, 1, group,
                dtype="fp16" if self.scheme == "int4" else "e8m0")
            of_matrix = 0
        else:
            scale = kiln_ctypes.scale_of(
                "block", address, BLOCK if kind == "128x128" else 1, BLOCK,
                depths, 1)
            of_matrix = -(-rows // scale.block_rows) * depths
        if which == "b":
            scale.batch_stride = of_matrix
        elif self.kind == "masked":
            scale.batch_stride = self.room * depths
        return scale

    def inputs(self):
        return [operand for operand in self.operands() if not operand.output]

    def outputs(self):
        return [operand for operand in self.operands() if operand.output]

    @property
    def bytes(self):
        """The bytes that a launch has to move: rows of groups, and the weights
        of groups that have rows."""
        share = {operand.name: operand.bytes for operand in self.operands()}
        used = sum(self.rows) / max(1, self.all_rows)
        active = sum(1 for size in self.rows if size) / self.groups
        return round(sum(
            size * (active if name in ("b", "scale_b") else
                    1 if name == "group_sizes" else used)
            for name, size in share.items()))

    @property
    def flops(self):
        return 2 * sum(self.rows) * self.n * self.k


#===------------------------------------------------------------------------===#
# Routing
#===------------------------------------------------------------------------===#


@functools.cache
def routed(tokens, experts, top_k, zipf=False, local=None):
    """Rows of each expert where each token goes to `top_k` different ones at
    random: all alike, or with chances of 1, 1/2, 1/3, ... Only the first
    `local` experts are here, if that is given."""
    source = random.Random(f"{tokens} {experts} {top_k} {zipf}")
    rows = [0] * experts
    for _ in range(tokens):
        if zipf:
            # The least of exponential times are a draw by weights.
            times = [source.expovariate(1 / (expert + 1))
                     for expert in range(experts)]
            chosen = sorted(range(experts), key=times.__getitem__)[:top_k]
        else:
            chosen = source.sample(range(experts), top_k)
        for expert in chosen:
            rows[expert] += 1
    return tuple(rows[:local])


@functools.cache
def near(count, groups):
    """`groups` sizes of 0.7 to 1.3 times `count`."""
    source = random.Random(f"{count} {groups}")
    return tuple(round(count * source.uniform(0.7, 1.3))
                 for _ in range(groups))


def moe(model, layer, scheme, n, k, experts, top_k, tokens, **options):
    """A layer of a model for so many tokens, with its routing."""
    rows = routed(tokens, experts, top_k, options.get("zipf", False),
                  options.get("local"))
    return GroupedCase(
        f"{scheme}/{model}/{layer}/" + ("zipf/" if options.get("zipf") else "")
        + f"t{tokens}", scheme, n, k, rows)


def all_cases():
    """In the order in which they are worth most: bf16, fp8, packed weights."""
    cases = []
    for tokens in (16, 128, 1024, 8192):
        cases.append(moe("qwen3-30b", "gate_up", "bf16", 1536, 2048, 128, 8,
                         tokens))
    for tokens in (4, 64, 4096):
        cases.append(moe("mixtral", "gate_up", "bf16", 28672, 4096, 8, 2,
                         tokens))
    for tokens in (128, 8192):
        cases.append(moe("qwen3-30b", "down", "bf16", 2048, 768, 128, 8,
                         tokens))
    for tokens in (64, 4096):
        cases.append(moe("qwen3-235b", "gate_up", "bf16", 3072, 4096, 128, 8,
                         tokens))
    cases += [moe("qwen3-235b", "down", "bf16", 4096, 1536, 128, 8, 64),
              moe("mixtral", "down", "bf16", 4096, 14336, 8, 2, 64),
              moe("qwen3-30b", "gate_up", "bf16", 1536, 2048, 128, 8, 1024,
                  zipf=True)]
    for tokens in (128, 8192):
        cases.append(moe("qwen3-30b", "gate_up", "row", 1536, 2048, 128, 8,
                         tokens))
    for tokens in (64, 4096):
        cases.append(moe("mixtral", "gate_up", "row", 28672, 4096, 8, 2,
                         tokens))
    for scheme in ("row", "block"):
        for groups, rows in ((4, 8192), (8, 4096)):
            for n, k in ((4096, 7168), (7168, 2048)):
                if scheme == "row" and groups == 8:
                    continue  # the other form tells as much
                cases.append(GroupedCase(
                    f"{scheme}/contiguous/{groups}x{rows}/{n}x{k}", scheme, n,
                    k, (rows,) * groups, align=BLOCK))
    for groups, rows in ((32, 192), (6, 1024), (32, 20), (6, 20)):
        for n, k in ((4096, 7168), (7168, 2048)):
            cases.append(GroupedCase(
                f"block/masked/{groups}x{rows}/{n}x{k}", "block", n, k,
                near(rows, groups), "masked", room=max(128, 2 * rows)))
    for tokens in (1, 64, 4096):
        cases.append(moe("gpt-oss-20b", "gate_up", "mxfp4", 5760, 2880, 32, 4,
                         tokens))
    cases += [moe("gpt-oss-120b", "gate_up", "mxfp4", 5760, 2880, 128, 4, 64),
              moe("kimi-k2", "gate_up", "int4", 4096, 7168, 384, 8, 64,
                  local=48)]
    return cases


def load_cases(pattern="", most=None):
    """The cases whose name contains a part of `pattern`, a comma-separated list;
    `most` of them at most, spread over all."""
    wanted = pattern.split(",")
    cases = [case for case in all_cases()
             if any(part in case.name for part in wanted)]
    if most is None or most >= len(cases):
        return cases
    return [cases[index * len(cases) // most] for index in range(most)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--filter", default="")
    parser.add_argument("--library", help="has libkiln.so parse each text "
                        "and struct")
    options = parser.parse_args()
    library = options.library and kiln_ctypes.Library(options.library)
    refused = 0
    for case in load_cases(options.filter):
        print(f"{case.name}: {case.text}; {sum(case.rows)} rows of "
              f"{sum(1 for size in case.rows if size)} groups, most "
              f"{max(case.rows)}; {case.bytes / 1e6:.2f} MB, "
              f"{sum(o.bytes for o in case.operands()) / 1e6:.0f} MB held")
        try:
            if library:
                canonical = library.canonical(case.text)
                print("   ", canonical)
                # No launch reads these addresses.
                args = case.args({operand.name: 4096
                                  for operand in case.operands()})
                if library.canonical_gemm(args) != canonical:
                    refused += 1
                    print("    as a struct:", library.canonical_gemm(args))
        except kiln_ctypes.KilnError as error:
            refused += 1
            print("   ", error)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
