"""Where the time of a round goes: training by kind of operation, aggregation, tests, checkpoint; and what a command pays once.

    python benchmarks/round_parts.py [METHOD ...] [--train 750] [--test 250] [--rounds 3] [--out FILE.json] [--picture FILE.png]

The papers' CNN on made-up 28x28 images, 20 clients, batch 10, one local epoch, one thread, `loop` backend in this process. A round's
parts are medians of `--rounds` after one that warms up, as the engine's own history has them; clients are tested once a round, before
local training. The kinds of operation are the shares that PyTorch's profiler finds in the training of one more round; `other` is
everything without a kernel of its own: Python, the dispatcher, allocation. `checkpoint` is one write of the whole state. Once a
command: `imports` (a new process that imports the engine), `workers` (how much longer the first round is than the next with a worker
process a core).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import records
import torch
from torch.profiler import ProfilerActivity, profile

from pflrepro.algorithms.registry import build_method
from pflrepro.cores import usable_cores
from pflrepro.experiments.checkpoint import Checkpoint, write_checkpoint
from pflrepro.settings import Settings
from pflrepro.simulation.cost import generated
from pflrepro.simulation.simulation import Simulation
from pflrepro.style import new_figure, style
from pflrepro.viz.embedding import TEN

CLIENTS = 20
KINDS = {  # kind -> what the names of its operations contain; the first kind that fits
    "convolution": ("convolution", "conv2d", "mkldnn"),
    "products": ("addmm", "mm", "linear", "dot", "outer"),
    "pooling": ("pool",),
    "copies": ("copy_", "clone", "cat", "index", "fill_", "zero_", "gather", "stack", "contiguous"),
    "element by element": (
        "add",
        "sub",
        "mul",
        "div",
        "relu",
        "threshold",
        "clamp",
        "exp",
        "sum",
        "mean",
        "softmax",
        "nll",
    ),
}


def simulation(method: str, train: int, test: int, workers: int) -> Simulation:
    """The same for every measurement."""
    federation = generated((28, 28), CLIENTS, train=train, test=test)
    settings = Settings(rounds=10**6, evaluate_after=False)
    return Simulation(build_method(method), federation, "cnn4", settings, [0], backend="loop", workers=workers)


def kind_of(operation: str) -> str:
    """Of `KINDS`, or "other"."""
    name = operation.removeprefix("aten::").lower()
    return next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), "other")


def operations(running: Simulation) -> dict[str, float]:
    """Share of each kind of operation in the time of the training of one round."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        started = time.perf_counter()
        running.step()
        whole = time.perf_counter() - started
    tested = running.history(0)["seconds_evaluation"][-1]
    shares = dict.fromkeys((*KINDS, "other"), 0.0)
    for event in seen.key_averages():
        shares[kind_of(event.key)] += event.self_cpu_time_total / 1e6
    known = sum(value for kind, value in shares.items() if kind != "other")
    shares["other"] = max(0.0, whole - tested - known)
    return {kind: value / sum(shares.values()) for kind, value in shares.items()}


def parts(method: str, train: int, test: int, rounds: int) -> dict[str, float]:
    """Seconds of each part of a round."""
    torch.set_num_threads(1)
    running = simulation(method, train, test, 1)
    for _ in range(rounds + 1):
        running.step()
    history = running.history(0)
    seconds, aggregation, tests = (
        statistics.median(history[name][-rounds:].tolist())
        for name in ("seconds", "seconds_aggregation", "seconds_evaluation")
    )
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        write_checkpoint(Path(folder) / "checkpoint.npz", "0" * 16, Checkpoint(running.round, running.state_of(0)))
        checkpoint = time.perf_counter() - started
    training = seconds - aggregation
    found = {kind: share * training for kind, share in operations(running).items()}
    return found | {"aggregation": aggregation, "tests": tests, "checkpoint": checkpoint}


def once(method: str, train: int, test: int) -> dict[str, float]:
    """Seconds that a command pays once."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import pflrepro.simulation.simulation"], check=True)
    imports, running, seconds = time.perf_counter() - started, simulation(method, train, test, usable_cores()), []
    for _ in range(3):
        started = time.perf_counter()
        running.step()
        seconds.append(time.perf_counter() - started)
    return {"imports": imports, "workers": max(0.0, seconds[0] - min(seconds[1:]))}


def draw(found: dict[str, dict[str, float]], file: Path) -> None:
    """One bar a method, in percent of its round."""
    names = list(next(iter(found.values())))
    with style():
        figure = new_figure(6.8, 1.2 + 0.45 * len(found))
        panel, left = figure.subplots(), [0.0] * len(found)
        for name, colour in zip(names, TEN, strict=False):
            shares = [100 * each[name] / sum(each.values()) for each in found.values()]
            panel.barh(list(found), shares, left=left, label=name, color=colour)
            left = [one + other for one, other in zip(left, shares, strict=True)]
        panel.invert_yaxis()
        panel.set(xlabel="share of a round (%)", xlim=(0, 100))
        figure.legend(loc="outside lower center", ncols=4)
        figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", metavar="METHOD", default=["fedavg", "fedavg+dbe", "gpfl"])
    parser.add_argument("--train", type=int, default=750, help="training samples of a client (default: 750)")
    parser.add_argument("--test", type=int, default=250, help="test samples of a client (default: 250)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    found = {method: parts(method, asked.train, asked.test, asked.rounds) for method in asked.methods}
    paid = once(asked.methods[0], asked.train, asked.test)
    for method, each in found.items():
        print(f"{method}: {sum(each.values()):.2f} s; {percent(each)}")
    print("once:", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in paid.items()))
    rows = [
        {"method": method, "seconds": round(sum(each.values()), 3)} | percent(each) for method, each in found.items()
    ]
    records.write(
        asked.out,
        "Where a round's time goes",
        "One thread, tests once a round; shares in %. What a command pays once stands under the case, in seconds.",
        rows,
        clients=CLIENTS,
        train=asked.train,
        test=asked.test,
        **{name: round(seconds, 2) for name, seconds in paid.items()},
    )
    if asked.picture:
        draw(found, asked.picture)


def percent(parts: dict[str, float]) -> dict[str, float]:
    """Each part's share of the whole."""
    return {name: round(100 * seconds / sum(parts.values()), 1) for name, seconds in parts.items()}


if __name__ == "__main__":
    main()
