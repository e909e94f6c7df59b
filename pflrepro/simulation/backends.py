"""Which backend works through a simulation, and how many rows at a time."""

from __future__ import annotations

import logging
import platform
import time
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pflrepro import __version__
from pflrepro.cores import usual_workers
from pflrepro.device import BACKENDS, processor
from pflrepro.errors import check_range, check_word
from pflrepro.models.split import SplitModel
from pflrepro.remembered import place_of, remembered
from pflrepro.simulation.batched import Batched
from pflrepro.simulation.dispatch import Dispatcher
from pflrepro.simulation.graph import Graph
from pflrepro.simulation.launch import Backend
from pflrepro.simulation.loop import Loop
from pflrepro.simulation.memory import free_memory
from pflrepro.simulation.program import TEST_BATCH

log = logging.getLogger("pflrepro.run")
TRIAL_ROWS, TRIAL_STEPS = 20, 3  # clients and batches of the short timing behind `auto`
CPU_BACKENDS = ("loop", "batched")


@dataclass(frozen=True)
class Request:
    """What the caller asked for: a backend's name, processes, rows of a launch at most, bytes; None where left to us."""

    backend: str = "auto"
    workers: int | None = None
    chunk: int | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Choice:
    """A backend, the rows of a launch at most (None: all), and what to record about both."""

    backend: Backend
    chunk: int | None
    facts: dict[str, Any]


