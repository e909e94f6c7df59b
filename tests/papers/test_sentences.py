"""What a study says of itself: sentences made from its numbers, heads that say what stands under them, lines that work."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.runs import ON_PAIRS, ON_SKEWED, PAIRS, PRINTED, SKEWED, fill, make_artefact

from pflrepro import papers
from pflrepro.errors import UserError
from pflrepro.experiments.store import Store
from pflrepro.papers import outputs, template
from pflrepro.papers.artefact import Scale, column, row
from pflrepro.papers.measures import Measure, Value, accuracy_by
from pflrepro.papers.studies import Study
from pflrepro.papers.views.points import Points
from pflrepro.papers.views.table import Table


@pytest.fixture
def make(tmp_path: Path):
    def made(scale: str = "paper", **changes) -> Study:
        return Study(make_artefact(**changes), scale, store=Store(tmp_path / "store", behind=tmp_path / "nothing"))

    return made


def curve(best: int, last: int) -> list[int]:
    return [10, 20, best, 30, last]


# ---- sentences ---------------------------------------------------------------------------------------------------------------------
def test_the_best_row_is_the_one_with_the_best_number_whatever_the_paper_says(make) -> None:
    study = make()
    fill(study, "fedavg", "skewed", curve(85, 85), curve(86, 86), curve(85, 85))
    fill(study, "fedavg+dbe", "skewed", curve(60, 60), curve(61, 61), curve(61, 61))
    said = study.summary()
    assert said[0] == "2 of the 6 cells of scale paper were run, with 3 seeds and 4 rounds."
    lead = "24.67 from FedAvg+DBE, the next (paired t over 3 seeds, p = 0.00018)."
    assert said[1] == f"shares: FMNIST: FedAvg has the best test accuracy, 85.33 %, {lead}"
    assert said[2].startswith("1 claim could be checked: 1 broken")
    assert said[3] == "Reversed: FedAvg+DBE > FedAvg in shares: FMNIST (-24.67, p = 0.00018)."
    assert said[4].startswith("Of the 2 cells at the paper's own setting 1 agree with it within the tolerance")
    assert len(said) == 5 and repr(said) == "\n".join(said)
    assert "<li>Reversed: FedAvg+DBE &gt; FedAvg" in said._repr_html_()


def test_a_lead_that_no_test_shows_and_what_is_lost_to_the_last_round_are_said(make) -> None:
    study = make()
    fill(study, "fedavg", "skewed", curve(80, 80), curve(90, 90), curve(70, 70))
    fill(study, "fedavg+dbe", "skewed", curve(81, 75), curve(90, 90), curve(75, 75))
    said = " ".join(study.summary())
    # 1, 0 and 5 points more: t = 2 / (7 ** 0.5 / 3 ** 0.5), two-sided p over two degrees of freedom
    lead = (
        "FedAvg+DBE has the best test accuracy, 82.00 %, 2.00 from FedAvg, the next (paired t over 3 seeds, p = 0.32)."
    )
    assert lead in said
    assert "Not decided: FedAvg+DBE > FedAvg in shares: FMNIST (+2.00, p = " in said
    assert said.endswith("to the last: FedAvg+DBE 6.0.")


def test_a_row_that_is_measured_otherwise_is_ranked_with_the_others(make) -> None:
    """As FedAvgFT is, whose accuracy is that after fine-tuning."""
    after = accuracy_by("last_round", after=True)
    study = make(rows=(row("FedAvg"), row("FedAvg+DBE", "fedavg+dbe", measure=after)), claims=())
    fill(study, "fedavg", "skewed", curve(80, 80))
    fill(study, "fedavg+dbe", "skewed", curve(90, 90))
    assert "FedAvg+DBE has the best test accuracy, 90.00 %, 10.00 from FedAvg, the next" in " ".join(study.summary())


def test_what_cannot_be_tested_is_said_to_and_rows_outside_the_scale_do_not_count(make) -> None:
    measure = Measure(
        "largest", "largest", lambda evidence: Value(float(evidence.history["correct"].max())), better="higher"
    )
    columns = (column("skewed", SKEWED, measure, label="FMNIST"),)
    scale = Scale("fast", "few", rounds=4, rows=("fedavg", "fedavg+dbe"))
    study = make("fast", columns=columns, claims=(), scales=(scale,))
    fill(study, "fedavg", "skewed", curve(80, 80))
    fill(study, "fedavg+dbe", "skewed", curve(90, 90))
    said = study.summary()
    assert said[0] == "2 of the 2 cells of scale fast were run, with 1 seed and 4 rounds."
    lead = "2.00 from FedAvg, the next (no test: one seed, and not a mean over clients)."
    assert said[1] == f"FMNIST: FedAvg+DBE has the best largest, 18.00 %, {lead}"


def test_differences_from_the_print_are_said_a_unit(make) -> None:
    moments = Measure("rounds", "rounds", lambda evidence: Value(7.0), unit="rounds", metric="accuracy")
    columns = (
        column("pairs", PAIRS, label="pairs", **PRINTED, **ON_PAIRS),
        column("skewed", SKEWED, moments, label="skewed", **PRINTED, **ON_SKEWED),
    )
    study = make(columns=columns, claims=(), scales=(Scale("paper", "all"),))
    for where in ("pairs", "skewed"):
        fill(study, "fedavg", where, curve(80, 80))
    assert study.summary()[-1].endswith("ours minus published: -0.41 points; -78.85 rounds.")


def test_a_curve_that_still_rises_is_said_to(make) -> None:
    study = make("fast", scales=(Scale("fast", "few", rounds=2),))
    fill(study, "fedavg", "skewed", [10, 20, 30])
    fill(study, "fedavg+dbe", "skewed", [10, 40, 35])
    said = " ".join(study.summary())
    assert "Still rising, so neither kept nor broken: FedAvg+DBE > FedAvg" in said
    assert "Unfinished curves, which still rise at the end: FedAvg." in said
    assert "No cell was run at the paper's own setting: orderings are compared with it, levels are not." in said


def test_of_a_stand_in_nothing_is_claimed(make) -> None:
    study = make("smoke")
    fill(study, "fedavg", "skewed", [10, 86, 80])
    fill(study, "fedavg+dbe", "skewed", [10, 40, 40])
    said = study.summary()
    assert len(said) == 2 and said[1].startswith("All numbers are of a small stand-in on digits")
    assert "best" not in " ".join(said)


def test_nothing_run_and_nothing_to_train_are_said_too(make) -> None:
    [nothing] = make().summary()
    assert nothing.startswith("0 of the 6 cells of scale paper were run: no finished run in the store")
    [counted] = papers.study("fedbr/table9", "smoke").summary()
    assert counted.startswith("Nothing is trained for it: it is counted, exactly.")
    beside = papers.study("fedbr/table9", "smoke", also=["fedprox"])
    assert beside.anything_run and beside.summary() == [counted], "a method of one's own has no cell in it"


# ---- heads -------------------------------------------------------------------------------------------------------------------------
def test_a_stand_in_never_stands_under_the_name_of_other_data_without_saying_so(make) -> None:
    study = make("smoke", views=(Table(), Points()))
    fill(study, "fedavg", "skewed", [10, 86, 80])
    ((table, _),) = study.tables()
    heads = [names for names in table.columns if names[0] == "shares"]
    assert heads == [("shares", "FMNIST", "published"), ("shares", "FMNIST", "stand-in, on digits")]
    (figure,) = study.figures().values()
    titles = [(axes.get_title(loc="left") or axes.get_title()).replace("\n", " ") for axes in figure.axes]
    assert any("stand-in for FMNIST" in title for title in titles) and not any(title == "FMNIST" for title in titles)


def test_a_method_that_is_no_row_is_told_how_to_stand_beside_them() -> None:
    with pytest.raises(UserError, match=r"unknown row of demo/digits 'fedper'; .* with also=\['fedper'\]$"):
        papers.study("demo/digits", "smoke", methods=["fedper"])
    with pytest.raises(UserError, match=r"valid: [^;]*$"):
        papers.study("demo/digits", "smoke", methods=["no-method"])


# ---- outputs -----------------------------------------------------------------------------------------------------------------------
def test_outputs_of_a_notebook_opened_by_hand_go_to_the_repository_wherever_it_lies(
    make, tmp_path, monkeypatch
) -> None:
    root = tmp_path / "checkout"
    monkeypatch.setattr(outputs, "checkout", lambda: root)
    monkeypatch.chdir(tmp_path)
    study = make("smoke")
    fill(study, "fedavg", "skewed", [10, 86, 80])
    written = study.write()
    assert {path.parent for path in written} == {root / "outputs" / "demo"}
    assert all(path.is_absolute() and path.exists() for path in written), "what is printed can be opened from anywhere"
    monkeypatch.setattr(outputs, "checkout", lambda: None)
    assert outputs.folder() == tmp_path / "outputs"
    assert outputs.folder("figures") == Path("figures"), "what is asked for is what it says"


def test_the_repository_is_found_and_leaves_its_outputs_out_of_git() -> None:
    root = Path(__file__).parents[2]
    assert outputs.folder() == root / "outputs"
    assert "/outputs/" in (root / ".gitignore").read_text("utf-8").split()


# ---- what to try next --------------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_what_the_demo_says_to_try_next_works(tmp_path: Path) -> None:
    artefact = papers.find("demo/digits")
    where = {"store": tmp_path, "data_root": "", "device": "cpu"}
    names = {"papers": papers, "scale": "smoke", "where": where, "study": papers.study(artefact, "smoke", **where)}
    lines = template.next_lines(artefact)
    assert len(lines) == 5 and any('also=["fedprox"]' in line for line in lines)
    for line in lines:
        exec(line, names)
    again = papers.study(artefact, "smoke", also=["fedprox"], **where)
    assert again.cells["fedprox", "practical/digits"].runs


@pytest.mark.parametrize("artefact", papers.ARTEFACTS.values(), ids=lambda artefact: artefact.id)
def test_what_every_notebook_says_to_try_next_names_what_there_is(artefact, tmp_path: Path) -> None:
    where = {"store": tmp_path, "data_root": tmp_path, "device": "cpu"}
    names = {"papers": papers, "scale": "smoke", "where": where, "study": papers.study(artefact, "smoke", **where)}
    for line in template.next_lines(artefact):
        exec(line.replace(".run()", ""), names)
