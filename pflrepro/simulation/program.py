"""One client's round, as pure functions of what it received and of its row; the backends map them over clients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Draw, Part, Phase, phases_of
from pflrepro.algorithms.task import Context, Differentiate, Each, Settled, Task
from pflrepro.data.augment import crop_and_flip
from pflrepro.data.federation import Federation
from pflrepro.settings import Settings
from pflrepro.simulation.failing import pair_of, refuse_unknown, scores_of
from pflrepro.simulation.schedule import AUGMENT, NETWORK
from pflrepro.trees import Tree

TEST_BATCH = 250  # rows of a test batch: large enough for the processor, small enough for its caches
LOSSES = {"train_loss": "fit", "objective": "objective"}  # name in the history -> sum in `local.seen`
TEST = Phase("test", data="test", batch=TEST_BATCH, scan=True)


@dataclass(frozen=True)
class Program:
    """The functions of one method on one task.

    A *row* is a tree of what belongs to one participant: `own`, `client`, `info`, `steps`, `buffers` (role -> group -> running
    statistics that it keeps), and in a round of first models of their own `first` (group -> parameters). `received` is what all
    share: `common`, and `buffers` (group -> averaged statistics). Functions of a row take (received, row, scalars) first.
    """

    method: Method
    task: Task
    kinds: dict[str, str]
    settings: Settings
    federation: Federation
    dtype: torch.dtype
    differentiate: Differentiate
    settled: Settled
    each: Each

    def phases(self, clock: Clock) -> list[Phase]:
        """The method's phases of a round; where the network draws random numbers in training, every batch has a key for them."""
        phases = phases_of(self.method, clock, self.kinds)
        if not (self.task.base.draws or self.task.head.draws):
            return phases
        key = {NETWORK: Draw("uniform", (2,))}
        return [
            phase.drawing(**key) if phase.data in ("train", "valid") and not phase.scan else phase for phase in phases
        ]

    # ---- constants of a phase ----------------------------------------------------------------------------------------------
    def scalars(self, phase: Phase | None, clock: Clock) -> Tree:
        """The device scalars of a phase: numbers that change without changing the program."""

        def scalar(value: float) -> Tensor:
            return torch.tensor(float(value), dtype=self.dtype, device=self.federation.device)

        tree = Tree(rate=scalar(self.settings.lr), t=scalar(clock.t), rates=Tree(), decays=Tree())
        if phase is None:
            return tree
        decays = dict.fromkeys(self.kinds, self.settings.weight_decay if phase.optimiser == "sgd" else 0.0) | dict(
            phase.decay
        )
        tree["rates"] = Tree({group: scalar(value) for group, value in phase.rate.items()})
        tree["decays"] = Tree({group: scalar(value) for group, value in decays.items() if value})
        if self.settings.momentum and phase.optimiser == "sgd":
            tree["momentum"] = scalar(self.settings.momentum)
        return tree

    def context(self, received: Tree, row: Tree, scalars: Tree, phase: Phase | None = None) -> Context:
        """The context of one row."""
        return Context(
            task=self.task,
            kinds=self.kinds,
            scalars=scalars,
            common=self.common(received, row),
            own=row.own,
            client=row.client,
            info=row.info,
            steps=row.steps,
            phase=phase,
            differentiate=self.differentiate,
            samples=self.samples,
            settled=self.settled,
            each=self.each,
            momentum=scalars.get("momentum"),
        )

    # ---- the round of one client -------------------------------------------------------------------------------------------
    def common(self, received: Tree, row: Tree) -> Tree:
        """What the row takes for sent to all: with a first model of its own, that in place of the server's."""
        return received.common | Tree(params=row.first) if "first" in row else received.common

    def statistics(self, received: Tree, row: Tree) -> Tree:
        """role -> group -> running statistics, from where each is kept."""
        return Tree({self.method.roles[0]: received.buffers}) | row.buffers

    def begin(self, received: Tree, row: Tree, scalars: Tree) -> Tree:
        """`local` at the start of the round."""
        ctx = self.context(received, row, scalars)
        zero = torch.zeros_like(scalars.rate)
        seen = Tree(objective=zero, fit=zero, gradients=zero)
        local = self.method.begin(ctx.common, row.own, row.client, ctx) | Tree(seen=seen)
        statistics = self.statistics(received, row)
        return local | Tree(buffers=statistics) if statistics.has_leaves() else local

    def begin_adapting(self, received: Tree, row: Tree, scalars: Tree) -> Tree:
        """`local` at the start of an adaptation: as in training, but from the model that would be tested."""
        local = self.begin(received, row, scalars)
        return local | Tree(params=self.tested(received, row, scalars))

    def enter(self, scalars: Tree, local: Tree, phase: Phase) -> Tree:
        """`local` with the optimiser's state for the phase: zeros, or where a method keeps it, `local.momentum`."""
        if phase.scan or "momentum" not in scalars:
            return local
        ctx = Context(self.task, self.kinds, scalars, phase=phase)
        zeros = Tree({tree: ctx.trainable(local[tree]).map(torch.zeros_like) for tree in self.method.trees})
        kept = _matching(zeros | local.get("momentum", Tree()), zeros)
        return local.without(["optimiser"]) | Tree(optimiser=kept)

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        """`local` after one batch."""
        if NETWORK in batch:
            ctx = ctx.at(key=batch[NETWORK])
        return local | self.method.step(local, self.method.transform(batch, ctx), ctx)

    def observe(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        """The sums of one batch of a scan pass."""
        statistics = local.get("buffers", Tree()).get(self.method.roles[0], Tree())
        return self.method.observe(local, batch, ctx.at(buffers=statistics))

    def leave(self, received: Tree, row: Tree, scalars: Tree, local: Tree, sums: Tree, phase: Phase) -> Tree:
        """`local` at the end of a phase, without optimiser state."""
        ctx = self.context(received, row, scalars, phase)
        return (local | self.method.leave(local, sums, ctx)).without(["optimiser"])

    def finish(self, received: Tree, row: Tree, scalars: Tree, local: Tree) -> Tree:
        """What the participant leaves behind: `client`, `upload`, its statistics (`kept`, and `averaged` for the server), its losses.

        `objective` and `train_loss` are means over the gradients that it took for the method's `recorded` role; NaN without any.
        """
        left = self.method.finish(local, row.client, self.context(received, row, scalars))
        client, upload = pair_of(left, self.method, "finish")
        refuse_unknown(client.flat(), row.client.flat(), self.method, "finish", "client's state (init_client)")
        if "first" in row and "params" in upload:  # to the server it has moved as far, from the server's own
            first = row.first.only(upload.params)
            sent = received.common.params.only(first)
            upload = upload | Tree(params=upload.params.only(first) + (sent - first))
        after = local.get("buffers", Tree())
        kept = row.buffers.map(lambda _, new: new, _matching(after, row.buffers))
        averaged = after.get(self.method.roles[0], Tree()).only(received.buffers)
        means = {name: local.seen[sums] / local.seen.gradients for name, sums in LOSSES.items()}
        return Tree(client=client, upload=upload, kept=kept, averaged=averaged, losses=Tree(means))

    # ---- tests -------------------------------------------------------------------------------------------------------------
    def tested(self, received: Tree, row: Tree, scalars: Tree) -> Tree:
        """The parameters that are tested before local training."""
        return self.method.model(received.common, row.own, row.client, self.context(received, row, scalars))

    def trained(self, received: Tree, row: Tree, scalars: Tree, local: Tree) -> Tree:
        """The parameters that are tested after local training."""
        return self.method.trained(local, self.context(received, row, scalars))

    def notes(self, received: Tree, row: Tree, scalars: Tree, local: Tree) -> Tree:
        """What the method notes of `local` after the adaptation of a test."""
        return self.method.notes(local, row.client, self.context(received, row, scalars))

    def score(self, received: Tree, row: Tree, scalars: Tree, params: Tree, statistics: Tree, batch: Tree) -> Tree:
        """`correct` predictions and summed cross-entropy `loss` of one test batch."""
        ctx = self.context(received, row, scalars)
        ctx = ctx.at(buffers=statistics.get(self.method.roles[-1], Tree()), role=self.method.roles[-1])
        scores = scores_of(self.method.predict(params, batch.x, ctx), self.method, len(batch.y), self.task.classes)
        losses = F.cross_entropy(scores, batch.y, reduction="none")
        right = (scores.argmax(-1) == batch.y).to(self.dtype)
        return Tree(correct=(right * batch.mask).sum(), loss=torch.where(batch.mask > 0, losses, 0.0).sum())

    # ---- data --------------------------------------------------------------------------------------------------------------
    def samples(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(x, y) of row numbers [...], as they are trained on."""
        return self.federation.batch(rows, self.dtype)

    def batch(self, phase: Phase, index: Tensor, mask: Tensor, draws: Tree) -> Tree:
        """The batch of row numbers `index` [..., B] as `x`, `y`, `mask` (the run's number type), plus the drawn slots."""
        if phase.data == "none":
            return draws
        x, y = self.federation.batch(index, self.dtype)
        if AUGMENT in draws:
            x, draws = self.augmented(x, draws[AUGMENT]), draws.without([AUGMENT])
        return Tree(x=x, y=y, mask=mask.to(self.dtype)) | draws

    def no_samples(self, phase: Phase) -> Tree:
        """A batch of one place without a sample, for the form of what is summed."""
        place = torch.zeros(1, dtype=torch.int64, device=self.federation.device)
        return self.batch(phase, place, torch.zeros_like(place), Tree())

    def augmented(self, x: Tensor, numbers: Tensor) -> Tensor:
        """`x` [..., B, C, H, W] as `Settings.augment` says, by `numbers` [..., at least B, 3] in [0, 1)."""
        return crop_and_flip(x, numbers[..., : x.shape[-4], :], self.federation.black(self.dtype))


def _matching(tree: Tree, keys: Tree) -> Tree:
    """The entries of `tree` whose keys, at every level, are in `keys`."""
    return Tree(
        {name: _matching(tree[name], value) if isinstance(value, Tree) else tree[name] for name, value in keys.items()}
    )


def buffer_places(method: Method, parts: dict[str, Part], statistics: str) -> tuple[Tree, Tree]:
    """(initial averaged statistics by group, initial kept statistics by role and group).

    Averaged are only those of the first role, of groups that are not personal, where the run says so; all others are kept.
    """
    present = {name: part for name, part in parts.items() if part.buffers}
    averaged = {
        name: part.buffers
        for name, part in present.items()
        if statistics == "averaged" and part.kind not in ("personal", "received")
    }
    kept = Tree()
    for position, role in enumerate(method.roles):
        own = {name: part.buffers for name, part in present.items() if position > 0 or name not in averaged}
        if own:
            kept[role] = Tree(own)
    return Tree(averaged), kept
