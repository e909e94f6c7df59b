"""The gallery is what the committed runs, pictures and pages give, and all that it links to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pflrepro.papers import find
from pflrepro.papers.gallery import page, picture

FIGURES = Path(__file__).parents[2] / "figures"


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
