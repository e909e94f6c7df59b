"""Every data set, network and partition that a paper trains on, for two rounds: on stand-ins of the same shape, and on real data.

The list, and what is left of a setting in such a run, is in `paper_settings`. Real data: set PFLREPRO_DATA; what is not there is left
out.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pytest
import torch
from paper_settings import CASES, DECLARED, LARGE, OTHERS, Case

from pflrepro.data.arrays import Arrays, save_arrays
from pflrepro.data.corruptions import CORRUPTIONS
from pflrepro.data.datasets import DATASETS, load_arrays
from pflrepro.data.federation import Federation
from pflrepro.data.partition import partition
from pflrepro.data.partitions.parse import parse
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.data.shifts import pair_of
from pflrepro.errors import MissingData
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.loading import load_federation
from pflrepro.simulation import Simulation

DATA_ROOT = os.environ.get("PFLREPRO_DATA")
each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])

# ---- stand-ins ---------------------------------------------------------------------------------------------------------------
# rows of official training and test data; or how many groups, and samples of each
PLAIN = {
    "mnist": 400,
    "fmnist": 3000,
    "cifar10": 2000,
    "cifar100": 3000,
    "tiny-imagenet": 2400,
    "tiny-imagenet-110k": 1200,
}
TEST = 40
GROUPED = {
    "emnist": (12, 9),
    "femnist": (12, 9),
    "har": (30, 12),
    "har-interleaved": (30, 12),
    "mitbih": (46, 36),  # three of each class: a single one is not tested on
    "amazon": (4, 30),
    "amazon-labelled": (4, 30),
    "pacs": (4, 70),
    "digit5": (5, 400),
    "digit3": (3, 400),
}


def samples_like(spec: DatasetSpec, count: int) -> np.ndarray:
    """[count, ...] random samples of the type and range that the reader of the data set gives."""
    random = np.random.default_rng(0)
    if spec.name == "agnews":
        return random.integers(0, 98_635, (count, *spec.shape), dtype=np.int32)
    if spec.name in ("har", "har-interleaved", "mitbih"):
        return random.standard_normal((count, *spec.shape), dtype=np.float32)
    return random.integers(0, 256 if spec.shape != (5000,) else 3, (count, *spec.shape), dtype=np.uint8)


def stand_in(spec: DatasetSpec) -> Arrays:
    groups, each = GROUPED.get(spec.name, (0, 0))
    count = groups * each or PLAIN.get(spec.name, 2000) + TEST
    y = np.arange(count) % spec.classes
    split = np.repeat([0, 1], [count - TEST, TEST])
    if not groups:
        return Arrays(spec.name, samples_like(spec, count), y, split)
    return Arrays(spec.name, samples_like(spec, count), y, group=np.repeat(np.arange(groups), each) * 3 + 1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, DatasetSpec]]:
    """A data root with a stand-in of every set, and descriptions that agree about the number of samples."""
    root, described = tmp_path_factory.mktemp("stand-ins"), {}
    used = {case.setting.dataset for case in CASES}
    used |= set(filter(None, (dict(case.setting.protocol).get("proxy") for case in CASES)))
    for name in {DATASETS[each].stored_as for each in used}:
        arrays = stand_in(DATASETS[name])
        save_arrays(root / name / f"{name}.npz", arrays)
        train = len(arrays) - TEST
        for derived, spec in DATASETS.items():
            if spec.stored_as == name:
                sizes = {"samples": train if spec.part == "train" else len(arrays), "train_samples": train}
                described[derived] = replace(spec, fingerprint=None, odd=None, **sizes)
    return root, described


@pytest.fixture
def stand_ins(written: tuple[Path, dict[str, DatasetSpec]], monkeypatch: pytest.MonkeyPatch) -> Path:
    root, described = written
    for name, spec in described.items():
        monkeypatch.setitem(DATASETS, name, spec)
    photographs = [np.full((3, 40, 40), 200, np.uint8)]
    monkeypatch.setattr("pflrepro.data.shifts.frost_photographs", lambda root=None: photographs)
    return root


@pytest.fixture(scope="module")
def real_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with links to the real array caches, so that nothing is kept in the real one."""
    root = tmp_path_factory.mktemp("real")
    for cache in Path(DATA_ROOT).glob("*/*.npz"):
        if cache.stem == cache.parent.name:
            (root / cache.stem).mkdir()
            (root / cache.stem / cache.name).symlink_to(cache.resolve())
    if (photographs := Path(DATA_ROOT) / "frost").is_dir():
        (root / "frost").symlink_to(photographs.resolve())
    return root


def smaller(federation: Federation, samples: int) -> Federation:
    """The same clients with at most so many training and test samples each."""
    train, test = ([rows[:samples] for rows in federation.rows[side]] for side in ("train", "test"))
    facts = {"classes": federation.classes, "unit": federation.unit, "name": federation.name, "proxy": federation.proxy}
    return Federation(federation.x, federation.y, train, test, **facts)


