"""What a study found, in plain sentences that are made from its numbers, so that no text says what a table does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from pflrepro.papers.artefact import SAME, Column
from pflrepro.papers.claims import above
from pflrepro.papers.judging import BROKEN, KEPT, RISING, UNDECIDED, Outcome, judge
from pflrepro.papers.result import WITHIN, Cell
from pflrepro.papers.studied import Studied
from pflrepro.papers.texts import number, probability, span

MOST = 6  # columns that have a sentence each, claims and rows that are named
LOST = 2.0  # points from the best round to the last one that are worth a sentence


class Sentences(list[str]):
    """Sentences that a notebook shows as a list."""

    def __repr__(self) -> str:
        return "\n".join(self)

    def _repr_html_(self) -> str:
        return f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in self)}</ul>"


def summary(study: Studied) -> Sentences:
    """What was run, who is best where, what became of the claims, how near the published numbers are, and what the curves say."""
    if not study.artefact.trains:
        return Sentences([f"Nothing is trained for it: it is counted, exactly. {study.verdict}."])
    run = [cell for cell in study.cells.values() if cell.runs]
    rows = {row.key: row for row in (*study.trained, *(cell.row for cell in run))}.values()
    there = sum(study.has(row, column) for row in rows for column in study.columns)
    done = f"{len(run)} of the {there} cells of scale {study.scale.name} were run"
    unseen = sum(not cell.values for cell in run)
    done += f" ({unseen} of them not measured yet)" if unseen else ""
    if not run:
        reasons = list(dict.fromkeys(cell.reason for cell in study.cells.values() if cell.reason))
        return Sentences([f"{done}: {'; '.join(reasons[:MOST])}."])
    seeds, rounds = span((len(cell.runs) for cell in run), "seed"), span((cell.rounds for cell in run), "round")
    found = [f"{done}, with {seeds} and {rounds}."]
    if study.scale.stand_in:
        data = ", ".join(dict.fromkeys(study.setting(cell.column).dataset for cell in run))
        found.append(
            f"All numbers are of a small stand-in on {data}: they show that everything runs, and say nothing of the paper's. "
            "Another scale does."
        )
        return Sentences(found)
    found += [*_rankings(study), *_claims(study), *_published(study, run), *_curves(study, run)]
    return Sentences(found)


# ---- who is best -------------------------------------------------------------------------------------------------------------------
def _rankings(study: Studied) -> list[str]:
    ranked = {column: _ranked(study, column) for column in study.columns}
    ranked = {column: cells for column, cells in ranked.items() if len(cells) > 1}
    if len(ranked) <= MOST:
        return [_ranking(study, column, cells) for column, cells in ranked.items()]
    firsts = Counter(cells[0].row.label for cells in ranked.values())
    return [f"Best in the {len(ranked)} columns: {', '.join(f'{row} in {n}' for row, n in firsts.most_common())}."]


def _ranked(study: Studied, column: Column) -> list[Cell]:
    """The cells of a column that have a number in its unit and direction, the best first; none where no direction is better."""
    cells = (study.cells.get((row.key, column.key)) for row in study.rows)
    unit, better = column.measure.unit, column.measure.better
    alike = [cell for cell in cells if cell and (cell.measure.unit, cell.measure.better) == (unit, better)]
    known = [cell for cell in alike if len(cell.numbers)]
    return sorted(known, key=lambda cell: cell.ours, reverse=better == "higher") if better else []


def _ranking(study: Studied, column: Column, cells: Sequence[Cell]) -> str:
    first, second, last = cells[0], cells[1], cells[-1]
    where, what = study.artefact.name_of(column), column.measure.title
    if study.setting(column) is not column.setting and study.setting(column).label != column.setting.label:
        where += f" (here {study.setting(column).label})"
    ahead = number(abs(first.ours - second.ours), first.digits)
    said = f"{where}: {first.row.label} has the best {what}, {_said(first)}, {ahead} from {second.row.label}"
    said += f", the next ({_told_apart(study, first, second)})"
    return f"{said}." if len(cells) == 2 else f"{said}. The last is {last.row.label} with {_said(last)}."


def _said(cell: Cell) -> str:
    unit = f" {cell.measure.unit}" if cell.measure.unit else ""
    return number(cell.ours, cell.digits) + unit


def _told_apart(study: Studied, one: Cell, other: Cell) -> str:
    """The paired test of two cells of a column."""
    [found] = judge([above(one.row.key, other.row.key, [one.column.key])], study.grid)
    p = _p(found)
    return f"{found.test}, {p}" if p else found.test.replace("none:", "no test:")


# ---- claims ------------------------------------------------------------------------------------------------------------------------
def _claims(study: Studied) -> list[str]:
    if not study.outcomes:
        return ["None of its claims could be checked with what was run."] if study.artefact.claims else []
    tested = f"{len(study.outcomes)} claim{'' if len(study.outcomes) == 1 else 's'} could be checked: {study.counts}."
    found = [tested]
    words = {
        BROKEN: "Reversed",
        UNDECIDED: "Not decided",
        RISING: "Still rising, so neither kept nor broken",
        KEPT: "Kept",
    }
    for outcome, word in words.items():
        these = [each for each in study.outcomes if each.outcome == outcome]
        if these:
            more = f" and {len(these) - MOST} more" if len(these) > MOST else ""
            found.append(f"{word}: {'; '.join(_claim(study, each) for each in these[:MOST])}{more}.")
    return found


def _claim(study: Studied, each: Outcome) -> str:
    column = study.artefact.name_of(study.artefact.column(each.column))
    return f"{each.said} in {column} ({', '.join(filter(None, (number(each.difference, sign=True), _p(each))))})"


def _p(each: Outcome) -> str:
    found = probability(each.p)
    return f"p {found}" if found.startswith("<") else f"p = {found}" if found else ""


# ---- published numbers and curves --------------------------------------------------------------------------------------------------
def _published(study: Studied, run: Sequence[Cell]) -> list[str]:
    known = [cell for cell in run if len(cell.numbers) and cell.published == cell.published]
    same = [cell for cell in known if cell.compared]
    if not known:
        return []
    if not same and any(cell.fidelity == SAME for cell in known):
        return ["Times of another machine are not compared."]
    if not same:
        return ["No cell was run at the paper's own setting: orderings are compared with it, levels are not."]
    within = sum(cell.verdict(study.artefact, study.outcomes) == WITHIN for cell in same)
    units = dict.fromkeys(cell.measure.unit for cell in same)
    ends = "; ".join(
        _from_to([cell.ours - cell.published for cell in same if cell.measure.unit == unit], unit) for unit in units
    )
    cells = f"the {len(same)} cells" if len(same) > 1 else "the one cell"
    return [
        f"Of {cells} at the paper's own setting {within} agree with it within the tolerance; ours minus published: {ends}."
    ]


def _from_to(differences: Sequence[float], unit: str) -> str:
    ends = dict.fromkeys(number(each, sign=True) for each in (min(differences), max(differences)))
    unit = "points" if unit == "%" else unit
    return " to ".join(ends) + (f" {unit}" if unit else "")


def _curves(study: Studied, run: Sequence[Cell]) -> list[str]:
    found = []
    rising = list(dict.fromkeys(cell.row.label for cell in run if cell.rising))
    if rising:
        found.append(f"Unfinished curves, which still rise at the end: {_some(rising)}.")
    losses: dict[str, float] = {}
    for cell in run:
        lost = max(100 * (each.accuracy() - each.accuracy("last_round")) for each in cell.runs.values())
        losses[cell.row.label] = max(lost, losses.get(cell.row.label, 0.0))
    falling = [f"{row} {number(lost, 1)}" for row, lost in losses.items() if lost > LOST]
    if falling:
        found.append(f"Points of test accuracy lost from the best round to the last: {_some(falling)}.")
    return found


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:MOST]) + (f" and {len(words) - MOST} more" if len(words) > MOST else "")
