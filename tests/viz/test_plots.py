"""Pictures: what is drawn, where, with which labels."""

import matplotlib
import numpy as np
import pytest

from pflrepro.errors import UserError
from pflrepro.style import style
from pflrepro.viz import plots


def drawn(panel, label):
    """Data of every line with that label."""
    return [line.get_xydata().tolist() for line in panel.lines if line.get_label() == label]


def test_points_show_published_and_ours(result):
    figure = plots.points(result)
    panel = figure.axes[0]
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["Nothing", "FedAvg+DBE", "FedAvg"]
    assert drawn(panel, "published") == [[[85.85, 2.0]], [[97.69, 1.0]]]
    bars = [bar.lines[0].get_xydata().tolist() for bar in panel.containers]
    assert bars == [[[86.0, 2.0]], [[70.5, 1.0]]]
    assert panel.get_xlabel() == "test accuracy (%)"
    assert "scale fast" in figure.get_suptitle()


def test_a_column_without_any_number_is_left_out(result):
    assert [panel.get_title(loc="left") for panel in plots.points(result).axes if panel.get_visible()] == ["A"]


def test_a_stand_in_is_drawn_without_published_numbers(stand_in):
    panel = plots.points(stand_in).axes[0]
    assert drawn(panel, "published") == []
    assert len(panel.containers) == 1


def test_curves_before_and_after_local_training(result):
    before, after = plots.curves(result).axes
    # Mean of (10, 84, 60) and (10, 20, 88); after training (85, 61) and (21, 89).
    np.testing.assert_allclose(drawn(before, "FedAvg"), [[[0, 10], [1, 52], [2, 74]]])
    np.testing.assert_allclose(drawn(after, "FedAvg"), [[[0, np.nan], [1, 53], [2, 75]]])
    np.testing.assert_allclose(drawn(after, "FedAvg+DBE"), [[[0, np.nan], [1, np.nan], [2, np.nan]]])
    assert (before.get_xlabel(), before.get_ylabel()) == ("round", "test accuracy (%)")
    assert before.get_title(loc="left") == "A: before local training"


def test_nothing_to_draw_is_one_clear_error(empty):
    with pytest.raises(UserError, match="demo/fake has no curves at scale fast: nothing was run"):
        plots.curves(empty)


def test_style_is_restored():
    before = dict(matplotlib.rcParams)
    with style():
        assert matplotlib.rcParams["axes.grid"]
    assert dict(matplotlib.rcParams) == before
