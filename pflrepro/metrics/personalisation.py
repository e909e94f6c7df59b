"""Macro-F1 of personalised models: per client on its own and on all clients' test samples, and GRP-FED's four scores.

Vectors [N] are NaN for a client without test samples, and means over clients leave it out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pflrepro.markup import BriefArrays
from pflrepro.metrics.classification import macro_f1, predicted_labels
from pflrepro.metrics.predictions import Predictions


def f1_on_own(predictions: Predictions) -> np.ndarray:
    """Macro-F1 [N] of each client's model on its own test part [GRP 4.1, Eq. 6], over classes in labels or predictions [inferred]."""
    return _per_part(predictions, predictions.own_scores)


def f1_on_pooled(predictions: Predictions) -> np.ndarray:
    """Macro-F1 [N] of every client's model on all clients' test samples, over the classes of the pooled test set [GRP 4.1]."""
    return macro_f1(predictions.labels, predictions.pooled, predictions.classes, "labels")


def f1_of_server(predictions: Predictions) -> np.ndarray:
    """Macro-F1 [N] of what T_g is of, the global model or the ensemble, on every client's test part."""
    return _per_part(predictions, _server_scores(predictions))


@dataclass(frozen=True, eq=False, repr=False)
class GrpFedScores(BriefArrays):
    """GRP-FED's scores (its section 4.1, Eq. 6), macro-F1 as fractions.

    Attributes:
        t_g: T_g, the global model on the pooled test set; of the ensemble of all local models where a method has none (Local,
            LG-FedAvg) [GRP].
        personal, general: [N] each client's model on its own test part and on the pooled test set; their means are T_p and T_r.
        harmonic: [N] 2 T_p,m T_r,m / (T_p,m + T_r,m); its mean is T_l. The printed numbers are these: they lie below
            2 T_p T_r / (T_p + T_r), as Eq. 6 reads [inferred].
    """

    t_g: float
    personal: np.ndarray
    general: np.ndarray
    harmonic: np.ndarray


def grp_fed_scores(predictions: Predictions) -> GrpFedScores:
    """T_g, and what T_p, T_r and T_l are means of, of any method; for a method of one global model T_r = T_g, as its table shows."""
    served = predicted_labels(_server_scores(predictions))
    personal, general = f1_on_own(predictions), f1_on_pooled(predictions)
    return GrpFedScores(
        t_g=float(macro_f1(predictions.labels, served, predictions.classes, "labels")),
        personal=personal,
        general=general,
        harmonic=harmonic_mean(personal, general),
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


def _server_scores(predictions: Predictions) -> np.ndarray:
    return predictions.ensemble if predictions.global_scores is None else predictions.global_scores


def _per_part(predictions: Predictions, scores: np.ndarray) -> np.ndarray:
    """Macro-F1 [N] of scores [n, C] on every client's part; NaN for a client without test samples."""
    predicted = predicted_labels(scores)
    return np.array(
        [macro_f1(predictions.labels[part], predicted[part], predictions.classes) for part in predictions.parts]
    )
