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


@pytest.mark.parametrize("shape", [(21, 3), (3, 21)])
def test_many_clients_or_classes_are_a_map_with_a_colour_bar(shape):
    counts = np.zeros(shape, int)
    counts[2, 1], counts[1, 2] = 7, 1
    panel, bar = picture.bubbles(counts).axes
    (mesh,) = panel.collections
    np.testing.assert_array_equal(mesh.get_array().filled(0), counts.T)
    assert mesh.get_array().mask.sum() == counts.size - 2, "what nobody holds is left white"
    assert (mesh.norm.vmin, mesh.norm.vmax, bar.get_ylabel()) == (0, 7, "samples")
    assert picture.bubbles(counts[:20, :20]).axes[0].collections[0].get_offsets().tolist() == [[1, 2], [2, 1]]


@pytest.mark.parametrize("shape", [(10, 10), (20, 4), (4, 20), (1, 2)])
def test_no_disc_reaches_beyond_the_axes(shape):
    figure = picture.bubbles(np.full(shape, 5))
    figure.draw_without_rendering()
    panel = figure.axes[0]
    dots = panel.collections[0]
    radius = np.sqrt(dots.get_sizes().max() / np.pi) * figure.dpi / 72
    places = panel.transData.transform(dots.get_offsets())
    assert (places.min(0) - radius >= panel.bbox.min).all() and (places.max(0) + radius <= panel.bbox.max).all()


def test_viz_offers_the_same_bubbles():
    assert viz.bubbles is picture.bubbles
