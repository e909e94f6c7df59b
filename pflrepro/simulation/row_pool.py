"""Rows of a launch, each worked through here or, where that takes less time, in worker processes."""

from __future__ import annotations

import time

import numpy as np
import torch

from pflrepro.simulation.launch import Launch
from pflrepro.simulation.program import Program
from pflrepro.simulation.stacking import POSSIBLE, Rooms, Stacking
from pflrepro.simulation.workers import Work, Workers
from pflrepro.trees import Tree

GROUPS = 16  # at least so many a worker, where there are as many rows: all workers end within a few percent of the time
# seconds to hand one row to a worker and to have its result (measured for cnn4: 0.001 with FedAvg, 0.009 with Ditto, whose clients'
# models go there through a pipe; 0.02 where results come back through one)
ROW_OVERHEAD = 0.005 if POSSIBLE else 0.02


class RowPool:
    """Every row is worked through by one thread, here or in one of `workers` processes: the numbers do not depend on `workers`."""

    def __init__(self, workers: int) -> None:
        self.workers = Workers(workers)
        self._seconds: dict[str, float] = {}  # what one batch took, by kind of work
        self._rooms = Rooms()
        self._parts: dict[tuple[str, bool, bool], Tree] = {}  # of the latest stack, by kind of work

    def each(self, work: Work, program: Program, launch: Launch) -> Tree:
        """`work` for every row, the longest first so that the workers end together; results in row order."""
        load = sum(
            (table.steps for table in [*launch.tables, *launch.adapt_tables]), start=np.zeros(len(launch), np.int64)
        )
        if launch.test is not None:
            load = load + launch.test.steps
        order = [int(i) for i in np.argsort(-load, kind="stable")]
        on_cpu, name = program.federation.device.type == "cpu", work.__name__
        rooms = self._rooms if on_cpu and self.workers.count > 1 else None
        kind = (name, launch.score_after, launch.score_absent)
        results = Stacking(len(launch), rooms, self._parts.get(kind))
        with torch.no_grad():
            while order and not (on_cpu and self._pays(program, work, load[order])):
                i = order.pop()  # the shortest: it also tells what a batch costs
                started = time.perf_counter()
                results.put(i, work(program, launch, i))
                if load[i]:
                    self._seconds[name] = (time.perf_counter() - started) / load[i]
        if order:
            self.workers.stack(work, program, launch, self._groups(launch, order, load), results)
        self._parts[kind] = results.parts
        return results.stacked

    def _groups(self, launch: Launch, order: list[int], load: np.ndarray) -> list[list[int]]:
        """`order` in groups of one seed, the longest first: a long row alone, short ones together, to share what they received."""
        most = float(load[order].sum()) / (GROUPS * self.workers.count)
        groups: list[list[int]] = []
        for seed in sorted({int(launch.seed_of[i]) for i in order}):
            filled = np.inf
            for i in (i for i in order if launch.seed_of[i] == seed):
                filled += load[i]
                if filled > most:
                    groups.append([])
                    filled = load[i]
                groups[-1].append(i)
        return sorted(groups, key=lambda rows: -float(load[rows].sum()))

    def _pays(self, program: Program, work: Work, load: np.ndarray) -> bool:
        """Whether handing these rows to worker processes takes less time than working through them here."""
        seconds = self._seconds.get(work.__name__)
        return seconds is not None and self.duration(program, load, seconds) < seconds * float(load.sum())

    def duration(self, program: Program, load: np.ndarray, seconds: float) -> float:
        """Seconds for rows of `load` batches at `seconds` a batch: here, or by worker processes where that is shorter."""
        here, rows = seconds * float(load.sum()), len(load)
        if self.workers.count == 1 or rows < 2 or program.federation.device.type != "cpu":
            return here
        if program.method.server_store:  # every row would carry the models of all clients
            return here
        return min(here, here / min(self.workers.count, rows) + ROW_OVERHEAD * rows)
