"""One lock a run: whoever trains it holds it. The system frees it when its holder ends, however it ends.

Network file systems keep `flock` between machines; for one that says it has none, filelock puts a lock file in its place, which
names machine and process of its holder, and which it removes where that process is gone from this machine.
"""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

from pflrepro.errors import UserError


class RunLock:
    """The lock of one run, for one holder in one process at a time; a context manager once acquired."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path)

    def acquire(self, wait: bool = False) -> bool:
        """Whether the lock is held now; with `wait`, only after its present holder has let go. `UserError` if it cannot be made."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=-1 if wait else 0, poll_interval=0.2)
        except Timeout:
            return False
        except (OSError, NotImplementedError) as error:  # the latter of an older filelock, where there is no flock
            raise UserError(f"cannot lock {self.path}: {getattr(error, 'strerror', None) or error}") from None
        return True

    def release(self) -> None:
        self._lock.release()
