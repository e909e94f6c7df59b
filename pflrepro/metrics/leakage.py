"""Deep leakage from gradients (Zhu et al. 2019): samples recovered from what an honest-but-curious server sees, and PSNR.

    simulation = pflrepro.simulate(experiment)
    seen = observe(simulation, "extractor")
    found = recover(seen, Attack())
    found.psnr()

The server knows the shared parameters that it sent and those that came back; it does not know personal ones. All victims, batches and
restarts are recovered together: `torch.func.vmap` over their dummies, each row with an optimiser state of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad, grad_and_value, vmap

from pflrepro.errors import UserError, check_range, check_word
from pflrepro.markup import BriefArrays
from pflrepro.metrics.lbfgs import HISTORY, minimise
from pflrepro.randomness import generator
from pflrepro.simulation.inspection import check_replica
from pflrepro.simulation.launch import Launch
from pflrepro.simulation.schedule import Table
from pflrepro.simulation.simulation import Simulation
from pflrepro.trees import Tree

MEMORY = 1 << 31  # bytes that an attack may take by default, as `bytes_each` estimates them
Network = Callable[[Tree, Tensor], Tensor]  # (parameters, x [B, ...]) -> output [B, ...]
TARGETS = {
    "extractor": ("base",),
    "model": ("base", "head"),
    "pseudo-extractor": ("base", "valve"),
    "pseudo-model": ("base", "valve", "embeddings"),
}


# ---- PSNR ----------------------------------------------------------------------------------------------------------------------
def psnr(original: Tensor, recovered: Tensor, data_range: float = 1.0, start: int = 0) -> Tensor:
    """Peak signal-to-noise ratio in dB: 10 log10(data_range^2 / MSE), the mean over the dimensions from `start` on.

    Infinite for equal samples, NaN where a number is NaN.

    Arrays are taken too; `UserError` for two different shapes.

    Args:
        data_range: largest minus smallest possible value.

    Example:
        >>> psnr(torch.zeros(2, 4), torch.full((2, 4), 0.1), 1.0).round(decimals=4).item()
        20.0
    """
    check_range("data range", data_range, 0, open_low=True)
    original, recovered = torch.as_tensor(original).double(), torch.as_tensor(recovered).double()
    if original.shape != recovered.shape:
        raise UserError(f"PSNR compares samples of one shape, not {list(original.shape)} and {list(recovered.shape)}")
    squares = (original - recovered) ** 2
    mse = squares.flatten(start).mean(-1) if squares.ndim > start else squares
    return 10 * torch.log10(data_range**2 / mse)


def platform_psnr(original: Tensor, recovered: Tensor, start: int = 0) -> Tensor:
    """The papers' platform's number: 20 log10(1 / sqrt(M)), M = MSE / 3, in dB [LIB, DBE-code].

    The factor 1/3 and the range 1 are its own: images lie in [-1, 1], recovered ones in (0, 1), and 6 to 8 dB are what a
    reconstruction without information gives [LIB]. It is `psnr` with range 1, plus 10 log10(3) = 4.77 dB.

    Example:
        >>> platform_psnr(torch.zeros(2, 4), torch.full((2, 4), 0.1)).round(decimals=2).item()
        24.77
    """
    return psnr(original, recovered, 1.0, start) + 10 * math.log10(3.0)


# ---- what the server sees ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, repr=False)
class Observation(BriefArrays):
    """What is attacked, one row a victim and batch.

    Attributes:
        network: the attacked modules as a function; its output is [B, *outputs].
        params: stacked trees [V, ...], where gradients are taken.
        delta: the same keys, the observed "gradient".
        x: the true samples [V, B, ...] as they were trained on; only for comparison.
        outputs: shape of one output.
        client, batch: of each row.
        target: its name, for captions.
        activations: values that the network gives for one sample, for the estimate of the memory; 0 where it is not known.
    """

    network: Network
    params: Tree
    delta: Tree
    x: Tensor
    outputs: tuple[int, ...]
    client: list[int]
    batch: list[int]
    target: str = ""
    activations: int = 0

    def first(self, victims: int, samples: int | None = None) -> Observation:
        """The first rows alone, and of each batch the first `samples` alone (for `exact`: `delta` stays that of all)."""
        return self.part(slice(victims), samples)

    def part(self, rows: slice, samples: int | None = None) -> Observation:
        """Some rows alone."""
        facts = {"client": self.client[rows], "batch": self.batch[rows]}
        return replace(self, params=self.params[rows], delta=self.delta[rows], x=self.x[rows, :samples], **facts)


def observe(
    simulation: Simulation, target: str = "model", index: int = 0, batches: int = 2, at: str = "trained"
) -> Observation:
    """The uploads of a further round in which all clients take part, run on copies; the simulation stays as it is.

    delta = w_received - w_uploaded, parameter by parameter, used directly as the gradient (summed over the local steps, not divided
    by steps or rate) [LIB]. Network in evaluation mode, without the clients' personal parts.

    Args:
        target: `extractor` (base); `model` (base and head; FedRoD: its generic head); GPFL's `pseudo-extractor` (base, then valve with
            condition g) and `pseudo-model` (further U cosine logits with the embeddings): only the g route, as the server does not
            know the class shares behind p_i [inferred].
        batches: how many of each client's first training batches are attacked, 2 [LIB]; a shorter batch is left out.
        at: where gradients are taken, `trained`, the uploaded parameters [LIB], or `received`, those that were sent [Zhu et al. 2019].

    Raises `UserError` for a target of which a module never reaches the server (FedPer's head).

    Example, `recover` on the first batch of two clients:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", clients=3, rounds=2)
        >>> simulation = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> seen = observe(simulation, "model", batches=1).first(2)
        >>> found = recover(seen, Attack(steps=1, restarts=2))
        >>> found.x.shape == seen.x.shape, found.losses.shape
        (True, torch.Size([2, 2]))
    """
    check_range("batches", batches, 1, integer=True)
    check_word("target of the attack", target, TARGETS)
    check_word("place of the gradient", at, ("trained", "received"))
    check_replica(simulation, index)
    launch, received, trained = _traffic(simulation, index, TARGETS[target])
    condition = _conditions(simulation, launch) if "valve" in TARGETS[target] else Tree()
    x, picked = _first_batches(simulation, launch.tables[0], batches)
    place = torch.as_tensor([client for client, _ in picked], device=simulation.device)
    params = (trained if at == "trained" else received) | condition
    return Observation(
        network=_network(simulation, target),
        params=params[place],
        delta=(received - trained)[place],
        x=x,
        outputs=(simulation.task.features if target.endswith("extractor") else simulation.task.classes,),
        client=[client for client, _ in picked],
        batch=[number for _, number in picked],
        target=target,
        activations=simulation.activations,
    )


def _traffic(simulation: Simulation, index: int, groups: tuple[str, ...]) -> tuple[Launch, Tree, Tree]:
    """(a further round of one seed with all clients, `groups` as sent [N, ...], the same as uploaded [N, ...])."""
    clock = simulation.dispatcher.clock(simulation.round)
    everyone = np.arange(simulation.task.clients)
    cohorts = [everyone if i == index else everyone[:0] for i in range(len(simulation.replicas))]
    program = simulation.dispatcher.program(simulation.backend)
    launch = simulation.dispatcher.launch(program, clock, cohorts, program.phases(clock))
    with torch.no_grad():
        uploads = simulation.backend.participate(program, launch).upload.get("params", Tree())
    sent = launch.received[index].common.get("params", Tree())
    missing = [group for group in groups if group not in uploads or group not in sent]
    if missing:
        valid = [name for name, needs in TARGETS.items() if all(g in uploads and g in sent for g in needs)]
        raise UserError(
            f"the server sees no {missing[0]} of {type(program.method).__name__}'s clients; "
            f"targets it can attack: {', '.join(valid) or '(none)'}"
        )
    received = sent.only(groups).map(lambda leaf: leaf.expand(len(everyone), *leaf.shape))
    return launch, received, uploads.only(groups)


def _conditions(simulation: Simulation, launch: Launch) -> Tree:
    """GPFL's condition g [N, K] that each client used, as it stands among the parameters."""
    program = simulation.dispatcher.program(simulation.backend)
    received = launch.received[int(launch.seed_of[0])]
    rows = [program.tested(received, launch.rows[i], launch.scalars[""]) for i in range(len(launch))]
    return Tree(condition=Tree(g=torch.stack([row.condition.g for row in rows])))


def _network(simulation: Simulation, target: str) -> Network:
    base, head = simulation.task.base, simulation.task.head
    if base.has_buffers or (target == "model" and head.has_buffers):
        raise UserError("the attack is not defined for a network with batch-norm statistics; use one without")

    def network(p: Tree, x: Tensor) -> Tensor:
        z, _ = base(p.base, Tree(), x, False)
        if target == "extractor":
            return z
        if target == "model":
            return head(p.head, Tree(), z, False)[0]
        guided = simulation.method.valve(z, *simulation.method.gates(p, p.condition.g))
        if target == "pseudo-extractor":
            return guided
        return F.normalize(guided, dim=1, eps=1e-12) @ F.normalize(p.embeddings.weight, dim=1, eps=1e-12).T

    return network


def _first_batches(simulation: Simulation, table: Table, batches: int) -> tuple[Tensor, list[tuple[int, int]]]:
    """(samples [V, B, ...], (client, batch number) of each row): the first full batches of the round's first phase."""
    width = table.index.shape[2]
    picked = [
        (client, k)
        for client in range(len(table.steps))
        for k in range(min(batches, int(table.steps[client])))
        if table.mask[client, k].sum() == width
    ]
    if not picked:
        raise UserError("no client trains on a full batch: there is nothing to recover")
    index = torch.as_tensor(table.index[tuple(zip(*picked, strict=True))], device=simulation.device)
    return simulation.federation.batch(index, simulation.dtype)[0], picked


# ---- the attack ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Attack:
    """Gradient matching: minimise sum_p (d loss(network(s(x~)), y~) / dp - delta_p)^2 over the dummies x~ and y~, from N(0, 1).

    Attributes:
        objective: `mse`, the mean squared difference of the output and the dummy output y~ [LIB]; `cross_entropy` against
            softmax(y~) [Zhu et al. 2019].
        low, high: s(x~) = low + (high - low) sigmoid(x~); 0 and 1 [LIB], also where the samples lie in [-1, 1].
        optimiser: `lbfgs`, PyTorch's without line search, `inner` iterations a step [LIB; Zhu et al. 2019], or `adam`.
        lr: 1 for L-BFGS (PyTorch's default) [LIB]; 0.1 serves Adam [off].
        steps: 100 outer steps [LIB].
        inner: 20 [LIB].
        restarts: dummies a victim; the one whose gradient matches best is kept (1 [LIB]).
        seed: of the dummies.
    """

    objective: str = "mse"
    low: float = 0.0
    high: float = 1.0
    optimiser: str = "lbfgs"
    lr: float = 1.0
    steps: int = 100
    inner: int = 20
    restarts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_word("objective of the attack", self.objective, ("mse", "cross_entropy"))
        check_word("optimiser of the attack", self.optimiser, ("lbfgs", "adam"))
        check_range("attack's rate", self.lr, 0, open_low=True)
        for name, low in (("steps", 0), ("inner", 1), ("restarts", 1)):
            check_range(f"attack's {name}", getattr(self, name), low, integer=True)
        check_range("attack's seed", self.seed, integer=True)
        for name in ("low", "high"):
            check_range(f"attack's {name}", getattr(self, name))
        if not self.low < self.high:
            raise UserError(f"the attack's low must be below its high, not {self.low!r} and {self.high!r}")


@dataclass(frozen=True, eq=False, repr=False)
class Recovered(BriefArrays):
    """The outcome of an attack.

    Attributes:
        x: [V, B, ...] the best restart's samples.
        loss: [V] its matching loss; both NaN where every restart diverged.
        every, losses: [V, R, B, ...] and [V, R] of all restarts, NaN where one diverged (its loss or a sample is not finite).
        seen, attack: what was attacked and how.
    """

    x: Tensor
    loss: Tensor
    every: Tensor
    losses: Tensor
    seen: Observation
    attack: Attack

    @cached_property
    def rows(self) -> Tensor:
        """The platform's PSNR [V] of each batch (see `platform_psnr`); NaN where every restart diverged."""
        return platform_psnr(self.seen.x, self.x, start=1)

    def psnr(self) -> float:
        """Mean over a client's batches, then over clients, of `platform_psnr`; NaN rows are skipped [LIB]. NaN if all are."""
        means = []
        for client in sorted(set(self.seen.client)):
            mine = torch.tensor([c == client for c in self.seen.client], device=self.rows.device)
            good = self.rows[mine][~self.rows[mine].isnan()]
            if len(good):
                means.append(float(good.mean()))
        return sum(means) / len(means) if means else float("nan")


def recover(seen: Observation, attack: Attack = Attack()) -> Recovered:
    """Runs the attack on all rows of `seen` and all restarts, on the device of the parameters.

    At a time as many dummies as `MEMORY` (2 GiB) holds by the estimate of `bytes_each`, one at least: the numbers stay the same within
    rounding. `UserError` where `seen` has no row or no sample.
    """
    victims, shape = len(seen.client), seen.x.shape[1:]
    if not seen.x.numel():
        raise UserError(f"there is nothing to recover: the observation's samples have the shape {list(seen.x.shape)}")
    size = max(1, MEMORY // bytes_each(seen, attack))
    rows = torch.arange(victims, device=seen.x.device).repeat_interleave(attack.restarts)
    start = _dummies(seen, attack)
    parts = [_attacked(seen, attack, *each) for each in zip(rows.split(size), start.split(size), strict=True)]
    every = torch.cat([x for x, _ in parts]).view(victims, attack.restarts, *shape)
    losses = torch.cat([loss for _, loss in parts]).view(victims, attack.restarts)
    # L-BFGS leaves a diverged row where it stands (at its start, even): that is no recovery
    diverged = ~(losses.isfinite() & every.flatten(2).isfinite().all(2))
    losses = losses.masked_fill(diverged, math.nan)
    every.flatten(2).masked_fill_(diverged[..., None], math.nan)
    best = torch.where(losses.isfinite(), losses, math.inf).argmin(1)
    pick = torch.arange(victims, device=best.device)
    return Recovered(every[pick, best], losses[pick, best], every, losses, seen, attack)


def bytes_each(seen: Observation, attack: Attack) -> int:
    """An estimate of the memory that one dummy (a victim's restart) takes, in bytes.

    The optimiser's vectors of samples and outputs (200 and some with L-BFGS), ten copies of the parameters and twelve of a batch's
    activations: within a quarter of what was measured with CNN4 on images of 28 and 32 pixels, batches of 10.
    """
    dummy = seen.x[0].numel() + seen.x.shape[1] * math.prod(seen.outputs)
    vectors = 2 * HISTORY + 8 if attack.optimiser == "lbfgs" else 8
    parameters = seen.params.size() // len(seen.client)
    return seen.x.element_size() * (vectors * dummy + 10 * parameters + 12 * seen.x.shape[1] * seen.activations)


def _attacked(seen: Observation, attack: Attack, rows: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """(samples [D, B, ...], matching losses [D]) from the dummies `start` [D, samples and outputs] of the victims `rows` [D]."""
    shape = seen.x.shape[1:]
    size = math.prod(shape)
    params, delta = seen.params[rows], seen.delta[rows]

    def samples(dummy: Tensor) -> Tensor:
        return attack.low + (attack.high - attack.low) * torch.sigmoid(dummy[:size].view(shape))

    def mismatch(dummy: Tensor, params: Tree, delta: Tree) -> Tensor:
        output = dummy[size:].view(shape[0], *seen.outputs)
        trained, fixed = params.only(delta), params.without(delta)
        gradient = grad(lambda p: _objective(attack, seen.network(p | fixed, samples(dummy)), output))(trained)
        return (gradient - delta).squared_norm()

    evaluate = vmap(grad_and_value(mismatch))

    def gradients(dummies: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        g, loss = evaluate(dummies, params[active], delta[active])
        return loss, g

    with torch.no_grad():
        dummies, loss = minimise(gradients, start, attack.optimiser, attack.lr, attack.steps, attack.inner)
        return vmap(samples)(dummies), loss


def _objective(attack: Attack, output: Tensor, dummy: Tensor) -> Tensor:
    if attack.objective == "mse":
        return ((output - dummy) ** 2).mean()
    return -(dummy.softmax(-1) * output.log_softmax(-1)).sum(-1).mean()


def _dummies(seen: Observation, attack: Attack) -> Tensor:
    """Standard normal starts [V * R, samples and outputs], keyed by victim and restart."""
    size = seen.x[0].numel() + seen.x.shape[1] * math.prod(seen.outputs)
    drawn = [
        generator(attack.seed, f"leakage/{batch}", restart, client).standard_normal(size)
        for client, batch in zip(seen.client, seen.batch, strict=True)
        for restart in range(attack.restarts)
    ]
    return torch.stack([torch.as_tensor(each) for each in drawn]).to(seen.x)


def exact(seen: Observation, y: Tensor, attack: Attack) -> Observation:
    """The same victims with the true gradient of `attack.objective` at (x, y) instead of an update: the attack's best case.

    y [V, B, *outputs]: targets for `mse`; raw numbers whose softmax is the target for `cross_entropy`.
    """

    def one(params: Tree, x: Tensor, y: Tensor) -> Tree:
        trained, fixed = params.only(seen.delta), params.without(seen.delta)
        return grad(lambda p: _objective(attack, seen.network(p | fixed, x), y))(trained)

    return replace(seen, delta=vmap(one)(seen.params, seen.x, y))
