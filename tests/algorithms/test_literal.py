"""FedAvg+DBE and GPFL once more, slowly and literally: plain modules, plain loops, torch's optimiser.

Written from the papers' algorithms and the facts about their released code, without a line of the methods under test. Only the
inputs are shared: the initial weights, the cohorts and the batches.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pflrepro.algorithms import Phase, build_method
from pflrepro.data.federation import Federation
from pflrepro.models import build_model
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.schedule import batches, cohort
from pflrepro.trees import Tree

SEED, ROUNDS, TOLERANCE = 3, 3, 1e-10
SIZES = (23, 9, 14, 31, 4)  # training samples; the last client has less than a batch
PROTOCOLS = {
    "all": Settings(ROUNDS, batch_size=5, lr=0.05),
    "60 %": Settings(ROUNDS, batch_size=5, lr=0.05, participation=0.6, local_epochs=2),
}


@pytest.fixture(scope="module")
def data() -> Federation:
    """Five clients, four classes; no client has all of them."""
    draw = np.random.default_rng(5)
    train, test, y, start = [], [], [], 0
    for client, size in enumerate(SIZES):
        rows = np.arange(start, start + size + 8)
        train.append(rows[8:])
        test.append(rows[:8])
        y.append(draw.choice([client % 4, (client + 1) % 4, (client + 2) % 4], size + 8))
        start += size + 8
    x = torch.tensor(draw.standard_normal((start, 12)), dtype=torch.float64)
    return Federation(x, torch.tensor(np.concatenate(y)), train, test, classes=4)


def run(method, data: Federation, settings: Settings) -> Simulation:
    simulation = Simulation(method, data, "mlp", settings, [SEED], backend="loop", dtype="float64", workers=1)
    while not simulation.finished:
        simulation.step()
    return simulation


def network(data: Federation) -> tuple[nn.Module, nn.Module]:
    split = build_model("mlp", data.shape, data.classes, SEED)
    return split.base.double(), split.head.double()


def epochs(data: Federation, settings: Settings, t: int, client: int, stream: str = "clients/train"):
    """(x, y) of every batch of a client in a round."""
    for rows in batches(data, Phase(), settings, SEED, t, client, stream):
        yield data.x[rows], data.y[rows]


def average(modules: list[nn.Module], sizes: list[int]) -> dict[str, torch.Tensor]:
    """theta = sum_i n_i / (sum_j n_j) theta_i."""
    states = [dict(module.named_parameters()) for module in modules]
    return {
        name: sum(n / sum(sizes) * state[name].detach() for n, state in zip(sizes, states, strict=True))
        for name in states[0]
    }


def hits(logits: torch.Tensor, y: torch.Tensor) -> int:
    return int((logits.argmax(1) == y).sum())


def assert_equal(tree: Tree, values: dict[str, torch.Tensor]) -> None:
    assert tree.keys() == values.keys()
    for name, value in values.items():
        torch.testing.assert_close(
            tree[name], value.detach(), rtol=0, atol=TOLERANCE, msg=lambda text, name=name: f"{name}: {text}"
        )


# ---- FedAvg+DBE ----------------------------------------------------------------------------------------------------------------
def initialisation_period(data: Federation, settings: Settings, mu: float) -> torch.Tensor:
    """zbar^g: every client trains the initial model on cross-entropy alone; only the running means m_i are kept."""
    means = []
    for client in range(data.clients):
        base, head = network(data)
        optimiser = torch.optim.SGD([*base.parameters(), *head.parameters()], lr=settings.lr)
        m = torch.zeros(32, dtype=torch.float64)
        for x, y in epochs(data, settings, -1, client, "prologue/clients/train"):
            z = base(x)
            m = (1 - mu) * m + mu * z.detach().mean(0)
            optimiser.zero_grad()
            F.cross_entropy(head(z), y).backward()
            optimiser.step()
        means.append(m)
    n = [len(rows) for rows in data.rows["train"]]
    return sum(n_i / sum(n) * m for n_i, m in zip(n, means, strict=True))


def literal_dbe(data: Federation, settings: Settings, kappa: float, mu: float):
    """(base, head, the clients' zbar^p, zbar^g, correct test predictions before each round and after the last)."""
    consensus = initialisation_period(data, settings, mu)
    base, head = network(data)
    memories = [nn.Parameter(torch.zeros(32, dtype=torch.float64)) for _ in range(data.clients)]
    curve = []

    def evaluate() -> None:
        with torch.no_grad():
            rows = data.rows["test"]
            curve.append(
                [hits(head(base(data.x[rows[i]]) + memories[i]), data.y[rows[i]]) for i in range(data.clients)]
            )

    for t in range(settings.rounds):
        evaluate()
        uploads, sizes = [], []
        for client in cohort(SEED, t, data.clients, settings):
            local_base, local_head = copy.deepcopy(base), copy.deepcopy(head)
            optimiser = torch.optim.SGD(
                [*local_base.parameters(), *local_head.parameters(), memories[client]], lr=settings.lr
            )
            m = torch.zeros(32, dtype=torch.float64)
            for x, y in epochs(data, settings, t, client):
                z = local_base(x)
                m = (1 - mu) * m.detach() + mu * z.mean(0)
                mse = sum(0.5 * (m[k] - consensus[k]) ** 2 for k in range(32)) / 32
                optimiser.zero_grad()
                (F.cross_entropy(local_head(z + memories[client]), y) + kappa * mse).backward()
                optimiser.step()
            uploads.append((local_base, local_head))
            sizes.append(len(data.rows["train"][client]))
        base.load_state_dict(average([b for b, _ in uploads], sizes))
        head.load_state_dict(average([h for _, h in uploads], sizes))
    evaluate()
    return base, head, memories, consensus, curve


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("kappa", "mu"), [(50.0, 1.0), (1.0, 0.1)])
def test_fedavg_with_dbe(data: Federation, protocol: str, kappa: float, mu: float) -> None:
    settings = PROTOCOLS[protocol]
    base, head, memories, consensus, curve = literal_dbe(data, settings, kappa, mu)
    ours = run(build_method("fedavg+dbe", {"kappa": kappa, "mr_momentum": mu}), data, settings)
    server, clients = ours.replicas[0].server, ours.replicas[0].clients
    assert_equal(server.params.base, dict(base.named_parameters()))
    assert_equal(server.params.head, dict(head.named_parameters()))
    assert_equal(clients.params.bias, {"b": torch.stack(memories)})
    assert_equal(server.only(["zbar"]), {"zbar": consensus})
    assert ours.history(0)["correct"].tolist() == curve
    assert float(clients.params.bias.b.abs().max()) > 1e-3


