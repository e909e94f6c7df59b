"""The choice of backend, chunk and threads: recorded, refused where impossible, without effect on the numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.errors import RunFailed, UserError
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation, backends
from pflrepro.simulation.batched import Batched
from pflrepro.simulation.row_pool import RowPool
from pflrepro.simulation.workers import Workers


def test_the_choice_is_recorded(start) -> None:
    facts = start(FedAvg(), backend="batched", chunk=3, workers=2).facts
    assert (facts["backend"], facts["chunk"], facts["workers"], facts["device"]) == ("batched", 3, 2, "cpu")
    assert facts["row_bytes_estimate"] > 6 * 8 * (65 * 32 + 33 * 6)


def test_auto_takes_the_faster_and_trains_as_that_one_would(start, simulate, differ) -> None:
    auto = start(FedAvg(), backend="auto")
    seconds = auto.facts["predicted_seconds_a_round"]
    assert auto.facts["requested"] == "auto" and auto.backend.name == min(seconds, key=seconds.get)
    while not auto.finished:
        auto.step()
    plain = simulate(FedAvg(), backend=auto.backend.name)
    assert differ(auto.replicas[0].server, plain.replicas[0].server) == 0.0, "the trial leaves no trace"


def test_auto_times_once_so_that_the_same_call_takes_the_same_backend(start, monkeypatch) -> None:
    seconds = iter([2.0, 1.0, 1.0, 2.0])
    monkeypatch.setattr(backends, "predicted_round", lambda *_: next(seconds))
    assert [start(FedAvg(), backend="auto").backend.name for _ in range(3)] == ["batched"] * 3
    assert start(FedAvg(), backend="auto", batch_size=3).backend.name == "loop", "timed apart"


@pytest.mark.parametrize("error", [RuntimeError("no memory"), RunFailed("FedAvg, round 0: a mistake")])
def test_an_error_of_the_loop_behind_auto_is_the_run_s(start, monkeypatch, error: Exception) -> None:
    def fails(dispatcher, backend):
        raise error if backend.name == "loop" else RuntimeError("no rule")

    monkeypatch.setattr(backends, "predicted_round", fails)
    with pytest.raises(type(error), match=str(error)):
        start(FedAvg(), backend="auto")


def test_what_batched_cannot_run_is_tried_again_the_next_time(start, monkeypatch, caplog) -> None:
    seconds = {"loop": iter([1.0, 1.0]), "batched": iter([2.0])}

    def once(dispatcher, backend):
        if backend.name == "batched" and not caplog.records:
            raise RuntimeError("no memory\n  for now")
        return next(seconds[backend.name])

    monkeypatch.setattr(backends, "predicted_round", once)
    assert start(FedAvg(), backend="auto").facts["predicted_seconds_a_round"] == {"loop": 1.0}
    assert caplog.messages == ["taking the backend loop, since batched cannot run this: no memory for now"]
    assert start(FedAvg(), backend="auto").facts["predicted_seconds_a_round"] == {"loop": 1.0, "batched": 2.0}


def test_the_timing_behind_auto_is_of_one_process(start, monkeypatch) -> None:
    """What two workers would share of it is worked out once, not measured and then divided again."""
    monkeypatch.setattr(RowPool, "_pays", lambda pool, *_: pool.workers.count > 1)
    monkeypatch.setattr(RowPool, "duration", lambda pool, program, load, seconds: float(pool.workers.count))
    monkeypatch.setattr(Workers, "stack", lambda *_: pytest.fail("handed to workers"))
    assert start(FedAvg(), backend="auto", workers=2).facts["predicted_seconds_a_round"]["loop"] == 2.0


def test_a_resume_keeps_the_backend_that_auto_chose(start) -> None:
    first = start(FedAvg(), backend="batched", chunk=2)
    first.step()
    second = start(FedAvg(), backend="auto")
    second.restore(first.state())
    assert (second.backend.name, second.chunk) == ("batched", 2)
    named = start(FedAvg(), backend="loop")
    named.restore(first.state())
    assert named.backend.name == "loop", "a backend that is named is used"


def test_a_run_that_moves_to_another_kind_of_device_takes_what_is_fastest_there(start) -> None:
    """On an H100 FedBABU on HAR, begun on a CPU, trained for 0.2 s a round with `batched`; FedAvg for 0.07 with `graph`."""
    first = start(FedAvg(), backend="batched", chunk=2)
    first.step()
    here, elsewhere = first.state(), start(FedAvg(), backend="auto")
    assert here["seed0/progress/device"] == "cpu"
    chosen = elsewhere.backend.name, elsewhere.chunk
    assert chosen != ("batched", 2)
    elsewhere.restore(here | {"seed0/progress/device": np.array("cuda")})
    assert (elsewhere.backend.name, elsewhere.chunk) == chosen and elsewhere.round == 1


@pytest.mark.parametrize("memory", [1, 200_000])
def test_little_memory_means_small_chunks_and_the_same_numbers(simulate, differ, memory: int) -> None:
    whole = simulate(FedAvg(), backend="batched")
    small = simulate(FedAvg(), backend="batched", memory=memory)
    assert whole.chunk is None and small.chunk == max(1, memory // small.facts["row_bytes_estimate"]) < 5
    assert differ(whole.replicas[0].server, small.replicas[0].server) < 1e-12


@pytest.mark.parametrize("backend", ["batched", "graph"])
@pytest.mark.parametrize("place", ["run_phase", "score"])
def test_out_of_memory_shrinks_the_chunk_and_goes_on(
    place, backend, simulate, start, differ, monkeypatch, caplog
) -> None:
    """Five clients at a time do not fit, from the first phase or the first test on; two do."""
    small = simulate(FedAvg(), backend=backend, chunk=2)
    works, rows = getattr(Batched, place), []

    def narrow(self, program, mapped, *rest, **more):
        rows.append(mapped.count)
        if mapped.count > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return works(self, program, mapped, *rest, **more)

    monkeypatch.setattr(Batched, place, narrow)
    shrunk = simulate(FedAvg(), backend=backend)
    assert rows[0] == 5 and max(rows[1:]) == 2 and len(caplog.records) == 1
    assert "cpu has too little memory for 5 clients at a time: going on with 2" in caplog.text
    assert differ(shrunk.replicas[0].server, small.replicas[0].server) == 0.0
    histories = [simulation.history(0) for simulation in (shrunk, small)]
    for name in ("correct", "train_loss"):
        assert np.array_equal(histories[0][name], histories[1][name], equal_nan=True)
    assert shrunk.facts["chunk"] == 2 and shrunk.state_of(0)["progress/chunk"] == 2
    monkeypatch.setattr(Batched, place, works)
    resumed = start(FedAvg(), backend="auto")
    resumed.restore(shrunk.state())
    assert resumed.chunk == 2, "a resumed run does not try again"


def test_a_single_client_that_does_not_fit_is_an_error(start, monkeypatch) -> None:
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Batched, "run_phase", full)
    simulation = start(FedAvg(), backend="batched")
    with pytest.raises(torch.OutOfMemoryError):
        simulation.step()
    assert simulation.chunk == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "batch"}, "unknown backend 'batch'; valid: batched"),
        ({"workers": 0}, "workers must be a whole number >= 1, not 0"),
        ({"workers": "two"}, "workers must be a whole number >= 1, not 'two'"),
        ({"memory": "4GB"}, r"memory \(in bytes\) must be a whole number >= 1, not '4GB'"),
        ({"backend": "batched", "memory": -5}, r"memory \(in bytes\) must be a whole number >= 1, not -5"),
        ({"device": "gpu"}, "no device 'gpu' on this machine; valid: auto, cpu"),
        ({"backend": "batched", "chunk": 0}, "chunk must be a whole number >= 1, not 0"),
        ({"dtype": "float16"}, "unknown number type 'float16'; valid: float"),
        ({"seeds": []}, r"seeds must be one or more different numbers, not \[\]"),
        ({"seeds": [1, 1]}, r"seeds must be one or more different numbers, not \[1, 1\]"),
        ({"seeds": 0}, "seeds must be one or more different numbers, not 0"),
        ({"seeds": [-1]}, "seed must be a whole number >= 0, not -1"),
        ({"seeds": "12"}, "seeds must be one or more different numbers, not '12'"),
        ({"seeds": ["a"]}, "seed must be a whole number >= 0, not 'a'"),
        ({"federation": "digits"}, "federation must be a Federation, such as .*, not 'digits'"),
        ({"model": 5}, "unknown model 5; valid: "),
        ({"model": "mpl"}, "unknown model 'mpl' .*; valid: mlp"),
        ({"model": "cnn-digits-bn"}, "batch norm needs drop_last=True"),
        ({"model": "cnn-digits-bn", "drop_last": True, "fit_batch": True}, "and fit_batch=False"),
        ({"model": "cnn-digits-bn", "drop_last": True, "batch_size": 1}, "batch norm needs batch_size >= 2, not 1"),
    ],
)
def test_what_is_impossible_is_refused_in_one_line(start, changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        start(FedAvg(), **changes)


def test_a_name_or_a_class_is_no_method_and_a_mapping_no_settings(federation) -> None:
    for method in ("fedavg", FedAvg):
        with pytest.raises(
            UserError, match=r"method must be a Method, such as pflrepro.build_method\('fedavg'\), not "
        ):
            Simulation(method, federation, "mlp", Settings(1), [0])
    with pytest.raises(UserError, match=r"settings must be a Settings, such as .*, not \{'rounds': 1\}"):
        Simulation(FedAvg(), federation, "mlp", {"rounds": 1}, [0])
