"""The schema of a run's history, checked whenever one is written or read, and what of it answers a request.

For E tests of N clients: `round` int64 [E] (0 = untrained); `correct` int64 [E, N] correct test predictions before the next
local training; `loss` float64 [E, N] summed test cross-entropy, -1 where it is not kept; `correct_after` int64 [E, N] after
local training, -1 before a client's first; `train_loss`, `objective` float64 [E, N]: means over the gradients of each client's
last local training of the cross-entropy and of the loss with the method's own terms (without penalties that enter its gradient
alone, such as FedProx's), NaN before its first, where a method takes no gradients by the contract and where it is not kept;
`participated` bool [E, N]; `test_samples`, `train_samples` int64 [N]. Times since the test before, float64 [E]: `seconds` of
the rounds, with the tests right after local training and without all others, `seconds_aggregation` the part of it that the
server takes (its phases, aggregation, the clients' stores), `seconds_evaluation` of the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.errors import CorruptFile
from pflrepro.markup import records
from pflrepro.metrics.accuracy import mean_test_loss, per_client, per_client_after, plain_mean, pooled, pooled_after
from pflrepro.settings import Settings

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Recorded = Mapping[str, np.ndarray]
NO_LOSS = -1.0  # of a test whose losses are not kept: see `experiments.compact`
TIMES = ("seconds", "seconds_aggregation", "seconds_evaluation")
MOST = 12  # tests that a notebook shows
SCHEMA = {
    "round": (np.int64, "E"),
    "correct": (np.int64, "EN"),
    "loss": (np.float64, "EN"),
    "correct_after": (np.int64, "EN"),
    "train_loss": (np.float64, "EN"),
    "objective": (np.float64, "EN"),
    "participated": (np.bool_, "EN"),
    "seconds": (np.float64, "E"),
    "seconds_aggregation": (np.float64, "E"),
    "seconds_evaluation": (np.float64, "E"),
    "test_samples": (np.int64, "N"),
    "train_samples": (np.int64, "N"),
}


class History(dict[str, np.ndarray]):
    """A run's tests, an array a name as in the schema above, which shows itself."""

    @property
    def clients(self) -> int:
        """N."""
        return len(self["test_samples"])

    def tests(self) -> dict[str, np.ndarray]:
        """What a test comes down to, one value a test [E].

        round; accuracy, accuracy_after: pooled over clients before and after local training, as fractions; worst, best: of a
        client, before; loss: cross-entropy a test sample; train_loss, objective: means over the clients that have one, losses NaN
        where they are not kept; participants; seconds since the test before.
        """
        each = per_client(self)
        found = {"round": self["round"], "accuracy": pooled(self), "accuracy_after": pooled_after(self)}
        found |= {"worst": np.nanmin(each, axis=1), "best": np.nanmax(each, axis=1), "loss": mean_test_loss(self)}
        found |= {name: plain_mean(self[name]) for name in ("train_loss", "objective")}
        found["participants"] = self["participated"].sum(1)
        return found | {"seconds": self["seconds"] + self["seconds_evaluation"]}

    def behind(self, round: int) -> History:
        """The tests after later rounds than this one."""
        later = self["round"] > round
        return History({name: array[later] if SCHEMA[name][1][0] == "E" else array for name, array in self.items()})

    def frame(self) -> pd.DataFrame:
        """One line a test and client, as recorded, with its accuracies as fractions; NaN where there is none, or no loss is kept."""
        import pandas as pd

        tests = len(self["round"])
        columns: dict[str, Any] = {"round": np.repeat(self["round"], self.clients)}
        columns["client"] = np.tile(np.arange(self.clients), tests)
        columns |= {"accuracy": per_client(self).ravel(), "accuracy_after": per_client_after(self).ravel()}
        columns |= {name: self[name].ravel() for name, (_, axes) in SCHEMA.items() if axes == "EN"}
        columns["loss"] = np.where(columns["loss"] == NO_LOSS, np.nan, columns["loss"])
        columns |= {name: np.tile(self[name], tests) for name, (_, axes) in SCHEMA.items() if axes == "N"}
        return pd.DataFrame(columns)

    def plot(self, ax: Axes | None = None, measured: str = "test accuracy") -> Axes:
        """The accuracy over rounds, called `measured`, pooled over clients, before and after local training."""
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        for after, curve in ((False, pooled(self)), (True, pooled_after(self))):
            if not np.isnan(curve).all():
                ax.plot(self["round"], 100 * curve, label=moment(after))
        ax.set(xlabel="round", ylabel=f"{measured} (%)")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend()
        return ax

    def __repr__(self) -> str:
        rounds = self["round"]
        return f"History({len(rounds)} tests of {self.clients} clients, round {rounds[0]} to {rounds[-1]})"

    def _repr_html_(self) -> str:
        """A dozen of the tests: pooled accuracy, and the spread over clients."""
        accuracy, after, each = pooled(self), pooled_after(self), per_client(self)
        chosen = np.unique(np.linspace(0, len(accuracy) - 1, MOST).round().astype(int))
        lines = [
            {
                "round": int(self["round"][place]),
                "accuracy (%), before local training": _percent(accuracy[place]),
                "after it": _percent(after[place]),
                "worst client": _percent(np.nanmin(each[place])),
                "best client": _percent(np.nanmax(each[place])),
                "clients that trained": int(self["participated"][place].sum()),
            }
            for place in chosen
        ]
        names = ", ".join(self)
        return f"<p>{escape(repr(self))}</p>{records(lines)}<p>arrays: {names}</p>"


