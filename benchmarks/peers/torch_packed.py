"""Products on packed weights: their data, Kiln's order of them, what a PyTorch
user writes for them, and fp32 arithmetic to check all results against.

The order is that of docs/gemm.md ("Packed weights"), written here a second time
rather than taken from kiln_prepack: both have to agree.
"""
import torch

from low_precision_cases import PACKED_BLOCK, WEIGHT_BITS

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

# Values of the eight codes of e2m1 without a sign.
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
ZERO_POINT = 8

# _convert_weight_to_int4pack() puts so many tiles of 16 k behind each other.
INNER_K_TILES = 8
TORCH_GROUPS = (32, 64, 128, 256)


#===------------------------------------------------------------------------===#
# Data
#===------------------------------------------------------------------------===#


class Weights:
    """A weight W[n, k] as a checkpoint has it: codes, a byte each; scales
    [n, groups], as fp32; zero points [n, groups] or None."""

    def __init__(self, case, generator):
        _, n, k = case.extents
        self.case = case
        device = generator.device

        def random(shape, first, last):
            return torch.randint(first, last + 1, shape, dtype=torch.uint8,
                                 device=device, generator=generator)

        if case.dtype_b == "e4m3":
            values = torch.empty((n, k), device=device).normal_(
                generator=generator)
            self.codes = values.to(torch.float8_e4m3fn).view(torch.uint8)
        else:
            most = (1 << WEIGHT_BITS[case.dtype_b]) - 1
            self.codes = random((n, k), 0, most)
        groups = -(-k // case.group)
        exponents = torch.empty((n, groups), device=device).normal_(
            generator=generator)
        self.exponents = torch.round(exponents - 4)
        self.scales = torch.exp2(self.exponents)
        self.zeros = random((n, groups), 0, 15) if case.get("zero_b") else None

    def values(self):
        """(n, k) in fp32: exact, since scales are powers of two."""
        kind, codes = self.case.dtype_b, self.codes
        if kind == "e4m3":
            values = codes.view(torch.float8_e4m3fn).float()
        elif kind == "e2m1":
            sizes = torch.tensor(E2M1, device=codes.device)
            values = sizes[(codes & 7).long()] * (1 - 2 * (codes >> 3).float())
        elif kind == "int8":
            values = codes.view(torch.int8).float()
        else:
            values = codes.float() - self._wide(self.zeros_or_usual())
        return values * self._wide(self.scales)

    def zeros_or_usual(self):
        """Zero points in fp32."""
        if self.zeros is not None:
            return self.zeros.float()
        return torch.full_like(self.scales, ZERO_POINT)

    def _wide(self, of_groups):
        """A value for each k."""
        return of_groups.repeat_interleave(self.case.group, 1)[
            :, :self.codes.shape[1]]

    def kiln_operands(self):
        """By name, in Kiln's order."""
        case = self.case
        operands = {"b": packed_codes(self.codes, WEIGHT_BITS[case.dtype_b])}
        if case.scale_type == "e8m0":
            scales = (self.exponents + 127).to(torch.uint8)
        else:
            scales = self.scales.to(TYPES[case.scale_type])
        operands["scale_b"] = packed_scales(scales)
        if self.zeros is not None:
            operands["zero_b"] = packed_scales(self.zeros)
        return operands

    def torch_operands(self):
        """The existing operands that functions_of() takes besides a."""
        case = self.case
        operands = {"dense": self.values().to(TYPES[case.dtype])}
        if has_int4(case):
            # The even k of a byte is in its upper half.
            pairs = self.codes[:, 0::2] << 4 | self.codes[:, 1::2]
            operands["int4"] = torch._convert_weight_to_int4pack(
                pairs.contiguous(), INNER_K_TILES)
            # torch multiplies code - 8 by the scale, and adds.
            shift = (ZERO_POINT - self.zeros_or_usual()) * self.scales
            operands["scales_and_zeros"] = torch.stack(
                [self.scales.t(), shift.t()], 2).bfloat16().contiguous()
        if has_int8(case):
            operands["int8"] = self.codes.view(torch.int8)
            operands["scales"] = self.scales[:, 0].to(TYPES[case.dtype])
        return operands


def packed_codes(codes, bits):
    """[n / 64][k / 64][bytes of a block], of codes (n, k)."""
    n, k = codes.shape
    rows, depths = n // PACKED_BLOCK, k // PACKED_BLOCK
    if bits == 4:
        # Rows: block, unit, r / 8, r % 8. k: block, step, c / 8, c % 8 / 2,
        # c % 2.
        parts = codes.view(rows, 4, 2, 8, depths, 4, 2, 4, 2)
        # A word has the halves c % 2, in them c / 8, and in those r / 8.
        parts = parts.permute(0, 4, 1, 3, 7, 5, 8, 6, 2)
        parts = parts[..., 0] | parts[..., 1] << 4
    else:
        # k: block, half, step of the half, c / 8, c % 8 / 2, c % 2.
        parts = codes.view(rows, 4, 2, 8, depths, 2, 2, 2, 4, 2)
        parts = parts.permute(0, 4, 1, 5, 3, 8, 6, 7, 9, 2)
    return parts.reshape(rows, depths, PACKED_BLOCK ** 2 * bits // 8) \
        .contiguous()


def packed_scales(scales):
    """[n / 64][groups][64], of scales (n, groups)."""
    n, groups = scales.shape
    # Rows: block, unit, r / 8, r % 8.
    parts = scales.view(n // PACKED_BLOCK, 4, 2, 8, groups)
    return parts.permute(0, 4, 1, 3, 2).reshape(
        n // PACKED_BLOCK, groups, PACKED_BLOCK).contiguous()


def make_copy(case, generator):
    """(Kiln's inputs, torch's inputs, the weights) of one copy."""
    m, _, k = case.extents
    a = torch.empty((m, k), device=generator.device).normal_(
        generator=generator).to(TYPES[case.dtype])
    weights = Weights(case, generator)
    return ({"a": a, **weights.kiln_operands()},
            {"a": a, **weights.torch_operands()}, weights)


#===------------------------------------------------------------------------===#
# torch's functions
#===------------------------------------------------------------------------===#


def has_int4(case):
    return (case.dtype_b == "int4" and case.dtype == "bf16"
            and case.group in TORCH_GROUPS
            and case.extents[2] % (16 * INNER_K_TILES) == 0
            and hasattr(torch, "_weight_int4pack_mm")
            and hasattr(torch, "_convert_weight_to_int4pack"))


def has_int8(case):
    return (case.dtype_b == "int8" and case.get("scale_b") == "row"
            and hasattr(torch, "_weight_int8pack_mm"))


def functions_of(case):
    """{side: function of torch's inputs by name}. "dense" multiplies weights
    that are decoded beforehand, and take as many bytes as A's type does."""
    group = case.group
    functions = {}
    if has_int4(case):
        functions["int4_mm"] = lambda a, int4, scales_and_zeros, **_: \
            torch._weight_int4pack_mm(a, int4, group, scales_and_zeros)
    if has_int8(case):
        functions["int8_mm"] = lambda a, int8, scales, **_: \
            torch._weight_int8pack_mm(a, int8, scales)
    functions["dense"] = lambda a, dense, **_: torch.matmul(a, dense.t())
    return functions


def reference_of(case, a, weights, rows):
    """(results of some rows, their sums of |a*b|), in fp32."""
    values, chosen = weights.values(), a[rows].float()
    return chosen @ values.t(), chosen.abs() @ values.abs().t()
