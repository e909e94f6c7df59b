"""Claims of studies on hand-made runs: what is tested of which cells, and which are not judged since a curve still rises."""

from __future__ import annotations

import math

import pytest
from helpers.runs import SKEWED, fill, line, make_artefact

from pflrepro.papers.artefact import Scale, column
from pflrepro.papers.claims import gain_grows
from pflrepro.papers.relative_measures import gain_over, mean_over


def test_claims_are_tested_and_give_the_verdict_of_both_rows(make) -> None:
    found = make()
    fill(found, "fedavg", "skewed", [10, 60, 50], [10, 60, 50])
    fill(found, "fedavg+dbe", "skewed", [10, 70, 50], [10, 71, 50])
    assert line(found, "FedAvg")["verdict"] == line(found, "FedAvg+DBE")["verdict"] == "ordering kept"
    (claim,) = found.outcomes
    # Differences 10 and 11: t = 10.5 / 0.5 = 21, p = 2 (1/2 - atan(21) / pi) with one degree of freedom.
    assert claim.p == claim.adjusted == pytest.approx(1 - 2 * math.atan(21) / math.pi)
    assert (claim.said, claim.difference, claim.outcome, claim.source) == (
        "FedAvg+DBE > FedAvg",
        10.5,
        "kept",
        "the fake",
    )
    assert str(found.counts).startswith("1 kept; 1 also after Holm's correction")
    ((table, _),) = found.claims().tables
    assert table.iloc[0].to_dict() == {
        "column": "shares: FMNIST",
        "claimed": "FedAvg+DBE > FedAvg",
        "ours, difference": "+10.50",
        "its standard error": "0.50",
        "test": "paired t over 2 seeds",
        "p": "0.03",
        "p after Holm": "0.03",
        "outcome": "✓ kept",
        "source": "the fake",
    }


def test_a_claim_between_columns_names_both(make) -> None:
    claim = gain_grows("fedavg+dbe", "fedavg", ("skewed", "pairs"), source="s")
    found = make("paper", make_artefact(claims=(claim,)), seeds=2)
    for name, each in (("skewed", (60, 70)), ("pairs", (50, 80))):
        for key, percent in zip(("fedavg", "fedavg+dbe"), each, strict=True):
            fill(found, key, name, *[[10, percent + seed * (key != "fedavg"), 0, 0, 0] for seed in (0, 1)])
    (outcome,) = found.outcomes
    assert outcome.said == "lead of FedAvg+DBE over FedAvg grows from shares: FMNIST to two classes: FMNIST"
    assert outcome.difference == pytest.approx(20.0)


def test_an_unfinished_curve_is_still_rising(make) -> None:
    found = make()
    fill(found, "fedavg", "skewed", [10, 60, 50], [10, 60, 50])
    fill(found, "fedavg+dbe", "skewed", [10, 65, 70], [10, 70, 66])
    assert [each.outcome for each in found.outcomes] == ["still rising"]
    assert line(found, "FedAvg")["verdict"] == "ordering still rising"
    whole = make("paper", seeds=2)
    fill(whole, "fedavg", "skewed", [10, 60, 50, 50, 50], [10, 60, 50, 50, 50])
    fill(whole, "fedavg+dbe", "skewed", [10, 1, 2, 3, 70], [10, 1, 2, 3, 71])
    assert [each.outcome for each in whole.outcomes] == ["kept"], "at the paper's own length a curve is as it is"


def test_a_run_that_the_stop_rule_has_not_ended_may_still_rise(make) -> None:
    patient = column("skewed", SKEWED.with_(rounds=9, patience=2))
    found = make(of=make_artefact(columns=(patient,), scales=(Scale("fast", "few", rounds=5), Scale("paper", "all"))))
    fill(found, "fedavg", "skewed", [10, 60, 50, 50])  # two tests without a new best
    fill(found, "fedavg+dbe", "skewed", [10, 20, 30, 40, 50, 55])
    rounds = {key: (cell.rounds, cell.rising) for (key, _), cell in found.cells.items() if cell.runs}
    assert rounds == {"fedavg": (3, False), "fedavg+dbe": (5, True)}
    assert [each.outcome for each in found.outcomes] == ["still rising"]


@pytest.mark.parametrize("rises", [False, True])
def test_a_gain_is_still_rising_where_the_other_row_is(make, rises: bool) -> None:
    mean = mean_over(("own",), gain_over("fedavg"))
    columns = (
        column("own", SKEWED, label="own"),
        column("gain", SKEWED, gain_over("fedavg"), label="gain", rows=("fedavg+dbe",)),
        column("mean", SKEWED, mean, label="mean gain", rows=("fedavg+dbe",)),
    )
    scales = (Scale("fast", "few", rounds=2), Scale("paper", "all"))
    found = make(of=make_artefact(columns=columns, claims=(), scales=scales))
    fill(found, "fedavg", "own", [10, 20, 65] if rises else [10, 60, 50])
    fill(found, "fedavg+dbe", "own", [10, 70, 60])
    rising = {key: found.cells["fedavg+dbe", key].rising for key in ("own", "gain", "mean")}
    assert rising == {"own": False, "gain": rises, "mean": rises}
