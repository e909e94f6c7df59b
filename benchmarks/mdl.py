"""The probes of learning curves trained together against one after another, side by side in one run.

    python benchmarks/mdl.py [--clients 20] [--seeds 5] [--features 512] [--hidden 512] [--steps 20] [--device cpu] [--out FILE]

Features of the papers' CNN behind FC1 (K = 512, made up: the time does not depend on the numbers), ten classes, ten subset sizes a
client, the probe of DBE's measurement (two hidden layers of 512, Adam, batch 256). Every way trains all clients x seeds x sizes
probes for `--steps` of the 4,000 steps; they take turns `--repeat` times, the ratio is that of the medians.

* `together`: `pflrepro.metrics.mdl.curves`.
* `plain`: a module, a `DataLoader` and `torch.optim.Adam` a probe, one after another, PyTorch's own number of threads.
* `lean`: the same without a `DataLoader` (batches by index), one thread.
* `bound`: nothing but the matrix products of all these steps, by `pflrepro.products`, on operands that never change, the probes shared
  out to one thread a core. Next to nothing could take less, so `lean` / `bound` is about the most that can be gained.
* `bound of PyTorch`: the same by PyTorch's own choice of library, which `plain` and `lean` use.

On a CPU a probe of this width is bound by its matrix products. Narrow probes (`--features 64 --hidden 64`) gain from being together.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import records
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from pflrepro.cores import usable_cores
from pflrepro.metrics.mdl import Probe, curve_sizes, curves
from pflrepro.products import product

CLASSES = 10


def network(features: int, probe: Probe, device: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in zip((features, *probe.hidden), (*probe.hidden, CLASSES), strict=True):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(device)


def batches(x: Tensor, y: Tensor, probe: Probe, loader: bool):
    """Batches without end."""
    if loader:
        passes = DataLoader(TensorDataset(x, y), batch_size=min(probe.batch, len(y)), shuffle=True)
        while True:
            yield from passes
    while True:
        order = (
            torch.randperm(len(y), device=x.device) if len(y) > probe.batch else torch.arange(len(y), device=x.device)
        )
        for rows in order.split(probe.batch):
            yield x[rows], y[rows]


def one_after_another(sets: list[tuple[Tensor, Tensor]], probe: Probe, loader: bool) -> None:
    for x, y in sets:
        pool = len(y) - probe.validating(len(y))
        x = (x - x[:pool].mean()) / x[:pool].std()
        for size in curve_sizes(pool, probe).tolist():
            for _ in range(probe.seeds):
                rows = torch.randperm(pool)[:size].to(x.device)
                one = network(x.shape[1], probe, str(x.device))
                optimiser = torch.optim.Adam(one.parameters(), lr=probe.lr)
                feed = batches(x[rows], y[rows], probe, loader)
                for _, (xb, yb) in zip(range(probe.steps), feed, strict=False):
                    optimiser.zero_grad()
                    F.cross_entropy(one(xb), yb).backward()
                    optimiser.step()
                with torch.no_grad():
                    float(F.cross_entropy(one(x[pool:]), y[pool:]))


def products(multiply: Callable[[Tensor, Tensor], Tensor], size: int, features: int, probe: Probe) -> None:
    """The products of training a probe on `size` samples: outputs, gradients of weights and, behind the first layer, inputs."""
    torch.set_num_threads(1)  # belongs to the thread that calls it
    rows, widths = min(size, probe.batch), (features, *probe.hidden, CLASSES)
    layers = [(torch.rand(rows, a), torch.rand(a, b), torch.rand(rows, b)) for a, b in itertools.pairwise(widths)]
    for _ in range(probe.steps):
        for place, (x, weight, out) in enumerate(layers):
            multiply(x, weight)
            multiply(x.T, out)
            if place:
                multiply(out, weight.T)


def bound(sets: list[tuple[Tensor, Tensor]], probe: Probe, multiply: Callable[[Tensor, Tensor], Tensor]) -> None:
    work = []
    for x, y in sets:
        for size in curve_sizes(len(y) - probe.validating(len(y)), probe).tolist():
            work += [(multiply, size, x.shape[1], probe)] * probe.seeds
    with ThreadPoolExecutor(usable_cores()) as threads:
        list(threads.map(lambda each: products(*each), sorted(work, key=lambda each: -each[1])))


def seconds(way: str, sets: list[tuple[Tensor, Tensor]], probe: Probe, threads: int) -> float:
    torch.set_num_threads(1 if way == "lean" else threads)
    started = time.perf_counter()
    if way == "together":
        curves(sets, CLASSES, probe)
    elif way.startswith("bound"):
        bound(sets, probe, product if way == "bound" else torch.mm)
    else:
        one_after_another(sets, probe, loader=way == "plain")
    if sets[0][0].is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (
        ("clients", 20),
        ("seeds", 5),
        ("sizes", 10),
        ("features", 512),
        ("hidden", 512),
        ("samples", 875),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--steps", type=int, default=20, help="of the 4,000 of a measurement")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ways", default="together,plain,lean,bound,bound of PyTorch", help="bounds are for a CPU")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    width = (arguments.hidden, arguments.hidden)
    probe = Probe(hidden=width, sizes=arguments.sizes, seeds=arguments.seeds, steps=arguments.steps)
    source = torch.Generator().manual_seed(0)
    sets = [
        (
            torch.rand(arguments.samples, arguments.features, generator=source).to(arguments.device),
            torch.randint(CLASSES, (arguments.samples,), generator=source).to(arguments.device),
        )
        for _ in range(arguments.clients)
    ]
    threads, ways = torch.get_num_threads(), arguments.ways.split(",")
    times: dict[str, list[float]] = {way: [] for way in ways}
    for way in ways:
        seconds(way, sets[:1], replace(probe, sizes=2, seeds=1, steps=2), threads)  # to warm up
    for _ in range(arguments.repeat):
        for way in ways:
            times[way].append(seconds(way, sets, probe, threads))
    middle = {way: statistics.median(values) for way, values in times.items()}
    torch.set_num_threads(threads)
    records.write(
        arguments.out,
        f"Probes of codelength, hidden layers of {arguments.hidden}",
        "Probes trained together (ours), the usual way (`plain`: a DataLoader a probe, PyTorch's own threads), one after "
        "another without one (`lean`), and nothing but their matrix products (`bound`). Wide "
        "probes are bound by their products, narrow ones gain more.",
        [
            {
                "way": way,
                "seconds": [round(value, 3) for value in times[way]],
                "times together": round(middle[way] / middle["together"], 2),
            }
            for way in ways
        ],
        device=arguments.device,
        **{name: getattr(arguments, name) for name in ("clients", "seeds", "sizes", "features", "hidden", "steps")},
    )


if __name__ == "__main__":
    main()
