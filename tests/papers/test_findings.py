"""The tables in the findings and the README, against the committed runs and tables.

HAR's are made by the lines that the page of the paper gives for them.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from pflrepro.experiments.compact import read

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
METHODS = {
    "MOON, mu 0.1": "moon",
    "FedPHP": "fedphp/platform",
    "APFL": "apfl/platform",
}


def number(text: str) -> float:
    return float(text.replace(",", ""))


def rows_below(page: Path, head: str) -> list[list[str]]:
    """The cells of the one table of a page whose first line begins with `head`, without marks of bold."""
    text = page.read_text(encoding="utf-8")
    assert text.count(f"\n{head}") == 1, head
    lines = text.partition(f"\n{head}")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip(" *") for cell in line.strip(" |").split(" | ")] for line in lines]


def committed(artefact: str) -> dict[tuple[str, str], dict[str, str]]:
    """The lines of a committed table, by row and column."""
    with (ROOT / "figures" / f"{artefact}.csv").open(encoding="utf-8", newline="") as file:
        return {(line["row"], line["column"]): line for line in csv.DictReader(file)}


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


def test_the_numbers_of_few_samples_are_those_of_the_committed_table() -> None:
    table = committed("pfedfda/table3")
    rows = rows_below(DOCS / "findings.md", "| | CIFAR-10, printed | ours | CIFAR-100, printed | ours |")
    assert [row[0] for row in rows] == list(dict.fromkeys(name for name, _ in table))
    for name, *numbers in rows:
        for column, (published, found) in zip(("CIFAR10", "CIFAR100"), (numbers[:2], numbers[2:]), strict=True):
            line = table[name, column]
            accuracy, seeds = found.removesuffix(")").split(" (")
            assert number(published) == number(line["published"])
            assert number(accuracy) == pytest.approx(number(line["ours"]), abs=0.051)
            assert seeds == line["n"]


def test_the_seeds_of_few_samples_are_those_of_the_committed_runs() -> None:
    table = committed("pfedfda/table3")
    said = set()
    for what, first, others in rows_below(DOCS / "findings.md", "| | the first seed | the others |"):
        if not what.startswith("pFedFDA Table 3, "):
            continue
        data, name = what.removeprefix("pFedFDA Table 3, ").split(", ")
        cell = {"fine-tuned FedAvg": "FedAvgFT"}.get(name, name), data.replace("-", "")
        runs = [read(ROOT / "figures" / "runs" / f"{name}.npz") for name in table[cell]["runs"].split()]
        found = sorted(runs, key=lambda run: run.experiment.seed)
        assert [run.experiment.seed for run in found] == [*range(len(found))], what
        assert [number(first), *map(number, others.split(", "))] == pytest.approx(
            [100 * run.accuracy("last_round") for run in found], abs=0.051
        ), what
        said.add(cell)
    assert said == {cell for cell, line in table.items() if int(line["n"]) > 1}


def test_the_table_of_the_readme_is_the_committed_one() -> None:
    table = committed("pfedfda/table1")
    for name, published, ours in rows_below(ROOT / "README.md", "| | published | ours |"):
        line = table[name, "CIFAR100-S: 25 %"]
        said = [number(part) for part in (*re.split(r"[* ±]+", published), *re.split(r"[* ±]+", ours))]
        expected = [number(line[key]) for key in ("published", "published_std", "ours", "over_clients")]
        assert said == pytest.approx(expected, abs=0.051)