def moment(after: bool) -> str:
    """When a model is tested, in words."""
    return "after local training" if after else "before local training"


def _percent(share: float) -> str:
    return "" if np.isnan(share) else f"{100 * share:.2f}"


def check_history(history: Recorded) -> dict[str, np.ndarray]:
    """The history's arrays in the order of the schema; `CorruptFile` that names the first array that does not fit."""
    if set(history) != set(SCHEMA):
        lacking, extra = sorted(set(SCHEMA) - set(history)), sorted(set(history) - set(SCHEMA))
        raise CorruptFile(f"the history lacks {lacking or 'nothing'} and has {extra or 'nothing'} besides")
    sizes = {"E": len(np.atleast_1d(history["round"])), "N": len(np.atleast_1d(history["test_samples"]))}
    for name, (dtype, axes) in SCHEMA.items():
        array, shape = history[name], tuple(sizes[axis] for axis in axes)
        if array.dtype != dtype or array.shape != shape or not array.size:
            raise CorruptFile(
                f"the history's {name} is {array.dtype} {list(array.shape)}, not {np.dtype(dtype)} {list(shape)}"
            )
    for name, wrong in _odd_values(history).items():
        if wrong:
            raise CorruptFile(f"the history's {name} has impossible values")
    return {name: history[name] for name in SCHEMA}


def _odd_values(history: Recorded) -> dict[str, bool]:
    rounds, samples = history["round"], history["test_samples"]
    counts = {"correct": 0, "correct_after": -1}
    return {
        "round": bool(rounds[0] != 0 or (np.diff(rounds) <= 0).any()),
        "test_samples": bool((samples < 0).any()),
        "train_samples": bool((history["train_samples"] < 0).any()),
        # A diverged model has a loss of infinity or NaN: that is a result. Those of a test are kept all or not at all.
        "loss": bool((history["loss"][[0, *np.flatnonzero((history["loss"] != NO_LOSS).any(1))]] < 0).any()),
        **{name: bool((history[name] < low).any() or (history[name] > samples).any()) for name, low in counts.items()},
        **{name: not bool((history[name] >= 0).all()) for name in TIMES},
    }


def rounds_to_test(settings: Settings) -> np.ndarray:
    """The rounds after which a run with these settings is tested, if it is not stopped before."""
    return np.union1d(np.arange(0, settings.rounds + 1, settings.every), [settings.rounds])


def answer(history: Recorded, settings: Settings) -> dict[str, np.ndarray] | None:
    """What of a history a request for these `rounds`, `every` and `patience` asks for; None: it must be trained on, or finer.

    It is what a run of its own would have: the first rounds of a longer run are the shorter run.
    """
    wanted = rounds_to_test(settings)
    there = np.isin(wanted, history["round"])
    known = len(wanted) if there.all() else int(np.argmin(there))
    if known == 0:
        return None
    part = at_rounds(history, wanted[:known])
    stop = stops_at(part["correct"].sum(1), settings.patience)
    if stop is not None:
        return {name: array[:stop] if SCHEMA[name][1][0] == "E" else array for name, array in part.items()}
    return part if known == len(wanted) else None


def at_rounds(history: Recorded, rounds: np.ndarray) -> dict[str, np.ndarray]:
    """The tests after these rounds, all of which the history has; times are those since the test before that is left."""
    places = np.searchsorted(history["round"], rounds)
    part = {name: array[places] if SCHEMA[name][1][0] == "E" else array for name, array in history.items()}
    for name in TIMES:
        part[name] = np.array([history[name][low:high].sum() for low, high in pairwise([0, *(places + 1)])])
    return part


