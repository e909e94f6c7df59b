"""What is measured of a run: one value a seed, and where it can be had one value a client.

A measure looks at the history, at the models after the last round (they are revived where no reading of them is kept), or at the run of
another row beside its own (`relative_measures`). It knows the name of the published metric, its unit, and whether more is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.data.datasets import DATASETS
from pflrepro.errors import UserError
from pflrepro.experiments.readings import Question
from pflrepro.experiments.result import Run
from pflrepro.metrics import accuracy, fairness
from pflrepro.metrics.comparison import TURNS, one_number
from pflrepro.metrics.cost import rounds_of_time
from pflrepro.metrics.curves import iterations_to_convergence, largest_loss, mean_loss, rounds_to
from pflrepro.metrics.selection import Rule, check_rule

if TYPE_CHECKING:
    from pflrepro.experiments.store import Store
    from pflrepro.simulation.simulation import Simulation


@dataclass(frozen=True, eq=False)
class Value:
    """What a measure finds in one run: a number, NaN where there is none.

    Attributes:
        clients: one number a client, and weights: how much each counts, where the number is their weighted mean; else None. A client
            that has none is NaN and counts 0, so that clients keep their places.
        each: what has a number, where it is not a client, or some of them alone: the rounds of a time, clients with clean images,
            turns of the test set that all share (`TURNS`).
    """

    number: float
    clients: np.ndarray | None = None
    weights: np.ndarray | None = None
    each: str = "clients"

    @property
    def counting(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and weights of the clients that have one; empty where the number is no mean over clients."""
        if self.clients is None or self.weights is None:
            return np.empty(0), np.empty(0)
        there = self.weights > 0
        return self.clients[there], self.weights[there]

    @property
    def sampled(self) -> bool:
        """Whether these are a sample of several: not turns of one test set, nor one number for all clients."""
        numbers = self.counting[0]
        return self.each != TURNS and len(numbers) > 1 and not (self.each.endswith("clients") and one_number(numbers))


@dataclass(frozen=True, eq=False)
class Evidence:
    """One run of a cell, and how to look further: at its models, and at the run of another row with the same seed.

    Attributes:
        beside: (row key, column key) -> the evidence of that cell with the same seed, "" being this one's own; None where it was
            not run.
        newest: the simulation that was revived last, by run and round: several questions to one run revive it once.
        revives: whether it may be: what is not measured yet may need hours.
        measuring: is told what is measured on models, before it is.
    """

    run: Run
    store: Store
    data_root: str | Path | None = None
    device: str = "cpu"
    beside: Callable[..., Evidence | None] = field(default=lambda row="", column="": None)
    newest: dict[tuple[str, int], Simulation] = field(default_factory=dict)
    revives: bool = True
    measuring: Callable[[str], None] = field(default=lambda what: None)

    @property
    def history(self) -> Mapping[str, np.ndarray]:
        return self.run.history

    @property
    def state(self) -> tuple[str, int]:
        """(run, last round), whose models are looked at: a run that has grown is another state."""
        return self.run.id, self.run.round_of("last")

    def reading(
        self, name: str, take: Callable[[Simulation], Mapping[str, Any]], **options: Any
    ) -> dict[str, np.ndarray]:
        """The kept answer to a question to the models, or what `take(simulation)` gives, which is then kept.

        `options` are part of the question.
        """
        question = Question(name, self.state[1], tuple(sorted(options.items())))

        def measured() -> Mapping[str, Any]:
            if self.revives:
                self.measuring(f"{name} of {self.run.experiment.algorithm}, seed {self.run.experiment.seed}")
            return take(self.simulation())

        return self.store.reading(self.run, question, measured)

    def simulation(self) -> Simulation:
        """The run after its last round, to look into; see `pflrepro.revive`. `UserError` where that is not wanted."""
        if not self.revives:
            raise UserError("trained, and its models not measured yet: pflrepro reproduce measures them")
        from pflrepro.experiments.revive import revive  # loads the framework, which a list of artefacts does without

        if self.state not in self.newest:
            self.newest.clear()
            self.newest[self.state] = revive(self.run, store=self.store, data_root=self.data_root, device=self.device)
        return self.newest[self.state]


@dataclass(frozen=True)
class Taken:
    """How an accuracy comes from a history: its curve, as fractions, and the rule that takes a number from the tests that have one."""

    curve: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    rule: Rule


