"""`pflrepro run`: its options, and what it says of finished runs."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pflrepro import cli
from pflrepro.errors import UserError
from pflrepro.settings import Settings


def fake_run(name: str, correct: list[int], after: list[int], seconds: float, seed: int) -> SimpleNamespace:
    """A finished run of one client with 10 test samples."""
    rounds = len(correct)
    history = {
        "round": np.arange(rounds),
        "correct": np.array(correct)[:, None],
        "correct_after": np.array(after)[:, None],
        "loss": np.zeros((rounds, 1)),
        "train_loss": np.zeros((rounds, 1)),
        "participated": np.ones((rounds, 1), bool),
        "seconds": np.full(rounds, seconds),
        "seconds_evaluation": np.zeros(rounds),
        "test_samples": np.array([10]),
        "train_samples": np.array([30]),
    }
    return SimpleNamespace(
        experiment=SimpleNamespace(algorithm=name, seed=seed, data=SimpleNamespace(measured="test accuracy")),
        history=history,
        environment={"backend": ("loop", "batched")[seed % 2], "device": "cpu"},
        id=f"run{seed}",
        rounds=rounds - 1,
        folder=Path("store") / f"run{seed}",
    )


def test_a_summary_of_runs_by_hand() -> None:
    from pflrepro.cli.run import summarise

    runs = [
        fake_run("fedavg", [1, 8, 6], [-1, 9, 10], 0.5, 0),
        fake_run("fedavg", [3, 4, 6], [-1, 7, 8], 1.5, 1),
    ]
    summary = summarise(runs, "best_round")
    assert summary["algorithm"] == "fedavg"
    assert summary["accuracy"]["per_seed"] == pytest.approx([0.8, 0.6])
    assert summary["accuracy"]["mean"] == pytest.approx(0.7)
    assert summary["accuracy"]["std"] == pytest.approx(0.1)
    assert summary["accuracy"]["selection"] == "best_round"
    assert summary["rounds"] == 2
    assert summary["seconds_per_round"] == pytest.approx(2.0)  # 0.5 and 1.5 s, the two shares
    assert summary["curve"] == pytest.approx([0.2, 0.6, 0.6])
    assert summary["curve_after_training"] == pytest.approx([math.nan, 0.8, 0.9], nan_ok=True)
    assert summary["run_folders"] == ["store/run0", "store/run1"] and summary["runs"] == ["run0", "run1"]
    assert (summary["backend"], summary["device"]) == (["batched", "loop"], ["cpu"])
    assert summarise(runs, "last_round")["accuracy"]["per_seed"] == pytest.approx([0.6, 0.6])


def test_seconds_are_those_of_a_round_however_often_it_is_tested() -> None:
    from pflrepro.cli.run import summarise

    run = fake_run("fedavg", [1, 8, 6], [-1, 9, 10], 2.0, 0)
    run.history["round"], run.rounds = np.array([0, 5, 8]), 8
    summary = summarise([run], "last_round")
    assert summary["rounds"] == 8 and summary["tested"].tolist() == [0, 5, 8]
    assert summary["seconds_per_round"] == pytest.approx(4.0 / 8)


def test_seeds_that_diverged_are_named() -> None:
    from pflrepro.cli.run import _text, summarise

    runs = [fake_run("fedavg", [1, 8], [-1, 9], 0.5, 0), fake_run("fedavg", [1, 1], [-1, 1], 0.5, 1)]
    for run, seed in zip(runs, (3, 7), strict=True):
        run.experiment.seed = seed
    assert summarise(runs, "best_round")["diverged"] == []
    runs[1].history["loss"][-1] = math.nan
    summary = summarise(runs, "best_round") | {"stored": 0}
    assert summary["diverged"] == [{"seed": 7, "round": 1, "clients": (0,)}]
    assert "seed 7 diverged by round 1 (client 0): its loss is" in _text(SimpleNamespace(dataset="digits"), summary)


def test_slips_of_the_finger_are_refused() -> None:
    words = ["run", "--algorithm", "fedavg+dbe", "--option", "kappa=1", "--option", "kappa=2"]
    with pytest.raises(UserError, match="option kappa of fedavg\\+dbe is given twice"):
        cli.run.experiments(cli.read(cli.build_parser(), words))
    with pytest.raises(UserError, match="--seeds must be a whole number >= 1 and <= 1,000, not 1000000"):
        cli.read(cli.build_parser(), ["run", "--algorithm", "fedavg", "--seeds", "1000000"])


def test_seeds_that_stopped_apart_share_the_curve_up_to_the_first_stop() -> None:
    from pflrepro.cli.run import summarise

    runs = [fake_run("fedavg", [1, 8, 6, 6], [-1, 9, 9, 9], 1.0, 0), fake_run("fedavg", [3, 4], [-1, 7], 1.0, 1)]
    summary = summarise(runs, "best_round")
    assert summary["rounds"] == 1
    assert summary["curve"] == pytest.approx([0.2, 0.6])
    assert len(summary["curve_after_training"]) == 2


def test_one_seed_has_no_spread_and_no_training_no_pace() -> None:
    from pflrepro.cli.run import summarise

    summary = summarise([fake_run("fedavg", [5], [-1], 0.0, 0)], "last_round")
    assert summary["accuracy"]["mean"] == pytest.approx(0.5)
    assert math.isnan(summary["accuracy"]["std"])
    assert math.isnan(summary["seconds_per_round"])
    assert summary["rounds"] == 0


EVERY_SETTING = """
    --partition dirichlet:0.5 --clients 7 --min-size 4 --partition-seed 9 --model mlp --rounds 4 --participation 0.5
    --local-epochs 2 --batch-size 5 --lr 0.02 --momentum 0.9 --weight-decay 0.001 --drop-last --receivers selected
    --statistics averaged --patience 3 --every 2 --no-evaluate-after --weights uniform --seeds 3