def choose_backend(dispatcher: Dispatcher, request: Request, activations: int) -> Choice:
    """The backend that `request` names; `auto` takes `graph` on a GPU and what a short timing finds faster on a CPU.

    What was timed is remembered for this machine, so that the same call takes the same backend again, and has the same last bits.

    Args:
        activations: see the function of that name, for the run's network.
    """
    name, workers, chunk, memory = request.backend, request.workers, request.chunk, request.memory
    check_word("backend", name, BACKENDS)
    check_share_of_machine(workers, memory)
    on_cpu = dispatcher.device.type == "cpu"
    workers = int(workers) if workers is not None else usual_workers()
    facts: dict[str, Any] = {"requested": name, "device": str(dispatcher.device), "dtype": str(dispatcher.dtype)}
    candidates: dict[str, Backend] = {"loop": Loop(workers if on_cpu else 1), "batched": Batched(), "graph": Graph()}
    if name == "auto" and on_cpu:
        facts["predicted_seconds_a_round"] = seconds = _timings(
            dispatcher, candidates, timed_key(dispatcher, workers, activations)
        )
        name = min(seconds, key=seconds.__getitem__)
    elif name == "auto":
        name = "graph"
    estimate = row_bytes(dispatcher, activations)
    if chunk is not None:
        chunk = check_range("chunk", chunk, 1, integer=True)
    elif name != "loop" or not on_cpu:
        available = memory if memory is not None else int(0.75 * free_memory(dispatcher.device))
        chunk = max(1, available // estimate)
    rows = dispatcher.task.clients * len(dispatcher.replicas)
    chunk = chunk if chunk is not None and chunk < rows else None
    facts |= {"backend": name, "workers": workers, "chunk": chunk, "row_bytes_estimate": estimate}
    return Choice(candidates[name], chunk, facts)


def check_share_of_machine(workers: int | None, memory: int | None) -> None:
    """`UserError` for a number of processes, or of bytes, that is none; None leaves it to us."""
    for name, value in (("workers", workers), ("memory (in bytes)", memory)):
        if value is not None:
            check_range(name, value, 1, integer=True)


def file() -> Path:
    """Where the timings behind `auto` are kept."""
    return place_of("backends", Path(platform.node()))


def timed_key(dispatcher: Dispatcher, workers: int, activations: int) -> str:
    """Equal for runs that are timed alike: of one method, network, protocol and number of clients, samples and seeds."""
    versions = (__version__, torch.__version__, processor(), workers, torch.get_num_threads())
    sizes = [dispatcher.federation.sizes(part).tolist() for part in ("train", "test")]
    run = (
        dispatcher.method,
        dispatcher.settings,
        dispatcher.kinds,
        dispatcher.dtype,
        activations,
        len(dispatcher.replicas),
    )
    return sha256(repr((versions, sizes, run)).encode()).hexdigest()


def _timings(dispatcher: Dispatcher, candidates: dict[str, Backend], key: str) -> dict[str, float]:
    """Predicted seconds a round of each backend that works; of the loop alone where `vmap` cannot take the network or the method.

    The loop comes first: what it cannot run either is a mistake, and its error says where. A failure is not remembered, for it may
    have been one of memory.
    """
    seconds: dict[str, float] = {}

    def timed() -> dict[str, float]:
        for name in CPU_BACKENDS:
            seconds[name] = predicted_round(dispatcher, candidates[name])
        return seconds

    try:
        return remembered(file(), key, timed, _are_timings)
    except RuntimeError as error:
        if "loop" not in seconds:
            raise
        log.warning("taking the backend loop, since batched cannot run this: %s", " ".join(str(error).split())[:200])
        return seconds


def _are_timings(found: Any) -> bool:
    """Whether what was kept are seconds of both; it may be anything."""
    return isinstance(found, dict) and found.keys() == {*CPU_BACKENDS} and {*map(type, found.values())} == {float}


def predicted_round(dispatcher: Dispatcher, backend: Backend) -> float:
    """Seconds that `backend` would take for the first round's local training, from a timing of a few batches.

    A batch of a row is timed on some clients, by one process, after calls that warm up; no state is touched. What of it the loop's
    workers would share is worked out, see `RowPool.duration`.
    """
    timed = Loop(1) if isinstance(backend, Loop) else backend
    as_others = replace(dispatcher.settings, first_steps=0, first_weights="common")
    dispatcher = replace(dispatcher, settings=as_others)
    clock = dispatcher.clock(0)
    program = dispatcher.program(timed)
    phases = program.phases(clock)
    cohorts = [dispatcher.cohort(replica, 0) for replica in dispatcher.replicas]
    launch = dispatcher.launch(program, clock, cohorts, phases)
    load = sum((table.steps for table in launch.tables), start=np.zeros(len(launch), np.int64))
    short = launch.part(np.argsort(-load, kind="stable")[:TRIAL_ROWS])
    short.tables = [table.first(TRIAL_STEPS) for table in short.tables]
    short.score_after = short.score_absent = False
    tested = short.part(np.arange(1))  # `vmap` may train a network (nn.GRU) that it cannot test
    tested.score_after, tested.test = True, tested.test.first(1)
    timed.participate(program, tested)
    timed.participate(program, short)
    started = time.perf_counter()
    timed.participate(program, short)
    batches = max(1, sum(int(table.steps.sum()) for table in short.tables))
    seconds = (time.perf_counter() - started) / batches
    return backend.pool.duration(program, load, seconds) if isinstance(backend, Loop) else seconds * float(load.sum())


def row_bytes(dispatcher: Dispatcher, activations: int) -> int:
    """An estimate of the memory that one row of a batched launch needs, in bytes.

    Six copies of its working state (parameters, gradients, updates, what is passed on), and three times the activations of one
    training or test batch (forward, backward, workspace).
    """
    program = dispatcher.program(Loop())
    clock = dispatcher.clock(0)
    launch = dispatcher.launch(program, clock, [np.arange(1) for _ in dispatcher.replicas], [])
    with torch.no_grad():
        local = program.begin(launch.received[0], launch.rows[0], program.scalars(None, clock))
    state = sum(leaf.numel() * leaf.element_size() for leaf in local.leaves())
    per_sample = activations * torch.empty((), dtype=dispatcher.dtype).element_size()
    return int(6 * state + 3 * per_sample * max(dispatcher.settings.batch_size, TEST_BATCH // 2)) + 1


def activations(network: SplitModel, x: torch.Tensor) -> int:
    """The number of values that the layers of a network give for the samples `x` [n, ...], a sample."""
    counted = 0

    def count(module: torch.nn.Module, inputs: Any, output: Any) -> None:
        nonlocal counted
        if isinstance(output, torch.Tensor) and not list(module.children()):
            counted += output.numel()

    hooks = [m.register_forward_hook(count) for part in (network.base, network.head) for m in part.modules()]
    with torch.no_grad():
        network.head(network.base(x))
    for hook in hooks:
        hook.remove()
    return max(1, counted // len(x))
