"""Common parts of the programs that time Kiln beside torch: Kiln's side of a
case, capture into CUDA graphs, and replays in turns.
"""
import collections
import contextlib
import gc
import time

import torch

import kiln_ctypes
from result_files import config_of

WARM_UP_CALLS = 3
# Clocks rise from idle while the graphs are replayed untimed for so long.
WARM_UP_S = 0.05
# About half a millisecond, more than the launch of a graph takes.
DELAY_CYCLES = 1_000_000


def current_stream():
    return torch.cuda.current_stream().cuda_stream


#===------------------------------------------------------------------------===#
# Sides
#===------------------------------------------------------------------------===#


class KilnSide:
    """Kiln's plan of a case, launched on torch's tensors and stream."""

    def __init__(self, engine, case, options):
        stream = current_stream()
        if options.mode == "tune":
            engine.prepare(case.text, stream, options.budget_ms, options.retune)
        query = engine.query(case.text, stream)
        self.plan = engine.plan(case.text, stream)
        self.description = self.plan.describe()
        self.config = config_of(self.description)
        self.source = kiln_ctypes.SOURCES.get(query.source, str(query.source))
        self.predicted_us = query.predicted_us
        self.workspace = self._make_workspace()
        self.arguments = []

    def _make_workspace(self):
        need = self.plan.workspace()
        if need.bytes == 0:
            return None
        # Blocks of torch's allocator are aligned to 512 bytes.
        self.memory = torch.zeros(need.bytes, dtype=torch.uint8, device="cuda")
        return kiln_ctypes.Workspace(
            flags=kiln_ctypes.WORKSPACE_ZEROED, data=self.memory.data_ptr(),
            bytes=need.bytes)

    def bind(self, case, inputs, outputs):
        """Takes the operands of every copy. Errors: RuntimeError if they are
        not those that the plan asks for."""
        slots = {operand.name: operand for operand in case.operands()}
        given = {operand.slot: operand.bytes for operand in slots.values()}
        for info in self.plan.operands():
            if info.bytes > given.get(info.slot, 0):
                raise RuntimeError(
                    f"the plan wants {info.bytes} bytes of "
                    f"{info.name.decode()} at slot {info.slot}, the case has "
                    f"{given.get(info.slot, 0)}")
        self.arguments = [
            kiln_ctypes.arguments_of(
                {slots[name].slot: tensor.data_ptr()
                 for name, tensor in {**copy_in, **copy_out}.items()})
            for copy_in, copy_out in zip(inputs, outputs)]

    def launch(self, copy):
        self.plan.launch(self.arguments[copy], current_stream(),
                         self.workspace)

    def close(self):
        self.plan.close()


def torch_launcher(function, inputs, copies):
    """launch(copy) that keeps the outputs of the last `copies` launches."""
    kept = collections.deque()

    def launch(copy):
        # Freed first, so that the new output takes the oldest one's block.
        if len(kept) == copies:
            kept.popleft()
        kept.append(function(**inputs[copy]))

    return launch


#===------------------------------------------------------------------------===#
# Timing
#===------------------------------------------------------------------------===#


def capture(launch, copies, launches):
    """A graph of launches that rotate over the copies."""
    for call in range(WARM_UP_CALLS):
        launch(call % copies)
    torch.cuda.synchronize()
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    # A tensor or graph that is collected now would end the capture. This is
    # also why torch.cuda.graph is not used: it collects first, each time.
    gc.disable()
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for index in range(launches):
                    launch(index % copies)
            except BaseException:
                with contextlib.suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()
    finally:
        gc.enable()
    torch.cuda.synchronize()
    return graph


def warm_up(graphs):
    """Replays everything untimed, so that clocks and graphs are ready."""
    end = time.perf_counter() + WARM_UP_S
    while True:
        for graph in graphs.values():
            graph.replay()
        torch.cuda.synchronize()
        if time.perf_counter() >= end:
            return


def delay():
    """Keeps the GPU busy while the host gets ahead."""
    sleep = getattr(torch.cuda, "_sleep", None)
    if sleep is not None:
        sleep(DELAY_CYCLES)


def time_graphs(graphs, rounds, launches, gap_s=0, before=None):
    """{side: microseconds of one launch, one per round}. With a gap the device
    idles for so long before each replay, so that sides that draw much power
    keep their clock. `before` enqueues work that precedes each timed replay."""
    warm_up(graphs)
    marks = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            if gap_s > 0:
                torch.cuda.synchronize()
                time.sleep(gap_s)
            if before is not None:
                before()
            delay()
            pair[0].record()
            graph.replay()
            pair[1].record()
            marks[name].append(pair)
    torch.cuda.synchronize()
    return {name: [1e3 * begin.elapsed_time(end) / launches
                   for begin, end in pairs]
            for name, pairs in marks.items()}
