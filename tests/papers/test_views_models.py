"""Views of models: planes and spreads of a small study, drawn from kept answers; their numbers are those of the measures."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.pictures import check_print

import pflrepro
from pflrepro.errors import UserError
from pflrepro.experiments import revive
from pflrepro.experiments.config import DataConfig
from pflrepro.experiments.store import Store
from pflrepro.metrics.representations import collect, tsne
from pflrepro.papers.artefact import SAME, Artefact, column, row
from pflrepro.papers.measures import ACCURACY, TRAIN_LOSS, Evidence
from pflrepro.papers.model_measures import BETAS, separation
from pflrepro.papers.result import Cell
from pflrepro.papers.settings import lib
from pflrepro.papers.views import planes
from pflrepro.papers.views.planes import Planes, Shot
from pflrepro.papers.views.spread import Spread, by_corruption
from pflrepro.viz.spread import MEDIAN, boxes

SETTING = lib("digits", "digits", "cnn-digits", "dirichlet:0.5", 3, lr=0.05, min_size=10)
ROWS = (row("FedAvg", "fedavg"), row("FedAvg+DBE", "fedavg+dbe"), row("pFedFDA", "pfedfda"), row("Local", "local"))
COLUMNS = (column("accuracy", SETTING, ACCURACY), column("beta", SETTING, BETAS, label="beta"))
PLANES = Planes(
    (Shot("fedavg", "accuracy"), Shot("local", "accuracy"), Shot("fedavg+dbe", "accuracy", "embedded", after=True)),
    numbers=("class separation", "silhouette by client and class"),
    limit=60,
    perplexity=8.0,
)


class Study:
    """What a view asks a study: runs of two seeds, of every row but the last."""

    def __init__(self, folder) -> None:
        self.store, self.data_root, self.scale = (
            Store(folder / "store", behind=folder / "nothing"),
            None,
            SimpleNamespace(),
        )
        self.artefact = Artefact("demo/figure", "demo", ROWS, COLUMNS)
        self.cells = {}
        for each in ROWS:
            asked = [SETTING.experiment(each.algorithm, seed=seed, rounds=2, patience=0) for seed in (0, 1)]
            runs = pflrepro.run(asked, store=self.store, progress=False) if each.key != "local" else []
            for at in COLUMNS:
                values = {run.experiment.seed: at.measure.of(Evidence(run, self.store)) for run in runs}
                named = {run.experiment.seed: run for run in runs}
                self.cells[each.key, at.key] = Cell(each, at, at.measure, SAME, None, values, named)

    def evidence(self, row_key: str, column_key: str) -> list[Evidence]:
        return [Evidence(run, self.store) for run in self.cells[row_key, column_key].runs.values()]

    def caption(self) -> str:
        return "scale fast; digits; 2 seeds; 2 rounds"


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    return Study(tmp_path_factory.mktemp("study"))


# ---- planes ----------------------------------------------------------------------------------------------------------------------
def drawn(panel) -> np.ndarray:
    return np.concatenate([dots.get_offsets() for dots in panel.collections])  # the clients ascend


def unit(points: np.ndarray) -> np.ndarray:
    """Moved and stretched to a square of side 1 around (0.5, 0.5)."""
    low, high = points.min(0), points.max(0)
    return 0.5 + (points - (low + high) / 2) / (high - low).max()


def test_each_run_has_a_projection_of_the_same_samples(study) -> None:
    figure = PLANES.figures(study)[""]
    fedavg, dbe = (study.evidence(name, "accuracy")[0].simulation() for name in ("fedavg", "fedavg+dbe"))
    before, after = collect(fedavg, "features", limit=60), collect(dbe, "embedded", limit=60, after=True)
    assert before.labels.tolist() == after.labels.tolist()
    left, right, bar = figure.axes
    for panel, features in ((left, before), (right, after)):
        np.testing.assert_allclose(drawn(panel), unit(tsne([features], perplexity=8.0)[0]), rtol=1e-4)
    assert left.get_xlim() == right.get_xlim() and bar.get_ylabel() == "class"
    check_print(figure)


def test_panels_of_one_run_share_their_projection(study) -> None:
    shots = (Shot("fedavg", "accuracy"), Shot("fedavg", "accuracy", after=True))
    figure = Planes(shots, limit=60, perplexity=8.0).figures(study)[""]
    simulation = study.evidence("fedavg", "accuracy")[0].simulation()
    both = tsne([collect(simulation, "features", limit=60, after=after) for after in (False, True)], perplexity=8.0)
    joint = unit(np.concatenate(both))
    np.testing.assert_allclose(np.concatenate([drawn(panel) for panel in figure.axes[:2]]), joint, rtol=1e-4)


def test_beside_each_panel_stands_the_number_of_the_features(study) -> None:
    frame = PLANES.frame(study)
    evidence = study.evidence("fedavg+dbe", "accuracy")[0]
    value = separation(evidence, "class separation", "embedded", after=True, limit=60)
    line = frame[(frame["row"] == "fedavg+dbe") & (frame["number"] == "class separation")].iloc[0]
    assert line["value"] == value and line["round"] == 2 and line["run"] == evidence.run.id
    table = PLANES.table(study)
    assert list(table.columns) == ["", *PLANES.numbers]
    assert table[""].tolist() == ["FedAvg, before local training", "FedAvg+DBE, embedded, after local training"]
    assert table["class separation"][1] == f"{line['value']:.2f}"
    titles = [panel.get_title(loc="left") for panel in PLANES.figures(study)[""].axes[:2]]
    assert titles[1].replace("\n", " ").startswith(f"{table[''][1]} class separation {line['value']:.2f} silhouette")


def test_a_small_number_has_two_digits(study, monkeypatch) -> None:
    """DBE Figure 3: a Fisher ratio of 0.0031 is not 0.00."""
    for value, said in (
        (0.00312, "0.0031"),
        (0.00399, "0.0040"),
        (0.126, "0.13"),
        (-0.0712, "-0.071"),
        (0.0, "0.00"),
        (12.345, "12.35"),
    ):
        monkeypatch.setattr(planes, "separation", lambda *_, value=value: value)
        assert PLANES.table(study)["class separation"].tolist() == [said] * 2
        titles = [panel.get_title(loc="left") for panel in PLANES.figures(study)[""].axes[:2]]
        assert all(f"class separation {said}" in title.replace("\n", " ") for title in titles)


def test_planes_are_drawn_again_without_models(study, monkeypatch) -> None:
    before = [dots.get_offsets() for panel in PLANES.figures(study)[""].axes[:2] for dots in panel.collections]
    monkeypatch.setattr(revive, "revive", lambda *_, **__: pytest.fail("the models were looked at again"))
    after = [dots.get_offsets() for panel in PLANES.figures(study)[""].axes[:2] for dots in panel.collections]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    kept = list(study.evidence("fedavg", "accuracy")[0].run.folder.glob("readings/plane-*"))
    assert kept and all(file.stat().st_size < 5000 for file in kept)


def test_a_shot_without_a_run_is_told(study) -> None:
    alone = Planes((Shot("local", "accuracy", title="alone"),))
    assert (alone.figures(study), alone.table(study), alone.frame(study).empty) == ({}, None, True)
    assert alone.notes(study)[1] == "not run: alone"
    told, missing = PLANES.notes(study)
    assert (
        "perplexity 8" in told
        and "; models after round 2;" in told
        and missing == "not run: Local, before local training"
    )


# ---- spreads ---------------------------------------------------------------------------------------------------------------------
def test_values_a_client_in_groups(study, monkeypatch) -> None:
    monkeypatch.setattr("pflrepro.papers.views.spread.by_corruption", lambda data: ["even", "odd", "even"])
    view = Spread((("pfedfda", "beta"),))
    values = [value.clients for value in study.cells["pfedfda", "beta"].values.values()]
    expected = {
        "even": np.concatenate([each[::2] for each in values]),
        "odd": np.concatenate([each[1:2] for each in values]),
    }
    frame = view.frame(study)
    assert {group: found["value"].tolist() for group, found in frame.groupby("group")} == {
        group: found.tolist() for group, found in expected.items()
    }
    table = view.table(study).set_index("group")
    assert table.loc["even", "median"] == f"{np.median(expected['even']):.3f}" and table.loc["odd", "clients"] == "2"
    figure = view.figures(study)[""]
    (panel,) = figure.axes
    assert [text.get_text() for text in panel.get_xticklabels()] == ["even", "odd"]
    medians = [line.get_ydata()[0] for line in panel.lines if line.get_color() == MEDIAN]
    assert medians == pytest.approx([np.median(found) for found in expected.values()])
    assert panel.get_ylabel().replace("\n", " ") == BETAS.title and panel.get_title(loc="left") == "pFedFDA: beta"
    check_print(figure)


def test_panels_of_several_cells_and_what_is_not_run(study) -> None:
    view = Spread((("fedavg", "accuracy"), ("pfedfda", "accuracy"), ("local", "accuracy")))
    assert list(view.panels(study)) == [("fedavg", "accuracy"), ("pfedfda", "accuracy")]
    assert view.notes(study)[1] == "not run: Local"
    assert [panel.get_title(loc="left") for panel in view.figures(study)[""].axes] == ["FedAvg", "pFedFDA"]
    nothing = Spread((("local", "accuracy"),))
    assert (nothing.figures(study), nothing.table(study), nothing.frame(study).empty) == ({}, None, True)


def test_a_measure_without_a_value_a_client_is_refused(study) -> None:
    cell = study.cells["fedavg", "accuracy"]
    few = {0: TRAIN_LOSS.of(study.evidence("fedavg", "accuracy")[0])}
    few[0].__dict__["clients"] = few[0].clients[:2]
    study.cells["few", "accuracy"] = Cell(cell.row, cell.column, cell.measure, SAME, None, few, cell.runs)
    with pytest.raises(UserError, match="no value for each of 3 clients, but 2"):
        Spread((("few", "accuracy"),)).panels(study)


def test_clients_by_their_corruption() -> None:
    labels = by_corruption(DataConfig("cifar100-s", "dirichlet:0.5", 6))
    assert labels == ["motion blur", "defocus blur", "gaussian noise", "clean", "clean", "clean"]
    assert set(by_corruption(DataConfig("digits", "dirichlet:0.5", 4))) == {"clean"}
    assert set(by_corruption(DataConfig("cifar10-fog-3", "dirichlet:0.5", 4))) == {"fog"}


def test_boxes_of_two_panels_share_their_groups() -> None:
    figure = boxes({"one": {"a": np.arange(3.0)}, "two": {"b": np.ones(2), "a": np.arange(5.0)}}, "beta")
    check_print(figure)
    left, right = figure.axes
    assert [text.get_text() for text in left.get_xticklabels()] == ["a", "b"] and left.get_xlim() == (-0.6, 1.6)
    places = [(line.get_ydata()[0], line.get_xdata().mean()) for line in right.lines if line.get_color() == MEDIAN]
    assert places == [(1.0, 1.0), (2.0, 0.0)]
    with pytest.raises(UserError, match="no group"):
        boxes({}, "beta")
