"""Points and bars: ours beside what is printed, how less than the paper's setting is marked."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.pictures import check_print, labels, panel_title
from helpers.studies import DBE, FEDAVG, FEDPER, A, B, make_artefact, make_cell, make_study

from pflrepro.errors import UserError
from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import REDUCED, STAND_IN, row
from pflrepro.papers.measures import ACCURACY
from pflrepro.papers.registry import find
from pflrepro.papers.studies import Study
from pflrepro.papers.views.bars import Bars, ClassBars
from pflrepro.papers.views.points import Points
from pflrepro.papers.views.rows import row_looks
from pflrepro.style import COLUMN, PAGE
from pflrepro.viz.bars import bar_figure, share_figure
from pflrepro.viz.dots import INTERVAL, LESS, PALE, Number, NumberPanel, dot_figure
from pflrepro.viz.looks import Look, look

FIGURES = Path(__file__).parents[2] / "figures"
CELLS = (
    make_cell(FEDAVG, A, [[10, 84], [10, 88]], printed=(85.85, 0.2)),
    make_cell(FEDPER, A, printed=(90.0, float("nan"))),
    make_cell(DBE, A, [[10, 70]], printed=(97.69, 0.05), fidelity=REDUCED),
    make_cell(DBE, B, [[10, 40]]),
)


def drawn(view, cells=CELLS, **changes):
    (figure,) = view.figures(make_study(make_artefact(**changes), cells)).values()
    check_print(figure)
    return figure


def bars(panel):
    """(label, x, y, half of the whisker or None) of every mark."""
    found = []
    for bar in panel.containers:
        point, _, whiskers = bar.lines
        half = [float(np.ptp(whisker.get_segments()[0][:, 0])) / 2 for whisker in whiskers]
        found.append((bar.get_label(), *point.get_xydata()[0].tolist(), *(half or [None])))
    return found


def test_ours_beside_the_published_with_both_spreads():
    left, right = drawn(Points()).axes
    assert [panel_title(panel) for panel in (left, right)] == ["FMNIST, practical", "Cifar100, practical"]
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["FedAvg", "FedPer", "FedAvg+DBE"]
    expected = [
        ("_published", 85.85, 2, 0.2),
        ("_ours", 86.0, 2, 2.0),
        ("_published", 90.0, 1, 0.0),
        ("_published", 97.69, 0, 0.05),
        ("_ours", 70.0, 0, None),  # one seed has no spread
    ]
    assert [each[0] for each in bars(left)] == [each[0] for each in expected]
    shown, wanted = (np.array([each[1:] for each in found], float) for found in (bars(left), expected))
    np.testing.assert_allclose(shown, wanted, atol=1e-9)
    assert [each[:3] for each in bars(right)] == [("_ours", 40.0, 0)]
    assert left.get_xlabel() == "test accuracy (%)"


@pytest.mark.parametrize(
    ("spread", "half", "said"), [("trials", 2.0, "over seeds"), ("clients", 1.01015, "over clients")]
)
def test_whiskers_are_over_what_the_printed_spread_is_over(spread, half, said):
    """Two clients with 25 of 30 and 59 of 70 right (0.6734 points apart by their deviation), then 26 and 62 (1.3469)."""
    artefact = make_artefact(spread=spread)
    for view in (Points(), Bars()):
        assert said in view.notes(make_study(artefact, CELLS[:1]))[0]
    ours = next(each for each in bars(drawn(Points(), CELLS[:1], spread=spread).axes[0]) if each[0] == "_ours")
    assert ours[3] == pytest.approx(half, abs=1e-4)


def test_one_seed_has_its_interval_over_clients_in_place_of_a_whisker():
    alone = make_cell(DBE, A, [[10, 84]])  # 25 of 30 and 59 of 70 right
    (axis,) = drawn(Points(), [CELLS[0], alone]).axes
    (line,) = (part for part in axis.collections if part.get_alpha() == PALE["alpha"])
    low, high, kind = alone.interval()
    assert line.get_segments()[0].tolist() == [[low, 0], [high, 0]] and kind == "bootstrap, 2 clients"
    assert (low, high) == pytest.approx((100 * 25 / 30, 100 * 59 / 70))
    notes = [Points().notes(make_study(make_artefact(), [cell]))[0] for cell in (CELLS[0], CELLS[2])]
    assert ["pale: 95 % interval over clients, of one seed" in note for note in notes] == [False, True]
    over_clients = drawn(Points(), [CELLS[2]], spread="clients")
    assert INTERVAL not in labels(over_clients), "its whisker says as much"


def test_less_than_the_papers_setting_is_hollow():
    figure = drawn(Points())
    full, hollow = (bar.lines[0] for bar in figure.axes[0].containers if bar.get_label() == "_ours")
    assert (full.get_markerfacecolor(), hollow.get_markerfacecolor()) == (full.get_color(), "white")
    assert labels(figure) == ["ours", "ours, less than the paper's setting", INTERVAL, "published"]


def test_where_all_is_hollow_the_legend_says_why():
    assert labels(drawn(Points(), [CELLS[2]])) == ["ours, less than the paper's setting", INTERVAL, "published"]
    alone = drawn(Points(), [make_cell(DBE, A, [[10, 70]], fidelity=REDUCED)])
    assert labels(alone) == ["ours, less than the paper's setting", INTERVAL]
    assert labels(drawn(Points(), [make_cell(DBE, A, [[10, 70], [10, 72]])])) == []
    notes = [Points().notes(make_study(make_artefact(), [cell]))[0] for cell in (CELLS[0], CELLS[2], CELLS[3])]
    assert [("hollow" in said, "as printed" in said) for said in notes] == [(False, True), (True, True), (False, False)]


@pytest.mark.parametrize(("other", "shared"), [((50.0, 90.0), True), ((90.0, 99.0), False)])
def test_panels_of_one_unit_share_their_range_unless_one_gets_too_narrow(other, shared):
    """40 to 80 and 50 to 90 fit 40 to 90; of that 90 to 99 would have a sixth."""

    def panel(measure, unit, *values):
        numbers = [Number(name, look("fedavg"), value) for name, value in zip("ab", values, strict=True)]
        return NumberPanel("", measure, tuple(numbers), unit)

    panels = (
        panel("accuracy", "%", 40.0, 80.0),
        panel("new", "%", *other),
        panel("a", "", 1.0, 2.0),
        panel("b", "", 2.0, 3.0),
    )
    one, two, lone, other_lone = (axis.get_xlim() for axis in dot_figure(panels, ["a", "b"]).axes)
    assert (one == two) is shared and lone[1] < 3 and lone != other_lone


def test_the_papers_own_row_is_bold():
    weights = {tick.get_text(): tick.get_fontweight() for tick in drawn(Points()).axes[0].get_yticklabels()}
    assert weights == {"FedAvg": "normal", "FedPer": "normal", "FedAvg+DBE": "bold"}


def test_a_stand_in_is_drawn_without_published_numbers():
    figure = drawn(Points(), [make_cell(FEDAVG, A, [[10, 86]], printed=(85.85, 0.2), fidelity=STAND_IN)])
    assert [each[0] for each in bars(figure.axes[0])] == ["_ours"]


def test_without_any_number_there_is_no_picture():
    for view in (Points(), Bars()):
        assert view.figures(make_study(make_artefact(), [make_cell(FEDAVG, A)])) == {}
        with pytest.raises(UserError, match="unknown column of dbe/table0 'c'"):
            type(view)(columns=("c",)).figures(make_study(make_artefact()))
    with pytest.raises(UserError, match="nothing to draw"):
        dot_figure([], [])


def test_bars_of_groups_begin_at_zero_and_say_their_numbers():
    figure = drawn(Bars(groups=(("(a)", ("fedavg", "fedavg+dbe")), ("(b)", ("fedavg",))), columns=("a",)))
    assert [panel_title(panel) for panel in figure.axes] == ["(a)", "(b)"]
    first = figure.axes[0]
    assert [bar.get_width() for bar in first.patches] == [86.0, 70.0]
    assert [bar.get_hatch() for bar in first.patches] == [None, "////"]
    assert [text.get_text() for text in first.texts] == ["86", "70"]
    assert [line.get_xdata()[0] for line in first.lines if line.get_linestyle() == "--" and len(line.get_xdata())] == [
        85.85,
        97.69,
    ]
    assert first.get_xlim()[0] == 0 and labels(figure) == ["ours", "published"]
    study = make_study(make_artefact(), CELLS, "smoke")  # on other data each says so
    (other,) = Bars(groups=(("(a)", ("fedavg",)),), columns=("a",)).figures(study).values()
    assert panel_title(other.axes[0]).replace("\n", " ") == "(a): stand-in for FMNIST, practical"
    panels = drawn(Bars()).axes
    assert [panel_title(panel) for panel in panels] == ["FMNIST, practical", "Cifar100, practical"]
    assert [text.get_text() for text in panels[1].texts] == ["not run", "not run", "40"], "a row keeps its place"


def test_long_titles_and_measures_stand_in_lines_of_their_own():
    measure = replace(ACCURACY, title="T_p: a client's model, on its own test data (macro-F1)")
    columns = tuple(
        replace(
            A, key=key, label="personalisation T_p", group="CIFAR-10 long-tailed (rho=0.7, tau=0.5)", measure=measure
        )
        for key in "abc"
    )
    cells = [make_cell(FEDAVG, each, [[10, 84]]) for each in columns]
    for view in (Points(), Bars((("accuracy of all clients and of a few", ("fedavg",)),))):
        assert all("\n" in panel_title(panel) for panel in drawn(view, cells, columns=columns).axes)


def test_rows_of_one_method_differ_and_its_own_settings_keep_the_look():
    rows = (FEDAVG, row("without", "dbe", key="w", kappa=0.0), DBE)
    cells = [make_cell(each, A, [[10, 50]]) for each in rows]
    colours = [bar.get_facecolor() for bar in drawn(Bars(), cells, rows=rows).axes[0].patches]
    assert len(set(colours)) == 3
    assert colours[2] == pytest.approx((0xD5 / 255, 0x5E / 255, 0, 1))


def test_bars_of_every_class():
    found = {"one sample": np.array([5.0, 95.0, 0.0]), "all": np.array([20.0, 79.96, 0.04])}
    shown = pd.DataFrame(found, index=list("012"))
    view = ClassBars(lambda study: shown if study.cells else None, "predictions (%)", compared=True)
    figure = drawn(view)
    left, right = figure.axes
    np.testing.assert_allclose([bar.get_width() for bar in right.patches], found["all"])
    assert [text.get_text() for text in right.texts] == ["20.0", "80.0", "<0.1"]
    assert left.patches[0].get_facecolor() != right.patches[0].get_facecolor(), (
        "the first is what the other is compared with"
    )
    frame = view.frame(make_study(make_artefact(), CELLS))
    assert frame["class"].tolist() == ["0", "1", "2"] and frame["all"].sum() == pytest.approx(100)
    empty = make_study(make_artefact())
    assert (view.figures(empty), view.frame(empty)) == ({}, None)
    assert replace(view, kept=False).frame(make_study(make_artefact(), CELLS)) is None, "the cells are the csv"
    with pytest.raises(UserError, match=r"of 2 classes, not of the shapes \[\[3\], \[3\]\]"):
        share_figure(found, ("a", "b"), "x")


def test_bars_of_classes_of_which_nothing_is_known_and_of_numbers_below_zero() -> None:
    assert share_figure({"none": np.full(2, np.nan)}, ("a", "b"), "x").axes[0].get_xlim() == (0, 1.45)
    below = Number("a", Look("black", "o"), -2.0, spread=0.5)
    low, high = bar_figure([NumberPanel("a title", "points", (below,))]).axes[0].get_xlim()
    assert low < -2.5 and high > 0
    assert high < 1, "a bar of -0.5 would be seen"
    many = bar_figure([NumberPanel("a title", "KB", (Number("a", Look("black", "o"), 1234.4),))])
    assert [text.get_text() for text in many.axes[0].texts] == ["1,234"]


def test_long_names_of_rows_leave_room_for_the_title() -> None:
    """One panel is a column wide, in which names of more than a line's length would leave the title no room."""
    number = Number("a component without another one's maximum", Look("black", "o"), 1.0)
    shown = [
        dot_figure([NumberPanel("a title", "points", (replace(number, row=name),))], [name])
        for name in ("short", number.row)
    ]
    assert [figure.get_figwidth() for figure in shown] == [COLUMN, PAGE]


