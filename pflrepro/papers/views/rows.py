"""What views ask of a study: which rows and columns, how a row is drawn, where its numbers are less than the paper's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pflrepro.algorithms.registry import canonical_name
from pflrepro.papers.artefact import INSTEAD, SAME, STAND_IN, Artefact, Column, Row
from pflrepro.papers.result import Cell
from pflrepro.viz.looks import LOOKS, Look, looks


def own_rows(artefact: Artefact) -> list[int]:
    """The places of the rows with the paper's own method: of these, those with its own settings, where there are such."""
    own = [place for place, row in enumerate(artefact.rows) if artefact.paper in _parts(row)]
    plain = [place for place in own if not (artefact.rows[place].options or artefact.rows[place].changes)]
    return plain or own


def _parts(row: Row) -> list[str]:
    return [part.replace("-", "") for part in canonical_name(row.algorithm).split("+")]


def row_looks(artefact: Artefact) -> dict[str, Look]:
    """Row key -> look: the same at every scale, whatever is run. A method that is measured on another one's run has its own."""
    found = looks([_drawn_as(row) for row in artefact.rows], own_rows(artefact))
    return dict(zip(artefact.row_keys, found, strict=True))


def _drawn_as(row: Row) -> str:
    """The method that a row's key begins with, such as `fedavgft-5`, else the one that is run."""
    return next((name for name in (row.key, row.key.rpartition("-")[0]) if name in LOOKS), row.algorithm)


def chosen(study: Any, kind: str, keys: tuple[str, ...] = ()) -> list[Any]:
    """The rows or columns (`kind`) of a study that a view shows, all without `keys`; `UserError` for a key that the artefact lacks.

    A column of stand-ins is called one: numbers on digits do not stand under the name of other data.
    """
    for key in keys:
        getattr(study.artefact, kind)(key)
    there = {each.key: each for each in getattr(study, f"{kind}s")}
    found = [there[key] for key in (keys or there) if key in there]
    if kind == "column" and study.scale.stand_in:
        return [replace(column, label=f"stand-in for {column.label}") for column in found]
    return found


def title(study: Any, column: Column, ours: bool = True) -> str:
    """A column as printed; where there is a number of ours, on what it was made where that is something else."""
    said = ", ".join(filter(None, (column.group, column.label)))
    other = instead(study, column) if ours else ""
    return f"{said} (ours: {other})" if other else said


def instead(study: Any, column: Column) -> str:
    """On what ours of a column was made, where that is something else than what is printed; else ""."""
    return study.setting(column).label if study.scale.fidelity(column) == INSTEAD else ""


def whose(study: Any, column: Column) -> str:
    """What our numbers of a column are: `ours`, and on other data on which."""
    if study.scale.fidelity(column) == STAND_IN:
        return f"stand-in, on {study.setting(column).dataset}"
    other = instead(study, column)
    return f"ours, on {other}" if other else "ours"


def cell(study: Any, row: Row, column: Column) -> Cell | None:
    """A cell that is shown: with a number of ours or a printed one."""
    found = study.cells.get((row.key, column.key))
    if found is None or not (len(found.numbers) or found.published == found.published):
        return None
    return found


def printed(found: Cell) -> float:
    """The published number that is drawn beside ours: none, NaN, beside a stand-in."""
    return float("nan") if found.fidelity == STAND_IN else found.published


def any_printed(study: Any) -> bool:
    """Whether a published number is drawn anywhere."""
    return any(printed(found) == printed(found) for found in study.cells.values())


def full(found: Cell) -> bool:
    """Whether a cell was run as the paper runs it."""
    return found.fidelity == SAME


def axis(title: str, unit: str) -> str:
    """A measure as an axis says it, its unit in one bracket with what the title ends on."""
    if not unit:
        return title
    return f"{title[:-1]}, {unit})" if title.endswith(")") else f"{title} ({unit})"