@dataclass(frozen=True)
class Measure:
    """A measure.

    Attributes:
        name: what a question calls it.
        title, unit: as an axis says them.
        better: `higher`, `lower` or "".
        metric: its name in the published files.
        printed: what a published value is multiplied with to have our unit.
        spread_digits: decimals of the spread, where a paper prints others than of the number.
        rule: what it takes from a curve, in words.
        rules: (method, rule) of methods that are measured otherwise.
        cheaper: (scale, measure): the same with less work, at a scale that cannot afford all of it.
        bounds: no value lies outside, so no interval reaches further.
        curve: of a history, what makes the number unfinished while it still rises; None: nothing, as a time a round. What is measured
            on models has no curve of its own: the accuracy stands for it.
        without: methods that can have no number, and why: their runs are refused before they are trained.
        absolute_time: whether it is a time in seconds or minutes, which does not compare with another machine's.
        beside: (row key, column key) of further cells that the number is made of, "" being its own: their curves count, too.
        taken: of an accuracy that a rule takes from a curve; None of what is measured otherwise.
    """

    name: str
    title: str
    of: Callable[[Evidence], Value]
    unit: str = "%"
    digits: int = 2
    better: str = "higher"
    metric: str = "accuracy"
    printed: float = 1.0
    spread_digits: int | None = None
    rule: str = ""
    rules: tuple[tuple[str, str], ...] = ()
    cheaper: tuple[tuple[str, Measure], ...] = ()
    bounds: tuple[float, float] = (-math.inf, math.inf)
    curve: Callable[[Mapping[str, np.ndarray]], np.ndarray] | None = accuracy.pooled
    without: tuple[tuple[str, str], ...] = ()
    absolute_time: bool = False
    beside: tuple[tuple[str, str], ...] = ()
    taken: Taken | None = None

    def __repr__(self) -> str:
        return f"Measure({self.name}: {self.title}{f' in {self.unit}' if self.unit else ''})"

    def at(self, scale: str) -> Measure:
        """The measure as a scale takes it."""
        return dict(self.cheaper).get(scale, self)

    def rule_of(self, method: str) -> str:
        """What is taken from the curve of a method, in words."""
        return dict(self.rules).get(method, self.rule)

    def taken_of(self, method: str) -> Taken | None:
        """How the number of a method comes from its curve, if it does."""
        return None if method in dict(self.rules) else self.taken

    def check(self, algorithm: str) -> None:
        """`UserError` where no run of it can have a number."""
        if reason := dict(self.without).get(algorithm.partition("+")[0]):
            raise UserError(reason)

    def of_metric(self, metric: str, printed: float = 1.0, digits: int | None = None) -> Measure:
        """The same under another name, unit or precision in the published files."""
        return replace(self, metric=metric, printed=printed, digits=self.digits if digits is None else digits)


# ---- accuracy --------------------------------------------------------------------------------------------------------------------
def accuracy_by(rule: str, mean: str = "pooled", after: bool = False, **more: Any) -> Measure:
    """Test accuracy that a selection rule takes from the curve.

    Args:
        mean: `pooled` (correct / test samples: clients count by their test samples) or `clients` (the plain mean of the clients'
            accuracies [BR]).
        after: right after local training, in place of before the next one.
    """
    chosen = check_rule(rule)
    curves = {
        ("pooled", False): accuracy.pooled,
        ("pooled", True): accuracy.pooled_after,
        ("clients", False): accuracy.mean_over_clients,
        ("clients", True): accuracy.mean_over_clients_after,
    }
    curve_of = curves[mean, after]

    def of(evidence: Evidence) -> Value:
        history = evidence.history
        curve = curve_of(history)
        known = ~np.isnan(curve)
        if not known.any():
            return Value(float("nan"))
        selected = chosen(curve[known])
        places = np.flatnonzero(known)[list(selected.places)]
        correct = np.asarray(history["correct_after" if after else "correct"], np.float64)[places].mean(0)
        samples = np.asarray(history["test_samples"], np.float64)
        tested = samples > 0
        if (np.asarray(history["correct_after" if after else "correct"])[places][:, tested] < 0).any():
            return Value(100.0 * selected.value)  # some had not trained yet: other clients at other tests
        shares = 100.0 * correct[tested] / samples[tested]
        weights = samples[tested] if mean == "pooled" else np.ones(tested.sum())
        # after local training there are as many models as clients
        turned = not after and DATASETS[evidence.run.experiment.data.dataset].turned
        return Value(100.0 * selected.value, shares, weights, TURNS if turned else "clients")

    when = " right after local training" if after else ""
    over = ", plain mean over clients" if mean == "clients" else ""
    name = f"accuracy-{rule}-{mean}{'-after' if after else ''}"
    facts = {"rule": f"{chosen.title}{over}", "bounds": (0.0, 100.0), "taken": Taken(curve_of, chosen)}
    return Measure(name, f"test accuracy{when}", of, **(facts | more))


ACCURACY = accuracy_by("best_round")  # [DBE-code, GPFL-code]: the best round's, pooled
# pFedFDA: after the last round, weighted by test samples [FDA-code]; printed as fractions, .227 (.07)
FDA_ACCURACY = accuracy_by("last_round", metric="test_accuracy", printed=100.0, digits=1, spread_digits=0)
# FedBR: mean of the five best tested rounds, plain mean over clients [BR; BR-code]
BR_ACCURACY = accuracy_by("mean_best_5", "clients", metric="test_accuracy_pct")


