"""`pflrepro show` and `pflrepro store`: one finished run; what is under way in the store, what it can do without, what it takes in."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from pflrepro.cli.arguments import add_json, add_places, count, measured
from pflrepro.cli.output import Answer, table
from pflrepro.errors import CorruptFile, UserError
from pflrepro.markup import filled

if TYPE_CHECKING:
    from pflrepro.experiments.result import Run
    from pflrepro.experiments.store import Store

SHOW = """\
What is known of a finished run: its configuration, its curve, the command that makes it, what is kept of it, the code that made it.
An ID stands in the answers of `run` and `score --json`, and at the foot of a table's page; its first digits will do where no other run
has them. A run may have gone on for one table after another: --rounds 60 shows it as a table of 60 rounds reads it.

With --json, one object; accuracies are fractions in [0, 1], the curves have one value a test, `tested` says behind which rounds.
"""
UNFINISHED = """\
How far the runs are that are not finished: rounds, the best test accuracy so far, whether and by which round training came apart (a
loss that is infinite, NaN or huge), seconds a round, when that was saved, and whether a process trains the run now. One that is
stopped goes on where it was when it is asked for again, by the command that began it.

With --json, an object a run with its whole configuration; accuracies are fractions in [0, 1].
"""
PRUNE = """\
Remove the folders of damaged runs that were set aside; with --states also the models kept of finished runs, with --runs whole runs.
Without their models, histories and measurements stay; such a run is trained again where it is to grow or to be looked into.

  pflrepro store prune --states --keep-under 5GB              models, the oldest first, until the runs together have 5 GB
  pflrepro store prune --runs --older-than 30d --dry-run      which runs were last trained more than 30 days ago
"""
MERGE = """\
Take the finished runs of other stores into this one, so that a table computed on three machines becomes one.

