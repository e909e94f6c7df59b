"""GRP-FED, "Addressing Client Imbalance in Federated Learning via Global-Regularized Personalization" (2021).

MIT-BIH, 46 patients, and a long-tailed CIFAR-10 of 50 clients; 5 local epochs, batch 64, SGD with rate 0.005 and momentum 0.9, q from
10 by eta_q 0.5, beta 0.5 [GRP 4.1, 4.3]: our defaults. Not printed [?]: 200 rounds, a fifth of the clients a round, three seeds,
splits of 80/20 by class, and that the last round is meant. Of the baselines' settings only q-FFL's q of 10 is given ("the same");
the others are our defaults, from their own papers (docs/papers/baselines.md). Macro-F1: printed as fractions, here in percent. Figure 1
shows "selected clients" and does not say which [?]: ours go from the nearest to the global class distribution to the farthest, at about
even steps of total variation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.data.datasets import DATASETS
from pflrepro.data.heterogeneity import selected_clients, total_variation
from pflrepro.papers.artefact import Artefact, Scale, column, fast, row, scales
from pflrepro.papers.claims import above, best, falls, falls_across, peaks, rises
from pflrepro.papers.measures import LARGEST_LOSS, TRAIN_LOSS
from pflrepro.papers.prediction_measures import FARTHEST, NEAREST, grp_fed, predictions_of, tested
from pflrepro.papers.settings import LONG_TAILED_CIFAR10, MITBIH_PATIENTS
from pflrepro.papers.shown_partitions import SELECTED, ShownPartition
from pflrepro.papers.views.bars import ClassBars
from pflrepro.papers.views.counts import Counts
from pflrepro.papers.views.curves import Curves
from pflrepro.papers.views.planes import Planes, Shot
from pflrepro.papers.views.points import Points
from pflrepro.papers.views.sweep import Sweep, option
from pflrepro.papers.views.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from pflrepro.papers.measures import Evidence

FEDAVG, Q_FFL, PER_FEDAVG = row("FedAvg"), row("q-FFL"), row("per-FedAvg")
PFEDME = row("pFedMe", by_data={"cifar10": {"personal_rate": 0.01}})  # not printed [?]; as in pFedFDA's tables
AFL, LG, GRP = row("AFL"), row("LG-FedAvg"), row("GRP-FED")
TITLES = {"T_g": "global test", "T_l": "local test", "T_p": "personalisation", "T_r": "generalisation"}
SCORES = {name: grp_fed(name) for name in TITLES}
PATIENTS = {"dataset": "MIT-BIH", "model": "1D ResNet"}
LONG_TAIL = {"dataset": "CIFAR-10 long-tailed (rho=0.7, tau=0.5)", "model": "ResNet-30"}


def tenth(seeds: int = 1, **how: Any) -> Scale:
    """The scale `fast`: all patients with a tenth of their training beats."""
    said = "a tenth of each patient's training beats, all test beats, 100 of 200 rounds, tests every 5"
    return fast(100, said, every=5, share=0.1, seeds=seeds, **how)


TABLE1 = Artefact(
    "grpfed/table1",
    "GRP-FED Table 1: global test, local test, personalisation, generalisation",
    rows=(row("Local"), FEDAVG, AFL, Q_FFL, PER_FEDAVG, PFEDME, LG, GRP),
    columns=tuple(
        column(f"{key}/{name}", setting, measure, label=f"{TITLES[name]} {name}", group=where["dataset"], **where)
        for key, setting, where in (
            ("mitbih", MITBIH_PATIENTS, PATIENTS),
            ("cifar10", LONG_TAILED_CIFAR10, LONG_TAIL),
        )
        for name, measure in SCORES.items()
    ),
    scales=scales(tenth(seeds=3, columns=tuple(f"mitbih/{name}" for name in SCORES))),
    claims=(
        best("grp-fed", ("mitbih/T_g", "cifar10/T_g"), source="GRP-FED Table 1: the best on the global test"),
        best("grp-fed", ("mitbih/T_l", "cifar10/T_l"), source="GRP-FED Table 1: the best balance on the local test"),
        best("lg-fedavg", ("mitbih/T_p", "cifar10/T_p"), source="GRP-FED Table 1"),
        best("q-ffl", ("mitbih/T_r", "cifar10/T_r"), source="GRP-FED Table 1"),
        above("grp-fed", "lg-fedavg", ("mitbih/T_r", "cifar10/T_r"), source="GRP-FED Table 1"),
        above("grp-fed", "q-ffl", ("mitbih/T_p", "cifar10/T_p"), source="GRP-FED Table 1"),
    ),
    views=(Table(), Points()),
    sources=("grpfed_table1",),
    about="Macro-F1 of the global model on all test data (T_g; the ensemble for methods of local models only), of the clients' "
    "models on their own data (T_p) and on all (T_r), and the mean over clients of the harmonic mean of the two (T_l). "
    "The paper claims the best T_g and T_l: a fair global model, and personal ones that do not forget the rest.",
)

FIGURE3 = Artefact(
    "grpfed/figure3",
    "GRP-FED Figure 3: mean and largest training loss of the clients over rounds",
    rows=(FEDAVG, AFL, Q_FFL, GRP),
    columns=(
        column("mean", MITBIH_PATIENTS, TRAIN_LOSS, label="mean loss"),
        column("largest", MITBIH_PATIENTS, LARGEST_LOSS, label="largest loss"),
    ),
    scales=scales(tenth()),
    claims=(best("grp-fed", ("largest",), source="GRP-FED Figure 3: the largest loss keeps falling"),),
    views=(Curves(("train_loss", "largest train_loss"), columns=("mean",)), Table(), Points()),
    about="The clients' losses of the global model in their last local training, mean (by training samples) and largest. The "
    "paper claims that means are alike, while the largest loss stays high with FedAvg and AFL, rises again in the end "
    "with q-FFL, and falls with GRP-FED, whose power adapts. Its data set is not stated [?]: MIT-BIH.",
)

BETAS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # the axis is not printed in numbers [?]
SWEPT = tuple(row(f"beta = {beta:g}", "grp-fed", key=f"beta-{beta:g}", beta=beta) for beta in BETAS)
_KEYS = tuple(each.key for each in SWEPT)
FIGURE4 = Artefact(
    "grpfed/figure4",
    "GRP-FED Figure 4: the weight of the local loss",
    rows=SWEPT,
    columns=tuple(
        column(name, MITBIH_PATIENTS, SCORES[name], label=f"{TITLES[name]} {name}") for name in ("T_p", "T_r", "T_l")
    ),
    scales=scales(tenth(rows=("beta-0", "beta-0.1", "beta-0.5", "beta-0.9", "beta-1"))),
    claims=(
        rises(_KEYS, ("T_p",), source="GRP-FED section 4.3, Figure 4"),
        falls(_KEYS, ("T_r",), source="GRP-FED section 4.3, Figure 4"),
        peaks(_KEYS, "beta-0.5", ("T_l",), source="GRP-FED section 4.3, Figure 4: 0.5 is the best"),
    ),
    views=(Sweep(option("beta"), "beta", together=True, ylabel="macro-F1 (%)"), Table()),
    about="From the regulariser alone (beta 0) to the local loss alone (beta 1). The paper claims that personalisation rises "
    "with beta, generalisation falls, and the local test is best between.",
)


def names_of_clients(evidence: Evidence) -> list[str]:
    """`patient 100` and so on, where a client is a record of the data's files; else `client 0`."""
    data = evidence.run.experiment.data
    spec = DATASETS[data.dataset]
    records = sorted({file.name.partition(".")[0] for file in spec.files}) if spec.groups else []
    if len(records) == data.clients:
        return [f"{spec.groups} {record}" for record in records]
    return [f"client {number}" for number in range(data.clients)]


