"""What the columns of the papers' tables train: data, partition, network and protocol, said once each.

A setting is everything of an experiment but the method, the seed, and how much is run. The four protocols are the papers' own; the
source of each number is in the docstring of `pflrepro.settings.Settings`, of the presets in `pflrepro.data.sets.types`, and below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

from pflrepro.data.datasets import DATASETS
from pflrepro.data.partitions.parse import parse
from pflrepro.data.sets.types import Preset, fedbr, pfedfda
from pflrepro.experiments.config import DataConfig, Experiment
from pflrepro.settings import Settings

Pairs = tuple[tuple[str, Any], ...]


def _flat(preset: Preset) -> dict[str, Any]:
    return {**asdict(preset.settings), "test_share": preset.test_share, "min_size": preset.min_size}


# DBE, GPFL: one epoch, batch 10, plain SGD, all clients, 75/25 [DBE section 5; GPFL section 4.1], 2,000 rounds [GPFL section 4.1],
# or until 100 tests have no new best [DBE-code], partition seed 1 [LIB].
LIB = {**asdict(Settings(rounds=2000, patience=100)), "min_size": 40, "test_share": 0.25}
FDA = _flat(pfedfda("fedpac-cnn5"))
# FedBR: 10 clients, 50 steps a round on drawn batches, a fifth held out, plain means [BR; BR-code].
# Its script gives all methods ten different first models and a first round of one step [BR-code].
BR = {**_flat(fedbr("vgg11", 0.01, 32, 1000)), "first_steps": 1, "first_weights": "slots"}
# GRP-FED: 5 epochs, batch 64, rate 0.005, momentum 0.9 [GRP 4.1]; 200 rounds, a fifth of the clients a round [?]. Statistics of norm
# layers are averaged [inferred]: with personal ones there is no global model, which T_g and Figure 1 test.
GRP = {
    **asdict(
        Settings(
            rounds=200,
            lr=0.005,
            batch_size=64,
            momentum=0.9,
            local_epochs=5,
            participation=0.2,
            statistics="averaged",
        )
    ),
    "min_size": 40,
    "test_share": 0.2,
}
# Training images of the other CIFAR [BR-code]; digits: for stand-ins.
PROXIES = {
    **dict.fromkeys(("rotated-cifar10", "rotated-cifar10-half"), "proxy-cifar100"),
    "augmented-cifar100": "proxy-cifar10",
    "digits": "digits",
}
_OF_DATA = tuple(field.name for field in fields(DataConfig) if field.name not in ("dataset", "partition", "clients"))


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        label: as a column or a panel prints it.
        partition, clients, model: see `pflrepro.Experiment`.
        protocol: fields of `Settings` and `DataConfig`, with this setting's own changes in it.
    """

    label: str
    dataset: str
    model: str
    partition: str
    clients: int
    protocol: Pairs

    def __repr__(self) -> str:
        return f"Setting({self.label}: {self.dataset}, {self.partition}, {self.clients} clients, {self.model})"

    def with_(self, label: str | None = None, **changes: Any) -> Setting:
        """The same with another label, or with changes to its fields or its protocol."""
        own = {name: changes.pop(name) for name in ("dataset", "model", "partition", "clients") if name in changes}
        protocol = tuple((dict(self.protocol) | changes).items())
        return replace(self, label=self.label if label is None else label, protocol=protocol, **own)

    def share(self, part: float) -> Setting:
        """The same with that share of every client's training samples; the test samples stay."""
        return self if part == 1 else replace(self, partition=f"{self.partition}+train-share={part:g}")

    @property
    def settings(self) -> Settings:
        """The protocol, as long as the paper runs it."""
        return _settings(self.protocol)

    @property
    def reduced(self) -> str:
        """What part of the original data the set holds, in words; "" for all of them."""
        return DATASETS[self.dataset].reduced

    def data(self) -> DataConfig:
        """The clients' data."""
        own = {name: value for name, value in self.protocol if name in _OF_DATA}
        if parse(self.partition).own_minimum:
            own["min_size"] = None
        return DataConfig(self.dataset, self.partition, self.clients, **own)

    def experiment(
        self, algorithm: str, options: Mapping[str, Any] | Pairs = (), seed: int = 0, **changes: Any
    ) -> Experiment:
        """The experiment of a method; `changes`: fields of `Settings`, such as how much is run.

        A method that mixes its pseudo-data from proxy data is given those of the data set.
        """
        data, options = self.data(), tuple(dict(options).items())
        if dict(options).get("pseudo") in ("mixture", "proxy"):
            data = replace(data, proxy=PROXIES.get(self.dataset, ""))
        return Experiment(algorithm, data, self.model, replace(self.settings, **changes), options, seed)

    def stand_in(self) -> Setting:
        """A small setting of the same kind, on the embedded digits: it shows that everything runs, nothing else."""
        skew = "pathological:2" if "pathological" in self.partition else "dirichlet:0.5"
        if parse(self.partition).choice == "first-of":  # others come later
            skew += "+first-of=8"
        small = {"lr": 0.1, "batch_size": 10, "min_size": 10, "fit_batch": False, "momentum": 0.0, "proxy": ""}
        work = {"local_epochs": 1, "local_steps": min(2, self.settings.local_steps), "augment": "none"}
        split = "@conv1" if "@" in self.model else ""
        return self.with_(
            f"digits for {self.label}", dataset="digits", model=f"cnn-digits{split}", partition=skew, clients=5
        ).with_(**small, **work)


