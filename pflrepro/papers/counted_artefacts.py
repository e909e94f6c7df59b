"""Figures of partitions alone: DBE Figure 6 and on. Nothing is trained for them.

The captions are lost in the text at hand; the scenarios are those of the experiments [inferred], their order is ours.
"""

from __future__ import annotations

from itertools import pairwise

from pflrepro.papers.artefact import Artefact, Scale
from pflrepro.papers.settings import (
    AGNEWS_PRACTICAL,
    CIFAR100_DAGGER,
    CIFAR100_PATHOLOGICAL,
    CIFAR100_PRACTICAL,
    FMNIST_PATHOLOGICAL,
    FMNIST_PRACTICAL,
    HAR_USERS,
    TINY_PATHOLOGICAL,
    TINY_PRACTICAL,
)
from pflrepro.papers.shown_partitions import ShownPartition
from pflrepro.papers.views.counts import Counts


def every_scale(note: str) -> tuple[Scale, ...]:
    """smoke, fast and paper, all the same: nothing is trained."""
    return tuple(Scale(name, note) for name in ("smoke", "fast", "paper"))


BETAS = ("0.01", "0.1", "0.5", "5")
TINY = {
    beta: TINY_PRACTICAL.with_(f"TINY, practical, beta {beta}", partition=f"pfllib-dirichlet:{beta}") for beta in BETAS
}
DBE_FIGURE6 = Artefact(
    "dbe/figure6",
    "DBE Figure 6 and on: samples a client and class in every scenario",
    scales=every_scale("the partitions depend on the class sizes only, HAR's on its users"),
    views=(
        Counts(
            (
                ShownPartition(FMNIST_PATHOLOGICAL, "fmnist_pat2_n20"),
                ShownPartition(CIFAR100_PATHOLOGICAL, "cifar100_pat10_n20"),
                ShownPartition(TINY_PATHOLOGICAL, "tiny_pat20_n20"),
                ShownPartition(HAR_USERS, equal=False),
                ShownPartition(FMNIST_PRACTICAL, "fmnist_dir0.1_n20"),
                ShownPartition(CIFAR100_PRACTICAL, "cifar100_dir0.1_n20"),
                ShownPartition(CIFAR100_DAGGER.with_("Cifar100, practical, 100 clients"), "cifar100_dir0.1_n100"),
                ShownPartition(AGNEWS_PRACTICAL, "agnews_dir1_n20"),
                *(ShownPartition(setting, f"tiny_dir{beta}_n20") for beta, setting in TINY.items()),
            ),
            orderings=tuple(
                (more.label, less.label, "DBE section 5: the smaller beta, the more heterogeneous [recalled]")
                for more, less in pairwise(TINY.values())
            ),
        ),
    ),
    about="How every scenario of the paper divides the samples (training and test) among the clients: two classes a client and up, "
    "Dirichlet shares of different strength, 100 clients, people. HAR's people need its data (pflrepro data get har).",
)
