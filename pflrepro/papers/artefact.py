"""What an artefact is: rows, columns, scales, claims and views, as data.

An artefact is cells; a cell is a setting x a method x a measure; a view shows cells, a claim judges them, a scale says how much is
run. An artefact holds no training code and no numbers of ours; a `pflrepro.papers.studies.Study` is an artefact at a scale with its
evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pflrepro.algorithms.entries import ALGORITHMS
from pflrepro.algorithms.registry import canonical_name
from pflrepro.errors import UserError, check_word, unknown
from pflrepro.markup import Brief, facts
from pflrepro.papers.claims import Claim
from pflrepro.papers.measures import ACCURACY, Measure
from pflrepro.papers.settings import Pairs, Setting
from pflrepro.papers.views.view import View

SAME, REDUCED, INSTEAD, STAND_IN = "same", "reduced", "instead", "stand-in"
FIDELITIES = {
    SAME: "the paper's setting",
    REDUCED: "the paper's setting, less of it (data, rounds): claims are judged, levels are not",
    INSTEAD: "other data or another network: claims are judged, levels are not",
    STAND_IN: "small stand-in: shows that it runs, nothing is judged",
}


@dataclass(frozen=True, repr=False)
class Row(Brief):
    """One line of a table or of a figure: a method as the paper prints it, and what it is here.

    Attributes:
        key: the row's own name, so that one method may stand in many rows.
        algorithm: our method, with plug-ins (`fedavg+dbe`).
        options: its own settings where the paper's value is not our default.
        by_model: (network, settings) for some networks only.
        by_data: (data set, settings) for some data only.
        changes: fields of `pflrepro.Settings` that this row has otherwise (the epochs of a sweep).
        measure: in place of the columns'.
        setting: fields of the column's setting that this row has otherwise (a network cut elsewhere).
        aliases: other names under which the published files list the row.
        printed: entries of them that single it out beside the column's.
        note: what a reader must know of it.
    """

    key: str
    label: str
    algorithm: str
    options: Pairs = ()
    by_model: tuple[tuple[str, Pairs], ...] = ()
    by_data: tuple[tuple[str, Pairs], ...] = ()
    changes: Pairs = ()
    setting: Pairs = ()
    measure: Measure | None = None
    aliases: tuple[str, ...] = ()
    printed: Pairs = ()
    note: str = ""

    def options_on(self, model: str, dataset: str = "") -> dict[str, Any]:
        """The method's own settings on a network and data; empty: our defaults, the papers' values for the small CNN."""
        return dict(self.options) | dict(dict(self.by_model).get(model, ())) | dict(dict(self.by_data).get(dataset, ()))


def row(label: str, algorithm: str = "", *, key: str = "", **more: Any) -> Row:
    """A row; fields of `Row` by their names, everything else an option of the method. `key`: by default the method's name.

    Example:
        >>> row("beta = 0.3", "grp-fed", key="beta-0.3", beta=0.3).options
        (('beta', 0.3),)
    """
    algorithm = algorithm or label.lower()
    own = {name: more.pop(name) for name in list(more) if name in Row.__dataclass_fields__}
    for name in ("by_model", "by_data"):
        own[name] = tuple((where, tuple(options.items())) for where, options in own.get(name, {}).items())
    for name in ("changes", "setting", "printed"):
        own[name] = tuple(own.get(name, {}).items())
    return Row(key or algorithm, label, algorithm, tuple((own.pop("options", {}) | more).items()), **own)


@dataclass(frozen=True)
class Column:
    """One column: a setting and a measure, and where the paper's numbers stand.

    Attributes:
        printed: entries of the published files (`dataset`, `model`, `setting`) that single a cell out: equal, or for `setting`
            pairs or words that it holds.
        group: what it shares with columns beside it.
        digits: printed decimals, where not the measure's.
        rows: keys of the rows that have a cell in it (None: all).
        plugins, options: what every row's method is combined with here, `mixup` or `mixup+fedbr`, and its settings.
    """

    key: str
    label: str
    setting: Setting
    measure: Measure = ACCURACY
    printed: Pairs = ()
    group: str = ""
    digits: int | None = None
    rows: tuple[str, ...] | None = None
    plugins: str = ""
    options: Pairs = ()

    def __repr__(self) -> str:
        return f"Column({self.key}: {self.measure.title} on {self.setting.label})"

    def has(self, row: Row) -> bool:
        """Whether the row has a cell in this column."""
        return self.rows is None or row.key in self.rows

    def method(self, row: Row) -> str:
        """The row's method with the column's plug-ins, as far as it lacks them."""
        parts = row.algorithm.split("+")
        return "+".join(dict.fromkeys((*parts, *filter(None, self.plugins.split("+")))))


def column(
    key: str,
    setting: Setting,
    measure: Measure = ACCURACY,
    /,
    label: str = "",
    group: str = "",
    rows: Iterable[str] | None = None,
    plugins: str = "",
    options: Mapping[str, Any] | None = None,
    digits: int | None = None,
    **printed: str,
) -> Column:
    """A column; `printed`: `dataset`, `model`, `setting` of the published files. Its label is the setting's by default."""
    more = {
        "digits": digits,
        "rows": None if rows is None else tuple(rows),
        "plugins": plugins,
        "options": tuple((options or {}).items()),
    }
    return Column(key, label or setting.label, setting, measure, tuple(printed.items()), group, **more)


