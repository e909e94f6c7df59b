"""Runs grow: the first rounds of a longer run are the shorter run, and what a store keeps of it is enough to go on.

Where nothing but the book-keeping is in question, an engine that costs nothing takes the place of the real one.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import differing
from helpers.breaking import Killed, break_in_round
from helpers.subjects import ROWS, experiment, rows
from helpers.training import LOOP, quick, state
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.conformance import Subject
from pflrepro.errors import RunFailed, UserError
from pflrepro.experiments.checkpoint import Checkpoint
from pflrepro.experiments.history import answer, best_of, rounds_to_test
from pflrepro.experiments.identity import has_horizon, run_id
from pflrepro.experiments.pruning import prune
from pflrepro.experiments.readings import Question
from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store
from pflrepro.settings import Settings

QUICK = ("fedavg", "scaffold", "gpfl", "fedavg+dbe", "fedgen", "moon")


def growing() -> list[Any]:
    """The rows of the table whose runs can grow; all but a handful take too long together."""
    found = [row for row in rows() if not has_horizon(experiment(*row.values))]
    slow = [row for row in found if row.marks or row.values[0].source not in QUICK]
    return [
        pytest.param(*row.values, id=row.id, marks=[*row.marks, *[pytest.mark.slow] * (row in slow)]) for row in found
    ]


# ---- every method ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("subject", growing())
def test_a_run_that_grew_is_the_longer_run(subject: Subject, store: Store, tmp_path: Path) -> None:
    """6 rounds, then 10, against 10 at once: every array but the clock, in the history and in the state, bit for bit."""
    short, long = experiment(subject, rounds=6, every=4), experiment(subject, rounds=10, every=4)
    first = run(short, store=store, **LOOP)
    grown = run(long, store=store, **LOOP)
    other = Store(tmp_path / "other", behind=store.behind)
    whole = run(long, store=other, **LOOP)
    assert first.history["round"].tolist() == [0, 4, 6] and grown.history["round"].tolist() == [0, 4, 8, 10]
    assert [each["started_at_round"] for each in grown.environment["attempts"]] == [0, 6]
    assert grown.id == first.id == whole.id
    assert differing(grown.history, whole.history) == []
    assert differing(state(store, grown.id, 10), state(other, grown.id, 10)) == []
    assert list(store.states(grown.id)) == [10], "the state that it grew from is not needed any more"


HORIZON = [row for row in ROWS if row.method().knows_rounds]


@pytest.mark.parametrize("subject", HORIZON, ids=str)
def test_a_method_that_knows_its_rounds_has_a_run_for_each_number(subject: Subject, store: Store, fake) -> None:
    six, ten = (experiment(subject, rounds=rounds) for rounds in (6, 10))
    assert run_id(six) != run_id(ten) != run_id(ten.with_settings(rounds=11))
    assert run_id(ten) == run_id(ten.with_settings(every=3)) == run_id(ten.with_settings(patience=2))
    longer = run(ten, store=store, simulate=fake, progress=False)
    assert store.find(six) is None
    shorter = run(six, store=store, simulate=fake, progress=False)
    assert [one.steps for one in fake.built] == [10, 6] and shorter.id != longer.id
    assert store.find(ten).rounds == 10 and store.find(six).rounds == 6


def test_the_table_has_methods_that_know_their_rounds_and_their_schedule_is_real(store: Store) -> None:
    assert {row.source for row in HORIZON} == {"apple", "fedpac", "fedphp", "fedphp/platform"}
    subject = next(row for row in HORIZON if row.source == "fedphp")
    six, ten = (run(experiment(subject, rounds=rounds), store=store, **LOOP) for rounds in (6, 10))
    assert "correct" in differing({name: array[:7] for name, array in ten.history.items()}, six.history)


def test_a_last_round_for_everybody_is_a_horizon_too(make, store: Store, fake) -> None:
    six, ten = (make.experiment(rounds=rounds, closing=True) for rounds in (6, 10))
    assert has_horizon(six) and run_id(six) != run_id(ten)
    made = run(ten, store=store, simulate=fake, progress=False)
    read = store.get(made.id).experiment
    assert (run_id(read), read.settings.rounds) == (made.id, 10)
    stopped = quick(make.experiment(rounds=60, closing=True, patience=1), store, fake)
    read = store.get(stopped.id)
    assert stopped.rounds < 60 == read.experiment.settings.rounds and run_id(read.experiment) == stopped.id
    assert store.find(six) is None and store.find(make.experiment(rounds=6)) is None


@pytest.mark.parametrize("changes", [{"receivers": "selected"}, {"participation": 1.0}, {"sampling": "coins"}], ids=str)
def test_settings_do_not_keep_a_run_from_growing(changes: dict[str, Any], make, store: Store, tmp_path: Path) -> None:
    given = {"partition": "dirichlet:0.5+train-share=0.1", "participation": 0.4, "every": 4} | changes
    for rounds in (1, 6, 10):
        grown = run(make.experiment(rounds=rounds, **given), store=store, **LOOP)
    whole = run(make.experiment(rounds=10, **given), store=tmp_path / "other", **LOOP)
    assert differing(grown.history, whole.history) == []


# ---- what answers what ----------------------------------------------------------------------------------------------------------
def test_a_prefix_is_answered_without_training(store: Store, fake, make) -> None:
    whole = quick(make.seeds(0, 1, rounds=10), store, fake)
    fake.built.clear()
    for rounds, every in ((10, 1), (6, 1), (6, 3), (10, 5), (7, 5), (0, 1)):
        found = quick(make.seeds(0, 1, rounds=rounds, every=every), store, fake)
        for one, other in zip(found, whole, strict=True):
            tests = rounds_to_test(Settings(rounds, every=every))
            assert one.history["round"].tolist() == tests.tolist() and one.id == other.id
            np.testing.assert_array_equal(one.history["correct"], other.history["correct"][tests])
            assert one.history["seconds"].sum() == pytest.approx(0.25 * (rounds + 1))
            assert one.experiment.settings.rounds == rounds
    assert fake.built == [] and [store.find(each).rounds for each in make.seeds(0, 1, rounds=10)] == [10, 10]


def test_a_finer_request_trains_again_and_keeps_what_was_longer(store: Store, fake, make, tmp_path: Path) -> None:
    quick(make.experiment(rounds=10, every=5), store, fake)
    finer = quick(make.experiment(rounds=6, every=2), store, fake)
    assert [one.steps for one in fake.built] == [10, 6]
    whole = store.get(finer.id)
    assert whole.history["round"].tolist() == [0, 2, 4, 5, 6, 10] and list(store.states(finer.id)) == [10]
    every = quick(make.experiment(rounds=10), Store(tmp_path / "other"), fake).history["correct"]
    np.testing.assert_array_equal(whole.history["correct"], every[[0, 2, 4, 5, 6, 10]])
    fake.built.clear()
    assert quick(make.experiment(rounds=12, every=5), store, fake).history["round"].tolist() == [0, 5, 10, 12]
    assert [one.steps for one in fake.built] == [2]


def test_a_longer_run_that_is_tested_less_often_takes_no_test_away(store: Store, fake, make) -> None:
    first = quick(make.experiment(rounds=6), store, fake)
    prune(store, states=True)  # so that it is trained from the start
    fake.built.clear()
    longer = quick(make.experiment(rounds=10, every=5), store, fake)
    assert [one.steps for one in fake.built] == [10] and longer.history["round"].tolist() == [0, 5, 10]
    again = quick(make.experiment(rounds=6), store, fake)
    assert len(fake.built) == 1 and make.same_but_timings(again.history, first.history)
    assert store.get(first.id).history["round"].tolist() == [0, 1, 2, 3, 4, 5, 6, 10]


def test_an_unfinished_longer_run_is_not_lost_to_a_shorter_request(store: Store, fake, make) -> None:
    fake.before_step = break_in_round(8, Killed())
    with pytest.raises(Killed):
        quick(make.experiment(rounds=10), store, fake)
    fake.before_step = None
    assert quick(make.experiment(rounds=3), store, fake).rounds == 3
    fake.built.clear()
    assert quick(make.experiment(rounds=10), store, fake).rounds == 10
    assert [one.steps for one in fake.built] == [2]


@given(
    st.lists(st.integers(0, 5), min_size=31, max_size=31),
    st.integers(0, 30),
    st.integers(1, 7),
    st.integers(0, 30),
    st.integers(1, 7),
    st.integers(0, 4),
)
def test_an_answer_is_what_a_run_of_its_own_would_have(values, length, spacing, rounds, every, patience) -> None:
    """Or none, where a test that such a run would have made is lacking."""
    there, asked = rounds_to_test(Settings(length, every=spacing)), Settings(rounds, every=every, patience=patience)
    own: list[int] = []
    for round in rounds_to_test(asked).tolist():
        own.append(round)
        curve = [values[each] for each in own]
        if patience and len(curve) - curve.index(max(curve)) > patience:
            break
    empty = {name: np.zeros(len(there)) for name in ("seconds", "seconds_aggregation", "seconds_evaluation")}
    correct = np.array([values[each] for each in there])[:, None]
    found = answer(empty | {"round": there, "correct": correct, "test_samples": np.array([5])}, asked)
    if not set(own) <= set(there.tolist()):
        assert found is None
        return
    assert found["round"].tolist() == own and found["correct"][:, 0].tolist() == [values[each] for each in own]
    assert best_of(there, correct[:, 0], 0) == there[np.argmax(correct)]


@pytest.mark.parametrize("patience", [1, 3])
@pytest.mark.parametrize("every", [1, 2])
def test_a_run_grows_past_its_stop_rule_and_back(patience, every, store: Store, fake, make, tmp_path: Path) -> None:
    asked = {"rounds": 24, "every": every}
    stopped = quick(make.seeds(0, 1, 2, patience=patience, **asked), store, fake)
    whole = quick(make.seeds(0, 1, 2, **asked), store, fake)
    direct = quick(make.seeds(0, 1, 2, **asked), Store(tmp_path / "other"), fake)
    again = quick(make.seeds(0, 1, 2, patience=patience, **asked), store, fake)
    for one, grown, other, back in zip(stopped, whole, direct, again, strict=True):
        assert make.same_but_timings(grown.history, other.history) and make.same_but_timings(one.history, back.history)
    assert min(one.rounds for one in stopped) < 24


# ---- states ---------------------------------------------------------------------------------------------------------------------
def values_at(fake, make, rounds: int, seed: int = 0) -> np.ndarray:
    """The fake engine's state after a round, from the beginning."""
    state = np.full(4, 0.1 * seed)
    for round in range(1, rounds + 1):
        state = np.cos(1.7 * state + seed + round)
    return state


