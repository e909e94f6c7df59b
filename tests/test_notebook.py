"""What a notebook's cell gets: one line for a user's mistake, one line of progress that stays, pictures that survive distrust."""

from __future__ import annotations

import doctest
import re
from base64 import b64decode
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pflrepro import catalogue, errors, lazy, markup, notebook
from pflrepro.errors import CorruptFile, MissingData, UserError
from pflrepro.experiments import runs
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.progress import Progress
from pflrepro.style import new_figure, picture


@pytest.fixture(scope="module")
def shell():
    """IPython as a kernel has it, without its history."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    made = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    yield made
    InteractiveShell.clear_instance()


# ---- errors ----------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "code",
    [
        'import pflrepro; pflrepro.Experiment.for_dataset("fedavg", "digit")',
        'from pflrepro import papers; papers.study("dbe/tabel5")',
        'from pflrepro.algorithms import build_method; build_method("fedavg", {"mu": 1})',
    ],
)
def test_a_users_mistake_is_one_line_in_a_cell(shell, capsys, monkeypatch, code: str) -> None:
    monkeypatch.delenv("PFLREPRO_TRACEBACK", raising=False)
    assert isinstance(shell.run_cell(code).error_in_exec, UserError)
    said = "".join(capsys.readouterr()).strip()
    assert said.startswith("UserError: unknown") and "valid:" in said and "\n" not in said


def test_the_traceback_is_there_when_asked_for(shell, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PFLREPRO_TRACEBACK", "1")
    shell.run_cell('from pflrepro import papers; papers.study("dbe/tabel5")')
    said = "".join(capsys.readouterr())
    assert "Traceback (most recent call last)" in said and "registry.py" in said


@pytest.mark.parametrize("kind", [UserError, MissingData, CorruptFile])
def test_every_kind_of_mistake_names_itself(kind: type[UserError], monkeypatch) -> None:
    monkeypatch.delenv("PFLREPRO_TRACEBACK", raising=False)
    assert kind("what it is")._render_traceback_() == [f"{kind.__name__}: what it is"]


def test_what_is_no_mistake_of_the_user_keeps_its_traceback(shell, capsys) -> None:
    shell.run_cell("1 / 0")
    assert len("".join(capsys.readouterr()).splitlines()) > 3


# ---- progress --------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def cell(monkeypatch):
    """What a cell shows, as if this process were a kernel; `now` is the clock."""
    found = SimpleNamespace(outputs=[], now=0.0)

    def display(parts: dict[str, str], **how: Any) -> Any:
        place = len(found.outputs)
        found.outputs.append([parts])
        return SimpleNamespace(update=lambda parts, raw: found.outputs[place].append(parts))

    monkeypatch.setattr("pflrepro.experiments.progress.attached", lambda: True)
    monkeypatch.setattr(notebook, "display", display)
    monkeypatch.setattr(notebook.time, "monotonic", lambda: found.now)
    return found


def pack(method: str, seeds: int = 1, rounds: int = 100) -> list[Any]:
    """The runs of one configuration, as a callback is told of them."""
    experiments = [Experiment.for_dataset(method, "digits", rounds=rounds, seed=seed) for seed in range(seeds)]
    return [SimpleNamespace(id="", experiment=each) for each in experiments]


def test_progress_is_one_line_that_changes_in_place_and_stays(cell) -> None:
    with Progress() as bar:
        bar.expect(200)
        for label in (("fedavg", 3), ("local", 3)):
            bar.start(pack(*label), 0)
            for done in range(1, 101):
                cell.now += 0.01
                bar.round(done, [{"accuracy": 0.25}, {"accuracy": 0.75}])
            bar.end([])
    [line] = cell.outputs
    assert 5 < len(line) < 20, "an update of some, not of each of the 200 rounds"
    assert "to go" in line[4]["text/plain"]
    assert line[-1]["text/plain"] == f"{'█' * 24} 200 of 200 rounds, local on digits, 3 seeds, accuracy 50.0 %, 2.0 s"
    assert "<script" not in line[-1]["text/html"] and "widget" not in line[-1]["text/html"]


def test_what_was_done_before_counts_as_done_and_not_for_the_pace(cell) -> None:
    with Progress() as bar:
        bar.expect(100)
        bar.start(pack("ditto"), 90)
        cell.now = 5.0
        for done in range(96):
            bar.round(done, [])
    assert cell.outputs[0][-1]["text/plain"].endswith(
        "95 of 100 rounds, ditto on digits, seed 0, on from round 90, 5.0 s, about 5.0 s to go"
    )


def test_a_pack_that_stops_early_leaves_no_gap(cell) -> None:
    with Progress() as bar:
        bar.expect(100)
        bar.start(pack("ditto"), 0)
        bar.round(40, [])
        bar.end([])
    assert "40 of 40 rounds" in cell.outputs[0][-1]["text/plain"]


def test_nothing_is_shown_where_nobody_watches(capsys) -> None:
    with Progress() as bar:
        bar.expect(10)
        bar.start(pack("ditto"), 0)
        bar.round(10, [])
        bar.end([])
    assert not bar.shown and "".join(capsys.readouterr()) == ""
    assert not notebook.attached()


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (59, "59 s"), (60, "1 min 0 s"), (3600, "1 h 0 min")]
)
def test_durations(seconds: float, said: str) -> None:
    assert notebook.duration(seconds) == said


@pytest.mark.parametrize("module", [catalogue, errors, lazy, notebook, runs], ids=lambda module: module.__name__)
def test_the_examples_of_the_docstrings_hold(module) -> None:
    found = doctest.testmod(module)
    assert found.attempted and not found.failed


# ---- pictures and pages ------------------------------------------------------------------------------------------------------------
def test_a_picture_is_an_image_and_not_html_which_distrust_strips(shell) -> None:
    figure, other = new_figure(1.0, 1.0), new_figure(1.0, 1.0)
    for each in (figure, other):
        each.subplots().plot([0, 1], [0, 1])
    parts = shell.display_formatter.format(figure)[0]
    assert {"image/png", "image/svg+xml"} <= set(parts) and "text/html" not in parts
    assert b64decode(parts["image/png"]).startswith(b"\x89PNG")
    assert picture(other) == parts, "the same numbers, the same bytes"


def test_tables_take_their_colours_from_the_page_and_texts_are_no_markup() -> None:
    lines = [{"a": "<b>", "empty": "", "n": "1.5"}, {"a": "[x](https://example.org/a)", "empty": "", "n": "**2.5**"}]
    html = markup.records(lines) + markup.facts("a & b", {"x": "y", "nothing": ""}) + markup.folded("more", "<p></p>")
    assert "&lt;b&gt;" in html and "a &amp; b" in html and "empty" not in html and "nothing" not in html
    assert '<a href="https://example.org/a">x</a>' in html and "<b>2.5</b>" in html
    assert "text-align:right" in html and not re.search(r"(?<!-)color:|background|<script|<style|class=", html)
    assert markup.records([]).count("<t") == 3, "a table without lines"


def _shown() -> dict[str, Any]:
    import pflrepro
    from pflrepro import conformance, data, metrics, papers
    from pflrepro.simulation import client_models

    experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", clients=5)
    study = papers.study("dbe/table5", "smoke")
    simulation = pflrepro.simulate(experiment.with_settings(rounds=1), workers=1)
    models = client_models(simulation)
    arrays = {
        "model of a client": models[0],
        "its parameters": models[0].params,
        "predictions": metrics.predict(simulation),
        "features": metrics.collect(simulation),
        "local bias": metrics.local_bias(simulation),
        "observation": metrics.observe(simulation),
        "arrays": data.load_arrays("digits"),
        "replica's server": simulation.replicas[0].server,
    }
    return arrays | {
        "experiment": experiment,
        "protocol": experiment.settings,
        "federation": pflrepro.load_federation(experiment),
        "method": pflrepro.describe("fedavg+dbe"),
        "store": pflrepro.Store(),
        "study": study,
        "table": study.table(),
        "claims": study.claims(),
        "summary": study.summary(),
        "plan": study.plan(),
        "artefact": study.artefact,
        "cell": next(iter(study.cells.values())),
        "claim": study.artefact.claims[0],
        "conformance": conformance.Report("fedavg on mlp", [conformance.Result("finite", "failed", 0.1, "it is NaN")]),
    }


def test_every_object_is_a_page_in_a_notebook_and_short_elsewhere(monkeypatch) -> None:
    monkeypatch.setattr("pflrepro.conformance.CHECKS", {"finite": lambda subject: None})
    for name, each in _shown().items():
        html, text = each._repr_html_(), repr(each)
        assert html.startswith("<") and html.endswith(">"), name
        # what an untrusted notebook strips, and what a dark theme would make illegible
        assert not re.search(r"(?<!-)color:|background|<script|<style|<img|<svg", html), name
        assert len(text.splitlines()) < 60 and max(map(len, text.splitlines() or [""])) < 1000, name


def test_a_record_of_arrays_is_its_words_and_the_shapes_of_its_arrays() -> None:
    @dataclass(frozen=True, repr=False)
    class Found(markup.BriefArrays):
        z: Any
        labels: list[int]
        few: list[int]
        layer: str
        mean: Any

    found = Found(np.zeros((30, 4)), [0] * 30, [1, 2], "base", np.float64(0.5))
    assert repr(found) == "Found(few=[1, 2], layer='base', mean=0.5; z [30, 4], labels [30])"
    html = found._repr_html_()
    assert "float64 [30, 4]" in html and "[30]" in html and "[1, 2]" in html and "<caption>Found" in html
