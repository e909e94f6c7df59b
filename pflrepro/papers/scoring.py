"""The score card: every published cell of every artefact, ours beside it, at the best scale that was run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.papers.comparing import open_store, result
from pflrepro.papers.registry import select
from pflrepro.papers.verdicts import NOT_RUN, is_stand_in

if TYPE_CHECKING:
    import pandas as pd

    from pflrepro.experiments.store import Store
    from pflrepro.papers.artefact import Artefact

CARD_COLUMNS = (
    "artefact",
    "row",
    "column",
    "published",
    "ours",
    "spread",
    "difference",
    "tolerance",
    "n",
    "scale",
    "rounds",
    "selection",
    "verdict",
    "reason",
)


def score(paper: str | None = None, *, store: Store | None = None, data_root: str | Path | None = None) -> pd.DataFrame:
    """One line a cell over all artefacts of a paper (`dbe`), one artefact (`dbe/table5`) or everything (None).

    Each cell shows the most exact scale at which the store holds runs (paper before fast); stand-ins never count.
    Where nothing was run, `scale` is empty and the verdict is `not run`.
    """
    import pandas as pd

    store = open_store(store)
    cards = [_card(artefact, store, data_root) for artefact in select(paper)]
    return pd.concat(cards, ignore_index=True)


def summary(card: pd.DataFrame) -> pd.DataFrame:
    """The score card counted: one line an artefact, one column a verdict."""
    import pandas as pd

    counts = pd.crosstab(card["artefact"], card["verdict"])
    counts.insert(0, "cells", counts.sum(axis=1))
    return counts.reindex(card["artefact"].unique())


def _card(artefact: Artefact, store: Store, data_root: str | Path | None) -> pd.DataFrame:
    scales = [scale.name for scale in artefact.scales if not is_stand_in(scale)]
    if artefact.counts:
        return _counts_card(artefact, scales[-1], store)
    card = None
    # From the roughest scale to the most exact: later ones replace what they have run.
    for scale in scales:
        frame = result(artefact, scale, store=store, data_root=data_root).frame[list(CARD_COLUMNS)]
        frame.loc[frame["verdict"] == NOT_RUN, "scale"] = ""
        card = frame if card is None else card.where(frame["verdict"] == NOT_RUN, frame)
    return card


def _counts_card(artefact: Artefact, scale: str, store: Store) -> pd.DataFrame:
    """A figure of a partition as one line: its poorest cell."""
    frame = result(artefact, scale, store=store).frame
    poorest = frame.sort_values("difference", key=abs, ascending=False).head(1)[list(CARD_COLUMNS)]
    differing = int((frame["difference"] != 0).sum())
    return poorest.assign(
        row="all clients",
        column="samples a client and class",
        published=math.nan,
        ours=frame["ours"].sum(),
        reason=f"{differing} of {len(frame)} counts differ" if differing else "",
    )
