"""The checks that every room uses: what they accept, and what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.errors import UserError, check_range, check_word, unknown
from pflrepro.experiments.config import Experiment


def test_a_valid_word_is_returned_and_another_one_names_the_valid_ones() -> None:
    assert check_word("form", "paper", ("code", "paper")) == "paper"
    assert check_word("form", "b", {"a": 1, "b": 2}) == "b"
    with pytest.raises(UserError, match=r"^unknown form 'papers'; valid: paper, code$"):
        check_word("form", "papers", ("code", "paper"))
    with pytest.raises(UserError, match=r"^unknown form 3; valid: code$"):
        check_word("form", 3, ("code",))
    with pytest.raises(UserError, match=r"^unknown form \['a'\]; valid: a$"):
        check_word("form", ["a"], {"a": 1})


def test_a_name_where_none_is_valid_is_one_clear_error() -> None:
    assert str(unknown("option of fedavg", "mu", ())) == "unknown option of fedavg 'mu'; valid: (none)"


@given(st.sampled_from([-0.5, 0, 0.0, 0.25, 1, 1.0, 1.5]), st.booleans(), st.booleans())
def test_an_open_end_leaves_itself_out(value: float, open_low: bool, open_high: bool) -> None:
    ends = {"open_low": open_low, "open_high": open_high}
    inside = (value > 0 if open_low else value >= 0) and (value < 1 if open_high else value <= 1)
    if inside:
        assert check_range("share", value, 0, 1, **ends) is value
        return
    said = f"share must be a number {'>' if open_low else '>='} 0 and {'<' if open_high else '<='} 1, not {value!r}"
    with pytest.raises(UserError) as refused:
        check_range("share", value, 0, 1, **ends)
    assert str(refused.value) == said


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), 1.5])
def test_only_finite_numbers_are_whole_numbers(value: object) -> None:
    with pytest.raises(UserError, match=r"^rounds must be a whole number >= 0, not "):
        check_range("rounds", value, 0, integer=True)


def test_a_whole_number_is_returned_as_one() -> None:
    found = check_range("rounds", 3.0, 0, integer=True)
    assert found == 3 and type(found) is int


@pytest.mark.parametrize("value", [np.int64(3), np.uint8(3), np.float32(3.0)])
def test_a_number_of_numpy_is_a_number_of_python(value: object) -> None:
    assert type(check_range("rounds", value, 0, integer=True)) is int
    assert type(check_range("rate", np.float32(0.5), 0)) is float
    experiment = Experiment.for_dataset("ditto", "digits", seed=value, options={"proximal": np.float64(0.25)})
    assert experiment == Experiment.for_dataset("ditto", "digits", seed=3, options={"proximal": 0.25})
    with pytest.raises(UserError, match=r"rounds must be a whole number, not np\.True_"):
        check_range("rounds", np.bool_(True), integer=True)
