"""The schema of histories, and early stopping against the words of the protocol."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.errors import CorruptFile
from pflrepro.experiments.history import (
    NO_LOSS,
    SCHEMA,
    agree,
    answer,
    at_rounds,
    check_history,
    joined,
    rounds_to_test,
    shortened,
    spacing_of,
    stops_at,
)
from pflrepro.settings import Settings


def history() -> dict[str, np.ndarray]:
    return {
        "round": np.arange(3),
        "correct": np.array([[1, 2], [3, 4], [5, 6]]),
        "loss": np.array([[1.0, np.nan], [0.0, np.inf], [2.0, 2.0]]),
        "correct_after": np.array([[-1, -1], [3, -1], [0, 6]]),
        "train_loss": np.array([[np.nan, np.nan], [0.5, np.nan], [0.25, 1.5]]),
        "objective": np.array([[np.nan, np.nan], [0.5, np.nan], [-0.25, 1.5]]),
        "participated": np.array([[False, False], [True, False], [True, True]]),
        "seconds": np.zeros(3),
        "seconds_aggregation": np.zeros(3),
        "seconds_evaluation": np.ones(3),
        "test_samples": np.array([5, 6]),
        "train_samples": np.array([15, 0]),
    }


def test_a_good_history_comes_back_in_the_schema_s_order():
    shuffled = dict(reversed(history().items()))
    assert list(check_history(shuffled)) == list(SCHEMA)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("round", np.array([1, 2, 3]), "round has impossible values"),
        ("round", np.array([0, 2, 2]), "round has impossible values"),
        ("round", np.arange(3).astype(np.int32), r"round is int32 \[3\], not int64 \[3\]"),
        ("correct", np.array([[1, 2], [3, 4], [6, 6]]), "correct has impossible values"),
        ("correct", np.array([[1, 2], [3, 4]]), r"correct is int64 \[2, 2\], not int64 \[3, 2\]"),
        ("correct_after", np.full((3, 2), -2), "correct_after has impossible values"),
        ("loss", np.full((3, 2), -1.0), "loss has impossible values"),
        ("seconds", np.array([0.0, np.nan, 1.0]), "seconds has impossible values"),
        ("seconds_aggregation", np.array([0.0, -1.0, np.nan]), "seconds_aggregation has impossible values"),
        ("seconds_evaluation", np.array([0.0, -1.0, 1.0]), "seconds_evaluation has impossible values"),
        ("test_samples", np.array([5, 6, 7]), r"correct is int64 \[3, 2\], not int64 \[3, 3\]"),
        ("train_samples", np.array([-1, 2]), "train_samples has impossible values"),
        ("participated", np.zeros((3, 2)), "participated is float64"),
    ],
)
def test_what_does_not_fit_is_named(name, value, message):
    with pytest.raises(CorruptFile, match=message):
        check_history(history() | {name: value})


def test_names_must_be_those_of_the_schema():
    lacking = {name: array for name, array in history().items() if name != "loss"}
    with pytest.raises(CorruptFile, match=r"lacks \['loss'\]"):
        check_history(lacking)
    with pytest.raises(CorruptFile, match=r"has \['more'\] besides"):
        check_history(history() | {"more": np.zeros(1)})
    with pytest.raises(CorruptFile, match="round is int64"):
        check_history({name: array[:0] for name, array in history().items()})


def test_a_request_is_answered_by_the_first_rounds_or_not_at_all():
    long = history() | {"round": np.array([0, 2, 3])}
    assert rounds_to_test(Settings(7, every=3)).tolist() == [0, 3, 6, 7]
    assert answer(long, Settings(3, every=2))["round"].tolist() == [0, 2, 3]
    assert answer(long, Settings(2, every=2))["round"].tolist() == [0, 2]
    assert answer(long, Settings(3, every=3))["round"].tolist() == [0, 3]
    assert answer(long, Settings(4, every=2)) is None, "too short"
    assert answer(long, Settings(3, every=1)) is None, "tested too rarely"
    assert check_history(answer(long, Settings(2, every=2)))["test_samples"].tolist() == [5, 6]


def test_the_stop_rule_answers_for_rounds_that_were_never_trained():
    flat = history() | {"correct": np.array([[1, 2], [5, 6], [5, 6]])}
    assert answer(flat, Settings(100, patience=1))["round"].tolist() == [0, 1, 2]
    assert answer(flat, Settings(100, patience=2)) is None
    assert answer(history(), Settings(100, patience=1)) is None, "it still rises"


def test_times_are_those_since_the_test_before_that_is_left():
    timed = history() | {"seconds": np.array([0.5, 1.0, 2.0]), "seconds_evaluation": np.array([0.25, 0.5, 1.0])}
    part = at_rounds(timed, np.array([0, 2]))
    assert part["seconds"].tolist() == [0.5, 3.0] and part["seconds_evaluation"].tolist() == [0.25, 1.5]


def test_a_run_that_was_longer_keeps_what_lies_behind():
    new, old = history(), history() | {"round": np.array([0, 2, 5])}
    assert joined(new, old)["round"].tolist() == [0, 1, 2, 5]
    assert joined(new, old)["correct"][-1].tolist() == [5, 6]
    assert joined(new, None)["round"].tolist() == [0, 1, 2]
    times = {"seconds": np.array([0.5, 1.0, 2.0]), "seconds_evaluation": np.array([0.25, 0.5, 1.0])}
    old = history() | {"round": np.array([0, 1, 5])} | times
    assert joined(new, old)["seconds"][-1] == 1.5, "of the rounds 2 to 5, those behind 2"
    assert joined(new, old)["seconds_evaluation"][-1] == 1.0


def test_a_run_that_was_tested_more_often_keeps_its_tests():
    """New after rounds 0, 4 and 8, old after each of six: the time of the new one's rounds is shared out to the old one's tests."""
    tests = {"correct": [10, 14, 18], "seconds": [0.5, 4.0, 8.0], "seconds_evaluation": [0.0, 1.0, 1.0]}
    new = _of_rounds([0, 4, 8], **tests)
    old = _of_rounds(range(7), correct=range(20, 27), seconds=[9.0] * 7, seconds_evaluation=[3.0] * 7)
    found = joined(new, old)
    assert found["round"].tolist() == [0, 1, 2, 3, 4, 5, 6, 8]
    assert found["correct"][:, 0].tolist() == [10, 21, 22, 23, 14, 25, 26, 18]
    assert found["seconds"].tolist() == [0.5, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0]
    assert found["seconds_evaluation"].tolist() == [0.0, 3.0, 3.0, 3.0, 1.0, 3.0, 3.0, 1.0]
    assert at_rounds(found, np.array([0, 4, 8]))["seconds"].tolist() == new["seconds"].tolist()


def _of_rounds(rounds, correct, **times) -> dict[str, np.ndarray]:
    """A history of two clients after these rounds."""
    count = len(list(rounds))
    like = {name: np.resize(array, (count, *array.shape[1:])) for name, array in history().items() if len(array) == 3}
    both = np.stack([np.array(correct)] * 2, 1)
    given = {"round": np.array(rounds), "correct": both} | {name: np.array(each) for name, each in times.items()}
    return history() | like | given


def test_two_trainings_agree_in_every_test_that_both_have():
    one = history() | {"loss": np.array([[0.1, 2], [3, 4], [5, np.inf]])}
    small = one | {"loss": one["loss"].astype(np.float32).astype(np.float64)}
    assert agree(one, small), "as a run is kept that comes with the package"
    assert not agree(one, one | {"loss": one["loss"] * (1 + 1e-6)})
    short = one | {"loss": shortened(one["loss"])}
    assert agree(one, short) and agree(short, one) and not agree(short, one | {"loss": one["loss"] * (1 + 1e-3)})
    some = one | {"loss": np.array([[0.1, 2], [NO_LOSS, NO_LOSS], [5, np.inf]])}
    assert agree(one, some) and not agree(some, one | {"loss": one["loss"] + [[0], [0], [1]]})
    other = at_rounds(one, np.array([0, 2]))
    assert agree(one, other) and not agree(one, other | {"correct": other["correct"] + [[0], [1]]})
    longer = one | {"round": np.array([0, 3, 4]), "correct": one["correct"] + [[0], [1], [1]]}
    assert not agree(one, longer), "nothing but the start in common, which all trainings have"
    assert agree(one, at_rounds(one, np.array([0]))), "the start alone is that of every training"


def test_losses_are_shortened_to_four_digits():
    short = shortened(np.array([1 / 3, 1234.54, 7e-9, 0.0, NO_LOSS, np.inf, np.nan]))
    assert short.dtype == np.float32 and short[:2].tolist() == [5461 / 2**14, 1234.5]
    np.testing.assert_array_equal(short[3:], [0, NO_LOSS, np.inf, np.nan])
    values = np.random.default_rng(0).lognormal(size=1000).astype(np.float32)
    np.testing.assert_allclose(shortened(values), values, rtol=2**-13)
    np.testing.assert_array_equal(shortened(shortened(values)), shortened(values))


def test_losses_of_a_test_are_kept_all_or_not_at_all_and_those_of_the_first_always():
    none = np.full((1, 2), NO_LOSS)
    check_history(history() | {"loss": np.concatenate([history()["loss"][:2], none])})
    for wrong in ([none, history()["loss"][1:]], [history()["loss"][:2], [[1.0, NO_LOSS]]]):
        with pytest.raises(CorruptFile, match="loss has impossible values"):
            check_history(history() | {"loss": np.concatenate(wrong)})


def test_how_often_a_run_was_tested_throughout():
    mixed = {"round": np.array([*range(7), 8, 12])}
    assert spacing_of(mixed, 1) == 4, "behind round 6 every fourth"
    assert spacing_of(mixed, 6) == 6
    assert spacing_of({"round": rounds_to_test(Settings(50, every=20))}, 20) == 20
    assert spacing_of({"round": np.array([0])}, 3) == 3


def by_the_words(curve: list[float], patience: int) -> int | None:
    """Stop when (evaluations so far) - (index of the best) > patience, looking after every evaluation."""
    for evaluations in range(1, len(curve) + 1):
        so_far = curve[:evaluations]
        if evaluations - so_far.index(max(so_far)) > patience:
            return evaluations
    return None


@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.4]), max_size=40), st.integers(1, 8))
def test_stopping_follows_the_protocol_s_words(curve, patience):
    assert stops_at(np.array(curve), patience) == by_the_words(curve, patience)


def test_stopping_by_hand():
    curve = np.array([0.1, 0.5, 0.4, 0.5, 0.3, 0.9])
    assert stops_at(curve, 2) == 4  # best at 1; 4 evaluations - 1 > 2
    assert stops_at(curve, 3) == 5
    assert stops_at(curve, 4) is None
    assert stops_at(curve, 0) is None
