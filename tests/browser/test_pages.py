"""The score card and the documentation site in a real browser, in light and in the dark; nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from helpers.legible import illegible

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow
Look = Callable[[str, str], None]
ROOT = Path(__file__).parents[2]
SITE = ROOT / "outputs" / "site"
ARTICLE = ".article-container, .sidebar-drawer"
# Pictures that did not come; and whether a page is wider than its window.
BROKEN = "[...document.images].filter(each => each.complete && !each.naturalWidth).map(each => each.src)"
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def test_what_cannot_be_read_is_found(page: Page) -> None:
    """White on pale blue, also through an element without a colour of its own; a check of nothing is no pass."""
    page.set_content(
        "<body><p style='background:#def;color:#fff'>pale <b>too</b></p><p style='color:#333'>dark</p><i></i></body>"
    )
    assert illegible(page, "body") == [
        "1.2: pale (255,255,255 on 221,238,255)",
        "1.2: too (255,255,255 on 221,238,255)",
    ]
    assert illegible(page, "i") == ["nothing is in i"] and illegible(page, "body > p + p") == []


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The card of the demo's runs, which come with the package."""
    folder = tmp_path_factory.mktemp("card")
    command = [
        sys.executable,
        "-m",
        "pflrepro",
        "score",
        "demo",
        "--html",
        str(folder),
        "--store",
        str(folder / "none"),
    ]
    own = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}  # nothing of the user's
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=own)
    return folder / "index.html"


def in_view(element: Locator) -> bool:
    return element.evaluate(
        "each => each.getBoundingClientRect().top >= 0 && each.getBoundingClientRect().top < innerHeight"
    )


def test_the_score_card_leads_from_a_cell_to_its_run(card: Path, page: Page, look: Look) -> None:
    page.goto(card.as_uri())
    assert page.evaluate(BROKEN) == [] and not page.evaluate(WIDER)
    look("score", "body")
    page.locator("nav a", has_text="digits").first.click()
    assert in_view(page.locator("#demo-digits"))
    cells = page.locator("#demo-digits table.cells, #demo-digits ~ * table.cells").first
    if not cells.is_visible():
        page.locator("details", has=page.locator("table.cells")).first.locator("summary").first.click()
    link = cells.locator("tr", has_text="FedAvg+DBE").locator('a[href^="#run-"]').first
    target = page.locator(link.get_attribute("href"))
    link.click()
    row = page.locator("tr", has=target)
    assert in_view(target) and f"pflrepro show {target.inner_text()[:8]}" in row.inner_text()
    for each in page.locator("details:not([open])").all():
        each.evaluate("each => each.open = true")
    look("score-run", "body")
    page.set_viewport_size({"width": 420, "height": 900})
    assert not page.evaluate(WIDER)  # a table that is too wide scrolls in its own frame
    look("score-narrow", "body")


@pytest.fixture
def site(page: Page) -> Page:
    if not (SITE / "index.html").exists():
        pytest.skip("needs the documentation: make docs")
    page.goto((SITE / "docs" / "site" / "index.html").as_uri())
    return page


@pytest.fixture
def served() -> Iterator[str]:
    """The address of the site's first page on a server of its own."""
    handler = partial(Quiet, directory=SITE)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def test_the_site_opens_on_its_cards_and_leads_to_a_table(site: Page, look: Look) -> None:
    assert site.locator(".sd-card").count() >= 6 and site.evaluate(BROKEN) == []
    look("site", ARTICLE)
    site.locator(".sd-card", has_text="Gallery").click()
    site.wait_for_url("**/gallery.html")
    site.wait_for_load_state("load")
    assert site.locator(".sd-card img").count() > 10 and site.evaluate(BROKEN) == []
    look("site-gallery", ARTICLE)
    site.locator(".sd-card", has_text="DBE Table 2").click()
    site.locator("article table", has_text="FedAvg+DBE").first.wait_for()
    for width in (420, 1200, 1400, 1600):
        site.set_viewport_size({"width": width, "height": 1800})
        assert not site.evaluate(WIDER), width
    look("site-table", ARTICLE)


def test_a_method_s_page_draws_its_formulas_and_says_what_a_source_tag_means(site: Page, look: Look) -> None:
    site.goto((SITE / "docs" / "site" / "written" / "methods" / "pfedfda.html").as_uri())
    formulas = site.locator("mjx-container")
    formulas.first.wait_for()
    assert formulas.first.bounding_box()["width"] > 50 and site.locator("mjx-merror").count() == 0
    assert "released with that paper" in site.locator("abbr.source", has_text="FDA-code").first.get_attribute("title")
    look("site-method", ARTICLE)


def test_a_search_finds_a_word(site: Page, served: str, look: Look) -> None:
    """From a server: from a file the browser refuses the lines around what was found."""
    site.goto(served)
    site.locator(".sidebar-search").first.fill("description length")
    site.keyboard.press("Enter")
    site.locator("#search-results li a").first.wait_for()
    site.wait_for_selector("text=/Search finished|found/")
    look("site-search", ARTICLE)
    site.locator("#search-results li a").first.click()
    assert "description length" in site.locator("article").inner_text().lower()


def test_a_tutorial_and_the_interface_are_pages(site: Page, look: Look) -> None:
    site.locator(".sidebar-tree a", has_text="A first look").first.click()
    site.locator("article h1", has_text="A first look").wait_for()
    assert site.locator("article div.cell_input").count() > 5 and site.evaluate(BROKEN) == []
    look("site-tutorial", ARTICLE)
    site.goto((SITE / "docs" / "site" / "written" / "api" / "pflrepro.html").as_uri())
    assert site.locator("#pflrepro\\.Experiment").is_visible()
    look("site-interface", ARTICLE)