def corrupted(federation: Federation, case: Case, root: str | Path) -> None:
    """Half of the clients see other images than the source's, all of them, under each of the ten corruptions."""
    source = torch.from_numpy(load_arrays(DATASETS[case.setting.dataset].source, root).x)
    half = federation.clients // 2
    for client in range(federation.clients):
        rows = np.concatenate([federation.rows[side][client] for side in ("train", "test")])
        changed = (federation.x[rows] != source[rows]).flatten(1).any(1)
        assert changed.all() if client < half else not changed.any()
    assignment = DATASETS[case.setting.dataset].shift.partition(":")[2]
    assert {pair_of(client, assignment)[0] for client in range(half)} == set(CORRUPTIONS)


def two_rounds(case: Case, experiment: Experiment, root: str | Path) -> None:
    _, samples, batch = case.amounts
    federation = smaller(load_federation(experiment.data, root), samples)
    spec = DATASETS[case.setting.dataset]
    assert federation.shape == spec.shape and federation.classes == spec.classes
    assert federation.clients == experiment.data.clients
    if case.meets_every_corruption:
        corrupted(federation, case, root)
    settings = experiment.settings
    # Batches of two real pictures under batch norm may diverge at the rate of whole ones, which is not the point here.
    few = {
        "local_epochs": 1,
        "lr": min(settings.lr, 0.01),
        "batch_size": batch,
        "local_steps": samples // batch if settings.local_steps else 0,
    }
    simulation = Simulation(
        experiment.method(), federation, experiment.model, replace(settings, **few), [0], backend="loop", workers=1
    )
    before = [leaf.clone() for leaf in simulation.replicas[0].server.params.leaves()]
    while not simulation.finished:
        simulation.step()
    after = list(simulation.replicas[0].server.params.leaves())
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True)), "nothing was trained"
    assert all(leaf.isfinite().all() for leaf in after)
    history = simulation.history(0)
    assert history["round"].tolist() == [0, 1, 2] and np.isfinite(history["loss"]).all()
    assert history["participated"][1:].any(1).all() and (history["correct"] <= history["test_samples"]).all()


def once_a_large_network() -> list[Any]:
    """The cases for `parametrize`: a network that takes seconds for a few images is tried once by `make test`."""
    first = {case.setting.model.partition("@")[0]: case for case in reversed(CASES)}
    large = [case for case in CASES if case.setting.model.startswith(LARGE) and case not in first.values()]
    return [pytest.param(case, id=case.name, marks=pytest.mark.variant if case in large else ()) for case in CASES]


@pytest.mark.parametrize("case", once_a_large_network())
def test_two_rounds_on_a_stand_in(case: Case, stand_ins: Path) -> None:
    two_rounds(case, case.small(stand_in=True), stand_ins)


@each_case
@pytest.mark.skipif(DATA_ROOT is None, reason="needs real data: set PFLREPRO_DATA")
def test_two_rounds_on_real_data(case: Case, real_root: Path) -> None:
    try:
        two_rounds(case, case.small(), real_root)
    except MissingData as error:
        pytest.skip(str(error))


# samples of each domain, where the number is published
DOMAINS = {
    "digit5": (21_438, 27_296, 9_298, 105_229, 21_438),
    "digit3": (21_438, 9_298, 21_039),
    "pacs": (2_048, 2_344, 1_670, 3_929),
}


@pytest.mark.parametrize(
    "case",
    [each for each in CASES if each.setting.dataset in DOMAINS or not parse(each.setting.partition).counted],
    ids=lambda case: case.name,
)
def test_the_partition_among_all_clients_exists_at_the_real_size(case: Case) -> None:
    """Labels alone, equally many of each class: every client gets the least size and has samples to train and to be tested on."""
    spec, data = DATASETS[case.setting.dataset], case.experiment().data
    labels = torch.arange(spec.samples) % spec.classes
    groups = None
    if spec.name in DOMAINS:
        groups = torch.arange(len(DOMAINS[spec.name])).repeat_interleave(torch.tensor(DOMAINS[spec.name]))
        assert len(groups) == spec.samples
    division = partition(
        *(data.partition, labels, data.clients, data.partition_seed),
        groups=groups,
        min_size=data.min_size,
        test_share=data.test_share,
    )
    assert division.clients == case.setting.clients
    assert all(len(part) for part in (*division.train, *division.test))
    if not (parse(data.partition).train_share < 1):
        assert min(division.sizes()) >= (
            parse(data.partition).default_min_size if data.min_size is None else data.min_size
        )


def test_no_setting_is_listed_twice() -> None:
    """The others are those that no artefact declares; what becomes declared leaves them."""
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) and len(CASES) > 90
    plain = {case.name for case in OTHERS if case.algorithm == "fedavg"}
    assert not plain & {case.name for case in DECLARED}
