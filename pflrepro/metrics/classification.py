"""Macro-F1 of a classifier on labelled samples, as a function of arrays.

`labels` [n] are whole numbers in 0..C-1, `predicted` [..., n] the predicted ones (any leading axes, such as the models of several
clients), `scores` [..., n, C] numbers of which the largest wins. Without samples a measure is NaN. `UserError` for arrays that do not
fit together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pflrepro.errors import UserError, check_range, check_word, refuse_ids

OVER = ("occurring", "labels")


def predicted_labels(scores: Any) -> np.ndarray:
    """argmax_c scores[..., c], int64 [...]; the first of equal ones, and of NaN the first (as the engine counts).

    Example:
        >>> predicted_labels([[0.1, 0.9], [0.5, 0.5]]).tolist()
        [1, 0]
    """
    array = np.asarray(scores)
    return array.argmax(-1) if array.size else np.zeros(array.shape[:-1], np.int64)


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
            [inferred]); `labels`, those in the labels (GRP-FED on the pooled test set).
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
        refuse_ids(classes - 1, labels.size)
    table = confusion(labels, predicted, classes)
    true, guessed = table.sum(-1), table.sum(-2)
    hits = np.diagonal(table, axis1=-2, axis2=-1)
    counted = (true if over == "labels" else true + guessed) > 0
    f1 = 2 * hits / np.maximum(true + guessed, 1)
    return np.where(counted, f1, 0).sum(-1) / counted.sum(-1)


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
