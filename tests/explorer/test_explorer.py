"""`pflrepro.explore()` without a screen: values are set and buttons pressed from Python, and what it shows is read."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import pflrepro
from pflrepro.algorithms.fedprox import FedProx
from pflrepro.checked import Between, Domain
from pflrepro.data.datasets import DATASETS
from pflrepro.errors import MissingData, UserError
from pflrepro.explorer import controls
from pflrepro.explorer.experiment import Explorer
from pflrepro.explorer.training import Training


@pytest.fixture
def explorer(tmp_path) -> Explorer:
    """Three clients of the digits, three rounds."""
    made = pflrepro.explore("digits", store=tmp_path, backend="loop", workers=1)
    made.clients.value, made.protocol["rounds"].value = 3, 3
    return made


def text(html: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", html).split())


def test_a_slider_redraws_the_bubbles_and_the_command(explorer: Explorer) -> None:
    before = explorer._bubbles.value
    explorer.partition_numbers["alpha"].value = 1.0
    assert explorer.experiment.data.partition == "dirichlet:1"
    assert explorer._bubbles.value != before and "data:image/png;base64," in explorer._bubbles.value
    assert "3 clients with" in text(explorer._bubbles.value)
    assert "--partition dirichlet:1 --clients 3 --rounds 3" in text(explorer._command.value)


def test_kinds_of_partitions_bring_their_numbers(explorer: Explorer) -> None:
    assert "file" not in explorer.kind.options and "group" not in explorer.kind.options  # digits have no groups
    explorer.kind.value = "long-tail"
    assert set(explorer.partition_numbers) == {"rho", "tau"}
    explorer.kind.value = "iid"
    assert explorer.partition == "iid" and explorer.partition_numbers == {}
    explorer.kind.value = "fixed-size"
    explorer.partition_numbers["size"].value = 63
    assert explorer.partition == "fixed-size:0.1,63" and "63 to 63 samples" in text(explorer._bubbles.value)
    explorer.kind.value = "pfedfda-dirichlet"
    assert explorer.least.value == 63 and explorer.experiment.data.min_size is None  # its own


def test_a_preset_keeps_the_options_of_its_partition(explorer: Explorer, monkeypatch) -> None:
    usual = DATASETS["digits"]
    changed = replace(usual.preset, partition="dirichlet:0.5+stratified", clients=7)
    monkeypatch.setitem(DATASETS, "digits", replace(usual, preset=changed))
    explorer._preset()
    assert explorer.partition == "dirichlet:0.5+stratified" and explorer.clients.value == 7
    explorer.kind.value = "iid"
    assert explorer.partition == "iid"


def test_what_cannot_be_is_said_and_not_run(explorer: Explorer) -> None:
    explorer.least.value = 1000
    assert "3 clients with min_size = 1000" in text(explorer._bubbles.value) and explorer.start.disabled
    explorer.least.value = 10
    assert "img" in explorer._bubbles.value and not explorer.start.disabled
    explorer.method.value, explorer.plugin.value = "local", "fedbr"
    assert explorer.start.disabled and "local+fedbr" in text(explorer._command.value)
    explorer.run()
    explorer.wait()
    assert explorer.runs == [] and "local+fedbr" in text(explorer._state.value)
    explorer.plugin.value = "nothing"
    assert not explorer.start.disabled


def test_options_are_made_from_their_types(explorer: Explorer) -> None:
    explorer.plugin.value = "dbe"
    explorer.options["kappa"].value = 5.0
    assert explorer.experiment.options == (("kappa", 5.0),)
    explorer.method.value = "fedprox"
    assert set(explorer.options) >= {"mu", "kappa"}
    assert explorer.experiment.options == ()


def test_runs_are_laid_over_each_other(explorer: Explorer) -> None:
    explorer.run()
    explorer.wait()
    explorer.method.value = "local"
    explorer.run()
    explorer.wait()
    assert [run.experiment.algorithm for run in explorer.runs] == ["fedavg", "local"]
    assert explorer.chosen.value == ("fedavg", "local")
    assert 'alt="curves of fedavg, local"' in explorer._curves.value
    assert explorer._clients.value.count("<img") == 2
    before = explorer._curves.value
    explorer.after.value = True
    assert explorer._curves.value != before
    explorer.chosen.value = ("local",)
    assert 'alt="curves of local"' in explorer._curves.value
    assert not explorer.start.disabled and explorer.halt.disabled
    explorer.run()
    explorer.wait()
    assert len(explorer.runs) == 2  # the same again is the same run
    explorer.chosen.value = ()
    explorer.protocol["rounds"].value = 2
    explorer.run()
    explorer.wait()
    assert [explorer._lines[name][0].rounds for name in explorer.chosen.value] == [2], "the one taken out stays out"


def test_data_of_ones_own_are_explored(tmp_path) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    explorer = pflrepro.explore(f"file:{tmp_path / 'mine.npz'}", store=tmp_path, backend="loop", workers=1)
    explorer.clients.value, explorer.least.value, explorer.protocol["rounds"].value = 3, 0, 1
    assert "3 clients with" in text(explorer._bubbles.value)
    explorer.run()
    explorer.wait()
    assert [run.experiment.data.dataset for run in explorer.runs] == [explorer.dataset.value]


def test_a_run_that_is_stopped_goes_on_where_it_was(explorer: Explorer, monkeypatch) -> None:
    """Stopped by its button after the second round; as if never stopped in the end."""
    explorer.protocol["rounds"].value = 4
    monkeypatch.setattr("pflrepro.experiments.training.LOOK_EVERY", 0.0)
    after, seen = Training.round, []

    def press(training: Training, round: int, scores) -> None:
        seen.append(round)
        if round == 2 and len(seen) == 3:
            explorer.halt.click()
        after(training, round, scores)

    monkeypatch.setattr(Training, "round", press)
    explorer.start.click()
    assert explorer.start.disabled and not explorer.halt.disabled
    explorer.wait()
    assert seen == [0, 1, 2] and explorer.runs == []
    assert "stopped after round 2" in text(explorer._state.value)
    explorer.start.click()
    explorer.wait()
    assert seen == [0, 1, 2, 0, 1, 2, 3, 4], "the curve of before is part of the live one"
    assert explorer.runs[0].rounds == 4


def test_what_goes_wrong_in_a_run_is_told(explorer: Explorer, monkeypatch) -> None:
    def broken(*arguments, **how) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("pflrepro.explorer.training.run", broken)
    explorer.run()
    explorer.wait()
    assert "ZeroDivisionError: by nothing" in text(explorer._state.value)
    assert explorer.runs == [] and not explorer.start.disabled


def test_it_is_a_picture_and_a_text_where_there_are_no_widgets(explorer: Explorer) -> None:
    shown = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert "<img" in shown["text/html"] and "pflrepro run --algorithm fedavg" in shown["text/html"]
    assert shown["text/plain"] == "Explorer(fedavg on digits, dirichlet:0.1, 3 clients; 0 runs)"


class Mine(FedProx):
    """A method of one's own."""


