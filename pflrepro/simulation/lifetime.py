"""Worker processes end with the process that started them, whatever ends it, and leave nothing in the temporary folder.

A process that is killed runs no code of its own any more. So each worker looks whether its parent is still there, and when it is
gone removes the parent's folder of samples and ends; the semaphores between them are removed by loky's tracker, which ends after
the workers. Where all of them are killed at once, the folder is removed by the next process that needs one.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

LOOK_EVERY = 0.5  # seconds between a worker's looks for its parent
GRACE = 60  # seconds that a folder is given to be locked by the process that makes it
PREFIX, LOCK = "pflrepro-workers-", "lock"
# What a terminal, a scheduler or a closed session sends to a whole group of processes: the parent decides what becomes of the workers.
_SENT = (
    "SIGINT",
    "SIGTERM",
    "SIGHUP",
    "SIGUSR1",
    "SIGUSR2",
)  # SLURM announces a time limit by one of the last two, or by another
FOR_THE_PARENT = tuple(getattr(signal, name) for name in _SENT if hasattr(signal, name))


# ---- in the parent ---------------------------------------------------------------------------------------------------------
def scratch() -> Path:
    """This process's folder for what its workers map; it is removed when the process ends, however it ends."""
    return _folder_of(os.getpid())


@cache
def _folder_of(process: int) -> Path:
    remove_left_behind()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = FileLock(folder / LOCK)
    lock.acquire()
    atexit.register(_remove, folder, lock, process)
    return folder


def _remove(folder: Path, lock: FileLock, process: int) -> None:
    if os.getpid() == process:  # not in a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def remove_left_behind() -> None:
    """Remove the folders of processes that are gone: nobody holds their locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError, Timeout):
            stat = folder.stat()
            if stat.st_uid != os.getuid() or time.time() - stat.st_mtime < GRACE:
                continue
            with FileLock(folder / LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shielded() -> Iterator[None]:
    """Processes that are started meanwhile do not take part in what is sent to the group, from their first instruction on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_PARENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def wake_stopped(pids: list[int]) -> list[int]:
    """Continue those of our child processes that somebody stopped: whoever waits for their answers would wait for ever."""
    woken = []
    for pid in pids if hasattr(os, "waitid") else ():
        with suppress(ChildProcessError, ProcessLookupError):
            if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None:
                os.kill(pid, signal.SIGCONT)
                woken.append(pid)
    return woken


# ---- in the worker ---------------------------------------------------------------------------------------------------------
@cache  # once a process
def follow(parent: int, folder: str = "") -> None:
    """End this worker process when `parent` is gone, and remove its `folder`; leave the signals to a group to the parent."""
    for each in FOR_THE_PARENT:
        signal.signal(each, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent, folder), daemon=True).start()


def _watch(parent: int, folder: str) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
