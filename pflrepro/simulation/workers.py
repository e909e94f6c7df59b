"""Worker processes of the loop backend: one a core, one thread each.

Processes and not threads: a training step is some hundred short operations, each of which hands the interpreter lock back and
forth, so that two threads on two cores gained little where two processes doubled the speed (measured). The processes are
loky's: they start once, are reused by later simulations, need no `__main__` guard in a script, and end when idle, or with the
process that started them (`pflrepro.simulation.lifetime`). Samples are mapped from a file, not copied.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import logging
import marshal
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import lru_cache
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from types import CodeType
from typing import Any, BinaryIO

import cloudpickle
import numpy as np
import torch
from loky import get_reusable_executor
from loky.process_executor import BrokenProcessPool

from pflrepro import own_modules
from pflrepro.data.federation import Federation
from pflrepro.errors import RunFailed, UserError
from pflrepro.simulation.heap import keep_freed_memory
from pflrepro.simulation.launch import Launch
from pflrepro.simulation.lifetime import follow, scratch, shielded, wake_stopped
from pflrepro.simulation.program import Program
from pflrepro.simulation.stacking import Shared, Stacking, written
from pflrepro.trees import Tree

IDLE_SECONDS = 120  # after which an idle worker process ends by itself
AHEAD = 2  # groups a worker that are on their way: one at work, one that waits for it
STOPPED_SECONDS = 2.0  # between looks whether somebody stopped a worker
log = logging.getLogger("pflrepro.workers")

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # By itself loky (with psutil at hand) takes a worker that keeps 300 MB for a leak and starts another, which loads the framework.
    "LOKY_MAX_MEMORY_LEAK_SIZE": str(1 << 60),
}

Work = Callable[[Program, Launch, int], Tree]
_ending: dict[int, Finalize] = {}  # of the executors of this process, by identity


class Workers:
    """`count` processes that each take some rows at a time."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._samples: tuple[weakref.ref, str] | None = None
        self._supplies: dict[int, tuple[Tree, str]] = {}  # the newest ones, by identity, with their files
        weakref.finalize(self, _remove_all, self._supplies)

    def stack(
        self, work: Work, program: Program, launch: Launch, groups: Iterable[Sequence[int]], results: Stacking
    ) -> None:
        """Put `work(program, launch, row)` of these rows into `results`; the groups of one seed each are handed out in their order.

        A group is packed when its turn comes, and what comes back is put away at once: of many rows few are on their way.
        """
        blob = _packed_as_loaded((work, replace(program, federation=_without_samples(program.federation))))
        x = program.federation.x
        place = (self._file_of(program.federation), tuple(x.shape), x.dtype)
        # with the file of the samples, in which alone two federations may differ
        key = hashlib.sha256(blob + repr(place).encode()).hexdigest()
        left, waiting = iter(groups), {}
        with shielded():
            executor = self._executor()
        try:
            while True:
                for rows in itertools.islice(left, AHEAD * self.count - len(waiting)):
                    packed_rows = self._rows(launch, rows)
                    with shielded():
                        asked = (key, blob, place, *packed_rows, results.shared, rows)
                        waiting[executor.submit(_some_rows, *asked)] = rows
                if not waiting:
                    return
                for future in _done(executor, waiting):
                    for i, row in zip(waiting.pop(future), pickle.loads(future.result()), strict=True):
                        if row is not None:
                            results.put(i, row)
        except BrokenProcessPool as error:
            raise RunFailed(
                f"a worker process ended unexpectedly (out of memory?); try fewer workers: {error}"
            ) from None
        except KeyboardInterrupt:
            executor.shutdown(wait=True, kill_workers=True)
            raise
        finally:  # where a row failed or somebody interrupts, others are at work or have not begun
            if waiting:
                results.leave()
            for future in waiting:
                future.cancel()

    def _executor(self) -> Any:
        with_us = {"initializer": follow, "initargs": (os.getpid(), str(scratch()))}
        executor = get_reusable_executor(max_workers=self.count, timeout=IDLE_SECONDS, env=ENVIRONMENT, **with_us)
        if parent_process() is not None and id(executor) not in _ending:
            # a process of multiprocessing waits for its own processes before it tells loky to end them, that is, for ever
            _ending[id(executor)] = Finalize(None, executor.shutdown, kwargs={"kill_workers": True}, exitpriority=0)
        return executor

    def _rows(self, launch: Launch, rows: Sequence[int]) -> tuple[bytes, str]:
        """(these rows packed without the data that all clients are supplied with, the file that holds these or "")."""
        part = launch.alone(rows)
        supplied = part.received[0].common.get("supplied")
        if supplied is None:
            return packed(part), ""
        if id(supplied) not in self._supplies:
            while len(self._supplies) >= len(launch.received):
                _remove(self._supplies.pop(next(iter(self._supplies)))[1])
            self._supplies[id(supplied)] = (supplied, _written(supplied))
        light = Tree(part.received[0])
        light["common"] = light.common.without(["supplied"])
        return packed(replace(part, received=[light])), self._supplies[id(supplied)][1]

    def _file_of(self, federation: Federation) -> str:
        """The file that the federation's samples are mapped from, written once."""
        if self._samples is None or self._samples[0]() is not federation.x:
            path = _filled("samples", lambda file: file.write(federation.x.contiguous().numpy().data))
            self._samples = (weakref.ref(federation.x), path)
            weakref.finalize(self, _remove, path)
        return self._samples[1]


