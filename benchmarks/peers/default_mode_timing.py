"""Times the plans of one case and cuBLASLt's own choice, all sides interleaved,
and asks fp64 which side is wrong where results differ. Part of
default_mode_models.py.
"""
import math
import os
import statistics

# As much as kiln bench gives it, in KiB; read when torch makes its handles.
os.environ.setdefault("CUBLASLT_WORKSPACE_SIZE", str(64 << 10))
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", f":{64 << 10}:1")

import torch  # noqa: E402

import kiln_ctypes  # noqa: E402
from interleaved import capture, current_stream, time_graphs  # noqa: E402

PEER = "cuBLASLt"
ROTATION_BYTES = 2 << 30
MOST_COPIES = 256
GRAPH_US = 2000
# How fast a launch is guessed to be at best (of an H200), for the number of
# launches of a graph.
FASTEST_FLOP_PER_US = 7e8
FASTEST_BYTES_PER_US = 4e6
FASTEST_LAUNCH_US = 3
# Elements of results that are compared at a time.
COMPARED_ELEMENTS = 1 << 26


def prefer_cublaslt():
    """torch.mm calls cuBLASLt, whose heuristic's first choice it runs."""
    torch.backends.cuda.preferred_blas_library("cublaslt")


class Memory:
    """The memory that the operands of all cases share. N(0, 1) data is made once:
    making it for each case would take longer than timing it."""

    def __init__(self, seed):
        self._generator = torch.Generator("cuda").manual_seed(seed)
        self._inputs = self._outputs = None

    def inputs(self, elements):
        """So many bf16 values or more, always the same."""
        if self._is_short(self._inputs, elements):
            self._inputs = None
            self._inputs = self._allocate(elements).normal_(
                generator=self._generator)
        return self._inputs

    def outputs(self, elements):
        """Room for so many bf16 results or more, always the same."""
        if self._is_short(self._outputs, elements):
            self._outputs = None
            self._outputs = self._allocate(elements)
        return self._outputs

    @staticmethod
    def _is_short(memory, elements):
        return memory is None or memory.numel() < elements

    @staticmethod
    def _allocate(elements):
        # Memory that was too small goes back to the driver, for Kiln's trials.
        torch.cuda.empty_cache()
        return torch.empty(max(elements, ROTATION_BYTES // 2), device="cuda",
                           dtype=torch.bfloat16)


def carve(memory, at, rows, columns):
    """A packed matrix in the memory from the element `at` on, and where the
    next one begins: at a multiple of 512 bytes."""
    end = at + rows * columns
    return memory[at:end].view(rows, columns), (end + 255) // 256 * 256


class Operands:
    """Copies of the operands of a case, which rotate."""

    def __init__(self, case, memory):
        self.m, self.n, self.k = case.m, case.layer.n, case.layer.k
        inputs = self.k * (self.m + self.n) + 512
        outputs = self.m * self.n + 256
        wanted = math.ceil(ROTATION_BYTES / (2 * (inputs + outputs)))
        self.copies = max(2, min(MOST_COPIES, wanted))
        given = memory.inputs(self.copies * inputs)
        results = memory.outputs(self.copies * outputs)
        self.a, self.b, self.d = [], [], []
        at = result_at = 0
        for _ in range(self.copies):
            a, at = carve(given, at, self.m, self.k)
            b, at = carve(given, at, self.n, self.k)
            d, result_at = carve(results, result_at, self.m, self.n)
            self.a.append(a)
            self.b.append(b)
            self.d.append(d)

    def launches(self):
        """Launches of a graph."""
        moved = 2 * (self.k * (self.m + self.n) + self.m * self.n)
        us = max(2 * self.m * self.n * self.k / FASTEST_FLOP_PER_US,
                 moved / FASTEST_BYTES_PER_US, FASTEST_LAUNCH_US)
        return math.ceil(GRAPH_US / us)

    def peer_launch(self, copy):
        torch.mm(self.a[copy], self.b[copy].t(), out=self.d[copy])

    def kiln_launch(self, plan):
        """A launcher of a plan, and what it needs to live."""
        arguments = [kiln_ctypes.arguments_of({
            0: a.data_ptr(), 1: b.data_ptr(), 3: d.data_ptr()})
            for a, b, d in zip(self.a, self.b, self.d)]
        need, memory, workspace = plan.workspace(), None, None
        if need.bytes:
            memory = torch.zeros(need.bytes, dtype=torch.uint8, device="cuda")
            workspace = kiln_ctypes.Workspace(
                flags=kiln_ctypes.WORKSPACE_ZEROED, data=memory.data_ptr(),
                bytes=need.bytes)
        return lambda copy: plan.launch(arguments[copy], current_stream(),
                                        workspace), memory


#===------------------------------------------------------------------------===#
# Results
#===------------------------------------------------------------------------===#


class Judge:
    """Says which sides are wrong. fp64 has the last word, at a sample of the
    elements and where a side differs most from the first one: those may be off
    by 2^-6 of themselves and of sqrt(k), the spread of all for N(0, 1) data. A
    block of k that is left out is off by more."""

    ROWS, COLUMNS = 64, 256

    def __init__(self, operands):
        self.a, self.b, self.d = operands.a[0], operands.b[0], operands.d[0]
        self.first = self.first_side = None
        self.off = {}  # by side: the largest error, 1 is what is allowed
        self.rows = self._spread(operands.m, self.ROWS)
        self.columns = self._spread(operands.n, self.COLUMNS)
        self.exact = self._exact(self.rows, self.columns)

    @staticmethod
    def _spread(size, count):
        return torch.linspace(0, size - 1, min(size, count),
                              device="cuda").long()

    def _exact(self, rows, columns):
        return self.a[rows].double() @ self.b[columns].double().t()

    def _off_by(self, found, exact):
        allowed = (exact.abs() + math.sqrt(self.a.shape[1])) / 64
        off = ((found.double() - exact).abs() / allowed).max().item()
        return math.inf if math.isnan(off) else off

    def add(self, side, launch):
        """Runs a side on poisoned memory and judges it."""
        self.d.fill_(math.nan)
        launch(0)
        self.off[side] = self._off_by(self.d[self.rows][:, self.columns],
                                      self.exact)
        if self.first is None:
            self.first, self.first_side = self.d.clone(), side
            return
        row, column = self._farthest()
        exact = self._exact(row, column)
        for name, found in ((side, self.d), (self.first_side, self.first)):
            self.off[name] = max(self.off[name],
                                 self._off_by(found[row, column], exact))

    def _farthest(self):
        """Where the result differs most from the first, as two indices."""
        rows = max(1, COMPARED_ELEMENTS // self.d.shape[1])
        most, place = -1.0, (0, 0)
        for begin in range(0, self.d.shape[0], rows):
            part = (self.d[begin:begin + rows].float() -
                    self.first[begin:begin + rows].float()).abs()
            # Elements that were not written differ most.
            value, index = part.nan_to_num_(nan=math.inf).flatten().max(0)
            if value.item() > most:
                row, column = divmod(index.item(), part.shape[1])
                most, place = value.item(), (begin + row, column)
        return tuple(torch.tensor([index], device="cuda") for index in place)

    def wrong(self):
        return sorted(side for side, off in self.off.items() if off > 1)


#===------------------------------------------------------------------------===#
# One case
#===------------------------------------------------------------------------===#


def time_case(case, plans, memory, rounds, gap_s):
    """({side: {"us", "spread"}}, wrong sides) of cuBLASLt and of each plan, by
    the name of its side. Waits for the device; some 0.2 s."""
    operands = Operands(case, memory)
    launches, held = {PEER: operands.peer_launch}, []
    for side, plan in plans.items():
        launches[side], workspace = operands.kiln_launch(plan)
        held.append(workspace)
    judge = Judge(operands)
    for side, launch in reversed(launches.items()):
        judge.add(side, launch)
    judge.first = None
    count = operands.launches()
    graphs = {side: capture(launch, operands.copies, count)
              for side, launch in launches.items()}
    times = time_graphs(graphs, rounds, count, gap_s)
    rows = {side: {"us": round(statistics.median(each), 3),
                   "spread": round((max(each) - min(each)) /
                                   statistics.median(each), 4)}
            for side, each in times.items()}
    return rows, judge.wrong()


def machine():
    """The machine, for the result."""
    return {"gpu": torch.cuda.get_device_name(0), "cuda": torch.version.cuda,
            "torch": torch.__version__}


def start():
    """Makes the device's context, Kiln's too, current; its stream."""
    torch.zeros(1, device="cuda")
    prefer_cublaslt()
    return current_stream()
