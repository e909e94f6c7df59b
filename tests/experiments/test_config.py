"""Experiments: refused where impossible, equal where they mean the same, written down and read again."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from helpers.experiments import build, digest
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.algorithms import build_method
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.fedprox import FedProx
from pflrepro.data.datasets import find
from pflrepro.data.partitions.parse import Dirichlet, Group
from pflrepro.errors import UserError
from pflrepro.experiments.config import DataConfig, Experiment
from pflrepro.experiments.loading import load_federation
from pflrepro.settings import Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"algorithm": "fedavgg"},
            r"unknown algorithm 'fedavgg' \(a method of your own: module:Class\); valid: fedavg,",
        ),
        ({"algorithm": "fedavg+dbee"}, r"unknown plug-in 'dbee'; valid: dbe,"),
        ({"algorithm": "dbe+fedavg"}, r"dbe\+fedavg: the method stands first; did you mean fedavg\+dbe\?"),
        ({"algorithm": "mixup+fedprox+fedbr"}, r"did you mean fedprox\+mixup\+fedbr\?"),
        (
            {"algorithm": "fedavg+dbe+ditto"},
            "ditto is a method, and one method is trained at a time; what can be added",
        ),
        (
            {"algorithm": "fedavg+"},
            r"'fedavg\+' lacks a name beside its \+; it is written as fedavg\+dbe; plug-ins: .*dbe",
        ),
        ({"algorithm": "+dbe"}, r"'\+dbe' lacks a name beside its \+"),
        (
            {"algorithm": FedProx(mu=0.5)},
            r"given by its name or its class, not as an object: FedProx with options={'mu': 0.5}, not FedProx\(mu=0.5\)",
        ),
        ({"algorithm": build_method("fedavg")}, r"not as an object: FedAvg, not FedAvg\(\)"),
        ({"algorithm": "fedavg+my_dbe:DBE"}, r"a class of your own stands first or alone, .*: my_dbe:DBE"),
        ({"model": "cnn5"}, r"unknown model 'cnn5' .*; valid: cnn4,"),
        ({"options": {"kapa": 1.0}, "algorithm": "fedavg+dbe"}, r"unknown option of fedavg\+dbe 'kapa'; valid: kappa,"),
        (
            {"options": {"kappa": "x"}, "algorithm": "fedavg+dbe"},
            "option kappa of fedavg.dbe must be a number >= 0, not 'x'",
        ),
        ({"options": (("kappa", 1.0), ("kappa", 2.0)), "algorithm": "fedavg+dbe"}, "each option can be given once"),
        ({"options": (("kappa",),)}, "options are pairs of a name and a value"),
        ({"options": {"\n": None}}, r"no option has the name '\\n'"),
        ({"options": {"kappa": [1]}}, r"option kappa must be a number, a word, true or false, not \[1\]"),
        ({"options": {"kappa": float("nan")}}, "option kappa must be a number, not nan"),
        ({"rounds": -1}, "rounds must be a whole number >= 0 and <= 1,000,000, not -1"),
        ({"rounds": 2.5}, "rounds must be a whole number >= 0 and <= 1,000,000, not 2.5"),
        ({"rounds": True}, "rounds must be a whole number"),
        ({"participation": 0}, "participation must be a number > 0 and <= 1, not 0"),
        ({"participation": 1.01}, "participation must be a number > 0 and <= 1"),
        ({"local_epochs": 0}, "local epochs must be a whole number >= 1 and <= 1,000,000, not 0"),
        ({"batch_size": 0}, "batch size must be a whole number >= 1 and <= 1,000,000, not 0"),
        ({"lr": -0.1}, "learning rate must be a number >= 0, not -0.1"),
        ({"lr": "fast"}, "learning rate must be a number >= 0, not 'fast'"),
        ({"lr": float("inf")}, "learning rate must be a number"),
        ({"momentum": 1}, "momentum must be a number >= 0 and < 1, not 1"),
        ({"weight_decay": -1}, "weight decay must be a number >= 0"),
        ({"drop_last": 1}, "drop last must be true or false, not 1"),
        ({"receivers": "some"}, r"unknown receivers 'some'; valid: all, selected|valid: selected, all"),
        ({"statistics": "mine"}, "unknown batch-norm statistics 'mine'"),
        ({"patience": -1}, "patience must be a whole number >= 0 and <= 1,000,000"),
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"dtype": "float16"}, "unknown number type 'float16'; valid: float"),
        ({"data": "digits"}, "data must be a DataConfig, not 'digits'"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(changes, message):
    with pytest.raises(UserError, match=message) as refused:
        build(**changes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": "digit"}, "unknown data set 'digit' .data of your own: file:FILE.npz.; valid: digits,"),
        ({"partition": "dirichle:0.1"}, "unknown partition 'dirichle'; valid: dirichlet,"),
        ({"partition": "dirichlet:0"}, "ALPHA in dirichlet:ALPHA must be a number > 0"),
        ({"clients": 0}, "clients must be a whole number >= 1 and <= 1,000,000, not 0"),
        ({"partition_seed": -1}, "partition seed must be a whole number >= 0"),
        ({"min_size": -1}, "least samples of a client must be a whole number >= 0"),
        ({"test_share": 0}, "test share must be a number > 0"),
        ({"dataset": "rotated-mnist", "partition": "iid+validation=0.2"}, r"\+validation is not for 'rotated-mnist'"),
        ({"test_share": 1}, "test share must be a number > 0 and < 1, not 1"),
    ],
)
def test_wrong_data_are_refused_in_one_line(changes, message):
    with pytest.raises(UserError, match=message) as refused:
        DataConfig(**({"dataset": "digits"} | changes))
    assert "\n" not in str(refused.value)


def test_the_preset_fills_what_is_not_given():
    made = Experiment.for_dataset("fedavg", "digits", rounds=7, clients=9)
    assert (made.model, made.settings.lr, made.settings.drop_last, made.data.min_size) == ("cnn-digits", 0.1, True, 10)
    assert (made.settings.rounds, made.data.clients) == (7, 9)
    papers = Experiment.for_dataset("gpfl", "fmnist")
    assert (papers.model, papers.settings) == ("cnn4", Settings(2000, lr=0.005, batch_size=10, drop_last=True))
    with pytest.raises(UserError, match=r"kappa is an option of fedavg\+dbe, not a setting: options={'kappa': 3}"):
        Experiment.for_dataset("fedavg+dbe", "digits", kappa=3)
    with pytest.raises(UserError, match="unknown setting 'client'; valid: clients,"):
        Experiment.for_dataset("fedavg", "digits", client=3)


@pytest.mark.parametrize(
    ("partition", "preset"),
    [
        ("dirichlet:0.1", True),
        ("pathological:2", True),
        ("iid", True),
        ("pfedfda-dirichlet:0.5", False),
        ("fixed-size:0.5,20", False),
        ("lda:0.1", False),
        ("lda-flat:0.1+train-share=0.5", False),
        ("long-tail:0.5,0.5", False),
        ("group:3", False),
        ("group-dirichlet:1", False),
        (Dirichlet(0.1), True),
        (Group(2), False),
    ],
)
def test_a_partition_with_a_minimum_of_its_own_keeps_it(partition, preset):
    expected = find("digits").preset.min_size if preset else None
    assert Experiment.for_dataset("fedavg", "digits", partition=partition).data.min_size == expected
    assert Experiment.for_dataset("fedavg", "digits", partition=partition, min_size=7).data.min_size == 7


def test_the_presets_own_partition_is_one_experiment_named_or_not():
    """HAR's people have a least size of their own; the preset's is for other partitions."""
    named = Experiment.for_dataset("fedavg", "har", partition=find("har").preset.partition)
    assert Experiment.for_dataset("fedavg", "har") == named and named.data.min_size is None


def test_the_same_settings_are_one_experiment():
    one = build(lr=1, momentum=0, weight_decay=-0.0, algorithm="dbe", options={"mr_momentum": 1, "kappa": 5})
    two = build(lr=1.0, rounds=3.0, algorithm="fedavg+dbe", options=(("kappa", 5.0), ("mr_momentum", 1.0)))
    assert one == two
    assert hash(one) == hash(two)
    assert one.canonical() == two.canonical()
    assert digest(one) == digest(two)


def test_canonical_json_is_pinned():
    assert build(lr=0.1).canonical() == (
        '{"algorithm":"fedavg","data":{"clients":20,"dataset":"digits","min_size":null,"partition":"dirichlet:0.1",'
        '"partition_seed":1,"proxy":"","test_share":0.25},"dtype":"float32","model":"mlp","options":{},"seed":0,"settings":{'
        '"augment":"none","batch_size":10,"closing":false,"drop_last":true,"evaluate_after":true,"every":1,"first_steps":0,'
        '"first_weights":"common","fit_batch":false,'
        '"local_epochs":1,"local_steps":0,"lr":0.1,"momentum":0,"participation":1,"participation_low":0,"patience":0,'
        '"receivers":"all","rounds":3,"sampling":"number","statistics":"personal","weight_decay":0,"weights":"sizes"}}'
    )


@given(
    lr=st.floats(0, 1e6),
    participation=st.floats(0, 1, exclude_min=True),
    kappa=st.floats(0, 1e9) | st.integers(0, 10**9),
    seed=st.integers(0, 2**63 - 1),
    min_size=st.none() | st.integers(0, 100),
)
def test_every_experiment_survives_its_canonical_text(lr, participation, kappa, seed, min_size):
    data = DataConfig("digits", "iid", min_size=min_size)
    made = build(
        algorithm="fedavg+dbe",
        lr=lr,
        participation=participation,
        options={"kappa": kappa},
        seed=seed,
        data=data,
        dtype="float64",
    )
    again = Experiment.from_dict(json.loads(made.canonical()))
    assert again == made
    assert again.canonical() == made.canonical()
    assert (again.settings.lr, again.settings.participation) == (lr, participation)
    assert Experiment.from_dict(json.loads(json.dumps(made.to_dict())), recorded={}) == made


def test_descriptions_with_wrong_fields_are_refused():
    described = build().to_dict()
    with pytest.raises(UserError, match="unknown field of Experiment 'round'; valid: "):
        Experiment.from_dict(described | {"round": 3})
    with pytest.raises(UserError, match="described by its fields"):
        Experiment.from_dict({"algorithm": "fedavg"})
    for recorded in ({}, None):
        with pytest.raises(UserError, match="model"):
            Experiment.from_dict(
                {name: value for name, value in described.items() if name != "model"}, recorded=recorded
            )


def test_a_record_needs_no_method_that_exists_only_elsewhere():
    described = build().to_dict() | {"algorithm": "not_here:Mine", "options": {"strength": 2}}
    assert Experiment.from_dict(described, recorded={}).options == (("strength", 2),)
    with pytest.raises(UserError, match="no module 'not_here'"):
        Experiment.from_dict(described)


def test_a_changed_experiment_has_other_fields_and_no_new_ones():
    experiment = build()
    assert (experiment.changed(seed=7).seed, experiment.with_settings(rounds=3).settings.rounds) == (7, 3)
    with pytest.raises(UserError, match=r"field of Experiment 'rounds'; valid: .*seed"):
        experiment.changed(rounds=3)
    options = experiment.changed(algorithm="fedprox", options={"mu": 0.1})
    assert options == build(algorithm="fedprox", options={"mu": 0.1}) and len({options, experiment}) == 2
    with pytest.raises(UserError, match=r"seed .*-1"):
        experiment.changed(seed=-1)


def test_experiments_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        build().seed = 5  # type: ignore[misc]


@pytest.mark.parametrize(("is_test", "lacking"), [(False, "test"), (True, "training")])
def test_a_federation_in_which_nobody_is_tested_or_trained_is_refused(is_test, lacking, tmp_path):
    np.savez(tmp_path / "one.npz", client=np.arange(1797) % 2, is_test=np.full(1797, is_test))
    with pytest.raises(UserError, match=f"gives no client {lacking} samples: there is nothing to measure"):
        load_federation(DataConfig("digits", f"file:{tmp_path / 'one.npz'}", clients=2))


def test_a_federation_carries_its_proxy_data_in_their_own_units():
    federation = load_federation(DataConfig("digits", clients=5, proxy="digits"))
    assert federation.proxy.name == "digits"
    assert federation.proxy.clients == 1 and len(federation.proxy.y) == 1797
    assert federation.proxy.unit == federation.unit
    assert load_federation(DataConfig("digits", clients=5)).proxy is None
    experiment = Experiment.for_dataset("fedavg", "digits", clients=5)
    of_experiment, of_data = load_federation(experiment), load_federation(experiment.data)
    assert repr(of_experiment) == repr(of_data), "an experiment stands for its data"


@pytest.mark.parametrize("recorded", [None, {}])
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("algorithm", float("inf"), "algorithm must be a word, not inf"),
        ("model", None, "model must be a word, not None"),
        ("options", None, "options are pairs of a name and a value, not None"),
        ("options", "kappa", "options are pairs of a name and a value, not 'kappa'"),
    ],
)
def test_fields_of_another_type_are_refused_in_one_line(name, value, told, recorded):
    described = Experiment.for_dataset("fedavg", "digits").to_dict() | {name: value}
    with pytest.raises(UserError, match=told):
        Experiment.from_dict(described, recorded=recorded)


def test_a_class_stands_for_its_name():
    by_class = Experiment.for_dataset(FedAvg, "digits", clients=4)
    assert by_class.algorithm == "pflrepro.algorithms.fedavg:FedAvg"
    assert by_class == Experiment.for_dataset("pflrepro.algorithms.fedavg:FedAvg", "digits", clients=4)
