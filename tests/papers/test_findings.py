"""The findings' table of HAR, against the committed runs: by the lines that the page of the paper gives for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
METHODS = {
    "MOON, mu 0.1": "moon",
    "FedPHP": "fedphp/platform",
    "APFL, not at its end": "apfl/platform",
    "FedProto, not at its end": "fedproto",
}


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What the lines of docs/papers/dbe.md find."""
    page = (DOCS / "papers" / "dbe.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"  ```python\n(.*?)  ```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(re.sub(r"(?m)^  ", "", lines), names)
    return names


def test_the_numbers_of_har_are_those_of_the_committed_runs(found: dict[str, Any]) -> None:
    table = (DOCS / "findings.md").read_text(encoding="utf-8").partition("| own models |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip(" |").split(" | ")] for line in table.splitlines()[2:]]
    assert len(rows) == len(found["long"]), "one row a run"
    for label, _, ours, interval, rounds, early, own in rows:
        name = METHODS.get(label, label.lower())
        line = found["beside"].table.loc[name]
        assert number(ours) == pytest.approx(line["accuracy"], abs=0.051)
        assert [number(end) for end in interval.split(" to ")] == pytest.approx([line["low"], line["high"]], abs=0.051)
        assert number(rounds) == line["rounds"]
        assert number(early) == pytest.approx(100 * found["best"][name], abs=0.051)
        assert number(own) == pytest.approx(100 * found["own"][name], abs=0.051)
