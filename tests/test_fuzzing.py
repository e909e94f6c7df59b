"""Random input: configurations, run folders, caches, partition files, notebook parameters, command lines.

One line in answer, nothing written outside; of a damaged file what it held, or nothing.

How many cases: HYPOTHESIS_PROFILE=faults takes many (`make test-faults`); docs/reliability.md has the counts of the last long run.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from helpers import differing
from helpers.runs import put
from hypothesis import given
from hypothesis import strategies as st

from pflrepro import cli
from pflrepro.data.arrays import Arrays, read_arrays, save_arrays
from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.listing import listed
from pflrepro.experiments.loading import load_federation
from pflrepro.experiments.runs import COLUMNS
from pflrepro.experiments.store import Store
from pflrepro.papers import notebooks, timing
from pflrepro.remembered import read_cache, remembered, write_cache

pytestmark = pytest.mark.slow
VALID = Experiment.for_dataset("fedavg+dbe", "digits", options={"kappa": 5}.items(), clients=5, rounds=4).to_dict()
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["auto", "a\0b", "../..", "~no"]),
)
VALUES = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value, path=()) -> Iterator[tuple]:
    """The paths of all entries of nested objects."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield (*path, name)
        yield from places(inner, (*path, name))


@contextlib.contextmanager
def nothing_outside(folder: Path) -> Iterator[None]:
    """Within it `folder` is where we are, and nothing else in it may appear but in `inside`."""
    before, here = set(folder.iterdir()), Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
    assert set(folder.iterdir()) == before, "something was written outside of the roots"


@given(st.sampled_from([*places(VALID), ("data", "new"), ("new",)]), VALUES)
def test_configurations(path: tuple, value) -> None:
    described = json.loads(json.dumps(VALID))
    place = described
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    for recorded in (None, {}):
        try:
            experiment = Experiment.from_dict(described, recorded=recorded)
        except UserError as error:
            assert str(error) and "\n" not in str(error)
        else:
            assert isinstance(experiment.canonical(), str)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Store:
    """A finished run with a state and a reading."""
    from pflrepro.experiments.checkpoint import Checkpoint
    from pflrepro.experiments.readings import Question

    store = Store(tmp_path_factory.mktemp("whole"), behind=tmp_path_factory.mktemp("behind"))
    made = put(store, Experiment.for_dataset("fedavg", "digits", clients=5, rounds=4), 10, 20, 30, 40, 50)
    store.keep_state(made.id, Checkpoint(4, {"x": np.arange(3)}, []))
    store.reading(made, Question("points", 4), lambda: {"x": np.arange(3)})
    return store


KINDS = st.sampled_from(["cut", "flip", "over", "into", "all"])


def damaged(content: bytes, kind: str, place: float, with_: bytes) -> bytes:
    at = int(place * len(content))
    if kind == "cut":
        return content[:at]
    if kind == "flip":
        return (
            content[:at] + bytes([content[at] ^ 1 << len(with_) % 8]) + content[at + 1 :]
            if at < len(content)
            else content
        )
    return content[:at] + with_ + content[at + (len(with_) if kind == "over" else 0) :] if kind != "all" else with_


def drawn_damage(data, content: bytes) -> bytes:
    return damaged(content, data.draw(KINDS), data.draw(st.floats(0, 1)), data.draw(st.binary(max_size=20)))


@given(st.data())
def test_run_folders(whole: Store, data) -> None:
    """A damaged file is noticed, or harmless: what is read is the run that was written."""
    (run,) = whole.runs()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        store = Store(shutil.copytree(whole.root, Path(folder) / "store"), behind=whole.behind)
        files = sorted(path for path in store.folder(run.id).rglob("*") if path.is_file())
        path = data.draw(st.sampled_from(files))
        path.write_bytes(drawn_damage(data, path.read_bytes()))
        if data.draw(st.booleans()):
            monkeypatch.setattr("pflrepro.experiments.files.MAPPED", 140)  # as arrays that are too large to be read
        store.health()
        store.states(run.id)
        store.state(run.id, 4)
        found = store.get(run.id)
        if found is not None:
            store.readings(found)
            assert differing(found.history, run.history) == []
        assert {path.name.split(".")[0] for path in (store.root / "runs").iterdir()} == {run.id}
        assert sorted(os.listdir(folder)) == ["store"]


