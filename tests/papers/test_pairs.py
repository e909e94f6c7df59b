"""Two cells to look behind: which ones, that their numbers are made by hand of the runs' curves, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from pflrepro import papers
from pflrepro.errors import UserError
from pflrepro.experiments.store import Store

RUNS = Path(__file__).parents[2] / "figures" / "runs"


@pytest.fixture
def study(tmp_path):
    """An artefact with its committed runs."""
    store = Store(tmp_path, behind=RUNS)
    return lambda artefact: papers.study(artefact, store=store, revives=False)


@pytest.mark.parametrize(
    ("artefact", "asked", "column", "rule"),
    [
        ("demo/digits", {}, "practical/digits", "best_round"),
        ("demo/digits", {"row": "fedavg+dbe"}, "practical/digits", "best_round"),
        ("dbe/table2", {}, "tiny/accuracy", "best_round"),  # the first column is a description length
        # fine-tuned, of which nothing is kept: no accuracy of its curve
        ("dbe/table9", {"rival": "fedbabu"}, "har", None),
        ("pfedfda/table1", {"column": "cifar100-s/25"}, "cifar100-s/25", "last_round"),
        ("fedbr/table1", {"row": "fedbr"}, "cifar10", "mean_best_5"),
        ("fedbr/table6", {"column": "local"}, "local", "mean_best_5"),  # right after local training
    ],
)
def test_their_numbers_are_what_the_rule_takes_from_the_curves(study, artefact, asked, column, rule):
    if rule is None:
        with pytest.raises(UserError, match=f"{artefact} has no column in which fedbabu were run; run are: "):
            study(artefact).pair(**asked)
        return
    for cell in study(artefact).pair(**asked):
        assert cell.key[1] == column and cell.taken.rule.name == rule
        curves = {seed: cell.taken.curve(run.history) for seed, run in cell.runs.items()}
        by_hand = {seed: 100 * cell.taken.rule(each[~np.isnan(each)]).value for seed, each in curves.items()}
        assert by_hand == {seed: value.number for seed, value in cell.values.items()}
        assert math.isnan(cell.spread) == (len(by_hand) == 1)


def test_the_largest_number_stands_beside_fedavg_where_nothing_is_asked_for(study):
    demo = study("demo/digits")
    first, second = demo.pair()
    assert first.ours == max(cell.ours for cell in demo.cells.values()) and second.row.key == "fedavg"
    assert [cell.row.key for cell in demo.pair("fedavg+dbe", "local")] == ["fedavg+dbe", "local"]
    assert [cell.row.key for cell in demo.pair(rival=first.row.key)][1] == first.row.key
    assert demo.pair("fedavg")[1].row.key == first.row.key


@pytest.mark.parametrize(
    ("artefact", "asked", "said"),
    [
        ("dbe/figure6", {}, "dbe/figure6 has no cells that were trained"),
        (
            "fedbr/table7-times",
            {},
            "has no accuracy that a rule takes from a run's curve, to look behind; its numbers: seconds",
        ),
        ("dbe/table2", {"column": "tiny/mdl"}, "has no accuracy that a rule takes from a run's curve"),
        ("dbe/table6", {"column": "gain"}, "has no accuracy that a rule takes from a run's curve"),
        (
            "dbe/table2",
            {"column": "tiny-resnet18/accuracy"},
            "nothing was run at scale fast; pflrepro reproduce dbe/table2",
        ),
        ("dbe/figure4", {}, "has no column in which two rows were run; run are: fedavg+dbe in practical/fmnist"),
        ("demo/digits", {"row": "pfedfda"}, "unknown row of demo/digits 'pfedfda'"),
        ("demo/digits", {"column": "nope"}, "unknown column of demo/digits 'nope'"),
        ("demo/digits", {"row": "fedavg", "rival": "FedAvg"}, "beside each other, not fedavg twice"),
    ],
)
def test_what_cannot_be_looked_behind_is_said_in_a_line(study, artefact, asked, said):
    with pytest.raises(UserError) as refused:
        study(artefact).pair(**asked)
    assert said in str(refused.value) and "\n" not in str(refused.value)
