"""Pictures of the clients of a run: what stands where."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.text import Text

from pflrepro.errors import UserError
from pflrepro.viz.clients import ClientCurves, client_map, size_scatter

RUN = ClientCurves(np.array([0, 2, 4]), np.array([[0.1, 0.2], [0.5, 0.4], [0.9, np.nan]]), np.array([30, 10]))


def test_the_map_has_the_client_with_the_most_data_on_top() -> None:
    figure = client_map({"one": RUN, "other": RUN})
    panel = figure.axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["1 (10)", "0 (30)"]
    shown = panel.collections[0].get_array()
    np.testing.assert_allclose(shown.filled(-1), [[20, 40, -1], [10, 50, 90]])
    figure.draw_without_rendering()
    with pytest.raises(UserError, match="no run"):
        client_map({})


def test_what_the_accuracies_are_and_long_names_are_said() -> None:
    name = "fedavg, partition dirichlet:0.1+validation=0.2, learning rate 0.005, seed"
    names = [f"{name} {seed}" for seed in (3, 4)]
    figure = client_map(dict.fromkeys(names, RUN), "validation accuracy after local training")
    figure.draw_without_rendering()
    texts = figure.findobj(lambda each: isinstance(each, Text) and name in each.get_text().replace("\n", " "))
    assert [each.get_text().replace("\n", " ") for each in texts] == names
    one, other = (each.get_window_extent() for each in texts)
    assert one.x1 <= other.x0 and other.x1 <= figure.bbox.x1
    assert figure.axes[-1].get_ylabel() == "validation accuracy after local training (%)"
    label = size_scatter({"one": RUN}, "validation accuracy").axes[0].get_ylabel()
    assert label.replace("\n", " ") == "validation accuracy (%)"


def test_a_mark_a_client_at_its_own_size() -> None:
    panel = size_scatter({"one": RUN}).axes[0]
    np.testing.assert_array_equal(panel.lines[0].get_xydata(), [[30, 90], [10, np.nan]])
