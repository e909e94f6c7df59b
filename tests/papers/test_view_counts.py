"""Figures of partitions: our counts, the reference beside them, claimed orderings, what is drawn."""

import os
from dataclasses import replace

import numpy as np
import pytest
from helpers.pictures import check_print, panel_title
from helpers.studies import make_artefact, make_study

from pflrepro.data.arrays import Arrays, save_arrays
from pflrepro.data.datasets import DATASETS
from pflrepro.data.published import published_counts, published_names
from pflrepro.errors import CorruptFile, UserError
from pflrepro.papers import gpfl_figures, grpfed, shown_partitions
from pflrepro.papers.counted_artefacts import DBE_FIGURE6
from pflrepro.papers.pfedfda_counts import FIGURE3
from pflrepro.papers.result import DIFFERS, EQUAL, FRAME_COLUMNS, NOT_RUN, STAND_IN
from pflrepro.papers.settings import lib
from pflrepro.papers.shown_partitions import NO_REFERENCE, ShownPartition, equal_classes
from pflrepro.papers.views.counts import Counts

# Read before the fixture that hides the user's data root from tests.
DATA_ROOT = os.environ.get("PFLREPRO_DATA")
PAIRS = lib("Pairs", "fmnist", "cnn4", "pathological:2", 5)
EVEN = PAIRS.with_("Even", partition="iid")


def counts_alone(artefact):
    """A figure of several panels with nothing but its partitions."""
    (view,) = (replace(view, name="") for view in artefact.views if isinstance(view, Counts))
    return replace(artefact, rows=(), columns=(), claims=(), views=(view,))


GPFL_FIGURE2, GRPFED_FIGURE1 = counts_alone(gpfl_figures.FIGURE2), counts_alone(grpfed.FIGURE1)


def study_of(artefact, scale="paper", root=None):
    return make_study(artefact, scale=scale, data_root=root)


def hand_made(*settings, **more):
    return make_artefact(
        "demo/parts", rows=(), columns=(), views=(Counts(tuple(map(ShownPartition, settings)), **more),)
    )


@pytest.fixture
def no_data(tmp_path):
    return tmp_path / "none"


def test_figure2_equals_the_reference_count_by_count():
    (view,) = GPFL_FIGURE2.views
    (panel,) = view.panels(study_of(GPFL_FIGURE2))
    assert panel.verdict == (EQUAL, "")
    np.testing.assert_array_equal(panel.counts, published_counts("fmnist_pat2_n10"))
    # Two classes a client, all 7,000 images of each class divided, in unequal shares.
    np.testing.assert_array_equal((panel.counts > 0).sum(1), 2)
    np.testing.assert_array_equal(panel.counts.sum(0), 7_000)
    assert panel.counts[0, 0] == 1_411
    assert "official file not published" in panel.origin


def test_figure6_equals_every_reference_and_has_none_for_people(no_data):
    (view,) = DBE_FIGURE6.views
    study = study_of(DBE_FIGURE6, root=no_data)
    by_label = {panel.label: (each, panel) for each, panel in zip(view.partitions, view.panels(study), strict=True)}
    _, har = by_label.pop("HAR, one client a user")
    assert (len(by_label), har.counts, har.origin) == (11, None, NO_REFERENCE)
    for each, panel in by_label.values():
        np.testing.assert_array_equal(panel.counts, published_counts(each.reference))
        assert panel.counts.shape[0] == each.setting.clients
        assert panel.counts.sum() == DATASETS[each.setting.dataset].samples == panel.reference.sum()
    # Of the shipped counts, these belong to scenarios that the papers have no picture of (or to GPFL's).
    rest = {"mnist_dir0.1_n20", "fmnist_pat2_n10", *(f"cifar100_dir0.1_n{clients}" for clients in (30, 50, 500))}
    assert {each.reference for each, _ in by_label.values()} == set(published_names()) - rest
    verdicts = [line["verdict"] for line in view.judged(study)]
    assert (verdicts.count(EQUAL), verdicts.count(NOT_RUN)) == (11, 1)
    kept = [note for note in view.notes(study) if ": ✓ kept (" in note]
    assert len(kept) == 3 and "TINY, practical, beta 0.01 > TINY, practical, beta 0.1: 0.916, 0.750" in kept[0]


def test_figure3_has_pfedfdas_minimum_and_is_less_heterogeneous_as_alpha_grows():
    (view,) = FIGURE3.views
    sharp, mild = view.panels(study_of(FIGURE3, "fast"))
    for panel in (sharp, mild):
        assert panel.counts.shape == (100, 10)
        np.testing.assert_array_equal(panel.counts.sum(0), 6_000)
        assert panel.counts.sum(1).min() >= 63
        # A client that holds 600 samples gets no further class: without its last class it has fewer.
        for row in panel.counts:
            assert row[: np.flatnonzero(row)[-1]].sum() < 600
        assert panel.verdict == (NO_REFERENCE, "")
    (claim,) = (note for note in view.notes(study_of(FIGURE3)) if "alpha" in note)
    assert f"difference {sharp.heterogeneity - mild.heterogeneity:+.3f}: ✓ kept" in claim
    assert sharp.heterogeneity - mild.heterogeneity > 0.1


