"""`pflrepro plan`, `reproduce`, `redraw`, `score` and `verify`: the tables and figures of the papers."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.cli.arguments import MOST_SEEDS, add_json, add_machine, add_places, assignment, comma_separated, count
from pflrepro.cli.output import Answer, table
from pflrepro.errors import RunFailed, UserError, unknown
from pflrepro.notebook import duration

if TYPE_CHECKING:
    from pflrepro.experiments.store import Store
    from pflrepro.papers.artefact import Artefact
    from pflrepro.papers.planning import Plan

Row = dict[str, Any]

SCORE_COLUMNS = (
    *("artefact", "row", "column", "published", "ours", "spread", "low", "high", "interval"),
    *("unit", "n", "scale", "fidelity", "rounds", "verdict"),
)
CLAIM_COLUMNS = ("artefact", "scale", "column", "claimed", "difference", "error", "test", "p", "adjusted", "outcome")
SCORE = """Published numbers beside ours with their 95 % intervals, in the unit of their column, and the claims with their tests.
Trains nothing."""
PLAN = """What the artefacts would train, each run counted once: the total first, then a line an artefact, or of one artefact a line a
run. Seconds come from a timing on this machine and are those of training: what is measured on the models afterwards (description
lengths, leakage, features) comes on top. Trains nothing."""


def add(verbs: Any) -> None:
    _add_plan(verbs)
    _add_reproduce(verbs)
    _add_redraw(verbs)
    _add_score(verbs)
    _add_verify(verbs)


def _add_plan(verbs: Any) -> None:
    parser = verbs.add_parser("plan", help="what would run, how long, how much memory", description=PLAN)
    _add_choice(parser)
    parser.add_argument("--long", action="store_true", help="every run, also of several artefacts")
    add_places(parser)
    add_json(parser)
    parser.set_defaults(handler=plan, parser=parser)


def _add_reproduce(verbs: Any) -> None:
    parser = verbs.add_parser(
        "reproduce",
        help="run what is missing, execute the notebook, write the outputs",
        description="Regenerate artefacts, or all of a paper. Finished runs are reused, broken ones go on; an artefact that fails does "
        "not keep the others waiting.",
    )
    _add_choice(parser)
    parser.add_argument(
        "--figures", metavar="DIR", default="", help="where outputs go (default: outputs, in a checkout or else here)"
    )
    parser.add_argument("--backend", help="how clients are computed (default: the notebook's)")
    parser.add_argument("--device", help="auto, cpu, cuda, cuda:1 ... (default: the notebook's)")
    parser.add_argument("--workers", type=count("--workers"), metavar="N", help="workers of the loop backend")
    parser.add_argument(
        "--launcher",
        metavar="WHERE",
        help="where what is missing is trained: processes, processes:N, dask:ADDRESS, ray, ray:ADDRESS, slurm:NAME=VALUE,... "
        "(default: here, one run after another)",
    )
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


def _add_redraw(verbs: Any) -> None:
    parser = verbs.add_parser(
        "redraw",
        help="write outputs anew from the runs that are there",
        description="Tables, pictures and pages from finished runs, those that came with the package included. Trains nothing, and "
        "needs no data for what was measured before.",
    )
    parser.add_argument("ids", metavar="PAPER[/ARTEFACT]", nargs="*", help="such as dbe/figure3")
    parser.add_argument("--all", action="store_true", help="every artefact that has a run, or needs none")
    parser.add_argument(
        "--scale",
        help="fast or paper (default: that of the outputs that are there, else of the committed ones, else the one of which most cells "
        "were run, of equals the most exact)",
    )
    parser.add_argument(
        "--figures", metavar="DIR", default="", help="where outputs go (default: outputs, in a checkout or else here)"
    )
    add_places(parser)
    add_json(parser)
    parser.set_defaults(handler=redraw, parser=parser)


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
    parser.add_argument(
        "ids", metavar="PAPER[/ARTEFACT]", nargs="*", help="such as dbe/table5 (see: pflrepro list artefacts)"
    )
    parser.add_argument("--all", action="store_true", help="every artefact that has the scale")
    parser.add_argument(
        "--scale", default="fast", help="smoke, fast or paper, where the artefact has it (default: fast)"
    )
    parser.add_argument(
        "--seeds", type=count("--seeds", high=MOST_SEEDS), metavar="N", help="number of seeds (default: the scale's)"
    )
    parser.add_argument(
        "--methods",
        type=comma_separated,
        metavar="A,B",
        help="train only these rows, such as fedavg,fedavg+dbe; what the store has of others is shown",
    )
    parser.add_argument(
        "--columns", type=comma_separated, metavar="A,B", help="train only these columns, such as har of gpfl/table2"
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="METHOD",
        help="a method of your own beside the paper's, such as my_module:MyMethod or 'my_module:MyMethod mu=0.1' (repeatable)",
    )


def plan(arguments: argparse.Namespace) -> Answer:
    from pflrepro.papers.planning import SHOWN

    artefacts = _artefacts(arguments)
    entries = _planned(artefacts, arguments)
    rows = [{name: getattr(entry, name) for name in SHOWN if name != "run"} for entry in entries]
    if not rows:
        return Answer(rows, "nothing to train")
    lines = _by_artefact(rows) if len(artefacts) > 1 and not arguments.long else entries.lines()
    parts = [entries.total, table(lines, list(lines[0]))]
    return Answer(rows, "\n\n".join(filter(None, (*parts, entries.missing))))


def _planned(artefacts: list[Artefact], arguments: argparse.Namespace) -> Plan:
    """The plans of the artefacts; as they are declared they are remembered, with other seeds or rows worked out."""
    from pflrepro.experiments.store import Store
    from pflrepro.papers import planning

    store = Store(arguments.store)
    asked = {name: given for name in ("seeds", "methods", "columns", "also") if (given := getattr(arguments, name))}
    if not asked:
        return planning.Plan(planning.planned_lines(artefacts, arguments.scale, store, arguments.data_root))
    from pflrepro.papers.studies import Study
    from pflrepro.papers.timing import Timings

    how, timings = {"store": store, "data_root": arguments.data_root, **asked}, Timings(store.root)
    studies = [Study(artefact, arguments.scale, **how) for artefact in artefacts]
    return planning.Plan(entry for study in studies for entry in planning.plan(study, timings))


def _artefacts(arguments: argparse.Namespace) -> list[Artefact]:
    """Those that were named, once each, or all that have the scale; `UserError` where none of them has it."""
    from pflrepro.papers import select

    if arguments.all == bool(arguments.ids):
        raise UserError("name artefacts or papers (see: pflrepro list artefacts), or give --all")
    named = select() if arguments.all else [artefact for name in arguments.ids for artefact in select(name)]
    having = [artefact for artefact in named if arguments.scale in (None, *artefact.scale_names)]
    if not having:
        whose = f"scale of {named[0].id}" if len(named) == 1 else "scale"
        raise unknown(whose, arguments.scale, {name for artefact in named for name in artefact.scale_names})
    return list({artefact.id: artefact for artefact in (having if arguments.all else named)}.values())


def _by_artefact(rows: list[dict[str, Any]]) -> list[Row]:
    """A line an artefact: its runs, those of them that are done, time of the others, the largest memory of all, what lacks."""
    lines = []
    for name in dict.fromkeys(row["artefact"] for row in rows):
        own = [row for row in rows if row["artefact"] == name]
        lines.append(
            {
                "artefact": name,
                "runs": sum(row["state"] != "not possible" for row in own),
                "done": sum(row["state"] == "done" for row in own),
                "time": duration(sum(row["seconds"] for row in own)),
                "GiB": max(row["memory"] for row in own) / 2**30,
                "lacks": "; ".join(dict.fromkeys(row["reason"].split(" (")[0] for row in own if row["reason"])),
            }
        )
    return lines


def reproduce(arguments: argparse.Namespace) -> Answer:
    from pflrepro.experiments.launchers import launcher_of
    from pflrepro.papers.notebooks import read_values

    artefacts = _artefacts(arguments)
    if arguments.launcher is not None:
        launcher_of(arguments.launcher)
    given, pairs = _parameters(arguments), _set(arguments.set)
    for name in {*given, *({"store"} if arguments.store else ())} & pairs.keys():
        raise UserError(f"{name} is given twice: by --{name.replace('_', '-')} and by --set")
    prepared = [(artefact, given | read_values(artefact.notebook, pairs)) for artefact in artefacts]
    rows = [_reproduced(artefact, parameters, arguments, alone=len(prepared) == 1) for artefact, parameters in prepared]
    failed = [row["id"] for row in rows if row["error"]]
    parts = [_written_text(row) for row in rows]
    parts += [f"failed: {', '.join(failed)}"] if failed else []
    chosen = arguments.methods or arguments.columns or arguments.also  # who names what is to be trained wants it
    return Answer(rows, "\n".join(parts), code=int(bool(failed or (chosen and any(row["lacks"] for row in rows)))))


def _set(texts: Sequence[str]) -> dict[str, str]:
    """The parameters of --set; `UserError` where one is given twice."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in pairs:
            raise UserError(f"{name} is given twice by --set")
        pairs[name] = value
    return pairs


