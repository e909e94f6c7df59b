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
from pflrepro.checked import AtLeastOne, Count, NonNegative, Positive
from pflrepro.errors import UserError
from pflrepro.models.layers import is_linear
from pflrepro.models.stylegan2 import class_images
from pflrepro.trees import Tree

_APART = -1e9  # the logit of a pair that does not count: exp gives exactly 0, and it is finite
_MEAN, _STD = 0.5, 0.25  # of the virtual images, which have a normalisation of their own [BR-code]


@dataclass(frozen=True)
class VHL(Method):
    """VHL: all clients train on the same virtual images besides, and real features are drawn to virtual ones of their class.

        CE(x) + alpha CE(x_v) + gamma SupCon(z, sg(z_v)) + cluster_weight SupCon(z_v)
        SupCon = mean_a(-(1/|P(a)|) sum_{p in P(a)} log(e^{u_a u_p / tau} / sum_{q != a} e^{u_a u_q / tau}))

    Virtual images x_v come from an untrained StyleGAN-v2, one latent distribution a class (`pflrepro.models.stylegan2`), as many of
    each class; cropped at random after padding by 4, and flipped, once when the set is made (in both released codes whenever one is
    taken). Every step draws `virtual_batch` of them with replacement. Their classes are C further ones: the head, one linear layer,
    has 2C outputs [off].

    SupCon: samples a with unit features u_a, P(a) the others of the class of a; 0 where there are none. The first one, L_align, is
    taken over the whole batch, B real samples and V detached virtual ones, all of them anchors [off, BR-code], where virtual class c
    is real class c; of a mixed batch (Mixup) over the mixed samples, by share with both classes. The second is among the virtual ones
    alone. Running statistics are those of the real samples as they are trained on.

    Averaged with p_i. Tested: w, the first C outputs.

    Attributes:
        virtual_samples: 2000 (CIFAR10, RotatedMNIST; CIFAR100: 20000) [BR].
        virtual_batch: 32 [BR]; 128 [off].
        virtual_weight: alpha; 1 [BR].
        align_weight: gamma; 1 [off, BR-code].
        align_epochs: both SupCon terms count in the first so many local epochs of a round, 5 [off]; 0: in all [BR-code]. With a
            fixed number of steps an epoch is as many steps as draw n_i samples [inferred].
        cluster_weight: of SupCon(virtual); 0.1 [off, BR-code].
        supcon_temperature: tau; 0.07 [off, BR-code].
    """

    large_supply: ClassVar[bool] = True
    revision: ClassVar[int] = 3  # 2: the limit of the alignment; 3: the alignment over the whole batch

    virtual_samples: AtLeastOne = 2000
    virtual_batch: AtLeastOne = 32
    virtual_weight: NonNegative = 1.0
    align_weight: NonNegative = 1.0
    align_epochs: Count = 5
    cluster_weight: NonNegative = 0.1
    supcon_temperature: Positive = 0.07

    # ---- on the host -------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = super().layout(setup)
        return parts | {"head": self.head(parts["head"], setup)}

    def head(self, head: Part, setup: Setup) -> Part:
        """The run's head with C outputs more."""
        if not is_linear(head.params):
            raise UserError("VHL's further classes need a head of one linear layer; vhl/fedbr takes any")
        bias = "bias" in head.params
        further = setup.module("vhl/head", lambda: nn.Linear(setup.features, setup.classes, bias=bias))
        return replace(head, params=head.params.map(lambda own, more: torch.cat([own, more]), further))

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
        draws = {"virtual": self.draw()} | ({"epoch": Draw("pass")} if self.align_epochs else {})
        return [phase.drawing(**draws) if phase.local else phase for phase in super().phases(clock)]

    def draw(self) -> Draw:
        """The numbers that a step's virtual batch follows from."""
        return Draw("uniform", (self.virtual_batch,))

    # ---- one client --------------------------------------------------------------------------------------------------------
    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, real = super().loss(params, local, batch, ctx)
        if "virtual" not in batch:
            return value, real
        virtual_data = ctx.common.supplied.virtual
        rows = below(batch.virtual, len(virtual_data.y))
        y, virtual = virtual_data.y[rows], self.forward(params, virtual_data.x[rows], ctx)
        value = value + self.virtual_weight * F.cross_entropy(virtual.logits, self.target(y, ctx))
        v = self.unit(virtual)
        near = self.align(params, real, v.detach(), y, batch, ctx)
        cluster = self.supcon(v, y, torch.ones_like(y))
        return value + self.counts(batch) * (self.align_weight * near + self.cluster_weight * cluster), real

    def target(self, y: Tensor, ctx: Context) -> Tensor:
        """The outputs that virtual samples of classes y are to have."""
        return y + ctx.task.classes

    def unit(self, out: Tree) -> Tensor:
        """What is aligned, of length 1: the features [B, K]."""
        return F.normalize(out.z, dim=1)

    def counts(self, batch: Tree) -> Tensor | float:
        """1 in the epochs in which the features are aligned, 0 in the others."""
        return (batch.epoch < self.align_epochs).to(batch.epoch) if self.align_epochs else 1.0

    def align(self, params: Tree, real: Tree, v: Tensor, y: Tensor, batch: Tree, ctx: Context) -> Tensor:
        """L_align of the batch, whose outputs are `real`, and of virtual samples with unit features v [V, K] and classes y."""
        u, mask = self.unit(real), torch.cat([batch.mask, torch.ones_like(y).to(batch.mask)])
        return by_label(lambda labels: self.supcon(torch.cat([u, v]), torch.cat([labels, y]), mask), batch)

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
