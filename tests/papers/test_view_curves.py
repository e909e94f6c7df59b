"""Curves: what is drawn of a run, mean over seeds, published levels, axes."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.pictures import check_print, labels, lines, panel_title
from helpers.studies import DBE, FEDAVG, FEDPER, A, B, make_artefact, make_cell, make_study

from pflrepro.errors import UserError
from pflrepro.papers.artefact import STAND_IN, row
from pflrepro.papers.views.curves import Curves
from pflrepro.papers.views.layers import Layers

CELLS = (
    make_cell(FEDAVG, A, [[10, 84, 60], [10, 20, 88]], printed=(85.85, 0.2)),
    make_cell(DBE, A, [[10, 60, 70], [10, 60]]),
    make_cell(DBE, B, printed=(97.0, 0.1)),
)


def drawn(view: Curves, *cells):
    (figure,) = view.figures(make_study(make_artefact(), cells or CELLS)).values()
    check_print(figure)
    return figure


def test_mean_over_seeds_with_a_band_and_the_published_level():
    figure = drawn(Curves())
    (panel,) = figure.axes
    assert panel_title(panel) == "FMNIST, practical"
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("round", "test accuracy (%)")
    made = lines(panel)
    np.testing.assert_allclose(made["FedAvg"].get_xydata(), [[0, 10], [1, 52], [2, 74]])
    # Where a run has ended before the others there is no mean.
    np.testing.assert_allclose(made["FedAvg+DBE"].get_xydata(), [[0, 10], [1, 60]])
    level = made["_published"]
    np.testing.assert_allclose(level.get_ydata(), 85.85)
    assert level.get_linestyle() == "--" and level.get_color() == made["FedAvg"].get_color()
    (band,) = panel.collections  # FedAvg's; the seeds of the other do not differ
    np.testing.assert_allclose(np.ptp(band.get_paths()[0].vertices[:, 1]), 88 - 10)
    assert labels(figure) == ["FedAvg", "FedAvg+DBE", "published"]
    assert [made[name].get_marker() for name in ("FedAvg", "FedAvg+DBE")] == ["None", "o"], "from the second line on"


def test_two_kinds_of_one_column_are_told_apart_by_their_axes():
    figure = drawn(Curves(("train_loss", "largest train_loss"), columns=("a",)))
    assert [(panel_title(panel), panel.get_ylabel().split(" (")[0].split("\n")[0]) for panel in figure.axes] == [
        ("", "training loss"),
        ("", "largest training loss"),
    ]
    study = make_study(make_artefact(), CELLS, "smoke")  # on other data each says so
    (other,) = Curves(("train_loss", "largest train_loss"), columns=("a",)).figures(study).values()
    assert {panel_title(panel) for panel in other.axes} == {"stand-in for FMNIST, practical"}


def test_the_papers_own_method_is_strong():
    made = lines(drawn(Curves()).axes[0])
    assert made["FedAvg+DBE"].get_linewidth() > 1.5 * made["FedAvg"].get_linewidth()
    assert (made["FedAvg+DBE"].get_color(), made["FedAvg"].get_color()) == ("#D55E00", "#666666")


@pytest.mark.parametrize(
    ("kind", "expected", "title"),
    [
        ("accuracy", [10, 84, 60], "test accuracy (%)"),
        ("accuracy over clients", [10, 250 / 3, 60], "mean accuracy of clients\n(%)"),
        ("train_loss", [1, 8.4, 0.3 * 6 + 0.7 * 12], "training loss (nats)"),
        ("objective", [2, 16.8, 2 * (0.3 * 6 + 0.7 * 12)], "objective (nats)"),
        ("largest train_loss", [1, 8.4, 12], "largest training loss\n(nats)"),
    ],
)
def test_every_kind_by_hand(kind, expected, title):
    # 84 of 100: 25 of 30 and 59 of 70, so the plain mean is not the pooled one; the second client trains from the third test on.
    (panel,) = drawn(Curves((kind,)), make_cell(FEDAVG, A, [[10, 84, 60]])).axes
    values = lines(panel)["FedAvg"].get_ydata()
    if kind == "accuracy over clients":
        expected = [50 * (3 / 30 + 7 / 70), 50 * (25 / 30 + 59 / 70), 50 * (18 / 30 + 42 / 70)]
    np.testing.assert_allclose(values, expected)
    assert panel.get_ylabel() == title


def test_one_panel_a_kind_and_seconds_in_place_of_rounds():
    figure = drawn(Curves(("accuracy", "train_loss"), over="seconds"))
    assert [panel.get_ylabel() for panel in figure.axes] == ["test accuracy (%)", "training loss (nats)"]
    line = lines(figure.axes[0])["FedAvg"]
    assert line.get_xdata().tolist() == [0.0, 2.0, 4.0]
    assert figure.axes[0].get_xlabel() == "seconds of training"


def test_only_the_level_of_the_same_measure_is_drawn():
    levels = [line for panel in drawn(Curves(("accuracy over clients", "train_loss"))).axes for line in lines(panel)]
    assert "_published" not in levels
    (panel,) = drawn(Curves(), make_cell(FEDAVG, A, [[10, 84]], printed=(85, 0.1), fidelity=STAND_IN)).axes
    assert list(lines(panel)) == ["FedAvg"]


def test_a_first_line_that_shares_its_colour_has_markers_too():
    """FedAvg and FedProx are both black, FedPer is not."""
    prox = row("FedProx")
    made = {}
    for other in (prox, FEDPER):
        cells = [make_cell(each, A, [[10, 40, 70, 70]]) for each in (FEDAVG, other)]
        study = make_study(make_artefact(rows=(FEDAVG, other)), cells)
        made[other.label] = lines(Curves().figures(study)["curves"].axes[0])["FedAvg"].get_marker()
    assert made == {"FedProx": "o", "FedPer": "None"}


def test_smoothing_is_a_moving_mean():
    (panel,) = drawn(Curves(smooth=3), make_cell(FEDAVG, A, [[10, 40, 70, 70]])).axes
    np.testing.assert_allclose(lines(panel)["FedAvg"].get_ydata(), [25, 40, 60, 70])
    study = make_study(make_artefact(), [make_cell(FEDAVG, A, [[10, 40]])])
    assert "over 3 tests" in Curves(smooth=3).notes(study)[0]


def test_notes_tell_of_what_is_drawn():
    def said(cell, **how):
        return " ".join(Curves(**how).notes(make_study(make_artefact(), [cell])))

    one, two = make_cell(FEDAVG, A, [[10, 40]]), make_cell(FEDAVG, A, [[10, 40], [10, 50]], printed=(85.85, 0.2))
    assert said(one, zoom=False) == ""
    assert said(one) == "Curves: accuracies of long curves are shown from 10 points below the lowest line's best."
    assert said(two, zoom=False) == (
        "Curves: lines: mean over seeds, as far as all have run; bands: population standard deviation; dashed: the published number."
    )
    assert said(two, kinds=("train_loss",)) == (
        "Curves: lines: mean over seeds, as far as all have run; bands: population standard deviation."
    )


def test_the_axis_of_long_curves_shows_where_they_end():
    rise = [min(80, 8 * test) for test in range(20)]
    (panel,) = drawn(Curves(), make_cell(FEDAVG, A, [rise]), make_cell(FEDPER, A, [[r - r // 4 for r in rise]])).axes
    assert panel.get_ylim() == (50.0, 81.5), "ten points below the poorer one's best; 5 % of the range above the best"


def test_a_figure_may_show_the_whole_rise():
    long = make_cell(FEDAVG, A, [[5 * test for test in range(12)]])
    low = [drawn(Curves(zoom=zoom), long).axes[0].get_ylim()[0] for zoom in (True, False)]
    assert low[0] == pytest.approx(45.0) and low[1] < 0


def test_lengths_over_layers_are_a_line_a_group():
    """DBE Figure 1(c): the columns' labels are the layers; a layer without a number leaves a gap."""
    columns = tuple(
        replace(A, key=f"{when}/{layer}", group=when, label=layer)
        for when in ("before", "after")
        for layer in ("c1", "c2")
    )
    cells = [make_cell(FEDAVG, each, [[10, 20 + place]]) for place, each in enumerate(columns[:3])]
    study = make_study(make_artefact(columns=columns), [*cells, make_cell(FEDAVG, columns[3])])
    (figure,) = Layers("fedavg", tuple(each.key for each in columns)).figures(study).values()
    check_print(figure)
    (panel,) = figure.axes
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["c1", "c2"]
    assert labels(figure) == ["before", "after"]
    np.testing.assert_array_equal([line.get_ydata() for line in panel.lines], [[20, 21], [22, np.nan]])
    assert panel_title(panel) == ""
    (other,) = Layers("fedavg", ("before/c1",)).figures(make_study(study.artefact, cells, "smoke")).values()
    assert panel_title(other.axes[0]) == "stand-in, on fmnist"
    assert Layers("fedper", ("before/c1",)).figures(study) == {}


def test_nothing_is_drawn_where_nothing_was_run():
    assert Curves().figures(make_study(make_artefact(), [CELLS[-1]])) == {}


def test_bad_input():
    for given, message in (
        ({"kinds": ("loss",)}, "unknown kind of curve 'loss'"),
        ({"kinds": ()}, "no kind of curve"),
        ({"over": "minutes"}, "rounds, seconds"),
        ({"smooth": 4}, "odd number of tests, 1 at least, not 4"),
    ):
        with pytest.raises(UserError, match=message):
            Curves(**given)
    with pytest.raises(UserError, match="unknown column of dbe/table0 'c'"):
        Curves(columns=("c",)).figures(make_study(make_artefact(), CELLS))