def kept(store: Store, id: str) -> dict[int, np.ndarray]:
    return {round: store.state(id, round).state["x"] for round in store.states(id)}


def test_the_states_of_moments_are_kept_and_stay(store: Store, fake, make) -> None:
    first = quick(make.seeds(0, 1, rounds=6), store, fake, keep=("best", 2, "last"))
    for one in first:
        assert set(store.states(one.id)) == {2, 6, one.round_of("best")} - {0}
    grown = quick(make.seeds(0, 1, rounds=10), store, fake, keep=("best", 2))
    for seed, one in enumerate(grown):
        assert set(store.states(one.id)) >= {2, 10, one.round_of("best")} - {0}
        for round, array in kept(store, one.id).items():
            np.testing.assert_array_equal(array, values_at(fake, make, round, seed))
    fake.built.clear()
    quick(make.seeds(0, 1, rounds=10), store, fake, keep=("best", 2))
    assert fake.built == []
    quick(make.seeds(0, 1, rounds=10), store, fake, keep=(4,))
    assert [one.steps for one in fake.built] == [10] and 4 in store.states(grown[0].id)
    assert make.same_but_timings(store.find(make.experiment(rounds=10)).history, grown[0].history)


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5])
def test_the_best_state_is_kept_wherever_the_run_was_broken_off(stop: int, store: Store, fake, make) -> None:
    fake.before_step = break_in_round(stop, Killed())
    with pytest.raises(Killed):
        quick(make.seeds(*range(4), rounds=6), store, fake, keep=("best",))
    fake.before_step = None
    fake.built.clear()
    found = quick(make.seeds(*range(4), rounds=6), store, fake, keep=("best",))
    assert [one.steps for one in fake.built] == [6 - stop], "it goes on where it was broken off"
    for one in found:
        assert {one.round_of("best"), 6} - {0} <= set(store.states(one.id))
    fake.built.clear()
    quick(make.seeds(*range(4), rounds=6), store, fake, keep=("best",))
    assert fake.built == []


