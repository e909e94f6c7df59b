"""Fields that say by their types what they may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from pflrepro.checked import AtLeastOne, Between, Count, NonNegative, Positive, Share, check_fields, domains
from pflrepro.errors import UserError


@dataclass(frozen=True)
class Base:
    mu: NonNegative = 1.0
    form: Literal["paper", "code"] = "paper"

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Plugged(Base):
    tau: Positive = 0.5
    share: Share = 0.1
    epochs: Count = 1
    width: AtLeastOne = 2
    adaptive: bool = False
    rho: Annotated[float, Between(0, 1, open_low=True, open_high=True)] = 0.5
    name: str = "a"
    rows: tuple[int, ...] = ()


def test_values_are_kept_in_the_types_of_their_fields() -> None:
    made = Plugged(mu=2, tau=1, epochs=3.0, share=-0.0, rows=(1, 2))
    assert (made.mu, made.tau, made.epochs, made.rows) == (2.0, 1.0, 3, (1, 2))
    assert type(made.mu) is float and type(made.epochs) is int and str(made.share) == "0.0"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mu": -1}, "mu of Base must be a number >= 0, not -1"),
        ({"mu": "much"}, "mu of Base must be a number >= 0, not 'much'"),
        ({"mu": float("nan")}, "mu of Base must be a number >= 0, not nan"),
        ({"form": "codes"}, "unknown form of Base 'codes'; valid: code, paper"),
        ({"tau": 0}, "tau of Plugged must be a number > 0, not 0"),
        ({"share": 1.5}, "share of Plugged must be a number >= 0 and <= 1, not 1.5"),
        ({"epochs": 1.5}, "epochs of Plugged must be a whole number >= 0 and <= 1,000,000, not 1.5"),
        ({"width": 0}, "width of Plugged must be a whole number >= 1 and <= 1,000,000, not 0"),
        ({"adaptive": 1}, "adaptive of Plugged must be true or false, not 1"),
        ({"rho": 1}, "rho of Plugged must be a number > 0 and < 1, not 1"),
        ({"name": 3}, "name of Plugged must be a word, not 3"),
    ],
)
def test_the_first_wrong_one_is_named_with_the_class_that_declares_it(given: dict, message: str) -> None:
    with pytest.raises(UserError) as raised:
        Plugged(**given)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("mu", "1e-3", 1e-3),
        ("epochs", "7", 7),
        ("adaptive", "True", True),
        ("form", "code", "code"),
        ("name", "b", "b"),
    ],
)
def test_texts_are_read_in_the_type_of_the_field(name: str, text: str, value: object) -> None:
    read = domains(Plugged)[name].parse(name, text)
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mu", "x", "mu must be a number >= 0, not 'x'"),
        ("epochs", "1.5", "epochs must be a whole number >= 0 and <= 1,000,000, not '1.5'"),
        ("epochs", "1" + "0" * 400, f"epochs must be a whole number >= 0 and <= 1,000,000, not 1{'0' * 400}"),
        ("width", "1000001", "width must be a whole number >= 1 and <= 1,000,000, not 1000001"),
        ("adaptive", "yes", "adaptive must be true or false, not 'yes'"),
        ("rows", "3", "rows is no number, no word and not true or false: it can be given in Python alone"),
    ],
)
def test_a_text_that_cannot_be_read_is_named_as_it_was_typed(name: str, text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        domains(Plugged)[name].parse(name, text)
    assert str(raised.value) == message
