"""GPFL, "Simultaneously Learning Global and Personalized Feature Information" (ICCV 2023): Table 1, Figure 2(a).

Common settings: 20 clients, all of them in every round, batch 10, one local epoch, plain SGD with rate 0.005 (CNN4)
or 0.1 (ResNet-18, fastText), 2,000 rounds, 3 trials, mean and population standard deviation of the best round [GPFL
section 4.1].

lambda 0.01 and weight decay 0.1 on valve and embeddings for CNN4 [GPFL-code run script], the defaults of our method;
0.0001 and 0 for ResNet-18 and fastText [GPFL-code]. The stop rule (100 evaluations without a new best) is
[DBE-code]'s: GPFL runs all 2,000.
"""

from __future__ import annotations

from pflrepro.papers import dbe
from pflrepro.papers.artefact import Artefact, Claim, Column, Row, partition_figure, same_at_every_scale
from pflrepro.papers.numbers import LEADERBOARD

PAPER = "gpfl"

ROWS = (
    Row("FedAvg", "fedavg"),
    Row("FedProx", "fedprox"),
    Row("Per-FedAvg", "per-fedavg"),
    Row("pFedMe", "pfedme"),
    Row("Ditto", "ditto"),
    Row("FedPer", "fedper"),
    Row("FedRep", "fedrep"),
    Row("FedRoD", "fedrod"),
    # The platform's form of the time; weight and inheritance by a later remark of the author.
    Row("FedPHP", "fedphp", always=(("form", "legacy"), ("weight", 0.01), ("inheritance", 0.9))),
    Row("FedProto", "fedproto"),
    Row(
        "GPFL",
        "gpfl",
        options=(  # [GPFL-code]
            *((model, (("guidance", 1e-4), ("decay", 0.0))) for model in ("resnet18", "fasttext")),
            ("har-cnn", (("guidance", 0.01), ("decay", 1.0))),
        ),
    ),
)

# DBE Table 5 has the same columns and one more (100 clients, half of them in a round).
COLUMNS = tuple(column for column in dbe.COLUMNS if column is not dbe.CIFAR100_DAGGER)

TABLE1 = Artefact(
    id="gpfl/table1",
    paper=PAPER,
    title="GPFL Table 1: test accuracy under label skew",
    kind="table",
    notebook="gpfl/table1.ipynb",
    rows=ROWS,
    columns=COLUMNS,
    scales=dbe.label_skew_scales(("fedavg", "ditto", "fedper", "fedrep", "gpfl")),
    sources=("gpfl_table1", LEADERBOARD),
    claims=tuple(
        Claim("gpfl", row.algorithm, source="GPFL section 4.2: best in every column")
        for row in ROWS
        if row.algorithm != "gpfl"
    ),
    about="GPFL, which learns global and personal features side by side, against ten methods under label skew.",
    cost="smoke: seconds. fast: an hour on two CPU cores, shared with results/fmnist. paper: 88 cells x 3 trials, a GPU.",
)

# Ten clients with two classes each, other settings as usual [GPFL section 4.3]; the counts follow from the recipe
# alone.
FIGURE2A = partition_figure(
    "gpfl/figure2a",
    title="GPFL Figure 2(a): samples a client and class, FMNIST, two classes a client",
    columns=(
        Column(
            "pathological/fmnist-10",
            "FMNIST, pathological, 10 clients",
            "fmnist",
            "cnn4",
            "pfllib-pathological:2",
            clients=10,
            samples=70_000,
            counts="fmnist_pat2_n10",
            equal_classes=True,
        ),
    ),
    scales=same_at_every_scale("the partition depends on the class sizes only"),
    about="How the pathological setting deals 70,000 images to ten clients, two classes each, in unequal shares.",
    cost="seconds; no data, no training.",
)
