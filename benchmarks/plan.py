"""What a plan says beside what the training then takes, on this machine: the plan is to be within 30 %.

    python benchmarks/plan.py --data-root DIR [--store DIR] [--out benchmarks/plan_cpu.json] [--scale fast] [ID[:METHOD,METHOD] ...]

Networks are timed anew, then what each artefact (or its named rows) lacks is planned and trained: in a store that is thrown away, or
in the given one, which keeps the runs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import records

from pflrepro.experiments.store import Store
from pflrepro.papers import study
from pflrepro.papers.planning import plan
from pflrepro.papers.timing import Timings

ARTEFACTS = ("pfedfda/table9", "fedbr/table7-times:fedavg,moon/fedbr", "gpfl/figure2:fedper")


def compared(name: str, scale: str, data_root: str | None, store: Store, timings: Timings) -> dict:
    """Planned and measured seconds of one artefact."""
    id, _, methods = name.partition(":")
    made = study(id, scale, store=store, data_root=data_root, methods=methods.split(",") if methods else ())
    entries = [entry for entry in plan(made, timings) if entry.state == "to run"]
    started = time.perf_counter()
    made.run(progress=False)
    seconds, planned = time.perf_counter() - started, sum(entry.seconds for entry in entries)
    print(f"{name}: planned {planned:.1f} s, took {seconds:.1f} s, {planned / seconds:.2f} times", flush=True)
    found = {"artefact": name, "runs": len(entries), "planned (s)": planned, "measured (s)": seconds}
    return {name: round(v, 1) if isinstance(v, float) else v for name, v in found.items()} | {
        "planned / measured": round(planned / seconds, 2)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artefacts", nargs="*", default=ARTEFACTS, metavar="ID[:METHOD,METHOD]")
    parser.add_argument("--scale", default="fast")
    parser.add_argument("--data-root")
    parser.add_argument("--store", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # what came with the package is trained anew
        store = Store(arguments.store or folder, behind=Path(folder) / "nothing")
        timings = Timings(Path(folder))
        rows = [compared(name, arguments.scale, arguments.data_root, store, timings) for name in arguments.artefacts]
    records.write(
        arguments.out,
        "A plan beside what the training takes",
        "What `pflrepro plan` says, from a timing of each network on the same machine, and what the training then took.",
        rows,
        scale=arguments.scale,
    )


if __name__ == "__main__":
    main()
