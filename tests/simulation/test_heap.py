"""The C heap keeps what a training step frees, and gives it back after a run."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

import pflrepro
from pflrepro.simulation import heap, simulation

MEGABYTES = 64
STEPS = 40
glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="thresholds are glibc's")

COUNTED = f"""
import json, resource
import torch
from pflrepro.simulation.heap import give_back_freed_memory, keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 2**20

kept = keep_freed_memory()
before = held()
for step in range({STEPS} + 1):
    if step == 1:
        first = faults()
    block = torch.ones({MEGABYTES} << 18)
    del block
counted = faults() - first
after = held()
give_back_freed_memory()
print(json.dumps([kept, counted, after - before, held() - before]))
"""


def counted() -> list:
    """[what `keep_freed_memory` gave, page faults of all steps but the first, MB that are held then, and when given back]"""
    clean = {name: value for name, value in os.environ.items() if name not in heap.OF_THE_USER}
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True, env=clean)
    return json.loads(done.stdout)


@glibc
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_step_finds_the_memory_of_the_step_before() -> None:
    pages = STEPS * (MEGABYTES << 20) // os.sysconf("SC_PAGESIZE")
    kept, faults, held, given_back = counted()
    assert kept is True
    assert faults < pages / 4  # the first steps find their place; unkept it is all of them
    assert held >= MEGABYTES
    assert given_back < MEGABYTES / 2


@glibc
def test_thresholds_that_the_user_sets_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert heap.keep_freed_memory.__wrapped__() is False


def test_a_system_without_such_a_heap_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in heap.OF_THE_USER:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: object())
    assert heap.keep_freed_memory.__wrapped__() is False
    heap.give_back_freed_memory()


@pytest.mark.parametrize(
    ("most", "asked"),
    [
        (2**31, [(heap.MMAP_THRESHOLD, 2**31 - 1), (heap.TRIM_THRESHOLD, -1)]),
        (32 << 20, [(heap.MMAP_THRESHOLD, 2**31 - 1), (heap.MMAP_THRESHOLD, 32 << 20), (heap.TRIM_THRESHOLD, -1)]),
        (0, [(heap.MMAP_THRESHOLD, 2**31 - 1), (heap.MMAP_THRESHOLD, 32 << 20)]),
    ],
)
def test_a_heap_that_takes_no_such_threshold_gets_a_smaller_one_or_keeps_its_own(
    most: int, asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in heap.OF_THE_USER:
        monkeypatch.delenv(name, raising=False)
    calls = []

    def mallopt(name: str, option: int, value: int) -> int:
        calls.append((option, value))
        return int(value <= most)

    monkeypatch.setattr(heap, "_call", mallopt)
    assert heap.keep_freed_memory.__wrapped__() is bool(most)
    assert calls == asked


def test_training_keeps_it_and_a_run_gives_it_back(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    called = []
    monkeypatch.setattr(simulation, "keep_freed_memory", lambda: called.append("kept"))
    monkeypatch.setattr("pflrepro.experiments.training.give_back_freed_memory", lambda: called.append("given back"))
    experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", clients=2, rounds=1)
    pflrepro.run(experiment, store=tmp_path, progress=False)
    assert called == ["kept", "given back"]
