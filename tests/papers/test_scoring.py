"""The score card: the most exact scale of every cell, claims once, stand-ins never."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from helpers.runs import SKEWED, fill, make_artefact

from pflrepro import papers
from pflrepro.errors import UserError
from pflrepro.experiments.store import Store
from pflrepro.papers import scoring
from pflrepro.papers.artefact import SMOKE, Scale, column, row
from pflrepro.papers.claims import above
from pflrepro.papers.measures import Measure
from pflrepro.papers.result import FRAME_COLUMNS, NOT_MEASURED, NOT_RUN
from pflrepro.papers.studies import Study

ROWS = (row("FedAvg"), row("FedAvg+DBE", "fedavg+dbe"), row("Ditto"), row("Nothing", "absent"))


@pytest.fixture
def artefact(monkeypatch: pytest.MonkeyPatch):
    """Three scales with the same seeds; two claims."""
    scales = (
        SMOKE,
        Scale("fast", "few", rounds=2, seeds=5, columns=("skewed",)),
        Scale("paper", "all", seeds=5),
    )
    claims = (above("fedavg+dbe", "fedavg", source="one"), above("ditto", "fedavg", source="two"))
    made = make_artefact(rows=ROWS, claims=claims, scales=scales)
    monkeypatch.setattr(scoring, "select", lambda paper: [made])
    return made


def curve(*percents: int, seed: int = 0) -> list[int]:
    return [percent + seed % 2 for percent in percents]


def test_each_cell_is_of_the_most_exact_scale_that_was_run(artefact, store: Store) -> None:
    fast, paper, smoke = (Study(artefact, scale, store=store) for scale in ("fast", "paper", "smoke"))
    fill(paper, "fedavg", "skewed", *[curve(10, 50, 40, 85, 60)] * 3)
    fill(fast, "fedavg+dbe", "skewed", *[curve(10, 70, 50)] * 2)
    fill(smoke, "ditto", "skewed", [10, 99, 99])
    card = scoring.score_card(store=store)
    assert tuple(card.cells.columns) == FRAME_COLUMNS and len(card.cells) == 4 * 2
    found = {(line.row, line.column): line for line in card.cells.itertuples()}
    exact, quick = found["FedAvg", "shares: FMNIST"], found["FedAvg+DBE", "shares: FMNIST"]
    assert (exact.scale, exact.ours, exact.n, exact.fidelity, exact.rounds) == ("paper", 85.0, 3, "same", 4)
    assert (quick.scale, quick.ours, quick.n, quick.fidelity, quick.interval) == (
        "fast",
        70.0,
        2,
        "reduced",
        "t, 2 seeds",
    )
    for row_ in ("Ditto", "Nothing"):
        nothing = found[row_, "shares: FMNIST"]
        assert (nothing.scale, nothing.verdict, nothing.interval) == ("", NOT_RUN, "") and math.isnan(nothing.ours)
    counted = scoring.summary(card).loc["demo/fake"]
    assert [counted[name] for name in ("cells", *scoring.SHARES)] == [8, 1, 1, 0, 0, 6]
    said = "1 of 8 cells at scale paper, 1 of 8 cells at scale fast; claims: 1 ? undecided"
    assert scoring.status(card, "demo/fake") == said
    assert [study.scale.name for study in card.shown("demo/fake")] == ["paper", "fast"]


def test_each_claim_is_told_once_at_the_most_exact_scale_that_has_it(artefact, store: Store) -> None:
    fast, paper = (Study(artefact, scale, store=store) for scale in ("fast", "paper"))
    fill(fast, "ditto", "skewed", *[curve(10, 60, 50, seed=seed) for seed in range(5)])
    fill(paper, "fedavg", "skewed", *[curve(10, 40, 30, 90, 50) for seed in range(5)])
    fill(paper, "fedavg+dbe", "skewed", *[curve(10, 48, 30, 80, 50, seed=seed) for seed in range(5)])
    card = scoring.score_card(store=store)
    assert tuple(card.claims.columns) == scoring.CLAIM_COLUMNS
    found = {line.source: line for line in card.claims.itertuples()}
    assert [(found[name].scale, found[name].column, found[name].outcome) for name in ("one", "two")] == [
        ("paper", "shares: FMNIST", "broken"),
        ("fast", "shares: FMNIST", "kept"),
    ]
    # One claim could be tested at the scale paper, two at the scale fast: the correction knows both, the card shows each once.
    assert found["one"].adjusted == found["one"].p
    assert found["two"].adjusted > found["two"].p
    assert {key: dict(counts.outcomes) for key, counts in card.counts.items()} == {
        ("demo/fake", "fast"): {"kept": 1},
        ("demo/fake", "paper"): {"broken": 1},
    }
    assert scoring.status(card, "demo/fake").endswith("; claims: 1 ✓ kept, 1 ✗ broken")
    counted = scoring.summary(card).loc["demo/fake"]
    assert [counted[word] for word in scoring.OUTCOMES] == [1, 1, 0, 0]


def test_of_two_scales_at_one_setting_the_one_with_more_seeds_is_told(artefact, store: Store, monkeypatch) -> None:
    """As in pFedFDA Table 3: the paper has one trial, `fast` is the same with three."""
    scales = (Scale("fast", "all, more often", seeds=3), Scale("paper", "all", seeds=1))
    monkeypatch.setattr(scoring, "select", lambda paper: [replace(artefact, scales=scales)])
    study = Study(replace(artefact, scales=scales), "fast", store=store)
    fill(study, "fedavg", "skewed", *[curve(10, 40, 30, 50, 60, seed=seed) for seed in range(3)])
    fill(study, "fedavg+dbe", "skewed", *[curve(10, 48, 30, 80, 70) for seed in range(3)])
    fill(study, "ditto", "skewed", curve(10, 20, 30, 40, 50))
    card = scoring.score_card(store=store)
    found = {line.row: (line.scale, line.n, line.fidelity) for line in card.cells.itertuples() if line.n}
    assert found == {"FedAvg": ("fast", 3, "same"), "FedAvg+DBE": ("fast", 3, "same"), "Ditto": ("paper", 1, "same")}
    claims = {line.source: (line.scale, line.test.partition(" over")[0]) for line in card.claims.itertuples()}
    assert claims == {"one": ("fast", "paired t"), "two": ("paper", "sign flips")}


def test_an_empty_store_has_a_card_without_claims(artefact, store: Store) -> None:
    card = scoring.score_card(store=store)
    assert set(card.cells["verdict"]) == {NOT_RUN} and set(card.cells["scale"]) == {""}
    assert card.claims.empty and tuple(card.claims.columns) == scoring.CLAIM_COLUMNS and card.counts == {}
    assert card.cells["published"].notna().sum() == 3 * 2
    assert scoring.status(card, "demo/fake") == "– not run" and card.shown("demo/fake") == []


def test_a_card_of_a_paper_of_an_artefact_and_of_all(store: Store) -> None:
    one = papers.score("dbe/table9", store=store)
    assert set(one["artefact"]) == {"dbe/table9"} and len(one) == 16
    assert set(papers.score("demo", store=store)["artefact"]) == {"demo/digits"}


def test_the_run_of_a_card_is_the_longest_that_was_asked_for(artefact, store: Store) -> None:
    runs = fill(Study(artefact, "paper", store=store), "fedavg", "skewed", curve(10, 50, 40, 85, 60))
    card = scoring.score_card(store=store)
    assert {id: run.rounds for id, run in card.runs().items()} == {runs[0].id: 4}  # the scale `fast` asks for two


def test_the_card_only_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose models nobody has measured says so; nothing is revived for the card."""
    monkeypatch.setattr("pflrepro.experiments.revive.revive", lambda *_, **__: pytest.fail("revived"))
    how = {"name": "mdl", "title": "length", "metric": "mdl_bits"}
    asked = Measure(of=lambda evidence: evidence.simulation(), **how)
    made = make_artefact(columns=(column("skewed", SKEWED, asked),), claims=())
    monkeypatch.setattr(scoring, "select", lambda paper: [made])
    fill(Study(made, "paper", store=store), "fedavg", "skewed", curve(10, 50, 40, 85, 60))
    card = scoring.score_card(store=store)
    (line,) = (line for line in card.cells.itertuples() if line.row == "FedAvg")
    assert (
        line.verdict == NOT_MEASURED
        and line.reason == "trained, and its models not measured yet: pflrepro reproduce measures them"
    )
    assert scoring.fates(card.cells).tolist().count(NOT_RUN) == len(card.cells), "nothing is known of it"
    with pytest.raises(UserError, match="not measured yet"):
        card.studies["demo/fake"][0].evidence("fedavg", "skewed")[0].simulation()


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("pfedfda/table8", "exact: 16 = equal to the reference"),
        ("pfedfda/figure3", "exact: 2 no reference"),
        ("fedbr/table8", "numbers not at hand"),
    ],
)
def test_what_is_not_trained_has_a_status(id: str, said: str, store: Store) -> None:
    card = scoring.score_card(id, store=store)
    assert scoring.status(card, id) == said and len(card.shown(id)) == 1


def test_what_is_counted_and_not_trained_is_in_the_card_too(store: Store) -> None:
    sizes = papers.score("pfedfda/table8", store=store)
    assert len(sizes) == 16 and set(sizes["scale"]) == {"paper"} and set(sizes["verdict"]) == {"equal to the reference"}
    parts = papers.score("pfedfda/figure3", store=store)
    assert parts["ours"].tolist() == [60_000.0, 60_000.0] and set(parts["verdict"]) == {"no reference"}
