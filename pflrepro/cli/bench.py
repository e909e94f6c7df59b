"""`pflrepro bench`: our training and evaluation round against the plain loop, on this machine, in one run."""

from __future__ import annotations

import argparse
from typing import Any

from pflrepro.cli.arguments import add_json, add_machine, add_places, count, number
from pflrepro.cli.output import Answer, table

CASES = ("fedavg", "fedavg+dbe", "gpfl")


def add(verbs: Any) -> None:
    parser = verbs.add_parser(
        "bench",
        help="speed against the naive loop on this machine",
        description="Seconds a round (training and evaluation) of ours and of the plain way: a deep-copied module and a DataLoader a "
        "client, clients one after another. CNN on FMNIST, 20 clients, batch 10.",
    )
    parser.add_argument("cases", metavar="ALGORITHM", nargs="*", help=f"default: {' '.join(CASES)}")
    parser.add_argument(
        "--rounds", type=count("--rounds"), default=3, metavar="N", help="rounds timed a case (default: 3)"
    )
    parser.add_argument(
        "--share",
        type=number("--share", 0, 1, open_low=True),
        default=0.25,
        metavar="RATIO",
        help="take only this part of each client's samples, a batch at least (default: 0.25, under three minutes on two cores)",
    )
    add_machine(parser)
    add_places(parser, store=False)
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(handler=handle, parser=parser)


def handle(arguments: argparse.Namespace) -> Answer:
    from pflrepro.benchmark import compare
    from pflrepro.device import resolve_device

    rows = compare(
        arguments.cases or list(CASES),
        arguments.rounds,
        backend=arguments.backend,
        device=resolve_device(arguments.device),
        workers=arguments.workers,
        data_root=arguments.data_root,
        share=arguments.share,
        progress=not arguments.quiet,
    )
    return Answer(rows, _text(rows))


def _text(rows: list[dict[str, Any]]) -> str:
    shown = [
        {
            "case": row["case"],
            "ours s/round": row["seconds_per_round"]["ours"],
            "naive s/round": row["seconds_per_round"]["naive"],
            "ratio": row["ratio"],
            "ours GFLOP/s": row["gflops_per_second"]["ours"],
            "naive GFLOP/s": row["gflops_per_second"]["naive"],
            "peak GFLOP/s": row["peak_gflops_per_second"],
        }
        for row in rows
    ]
    held = "\n".join(dict.fromkeys(row["data"] for row in rows))
    return f"{table(shown, list(shown[0]))}\n{held}"
