"""`pflrepro data`: get data sets from their official sources, see what is there, check what is there."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from pflrepro.cli.arguments import add_json, add_places
from pflrepro.cli.output import Answer, table
from pflrepro.errors import UserError

ACTIONS = {
    "get": "download, check and convert (resumes a broken download)",
    "status": "what is there; of named sets also origin, licence, citation, and what is lacking",
    "verify": "read every array again and compare its content; exit code 1 if something is wrong",
}
WIDTH = 100  # columns of a terminal
_LICENCE = 50  # of them for the licence
_BLOCK = ("title", "samples", "path", "origin", "licence", "citation")
COLUMNS = {
    "get": ("name", "action", "state", "path"),
    "verify": ("name", "state", "path", "detail"),
}


def add(verbs: Any) -> None:
    parser = verbs.add_parser("data", help="get, list or check data sets", description=__doc__)
    actions = parser.add_subparsers(metavar="ACTION", dest="action")
    parser.set_defaults(handler=handle, parser=parser, json=False)
    for action, about in ACTIONS.items():
        sub = actions.add_parser(action, help=about, description=about)
        sub.add_argument(
            "names", metavar="NAME", nargs="*", help="data sets (default: all; see: pflrepro list datasets)"
        )
        add_places(sub, store=False)
        add_json(sub)
        if action == "get":
            sub.add_argument("--quiet", action="store_true", help="no progress bar")
        if action == "status":
            sub.add_argument("--long", action="store_true", help="all that there is to say of every set")
        sub.set_defaults(parser=sub)


def handle(arguments: argparse.Namespace) -> Answer:
    if arguments.action is None:
        raise UserError(f"say what to do with data: {', '.join(ACTIONS)}")
    from pflrepro.data import download

    names, root = arguments.names or None, arguments.data_root
    if arguments.action == "get":
        rows = download.get(names, root, progress=not arguments.quiet)
    elif arguments.action == "status":
        rows = download.status(root, names)
        return Answer(rows, blocks(rows) if names or arguments.long else overview(rows))
    else:
        rows = download.verify(names, root)
    return Answer(rows, table(rows, COLUMNS[arguments.action]), code=_verdict(rows, arguments))


def overview(rows: Sequence[Mapping[str, Any]]) -> str:
    """A short line a data set, of at most `WIDTH` columns."""
    short = [row | {"licence": textwrap.shorten(row["licence"], _LICENCE, placeholder=" ...")} for row in rows]
    more = "Origin, licence, citation and what is lacking: pflrepro data status NAME, or --long for all."
    return f"{table(short, ('name', 'state', 'samples', 'licence'))}\n\n{more}"


def blocks(rows: Sequence[Mapping[str, Any]]) -> str:
    """A block a data set with all that is known of it; only a word that is longer (an address, a path) passes `WIDTH`."""
    return "\n\n".join("\n".join([f"{row['name']}: {row['state']}", *_entries(row)]) for row in rows)


def _entries(row: Mapping[str, Any]) -> list[str]:
    entries = [
        *((name, row[name]) for name in _BLOCK),
        ("corrupt" if row["state"] == "corrupt" else "lacking", row["detail"]),
    ]
    lines = []
    for name, value in entries:
        if value not in (None, ""):
            text = f"{value:,}" if isinstance(value, int) else " ".join(value.split())
            start = f"  {name:<9} "
            lines += textwrap.wrap(
                text,
                WIDTH,
                initial_indent=start,
                subsequent_indent=" " * len(start),
                break_long_words=False,
                break_on_hyphens=False,
            )
    return lines


def _verdict(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> int:
    """1 if `verify` found a corrupt set, or one that was asked for by name is absent."""
    wrong = {"corrupt", "absent"} if arguments.names else {"corrupt"}
    return int(arguments.action == "verify" and any(row["state"] in wrong for row in rows))
