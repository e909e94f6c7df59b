"""Everything that waits for a GPU, in one command that does not lose a minute of it (`make gpu`).

    python benchmarks/gpu_day.py [--minutes 25] [--out outputs/gpu] [--device cuda] [--data-root DIR] [--tiny]

In this order, each part on a clock of its own: the tests that need a device; the bench; scaling; convolutions; probes; the methods'
rounds; then the tables at the papers' own scale, in the order of what is most worth having, until the time is over. A part that has
succeeded with this code is not done again, so the command can be given again after an interruption; runs are resumed from their
checkpoints. Everything lies under `--out`: a record and a log a part, `parts.json` (what happened), and the run store, to be carried
away.

`--tiny --device cpu`: the same parts with tiny sizes, to see without a GPU that the command works.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pflrepro.atomic import replacing
from pflrepro.experiments.version import commit

HERE = Path(__file__).resolve().parent
OUT_OF_TIME = "out of time"
GRACE = 30  # seconds that a part has to write its checkpoint
# At the papers' own scale: short rounds first, so that whole columns are there when the time is over.
PAPER_SCALE = (
    "dbe/table9",
    "gpfl/table2 --columns har",
    "pfedfda/table3",
    "dbe/table5",
    "gpfl/table1",
    "pfedfda/table2",
    "grpfed/table1",
)
TINY_ARTEFACT = "demo/digits"


@dataclass(frozen=True)
class Part:
    """A command, and the minutes that it may take."""

    name: str
    command: tuple[str, ...]
    minutes: float


def parts(out: Path, device: str, data_root: str | None, tiny: bool) -> Iterator[Part]:
    """All parts in their order; those of the papers' scale may take whatever is left."""
    python, root = sys.executable, ("--data-root", data_root) if data_root else ()

    def script(name: str, *more: str) -> tuple[str, ...]:
        return (python, str(HERE / f"{name}.py"), *more)

    def record(name: str) -> str:
        return str(out / f"{name}.json")

    at = ("--device", device)
    tests = HERE.parent / "tests"
    where = str(tests / "data" / "test_rotation.py" if tiny else tests)
    # several processes: a fault that ends a device's context takes the later tests of its process with it
    yield Part("tests", (python, "-m", "pytest", "-q", "-n", "4", "-m", "gpu", where), 6)
    small = ("fedavg", "--rounds", "1", "--share", "0.01") if tiny else ("--share", "1")
    yield Part("bench", script("round", *small, *at, *root, "--out", record("round")), 4)
    small = ("seeds", "absent", "--samples", "40", "--most", "4", "--rounds", "1") if tiny else ()
    yield Part("scaling", script("scaling", *small, *at, "--out", record("scaling")), 4)
    small = ("--clients", "2", "--repeat", "1") if tiny else ()
    yield Part("convolution", script("convolution", *small, *at, "--out", record("convolution")), 1)
    small = ("--clients", "2", "--seeds", "1", "--sizes", "2", "--steps", "1", "--repeat", "1") if tiny else ()
    yield Part("probes", script("mdl", *small, *at, "--ways", "together,plain", "--out", record("probes")), 2)
    small = ("fedper", "--rounds", "1") if tiny else ("--rounds", "3")
    backend = ("--backend", "loop" if device == "cpu" else "graph")
    yield Part("methods", script("methods", *small, *at, *backend, "--out", record("methods")), 5)
    store, scale = ("--store", str(out / "store")), ("--scale", "smoke" if tiny else "paper")
    for asked in (TINY_ARTEFACT,) if tiny else PAPER_SCALE:
        name, *more = asked.split()
        folder = ("--figures", str(out / "figures"))
        command = (python, "-m", "pflrepro", "reproduce", name, *more, *scale, *at, *root, *store, *folder, "--quiet")
        yield Part(name, command, float("inf"))


def run(part: Part, out: Path, seconds: float) -> str:
    """Its outcome: `passed`, `out of time`, or the exit code; standard output and errors go to files under `out`."""
    stem = part.name.replace("/", "-")
    with (out / f"{stem}.log").open("wb") as log:
        process = subprocess.Popen(part.command, stdout=log, stderr=log)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)  # a run writes its checkpoint
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            return OUT_OF_TIME
    return "passed" if process.returncode == 0 else f"exit code {process.returncode}, see {stem}.log"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=25.0, help="for everything (default: 25)")
    parser.add_argument("--out", type=Path, default=Path("outputs/gpu"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--data-root")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the command itself")
    arguments = parser.parse_args()
    out, end = arguments.out.resolve(), time.monotonic() + 60 * arguments.minutes
    out.mkdir(parents=True, exist_ok=True)
    file = out / "parts.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    code = {"commit": commit(), "device": arguments.device, "tiny": arguments.tiny}
    failed = []
    for part in parts(out, arguments.device, arguments.data_root, arguments.tiny):
        before = known.get(part.name, {})
        same = {name: before.get(name) for name in code} == code and not code["commit"].endswith("-dirty")
        if before.get("outcome") == "passed" and same:
            print(f"{part.name}: passed before", flush=True)
            continue
        started = time.monotonic()
        left = min(60 * part.minutes, end - started - GRACE)
        outcome = run(part, out, left) if left > 0 else OUT_OF_TIME
        took = round(time.monotonic() - started, 1)
        known[part.name] = code | {"outcome": outcome, "seconds": took}
        with replacing(file) as stream:
            stream.write(json.dumps(known, indent=1).encode())
        print(f"{part.name}: {outcome}, {took} s", flush=True)
        failed += [part.name] if outcome not in ("passed", OUT_OF_TIME) else []
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
