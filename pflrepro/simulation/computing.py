"""How operations are computed while something is trained or tested, whatever the program around has set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def computing(device: torch.device) -> Iterator[None]:
    """Within it, operations on a CPU use one thread, and convolutions on a GPU are computed in the precision of their numbers.

    Cores are shared out by whole clients (`pflrepro.simulation.workers`). The tensors of a round are small: two threads gain little
    on an idle machine, and beside other work each operation waits for the slower of them. Measured on two cores with some load, 20
    clients of the digits, `batched`: 0.05 s a round with one thread, 4.0 s with two.

    PyTorch lets cuDNN round what it convolves to the ten bits of TF32: entries of one gradient of CNN4, taken in two ways, differed
    by up to 0.004 on an H100. That is more than rounding, and a GPU would not go on where a CPU stopped.

    The GPU is made the current one: streams and captured graphs are of that, even where all tensors lie on another (cuda:1).
    """
    current = torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
    with current, _one_thread() if device.type == "cpu" else _unrounded_convolutions():
        yield


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def _unrounded_convolutions() -> Iterator[None]:
    rounded = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = rounded