@pytest.mark.parametrize("also", [Mine, f"{__name__}:Mine", ["fedprox", Mine], f"fedprox, {__name__}:Mine"])
def test_methods_of_ones_own_are_given_as_classes_or_texts(also) -> None:
    offered = pflrepro.explore("digits", also=also).method.options
    assert offered[-1] == f"{__name__}:Mine" and len(set(offered)) == len(offered) and "m" not in offered


@pytest.mark.parametrize(
    ("also", "words"),
    [(None, "also must be a list of words"), ("nomod:X", "no module 'nomod'"), ("a,b", "algorithm 'a'")],
)
def test_a_method_that_there_is_not_is_refused_at_once(also, words: str) -> None:
    with pytest.raises(UserError, match=words):
        pflrepro.explore("digits", also=also)


def test_what_there_is_not_is_refused_at_once(tmp_path) -> None:
    with pytest.raises(UserError, match="unknown data set 'digit'"):
        pflrepro.explore("digit")
    with pytest.raises(UserError, match="unknown algorithm 'fedavgg'"):
        pflrepro.explore("digits", "fedavgg")
    with pytest.raises(MissingData, match="fmnist"):
        pflrepro.explore("fmnist", data_root=tmp_path)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            {"clients": 5},
            r"unknown argument of explore 'clients'; valid: .*backend.*; what is trained is set by controls",
        ),
        ({"progress": False}, "unknown argument of explore 'progress'"),
        ({"device": "tpu"}, "no device 'tpu' on this machine; valid: auto, cpu"),
        ({"backend": "fast"}, "unknown backend 'fast'; valid: "),
        ({"workers": 0}, "workers must be a whole number >= 1, not 0"),
        ({"checkpoint_every": -1}, "checkpoint_every must be a number >= 0, not -1"),
        ({"keep": None}, r"keep is a list of moments, such as keep=\['best'\], not None"),
        ({"keep": ["first"]}, "unknown moment 'first'; valid: last, best"),
        ({"callbacks": print}, "callbacks is a list of callbacks, also of one, not <built-in function print>"),
    ],
)
def test_what_a_run_would_refuse_is_refused_at_once(tmp_path, how, said: str) -> None:
    with pytest.raises(UserError, match=said):
        pflrepro.explore("digits", store=tmp_path, **how)


@pytest.mark.parametrize(
    "domain, value, kind",
    [
        (Domain(str, ("a", "b")), "b", "Dropdown"),
        (Domain(bool), True, "Checkbox"),
        (Domain(int, (), Between(1)), 3, "BoundedIntText"),
        (Domain(float, (), Between(0, 1)), 0.5, "BoundedFloatText"),
        (Domain(str), "word", "Text"),
    ],
)
def test_a_control_holds_the_value_and_its_bounds(domain: Domain, value, kind: str) -> None:
    made = controls.control("name", domain, value)
    assert type(made).__name__ == kind and made.value == value
    if domain.kind in (int, float):
        made.value = -5
        assert made.value == domain.bounds.low