@lru_cache(maxsize=1024)  # the cells of a table share few protocols
def _settings(protocol: Pairs) -> Settings:
    return Settings(**{name: value for name, value in protocol if name not in _OF_DATA})


def lib(label: str, dataset: str, model: str, partition: str, clients: int = 20, **changes: Any) -> Setting:
    """A setting of DBE's and GPFL's protocol; `changes`: what differs from it (the rate of a network among it)."""
    return Setting(label, dataset, model, partition, clients, tuple((LIB | changes).items()))


def fda(
    label: str, dataset: str, partition: str, clients: int = 100, model: str = "fedpac-cnn5", **changes: Any
) -> Setting:
    """A setting of pFedFDA's protocol."""
    return Setting(label, dataset, model, partition, clients, tuple((FDA | changes).items()))


def br(label: str, dataset: str, model: str, partition: str = "lda:0.1", clients: int = 10, **changes: Any) -> Setting:
    """A setting of FedBR's protocol; rate, batch and rounds are those of the data set's preset."""
    preset = DATASETS[dataset].preset.settings
    own = {name: getattr(preset, name) for name in ("lr", "batch_size", "rounds", "momentum")}
    return Setting(label, dataset, model, partition, clients, tuple((BR | own | changes).items()))


def grp(label: str, dataset: str, model: str, partition: str, clients: int, **changes: Any) -> Setting:
    """A setting of GRP-FED's protocol."""
    return Setting(label, dataset, model, partition, clients, tuple((GRP | changes).items()))


# ---- DBE and GPFL ----------------------------------------------------------------------------------------------------------------
# The classes a client holds in the pathological settings are 2, 10, 20 [GPFL section 4.1]; `pfllib-` is the papers' own recipe. Rates
# 0.005 (CNN4), 0.1 (ResNet-18, fastText), 0.01 (HAR) [GPFL section 4.1], whose shared baselines print DBE's digits [inferred].
FMNIST_PATHOLOGICAL = lib("FMNIST, pathological", "fmnist", "cnn4", "pfllib-pathological:2")
CIFAR100_PATHOLOGICAL = lib("Cifar100, pathological", "cifar100", "cnn4", "pfllib-pathological:10")
TINY_PATHOLOGICAL = lib("TINY, pathological", "tiny-imagenet", "cnn4", "pfllib-pathological:20")
FMNIST_PRACTICAL = lib("FMNIST, practical", "fmnist", "cnn4", "pfllib-dirichlet:0.1")
CIFAR100_PRACTICAL = lib("Cifar100, practical", "cifar100", "cnn4", "pfllib-dirichlet:0.1")
# 100 clients and half of them a round are [recalled]; consistent with the empty cell of APPLE, which needs all.
CIFAR100_DAGGER = CIFAR100_PRACTICAL.with_("Cifar100\u2020, practical", clients=100, participation=0.5)
TINY_PRACTICAL = lib("TINY, practical", "tiny-imagenet", "cnn4", "pfllib-dirichlet:0.1")
TINY_RESNET = lib("TINY*, practical", "tiny-imagenet", "resnet18", "pfllib-dirichlet:0.1", lr=0.1)
AGNEWS_PRACTICAL = lib("AG News, practical", "agnews", "fasttext", "pfllib-dirichlet:1", lr=0.1)
# The papers' platform arranges time and channels of HAR so [LIB]; `har` has them in their right places.
HAR_USERS = lib("HAR, one client a user", "har-interleaved", "har-cnn", "group", 30, lr=0.01)
AMAZON_DOMAINS = lib("Amazon Review, one client a domain", "amazon", "mlp3", "group", 4)

