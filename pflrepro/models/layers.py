"""Networks as rows of named layers, cut into base and head behind any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.models.inputs import arriving
from pflrepro.models.split import FunctionalModule, SplitModel
from pflrepro.products import linear
from pflrepro.trees import Tree

Plan = dict[str, list[nn.Module]]  # layer name -> its modules, in the order of the forward pass; the last is LOGITS
LOGITS = "logits"


class Layers(nn.Sequential):
    """`nn.Sequential` that knows where its named layers end; `before` belongs to no layer."""

    def __init__(self, layers: Mapping[str, Sequence[nn.Module]], before: Iterable[nn.Module] = ()) -> None:
        modules, ends = list(before), {}
        for name, row in layers.items():
            modules += row
            ends[len(modules) - 1] = name
        super().__init__(*modules)
        self.ends = ends

    def outputs(self, x: Tensor) -> dict[str, Tensor]:
        """The output of each layer."""
        found = {}
        for index, module in enumerate(self):
            x = module(x)
            if index in self.ends:
                found[self.ends[index]] = x
        return found


class GlobalAverage(nn.Module):
    """The mean over all positions: [B, C, ...] -> [B, C]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).mean(2)


class Reshape(nn.Module):
    """[B, ...] -> [B, *shape], the same numbers in the same order."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).unflatten(1, self.shape)


def dense(sizes: Sequence[int]) -> Plan:
    """Linear layers with ReLU between `sizes`: {"fc1": [Linear, ReLU], ...}."""
    pairs = enumerate(pairwise(sizes), start=1)
    return {f"fc{k}": [nn.Linear(incoming, outgoing), nn.ReLU()] for k, (incoming, outgoing) in pairs}


def perceptron(params: Tree, x: Tensor) -> Tensor:
    """Linear layers with ReLU between them: x [B, K] -> the output of the last layer; x itself without a layer.

    Args:
        params: `weight` and `bias` of every layer, as `first.weight` or in a tree a layer; layers in the order of their names.
    """
    leaves = list(params.leaves())
    for k, (bias, weight) in enumerate(zip(leaves[::2], leaves[1::2], strict=True)):
        x = linear(F.relu(x) if k else x, weight, bias)
    return x


def is_linear(params: Tree) -> bool:
    """Whether these are the parameters of one linear layer."""
    return params.keys() <= {"weight", "bias"} and "weight" in params and params.weight.ndim == 2


def assemble(plan: Plan, split: str, shape: tuple[int, ...]) -> SplitModel:
    """The network of `plan` for samples of stored `shape`, with the layers up to and with `split` as its base.

    z is a vector: a base that ends in a feature map is followed by Flatten, and its head starts with Unflatten. A head of one
    module is that module itself.
    """
    names = list(plan)
    cut = names.index(split) + 1
    base = Layers({name: plan[name] for name in names[:cut]})
    z = output_shape(base, arriving(shape))
    rest = {name: plan[name] for name in names[cut:]}
    first = rest[names[cut]][0]
    before = []
    if len(z) > 1:
        base.append(nn.Flatten())
        if not isinstance(first, nn.Flatten):
            before = [nn.Unflatten(1, z)]
    head = Layers(rest, before)
    return SplitModel(base, head[0] if len(head) == 1 else head, torch.Size(z).numel())


def output_shape(module: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one output for inputs of `shape`, in evaluation mode: nothing is drawn, no running statistics move.

    By computing it: on the meta device, which needs no numbers, ReLU and others import PyTorch's compiler, which takes seconds.
    """
    training = module.training
    with torch.no_grad():
        found = module.eval()(torch.zeros(1, *shape)).shape[1:]
    module.train(training)
    return tuple(found)


class _Recorder(nn.Module):
    """A part of a network whose output is that of each of its layers."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        found = self.part.outputs(x) if isinstance(self.part, Layers) else {LOGITS: self.part(x)}
        return found, list(found.values())[-1]


def layer_outputs(
    network: SplitModel,
    params: Tree,
    buffers: Tree,
    x: Tensor,
    at_split: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Tensor]:
    """What every layer of a network gives for the samples `x` [n, ...] in evaluation mode, by name, from the first to "logits".

    Each is behind the layer's non-linearity and pooling [DBE], in the layer's own shape [n, ...] (a probe takes `.flatten(1)`).

    Args:
        network: from `build_model`.
        params, buffers: trees with the entries `base` and `head` (`buffers` may lack them where there are no running statistics),
            as a method or `parameters_of` gives them; x in the same number type.
        at_split: applied to z [n, K] before the head sees it (DBE's z^g + zbar^p); the entry of the split's layer stays z^g.

    Example:
        >>> from pflrepro.models import build_model
        >>> from pflrepro.models.split import parameters_of
        >>> network = build_model("cnn4@conv2", (28, 28), 10, seed=0)
        >>> params = Tree(base=parameters_of(network.base), head=parameters_of(network.head))
        >>> {name: tuple(z.shape) for name, z in layer_outputs(network, params, Tree(), torch.zeros(3, 1, 28, 28)).items()}
        {'conv1': (3, 32, 12, 12), 'conv2': (3, 64, 4, 4), 'fc1': (3, 512), 'logits': (3, 10)}
    """

    def run(part: str, z: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        function = FunctionalModule(_Recorder(getattr(network, part)))
        trees = (params[part], buffers.get(part, Tree()))
        return function(*(Tree({f"part.{k}": v for k, v in tree.items()}) for tree in trees), z, False)[0]

    found, z = run("base", x)
    z = z.flatten(1)
    return found | run("head", z if at_split is None else at_split(z))[0]
