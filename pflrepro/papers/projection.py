"""Features of one run, at several layers and moments, in one plane: kept as one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.experiments.result import Moment
from pflrepro.papers.measures import Evidence
from pflrepro.papers.model_measures import features_of

if TYPE_CHECKING:
    from pflrepro.metrics.representations import Features
    from pflrepro.simulation.simulation import Simulation


@dataclass(frozen=True, eq=False)
class Look:
    """What is looked at: a run's models at a moment, before or after a further local training, at a layer."""

    evidence: Evidence
    layer: str
    after: bool
    moment: Moment

    @property
    def state(self) -> tuple[str, int]:
        """(run, round)."""
        return self.evidence.run.id, self.evidence.run.round_of(self.moment)


@dataclass(frozen=True, eq=False)
class Panel:
    """Points of a plane, float32 [n, 2], with class and client of each, int64 [n].

    Attributes:
        count: the number of clients.
    """

    points: np.ndarray
    labels: np.ndarray
    clients: np.ndarray
    count: int


def projected(looks: Sequence[Look], limit: int, perplexity: float, seed: int) -> list[Panel]:
    """One panel a look, all of one run and in one t-SNE; at most `limit` samples each, the same ones.

    The plane is moved and stretched, both axes alike, to a square of side 1: t-SNE's own unit means nothing.
    """
    first = looks[0]
    asked = [[*look.state, look.layer, look.after] for look in looks]
    options = {"shots": asked, "limit": limit, "perplexity": perplexity, "seed": seed}

    def take(simulation: Simulation) -> Mapping[str, Any]:
        from pflrepro.metrics.representations import tsne

        found = _collected(looks, simulation, {"limit": limit, "seed": seed})
        facts = {name: np.concatenate([getattr(each, name) for each in found]) for name in ("labels", "clients")}
        small = {name: values.astype(np.min_scalar_type(values.max())) for name, values in facts.items()}
        points = np.concatenate(tsne(found, perplexity, seed)).astype(np.float32)
        sizes, counts = [len(each.labels) for each in found], [each.count for each in found]
        return small | {"points": points, "sizes": sizes, "counts": counts}

    kept = first.evidence.reading("plane", first.moment, take, **options)
    ends = np.cumsum(kept["sizes"])[:-1]
    parts = [np.split(values, ends) for values in (_unit(kept["points"]), kept["labels"], kept["clients"])]
    return [
        Panel(points, labels.astype(np.int64), clients.astype(np.int64), int(count))
        for points, labels, clients, count in zip(*parts, kept["counts"], strict=True)
    ]


def _unit(points: np.ndarray) -> np.ndarray:
    low, high = points.min(0), points.max(0)
    return 0.5 + (points - (low + high) / 2) / (high - low).max()


def _collected(looks: Sequence[Look], simulation: Simulation, options: Mapping[str, Any]) -> list[Features]:
    """The features of every look; each state is revived once, one after the other, the first being `simulation`."""
    found: dict[int, Features] = {}
    for state in dict.fromkeys(look.state for look in looks):
        mine = [place for place, look in enumerate(looks) if look.state == state]
        at = simulation if 0 in mine else looks[mine[0]].evidence.simulation(state[1])
        for place in mine:
            look = looks[place]
            found[place] = features_of(look.evidence, at, look.layer, after=look.after, **options)
    return [found[place] for place in range(len(looks))]
