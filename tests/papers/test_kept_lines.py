"""The score card of yesterday is read, not judged anew, unless what it stands on has changed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from helpers.runs import fill, make_artefact

from pflrepro.experiments.store import Store
from pflrepro.papers import kept_lines, planning, scoring, timing
from pflrepro.papers.artefact import Scale, row
from pflrepro.papers.claims import above
from pflrepro.papers.studies import Study

ROWS = (row("FedAvg"), row("FedAvg+DBE", "fedavg+dbe"))
CURVE = [10, 50, 40, 85, 60]


@pytest.fixture
def artefact(monkeypatch: pytest.MonkeyPatch):
    made = make_artefact(
        rows=ROWS, claims=(above("fedavg+dbe", "fedavg", source="one"),), scales=(Scale("paper", "all", seeds=2),)
    )
    monkeypatch.setattr(scoring, "select", lambda paper: [made])
    return made


@pytest.fixture(autouse=True)
def a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the files is ours."""
    monkeypatch.setattr(kept_lines, "MARGIN", 0.0)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The artefacts that were judged, one after the other."""
    found, judge = [], scoring._judged

    def counting(studies: list[Study]) -> kept_lines.Made:
        found.append(studies[0].artefact.id)
        return judge(studies)

    monkeypatch.setattr(scoring, "_judged", counting)
    return found


def test_nothing_is_judged_twice_and_the_card_is_the_same(artefact, judged, store: Store) -> None:
    study = Study(artefact, "paper", store=store)
    for key, shift in (("fedavg", 0), ("fedavg+dbe", 5)):
        fill(study, key, "skewed", *[[each + shift for each in CURVE]] * 2)
    first, again = (scoring.score_card(store=store) for _ in range(2))
    assert judged == ["demo/fake"]
    pd.testing.assert_frame_equal(first.cells, again.cells)
    pd.testing.assert_frame_equal(first.claims, again.claims)
    assert first.claims["difference"].tolist() == [5.0] and first.counts == again.counts
    assert again.runs().keys() == first.runs().keys() and len(again.runs()) == 4
    assert scoring.status(first, "demo/fake") == scoring.status(again, "demo/fake")


def test_a_run_counts_for_the_artefacts_that_ask_for_it(artefact, judged, store: Store) -> None:
    assert scoring.score_card(store=store).cells["n"].sum() == 0
    other = make_artefact(rows=(row("Ditto"),), claims=(), scales=(Scale("paper", "all", seeds=1),))
    fill(Study(other, "paper", store=store), "ditto", "skewed", CURVE)
    scoring.score_card(store=store)
    assert judged == ["demo/fake"], "the other artefact's run is none of this one's"
    (run,) = fill(Study(artefact, "paper", store=store), "fedavg", "skewed", CURVE)
    assert scoring.score_card(store=store).cells["n"].sum() == 1 and len(judged) == 2
    store.folder(run.id).rename(store.root / "away")
    assert scoring.score_card(store=store).cells["n"].sum() == 0 and len(judged) == 3


@pytest.mark.parametrize("changed", ["code", "data", "behind", "readings", "frost"])
def test_what_a_card_stands_on_is_looked_at(
    changed: str, artefact, judged, store: Store, tmp_path: Path, monkeypatch
) -> None:
    (run,) = fill(Study(artefact, "paper", store=store), "fedavg", "skewed", CURVE)
    data = tmp_path / "root"
    (data / "fmnist").mkdir(parents=True)
    scoring.score_card(store=store, data_root=data)
    if changed == "code":
        monkeypatch.setattr(kept_lines, "code_version", lambda: "edited")
    elif changed == "frost":  # installed, or gone
        monkeypatch.setattr("pflrepro.data.frost.find_folder", lambda root: tmp_path / "photographs")
    elif changed == "readings":
        (store.folder(run.id) / "readings").mkdir(exist_ok=True)
        (store.folder(run.id) / "readings" / "new").write_text("")
    else:
        folder = data / "fmnist" if changed == "data" else store.behind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "new").write_text("")
    scoring.score_card(store=store, data_root=data)
    assert len(judged) == 2


def test_a_cache_that_holds_something_else_is_made_anew(artefact, judged, store: Store) -> None:
    scoring.score_card(store=store)
    place = kept_lines.file("scored")
    whole = kept_lines.read_cache(place)["demo/fake"]
    others = [whole | {"lines": lines} for lines in ([], [[], []], 5)]
    for other in (*others, [], 5, {"lines": {}}, whole | {"asked": 5}):
        kept_lines.write_cache(place, {"demo/fake": other})
        assert len(scoring.score_card(store=store).cells) == 4
    assert len(judged) == 8


def test_a_plan_is_remembered_until_a_run_or_a_timing_comes(artefact, store: Store, monkeypatch) -> None:
    planned, plan = [], planning.plan
    monkeypatch.setattr(
        planning, "plan", lambda study, timings: planned.append(study.scale.name) or plan(study, timings)
    )
    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(client=1.0, step=1.0, test=1.0))

    def asked() -> list[planning.Planned]:
        return list(planning.planned_lines([artefact], "paper", store))

    asked()  # which times this machine
    first = asked()
    assert [each.state for each in first] == ["to run"] * 8 and first == asked() and len(planned) == 2
    assert (
        planning.Plan(first).total
        == planning.Plan(plan(Study(artefact, "paper", store=store), timing.Timings(store.root))).total
    )
    place = kept_lines.file("planned-paper")
    whole = kept_lines.read_cache(place)["demo/fake"]
    for lines in (5, [5], [{"state": "done"}]):
        kept_lines.write_cache(place, {"demo/fake": whole | {"lines": lines}})
        assert asked() == first, "what is no plan is made anew"
    planned.clear()
    fill(Study(artefact, "paper", store=store), "fedavg", "skewed", CURVE)
    assert [each.state for each in asked()].count("done") == 1 and len(planned) == 1
    timing.Timings(store.root).path.unlink()
    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(client=2.0, step=2.0, test=2.0))
    assert sum(each.seconds for each in asked()) == 2 * sum(each.seconds for each in first) * 7 / 8


def test_kinds_stores_and_data_roots_have_files_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    a, b = tmp_path / "a", tmp_path / "b"
    files = {kept_lines.file(kind, *places) for kind in "xy" for places in ((a, tmp_path), (b, tmp_path), (tmp_path,))}
    assert len(files) == 6


def test_a_run_that_comes_while_a_card_is_made_is_on_the_next_one(artefact, store: Store, monkeypatch) -> None:
    study, judge = Study(artefact, "paper", store=store), scoring._judged

    def judged_while_training(studies: list[Study]) -> kept_lines.Made:
        made = judge(studies)
        fill(study, "fedavg", "skewed", CURVE)
        return made

    monkeypatch.setattr(scoring, "_judged", judged_while_training)
    assert scoring.score_card(store=store).cells["n"].sum() == 0
    monkeypatch.setattr(scoring, "_judged", judge)
    assert scoring.score_card(store=store).cells["n"].sum() == 1