def test_what_was_the_best_at_a_checkpoint_goes_where_the_last_round_is_better(store: Store, fake, make) -> None:
    found = quick(make.seeds(*range(8), rounds=6), store, fake, keep=("best",))
    assert {0 < one.round_of("best") < 6 for one in found} == {True, False}
    assert [set(store.states(one.id)) for one in found] == [{one.round_of("best"), 6} - {0} for one in found]


def test_the_best_state_is_that_before_the_stop_rule(store: Store, fake, make) -> None:
    """Seeds that train together go on until all have stopped; what they find behind their own stop does not count."""
    asked = make.seeds(*range(6), rounds=30, patience=2)
    for _ in range(2):
        for one in quick(asked, store, fake, keep=("best",)):
            assert one.round_of("best") in {0, *store.states(one.id)}
    assert len(fake.built) == 1


def test_a_moment_that_will_not_come_is_refused_before_anything_is_trained(store: Store, fake, make) -> None:
    for keep, message in (
        (("worst",), "unknown moment 'worst'; valid: last, best"),
        ("best", r"keep is a list of moments, such as keep=\['best'\], not 'best'"),
        (5, r"keep is a list of moments, such as keep=\[5\], not 5"),
        ((5,), r"no test is asked for after round 5, whose state is to be kept; near: \[4, 6, 2\]"),
        ((12,), r"no test is asked for after round 12, .*; near: \[10, 8, 6\]"),
    ):
        with pytest.raises(UserError, match=message):
            quick(make.experiment(rounds=10, every=2), store, fake, keep=keep)
    assert fake.built == []
    stopped = make.experiment(rounds=60, patience=1)
    for _ in range(2):  # a round that an early stop leaves out is no reason to train again
        assert quick(stopped, store, fake, keep=(60,)).rounds < 60
    assert len(fake.built) == 1


