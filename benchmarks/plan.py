"""What a plan says beside what the training then takes, on this machine: the plan is to be within 30 %.

    python benchmarks/plan.py --data-root DIR [--out benchmarks/plan_cpu.json] [--scale fast] [ID[:METHOD,METHOD] ...]

Networks are timed anew, then each artefact (or its named rows) is planned and trained in a store of its own that is thrown away.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch

from pflrepro.cores import usable_cores
from pflrepro.device import processor
from pflrepro.experiments.store import Store
from pflrepro.papers import study
from pflrepro.papers.planning import plan
from pflrepro.papers.timing import Timings

ARTEFACTS = ("pfedfda/table9", "fedbr/table7-times:fedavg,moon/fedbr", "gpfl/figure2:fedper")


def compared(name: str, scale: str, data_root: str | None, folder: Path) -> dict:
    """Planned and measured seconds of one artefact."""
    id, _, methods = name.partition(":")
    store = Store(folder / id.replace("/", "-"))
    made = study(id, scale, store=store, data_root=data_root, methods=methods.split(",") if methods else ())
    entries = [entry for entry in plan(made, Timings(store.root)) if entry.state == "to run"]
    started = time.perf_counter()
    made.run(progress=False)
    seconds, planned = time.perf_counter() - started, sum(entry.seconds for entry in entries)
    record = {"artefact": name, "scale": scale, "runs": len(entries), "planned": planned, "measured": seconds}
    print(f"{name}: planned {planned:.1f} s, took {seconds:.1f} s, {planned / seconds:.2f} times", flush=True)
    return record | {"planned_over_measured": planned / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artefacts", nargs="*", default=ARTEFACTS, metavar="ID[:METHOD,METHOD]")
    parser.add_argument("--scale", default="fast")
    parser.add_argument("--data-root")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [compared(name, arguments.scale, arguments.data_root, Path(folder)) for name in arguments.artefacts]
    machine = {"processor": processor(), "cores": usable_cores(), "torch": torch.__version__}
    if arguments.out:
        load = {"load_at_the_end": round(os.getloadavg()[0], 2)}
        arguments.out.write_text(json.dumps({"machine": machine | load, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
