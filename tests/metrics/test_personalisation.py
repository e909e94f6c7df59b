"""Per-client measures and GRP-FED's scores against scikit-learn on predictions that are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as sk

from pflrepro.algorithms import build_method
from pflrepro.conformance import federation
from pflrepro.errors import UserError
from pflrepro.metrics import personalisation as pers
from pflrepro.metrics.classification import probabilities
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
        pooled_predicted=scores.argmax(-1),
        ensemble=probabilities(scores).mean(0),
        ensemble_of="probabilities",
        global_scores=rng.normal(size=(len(owner), CLASSES)),
        pooled_scores=scores,
        clients=4,
    )


def sk_f1(labels, predicted, **changes) -> float:
    return sk.f1_score(labels, predicted, average="macro", zero_division=0, **changes)


def test_per_client_vectors(made_up) -> None:
    accuracy, f1, auc = (pers.own(made_up, name) for name in ("accuracy", "macro_f1", "auc"))
    assert accuracy.samples.tolist() == list(SIZES)
    for client, part in enumerate(made_up.parts):
        if not SIZES[client]:
            assert np.isnan([accuracy.values[client], f1.values[client], auc.values[client]]).all()
            continue
        labels, scores = made_up.labels[part], made_up.pooled_scores[client, part]
        assert accuracy.values[client] == pytest.approx(sk.accuracy_score(labels, scores.argmax(1)))
        assert f1.values[client] == pytest.approx(sk_f1(labels, scores.argmax(1)))
        if client == 3:
            assert np.isnan(auc.values[3])  # one class has no ROC curve
        else:
            wanted = sk.roc_auc_score(labels, probabilities(scores), multi_class="ovr", labels=range(CLASSES))
            assert auc.values[client] == pytest.approx(wanted)
    assert accuracy.plain == pytest.approx(np.nanmean(accuracy.values))
    assert accuracy.weighted == pytest.approx((made_up.own_predicted == made_up.labels).mean())
    assert auc.weighted == pytest.approx((12 * auc.values[0] + 20 * auc.values[1]) / 32)


def test_on_all_clients_samples(made_up) -> None:
    predicted = made_up.pooled_scores.argmax(-1)
    for client in range(4):
        assert pers.f1_on_pooled(made_up)[client] == pytest.approx(sk_f1(made_up.labels, predicted[client]))


def test_global_and_ensemble_on_each_client(made_up) -> None:
    part = made_up.parts[1]
    whole, ensemble = pers.of_global(made_up), pers.of_ensemble(made_up)
    assert whole.values[1] == (made_up.global_scores[part].argmax(1) == made_up.labels[part]).mean()
    assert ensemble.values[1] == (made_up.ensemble[part].argmax(1) == made_up.labels[part]).mean()
    with pytest.raises(UserError, match="no global model"):
        pers.of_global(replace(made_up, global_scores=None))
    with pytest.raises(UserError, match="no ensemble"):
        pers.of_ensemble(replace(made_up, ensemble=None))


def test_grp_fed_s_scores(made_up) -> None:
    found = pers.grp_fed_scores(made_up)
    predicted = made_up.pooled_scores.argmax(-1)
    personal = [
        sk_f1(made_up.labels[p], predicted[i, p]) if p.stop > p.start else np.nan for i, p in enumerate(made_up.parts)
    ]
    general = [sk_f1(made_up.labels, predicted[i]) for i in range(4)]
    assert found.t_p == pytest.approx(np.nanmean(personal))
    assert found.t_r == pytest.approx(np.mean(general))
    pairs = [(p, r) for p, r in zip(personal, general, strict=True) if not np.isnan(p)]
    assert found.t_l == pytest.approx(np.mean([2 * p * r / (p + r) for p, r in pairs]))
    assert found.t_l_of_means == pytest.approx(2 * found.t_p * found.t_r / (found.t_p + found.t_r))
    assert found.t_g == pytest.approx(sk_f1(made_up.labels, made_up.global_scores.argmax(1)))
    assert found.global_from == "global model"
    without = pers.grp_fed_scores(replace(made_up, global_scores=None))
    assert without.global_from == "ensemble"
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
    assert pers.own(predictions).weighted == pytest.approx(
        simulation.history(0)["correct"][-1].sum() / simulation.federation.sizes("test").sum()
    )
    if name == "fedavg":  # one model for all: general = global, and every client's harmonic mean is with it
        assert found.t_r == pytest.approx(found.t_g)
    assert np.isnan(found.personal[4]) and np.isnan(found.harmonic[4]) and not np.isnan(found.general[4])


def test_a_measure_of_one_s_own_and_unknown_ones(made_up) -> None:
    constant = pers.own(made_up, lambda labels, scores: 0.5)
    assert constant.plain == 0.5
    with pytest.raises(UserError, match="unknown measure 'acuracy'; valid: accuracy"):
        pers.own(made_up, "acuracy")


def test_the_auc_of_scores_is_that_of_their_softmax() -> None:
    """Three of four pairs are in order by the softmax, none by the logits; against scikit-learn."""
    labels = np.array([0, 1, 1, 0])
    scores = np.array([[1.0, 0.0], [9.0, 8.5], [3.0, 9.0], [2.0, 2.0]])
    chance = np.exp(scores[:, 0]) / np.exp(scores).sum(1)
    assert pers.auc_score(labels, scores) == pytest.approx(sk.roc_auc_score(labels == 0, chance)) == 0.75
    assert sk.roc_auc_score(labels == 0, scores[:, 0]) == 0.0
    assert np.isnan(pers.auc_score(np.zeros(4, np.int64), scores))
