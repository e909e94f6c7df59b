"""VHL (Tang et al., ICML 2022): all clients share labelled virtual images, and align their features with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.algorithms.contract import Method, below, by_label, mean
from pflrepro.algorithms.phases import Clock, Draw, Part, Phase
from pflrepro.algorithms.task import Context, Setup, Source
from pflrepro.errors import UserError, check_range, check_word
from pflrepro.models.layers import is_linear
from pflrepro.models.stylegan2 import class_images
from pflrepro.trees import Tree

_APART = -1e9  # the logit of a pair that does not count: exp gives exactly 0, and it is finite
_MEAN, _STD = 0.5, 0.25  # of the virtual images, which have a normalisation of their own [BR-code]


@dataclass(frozen=True)
class VHL(Method):
    """VHL: CE(real) + alpha CE(virtual) + gamma SupCon(real and sg virtual) + 0.1 SupCon(virtual), FedAvg otherwise.

    Virtual images come from an untrained StyleGAN-v2, one latent distribution a class (`pflrepro.models.stylegan2`), as many of each
    class; cropped at random after padding by 4, and flipped, once when the set is made (in both released codes whenever one is
    taken). Every step draws `virtual_batch` of them with replacement.

    SupCon of samples a, unit features u, temperature tau: -(1/|P(a)|) sum_{p in P(a)} log(e^{u_a u_p / tau} / sum_q e^{u_a u_q / tau}),
    q all others, P(a) those of them with the class of a; 0 where there are none, mean over all samples. The first one, L_align, is
    taken over the whole batch, B real samples and V detached virtual ones, all of them anchors [off, BR-code]; the second among the
    virtual ones alone. Running statistics are those of the real samples as they are trained on.
    As in FedBR's port: classes=shared, compare=logits, positives=kind, align_epochs=0.

    Tested: w, the first C outputs.

    Attributes:
        classes: `extra`: virtual classes are C further classes, the linear head has 2C outputs [off]; recommended, since what the
            port in FedBR's release makes of it is an accident. `shared`: virtual class c is real class c [BR-code: no further outputs].
        compare: what is aligned: `features` [off] or `logits` [BR-code].
        virtual_samples: 2000 (CIFAR10, RotatedMNIST; CIFAR100: 20000) [BR].
        virtual_batch: 32 [BR]; 128 [off].
        common_draws: a step's virtual batch is drawn once for all clients of the cohort [BR-code], or each draws its own.
        virtual_weight: alpha; 1 [BR].
        align_weight: gamma; 1 [off, BR-code].
        positives: P(a) in L_align: `all` of its class [off], or those of its own `kind`, real or virtual [BR-code, which lowers virtual
            labels by C although they were not raised]: real samples then attract real ones and are pushed from all virtual ones.
        align_epochs: both SupCon terms count in the first so many local epochs of a round, 5 [off]; 0: in all [BR-code]. With a
            fixed number of steps an epoch is as many steps as draw n_i samples [inferred].
        aligned: of a mixed batch (Mixup) L_align takes the features of the `mixed` samples, by share with both classes, or of the
            `unmixed` ones [BR-code], which costs one more pass.
        cluster_weight: of SupCon(virtual); 0.1 [off, BR-code].
        supcon_temperature: tau; 0.07 [off, BR-code].
    """

    large_supply: ClassVar[bool] = True
    revision: ClassVar[int] = 3  # 2: the limit of the alignment; 3: the alignment over the whole batch

    classes: str = "extra"
    compare: str = "features"
    virtual_samples: int = 2000
    virtual_batch: int = 32
    virtual_weight: float = 1.0
    align_weight: float = 1.0
    positives: str = "all"
    align_epochs: int = 5
    aligned: str = "mixed"
    cluster_weight: float = 0.1
    supcon_temperature: float = 0.07
    common_draws: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("classes of VHL", self.classes, ("extra", "shared"))
        check_word("compare of VHL", self.compare, ("features", "logits"))
        check_word("positives of VHL", self.positives, ("all", "kind"))
        check_word("aligned of VHL", self.aligned, ("mixed", "unmixed"))
        check_range("VHL's align_epochs", self.align_epochs, 0, integer=True)
        for option in ("virtual_samples", "virtual_batch"):
            check_range(f"VHL's {option}", getattr(self, option), 1, integer=True)
        for option in ("virtual_weight", "align_weight", "cluster_weight"):
            check_range(f"VHL's {option}", getattr(self, option), 0)
        check_range("VHL's supcon_temperature", self.supcon_temperature, 0, open_low=True)

    # ---- on the host -------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = super().layout(setup)
        if self.classes == "shared":
            return parts
        head = parts["head"].params
        if not is_linear(head):
            raise UserError("VHL's classes=extra needs a head of one linear layer; use classes=shared for this network")
        further = setup.module("vhl/head", lambda: nn.Linear(setup.features, setup.classes, bias="bias" in head))
        wider = head.map(lambda own, more: torch.cat([own, more]), further)
        return parts | {"head": replace(parts["head"], params=wider)}

    def supply(self, source: Source, t: int) -> Tree | None:
        given = super().supply(source, t)
        return given if t > 0 else (given or Tree()) | Tree(virtual=self.virtual_set(source))

    def virtual_set(self, source: Source) -> Tree:
        """`x` [n, *shape] and `y` [n], labels 0..C-1 in turn."""
        if len(source.shape) != 3:
            raise UserError(
                f"VHL draws virtual images [C, H, W]; it has none for samples of shape {list(source.shape)}"
            )
        labels = np.arange(self.virtual_samples) % source.classes
        images = class_images(source.shape, labels, source.generator("vhl"))
        x = source.tensor((augmented(images, source.generator("vhl/augment")) - _MEAN) / _STD)
        return Tree(x=x, y=torch.as_tensor(labels, device=x.device))

    def phases(self, clock: Clock) -> list[Phase]:
        draws = {"virtual": Draw("uniform", (self.virtual_batch,), common=self.common_draws)}
        if self.align_epochs:
            draws["epoch"] = Draw("pass")
        return [phase.drawing(**draws) if phase.local else phase for phase in super().phases(clock)]

    # ---- one client --------------------------------------------------------------------------------------------------------
    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        if "virtual" not in batch:
            return value, out
        held = ctx.common.supplied.virtual
        rows = below(batch.virtual, len(held.y))
        y, virtual = held.y[rows], self.forward(params, held.x[rows], ctx)
        target = y + ctx.task.classes if self.classes == "extra" else y
        value = value + self.virtual_weight * F.cross_entropy(virtual.logits, target)
        seen = "z" if self.compare == "features" else "logits"
        v = F.normalize(virtual[seen], dim=1)
        real, batch_aligned = out, batch
        if self.aligned == "unmixed" and "unmixed" in batch:
            real, batch_aligned = self.forward(params, batch.unmixed, ctx), batch.without(["partner"])
        u = F.normalize(real[seen], dim=1)
        near = by_label(lambda labels: self.align(u, v.detach(), labels, y, batch.mask), batch_aligned)
        cluster = self.supcon(v, y, torch.ones_like(y))
        return value + self.counts(batch) * (self.align_weight * near + self.cluster_weight * cluster), out

    def counts(self, batch: Tree) -> Tensor | float:
        """1 in the epochs in which the features are aligned, 0 in the others."""
        return (batch.epoch < self.align_epochs).to(batch.epoch) if self.align_epochs else 1.0

    def align(self, u: Tensor, v: Tensor, real: Tensor, virtual: Tensor, mask: Tensor) -> Tensor:
        """L_align of unit features u [B, K] of the real samples of `mask`, and v [V, K], with their labels."""
        labels = torch.cat([real, virtual if self.positives == "all" else -1 - virtual])
        return self.supcon(torch.cat([u, v]), labels, torch.cat([mask, torch.ones_like(virtual).to(mask)]))

    def supcon(self, u: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """The supervised contrastive loss of unit features u [A, K], mean over the rows of `mask`, which alone count."""
        others = (mask > 0) & ~torch.eye(len(u), dtype=torch.bool, device=u.device)
        positive = ((labels[:, None] == labels) & others).to(u.dtype)
        logits = torch.where(others, u @ u.T / self.supcon_temperature, _APART)
        weights = positive / positive.sum(1, keepdim=True).clamp(min=1)
        return mean(-(weights * logits.log_softmax(1)).sum(1), Tree(mask=mask))

    def predict(self, params: Tree, x: Tensor, ctx: Context) -> Tensor:
        return super().predict(params, x, ctx)[:, : ctx.task.classes]


def augmented(images: Tensor, draw: np.random.Generator, padding: int = 4) -> Tensor:
    """Each image [n, C, H, W] cropped at random after padding with zeros, and flipped left to right half of the time."""
    count, _, height, width = images.shape
    padded = F.pad(images, [padding] * 4)
    corners, flips = draw.integers(2 * padding + 1, size=(count, 2)), draw.random(count) < 0.5
    crops = [padded[k, :, top : top + height, left : left + width] for k, (top, left) in enumerate(corners.tolist())]
    return torch.stack([crop.flip(-1) if flip else crop for crop, flip in zip(crops, flips.tolist(), strict=True)])
