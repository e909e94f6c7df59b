"""GPFL's figures: features of three methods in a plane (2), accuracy and training loss on reviews (3)."""

from __future__ import annotations

from pflrepro.papers.artefact import Artefact, column, fast, row, scales
from pflrepro.papers.claims import best
from pflrepro.papers.gpfl import GPFL, ROWS
from pflrepro.papers.settings import AMAZON_DOMAINS, FMNIST_PATHOLOGICAL
from pflrepro.papers.shown_partitions import ShownPartition
from pflrepro.papers.views.counts import Counts
from pflrepro.papers.views.curves import Curves
from pflrepro.papers.views.planes import Planes, Shot
from pflrepro.papers.views.table import Table

TEN_CLIENTS = FMNIST_PATHOLOGICAL.with_("FMNIST, pathological, 10 clients", clients=10)
_BY_CLIENT_AND_CLASS = "silhouette by client and class"

FIGURE2 = Artefact(
    "gpfl/figure2",
    "GPFL Figure 2: ten clients with two classes each, and what three methods make of them",
    rows=(row("FedPer"), row("FedProto"), GPFL),
    columns=(column("ten", TEN_CLIENTS),),
    scales=scales(fast(30, "a quarter of the training data, 30 rounds, tests every 5", every=5, share=0.25), seeds=1),
    views=(
        Counts((ShownPartition(TEN_CLIENTS, "fmnist_pat2_n10"),), name="a"),
        Planes(
            (
                Shot("fedper", "ten", title="(b) FedPer"),
                Shot("fedproto", "ten", title="(c) FedProto"),
                Shot("gpfl", "ten", "embedded", title="(d) GPFL, what its head reads"),
            ),
            numbers=(_BY_CLIENT_AND_CLASS, "class separation"),
        ),
    ),
    about="(a) How the pathological setting divides 70,000 images among ten clients; (b-d) t-SNE of the features of FedPer, FedProto "
    "and GPFL. The paper says: GPFL has one island a client and class, FedPer's classes overlap. Which of GPFL's vectors is drawn is "
    "not printed: what its head reads, f^P.",
)
_DRAWN = AMAZON_DOMAINS.with_(rounds=200, patience=0)  # so many are drawn
FIGURE3 = Artefact(
    "gpfl/figure3",
    "GPFL Figure 3: accuracy and training loss on Amazon reviews",
    rows=ROWS,
    columns=(column("amazon", _DRAWN),),
    scales=scales(
        fast(
            60,
            "only the labelled reviews, 60 of 200 rounds, without pFedMe",
            rows=tuple(each.key for each in ROWS if each.key != "pfedme"),
            instead={"amazon": _DRAWN.with_("Amazon Review, labelled reviews only", dataset="amazon-labelled")},
        ),
        seeds=1,
    ),
    claims=(best("gpfl", source="GPFL section 4.3: GPFL is highest"),),
    views=(Curves(("accuracy", "train_loss"), smooth=5, name=""), Table()),
    about="Test accuracy and training loss over rounds (in the paper 200), four clients, one a kind of product; smoothed. The paper's "
    "loss of GPFL is that of its personal route [inferred: its full loss cannot fall as low]; ours is the cross-entropy without GPFL's "
    "other terms. The platform logs every method's own loss over the training data [LIB]; ours is each method's cross-entropy "
    "as it trains.",
)

ARTEFACTS = (FIGURE2, FIGURE3)