def rounds_to_reach(threshold: float) -> Measure:
    """Rounds until the clients' mean accuracy first reaches `threshold` percent; NaN where it never does [BR Table 1]."""

    def of(evidence: Evidence) -> Value:
        curve = accuracy.mean_over_clients(evidence.history)
        found = rounds_to(threshold / 100.0, curve, evidence.history["round"])
        return Value(float("nan") if found is None else float(found))

    title = f"rounds to {threshold:g} %"
    name = f"rounds-to-{threshold:g}"
    return Measure(name, title, of, "rounds", 0, "lower", "rounds_to_accuracy", curve=None)  # once reached, it stays


def _iterations(evidence: Evidence) -> Value:
    return Value(float(iterations_to_convergence(accuracy.pooled(evidence.history), evidence.history["round"])))


ITERATIONS = Measure("iterations", "rounds to the best accuracy", _iterations, "rounds", 0, "lower", "iterations")


# ---- fairness --------------------------------------------------------------------------------------------------------------------
def _client_std(evidence: Evidence) -> Value:
    return Value(100.0 * fairness.at_best_round(evidence.history).std)


def _variation(evidence: Evidence) -> Value:
    return Value(100.0 * fairness.at_best_round(evidence.history).variation)


CLIENT_STD = Measure(
    "client-std", "spread over clients", _client_std, "%", 2, "lower", "client_accuracy_std_percent", rule="best round"
)
VARIATION = Measure(
    *("variation", "coefficient of variation over clients", _variation),
    *("%", 2, "lower", "coefficient_of_variation_x1e-2"),
    rule="best round",
)


# ---- losses, times ---------------------------------------------------------------------------------------------------------------
def _last_loss(evidence: Evidence) -> Value:
    losses, sizes = evidence.history["train_loss"][-1], np.asarray(evidence.history["train_samples"], np.float64)
    return Value(float(mean_loss(evidence.history)[-1]), losses, np.where(np.isnan(losses), 0.0, sizes))


_LOSS = {"metric": "training_loss", "rule": "last round"}
TRAIN_LOSS = Measure(
    *("train-loss", "training loss", _last_loss, "nats", 3, "lower"), curve=lambda history: -mean_loss(history), **_LOSS
)
LARGEST_LOSS = Measure(
    *("largest-loss", "largest training loss of a client"),
    lambda evidence: Value(float(largest_loss(evidence.history)[-1])),
    *("nats", 3, "lower"),
    curve=lambda history: -largest_loss(history),
    **_LOSS,
)


def _by_round(history: Mapping[str, Any], *left_out: str) -> Value:
    """The mean time a round, and one value a tested round: rounds have the same clients in all methods, so that they compare in pairs.

    The first tested rounds of the run and of its second half are left out, if others remain: there an artefact of times starts a
    process (see `Artefact.timed`).
    """
    rounds = np.diff(rounds_of_time(history)).astype(np.float64)
    spent = np.asarray(history["seconds"], np.float64) - sum(np.asarray(history[name]) for name in left_out)
    starts = {0} if len(rounds) < 4 else {0, len(rounds) // 2}
    kept = [k for k in range(len(rounds)) if k not in starts] or [0]
    each, weights = spent[1:][kept] / rounds[kept], rounds[kept]
    return Value(float(np.average(each, weights=weights)), each, weights, "tested rounds")


_TIME: Mapping[str, Any] = {"curve": None, "absolute_time": True}


def _seconds(evidence: Evidence) -> Value:
    return _by_round(evidence.history)


SECONDS = Measure(
    *("seconds", "seconds a round of training", _seconds, "s", 3, "lower", "local_training_seconds"), **_TIME
)


def _local_seconds(evidence: Evidence) -> Value:
    return _by_round(evidence.history, "seconds_aggregation")


LOCAL_SECONDS = Measure(
    *("local-seconds", "seconds a round, clients alone", _local_seconds),
    *("s", 2, "lower", "local_training_seconds"),
    **_TIME,
)


def minutes_of(rounds: int) -> Measure:
    """The time of so many rounds at the pace of the run, without tests [FDA Table 6]."""

    def of(evidence: Evidence) -> Value:
        found, share = _by_round(evidence.history), rounds / 60.0
        return replace(found, number=share * found.number, clients=share * found.clients)

    name, title = f"minutes-of-{rounds}", f"minutes of {rounds} rounds"
    return Measure(name, title, of, "min", 2, "lower", "total_runtime_minutes", **_TIME)


def _total_minutes(evidence: Evidence) -> Value:
    return Value(_iterations(evidence).number * _by_round(evidence.history).number / 60.0)


TOTAL_MINUTES = Measure(
    *("total-minutes", "minutes to the best round", _total_minutes, "min", 0, "lower", "total_time_min"),
    rule="rounds x minutes",
    absolute_time=True,
)
