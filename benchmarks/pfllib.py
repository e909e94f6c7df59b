"""Whole rounds here and in PFLlib, the field's library, side by side in one run on one machine.

    git clone https://github.com/TsingZ0/PFLlib ../PFLlib; pip install h5py calmsize cvxpy
    python benchmarks/pfllib.py --checkout ../PFLlib [--train 750] [--test 250] [--rounds 3] [--turns 2] [--out FILE]

FedAvg, DBE and GPFL on the same made-up images (28x28, ten classes), 20 clients with `--train` and `--test` samples each, the papers'
CNN, batch 10, rate 0.005, one local epoch. A round is everything that the library does in one by default: there training, aggregation
and a test of every client with the loss on its training samples; here training, aggregation, and a test of every client before and
after local training. Each turn is a process of its own; the libraries take turns, PFLlib once with one thread and once with as many as
there are cores. Seconds are those of all rounds but the first of each turn; the ratio of medians is PFLlib's faster one over ours.
`limit` is what the machine itself would need for a round of FedAvg, from the same run: the operations of the network's passes at the
rate of a large convolution, and three passes over the weights a step (read, gradient, update) at the rate of a copy.

The checkout is only run, from a folder of its own that is removed at the end: nothing of it is copied, nor anything written into it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import records

CLIENTS = 20
DATA = "made-up-MNIST"  # PFLlib chooses the network for one channel by the name
METHODS = {"fedavg": "FedAvg", "fedavg+dbe": "FedDBE", "gpfl": "GPFL"}  # ours, theirs
OURS = """
import json, sys, time
from pflrepro.algorithms.registry import build_method
from pflrepro.settings import Settings
from pflrepro.simulation.cost import generated
from pflrepro.simulation.simulation import Simulation
name, train, test, rounds = sys.argv[1], *map(int, sys.argv[2:])
federation = generated((28, 28), int(CLIENTS), train=train, test=test)
simulation = Simulation(build_method(name), federation, "cnn4", Settings(rounds=10**6), [0])
seconds = []
for _ in range(rounds + 1):
    started = time.perf_counter()
    simulation.step()
    seconds.append(time.perf_counter() - started)
print(json.dumps({"seconds": seconds[1:], "backend": simulation.facts}, default=str))
"""


def write_clients(folder: Path, train: int, test: int) -> None:
    """The clients' samples as PFLlib reads them: one file a client and part."""
    from pflrepro.simulation.cost import generated

    federation = generated((28, 28), CLIENTS, train=train, test=test)
    for part, rows in (("train", federation.rows["train"]), ("test", federation.rows["test"])):
        (folder / part).mkdir(parents=True)
        for client, mine in enumerate(rows):
            x, y = federation.x[mine].numpy()[:, None].astype(np.float32), federation.y[mine].numpy()
            np.savez(folder / part / f"{client}.npz", data={"x": x, "y": y})


def theirs(checkout: Path, place: Path, method: str, rounds: int, threads: int) -> list[float]:
    """Seconds of each round behind the first."""
    command = [sys.executable, str(checkout / "system" / "main.py"), "-data", DATA, "-m", "CNN", "-ncl", "10"]
    command += ["-algo", METHODS[method], "-gr", str(rounds), "-nc", str(CLIENTS), "-lbs", "10", "-lr", "0.005"]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    told = _output([*command, "-dev", "cpu", "-go", "speed"], place, environment)
    return [float(text) for text in re.findall(r"time cost -+ ([0-9.e+-]+)", told)][1:]


def ours(method: str, train: int, test: int, rounds: int) -> list[float]:
    """Seconds of each round behind the first."""
    command = [sys.executable, "-c", OURS.replace("CLIENTS", str(CLIENTS)), method, str(train), str(test), str(rounds)]
    return json.loads(_output(command, Path.cwd(), dict(os.environ)).splitlines()[-1])["seconds"]


def _output(command: list[str], place: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:2])} ... ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def revision(checkout: Path) -> str:
    """The commit of the checkout, or "unknown"."""
    done = subprocess.run(["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def limit(train: int, test: int) -> dict[str, str]:
    """What a round of FedAvg takes at the least on this machine, and from which numbers."""
    import torch

    from pflrepro.benchmark import BATCH, peak_rate, round_operations
    from pflrepro.models import build_model
    from pflrepro.simulation.cost import generated

    operations, rate = round_operations(generated((28, 28), CLIENTS, train=train, test=test)), peak_rate("cpu")
    network = build_model("cnn4", (28, 28), 10, 0)
    weights = sum(each.numel() for part in (network.base, network.head) for each in part.parameters())
    moved = 3 * 2 * 4 * weights * CLIENTS * (train // BATCH)  # read and written, four bytes each
    source = torch.empty(2**26, dtype=torch.uint8)
    target, copies = torch.empty_like(source), []
    for _ in range(5):
        started = time.perf_counter()
        target.copy_(source)
        copies.append(2 * len(source) / (time.perf_counter() - started))
    speed = max(copies)
    return {
        "limit": f"{operations / rate + moved / speed:.2f} s = {operations / 1e9:.0f} GFLOP at {rate / 1e9:.0f} a second + "
        f"{moved / 1e9:.0f} GB at {speed / 1e9:.0f} a second"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True, help="a clone of PFLlib")
    parser.add_argument("--train", type=int, default=750, help="training samples of a client (default: 750)")
    parser.add_argument("--test", type=int, default=250, help="test samples of a client (default: 250)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds a turn, after one that warms up (default: 3)")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--methods", default=",".join(METHODS), help="of " + ", ".join(METHODS))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    names = asked.methods.split(",")
    if wrong := set(names) - set(METHODS):
        parser.error(f"no method {', '.join(sorted(wrong))}; there are {', '.join(METHODS)}")
    checkout = asked.checkout.resolve()
    if not (checkout / "system" / "main.py").exists():
        parser.error(f"{asked.checkout} has no system/main.py: it is no checkout of PFLlib")

    from pflrepro.cores import usable_cores

    cores, lines = usable_cores(), []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "system"
        place.mkdir()
        write_clients(Path(folder) / "dataset" / DATA, asked.train, asked.test)
        for name in names:
            found: dict[str, list[float]] = {}
            for _ in range(asked.turns):
                found.setdefault("ours", []).extend(ours(name, asked.train, asked.test, asked.rounds))
                for threads in sorted({1, cores}):
                    seconds = theirs(checkout, place, name, asked.rounds, threads)
                    found.setdefault(f"PFLlib, threads {threads}", []).extend(seconds)
            medians = {who: statistics.median(seconds) for who, seconds in found.items()}
            ratio = min(value for who, value in medians.items() if who != "ours") / medians["ours"]
            seconds = {who: [round(each, 3) for each in values] for who, values in found.items()}
            lines.append({"method": name, "times faster": round(ratio, 2)} | seconds)
            print(f"{name}: {ratio:.2f} times faster; seconds a round: {medians}", flush=True)
    records.write(
        asked.out,
        f"Beside PFLlib, {asked.train} samples a client",
        "Seconds of whole rounds as each library runs them, tests included, PFLlib with one thread and with one a core; "
        "`times faster` is the "
        "ratio of medians to its faster way. `limit` is a round of FedAvg at the speed of a large convolution and of a copy, "
        "measured in "
        "this run: a step of ten small images is mostly convolutions and products too small to reach either.",
        lines,
        clients=CLIENTS,
        train=asked.train,
        test=asked.test,
        turns=asked.turns,
        PFLlib=revision(checkout),
        **limit(asked.train, asked.test),
    )


if __name__ == "__main__":
    main()
