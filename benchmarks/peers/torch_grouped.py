#!/usr/bin/env python3
"""Times Kiln against PyTorch and Triton on the grouped GEMMs of MoE:
torch._grouped_mm (bf16), torch._scaled_grouped_mm (fp8 with per-token scales),
a loop of torch's products, and a plain Triton kernel for bf16. One GPU, one
process, the same inputs for all sides.

  python3 benchmarks/peers/torch_grouped.py --commit COMMIT --out result.json

product_runs.py says how it is timed. Sizes of groups are in device memory for
Kiln, torch's grouped products and Triton; the loop has them on the host, as a
program without a grouped product would after waiting for them. fp8 with block
scales, masked groups and packed weights have no peer here: their rates stand
alone. Functions that torch lacks, and omitted cases, are named on stderr.
"""
import sys

import torch

import grouped_cases
import product_runs
import torch_packed
import torch_scaled_mm
from interleaved import current_stream
from result_files import parse_with_result

try:
    import triton_grouped
except ImportError:
    triton_grouped = None

TYPES = torch_scaled_mm.TYPES | {"int32": torch.int32, "uint8": torch.uint8}

CHECKED_ROWS = 96


#===------------------------------------------------------------------------===#
# Data
#===------------------------------------------------------------------------===#


class GroupWeights:
    """One group's weight as a case, as torch_packed.Weights needs it."""

    def __init__(self, case):
        self.extents = (1, case.n, case.k)
        self.dtype = case.dtype
        self.dtype_b = grouped_cases.TYPES_B[case.scheme]
        self.group = grouped_cases.WEIGHT_GROUPS[case.scheme]
        self.scale_type = "e8m0" if case.scheme == "mxfp4" else "fp16"

    def get(self, key, default=None):
        return default


def normal(shape, dtype, generator):
    """N(0, 1); a large array is made in parts, for its fp32 numbers are larger
    still."""
    made = torch.empty(shape, device=generator.device, dtype=dtype)
    for part in (made if len(shape) > 2 else [made]):
        part.copy_(torch.empty(part.shape, device=generator.device).normal_(
            generator=generator))
    return made


def powers_of_two(shape, generator):
    return torch.exp2(torch.round(normal(shape, torch.float32, generator) - 2))


def make_output(case):
    """Kiln's output by name, filled with NaN."""
    output = torch.empty((case.all_rows, case.n), device="cuda",
                         dtype=TYPES[case.out])
    output.view(torch.uint8).fill_(255)
    return {"d": output}


