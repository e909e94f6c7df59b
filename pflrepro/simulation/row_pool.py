"""Rows of a launch, each worked through here or, where that takes less time, in worker processes."""

from __future__ import annotations

import time

import numpy as np
import torch

from pflrepro.simulation.launch import Launch
from pflrepro.simulation.program import Program
from pflrepro.simulation.workers import Work, Workers
from pflrepro.trees import Tree, stack

ROW_OVERHEAD = 0.02  # seconds to hand one row to a worker and to take its result back (measured for cnn4: 0.01 to 0.02)


class RowPool:
    """Every row is worked through by one thread, here or in one of `workers` processes: the numbers do not depend on `workers`."""

    def __init__(self, workers: int) -> None:
        self.workers = Workers(workers)
        self._seconds: dict[str, float] = {}  # what one batch took, by kind of work

    def each(self, work: Work, program: Program, launch: Launch) -> Tree:
        """`work` for every row, the longest first so that the workers end together; results in row order."""
        load = sum(
            (table.steps for table in [*launch.tables, *launch.adapt_tables]), start=np.zeros(len(launch), np.int64)
        )
        if launch.test is not None:
            load = load + launch.test.steps
        order = [int(i) for i in np.argsort(-load, kind="stable")]
        results: dict[int, Tree] = {}
        with torch.no_grad():
            while order and (program.federation.device.type != "cpu" or not self._pays(program, work, load[order])):
                i = order.pop()  # the shortest: it also tells what a batch costs
                started = time.perf_counter()
                results[i] = work(program, launch, i)
                if load[i]:
                    self._seconds[work.__name__] = (time.perf_counter() - started) / load[i]
        if order:
            results |= self.workers.map(work, program, launch, order)
        return stack([results[i] for i in range(len(launch))])

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
