"""GRP-FED, "Addressing Client Imbalance in Federated Learning via Global-Regularized Personalization" (2021): Figure 1(b).

MIT-BIH, 46 patients, twelve classes of heartbeats, one client a patient [GRP-FED 4.1]; which records and classes: see the data set. The
paper shows "selected clients" and does not say which [?]; ours go from the nearest to the global class distribution to the farthest, at
about even steps of total variation.
"""

from __future__ import annotations

from dataclasses import replace

from pflrepro.papers.artefact import Column, Scale, partition_figure
from pflrepro.papers.demo import PRACTICAL

PATIENTS = Column(
    "patients/mitbih", "MIT-BIH, one client a patient", "mitbih", "ecg-resnet", "group", clients=46, samples=105_002
)
_STAND_IN = replace(PRACTICAL, key=PATIENTS.key)

FIGURE1B = partition_figure(
    "grp-fed/figure1b",
    title="GRP-FED Figure 1(b): class distribution of the global data and of selected clients",
    columns=(PATIENTS,),
    scales=(
        Scale(
            "smoke",
            "a stand-in on digits, 20 clients: shows that it runs, says nothing else",
            rounds=0,
            seeds=0,
            stand_ins=(_STAND_IN,),
        ),
        *(Scale(name, "all heartbeats of the 46 patients", rounds=0, seeds=0) for name in ("fast", "paper")),
    ),
    about="The long-tailed classes of all heartbeats together, and single patients whose classes are like them or quite different.",
    cost="seconds; no training, the data set MIT-BIH (pflrepro data get mitbih).",
    pictures=("bars", "bubbles"),
)
