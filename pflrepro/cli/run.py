"""`pflrepro run`: one or several methods on one data set, for one or several seeds."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from pflrepro.checked import domains
from pflrepro.cli.arguments import (
    MOST_SEEDS,
    add_json,
    add_machine,
    add_places,
    assignment,
    comma_separated,
    count,
    number,
)
from pflrepro.cli.output import Answer, table
from pflrepro.errors import UserError, check_word
from pflrepro.settings import Settings

if TYPE_CHECKING:
    from pflrepro.experiments.config import Experiment
    from pflrepro.experiments.result import Run
    from pflrepro.experiments.store import Store

DESCRIPTION = """\
Train one method, or several on one setting, and report test accuracy. What is not given comes from the data set's preset.
Finished runs in the store are reused; a run that was killed goes on where it stopped, and so does one with fewer rounds.

With --json, one object a method (with several methods a list of them); accuracies are fractions in [0, 1]:
  accuracy              mean and population standard deviation over seeds of what the selection rule picks
                        (std is null for one seed), per_seed, selection
  rounds                rounds of training behind the curve
  tested                the rounds behind which there was a test: 0 and every --every-th
  seconds_per_round     training and aggregation, without evaluation, the shares of all seeds together
  curve                 pooled over clients, mean over seeds, one value a test: before any training, then
                        evaluated before the next local training
  curve_after_training  the same right after local training; null where nothing was trained
  backend, device       what the runs were made with (lists: seeds may differ)
  diverged              the seeds whose loss became infinite, NaN or huge, each with the round and the clients that show it first
  runs, run_folders     ids (see: pflrepro show) and folders, one a seed
  stored                how many of the runs this call did not train: they were in the store, or another process made them
