"""JupyterLab in a real browser: the first tutorial runs, a slider redraws, a run trains and stops, a cell of a table is
clicked, a store's runs are filtered and drawn.

Left out where there is no Chromium or no playwright (`pip install -e '.[browser]'`, and the system's `chromium`). Pictures of what was
seen lie in the test's temporary folder: `pytest tests/notebooks/test_browser.py --basetemp outputs/browser`.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pandas as pd
import pytest

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")]

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "notebooks" / "tutorials" / "01_first_look.ipynb"
PATIENCE = 240_000  # milliseconds: a shared machine may be slow


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """(the address of a JupyterLab with its token, its folder)."""
    folder, token = tmp_path_factory.mktemp("lab"), secrets.token_hex(8)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.root_dir": folder,
        "ServerApp.allow_root": True,
        "IdentityProvider.token": token,
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", *(f"--{name}={v}" for name, v in options.items())]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(folder / "config")}
    with open(folder / "lab.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{address}/api?token={token}", timeout=5).close()
                    break
                except OSError:
                    assert server.poll() is None, (folder / "lab.log").read_text("utf-8")
                    time.sleep(0.5)
            yield f"{address}/lab/workspaces/WORK/tree/NAME?token={token}", folder
        finally:
            server.terminate()
            server.wait()


@pytest.fixture
def page(lab: tuple[str, Path]) -> Iterator[sync_api.Page]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1800})
        page.set_default_timeout(PATIENCE)
        yield page
        browser.close()


def run_all(page: sync_api.Page, lab: tuple[str, Path], name: str) -> None:
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


def picture_of(page: sync_api.Page, said: str) -> sync_api.Locator:
    return page.locator(f'img[alt^="{said}"]').first


def test_the_first_tutorial_shows_its_pictures(lab: tuple[str, Path], page: sync_api.Page, tmp_path: Path) -> None:
    book = nbformat.read(TUTORIAL, as_version=4)
    for cell in book.cells:
        cell.source = cell.source.replace('scale: str = "fast"', 'scale: str = "smoke"')
        cell.source = cell.source.replace('store: str = ""', f"store: str = {str(lab[1] / 'store')!r}")
    nbformat.write(book, lab[1] / "first.ipynb")
    run_all(page, lab, "first.ipynb")
    page.wait_for_selector(".widget-hslider")  # the last code cell's
    assert page.locator('[data-mime-type="application/vnd.jupyter.error"]').count() == 0
    page.screenshot(path=tmp_path / "tutorial-end.png")
    page.click(".jp-Notebook .jp-Cell >> nth=0")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Home")
    page.screenshot(path=tmp_path / "tutorial-begin.png")


def test_a_slider_redraws_and_a_run_trains_and_stops(
    lab: tuple[str, Path], page: sync_api.Page, tmp_path: Path
) -> None:
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
    page.screenshot(path=tmp_path / "explore-training.png")
    press["Stop"].click()
    stopped = page.wait_for_selector("text=/stopped behind round [0-9]+/").inner_text()
    reached = int(re.search(r"round (\d+)", stopped)[1])
    rounds.fill(str(reached + 2))
    rounds.press("Enter")
    page.wait_for_selector(f"text=/--rounds {reached + 2}/")
    press["Run"].click()
    page.wait_for_selector(f"text=/{reached + 2} rounds, best/")
    picture_of(page, "curves of fedavg").wait_for()
    page.screenshot(path=tmp_path / "explore-done.png")


def test_a_cell_of_a_table_is_clicked(lab: tuple[str, Path], page: sync_api.Page, tmp_path: Path) -> None:
    notebook(lab[1], "study.ipynb", 'from pflrepro import papers\npapers.study("demo/digits").explore()')
    run_all(page, lab, "study.ipynb")
    buttons = page.locator(".widget-gridbox .jupyter-button")
    buttons.first.wait_for()
    buttons.nth(1).click()
    page.wait_for_selector("text=/pflrepro run --algorithm fedavg --dataset digits/")
    picture_of(page, "curves of FedAvg").wait_for()
    page.screenshot(path=tmp_path / "cell.png")


def test_runs_of_a_store_are_filtered_and_drawn(lab: tuple[str, Path], page: sync_api.Page, tmp_path: Path) -> None:
    """With nothing from elsewhere: the table's engine comes with the package."""
    asked = []
    page.route(lambda url: "127.0.0.1" not in url, lambda route: (asked.append(route.request.url), route.abort()))
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
    page.screenshot(path=tmp_path / "browse.png")
    with page.expect_download() as download:
        page.locator("button.buttons-csv").click()
    exported = pd.read_csv(download.value.path())
    assert exported["algorithm"].tolist() == ["fedavg"] and "accuracy (%)" in exported
    assert [url for url in asked if url.startswith("http")] == []
