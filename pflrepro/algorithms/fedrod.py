"""FedRoD (Chen and Chao, ICLR 2022): a generic head by balanced softmax, a personal head on top of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, cross_entropy
from pflrepro.algorithms.loader import counts_of_full_batches
from pflrepro.algorithms.phases import Part
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import UserError, check_range, check_word
from pflrepro.models.layers import perceptron
from pflrepro.trees import Tree

_ABSENT = -1e9  # stands for log 0: its softmax share is 0, and it is finite


@dataclass(frozen=True)
class FedRoD(Method):
    """FedRoD: base and generic head psi learn a class-balanced task, the personal head h_i what the client's classes add to it.

    l_g = CE(psi(z) + log n_i, y), n_i the client's class counts, trains base and psi; l_p = CE(sg psi(z) + h_i(sg z), y) trains
    h_i. Their parameters do not meet, so that one step on l_g + l_p is both steps from the same z. Base and psi are averaged with
    p_i, h_i stays at home. Mean regularisation acts on l_g alone, the only loss that trains the base [inferred].
    Tested: psi(z) + h_i(z) with the received base and psi.

    Attributes:
        start: h_i starts as a `copy` of psi [LIB], so that first answers are those of psi twice as sure, or at `zero`.
        personal_head: `own`; or `hypernetwork`, the paper's variant: h_i = H(n_i / sum n_i), all weights of a head from the class
            shares, H two linear layers with ReLU between, trained by l_p and averaged with p_i; nothing stays at home.
        counts: n_i is taken over `all` training samples, or over the full `batches` of one pass, drawn once [LIB], which can miss a
            class.
        hyper_width: of H's hidden layer; 32 [recalled: FL-bench; the paper's is not known here].
    """

    start: str = "copy"
    personal_head: str = "own"
    counts: str = "all"
    hyper_width: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("start of FedRoD's personal head", self.start, ("copy", "zero"))
        check_word("personal_head of FedRoD", self.personal_head, ("own", "hypernetwork"))
        check_word("counts of FedRoD", self.counts, ("all", "batches"))
        check_range("hyper_width of FedRoD", self.hyper_width, 1, integer=True)

    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = super().layout(setup)
        if self.personal_head == "hypernetwork":
            return parts | {"hypernetwork": Part("shared", self.hypernetwork(setup, parts["head"]))}
        personal = replace(parts["head"], kind="personal")
        if self.start == "zero":
            personal = replace(personal, params=personal.params.map(torch.zeros_like))
        return parts | {"personal_head": personal}

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        client = super().init_client(setup, info)
        return (
            client | Tree(n=counts_of_full_batches(setup, info, "fedrod/counts"))
            if self.counts == "batches"
            else client
        )

    def forward(self, params: Tree, x: Tensor, ctx: Context) -> Tree:
        """As everywhere, with `added` [B, C], the scores of the personal head, from features that carry no gradient."""
        out = super().forward(params, x, ctx)
        features = self.embed(params, out.z, ctx).detach()
        head = self.head_of(params, ctx)
        training = ctx.training and "personal_head" in params and ctx.trains("personal_head")
        statistics = ctx.buffers.get("personal_head", Tree())
        added, after = ctx.task.head(head, statistics, features, training, ctx.key)
        return out | Tree(added=added, buffers=Tree(personal_head=after) if after else Tree())

    def hypernetwork(self, setup: Setup, head: Part) -> Tree:
        """H's initial weights; `UserError` for a head with norm layers, whose statistics it has no place for."""
        if head.buffers:
            raise UserError(
                "FedRoD's hypernetwork makes heads without norm layers, and this network's has some: use own"
            )
        return setup.perceptron("fedrod", (setup.classes, self.hyper_width, head.params.size()))

    def head_of(self, params: Tree, ctx: Context) -> Tree:
        """h_i: the client's own, or made by the hypernetwork."""
        if "personal_head" in params:
            return params.personal_head
        shares = ctx.info.counts.to(ctx.scalars.rate) / ctx.info.n.clamp(min=1)
        leaves = list(params.head.leaves())
        flat = perceptron(params.hypernetwork, shares[None])[0].split([leaf.numel() for leaf in leaves])
        return params.head.refill(piece.view(leaf.shape) for piece, leaf in zip(flat, leaves, strict=True))

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        out = self.forward(params, batch.x, ctx)
        counts = ctx.info.counts if self.counts == "all" else ctx.client.n
        generic = cross_entropy(out.logits + log_counts(counts, out.logits.dtype), batch)
        own = cross_entropy(out.logits.detach() + out.added, batch)
        return generic + own, out | Tree(fit=own)

    def predict(self, params: Tree, x: Tensor, ctx: Context) -> Tensor:
        out = self.forward(params, x, ctx)
        return out.logits + out.added


def log_counts(counts: Tensor, dtype: torch.dtype) -> Tensor:
    """log n_c [C], -1e9 for a class without samples."""
    return torch.where(counts > 0, counts.to(dtype).clamp(min=1).log(), _ABSENT)
