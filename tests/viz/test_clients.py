"""Pictures of the clients of a run: what stands where."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_a_mark_a_client_at_its_own_size() -> None:
    panel = size_scatter({"one": RUN}).axes[0]
    np.testing.assert_array_equal(panel.lines[0].get_xydata(), [[30, 90], [10, np.nan]])
