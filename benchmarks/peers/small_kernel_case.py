"""One case of small_kernels.py, and its arrays."""
import dataclasses
import math

TYPE_BYTES = {"fp32": 4, "int32": 4, "uint64": 8, "bf16": 2, "e4m3": 1}


@dataclasses.dataclass(frozen=True)
class Operand:
    """An array of a case, named as kiln_plan_operand names it. A constant may
    be read before the kernel ahead has ended."""
    name: str
    shape: tuple
    dtype: str
    constant: bool = False

    @property
    def bytes(self):
        return math.prod(self.shape) * TYPE_BYTES[self.dtype]


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    text: str
    sizes: dict  # of the text, and those that it leaves out
    read: int  # bytes at least
    written: int

    @property
    def family(self):
        return self.name.partition("/")[0]

    @property
    def bytes(self):
        return self.read + self.written
