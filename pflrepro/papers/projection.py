"""Features of one run, at several layers, before and after local training, in one plane: kept as one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.papers.measures import Evidence
from pflrepro.papers.model_measures import SEED, features_of

if TYPE_CHECKING:
    from pflrepro.simulation.simulation import Simulation

Look = tuple[str, bool]  # a layer; whether after a further local training


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


def projected(evidence: Evidence, looks: Sequence[Look], limit: int, perplexity: float) -> list[Panel]:
    """One panel a look at the models of a run, all in one t-SNE; at most `limit` samples each, the same ones.

    The plane is moved and stretched, both axes alike, to a square of side 1: t-SNE's own unit means nothing.
    """
    how = {"limit": limit, "seed": SEED}

    def take(simulation: Simulation) -> Mapping[str, Any]:
        from pflrepro.metrics.representations import tsne

        found = [features_of(evidence, simulation, layer, after=after, **how) for layer, after in looks]
        facts = {name: np.concatenate([getattr(each, name) for each in found]) for name in ("labels", "clients")}
        small = {name: values.astype(np.min_scalar_type(values.max())) for name, values in facts.items()}
        points = np.concatenate(tsne(found, perplexity, SEED)).astype(np.float32)
        sizes, counts = [len(each.labels) for each in found], [each.count for each in found]
        return small | {"points": points, "sizes": sizes, "counts": counts}

    shots = [[*evidence.state, *look] for look in looks]
    kept = evidence.reading("plane", take, shots=shots, perplexity=perplexity, **how)
    ends = np.cumsum(kept["sizes"])[:-1]
    parts = [np.split(values, ends) for values in (_unit(kept["points"]), kept["labels"], kept["clients"])]
    return [
        Panel(points, labels.astype(np.int64), clients.astype(np.int64), int(count))
        for points, labels, clients, count in zip(*parts, kept["counts"], strict=True)
    ]


def _unit(points: np.ndarray) -> np.ndarray:
    low, high = points.min(0), points.max(0)
    return 0.5 + (points - (low + high) / 2) / (high - low).max()
