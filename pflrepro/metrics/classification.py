"""Measures of a classifier on labelled samples, as functions of arrays: accuracy, macro-F1, area under the ROC curve.

`labels` [n] are whole numbers in 0..C-1, `predicted` [..., n] the predicted ones (any leading axes, such as the models of several
clients), `scores` [..., n, C] numbers of which the largest wins. Nothing to measure gives NaN: no samples, or no class for
which a measure is defined. `UserError` for arrays that do not fit together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pflrepro.errors import UserError, check_range, check_word

OVER = ("occurring", "labels", "all")
AVERAGES = ("macro", "weighted", "micro")


def predicted_labels(scores: Any) -> np.ndarray:
    """argmax_c scores[..., c], int64 [...]; the first of equal ones, and of NaN the first (as the engine counts).

    Example:
        >>> predicted_labels([[0.1, 0.9], [0.5, 0.5]]).tolist()
        [1, 0]
    """
    array = np.asarray(scores)
    return array.argmax(-1) if array.size else np.zeros(array.shape[:-1], np.int64)


def probabilities(scores: Any) -> np.ndarray:
    """softmax over the last axis, float64 [..., C]; rows with NaN stay NaN.

    Example:
        >>> probabilities([[0.0, 0.0], [1000.0, 0.0]]).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
    """
    from scipy.special import softmax

    array = np.asarray(scores, np.float64)
    return softmax(array, axis=-1) if array.size else array


def accuracy(labels: Any, predicted: Any) -> np.ndarray:
    """Share of predicted == labels, float64 [...].

    Example:
        >>> float(accuracy([0, 1, 1, 2], [0, 1, 2, 2]))
        0.75
    """
    labels, predicted = _checked(labels, predicted)
    if not len(labels):
        return np.full(predicted.shape[:-1], np.nan)
    return (predicted == labels).mean(-1)


def confusion(labels: Any, predicted: Any, classes: int) -> np.ndarray:
    """How often class u was taken for class v, int64 [..., C, C] at [..., u, v].

    Example:
        >>> confusion([0, 1, 1], [0, 0, 1], classes=2).tolist()
        [[1, 0], [1, 1]]
    """
    labels, predicted = _checked(labels, predicted)
    classes = check_range("classes", classes, 1, integer=True)
    _check_classes("label", labels, classes)
    _check_classes("prediction", predicted, classes)
    flat = predicted.reshape(-1, len(labels))
    model = np.arange(len(flat))[:, None]
    cells = np.bincount(((model * classes + labels) * classes + flat).ravel(), minlength=len(flat) * classes**2)
    return cells.reshape(*predicted.shape[:-1], classes, classes)


def macro_f1(labels: Any, predicted: Any, classes: int | None = None, over: str = "occurring") -> np.ndarray:
    """Unweighted mean over classes of F1_c = 2 TP_c / (2 TP_c + FP_c + FN_c), float64 [...].

    Args:
        over: `occurring`, the classes that occur in the labels or the predictions (scikit-learn's default; GRP-FED on one client
            [inferred: GRP 5]); `labels`, those in the labels (GRP-FED on the pooled test set); `all`, where one in neither counts
            0.
        classes: C; default: as many as occur.

    Example:
        >>> round(float(macro_f1([0, 0, 1, 1], [0, 1, 1, 1])), 4)
        0.7333
    """
    check_word("choice of classes", over, OVER)
    labels, predicted = _checked(labels, predicted)
    if not labels.size:
        return np.full(predicted.shape[:-1], np.nan)
    if classes is None:
        classes = int(max(labels.max(), predicted.max())) + 1
    table = confusion(labels, predicted, classes)
    true, guessed = table.sum(-1), table.sum(-2)
    hits = np.diagonal(table, axis1=-2, axis2=-1)
    counted = {"occurring": true + guessed > 0, "labels": true > 0, "all": np.ones_like(true, bool)}[over]
    f1 = 2 * hits / np.maximum(true + guessed, 1)
    return np.where(counted, f1, 0).sum(-1) / counted.sum(-1)


def auc_by_class(labels: Any, scores: Any) -> np.ndarray:
    """The area under the ROC curve of each class against the rest, float64 [..., C].

    AUC_c = (R_c - P_c (P_c + 1) / 2) / (P_c (n - P_c)), R_c the sum of the ranks, by score, of the P_c samples of class c among all n;
    equal scores share their mean rank. NaN where the labels lack the class or have nothing else, and for scores with NaN
    [Hanley and McNeil 1982: the statistic of Mann and Whitney].

    Example, where one of the two pairs of a sample of class 0 and one of class 1 is in order:
        >>> auc_by_class([0, 0, 1], [[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]]).tolist()
        [0.5, 0.5]
    """
    from scipy.stats import rankdata

    scores = np.asarray(scores, np.float64)
    if scores.ndim < 2:
        raise UserError(f"scores need a row a sample and a column a class, not the shape {list(scores.shape)}")
    labels, _ = _checked(labels, np.zeros(scores.shape[:-1], np.int64))
    _check_classes("label", labels, scores.shape[-1])
    positive = labels[:, None] == np.arange(scores.shape[-1])
    count = positive.sum(0)
    pairs = count * (len(labels) - count)
    if not len(labels):
        return np.full((*scores.shape[:-2], scores.shape[-1]), np.nan)
    ranks = np.where(positive, rankdata(scores, axis=-2), 0).sum(-2)
    wins = ranks - count * (count + 1) / 2
    return np.divide(wins, pairs, out=np.full(wins.shape, np.nan), where=pairs > 0)


def auc(labels: Any, scores: Any, average: str = "macro") -> np.ndarray:
    """One-vs-rest area under the ROC curve, float64 [...].

    Give probabilities: a class's order over samples changes with the softmax, and logits of two samples have no common zero.

    Args:
        average: `macro`, the mean over the classes for which it is defined (others are left out: a client of one class has none and
            gets NaN); `weighted`, the same by the number of samples of a class; `micro`, over all pairs of (sample, class) at once
            [recalled: LIB].

    Example:
        >>> float(auc([0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.5, 0.5]]))
        1.0
    """
    check_word("average of AUC", average, AVERAGES)
    scores = np.asarray(scores, np.float64)
    if average == "micro":
        labels, _ = _checked(labels, np.zeros(scores.shape[:-1], np.int64))
        _check_classes("label", labels, scores.shape[-1])
        hit = (labels[:, None] == np.arange(scores.shape[-1])).ravel().astype(np.int64)
        flat = scores.reshape(*scores.shape[:-2], -1)
        return auc_by_class(hit, np.stack([-flat, flat], -1))[..., 1]
    each = auc_by_class(labels, scores)
    defined = _defined(labels, scores.shape[-1])
    weight = np.bincount(np.asarray(labels, np.int64), minlength=scores.shape[-1]) if average == "weighted" else 1
    weight = np.where(defined, weight, 0)
    total = weight.sum()
    if not total:
        return np.full(each.shape[:-1], np.nan)
    return np.where(defined, each, 0) @ weight / total


def _defined(labels: Any, classes: int) -> np.ndarray:
    """The classes [C] that some but not all samples have."""
    count = np.bincount(np.asarray(labels, np.int64), minlength=classes)
    return (count > 0) & (count < count.sum())


def _check_classes(name: str, values: np.ndarray, classes: int) -> None:
    if values.size and (values.min() < 0 or values.max() >= classes):
        raise UserError(f"every {name} must lie in 0..{classes - 1}, not {values.min()}..{values.max()}")


def _checked(labels: Any, predicted: Any) -> tuple[np.ndarray, np.ndarray]:
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    if labels.ndim != 1 or predicted.shape[-1:] != labels.shape:
        raise UserError(
            f"one prediction a label is needed, not the shapes {list(predicted.shape)} for {list(labels.shape)} labels"
        )
    for name, values in (("labels", labels), ("predictions", predicted)):
        if values.size and values.dtype.kind not in "iu":
            raise UserError(f"{name} must be whole numbers, not {values.dtype}")
    return labels.astype(np.int64), predicted.astype(np.int64)
