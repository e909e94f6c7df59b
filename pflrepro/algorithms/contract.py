"""The contract of a method: a frozen dataclass of hyper-parameters with a few pure functions.

A function that runs on the device is written for ONE client; the engine maps it over all of them and owns every loop, mask, optimiser
state, random table and file. Each has a default, and the defaults together are FedAvg. A function returns only what changed.

Rules that make a method vectorise: no Python branch on tensor values, static shapes, guarded denominators (both sides of a
`torch.where` must be finite, and so must their gradients), randomness from the phase's drawn tables, row masks in every mean,
one-hot as `y[:, None] == arange(C)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.task import Context, Setup, Source
from pflrepro.checked import check_fields
from pflrepro.errors import UserError
from pflrepro.trees import Tree, WholeBatch


def mean(values: Tensor, batch: Tree) -> Tensor:
    """The mean of `values` [B, ...] over the true rows of the batch: sum_b mask_b v_b / max(sum_b mask_b, 1)."""
    if isinstance(batch, WholeBatch):
        return values.mean(0)
    mask = batch.mask.view(-1, *[1] * (values.ndim - 1))
    return (values * mask).sum(0) / batch.mask.sum().clamp(min=1)


def by_label(value: Callable[[Tensor], Tensor], batch: Tree) -> Tensor:
    """`value(y)`; of a mixed batch (Mixup), `share * value(y) + (1 - share) * value(partner)`."""
    if "partner" not in batch:
        return value(batch.y)
    return batch.share * value(batch.y) + (1 - batch.share) * value(batch.partner)


def cross_entropy(logits: Tensor, batch: Tree) -> Tensor:
    """Softmax cross-entropy of `logits` [B, C] against the batch's labels (see `by_label`), mean over the true rows."""
    return by_label(lambda labels: mean(F.cross_entropy(logits, labels, reduction="none"), batch), batch)