"""
OWN = "own"
OF_DATA = ("model", "dtype", "partition", "clients", "partition_seed", "min_size", "test_share", "proxy")


def add(verbs: Any) -> None:
    parser = verbs.add_parser(
        "run",
        help="train one or several methods on one data set",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--algorithm",
        type=comma_separated,
        action="extend",
        default=[],
        metavar="NAME[,NAME...]",
        help="such as fedavg, fedavg+dbe, or my_module:MyMethod (required, repeatable)",
    )
    parser.add_argument(
        "--option",
        type=assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the method, or of those of several that have it (repeatable; see: pflrepro list algorithms --long)",
    )
    parser.add_argument(
        "--seeds",
        type=count("--seeds", high=MOST_SEEDS),
        default=1,
        metavar="N",
        help="so many, one after the other (default: 1)",
    )
    parser.add_argument(
        "--first-seed", type=count("--first-seed", 0), default=0, metavar="SEED", help="the first of them (default: 0)"
    )
    parser.add_argument(
        "--select",
        default="best_round",
        metavar="RULE",
        help="best_round (as the papers do, the default), last_round, mean_last_K, mean_best_K",
    )
    _add_data(parser.add_argument_group("data and network"))
    _add_settings(parser.add_argument_group("protocol (default: the data set's preset)"))
    machine = parser.add_argument_group("machine and places")
    add_machine(machine)
    add_places(machine)
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(handler=handle, parser=parser)


def _least(text: str) -> int | str:
    return OWN if text == OWN else count("--min-size", 0)(text)


def _add_data(group: Any) -> None:
    group.add_argument("--model", metavar="NAME", help="see: pflrepro list models")
    group.add_argument("--dtype", metavar="WORD", help="number type: float32 (the default) or float64")
    group.add_argument("--dataset", default="digits", metavar="NAME", help="default: digits, which needs no download")
    group.add_argument("--partition", metavar="SPEC", help="such as dirichlet:0.1 (see: pflrepro list partitions)")
    group.add_argument("--clients", type=count("--clients"), metavar="N")
    group.add_argument(
        "--partition-seed", type=count("--partition-seed", 0), metavar="SEED", help="apart from the run's seed"
    )
    group.add_argument(
        "--min-size", type=_least, metavar="N", help="least samples of a client; own: by the partition's own rule"
    )
    group.add_argument(
        "--test-share",
        type=number("--test-share", 0, 1, open_low=True, open_high=True),
        metavar="X",
        help="of each client's samples",
    )
    group.add_argument("--proxy", metavar="NAME", help="data set that methods may hand to all clients (fedbr)")


def _add_settings(group: Any) -> None:
    """An option for every field of `Settings`, whose type knows what it may be."""
    known = domains(Settings)
    for setting in fields(Settings):
        flag, domain, text = "--" + setting.name.replace("_", "-"), known[setting.name], setting.metadata["help"]
        if domain.kind is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif domain.words:
            group.add_argument(flag, metavar="WORD", help=f"{text}: {' or '.join(domain.words)}")
        else:
            metavar = "N" if domain.kind is int else "X"
            group.add_argument(flag, type=partial(domain.parse, flag), metavar=metavar, help=text)


def handle(arguments: argparse.Namespace) -> Answer:
    from pflrepro.experiments.history import rounds_to_test
    from pflrepro.experiments.run import run
    from pflrepro.experiments.store import Store
    from pflrepro.metrics.selection import check_enough, check_rule

    rule = check_rule(arguments.select)
    asked, store = experiments(arguments), Store(arguments.store)
    check_enough(rule, len(rounds_to_test(asked[0].settings)))
    runs = run(
        asked,
        store=store,
        data_root=arguments.data_root,
        backend=arguments.backend,
        device=arguments.device,
        workers=arguments.workers,
        progress=not arguments.quiet,
    )
    check_enough(rule, min(len(one.curve) for one in runs))  # patience may have ended one early
    each = [runs[start : start + arguments.seeds] for start in range(0, len(runs), arguments.seeds)]
    summaries = [summarise(one, arguments.select) | {"stored": _stored(one, store)} for one in each]
    if len(summaries) == 1:
        return Answer(summaries[0], _text(arguments, summaries[0]))
    return Answer(summaries, _table(arguments, summaries))


def experiments(arguments: argparse.Namespace) -> list[Experiment]:
    """One experiment a method and seed; every wrong name or value is refused here, before anything is read or trained."""
    from pflrepro.algorithms.registry import canonical_name
    from pflrepro.experiments.config import Experiment

    names = {*(setting.name for setting in fields(Settings)), *OF_DATA}
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    given |= {"min_size": None} if arguments.min_size == OWN else {}
    methods = arguments.algorithm
    if not methods:
        raise UserError("--algorithm is missing: name a method (see: pflrepro list algorithms)")
    for place, name in enumerate(methods):
        if canonical_name(name) in map(canonical_name, methods[:place]):
            raise UserError(f"the method {name} is named twice")
    return [
        Experiment.for_dataset(name, arguments.dataset, options=options.items(), seed=seed, **given)
        for name, options in _options(methods, arguments.option).items()
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    ]


def _options(methods: Sequence[str], texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The options of each method; with several, one that is given goes to all that have it, and must have one."""
    from pflrepro.algorithms.registry import hyperparameters, parse_options

    if len(methods) == 1:
        return {methods[0]: parse_options(methods[0], texts)}
    known = {name: hyperparameters(name) for name in methods}
    names = [text.partition("=")[0].strip() for text in texts]
    for name in names:
        check_word(f"option of {', '.join(methods)}", name, {each for own in known.values() for each in own})
    pairs = list(zip(names, texts, strict=True))
    return {one: parse_options(one, [text for name, text in pairs if name in own]) for one, own in known.items()}


def _stored(runs: Sequence[Run], store: Store) -> int:
    return sum(run.id not in store.made for run in runs)


