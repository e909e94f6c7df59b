"""What it is worth on a CPU that the C heap keeps what a step frees (`pflrepro.simulation.heap`).

Seconds of a round of FedAvg with its test, on one thread, and page faults, each in a process of its own: by itself glibc maps and
unmaps large blocks anew at each step, and what was mapped is zeroed first.

    python benchmarks/heap.py [--rounds 2] [--turns 2] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import records
import torch

from pflrepro.algorithms import build_method
from pflrepro.experiments.environment import peak_memory
from pflrepro.settings import Settings
from pflrepro.simulation import heap, simulation
from pflrepro.simulation.cost import generated

CASES = {
    "har-cnn": ((9, 1, 128), 30, 6),
    "cnn4": ((1, 28, 28), 20, 10),
}  # model: shape, clients, classes
TRAIN, TEST = 250, 41  # samples of a client


def measured(model: str, backend: str, kept: bool, rounds: int) -> dict[str, float]:
    """Median seconds and page faults of a round in this process, after one that warms up, and its most memory."""
    torch.set_num_threads(1)
    if not kept:
        simulation.keep_freed_memory = lambda: False
    settings = Settings(rounds=rounds + 1, lr=0.005, batch_size=10, evaluate_after=False)
    federation = generated(*CASES[model], train=TRAIN, test=TEST)
    engine = simulation.Simulation(build_method("fedavg"), federation, model, settings, [0], backend, workers=1)
    seconds, faults = [], []
    for _ in range(rounds + 1):
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        engine.step()
        seconds.append(time.perf_counter() - started)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return {
        "seconds": statistics.median(seconds[1:]),
        "faults": statistics.median(faults[1:]),
        "gigabytes": peak_memory("cpu") / 2**30,
    }


def in_a_process(model: str, backend: str, kept: bool, rounds: int) -> dict[str, float]:
    """The same in a new process, whose environment sets no thresholds."""
    clean = {name: value for name, value in os.environ.items() if name not in heap.OF_THE_USER}
    asked = [model, backend, str(int(kept)), str(rounds)]
    done = subprocess.run([sys.executable, __file__, "--one", *asked], capture_output=True, text=True, env=clean)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def row(model: str, backend: str, rounds: int, turns: int) -> dict[str, object]:
    """One line of the record: both ways in turns."""
    found = {kept: [] for kept in (False, True)}
    for _ in range(turns):
        for kept, values in found.items():
            values.append(in_a_process(model, backend, kept, rounds))

    def middle(kept: bool, name: str) -> float:
        return statistics.median(each[name] for each in found[kept])

    return {
        "model": model,
        "backend": backend,
        "times faster": round(middle(False, "seconds") / middle(True, "seconds"), 2),
        "kept (s)": round(middle(True, "seconds"), 2),
        "given back (s)": round(middle(False, "seconds"), 2),
        "page faults, kept": round(middle(True, "faults")),
        "page faults, given back": round(middle(False, "faults")),
        "most memory, kept (GiB)": round(middle(True, "gigabytes"), 2),
        "most memory, given back (GiB)": round(middle(False, "gigabytes"), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        model, backend, kept, rounds = arguments.one
        print(json.dumps(measured(model, backend, kept == "1", int(rounds))))
        return
    records.write(
        arguments.out,
        "Freed memory kept or given back",
        "Rounds of FedAvg on one thread, random samples, each way in processes of its own, in turns; medians.",
        [row(model, backend, arguments.rounds, arguments.turns) for model in CASES for backend in ("loop", "batched")],
        rounds=arguments.rounds,
        turns=arguments.turns,
    )


if __name__ == "__main__":
    main()