def classes_of_two(study: Any) -> pd.DataFrame | None:
    """Percent of the test beats in each class: of all patients together, of the nearest and of the farthest; a line a class."""
    import pandas as pd

    found = [each for row in study.artefact.rows for each in study.evidence(row.key, study.artefact.columns[0].key)]
    if not found:
        return None
    counts, names = tested(predictions_of(found[0])), names_of_clients(found[0])
    apart = total_variation(counts)
    shown = {f"all {len(counts)} clients": counts.sum(0)}
    for which, client in ((NEAREST, np.nanargmin(apart)), (FARTHEST, np.nanargmax(apart))):
        shown[f"{PLACES[which]}: {names[client]}, {apart[client]:.2f}"] = counts[client]
    classes = DATASETS[found[0].run.experiment.data.dataset].class_names
    return pd.DataFrame({title: 100.0 * each / each.sum() for title, each in shown.items()}, index=list(classes))


CLIENTS = {
    NEAREST: "upper client (class distribution close to the global one)",
    FARTHEST: "lower client (class distribution far from the global one)",
}
PLACES = {NEAREST: "upper client (nearest)", FARTHEST: "lower client (farthest)"}
FIGURE5 = Artefact(
    "grpfed/figure5",
    "GRP-FED Figure 5: two single patients",
    rows=(FEDAVG, Q_FFL, PER_FEDAVG, PFEDME, LG, GRP),
    columns=tuple(
        column(
            f"{client}/{name}",
            MITBIH_PATIENTS,
            grp_fed(name, client),
            label=f"{TITLES[name]} {name}",
            group=PLACES[client],
            setting=said,
            **PATIENTS,
        )
        for client, said in CLIENTS.items()
        for name in ("T_g", "T_l", "T_p")
    ),
    scales=scales(tenth()),
    claims=(
        best("grp-fed", ("farthest/T_l",), source="GRP-FED Figure 5"),
        best("lg-fedavg", ("farthest/T_p",), source="GRP-FED Figure 5"),
        *(
            above(other, "lg-fedavg", ("farthest/T_l",), source="GRP-FED Figure 5: it forgets the rest")
            for other in ("fedavg", "q-ffl", "per-fedavg", "pfedme")
        ),
    ),
    views=(ClassBars(classes_of_two, "test beats (%)", compared=True, kept=False, name=""), Table(), Points()),
    sources=("grpfed_fig5_tables",),
    about="A patient whose beats are distributed as all beats are, and one far from that: the global model on the patient's "
    "test beats, and the patient's own model there (T_p) and balanced with all test beats (T_l). Which two the paper "
    "shows is not said [?]: ours are the nearest and the farthest by total variation. q-FFL's printed numbers of the near "
    "patient contradict each other.",
)


