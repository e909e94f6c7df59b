"""Worker processes never outlive their parent, and nothing of it stays in the temporary folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from filelock import FileLock
from loky import get_reusable_executor

from pflrepro.simulation import lifetime, workers

# A process with two workers that are busy for longer than any test, one file for them, and a word when all are at work.
PARENT = """
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup`, and a script in the background, leave these ignored in what they start
signal.signal(signal.SIGINT, signal.default_int_handler)
from loky import get_reusable_executor
from pflrepro.simulation.lifetime import follow, scratch, shielded

(scratch() / "samples").write_bytes(bytes(1000))
with shielded():
    executor = get_reusable_executor(max_workers=2, initializer=follow, initargs=(os.getpid(), str(scratch())))
    pids = set()
    while len(pids) < 2:  # a future is called running when it is handed out, a worker only when it has answered
        jobs = [executor.submit(time.sleep, 0.02) for _ in range(4)] + [executor.submit(os.getpid) for _ in range(8)]
        pids |= {job.result() for job in jobs} - {None}
    busy = [executor.submit(time.sleep, 600) for _ in range(2)]
while len(executor._processes) < 2 or not all(future.running() for future in busy):
    time.sleep(0.01)
try:
    print(scratch(), *executor._processes, flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    executor.shutdown(wait=True, kill_workers=True)
    sys.exit(130)
"""


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[tuple[subprocess.Popen, Path, list[int]]]:
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(
        command, env=environment, text=True, stdout=-1, stderr=-1, cwd=tmp_path, start_new_session=True
    ) as process:
        try:
            folder, *pids = process.stdout.readline().split()
            assert folder.startswith(str(tmp_path)) and len(pids) == 2
            yield process, Path(folder), [int(pid) for pid in pids]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def in_time(condition: Callable[[], bool]) -> bool:
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.05)
    return False


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_workers_end_with_their_parent_and_its_folder_goes(parent, end: str) -> None:
    process, folder, pids = parent
    assert (folder / "samples").exists() and all(map(alive, pids))
    process.send_signal(getattr(signal, end))
    assert process.wait(30) == -getattr(signal, end)
    assert in_time(lambda: not any(map(alive, pids))), "no worker outlives its parent"
    assert in_time(lambda: not folder.exists())


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_an_interrupt_of_the_group_is_the_parent_s_alone(parent) -> None:
    process, folder, pids = parent
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    assert "Traceback" not in process.stderr.read()
    assert not any(map(alive, pids)) and not folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_leave_the_announcement_of_a_time_limit_to_their_parent(parent) -> None:
    _, _, pids = parent
    for pid in pids:
        os.kill(pid, signal.SIGUSR2)
    time.sleep(0.2)  # by then it would have ended them
    assert all(map(alive, pids))


def test_what_a_killed_group_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetime.tempfile, "tempdir", str(tmp_path))
    left, used, young = (tmp_path / f"{lifetime.PREFIX}{name}" for name in ("left", "used", "young"))
    for folder in (left, used, young):
        folder.mkdir()
        (folder / "samples").write_bytes(b"0")
    other = tmp_path / "another-left"
    other.mkdir()
    with FileLock(used / lifetime.LOCK):
        for folder in (left, used, other):
            os.utime(folder, (1, 1))
        lifetime.remove_left_behind()
    assert [left.exists(), used.exists(), young.exists(), other.exists()] == [False, True, True, True]


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs waitid")
def test_a_worker_that_somebody_stopped_is_continued(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr(workers, "STOPPED_SECONDS", 0.1)
    executor = get_reusable_executor(max_workers=1)
    stopped = executor.submit(signal.raise_signal, signal.SIGSTOP)
    left = {stopped, executor.submit(int, "7")}
    while left:
        left -= workers._done(executor, left)
    assert stopped.result() is None
    assert "was stopped by somebody; it is continued" in caplog.text


def test_a_full_temporary_folder_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(workers, "scratch", lambda: tmp_path)

    def fill(file) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(
        workers.RunFailed, match=r"the temporary folder .* cannot hold .*: No space left on device; name "
    ):
        workers._filled("samples", fill)
    assert list(tmp_path.iterdir()) == []
