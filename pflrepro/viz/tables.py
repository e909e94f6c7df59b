"""Tables of a result: styled for notebooks, markdown and csv for files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pflrepro.papers.comparing import Result
from pflrepro.papers.verdicts import BROKEN, EQUAL, KEPT, NOT_RUN, STAND_IN, WITHIN
from pflrepro.viz.captions import caption, mean_and_spread, number

if TYPE_CHECKING:
    import pandas as pd
    from pandas.io.formats.style import Styler

# Background by verdict: blue for agreement, orange for disagreement, grey for nothing to say (safe for colour-blind
# readers).
SHADES = {
    WITHIN: "#cfe5f5",
    EQUAL: "#cfe5f5",
    KEPT: "#e8f2fa",
    BROKEN: "#fbe0cc",
    STAND_IN: "#f4f4f4",
    NOT_RUN: "#f4f4f4",
}


def long(result: Result) -> pd.DataFrame:
    """One line a cell, ready to read: published | ours ± spread | difference | n | rounds | verdict."""
    import pandas as pd

    digits = 0 if result.artefact.counts else 2
    lines = []
    for cell in result.frame.itertuples(index=False):
        published = mean_and_spread(cell.published, cell.published_std, digits=digits)
        lines.append(
            {
                "method": cell.row,
                "column": cell.column,
                "published": published or "no published number",
                "ours": mean_and_spread(cell.ours, cell.spread, cell.n, digits) or NOT_RUN,
                "difference": number(cell.difference, digits, sign=True),
                "n": cell.n or "",
                "scale": cell.scale,
                "rounds": cell.rounds or "",
                "verdict": cell.verdict,
                "reason": cell.reason,
            }
        )
    return pd.DataFrame(lines)


def wide(result: Result) -> pd.DataFrame:
    """The table in the paper's shape: rows are methods; each column splits into `published` and `ours`."""
    import pandas as pd

    cells = long(result)
    artefact = result.artefact
    rows = list(dict.fromkeys(cells["method"]))
    columns = list(dict.fromkeys(cells["column"]))
    table = {}
    for name in columns:
        part = cells[cells["column"] == name].set_index("method")
        table[name, "reference" if artefact.counts else "published"] = part["published"].where(
            part["published"] != "no published number", "none"
        )
        table[name, "ours"] = part["ours"]
    frame = pd.DataFrame(table, index=rows)
    frame.columns = pd.MultiIndex.from_tuples(frame.columns, names=["", artefact.metric])
    frame.index.name = "method"
    return frame


def styled(result: Result) -> Styler:
    """The wide table for a notebook; ours are shaded by verdict, the caption says scale, data, seeds, rule."""
    frame = wide(result)
    verdicts = result.frame.set_index(["row", "column"])["verdict"]
    shades = frame.copy()
    for column in frame.columns:
        for row in frame.index:
            colour = SHADES.get(verdicts[row, column[0]], "") if column[1] == "ours" else ""
            shades.loc[row, column] = f"background-color: {colour}" if colour else ""
    unit = "samples" if result.artefact.counts else "accuracy in %"
    styler = frame.style.apply(lambda _: shades, axis=None).set_caption(
        f"{result.artefact.title} ({unit}). {caption(result)}."
    )
    styler.set_table_styles(
        [{"selector": "caption", "props": "caption-side: bottom; text-align: left; padding-top: 0.5em"}]
    )
    return styler.set_properties(**{"text-align": "right", "white-space": "nowrap"})


def markdown(frame: pd.DataFrame) -> str:
    """A data frame of texts as a markdown table; the index is left out."""
    header = [str(name) for name in frame.columns]
    lines = [header, ["---"] * len(header), *([str(value) for value in line] for line in frame.itertuples(index=False))]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
