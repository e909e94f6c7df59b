"""The artefacts by id (`paper/artefact`), and how to find them."""

from __future__ import annotations

from pflrepro.errors import check_word
from pflrepro.papers import (
    counted_artefacts,
    dbe,
    dbe_models,
    demo,
    fedbr_counts,
    fedbr_figures,
    fedbr_tables,
    gpfl,
    gpfl_figures,
    grpfed,
    learning,
    pfedfda_costs,
    pfedfda_counts,
    pfedfda_figures,
    pfedfda_tables,
    tuning,
)
from pflrepro.papers.artefact import Artefact

PAPERS: dict[str, str] = {
    "demo": "Our own quick start on embedded data",
    "dbe": "DBE: Eliminating Domain Bias for Federated Learning in Representation Space (NeurIPS 2023)",
    "gpfl": "GPFL: Simultaneously Learning Global and Personalized Feature Information (ICCV 2023)",
    "pfedfda": "pFedFDA: Personalized Federated Learning via Feature Distribution Adaptation (NeurIPS 2024)",
    "fedbr": "FedBR: Improving Federated Learning on Heterogeneous Data via Local Learning Bias Reduction (ICML 2023)",
    "grpfed": "GRP-FED: Addressing Client Imbalance in Federated Learning via Global-Regularized Personalization (2021)",
    "results": "Our own checks",
}

# Where a paper and its authors' code are; of GRP-FED no code was found.
LINKS: dict[str, dict[str, str]] = {
    "dbe": {"paper": "https://arxiv.org/abs/2311.14975", "code": "https://github.com/TsingZ0/DBE"},
    "gpfl": {"paper": "https://arxiv.org/abs/2308.10279", "code": "https://github.com/TsingZ0/GPFL"},
    "pfedfda": {"paper": "https://arxiv.org/abs/2411.00329", "code": "https://github.com/cj-mclaughlin/pFedFDA"},
    "fedbr": {"paper": "https://arxiv.org/abs/2205.13462", "code": "https://github.com/lins-lab/fedbr"},
    "grpfed": {"paper": "https://arxiv.org/abs/2108.13858"},
}


def _by_id(*artefacts: Artefact) -> dict[str, Artefact]:
    """The artefacts by id, paper by paper, tables before figures, by number."""
    table: dict[str, Artefact] = {}
    for artefact in sorted(artefacts, key=_place):
        if artefact.id in table:
            raise ValueError(f"the artefact {artefact.id!r} is registered twice")
        table[artefact.id] = artefact
    return table


def _place(artefact: Artefact) -> tuple[int, bool, int]:
    number = "".join(filter(str.isdigit, artefact.id.partition("/")[2]))
    return list(PAPERS).index(artefact.paper), artefact.kind == "figure", int(number or 0)


ARTEFACTS: dict[str, Artefact] = _by_id(
    demo.DIGITS,
    learning.METHODS,
    *tuning.ARTEFACTS,
    *(*dbe.ARTEFACTS, *dbe_models.ARTEFACTS, counted_artefacts.DBE_FIGURE6),
    *(*gpfl.ARTEFACTS, *gpfl_figures.ARTEFACTS),
    *(*pfedfda_tables.ARTEFACTS, *pfedfda_costs.ARTEFACTS, *pfedfda_figures.ARTEFACTS),
    *(pfedfda_counts.FIGURE3, pfedfda_counts.TABLE8, pfedfda_counts.THEOREM1),
    *(fedbr_counts.TABLE7, fedbr_counts.TABLE8, fedbr_counts.TABLE9, fedbr_counts.TABLE11),
    *(*fedbr_tables.ARTEFACTS, *fedbr_figures.ARTEFACTS, *grpfed.ARTEFACTS),
)


def find(name: str | Artefact) -> Artefact:
    """The artefact of an id such as `dbe/table5`; `UserError` lists the valid ids, the nearest first."""
    if isinstance(name, Artefact):
        return name
    return ARTEFACTS[check_word("artefact", name, ARTEFACTS)]


def select(name: str | None = None) -> list[Artefact]:
    """The artefacts of a paper (`dbe`), of an id (`dbe/table5`), or all (None).

    Example:
        >>> [artefact.id for artefact in select("grpfed")]
        ['grpfed/table1', 'grpfed/figure1', 'grpfed/figure3', 'grpfed/figure4', 'grpfed/figure5']
    """
    if name is None:
        return list(ARTEFACTS.values())
    if isinstance(name, str) and "/" in name:
        return [find(name)]
    check_word("paper", name, PAPERS)
    return [artefact for artefact in ARTEFACTS.values() if artefact.paper == name]
