"""Local: no federation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pflrepro.data.federation import Federation

FULL = {"batch_size": 100, "local_epochs": 2}


def test_every_client_is_a_federation_of_its_own(federation, simulate) -> None:
    stored = simulate("local", rounds=3, **FULL).replicas[0].clients.params
    for i in range(federation.clients):
        alone = Federation(
            federation.x,
            federation.y,
            [federation.rows["train"][i]],
            [federation.rows["test"][i]],
            classes=federation.classes,
        )
        own = simulate("fedavg", federation=alone, rounds=3, **FULL).replicas[0].server.params
        for mine, theirs in zip(stored[i].leaves(), own.leaves(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


def test_nothing_is_sent(simulate) -> None:
    ours = simulate("local")
    assert not ours.replicas[0].server.has_leaves()
    assert ours.traffic == {"numbers_down": 0.0, "numbers_up": 0.0}


def test_the_tested_model_is_the_one_that_was_trained_last(simulate) -> None:
    """With everyone in every round, row t + 1 before training is row t after training."""
    history = simulate("local", rounds=4).history(0)
    np.testing.assert_array_equal(history["correct"][1:], history["correct_after"][1:])


@pytest.mark.parametrize("participation", [0.4, 0.8])
def test_a_client_trains_only_when_it_is_drawn(simulate, participation: float) -> None:
    start = simulate("local", rounds=0).replicas[0].clients.params
    ours = simulate("local", rounds=1, participation=participation)
    took_part = torch.tensor(ours.history(0)["participated"][-1])
    moved = torch.stack(
        [
            (a != b).flatten(1).any(1)
            for a, b in zip(ours.replicas[0].clients.params.leaves(), start.leaves(), strict=True)
        ]
    )
    assert moved.any(0).tolist() == took_part.tolist()
