"""The gallery is what the committed runs, pictures and pages give, and all that it links to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from pflrepro.experiments.store import Store
from pflrepro.papers import find
from pflrepro.papers.artefact import Artefact
from pflrepro.papers.gallery import page, picture
from pflrepro.papers.outputs import frames, write_csv
from pflrepro.papers.registry import ARTEFACTS
from pflrepro.papers.studies import Study

FIGURES = Path(__file__).parents[2] / "figures"
WRITTEN = [artefact for id, artefact in ARTEFACTS.items() if artefact.trains and (FIGURES / f"{id}.csv").exists()]


def test_the_committed_gallery_is_what_is_written_from_the_committed_runs() -> None:
    text = (FIGURES / "README.md").read_text("utf-8")
    assert page(FIGURES) == text, "write it anew: python -m pflrepro.papers.gallery > figures/README.md"
    links = re.findall(r'\]\(([^)]+)\)|src="([^"]+)"', text)
    places = {place for pair in links for place in pair if place and not place.startswith("https://")}
    assert {place for place in places if not (FIGURES / place).exists()} == set()
    (whole,) = (line for line in text.splitlines() if line.startswith("| all |"))
    assert whole in (FIGURES.parent / "README.md").read_text("utf-8"), (
        "the line of all papers stands in the README, too"
    )
    pages = {f"{path.parent.name}/{path.name}" for path in FIGURES.glob("*/*.md")}
    assert pages <= places


def test_the_committed_runs_are_small() -> None:
    """A megabyte an artefact of the five papers and 20 in all, which travel in the wheel and stay in every clone."""
    sizes = {path.stem: path.stat().st_size for path in (FIGURES / "runs").glob("*.npz")}
    assert sum(sizes.values()) < 20_000_000
    of = {a.id: set(re.findall(r"\b[0-9a-f]{16}\b", (FIGURES / f"{a.id}.csv").read_text("utf-8"))) for a in WRITTEN}
    large = {id: sum(map(sizes.get, runs)) for id, runs in of.items() if not id.startswith(("results/", "demo/"))}
    assert large and {id: size for id, size in large.items() if size > 1_000_000} == {}


@pytest.mark.parametrize("artefact", WRITTEN, ids=lambda artefact: artefact.id)
def test_the_numbers_of_a_committed_page_are_those_of_the_committed_runs(artefact: Artefact, tmp_path: Path) -> None:
    """Nothing on a page is known on the machine alone that wrote it."""
    path = FIGURES / f"{artefact.id}.csv"
    page = pd.read_csv(path)
    scale = page["scale"].mode()[0] if "scale" in page else "fast"
    study = Study(artefact, scale, store=Store(tmp_path, behind=FIGURES / "runs"), revives=False)
    for name, frame in frames(study).items():
        place = path.with_name(f"{path.stem}-{name}.csv") if name else path
        write_csv(tmp_path / place.name, frame)
        made, committed = (_of_runs(pd.read_csv(file)) for file in (tmp_path / place.name, place))
        pd.testing.assert_frame_equal(made, committed, rtol=1e-4, atol=1e-6)


def _of_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Without what depends on the data at hand: what is lacking, and counts of samples."""
    if "column" in frame:
        frame = frame[frame["column"] != "samples a client and class"]
    return frame.drop(columns={"reason"} & {*frame})


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ((), ""),
        (("table7-times.png", "table7-times-points.png"), ""),  # of another artefact
        (("table7-smoke.png", "table7-smoke-points.png"), ""),
        (("table7-points.png", "table7-bars.png", "table70.png"), "fedbr/table7-bars.png"),
        (("table7-bars.png", "table7.png"), "fedbr/table7.png"),
    ],
)
def test_the_picture_of_an_artefact(names: tuple[str, ...], found: str, tmp_path: Path) -> None:
    (tmp_path / "fedbr").mkdir()
    for name in names:
        (tmp_path / "fedbr" / name).touch()
    assert picture(find("fedbr/table7"), tmp_path) == found
