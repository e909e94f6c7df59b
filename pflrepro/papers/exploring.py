"""`study.explore()`: a table whose cells, clicked, show their runs, curves, clients, configuration and commands."""

from __future__ import annotations

from html import escape
from typing import Any

import ipywidgets as widgets

from pflrepro.errors import UserError
from pflrepro.experiments.result import Run
from pflrepro.explorer import pictures
from pflrepro.explorer.controls import Displayed, code, note
from pflrepro.markup import facts, folded, records
from pflrepro.papers import showing
from pflrepro.papers.result import MARKS, VERDICTS, Cell, Key
from pflrepro.papers.studied import Studied
from pflrepro.papers.texts import mean_and_spread, number

NOTHING = "–"
PAGE = "jp-RenderedHTMLCommon"  # JupyterLab's own look of tables
LEFT = '<table style="margin:0;'
HEAD = "Ours (published); a click on a cell shows what stands behind it."


class CellExplorer(Displayed):
    """What `study.explore()` gives. `buttons`: (row, column) -> what is clicked; `picked`: the cells that are shown, the last one last;
    `keep`: whether the cells clicked before stay in the pictures.
    """

    def __init__(self, study: Studied) -> None:
        self.study = study
        self.picked: list[Key] = []
        self.buttons = {key: self._button(key, cell) for key, cell in study.cells.items()}
        said = "keep the cells clicked before, laid over each other"
        self.keep = widgets.Checkbox(description=said, indent=False, layout={"width": "max-content"})
        self._said = widgets.HTML(
            note(HEAD if self.buttons else "nothing is trained here: there are no cells to click")
        )
        self._cell, self._pictures = widgets.HTML(), widgets.HTML()
        grid = widgets.VBox([self._grid()], layout={"overflow": "auto", "max_height": "30em"})
        self.widget = widgets.VBox([self._said, grid, self.keep, self._cell, self._pictures])

    # ---- the table -----------------------------------------------------------------------------------------------------------
    def _grid(self) -> widgets.Widget:
        """The rows and columns of the artefact that have a cell."""
        study = self.study
        columns = [each for each in study.artefact.columns if any(key[1] == each.key for key in self.buttons)]
        places = [
            widgets.HTML(""),
            *(widgets.HTML(f"<b>{escape(study.artefact.name_of(each))}</b>") for each in columns),
        ]
        for row in study.rows:
            places.append(widgets.HTML(escape(row.label), layout={"min_width": "9em"}))
            places += [self.buttons.get((row.key, each.key), widgets.HTML("")) for each in columns]
        wide = f"max-content repeat({len(columns)}, minmax(10em, max-content))"
        return widgets.GridBox(places, layout={"grid_template_columns": wide, "grid_gap": "2px 6px"})

    def _button(self, key: Key, cell: Cell) -> widgets.Button:
        verdict = cell.verdict(self.study.artefact, self.study.outcomes)
        ours, printed = number(cell.ours, cell.digits) or NOTHING, number(cell.published, cell.digits)
        text = f"{ours}{f' ({printed})' if printed else ''} {MARKS.get(verdict, '')}".rstrip()
        said = f"{verdict}: {cell.reason or VERDICTS[verdict]}"
        button = widgets.Button(description=text, tooltip=said, layout={"width": "auto", "min_width": "10em"})
        button.on_click(lambda _: self.pick(*key))
        return button

    # ---- a cell --------------------------------------------------------------------------------------------------------------
    def pick(self, row: str, column: str) -> None:
        """Show a cell, as a click on it does; `UserError` for one that the artefact has not got."""
        key = self.study.artefact.row(row).key, self.study.artefact.column(column).key
        if key not in self.study.cells:
            there = [one for one, where in self.study.cells if where == key[1]]
            raise UserError(f"{key[0]} has no cell in column {key[1]}; rows that have one: {', '.join(there)}")
        before = [each for each in self.picked if each != key] if self.keep.value else []
        self.picked = [*before, key]
        for each, button in self.buttons.items():
            button.button_style = "primary" if each in self.picked else ""
        self._cell.value = self._about(self.study.cells[key])
        self._pictures.value = self._drawn()

    def _about(self, cell: Cell) -> str:
        study = self.study
        verdict, over = cell.verdict(study.artefact, study.outcomes), study.artefact.spread
        low, high, interval = cell.interval()
        found = {
            cell.measure.title: mean_and_spread(cell.ours, cell.spread_over(over), cell.digits) or NOTHING,
            "unit": cell.measure.unit,
            "95 % interval": f"{number(low, cell.digits)} to {number(high, cell.digits)}, {interval}"
            if interval
            else "",
            "published": cell.published_text,
            "±": f"spread over {'clients' if over == 'clients' else 'seeds (published: trials)'}",
            "verdict": f"{verdict}: {VERDICTS[verdict]}",
            "why not more": cell.reason,
            "what is trained": f"{study.setting(cell.column).label}; {study.fidelity(cell.column)}",
        }
        title = f"<h4>{escape(cell.row.label)} · {escape(study.artefact.name_of(cell.column))}</h4>"
        tables = facts("", found) + self._runs(cell)
        # to the left, where JupyterLab would put them in the middle
        tables = tables.replace('<table style="', LEFT).replace("<table>", f'{LEFT}">')
        return f'<div class="{PAGE}">{title}{tables}</div>'

    def _runs(self, cell: Cell) -> str:
        """The runs and their configuration; of a cell without runs the command that makes it."""
        if not cell.runs:
            return note("Not run yet; this makes the table:") + code(self.study.command)
        lines = [
            {
                "seed": str(seed),
                "run": run.id[:12],
                "rounds": str(run.rounds),
                "best round": f"{run.round_of('best')}: {100 * run.accuracy():.2f} %",
                "last round": f"{100 * run.accuracy('last_round'):.2f} %",
            }
            for seed, run in cell.runs.items()
        ]
        first = next(iter(cell.runs.values()))
        commands = "\n".join([first.command, f"pflrepro show {first.id[:12]}"])
        settings = facts("", _configuration(first))
        return records(lines) + code(commands) + folded(f"configuration (seed {first.experiment.seed})", settings)

    def _drawn(self) -> str:
        """Curves and clients of the picked cells, those with runs, under their own names."""
        shown = {
            self._name(key): list(cell.runs.values()) for key in self.picked if (cell := self.study.cells[key]).runs
        }
        return pictures.curves(shown) + pictures.clients(shown) if shown else ""

    def _name(self, key: Key) -> str:
        row, column = key
        same = len({each[1] for each in self.picked}) == 1
        label = self.study.artefact.row(row).label
        return label if same else f"{label}, {self.study.artefact.name_of(self.study.artefact.column(column))}"

    # ---- where there is no screen ----------------------------------------------------------------------------------------------
    def still(self) -> str:
        tables = showing.Tables(showing.caption(self.study), self.study.tables())
        return tables._repr_html_() + self._cell.value + self._pictures.value

    def __repr__(self) -> str:
        return f"CellExplorer({self.study!r})"


def _configuration(run: Run) -> dict[str, Any]:
    """Every field of a run's experiment by its name."""
    described = run.experiment.to_dict()
    inner = [described.pop(part) for part in ("data", "settings", "options")]
    return {"method": described.pop("algorithm"), **inner[2], **described, **inner[0], **inner[1]}
