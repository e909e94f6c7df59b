"""Where the clients' state lies: chosen by size, the same numbers everywhere, and refused before it is made where it has no room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import differing

from pflrepro.algorithms.apple import Apple
from pflrepro.algorithms.entries import ALGORITHMS
from pflrepro.algorithms.registry import build_method
from pflrepro.errors import UserError
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation, memory
from pflrepro.simulation import simulation as engine
from pflrepro.simulation.cost import CHEAPER, generated
from pflrepro.simulation.memory import GIB, Kept, Place, chosen_place

CPU = torch.device("cpu")


def bytes_of(*trees) -> int:
    return sum(leaf.numel() * leaf.element_size() for tree in trees for leaf in tree.leaves())


# ---- files ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["loop", "batched"])
@pytest.mark.parametrize("method", ["ditto", "scaffold", "moon", "fedfomo", "dann/fedbr"])
def test_state_in_files_is_the_same_to_the_bit(method, backend, start, tmp_path, monkeypatch, caplog):
    how = {"rounds": 4, "backend": backend, "participation": 0.6, "receivers": "selected", "seeds": [0, 1]}
    here = start(build_method(method), **how)
    monkeypatch.setattr(engine, "chosen_place", lambda *_: Place(CPU, tmp_path))
    there = start(build_method(method), **how)
    assert "lies in files in" in caplog.text
    for simulation in (here, there):
        simulation.step()
        simulation.step()
    resumed = start(build_method(method), **how)
    resumed.restore(there.state())
    for simulation in (here, there, resumed):
        while not simulation.finished:
            simulation.step()
    states = [simulation.state() for simulation in (here, there, resumed)]
    for state in states[1:]:
        for name in (name for name in state if "history/seconds" not in name):
            np.testing.assert_array_equal(state[name], states[0][name], err_msg=name)
    assert differing(there.history(1), here.history(1)) == []
    assert isinstance(there.replicas[0].clients.flat(), dict) and list(tmp_path.iterdir()) == [], "files have no names"


def test_statistics_in_files_are_the_same_to_the_bit(start, tmp_path, monkeypatch):
    how = {"model": "cnn-digits-bn", "statistics": "personal", "drop_last": True, "batch_size": 3}
    monkeypatch.setattr(engine, "chosen_place", lambda *_: Place(CPU))
    here = start(build_method("fedavg"), **how)
    monkeypatch.setattr(engine, "chosen_place", lambda *_: Place(CPU, tmp_path))
    there = start(build_method("fedavg"), **how)
    for simulation in (here, there):
        while not simulation.finished:
            simulation.step()
    assert there.replicas[0].kept.has_leaves()
    assert differing(there.history(0), here.history(0)) == []


def test_a_state_in_files_is_copied_to_files(tmp_path, monkeypatch):
    place = Place(CPU, tmp_path)
    leaf = place.room((3, 2), torch.float64).fill_(1.5)
    copy = place.copied(leaf)
    leaf.zero_()
    assert copy.dtype == np.float64 and (copy == 1.5).all()
    root = copy
    while isinstance(root, np.ndarray) and root.base is not None:
        root = root.base
    assert not isinstance(root, np.ndarray), "it is mapped"
    assert place.room((0, 3), torch.int64).shape == (0, 3)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(memory.os, "posix_fallocate", full)
    with pytest.raises(
        UserError, match=r"cannot hold the 0\.0 GiB .*No space left on device; name another by \$TMPDIR"
    ):
        place.room((3, 2), torch.float64)
    assert list(tmp_path.iterdir()) == []


def test_who_only_reads_the_state_of_everyone_gets_no_copy(start):
    simulation = start(build_method("local"))
    replica, dispatcher = simulation.replicas[0], simulation.dispatcher
    stored = next(replica.clients.leaves()).data_ptr()

    def gathered(ids, reading):
        states, _ = replica.states(dispatcher.participants(replica, np.array(ids), 0), reading)
        return next(states.leaves()).data_ptr()

    assert gathered([0, 1, 2, 3, 4], True) == stored
    assert stored not in (gathered([0, 1, 2, 3, 4], False), gathered([4, 1, 2, 3, 0], True), gathered([0, 1], True))


# ---- how much, and where --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", sorted(ALGORITHMS))
def test_what_is_foretold_is_what_is_kept(method, monkeypatch):
    foretold = []
    monkeypatch.setattr(engine, "chosen_place", lambda kept, *_: foretold.append(kept) or Place(CPU))
    federation = generated((8, 8), 9, train=4)
    settings = Settings(rounds=1, batch_size=2)
    (replica,) = Simulation(
        build_method(method, CHEAPER.get(method)), federation, "mlp", settings, [0], backend="loop", workers=1
    ).replicas
    assert foretold == [Kept(bytes_of(replica.server), bytes_of(replica.clients, replica.kept))]


@pytest.mark.parametrize(
    ("server", "clients", "seeds", "chosen"),
    [(1, 10, 1, "memory"), (1, 40, 1, "files"), (1, 10, 4, "files"), (1, 90, 1, ""), (9, 9, 3, ""), (30, 0, 1, "")],
)
def test_the_place_is_chosen_by_size(server, clients, seeds, chosen, tmp_path, monkeypatch):
    monkeypatch.setattr(memory.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(memory, "free_memory", lambda device: 40 * GIB)
    monkeypatch.setattr(memory, "_free_on_disk", lambda folder: 100 * GIB if folder == tmp_path else 0)
    kept = Kept(server * GIB, clients * GIB)
    if chosen:
        assert chosen_place(kept, seeds, CPU, "M") == Place(CPU, tmp_path if chosen == "files" else None)
        return
    with pytest.raises(UserError) as error:
        chosen_place(kept, seeds, CPU, "M with 9 clients")
    told = str(error.value)
    assert told.startswith(
        f"M with 9 clients would keep {2.0 * seeds * server} GiB on the server and {2.0 * seeds * clients} GiB at"
    )
    assert "40.0 GiB of memory are free, and 100.0 GiB on disk" in told and "\n" not in told
    assert ("fewer seeds" in told) == (seeds > 1)


def test_methods_of_pairs_are_refused_before_anything_of_their_size_is_made(monkeypatch):
    clients, made = 10_000, []
    federation = generated((8, 8), clients, train=2)
    monkeypatch.setattr(memory, "free_memory", lambda device: GIB)
    init = Apple.init_server
    monkeypatch.setattr(Apple, "init_server", lambda self, setup: made.append(setup.clients) or init(self, setup))
    settings = Settings(rounds=1, batch_size=2, participation=0.01, receivers="selected")
    monkeypatch.setattr(memory, "_free_on_disk", lambda folder: 0)
    with pytest.raises(
        UserError, match=r"Apple with 10,000 clients and mlp would keep 0\.\d GiB on the server and 0\.7 GiB at the"
    ):
        Simulation(Apple(), federation, "mlp", settings, [0], backend="loop", workers=1)
    assert made == [2, 3, 4]


# ---- what there is --------------------------------------------------------------------------------------------------------
def test_free_memory_is_what_the_control_groups_leave(tmp_path, monkeypatch):
    own = tmp_path / "slurm" / "job"
    own.mkdir(parents=True)
    (tmp_path / "group").write_text("0::/slurm/job\n")
    (tmp_path / "meminfo").write_text("MemTotal: 64 kB\nMemAvailable:   48 kB\n")
    for name in ("_GROUP_OF_US", "_GROUPS", "_MEMORY"):
        monkeypatch.setattr(memory, name, tmp_path / {"_GROUPS": "", "_MEMORY": "meminfo"}.get(name, "group"))
    assert memory.free_memory(CPU) == 48 * 1024

    def limited(folder: Path, limit: str) -> int:
        for name, text in (("max", limit), ("current", "30000"), ("stat", "anon 5\ninactive_file 2000\n")):
            (folder / f"memory.{name}").write_text(text)
        return memory.free_memory(CPU)

    assert limited(own, "40000\n") == 12_000
    assert limited(own, "max\n") == 48 * 1024
    assert limited(own.parent, "31000\n") == 3000
    assert limited(own.parent, "20000\n") == 0


def test_a_folder_in_memory_is_no_disk(tmp_path, monkeypatch):
    number = tmp_path.stat().st_dev
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(memory, "_MOUNTS", mounts)
    line = f"36 35 {os.major(number)}:{os.minor(number)} / / rw - {{}} none rw\n"
    mounts.write_text(line.format("ext4"))
    assert memory._free_on_disk(tmp_path) > 0
    mounts.write_text(line.format("tmpfs"))
    assert memory._free_on_disk(tmp_path) == 0 == memory._free_on_disk(tmp_path / "nowhere")
