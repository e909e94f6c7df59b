"""`pflrepro plan`, `reproduce`, `score` and `verify`: the tables and figures of the papers."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from pflrepro.cli.arguments import MOST_SEEDS, add_json, add_machine, add_places, assignment, comma_separated, count
from pflrepro.cli.output import Answer, table

SCORE_COLUMNS = (
    *("artefact", "row", "column", "published", "ours", "spread", "low", "high", "interval"),
    *("unit", "n", "scale", "level", "rounds", "verdict"),
)
CLAIM_COLUMNS = ("artefact", "scale", "column", "claimed", "difference", "error", "test", "p", "adjusted", "outcome")
SCORE = """Published numbers beside ours with their 95 % intervals, in the unit of their column, and the claims with their tests.
Trains nothing."""


def add(verbs: Any) -> None:
    _add_plan(verbs)
    _add_reproduce(verbs)
    _add_score(verbs)
    _add_verify(verbs)


def _add_plan(verbs: Any) -> None:
    parser = verbs.add_parser("plan", help="what would run, how long, how much memory", description="Trains nothing.")
    _add_choice(parser)
    add_places(parser)
    add_json(parser)
    parser.set_defaults(handler=plan, parser=parser)


def _add_reproduce(verbs: Any) -> None:
    parser = verbs.add_parser(
        "reproduce",
        help="run what is missing, execute the notebook, write the outputs",
        description="Regenerate an artefact, or every artefact of a paper. Finished runs are reused, broken ones go on.",
    )
    _add_choice(parser)
    parser.add_argument("--figures", metavar="DIR", default="figures", help="where outputs go (default: figures)")
    parser.add_argument("--backend", help="how clients are computed (default: the notebook's)")
    parser.add_argument("--device", help="auto, cpu, cuda, cuda:1 ... (default: the notebook's)")
    parser.add_argument("--workers", type=count("--workers"), metavar="N", help="workers of the loop backend")
    parser.add_argument(
        "--set",
        type=assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a further parameter of the notebook (repeatable)",
    )
    add_places(parser)
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(handler=reproduce, parser=parser)


def _add_score(verbs: Any) -> None:
    parser = verbs.add_parser("score", help="the score card: published, ours, verdict", description=SCORE)
    parser.add_argument("id", metavar="PAPER[/ARTEFACT]", nargs="?", help="default: everything")
    parser.add_argument("--long", action="store_true", help="also the cells that were not run")
    parser.add_argument(
        "--html", metavar="DIR", help="also write DIR/index.html: all of it as one page, with pictures and curves"
    )
    add_places(parser)
    add_json(parser)
    parser.set_defaults(handler=score, parser=parser)


def _add_verify(verbs: Any) -> None:
    parser = verbs.add_parser(
        "verify",
        help="train committed numbers anew, aside, and compare",
        description="Trains the runs behind an artefact's committed numbers in a store of their own; the given store stays as it is.",
    )
    parser.add_argument("id", metavar="PAPER/ARTEFACT", help="such as demo/digits")
    parser.add_argument("--scale", default="fast", help="fast or paper (default: fast)")
    parser.add_argument("--methods", type=comma_separated, metavar="A,B", help="only these rows")
    add_machine(parser)
    add_places(parser, store=False)
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(handler=verify, parser=parser)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="PAPER[/ARTEFACT]", help="such as dbe/table5 (see: pflrepro list artefacts)")
    parser.add_argument(
        "--scale", default="fast", help="smoke, fast or paper, where the artefact has it (default: fast)"
    )
    parser.add_argument(
        "--seeds", type=count("--seeds", high=MOST_SEEDS), metavar="N", help="number of seeds (default: the scale's)"
    )
    parser.add_argument(
        "--methods", type=comma_separated, metavar="A,B", help="train only these rows, such as fedavg,fedavg+dbe"
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="METHOD",
        help="a method of your own beside the paper's, such as my_module:MyMethod (repeatable)",
    )


def plan(arguments: argparse.Namespace) -> Answer:
    from pflrepro.experiments.store import Store
    from pflrepro.papers import select
    from pflrepro.papers.planning import plan as planned
    from pflrepro.papers.planning import seconds_a_round
    from pflrepro.papers.studies import Study

    store = Store(arguments.store)
    how = {"store": store, "data_root": arguments.data_root}
    how |= {"seeds": arguments.seeds, "methods": arguments.methods or (), "also": arguments.also}
    studies = [Study(artefact, arguments.scale, **how) for artefact in select(arguments.id)]
    timings = seconds_a_round(store)
    entries = [entry for study in studies for entry in planned(study, timings)]
    rows = [
        {key: value for key, value in vars(entry).items() if key not in ("experiment", "keep")} for entry in entries
    ]
    return Answer(rows, _plan_text(rows))


def _plan_text(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "nothing to train"
    shown = [row | {"time": _duration(row["seconds"]), "GiB": row["memory"] / 2**30} for row in rows]
    states = Counter(row["state"] for row in rows)
    seconds = {state: sum(row["seconds"] for row in rows if row["state"] == state) for state in states}
    times = [("to run", "to run"), ("no data", "with the data that are missing")]
    costs = [f"{words}: about {_duration(seconds[state])}" for state, words in times if seconds.get(state)]
    summary = "; ".join([", ".join(f"{number} {state}" for state, number in states.items()), *costs])
    columns = ["artefact", "row", "column", "seed", "rounds", "state", "time", "GiB", "reason"]
    return f"{table(shown, columns)}\n\n{summary}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def reproduce(arguments: argparse.Namespace) -> Answer:
    from pflrepro.papers import select
    from pflrepro.papers.notebooks import read_values
    from pflrepro.papers.reproduce import reproduce as regenerate

    artefacts = select(arguments.id)
    prepared = [
        (artefact, _parameters(arguments) | read_values(artefact.notebook, _pairs(arguments))) for artefact in artefacts
    ]
    rows = []
    for artefact, parameters in prepared:
        done = regenerate(
            artefact,
            arguments.scale,
            parameters,
            arguments.figures,
            store=arguments.store,
            progress=not arguments.quiet,
            workers=arguments.workers,
        )
        rows.append(
            {
                "id": done.artefact,
                "scale": done.scale,
                "outputs": list(done.outputs),
                "executed_notebook": done.notebook,
            }
        )
    return Answer(rows, "\n".join(_reproduced_text(row) for row in rows))


def _parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that are parameters of every notebook; only what the user gave."""
    from pflrepro.device import resolve_device

    given = {name: getattr(arguments, name) for name in ("seeds", "methods", "backend", "data_root")}
    given["also"] = arguments.also or None
    given["device"] = None if arguments.device is None else resolve_device(arguments.device)
    return {name: value for name, value in given.items() if value is not None}