# ---- pFedFDA ---------------------------------------------------------------------------------------------------------------------
SCARCE_CIFAR10 = fda("CIFAR10, 50 samples", "cifar10", "fixed-size:0.1,63")
SCARCE_CIFAR100 = fda("CIFAR100, 50 samples", "cifar100", "fixed-size:0.1,63")
CIFAR10_S = fda("CIFAR10-S", "cifar10-s", "pfedfda-dirichlet:0.5")
CIFAR100_S = fda("CIFAR100-S", "cifar100-s", "pfedfda-dirichlet:0.5")
CIFAR10_DEALT = fda("CIFAR10", "cifar10", "pfedfda-dirichlet:0.5")
CIFAR100_DEALT = fda("CIFAR100", "cifar100", "pfedfda-dirichlet:0.5")
TINY_DEALT = fda("TinyImageNet", "tiny-imagenet-110k", "pfedfda-dirichlet:0.5", model="pfedfda-resnet18")
# 1,000 writers, the first in file order, batches of 16, coins of 0.03 [FDA C.2; code; the number inferred].
EMNIST_WRITERS = fda(
    *("EMNIST, by writer", "femnist", "group:2+first-of=all", 1000, "fedpac-cnn4"), batch_size=16, participation=0.03
)
# Four clients a domain, all of them in every round [FDA D.1].
DIGIT5_DOMAINS = fda("Digit-5", "digit5", "group-dirichlet:0.5", 20, participation=1.0, sampling="number")
DIGIT3_DOMAINS = DIGIT5_DOMAINS.with_("Digit-3 (MNIST, USPS, MNIST-M)", dataset="digit3", clients=12)

# ---- FedBR -----------------------------------------------------------------------------------------------------------------------
# What is tested is the aggregated model; for CIFAR100 Table 6 also prints the clients' own after local training.
ROTATED_MNIST = br("RotatedMNIST, CNN", "rotated-mnist", "domainbed-cnn", evaluate_after=False)
ROTATED_CIFAR10 = br("RotatedCIFAR10, VGG11", "rotated-cifar10", "vgg11", evaluate_after=False)
AUGMENTED_CIFAR100 = br("CIFAR100, CCT", "augmented-cifar100", "cct-7-3x1", "lda-flat:0.1")
# For two cores: what is at hand of CIFAR-10, a small network, a milder skew; the paper's rate, as no search over rates was finished.
SMALL_CIFAR10 = br("RotatedCIFAR10 (half), CNN4, LDA 1", "rotated-cifar10-half", "cnn4", "lda:1", evaluate_after=False)
SMALL_CIFAR100 = AUGMENTED_CIFAR100.with_("CIFAR100, CNN4", model="cnn4")

# ---- GRP-FED ---------------------------------------------------------------------------------------------------------------------
MITBIH_PATIENTS = grp("MIT-BIH, one client a patient", "mitbih", "ecg-resnet", "group+stratified", 46)
LONG_TAILED_CIFAR10 = grp("CIFAR-10, long-tailed", "cifar10", "resnet30", "long-tail:0.7,0.5+stratified", 50)
