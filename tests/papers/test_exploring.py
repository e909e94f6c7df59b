"""`study.explore()` without a screen: cells are clicked from Python."""

from __future__ import annotations

import re

import pytest

from pflrepro import papers
from pflrepro.errors import UserError


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory):
    study = papers.study(
        "demo/digits", "smoke", seeds=2, methods=["local", "fedavg"], store=tmp_path_factory.mktemp("s")
    )
    study.run(progress=False, backend="loop", workers=1)
    return study.explore()


def text(html: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", html).split())


def test_a_clicked_cell_shows_runs_configuration_command_and_pictures(explorer) -> None:
    key = ("fedavg", "practical/digits")
    explorer.buttons[key].click()
    said, cell = text(explorer._cell.value), explorer.study.cells[key]
    for run in cell.runs.values():
        assert run.id[:12] in said
    assert cell.runs[0].command in said and f"pflrepro show {cell.runs[0].id[:12]}" in said
    assert "local_epochs 1" in said and "verdict" in said
    assert 'alt="curves of FedAvg"' in explorer._pictures.value and explorer._pictures.value.count("<img") == 3
    assert explorer.buttons[key].button_style == "primary"


def test_cells_are_laid_over_each_other_if_wanted(explorer) -> None:
    explorer.keep.value = False
    explorer.pick("local", "practical/digits")
    assert explorer.picked == [("local", "practical/digits")]
    explorer.keep.value = True
    explorer.pick("fedavg", "practical/digits")
    assert 'alt="curves of Local, FedAvg"' in explorer._pictures.value


def test_a_cell_without_runs_says_how_to_get_them(explorer) -> None:
    explorer.keep.value = False
    explorer.buttons["gpfl", "practical/digits"].click()
    assert explorer.buttons["gpfl", "practical/digits"].description == "–"
    assert explorer.study.command in text(explorer._cell.value)
    assert "no finished run" in text(explorer._cell.value) and explorer._pictures.value == ""
    with pytest.raises(UserError, match="fedavgg"):
        explorer.pick("fedavgg", "practical/digits")
    without = papers.study("dbe/table6", "fast").explore()
    with pytest.raises(UserError, match=r"fedavg has no cell in column mr; rows that have one: .*ditto"):
        without.pick("fedavg", "mr")


def test_without_widgets_it_is_the_table(explorer) -> None:
    shown = explorer._repr_mimebundle_()
    assert "FedAvg" in shown["text/html"] and "<table" in shown["text/html"]
    assert shown["text/plain"].startswith("CellExplorer(Study(demo/digits at scale smoke: 2 of 6 cells run")


def test_printed_numbers_stand_beside_ours_and_nothing_to_train_is_said() -> None:
    found = papers.study("dbe/table5", "smoke").explore()
    assert any(re.fullmatch(r"– \(\d+\.\d+\)", button.description) for button in found.buttons.values())
    counted = papers.study("fedbr/table7", "paper").explore()
    assert counted.buttons == {} and "nothing is trained" in text(counted._said.value)