@given(st.data())
def test_remembered_values(data) -> None:
    """A damaged cache gives what was kept, or has it worked out again; then it is whole."""
    with tempfile.TemporaryDirectory() as folder, nothing_outside(Path(folder)):
        place = Path(folder) / "cache.json"
        values = {"a": {"step": 0.1, "test": 12345.678}, "b": "0f" * 32}
        for key, value in values.items():
            remembered(place, key, lambda value=value: value, lambda found: False)
        place.write_bytes(drawn_damage(data, place.read_bytes()))
        for key, value in values.items():
            assert remembered(place, key, lambda value=value: value, lambda found: found is not None) == value
        assert {key: read_cache(place).get(key) for key in values} == values
        place.unlink()


TIMED = "mlp 8x8 10 classes, batch 10"
FOREIGN = (
    VALUES
    | st.fixed_dictionaries({"client": VALUES, "step": VALUES, "test": VALUES})
    | st.builds(lambda v: {"x": [v] * 20}, VALUES)
)


@given(FOREIGN, st.sampled_from(["", "sha256", "content", TIMED]), st.booleans())
def test_caches_of_another_kind(whole: Store, value, name: str, summed: bool) -> None:
    """What is no timing and no line of the table is not taken for one, whoever wrote it."""
    experiment = Experiment.for_dataset("fedavg", "digits", clients=5, rounds=4, model="mlp")
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(timing, "measured") as measured:
        measured.return_value = timing.Timing(0.125, 0.5, 0.25)
        root = Path(shutil.copytree(whole.root, Path(folder) / "store"))
        (id,) = (run.id for run in whole.runs())
        contents = {
            "timings.json": {name: value} if name else value,
            "listing.json": {"columns": list(COLUMNS), "runs": {id: value} if name else value},
        }
        for file, content in contents.items():
            if summed and isinstance(content, dict):
                write_cache(root / file, content)
            else:
                (root / file).write_text(json.dumps(content))
        found = timing.Timings(root).of(experiment)
        assert all(isinstance(each, float) and 0 <= each < math.inf for each in (found.client, found.step, found.test))
        assert found == measured.return_value or value == vars(found)
        assert listed(root)["id"].tolist() == [id]