@pytest.mark.parametrize("harm", ["truncated", "missing"])
def test_a_damaged_or_missing_state_is_computed_again(harm: str, store: Store, fake, make, caplog) -> None:
    first = quick(make.experiment(rounds=6), store, fake)
    path = store.states(first.id)[6]
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-40])
    fake.built.clear()
    with caplog.at_level(logging.WARNING):
        grown = quick(make.experiment(rounds=10), store, fake)
    assert ("damaged and computed again" in caplog.text) == (harm == "truncated")
    assert [one.steps for one in fake.built] == [10] and list(store.states(grown.id)) == [10]
    np.testing.assert_array_equal(grown.history["correct"][:7], first.history["correct"])


def test_a_pruned_store_answers_and_grows(store: Store, fake, make) -> None:
    before = quick(make.seeds(0, 1, rounds=6), store, fake, keep=(2,))
    freed = prune(store, states=True)
    assert [each.what for each in freed] == ["states after rounds 2, 6"] * 2
    assert all(store.states(one.id) == {} for one in before) and prune(store, states=True) == []
    fake.built.clear()
    again = quick(make.seeds(0, 1, rounds=6), store, fake)
    assert fake.built == [] and all(
        make.same_but_timings(one.history, other.history) for one, other in zip(before, again, strict=True)
    )
    grown = quick(make.seeds(0, 1, rounds=10), store, fake)
    assert [one.steps for one in fake.built] == [10] and [list(store.states(one.id)) for one in grown] == [[10], [10]]


def test_tests_of_two_trainings_are_no_history(store: Store, fake, make, caplog) -> None:
    experiment = make.experiment(rounds=12, every=6)
    before = quick(experiment, store, fake)
    loss = before.history["loss"] + 1.0  # as another machine may have it
    store.finish(before.id, experiment, dict(before.history) | {"loss": loss}, {"device": "cuda (X)"})
    theirs = store.state(before.id, 12)
    store.keep_state(before.id, Checkpoint(12, {**theirs.state, "history/loss": loss}, theirs.attempts))
    store.reading(before, Question("points", 12), lambda: {"x": 1})
    finer = quick(make.experiment(rounds=7), store, fake)
    whole = store.get(finer.id)
    assert whole.history["round"].tolist() == list(range(8)) and whole.environment["device"] == "cpu"
    assert list(store.states(finer.id)) == [7] and not store.readings(whole)
    assert "trained anew with other numbers than before (on cuda (X))" in caplog.text
    again = quick(experiment, store, fake)
    assert make.same_but_timings(again.history, before.history) and fake.built[-1].steps == 5, (
        "it grows from what there is"
    )
    assert store.get(again.id).experiment.settings.every == 6


