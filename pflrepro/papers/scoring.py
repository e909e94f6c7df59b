"""The score card: every cell of every artefact, published and ours, at the most exact scale that was run, with the claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import SAME, Artefact, paper_of
from pflrepro.papers.judging import BROKEN, KEPT, RISING, UNDECIDED, Counts, Outcome
from pflrepro.papers.kept_lines import Lines, Made, remembered_lines
from pflrepro.papers.registry import select
from pflrepro.papers.result import ABSENT, FRAME_COLUMNS, NOT_RUN, UNPUBLISHED, marked
from pflrepro.papers.views.lost import LOST

if TYPE_CHECKING:
    import pandas as pd

    from pflrepro.experiments.result import Run
    from pflrepro.papers.studies import Study

CLAIM_COLUMNS = (
    *("artefact", "scale", "column", "claimed", "difference", "error", "test", "p", "adjusted", "outcome", "firm"),
    *("chance", "over", "source"),
)
FULL, LESS, EXACT = "full setting", "less of it", "exact"
SHARES = (FULL, LESS, EXACT, LOST, NOT_RUN)  # of the cells: what became of them
OUTCOMES = (KEPT, BROKEN, UNDECIDED, RISING)


@dataclass(frozen=True, eq=False)
class ScoreCard:
    """The score card of some artefacts.

    Attributes:
        cells: one line a cell (`papers.result.FRAME_COLUMNS`).
        claims: one line a claim that could be checked (`CLAIM_COLUMNS`), at the most exact scale that has it.
        artefacts: by id.
    """

    cells: pd.DataFrame
    claims: pd.DataFrame
    artefacts: Mapping[str, Artefact]
    store: Store
    data_root: str | Path | None = None

    @cached_property
    def studies(self) -> Mapping[str, list[Study]]:
        """Of every artefact at its scales, the most exact first."""
        return {id: _studies(artefact, self.store, self.data_root) for id, artefact in self.artefacts.items()}

    @cached_property
    def counts(self) -> dict[tuple[str, str], Counts]:
        """Of the claims, by (artefact, scale)."""
        groups = self.claims.groupby(["artefact", "scale"], sort=False)
        return {key: Counts.of(list(lines.itertuples())) for key, lines in groups}

    def shown(self, artefact: str) -> list[Study]:
        """The studies of an artefact whose cells are in the card, the most exact first; none where nothing was run."""
        scales = set(self.of(artefact)["scale"])
        return [study for study in self.studies[artefact] if study.scale.name in scales]

    def of(self, artefact: str) -> pd.DataFrame:
        """The cells of an artefact."""
        return self.cells[self.cells["artefact"] == artefact]

    def runs(self) -> dict[str, Run]:
        """The runs behind all cells by id, each as far as the longest request for it."""
        cells = (cell for studies in self.studies.values() for study in studies for cell in study.cells.values())
        found = sorted((run for cell in cells for run in cell.runs.values()), key=lambda run: run.rounds)
        return {run.id: run for run in found}


def score_card(
    paper: str | None = None, *, store: Store | None = None, data_root: str | Path | None = None
) -> ScoreCard:
    """The card of all artefacts of a paper (`dbe`), one artefact (`dbe/table5`) or everything (None).

    Each cell shows the most exact scale at which runs are there (paper before fast; where both have the paper's setting, the one with
    more seeds); stand-ins never count. Where nothing was run, the scale is empty and the verdict is `not run`.
    """
    import pandas as pd

    artefacts, store = select(paper), store or Store()

    def judged(artefact: Artefact) -> Made:
        return _judged(_studies(artefact, store, data_root))

    def fits(lines: object) -> bool:
        return isinstance(lines, dict) and lines.keys() == {"cells", "claims"}

    found = list(remembered_lines("scored", artefacts, judged, fits, store=store, data_root=data_root))
    return ScoreCard(
        pd.DataFrame([line for each in found for line in each["cells"]], columns=list(FRAME_COLUMNS)),
        pd.DataFrame([line for each in found for line in each["claims"]], columns=list(CLAIM_COLUMNS)),
        {artefact.id: artefact for artefact in artefacts},
        store,
        data_root,
    )


def _studies(artefact: Artefact, store: Store, data_root: str | Path | None) -> list[Study]:
    from pflrepro.papers.studies import Study  # which loads the engine: a card that is remembered needs none

    how = {"store": store, "data_root": data_root, "revives": False}
    return [Study(artefact, name, **how) for name in artefact.exact_scales]


def _judged(studies: list[Study]) -> Made:
    claims = [_claim(study, outcome) for study, outcome in _outcomes(studies)]
    claims.sort(key=lambda line: [study.scale.name for study in studies].index(line["scale"]))
    lines = {"cells": _cells(studies), "claims": claims}
    return Made(lines, sorted(set().union(*(study.asked for study in studies))))


def _cells(studies: list[Study]) -> Lines:
    card: Lines = []
    for study in studies:  # later ones, the less exact, fill in what the others have not run
        lines = study.lines
        for line in lines:
            line["scale"] = "" if line["verdict"] in ABSENT else line["scale"]
        card = [other if _tells_more(other, one) else one for one, other in zip(card or lines, lines, strict=True)]
    return card


def _tells_more(other: Mapping[str, object], one: Mapping[str, object]) -> bool:
    """Of two lines of a cell, of which `one` is of the more exact scale."""
    if other["verdict"] in ABSENT:
        return False
    return one["verdict"] in ABSENT or (other["fidelity"] == one["fidelity"] and other["n"] > one["n"])


def _outcomes(studies: list[Study]) -> list[tuple[Study, Outcome]]:
    """Every claim that could be checked, with the most exact study that has it; of two as exact, the one with more seeds."""
    found: dict[tuple[str, str], tuple[Study, Outcome]] = {}
    for study in studies:
        for each in study.outcomes:
            claimed = each.column, each.said.partition(" (rival: ")[0]  # which rival is the strongest may differ
            if claimed not in found or _more_seeds((study, each), found[claimed]):
                found[claimed] = (study, each)
    return list(found.values())


def _more_seeds(*both: tuple[Study, Outcome]) -> bool:
    """Whether the first has more of them in the same setting."""
    one, other = ([study.cells[place] for place in outcome.places] for study, outcome in both)
    alike = [cell.fidelity for cell in one] == [cell.fidelity for cell in other]
    return alike and min(len(cell.numbers) for cell in one) > min(len(cell.numbers) for cell in other)


def _claim(study: Study, outcome: Outcome) -> dict[str, object]:
    labels = {column.key: study.artefact.name_of(column) for column in study.artefact.columns}
    return {
        "artefact": study.artefact.id,
        "scale": study.scale.name,
        "column": labels.get(outcome.column, outcome.column),
        "claimed": outcome.said,
        **{name: getattr(outcome, name) for name in CLAIM_COLUMNS[4:]},
    }


def score(paper: str | None = None, *, store: Store | None = None, data_root: str | Path | None = None) -> pd.DataFrame:
    """The cells of `score_card`."""
    return score_card(paper, store=store, data_root=data_root).cells


def fates(cells: pd.DataFrame) -> pd.Series:
    """What became of each cell, one of `SHARES`."""
    exact = cells["fidelity"] == ""  # nothing is trained for it
    lost = exact & (cells["verdict"] == UNPUBLISHED) & (cells["n"] == 0)
    found = cells["fidelity"].map({SAME: FULL, "": EXACT}).fillna(LESS).mask(lost, LOST)
    return found.mask(cells["verdict"].isin(ABSENT), NOT_RUN)


def summary(card: ScoreCard) -> pd.DataFrame:
    """The score card counted: one line an artefact, with its cells by what became of them (`SHARES`) and its claims (`OUTCOMES`)."""
    import pandas as pd

    names = card.cells["artefact"].unique()
    shares = pd.crosstab(card.cells["artefact"], fates(card.cells)).reindex(names)
    shares = shares.reindex(columns=list(SHARES), fill_value=0)
    claims = pd.crosstab(card.claims["artefact"], card.claims["outcome"]).reindex(names, fill_value=0)
    shares.insert(0, "cells", shares.sum(axis=1))
    return shares.join(claims.reindex(columns=list(OUTCOMES), fill_value=0))


def by_paper(card: ScoreCard) -> pd.DataFrame:
    """`summary` added up, with the number of artefacts: one line a paper, in their order, and one of `all`."""
    counts = summary(card)
    counts.insert(0, "artefacts", 1)
    papers = list(map(paper_of, counts.index))
    found = counts.groupby(papers, sort=False).sum()
    found.loc["all"] = found.sum()
    return found


def status(card: ScoreCard, artefact: str) -> str:
    """What became of an artefact, in one line.

    Such as `6 of 6 cells at scale fast; claims: 4 ✓ kept`, `– not run`, or `exact: 16 = equal to the reference`.
    """
    cells = card.of(artefact)
    fate, verdicts = fates(cells), cells["verdict"].value_counts()
    if set(fate) in ({NOT_RUN}, {LOST}):
        return marked(fate.iloc[0])
    if not card.artefacts[artefact].trains:
        return f"{EXACT}: " + ", ".join(f"{count} {marked(word)}" for word, count in verdicts.items())
    where = ("at scale " + cells["scale"]).mask(fate == EXACT, EXACT)[fate != NOT_RUN].value_counts(sort=False)
    run = ", ".join(f"{count} of {len(cells)} cells {how}" for how, count in where.items())
    outcomes = card.claims.loc[card.claims["artefact"] == artefact, "outcome"]
    counts = ", ".join(f"{(outcomes == word).sum()} {marked(word)}" for word in OUTCOMES if word in set(outcomes))
    return run + (f"; claims: {counts}" if counts else "")
