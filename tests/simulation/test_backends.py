"""The choice of backend, chunk and threads: recorded, refused where impossible, without effect on the numbers."""

from __future__ import annotations

import pytest

from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.errors import UserError


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


def test_a_resume_keeps_the_backend_that_auto_chose(start) -> None:
    first = start(FedAvg(), backend="batched", chunk=2)
    first.step()
    second = start(FedAvg(), backend="auto")
    second.restore(first.state())
    assert (second.backend.name, second.chunk) == ("batched", 2)
    named = start(FedAvg(), backend="loop")
    named.restore(first.state())
    assert named.backend.name == "loop", "a backend that is named is used"


@pytest.mark.parametrize("memory", [1, 200_000])
def test_little_memory_means_small_chunks_and_the_same_numbers(simulate, differ, memory: int) -> None:
    whole = simulate(FedAvg(), backend="batched")
    small = simulate(FedAvg(), backend="batched", memory=memory)
    assert whole.chunk is None and small.chunk == max(1, memory // small.facts["row_bytes_estimate"]) < 5
    assert differ(whole.replicas[0].server, small.replicas[0].server) < 1e-12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "batch"}, "unknown backend 'batch'; valid: batched"),
        ({"workers": 0}, "workers must be a whole number >= 1, not 0"),
        ({"backend": "batched", "chunk": 0}, "chunk must be a whole number >= 1, not 0"),
        ({"dtype": "float16"}, "unknown number type 'float16'; valid: float"),
        ({"seeds": []}, r"seeds must be one or more different numbers, not \[\]"),
        ({"seeds": [1, 1]}, r"seeds must be one or more different numbers, not \[1, 1\]"),
        ({"model": "mpl"}, "unknown model 'mpl'; valid: mlp"),
        ({"model": "cnn-digits-bn"}, "batch norm needs drop_last=True"),
    ],
)
def test_what_is_impossible_is_refused_in_one_line(start, changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        start(FedAvg(), **changes)
