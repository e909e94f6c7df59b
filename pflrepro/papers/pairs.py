"""Two cells of one column to look behind, one beside the other: accuracies that a rule takes from the runs' curves."""

from __future__ import annotations

from pflrepro.errors import UserError
from pflrepro.papers.result import Cell
from pflrepro.papers.studied import Studied

USUAL = "fedavg"  # the row beside, where there is one


def pair(study: Studied, row: str = "", rival: str = "", column: str = "") -> tuple[Cell, Cell]:
    """The cells of two rows in a column, both with runs; `UserError` in one line for a table that has none such.

    Args:
        row: "": the one with the largest number.
        rival: "": FedAvg where the column has it, else the one with the largest number of the others.
        column: "": the first one that has both.
    """
    artefact = study.artefact
    named = [artefact.row(name).key for name in (row, rival) if name]
    if row and rival and len({*named}) == 1:
        raise UserError(f"two rows are looked at beside each other, not {named[0]} twice")
    wanted = [artefact.column(column).key] if column else artefact.column_keys
    cells = _accuracies(study, wanted)
    for key in wanted:
        there = {cell.row.key: cell for cell in cells if cell.column.key == key}
        if len(there) > 1 and there.keys() >= {*named}:
            first = named[0] if row else _best(there, named)
            second = named[-1] if rival else USUAL if USUAL in there and first != USUAL else _best(there, [first])
            return there[first], there[second]
    run = ", ".join(f"{cell.row.key} in {cell.column.key}" for cell in cells)
    raise UserError(
        f"{artefact.id} has no column in which {' and '.join(named) or 'two rows'} were run; run are: {run}"
    )


def _accuracies(study: Studied, columns: list[str] | tuple[str, ...]) -> list[Cell]:
    """The cells of some columns that were run, if their numbers are accuracies of curves."""
    cells = [cell for (_, key), cell in study.cells.items() if key in columns]
    if not cells:
        raise UserError(f"{study.artefact.id} has no cells that were trained: there is no run to look behind")
    taken = [cell for cell in cells if cell.taken is not None]
    if not taken:
        titles = ", ".join(dict.fromkeys(cell.measure.title for cell in cells))
        raise UserError(
            f"{study.artefact.id} has no accuracy that a rule takes from a run's curve, to look behind; its numbers: {titles}"
        )
    run = [cell for cell in taken if len(cell.numbers)]
    if not run:
        raise UserError(
            f"of {study.artefact.id} nothing was run at scale {study.scale.name}; {study.command} trains it"
        )
    return run


def _best(cells: dict[str, Cell], but: list[str]) -> str:
    return max((key for key in cells if key not in but), key=lambda key: cells[key].ours)
