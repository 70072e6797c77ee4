#!/usr/bin/env python3
"""Times Kiln against PyTorch on products on packed weights of 4 and 8 bits
(torch._weight_int4pack_mm, torch._weight_int8pack_mm), of fp8 (torch._scaled_mm
with scales of tensors and rows, and of blocks where torch has them) and int8
(torch._int_mm). One GPU, one process, the same inputs for all sides.

  python3 benchmarks/peers/torch_low_precision.py --commit COMMIT --out out.json

product_runs.py says how it is timed. The default cases begin with int4 weights
at few rows; the others follow in an order that is spread over the suites, until
the time is up (--limit-s). Functions that torch lacks, and omitted cases, are
named on stderr.

Sums are fast in torch exactly where the problem says compute=fast_fp8.
torch._int_mm computes only int32 sums, Kiln's int8 result and scales besides:
such ratios favour torch. Beside packed weights torch.matmul runs on weights
that were decoded before ("dense"); no ratio counts it.
"""
import sys

import torch

import low_precision_cases
import product_runs
import torch_packed
import torch_scaled_mm
from interleaved import current_stream
from result_files import parse_with_result

# Functions that torch may lack.
PEERS = ("_scaled_mm", "_int_mm", "_weight_int4pack_mm",
         "_convert_weight_to_int4pack", "_weight_int8pack_mm")


class Data:
    """Operands of each copy, and what the last copy's results should be."""

    def __init__(self, case, copies):
        self.case = case
        generator = torch.Generator(device="cuda").manual_seed(20240501)
        self._weights = None
        self.inputs, self.of_torch, self.outputs = [], [], []
        for _ in range(copies):
            if case.is_packed:
                inputs, of_torch, self._weights = torch_packed.make_copy(
                    case, generator)
            else:
                inputs = of_torch = {
                    operand.name: torch_scaled_mm.make_operand(operand,
                                                               generator)
                    for operand in case.inputs()}
            self.inputs.append(inputs)
            self.of_torch.append(of_torch)
            self.outputs.append(make_output(case))
        self._expected = {}

    def faults_of(self, side, result):
        """The faults of the last copy's result, a list of texts."""
        case, has_scales = self.case, side != "int_mm"
        rows = torch_scaled_mm.checked_rows(case.extents[0])
        if has_scales not in self._expected:
            self._expected[has_scales] = torch_packed.reference_of(
                case, self.inputs[-1]["a"], self._weights, rows) \
                if case.is_packed else torch_scaled_mm.reference_of(
                    case, self.inputs[-1], rows, has_scales)
        return torch_scaled_mm.faults_of(result, rows,
                                         *self._expected[has_scales])


def make_output(case):
    """Kiln's outputs by name, filled with NaN."""
    outputs = {operand.name: torch.empty(
                   operand.shape, device="cuda",
                   dtype=torch_scaled_mm.TYPES[operand.dtype])
               for operand in case.outputs()}
    for output in outputs.values():
        output.view(torch.uint8).fill_(255)
    return outputs


class LowPrecision(product_runs.Sides):
    what = "low_precision_torch"
    data = "scales powers of two"
    sides = ("torch sums fast where the problem does; torch._int_mm computes "
             "the int32 sums alone; beside packed weights torch.matmul on "
             "weights that were decoded before is timed, and not counted")
    uncounted = ("dense",)

    def missing(self):
        names = [name for name in PEERS if not hasattr(torch, name)]
        if not hasattr(torch.nn.functional, "scaled_mm"):
            names.append("nn.functional.scaled_mm (blocks: _scaled_mm)")
        return names

    def held_bytes(self, case):
        # Each side has its outputs; int32 ones are larger.
        held = sum(operand.bytes * (4 if operand.output else 1)
                   for operand in case.operands())
        if case.is_packed:
            # torch's own order of the weights, and decoded ones.
            _, n, k = case.extents
            held += case.bytes + 2 * n * k
        return held

    def make_data(self, case, copies):
        return Data(case, copies)

    def functions_of(self, case, data):
        module = torch_packed if case.is_packed else torch_scaled_mm
        return module.functions_of(case)

    def check_call(self, engine, case, data, kiln):
        """kiln_gemm(), where scales are structs."""
        called = make_output(case)
        addresses = {name: tensor.data_ptr() for name, tensor
                     in {**data.inputs[-1], **called}.items()}
        engine.gemm(case.args(addresses), current_stream(), kiln.workspace)
        torch.cuda.synchronize()
        return ["kiln_gemm() differs"] \
            if data.faults_of("kiln", called["d"]) else []


def main():
    parser = product_runs.options_parser(__doc__.split("\n\n")[0])
    parser.add_argument("--suite", action="append",
                        help="may be given more than once; default: int4 "
                        "weights, then gemm_fp8.json and gemm_int8.json")
    options = parse_with_result(parser)
    cases = low_precision_cases.load_suites(options.suite, options.filter,
                                            options.most)
    return product_runs.run(cases, LowPrecision(), options)


if __name__ == "__main__":
    sys.exit(main())
