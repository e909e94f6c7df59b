"""`pflrepro data`: get data sets from their official sources, see what is there, check what is there."""

from __future__ import annotations

import argparse
from typing import Any

from pflrepro.cli.arguments import add_json, add_places
from pflrepro.cli.output import Answer, table
from pflrepro.errors import UserError

ACTIONS = {
    "get": "download, check and convert (resumes a broken download)",
    "status": "what is there, and where",
    "verify": "read every array again and compare its content; exit code 1 if something is wrong",
}
COLUMNS = {
    "get": ("name", "action", "state", "path"),
    "status": ("name", "state", "samples", "licence", "origin", "path", "detail"),
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
    else:
        rows = download.verify(names, root)
    return Answer(rows, table(rows, COLUMNS[arguments.action]), code=_verdict(rows, arguments))


def _verdict(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> int:
    """1 if `verify` found a corrupt set, or one that was asked for by name is absent."""
    wrong = {"corrupt", "absent"} if arguments.names else {"corrupt"}
    return int(arguments.action == "verify" and any(row["state"] in wrong for row in rows))
