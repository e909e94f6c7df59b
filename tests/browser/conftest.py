"""Chromium without a window, and a JupyterLab for it: what all tests in a real browser share.

They are left out where there is no Chromium or no playwright; `make browser` runs them all and keeps the pictures in outputs/browser.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.legible import illegible

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
PATIENCE = 180_000  # milliseconds: a shared machine may be slow
SETTINGS = {
    "themes": '{"adaptive-theme": true}',  # dark where the browser asks for it
    "notification": '{"fetchNews": "false"}',  # no question about news over the page
}
# A page of JupyterLab has changed its colours after the browser's wish.
_ITS_THEME = "theme => [undefined, String(theme === 'light')].includes(document.body.dataset.jpThemeLight)"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page. What it would load from elsewhere, and an error of its scripts, fail the test."""
    page, wrong = browser.new_page(viewport={"width": 1400, "height": 1800}, color_scheme="light"), []
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.route(lambda url: not local(url), lambda route: (wrong.append(route.request.url), route.abort()))
    yield page
    page.close()
    assert wrong == []


def local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "file:", "data:", "blob:", "about:"))


@pytest.fixture
def look(page: Page, tmp_path: Path) -> Callable[..., None]:
    """look(name, within): take a picture in light and one in the dark; every text in what `within` selects is legible in both."""
    folder = Path(os.environ.get("PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def look(name: str, within: str) -> None:
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            page.wait_for_function(_ITS_THEME, arg=theme)
            page.wait_for_selector("#jupyterlab-splash", state="detached")  # what covers a change of colours
            page.screenshot(path=folder / f"{name}-{theme}.png")
            assert illegible(page, within) == []

    return look


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """(the address of a JupyterLab with its token, its folder)."""
    folder, config, token = tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("config"), secrets.token_hex(8)
    settings = config / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    for name, text in SETTINGS.items():
        (settings / f"{name}.jupyterlab-settings").write_text(text, "utf-8")
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
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(config)}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(config / "settings"), "PFLREPRO_STORE": str(config / "store")}
    with open(config / "lab.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{address}/api?token={token}", timeout=5).close()
                    break
                except OSError:
                    assert server.poll() is None, (config / "lab.log").read_text("utf-8")
                    time.sleep(0.5)
            yield f"{address}/lab/workspaces/WORK/tree/NAME?token={token}", folder
        finally:
            server.terminate()
            server.wait()
