"""The published numbers: one CSV a printed table, shipped with the package, read and checked, never changed.

Columns: `method, setting, dataset, model, metric, value, std, note`. An empty `value` means that the paper prints
none (the note says why). `setting` is a list of `key=value` pairs joined by semicolons; their order carries no
meaning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pflrepro.errors import CorruptFile, check_word

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("method", "setting", "dataset", "model", "metric", "value", "std", "note")
KEY = ("method", "setting", "dataset", "model", "metric")
LEADERBOARD = "pfllib_leaderboard"
# The leaderboard repeats 40 cells in several of its own tables, some with a last digit that differs.
REPEATED = {LEADERBOARD}
SAME_NUMBER = 0.02  # two tables print one result as 34.86 and 34.87, two results never so near


def published_tables() -> list[str]:
    """The names of all shipped tables, such as `dbe_table5`."""
    return sorted(entry.name[:-4] for entry in _folder().iterdir() if entry.name.endswith(".csv"))


def published(name: str) -> pd.DataFrame:
    """One printed table as a data frame, `value` and `std` as floats (NaN: not printed).

    Raises `UserError` for an unknown name and `CorruptFile` for a file that does not keep the schema.

    Example:
        >>> frame = published("dbe_table5")
        >>> len(frame), list(frame.columns)[:3]
        (108, ['method', 'setting', 'dataset'])
    """
    return _read(name).copy()


def parse_setting(setting: str) -> dict[str, str]:
    """`partition=practical;beta=0.1` as a dictionary."""
    pairs = [part.partition("=") for part in setting.split(";") if part]
    return {key.strip(): value.strip() for key, _, value in pairs}


@dataclass(frozen=True)
class PublishedNumber:
    """One printed number; `std`: population standard deviation over the paper's trials, NaN where none is printed."""

    value: float
    std: float
    source: str
    std_source: str
    note: str


def find_number(
    sources: tuple[str, ...], labels: tuple[str, ...], where: Mapping[str, str], metric: str
) -> PublishedNumber | None:
    """The printed number of one cell: the first source that holds it; a missing spread is taken from a later source that has it, too.

    None where no source lists the cell. A listed cell without a value gives a number with `value` NaN and the source's note. Raises
    `CorruptFile` where one source lists several numbers for it.

    Args:
        labels: the names under which the sources print the row.
        where: `dataset`, `model` and `setting` that single a column out, see `_holds`; empty: printed nowhere.
    """
    place = tuple(where.items())
    hits = [(source, found) for source in sources if place and (found := _cell(source, labels, place, metric))]
    if not hits:
        return None
    source, first = next(((s, r) for s, r in hits if not math.isnan(r[0])), hits[0])
    # One that prints another number, such as FedBABU fine-tuned, prints that one's spread.
    spreads = [(s, r[1]) for s, r in hits if not math.isnan(r[1]) and abs(r[0] - first[0]) <= SAME_NUMBER]
    own = [(s, std) for s, std in spreads if s == source]
    std_source, std = (own or spreads or [("", math.nan)])[0]
    return PublishedNumber(first[0], std, source, std_source, first[2])


def _folder():
    return files("pflrepro.papers") / "published"


@cache
def _read(name: str) -> pd.DataFrame:
    import pandas as pd

    check_word("published table", name, published_tables())
    with (_folder() / f"{name}.csv").open(encoding="utf-8") as stream:
        text = pd.read_csv(stream, dtype=str, keep_default_na=False)
    return check_schema(text, name)


def check_schema(text: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table with numeric `value` and `std`, or `CorruptFile` naming the table and what is wrong with it."""
    import pandas as pd

    if tuple(text.columns) != COLUMNS:
        raise CorruptFile(
            f"published table {name!r} must have the columns {', '.join(COLUMNS)}, not {', '.join(text.columns)}"
        )
    frame = text.copy()
    for column in ("value", "std"):
        numbers = pd.to_numeric(text[column].replace("", "nan"), errors="coerce").astype("float64")
        wrong = text[column][numbers.isna() & (text[column] != "")]
        if len(wrong):
            raise CorruptFile(
                f"published table {name!r}: {column} {wrong.iloc[0]!r} in row {wrong.index[0] + 2} is not a number"
            )
        frame[column] = numbers
    if len(frame) and (frame["method"] == "").any():
        raise CorruptFile(f"published table {name!r} has a row without a method")
    if name not in REPEATED and frame.duplicated(list(KEY)).any():
        raise CorruptFile(f"published table {name!r} lists a cell twice")
    return frame


@cache
def _cell(
    source: str, labels: tuple[str, ...], where: tuple[tuple[str, str], ...], metric: str
) -> tuple[float, float, str] | None:
    """(value, spread, note) of the one line of a source that fits, by the first label that it lists."""
    for label in labels:
        fitting = [
            line
            for line in _lines(source).get((label, metric), ())
            if all(_holds(line[name], wanted, name) for name, wanted in where)
        ]
        if len(fitting) > 1 and source not in REPEATED:
            raise CorruptFile(f"published table {source!r} lists {label}, {metric}, {dict(where)} {len(fitting)} times")
        if fitting:
            return fitting[0]["value"], fitting[0]["std"], fitting[0]["note"]
    return None


@cache
def _lines(source: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The lines of a source by method and metric."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in _read(source).to_dict("records"):
        found.setdefault((line["method"], line["metric"]), []).append(line)
    return found


def _holds(value: str, wanted: str, name: str) -> bool:
    """Whether an entry fits: equal; or a setting that holds every `key=value` pair or phrase of `wanted`, parted by semicolons.

    A list of pairs fits only with the same pairs.
    """
    if name != "setting" or value == wanted:
        return value == wanted
    pairs, theirs = parse_setting(wanted), parse_setting(value)
    if any(pairs.values()):
        return pairs == theirs
    parts = {part.strip() for part in value.split(";")}
    return all(phrase.strip() in parts for phrase in wanted.split(";"))
