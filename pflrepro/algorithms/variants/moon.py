"""MOON as FedBR's tables have it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from pflrepro.algorithms.moon import Moon
from pflrepro.algorithms.phases import Part
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import UserError
from pflrepro.models.layers import is_linear, perceptron
from pflrepro.trees import Tree

_OUTPUTS = 128  # of the projection


@dataclass(frozen=True)
class FedBRMoon(Moon):
    """MOON with a projection of two layers, K -> 256 -> 128 [BR], from which the head reads and whose outputs are compared.

    The base of z_p's model stays the initial one for ever, only the projection is the client's last one [BR-code, by a slip]; so
    there is a contrast in a client's first round too. The head is one linear layer; for its new input it starts anew.
    """

    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = super().layout(setup)
        projector = Part("shared", setup.perceptron("moon", (setup.features, 256, _OUTPUTS)))
        return parts | {"projector": projector, "head": _fitted(parts["head"], setup)}

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        first = setup.parts["projector"].params
        return super().init_client(setup, info) | Tree(previous=Tree(projector=first))

    def embed(self, params: Tree, z: Tensor, ctx: Context) -> Tensor:
        return super().embed(params, self.compared(params, z), ctx)

    def compared(self, params: Tree, z: Tensor) -> Tensor:
        """The projection [B, 128] of the features z [B, K]."""
        return perceptron(params.projector, z)

    def weight(self, ctx: Context) -> float:
        return self.mu

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | Tree(previous=client.previous.only(["base"])), upload


def _fitted(head: Part, setup: Setup) -> Part:
    """A linear head for the projection's outputs: as it is if it fits, else with new initial weights."""
    params = head.params
    if not is_linear(params):
        names = ", ".join(params.flat())
        raise UserError(f"MOON's projection needs a head that is one linear layer, not one with {names}")
    if params.weight.shape[1] == _OUTPUTS:
        return head
    bias = "bias" in params
    return replace(head, params=setup.module("moon/head", lambda: nn.Linear(_OUTPUTS, setup.classes, bias=bias)))