def _reproduced(artefact: Artefact, parameters: dict[str, Any], arguments: argparse.Namespace, alone: bool) -> Row:
    """What came of one artefact."""
    from pflrepro.papers.reproduce import reproduce as regenerate

    row: Row = {
        "id": artefact.id,
        "scale": arguments.scale,
        "outputs": [],
        "executed_notebook": None,
        "lacks": "",
        "error": None,
    }
    how = {"store": arguments.store, "progress": not arguments.quiet, "workers": arguments.workers}
    how |= {"launcher": arguments.launcher}

    def made() -> Row:
        done = regenerate(artefact, arguments.scale, parameters, arguments.figures, **how)
        return {"outputs": list(done.outputs), "executed_notebook": done.notebook, "lacks": done.lacks}

    return _tried(row, made, alone)


def _tried(row: Row, make: Callable[[], Row], alone: bool) -> Row:
    """The row with what is made; of several artefacts a failed one is reported, and the others go on."""
    try:
        return row | make()
    except (UserError, RunFailed) as error:
        if alone:
            raise
        return row | {"error": str(error)}


def _parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that are parameters of every notebook; only what the user gave."""
    from pflrepro.device import resolve_device

    given = {name: getattr(arguments, name) for name in ("seeds", "methods", "columns", "backend", "data_root")}
    given["also"] = arguments.also or None
    given["device"] = None if arguments.device is None else resolve_device(arguments.device)
    return {name: value for name, value in given.items() if value is not None}


def _written_text(row: Row) -> str:
    """What was written for an artefact, a path a line; or why nothing was."""
    where = row["id"] if row["scale"] is None else f"{row['id']} at scale {row['scale']}"
    if row["error"]:
        return f"{where}: FAILED: {row['error']}"
    if row["scale"] is None:
        return f"{where}: nothing was run"
    outputs = [f"  {Path(path)}" for path in row["outputs"]] or ["  (nothing new)"]
    notebook = [f"  executed notebook: {row['executed_notebook']}"] if "executed_notebook" in row else []
    return "\n".join([f"{where}:", *outputs, *notebook])


def redraw(arguments: argparse.Namespace) -> Answer:
    from pflrepro.experiments.store import Store

    store, rows = Store(arguments.store), []
    artefacts = _artefacts(arguments)
    alone = len(artefacts) == 1
    for artefact in artefacts:
        row: Row = {"id": artefact.id, "scale": arguments.scale, "outputs": [], "error": None}
        rows.append(_tried(row, partial(_redrawn, row, artefact, arguments, store), alone))
    if arguments.all:
        rows = [row for row in rows if row["outputs"] or row["error"]]
    return Answer(rows, "\n".join(map(_written_text, rows)), code=int(not all(row["outputs"] for row in rows)))


def _redrawn(row: Row, artefact: Artefact, arguments: argparse.Namespace, store: Store) -> Row:
    """What was drawn anew of an artefact; the scale goes into its row, None without a run."""
    from pflrepro.papers.studies import to_redraw

    study = to_redraw(artefact, arguments.scale, arguments.figures, store=store, data_root=arguments.data_root)
    row["scale"] = None if study is None else study.scale.name
    return {} if study is None else {"outputs": [*map(str, study.write(arguments.figures))]}


def verify(arguments: argparse.Namespace) -> Answer:
    from pflrepro.papers.verifying import verify as regenerate

    found = regenerate(
        arguments.id,
        arguments.scale,
        methods=arguments.methods or (),
        data_root=arguments.data_root,
        backend=arguments.backend,
        device=arguments.device,
        workers=arguments.workers,
        progress=not arguments.quiet,
    )
    rows = [vars(each) | {"agrees": each.agrees} for each in found]
    apart = sum(not each.agrees for each in found)
    said = "agrees within one test sample"
    if apart:
        then, now = (", ".join(sorted({each.versions[i] for each in found})) for i in (0, 1))
        other = sum(not each.tested_alike for each in found)
        said = f"{apart} of {len(found)} runs differ by more{f', {other} of them in their rounds' if other else ''}"
        said += f"; committed with PyTorch {then}, here {now}"
        said += "" if then == now else ": with another version a run may drift by a few samples"
    columns = ("row", "column", "seed", "id", "committed", "here", "rounds", "samples", "of", "agrees")
    shown = [row | {"rounds": " and ".join(map(str, dict.fromkeys(row["rounds"])))} for row in rows]
    return Answer(rows, f"{table(shown, columns)}\n\n{said}", code=int(apart > 0))


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
    parts += [f"{row['row']}, {row['column']}: {row['reason']}" for row in shown if "diverged" in row["reason"]]
    if claims:
        counted = [f"claims of {id} at scale {scale}: {counts}" for (id, scale), counts in card.counts.items()]
        parts += [table(_marked(claims, "outcome"), CLAIM_COLUMNS), "\n".join(counted)]
    counts = [
        {"artefact": id, "scale": scale, **vars(each), "outcomes": dict(each.outcomes)}
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
