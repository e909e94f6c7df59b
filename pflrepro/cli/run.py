"""`pflrepro run`: one method on one data set, for one or several seeds."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pflrepro.cli.arguments import MOST_SEEDS, add_json, add_machine, add_places, assignment, count, number
from pflrepro.cli.output import Answer
from pflrepro.errors import UserError
from pflrepro.settings import Settings

if TYPE_CHECKING:
    from pflrepro.experiments.config import Experiment
    from pflrepro.experiments.store import Run

DESCRIPTION = """\
Train one method and report its test accuracy. What is not given comes from the data set's preset.
Finished runs in the store are reused; a run that was killed goes on where it stopped.

With --json, one object; accuracies are fractions in [0, 1]:
  accuracy              mean and population standard deviation over seeds of what the selection rule picks
                        (std is null for one seed), per_seed, selection
  rounds                rounds of training behind the curve
  seconds_per_round     training and aggregation, without evaluation, the shares of all seeds together
  curve                 pooled over clients, mean over seeds: before any training, then after each round,
                        evaluated before the next local training (rounds + 1 values)
  curve_after_training  the same right after local training; null where nothing was trained
  backend, device       what the runs were made with (lists: seeds may differ)
  diverged              the seeds whose test loss is no finite number in the end
  run_folders           one a seed
  stored                how many of the runs this call did not train: they were in the store, or another process made them
"""
OF_DATA = ("model", "dtype", "partition", "clients", "partition_seed", "min_size", "test_share", "proxy")


def add(verbs: Any) -> None:
    parser = verbs.add_parser(
        "run",
        help="train one method on one data set",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--algorithm", metavar="NAME", help="such as fedavg, fedavg+dbe, or my_module:MyMethod (required)"
    )
    parser.add_argument(
        "--option",
        type=assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the method (repeatable; see: pflrepro list algorithms --long)",
    )
    parser.add_argument(
        "--seeds",
        type=count("--seeds", high=MOST_SEEDS),
        default=1,
        metavar="N",
        help="run seeds 0 ... N-1 (default: 1)",
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


def _add_data(group: Any) -> None:
    group.add_argument("--model", metavar="NAME", help="see: pflrepro list models")
    group.add_argument("--dtype", metavar="WORD", help="number type: float32 (the default) or float64")
    group.add_argument("--dataset", default="digits", metavar="NAME", help="default: digits, which needs no download")
    group.add_argument("--partition", metavar="SPEC", help="such as dirichlet:0.1 (see: pflrepro list partitions)")
    group.add_argument("--clients", type=count("--clients"), metavar="N")
    group.add_argument(
        "--partition-seed", type=count("--partition-seed", 0), metavar="SEED", help="apart from the run's seed"
    )
    group.add_argument("--min-size", type=count("--min-size", 0), metavar="N", help="least samples of a client")
    group.add_argument(
        "--test-share",
        type=number("--test-share", 0, 1, open_low=True, open_high=True),
        metavar="X",
        help="of each client's samples",
    )
    group.add_argument("--proxy", metavar="NAME", help="data set that methods may hand to all clients (fedbr)")


def _add_settings(group: Any) -> None:
    """An option for every field of `Settings`, which knows what it may be."""
    for setting in fields(Settings):
        flag, known = "--" + setting.name.replace("_", "-"), setting.metadata
        if isinstance(setting.default, bool):
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=known["help"])
        elif known["words"]:
            words = " or ".join(known["words"])
            group.add_argument(flag, metavar="WORD", help=f"{known['help']}: {words}")
        else:
            whole = bool(known["bounds"].get("integer"))
            convert = number(flag, **known["bounds"])
            group.add_argument(flag, type=convert, metavar="N" if whole else "X", help=known["help"])


def handle(arguments: argparse.Namespace) -> Answer:
    if not arguments.algorithm:
        raise UserError("--algorithm is missing: name a method (see: pflrepro list algorithms)")
    from pflrepro.device import resolve_device
    from pflrepro.experiments.run import run
    from pflrepro.experiments.store import Store
    from pflrepro.metrics.selection import check_rule

    check_rule(arguments.select)
    asked, store = experiments(arguments), Store(arguments.store)
    runs = run(
        asked,
        store=store,
        data_root=arguments.data_root,
        backend=arguments.backend,
        device=resolve_device(arguments.device),
        workers=arguments.workers,
        progress=not arguments.quiet,
    )
    summary = summarise(runs, arguments.select) | {"stored": sum(run.folder.name not in store.made for run in runs)}
    return Answer(summary, _text(arguments, summary))


def experiments(arguments: argparse.Namespace) -> list[Experiment]:
    """One experiment a seed; every wrong name or value is refused here, before anything is read or trained."""
    from pflrepro.algorithms.registry import parse_options
    from pflrepro.experiments.config import Experiment

    names = {*(setting.name for setting in fields(Settings)), *OF_DATA}
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    options = tuple(sorted(parse_options(arguments.algorithm, arguments.option).items()))
    return [
        Experiment.for_dataset(arguments.algorithm, arguments.dataset, options=options, seed=seed, **given)
        for seed in range(arguments.seeds)
    ]


def summarise(runs: Sequence[Run], rule: str) -> dict[str, Any]:
    """What `--json` prints for the runs of one method, one a seed; accuracies are fractions, NaN where there is none.

    Seeds that stopped at different rounds (`patience`) share the curve up to the earliest stop.
    """
    import numpy as np

    from pflrepro.metrics import accuracy
    from pflrepro.metrics.selection import select

    curves = [accuracy.pooled(run.history) for run in runs]
    after = [accuracy.pooled_after(run.history) for run in runs]
    shared = min(map(len, curves))
    per_seed = [float(select(rule, curve)) for curve in curves]
    spread = accuracy.spread(per_seed)
    trained = [run.history["seconds"][1:] for run in runs]
    return {
        "algorithm": runs[0].experiment.algorithm,
        "accuracy": {
            "mean": spread.mean,
            "std": spread.std if spread.n > 1 else math.nan,
            "per_seed": per_seed,
            "selection": rule,
        },
        "rounds": int(runs[0].history["round"][shared - 1]),
        "seconds_per_round": float(sum(seconds.mean() for seconds in trained if len(seconds)))
        if any(map(len, trained))
        else math.nan,
        "backend": sorted({run.environment["backend"] for run in runs}),
        "device": sorted({run.environment["device"] for run in runs}),
        "run_folders": [str(run.folder) for run in runs],
        "diverged": [run.experiment.seed for run in runs if not np.isfinite(run.history["loss"][-1]).all()],
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
            f"{summary['algorithm']} on {arguments.dataset}: test accuracy {100 * accuracy['mean']:.2f}{spread} %"
            f" ({accuracy['selection']}; per seed {seeds})",
            f"{summary['rounds']} rounds{pace}{where}{found}",
            *(f"seed {seed} diverged: its test loss is no finite number in the end" for seed in summary["diverged"]),
            *(f"run: {folder}" for folder in summary["run_folders"]),
        ]
    )