def summarise(runs: Sequence[Run], rule: str) -> dict[str, Any]:
    """What `--json` prints for the runs of one method, one a seed; accuracies are fractions, NaN where there is none.

    Seeds that stopped at different rounds (`patience`) share the curve up to the earliest stop.
    """
    import numpy as np

    from pflrepro.metrics import accuracy
    from pflrepro.metrics.divergence import divergence
    from pflrepro.metrics.selection import select

    curves = [accuracy.pooled(run.history) for run in runs]
    after = [accuracy.pooled_after(run.history) for run in runs]
    shared = min(map(len, curves))
    per_seed = [float(select(rule, curve)) for curve in curves]
    spread = accuracy.spread(per_seed)
    trained = [run for run in runs if run.rounds]
    return {
        "algorithm": runs[0].experiment.algorithm,
        "measured": runs[0].experiment.data.measured,
        "accuracy": {
            "mean": spread.mean,
            "std": spread.std if spread.n > 1 else math.nan,
            "per_seed": per_seed,
            "selection": rule,
        },
        "rounds": int(runs[0].history["round"][shared - 1]),
        "tested": runs[0].history["round"][:shared],
        "seconds_per_round": sum(float(run.history["seconds"][1:].sum()) / run.rounds for run in trained)
        if trained
        else math.nan,
        "backend": sorted({run.environment["backend"] for run in runs}),
        "device": sorted({run.environment["device"] for run in runs}),
        "runs": [run.id for run in runs],
        "run_folders": [str(run.folder) for run in runs],
        "diverged": [
            {"seed": run.experiment.seed, **vars(found)}
            for run in runs
            if (found := divergence(run.history)) is not None
        ],
        "curve": np.mean([curve[:shared] for curve in curves], axis=0),
        "curve_after_training": np.mean([curve[:shared] for curve in after], axis=0),
    }


def _text(arguments: argparse.Namespace, summary: dict[str, Any]) -> str:
    accuracy = summary["accuracy"]
    spread = "" if math.isnan(accuracy["std"]) else f" ± {100 * accuracy['std']:.2f}"
    seeds = ", ".join(f"{100 * value:.2f}" for value in accuracy["per_seed"])
    seconds = summary["seconds_per_round"]
    pace = "" if math.isnan(seconds) else f", {seconds:.3g} s a round"
    where = f", {' and '.join(summary['backend'])} on {' and '.join(summary['device'])}"
    stored = summary["stored"]
    found = (
        f"; {stored} of {len(summary['run_folders'])} seeds from the store, whatever backend made them"
        if stored
        else ""
    )
    return "\n".join(
        [
            f"{summary['algorithm']} on {arguments.dataset}: {summary['measured']} {100 * accuracy['mean']:.2f}{spread} %"
            f" ({accuracy['selection']}; per seed {seeds})",
            f"{summary['rounds']} rounds{pace}{where}{found}",
            *_diverged(summary, ""),
            *(f"run: {folder}" for folder in summary["run_folders"]),
        ]
    )


def _table(arguments: argparse.Namespace, summaries: Sequence[dict[str, Any]]) -> str:
    """A line a method, in per cent."""
    rows = []
    for summary in summaries:
        accuracy = summary["accuracy"]
        rows.append(
            {
                "method": summary["algorithm"],
                "accuracy %": round(100 * accuracy["mean"], 2),
                "spread": round(100 * accuracy["std"], 2),
                "seeds": len(accuracy["per_seed"]),
                "rounds": summary["rounds"],
                "s/round": summary["seconds_per_round"],
                "from the store": summary["stored"],
                "runs": summary["runs"],
            }
        )
    diverged = [line for summary in summaries for line in _diverged(summary, f"{summary['algorithm']}: ")]
    heading = f"{summaries[0]['measured']} on {arguments.dataset}, {arguments.select}"
    return "\n".join([heading, table(rows, list(rows[0])), *diverged])


def _diverged(summary: dict[str, Any], who: str) -> list[str]:
    from pflrepro.metrics.divergence import Divergence

    return [
        f"{who}seed {found['seed']} {Divergence(found['round'], found['clients'])}: its loss is infinite, NaN or huge"
        for found in summary["diverged"]
    ]
