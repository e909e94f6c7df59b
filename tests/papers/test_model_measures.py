"""Measures on models: each against the direct call on a simulation of the same experiment; what is kept, and damaged."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import pflrepro
from pflrepro.data.partitions.parse import new_clients
from pflrepro.errors import UserError
from pflrepro.experiments import revive
from pflrepro.experiments.store import Store
from pflrepro.metrics import (
    leakage,
    mdl,
    newcomers,
    personalisation,
    predictions,
    representations,
    separation,
    training_time,
)
from pflrepro.papers import dbe, model_measures, prediction_measures
from pflrepro.papers.measures import Evidence, Measure
from pflrepro.papers.settings import fda
from pflrepro.simulation.inspection import notes

TINY = {"hidden": (4,), "steps": 3, "sizes": 2, "seeds": 1}
OLD, NEW = new_clients("dirichlet:0.5", 3, 2)


def experiment(name: str, **changes) -> pflrepro.Experiment:
    asked = {"clients": 3, "rounds": 2, "model": "cnn-digits", "lr": 0.05, "partition": OLD, "fit_batch": True}
    return pflrepro.Experiment.for_dataset(name, "digits", **(asked | changes))


class Trained:
    """Runs in a store of their own, and simulations of the same experiments, each made once."""

    def __init__(self, folder) -> None:
        self.store = Store(folder / "store", behind=folder / "nothing")
        self.simulations = {}

    def evidence(self, name: str, **changes) -> Evidence:
        return Evidence(
            pflrepro.run(experiment(name, **changes), store=self.store, progress=False, backend="loop"), self.store
        )

    def simulation(self, name: str, **changes):
        key = name, str(changes)
        if key not in self.simulations:
            self.simulations[key] = pflrepro.simulate(experiment(name, **changes), backend="loop", workers=1)
        return self.simulations[key]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Trained:
    return Trained(tmp_path_factory.mktemp("trained"))


def number(measure: Measure, evidence: Evidence) -> float:
    return measure.of(evidence).number


# ---- readings --------------------------------------------------------------------------------------------------------------------
def test_what_was_measured_is_read_back_without_models_and_taken_again_where_damaged(
    trained, monkeypatch, caplog
) -> None:
    evidence = trained.evidence("pfedfda")
    first = model_measures.BETAS.of(evidence)
    with monkeypatch.context() as forbidden:
        forbidden.setattr(revive, "revive", lambda *_, **__: pytest.fail("the models were looked at again"))
        again = model_measures.BETAS.of(evidence)
    assert again.number == first.number and again.clients.tolist() == first.clients.tolist()
    (file,) = (evidence.run.folder / "readings").glob("notes-2-*.npz")
    file.write_bytes(file.read_bytes()[:-40])
    with caplog.at_level(logging.WARNING):
        assert model_measures.BETAS.of(evidence).number == first.number
    assert "damaged and taken again" in caplog.text
    caplog.clear()
    assert model_measures.BETAS.of(evidence).number == first.number and not caplog.text


def test_measures_that_ask_the_same_share_one_answer(trained) -> None:
    evidence = trained.evidence("fedavg")
    scores = [number(prediction_measures.grp_fed(score), evidence) for score in prediction_measures.GRP_SCORES]
    number(prediction_measures.grp_fed("T_p", "nearest"), evidence)
    assert len(list((evidence.run.folder / "readings").glob("predictions-*"))) == 1 and len(set(scores)) > 2


# ---- features --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("layer", "after"), [("conv1", False), ("features", True), ("b4", False)])
def test_description_lengths(trained, layer: str, after: bool) -> None:
    """`b4` is a layer of ResNet-18: of embedded data, which stand in for others, the features are taken in its place."""
    babu = {"name": "fedbabu", "options": {"tune_epochs": 1}}
    taken = "features" if layer == "b4" else layer
    found = representations.collect(trained.simulation(**babu), taken, limit=None, after=after, adapted=False)
    expected = [curve.codelength() for curve in mdl.curves(found.sets()[:2], 10, mdl.Probe(**TINY), seed=0)]
    value = model_measures.mdl(layer, TINY, clients=2, after=after).of(trained.evidence(**babu))
    assert value.clients.tolist() == expected and value.number == pytest.approx(np.mean(expected))


def test_how_far_classes_and_clients_lie_apart(trained) -> None:
    evidence = trained.evidence("fedavg+dbe")
    features = representations.collect(trained.simulation("fedavg+dbe"), "embedded", limit=90, after=True, seed=0)
    labels = torch.as_tensor(features.labels)
    expected = {
        "class separation": separation.class_separation(features.z, labels),
        "A-distance between clients": np.nanmean(separation.client_distances(features.z, features.clients, 3)),
        "Fisher ratio of clients": np.median(representations.fisher_ratio(features), 1).mean(),
        "silhouette by client and class": separation.silhouette(features.z, features.clients, features.labels),
    }
    assert expected.keys() == model_measures.SEPARATIONS.keys()
    for what, value in expected.items():
        found = model_measures.separation(evidence, what, "embedded", after=True, limit=90)
        assert found == pytest.approx(value, rel=1e-6)
    with pytest.raises(UserError, match="purity"):
        model_measures.separation(evidence, "purity", "features", after=False, limit=90)


# ---- predictions -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["fedavg", "lg-fedavg"])
def test_the_scores_of_grp_fed(trained, name: str) -> None:
    evidence, found = trained.evidence(name), predictions.predict(trained.simulation(name))
    scores = personalisation.grp_fed_scores(found)
    means = {"T_g": scores.t_g, "T_p": scores.personal, "T_r": scores.general, "T_l": scores.harmonic}
    for score in prediction_measures.GRP_SCORES:
        measure = prediction_measures.grp_fed(score)
        assert number(measure, evidence) == pytest.approx(100 * np.nanmean(means[score]))
        assert measure.metric == f"{score}_macro_f1"
        assert (measure.of(evidence).clients is None) == (score == "T_g")
    assert prediction_measures.grp_fed("T_l").of(evidence).clients.tolist() == (100 * scores.harmonic).tolist()


def test_the_scores_of_one_client(trained) -> None:
    found = predictions.predict(trained.simulation("fedavg"))
    evidence, scores = trained.evidence("fedavg"), personalisation.grp_fed_scores(found)
    counts = np.stack([np.bincount(found.labels[part], minlength=10) for part in found.parts])
    apart = abs(counts / counts.sum(1, keepdims=True) - counts.sum(0) / counts.sum()).sum(1)
    for whose, client in (("nearest", apart.argmin()), ("farthest", apart.argmax())):
        given = {
            score: number(prediction_measures.grp_fed(score, whose), evidence) for score in ("T_p", "T_r", "T_l", "T_g")
        }
        server = personalisation.f1_of_server(found)[client]
        expected = [
            100 * each for each in (scores.personal[client], scores.general[client], scores.harmonic[client], server)
        ]
        assert list(given.values()) == pytest.approx(expected)
    assert prediction_measures.grp_fed("T_g", "nearest").metric == "global_test_macro_f1"
    with pytest.raises(UserError, match="unknown client 'middle'; valid: nearest, farthest"):
        prediction_measures.grp_fed("T_p", "middle")


# ---- fine-tuning and new clients -------------------------------------------------------------------------------------------------
def test_fine_tuned_copies(trained) -> None:
    found = newcomers.tuned(trained.simulation("fedavg"), 2, "all")
    value = model_measures.tuned(2).of(trained.evidence("fedavg"))
    assert value.number == pytest.approx(100 * found.weighted)
    assert value.clients == pytest.approx(100 * found.values) and value.weights.tolist() == found.samples.tolist()


def test_dbe_tunes_fedbabu_once_after_its_run_and_takes_the_best_round_of_others(trained) -> None:
    """The curve that ends its run is that of the global model: with a test after ten epochs each round it ends elsewhere."""
    options = dict(dbe.FEDBABU.options)
    babu = {"name": "fedbabu", "options": options}
    found = newcomers.tuned(trained.simulation(**babu), 10, "all")
    for measure in (dbe.BEST, dbe.TABLE9.columns[0].measure, dbe.TABLE5.columns[0].measure):
        assert measure.rule_of("fedbabu") == "last round" and measure.rule_of("fedavg").startswith(
            "maximum over rounds"
        )
        assert number(measure, trained.evidence(**babu)) == pytest.approx(100 * found.weighted)
        best = trained.evidence("fedavg").run.curve.max()
        assert number(measure, trained.evidence("fedavg")) == pytest.approx(100 * best)
    untuned = newcomers.tuned(trained.simulation(**babu), 0, "all").weighted
    assert trained.evidence(**babu).run.curve[-1] == pytest.approx(untuned) and untuned < found.weighted


def test_new_clients(trained) -> None:
    federation = pflrepro.load_federation(experiment("fedavg", partition=NEW, clients=2).data)
    ways = [("pfedfda", {}), ("fedavg", {"how": "plain", "epochs": 2}), ("fedper", {"how": "own", "epochs": 2})]
    for name, how in ways:
        found = newcomers.newcomers(trained.simulation(name), federation, **how)
        value = model_measures.newcomers(**how).of(trained.evidence(name))
        assert value.number == pytest.approx(100 * found.weighted) and value.clients == pytest.approx(
            100 * found.values
        )
    clean, foggy = (model_measures.newcomers(corruption=kind) for kind in ("", "fog"))
    assert clean.name != foggy.name  # a stand-in has no corrupted copy: the same images
    assert number(clean, trained.evidence("pfedfda")) == number(foggy, trained.evidence("pfedfda"))
    with pytest.raises(UserError, match=r"\+first-of=M"):
        number(model_measures.newcomers(), trained.evidence("fedavg", partition="dirichlet:0.5"))


def test_the_others_of_a_partition_and_their_stand_in() -> None:
    half = fda("half", "cifar10", "dirichlet:0.5+first-of=100+train-share=0.5", clients=80)
    data = model_measures.others(half.data(), "cifar10-fog-3")
    assert (data.dataset, data.clients) == ("cifar10-fog-3", 20)
    assert data.partition == new_clients("dirichlet:0.5+train-share=0.5", 80, 20)[1]
    small = half.stand_in().data()
    assert (small.partition, small.clients, model_measures.others(small, "digits").clients) == (
        "dirichlet:0.5+first-of=8",
        5,
        3,
    )


# ---- attacks, notes, times -------------------------------------------------------------------------------------------------------
def test_what_an_attack_recovers(trained) -> None:
    simulation, evidence = trained.simulation("fedavg"), trained.evidence("fedavg")
    seen = leakage.observe(simulation, "extractor", batches=2).first(3)
    found = leakage.recover(seen, leakage.Attack(steps=1, inner=2, seed=0))
    value = model_measures.psnr("extractor", victims=3, steps=1, inner=2).of(evidence)
    assert value.number == pytest.approx(found.psnr()) and len(value.clients) == len(set(seen.client))


def test_a_client_of_whom_nothing_is_recovered_keeps_its_place() -> None:
    found = {"psnr": np.array([6.0, math.nan, 8.0, math.nan, math.nan]), "client": np.array([0, 0, 2, 1, 1])}
    experiment = SimpleNamespace(seed=0)
    evidence = SimpleNamespace(run=SimpleNamespace(experiment=experiment), reading=lambda *_, **__: found)
    value = model_measures.psnr("extractor").of(evidence)
    assert value.number == 7.0 and value.weights.tolist() == [1.0, 0.0, 1.0]
    np.testing.assert_array_equal(value.clients, [6.0, math.nan, 8.0])


def test_new_clients_of_apple_are_refused_before_training() -> None:
    with pytest.raises(UserError, match="a number for each client that trained, and none for a new one"):
        model_measures.newcomers().check("apple")
    model_measures.newcomers("plain", 10).check("apple")
    model_measures.newcomers().check("fedfomo+mr")


def test_of_two_coefficients_that_of_the_means_is_taken(trained) -> None:
    beta = notes(trained.simulation("pfedfda", options={"coefficients": "separate"}))["beta"]
    evidence = trained.evidence("pfedfda", options={"coefficients": "separate"})
    assert beta.shape == (3, 2) and model_measures.BETAS.of(evidence).clients == pytest.approx(beta[:, 0])
    assert np.isnan(number(model_measures.BETAS, trained.evidence("fedavg")))


def test_shares_of_time_are_taken_once(trained, monkeypatch) -> None:
    taken = []

    def shares(simulation, clients=None):
        taken.append(list(clients))
        return training_time.TimeShares(np.array([80.0, 60.0]), np.array([5.0, 10.0]), np.array([15.0, 30.0]))

    monkeypatch.setattr(training_time, "time_shares", shares)
    evidence = trained.evidence("pfedfda")
    found = {
        part: number(model_measures.time_share(part, 2), evidence)
        for part in ("network", "estimation", "interpolation")
    }
    assert list(found.values()) == [70.0, 7.5, 22.5] and taken == [[0, 1]]
    with pytest.raises(UserError, match="part of pFedFDA's training"):
        model_measures.time_share("server")


def test_no_measure_loads_the_framework_before_it_is_asked() -> None:
    code = (
        "import sys, pflrepro.papers.prediction_measures; print({'torch', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