def shared_tests(one: Recorded, other: Recorded) -> bool:
    """Whether two histories of a run can be compared: a test after the same training, or one of them is the start alone."""
    common = np.intersect1d(one["round"], other["round"])
    return bool((common > 0).any()) or min(one["round"][-1], other["round"][-1]) == 0


def agree(one: Recorded, other: Recorded) -> bool:
    """Whether two histories of a run are of one training: the same numbers where both were tested, losses where both keep them and as
    exactly as they do.

    Two machines, or two numbers of threads, round otherwise and part after some rounds; numbers of both belong to no model. Without a
    test that both have nothing is known, and they do not agree.
    """
    if not shared_tests(one, other):
        return False
    _, *places = np.intersect1d(one["round"], other["round"], return_indices=True)
    correct, losses = (
        [each[name][at] for each, at in zip((one, other), places, strict=True)] for name in ("correct", "loss")
    )
    kept = np.all([each != NO_LOSS for each in losses], axis=0)
    a, b = (each[kept].astype(np.float32) for each in losses)
    same = (a == b) | (shortened(a) == b) | (a == shortened(b)) | (np.isnan(a) & np.isnan(b))
    return np.array_equal(*correct) and bool(same.all())


def shortened(losses: np.ndarray) -> np.ndarray:
    """Losses to 13 significant bits, one part in 8,000, as float32: what committed runs keep of them."""
    fraction, exponent = np.frexp(losses.astype(np.float32))
    return np.ldexp(np.round(fraction * 2**13) / 2**13, exponent)


def joined(new: Recorded, old: Recorded | None) -> dict[str, np.ndarray]:
    """The tests of `new`, and those of `old` after other rounds: the same training, which once was longer, or tested more often.

    Where a test lies between two others, the rounds between these are taken to have lasted alike.
    """
    rounds = new["round"] if old is None else np.union1d(new["round"], old["round"])
    if old is None or len(rounds) == len(new["round"]):
        return dict(new)
    ours = np.isin(rounds, new["round"])
    at = np.searchsorted(old["round"], rounds[~ours])
    found = {}
    for name, array in new.items():
        if SCHEMA[name][1][0] != "E":
            found[name] = array
            continue
        found[name] = np.empty((len(rounds), *array.shape[1:]), array.dtype)
        found[name][ours], found[name][~ours] = array, old[name][at]
    within = rounds <= new["round"][-1]
    for name in ("seconds", "seconds_aggregation"):
        found[name] = np.where(within, _spread(new, name, rounds), _spread(old, name, rounds))
    return found


def _spread(history: Recorded, name: str, rounds: np.ndarray) -> np.ndarray:
    """The time between each of `rounds` and the one before, as the share of its rounds in the time between two tests."""
    tested, spent = history["round"], history[name]
    end = np.searchsorted(tested, rounds).clip(max=len(tested) - 1)
    span = np.maximum(tested[end] - tested[np.maximum(end - 1, 0)], 1)
    since = np.diff(rounds, prepend=rounds[0])
    return np.where(end > 0, spent[end] * since / span, spent[0])


def spacing_of(history: Recorded, asked: int) -> int:
    """After each how many rounds a run was tested: `asked`, or where it was not throughout, the least number of which this is true."""
    tested, rounds = set(history["round"].tolist()), int(history["round"][-1])
    steps = (each for each in (asked, *range(1, rounds + 1)) if tested.issuperset(range(0, rounds + 1, each)))
    return next(steps, asked)


def best_of(rounds: np.ndarray, curve: np.ndarray, patience: int) -> int:
    """The round of the first largest value among the tests up to the one that a run stops at."""
    return int(rounds[np.argmax(curve[: stops_at(curve, patience)])])


def stops_at(curve: np.ndarray, patience: int) -> int | None:
    """After how many evaluations a run stops: the first e with e - (place of the best so far) > patience, or None.

    `patience` further evaluations without a new maximum of the pooled accuracy; 0 = never [DBE-code: auto-stop with 100].
    """
    if patience <= 0 or not len(curve):
        return None
    places = np.arange(len(curve))
    best = np.maximum.accumulate(curve)
    is_new = np.concatenate([[True], best[1:] > best[:-1]])
    latest_best = np.maximum.accumulate(np.where(is_new, places, 0))
    waited = np.flatnonzero(places + 1 - latest_best > patience)
    return int(waited[0]) + 1 if len(waited) else None
