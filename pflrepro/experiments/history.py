"""The schema of a run's history, checked whenever one is written or read, and the rule that stops a run early.

For E evaluations of N clients: `round` int64 [E] (0 = untrained); `correct` int64 [E, N] correct test predictions before the next
local training; `loss` float64 [E, N] summed test cross-entropy; `correct_after` int64 [E, N] after local training, -1 before a
client's first; `participated` bool [E, N]; `test_samples`, `train_samples` int64 [N]. Times since the evaluation before, float64 [E]:
`seconds` of the rounds without tests, `seconds_aggregation` the part of it that the server takes (its phases, aggregation, the
clients' stores; NaN in a history made before it was kept), `seconds_evaluation` of the tests.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pflrepro.errors import CorruptFile

History = Mapping[str, np.ndarray]
SCHEMA = {
    "round": (np.int64, "E"),
    "correct": (np.int64, "EN"),
    "loss": (np.float64, "EN"),
    "correct_after": (np.int64, "EN"),
    "participated": (np.bool_, "EN"),
    "seconds": (np.float64, "E"),
    "seconds_aggregation": (np.float64, "E"),
    "seconds_evaluation": (np.float64, "E"),
    "test_samples": (np.int64, "N"),
    "train_samples": (np.int64, "N"),
}


def check_history(history: History) -> dict[str, np.ndarray]:
    """The history's arrays in the order of the schema; `CorruptFile` that names the first array that does not fit.

    One without `seconds_aggregation`, made before that was kept, gets it as NaN.
    """
    if "seconds_aggregation" not in history and "seconds" in history:
        history = {**history, "seconds_aggregation": np.full(np.shape(history["seconds"]), np.nan)}
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


def _odd_values(history: History) -> dict[str, bool]:
    rounds, samples = history["round"], history["test_samples"]
    counts = {"correct": 0, "correct_after": -1}
    return {
        "round": bool(rounds[0] != 0 or (np.diff(rounds) <= 0).any()),
        "test_samples": bool((samples < 0).any()),
        "train_samples": bool((history["train_samples"] < 0).any()),
        # A diverged model has a loss of infinity or NaN: that is a result.
        "loss": bool((history["loss"] < 0).any()),
        **{name: bool((history[name] < low).any() or (history[name] > samples).any()) for name, low in counts.items()},
        **{name: not bool((history[name] >= 0).all()) for name in ("seconds", "seconds_evaluation")},
        "seconds_aggregation": bool((history["seconds_aggregation"] < 0).any()),
    }


def cut(history: History, evaluations: int) -> dict[str, np.ndarray]:
    """The first `evaluations` evaluations of a history."""
    return {name: array[:evaluations] if SCHEMA[name][1][0] == "E" else array for name, array in history.items()}


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
