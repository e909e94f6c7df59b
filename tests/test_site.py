"""What the documentation site writes from the code (its build is a step of .ci/run)."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "docs" / "site" / "pages.py"
if not PAGES.exists():
    pytest.skip("the documentation lies beside the source only", allow_module_level=True)
site = runpy.run_path(str(PAGES))


def test_signs_of_formulas_are_escaped_but_code_lists_and_examples_are_not() -> None:
    lines = ["w_i * |x| of `a_b*`", "* an item", "    tau_1: a_", "    >>> 2 * x_", "    clients: N."]
    site["as_markup"](None, "function", "f", None, None, lines)
    assert lines == [r"w\_i \* \|x\| of `a_b*`", "* an item", r"    tau_1: a\_", "    >>> 2 * x_", r"    clients: N\."]


def test_a_name_of_two_packages_is_described_once() -> None:
    seen: dict[int, str] = {}
    first = site["_package"]("pflrepro", "The package", seen)
    assert "exclude" not in first and ".. automodule:: pflrepro\n" in first
    assert "Also here: :py:obj:`pflrepro.DataConfig`" in site["_package"]("pflrepro.experiments", "Runs", seen)


def test_a_method_s_page_has_rule_options_facts_and_variants() -> None:
    facts = site["_facts"]()
    page = site["_method"](site["ALGORITHMS"]["fedphp"], facts)
    assert page.startswith("# FedPHP (`fedphp`)\n") and "```math\n" in page and "| `inheritance` |" in page
    assert "| also kept | history, count |" in page and "### FedPHP (`fedphp/platform`)" in page
    assert "| products | 2.26 |" in site["_method"](site["PLUGINS"]["fedbr"], facts)


def test_the_gallery_has_every_committed_page_and_its_picture() -> None:
    cards, figures = site["_gallery"](), PAGES.parents[2] / "figures"
    for page in figures.glob("*/*.md"):
        assert f":link: /figures/{page.parent.name}/{page.stem}\n" in cards
    assert ":img-top: ../../../figures/demo/digits-points.png\n" in cards


def test_a_source_tag_says_what_it_means() -> None:
    known = site["tags"]()
    assert known["BR-code"].startswith("read in the code") and known["?"].startswith("open")
    shown = site["explained"]("5 [FDA]; 3 [BR 4.1; inferred], x [B, K] & [?]", known)
    assert shown.count("<abbr") == 3 and "[B, K] &amp; " in shown
    assert f'title="BR: {known["BR"]}; inferred: {known["inferred"]}">[BR 4.1; inferred]</abbr>' in shown
