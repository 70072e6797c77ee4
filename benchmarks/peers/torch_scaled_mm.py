"""PyTorch code, as a user writes it, for a product of fp8 or int8, and the
check of all results against fp32 arithmetic.
"""
import torch

from low_precision_cases import BLOCK

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
         "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
         "int8": torch.int8}

# Rows of a result that are checked, from the first to the last.
CHECKED_ROWS = 128
# Errors that a result may have, relative to itself (its rounding) and to the
# sum of |a*b|.
# Data have both signs, so that narrow sums stay far below it.
RELATIVE = {torch.bfloat16: 2.0 ** -7, torch.float16: 2.0 ** -10,
            torch.float32: 2.0 ** -18, torch.int32: 2.0 ** -20}
OF_MAGNITUDE = 2.0 ** -10


#===------------------------------------------------------------------------===#
# Data
#===------------------------------------------------------------------------===#


def make_operand(operand, generator):
    """N(0, 1), of int8 40 times that, and scales that are powers of two."""
    values = torch.empty(operand.shape, device="cuda").normal_(
        generator=generator)
    if operand.name.startswith("scale"):
        return torch.exp2(torch.round(values - 2))
    if operand.dtype == "int8":
        values = torch.clamp(torch.round(values * 40), -127, 127)
    return values.to(TYPES[operand.dtype])


#===------------------------------------------------------------------------===#
# torch's functions
#===------------------------------------------------------------------------===#


def recipe(kind):
    """torch's name for block scales, which has changed once."""
    from torch.nn.functional import ScalingType
    names = {"1x128": ("BlockWise1x128", "Blockwise_1x128"),
             "128x128": ("BlockWise128x128", "Blockwise_128x128")}[kind]
    return next(getattr(ScalingType, name) for name in names
                if hasattr(ScalingType, name))


def as_torch_takes_it(scales, tensor):
    """Scales of blocks as (rows, steps of k). Errors: RuntimeError if they do
    not lie as cuBLASLt reads them, of which it is told nothing."""
    if scales.kind == "1x128":
        if not scales.by_rows or scales.ld != scales.rows or scales.rows % 4:
            raise RuntimeError("torch takes scales of 1x128 by rows, without "
                               "gaps, of a multiple of 4 rows")
        return tensor.t()
    if scales.by_rows or scales.ld != -(-scales.depths // 4) * 4:
        raise RuntimeError("torch takes scales of 128x128 along k, in lines "
                           "of a multiple of 4")
    return tensor


def blockwise_function(case, out):
    """scaled_mm where torch has it, else _scaled_mm, which sees the recipe by
    the shapes."""
    ofa, ofb = case.scales("a"), case.scales("b")
    functional = getattr(torch.nn.functional, "scaled_mm", None)
    if functional is None:
        return lambda a, b, scale_a, scale_b: torch._scaled_mm(
            a, b.t(), scale_a=as_torch_takes_it(ofa, scale_a),
            scale_b=as_torch_takes_it(ofb, scale_b).t(), out_dtype=out)
    recipes = [recipe(ofa.kind), recipe(ofb.kind)]
    return lambda a, b, scale_a, scale_b: functional(
        a, b.t(), as_torch_takes_it(ofa, scale_a), recipes[0],
        as_torch_takes_it(ofb, scale_b).t(), recipes[1], output_dtype=out)


def functions_of(case):
    """{side: function of the operands by name}. "scaled_mm" computes the case;
    "int_mm" the int32 sums alone."""
    if case.dtype == "int8":
        return {"int_mm": lambda a, b, **scales: torch._int_mm(a, b.t())}
    out, fast = TYPES[case.out], case.sums_fast
    if case.scheme == ("1x128", "128x128"):
        return {"scaled_mm": blockwise_function(case, out)}
    if case.scheme == ("row", "row"):
        return {"scaled_mm": lambda a, b, scale_a, scale_b: torch._scaled_mm(
            a, b.t(), scale_a=scale_a[:, None], scale_b=scale_b[None, :],
            out_dtype=out, use_fast_accum=fast)}
    if case.scheme == ("tensor", "tensor"):
        return {"scaled_mm": lambda a, b, scale_a, scale_b: torch._scaled_mm(
            a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=out,
            use_fast_accum=fast)}
    raise RuntimeError(f"torch has no product with scales {case.scheme}")


#===------------------------------------------------------------------------===#
# Check
#===------------------------------------------------------------------------===#


def spread_scales(scales, tensor, rows, depth):
    """One factor for each of so many rows and steps of k."""
    if scales is None:
        return 1.0
    if scales.kind == "tensor":
        return tensor
    if scales.kind == "row":
        return tensor[:, None]
    if scales.by_rows:
        tensor = tensor.t()
    tensor = tensor[:scales.rows, :scales.depths]
    wide = tensor.repeat_interleave(scales.block_rows, 0)[:rows]
    return wide.repeat_interleave(BLOCK, 1)[:, :depth]


def checked_rows(m):
    """The rows of a result that are checked."""
    return torch.linspace(0, m - 1, min(m, CHECKED_ROWS),
                          device="cuda").round().long()


def reference_of(case, inputs, rows, with_scales=True):
    """(results of some rows, their sums of |a*b|), in fp32."""
    m, n, k = case.extents

    def factor(which, extent):
        values = inputs[which].float()
        if not with_scales:
            return values
        return values * spread_scales(case.scales(which),
                                      inputs.get(f"scale_{which}"), extent, k)

    a, b = factor("a", m)[rows], factor("b", n)
    return a @ b.t(), a.abs() @ b.abs().t()


def faults_of(result, rows, expected, magnitude):
    """The faults of some rows of a result, a list of texts."""
    found = result[rows].float()
    allowed = (RELATIVE[result.dtype] * expected.abs()
               + OF_MAGNITUDE * magnitude)
    # Not a number is a fault, too.
    wrong = ~((found - expected).abs() <= allowed)
    if not wrong.any():
        return []
    row, col = (int(index) for index in wrong.nonzero()[0])
    return [f"{int(wrong.sum())} of {wrong.numel()} elements; row "
            f"{int(rows[row])}, column {col}: {found[row, col].item():.6g} "
            f"for {expected[row, col].item():.6g}"]