class Data:
    """Operands of each copy, and what the last copy's results should be."""

    def __init__(self, case, copies):
        self.case = case
        generator = torch.Generator(device="cuda").manual_seed(20240501)
        self.inputs, self.outputs, self._packed = [], [], []
        sizes = torch.tensor(case.sizes, dtype=torch.int32, device="cuda")
        for _ in range(copies):
            inputs = {"group_sizes": sizes.clone(),
                      "a": normal((case.all_rows, case.k), TYPES[case.dtype],
                                  generator)}
            if case.is_packed:
                inputs |= self._packed_weights(generator)
            else:
                inputs |= {
                    operand.name: powers_of_two(operand.shape, generator)
                    if operand.name.startswith("scale") else
                    normal(operand.shape, TYPES[operand.dtype], generator)
                    for operand in case.inputs()
                    if operand.name not in inputs}
            self.inputs.append(inputs)
            self.outputs.append(make_output(case))
        self.of_torch = self.inputs
        self._expected = None

    def _packed_weights(self, generator):
        """b and scale_b of all groups. The last ones are kept."""
        of_group = GroupWeights(self.case)
        self._packed = [torch_packed.Weights(of_group, generator)
                        for _ in range(self.case.groups)]
        made = [weights.kiln_operands() for weights in self._packed]
        return {name: torch.stack([operands[name] for operands in made])
                for name in made[0]}

    def faults_of(self, side, result):
        """The faults of the last copy's result, a list of texts."""
        if self._expected is None:
            self._expected = self._reference()
        return torch_scaled_mm.faults_of(result, *self._expected)

    def _reference(self):
        """(rows that are checked, their results, their sums of |a*b|)."""
        case, inputs = self.case, self.inputs[-1]
        rows = [(begin + i, group) for group, (begin, size) in
                enumerate(zip(case.begins, case.rows)) for i in range(size)]
        step = max(1, len(rows) // CHECKED_ROWS)
        # The last row, too.
        chosen = rows[::step] + rows[-1:]
        results, magnitudes, numbers = [], [], []
        for group in dict.fromkeys(group for _, group in chosen):
            mine = torch.tensor([row for row, of in chosen if of == group],
                                device="cuda")
            a, b = self._values(inputs, mine, group)
            numbers.append(mine)
            results.append(a @ b.t())
            magnitudes.append(a.abs() @ b.abs().t())
        return torch.cat(numbers), torch.cat(results), torch.cat(magnitudes)

    def _values(self, inputs, rows, group):
        """Some rows of A and a group's weight, with scales, in fp32."""
        case, a = self.case, inputs["a"][rows].float()
        if case.is_packed:
            return a, self._packed[group].values()
        b = inputs["b"][group].float()
        if case.scheme == "row":
            a = a * inputs["scale_a"][rows, None]
            b = b * inputs["scale_b"][group][:, None]
        elif case.scheme == "block":
            wide = inputs["scale_a"][rows].repeat_interleave(
                grouped_cases.BLOCK, 1)
            a = a * wide[:, :case.k]
            wide = inputs["scale_b"][group].repeat_interleave(
                grouped_cases.BLOCK, 0)[:case.n]
            b = b * wide.repeat_interleave(grouped_cases.BLOCK, 1)[:, :case.k]
        return a, b


#===------------------------------------------------------------------------===#
# torch's functions
#===------------------------------------------------------------------------===#


def loop_of(case, product):
    """product(a, b, group, begin, end, out) of each group that has rows."""
    groups = [(group, begin, begin + size) for group, (begin, size)
              in enumerate(zip(case.begins, case.rows)) if size]

    def loop(a, b, **others):
        d = torch.empty((a.shape[0], b.shape[1]), device=a.device,
                        dtype=torch.bfloat16)
        for group, begin, end in groups:
            product(a[begin:end], b[group].t(), group, begin, end,
                    d[begin:end], **others)
        return d

    return loop


def bf16_functions(case, data):
    functions = {
        "loop": loop_of(case, lambda a, b, group, begin, end, out, **_:
                        torch.mm(a, b, out=out))}
    if hasattr(torch, "_grouped_mm"):
        functions["grouped_mm"] = lambda a, b, group_sizes: torch._grouped_mm(
            a, b.transpose(-2, -1), offs=group_sizes)
    if triton_grouped is not None:
        last = data.inputs[-1]
        config = triton_grouped.fastest_of(
            last["a"], last["b"], last["group_sizes"],
            triton_grouped.candidates_of(
                sum(case.rows), sum(1 for size in case.rows if size)))
        functions["triton"] = lambda a, b, group_sizes: \
            triton_grouped.grouped(a, b, group_sizes, config)
    return functions


def row_functions(case):
    functions = {
        "loop": loop_of(
            case, lambda a, b, group, begin, end, out, scale_a, scale_b, **_:
            torch._scaled_mm(a, b, scale_a=scale_a[begin:end, None],
                             scale_b=scale_b[group][None, :],
                             out_dtype=torch.bfloat16, out=out))}
    if hasattr(torch, "_scaled_grouped_mm"):
        functions["scaled_grouped_mm"] = \
            lambda a, b, scale_a, scale_b, group_sizes: \
            torch._scaled_grouped_mm(
                a, b.transpose(-2, -1), scale_a, scale_b, offs=group_sizes,
                out_dtype=torch.bfloat16, use_fast_accum=False)
    return functions


class Grouped(product_runs.Sides):
    what = "grouped_torch"
    data = ("scales powers of two, groups' sizes as tokens are routed at "
            "random")
    sides = ("sizes are in device memory, sizes of torch's loop of "
             "products on the host")

    def missing(self):
        names = [name for name in ("_grouped_mm", "_scaled_grouped_mm")
                 if not hasattr(torch, name)]
        return names + ([] if triton_grouped else ["Triton beside it"])

    def held_bytes(self, case):
        # Outputs are each side's.
        return sum(operand.bytes * (4 if operand.output else 1)
                   for operand in case.operands())

    def make_data(self, case, copies):
        return Data(case, copies)

    def check_call(self, engine, case, data, kiln):
        """kiln_gemm(), where groups and scales are structs."""
        called = make_output(case)
        addresses = {name: tensor.data_ptr() for name, tensor
                     in {**data.inputs[-1], **called}.items()}
        engine.gemm(case.args(addresses), current_stream(), kiln.workspace)
        torch.cuda.synchronize()
        return ["kiln_gemm() differs"] \
            if data.faults_of("kiln", called["d"]) else []

    def functions_of(self, case, data):
        if case.kind != "ends" or case.scheme not in ("bf16", "row"):
            raise RuntimeError("no peer here for masked groups, scales of "
                               "blocks and packed weights")
        if case.scheme == "row":
            return row_functions(case)
        return bf16_functions(case, data)


def main():
    parser = product_runs.options_parser(__doc__.split("\n\n")[0])
    options = parse_with_result(parser)
    cases = grouped_cases.load_cases(options.filter, options.most)
    return product_runs.run(cases, Grouped(), options)


if __name__ == "__main__":
    sys.exit(main())
