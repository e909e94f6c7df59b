"""Round time of every method relative to FedAvg, beside what its own products and updates take.

    python benchmarks/methods.py [--backend loop] [--device cpu] [--out benchmarks/methods_cpu.json] [NAME ...]

The papers' CNN on 28x28 images of ten classes, 20 clients with 100 samples each, batch 10, one local epoch. FedAvg and a method
take turns, round by round, after one round each to warm up; the ratio is that of the medians, training and aggregation without tests.

The prediction: every operation of a round is intercepted. Convolutions and matrix products (with their gradients), and operations on
at least 4,096 numbers (updates of weights, Cholesky factors, ...), are given what the same operation takes by itself: the median of
seven calls with the operands at hand, once for each kind, shape and memory order. The predicted ratio is that of the sums. Smaller
operations, Python and caches that are emptied in between are what `excess` = measured / predicted ratio shows; `operations` is the
number of calls relative to FedAvg's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import records
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from pflrepro.algorithms import build_method
from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS
from pflrepro.data.federation import Federation
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.watch import now

CLIENTS, EACH = 20, 100
LARGE = 4_096  # numbers in an operand from which an operation counts as work


class Work(TorchDispatchMode):
    """Adds up what the products and the large operations inside take by themselves.

    Attributes:
        seconds: their sum. calls: the number of all operations.
    """

    alone: ClassVar[dict[tuple, float]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.calls = 0.0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.calls += 1
        operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        large = function._overloadpacket in flop_registry or any(tensor.numel() >= LARGE for tensor in operands)
        if large and not function.is_view:
            kind = (function, *((tensor.shape, tensor.stride(), tensor.dtype) for tensor in operands))
            if kind not in self.alone:
                self.alone[kind] = seconds_of_a_call(function, args, kwargs)
            self.seconds += self.alone[kind]
        return function(*args, **kwargs)


def seconds_of_a_call(function: Callable, args: tuple, kwargs: dict) -> float:
    """The median of seven calls; operations that write to an operand get copies."""
    if function._schema.is_mutable:
        args, kwargs = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs))
    times = []
    for _ in range(7):
        started = time.perf_counter()
        function(*args, **kwargs)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def federation(device: str) -> Federation:
    x = torch.rand(CLIENTS * (EACH + 10), 28, 28, generator=torch.Generator().manual_seed(0))
    rows = np.arange(len(x)).reshape(CLIENTS, -1)
    return Federation(
        x, torch.arange(len(x)) % 10, list(rows[:, :EACH]), list(rows[:, EACH:]), classes=10, device=device
    )


def simulation(name: str, backend: str, device: str) -> Simulation:
    settings = Settings(rounds=1_000, evaluate_after=False, every=1_000)
    return Simulation(build_method(name), federation(device), "cnn4", settings, [0], backend=backend, workers=1)


def seconds_of_a_round(one: Simulation) -> float:
    started = now(one.device)
    one.step()
    return now(one.device) - started


def work_of_a_round(name: str, backend: str) -> Work:
    """The operations of the second round on a CPU: by then previous models, prototypes and the like exist."""
    one = simulation(name, backend, "cpu")
    one.step()
    with Work() as work:
        one.step()
    return work


def compare(name: str, backend: str, device: str, rounds: int) -> tuple[float, float]:
    """(seconds of a round of the method, of FedAvg), medians of rounds taken in turns."""
    ours, plain = (simulation(each, backend, device) for each in (name, "fedavg"))
    times = {"ours": [], "plain": []}
    for _ in range(rounds + 1):
        times["ours"].append(seconds_of_a_round(ours))
        times["plain"].append(seconds_of_a_round(plain))
    return tuple(statistics.median(values[1:]) for values in times.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="methods (default: all, and every plug-in on its first host)")
    parser.add_argument("--backend", default="loop")
    parser.add_argument(
        "--device", default="cpu", help="on a GPU nothing is predicted: operations are not awaited one by one"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = arguments.names or [*ALGORITHMS, *(f"{plugin.hosts[0]}+{plugin.name}" for plugin in PLUGINS.values())]
    on_cpu = arguments.device == "cpu"
    plain = work_of_a_round("fedavg", arguments.backend) if on_cpu else None
    rows = []
    for name in names:
        ours, fedavg = compare(name, arguments.backend, arguments.device, arguments.rounds)
        row = {
            "name": name,
            "seconds_per_round": round(ours, 4),
            "fedavg_seconds_per_round": round(fedavg, 4),
            "ratio": round(ours / fedavg, 2),
        }
        if plain is not None:
            work = work_of_a_round(name, arguments.backend)
            predicted = work.seconds / plain.seconds
            row |= {
                "predicted": round(predicted, 2),
                "excess": round(ours / fedavg / predicted, 2),
                "operations": round(work.calls / plain.calls, 2),
            }
        rows.append(row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    records.write(
        arguments.out,
        f"Methods against FedAvg, `{arguments.backend}`",
        "Seconds of a round of training and aggregation, median, in turns with FedAvg's; `predicted` is the ratio of what "
        "the products and "
        "large operations of a round take by themselves, `excess` measured over predicted, `operations` their number over "
        "FedAvg's: what "
        "is far above its prediction consists of many small operations.",
        rows,
        device=arguments.device,
        backend=arguments.backend,
        rounds=arguments.rounds,
        model="cnn4",
        clients=CLIENTS,
        samples=EACH,
    )


if __name__ == "__main__":
    main()
