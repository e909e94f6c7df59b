"""State: all that fixes the future, as plain arrays that later rounds leave alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import differing, equal

from pflrepro.algorithms.dbe import DBE
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.fedper import FedPer
from pflrepro.algorithms.registry import build_method


def through_a_file(state: dict[str, np.ndarray], path: Path) -> dict[str, np.ndarray]:
    np.savez(path, **state)
    with np.load(path, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}


@pytest.mark.parametrize("backend", ["loop", "batched", "graph"])
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_resumed_is_uninterrupted_bit_for_bit(start, tmp_path: Path, backend: str, stop: int) -> None:
    def build():
        changes = {"participation": 0.6, "receivers": "selected", "statistics": "averaged", "seeds": [0, 4]}
        return start(
            build_method("fedavg+dbe"), rounds=4, backend=backend, model="cnn-digits-bn", drop_last=True, **changes
        )

    whole, first, second = build(), build(), build()
    while not whole.finished:
        whole.step()
    for _ in range(stop):
        first.step()
    second.restore(through_a_file(first.state(), tmp_path / "state.npz"))
    assert second.round == stop
    while not second.finished:
        second.step()
    expected, found = whole.state(), second.state()
    assert expected.keys() == found.keys()
    assert differing(expected, found) == []
    for k in (0, 1):
        assert differing(whole.history(k), second.history(k)) == []


@pytest.mark.parametrize("backend", ["loop", "batched", "graph"])
def test_a_saved_state_is_not_changed_by_later_rounds(start, backend: str) -> None:
    simulation = start(FedPer(), rounds=3, backend=backend, participation=0.6)
    simulation.step()
    saved = simulation.state()
    copies = {name: value.copy() for name, value in saved.items()}
    simulation.step(), simulation.step()
    assert [name for name, value in saved.items() if not equal(value, copies[name])] == []


def test_a_restored_state_is_not_changed_either(start) -> None:
    first = start(FedPer(), rounds=3, participation=0.6)
    first.step()
    saved = first.state()
    copies = {name: value.copy() for name, value in saved.items()}
    second = start(FedPer(), rounds=3, participation=0.6)
    second.restore(saved)
    second.step(), second.step()
    assert [name for name, value in saved.items() if not equal(value, copies[name])] == []


def test_a_state_holds_plain_arrays_under_clear_names(start) -> None:
    simulation = start(build_method("fedper+dbe"), seeds=[0, 1])
    simulation.step()
    state = simulation.state()
    assert all(isinstance(value, np.ndarray) and not value.dtype.hasobject for value in state.values())
    roots = {"/".join(name.split("/")[:2]) for name in state}
    parts = ("after", "clients", "held", "history", "losses", "progress", "server")
    assert roots == {f"seed{k}/{part}" for k in (0, 1) for part in parts}
    assert state["seed0/clients/params/bias/b"].shape == (5, 32)


def test_seeds_can_be_taken_up_one_by_one(start) -> None:
    both = start(FedAvg(), rounds=3, seeds=[0, 1])
    both.step()
    saved = [both.state_of(k) for k in (0, 1)]
    both.step(), both.step()
    alone = start(FedAvg(), rounds=3, seeds=[1])
    alone.restore_seed(0, saved[1])
    alone.step(), alone.step()
    expected, found = both.state_of(1), alone.state_of(0)
    assert differing(expected, found) == []


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda s: s.pop("seed0/server/params/base/1.weight"), KeyError),
        (lambda s: s.update({"seed0/server/params/base/1.weight": np.zeros((3, 64))}), ValueError),
        (lambda s: s.update({"seed0/server/params/base/1.bias": np.zeros(32, np.float32)}), ValueError),
        (lambda s: s.pop("seed0/progress/round"), KeyError),
    ],
)
def test_a_state_that_does_not_fit_is_refused(start, spoil, error: type[Exception]) -> None:
    first = start(FedAvg())
    first.step()
    state = first.state()
    spoil(state)
    with pytest.raises(error):
        start(FedAvg()).restore(state)


def test_another_methods_state_is_refused(start) -> None:
    first = start(FedAvg())
    first.step()
    with pytest.raises(KeyError):
        start(type("Both", (DBE, FedAvg), {})()).restore(first.state())
