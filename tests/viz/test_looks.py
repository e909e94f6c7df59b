"""One look a method, the sizes of print, and what line pictures share."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from helpers.pictures import LEAST

from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS
from pflrepro.errors import UserError
from pflrepro.style import COLUMN, PAGE, PALETTE, style
from pflrepro.viz.lines import line_figure, smoothed
from pflrepro.viz.looks import LOOKS, look, looks
from pflrepro.viz.panels import filled, panels


def test_every_method_has_a_look_of_its_own() -> None:
    assert set(LOOKS) == {*ALGORITHMS, *PLUGINS}
    assert len(set(LOOKS.values())) == len(LOOKS)


def test_compositions_are_told_apart_from_their_parts() -> None:
    assert look("dbe") == look("fedavg+dbe") != look("scaffold+dbe")
    for plugin, entry in PLUGINS.items():
        found = looks([*entry.hosts, *(f"{host}+{plugin}" for host in entry.hosts)])
        assert len(set(found)) == len(found), plugin
    assert look("my_module:MyMethod").marker == "*"


def test_looks_of_a_picture_differ_and_the_strong_one_keeps_its_own() -> None:
    found = looks(["gpfl", "fedavg", "gpfl", "gpfl"], strong=[2])
    assert found[2].colour == look("gpfl").colour and found[2].weight == 1
    assert len({(each.colour, each.marker) for each in found}) == 4
    assert [each.weight for each in found] == [0, 0, 1, 0]
    assert found[2].ink == found[2].colour and found[1].ink != found[1].colour
    assert [each.weight for each in looks(["fedavg", "gpfl"])] == [0.5, 0.5], "without an own method nothing is muted"
    assert len({(each.colour, each.marker) for each in looks(["gpfl"] * 20)}) == 20


def test_the_style_is_for_print() -> None:
    before = dict(matplotlib.rcParams)
    with style():
        sizes = [
            value
            for name, value in matplotlib.rcParams.items()
            if name.endswith(("labelsize", "titlesize", "fontsize"))
        ]
        assert min(size for size in sizes if isinstance(size, float)) >= LEAST
        assert matplotlib.rcParams["pdf.fonttype"] == 42
        assert [each["color"] for each in matplotlib.rcParams["axes.prop_cycle"]] == [*PALETTE]
    assert dict(matplotlib.rcParams) == before


def test_panels_are_a_column_or_a_page_wide() -> None:
    for count, width in ((1, COLUMN), (2, PAGE), (5, PAGE)):
        figure, made = panels(count, 2.0)
        assert figure.get_figwidth() == width and len(made) == len(figure.axes) == count
    assert panels(4, 2.0)[0].get_figheight() == panels(6, 2.0)[0].get_figheight() == 4.0, "four stand in a square"
    with pytest.raises(UserError, match="nothing to draw"):
        panels(0, 2.0)
    with pytest.raises(UserError, match="no curve"):
        line_figure([])


def test_titles_are_as_long_as_their_panels_are_wide() -> None:
    """A column of text holds half of a page, a panel of three a third."""
    text = "a title of ninety characters " * 3
    cases = ((1, True), (1, False), (3, False), (5, False), (2, False))
    lines = [filled([text] * count, wide=wide)[0][0].count("\n") + 1 for count, wide in cases]
    assert lines == [2, 3, 4, 4, 3]


def test_smoothing_leaves_gaps_and_refuses_even_widths() -> None:
    values = np.array([np.nan, 2.0, 4.0, np.nan, 6.0])
    np.testing.assert_allclose(smoothed(values, 3), [np.nan, 3, 3, np.nan, 6])
    np.testing.assert_array_equal(smoothed(values, 1), values)
    np.testing.assert_allclose(smoothed(np.array([2.0, 4.0]), 5), [3, 3])
    for width in (0, 2):
        with pytest.raises(UserError, match="odd number"):
            smoothed(values, width)
