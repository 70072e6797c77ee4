"""The cases of benchmarks/suites/gemm_packed.json, gemm_fp8.json and
gemm_int8.json: Kiln's problem text, every operand with its slot, shape and
type, and how scales lie in memory. Needs neither torch nor a GPU.

`python3 low_precision_cases.py` lists the texts and bytes of the default cases
or of a suite; with --library LIBKILN it also has each text parsed, prints its
canonical form, and compares that with what the case's struct is understood as.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import sys

import kiln_ctypes

SUITES = pathlib.Path(__file__).resolve().parent.parent / "suites"
DEFAULT_SUITES = [SUITES / "gemm_fp8.json", SUITES / "gemm_int8.json"]
# Which come first of the default cases: int4 weights with a scale for 128 of k.
FIRST_LAYERS = [(28672, 4096), (8192, 8192), (4096, 14336), (10240, 8192)]
FIRST_ROWS = [1, 16, 64]

TYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "e4m3": 1, "e5m2": 1, "int8": 1,
              "uint8": 1, "e8m0": 1, "int32": 4}
TYPES = {"e4m3", "e5m2", "int8"}
# Types of packed weights, with the bits of an element.
WEIGHT_BITS = {"int4": 4, "e2m1": 4, "int8": 8, "e4m3": 8}

# kiln_gemm_slot.
SLOTS = {"a": 0, "b": 1, "d": 3, "zero_b": 7, "scale_a": 8, "scale_b": 9}

# Keys of a case that these programs make operands for.
SERVED = {"name", "family", "m", "n", "k", "dtype", "b", "out", "layout",
          "batch", "compute", "scale_a", "scale_b", "scale_order_a",
          "scale_order_b", "ldsa", "ldsb"}
SERVED_PACKED = {"name", "family", "m", "n", "k", "dtype", "b", "out",
                 "layout", "order_b", "scale_b", "scale_type_b", "zero_b"}

# Cases with these are left out of a suite: no peer computes them.
WITHOUT_PEER = {"zero_a"}

BLOCK = 128
# Packed weights come in blocks of so many rows and steps of k.
PACKED_BLOCK = 64


@dataclasses.dataclass(frozen=True)
class Operand:
    """One array of a case; `slot` is its index in kiln_arguments."""
    name: str
    shape: tuple
    dtype: str
    output: bool = False

    @property
    def slot(self):
        return SLOTS[self.name]

    @property
    def bytes(self):
        return math.prod(self.shape) * TYPE_BYTES[self.dtype]


@dataclasses.dataclass(frozen=True)
class Scales:
    """The scales of A or B. `rows` and `depths`: their numbers along the rows of
    the operand and along k; `ld`: from one line in memory to the next. With
    `by_rows` a line has the scales of all rows at a step of k."""
    kind: str
    rows: int
    depths: int
    by_rows: bool
    ld: int

    @property
    def shape(self):
        """Lines in memory, gaps included; vectors have one."""
        if self.kind in ("tensor", "row"):
            return (self.rows,)
        return (self.depths if self.by_rows else self.rows, self.ld)

    @property
    def block_rows(self):
        """Rows that share a block scale."""
        return BLOCK if self.kind == "128x128" else 1


@dataclasses.dataclass(frozen=True)
class Case:
    """One case of a suite, as its JSON object `spec` says. Errors: ValueError
    for what Kiln knows but these programs have no operands for."""
    spec: dict

    def __post_init__(self):
        def refuse(what):
            raise ValueError(f"{self.name}: {what} is not served")

        for key, value in self.spec.items():
            if key not in (SERVED_PACKED if self.is_packed else SERVED):
                refuse(f"{key}={value}")
        if self.spec["family"] != "gemm" or not (self.is_packed or
                                                 self.dtype in TYPES):
            refuse(f"{self.spec['family']} of {self.dtype}")
        if self.is_packed and any(extent % PACKED_BLOCK
                                  for extent in self.extents[1:]):
            refuse("packed weights with padding")
        if self.get("layout", "NN") != "NT" or self.get("batch", 1) != 1:
            refuse("another layout than NT, or a batch,")

    def get(self, key, default=None):
        return self.spec.get(key, default)

    @property
    def name(self):
        return self.spec["name"]

    @property
    def extents(self):
        return self.spec["m"], self.spec["n"], self.spec["k"]

    @property
    def dtype(self):
        return self.spec["dtype"]

    @property
    def dtype_b(self):
        return self.get("b", self.dtype)

    @property
    def out(self):
        return self.get("out", self.dtype if self.is_packed else "bf16")

    @property
    def is_packed(self):
        """B has elements of 4 or 8 bits in Kiln's order, A of 16 bits."""
        return self.get("order_b") == "k64r16"

    @property
    def group(self):
        """Steps of k that share a scale of packed weights."""
        scale = self.get("scale_b")
        return self.extents[2] if scale == "row" else int(scale.split("x")[1])

    @property
    def scale_type(self):
        """The type of the scales of packed weights."""
        return self.get("scale_type_b",
                        "e8m0" if self.dtype_b == "e2m1" else "fp16")

    @property
    def sums_fast(self):
        return self.get("compute", "native") == "fast_fp8"

    @property
    def scheme(self):
        """The scheme in torch's terms: the scales of A, and of B."""
        return self.get("scale_a", "none"), self.get("scale_b", "none")

    @property
    def text(self):
        """The problem as Kiln's text."""
        return " ".join([self.spec["family"]] + [
            f"{key}={value}" for key, value in self.spec.items()
            if key not in ("name", "family")])

    def scales(self, which):
        """The scales of "a" or "b", or None."""
        kind = self.get(f"scale_{which}", "none")
        if kind == "none":
            return None
        m, n, k = self.extents
        extent = m if which == "a" else n
        if kind in ("tensor", "row"):
            return Scales(kind, extent if kind == "row" else 1, 1, False, 0)
        rows = -(-extent // (BLOCK if kind == "128x128" else 1))
        depths = -(-k // BLOCK)
        by_rows = self.get(f"scale_order_{which}", "k") == "rows"
        return Scales(kind, rows, depths, by_rows,
                      self.get(f"lds{which}", rows if by_rows else depths))

    def operands(self):
        """Every operand, by slot."""
        m, n, k = self.extents
        if self.is_packed:
            return self._packed_operands()
        operands = [Operand("a", (m, k), self.dtype),
                    Operand("b", (n, k), self.dtype_b),
                    Operand("d", (m, n), self.out, True)]
        for which in "ab":
            scales = self.scales(which)
            if scales:
                operands.append(Operand(f"scale_{which}", scales.shape, "fp32"))
        return operands

    def _packed_operands(self):
        m, n, k = self.extents
        blocks = n // PACKED_BLOCK, k // PACKED_BLOCK
        block_bytes = PACKED_BLOCK ** 2 * WEIGHT_BITS[self.dtype_b] // 8
        scales = blocks[0], -(-k // self.group), PACKED_BLOCK
        operands = [Operand("a", (m, k), self.dtype),
                    Operand("b", (*blocks, block_bytes), "uint8"),
                    Operand("d", (m, n), self.out, True),
                    Operand("scale_b", scales, self.scale_type)]
        if self.get("zero_b"):
            operands.append(Operand("zero_b", scales, "uint8"))
        return operands

    def inputs(self):
        return [operand for operand in self.operands() if not operand.output]

    def outputs(self):
        return [operand for operand in self.operands() if operand.output]

    @property
    def bytes(self):
        """Every input read once and every output written once."""
        return sum(operand.bytes for operand in self.operands())

    @property
    def flops(self):
        return 2 * math.prod(self.extents)

    def args(self, addresses):
        """The case as kiln_gemm takes it, of operands by name at these
        addresses."""
        m, n, k = self.extents

        def operand(name, dtype):
            return kiln_ctypes.Operand(type=kiln_ctypes.TYPES[dtype],
                                       data=addresses[name])

        if self.is_packed:
            return self._packed_args(addresses)
        given = {which: kiln_scale(one, addresses[f"scale_{which}"])
                 for which in "ab" if (one := self.scales(which))}
        scales = kiln_ctypes.GemmScales(**given)
        return kiln_ctypes.GemmArgs(
            layout=kiln_ctypes.LAYOUTS["NT"], m=m, n=n, k=k,
            compute=kiln_ctypes.COMPUTE[self.get("compute", "native")],
            a=operand("a", self.dtype), b=operand("b", self.dtype_b),
            d=operand("d", self.out),
            scales=kiln_ctypes.ctypes.pointer(scales) if given else None)


    def _packed_args(self, addresses):
        m, n, k = self.extents
        row = self.get("scale_b") == "row"
        scale = kiln_ctypes.scale_of(
            "row" if row else "block", addresses["scale_b"],
            rows=0 if row else 1, columns=0 if row else self.group,
            dtype=self.scale_type)
        packed = kiln_ctypes.GemmPackedB(
            order=kiln_ctypes.WEIGHT_ORDERS["k64r16"], scale=scale)
        if "zero_b" in addresses:
            packed.zeros = scale_like(scale, addresses["zero_b"])

        def operand(name, dtype):
            return kiln_ctypes.Operand(type=kiln_ctypes.TYPES[dtype],
                                       data=addresses[name])

        return kiln_ctypes.GemmArgs(
            layout=kiln_ctypes.LAYOUTS["NT"], m=m, n=n, k=k,
            packed_b=kiln_ctypes.ctypes.pointer(packed),
            a=operand("a", self.dtype), b=operand("b", self.dtype_b),
            d=operand("d", self.out))


def scale_like(scale, address):
    """Zero points that lie as packed scales do."""
    return kiln_ctypes.Scale(
        type=kiln_ctypes.TYPES["int8"], data=address,
        granularity=scale.granularity, block_rows=scale.block_rows,
        block_columns=scale.block_columns)


def kiln_scale(scales, address):
    """Scales of an operand that lies along k, as the C interface has them."""
    if scales.kind in ("tensor", "row"):
        return kiln_ctypes.scale_of(scales.kind, address)
    strides = (1, scales.ld) if scales.by_rows else (scales.ld, 1)
    return kiln_ctypes.scale_of("block", address, scales.block_rows, BLOCK,
                                *strides)


def first_cases():
    """Products on int4 weights, fewest rows first."""
    return [Case({"name": f"int4/g128/m{m}/{n}x{k}", "family": "gemm", "m": m,
                  "n": n, "k": k, "dtype": "bf16", "layout": "NT", "b": "int4",
                  "order_b": "k64r16", "scale_b": "1x128"})
            for m in FIRST_ROWS for n, k in FIRST_LAYERS]


def spread(cases):
    """The same cases in an order of which each beginning is spread over all."""
    # Steps of the golden section, without a common factor.
    step = max(1, round(0.618 * len(cases)))
    while math.gcd(step, len(cases)) > 1:
        step += 1
    return [cases[index * step % len(cases)] for index in range(len(cases))]


def load_suites(paths=None, pattern="", most=None):
    """The cases whose name contains a part of `pattern`, a comma-separated list;
    `most` of them at most, spread over all. Without paths, first_cases() and
    then the default suites, spread."""
    wanted = pattern.split(",")
    cases = [Case(spec) for path in paths or DEFAULT_SUITES
             for spec in json.loads(pathlib.Path(path).read_text())["cases"]
             if not WITHOUT_PEER & spec.keys()]
    if not paths:
        cases = first_cases() + spread(cases)
    cases = [case for case in cases if any(part in case.name
                                           for part in wanted)]
    if most is None or most >= len(cases):
        return cases
    return [cases[index * len(cases) // most] for index in range(most)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--suite", action="append")
    parser.add_argument("--filter", default="")
    parser.add_argument("--library", help="has libkiln.so parse each text "
                        "and struct")
    options = parser.parse_args()
    library = options.library and kiln_ctypes.Library(options.library)
    refused = 0
    for case in load_suites(options.suite, options.filter):
        slots = ", ".join(f"{operand.name}@{operand.slot}"
                          for operand in case.operands())
        print(f"{case.name}: {case.text} [{slots}] {case.bytes / 1e6:.2f} MB")
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