def test_it_is_said_once_what_ours_are_made_on_where_it_is_something_else(tmp_path):
    """From the committed runs: DBE Table 5 at less, Table 3 on other data, of that what is printed alone; pFedFDA Table 3 has both."""

    def of(name, store):
        figure = Study(name, "fast", store=store).figures()["points"]
        return panel_title(figure.axes[0]).replace("\n", " "), labels(figure)[:-1]

    committed, empty, less = Store(tmp_path, behind=FIGURES / "runs"), Store(tmp_path), LESS
    assert of("dbe/table5", committed) == ("practical, FMNIST", [less, INTERVAL])
    assert of("dbe/table3", committed) == ("TINY, practical", ["ours: Cifar100, practical", INTERVAL])
    assert of("dbe/table3", empty)[0] == "TINY, practical"
    assert of("pfedfda/table3", committed) == ("CIFAR10 (ours: CIFAR10-half, 50 samples)", ["ours", less])


@pytest.mark.parametrize(
    ("name", "key"),
    [*((f"pfedfda/table{number}", "fedavgft") for number in (1, 2, 3)), ("pfedfda/figure4", "fedavgft-1")],
)
def test_a_method_has_its_look_also_where_it_is_measured_on_the_run_of_another(name: str, key: str) -> None:
    found = row_looks(find(name))[key]
    assert (found.colour, found.marker) == (look("fedavgft").colour, look("fedavgft").marker)
