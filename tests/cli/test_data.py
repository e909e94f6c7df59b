"""What `pflrepro data` and its neighbours say of data sets to a reader at a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pflrepro import cli
from pflrepro.cli.data import WIDTH, blocks, overview
from pflrepro.data.datasets import DATASETS
from pflrepro.data.download import status


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root where MNIST is damaged and nothing else is."""
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "mnist.npz").write_bytes(b"rubbish")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert cli.main([*words]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_status_is_a_short_line_a_set(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    heading, *lines, blank, more = said(capsys, "data", "status", "--data-root", str(root))
    assert heading.split() == ["name", "state", "samples", "licence"] and blank == "" and "data status NAME" in more
    assert [line.split()[0] for line in lines] == list(DATASETS)
    assert max(map(len, (heading, *lines, more))) <= WIDTH == 100
    states = {line.split()[0]: line.split()[1] for line in lines}
    assert states["digits"] == "embedded" and states["mnist"] == states["rotated-mnist"] == "corrupt"
    assert states["fmnist"] == "absent" and "  MIT" in next(line for line in lines if line.startswith("fmnist "))


def test_a_named_set_has_a_block_with_all_there_is_to_say(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    lines = said(capsys, "data", "status", "pacs", "mnist", "--data-root", str(root))
    text = " ".join(" ".join(lines).split())
    assert lines[0] == "pacs: absent" and "mnist: corrupt" in lines and lines[lines.index("mnist: corrupt") - 1] == ""
    for spec in (DATASETS["pacs"], DATASETS["mnist"]):
        assert all(part in text for part in (spec.origin, spec.licence, spec.citation, f"{spec.samples:,}"))
    assert "place the folder PACS/ (or PACS.zip) in" in text and "lacking data set 'pacs'" in text
    assert "corrupt " in text and "mnist.npz is corrupt" in text


def test_blocks_stay_within_the_terminal(root: Path) -> None:
    """All but words that are longer themselves, such as the path of a temporary folder."""
    rows = status(root)
    for line in blocks(rows).splitlines():
        assert len(line) <= WIDTH or len(line.split()) <= 2, line
    assert blocks(rows).count("\n\n") == len(rows) - 1


def test_long_is_a_block_a_set(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    lines = said(capsys, "data", "status", "--long", "--data-root", str(root))
    heads = [line.split(":")[0] for line in lines if line and not line.startswith(" ")]
    assert heads == list(DATASETS) and sum(line.startswith("  citation ") for line in lines) == len(heads)


def test_json_has_every_citation(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    for words in (["list", "datasets"], ["data", "status", "--data-root", str(root)]):
        rows = json.loads("\n".join(said(capsys, *words, "--json")))
        assert {row["name"]: row["citation"] for row in rows} == {n: spec.citation for n, spec in DATASETS.items()}


def test_the_doctor_says_what_is_corrupt_once(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    assert cli.main(["doctor", "--data-root", str(root)]) == 1
    text = capsys.readouterr().out
    assert text.count("mnist.npz is corrupt") == 1 and "data set mnist is corrupt" in text
    assert overview(status(root)).splitlines()[3].strip() in text