@dataclass(frozen=True)
class Scale:
    """How much of an artefact is run.

    Attributes:
        rounds: at most (0: as many as the paper).
        column_rounds: column key -> rounds, where a column has others.
        seeds: so many.
        every: tests after every so many rounds (0: the paper's).
        share: of every client's training samples.
        rows, columns: the keys of what is run (None: all).
        instead: column key -> the setting that stands in for one whose data or network are not to be had.
        options: (row key, options) that make a method affordable.
        stand_in: all settings are small ones on embedded data.
    """

    name: str
    note: str
    rounds: int = 0
    seeds: int = 1
    every: int = 0
    share: float = 1.0
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    column_rounds: Mapping[str, int] = field(default_factory=dict)
    instead: Mapping[str, Setting] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stand_in: bool = False

    def __repr__(self) -> str:
        return f"Scale({self.name}: {self.note})"

    def setting(self, column: Column) -> Setting | None:
        """What is trained for a column at this scale; None: it is not part of it."""
        if self.columns is not None and column.key not in self.columns:
            return None
        if self.stand_in:
            return column.setting.stand_in()
        return self.instead.get(column.key, column.setting).share(self.share)

    def changes(self, column: Column, setting: Setting) -> dict[str, Any]:
        """The fields of `Settings` that say how much is run of a column, in this setting.

        The paper's stop rule waits as many rounds as there, where tests are rarer for fewer tests; where that is all, there is none.
        """
        paper = setting.settings
        rounds, every = min(self._rounds(column) or paper.rounds, paper.rounds), self.every or paper.every
        waits = paper.patience * paper.every
        return {"rounds": rounds, "every": every, "patience": waits // every if waits < rounds else 0}

    def fidelity(self, column: Column) -> str:
        """How near to the paper's a cell of this column is, one of `FIDELITIES`."""
        if self.stand_in:
            return STAND_IN
        if column.key in self.instead:
            return INSTEAD
        less = 0 < self._rounds(column) < column.setting.settings.rounds or self.share < 1
        return REDUCED if less or column.setting.reduced or self.options else SAME

    def _rounds(self, column: Column) -> int:
        return self.column_rounds.get(column.key, self.rounds)


SMOKE = Scale("smoke", "digits, 5 clients, 2 rounds: shows that it runs, nothing else", rounds=2, stand_in=True)
PAPER_NOTE = "the paper's own setting"


def paper_of(id: str) -> str:
    """The paper of an artefact's id: `dbe` of `dbe/table5`."""
    return id.split("/")[0]


@dataclass(frozen=True)
class Artefact:
    """One table or figure of a paper (or one of our own), as data.

    Attributes:
        sources: published tables, the first that holds a cell gives its value, a later one a missing spread.
        tolerance: the least difference, in the measure's unit, that counts as one; with a printed spread over clients that says it.
        trials: seeds of the paper.
        spread: what the printed spread is over, `trials` or `clients`.
        views: what is shown, the first of them the table.
        timed: whether it compares times. Its runs then have seeds of their own, so that no longer run of another table answers for
            them, no test right after local training, and are trained in two halves, the second in reverse order: what slows the
            machine down meets all of them.
        about: what it is and what it claims.
    """

    id: str
    title: str
    rows: tuple[Row, ...] = ()
    columns: tuple[Column, ...] = ()
    scales: tuple[Scale, ...] = ()
    claims: tuple[Claim, ...] = ()
    views: tuple[View, ...] = ()
    sources: tuple[str, ...] = ()
    tolerance: float = 0.5
    trials: int = 3
    spread: str = "trials"
    timed: bool = False
    about: str = ""

    def __post_init__(self) -> None:
        for kind, keys in (("row", self.row_keys), ("column", self.column_keys), ("scale", self.scale_names)):
            if len(set(keys)) != len(keys):
                raise UserError(f"{self.id}: two {kind}s have one key: {', '.join(sorted(keys))}")
        for claim in self.claims:
            for name in claim.rows:
                if name not in self.row_keys:
                    raise unknown(f"row in a claim of {self.id}", name, self.row_keys)
            for name in claim.columns or ():
                if name not in self.column_keys:
                    raise unknown(f"column in a claim of {self.id}", name, self.column_keys)

    def __repr__(self) -> str:
        size = f"{len(self.rows)} rows, {len(self.columns)} columns" if self.trains else "nothing is trained"
        return f"Artefact({self.id}: {self.title}; {size}; scales {', '.join(self.scale_names)})"

    def _repr_html_(self) -> str:
        about = {
            "id": self.id,
            "what it is": self.about,
            "rows": ", ".join(row.label for row in self.rows),
            "columns": "; ".join(map(self.name_of, self.columns)),
            "claims": "; ".join(f"{claim.said} [{claim.source}]" for claim in self.claims),
            **{f"scale {scale.name}": scale.note for scale in self.scales},
        }
        return facts(self.title, about)

    @property
    def paper(self) -> str:
        return paper_of(self.id)

    @property
    def kind(self) -> str:
        return "figure" if "figure" in self.id else "table"

    @property
    def notebook(self) -> str:
        """The notebook, below `notebooks/`."""
        return f"{self.id}.ipynb"

    @property
    def trains(self) -> bool:
        """Whether anything is trained for it; where nothing is, all its scales are the same."""
        return bool(self.columns)

    @property
    def row_keys(self) -> tuple[str, ...]:
        return tuple(row.key for row in self.rows)

    @property
    def column_keys(self) -> tuple[str, ...]:
        return tuple(column.key for column in self.columns)

    @property
    def scale_names(self) -> tuple[str, ...]:
        return tuple(scale.name for scale in self.scales)

    @property
    def exact_scales(self) -> tuple[str, ...]:
        """The scales that are no stand-ins, the most exact first; one where nothing is trained: it is the same at every scale."""
        names = tuple(scale.name for scale in self.scales if not scale.stand_in)[::-1]
        return names if self.trains else names[:1]

    def scale(self, name: str) -> Scale:
        """The scale of that name; `UserError` lists the ones this artefact has."""
        check_word(f"scale of {self.id}", name, self.scale_names)
        return next(scale for scale in self.scales if scale.name == name)

    def row(self, name: str) -> Row:
        """The row of that key, label or, where it is one row's alone, method; `UserError` lists the keys."""
        for row in self.rows:
            if _is_called(row, name):
                return row
        method = canonical_name(str(name).lower())
        same = [row for row in self.rows if canonical_name(row.algorithm) == method]
        if len(same) == 1:
            return same[0]
        known = unknown(f"row of {self.id}", name, self.row_keys)
        if same:
            raise UserError(f"{known}; of this method are: {', '.join(row.key for row in same)}")
        if method.split("+")[0] in ALGORITHMS:
            raise UserError(f"{known}; a method that it does not compare stands beside its rows with also=[{name!r}]")
        raise known

    def column(self, name: str) -> Column:
        """The column of that key or label; `UserError` lists the keys."""
        for column in self.columns:
            if _is_called(column, name):
                return column
        raise unknown(f"column of {self.id}", name, self.column_keys)

    def label_of(self, column: Column) -> str:
        """The column's label, or its setting's where another one of its group has the same."""
        alike = [each for each in self.columns if (each.group, each.label) == (column.group, column.label)]
        return column.label if len(alike) < 2 else column.setting.label

    def name_of(self, column: Column) -> str:
        """The column's label behind its group, which is one column's alone."""
        return ": ".join(filter(None, (column.group, self.label_of(column))))

    def chosen_rows(self, scale: Scale, methods: tuple[str, ...] = ()) -> tuple[Row, ...]:
        """The rows that are run: the scale's own, or those asked for (see `row`)."""
        keys = {self.row(name).key for name in methods} if methods else scale.rows
        return tuple(row for row in self.rows if keys is None or row.key in keys)

    def chosen_columns(self, scale: Scale, names: tuple[str, ...] = ()) -> tuple[Column, ...]:
        """The columns that are run: the scale's own, or those of them that are asked for (see `column`)."""
        there = {column.key: column for column in self.columns if scale.setting(column) is not None}
        wanted = [self.column(name).key for name in names]
        lacking = next((key for key in wanted if key not in there), None)
        if lacking is not None:
            raise UserError(
                f"the column {lacking} of {self.id} is not part of the scale {scale.name}; valid: {', '.join(there)}"
            )
        return tuple(column for key, column in there.items() if not wanted or key in wanted)

    def also(self, *rows: Row) -> Artefact:
        """The artefact with further rows, which are not of the paper."""
        return replace(self, rows=(*self.rows, *rows))


def _is_called(entry: Row | Column, name: Any) -> bool:
    """Whether a row or column has this key or label, in any case."""
    return isinstance(name, str) and name.lower() in (entry.key.lower(), entry.label.lower())


def scales(fast: Scale | None = None, seeds: int = 3, **changes: Any) -> tuple[Scale, ...]:
    """smoke, `fast` and paper; `changes`: of the paper's scale, `seeds` its trials."""
    paper = replace(Scale("paper", PAPER_NOTE, seeds=seeds), **changes)
    return (SMOKE, paper) if fast is None else (SMOKE, fast, paper)


def fast(rounds: int, note: str, seeds: int = 1, **how: Any) -> Scale:
    """The scale `fast`, whose note says the number of seeds, too; `how`: fields of `Scale`."""
    said = "one seed" if seeds == 1 else f"{seeds} seeds"
    return Scale("fast", f"{note}, {said}", rounds=rounds, seeds=seeds, **how)
