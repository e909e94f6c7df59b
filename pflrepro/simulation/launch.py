"""What a backend is given and what it gives back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch

from pflrepro.algorithms.phases import Phase
from pflrepro.algorithms.task import Differentiate, Each, Settled
from pflrepro.simulation.program import Program
from pflrepro.simulation.schedule import Table
from pflrepro.trees import Tree


@dataclass
class Launch:
    """Rows of one or several seeds that work side by side.

    Attributes:
        received: one tree a seed.
        seed_of: [m] which of them a row received.
        rows: the rows, stacked [m, ...].
        keys: (seed, client) of each row, for messages.
        phases, tables: the phases in order, with the batches of each row.
        test: the test batches.
        scalars: phase name -> device scalars; "" for the functions outside of phases.
        adapt: phases that a copy goes through before it is tested, with their tables.
        t: the round.
        score_after: test after local training.
        score_absent: test, adapted, the model that an absent client would have.
        arranged: seed's place -> `received` as the loop backend trains with it, kept while the launch lasts.
    """

    received: list[Tree]
    seed_of: np.ndarray
    rows: Tree
    keys: list[tuple[int, int]]
    phases: list[Phase] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    adapt: list[Phase] = field(default_factory=list)
    adapt_tables: list[Table] = field(default_factory=list)
    test: Table | None = None
    scalars: dict[str, Tree] = field(default_factory=dict)
    t: int = 0
    score_after: bool = False
    score_absent: bool = False
    arranged: dict[int, Tree] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)

    def row(self, i: int) -> tuple[Tree, Tree]:
        """(what row `i` received, the row)."""
        return self.received[int(self.seed_of[i])], self.rows[i]

    def work(self, adapting: bool = False) -> Iterator[tuple[Phase, Table]]:
        """The phases of local training with their batches, or those of `adapt`."""
        phases, tables = (self.adapt, self.adapt_tables) if adapting else (self.phases, self.tables)
        return zip(phases, tables, strict=True)

    def alone(self, rows: Sequence[int] | np.ndarray) -> Launch:
        """The launch with these rows of one seed, and only what that seed's rows received."""
        part, seed = self.part(np.asarray(rows)), int(self.seed_of[rows[0]])
        return replace(part, received=[self.received[seed]], seed_of=np.zeros(len(rows), np.int64))

    def part(self, chosen: np.ndarray) -> Launch:
        """The launch with only the rows `chosen`."""
        return Launch(
            received=self.received,
            seed_of=self.seed_of[chosen],
            rows=self.rows[torch.as_tensor(chosen)],
            keys=[self.keys[i] for i in chosen],
            phases=self.phases,
            tables=[table.part(chosen) for table in self.tables],
            adapt=self.adapt,
            adapt_tables=[table.part(chosen) for table in self.adapt_tables],
            test=self.test.part(chosen) if self.test is not None else None,
            scalars=self.scalars,
            t=self.t,
            score_after=self.score_after,
            score_absent=self.score_absent,
        )

    def chunks(self, rows: int | None) -> list[Launch]:
        """The launch in parts of at most so many rows (None: whole), in order."""
        if rows is None or len(self) <= rows:
            return [self]
        return [self.part(np.arange(start, min(start + rows, len(self)))) for start in range(0, len(self), rows)]


class Backend(Protocol):
    """How the rows of a launch are worked through; all backends give the same numbers within rounding."""

    name: str
    differentiate: Differentiate
    settled: Settled
    each: Each

    def participate(self, program: Program, launch: Launch) -> Tree:
        """Local training: a tree stacked over rows: `client`, `upload`, `kept`, `averaged`, `losses`, and scores `after`, `absent`."""
        ...

    def evaluate(self, program: Program, launch: Launch) -> Tree:
        """Tests before local training, after adaptation where the method adapts: `correct` [m] and `loss` [m]."""
        ...
