"""`pflrepro redraw`: which scale it shows, and what it does where there is none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.commands import answer

from pflrepro import cli
from pflrepro.errors import UserError


def test_redraw_writes_what_needs_no_run(capsys, tmp_path: Path) -> None:
    (row,) = answer(capsys, "redraw", "fedbr/table8", "--figures", str(tmp_path))
    assert (row["id"], row["scale"]) == ("fedbr/table8", "paper")
    assert [Path(path).name for path in row["outputs"]] == [path.name for path in sorted_as_written(tmp_path / "fedbr")]


def sorted_as_written(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=lambda path: [".tex", ".csv", ".md"].index(path.suffix))


def test_redraw_shows_the_most_exact_scale_that_has_a_run(capsys, monkeypatch, tmp_path: Path) -> None:
    from pflrepro.papers.studies import Study

    written = []
    monkeypatch.setattr(Study, "anything_run", property(lambda self: self.scale.name == "fast"))
    monkeypatch.setattr(Study, "write", lambda self, out: written.append(self) or [Path(out) / "figure4.md"])
    (row,) = answer(capsys, "redraw", "dbe/figure4", "--figures", str(tmp_path))
    assert (row["scale"], row["outputs"]) == ("fast", [str(tmp_path / "figure4.md")])
    assert not written[0].revives, "nothing is trained"
    assert answer(capsys, "redraw", "dbe/figure4", "--scale", "paper", code=1)[0]["outputs"] == []


def test_redraw_goes_on_after_one_that_cannot_be_written(capsys, monkeypatch, tmp_path: Path) -> None:
    from pflrepro.papers.studies import Study

    def write(self: Study, out: str) -> list[Path]:
        if self.artefact.id == "fedbr/table9":
            raise UserError("not measured yet")
        return [Path(out) / f"{self.artefact.id}.md"]

    monkeypatch.setattr(Study, "write", write)
    asked = ("redraw", "fedbr/table8", "fedbr/table9", "fedbr/table11", "--figures", str(tmp_path))
    found = answer(capsys, *asked, code=1)
    assert [(row["id"], len(row["outputs"]), row["error"]) for row in found] == [
        ("fedbr/table8", 1, None),
        ("fedbr/table9", 0, "not measured yet"),
        ("fedbr/table11", 1, None),
    ]
    assert cli.main(list(asked)) == 1
    assert "fedbr/table9 at scale paper: FAILED: not measured yet" in capsys.readouterr().out


def three_cells(monkeypatch, run: dict[str, int]) -> None:
    """Studies of three cells each, of which at a scale so many were run."""
    from pflrepro.papers.studies import Study

    def cells(study: Study) -> dict:
        return {k: SimpleNamespace(runs=[k] if k < run[study.scale.name] else []) for k in range(3)}

    monkeypatch.setattr(Study, "anything_run", property(lambda self: self.scale.name in run))
    monkeypatch.setattr(Study, "cells", property(cells))
    monkeypatch.setattr(Study, "write", lambda self, out: [Path(out) / "table3.md"])


@pytest.mark.parametrize(("run", "shown"), [({"fast": 2, "paper": 1}, "fast"), ({"fast": 2, "paper": 2}, "paper")])
def test_redraw_shows_the_scale_of_which_most_was_run(run, shown, capsys, monkeypatch, tmp_path: Path) -> None:
    """A table whose one column is the paper's own setting and whose other one is not is not drawn without the other."""
    three_cells(monkeypatch, run)
    monkeypatch.setattr("pflrepro.papers.outputs.checkout", lambda: None)
    (row,) = answer(capsys, "redraw", "pfedfda/table3", "--figures", str(tmp_path))
    assert row["scale"] == shown


@pytest.mark.parametrize(
    ("place", "there", "shown"),
    [
        ("new", "scale\npaper\n", "paper"),
        ("new", "scale\nsmoke\n", "fast"),
        ("new", "row\nFedAvg\n", "fast"),
        ("new", "", "fast"),
        ("figures", "scale\npaper\n", "paper"),
    ],
    ids=["its own", "one without runs", "none said", "empty", "of the committed outputs"],
)
def test_redraw_keeps_the_scale_of_the_outputs_that_are_there(
    place, there, shown, capsys, monkeypatch, tmp_path: Path
) -> None:
    """A few rows at the paper's own scale are not drawn over by more rows at less."""
    three_cells(monkeypatch, {"fast": 2, "paper": 1})
    monkeypatch.setattr("pflrepro.papers.outputs.checkout", lambda: tmp_path)
    (tmp_path / place / "pfedfda").mkdir(parents=True)
    (tmp_path / place / "pfedfda" / "table3.csv").write_text(there)
    (row,) = answer(capsys, "redraw", "pfedfda/table3", "--figures", str(tmp_path / "new"))
    assert row["scale"] == shown
