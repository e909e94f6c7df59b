"""pFedFDA, "Personalized Federated Learning via Feature Distribution Adaptation" (NeurIPS 2024): Figure 3 (App. C.1.2).

Training and test images of CIFAR-10 pooled, 6,000 a class; class by class over the clients by Dirichlet(alpha), a client with n/M
samples gets no more, drawn again until the smallest client has 63 samples [pFedFDA-code]. M = 100 clients, as in the tables; the
figure's own number is not stated [?]. The code's random seed is not known, so ours is a draw of the same recipe, not the printed one.
"""

from __future__ import annotations

from itertools import pairwise

from pflrepro.papers.artefact import Claim, Column, partition_figure, same_at_every_scale


def _dirichlet(alpha: str) -> Column:
    return Column(
        f"dirichlet-{alpha}/cifar10",
        f"CIFAR-10, alpha {alpha}",
        "cifar10",
        "fedpac-cnn5",
        f"pfedfda-dirichlet:{alpha}",
        clients=100,
        samples=60_000,
        equal_classes=True,
    )


ALPHAS = ("0.1", "0.5")

FIGURE3 = partition_figure(
    "pfedfda/figure3",
    title="pFedFDA Figure 3: samples a client and class, CIFAR-10 by Dirichlet shares",
    columns=tuple(_dirichlet(alpha) for alpha in ALPHAS),
    scales=same_at_every_scale("the partitions depend on the class sizes only"),
    claims=tuple(
        Claim(
            f"dirichlet-{more}/cifar10",
            f"dirichlet-{less}/cifar10",
            source="pFedFDA App. C.1.2: less so as alpha grows",
        )
        for more, less in pairwise(ALPHAS)
    ),
    about="How Dirichlet shares deal CIFAR-10 to 100 clients: the larger alpha, the less a client's classes differ from all.",
    cost="seconds; no data, no training.",
)
