"""What is measured on the models of a run: each measure asks one question to the state after the last round, whose answer is kept.

A kept answer is read back without the models; see `Evidence.reading`. The modules that load the framework are imported where a
question is asked, so that declared artefacts load none. What needs predictions alone is in `prediction_measures`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.data.datasets import DATASETS
from pflrepro.data.partitions.parse import new_clients, parse
from pflrepro.errors import UserError, check_word
from pflrepro.experiments.config import DataConfig
from pflrepro.papers.measures import Evidence, Measure, Value

if TYPE_CHECKING:
    from pflrepro.metrics.representations import Features
    from pflrepro.simulation.simulation import Simulation

Arrays = Mapping[str, Any]
PERCENT = (0.0, 100.0)
LAST = "last round"  # the rule of all measures on models
POINTS = 5000  # samples of a picture, all clients together [inferred; DBE gives no number]
SEED = 0  # of their choice, and of what is drawn of them
# A probe that takes seconds on two cores instead of an hour with the papers': orders methods, its lengths are no published ones.
CHEAP_PROBE = {"hidden": (128, 128), "lr": 1e-3, "steps": 400, "sizes": 6, "seeds": 2}


def over_clients(values: np.ndarray, weights: np.ndarray | None = None, scale: float = 1.0) -> Value:
    """The mean over the clients that have a value (not NaN), weighted or plain, with the values of all; all times `scale`."""
    values = scale * np.asarray(values, np.float64)
    weights = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    there = ~np.isnan(values) & (weights > 0)
    if not there.any():
        return Value(float("nan"))
    number = float(np.average(values[there], weights=weights[there]))
    return Value(number, np.where(there, values, np.nan), np.where(there, weights, 0.0))


def stands_in(evidence: Evidence) -> bool:
    """Whether the run is on embedded data, which stand in for others: not all that a measure names is there."""
    return DATASETS[evidence.run.experiment.data.dataset].embedded


# ---- features --------------------------------------------------------------------------------------------------------------------
def features_of(evidence: Evidence, simulation: Simulation, layer: str, **options: Any) -> Features:
    """`representations.collect`; in the small network of a stand-in `features` for a layer that it lacks."""
    from pflrepro.metrics.representations import FEATURES, collect

    try:
        return collect(simulation, layer, **options)
    except UserError:
        if not stands_in(evidence):
            raise
        return collect(simulation, FEATURES, **options)


def mdl(
    layer: str,
    probe: Mapping[str, Any] | None = None,
    clients: int | None = None,
    after: bool = False,
    metric: str = "MDL_bits",
) -> Measure:
    """The mean over clients of the description length of a layer's features of their own test part, in nats [inferred].

    The papers print "bits" without a visible conversion: their values are taken for nats.

    Args:
        layer: see `representations.collect_layers`; taken without what a method adapts before its tests.
        probe: fields of `metrics.Probe` that differ from the papers', such as `CHEAP_PROBE`.
        clients: only the first so many.
        after: after a further local training.
    """
    options = {"probe": dict(probe or {}), "clients": clients, "after": after, "layer": layer}

    def of(evidence: Evidence) -> Value:
        seed = evidence.run.experiment.seed

        def take(simulation: Simulation) -> Arrays:
            from pflrepro.metrics.mdl import Probe, curves

            found = features_of(evidence, simulation, layer, limit=None, after=after, adapted=False)
            measured = curves(found.sets()[:clients], simulation.task.classes, Probe(**(probe or {})), seed=seed)
            return {"lengths": [np.nan if curve is None else curve.codelength() for curve in measured]}

        return over_clients(evidence.reading("mdl", take, seed=seed, **options)["lengths"])

    when = " after local training" if after else ""
    name = f"mdl-{layer}{'-after' if after else ''}"
    how = " by a cheap probe" if probe else ""
    whose = f" of the first {clients} clients" if clients else ""
    title = f"description length at {layer}{when}{how}{whose}"
    return Measure(name, title, of, "nats", 0, "lower", metric, rule=LAST)


def _class_separation(features: Features) -> float:
    import torch

    from pflrepro.metrics.separation import class_separation

    return class_separation(features.z, torch.as_tensor(features.labels))


def _client_distances(features: Features) -> np.ndarray:
    from pflrepro.metrics.separation import client_distances

    return client_distances(features.z, features.clients, features.count)


def _fisher_ratios(features: Features) -> np.ndarray:
    from pflrepro.metrics.representations import fisher_ratio

    return np.median(fisher_ratio(features), axis=1)


def _silhouette(features: Features) -> float:
    from pflrepro.metrics.separation import silhouette

    return silhouette(features.z, features.clients, features.labels)


# All are of the features themselves, not of a plane.
SEPARATIONS: dict[str, Callable[[Features], Any]] = {
    "class separation": _class_separation,
    "A-distance between clients": _client_distances,
    "Fisher ratio of clients": _fisher_ratios,
    "silhouette by client and class": _silhouette,
}


def separation(evidence: Evidence, what: str, layer: str, after: bool, limit: int) -> float:
    """How far apart the classes or the clients lie at a layer: what a picture of the features tells the eye, as a number.

    Args:
        what: of `SEPARATIONS`: `class separation`, tr S_b / tr S_w; `A-distance between clients`, in [0, 2], and `Fisher ratio of
            clients` (median over dimensions), both a client against all others, mean over clients; `silhouette by client and
            class`.
        limit: of the samples, see `representations.collect_layers`.
    """
    measure = SEPARATIONS[check_word("separation", what, SEPARATIONS)]
    how = {"after": after, "limit": limit, "seed": SEED}

    def take(simulation: Simulation) -> Arrays:
        return {"found": measure(features_of(evidence, simulation, layer, **how))}

    found = evidence.reading("separation", take, what=what, layer=layer, **how)["found"]
    return over_clients(found).number if found.ndim else float(found)


# ---- fine-tuning and new clients -------------------------------------------------------------------------------------------------
def tuned(epochs: int = 5, metric: str = "test_accuracy", printed: float = 100.0) -> Measure:
    """Test accuracy of the clients' models after plain fine-tuning of copies: of FedAvg, FedAvgFT's [FDA]; see `newcomers.tuned`."""

    def of(evidence: Evidence) -> Value:
        def take(simulation: Simulation) -> Arrays:
            from pflrepro.metrics.newcomers import tuned as fine_tuned

            return vars(fine_tuned(simulation, epochs, "all"))

        # `parts`: a part of the question that kept answers have
        return _accuracy(evidence.reading("tuned", take, epochs=epochs, parts="all"))

    title = f"test accuracy after {epochs} epochs of fine-tuning all"
    more = _decimals(printed) | {"metric": metric, "printed": printed}
    return Measure(f"tuned-{epochs}", title, of, rule=LAST, bounds=PERCENT, **more)


NOT_TO_JOIN = (("apple", "a client holds a number for each client that trained, and none for a new one"),)


def newcomers(
    how: str = "own",
    epochs: int = 0,
    parts: str | tuple[str, ...] = "all",
    corruption: str = "",
    metric: str = "accuracy_new_clients",
    printed: float = 1.0,
) -> Measure:
    """Test accuracy of clients that come after the training, of a run on the first clients of a partition (`+first-of=M`).

    They are the others of the M, with `how`, `epochs` and `parts` of `metrics.newcomers`; several parts are tried, and the best
    mean counts [FDA].

    Args:
        corruption: of all their images, at severity 3, the data set `<name>-<corruption>-3` [FDA]; "": clean.
    """
    tried = (parts,) if isinstance(parts, str) else parts

    def of(evidence: Evidence) -> Value:
        from pflrepro.experiments.loading import load_federation
        from pflrepro.metrics.newcomers import newcomers as measured

        own = evidence.run.experiment.data
        data = others(own, f"{own.dataset}-{corruption}-3" if corruption and not stands_in(evidence) else own.dataset)
        where = {"dataset": data.dataset, "partition": data.partition, "clients": data.clients}

        def ask(part: str) -> Value:
            def take(simulation: Simulation) -> Arrays:
                federation = load_federation(data, evidence.data_root, evidence.device)
                return vars(measured(simulation, federation, how, epochs, part))

            return _accuracy(evidence.reading("newcomers", take, how=how, epochs=epochs, parts=part, **where))

        return max(map(ask, tried), key=lambda value: value.number)

    name = "-".join(("newcomers", how, str(epochs), *tried, *filter(None, [corruption])))
    title = f"test accuracy of new clients{f' under {corruption}' if corruption else ''}"
    more = _decimals(printed) | {"metric": metric, "printed": printed}
    return Measure(name, title, of, rule=LAST, bounds=PERCENT, without=NOT_TO_JOIN if how == "own" else (), **more)


def otherwise(measure: Measure, methods: tuple[str, ...], other: Measure) -> Measure:
    """`measure`, and for runs of some methods `other`."""

    def of(evidence: Evidence) -> Value:
        return (other if evidence.run.experiment.algorithm in methods else measure).of(evidence)

    return replace(measure, of=of, rules=tuple((method, other.rule) for method in methods))


def others(data: DataConfig, dataset: str) -> DataConfig:
    """The data of the clients of a partition that are not among its first ones."""
    spec = parse(data.partition)
    if spec.choice != "first-of" or spec.total is None or spec.total <= data.clients:
        raise UserError(
            f"new clients are the rest of a partition that trains its first clients, {data.partition}+first-of=M with M more "
            f"than {data.clients} clients"
        )
    whole = str(replace(spec, choice="", total=None))
    rest = spec.total - data.clients
    return replace(data, dataset=dataset, partition=new_clients(whole, data.clients, rest)[1], clients=rest)


def _decimals(printed: float) -> dict[str, int]:
    """Of accuracies that are printed as fractions, .227 (.07), or in percent, 36.82."""
    return {"digits": 1, "spread_digits": 0} if printed == 100.0 else {"digits": 2}


def _accuracy(found: Arrays) -> Value:
    return over_clients(found["values"], found["samples"], 100.0)


# ---- attacks, notes, times -------------------------------------------------------------------------------------------------------
def psnr(target: str, victims: int | None = None, batches: int = 2, steps: int = 100, inner: int = 20) -> Measure:
    """The platform's PSNR of what deep leakage recovers of the first batches of a round, mean over a client's, then over clients.

    Lower is better; 6 to 8 dB is what no information gives [GPFL Table 5; LIB].

    Args:
        target: see `leakage.observe`.
        victims: the first so many batches (None: all).
        batches: of a client, 2 [LIB].
        steps, inner: outer and inner iterations of the attack, 100 and 20 [LIB].
    """
    options = {"target": target, "victims": victims, "batches": batches, "steps": steps, "inner": inner}

    def of(evidence: Evidence) -> Value:
        seed = evidence.run.experiment.seed

        def take(simulation: Simulation) -> Arrays:
            from pflrepro.metrics.leakage import Attack, observe, recover

            seen = observe(simulation, target, batches=batches)
            found = recover(seen.part(slice(victims)), Attack(steps=steps, inner=inner, seed=seed))
            return {"psnr": found.rows.cpu().numpy(), "client": found.seen.client}

        found = evidence.reading("psnr", take, seed=seed, **options)
        clients, place = np.unique(found["client"], return_inverse=True)
        known = ~np.isnan(found["psnr"])
        counts = np.bincount(place, known, len(clients))
        totals = np.bincount(place, np.where(known, found["psnr"], 0.0), len(clients))
        return over_clients(np.divide(totals, counts, out=np.full(len(clients), np.nan), where=counts > 0))

    title = f"PSNR of the attack on the {target}"
    return Measure(f"psnr-{target}", title, of, "dB", 2, "lower", "PSNR_dB", rule=LAST)


def _betas(evidence: Evidence) -> Value:
    """What pFedFDA notes while it adapts before its last test, of two coefficients that of the means; NaN for other methods."""

    def take(simulation: Simulation) -> Arrays:
        from pflrepro.simulation.inspection import notes

        return notes(simulation)

    found = evidence.reading("notes", take).get("beta")
    return Value(float("nan")) if found is None else over_clients(found.reshape(len(found), -1)[:, 0])


BETAS = Measure(
    *("beta", "interpolation coefficient of the last test", _betas, "", 3, "", ""), rule=LAST, bounds=(0.0, 1.0)
)

_TIMED = {
    "network": ("passes through the network", "network_passes_pct"),
    "estimation": ("estimates of means and covariance", "mean_covariance_estimation_pct"),
    "interpolation": ("search for the interpolation", "interpolation_optimization_pct"),
}


def time_share(part: str, clients: int | None = None) -> Measure:
    """The share of a local training of pFedFDA that a part of it takes, in percent, mean over clients [FDA Table 9].

    Timed once and kept: of the machine that looked first.

    Args:
        part: `network`, `estimation` or `interpolation`.
        clients: only the first so many are timed.
    """
    title, metric = _TIMED[check_word("part of pFedFDA's training", part, _TIMED)]

    def of(evidence: Evidence) -> Value:
        def take(simulation: Simulation) -> Arrays:
            from pflrepro.metrics.training_time import time_shares

            chosen = None if clients is None else range(min(clients, simulation.task.clients))
            return vars(time_shares(simulation, clients=chosen))

        return over_clients(evidence.reading("time-shares", take, clients=clients)[part])

    more = {"better": "", "metric": metric, "curve": None}
    return Measure(f"time-{part}", f"share of the time: {title}", of, rule=LAST, bounds=PERCENT, **more)
