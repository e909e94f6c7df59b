"""How a study is shown: captions, the page that shows it in a notebook, tables of claims, markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from pflrepro.algorithms.registry import hyperparameters
from pflrepro.markup import latex, records
from pflrepro.notebook import display
from pflrepro.papers.artefact import SAME, Column, Row
from pflrepro.papers.result import MARKS, VERDICTS, marked
from pflrepro.papers.studied import Studied
from pflrepro.papers.texts import html, markdown, number, probability, span
from pflrepro.style import img, picture

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pflrepro.papers.judging import Outcome


# ---- captions --------------------------------------------------------------------------------------------------------------------
def caption(study: Studied) -> str:
    """Scale, data, seeds, rounds and rule in one line; what stands in for what."""
    if not study.artefact.trains:
        return "nothing is trained: exact at every scale"
    run = [cell for cell in study.cells.values() if cell.runs]
    if not run:
        return f"scale {study.scale.name}: nothing run yet"
    data = " and ".join(dict.fromkeys(study.setting(cell.column).label for cell in run))
    seeds = span((len(cell.runs) for cell in run), "seed")
    rounds = span((cell.rounds for cell in run), "round")
    every = {each.experiment.settings.every for cell in run for each in cell.runs.values()}
    if max(every) > 1:
        rounds += f", tested every {'' if len(every) == 1 else f'{min(every)} to '}{max(every)}"
    patience = {each.experiment.settings.patience for cell in run for each in cell.runs.values()} - {0}
    if patience:
        rounds += f", ended by {span(patience, 'test')} without a new best"
    shown = any(view.of_cells for view in study.artefact.views)
    rules = "; ".join(dict.fromkeys(cell.rule for cell in run if cell.rule and shown))
    fidelities = dict.fromkeys(study.fidelity(cell.column) for cell in run if cell.fidelity != SAME)
    said = "; ".join((f"scale {study.scale.name}", data, seeds, rounds, *filter(None, (rules,)), *fidelities))
    return said


# ---- claims ----------------------------------------------------------------------------------------------------------------------
def claims(study: Studied) -> pd.DataFrame:
    """One line a claim that could be checked, as texts."""
    return _tests(study, study.outcomes)


OWN_CLAIMS = "own rows against the paper's: two-sided tests as of claims, corrected by Holm over these lines alone"


def own_claims(study: Studied) -> pd.DataFrame:
    """One line a row of one's own, row of the paper and column, as texts."""
    return _tests(study, study.own_outcomes).drop(columns="source").rename(columns={"claimed": "asked"})


def _tests(study: Studied, outcomes: Sequence[Outcome]) -> pd.DataFrame:
    import pandas as pd

    labels = {column.key: study.artefact.name_of(column) for column in study.artefact.columns}
    lines = [
        {
            "column": labels.get(each.column, each.column),
            "claimed": each.said,
            "ours, difference": number(each.difference, sign=True),
            "its standard error": number(each.error) or "unknown (one seed)",
            "test": each.test,
            "p": probability(each.p),
            "p after Holm": probability(each.adjusted),
            "outcome": marked(each.outcome),
            "source": each.source,
        }
        for each in outcomes
    ]
    return pd.DataFrame(lines)


# ---- in a notebook -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Tables:
    """Tables below each other, each with its notes; above them what they are of."""

    caption: str
    tables: Sequence[tuple[pd.DataFrame, Sequence[str]]]

    def _repr_html_(self) -> str:
        shown = "".join(html(frame, TITLES) + _list(notes) for frame, notes in self.tables)
        return f"<p><i>{escape(self.caption)}</i></p>{shown}"

    def to_latex(self) -> str:
        """The tables as LaTeX, with caption and notes as comments; it wants the packages booktabs and amssymb."""
        parts = [[f"% {note}" for note in notes] + [latex(frame)] for frame, notes in self.tables]
        return "\n".join([f"% {self.caption}", *("\n".join(part) for part in parts)])

    def __repr__(self) -> str:
        return "\n\n".join((self.caption, *(markdown(frame) for frame, _ in self.tables)))


TITLES = {mark: f"{verdict}: {VERDICTS[verdict]}" for verdict, mark in MARKS.items()}


def _list(notes: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>" if notes else ""


@dataclass(frozen=True)
class Pictures:
    """Pictures below each other, each an output of its own."""

    figures: Mapping[str, Figure]

    def _ipython_display_(self) -> None:
        for name, figure in self.figures.items():
            display(picture(figure, name or "figure"))

    def html(self) -> str:
        """The pictures inside a page."""
        return "".join(img(figure, name or "figure") for name, figure in self.figures.items())

    def __repr__(self) -> str:
        return f"Pictures({', '.join(name or 'figure' for name in self.figures) or 'none'})"


def page(study: Studied) -> str:
    """What is trained: the columns with data, partition, network and rate, the rows with the options that are not our defaults."""
    artefact = study.artefact
    parts = [
        f"<h3>{escape(artefact.title)}</h3><p>{escape(artefact.about)}</p><p>Scale {study.scale.name}: {escape(study.scale.note)}.</p>"
    ]
    if artefact.trains:
        columns = [_column_line(study, column) for column in study.columns]
        rows = [_row_line(study, row) for row in study.trained]
        parts += [records(columns), records(rows)]
        if len(study.columns) < len(artefact.columns):
            left = "; ".join(artefact.name_of(column) for column in artefact.columns if column not in study.columns)
            parts.append(f"<p>Not part of this scale: {escape(left)}.</p>")
    return "".join(parts)


def _column_line(study: Studied, column: Column) -> dict[str, str]:
    setting = study.setting(column)
    protocol = setting.settings
    who = "all clients" if protocol.participation == 1 else f"{100 * protocol.participation:g} % of the clients"
    work = f"{protocol.local_steps} steps" if protocol.local_steps else span([protocol.local_epochs], "epoch")
    return {
        "column": study.artefact.name_of(column),
        "what is trained": setting.label,
        "data": setting.dataset,
        "partition": f"{setting.partition}, {setting.clients} clients",
        "network": setting.model,
        "with": ", ".join(filter(None, (column.plugins, *(f"{name}={value}" for name, value in column.options)))),
        "a round": f"{who}, {work}, batch {protocol.batch_size}, rate {protocol.lr:g}",
        "rounds": str(study.scale.changes(column, setting)["rounds"]),
        "measure": column.measure.title,
        "fidelity": study.fidelity(column),
    }


def _row_line(study: Studied, row: Row) -> dict[str, str]:
    defaults = hyperparameters(row.algorithm)
    given = [(name, value) for name, value in row.options if defaults.get(name) != value]
    settings = [study.setting(column) for column in study.columns if study.has(row, column)]
    models, data = ({getattr(each, name) for each in settings} for name in ("model", "dataset"))
    places = [each for each in row.by_model if each[0] in models] + [each for each in row.by_data if each[0] in data]
    options = [_pairs(given), *(f"on {where}: {_pairs(own)}" for where, own in places)]
    if scaled := study.scale.options.get(row.key):
        options.append(f"at scale {study.scale.name}: {_pairs(scaled.items())}")
    return {
        "row": row.label,
        "method": row.algorithm,
        "options": "; ".join(filter(None, options)),
        "changed": _pairs((*row.changes, *row.setting)),
        "note": row.note,
    }


def _pairs(named: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in named)
