"""Studies made by hand: an artefact, and cells whose curves and printed numbers are known, without any engine or store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from pflrepro.papers.artefact import SAME, SMOKE, Artefact, Column, Row, Scale, column, row
from pflrepro.papers.measures import Evidence
from pflrepro.papers.numbers import PublishedNumber
from pflrepro.papers.result import Cell
from pflrepro.papers.settings import CIFAR100_PRACTICAL, FMNIST_PRACTICAL

FEDAVG, FEDPER, DBE = row("FedAvg"), row("FedPer"), row("FedAvg+DBE", "fedavg+dbe")
A, B = column("a", FMNIST_PRACTICAL), column("b", CIFAR100_PRACTICAL)


def make_artefact(id: str = "dbe/table0", **changes: Any) -> Artefact:
    scales = (SMOKE, Scale("fast", "few"), Scale("paper", "all"))
    return Artefact(id, "A table", **({"rows": (FEDAVG, FEDPER, DBE), "columns": (A, B), "scales": scales} | changes))


def make_history(curve: Sequence[float], every: int = 1, seconds: float = 2.0) -> dict[str, np.ndarray]:
    """Two clients with 30 and 70 test samples and twice as many training samples; `curve`: percent of all that is right.

    Losses: curve / 10 of the first client, curve / 5 of the second, which has none before the third test; objectives are twice these.
    """
    right, tests = np.round(curve).astype(np.int64), np.arange(len(curve))
    correct = np.stack([right * 3 // 10, right - right * 3 // 10], 1)
    losses = np.stack([right / 10, np.where(tests < 2, np.nan, right / 5)], 1)
    return {
        "round": tests * every,
        "correct": correct,
        "correct_after": np.where((tests == 0)[:, None], -1, correct),
        "train_loss": losses,
        "objective": 2 * losses,
        "seconds": np.where(tests == 0, 0.0, seconds),
        "test_samples": np.array([30, 70]),
        "train_samples": np.array([60, 140]),
    }


def make_cell(row: Row, column: Column, curves: Sequence[Sequence[float]] = (), **more: Any) -> Cell:
    """A cell whose runs, one a seed, have these curves. printed: (value, spread); fidelity: of `papers.artefact.FIDELITIES`; `more`: of
    `make_history`."""
    printed, fidelity = more.pop("printed", None), more.pop("fidelity", SAME)
    runs = {seed: _run(make_history(curve, **more), column.setting.dataset) for seed, curve in enumerate(curves)}
    measure = row.measure or column.measure
    values = {seed: measure.of(Evidence(run, store=None)) for seed, run in runs.items()}
    number = None if printed is None else PublishedNumber(*printed, "source", "source", "")
    return Cell(row, column, measure, fidelity, number, values, runs)


def _run(history: Mapping[str, np.ndarray], dataset: str) -> Any:
    experiment = SimpleNamespace(data=SimpleNamespace(dataset=dataset))
    return SimpleNamespace(history=history, rounds=int(history["round"][-1]), experiment=experiment)


def make_study(artefact: Artefact, cells: Sequence[Cell] = (), scale: str = "paper", data_root: Any = None) -> Any:
    """What views ask a study; its rows and columns are those of the cells that have runs, or all."""
    by_key = {cell.key: cell for cell in cells}
    rows, columns = ({cell.key[place] for cell in cells if cell.runs} for place in (0, 1))
    return SimpleNamespace(
        artefact=artefact,
        scale=artefact.scale(scale),
        setting=lambda column: column.setting,
        cells=by_key,
        rows=tuple(each for each in artefact.rows if not rows or each.key in rows),
        columns=tuple(each for each in artefact.columns if not columns or each.key in columns),
        data_root=data_root,
        outcomes=(),
    )
