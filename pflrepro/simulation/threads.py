"""How many threads an operation on a CPU may use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def single_threaded(device: torch.device) -> Iterator[None]:
    """Within it, operations on a CPU use one thread; cores are shared out by whole clients (`pflrepro.simulation.workers`).

    The tensors of a round are small: two threads gain little on an idle machine, and beside other work each operation waits for
    the slower of them. Measured on two cores with some load, 20 clients of the digits, `batched`: 0.05 s a round with one
    thread, 4.0 s with two.
    """
    threads = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
