"""pFedFDA: what the coefficients make of corrupted clients (Figure 2), and local epochs (Figure 4).

Protocol as in `pfedfda_tables`. Neither figure prints numbers. Figure 2 does not say on which data: both corrupted sets here, with the
code's pairs (five clients share one) [?]. Figure 4's alpha and epochs are lost: 0.5, and 1 to 20 [?].
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pflrepro.papers.artefact import Artefact, Column, Row, column, fast, row, scales
from pflrepro.papers.claims import above, wider
from pflrepro.papers.measures import FDA_ACCURACY, Evidence, Measure, Value
from pflrepro.papers.model_measures import BETAS, over_clients, tuned
from pflrepro.papers.pfedfda_tables import EVERY, PFEDFDA, percent_of
from pflrepro.papers.settings import CIFAR10_S, CIFAR100_DEALT, CIFAR100_S
from pflrepro.papers.views.spread import Spread, by_corruption
from pflrepro.papers.views.sweep import Sweep, changed
from pflrepro.papers.views.table import Table


# ---- Figure 2: the coefficient by corruption -------------------------------------------------------------------------------------
def betas_of(kinds: str) -> Measure:
    """The mean coefficient of the clients with `clean` images, or of the `corrupted` ones."""

    def of(evidence: Evidence) -> Value:
        found = BETAS.of(evidence).clients
        labels = np.array(by_corruption(evidence.run.experiment.data))
        chosen = labels == "clean" if kinds == "clean" else labels != "clean"
        if found is None or not chosen.any():
            return Value(float("nan"))
        return replace(over_clients(found[chosen]), each=f"{kinds} clients")

    return replace(BETAS, name=f"{BETAS.name}-{kinds}", title=f"{BETAS.title}, {kinds} images", of=of)


CLEAN, CORRUPTED = (
    row(f"{kinds} clients", "pfedfda", key=kinds, measure=betas_of(kinds)) for kinds in ("clean", "corrupted")
)
FIGURE2 = Artefact(
    "pfedfda/figure2",
    "pFedFDA Figure 2: the coefficient of clients with corrupted images",
    rows=(PFEDFDA, CLEAN, CORRUPTED),
    columns=(column("cifar10-s", CIFAR10_S, BETAS), column("cifar100-s", CIFAR100_S, BETAS)),
    scales=scales(
        fast(
            200,
            "CIFAR100-S with a quarter of the samples: Table 1's run",
            every=EVERY,
            share=0.25,
            columns=("cifar100-s",),
        ),
        seeds=1,
        every=EVERY,
    ),
    claims=(above("corrupted", "clean", source="pFedFDA section 5.3: clean clients rely most on global statistics"),),
    views=(Spread((("pfedfda", "cifar10-s"), ("pfedfda", "cifar100-s"))), Table()),
    trials=1,
    about="beta of every client's last test, by the corruption of its images: 0 takes the global statistics, 1 the client's own. The "
    "paper sees the smallest values at clean clients and large ones where a corruption is hard, such as contrast.",
)

# ---- Figure 4: local epochs ------------------------------------------------------------------------------------------------------
EPOCHS = (1, 2, 5, 10, 20)


def _trained_for(epochs: int) -> tuple[Row, Row]:
    """Both methods; FedAvgFT tunes for as many epochs as a round has [FDA-code]."""
    changes, said = {"local_epochs": epochs}, f"E = {epochs}"
    return (
        row(f"pFedFDA, {said}", "pfedfda", key=f"pfedfda-{epochs}", changes=changes),
        row(f"FedAvgFT, {said}", "fedavg", key=f"fedavgft-{epochs}", changes=changes, measure=tuned(epochs)),
    )


_LINES = (("pFedFDA", "pfedfda"), ("FedAvgFT", "fedavgft"))
_PANELS: tuple[Column, ...] = (
    column("cifar100", CIFAR100_DEALT, FDA_ACCURACY, label="CIFAR100"),
    column("cifar100-s/25", percent_of(CIFAR100_S, 25), FDA_ACCURACY, label="CIFAR100-S, 25 %"),
)
FIGURE4 = Artefact(
    "pfedfda/figure4",
    "pFedFDA Figure 4: accuracy by local epochs",
    rows=tuple(each for pair in zip(*map(_trained_for, EPOCHS), strict=True) for each in pair),
    columns=_PANELS,
    scales=scales(
        fast(
            200,
            "CIFAR100-S with a quarter of the samples, 1, 2 and 5 epochs: of this panel the paper's own setting",
            every=EVERY,
            rows=tuple(f"{name}-{epochs}" for _, name in _LINES for epochs in EPOCHS[:3]),
            columns=("cifar100-s/25",),
        ),
        seeds=1,
        every=EVERY,
    ),
    claims=(
        *(
            above(f"pfedfda-{epochs}", f"fedavgft-{epochs}", source="pFedFDA App. D.2: above FedAvgFT at equal epochs")
            for epochs in EPOCHS
        ),
        *(
            wider(
                ("pfedfda-1", "fedavgft-1"),
                (f"pfedfda-{epochs}", f"fedavgft-{epochs}"),
                source="pFedFDA App. D.2: the advantage is largest with few epochs",
            )
            for epochs in (5, 20)
        ),
    ),
    views=(
        Sweep(
            changed("local_epochs"),
            "local epochs a round",
            lines=tuple((label, tuple(f"{name}-{epochs}" for epochs in EPOCHS)) for label, name in _LINES),
        ),
        Table(),
    ),
    trials=1,
    about="More local epochs a round, for pFedFDA and for fine-tuned FedAvg. The paper claims a large advantage at few epochs and a "
    "plateau of both at many.",
)

ARTEFACTS = (FIGURE2, FIGURE4)
