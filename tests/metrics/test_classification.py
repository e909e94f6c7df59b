"""Macro-F1 against scikit-learn, and what it is where it is not defined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics as sk

from pflrepro.errors import UserError
from pflrepro.metrics.classification import confusion, macro_f1, predicted_labels

CLASSES = 5
some_labels = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[arrays(np.int64, n, elements=st.integers(0, CLASSES - 1))] * 2)
)


@given(some_labels)
def test_they_are_scikit_learn_s(pair) -> None:
    labels, predicted = pair
    assert np.array_equal(
        confusion(labels, predicted, CLASSES), sk.confusion_matrix(labels, predicted, labels=range(CLASSES))
    )
    occurring = sk.f1_score(labels, predicted, average="macro", zero_division=0)
    assert macro_f1(labels, predicted, CLASSES) == pytest.approx(occurring)
    assert macro_f1(labels, predicted) == pytest.approx(occurring)
    wanted = sk.f1_score(labels, predicted, average="macro", labels=np.unique(labels), zero_division=0)
    assert macro_f1(labels, predicted, CLASSES, "labels") == pytest.approx(wanted)


def test_several_models_at_once_are_each_alone() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, CLASSES, 30)
    scores = rng.normal(size=(2, 3, 30, CLASSES))
    predicted = predicted_labels(scores)
    together = macro_f1(labels, predicted)
    assert together.shape == (2, 3)
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(together[place], macro_f1(labels, predicted[place]), rtol=1e-12)
    assert confusion(labels, predicted, CLASSES).sum((-2, -1)).tolist() == [[30] * 3] * 2


def test_hand_worked_macro_f1() -> None:
    """Labels 0 0 1 2, predicted 0 1 1 1: F1 2/3, 2/4, 0; class 3 nowhere."""
    assert macro_f1([0, 0, 1, 2], [0, 1, 1, 1], 4) == pytest.approx((2 / 3 + 1 / 2) / 3)
    # a predicted class that no label has counts in one rule, and not in the other
    assert macro_f1([0, 0], [0, 1], 2) == pytest.approx(1 / 3)
    assert macro_f1([0, 0], [0, 1], 2, "labels") == pytest.approx(2 / 3)


def test_without_samples_nothing_is_defined() -> None:
    empty = np.zeros(0, np.int64)
    assert np.isnan(macro_f1(empty, empty, 3))
    assert predicted_labels(np.zeros((0, 3))).shape == (0,)


def test_scores_of_a_diverged_model() -> None:
    scores = np.array([[np.nan, 1.0], [0.2, 0.8], [0.9, 0.1]])
    assert predicted_labels(scores).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: macro_f1([0, 1], [0]), "one prediction a label"),
        (lambda: macro_f1([[0]], [[0]]), "one prediction a label"),
        (lambda: macro_f1([0.5], [1]), "labels must be whole numbers"),
        (lambda: confusion([0, 7], [0, 1], 3), r"every label must lie in 0\.\.2, not 0\.\.7"),
        (lambda: confusion([0, 1], [0, -1], 3), "every prediction"),
        (lambda: macro_f1([0], [0], over="al"), "unknown choice of classes 'al'; valid: labels"),
        (lambda: macro_f1([0], [0], classes=0), "classes must be a whole number >= 1, not 0"),
        (lambda: confusion([0], [0], 1.5), "classes must be a whole number >= 1, not 1.5"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(call, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()


def test_the_number_of_classes_may_be_numpy_s() -> None:
    labels = np.array([0, 2, 2])
    assert confusion(labels, labels, labels.max() + 1).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 2]]
