"""Committed runs, made again aside, agree; a number that was changed is found."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata

import pytest

from pflrepro.errors import UserError
from pflrepro.experiments import compact
from pflrepro.experiments.store import Store
from pflrepro.papers import verifying
from pflrepro.papers.studies import study
from pflrepro.papers.verifying import verify


def test_what_was_committed_comes_again_and_what_was_changed_is_found(tmp_path) -> None:
    made = study("demo/digits", "smoke", methods=["fedavg"], store=Store(tmp_path / "store", behind=tmp_path / "none"))
    made.run(progress=False)
    (run,) = made.cells["fedavg", "practical/digits"].runs.values()
    compact.export(run, tmp_path / "committed")
    committed = Store(tmp_path / "empty", behind=tmp_path / "committed")
    (found,) = verify("demo/digits", "smoke", committed=committed, progress=False)
    assert found.agrees and found.samples == 0 and found.committed == found.here
    assert (found.row, found.seed, found.id, found.of) == ("FedAvg", 0, run.id, run.history["test_samples"].sum())
    run.history["correct"][-1, 0] += 3
    compact.export(run, tmp_path / "committed")
    (found,) = verify("demo/digits", "smoke", committed=committed, progress=False)
    assert not found.agrees and found.samples == 3 and found.versions == (metadata.version("torch"),) * 2
    run.history["correct"][-1, 1] -= 3
    compact.export(run, tmp_path / "committed")
    (found,) = verify("demo/digits", "smoke", committed=committed, progress=False)
    assert not found.agrees and found.samples == 6, "what one client has more does not make up for another one"


def test_a_run_that_ended_elsewhere_does_not_agree(tmp_path, monkeypatch) -> None:
    """All that both have is equal, and the committed run is a test longer."""
    made = study("demo/digits", "smoke", methods=["fedavg"], store=Store(tmp_path / "store", behind=tmp_path / "none"))
    made.run(progress=False)
    (run,) = made.cells["fedavg", "practical/digits"].runs.values()
    compact.export(run, tmp_path / "committed")
    short = replace(
        run, history={k: v[:-1] if len(v) == len(run.history["round"]) else v for k, v in run.history.items()}
    )
    monkeypatch.setattr(verifying, "train", lambda *_, **__: [short])
    committed = Store(tmp_path / "empty", behind=tmp_path / "committed")
    (found,) = verify("demo/digits", "smoke", committed=committed)
    assert (found.samples, found.tested_alike, found.agrees) == (0, False, False)
    assert found.rounds == (run.rounds, short.rounds) and short.rounds < run.rounds


def test_nothing_committed_is_said(tmp_path) -> None:
    with pytest.raises(UserError, match="no number of demo/digits at scale smoke is committed"):
        verify("demo/digits", "smoke", committed=Store(tmp_path, behind=tmp_path / "none"))
