"""How the command line is read: argparse with our own one-line errors, and the options that several verbs share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from pflrepro.device import BACKENDS
from pflrepro.errors import UserError, check_range, unknown

MOST_SEEDS = 1000  # more are a slip of the finger


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UserError` and never guesses an abbreviated option."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("allow_abbrev", False)
        super().__init__(**settings)
        # argparse's own takes -1e-5 and -inf for options, whose value it then misses
        self._negative_number_matcher = re.compile(
            r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|-(inf|infinity|nan)$", re.IGNORECASE
        )

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """argparse's own hook for `choices`, overridden to name the nearest valid value first."""
        if action.choices is not None and value not in action.choices:
            name = action.option_strings[-1] if action.option_strings else action.metavar or action.dest
            raise unknown(str(name).lower(), value, map(str, action.choices))


def read(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """The parsed arguments; an option that the verb does not know is answered with the nearest one it does.

    One that is given twice is refused.
    """
    arguments, rest = parser.parse_known_args(argv)
    verb: argparse.ArgumentParser = getattr(arguments, "parser", parser)
    if not rest:
        _refuse_repeated(verb, argv)
        return arguments
    option = next((item.split("=")[0] for item in rest if item.startswith("-")), None)
    if option is None:
        raise UserError(f"unexpected argument {rest[0]!r} (see {verb.prog} --help)")
    if any(option in action.option_strings for action in verb._actions):
        raise UserError(f"{option} stands behind the verb: {verb.prog} ... {option}")
    raise unknown("option", option, (name for action in verb._actions for name in action.option_strings))


def _refuse_repeated(verb: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """argparse lets the last of several values win without a word; only options that gather their values may be repeated."""
    words = [item.split("=")[0] for item in argv]
    for action in verb._actions:
        count = sum(word in action.option_strings for word in words)
        if count > 1 and not isinstance(action, argparse._AppendAction):
            raise UserError(f"{' or '.join(action.option_strings)} is given twice")


def number(name: str, low: float | None = None, high: float | None = None, **checks: bool) -> Callable[[str], Any]:
    """A converter for argparse: text -> int (with `integer=True`) or float inside the range, else a `UserError`."""

    def convert(text: str) -> Any:
        try:
            value: Any = int(text) if checks.get("integer") else float(text)
        except ValueError:
            value = text
        return check_range(name, value, low, high, **checks)

    return convert


def count(name: str, low: int = 1, high: int | None = None) -> Callable[[str], int]:
    """A converter for whole numbers from `low` on, up to `high` where it is given."""
    return number(name, low, high, integer=True)


def measured(name: str, units: Mapping[str, float]) -> Callable[[str], float]:
    """A converter for a number with a unit behind it, such as 30d; the value in what `units` counts its units in.

    Example:
        >>> measured("--older-than", {"h": 3600, "d": 86_400})("1.5d")
        129600.0
    """

    def convert(text: str) -> float:
        unit = next((unit for unit in units if text.endswith(unit)), "")
        number = text.removesuffix(unit)
        if not unit or not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", number):
            raise UserError(f"{name} must be a number with a unit ({', '.join(units)}) behind it, not {text!r}")
        return float(number) * units[unit]

    return convert


def assignment(text: str) -> str:
    """NAME=VALUE as it stands, refused where it is something else."""
    name, equals, _ = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"expected NAME=VALUE, not {text!r}")
    return text


def comma_separated(text: str) -> list[str]:
    """A list of names, empty entries dropped; an empty list is refused."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UserError(f"expected names separated by commas, not {text!r}")
    return names


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON value on standard output and nothing else")


def add_places(parser: argparse.ArgumentParser, *, data: bool = True, store: bool = True) -> None:
    """--data-root for the verbs that read data, --store for those that read runs."""
    if data:
        parser.add_argument(
            "--data-root",
            metavar="DIR",
            help="where the data sets are (default: $PFLREPRO_DATA, else a per-user cache folder)",
        )
    if store:
        parser.add_argument(
            "--store", metavar="DIR", help="where the runs are (default: $PFLREPRO_STORE, else a per-user cache folder)"
        )


def add_machine(parser: argparse.ArgumentParser) -> None:
    """--backend, --device, --workers: how a run is computed, never what it computes."""
    parser.add_argument("--backend", choices=BACKENDS, default="auto", help="how clients are computed (default: auto)")
    parser.add_argument("--device", default="auto", help="auto (a CUDA device if there is one), cpu, cuda, cuda:1 ...")
    parser.add_argument("--workers", type=count("--workers"), metavar="N", help="workers of the loop backend")
