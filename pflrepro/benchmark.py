"""Speed against the plain way the field trains today, side by side in one run on one machine.

The plain way (`NaiveFederation`): a deep-copied module and a `DataLoader` a client, clients one after another, training and test
batches of 10, PyTorch's default threads. Ours: `Simulation` with the given backend. Rounds of both alternate, and the ratio is
that of the medians. Beside it stand the achieved floating-point operations a second (counted by
`torch.utils.flop_counter`, model passes only) and the machine's peak on a large convolution, measured in the same run.
"""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

from pflrepro.algorithms.registry import build_method
from pflrepro.data.datasets import load_arrays
from pflrepro.data.federation import Federation
from pflrepro.data.partition import partition
from pflrepro.data.published import published_counts
from pflrepro.device import product_name
from pflrepro.errors import MissingData, check_range, check_word
from pflrepro.experiments.environment import peak_memory
from pflrepro.models import build_model
from pflrepro.settings import Settings
from pflrepro.simulation.simulation import Simulation
from pflrepro.simulation.watch import now

CASES = ("fedavg", "fedavg+dbe", "gpfl")
LR, BATCH, KAPPA, GUIDANCE, DECAY = 0.005, 10, 50.0, 0.01, 0.1  # as the methods' defaults


def compare(
    cases: Sequence[str] = CASES,
    rounds: int = 3,
    *,
    backend: str = "auto",
    device: str = "cpu",
    workers: int | None = None,
    data_root: str | None = None,
    share: float = 1.0,
    progress: bool = True,
) -> list[dict[str, Any]]:
    """One record a case: `seconds_per_round` of `ours` and of `naive` (training and one test of all clients), and their `ratio`.

    CNN4, 20 clients of the published Dir(0.1) partition of Fashion-MNIST, batch 10, one local epoch. Without the data set, images
    of the same shape and the published client sizes are drawn at random, which takes the same time; `data` says which. `share`
    takes only that part of each client's samples, a batch at least. `progress` writes a line a round to standard error.
    """
    for case in cases:
        check_word("benchmark case", case, CASES)
    check_range("rounds", rounds, 1, integer=True)
    check_range("share", share, 0, 1, open_low=True)

    def say(line: str) -> None:
        if progress:
            print(line, file=sys.stderr, flush=True)

    federation, data = benchmark_federation(data_root, share, device)
    peak = peak_rate(device)
    say(f"{data}; peak {peak / 1e9:.0f} GFLOP/s on a large convolution")
    records = []
    for case in cases:
        naive, ours = NaiveFederation(case, federation), _ours(case, federation, backend, device, workers)
        naive.round()
        ours.step()
        ours.step()  # the first call also tests the untrained model (and, for DBE, runs the initialisation)
        seconds: dict[str, list[float]] = {"naive": [], "ours": []}
        for r in range(rounds):
            seconds["naive"].append(_timed(naive.round, device))
            seconds["ours"].append(_timed(ours.step, device))
            say(f"{case} round {r + 1}/{rounds}: naive {seconds['naive'][-1]:.2f} s, ours {seconds['ours'][-1]:.2f} s")
        records.append(_record(case, seconds, federation, ours, data, peak, device))
    return records


def benchmark_federation(data_root: str | None, share: float, device: str) -> tuple[Federation, str]:
    """(the 20-client federation, what it holds)."""
    try:
        arrays = load_arrays("fmnist", data_root)
        x, y = torch.as_tensor(arrays.x), torch.as_tensor(arrays.y)
        split = partition("pfllib-dirichlet:0.1", y, 20, 1)
        train, test, data = split.train, split.test, "Fashion-MNIST, published Dir(0.1) partition, 20 clients"
    except MissingData:
        counts = np.asarray(published_counts("fmnist_dir0.1_n20"))
        y = torch.as_tensor(np.concatenate([np.repeat(np.arange(counts.shape[1]), row) for row in counts]))
        x = torch.as_tensor(np.random.default_rng(0).integers(0, 256, (len(y), 28, 28), dtype=np.uint8))
        bounds = np.cumsum(counts.sum(1))
        parts = [
            np.random.default_rng(i).permutation(np.arange(end - n, end))
            for i, (end, n) in enumerate(zip(bounds, counts.sum(1), strict=True))
        ]
        train = [part[len(part) - int(0.75 * len(part)) :] for part in parts]
        test = [part[: len(part) - int(0.75 * len(part))] for part in parts]
        data = "random images of Fashion-MNIST's shape, published client sizes, 20 clients"
    cut = [[np.asarray(p)[: max(BATCH, int(share * len(p)))] for p in parts] for parts in (train, test)]
    federation = Federation(x, y, *cut, classes=10, unit=(2 / 255, -1.0), name="fmnist", device=device)
    if share < 1:
        data += f", {share:g} of each client's samples, but {BATCH} at least: {sum(map(len, cut[0])):,} for training"
    return federation, data


