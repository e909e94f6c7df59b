"""Every data set, network and partition that the tables of the five papers train, with the papers' own numbers of clients.

A setting can be cut down: all of it stays but the amount, a few clients of the partition with a few of their samples.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from pflrepro.data.corruptions import CORRUPTIONS
from pflrepro.data.datasets import DATASETS
from pflrepro.data.sets.types import pfedfda
from pflrepro.data.specs import parse
from pflrepro.experiments.config import Experiment

# clients, training and test samples of each, samples a step; fewer of them for the networks that take a second for a few images
AMOUNTS, LARGE_AMOUNTS = (3, 8, 4), (2, 2, 2)
CORRUPTED_AMOUNTS = (2 * len(CORRUPTIONS), 4, 4)  # half of the clients are corrupted, each in its own way
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
    def meets_every_corruption(self) -> bool:
        """Whether the small run has enough clients for all; those with fewer training samples are left at one corruption."""
        return DATASETS[self.dataset].shift.startswith("corrupt-half") and parse(self.partition).train_share == 1

    @property
    def amounts(self) -> tuple[int, int, int]:
        if self.meets_every_corruption:
            return CORRUPTED_AMOUNTS
        return LARGE_AMOUNTS if self.model.startswith(LARGE) else AMOUNTS

    def experiment(self, **fixed: Any) -> Experiment:
        """Two rounds with all clients."""
        own = {"partition": self.partition, "clients": self.clients, "model": self.model, "rounds": 2}
        changes = dict(self.changes) | own | fixed
        return Experiment.for_dataset(self.algorithm, self.dataset, options=self.options, **changes)

    def small(self, cut: int = 1) -> Experiment:
        """The same with a few clients of the partition, among a `cut`-th of the paper's clients."""
        spec, few = parse(self.partition), {}
        total = max(self.clients // cut, min(self.amounts[0], self.clients))
        if spec.choice:
            chosen = replace(spec, total=spec.total and spec.total // cut)
        else:
            chosen = replace(spec, choice="first-of", total=None if spec.counted else total)
        if self.meets_every_corruption:  # one picture after the other: few of them, and of few stand-ins enough clients
            chosen = replace(chosen, train_samples=self.amounts[1])
            few = {"min_size": 20} if cut > 1 else {}
        return self.experiment(partition=str(chosen), clients=min(self.amounts[0], total), **few)


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
        row("GRP-FED 1", "cifar10", model, "long-tail:0.7,0.5+stratified", 50, **GRP)
        for model in ("resnet30", "resnet30-gn", "resnet30-layers")
    ),
    row(
        "GRP-FED 1, sizes read literally", "cifar10", "resnet30", "long-tail-geometric:0.7,0.5,20+stratified", 50, **GRP
    ),
    *(
        row("GRP-FED 1, Figure 5", "mitbih", model, "group+stratified", 46, participation=0.2)
        for model in ("ecg-resnet", "ecg-resnet-gn")
    ),
)

SETTINGS = LIB + PFEDFDA + FEDBR + GRPFED
