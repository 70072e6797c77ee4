#!/usr/bin/env python3
"""Makes ScaleGoldens.json: operands with scales as checkpoints lay them out,
and the exact product.

Independent of Kiln's own code: a case begins with a scale for each block, row
or tensor, and has two ways from there, one to memory by strides and one to the
product by repeating scales over what they cover. Elements are few multiples of
a half and scales powers of two, so that fp32 sums are exact in any order. Needs
numpy.
"""
import json
import sys

import numpy as np

BLOCK = 128
# The codes of e4m3 (no sign) of what elements may be.
E4M3 = {0: 0x00, 0.5: 0x30, 1: 0x38, 1.5: 0x3C, 2: 0x40, 3: 0x44}


def blocks(extent, size=BLOCK):
    return -(-extent // size)


def memory_of(values, pitch):
    """Rows of \\p pitch elements; elements behind a row's end are never read."""
    rows, cols = values.shape
    full = np.full((rows, pitch), 77, values.dtype)
    full[:, :cols] = values
    return full


def codes_of(values, kind):
    if kind == "int8":
        return values.astype(np.int8).view(np.uint8)
    magnitudes = np.vectorize(E4M3.get)(np.abs(values)).astype(np.uint8)
    return magnitudes | ((values < 0).astype(np.uint8) << 7)


class Scales:
    """Scales of an operand of \\p rows rows along k."""

    def __init__(self, kind, rows, k, random):
        self.kind = kind
        shape = {"tensor": (1, 1), "row": (rows, 1), "1x128": (rows, blocks(k)),
                 "128x128": (blocks(rows), blocks(k))}[kind]
        self.values = np.exp2(random.integers(-3, 4, shape)).astype(np.float32)

    def everywhere(self, rows, k):
        """A scale for each element."""
        down = BLOCK if self.kind == "128x128" else 1
        along = BLOCK if "x" in self.kind else k
        full = np.repeat(np.repeat(self.values, down, 0), along, 1)
        if self.kind == "tensor":
            full = np.repeat(full, rows, 0)
        return full[:rows, :k].astype(np.float64)

    def memory(self, along_rows, pitch):
        """By k, or along rows (a line for each block of k)."""
        values = self.values.T if along_rows else self.values
        return memory_of(values, pitch or values.shape[1])


def make_case(random, m, n, k, kind, a, b, orders="", zeros=False):
    """a, b: (kind of scales, along rows, pitch of their lines or 0)."""
    choices = (np.arange(-100, 101) if kind == "int8" else
               np.array([-3, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3]))
    x, w = random.choice(choices, (m, k)), random.choice(choices, (n, k))
    of_a, of_b = Scales(a[0], m, k, random), Scales(b[0], n, k, random)
    zero = random.integers(-20, 21, (m, 1)) if zeros else np.zeros((m, 1))
    exact = (((x - zero) * of_a.everywhere(m, k)) @
             (w * of_b.everywhere(n, k)).T)
    assert (exact.astype(np.float32) == exact).all()
    pitch = blocks(k, 16) * 16
    text = (f"m={m} n={n} k={k} dtype={kind} out=fp32 layout=NT lda={pitch} "
            f"ldb={pitch} scale_a={a[0]} scale_b={b[0]}{orders}")
    operands = {"a": memory_of(codes_of(x, kind), pitch),
                "b": memory_of(codes_of(w, kind), pitch),
                "scale_a": of_a.memory(*a[1:]), "scale_b": of_b.memory(*b[1:])}
    if zeros:
        text += " zero_a=row"
        operands["zero_a"] = zero.astype(np.int32)
        operands["column_sums_b"] = w.sum(1).astype(np.int32)
    return {"problem": text, "d": exact.astype("<f4").tobytes().hex()} | {
        name: values.tobytes().hex() for name, values in operands.items()}


def main():
    random = np.random.default_rng(20241)
    fp8 = dict(kind="e4m3", random=random)
    row, tensor = ("row", False, 0), ("tensor", False, 0)
    cases = [
        # As a checkpoint has them, and along rows as DeepGEMM's kernels do.
        make_case(m=5, n=132, k=270, a=("1x128", False, 0),
                  b=("128x128", False, 0), **fp8),
        make_case(m=21, n=130, k=260, a=("1x128", True, 24),
                  b=("128x128", False, 0),
                  orders=" scale_order_a=rows ldsa=24", **fp8),
        make_case(m=66, n=136, k=274, a=("1x128", False, 5),
                  b=("128x128", True, 3),
                  orders=" ldsa=5 scale_order_b=rows ldsb=3", **fp8),
        make_case(m=9, n=66, k=160, a=row, b=row, **fp8),
        make_case(m=4, n=65, k=96, a=tensor, b=row, **fp8),
        make_case(m=4, n=65, k=96, a=row, b=tensor, **fp8),
        make_case(m=6, n=40, k=250, a=row, b=row, kind="int8", zeros=True,
                  random=random),
    ]
    json.dump({"cases": cases}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
