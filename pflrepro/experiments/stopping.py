"""A process that is asked to end while it trains saves how far it is, and ends with a code of its own.

Schedulers send SIGTERM some seconds before they kill; a closed session sends SIGHUP. While a run is trained the round at hand is
finished and every seed's state written; elsewhere nothing would be lost, and the process ends at once. Who asks twice does not want to
wait: the second signal does what it does by default. Signals that the program around us handles, or ignores, are left to it.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pflrepro.errors import Stopped

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
GOES_ON = "is in the store, and the same call goes on there"
log = logging.getLogger("pflrepro.run")


class Stopping:
    """asked: the name of the signal that came while something was to be saved first, else ""."""

    def __init__(self) -> None:
        self.asked = ""
        self._to_save = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """What is done when a signal comes."""
        signal.signal(number, signal.SIG_DFL)
        self.asked = signal.Signals(number).name
        if not self._to_save:
            self.end()

    def end(self) -> None:
        """Raise `Stopped`, after a word."""
        log.warning("stopped by %s: what was trained %s", self.asked, GOES_ON)
        raise Stopped

    @contextmanager
    def saving_first(self) -> Iterator[Stopping]:
        """Within it the caller looks at `asked`, saves, and leaves; behind it the process ends if that was asked for."""
        self._to_save = True
        try:
            yield self
        finally:
            self._to_save = False
        if self.asked:
            self.end()


stopping = Stopping()


@contextmanager
def listening() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP are `stopping`'s, in the main thread, where nobody else handles or ignores them."""
    main = threading.current_thread() is threading.main_thread()
    taken = [each for each in SIGNALS if main and signal.getsignal(each) is signal.SIG_DFL]
    for each in taken:
        signal.signal(each, stopping.note)
    try:
        yield
    except KeyboardInterrupt as interrupt:  # ends the round at hand as well, unlike these signals
        interrupt.args = interrupt.args or (f"what was trained up to the last checkpoint {GOES_ON}",)
        raise
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
        if taken:
            stopping.asked = ""


@contextmanager
def saved_first_in_a_job() -> Iterator[None]:
    """Within it, in a job of submitit's, the signal ahead of a time limit waits until the round at hand is done and saved.

    Then submitit's own handler puts the job into the queue again. Else the round would be lost, and up to an interval of checkpoints.
    """
    name = "SIG" + os.environ.get("SUBMITIT_PREEMPT_SIGNAL", "USR2")  # submitit's names
    number = getattr(signal, name, None) if "SUBMITIT_EXECUTOR" in os.environ else None
    handler = None if number is None else signal.getsignal(number)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        stopping.note(number, frame)

    signal.signal(number, note)
    try:
        yield
    except Stopped:
        if came:
            handler(number, None)
        raise
    finally:
        signal.signal(number, handler)
        stopping.asked = ""
