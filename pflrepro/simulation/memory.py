"""What memory there is, what a run keeps from round to round, and where that lies: on the device, in main memory, or in files.

A file is mapped into memory and has no name any more: the system writes pages out as it needs the room, and frees all of it when
the process ends, however it ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.task import Setup
from pflrepro.errors import UserError
from pflrepro.simulation.failing import tree_of
from pflrepro.simulation.program import buffer_places
from pflrepro.trees import Tree

# clients: what is kept grows with their number, or with the number of their pairs, which three points tell
TRIED = (2, 3, 4)
COPIES = 2  # of all that is kept: the old and the new one of a server, the one that is written as a checkpoint
SHARE = 0.75  # of free memory that may be taken before files are; the round needs the rest
GIB = 2**30
_MEMORY, _MOUNTS = Path("/proc/meminfo"), Path("/proc/self/mountinfo")
_GROUP_OF_US, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


# ---- how much there is -----------------------------------------------------------------------------------------------------
def free_memory(device: torch.device) -> int:
    """Bytes that can be had on a device; in main memory without swapping, and within what the process's control groups allow."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        line = next(line for line in _MEMORY.read_text().splitlines() if line.startswith("MemAvailable:"))
        free = 1024 * int(line.split()[1])
    except (OSError, StopIteration):
        known = hasattr(os, "sysconf")
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else 4 * GIB
    return min([free, *_left_in_groups()])


def _left_in_groups() -> list[int]:
    """Bytes that this process's control group and those around it may still take (version 2): SLURM and containers set them."""
    try:
        own = next(line for line in _GROUP_OF_US.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return []
    group, left = _GROUPS / own[3:].strip("/"), []
    while group.is_relative_to(_GROUPS):
        try:
            limit, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            # what was read from files is given up first
            left.append(int(limit) - int(used) + int(stat["inactive_file"]))
        except (OSError, ValueError, KeyError):  # "max", or not this group's to say
            pass
        group = group.parent
    return [max(0, each) for each in left]


def _free_on_disk(folder: Path) -> int:
    """Bytes that are free in a folder; 0 where it lies in memory itself."""
    try:
        number = folder.stat().st_dev
        own = f" {os.major(number)}:{os.minor(number)} "
        kinds = [line.partition(" - ")[2].split()[0] for line in _MOUNTS.read_text().splitlines() if own in line]
        return 0 if {"tmpfs", "ramfs"} & set(kinds) else shutil.disk_usage(folder).free
    except (OSError, IndexError):
        return 0


# ---- how much is kept ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Kept:
    """Bytes that outlive a round: the server's state, and that of all clients together."""

    server: int
    clients: int

    @classmethod
    def of(cls, method: Method, setup: Callable[[int], Setup], clients: int, statistics: str) -> Kept:
        """What one seed keeps of `clients` clients, from what it would keep of a few; `setup`: that of so many of them."""
        found = [cls._of_few(method, setup(few), statistics) for few in TRIED]
        return cls(*(extrapolated([getattr(each, name) for each in found], clients) for name in ("server", "clients")))

    @classmethod
    def _of_few(cls, method: Method, setup: Setup, statistics: str) -> Kept:
        _, own = buffer_places(method, dict(setup.parts), statistics)
        client = tree_of(method.init_client(setup, setup.info[0]), method, "init_client")
        server = tree_of(method.init_server(setup), method, "init_server")
        return cls(_bytes(server), setup.clients * (_bytes(client) + _bytes(own)))


def extrapolated(values: list[int], at: int) -> int:
    """The value at `at` of the polynomial that has these three at 2, 3 and 4, where it is of the second degree at most.

    Example:
        >>> extrapolated([5 + 3 * n + 7 * n * n for n in TRIED], 10_000) == 5 + 3 * 10_000 + 7 * 10_000**2
        True
    """
    first, second, third = values
    bend = third - 2 * second + first
    # of the third degree is a state of each client that grows with the number of pairs: nobody has one
    return first + (at - 2) * (second - first) + (at - 2) * (at - 3) // 2 * bend


def _bytes(tree: Tree) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in tree.leaves())


# ---- where it lies ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Place:
    """Where the clients' state lies: on a device, or mapped from files in a folder."""

    device: torch.device
    folder: Path | None = None

    def rows(self, row: Tree, count: int) -> Tree:
        """Room for `count` rows like `row`."""
        return row.map(lambda leaf: self.room((count, *leaf.shape), leaf.dtype))

    def room(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor of numbers that nobody has set; `UserError` where the folder has no room for it."""
        empty = torch.empty(0, dtype=dtype)
        size = int(np.prod(shape)) * empty.element_size()
        if self.folder is None or size == 0:
            return torch.empty(shape, dtype=dtype, device=self.device)
        try:
            with tempfile.TemporaryFile(prefix="pflrepro-", dir=self.folder) as file:
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here; later it ends the process
                return torch.from_numpy(np.memmap(file, empty.numpy().dtype, "r+", shape=shape))
        except OSError as error:
            raise UserError(
                f"the temporary folder {self.folder} cannot hold the {size / GIB:.1f} GiB that clients keep between rounds: "
                f"{error.strerror or error}; name another by $TMPDIR"
            ) from None

    def copied(self, leaf: Tensor) -> np.ndarray:
        """The numbers of `leaf` in an array of their own: in files too where it lies in files."""
        if self.folder is None:
            return np.array(leaf.detach().cpu().numpy())
        return self.room(tuple(leaf.shape), leaf.dtype).copy_(leaf).numpy()


def chosen_place(kept: Kept, seeds: int, device: torch.device, who: str) -> Place:
    """Where the state of clients lies, by its size: on the device, in main memory, or in files in the temporary folder.

    `UserError` that says how much there would have to be where no place is large enough.

    Args:
        who: the method and its clients, for that message.
    """
    server, clients = COPIES * seeds * kept.server, COPIES * seeds * kept.clients
    free, host, folder = free_memory(device), torch.device("cpu"), Path(tempfile.gettempdir())
    if server + clients <= SHARE * free:
        return Place(device)
    if server <= SHARE * free and device.type != "cpu" and clients <= SHARE * free_memory(host):
        return Place(host)
    room = _free_on_disk(folder)
    if server <= SHARE * free and clients <= room:
        return Place(host, folder)
    raise UserError(
        f"{who} would keep {server / GIB:.1f} GiB on the server and {clients / GIB:.1f} GiB at the clients"
        f"{f', {seeds} seeds side by side' if seeds > 1 else ''}, counting what a checkpoint needs; {free / GIB:.1f} GiB of memory are "
        f"free, and {room / GIB:.1f} GiB on disk in {folder} ($TMPDIR), which clients' state may take: "
        f"use fewer clients{', fewer seeds' if seeds > 1 else ''} or a smaller network"
    )
