"""Which plans Kiln launches for a model, in each of the states that an engine
may meet it in, and what it costs to get there. Times no kernel, and needs no
torch: default_mode_models.py does the rest.

Each state is an engine with a cache of its own, which meets the cases of a
model one after another, as the engine of a server does.
"""
import contextlib
import dataclasses
import random
import statistics
import threading
import time

import kiln_ctypes
from default_mode_cases import LARGEST
from result_files import config_of


@dataclasses.dataclass(frozen=True)
class State:
    mode: str
    what: str
    ascending: bool = False  # order of the first calls; else at random
    prepares: bool = False
    from_pool: bool = False


STATES = {
    "predict": State("predict", "mode predict, empty cache"),
    "tune": State("tune", "mode tune, empty cache"),
    "tune ascending": State("tune", "mode tune, empty cache, small m first",
                            ascending=True),
    "prepared": State("tune", f"mode tune, kiln_prepare over m = 1..{LARGEST}",
                      prepares=True),
    "strict": State("strict", "mode strict, a cache with a pool",
                    from_pool=True),
}


@dataclasses.dataclass
class Choice:
    """A plan that serves a case. Two with the same key do the same."""

    plan: kiln_ctypes.Plan
    config: str
    workspace_bytes: int
    source: str

    @property
    def key(self):
        return self.config, self.workspace_bytes

    def row(self):
        return {"config": self.config, "workspace": self.workspace_bytes,
                "source": self.source}


@dataclasses.dataclass
class Meeting:
    """The first call of a case: its choice, or why it failed."""

    seconds: float
    compiles: int
    trials: int
    choice: Choice = None
    error: str = None
    missing: bool = False  # strict mode has no kernel
    later: Choice = None   # at the end of all first calls, where it is another

    def row(self):
        row = {"first_call_s": round(self.seconds, 6),
               "compiles": self.compiles, "trials": self.trials}
        if self.error:
            row["error"] = self.error[:500]
        return row | (self.choice.row() if self.choice else {})


class LoadedConfigs:
    """Hears which configs an engine loads; for Engine(event=)."""

    def __init__(self):
        self._lock = threading.Lock()
        self._configs = set()

    def __call__(self, event):
        if event.kind == kiln_ctypes.EVENT_LOADED and event.status == 0:
            with self._lock:
                self._configs.add(event.config)

    def take(self):
        """How many different ones since the last call."""
        with self._lock:
            taken, self._configs = self._configs, set()
        return len(taken)


class StateRun:
    """One engine of a state. close() it behind the last use of its plans."""

    def __init__(self, library, name, folder, stream, **options):
        """`folder` is its cache; that of a pool is only read."""
        self.state = STATES[name]
        self.stream = stream
        self.loaded = LoadedConfigs()
        self.prepared = []  # a row for each layer
        self.meetings = {}
        self.skipped = None
        if self.state.from_pool:
            options["flags"] = (options.get("flags", 0) |
                                kiln_ctypes.ENGINE_READ_ONLY)
        self.engine = kiln_ctypes.Engine(library, mode=self.state.mode,
                                         cache_dir=folder, event=self.loaded,
                                         **options)

    def run(self, model, seed):
        """Prepares the layers if the state does, then meets all cases. Takes
        what the state takes: milliseconds to seconds for each layer or case."""
        if self.state.prepares:
            for layer in model.layers:
                self.prepared.append(self._prepare(layer))
        for case in self._order(model, seed):
            self.meetings[case] = self._meet(case)
        if all(meeting.missing for meeting in self.meetings.values()):
            self.skipped = "its cache has no kernel for any of the cases"
        for case, meeting in self.meetings.items():
            if meeting.choice:
                meeting.later = self._later(case, meeting.choice)

    def close(self):
        for meeting in self.meetings.values():
            for choice in (meeting.choice, meeting.later):
                if choice:
                    choice.plan.close()
        self.engine.close()

    def summary(self):
        """The cost of the state, for the result."""
        if self.skipped:
            return {"skipped": self.skipped}
        counts = self.engine.statistics()
        seconds = [meeting.seconds for meeting in self.meetings.values()]
        row = {"calls": len(self.meetings),
               "failed": sum(not meeting.choice
                             for meeting in self.meetings.values()),
               "changed_later": sum(bool(meeting.later)
                                    for meeting in self.meetings.values()),
               "first_call_s": {"sum": round(sum(seconds), 3),
                                "median": round(statistics.median(seconds), 6),
                                "most": round(max(seconds), 6)},
               "compiles": counts.compiles, "trials": counts.trials,
               "trial_failures": counts.trial_failures}
        if self.state.prepares:
            row["layers"] = self.prepared
        return row

    def _order(self, model, seed):
        cases = list(model.cases)
        random.Random(f"{seed}/{model.name}/order").shuffle(cases)
        if self.state.ascending:
            cases.sort(key=lambda case: case.m)
        return cases

    @contextlib.contextmanager
    def _costs(self):
        """A dict that has the seconds, compilations and trials in the end."""
        before, costs = self.engine.statistics(), {}
        begin = time.perf_counter()
        try:
            yield costs
        finally:
            costs["seconds"] = time.perf_counter() - begin
            after = self.engine.statistics()
            for name in ("compiles", "trials"):
                costs[name] = getattr(after, name) - getattr(before, name)

    def _prepare(self, layer):
        row = {"layer": layer.name}
        self.loaded.take()
        with self._costs() as costs:
            try:
                self.engine.prepare(layer.text(LARGEST), self.stream,
                                    ranges={"m": (1, LARGEST)})
            except kiln_ctypes.KilnError as error:
                row["error"] = str(error)[:500]
        return row | {"s": round(costs.pop("seconds"), 3), **costs,
                      "kernels": self.loaded.take()}

    def _meet(self, case):
        plan = failure = None
        with self._costs() as costs:
            try:
                plan = self.engine.plan(case.text, self.stream)
            except kiln_ctypes.KilnError as error:
                failure = error
        if failure:
            return Meeting(**costs, error=str(failure),
                           missing=failure.status == "missing")
        return Meeting(**costs, choice=self._choice_of(case, plan))

    def _choice_of(self, case, plan):
        query = self.engine.query(case.text, self.stream)
        return Choice(plan, config_of(plan.describe()), plan.workspace().bytes,
                      kiln_ctypes.SOURCES.get(query.source, str(query.source)))

    def _later(self, case, first):
        """The choice of now if it differs from the first."""
        now = self._choice_of(case, self.engine.plan(case.text, self.stream))
        if now.key != first.key:
            return now
        now.plan.close()
        return None
