"""Whether a table keeps the cores busy to the end: its runs one after another, each on all cores, with a tenth of their rounds.

    python benchmarks/sweep.py --data-root DIR [ID] [--scale fast] [--part 0.1] [--store DIR] [--out FILE]

`own` is the sum of the runs' own seconds (training, tests, aggregation), `seconds` what the whole took from the call to the last run:
loading, starting workers, checkpoints and filing are what is between. `busy` is the share of all cores' time that programs had while it
lasted (Linux: /proc/stat), so nothing else may run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import records

import pflrepro
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.store import Store
from pflrepro.papers import study
from pflrepro.papers.planning import plan


def busy_and_idle() -> tuple[int, int]:
    """Ticks of all cores since the machine started."""
    user, nice, system, idle, *_ = map(
        int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    )
    return user + nice + system, idle


def shortened(artefact: str, scale: str, part: float, data_root: str | None) -> list[Experiment]:
    """The runs of an artefact, each once, with that part of their rounds."""
    runs = [entry.experiment for entry in plan(study(artefact, scale, data_root=data_root)) if entry.experiment]
    return [replace(e, settings=replace(e.settings, rounds=max(1, round(part * e.settings.rounds)))) for e in runs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artefact", nargs="?", default="gpfl/table1", metavar="ID")
    parser.add_argument("--scale", default="fast")
    parser.add_argument("--part", type=float, default=0.1, help="of the rounds (default: 0.1)")
    parser.add_argument("--data-root")
    parser.add_argument("--store", type=Path, help="where the runs are kept (default: nowhere)")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    experiments = shortened(asked.artefact, asked.scale, asked.part, asked.data_root)
    with tempfile.TemporaryDirectory() as folder:
        before, started = busy_and_idle(), time.perf_counter()
        # no run that came with the package is an answer
        store = Store(asked.store or folder, behind=Path(folder) / "none")
        runs = pflrepro.run(experiments, store=store, data_root=asked.data_root)
        seconds, after = time.perf_counter() - started, busy_and_idle()
    busy, idle = (late - early for early, late in zip(before, after, strict=True))
    own = [float(run.history["seconds"].sum() + run.history["seconds_evaluation"].sum()) for run in runs]
    rows = [
        {"run": run.experiment.algorithm, "rounds": run.rounds, "own (s)": round(each, 1)}
        for run, each in zip(runs, own, strict=True)
    ]
    whole = {"run": "all", "rounds": sum(run.rounds for run in runs), "own (s)": round(sum(own), 1)}
    whole |= {"seconds": round(seconds, 1), "own / seconds": round(sum(own) / seconds, 3)}
    rows.append(whole | {"busy": round(busy / (busy + idle), 3)})
    print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    records.write(
        asked.out,
        "A table's runs, one after another",
        "Rounds of each run, the seconds of its own training and tests, what the whole command took, and the share of all "
        "cores' time that "
        "was used meanwhile.",
        rows,
        artefact=asked.artefact,
        scale=asked.scale,
        part=asked.part,
    )


if __name__ == "__main__":
    main()
