"""The page of the score card: all in one file, every cell, every link with its place, the same in every call."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from helpers.runs import fill, make_artefact
from PIL import Image

from pflrepro.errors import UserError
from pflrepro.experiments.store import Store
from pflrepro.papers import page_parts, scoring
from pflrepro.papers.artefact import SMOKE, Scale
from pflrepro.papers.score_page import page, write_page
from pflrepro.papers.studies import Study

VOID = {"meta", "img", "br"}


class Checked(HTMLParser):
    """Tags that are closed in their order; ids, links inside the page, and what would be loaded from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"][1:]] if given.get("href", "").startswith("#") else []
        self.loaded += [given["src"]] if not given.get("src", "data:").startswith("data:") else []
        self.loaded += [tag] if tag in ("script", "link", "iframe", "object") else []
        self.open += [tag] if tag not in VOID else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def study(store: Store, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A fake artefact whose scale `paper` has runs of two rows in one of two columns."""
    made = make_artefact(scales=(SMOKE, Scale("paper", "all", seeds=3)), about="What <it> is.")
    monkeypatch.setattr(scoring, "select", lambda paper: [made])
    study = Study(made, "paper", store=store)
    fill(study, "fedavg", "skewed", *[[10, 40, 60, 70, last] for last in (80, 82, 84)])
    fill(study, "fedavg+dbe", "skewed", *[[10, 50, 70, last, 60] for last in (90, 92, 95)])
    return study


def test_the_page_is_whole_and_loads_nothing(study: Study) -> None:
    text = page(scoring.score_card(store=study.store))
    found = Checked(text)
    assert found.loaded == [] and "url(" not in text and "@import" not in text
    assert len(set(found.ids)) == len(found.ids) and set(found.links) <= set(found.ids)
    assert {"demo", "demo-fake", "runs"} <= set(found.ids)
    assert "What &lt;it&gt; is." in text and "prefers-color-scheme: dark" in text
    assert str(study.store.root) not in text
    assert page(scoring.score_card(store=study.store)) == text


def test_every_cell_has_numbers_verdict_and_runs_or_says_that_it_was_not_run(study: Study) -> None:
    text = page(scoring.score_card(store=study.store))
    cells = re.search(r'<table class="cells">.*?</table>', text)[0]
    lines = [re.sub(r"<[^>]+>", " ", line) for line in cells.split("<tr>")[2:]]
    lines = [" ".join(line.split()) for line in lines]
    assert len(lines) == 6
    (dbe,) = (line for line in lines if line.startswith("FedAvg+DBE shares: FMNIST"))
    assert "97.69 ± 0.05 % 92.33 ± 2.05 %" in dbe and "86.08 to 98.58 t, 3 seeds 3 paper same" in dbe
    assert "✓ ordering kept" in dbe
    runs = [run.id for run in study.cells["fedavg+dbe", "skewed"].runs.values()]
    assert all(id[:8] in dbe and f'href="#run-{id}"' in text and f"pflrepro show {id[:8]}" in text for id in runs)
    assert cells.count("<polyline") == 6  # one line a seed
    missing = [line for line in lines if "– not run" in line]
    assert len(missing) == 4 and sum("unknown algorithm" in line for line in missing) == 2
    assert "2 of 6 cells at scale paper; claims: 1 ✓ kept" in text


def test_the_curve_of_a_cell_ends_with_the_cell_s_rounds(study: Study) -> None:
    run = study.cells["fedavg", "skewed"].runs[0]
    last = run.history["round"][-1]
    assert f"over {last} rounds" in page_parts.curve([run], 84, 22)
    assert f"% over {run.history['round'][2]} rounds" in page_parts.curve([run], 84, 22, float(last) - 1.5)
    held = replace(
        run, experiment=replace(run.experiment, data=replace(run.experiment.data, partition="iid+validation=0.1"))
    )
    assert "validation accuracy from" in page_parts.curve([held], 84, 22)


@pytest.mark.parametrize(
    ("mean", "spread", "text"), [(11.4, 4.0, "11.4 ± 4"), (97.69, math.nan, "97.69"), (math.nan, math.nan, "")]
)
def test_a_published_number_has_no_digit_that_is_not_printed(mean: float, spread: float, text: str) -> None:
    assert page_parts.as_printed(mean, spread) == text


def test_an_empty_store_has_a_page_too(study: Study, tmp_path: Path) -> None:
    text = page(scoring.score_card(store=Store(tmp_path / "none", behind=tmp_path / "none")))
    Checked(text)
    assert "the published table" in text and "97.69" in text and "<polyline" not in text and "<p>None.</p>" in text


def test_the_page_is_written_into_a_folder(study: Study, tmp_path: Path) -> None:
    card = scoring.score_card(store=study.store)
    path = write_page(card, tmp_path / "new" / "folder")
    assert path.name == "index.html" and path.read_text("utf-8") == page(card)
    assert [each.name for each in path.parent.iterdir()] == ["index.html"]
    with pytest.raises(UserError, match=r"--html must name a folder, not the file .*index\.html"):
        write_page(card, path)
    with pytest.raises(UserError, match="--html must name a folder, not ''"):
        write_page(card, "")


@pytest.mark.parametrize(
    ("mean", "spread", "text"),
    [
        (97.6912, 0.051, "97.69 ± 0.05"),
        (-1.5, math.nan, "\u22121.50"),
        (60_000.0, math.nan, "60,000"),
        (0.01234, math.nan, "0.0123"),
        (0.0999999, math.nan, "0.10"),
        (0.00012, math.nan, "0.0001"),
        (0.0, math.nan, "0.00"),
        (math.nan, math.nan, ""),
    ],
)
def test_numbers_have_the_digits_that_fit_them(mean: float, spread: float, text: str) -> None:
    assert page_parts.value(mean, spread) == text


def test_a_column_of_numbers_stands_to_the_right_and_an_empty_one_is_left_out() -> None:
    made = page_parts.table(["a", "b", "c"], [["1,000 ± 2.5", "1 cell", ""], ["", "x", ""]])
    assert made.count('class="number"') == 3 and '<tr><th class="number">a</th><th>b</th></tr>' in made


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize(("theme", "paper"), [((), (253, 253, 251)), (("--force-dark-mode",), (23, 24, 26))])
def test_a_browser_shows_the_page_light_and_dark(theme, paper, study: Study, tmp_path: Path) -> None:
    path, drawn = write_page(scoring.score_card(store=study.store), tmp_path), tmp_path / "page.png"
    how = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", *theme]
    how += ["--window-size=1200,1600", "--hide-scrollbars", f"--screenshot={drawn}", f"file://{path}"]
    subprocess.run(["chromium", *how], check=True, capture_output=True, timeout=120)
    image = Image.open(drawn).convert("RGB")
    assert image.getpixel((1195, 5)) == paper
    assert len(image.getcolors(maxcolors=2**24)) > 100
