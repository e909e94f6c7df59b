"""First results on real data: Fashion-MNIST, the papers' practical partition, their numbers beside ours.

All 70,000 images, 20 clients, `pfllib-dirichlet:0.1` (the published partition, sample by sample), batch 10, rate
0.005, CNN4. The papers print the best of up to 2,000 rounds; at the scale `fast` ours have 40 and must be read as
such.
"""

from __future__ import annotations

from pflrepro.papers import dbe
from pflrepro.papers.artefact import Artefact, Claim, Row, Scale
from pflrepro.papers.numbers import LEADERBOARD

PAPER = "results"

ROWS = (
    Row("Local", "local"),
    Row("FedAvg", "fedavg"),
    Row("FedPer", "fedper"),
    Row("FedRep", "fedrep"),
    Row("Ditto", "ditto"),
    Row("GPFL", "gpfl"),
    Row("FedAvg+DBE", "fedavg+dbe", aliases=("FedDBE",)),
)

FMNIST = Artefact(
    id="results/fmnist",
    paper=PAPER,
    title="Fashion-MNIST, practical partition: seven methods, before and after local training",
    kind="table",
    notebook="results/fmnist.ipynb",
    rows=ROWS,
    columns=(dbe.FMNIST_PRACTICAL,),
    scales=(
        Scale(
            "smoke",
            "a stand-in on digits, 5 clients, 2 rounds: shows that it runs, says nothing else",
            rounds=2,
            seeds=1,
            stand_ins=(dbe.digits_stand_in(dbe.FMNIST_PRACTICAL),),
        ),
        Scale("fast", "all data, 40 rounds of 2,000, one seed", rounds=40, seeds=1),
        Scale(
            "paper",
            "at most 2,000 rounds, stop after 100 evaluations without a new best, one seed",
            rounds=2_000,
            seeds=1,
            patience=100,
        ),
    ),
    sources=("dbe_table5", "gpfl_table1", LEADERBOARD),
    claims=(
        *(
            Claim("fedavg+dbe", name, source="DBE Table 5, column FMNIST practical")
            for name in ("fedavg", "fedper", "fedrep", "ditto")
        ),
        *(
            Claim("gpfl", name, source="GPFL Table 1, column FMNIST practical")
            for name in ("fedavg", "fedper", "fedrep", "ditto")
        ),
        *(
            Claim(name, "fedavg", source="DBE Table 5, column FMNIST practical")
            for name in ("fedper", "fedrep", "ditto")
        ),
    ),
    trials=1,
    about="Seven methods on the published 20-client partition of Fashion-MNIST, with the accuracy before and after "
    "each round's local training.",
    cost="smoke: seconds. fast: about an hour on two CPU cores. paper: a GPU.",
    pictures=("points", "curves"),
)
