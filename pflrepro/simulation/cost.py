"""What a method costs a client: counted in a round that is really run, not declared."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import phases_of
from pflrepro.algorithms.registry import build_method
from pflrepro.data.federation import Federation
from pflrepro.models import build_model, find
from pflrepro.models.split import FunctionalModule
from pflrepro.operations import Operations
from pflrepro.settings import Settings
from pflrepro.simulation.computing import computing
from pflrepro.simulation.loop import Loop
from pflrepro.simulation.program import Program
from pflrepro.simulation.simulation import Simulation
from pflrepro.trees import Tree

SAMPLES, BATCH, TEST_ROWS = 100, 10, 1  # divisible by every method's batches, also behind FedFomo's validation share
CHEAPER = {"vhl": {"virtual_samples": 20}}  # options that take less time and change no count below but `supplied`, ...
SHARE = {"vhl": 100}  # ... which is proportional to them, and this many times larger by default
SECOND = 1  # the round that is counted: by then a client has a previous model, prototypes exist, and so on


@dataclass(frozen=True)
class Cost:
    """One participant's cost of one round, beside the sizes of the network it was counted on.

    Attributes:
        model, base, head: numbers of parameters.
        clients: N.
        features: K.
        classes: C.
        down, up: numbers received and sent.
        supplied: numbers in the data handed to all, once or whenever they are made anew.
        memory: numbers that a client keeps between rounds.
        forward: samples through the base, as a multiple of its training samples, without those that `backward` counts.
        backward: samples through the base forward and backward, the same.
        head_only: samples through the head alone (generated features, heads trained on fixed ones, second heads), the same.
        test_backward, test_forward: passes before a test, on the copy that is tuned for it.
        server_steps: steps of training on the server.
        products: operations in matrix products and convolutions of the client's training, as a multiple of one epoch of the plain
            network's. It sees what passes do not: derivatives of derivatives (FedMix: one pass, two in products), other modules.

    FedAvg with one local epoch is down = up = model, backward = products = 1, all else 0.
    """

    model: int
    base: int
    head: int
    clients: int
    features: int
    classes: int
    down: int
    up: int
    supplied: int
    memory: int
    forward: float
    backward: float
    head_only: float
    test_backward: float
    test_forward: float
    server_steps: int
    products: float

    def relative(self) -> dict[str, float]:
        """The costs for a reader: numbers in multiples of the network, the passes, products and steps as they are."""
        sizes = {name: getattr(self, name) / self.model for name in ("down", "up", "supplied", "memory")}
        passes = ("backward", "forward", "head_only", "test_backward", "test_forward", "products", "server_steps")
        return sizes | {name: getattr(self, name) for name in passes}


def cost_of(method: Method, model: str = "cnn4", shape: tuple[int, ...] = (28, 28), clients: int = 20) -> Cost:
    """The cost of a client of `method` with one local epoch, on generated samples of ten classes.

    One client with 100 samples takes part in two rounds; the second is counted.
    """
    method = _without_server_phases(method)
    federation = generated(shape, clients, tokens=find(model)[0].takes.kind == "tokens")
    settings = Settings(rounds=10, participation=1 / clients, batch_size=BATCH, evaluate_after=False)
    simulation = Simulation(method, federation, model, settings, [0], backend="loop", workers=1)
    plain, base, head = simulation.task, _Counter(simulation.task.base), _Counter(simulation.task.head)
    dispatcher = simulation.dispatcher = replace(simulation.dispatcher, task=replace(plain, base=base, head=head))
    meter = _Meter(base, head)
    simulation.backend = meter
    one = np.zeros(1, dtype=np.int64)
    replica = simulation.replicas[0]
    with computing(simulation.device):
        simulation._prologue()
        for t in (SECOND - 1, SECOND):
            meter.counted = {}
            simulation._train(method, dispatcher.clock(t), [one])
        # with receivers = selected one client is tested
        simulation.round, simulation.settings = settings.rounds, replace(settings, receivers="selected")
        simulation._scores(dispatcher.program(meter), replica, dispatcher.clock(settings.rounds))
    received, _ = dispatcher.receive(method, replica, one, SECOND)
    supplied = received.common.get("supplied", Tree())
    phases = phases_of(method, dispatcher.clock(SECOND))
    sizes = {name: meter.sizes[name] for name in ("base", "head")}
    return Cost(
        model=sum(sizes.values()),
        **sizes,
        clients=clients,
        features=plain.features,
        classes=plain.classes,
        down=int(simulation.traffic["numbers_down"]),
        up=int(simulation.traffic["numbers_up"]),
        supplied=supplied.size(),
        memory=(replica.clients.size() + replica.kept.size()) // clients,
        **meter.counted,
        products=meter.operations / _operations_of_an_epoch(model, federation),
        server_steps=sum(phase.steps for phase in phases if phase.where == "server"),
    )


def numbers_received(method: Method, model: str, shape: tuple[int, ...], classes: int = 10) -> int:
    """How many numbers a client receives before its first round, without supplied data; nothing is trained."""
    federation = generated(shape, 2, classes, tokens=find(model)[0].takes.kind == "tokens")
    simulation = Simulation(
        method, federation, model, Settings(rounds=1, batch_size=BATCH), [0], backend="loop", workers=1
    )
    (replica,), one = simulation.replicas, np.zeros(1, dtype=np.int64)
    common, own = method.send(replica.server, simulation.dispatcher.participants(replica, one, 0))
    return method.received(common, own[0]).size()


def _without_server_phases(method: Method) -> Method:
    """The same method, whose server phases do nothing: they cost a client nothing, and take long."""
    idle = type(type(method).__name__, (type(method),), {"serve": lambda self, *_: Tree()})
    return idle(**{field.name: getattr(method, field.name) for field in fields(method)})


@cache
def cost_of_default(algorithm: str) -> Cost:
    """`cost_of` the method called `algorithm` with its default options; counted once."""
    host = algorithm.partition("+")[0]
    cost = cost_of(build_method(algorithm, CHEAPER.get(host)))
    return replace(cost, supplied=cost.supplied * SHARE.get(host, 1))


def _operations_of_an_epoch(model: str, federation: Federation) -> int:
    """Of the network's forward and backward passes over one client's training samples."""
    network = build_model(model, federation.shape, federation.classes, 0)
    x, y = federation.batch(torch.arange(BATCH), torch.float32)
    with Operations() as counted:
        F.cross_entropy(network.head(network.base(x)), y).backward()
    return counted.operations * (SAMPLES // BATCH)


class _Counter(FunctionalModule):
    """A network part that counts the samples through it: [without, with] a gradient of its parameters."""

    def __init__(self, module: FunctionalModule) -> None:
        self.__dict__.update(vars(module))
        self.rows = np.zeros(2)

    def __call__(
        self, parameters: Tree, buffers: Tree, x: Tensor, training: bool, key: Tensor | None = None
    ) -> tuple[Tensor, Tree]:
        graded = torch.is_grad_enabled() and any(leaf.requires_grad for leaf in parameters.leaves())
        self.rows[int(graded)] += len(x)
        return super().__call__(parameters, buffers, x, training, key)


class _Meter(Loop):
    """The loop backend, reading the counters around a client's training and around a test."""

    def __init__(self, base: _Counter, head: _Counter) -> None:
        super().__init__(workers=1)
        self.base, self.head = base, head
        self.counted: dict[str, float] = {}
        self.operations = 0  # of the latest training
        self.sizes = {"base": base.size, "head": head.size}

    def participate(self, program: Program, launch) -> Tree:
        self._reset()
        with Operations() as counted:
            result = super().participate(program, launch)
        self.operations = counted.operations
        (forward, backward), head = self.base.rows / SAMPLES, self.head.rows.sum() / SAMPLES
        self.counted |= {"forward": forward, "backward": backward, "head_only": max(head - forward - backward, 0.0)}
        return result

    def evaluate(self, program: Program, launch) -> Tree:
        self._reset()
        result = super().evaluate(program, launch)
        forward, backward = self.base.rows / SAMPLES / len(launch)
        tests = TEST_ROWS / SAMPLES
        self.counted |= {"test_forward": max(forward - tests, 0.0), "test_backward": backward}
        return result

    def _reset(self) -> None:
        self.base.rows[:], self.head.rows[:] = 0, 0


def generated(
    shape: tuple[int, ...],
    clients: int,
    classes: int = 10,
    *,
    train: int = SAMPLES,
    test: int = TEST_ROWS,
    tokens: bool = False,
) -> Federation:
    """So many training and test samples of all classes for every client: uniform numbers, or `tokens` below 1,000."""
    each, draw = train + test, torch.Generator().manual_seed(0)
    size = (clients * each, *shape)
    x = torch.randint(0, 1000, size, generator=draw) if tokens else torch.rand(size, generator=draw)
    y = torch.arange(len(x)) % classes
    rows = np.arange(len(x)).reshape(clients, each)
    return Federation(x, y, list(rows[:, :train]), list(rows[:, train:]), classes=classes)


def holders(method: Method) -> tuple[dict[str, str], list[str]]:
    """(group of parameters -> who holds it, see `Part`; what else a client keeps between rounds), on a small network."""
    settings = Settings(rounds=1, batch_size=BATCH)
    simulation = Simulation(method, generated((8, 8), 2), "mlp", settings, [0], backend="loop", workers=1)
    return simulation.dispatcher.kinds, [name for name in simulation.replicas[0].clients if name != "params"]
