"""Bubbles of counts: areas, axes, what is refused."""

import numpy as np
import pytest

from pflrepro import viz
from pflrepro.data import picture
from pflrepro.errors import UserError


def test_bubbles_have_an_area_proportional_to_the_samples():
    counts = np.array([[10, 0, 40], [0, 20, 0]])
    figure = picture.bubbles(counts, "title")
    dots = figure.axes[0].collections[0]
    assert dots.get_offsets().tolist() == [[0, 0], [0, 2], [1, 1]]
    np.testing.assert_allclose(dots.get_sizes() / dots.get_sizes()[0], [1, 4, 2])
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("client", "class")
    assert picture._examples(6_789) == [6_000, 3_000, 600]
    assert picture._examples(1) == [1]


@pytest.mark.parametrize("counts", [np.zeros((2, 2)), np.ones(3), np.empty((0, 2)), -np.ones((2, 2))])
def test_bubbles_refuse_what_is_no_table_of_counts(counts):
    with pytest.raises(UserError, match="counts must be a table"):
        picture.bubbles(counts)


def test_many_bubbles_are_smaller_and_drawn_as_pixels():
    few, many = (picture.bubbles(np.ones((20, labels), int)).axes[0].collections[0] for labels in (10, 200))
    assert few.get_sizes()[0] > 1.5 * many.get_sizes()[0]
    assert (few.get_rasterized(), many.get_rasterized()) == (False, True)


def test_viz_offers_the_same_bubbles():
    assert viz.bubbles is picture.bubbles
