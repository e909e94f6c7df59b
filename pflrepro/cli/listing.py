"""`pflrepro list`: what there is, by name."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from pflrepro.cli.arguments import add_json
from pflrepro.cli.output import Answer, table

Rows = list[dict[str, Any]]
WIDTH = 100  # columns of the long list of algorithms
# key of a counted cost -> its heading
COSTS = {
    "down": "down",
    "up": "up",
    "supplied": "data",
    "memory": "kept",
    "backward": "back",
    "forward": "forw",
    "head_only": "head",
    "products": "prod",
    "test_backward": "t.back",
    "test_forward": "t.forw",
    "server_steps": "server",
}
LEGEND = """Cost of a round, counted with default options on the papers' CNN for 28x28 images, 20 clients:
down, up, kept: numbers that a client receives, sends, keeps; data: handed to all (in networks);
back, forw, head: passes through the base with and without a gradient, through the head alone, and
t.back, t.forw: those before a test (in training samples); server: training steps on the server;
prod: operations in matrix products and convolutions of the client's training (FedAvg: 1).
"""


def add(verbs: Any) -> None:
    parser = verbs.add_parser(
        "list", help="what there is: algorithms, data sets, models, partitions, papers, artefacts", description=__doc__
    )
    parser.add_argument("what", metavar="WHAT", choices=tuple(KINDS), help=", ".join(KINDS))
    parser.add_argument(
        "--long", action="store_true", help="every column; of algorithms the options and the counted cost of a round"
    )
    add_json(parser)
    parser.set_defaults(handler=handle, parser=parser)


def handle(arguments: argparse.Namespace) -> Answer:
    rows, short = KINDS[arguments.what]()
    if arguments.what == "algorithms" and (arguments.long or arguments.json):
        from pflrepro.algorithms.registry import about, hyperparameters

        of = [(about(row["name"]).link, hyperparameters(row["name"])) for row in rows]
        rows = [row | {"link": link, "options": options} for row, (link, options) in zip(rows, of, strict=True)]
    if arguments.what == "algorithms" and arguments.long:
        rows = [row | costs(row["name"]) for row in rows]
        return Answer(rows, described(rows))
    columns = list(dict.fromkeys(key for row in rows for key in row)) if arguments.long else list(short)
    return Answer(rows, table(rows, columns))


def described(rows: Rows) -> str:
    """The algorithms with paper, tested model and options, and below a table of their costs; no line longer than `WIDTH`."""
    from pflrepro.algorithms.registry import options_of

    parts = []
    for row in rows:
        valid = {name: domain.words for name, domain in options_of(row["name"]).items()}
        options = ", ".join(_option(name, value, valid[name]) for name, value in row["options"].items()) or "none"
        about = (
            f"{row['title']}, {row['paper']}; {row['kind']}. {row['link']} Tested: {row['tested']}. Options: {options}"
        )
        parts.append(textwrap.fill(about, WIDTH, initial_indent=f"{row['name']}: ", subsequent_indent="    "))
    counts = [{"name": row["name"]} | {heading: row[key] for key, heading in COSTS.items()} for row in rows]
    return "\n".join([*parts, "", LEGEND, table(counts, ["name", *COSTS.values()])])


def _option(name: str, default: Any, words: Sequence[str]) -> str:
    others = [word for word in words if word != default]
    return f"{name}={default}" + (f" (or {', '.join(others)})" if others else "")


def algorithms() -> tuple[Rows, tuple[str, ...]]:
    """Everything that --algorithm takes: the methods, and the combinations with plug-ins that a paper uses."""
    from pflrepro.algorithms.entries import ALGORITHMS, METHOD_PLUGINS, PLUGINS, VARIANTS
    from pflrepro.algorithms.registry import about, canonical_name

    kinds = dict.fromkeys(ALGORITHMS, "method") | dict.fromkeys(VARIANTS, "variant")
    # alone, on FedAvg; three of them are methods of the papers
    kinds |= {name: "method" if name in METHOD_PLUGINS else "plug-in" for name in PLUGINS}
    hosted = (canonical_name(f"{host}+{plugin.name}") for plugin in PLUGINS.values() for host in plugin.hosts)
    kinds |= dict.fromkeys(hosted, "combination")
    known = {name: about(name) for name in kinds}
    rows = [
        {
            "name": name,
            "title": known[name].title,
            "paper": known[name].paper,
            "tested": known[name].tested,
            "kind": kind,
        }
        for name, kind in kinds.items()
    ]
    return rows, ("name", "title", "paper")


def costs(algorithm: str) -> dict[str, float]:
    """What a participant's round costs with the default options, counted on the papers' CNN with 20 clients.

    Keys: those of `COSTS`; see `pflrepro.simulation.cost.Cost.relative`.
    """
    from pflrepro.algorithms.registry import canonical_name
    from pflrepro.simulation.cost import cost_of_default

    cost = cost_of_default(canonical_name(algorithm))
    return {name: round(value, 3) for name, value in cost.relative().items()}


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
            "citation": spec.citation,
        }
        for name, spec in DATASETS.items()
    ]
    return rows, ("name", "title", "samples", "classes", "embedded")


def models() -> tuple[Rows, tuple[str, ...]]:
    from pflrepro.models import MODELS

    rows = [
        {"name": name, "title": entry.title, "inputs": entry.inputs, "splits": list(entry.splits), "split": entry.split}
        for name, entry in MODELS.items()
    ]
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