def test_a_differing_count_is_told(monkeypatch):
    wrong = published_counts("fmnist_pat2_n10")
    wrong[0, 0] += 5
    wrong[1, 0] -= 2
    monkeypatch.setattr(shown_partitions, "published_counts", lambda name: wrong)
    (view,), study = GPFL_FIGURE2.views, study_of(GPFL_FIGURE2)
    (line,) = view.judged(study)
    assert set(line) == set(FRAME_COLUMNS)
    assert (line["row"], line["ours"], line["difference"]) == ("FMNIST, pathological, 10 clients", 70_000.0, -5.0)
    assert (line["verdict"], line["reason"]) == (DIFFERS, "2 of 100 counts differ")
    assert view.table(study)["equal counts"].tolist() == ["98 of 100"]
    cells = view.frame(study)
    assert (cells["samples"] - cells["reference"]).abs().sum() == 7


def test_a_reference_of_another_shape_is_refused(monkeypatch):
    monkeypatch.setattr(shown_partitions, "published_counts", lambda name: np.ones((3, 4), np.int64))
    with pytest.raises(CorruptFile, match=r"'fmnist_pat2_n10' have the shape \(3, 4\), expected \(10, 10\)"):
        GPFL_FIGURE2.views[0].table(study_of(GPFL_FIGURE2))


@pytest.mark.parametrize("artefact", [DBE_FIGURE6, GPFL_FIGURE2, GRPFED_FIGURE1, FIGURE3], ids=lambda each: each.id)
def test_nothing_is_trained_and_the_partitions_are_of_known_data_sets(artefact):
    assert not artefact.trains and artefact.scale_names == ("smoke", "fast", "paper")
    for each in artefact.views[0].partitions:
        assert each.setting.dataset in DATASETS
        assert not each.reference or (each.reference in published_names() and each.equal)


def test_orderings_by_hand():
    orderings = (("Pairs", "Even", "s"), ("Even", "Pairs", "s"), ("Pairs", "Pairs", "s"))
    artefact = hand_made(PAIRS, EVEN, orderings=orderings)
    pairs, even = artefact.views[0].panels(study_of(artefact))
    assert pairs.heterogeneity == pytest.approx(0.8), "two of ten equal classes a client, so 1/2 (8 x 0.1 + 0.8)"
    assert even.heterogeneity < 0.2
    words = [note.split(": ")[3].split(" (")[0] for note in artefact.views[0].notes(study_of(artefact))[-3:]]
    assert words == ["✓ kept", "✗ broken", "? undecided"]
    with pytest.raises(UserError, match="unknown partition 'Odd'"):
        hand_made(PAIRS, orderings=(("Pairs", "Odd", "s"),))


def test_the_table_and_the_counts_by_hand():
    artefact = hand_made(PAIRS, EVEN)
    (view,), study = artefact.views, study_of(artefact)
    line = view.table(study).iloc[0]
    assert (line["clients"], line["classes"], line["samples"]) == ("5", "10", "70,000")
    assert (line["classes a client"], line["mean total variation"]) == ("2 to 2, mean 2.0", "0.800")
    assert (line["reference"], line["equal counts"], line["verdict"]) == (NO_REFERENCE, "", NO_REFERENCE)
    cells = view.frame(study)
    assert cells.groupby("partition")["samples"].sum().to_dict() == {"Pairs": 70_000, "Even": 70_000}
    assert (cells["samples"] > 0).all() and cells["reference"].isna().all()
    assert (cells["partition"] == "Pairs").sum() == 10


def test_classes_that_cannot_be_equal_are_refused():
    with pytest.raises(UserError, match="1001 samples cannot be equally many in 10 classes"):
        equal_classes(1_001, 10)


# ---- people ------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def patients(monkeypatch, tmp_path):
    """A figure of a small MIT-BIH, and its data root: three patients of 2, 4 and 8 beats, whose classes are known."""
    spec = replace(DATASETS["mitbih"], samples=14, fingerprint=None)
    monkeypatch.setitem(DATASETS, "mitbih", spec)
    y = np.array([0, 1, 0, 0, 2, 3, *range(4, 12)])
    group = np.array([100] * 2 + [207] * 4 + [105] * 8)
    arrays = Arrays("mitbih", np.zeros((14, 256), np.float32), y, group=group, classes=np.array(spec.class_names))
    save_arrays(tmp_path / "mitbih" / "mitbih.npz", arrays)
    setting = GRPFED_FIGURE1.views[0].partitions[0].setting.with_(clients=3)
    return replace(GRPFED_FIGURE1, views=(Counts((ShownPartition(setting, equal=False),), shares=True),)), tmp_path


