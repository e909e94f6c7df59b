"""Every data set, network and partition that the papers' artefacts train or draw, and those that no artefact declares.

The others are what newcomers join with, what the papers' codes do otherwise, other readings of a text. A setting can be cut down: all
of it stays but the amount, a few clients of the partition with a few of their samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pflrepro.data.corruptions import CORRUPTIONS
from pflrepro.data.datasets import DATASETS
from pflrepro.data.partitions.parse import parse
from pflrepro.experiments.config import Experiment
from pflrepro.papers import ARTEFACTS
from pflrepro.papers import settings as declared
from pflrepro.papers.settings import Setting, br

# clients, training and test samples of each, samples a step; fewer of them for the networks that take a second for a few images
AMOUNTS, LARGE_AMOUNTS = (3, 8, 4), (2, 2, 2)
CORRUPTED_AMOUNTS = (2 * len(CORRUPTIONS), 4, 4)  # half of the clients are corrupted, each in its own way
LARGE = ("vgg11", "cct-7-3x1", "resnet18", "pfedfda-resnet18")
STAND_IN_CLIENTS = 10  # among stand-ins, which are small, where the partition is not one client a group
# Of a protocol, what decides which data a client has and who takes part; the rest is small in the runs of these tests.
PROTOCOL = ("min_size", "test_share", "proxy", "participation", "participation_low", "sampling", "closing", "augment")


@dataclass(frozen=True)
class Case:
    """What is run: a setting, and a method where it takes another one than FedAvg."""

    used_in: str
    setting: Setting
    algorithm: str = "fedavg"
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        protocol, setting = dict(self.setting.protocol), self.setting
        more = [
            f"{key}={protocol[key]}" for key in ("participation", "participation_low", "proxy") if protocol.get(key)
        ]
        parts = (setting.dataset, setting.model, setting.partition, str(setting.clients), self.algorithm, *more)
        return "-".join(filter(None, parts))

    @property
    def meets_every_corruption(self) -> bool:
        """Whether the small run has enough clients for all; those with fewer training samples are left at one corruption."""
        spec = parse(self.setting.partition)
        return DATASETS[self.setting.dataset].shift.startswith("corrupt-half") and spec.train_share == 1

    @property
    def amounts(self) -> tuple[int, int, int]:
        if self.meets_every_corruption:
            return CORRUPTED_AMOUNTS
        return LARGE_AMOUNTS if self.setting.model.startswith(LARGE) else AMOUNTS

    def experiment(self, **changes: Any) -> Experiment:
        """Two rounds with all clients; `changes`: of the setting."""
        setting = self.setting.with_(**changes)
        return setting.experiment(self.algorithm, self.options, rounds=2, patience=0, every=1)

    def small(self, stand_in: bool = False) -> Experiment:
        """The same with a few clients of the partition; among a part of the paper's clients, if its data are a stand-in."""
        spec, few = parse(self.setting.partition), {}
        clients = self.setting.clients
        cut = max(1, clients // STAND_IN_CLIENTS) if stand_in and not self._one_a_group else 1
        total = max(clients // cut, min(self.amounts[0], clients))
        if spec.choice:
            chosen = replace(spec, total=spec.total and spec.total // cut)
        else:
            chosen = replace(spec, choice="first-of", total=None if spec.counted else total)
        if self.meets_every_corruption:  # one picture after the other: few of them, and of few stand-ins enough clients
            chosen = replace(chosen, train_samples=self.amounts[1])
            few = {"min_size": 20} if cut > 1 else {}
        return self.experiment(partition=str(chosen), clients=min(self.amounts[0], total), **few)

    @property
    def _one_a_group(self) -> bool:
        return self.setting.partition.startswith("group") and self.setting.clients < 100


def _declared() -> Iterator[Case]:
    """What the artefacts of the papers declare; in place of full data, what their scales take."""
    for artefact in ARTEFACTS.values():
        if artefact.paper in ("demo", "results"):
            continue
        for column in artefact.columns:
            yield from (
                Case(artefact.id, column.setting.with_(**dict(row.setting))) for row in artefact.rows if column.has(row)
            )
            yield from (
                Case(artefact.id, scale.instead[column.key]) for scale in artefact.scales if column.key in scale.instead
            )
        for view in artefact.views:
            yield from (Case(artefact.id, each.setting) for each in getattr(view, "partitions", ()))


def _joining(dataset: str) -> Setting:
    """The last clients of pFedFDA's hundred, which were not there in training."""
    return declared.CIFAR10_DEALT.with_(dataset=dataset, partition="pfedfda-dirichlet:0.5+last-of=100", clients=50)


CLEAN = br("", "clean-cifar10", "resnet20-gn", momentum=0.9)
WRITERS = declared.EMNIST_WRITERS.with_(dataset="emnist")
MIXTURE = (("pseudo", "mixture"),)
VIRTUAL = (("virtual_samples", 20), ("virtual_batch", 4))
ON_CIFAR100 = declared.AUGMENTED_CIFAR100
OTHERS = (
    Case("DBE 8, new", declared.CIFAR100_PRACTICAL.with_(partition="pfllib-dirichlet:0.1+last-of=100")),
    Case("HAR in its right places", declared.HAR_USERS.with_(dataset="har")),
    *(
        Case("DBE 1, 7", setting.with_(model=f"{setting.model}@{split}"), "fedavg+dbe")
        for setting, splits in (
            (declared.TINY_PRACTICAL, ("conv1", "conv2")),
            (declared.TINY_RESNET, ("conv", "b1", "b2", "b3", "b4", "pool")),
        )
        for split in splits
    ),
    *(
        Case("pFedFDA 1, 50 pairs", setting.with_(dataset=f"{setting.dataset}-paper"))
        for setting in (declared.CIFAR10_S, declared.CIFAR100_S)
    ),
    Case("pFedFDA 2", WRITERS),
    Case("pFedFDA 2, writers drawn at random", WRITERS.with_(partition="group:2+of=all")),
    Case("pFedFDA 4, new", _joining("cifar10")),
    *(Case("pFedFDA 4, new", _joining(name)) for name in DATASETS if DATASETS[name].shift.startswith("corrupt-all")),
    Case("FedBR 1, angles as in the code", declared.ROTATED_CIFAR10.with_(dataset="rotated-cifar10-code")),
    Case("FedBR 1, augmented at every step", ON_CIFAR100.with_(dataset="cifar100", augment="crop-flip")),
    Case("FedBR 2", declared.ROTATED_CIFAR10, "vhl/fedbr", VIRTUAL),
    Case("FedBR 2", ON_CIFAR100, "vhl/fedbr+mixup", VIRTUAL),
    Case("FedBR 3", declared.ROTATED_CIFAR10.with_(proxy="proxy-cifar100"), "fedbr", MIXTURE),
    Case("FedBR 3", ON_CIFAR100.with_(proxy="proxy-cifar10"), "fedavg+mixup+fedbr", MIXTURE),
    *(Case("FedBR 9", CLEAN.with_(model=model)) for model in ("resnet18-gn-small", "resnet20-gn")),
    Case("FedBR section 5.1", br("", "pacs", "vgg11", "group-classes:2", 8)),
)


def _distinct(cases: Iterator[Case]) -> tuple[Case, ...]:
    """The first case of each kind; partitions that differ in their text only are one."""
    found: dict[Any, Case] = {}
    for case in cases:
        protocol = dict(case.setting.protocol)
        place = (case.setting.dataset, case.setting.model, str(parse(case.setting.partition)), case.setting.clients)
        found.setdefault((*place, *(protocol.get(name) for name in PROTOCOL)), case)
    return tuple(found.values())


DECLARED = _distinct(_declared())
CASES = DECLARED + OTHERS
