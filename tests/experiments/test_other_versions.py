"""Runs and checkpoints of another version of the package: read where they are ours, else left alone and said."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from pflrepro.errors import OtherVersion
from pflrepro.experiments.files import read_json
from pflrepro.experiments.identity import identity_digest
from pflrepro.experiments.pruning import prune
from pflrepro.experiments.run import run


@pytest.mark.parametrize("part", ["settings", "data", ""])
def test_a_run_of_another_version_is_read_or_left_alone(part, finished, store, make):
    """A setting that only the other version has: at its default it is in no identity, and the run is ours; else it is not."""

    def written(change) -> str:
        described = json.loads((finished.folder / "config.json").read_text())
        inner = described["experiment"][part] if part else described["experiment"]
        change(described, inner)
        id = identity_digest(described["identity"])
        if id != finished.id:
            shutil.copytree(finished.folder, store.folder(id))
        text = json.dumps(described).encode()
        (store.folder(id) / "config.json").write_bytes(text)
        done = read_json(store.folder(id) / "done") | {"id": id}
        done["files"]["config.json"] = hashlib.sha256(text).hexdigest()
        (store.folder(id) / "done").write_text(json.dumps(done))
        return id

    def newer(described, inner):
        inner["clip"] = 0.0

    def other(described, inner):
        inner["clip"] = 1.0
        (described["identity"][part] if part else described["identity"])["clip"] = 1.0

    def older(described, inner):
        del inner["clip"], inner[{"settings": "closing", "data": "proxy", "": "dtype"}[part]]

    assert written(newer) == finished.id
    assert store.find(make.experiment()).experiment == finished.experiment
    id = written(other)
    assert store.health()[2] == [f"run {id}: its clip is not known to this version of pflrepro"]
    with pytest.raises(OtherVersion, match="clip"):
        store.get(id)
    assert store.folder(id).is_dir() and not prune(store)
    shutil.rmtree(store.folder(id))
    assert written(older) == finished.id
    assert store.find(make.experiment()).experiment == finished.experiment


def test_a_file_of_another_format_is_left_alone(finished, store, make, fake):
    text = (finished.folder / "config.json").read_text()
    (finished.folder / "config.json").write_text(text.replace('"format": 2', '"format": 3'))
    done = read_json(finished.folder / "done")
    done["files"]["config.json"] = hashlib.sha256((finished.folder / "config.json").read_bytes()).hexdigest()
    (finished.folder / "done").write_text(json.dumps(done))
    for work in (lambda: store.find(make.experiment()), lambda: run(make.experiment(), store=store, progress=False)):
        with pytest.raises(OtherVersion, match=r"another version of pflrepro .its folder has format 3, here it is 2"):
            work()
    assert finished.folder.is_dir()


def test_a_checkpoint_of_another_format_is_left_alone(store, make, fake, monkeypatch):
    monkeypatch.setattr("pflrepro.experiments.checkpoint.FORMAT", 9)
    made = run(make.experiment(), store=store, simulate=fake, progress=False)
    monkeypatch.undo()
    with pytest.raises(OtherVersion, match=r"state-4.npz of run .* .format 9, here 1"):
        run(make.experiment(rounds=8), store=store, simulate=fake, progress=False)
    assert list(store.states(made.id)) == [4]