def test_people_are_counted_from_the_data_and_named(patients):
    artefact, root = patients
    (view,), study = artefact.views, study_of(artefact, root=root)
    (panel,) = view.panels(study)
    assert panel.names == ("patient 100", "patient 105", "patient 207"), "in the order of the groups' numbers"
    assert panel.counts.sum(1).tolist() == [2, 8, 4]
    assert panel.counts[0].tolist() == [1, 1, *[0] * 10]
    assert any(f"mitbih {panel.fingerprint}" in note and len(panel.fingerprint) == 64 for note in view.notes(study))
    shares = panel.shares()
    assert [name.split(" (")[0] for name in shares] == ["all 3 clients", "patient 105", "patient 207", "patient 100"]
    np.testing.assert_allclose([values.sum() for values in shares.values()], 100.0)
    assert shares["all 3 clients"][0] == pytest.approx(100 * 3 / 14)
    figures = view.figures(study)
    assert list(figures) == ["", "counts"]
    for figure in figures.values():
        check_print(figure)
    assert [panel_title(each).replace("\n", " ") for each in figures[""].axes] == list(shares)
    for each, values in zip(figures[""].axes, shares.values(), strict=True):
        np.testing.assert_allclose([bar.get_width() for bar in each.patches], values)
    names = [tick.get_text() for tick in figures[""].axes[0].get_yticklabels()]
    assert names == list(DATASETS["mitbih"].class_names)


@pytest.mark.skipif(DATA_ROOT is None, reason="needs the real labels: set PFLREPRO_DATA")
@pytest.mark.parametrize(
    ("artefact", "label", "clients", "sizes", "classes"),
    [
        (DBE_FIGURE6, "HAR, one client a user", 30, (281, 409), [1_722, 1_544, 1_406, 1_777, 1_906, 1_944]),
        (GRPFED_FIGURE1, "MIT-BIH, one client a patient", 46, (1_517, 3_362), None),
    ],
)
def test_people_of_the_real_data(artefact, label, clients, sizes, classes):
    panel = next(p for p in artefact.views[0].panels(study_of(artefact, root=DATA_ROOT)) if p.label == label)
    if panel.counts is None:
        pytest.skip(panel.lacking)
    assert len(panel.counts) == len(set(panel.names)) == clients
    assert panel.counts.sum() == DATASETS[panel.setting.dataset].samples
    assert (panel.counts.sum(1).min(), panel.counts.sum(1).max()) == sizes
    assert classes is None or panel.counts.sum(0).tolist() == classes


def test_without_the_data_it_says_how_to_get_them(no_data):
    (view,), study = GRPFED_FIGURE1.views, study_of(GRPFED_FIGURE1, root=no_data)
    (line,) = view.judged(study)
    assert (line["verdict"], line["n"]) == (NOT_RUN, 0)
    assert (
        line["reason"] == view.table(study)["samples"][0] == "data set mitbih not downloaded (pflrepro data get mitbih)"
    )
    assert (view.figures(study), view.frame(study)) == ({}, None)


def test_at_smoke_what_needs_data_is_a_stand_in(no_data):
    (view,), study = GRPFED_FIGURE1.views, study_of(GRPFED_FIGURE1, "smoke", no_data)
    (panel,) = view.panels(study)
    assert panel.verdict == (STAND_IN, "") and panel.counts.sum() == 1_797
    assert list(view.figures(study)) == ["", "counts"]
    assert any("digits " in note for note in view.notes(study))


# ---- pictures ----------------------------------------------------------------------------------------------------------------
def test_a_panel_a_partition_as_discs_or_as_a_map(no_data):
    (view,), study = DBE_FIGURE6.views, study_of(DBE_FIGURE6, root=no_data)
    (figure,) = view.figures(study).values()
    check_print(figure)
    panels = {panel_title(axis).split("\n")[0]: axis for axis in figure.axes}
    assert list(panels) == [each.setting.label for each in view.partitions]
    for drawn in view.panels(study):
        axis = panels[drawn.label]
        if drawn.counts is None:
            (reason,) = axis.texts
            assert "pflrepro data get har" in reason.get_text().replace("\n", " ")
        elif max(drawn.counts.shape) > 20:
            (mesh,) = axis.collections
            np.testing.assert_array_equal(mesh.get_array().filled(0), drawn.counts.T)
        else:
            (dots,) = axis.collections
            assert len(dots.get_offsets()) == (drawn.counts > 0).sum()
            assert not dots.get_clip_on()
        if drawn.counts is not None:
            assert f"largest {drawn.counts.max():,} samples" in panel_title(axis)


def test_one_partition_has_a_legend_of_sizes():
    (figure,) = GPFL_FIGURE2.views[0].figures(study_of(GPFL_FIGURE2)).values()
    check_print(figure)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["6,000", "3,000", "600"]
