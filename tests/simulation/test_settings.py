"""Settings: the protocol's defaults and the refusal of impossible values."""

from __future__ import annotations

import dataclasses

import pytest

from pflrepro.errors import UserError
from pflrepro.settings import Settings


def test_the_defaults_are_the_protocol_of_the_papers() -> None:
    settings = Settings(2000)
    assert (settings.participation, settings.local_epochs, settings.batch_size, settings.lr) == (1.0, 1, 10, 0.005)
    assert (settings.momentum, settings.weight_decay, settings.drop_last, settings.receivers) == (0.0, 0.0, True, "all")
    assert settings.statistics == "personal"
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.rounds = 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rounds", -1, "rounds must be a whole number >= 0 and <= 1,000,000, not -1"),
        ("rounds", 1.5, "rounds must be a whole number >= 0 and <= 1,000,000, not 1.5"),
        ("participation", 0, "participation must be a number > 0 and <= 1, not 0"),
        ("participation", 1.01, "participation must be a number > 0 and <= 1, not 1.01"),
        ("local_epochs", 0, "local epochs must be a whole number >= 1 and <= 1,000,000, not 0"),
        ("batch_size", 0, "batch size must be a whole number >= 1 and <= 1,000,000, not 0"),
        ("lr", -0.1, "learning rate must be a number >= 0, not -0.1"),
        ("lr", float("nan"), "learning rate must be a number >= 0, not nan"),
        ("momentum", 1.0, "momentum must be a number >= 0 and < 1, not 1.0"),
        ("weight_decay", -1.0, "weight decay must be a number >= 0, not -1.0"),
        ("every", 0, "every must be a whole number >= 1 and <= 1,000,000, not 0"),
        ("receivers", "some", "unknown receivers 'some'; valid: "),
        ("statistics", "mean", "unknown batch-norm statistics 'mean'; valid: "),
    ],
)
def test_an_impossible_value_is_named_with_its_range(name: str, value: object, message: str) -> None:
    with pytest.raises(UserError) as caught:
        Settings(**({"rounds": 1} | {name: value}))
    assert str(caught.value).startswith(message)