def f1_of_clients(study: Any) -> pd.DataFrame | None:
    """Macro-F1 of FedAvg's model, in percent: on all test data, and on those of clients from the nearest to the farthest."""
    import pandas as pd

    from pflrepro.metrics.personalisation import f1_of_server, grp_fed_scores

    evidence = study.evidence("fedavg", "T_g")
    if not evidence:
        return None
    predictions = predictions_of(evidence[0])
    counts, names = tested(predictions), names_of_clients(evidence[0])
    chosen, apart = selected_clients(counts, SELECTED), total_variation(counts)
    each = f1_of_server(predictions)[chosen]
    lines = [f"all {len(counts)} clients", *(f"{names[client]} ({apart[client]:.2f})" for client in chosen)]
    return pd.DataFrame({"FedAvg": 100.0 * np.array([grp_fed_scores(predictions).t_g, *each])}, index=lines)


FIGURE1 = Artefact(
    "grpfed/figure1",
    "GRP-FED Figure 1: how different the patients are, and what FedAvg makes of it",
    rows=(FEDAVG,),
    columns=(
        column("T_g", MITBIH_PATIENTS, SCORES["T_g"], label="all patients"),
        *(
            column(client, MITBIH_PATIENTS, replace(grp_fed("T_g", client), metric=""), label=f"the {client} patient")
            for client in CLIENTS
        ),
    ),
    scales=scales(tenth()),
    claims=(falls_across("fedavg", ("T_g", FARTHEST), source="GRP-FED Figure 1(c)"),),
    views=(
        Planes((Shot("fedavg", "T_g", title="(a) test beats"),), ("A-distance between clients",), "client", name="a"),
        Counts((ShownPartition(MITBIH_PATIENTS, equal=False),), shares=True, name="b"),
        ClassBars(f1_of_clients, "macro-F1 (%)", name="c"),
        Table(),
    ),
    about="(a) Features of FedAvg's model, coloured by patient; the paper does not say what its t-SNE is of [?]. (b) The "
    "long-tailed classes of all beats and of selected patients, in brackets how far they are from the whole (total variation). (c) "
    "Macro-F1 of FedAvg's model on all test beats and on those of selected patients: the paper shows that patients far from the whole "
    "fare worse.",
)

ARTEFACTS = (TABLE1, FIGURE1, FIGURE3, FIGURE4, FIGURE5)
