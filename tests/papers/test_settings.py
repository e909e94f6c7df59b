"""Every data set, network and partition that a paper trains on, for two rounds: on stand-ins of the same shape, and on real data.

`SETTINGS` is the list, with the papers' own numbers of clients. A run keeps all of a setting but the amount: a few clients of the
partition, a few of their samples, small batches and few steps. Real data: set PFLREPRO_DATA; what is not there is left out.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pflrepro.data.arrays import Arrays, save_arrays
from pflrepro.data.datasets import DATASETS
from pflrepro.data.federation import Federation
from pflrepro.data.partition import partition
from pflrepro.data.sets.types import DatasetSpec, pfedfda
from pflrepro.data.specs import parse
from pflrepro.errors import MissingData
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.identity import load_federation
from pflrepro.papers import ARTEFACTS
from pflrepro.simulation import Simulation

DATA_ROOT = os.environ.get("PFLREPRO_DATA")
# clients, training and test samples of each, samples a step; fewer of them for the networks that take a second for a few images
AMOUNTS, LARGE_AMOUNTS = (3, 8, 4), (2, 2, 2)
LARGE = ("vgg11", "cct-7-3x1", "resnet18", "pfedfda-resnet18")


@dataclass(frozen=True)
class Setting:
    """What the tables `used_in` train.

    changes: further fields of the experiment, where they differ from the data set's preset. cut: by what there are fewer clients
    among the stand-ins. algorithm, options: where the setting takes another method than FedAvg.
    """

    used_in: str
    dataset: str
    model: str
    partition: str
    clients: int
    changes: tuple[tuple[str, Any], ...] = ()
    cut: int = 1
    algorithm: str = "fedavg"
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        more = ",".join(f"{key}={value}" for key, value in self.changes if value not in (FDA.get(key), GRP.get(key)))
        return "-".join(
            filter(None, (self.dataset, self.model, self.partition, str(self.clients), self.algorithm, more))
        )

    @property
    def amounts(self) -> tuple[int, int, int]:
        return LARGE_AMOUNTS if self.model.startswith(LARGE) else AMOUNTS

    def experiment(self, **fixed: Any) -> Experiment:
        """Two rounds with all clients."""
        own = {"partition": self.partition, "clients": self.clients, "model": self.model, "rounds": 2}
        changes = dict(self.changes) | own | fixed
        return Experiment.for_dataset(self.algorithm, self.dataset, options=self.options, **changes)

    def small(self, cut: int = 1) -> Experiment:
        """The same with a few clients of the partition, among a `cut`-th of the paper's clients."""
        spec = parse(self.partition)
        if spec.choice:
            chosen = replace(spec, total=spec.total and spec.total // cut)
        else:
            total = None if spec.counted else self.clients // cut
            chosen = replace(spec, choice="first-of", total=total)
        return self.experiment(partition=str(chosen), clients=min(self.amounts[0], self.clients // cut))


def row(used_in: str, dataset: str, model: str, partition: str, clients: int, cut: int = 1, **changes: Any) -> Setting:
    own = {key: changes.pop(key) for key in ("algorithm", "options") if key in changes}
    return Setting(used_in, dataset, model, partition, clients, tuple(changes.items()), cut, **own)


# ---- DBE and GPFL: 20 clients, batch 10, one epoch ---------------------------------------------------------------------------
LIB = (
    row("DBE 5; GPFL 1", "fmnist", "cnn4", "pfllib-pathological:2", 20),
    row("GPFL Figure 2", "fmnist", "cnn4", "pfllib-pathological:2", 10),
    row("DBE 5, 8; GPFL 1", "fmnist", "cnn4", "pfllib-dirichlet:0.1", 20),
    *(row("DBE 8", "fmnist", "cnn4", "pfllib-dirichlet:0.1", 20, local_epochs=epochs) for epochs in (5, 10)),
    row("DBE 5; GPFL 1", "cifar100", "cnn4", "pfllib-pathological:10", 20, 2),
    row("DBE 4, 5; GPFL 1, 5", "cifar100", "cnn4", "pfllib-dirichlet:0.1", 20, 2),
    row("DBE 5", "cifar100", "cnn4", "pfllib-dirichlet:0.1", 100, 10, participation=0.5),
    *(
        row("DBE 8, old", "cifar100", "cnn4", "pfllib-dirichlet:0.1+first-of=100", 80, 10, participation=p)
        for p in (0.5, 1)
    ),
    row("DBE 8, new", "cifar100", "cnn4", "pfllib-dirichlet:0.1+last-of=100", 20, 10),
    *(
        row("GPFL 2, 3", "cifar100", "cnn4", "pfllib-dirichlet:0.1", clients, clients // 10)
        for clients in (30, 50, 100, 500)
    ),
    *(row("GPFL 2", "cifar100", "cnn4", "pfllib-dirichlet:0.1+of=50", clients, 5) for clients in (10, 30)),
    *(row("GPFL 4", "cifar100", "cnn4", "pfllib-dirichlet:0.1", 50, 5, participation_low=low) for low in (0.5, 0.1)),
    row("DBE 5; GPFL 1, 3", "tiny-imagenet", "cnn4", "pfllib-pathological:20", 20, 2),
    row("DBE 1, 2, 3, 4, 5, 6; GPFL 1", "tiny-imagenet", "cnn4", "pfllib-dirichlet:0.1", 20, 2),
    *(row("DBE 6", "tiny-imagenet", "cnn4", f"pfllib-dirichlet:{beta}", 20, 2) for beta in (0.01, 0.5, 5)),
    *(
        row("DBE 1", "tiny-imagenet", f"cnn4@{split}", "pfllib-dirichlet:0.1", 20, 2, algorithm="fedavg+dbe")
        for split in ("conv1", "conv2")
    ),
    row("DBE 2, 4, 5, 6, 8; GPFL 1, 6", "tiny-imagenet", "resnet18", "pfllib-dirichlet:0.1", 20, 2, lr=0.1),
    *(
        row(
            "DBE 7", "tiny-imagenet", f"resnet18@{split}", "pfllib-dirichlet:0.1", 20, 2, lr=0.1, algorithm="fedavg+dbe"
        )
        for split in ("conv", "b1", "b2", "b3", "b4", "pool")
    ),
    row("DBE 4, 5; GPFL 1", "agnews", "fasttext", "pfllib-dirichlet:1", 20, 2),
    row("DBE 9; GPFL 2, 3", "har", "har-cnn", "group", 30),
    row("DBE 9; GPFL 2, 3, as their platform arranges it", "har-interleaved", "har-cnn", "group", 30),
    row("GPFL 3, Figure 3", "amazon", "mlp3", "group", 4),
    row("GPFL 3, Figure 3, labelled reviews only", "amazon-labelled", "mlp3", "group", 4),
)

# ---- pFedFDA: 100 clients, coins of 0.3, everybody at the end, 5 epochs, split 80/20 ----------------------------------------------
FDA = {
    name: value
    for name, value in asdict(pfedfda("fedpac-cnn5")).items()
    if name not in ("model", "partition", "clients")
}


def fda(
    used_in: str, dataset: str, partition: str, clients: int = 100, model: str = "fedpac-cnn5", **changes: Any
) -> Setting:
    return row(used_in, dataset, model, partition, clients, 20, **(FDA | changes))


SHARES = ("", "+train-share=0.75", "+train-share=0.5", "+train-share=0.25")
PFEDFDA = (
    *(
        fda("pFedFDA 1", f"{data}-s", f"pfedfda-dirichlet:0.5{part}")
        for data in ("cifar10", "cifar100")
        for part in SHARES
    ),
    *(fda("pFedFDA 1, 50 pairs", f"{data}-s-paper", "pfedfda-dirichlet:0.5") for data in ("cifar10", "cifar100")),
    *(
        row(
            "pFedFDA 2", data, "fedpac-cnn4", "group:2+first-of=all", 1000, 100
        )  # rate, batch, coins of 0.03: the presets
        for data in ("femnist", "emnist")
    ),
    row("pFedFDA 2, writers drawn at random", "emnist", "fedpac-cnn4", "group:2+of=all", 1000, 100),
    *(
        fda("pFedFDA 2, 5, 6", data, f"pfedfda-dirichlet:{alpha}", model=model)
        for data, model in (
            ("cifar10", "fedpac-cnn5"),
            ("cifar100", "fedpac-cnn5"),
            ("tiny-imagenet-110k", "pfedfda-resnet18"),
        )
        for alpha in (0.1, 0.5)
    ),
    *(fda("pFedFDA 3", data, "fixed-size:0.1,63") for data in ("cifar10", "cifar100")),
    fda("pFedFDA 4, old", "cifar10", "pfedfda-dirichlet:0.5+first-of=100", 50),
    *(
        fda("pFedFDA 4, new", data, "pfedfda-dirichlet:0.5+last-of=100", 50)
        for data in ("cifar10", *(name for name in DATASETS if DATASETS[name].shift.startswith("corrupt-all")))
    ),
    *(fda("pFedFDA 5", "cifar100", f"pfedfda-dirichlet:{alpha}+train-share=0.25") for alpha in (0.1, 0.5)),
    fda("pFedFDA 5", "cifar100-s", "pfedfda-dirichlet:0.1"),
    *(row("pFedFDA 7", "digit5", "fedpac-cnn5", f"group-dirichlet:0.5{part}", 20) for part in SHARES),
    *(
        fda("pFedFDA Figure 4", "cifar100", f"pfedfda-dirichlet:0.5{part}", local_epochs=20)
        for part in ("", "+train-share=0.25")
    ),
)

# ---- FedBR: 10 clients, 50 steps on batches drawn with replacement: the presets -------------------------------------------------
MIXTURE = (("pseudo", "mixture"),)
VIRTUAL = (("virtual_samples", 20), ("virtual_batch", 4))
FEDBR = (
    row("FedBR 1, 4", "rotated-mnist", "domainbed-cnn", "lda:0.1", 10),
    row("FedBR 1, 3, 4, 7", "rotated-cifar10", "vgg11", "lda:0.1", 10),
    row("FedBR 1, angles as in the code", "rotated-cifar10-code", "vgg11", "lda:0.1", 10),
    row("FedBR 5", "rotated-cifar10", "vgg11", "lda:0.1", 100, 10, participation=0.1),
    row("FedBR 1, 4, 6, 7", "augmented-cifar100", "cct-7-3x1", "lda-flat:0.1", 10),
    row(
        "FedBR 1, augmented at every step",
        "cifar100",
        "cct-7-3x1",
        "lda-flat:0.1",
        10,
        augment="crop-flip",
        local_steps=50,
    ),
    row("FedBR 2", "rotated-cifar10", "vgg11", "lda:0.1", 10, algorithm="vhl", options=VIRTUAL),
    row("FedBR 2", "augmented-cifar100", "cct-7-3x1", "lda-flat:0.1", 10, algorithm="vhl+mixup", options=VIRTUAL),
    row(
        "FedBR 3", "rotated-cifar10", "vgg11", "lda:0.1", 10, proxy="proxy-cifar100", algorithm="fedbr", options=MIXTURE
    ),
    row(
        *("FedBR 3", "augmented-cifar100", "cct-7-3x1", "lda-flat:0.1", 10),
        proxy="proxy-cifar10",
        algorithm="fedavg+mixup+fedbr",
        options=MIXTURE,
    ),
    *(
        row("FedBR 9", "clean-cifar10", model, "lda:0.1", 10, momentum=0.9)
        for model in ("resnet18-gn-small", "resnet20-gn")
    ),
    row("FedBR section 5.1", "pacs", "vgg11", "group-classes:2", 8),
)

# ---- GRP-FED: 5 epochs, batch 64, rate 0.005, momentum 0.9 ----------------------------------------------------------------------
GRP = {"lr": 0.005, "batch_size": 64, "momentum": 0.9, "local_epochs": 5, "test_share": 0.2, "participation": 0.2}
GRPFED = (
    *(
        row("GRP-FED 1", "cifar10", model, "long-tail:0.7,0.5", 50, **GRP)
        for model in ("resnet30", "resnet30-gn", "resnet30-layers")
    ),
    row("GRP-FED 1, sizes read literally", "cifar10", "resnet30", "long-tail-geometric:0.7,0.5,20", 50, **GRP),
    *(
        row("GRP-FED 1, Figure 5", "mitbih", model, "group", 46, participation=0.2)
        for model in ("ecg-resnet", "ecg-resnet-gn")
    ),
)

SETTINGS = LIB + PFEDFDA + FEDBR + GRPFED
each_setting = pytest.mark.parametrize("setting", SETTINGS, ids=[setting.name for setting in SETTINGS])

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
    "mitbih": (46, 12),
    "amazon": (4, 30),
    "amazon-labelled": (4, 30),
    "pacs": (4, 70),
    "digit5": (5, 400),
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
    used = {setting.dataset for setting in SETTINGS} | {
        dict(setting.changes).get("proxy", "mnist") for setting in SETTINGS
    }
    for name in {DATASETS[each].stored_as for each in used}:
        arrays = stand_in(DATASETS[name])
        save_arrays(root / name / f"{name}.npz", arrays)
        train = len(arrays) - TEST
        for derived, spec in DATASETS.items():
            if spec.stored_as == name:
                sizes = {"samples": train if spec.part == "train" else len(arrays), "train_samples": train}
                described[derived] = replace(spec, fingerprint=None, **sizes)
    return root, described


@pytest.fixture
def stand_ins(written: tuple[Path, dict[str, DatasetSpec]], monkeypatch: pytest.MonkeyPatch) -> Path:
    root, described = written
    for name, spec in described.items():
        monkeypatch.setitem(DATASETS, name, spec)
    photographs = [np.full((3, 40, 40), 200, np.uint8)]
    monkeypatch.setattr("pflrepro.data.frost.frost_photographs", lambda root=None: photographs)
    return root


@pytest.fixture(scope="module")
def real_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with links to the real array caches, so that nothing is kept in the real one."""
    root = tmp_path_factory.mktemp("real")
    for cache in Path(DATA_ROOT).glob("*/*.npz"):
        if cache.stem == cache.parent.name:
            (root / cache.stem).mkdir()
            (root / cache.stem / cache.name).symlink_to(cache.resolve())
    return root


def smaller(federation: Federation, samples: int) -> Federation:
    """The same clients with at most so many training and test samples each."""
    train, test = ([rows[:samples] for rows in federation.rows[side]] for side in ("train", "test"))
    facts = {"classes": federation.classes, "unit": federation.unit, "name": federation.name, "proxy": federation.proxy}
    return Federation(federation.x, federation.y, train, test, **facts)


def two_rounds(setting: Setting, experiment: Experiment, root: str | Path) -> None:
    _, samples, batch = setting.amounts
    federation = smaller(load_federation(experiment.data, root), samples)
    spec = DATASETS[setting.dataset]
    assert federation.shape == spec.shape and federation.classes == spec.classes
    assert federation.clients == experiment.data.clients
    settings = experiment.settings()
    few = {"local_epochs": 1, "batch_size": batch, "local_steps": samples // batch if settings.local_steps else 0}
    simulation = Simulation(
        experiment.method(), federation, setting.model, replace(settings, **few), [0], backend="loop", workers=1
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


@each_setting
def test_two_rounds_on_a_stand_in(setting: Setting, stand_ins: Path) -> None:
    two_rounds(setting, setting.small(setting.cut), stand_ins)


@each_setting
@pytest.mark.skipif(DATA_ROOT is None, reason="needs real data: set PFLREPRO_DATA")
def test_two_rounds_on_real_data(setting: Setting, real_root: Path) -> None:
    try:
        two_rounds(setting, setting.small(), real_root)
    except MissingData as error:
        pytest.skip(str(error))


# samples of each domain, where the number is published
DOMAINS = {"digit5": (21_438, 27_296, 9_298, 105_229, 21_438), "pacs": (2_048, 2_344, 1_670, 3_929)}


@pytest.mark.parametrize(
    "setting", [s for s in SETTINGS if s.dataset in DOMAINS or not parse(s.partition).counted], ids=lambda s: s.name
)
def test_the_partition_among_all_clients_exists_at_the_real_size(setting: Setting) -> None:
    """Labels alone, equally many of each class: every client gets the least size and has samples to train and to be tested on."""
    spec, data = DATASETS[setting.dataset], setting.experiment().data
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
    assert division.clients == setting.clients
    assert all(len(part) for part in (*division.train, *division.test))
    if not (parse(data.partition).train_share < 1):
        assert min(division.sizes()) >= (
            parse(data.partition).default_min_size if data.min_size is None else data.min_size
        )


def test_every_column_of_a_papers_table_is_a_setting() -> None:
    def of(dataset: str, model: str, text: str) -> tuple[str, str, str]:
        spec = parse(text)
        return dataset, model.partition("@")[0], str(spec).removesuffix(spec.options)

    known = {of(setting.dataset, setting.model, setting.partition) for setting in SETTINGS}
    papers = ("dbe", "gpfl", "pfedfda", "fedbr", "grpfed")
    columns = [column for artefact in ARTEFACTS.values() if artefact.paper in papers for column in artefact.columns]
    assert columns and {of(c.dataset, c.model or "", c.partition) for c in columns} <= known