def one_hot(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """[B] labels as [B, C] zeros and ones; works under `vmap(grad)`, where `F.one_hot` does not."""
    return (labels[:, None] == torch.arange(classes, device=labels.device)).to(dtype)


def _checked(method: Method, found: Any) -> tuple[Tensor, Tree]:
    """What a `loss` returned; `UserError` where it is not what the contract says."""
    parts = found if isinstance(found, tuple) else (found,)
    if len(parts) == 2 and isinstance(parts[0], Tensor) and parts[0].ndim == 0 and isinstance(parts[1], Tree):
        return found
    given = [f"a tensor {[*part.shape]}" if isinstance(part, Tensor) else type(part).__name__ for part in parts]
    raise UserError(
        f"{type(method).__name__}.loss must return (one number, a Tree with the logits): the mean over the batch, by "
        f"mean(values, batch), and what the loss was made from; not {', '.join(given)}"
    )


def below(u: Tensor, count: Tensor | int) -> Tensor:
    """Whole numbers 0..count - 1 from uniform numbers u in [0, 1), also where u was rounded up to 1."""
    return (u * count).long().clamp(max=count - 1)


@dataclass(frozen=True)
class Method:
    """FedAvg, unchanged: w^{t+1} = sum_i p_i w_i, with p_i = n_i / (sum of n_j over the cohort).

    Class attributes:
        trees: the entries of `local` that the run's optimiser steps (each gets momentum of its own).
        roles: whose batch-norm statistics a client keeps apart; the last is the one that is tested.
        recorded: whose training losses go into the history; by default those of the role that is tested.
        holdout: share of each client's training part that is kept as validation data.
        revision: raised when the numbers of this method change.
        server_store: True where `common` holds a model of every client (it is then never copied a row).
        large_supply: True where what `supply` gives is large (the same).
        mixes_samples: True where samples are mixed or averaged; refused with networks that take token numbers.
        gathers: what of the state is gathered, counted or estimated and not learnt, so that a rate of 0 does not hold it still: the
            start of its path -> what it is. Those of the bases count, too. For `pflrepro.conformance`.
    """

    trees: ClassVar[tuple[str, ...]] = ("params",)
    roles: ClassVar[tuple[str, ...]] = ("shared",)
    recorded: ClassVar[str] = ""
    holdout: ClassVar[float] = 0.0
    revision: ClassVar[int] = 1
    server_store: ClassVar[bool] = False
    large_supply: ClassVar[bool] = False
    mixes_samples: ClassVar[bool] = False
    gathers: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        """Checks the hyper-parameters by their types (`pflrepro.checked`).

        An override, for what two of them may be together, calls `super().__post_init__()`, so that a plug-in does not hide its host's.
        """
        check_fields(self)

    @property
    def knows_rounds(self) -> bool:
        """Whether its numbers depend on how many rounds the run has (a schedule over all of them, a last round of its own).

        Where they do not, the first rounds of a longer run are the shorter run, and a run can grow. An override says
        `... or super().knows_rounds`.
        """
        return False

    # ---- once, on the host -------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        """The groups of parameters and who holds them; `setup.parts` has `base` and `head`, both shared."""
        return dict(setup.parts)

    def init_server(self, setup: Setup) -> Tree:
        """The server's state before round 0; default: all groups of the layout that are not personal or received."""
        at_server = {
            name: part.params for name, part in setup.parts.items() if part.kind not in ("personal", "received")
        }
        return Tree(params=Tree(at_server))

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        """One client's persistent state before round 0; default: its personal groups.

        What is put under `slot` belongs to the places in the cohort instead: whoever has place k in a round finds and leaves it.
        """
        return Tree(params=Tree({name: part.params for name, part in setup.parts.items() if part.kind == "personal"}))

    def prologue(self) -> Method | None:
        """A method that runs for a round of all clients before round 0, on the same server state; its draws are keyed apart."""
        return None

    # ---- each round, on the host -------------------------------------------------------------------------------------------
    def supply(self, source: Source, t: int) -> Tree | None:
        """Data that all clients are given at the start of round `t`, as `common.supplied`; None: what they were given last.

        Decided by `source` and `t` alone: it is not part of a checkpoint, a resumed run asks again.
        """
        return None

    def phases(self, clock: Clock) -> list[Phase]:
        """The phases of round `clock.t`, in order; default: one pass of local training."""
        return [Phase()]

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        """What the clients of `cohort` receive: `common` (one copy for all) and `own` (a row a client).

        A row a client: `cohort.id`, `.n`, `.p`, `.counts`, `.slot` (its place 0..m-1 among them, assigned anew every round);
        a number: N, `.N`.
        """
        return Tree(params=server.params), Tree()

    def received(self, common: Tree, own: Tree) -> Tree:
        """What one client takes of what `send` gave, for counting; default: all of `common` and its row `own`."""
        return Tree(common=common, own=own)

    def serve(self, server: Tree, uploads: Tree, batch: Tree, cohort: Tree, ctx: Context) -> Tree:
        """One step of a server phase (only called where `phases` has one); what changed in `server`."""
        return Tree()

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        """What changed in `server`. `uploads` has a row a client of the cohort (`send` lists its entries)."""
        return Tree(params=uploads.params.mix(cohort.p))

    # ---- for one client, on the device -------------------------------------------------------------------------------------
    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        """The parameters that are tested before local training; default: the shared and frozen groups received, the own rest."""
        received = ctx.pick(common.params, "shared", "frozen")
        return received | client.get("params", Tree()) | own.get("params", Tree())

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        """`local`, the working state at the start of the round; its keys stay the same within a phase."""
        return Tree(params=self.model(common, own, client, ctx))

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        """One (transformed) batch of local training; what changed in `local`."""
        grads, local = self.gradient(local.params, local, batch, ctx)
        return local | ctx.descend(local, self.correct(grads, local, ctx))

    def gradient(self, params: Tree, local: Tree, batch: Tree, ctx: Context, role: str = "shared") -> tuple[Tree, Tree]:
        """(d loss / d the groups of `params` that train, `local` with what the loss keeps).

        `role` tells plug-ins whose parameters these are, and names the running statistics that are read and updated. The losses of
        the `recorded` role are summed up in `local.seen`, for the history.
        """
        statistics = local.get("buffers", Tree()).get(role, Tree())
        ctx = ctx.at(role=role, buffers=statistics, training=True)

        def objective(trained: Tree) -> tuple[Tensor, Tree]:
            value, out = _checked(self, self.loss(params | trained, local, batch, ctx))
            return value, out.only(("keep", "buffers")) | Tree(objective=value, fit=out.get("fit", value))

        grads, out = ctx.differentiate(objective, ctx.trainable(params))
        local = local | out.get("keep", Tree())
        if out.get("buffers"):
            local = local | Tree(buffers=Tree({role: out.buffers}))
        if "seen" in local and role == (self.recorded or self.roles[-1]):
            seen = local.seen
            sums = {name: seen[name] + out[name] for name in ("objective", "fit")}
            local = local | Tree(seen=Tree(**sums, gradients=seen.gradients + 1))
        return grads, local

    def transform(self, batch: Tree, ctx: Context) -> Tree:
        """The batch as every `step` gets it; Mixup adds `partner` labels, their `share` and the samples as they were, `unmixed`."""
        return batch

    def embed(self, params: Tree, z: Tensor, ctx: Context) -> Tensor:
        """What stands between base and head: z [B, K] -> the head's input."""
        return z

    def forward(self, params: Tree, x: Tensor, ctx: Context) -> Tree:
        """`z` [B, K] of the base, `logits` [B, C] of the head, and the statistics after the call as `buffers`."""
        read = ctx.buffers
        training = {group: ctx.training and ctx.trains(group) for group in ("base", "head")}
        z, base = ctx.task.base(params.base, read.get("base", Tree()), x, training["base"], ctx.key)
        head_input = self.embed(params, z, ctx)
        logits, head = ctx.task.head(params.head, read.get("head", Tree()), head_input, training["head"], ctx.key)
        after = Tree({name: value for name, value in (("base", base), ("head", head)) if value})
        return Tree(z=z, logits=logits, buffers=after)

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        """The local objective and `out`: `z`, `logits`, `fit`, and `keep`, the entries that replace those of `local`.

        `fit` is the cross-entropy by itself, which what a method adds to the objective leaves as it is: both go into the history.
        """
        out = self.forward(params, batch.x, ctx)
        value = cross_entropy(out.logits, batch)
        return value, out | Tree(fit=value)

    def correct(self, grads: Tree, local: Tree, ctx: Context) -> Tree:
        """The gradient that the optimiser uses (SCAFFOLD adds c - c_i)."""
        return grads

    def observe(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        """One batch's sums in a scan pass (only called where `phases` has one)."""
        return Tree()

    def leave(self, local: Tree, sums: Tree, ctx: Context) -> Tree:
        """What changed in `local` at the end of a phase; `sums` are those of a scan pass."""
        return Tree()

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        """(what changed in `client`, the upload) at the end of the round."""
        return Tree(params=ctx.pick(local.params, "personal")), Tree(params=ctx.pick(local.params, "shared"))

    def trained(self, local: Tree, ctx: Context) -> Tree:
        """The parameters that are tested after local training."""
        return local.params

    def notes(self, local: Tree, client: Tree, ctx: Context) -> Tree:
        """What of `local` is worth a look behind the adaptation before a test: coefficients that were found, say; default: nothing.

        Read by `pflrepro.simulation.inspection.notes` alone; no number of a run depends on it.
        """
        return Tree()

    def predict(self, params: Tree, x: Tensor, ctx: Context) -> Tensor:
        """Scores [B, C], the largest wins; from `params` and `ctx.info` alone."""
        return self.forward(params, x, ctx).logits


def _refuse_state(method: Method, name: str, value: Any) -> None:
    """What is set on a method would be one for all seeds and all clients, and no checkpoint would have it."""
    raise UserError(
        f"{type(method).__name__}.{name} cannot be set: a method has its options and keeps nothing; what changes from round to round "
        "is an entry of init_server or init_client"
    )


Method.__setattr__ = _refuse_state