# ---- GPFL ----------------------------------------------------------------------------------------------------------------------
class ConditionalValve(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.scale, self.scale_norm = nn.Linear(features, features), nn.LayerNorm(features)
        self.shift, self.shift_norm = nn.Linear(features, features), nn.LayerNorm(features)

    def forward(self, f: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        gamma = self.scale_norm(torch.relu(self.scale(c)))
        beta = self.shift_norm(torch.relu(self.shift(c)))
        return torch.relu((gamma + 1) * f + beta)


class GPFLClient:
    """A client that holds all modules, as in the released code."""

    def __init__(self, data: Federation, client: int, valve: nn.Module, embeddings: nn.Embedding) -> None:
        self.base, self.head = network(data)
        self.valve, self.embeddings = copy.deepcopy(valve), copy.deepcopy(embeddings)
        self.frozen = self.embeddings.weight.detach().clone()
        rows = data.rows["train"][client]
        self.size = len(rows)
        self.shares = torch.tensor(
            [float((data.y[rows] == u).sum()) / len(rows) for u in range(data.classes)], dtype=torch.float64
        )
        self.g = self.p = torch.zeros(32, dtype=torch.float64)

    def compute_conditions(self) -> None:
        classes = range(len(self.shares))
        table = self.embeddings.weight.detach()
        self.g = sum(table[u] for u in classes) / len(classes)
        self.p = sum(self.shares[u] * table[u] for u in classes)

    def receive(self, server: GPFLClient) -> None:
        for name in ("base", "valve", "embeddings"):
            getattr(self, name).load_state_dict(getattr(server, name).state_dict())
        self.frozen = self.embeddings.weight.detach().clone()

    def train(self, batches, lr: float, weight: float, decay: float) -> None:
        plain = [*self.base.parameters(), *self.head.parameters()]
        decayed = [*self.valve.parameters(), *self.embeddings.parameters()]
        optimiser = torch.optim.SGD([{"params": plain}, {"params": decayed, "weight_decay": decay}], lr=lr)
        for x, y in batches:
            f = self.base(x)
            personal, guided = self.valve(f, self.p), self.valve(f, self.g)
            cosines = torch.stack(
                [F.cosine_similarity(guided, row[None], eps=1e-12) for row in self.embeddings.weight], 1
            )
            magnitude = torch.linalg.matrix_norm(guided - self.frozen[y])
            angle = -torch.log_softmax(cosines, 1)[torch.arange(len(y)), y].mean()
            optimiser.zero_grad()
            (F.cross_entropy(self.head(personal), y) + angle + weight * magnitude).backward()
            optimiser.step()

    def correct(self, x: torch.Tensor, y: torch.Tensor) -> int:
        with torch.no_grad():
            return hits(self.head(self.valve(self.base(x), self.p)), y)


def literal_gpfl(data: Federation, settings: Settings, valve: nn.Module, embeddings: nn.Embedding, options: dict):
    """(the server, the clients, correct test predictions before each round and after the last)."""
    server = GPFLClient(data, 0, valve, embeddings)
    clients = [GPFLClient(data, i, valve, embeddings) for i in range(data.clients)]
    curve = []

    def evaluate() -> None:
        rows = data.rows["test"]
        curve.append([client.correct(data.x[rows[i]], data.y[rows[i]]) for i, client in enumerate(clients)])

    for t in range(settings.rounds):
        evaluate()
        chosen = [int(i) for i in cohort(SEED, t, data.clients, settings)]
        for i in chosen:
            clients[i].train(epochs(data, settings, t, i), settings.lr, options["guidance"], options["decay"])
        for name in ("base", "valve", "embeddings"):
            mean = average([getattr(clients[i], name) for i in chosen], [clients[i].size for i in chosen])
            getattr(server, name).load_state_dict(mean)
        for client in clients:
            client.compute_conditions()
            client.receive(server)
    evaluate()
    return server, clients, curve


def initial_extras(method, data: Federation, settings: Settings) -> tuple[ConditionalValve, nn.Embedding]:
    start = (
        Simulation(method, data, "mlp", settings, [SEED], backend="loop", dtype="float64", workers=1)
        .replicas[0]
        .server.params
    )
    valve, embeddings = ConditionalValve(32).double(), nn.Embedding(data.classes, 32).double()
    valve.load_state_dict(dict(start.valve))
    embeddings.load_state_dict(dict(start.embeddings))
    return valve, embeddings


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("options", [{"guidance": 0.01, "decay": 0.1}, {"guidance": 0.3, "decay": 0.0}])
def test_gpfl(data: Federation, protocol: str, options: dict) -> None:
    settings, method = PROTOCOLS[protocol], build_method("gpfl", options)
    server, clients, curve = literal_gpfl(data, settings, *initial_extras(method, data, settings), options)
    ours = run(method, data, settings)
    params, stored = ours.replicas[0].server.params, ours.replicas[0].clients
    for name in ("base", "valve", "embeddings"):
        assert_equal(params[name], dict(getattr(server, name).named_parameters()))
    for i, client in enumerate(clients):
        assert_equal(stored.params.head[i], dict(client.head.named_parameters()))
    assert ours.history(0)["correct"].tolist() == curve