def _pairs(arguments: argparse.Namespace) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in arguments.set)


def _reproduced_text(row: dict[str, Any]) -> str:
    outputs = [f"  {Path(path)}" for path in row["outputs"]] or ["  (nothing new)"]
    return "\n".join(
        [f"{row['id']} at scale {row['scale']}:", *outputs, f"  executed notebook: {row['executed_notebook']}"]
    )


def verify(arguments: argparse.Namespace) -> Answer:
    from pflrepro.device import resolve_device
    from pflrepro.papers.verifying import verify as regenerate

    found = regenerate(
        arguments.id,
        arguments.scale,
        methods=arguments.methods or (),
        data_root=arguments.data_root,
        backend=arguments.backend,
        device=resolve_device(arguments.device),
        workers=arguments.workers,
        progress=not arguments.quiet,
    )
    rows = [vars(each) | {"agrees": each.agrees} for each in found]
    apart = sum(not each.agrees for each in found)
    said = f"{apart} of {len(found)} runs differ by more" if apart else "agrees within one test sample"
    columns = ("row", "column", "seed", "id", "committed", "here", "samples", "of", "agrees")
    return Answer(rows, f"{table(rows, columns)}\n\n{said}", code=int(apart > 0))


def score(arguments: argparse.Namespace) -> Answer:
    from pflrepro.experiments.store import Store
    from pflrepro.papers import score_card
    from pflrepro.papers.result import marked

    card = score_card(arguments.id, store=Store(arguments.store), data_root=arguments.data_root)
    cells, claims = (frame.to_dict("records") for frame in (card.cells, card.claims))
    shown = [row for row in cells if arguments.long or row["verdict"] != "not run"]
    verdicts = Counter(row["verdict"] for row in cells)
    parts = [table(_marked(shown, "verdict"), SCORE_COLUMNS)] if shown else []
    if any(row["interval"] for row in shown):
        parts.append("low to high: 95 % interval of ours")
    if claims:
        counted = [f"claims of {id} at scale {scale}: {counts}" for (id, scale), counts in card.counts.items()]
        parts += [table(_marked(claims, "outcome"), CLAIM_COLUMNS), "\n".join(counted)]
    counts = [
        {"artefact": id, "scale": scale, "outcomes": dict(each.outcomes), "firm": each.firm, "tests": each.tests}
        for (id, scale), each in card.counts.items()
    ]
    value = {"cells": cells, "claims": claims, "claim_counts": counts}
    parts.append(", ".join(f"{number} {marked(word)}" for word, number in verdicts.items()))
    if arguments.html is not None:
        from pflrepro.papers.score_page import write_page

        value["page"] = write_page(card, arguments.html)
        parts.append(f"page: {value['page']}")
    return Answer(value, "\n\n".join(parts))


def _marked(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The rows with the mark of a verdict before its word."""
    from pflrepro.papers.result import marked

    return [row | {name: marked(row[name])} for row in rows]
