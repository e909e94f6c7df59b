"""Round time of every method relative to FedAvg, beside what its passes and vector updates predict.

    python benchmarks/methods.py [--backend loop] [--out benchmarks/methods_cpu.json] [NAME ...]

The papers' CNN on 28x28 images of ten classes, 20 clients with 100 samples each, batch 10, one local epoch. FedAvg and a method
take turns, round by round, after one round each to warm up; the ratio is that of the medians, training and aggregation without tests.

The prediction: every operation of a round on the `loop` backend is intercepted; it is given `flops / F + bytes / B` seconds, with the
floating-point operations of convolutions, matrix products and their gradients, and the bytes that any operation reads and writes.
B is this machine's rate for a long axpy, F is fitted to FedAvg's own round; Cholesky factors count at the rate of one of 512 x 512.
`excess` is measured / predicted ratio; what is above 1.5 needs an explanation, for which `operations`, the number of calls relative
to FedAvg's, may serve: each costs some microseconds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from pflrepro.algorithms import build_method
from pflrepro.algorithms.registry import ALGORITHMS, PLUGINS
from pflrepro.data.federation import Federation
from pflrepro.simulation import Settings, Simulation

CLIENTS, EACH = 20, 100


def factorisation(name: str, args: tuple) -> float:
    """Floating-point operations of Cholesky factors and solves (pFedFDA), which the registry does not know."""
    if name == "aten.linalg_cholesky_ex":
        return args[0].numel() * args[0].shape[-1] / 3
    if name == "aten._cholesky_solve_helper":  # right-hand sides [.., n, k], factor [.., n, n]
        return 2 * args[0].numel() * args[0].shape[-2]
    return 0.0


class Work(TorchDispatchMode):
    """Counts what the operations inside do: the floating-point operations of products and convolutions, the bytes that all move."""

    def __init__(self) -> None:
        super().__init__()
        self.flops, self.factors, self.bytes, self.calls = 0, 0.0, 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        self.calls += 1
        packet = function._overloadpacket
        if packet in flop_registry:
            self.flops += flop_registry[packet](*args, **kwargs, out_val=out)
        self.factors += factorisation(str(packet), args)
        if not function.is_view:
            tensors = [leaf for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, torch.Tensor)]
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return out


def federation() -> Federation:
    x = torch.rand(CLIENTS * (EACH + 10), 28, 28, generator=torch.Generator().manual_seed(0))
    rows = np.arange(len(x)).reshape(CLIENTS, -1)
    return Federation(x, torch.arange(len(x)) % 10, list(rows[:, :EACH]), list(rows[:, EACH:]), classes=10)


def simulation(name: str, backend: str) -> Simulation:
    settings = Settings(rounds=1_000, evaluate_after=False, every=1_000)
    return Simulation(build_method(name), federation(), "cnn4", settings, [0], backend=backend, workers=1)


def seconds_of_a_round(one: Simulation) -> float:
    started = time.perf_counter()
    one.step()
    return time.perf_counter() - started


def work_of_a_round(name: str) -> Work:
    """The operations of the second round: by then previous models, prototypes and the like exist."""
    one = simulation(name, "loop")
    one.step()
    with Work() as work:
        one.step()
    return work


def bytes_a_second() -> float:
    """What an axpy of the network's size moves, over more tensors than a cache holds."""
    pairs = [(torch.rand(582_026), torch.rand(582_026)) for _ in range(64)]
    best = math.inf
    for _ in range(5):
        started = time.perf_counter()
        for a, b in pairs:
            torch.add(a, b, alpha=0.1)  # a new tensor, as in a functional update
        best = min(best, time.perf_counter() - started)
    return 3 * 582_026 * 4 * len(pairs) / best


def factors_a_second() -> float:
    """Floating-point operations a second of a Cholesky factor of 512 x 512 in double precision."""
    a = torch.rand(2, 512, 512, dtype=torch.float64)
    a = a @ a.mT + torch.eye(512, dtype=torch.float64)
    best = math.inf
    for _ in range(10):
        started = time.perf_counter()
        torch.linalg.cholesky_ex(a)
        best = min(best, time.perf_counter() - started)
    return factorisation("aten.linalg_cholesky_ex", (a,)) / best


def compare(name: str, backend: str, rounds: int) -> tuple[float, float]:
    """(seconds of a round of the method, of FedAvg), medians of rounds taken in turns."""
    ours, plain = simulation(name, backend), simulation("fedavg", backend)
    times = {"ours": [], "plain": []}
    for _ in range(rounds + 1):
        times["ours"].append(seconds_of_a_round(ours))
        times["plain"].append(seconds_of_a_round(plain))
    return tuple(statistics.median(values[1:]) for values in times.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="methods (default: all, and every plug-in on its first host)")
    parser.add_argument("--backend", default="loop")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = arguments.names or [*ALGORITHMS, *(f"{plugin.hosts[0]}+{plugin.name}" for plugin in PLUGINS.values())]
    moved, factored = bytes_a_second(), factors_a_second()
    plain = work_of_a_round("fedavg")
    rate = None
    rows = []
    for name in names:
        ours, fedavg = compare(name, arguments.backend, arguments.rounds)
        rate = rate or plain.flops / max(fedavg - plain.bytes / moved, 0.2 * fedavg)
        work = work_of_a_round(name)
        seconds = work.flops / rate + work.bytes / moved + work.factors / factored
        predicted = seconds / (plain.flops / rate + plain.bytes / moved)
        row = {
            "name": name,
            "seconds_per_round": round(ours, 4),
            "fedavg_seconds_per_round": round(fedavg, 4),
            "ratio": round(ours / fedavg, 2),
            "predicted": round(predicted, 2),
            "excess": round(ours / fedavg / predicted, 2),
            "operations": round(work.calls / plain.calls, 2),
        }
        rows.append(row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if arguments.out:
        machine = {"processor": platform.processor(), "cores": os.cpu_count(), "torch": torch.__version__, "threads": 1}
        note = {
            "backend": arguments.backend,
            "rounds": arguments.rounds,
            "model": "cnn4",
            "clients": CLIENTS,
            "samples": EACH,
        }
        rates = {"bytes_a_second": moved, "flops_a_second": rate, "factors_a_second": factored}
        record = {"machine": machine, "case": note} | rates | {"rows": rows}
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
