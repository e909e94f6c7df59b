"""Sweeps: where x comes from, one line a group or a column."""

import numpy as np
import pytest
from helpers.pictures import check_print, labels, lines, panel_title
from helpers.studies import A, B, make_artefact, make_cell, make_study

from pflrepro.errors import UserError
from pflrepro.papers.artefact import row
from pflrepro.papers.views.sweep import Sweep, changed, option

BETAS = tuple(row(f"beta {beta:g}", "grp-fed", key=f"beta={beta:g}", beta=beta) for beta in (1.0, 0.0, 0.5))
EPOCHS = tuple(
    row(f"{name}, {epochs}", name, key=f"{name}-{epochs}", changes={"local_epochs": epochs})
    for name in ("fedavgft", "pfedfda")
    for epochs in (1, 5)
)


def drawn(view, artefact, cells):
    (figure,) = view.figures(make_study(artefact, cells)).values()
    check_print(figure)
    return figure


def test_an_option_in_order_with_whiskers_and_what_is_printed():
    artefact = make_artefact(rows=BETAS)
    cells = [
        make_cell(each, A, [[10, 50 + 10 * i], [10, 54 + 10 * i]], printed=(60 + i, 1)) for i, each in enumerate(BETAS)
    ]
    (panel,) = drawn(Sweep(option("beta"), "beta"), artefact, cells).axes
    (container,) = panel.containers
    np.testing.assert_allclose(container.lines[0].get_xydata(), [[0, 62], [0.5, 72], [1, 52]])
    np.testing.assert_allclose([np.ptp(part[:, 1]) for part in container.lines[2][0].get_segments()], 4.0)
    np.testing.assert_allclose(lines(panel)["_published"].get_xydata(), [[0, 61], [0.5, 62], [1, 60]])
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["0", "0.5", "1"]
    assert (panel_title(panel), panel.get_xlabel()) == ("FMNIST, practical", "beta")


def test_one_line_a_group_and_one_panel_a_column():
    artefact = make_artefact("pfedfda/figure4", rows=EPOCHS)
    cells = [make_cell(each, column, [[10, 50 + i]]) for i, each in enumerate(EPOCHS) for column in (A, B)]
    groups = tuple((name, (f"{name}-1", f"{name}-5")) for name in ("fedavgft", "pfedfda"))
    figure = drawn(Sweep(changed("local_epochs"), "local epochs", groups, log=True), artefact, cells)
    assert len(figure.axes) == 2 and labels(figure) == ["fedavgft", "pfedfda"]
    values = [bar.lines[0].get_xydata().tolist() for bar in figure.axes[0].containers]
    assert values == [[[1, 50], [5, 51]], [[1, 52], [5, 53]]]
    assert figure.axes[0].get_xscale() == "log"


def test_columns_together_are_lines_of_one_panel():
    artefact = make_artefact(rows=BETAS)
    cells = [make_cell(each, column, [[10, 50]]) for each in BETAS for column in (A, B)]
    figure = drawn(Sweep(option("beta"), "x", together=True), artefact, cells)
    (panel,) = figure.axes
    assert labels(figure) == ["FMNIST, practical", "Cifar100, practical"]
    assert panel.get_ylabel() == "test accuracy (%)"
    (named,) = drawn(Sweep(option("beta"), "x", together=True, ylabel="score (%)"), artefact, cells).axes
    assert named.get_ylabel() == "score (%)"
    assert panel.containers[0].lines[0].get_xdata().tolist() == [0, 0.5, 1]
    colours = {bar.lines[0].get_color() for bar in panel.containers}
    assert len(colours) == 2


def test_rows_without_the_setting_are_one_clear_error():
    study = make_study(make_artefact(rows=BETAS), [make_cell(BETAS[0], A, [[10, 50]])])
    for x, message in (
        (option("kappa"), "row 'beta=1' has no option 'kappa' to be drawn over; it has: beta"),
        (changed("local_epochs"), "row 'beta=1' has no change 'local_epochs' to be drawn over; it has: none"),
    ):
        with pytest.raises(UserError, match=message):
            Sweep(x, "x").figures(study)
    assert Sweep(option("beta"), "x").figures(make_study(make_artefact(rows=BETAS))) == {}
