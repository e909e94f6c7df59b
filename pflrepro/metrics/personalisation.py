"""Measures of personalised models: per client on its own and on all clients' test samples, and GRP-FED's four scores.

A `Measure` takes labels [n] and scores [n, C] and gives one number. Per-client vectors are kept, NaN where a client has no test
samples (or the measure is undefined, as an AUC of one class); means over clients leave these out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pflrepro.errors import UserError, check_word
from pflrepro.metrics.classification import accuracy, auc, macro_f1, predicted_labels, probabilities
from pflrepro.metrics.predictions import Predictions

Measure = Callable[[np.ndarray, np.ndarray], float]


def accuracy_score(labels: np.ndarray, scores: np.ndarray) -> float:
    """Accuracy of the largest score.

    Example:
        >>> accuracy_score(np.array([0, 1]), np.array([[2.0, 1.0], [2.0, 1.0]]))
        0.5
    """
    return float(accuracy(labels, predicted_labels(scores)))


def f1_score(labels: np.ndarray, scores: np.ndarray) -> float:
    """Macro-F1 over the classes that occur in labels or predictions [inferred: GRP 5].

    Example, where class 0 has F1 = 2/3 and class 1 has 0:
        >>> round(f1_score(np.array([0, 1]), np.array([[2.0, 1.0], [2.0, 1.0]])), 4)
        0.3333
    """
    return float(macro_f1(labels, predicted_labels(scores), scores.shape[-1]))


def auc_score(labels: np.ndarray, scores: np.ndarray) -> float:
    """One-vs-rest AUC of the softmax outputs, mean over the classes for which it is defined [recalled: LIB].

    Example, three of the four pairs of a sample of class 0 and one of class 1 are in order:
        >>> auc_score(np.array([0, 0, 1, 1]), np.array([[4.0, 0.0], [2.0, 0.0], [3.0, 0.0], [1.0, 0.0]]))
        0.75
    """
    return float(auc(labels, probabilities(scores)))


MEASURES: dict[str, Measure] = {"accuracy": accuracy_score, "macro_f1": f1_score, "auc": auc_score}


@dataclass(frozen=True, eq=False)
class PerClient:
    """One number a client: `values` [N], NaN where there is none; `samples` [N] test samples behind each.

    Example:
        >>> found = PerClient(np.array([0.25, 1.0, np.nan]), np.array([4, 8, 0]))
        >>> found.plain, found.weighted
        (0.625, 0.75)
    """

    values: np.ndarray
    samples: np.ndarray

    @property
    def plain(self) -> float:
        """Unweighted mean over the clients that have a value; NaN if none has."""
        return _mean(self.values)

    @property
    def weighted(self) -> float:
        """Mean weighted with the test samples [LIB]; of accuracies, the pooled accuracy."""
        there = ~np.isnan(self.values)
        weight = np.where(there, self.samples, 0)
        return float(np.where(there, self.values, 0) @ weight / weight.sum()) if weight.sum() else float("nan")


def own(predictions: Predictions, measure: Measure | str = "accuracy") -> PerClient:
    """Every client's model on its own test part."""
    return _per_part(predictions, predictions.own_scores, measure)


def of_global(predictions: Predictions, measure: Measure | str = "accuracy") -> PerClient:
    """The server's model on every client's test part; `UserError` where the method has none."""
    return _per_part(predictions, _needed(predictions.global_scores, "this method has no global model"), measure)


def of_ensemble(predictions: Predictions, measure: Measure | str = "accuracy") -> PerClient:
    """The ensemble of all local models on every client's test part."""
    return _per_part(predictions, _needed(predictions.ensemble, _NO_ENSEMBLE), measure)


def f1_on_pooled(predictions: Predictions, over: str = "labels") -> np.ndarray:
    """Macro-F1 [N] of every client's model on all clients' test samples, over the classes of the pooled test set [GRP 5]."""
    return macro_f1(predictions.labels, predictions.pooled, predictions.classes, over)


@dataclass(frozen=True, eq=False)
class GrpFedScores:
    """GRP-FED's scores (its section 4.1, Eq. 6), macro-F1 as fractions.

    Attributes:
        t_g: T_g, the global model on the pooled test set; of the `ensemble` of all local models where a method has none (Local,
            LG-FedAvg) [GRP].
        global_from: which of the two it is.
        t_p: T_p, mean over clients of the client's model on its own test part.
        t_r: T_r, the same on the pooled test set.
        t_l: T_l, mean over clients of 2 T_p,m T_r,m / (T_p,m + T_r,m): what the printed numbers are, which lie below t_l_of_means
            [inferred].
        t_l_of_means: 2 T_p T_r / (T_p + T_r), as Eq. 6 reads.
        personal, general, harmonic: the vectors [N] behind T_p, T_r, T_l; a client without test samples is NaN in `personal`
            and `harmonic`, and left out of T_p and T_l.
    """

    t_g: float
    t_p: float
    t_r: float
    t_l: float
    t_l_of_means: float
    global_from: str
    personal: np.ndarray
    general: np.ndarray
    harmonic: np.ndarray


def grp_fed_scores(predictions: Predictions) -> GrpFedScores:
    """T_g, T_p, T_r, T_l of any method.

    Classes counted: on the pooled test set those in its labels, on a client those in its labels or predictions [inferred: GRP 5].
    For a method of one global model T_r = T_g, as its table shows.
    """
    general = f1_on_pooled(predictions)
    personal = own(predictions, "macro_f1").values
    harmonic = harmonic_mean(personal, general)
    t_p, t_r = _mean(personal), _mean(general)
    has_global = predictions.global_scores is not None
    scores = predictions.global_scores if has_global else _needed(predictions.ensemble, _NO_ENSEMBLE)
    return GrpFedScores(
        t_g=float(macro_f1(predictions.labels, predicted_labels(scores), predictions.classes, "labels")),
        t_p=t_p,
        t_r=t_r,
        t_l=_mean(harmonic),
        t_l_of_means=float(harmonic_mean(t_p, t_r)),
        global_from="global model" if has_global else "ensemble",
        personal=personal,
        general=general,
        harmonic=harmonic,
    )


def harmonic_mean(a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """2 a b / (a + b) of numbers >= 0; 0 where both are 0, NaN where one is NaN.

    Example:
        >>> harmonic_mean([0.5, 0.0, 1.0], [0.5, 0.0, 0.0]).tolist()
        [0.5, 0.0, 0.0]
    """
    a, b = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
    total = a + b
    return np.divide(2 * a * b, total, out=np.where(np.isnan(total), np.nan, 0.0), where=total > 0)


_NO_ENSEMBLE = "there is no ensemble in these predictions; ask for it with pooled=True"


def _per_part(predictions: Predictions, scores: np.ndarray, measure: Measure | str) -> PerClient:
    if isinstance(measure, str):
        measure = MEASURES[check_word("measure", measure, MEASURES)]
    values = np.full(predictions.clients, np.nan)
    for client, part in enumerate(predictions.parts):
        if part.stop > part.start:
            values[client] = measure(predictions.labels[part], scores[part])
    return PerClient(values, np.array([part.stop - part.start for part in predictions.parts], np.int64))


def _needed(scores: np.ndarray | None, reason: str) -> np.ndarray:
    if scores is None:
        raise UserError(reason)
    return scores


def _mean(values: np.ndarray) -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")