def test_a_lack_of_memory_leaves_what_there_is(store: Store, fake, make) -> None:
    quick(make.experiment(rounds=4), store, fake, keep=[3])
    fake.before_step = break_in_round(8, Killed())
    with pytest.raises(Killed):
        quick(make.experiment(rounds=10), store, fake)
    fake.before_step, restore = None, fake.restore_seed

    def full(self, index, arrays):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    fake.restore_seed = full
    with pytest.raises(RunFailed, match="out of memory"):
        quick(make.experiment(rounds=10), store, fake)
    fake.restore_seed = restore
    (folder,) = (store.root / "runs").iterdir()
    assert (folder / "checkpoint.npz").exists() and list(store.states(folder.name)) == [3, 4]
    assert quick(make.experiment(rounds=10), store, fake).rounds == 10 and fake.built[-1].steps == 2


def test_the_best_state_of_a_process_before_goes_when_it_is_the_best_no_more(store: Store, fake, make) -> None:
    """Broken off behind every round: of each seed the best state alone is kept in the end, as without a break."""
    for stop in range(1, 6):
        fake.before_step = break_in_round(stop, Killed())
        with pytest.raises(Killed):
            quick(make.seeds(*range(4), rounds=6), store, fake, keep=("best",))
        fake.before_step = None
    found = quick(make.seeds(*range(4), rounds=6), store, fake, keep=("best",))
    assert [set(store.states(one.id)) for one in found] == [{one.round_of("best"), 6} - {0} for one in found]
    assert len({one.round_of("best") for one in found}) > 1


@pytest.mark.parametrize("keep", [np.array([1, 2]), (each for each in (1, 2)), [np.int64(1), 2.0]])
def test_rounds_to_keep_are_any_whole_numbers(keep, store: Store, fake, make) -> None:
    assert list(store.states(quick(make.experiment(rounds=3), store, fake, keep=keep).id)) == [1, 2, 3]


def test_a_round_to_keep_that_is_none_is_refused(store: Store, fake, make) -> None:
    with pytest.raises(UserError, match="a round of keep must be a whole number >= 0, not None"):
        quick(make.experiment(), store, fake, keep=[None])


def test_finer_tests_begin_anew_and_lose_nothing(store: Store, fake, make, caplog) -> None:
    caplog.set_level(logging.WARNING, "pflrepro")
    fake.before_step = break_in_round(6, Killed())
    with pytest.raises(Killed):
        quick(make.experiment(rounds=9, every=3), store, fake)
    fake.before_step = None
    fake.before_step = break_in_round(2, Killed())
    with pytest.raises(Killed):
        quick(make.experiment(rounds=9), store, fake)
    fake.before_step = None
    assert "goes on from round 0 in place of 6" in caplog.text and list(store.states(run_id(make.experiment()))) == [6]
    fake.built.clear()
    whole = quick(make.experiment(rounds=9, every=3), store, fake)
    assert [engine.steps for engine in fake.built] == [3] and whole.history["round"].tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_trainings_without_a_common_test_are_one_only_if_made_alike(backend: str, store: Store, fake, make) -> None:
    quick(make.experiment(rounds=3, every=3), store, fake, backend="loop")
    quick(make.experiment(rounds=2, every=2), store, fake, backend=backend)
    (whole,) = store.runs()
    assert whole.history["round"].tolist() == ([0, 2, 3] if backend == "loop" else [0, 2])


def test_a_large_state_is_kept_where_it_is_asked_for(store: Store, fake, make, monkeypatch, caplog) -> None:
    monkeypatch.setattr("pflrepro.experiments.states.MOST_STATE_BYTES", 10)
    for _ in range(2):
        made = quick(make.experiment(rounds=4), store, fake, keep=["best", 2, 4])
    assert len(fake.built) == 1 and list(store.states(made.id)) == [2, 4]
    quick(make.experiment(rounds=4, seed=1), store, fake)
    assert "is not kept (2 GB at most)" in caplog.text
