"""Tables of sizes, lost tables and computed numbers: counted anew, equal to what is printed, or said why not."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.pictures import check_print
from helpers.studies import make_study

from pflrepro.errors import UserError
from pflrepro.metrics.theory import Setting, best_beta, risk
from pflrepro.papers import fedbr_counts, pfedfda_counts
from pflrepro.papers.numbers import published
from pflrepro.papers.pfedfda_counts import THEOREM1, theorem1
from pflrepro.papers.result import DIFFERS, EQUAL, FRAME_COLUMNS, NOT_RUN, UNPUBLISHED, marked
from pflrepro.papers.views.exact import Check, Exact, Found
from pflrepro.papers.views.lost import LOST
from pflrepro.papers.views.sizes import VERDICTS, Size
from pflrepro.viz import theory

SIZES = (pfedfda_counts.TABLE8, fedbr_counts.TABLE7)
MISSING = (fedbr_counts.TABLE8, fedbr_counts.TABLE9, fedbr_counts.TABLE11)
by_id = {"ids": lambda each: each.id}


def frame_of(artefact):
    return artefact.views[0].frame(make_study(artefact))


@pytest.mark.parametrize("artefact", SIZES, **by_id)
def test_every_printed_number_has_its_cell(artefact) -> None:
    (source,) = artefact.sources
    printed, sizes = published(source), artefact.views[0].sizes
    keys = {(size.method, size.dataset, size.model, size.metric) for size in sizes}
    assert keys == set(printed[["method", "dataset", "model", "metric"]].itertuples(index=False, name=None))
    assert len(sizes) == len(printed)
    frame = frame_of(artefact)
    assert tuple(frame.columns) == FRAME_COLUMNS
    np.testing.assert_allclose(sorted(frame["published"]), sorted(printed["value"]))
    assert set(frame["verdict"]) <= set(VERDICTS)
    assert all(frame["reason"][frame["verdict"].isin([DIFFERS, NOT_RUN])] != ""), "a difference is explained"
    assert not artefact.trains and artefact.scale_names == ("smoke", "fast", "paper")
    notes = artefact.views[0].notes(make_study(artefact))
    assert {note.split(":")[0] for note in notes} >= set(map(marked, frame["verdict"]))
    assert all(any(reason in note for note in notes) for reason in frame["reason"])


def test_pfedfdas_table_8_is_met_in_every_number() -> None:
    frame = frame_of(pfedfda_counts.TABLE8)
    assert len(frame) == 16 and set(frame["verdict"]) == {EQUAL}


def test_fedbrs_table_7_counts_what_travels() -> None:
    frame = frame_of(fedbr_counts.TABLE7).set_index(["column", "row"])
    vgg = frame.loc["CIFAR-10, VGG11: parameters, millions"]
    assert vgg.loc["FedAvg", "ours"] == pytest.approx((9_220_480 + 5_130) / 1e6)
    assert vgg.loc["FedCM", "ours"] == 2 * vgg.loc["FedAvg", "ours"]
    projection = 512 * 256 + 256 + 256 * 128 + 128
    assert vgg.loc["Moon", "ours"] == pytest.approx((9_220_480 + projection + 129 * 10) / 1e6)
    assert vgg.loc["VHL", "verdict"] == EQUAL


def test_the_texts_have_the_printed_digits() -> None:
    def table(artefact):
        return artefact.views[0].table(make_study(artefact))

    sizes = table(pfedfda_counts.TABLE8).set_index(("", ""))
    assert sizes.index.tolist() == ["EMNIST", "CIFAR100", "TinyImageNet", "ImageNet (1000 classes)"]
    heads = ["backbone", "linear classifier", "Gaussian classifier", "overhead, %"]
    assert sizes.columns.tolist() == [(head, kind) for head in heads for kind in ("published", "ours")]
    assert sizes.loc["EMNIST", "overhead, %"].tolist() == ["6.620", "6.620 ="]
    times = table(fedbr_counts.TABLE7).set_index(("", ""))
    assert [times.loc["Moon", "CIFAR-10, VGG11: parameters, millions"][kind] for kind in ("published", "ours")] == [
        "9.7",
        "9.4 ≠",
    ]
    assert times["CIFAR-100, CCT: seconds"].columns.tolist() == ["published"], "of another machine: none of ours"
    assert times.loc["FedBR", ("CIFAR-100, CCT: seconds", "published")] == "1.19"


def test_verdicts_by_hand() -> None:
    size = Size("r", "c", "m", "d", "n", "metric", "s", digits=1)
    assert size.verdict(9.2, 9.249) == EQUAL
    assert size.verdict(9.2, 9.251) == DIFFERS
    assert size.verdict(float("nan"), 9.2) == UNPUBLISHED
    assert size.verdict(9.2, float("nan")) == NOT_RUN
    assert replace(size, digits=0).text(1234.0) == "1,234"


# ---- lost --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("artefact", "count"), list(zip(MISSING, (5, 4, 4), strict=True)), ids=["8", "9", "11"])
def test_lost_tables_list_their_rows_without_numbers(artefact, count) -> None:
    (view,), study = artefact.views, make_study(artefact)
    table, lines = view.table(study), view.judged(study)
    assert len(table) == len(lines) == len(view.frame(study)) == count
    assert set(table["published"]) == {LOST}
    assert {(line["verdict"], line["reason"]) for line in lines} == {(UNPUBLISHED, LOST)}
    assert np.isnan([line["published"] for line in lines]).all()
    (note,) = view.notes(study)
    assert note.startswith("numbers not at hand: table not contained") and view.figures(study) == {}
    assert "FedBR" in list(table["method"])


# ---- computed ----------------------------------------------------------------------------------------------------------------
def test_theorem_1_exact_equals_drawn_and_every_statement_holds() -> None:
    (view,), study = THEOREM1.views, make_study(THEOREM1)
    table = view.table(study)
    assert table["outcome"].tolist() == ["✓ kept"] * 6
    frame = view.frame(study)
    assert len(frame) == 4 * 11
    apart = (frame["drawn"] - frame["exact"]).abs() / frame["standard_error"]
    assert apart.max() < 4
    # Derived by hand: shift 1, 20 own samples of ten unit features, 470 in all: a = 1/2, l = g = 1/47.
    one = frame[frame["shift"] == 1.0].set_index("beta")
    assert one["best_beta"].iloc[0] == pytest.approx(1 / (1 + 1 / 2 - 1 / 47))
    assert one.loc[1.0, "exact"] == pytest.approx(0.5)
    assert one.loc[0.0, "exact"] == pytest.approx(1 + 1 / 47)
    assert one.loc[0.5, "exact"] - one.loc[0.5, "independent"] == pytest.approx(0.5 / 47)
    lines = view.judged(study)
    assert [line["verdict"] for line in lines] == ["kept"] * 6 and set(lines[0]) == set(FRAME_COLUMNS)
    assert theorem1() is theorem1()


def test_theorem_1s_pictures() -> None:
    figures = THEOREM1.views[0].figures(make_study(THEOREM1))
    assert list(figures) == ["", "best"]
    for figure in figures.values():
        check_print(figure)
    (panel,) = figures["best"].axes
    first, second = (bar.lines[0].get_ydata() for bar in panel.containers[:2])
    np.testing.assert_allclose(first, 0, atol=1e-12)
    assert second[0] == pytest.approx(best_beta(Setting.of_shift(0.5, 5, others=50)))
    (panel,) = figures[""].axes
    curves = [line for line in panel.lines if len(line.get_xdata()) == 101]
    assert [line.get_linestyle() for line in curves] == ["-", "--"] * 4
    setting = Setting.of_shift(0.0, 20, others=50)
    assert curves[0].get_ydata()[50] == pytest.approx(float(risk(setting, 0.5).total))


def test_a_statement_that_does_not_hold_is_broken() -> None:
    view = Exact(lambda: Found(None, (Check("one is two", False, "1, 2"),)), dict)
    study = make_study(THEOREM1)
    assert view.table(study).iloc[0].tolist() == ["one is two", "1, 2", "✗ broken"]
    assert view.judged(study)[0]["verdict"] == "broken" and view.figures(study) == {}


def test_pictures_of_the_theorem_refuse_nothing_at_all() -> None:
    with pytest.raises(UserError, match="no setting"):
        theory.trade_off({})
    with pytest.raises(UserError, match="number of shifts"):
        theory.best_betas([], [5])