"""


def test_run_options_become_the_experiments() -> None:
    from pflrepro.experiments.config import DataConfig, Experiment

    words = [
        "run",
        "--algorithm",
        "fedavg+dbe",
        "--option",
        "kappa=2",
        "--option",
        "mr_momentum=0.5",
        *EVERY_SETTING.split(),
    ]
    experiments = cli.run.experiments(cli.read(cli.build_parser(), words))
    expected = Experiment(
        algorithm="fedavg+dbe",
        options=(("kappa", 2.0), ("mr_momentum", 0.5)),
        data=DataConfig("digits", "dirichlet:0.5", clients=7, partition_seed=9, min_size=4),
        model="mlp",
        settings=Settings(
            rounds=4,
            participation=0.5,
            local_epochs=2,
            batch_size=5,
            lr=0.02,
            momentum=0.9,
            weight_decay=0.001,
            drop_last=True,
            receivers="selected",
            statistics="averaged",
            weights="uniform",
            every=2,
            evaluate_after=False,
            patience=3,
        ),
        seed=1,
    )
    assert experiments[1] == expected
    assert [experiment.seed for experiment in experiments] == [0, 1, 2]


def of(*words: str) -> list:
    return cli.run.experiments(cli.read(cli.build_parser(), ["run", *words]))


def test_several_methods_share_the_setting_and_take_the_options_that_they_have() -> None:
    words = ["--option", "kappa=2", "--option", "proximal=0.1", "--seeds", "2", "--rounds", "3", "--lr", "0.02"]
    found = of("--algorithm", "fedavg,fedavg+dbe", "--algorithm", "ditto", *words)
    assert [(one.algorithm, one.seed) for one in found] == [
        (name, seed) for name in ("fedavg", "fedavg+dbe", "ditto") for seed in (0, 1)
    ]
    assert [dict(one.options) for one in found[::2]] == [{}, {"kappa": 2.0}, {"proximal": 0.1}]
    assert {(one.data, one.settings) for one in found} == {(found[0].data, found[0].settings)}
    assert of("--algorithm", "fedavg+dbe", "--option", "kappa=2", *words[4:]) == found[2:4]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algorithm", "fedavg,ditto", "--option", "kappa=2"], "unknown option of fedavg, ditto 'kappa'; valid: "),
        (["--algorithm", "dbe,fedavg+dbe"], r"the method fedavg\+dbe is named twice"),
        (["--algorithm", "fedavg", "--algorithm", "fedavg"], "the method fedavg is named twice"),
        (["--algorithm", ","], "expected names separated by commas"),
    ],
)
def test_methods_and_options_that_do_not_fit_together_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        of(*words)


def test_what_is_not_given_comes_from_the_preset() -> None:
    from pflrepro.experiments.config import Experiment

    arguments = cli.read(cli.build_parser(), ["run", "--algorithm", "fedavg"])
    assert cli.run.experiments(arguments) == [Experiment.for_dataset("fedavg", "digits", seed=0)]


def test_an_unknown_option_of_the_method_is_refused(capsys) -> None:
    assert cli.main(["run", "--algorithm", "fedavg+dbe", "--option", "kapa=2"]) == 2
    assert "unknown option" in (message := capsys.readouterr().err)
    assert "kappa" in message


def test_a_mean_of_more_tests_than_patience_left_is_refused(capsys, tmp_path) -> None:
    words = "--clients 3 --partition iid --batch-size 64 --model mlp --rounds 30 --lr 0.5 --patience 1 --quiet --store"
    asked = ["run", "--algorithm", "fedavg", *words.split(), str(tmp_path), "--select"]
    assert cli.main([*asked, "mean_last_20"]) == 2
    tests = int(re.search(r"is a mean of 20 tests, and there are (\d+)", capsys.readouterr().err)[1])
    assert tests < 20
    assert cli.main([*asked, f"mean_last_{tests}"]) == 0
