"""The cases of benchmarks/suites/memory_bound.json, or of a result of
kiln-bench draw: Kiln's problem text, and every operand with its
slot, shape and type. Needs neither torch nor a GPU.

`python3 memory_bound_cases.py` lists the texts and bytes of a suite; with
--library LIBKILN it also has each text parsed and prints its canonical form.
"""
import argparse
import dataclasses
import json
import pathlib
import sys

import kiln_ctypes

SUITE = pathlib.Path(__file__).resolve().parent.parent / "suites" / \
    "memory_bound.json"

TYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8_e4m3": 1, "int8": 1}

# Slots of the families over rows: RowOperand of kernel_src/rows/RowParams.h.
ROW_SLOTS = {"x": 0, "y": 1, "weight": 2, "bias": 3, "residual": 4,
             "residual_out": 5, "mask": 6, "scales": 7}

# Slot of the scales of an elementwise y: ElementwiseOperand::Scales.
ELEMENTWISE_SCALES = 10

# Output types that may be quantised, and their greatest value.
QUANTISED = {"fp8_e4m3": 448.0, "int8": 127.0}

# Columns that share a scale where a row has several.
SCALE_COLUMNS = 128

# Keys of a case that go into the problem's text, in this order.
TEXT_KEYS = ["op", "axis", "rows", "cols", "dtype", "out", "weight", "bias",
             "residual", "scale", "mask", "scale_y"]

FAMILIES = {"softmax", "rmsnorm", "layernorm", "rowquant", "reduce",
            "elementwise", "transpose2d"}

# Links of elementwise chains that are served, and whether each has an operand.
LINKS = {"add": True, "mul": True, "bias": True, "relu": False, "silu": False,
         "gelu_erf": False, "gelu_tanh": False}


@dataclasses.dataclass(frozen=True)
class Operand:
    """One array of a case; `slot` is its index in kiln_arguments."""
    name: str
    slot: int
    shape: tuple
    dtype: str
    output: bool = False

    @property
    def bytes(self):
        count = 1
        for extent in self.shape:
            count *= extent
        return count * TYPE_BYTES[self.dtype]


@dataclasses.dataclass(frozen=True)
class Case:
    """One case of the suite, as its JSON object `spec` says. Errors: ValueError
    for what Kiln knows but these programs have no operands for."""
    spec: dict

    def __post_init__(self):
        def refuse(what):
            raise ValueError(f"{self.name}: {what} is not served")

        if self.family not in FAMILIES:
            refuse(f"the family {self.family}")
        if self.family == "elementwise":
            for link in self.chain:
                if link not in LINKS:
                    refuse(f"the link {link}")
        if self.get("mask", 0) not in (0, 1):
            refuse(f"mask={self.get('mask')}")

    def get(self, key, default=None):
        return self.spec.get(key, default)

    @property
    def name(self):
        return self.spec["name"]

    @property
    def family(self):
        return self.spec["family"]

    @property
    def shape(self):
        return self.spec["rows"], self.spec["cols"]

    @property
    def dtype(self):
        return self.spec["dtype"]

    @property
    def out(self):
        """The type of y."""
        if self.family == "rowquant":
            int8 = self.get("op") == "quant_int8_per_row"
            return "int8" if int8 else "fp8_e4m3"
        return self.get("out", self.dtype)

    @property
    def scales_shape(self):
        """The shape of the scales of y; None: it is not quantised."""
        rows, cols = self.shape
        kind = self.get("scale_y")
        if self.out not in QUANTISED or \
                (self.family == "elementwise" and kind is None):
            return None
        if kind == "1x128":
            return rows, -(-cols // SCALE_COLUMNS)
        return (rows,)

    @property
    def chain(self):
        """The links of an elementwise chain; a cast is an empty chain, as it is
        in a canonical problem."""
        links = self.get("op", "cast_").split(",")
        return [] if links[0].startswith("cast_") else links

    @property
    def all_rows(self):
        """Whether a reduction leaves one value."""
        return self.get("axis", "cols") == "all"

    @property
    def text(self):
        """The problem as Kiln's text."""
        parts = [self.family]
        for key in TEXT_KEYS:
            value = self.get(key)
            if value is not None:
                value = int(value) if isinstance(value, bool) else value
                parts.append(f"{key}={value}")
        return " ".join(parts)

    def operands(self):
        """Every operand, by slot."""
        if self.family == "elementwise":
            return self._elementwise_operands()
        rows, cols = self.shape
        if self.family == "transpose2d":
            return [Operand("x", 0, (rows, cols), self.dtype),
                    Operand("y", 1, (cols, rows), self.out, True)]
        return self._row_operands()

    def inputs(self):
        return [operand for operand in self.operands() if not operand.output]

    def outputs(self):
        return [operand for operand in self.operands() if operand.output]

    @property
    def bytes(self):
        """Every input read once and every output written once."""
        return sum(operand.bytes for operand in self.operands())

    def _elementwise_operands(self):
        operands = [Operand("x", 0, self.shape, self.dtype),
                    Operand("y", 1, self.shape, self.out, True)]
        shapes = {"add": self.shape, "mul": self.shape,
                  "bias": self.shape[1:]}
        for index, link in enumerate(self.chain):
            if LINKS[link]:
                operands.append(Operand(f"link{index}", 2 + index,
                                        shapes[link], self.dtype))
        if self.scales_shape:
            operands.append(Operand("scales", ELEMENTWISE_SCALES,
                                    self.scales_shape, "fp32", True))
        return operands

    def _row_operands(self):
        rows, cols = self.shape
        reduced = self.family == "reduce"
        present = {"x": (self.shape, self.dtype),
                   "y": (((1,) if self.all_rows else (rows,)) if reduced
                         else self.shape, self.out)}
        for name in ("weight", "bias"):
            if self.get(name):
                present[name] = ((cols,), self.dtype)
        if self.get("residual"):
            present["residual"] = (self.shape, self.dtype)
            present["residual_out"] = (self.shape, self.dtype)
        if self.get("mask"):
            present["mask"] = (self.shape, self.dtype)
        if self.scales_shape:
            present["scales"] = (self.scales_shape, "fp32")
        return [Operand(name, slot, *present[name],
                        name in ("y", "residual_out", "scales"))
                for name, slot in ROW_SLOTS.items() if name in present]


def load_suite(path=SUITE, pattern="", most=None):
    """The cases whose name contains a part of `pattern`, a comma-separated list;
    `most` of them at most, spread over all."""
    specs = json.loads(pathlib.Path(path).read_text())["cases"]
    wanted = pattern.split(",")
    cases = [Case(spec) for spec in specs
             if any(part in spec["name"] for part in wanted)]
    if most is None or most >= len(cases):
        return cases
    return [cases[index * len(cases) // most] for index in range(most)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--suite", default=SUITE)
    parser.add_argument("--filter", default="")
    parser.add_argument("--library", help="has libkiln.so parse each text")
    options = parser.parse_args()
    library = options.library and kiln_ctypes.Library(options.library)
    refused = 0
    for case in load_suite(options.suite, options.filter):
        slots = ", ".join(f"{operand.name}@{operand.slot}"
                          for operand in case.operands())
        print(f"{case.name}: {case.text} [{slots}] {case.bytes / 1e6:.2f} MB")
        try:
            if library:
                print("   ", library.canonical(case.text))
        except kiln_ctypes.KilnError as error:
            refused += 1
            print("   ", error)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
