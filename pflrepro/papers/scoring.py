"""The score card: every cell of every artefact, published and ours, at the most exact scale that was run, with the claims."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.papers.claims import Counts, Outcome
from pflrepro.papers.registry import select
from pflrepro.papers.result import FRAME_COLUMNS, NOT_RUN
from pflrepro.papers.studies import Study

if TYPE_CHECKING:
    import pandas as pd

    from pflrepro.experiments.store import Store

CLAIM_COLUMNS = (
    *("artefact", "scale", "column", "claimed", "difference", "error", "test", "p", "adjusted", "outcome", "firm"),
    "source",
)


@dataclass(frozen=True, eq=False)
class ScoreCard:
    """The score card of some artefacts.

    cells: one line a cell (`papers.result.FRAME_COLUMNS`). claims: one line a claim that could be checked (`CLAIM_COLUMNS`), at the
    most exact scale that has it. counts: of them, by (artefact, scale).
    """

    cells: pd.DataFrame
    claims: pd.DataFrame
    counts: dict[tuple[str, str], Counts]


def score_card(
    paper: str | None = None, *, store: Store | None = None, data_root: str | Path | None = None
) -> ScoreCard:
    """The card of all artefacts of a paper (`dbe`), one artefact (`dbe/table5`) or everything (None).

    Each cell shows the most exact scale at which runs are there (paper before fast); stand-ins never count. Where nothing was run, the
    scale is empty and the verdict is `not run`.
    """
    import pandas as pd

    cells, claims, counts = [], [], {}
    for artefact in select(paper):
        names = [scale.name for scale in artefact.scales if not scale.stand_in]
        names = names if artefact.trains else names[-1:]  # nothing is trained: the same at every scale
        studies = [Study(artefact, name, store=store, data_root=data_root) for name in names]
        cells.append(_cells(studies))
        found = _outcomes(studies)
        for study in studies:
            mine = [outcome for by, outcome in found if by is study]
            claims += [_claim(study, outcome) for outcome in mine]
            if mine:
                counts[artefact.id, study.scale.name] = Counts.of(mine)
    known = [card for card in cells if card is not None]
    empty = pd.DataFrame(columns=list(FRAME_COLUMNS))
    return ScoreCard(
        pd.concat(known, ignore_index=True) if known else empty,
        pd.DataFrame(claims, columns=list(CLAIM_COLUMNS)),
        counts,
    )


def _cells(studies: list[Study]) -> pd.DataFrame | None:
    card = None
    for study in studies:  # later ones, the more exact, replace what they have run
        frame = study.frame
        frame.loc[frame["verdict"] == NOT_RUN, "scale"] = ""
        card = frame if card is None else card.where(frame["verdict"] == NOT_RUN, frame)
    return card


def _outcomes(studies: list[Study]) -> list[tuple[Study, Outcome]]:
    """Every claim that could be checked, with the most exact study that has it."""
    latest = {(each.column, each.said): (study, each) for study in studies for each in study.outcomes}
    return list(latest.values())


def _claim(study: Study, outcome: Outcome) -> dict[str, object]:
    labels = {column.key: study.artefact.name_of(column) for column in study.artefact.columns}
    return {
        "artefact": study.artefact.id,
        "scale": study.scale.name,
        "column": labels.get(outcome.column, outcome.column),
        "claimed": outcome.said,
        **{
            name: getattr(outcome, name) for name in ("difference", "error", "test", "p", "adjusted", "outcome", "firm")
        },
        "source": outcome.source,
    }


def score(paper: str | None = None, *, store: Store | None = None, data_root: str | Path | None = None) -> pd.DataFrame:
    """The cells of `score_card`."""
    return score_card(paper, store=store, data_root=data_root).cells


def summary(card: pd.DataFrame) -> pd.DataFrame:
    """The score card counted: one line an artefact, one column a verdict."""
    import pandas as pd

    counts = pd.crosstab(card["artefact"], card["verdict"])
    counts.insert(0, "cells", counts.sum(axis=1))
    return counts.reindex(card["artefact"].unique())