class NaiveFederation:
    """FedAvg, FedAvg+DBE or GPFL, one client after another."""

    def __init__(self, case: str, federation: Federation) -> None:
        self.case, self.device = case, federation.device
        network = build_model("cnn4", federation.shape, federation.classes, seed=0)
        self.server = _PlainModel(case, network.base, network.head, network.features, federation.classes).to(
            self.device
        )
        self.clients = [copy.deepcopy(self.server) for _ in range(federation.clients)]
        self.train = [self._samples(federation, rows) for rows in federation.rows["train"]]
        self.test = [self._samples(federation, rows) for rows in federation.rows["test"]]
        sizes = federation.sizes("train")
        self.weights = (sizes / sizes.sum()).tolist()
        self.shares = (federation.counts("train") / federation.counts("train").sum(1, keepdim=True)).to(
            self.device, torch.float32
        )

    def _samples(self, federation: Federation, rows: np.ndarray) -> list[tuple[Tensor, Tensor]]:
        x, y = federation.batch(torch.as_tensor(rows, device=federation.device), torch.float32)
        return list(zip(x.cpu(), y.cpu(), strict=True))

    def round(self) -> float:
        """Broadcast, test all clients, train all clients, average; the pooled accuracy."""
        personal = ("head.",) if self.case == "gpfl" else ("bias",)
        state = self.server.state_dict()
        correct = total = 0
        for client in self.clients:
            client.load_state_dict({k: v for k, v in state.items() if not k.startswith(personal)}, strict=False)
            client.received()
        for client, samples in zip(self.clients, self.test, strict=True):
            client.eval()
            with torch.no_grad():
                for x, y in DataLoader(samples, BATCH):
                    correct += int((client(x.to(self.device)).argmax(1).cpu() == y).sum())
                    total += len(y)
        for client, samples, shares in zip(self.clients, self.train, self.shares, strict=True):
            client.train()
            decayed = [p for name, p in client.named_parameters() if name.startswith(("valve", "embeddings"))]
            plain = [p for name, p in client.named_parameters() if not name.startswith(("valve", "embeddings"))]
            groups = [{"params": plain}] + ([{"params": decayed, "weight_decay": DECAY}] if decayed else [])
            optimiser = torch.optim.SGD(groups, lr=LR)
            for x, y in DataLoader(samples, BATCH, shuffle=True, drop_last=True):
                loss = client.loss(x.to(self.device), y.to(self.device))
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            client.trained(shares)
        with torch.no_grad():
            for name, value in self.server.named_parameters():
                value.zero_()
                for weight, client in zip(self.weights, self.clients, strict=True):
                    value.add_(client.get_parameter(name), alpha=weight)
        return correct / max(total, 1)


