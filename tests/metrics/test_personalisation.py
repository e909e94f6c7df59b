"""Per-client measures and GRP-FED's scores against scikit-learn on predictions that are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn import metrics as sk

from pflrepro.algorithms import build_method
from pflrepro.conformance import federation
from pflrepro.metrics import personalisation as pers
from pflrepro.metrics.predictions import Predictions, predict
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation

CLASSES, SIZES = 4, (12, 20, 0, 7)


@pytest.fixture
def made_up() -> Predictions:
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(4), SIZES)
    labels = rng.integers(0, CLASSES, len(owner))
    labels[owner == 3] = 1  # a client of one class
    scores = rng.normal(size=(4, len(owner), CLASSES)) + 1.5 * np.eye(CLASSES)[labels]
    return Predictions(
        classes=CLASSES,
        after=False,
        labels=labels,
        owner=owner,
        own_scores=scores[owner, np.arange(len(owner))],
        pooled=scores.argmax(-1),
        ensemble=softmax(scores, -1).mean(0),
        global_scores=rng.normal(size=(len(owner), CLASSES)),
        clients=4,
    )


def sk_f1(labels, predicted, **changes) -> float:
    return sk.f1_score(labels, predicted, average="macro", zero_division=0, **changes)


def f1_by_part(made_up: Predictions, predicted: np.ndarray) -> list[float]:
    """Of predictions [n] on every client's part."""
    return [sk_f1(made_up.labels[p], predicted[p]) if p.stop > p.start else np.nan for p in made_up.parts]


def test_on_own_and_on_all_clients_samples(made_up) -> None:
    own = pers.f1_on_own(made_up)
    assert np.isnan(own[2]) and SIZES[2] == 0
    assert own.tolist() == pytest.approx(f1_by_part(made_up, made_up.own_predicted), nan_ok=True)
    for client in range(4):
        assert pers.f1_on_pooled(made_up)[client] == pytest.approx(sk_f1(made_up.labels, made_up.pooled[client]))


def test_of_the_global_model_or_the_ensemble_on_each_client(made_up) -> None:
    whole, ensemble = pers.f1_of_server(made_up), pers.f1_of_server(replace(made_up, global_scores=None))
    assert whole.tolist() == pytest.approx(f1_by_part(made_up, made_up.global_scores.argmax(1)), nan_ok=True)
    assert ensemble.tolist() == pytest.approx(f1_by_part(made_up, made_up.ensemble.argmax(1)), nan_ok=True)


def test_grp_fed_s_scores(made_up) -> None:
    found = pers.grp_fed_scores(made_up)
    personal = f1_by_part(made_up, made_up.own_predicted)
    general = [sk_f1(made_up.labels, made_up.pooled[i]) for i in range(4)]
    assert found.personal.tolist() == pytest.approx(personal, nan_ok=True)
    assert found.general.tolist() == pytest.approx(general)
    pairs = [2 * p * r / (p + r) for p, r in zip(personal, general, strict=True)]
    assert found.harmonic.tolist() == pytest.approx(pairs, nan_ok=True)
    assert found.t_g == pytest.approx(sk_f1(made_up.labels, made_up.global_scores.argmax(1)))
    without = pers.grp_fed_scores(replace(made_up, global_scores=None))
    assert without.t_g == pytest.approx(sk_f1(made_up.labels, made_up.ensemble.argmax(1)))


def test_the_two_forms_of_t_l_by_hand() -> None:
    """Two clients: T_p 1 and 0.5, T_r 0.25 and 0.5: mean of 0.4 and 0.5 is 0.45; of the means 0.75 and 0.375 it is 0.5."""
    each = pers.harmonic_mean([1.0, 0.5], [0.25, 0.5])
    assert each.mean() == pytest.approx(0.45)
    assert pers.harmonic_mean(0.75, 0.375) == pytest.approx(0.5)
    assert np.isnan(pers.harmonic_mean(np.nan, 0.0))


@pytest.mark.parametrize("name", ["fedavg", "fedper"])
def test_of_a_simulation(name: str) -> None:
    settings = Settings(2, batch_size=5, lr=0.05, drop_last=False)
    simulation = Simulation(build_method(name), federation(), "mlp", settings, [0], backend="loop", workers=1)
    while not simulation.finished:
        simulation.step()
    predictions = predict(simulation)
    found = pers.grp_fed_scores(predictions)
    if name == "fedavg":  # one model for all: general = global, and every client's harmonic mean is with it
        assert found.general.tolist() == pytest.approx([found.t_g] * 5)
    assert np.isnan(found.personal[4]) and np.isnan(found.harmonic[4]) and not np.isnan(found.general[4])
