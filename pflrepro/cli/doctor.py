"""`pflrepro doctor`: what this installation is, and what is wrong with it."""

from __future__ import annotations

import argparse
from typing import Any

from pflrepro.cli.arguments import add_json, add_places
from pflrepro.cli.data import overview
from pflrepro.cli.output import Answer


def add(verbs: Any) -> None:
    parser = verbs.add_parser(
        "doctor",
        help="versions, device, data present, store health",
        description="Exit code 0 if nothing is broken, else 1. Data sets that are not downloaded are no fault.",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="set damaged runs of the store aside and remove what killed processes left",
    )
    add_places(parser)
    add_json(parser)
    parser.set_defaults(handler=handle, parser=parser)


def handle(arguments: argparse.Namespace) -> Answer:
    from pflrepro.doctor import examine

    report = examine(data_root=arguments.data_root, store=arguments.store, mend=arguments.repair)
    return Answer(report, _text(report), code=1 if report["problems"] else 0)


def _text(report: dict[str, Any]) -> str:
    versions = "\n".join(f"  {name} {version or 'MISSING'}" for name, version in report["versions"].items())
    devices = "\n".join(f"  {device['name']}: {device['about']}" for device in report["devices"])
    data = overview(report["data"])
    store = report["store"]
    problems = "\n".join(f"  {problem}" for problem in report["problems"]) or "  none"
    return "\n".join(
        [
            "versions", versions,
            "devices", devices,
            f"data in {report['data_root']}", "  " + data.replace("\n", "\n  "),
            f"runs in {store['root']}: {store['finished']} finished, {store['unfinished']} unfinished, "
            f"{len(store['damaged'])} damaged, {store['leftovers']} leftovers of killed processes",
            *(f"  repaired: {line}" for line in store["repaired"]),
            "problems", problems,
        ]
    )  # fmt: skip