class _PlainModel(nn.Module):
    """The network of one naive client with what its method adds."""

    def __init__(self, case: str, base: nn.Module, head: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.case, self.base, self.head = case, base, head
        if case == "fedavg+dbe":
            self.bias = nn.Parameter(torch.zeros(features))
            self.register_buffer("zbar", torch.zeros(features))
        if case == "gpfl":
            self.embeddings = nn.Embedding(classes, features)
            self.register_buffer("g", torch.zeros(features), persistent=False)
            self.register_buffer("p", torch.zeros(features), persistent=False)
            self.valve = nn.ModuleList(
                [nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.LayerNorm(features)) for _ in "ab"]
            )

    def received(self) -> None:
        """Keep the embeddings as received."""
        if self.case == "gpfl":
            self.frozen = self.embeddings.weight.detach().clone()

    def trained(self, shares: Tensor) -> None:
        """The next round's conditions, from the client's own embeddings."""
        if self.case == "gpfl":
            own = self.embeddings.weight.detach()
            self.g, self.p = own.mean(0), shares @ own

    def conditioned(self, z: Tensor, condition: Tensor) -> Tensor:
        return F.relu((self.valve[0](condition) + 1) * z + self.valve[1](condition))

    def forward(self, x: Tensor) -> Tensor:
        z = self.base(x)
        if self.case == "fedavg+dbe":
            z = z + self.bias
        return self.head(self.conditioned(z, self.p) if self.case == "gpfl" else z)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        z = self.base(x)
        if self.case == "fedavg":
            return F.cross_entropy(self.head(z), y)
        if self.case == "fedavg+dbe":
            penalty = 0.5 * ((z.mean(0) - self.zbar) ** 2).mean()
            return F.cross_entropy(self.head(z + self.bias), y) + KAPPA * penalty
        guided = self.conditioned(z, self.g)
        cosines = F.normalize(guided, dim=1) @ F.normalize(self.embeddings.weight, dim=1).T
        own = F.cross_entropy(self.head(self.conditioned(z, self.p)), y)
        return own + F.cross_entropy(cosines, y) + GUIDANCE * torch.norm(guided - self.frozen[y])


def peak_rate(device: str) -> float:
    """Floating-point operations a second of a large channels-last convolution (64 x 32 x 64 x 64, 5x5, 64 channels)."""
    x = torch.randn(64, 32, 64, 64, device=device).to(memory_format=torch.channels_last)
    weight = torch.randn(64, 32, 5, 5, device=device).to(memory_format=torch.channels_last)
    operations = 2 * 64 * 64 * 32 * 25 * 60 * 60
    with torch.no_grad():
        seconds = min(_timed(lambda: F.conv2d(x, weight), device) for _ in range(5))
    return operations / seconds


def round_operations(federation: Federation) -> float:
    """Floating-point operations of the network's passes in one round: forward and backward in training, forward in the test."""
    network = build_model("cnn4", federation.shape, federation.classes, 0)
    x = torch.zeros(BATCH, 1, *federation.shape[-2:])
    y = torch.zeros(BATCH, dtype=torch.int64)
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        network.head(network.base(x))
    with FlopCounterMode(display=False) as both:
        F.cross_entropy(network.head(network.base(x)), y).backward()
    steps = (federation.sizes("train") // BATCH).sum()
    return float(steps * both.get_total_flops() + federation.sizes("test").sum() / BATCH * forward.get_total_flops())


def _ours(case: str, federation: Federation, backend: str, device: str, workers: int | None) -> Simulation:
    settings = Settings(rounds=10**6, lr=LR, batch_size=BATCH, evaluate_after=False)
    return Simulation(
        build_method(case), federation, "cnn4", settings, [0], backend=backend, device=device, workers=workers
    )


def _timed(call: Any, device: str) -> float:
    clock = partial(now, torch.device(device))
    started = clock()
    call()
    return clock() - started


def _record(
    case: str,
    seconds: dict[str, list[float]],
    federation: Federation,
    ours: Simulation,
    data: str,
    peak: float,
    device: str,
) -> dict[str, Any]:
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    operations, memory = round_operations(federation), peak_memory("cpu")
    return {
        "case": case,
        "seconds_per_round": medians,
        "ratio": medians["naive"] / medians["ours"],
        "rounds": seconds,
        "gflops_per_second": {name: operations / value / 1e9 for name, value in medians.items()},
        "peak_gflops_per_second": peak / 1e9,
        "backend": ours.backend.name,
        "workers": ours.facts["workers"],
        "threads_of_naive": torch.get_num_threads(),
        "data": data,
        "model": "cnn4",
        "batch_size": BATCH,
        "device": product_name(str(device)),
        "torch": torch.__version__,
        "peak_memory_mib": None if memory is None else memory / 2**20,
    }
