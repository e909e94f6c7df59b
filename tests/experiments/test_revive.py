"""A finished run looked into: revived at a moment, from what is kept of it or trained again."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from helpers import differing
from helpers.training import LOOP, quick, state

import pflrepro
from pflrepro import metrics
from pflrepro.errors import UserError
from pflrepro.experiments.revive import revive
from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store
from pflrepro.simulation.inspection import client_models
from pflrepro.simulation.simulation import Simulation


def model_of(simulation: Simulation) -> dict[str, np.ndarray]:
    found = simulation.state_of(0)
    return {name: array for name, array in found.items() if not name.startswith(("history/", "progress/"))}


@pytest.mark.parametrize("name", ["fedavg+dbe", "scaffold", "apple"])
def test_a_revived_run_is_the_simulation_at_that_moment(name: str, make, store: Store, monkeypatch) -> None:
    asked = make.experiment(name, rounds=4, partition="dirichlet:0.5+train-share=0.1", participation=0.6)
    finished = run(asked, store=store, **LOOP)
    rounds = {"last": 4, "best": finished.round_of("best"), 2: 2, 0: 0}
    for moment, round in rounds.items():
        direct = pflrepro.simulate(
            asked if round else asked.with_settings(rounds=0), rounds=round or None, backend="loop"
        )
        assert direct.round == round
        assert differing(model_of(revive(finished, moment, store=store)), model_of(direct)) == []
    assert set(store.states(finished.id)) == set(rounds.values())
    monkeypatch.setattr(Simulation, "step", None)
    for moment, round in rounds.items():
        assert revive(finished, moment, store=store).round == round


@pytest.mark.parametrize(("name", "options"), [("fedavgft", {"tune_when": "end"}), ("fedphp/platform", {})])
def test_a_run_that_knows_its_rounds_is_revived_before_the_first_of_them(name, options, make, store: Store) -> None:
    finished = run(make.experiment(name, rounds=2, options=options), store=store, **LOOP)
    found = revive(finished, 0, store=store)
    assert found.round == 0 and found.settings.rounds == 2, "what is tested is not what the last round's test would see"
    np.testing.assert_array_equal(found.history(0)["correct"][0], finished.history["correct"][0])


def test_a_run_is_revived_of_nothing_else_than_made_it(make, store: Store, tmp_path: Path, monkeypatch) -> None:
    """Another partition file of the same name, in the folder that it is looked for in."""
    for name, counts in (("here", "0,0,60\n1,1,60\n"), ("there", "0,0,50\n1,1,70\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.csv").write_text(f"client,label,count\n{counts}")
    given = {"partition": f"counts:{tmp_path / 'here' / 'mine.csv'}", "clients": 2, "rounds": 1}
    finished = run(make.experiment(**given), store=store, **LOOP)
    assert revive(finished, store=store).round == 1, "from any folder, as it was asked for"
    read = store.get(finished.id)
    monkeypatch.chdir(tmp_path / "there")
    with pytest.raises(UserError, match="its data, the file of its partition or the code of its method are others now"):
        revive(read, store=store)
    monkeypatch.chdir(tmp_path / "here")
    assert revive(read, store=store).round == 1


def test_what_is_no_run_is_not_revived_and_a_run_is_no_simulation(make, store: Store, fake) -> None:
    (made,) = quick(make.seeds(0, rounds=4), store, fake)
    with pytest.raises(UserError, match=r"revive takes one finished run, .* not a list"):
        pflrepro.revive([made])
    for look in (metrics.predict, metrics.collect, metrics.local_bias, client_models):
        with pytest.raises(UserError, match=r"the models of a Run are not at hand: pflrepro.revive\(run\) gives"):
            look(made)


def test_a_run_is_revived_where_its_state_cannot_be_kept(make, store: Store, caplog) -> None:
    finished = run(make.experiment(), store=store, **LOOP)
    store.drop_states(finished.id)
    for lock in (store.root / "locks").iterdir():
        lock.unlink()
    (store.root / "locks").rmdir()
    (store.root / "locks").write_text("a file where a folder belongs")
    with caplog.at_level(logging.WARNING, logger="pflrepro.revive"):
        assert revive(finished, store=store).round == finished.rounds
    said = [record.getMessage() for record in caplog.records]
    assert [each for each in said if "is not kept: cannot lock" in each]
    again = f"its models after round {finished.rounds} are not kept; training it again from round 0"
    assert [each for each in said if again in each], "a call that trains says so before"


def test_a_run_whose_state_is_damaged_is_revived_all_the_same(make, store: Store, caplog) -> None:
    asked = make.experiment(rounds=3, partition="dirichlet:0.5+train-share=0.1")
    finished = run(asked, store=store, **LOOP)
    before = state(store, finished.id, 3)
    store.states(finished.id)[3].write_bytes(b"nothing")
    with caplog.at_level(logging.WARNING):
        revive(finished, store=store)
    assert "damaged and computed again" in caplog.text
    assert differing(before, state(store, finished.id, 3)) == []
