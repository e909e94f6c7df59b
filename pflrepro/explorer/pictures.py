"""Runs laid over each other: their curves, and what became of each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pflrepro.experiments.compare import Compared
from pflrepro.experiments.history import moment
from pflrepro.experiments.result import Run
from pflrepro.explorer.controls import image
from pflrepro.metrics.accuracy import per_client, per_client_after
from pflrepro.viz.clients import ClientCurves, client_map, size_scatter


def curves(runs: Mapping[str, Sequence[Run]], after: bool = False) -> str:
    """The curves of label -> runs, one a seed, as HTML; `after`: after local training."""
    return image(lambda: Compared(runs).curves(after), f"curves of {', '.join(runs)}")


def clients(runs: Mapping[str, Sequence[Run]], after: bool = False) -> str:
    """The clients of each label's first run, as HTML: accuracy against training samples, and over rounds."""
    said, tested = ", ".join(runs), {name: _tested(each[0], after) for name, each in runs.items()}
    measured = f"{Compared(runs).measured} {moment(after)}"
    return image(
        lambda: size_scatter(tested, measured), f"clients of {said}: accuracy against training samples"
    ) + image(lambda: client_map(tested, measured), f"clients of {said}: accuracy over rounds")


def _tested(run: Run, after: bool) -> ClientCurves:
    accuracy = (per_client_after if after else per_client)(run.history)
    return ClientCurves(run.history["round"], accuracy, run.history["train_samples"])
