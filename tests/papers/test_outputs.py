"""What is written of a study: pages, tables, pictures, and the runs behind them."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from helpers.runs import fill, make_artefact
from matplotlib.figure import Figure

from pflrepro.errors import UserError
from pflrepro.experiments.store import Store
from pflrepro.papers import find, outputs
from pflrepro.papers.artefact import Scale, row
from pflrepro.papers.studies import Study
from pflrepro.papers.views.table import Table
from pflrepro.papers.views.view import Shown


@pytest.fixture
def shown(make) -> Study:
    found = make()
    fill(found, "fedavg", "skewed", [10, 60, 50], [10, 60, 50])
    fill(found, "fedavg+dbe", "skewed", [10, 70, 50], [10, 71, 50])
    return found


def test_a_csv_has_six_digits_and_whole_numbers_as_they_are(tmp_path: Path) -> None:
    frame = pd.DataFrame({"ours": [11_167_212.0, 1 / 3, 34.0, float("nan"), float("inf")]})
    assert outputs.write_csv(tmp_path / "some.csv", frame).read_text().split() == [
        "ours",
        "11167212",
        "0.333333",
        "34",
        '""',
        "inf",
    ]


def test_the_page_beside_a_table(shown: Study, tmp_path: Path) -> None:
    written = shown.write(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "demo/fake.tex",
        "demo/fake.csv",
        "demo/fake.md",
    ]
    csv, text = pd.read_csv(written[1]), written[2].read_text()
    assert csv["ours"].tolist() == pytest.approx(shown.frame["ours"].tolist(), nan_ok=True)
    for part in (
        "# A fake\n\nWhat it is.\n\n*scale fast; digits, skewed; 2 seeds; 2 rounds; maximum over rounds",
        "|  | shares: FMNIST, published | ours |",
        "| FedAvg | 85.85 ± 0.19 | 60.00 ± 0.00 [-25.85] ✓ |",
        "* not part of the scale fast: two classes: FMNIST.",
        "* 2 ✓ ordering kept: a test shows at least one claim about this cell, none reversed.",
        "* 4 – not run: no finished run.",
        "## Claims",
        "| shares: FMNIST | FedAvg+DBE > FedAvg | +10.50 | 0.50 | paired t over 2 seeds | 0.03 | 0.03 | ✓ kept | the fake |",
        "* **command:** `pflrepro reproduce demo/fake --scale fast`",
        "* **seeds:** 0; 1",
        "* **seconds a round:** 2.75 to 2.75 (training and tests, as recorded by the runs)",
        "* **versions:** torch 9.9",
    ):
        assert part in text, part
    assert not re.search(r"(^|[\s\"'`(=])/\w", text), "no absolute path"


def test_a_page_says_how_is_tested_what_has_one_seed_and_what_has_several(make) -> None:
    mixed = make()
    fill(mixed, "fedavg", "skewed", [10, 60, 50])
    fill(mixed, "fedavg+dbe", "skewed", [10, 70, 50], [10, 71, 50])
    text = outputs.report(mixed)
    for said in (
        "* Two-sided tests over seeds where a claim's runs have several in common, else over clients: they say what other",
        "* A difference is positive where it is as claimed. Each is over the seeds that the claim's runs have in common.",
    ):
        assert said in text


def test_what_two_views_say_alike_stands_once_on_the_page(make) -> None:
    twice = make(of=make_artefact(views=(Table(), Table())))
    assert outputs.report(twice).count("* test accuracy in %.") == 1


def test_the_table_for_latex_has_the_marks_of_the_page(shown: Study, tmp_path: Path) -> None:
    text = shown.write(tmp_path)[0].read_text("utf-8")
    assert text == shown.table().to_latex()
    assert text.startswith("% scale fast; digits, skewed; 2 seeds") and "% 2 ✓ ordering kept" not in text
    assert "% ✓ ordering kept: a test shows" in text
    assert r"\multicolumn{2}{c}{FMNIST}" in text and r" & published & ours \\" in text
    assert r"FedAvg & 85.85 $\pm$ 0.19 & 60.00 $\pm$ 0.00 [-25.85] $\checkmark$ \\" in text
    drawn = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert drawn.isascii() and drawn.count(r"\begin{tabular}") == drawn.count(r"\end{tabular}") == 1


@dataclass(frozen=True)
class Counted(Shown):
    """A view with numbers and a picture of its own."""

    numbers: tuple[int, ...]
    name: str

    def frame(self, study: Study) -> pd.DataFrame:
        return pd.DataFrame({"count": self.numbers})

    def figures(self, study: Study) -> dict[str, Figure]:
        return {self.name: Figure()}


@pytest.mark.parametrize(
    ("names", "written"),
    [
        (("", "b"), {"fake.csv": "count", "fake-b.csv": "count", "fake-cells.csv": "artefact"}),
        (("a", "b"), {"fake.csv": "artefact", "fake-a.csv": "count", "fake-b.csv": "count"}),
    ],
)
def test_the_numbers_of_every_view_are_written_beside_the_cells(make, names, written, tmp_path: Path) -> None:
    views = (Counted((1, 2), names[0]), Counted((3,), names[1]), Table())
    found = make(of=make_artefact(views=views))
    fill(found, "fedavg", "skewed", [10, 60, 50])
    csvs = {path.name: pd.read_csv(path) for path in found.write(tmp_path) if path.suffix == ".csv"}
    assert {name: csv.columns[0] for name, csv in csvs.items()} == written
    assert csvs["fake-b.csv"]["count"].tolist() == [3]
    text = (tmp_path / "demo" / "fake.md").read_text()
    assert "![A fake, part b](fake-b.png)" in text
    assert ("![A fake](fake.png)" if names[0] == "" else "![A fake, part a](fake-a.png)") in text


def test_the_same_numbers_give_the_same_bytes_and_runs_are_exported_once(shown: Study, tmp_path: Path) -> None:
    first = {path: path.read_bytes() for path in [*shown.write(tmp_path), *(tmp_path / "runs").iterdir()]}
    assert len(first) == 3 + 4
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    shown.write(tmp_path)
    assert {path: path.read_bytes() for path in first} == first
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    reader = Study(shown.artefact, "fast", store=Store(tmp_path / "empty", behind=tmp_path / "runs"))
    pd.testing.assert_frame_equal(reader.frame, shown.frame)


def test_outputs_of_a_stand_in_replace_no_real_ones_and_export_nothing(make, tmp_path: Path) -> None:
    found = make("smoke")
    fill(found, "fedavg", "skewed", [10, 86, 80])
    assert [path.name for path in found.write(tmp_path)] == ["fake-smoke.tex", "fake-smoke.csv", "fake-smoke.md"]
    assert not (tmp_path / "runs").exists()


def test_outputs_of_another_scale_are_replaced_with_a_word(shown: Study, make, tmp_path: Path, caplog) -> None:
    shown.write(tmp_path)
    shown.write(tmp_path)
    assert not caplog.messages
    make("paper").write(tmp_path)
    page = tmp_path / "demo" / "fake.md"
    assert caplog.messages == [
        f"{page} at scale paper replaces that of scale fast (pflrepro redraw demo/fake --scale fast)"
    ]


def test_the_scale_of_outputs_whose_main_numbers_are_a_view_s(tmp_path: Path) -> None:
    """Their cells stand in a table of their own, which has the scale."""
    artefact = find("dbe/figure3")
    (tmp_path / "dbe").mkdir()
    (tmp_path / "dbe" / "figure3.csv").write_text("x,y\n1,2\n")
    (tmp_path / "dbe" / "figure3-cells.csv").write_text("artefact,scale\ndbe/figure3,full\n")
    assert outputs.shown_scale(artefact, tmp_path) == "full"


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    class Half(pd.DataFrame):
        def to_csv(self, file, **how) -> None:
            file.write(b"ne")
            raise OSError("no space left")

    with pytest.raises(UserError, match=r"cannot write .*table.csv: no space left"):
        outputs.write_csv(path, Half())
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    outputs.write_csv(path, pd.DataFrame({"a": [1.23456789, 7.0]}))
    assert path.read_text() == "a\n1.23457\n7\n" and list(tmp_path.iterdir()) == [path]


def test_a_study_shows_itself_before_anything_runs(make) -> None:
    html = make("fast", methods=["fedavg+dbe"])._repr_html_()
    assert "all clients, 1 epoch" in html
    for part in ("<h3>A fake</h3>", "What it is.", "dirichlet:0.5, 5 clients", "batch 10, rate 0.1", "FedAvg+DBE"):
        assert part in html, part
    assert "<p>Not part of this scale: two classes: FMNIST.</p>" in html


def test_a_study_shows_the_options_of_each_network_and_data_set_and_of_its_scale(make) -> None:
    rows = (
        row("DBE", "fedavg+dbe", mr_momentum=0.5, by_model={"mlp": {"kappa": 9.0}, "cnn4": {"kappa": 7.0}}),
        row("Ditto", by_data={"digits": {"proximal": 0.25}}),
    )
    scale = Scale("fast", "few", rounds=2, options={"ditto": {"personal_steps": 3}})
    html = make("fast", make_artefact(rows=rows, claims=(), scales=(scale,)))._repr_html_()
    assert "mr_momentum=0.5; on mlp: kappa=9.0" in html and "kappa=7.0" not in html
    assert "on digits: proximal=0.25; at scale fast: personal_steps=3" in html


def test_nothing_is_logged_about_a_store_that_is_not_there(make, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        make().frame  # noqa: B018
    assert caplog.records == []


def test_a_place_that_cannot_be_written_to_is_named(shown: Study, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"the outputs cannot be written to {tmp_path}/file/demo: Not a directory"):
        shown.write(tmp_path / "file")
    with pytest.raises(UserError, match="out must name a folder, not 5"):
        shown.write(5)


def test_a_place_at_home(shown: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert outputs.folder("~/figures") == tmp_path / "figures"
    with pytest.raises(UserError, match="out is '~nobody-here/x', but there is no such user"):
        outputs.folder("~nobody-here/x")