def raw_member(descr: str, shape: str, body: bytes) -> bytes:
    """An array as numpy writes it into an archive, whatever its header says."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode("latin1", "replace")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


DESCRS = [
    "'<i8'",
    "'|O'",
    "'<U3'",
    "[('a', '<i8')]",
    "'V8'",
    "'<M8[s]'",
    "'<c16'",
    "'|u1'",
    "'>f4'",
    "'",
    "(",
    "None",
    "'<i8' * 9",
]
SHAPES = [
    "(3,)",
    "(3, 2)",
    "(-1,)",
    "()",
    "(0,)",
    "(1000000000000000000,)",
    "(2,) * 99",
    "3",
    "(True, 1)",
    "(3, 2",
    "(" * 99,
]
MEMBERS = st.one_of(
    st.builds(
        raw_member, st.sampled_from(DESCRS) | st.text(max_size=8), st.sampled_from(SHAPES), st.binary(max_size=64)
    ),
    st.binary(max_size=40),
)


@given(st.data())
def test_prepared_data_sets(data) -> None:
    """A file that is damaged or foreign is refused in one line, or gives the samples that were written."""
    with tempfile.TemporaryDirectory() as folder, nothing_outside(Path(folder)):
        path = Path(folder) / "some.npz"
        drawn = np.random.default_rng(0)
        made = Arrays("some", drawn.integers(0, 256, (6, 2, 2), np.uint8), np.arange(6) % 3, group=np.arange(6) // 2)
        save_arrays(path, made)
        foreign = data.draw(st.booleans())
        if foreign:
            how = data.draw(
                st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
            )
            with zipfile.ZipFile(path, "w", how) as archive:
                for name in data.draw(st.sets(st.sampled_from(["x", "y", "split", "group", "classes", "../x"]))) | {
                    "x",
                    "y",
                }:
                    archive.writestr(f"{name}.npy", data.draw(MEMBERS))
        if not foreign or data.draw(st.booleans()):
            path.write_bytes(drawn_damage(data, path.read_bytes()))
        try:
            found = read_arrays(path)
        except CorruptFile as error:
            assert str(error) and "\n" not in str(error)
        else:
            assert foreign or found.fingerprint() == made.fingerprint()
        path.unlink()


@given(st.data())
def test_partition_files(data) -> None:
    number = st.one_of(st.integers(-3, 20), st.integers(), st.floats()).map(str) | st.text(
        "01239,;\"'- \0é\r", max_size=5
    )
    header = data.draw(
        st.sampled_from(["client,label,count", "client,label", "", "client,class,n", "\ufeffclient,label,count"])
    )
    rows = data.draw(st.lists(st.lists(number, min_size=2, max_size=4).map(",".join), max_size=8))
    arrays = st.sampled_from(
        [np.arange(1797) % 5, np.zeros(1797, bool), np.zeros(3), np.array("a"), np.full(1797, -1), np.arange(1797.0)]
    )
    with tempfile.TemporaryDirectory() as folder, nothing_outside(Path(folder)):
        kind = data.draw(st.sampled_from(["counts:p.csv", "file:p.npz"]))
        path, before = Path(folder) / kind.split(":")[1], os.umask(0o022)
        os.umask(before)
        if kind == "file:p.npz":
            np.savez(path, client=data.draw(arrays), is_test=data.draw(arrays))
            cut = data.draw(st.none() | st.floats(0, 1))
            path.write_bytes(path.read_bytes() if cut is None else damaged(path.read_bytes(), "cut", cut, b""))
        else:
            path.write_bytes("\n".join([header, *rows]).encode())
        try:
            kind = kind.replace("p.", f"{folder}/p.")
            experiment = Experiment.for_dataset(
                "fedavg", "digits", partition=kind, clients=data.draw(st.integers(1, 6))
            )
            load_federation(experiment.data)
        except UserError as error:
            assert str(error) and "\n" not in str(error)
        path.unlink(missing_ok=True)


NAMES = st.sampled_from(["seeds", "methods", "scale", "also", "backend", "store", "out", "x"])


@given(st.dictionaries(NAMES, st.text(), max_size=3), VALUES)
def test_notebook_parameters(pairs: dict[str, str], value) -> None:
    for read in (
        lambda: notebooks.read_values("demo/digits.ipynb", pairs),
        lambda: notebooks.check_parameters("demo/digits.ipynb", dict.fromkeys(pairs, value)),
    ):
        try:
            read()
        except UserError as error:
            assert str(error) and "\n" not in str(error)


VERBS = "list show store prune merge data get verify score plan doctor reproduce run bench"
OPTIONS = """--json --store --data-root --dry-run --states --runs --older-than --keep-under --launcher --scale --seeds --methods --all
--set --algorithm --dataset --rounds --lr --partition -- -h --version"""
GIVEN = (
    "digits mnist demo/digits dbe smoke fast fedavg fedavg+dbe 0 -1 1e9 nan inf 30d 5GB dask: slurm:x seeds=x =x a,b ,"
)
WORDS = st.sampled_from([*VERBS.split(), *OPTIONS.split(), *GIVEN.split()]) | st.text(max_size=6)


@given(st.lists(WORDS, max_size=7))
def test_command_lines(words: list[str]) -> None:
    """Any words but those that would train, download or take long: an answer, or one line and exit code 2."""
    if {"run", "bench", "reproduce", "verify", "get"} & set(words):
        words = [*words, "--no-such-option"]
    with tempfile.TemporaryDirectory() as folder, nothing_outside(Path(folder)):
        out, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
            try:
                code = cli.main(words)
            except SystemExit as left:  # --help and --version
                code = left.code
        assert code in (0, 1, 2), (words, code)
        assert "Traceback" not in told.getvalue()
        if code == 2:
            assert told.getvalue().startswith("pflrepro: error: ") or "error: " in told.getvalue(), told.getvalue()
            assert out.getvalue() == ""