class _Packer(cloudpickle.Pickler):
    """Tensors travel as arrays, for their own way of pickling writes an archive a tensor, ten times slower; code with the name of its
    file, which cloudpickle leaves out and messages want."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, CodeType):
            return marshal.loads, (marshal.dumps(value, 2),)  # a later format writes the same code in several ways
        if isinstance(value, torch.Tensor) and value.device.type == "cpu":
            return torch.from_numpy, (value.detach().numpy(),)
        return super().reducer_override(value)


def packed(value: Any) -> bytes:
    """`value` for another process of ours; nothing of it is ever written to a disk."""
    buffer = io.BytesIO()
    _Packer(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def _packed_as_loaded(value: Any) -> bytes:
    """`packed`, with classes and functions of the user's modules by their code: the workers would import what a file says by now, or
    what it said when they imported it first."""
    for module in own_modules.loaded():  # for good: two threads that each took it back would be in each other's way
        cloudpickle.register_pickle_by_value(module)
    try:
        return packed(value)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise UserError(
            f"the method cannot be sent to worker processes, take one worker (--workers 1): {error}"
        ) from None


def _written(tree: Tree) -> str:
    """A file of a tree's leaves as arrays, keyed by their paths."""
    arrays = {name: leaf.cpu().numpy() for name, leaf in tree.flat().items()}
    return _filled("supplied", lambda file: np.savez(file, **arrays))


def _filled(name: str, fill: Callable[[BinaryIO], Any]) -> str:
    """A new file for the workers with what `fill` writes; `RunFailed` where there is no room for it."""
    handle, path = tempfile.mkstemp(prefix=f"{name}-", dir=scratch())
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
    except OSError as error:
        _remove(path)
        raise RunFailed(
            f"the temporary folder {tempfile.gettempdir()} cannot hold what worker processes read: {error.strerror or error}; "
            "name another by $TMPDIR, or use one worker, which reads no file"
        ) from None
    return path


def _done(executor: Any, futures: Iterable[Future]) -> set[Future]:
    """Those that are done, as soon as there are some; a worker that somebody stopped is continued."""
    while True:
        done, _ = wait(futures, STOPPED_SECONDS, FIRST_COMPLETED)
        if done:
            return done
        for pid in wake_stopped(list(executor._processes)):
            log.warning("the worker process %d was stopped by somebody; it is continued", pid)


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)


def _remove_all(supplies: dict[int, tuple[Tree, str]]) -> None:
    for _, path in supplies.values():
        _remove(path)


def _without_samples(federation: Federation) -> Federation:
    light = object.__new__(type(federation))
    light.__dict__.update(federation.__dict__, x=federation.x[:0], proxy=None)
    return light


# ---- in the worker ---------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=2)
def _mapped(path: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    size = 1
    for side in shape:
        size *= side
    return torch.from_file(path, shared=True, size=size, dtype=dtype).view(shape)


@lru_cache(maxsize=4)
def _supplied(path: str) -> Tree:
    with np.load(path, allow_pickle=False) as arrays:
        return Tree.of_paths({name: torch.from_numpy(arrays[name]) for name in arrays.files})


_programs: dict[str, Any] = {}


def _some_rows(
    key: str,
    blob: bytes,
    place: tuple[str, tuple[int, ...], torch.dtype],
    packed_launch: bytes,
    supplied: str,
    shared: Shared | None,
    rows: Sequence[int],
) -> bytes:
    """Rows in a worker process, packed, or None for each that is written into the stack; the program is kept for the next ones."""
    torch.set_num_threads(1)
    keep_freed_memory()
    if key not in _programs:
        _programs.clear()
        work, program = pickle.loads(blob)
        program.federation.x = _mapped(*place)
        _programs[key] = (work, program)
    work, program = _programs[key]
    with torch.no_grad():
        launch = pickle.loads(packed_launch)
        if supplied:
            launch.received[0]["common"] = launch.received[0].common | Tree(supplied=_supplied(supplied))
        results = (work(program, launch, i) for i in range(len(launch)))
        return packed(
            [None if shared and written(shared, i, row) else row for i, row in zip(rows, results, strict=True)]
        )
