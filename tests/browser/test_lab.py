"""JupyterLab in a real browser: the demo, a tutorial and an artefact's notebook run, also in the dark; a slider redraws, a run trains
and stops, a cell of a table is clicked, a store's runs are filtered and drawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pandas as pd
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow
Look = Callable[[str, str], None]
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SHOWN = ".jp-OutputArea-output"  # what is ours in a notebook's page


def run_all(page: Page, lab: tuple[str, Path], name: str) -> None:
    """Open a notebook and run all of its cells."""
    # in a workspace of its own: else what was open before is there too
    page.goto(lab[0].replace("NAME", name).replace("WORK", name.partition(".")[0]))
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_selector("text=/Python 3 .*Idle/")
    page.click("text=Run >> nth=0")
    page.click('.lm-Menu-item:has-text("Run All Cells") >> nth=0')


def notebook(folder: Path, name: str, *cells: str) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    book.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(book, folder / name)


def picture_of(page: Page, said: str) -> Locator:
    return page.locator(f'img[alt^="{said}"]').first


def copied(folder: Path, name: str, **parameters: str) -> str:
    """A notebook of the repository with other values in its parameters cell, in the lab's folder; its name there."""
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    (cell,) = (cell for cell in book.cells if "parameters" in cell.metadata.get("tags", []))
    for key, value in parameters.items():
        cell.source, replaced = re.subn(
            rf'^{key}: str = ".*?"', f"{key}: str = {value!r}", cell.source, flags=re.MULTILINE
        )
        assert replaced == 1, key
    nbformat.write(book, folder / f"{Path(name).name}.ipynb")
    return f"{Path(name).name}.ipynb"


def errors(page: Page) -> list[str]:
    return page.locator(
        '[data-mime-type="application/vnd.jupyter.error"], [data-mime-type$="stderr"]'
    ).all_inner_texts()


def top(page: Page) -> None:
    page.click(".jp-Notebook .jp-Cell >> nth=0")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Home")


def test_the_first_tutorial_shows_its_pictures(lab: tuple[str, Path], page: Page, look: Look) -> None:
    store = str(lab[1] / "store")
    run_all(page, lab, copied(lab[1], "tutorials/01_first_look", scale="smoke", store=store))
    page.wait_for_selector(".widget-hslider")  # the last code cell's
    assert errors(page) == []
    look("tutorial-end", SHOWN)
    top(page)
    assert page.locator(".jp-OutputArea-output img, .jp-OutputArea-output svg").count() > 0
    look("tutorial-begin", SHOWN)


@pytest.mark.parametrize("name", ["demo/digits", "dbe/table2"])
def test_the_notebook_of_an_artefact_runs(name: str, lab: tuple[str, Path], page: Page, look: Look) -> None:
    short = Path(name).name
    run_all(page, lab, copied(lab[1], name, scale="smoke", store=str(lab[1] / "store"), out=str(lab[1] / "out")))
    page.wait_for_selector(f".jp-OutputArea-output >> text={short}-smoke.md")  # the last code cell's
    assert errors(page) == []
    row = page.locator("tr", has=page.locator("td", has_text=re.compile(r"^FedAvg\+DBE$"))).last
    numbers = pd.read_csv(lab[1] / "out" / f"{name}-smoke.csv")
    ours = numbers.loc[numbers["method"] == "fedavg+dbe", "ours"]
    assert len(ours) and all(
        f"{value:.2f}" in row.inner_text() or f"{value:,.0f}" in row.inner_text() for value in ours
    )
    look(f"{short}-end", SHOWN)
    top(page)
    look(short, SHOWN)


def test_a_slider_redraws_and_a_run_trains_and_stops(lab: tuple[str, Path], page: Page, look: Look) -> None:
    made = f"explorer = pflrepro.explore('digits', store={str(lab[1] / 'store')!r}, backend='loop', workers=1)"
    notebook(lab[1], "explore.ipynb", f"import pflrepro\n{made}\nexplorer.clients.value = 5\nexplorer")
    run_all(page, lab, "explore.ipynb")
    bubbles = picture_of(page, "samples of each client and class, dirichlet:0.1")
    before = bubbles.get_attribute("src")
    handle = page.locator(".widget-hslider .noUi-handle").first
    handle.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    moved = picture_of(page, "samples of each client and class, dirichlet:0.3162")
    assert moved.get_attribute("src") != before
    rounds = page.locator(".widget-text", has_text="rounds").locator("input")
    press = {name: page.locator(".jupyter-button", has_text=name) for name in ("Run", "Stop")}
    rounds.fill("3000")
    rounds.press("Enter")
    page.wait_for_selector("text=/--rounds 3000/")
    press["Run"].click()
    page.wait_for_selector("text=/round [1-9][0-9]* of 3000, accuracy/")
    look("explore-training", SHOWN)
    press["Stop"].click()
    stopped = page.wait_for_selector("text=/stopped after round [0-9]+/").inner_text()
    reached = int(re.search(r"round (\d+)", stopped)[1])
    rounds.fill(str(reached + 2))
    rounds.press("Enter")
    page.wait_for_selector(f"text=/--rounds {reached + 2}/")
    press["Run"].click()
    page.wait_for_selector(f"text=/{reached + 2} rounds, best/")
    picture_of(page, "curves of fedavg").wait_for()
    look("explore-done", SHOWN)


def test_a_cell_of_a_table_is_clicked(lab: tuple[str, Path], page: Page, look: Look) -> None:
    notebook(lab[1], "study.ipynb", 'from pflrepro import papers\npapers.study("demo/digits").explore()')
    run_all(page, lab, "study.ipynb")
    buttons = page.locator(".widget-gridbox .jupyter-button")
    buttons.first.wait_for()
    buttons.nth(1).click()
    page.wait_for_selector("text=/pflrepro run --algorithm fedavg --dataset digits/")
    picture_of(page, "curves of FedAvg").wait_for()
    look("cell", SHOWN)


def test_runs_of_a_store_are_filtered_and_drawn(lab: tuple[str, Path], page: Page, look: Look) -> None:
    runs = "[E.for_dataset(name, 'digits', clients=3, rounds=2) for name in ('local', 'fedavg', 'ditto')]"
    made = f"pflrepro.run({runs}, store=store, progress=False, backend='loop', workers=1)"
    folder = f"store = {str(lab[1] / 'browsed')!r}"
    notebook(
        lab[1], "browse.ipynb", f"import pflrepro\nE = pflrepro.Experiment\n{folder}\n{made};", "pflrepro.browse(store)"
    )
    run_all(page, lab, "browse.ipynb")
    lines = page.locator("table.dataTable tbody tr")
    page.wait_for_selector("table.dataTable tbody tr >> nth=2")
    page.locator(".dt-scroll-foot input").first.press_sequentially("fed")
    page.wait_for_function("document.querySelectorAll('table.dataTable tbody tr').length == 1")
    lines.first.click()
    picture_of(page, "curves of fedavg").wait_for()
    look("browse", SHOWN)
    with page.expect_download() as download:
        page.locator("button.buttons-csv").click()
    exported = pd.read_csv(download.value.path())
    assert exported["algorithm"].tolist() == ["fedavg"] and "accuracy (%)" in exported