Of a run that both have the longer one stays; a damaged one is taken from where it is whole. Runs that are half done stay where they
are, and the other stores are not changed. What is repeated, or stopped and repeated, gives the same store.
Exit code 1 where a run of another store is damaged, or somebody trains it just now.
"""
TIMES = {"h": 3600, "d": 86_400, "w": 604_800}  # seconds
SIZES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
WIDTH = 100  # columns of a terminal
LINES = 12  # of a curve
LEFT = ("damaged", "busy", "unreadable")  # what becomes of a run that is not merged
BAR = 40  # columns of a bar that is full


def add(verbs: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    show = verbs.add_parser("show", help="a finished run", description=SHOW, formatter_class=raw)
    show.add_argument("id", metavar="ID", help="of a run, or its first digits")
    show.add_argument("--rounds", type=count("--rounds", low=0), metavar="N", help="only its first N rounds")
    add_places(show, data=False)
    add_json(show)
    show.set_defaults(handler=handle_show, parser=show)

    store = verbs.add_parser(
        "store",
        help="what is under way in the run store; make room in it, or make one of several",
        description="See what is under way in the run store, make room in it, or make one store of several.",
    )
    store.set_defaults(handler=handle_store, parser=store, json=False)
    actions = store.add_subparsers(metavar="ACTION", dest="action")
    unfinished = actions.add_parser(
        "unfinished", help="how far the runs are that are not finished", description=UNFINISHED, formatter_class=raw
    )
    add_places(unfinished, data=False)
    add_json(unfinished)
    unfinished.set_defaults(handler=handle_unfinished, parser=unfinished)

    prune = actions.add_parser(
        "prune", help="remove damaged runs, or kept states", description=PRUNE, formatter_class=raw
    )
    prune.add_argument("--states", action="store_true", help="also the kept models of all finished runs")
    prune.add_argument("--runs", action="store_true", help="also whole runs, by one of the two limits")
    prune.add_argument(
        "--older-than", type=measured("--older-than", TIMES), metavar="TIME", help="only what is older: 12h, 30d, 8w"
    )
    prune.add_argument(
        "--keep-under",
        type=measured("--keep-under", SIZES),
        metavar="SIZE",
        help="only until so much is left: 500MB, 5GB",
    )
    prune.add_argument("--dry-run", action="store_true", help="only say what would be freed")
    add_places(prune, data=False)
    add_json(prune)
    prune.set_defaults(handler=handle_prune, parser=prune)

    merge = actions.add_parser("merge", help="take in the runs of other stores", description=MERGE, formatter_class=raw)
    merge.add_argument("sources", metavar="SRC", nargs="+", help="the folder of another store")
    add_places(merge, data=False)
    add_json(merge)
    merge.set_defaults(handler=handle_merge, parser=merge)


def handle_show(arguments: argparse.Namespace) -> Answer:
    from pflrepro.experiments.store import Store

    store = Store(arguments.store)
    id = store.id_of(arguments.id)
    run = store.get(id) or store.compact(id)
    if run is None:
        raise CorruptFile(f"the run {id} is damaged and cannot be shown")
    if arguments.rounds is not None:
        run = _first_rounds(run, arguments.rounds, store)
    value = describe(run, store)
    return Answer(value, _text(run, value))


def _first_rounds(run: Run, rounds: int, store: Store) -> Run:
    """What a run of so many rounds would be, from what is here or came with the package."""
    decided = run.identity.get("settings", {}).get("rounds", rounds)
    if decided != rounds:
        raise UserError(
            f"--rounds: the number of rounds, {decided}, is part of run {run.id}: one of {rounds} is another run"
        )
    asked = run.experiment.with_settings(rounds=rounds)
    found = store.answer(run.id, asked)
    if found is None:
        known = f"{run.rounds} rounds, tested every {run.experiment.settings.every}"
        raise UserError(f"--rounds: run {run.id} has {known}; there is no test after round {rounds}")
    return found


def describe(run: Run, store: Store) -> dict[str, Any]:
    """What `--json` prints of a run."""
    last = run.rounds
    kept = {round: path.stat().st_size for round, path in store.states(run.id).items() if round <= last}
    questions = [question for question in store.readings(run) if question.round <= last]
    record = run.environment
    return {
        "id": run.id,
        **run.experiment.to_dict(),
        "command": run.command,
        "accuracy": {rule: run.accuracy(rule) for rule in ("best_round", "last_round")},
        "best_round": run.round_of("best"),
        "tested": run.history["round"],
        "curve": run.curve,
        "curve_after_training": run.curve_after_training,
        "states": [{"round": round, "bytes": size} for round, size in kept.items()],
        "readings": [vars(question) | {"options": dict(question.options)} for question in questions],
        "commit": record.get("versions", {}).get("commit"),
        "made_with": {name: record.get(name) for name in ("backend", "device", "processor", "versions", "timings")},
        "folder": str(run.folder),
    }


def _text(run: Run, value: dict[str, Any]) -> str:
    def named(values: dict[str, Any]) -> str:
        return ", ".join(f"{name}={each}" for name, each in values.items()) or "none"

    accuracy, made, experiment = value["accuracy"], value["made_with"], run.experiment
    data = {name: each for name, each in value["data"].items() if name != "dataset" and each not in (None, "")}
    states = [f"round {each['round']} ({_size(each['bytes'])})" for each in value["states"]]
    readings = [f"{each['name']} at round {each['round']} ({_briefly(each['options'])})" for each in value["readings"]]
    about = {
        "data": f"{experiment.data.dataset}, {named(data)}",
        "network": f"{experiment.model}, {experiment.dtype}",
        "options": named(value["options"]),
        "settings": named(value["settings"]),
        "accuracy": f"{100 * accuracy['best_round']:.2f} % in the best round ({value['best_round']}), "
        f"{100 * accuracy['last_round']:.2f} % in the last ({run.rounds})",
        "command": value["command"],
        "states": ", ".join(states) or "none",
        "readings": "\n".join(readings) or "none",
        "made by": f"{value['commit'] or 'an unknown commit'}, {made['backend']} on {made['device']}",
        "where": value["folder"],
    }
    title = f"run {run.id}: {experiment.algorithm} on {experiment.data.dataset}, seed {experiment.seed}"
    width = max(map(len, about))
    lines = [_entry(f"  {name:<{width}}  ", each, whole=name == "command") for name, each in about.items()]
    return "\n".join([title, *lines, "", _curve(run)])


def _entry(start: str, text: str, whole: bool) -> str:
    """A line, or several where it is long or has some; `whole`: what is to be copied stays in one."""
    if whole:
        return start + text
    space = " " * len(start)
    fill = partial(textwrap.fill, width=WIDTH, initial_indent=space, subsequent_indent=space, break_long_words=False)
    return start + "\n".join(map(fill, text.splitlines())).removeprefix(space)


def _briefly(options: dict[str, Any]) -> str:
    """The options of a reading but those that are lists or tables, which `--json` has."""
    shown = {name: "..." if isinstance(each, (dict, list)) else each for name, each in options.items()}
    return ", ".join(f"{name}={each}" for name, each in shown.items()) or "none"


def _curve(run: Run) -> str:
    """The accuracies of a dozen tests, the first, the best and the last among them, with a bar for those before local training."""
    count = len(run.curve)
    step = max(1, math.ceil((count - 1) / (LINES - 2)))
    chosen = sorted({*range(0, count, step), int(run.curve.argmax()), count - 1})
    before, after = 100 * run.curve, 100 * run.curve_after_training
    rows = [
        {
            "round": int(run.history["round"][place]),
            "before training": f"{before[place]:.2f} %",
            "after": "" if math.isnan(after[place]) else f"{after[place]:.2f} %",
            "": "#" * round(BAR * before[place] / 100),
        }
        for place in chosen
    ]
    return table(rows, list(rows[0]))


def handle_store(arguments: argparse.Namespace) -> Answer:
    raise UserError("say what to do with the store: unfinished, prune or merge")


def handle_unfinished(arguments: argparse.Namespace) -> Answer:
    from pflrepro.experiments.store import Store

    store = Store(arguments.store)
    found = store.unfinished()
    rows = [vars(each) | each.experiment.to_dict() for each in found]
    for row in rows:
        del row["experiment"]
        row["diverged"] = vars(row["diverged"]) if row["diverged"] else None
    lines = [each.line() for each in found]
    return Answer(rows, table(lines, filled(lines)) if lines else f"no unfinished run in {store.root}")


def handle_prune(arguments: argparse.Namespace) -> Answer:
    from pflrepro.experiments.pruning import prune
    from pflrepro.experiments.store import Store

    store = Store(arguments.store)
    limits = {"older_than": arguments.older_than, "keep_under": arguments.keep_under}
    found = prune(store, states=arguments.states, runs=arguments.runs, **limits, dry_run=arguments.dry_run)
    rows = [vars(freed) for freed in found]
    total = sum(row["size"] for row in rows)
    shown = [row | {"size": _size(row["size"])} for row in rows]
    said = f"{_size(total)} in {store.root} {'would be' if arguments.dry_run else 'were'} freed"
    lines = [table(shown, ("id", "what", "size")), "", said] if rows else [f"nothing to free in {store.root}"]
    if not arguments.states and not arguments.runs:
        kept = sum(freed.size for freed in prune(store, states=True, dry_run=True) if freed not in found)
        lines += [f"with --states: {_size(kept)} more"] if kept else []
    return Answer({"freed": rows, "bytes": total, "dry_run": arguments.dry_run}, "\n".join(lines))


def handle_merge(arguments: argparse.Namespace) -> Answer:
    from pflrepro.experiments.merging import merge
    from pflrepro.experiments.store import Store

    store = Store(arguments.store)
    rows, lines = [], []
    for source in arguments.sources:
        found = [vars(merged) for merged in merge(store, source)]
        counts = Counter(row["what"] for row in found)
        said = ", ".join(f"{number} {what}" for what, number in counts.items()) or "no finished run"
        lines += [f"{source}: {said}", *(_left(row) for row in found if row["what"] in LEFT)]
        rows += [{"source": source, **row} for row in found]
    return Answer(rows, "\n".join(lines), code=int(any(row["what"] in LEFT for row in rows)))


def _left(row: dict[str, Any]) -> str:
    """Why a run of another store was not taken."""
    busy = "somebody trains it just now: merge again when that is done"
    return f"  {row['id']} is left: {row['reason'] or busy}"


def _size(bytes: int) -> str:
    return f"{bytes / 1e6:.2f} MB" if bytes < 1e9 else f"{bytes / 1e9:.2f} GB"
