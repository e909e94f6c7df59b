"""`pflrepro list`: what the house holds, by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from pflrepro.cli.arguments import add_json
from pflrepro.cli.output import Answer, table

Rows = list[dict[str, Any]]


def add(verbs: Any) -> None:
    parser = verbs.add_parser(
        "list", help="what there is: algorithms, data sets, models, partitions, papers, artefacts", description=__doc__
    )
    parser.add_argument("what", metavar="WHAT", choices=tuple(KINDS), help=", ".join(KINDS))
    parser.add_argument("--long", action="store_true", help="every column")
    add_json(parser)
    parser.set_defaults(handler=handle, parser=parser)


def handle(arguments: argparse.Namespace) -> Answer:
    rows, short = KINDS[arguments.what]()
    if arguments.what == "algorithms" and (arguments.long or arguments.json):
        from pflrepro.algorithms.registry import hyperparameters

        rows = [row | {"options": hyperparameters(row["name"])} for row in rows]
    columns = list(dict.fromkeys(key for row in rows for key in row)) if arguments.long else list(short)
    return Answer(rows, table(rows, columns))


def algorithms() -> tuple[Rows, tuple[str, ...]]:
    """Everything that --algorithm takes: the methods, and each plug-in on the methods that a paper combines it with."""
    from pflrepro.algorithms.registry import ALGORITHMS, PLUGINS

    rows = [
        {"name": name, "title": entry.title, "paper": entry.paper, "tested": entry.tested}
        for name, entry in ALGORITHMS.items()
    ]
    for plugin in PLUGINS.values():
        for host in (ALGORITHMS[name] for name in plugin.hosts):
            title = f"{host.title}+{plugin.title}"
            rows.append(
                {"name": f"{host.name}+{plugin.name}", "title": title, "paper": plugin.paper, "tested": host.tested}
            )
    return rows, ("name", "title", "paper")


def datasets() -> tuple[Rows, tuple[str, ...]]:
    from pflrepro.data.datasets import DATASETS

    rows = [
        {
            "name": name,
            "title": spec.title,
            "shape": list(spec.shape),
            "classes": spec.classes,
            "samples": spec.samples,
            "embedded": spec.embedded,
            "model": spec.preset.model,
            "licence": spec.licence,
            "origin": spec.origin,
        }
        for name, spec in DATASETS.items()
    ]
    return rows, ("name", "title", "samples", "classes", "embedded")


def models() -> tuple[Rows, tuple[str, ...]]:
    from pflrepro.models import MODELS

    rows = [{"name": name, "title": entry.title, "inputs": entry.inputs} for name, entry in MODELS.items()]
    return rows, ("name", "title", "inputs")


def partitions() -> tuple[Rows, tuple[str, ...]]:
    from pflrepro.data import PARTITIONS

    return [{"name": name, "title": title} for name, title in PARTITIONS.items()], ("name", "title")


def papers() -> tuple[Rows, tuple[str, ...]]:
    from pflrepro.papers import PAPERS, select

    rows = [
        {"name": name, "title": title, "artefacts": [artefact.id for artefact in select(name)]}
        for name, title in PAPERS.items()
    ]
    return rows, ("name", "title")


def artefacts() -> tuple[Rows, tuple[str, ...]]:
    from pflrepro.papers import ARTEFACTS

    rows = [
        {
            "name": artefact.id,
            "id": artefact.id,
            "title": artefact.title,
            "kind": artefact.kind,
            "paper": artefact.paper,
            "notebook": artefact.notebook,
            "scales": list(artefact.scale_names),
        }
        for artefact in ARTEFACTS.values()
    ]
    return rows, ("id", "title", "scales")


KINDS: dict[str, Callable[[], tuple[Rows, tuple[str, ...]]]] = {
    "algorithms": algorithms,
    "datasets": datasets,
    "models": models,
    "partitions": partitions,
    "papers": papers,
    "artefacts": artefacts,
}
