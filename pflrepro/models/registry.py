"""Networks by name, with what they take and where they can be cut; nothing here loads a framework."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from pflrepro.errors import UserError, check_word, unknown
from pflrepro.models.inputs import Inputs
from pflrepro.models.own import check_cut, check_logits, is_own, own_function, own_plan

if TYPE_CHECKING:
    from pflrepro.models.layers import Plan
    from pflrepro.models.split import SplitModel

_LENET = ("conv1", "conv2", "fc1")
_RESNET18 = ("conv", "b1", "b2", "b3", "b4", "pool")
_CIFAR = ("conv", "b1", "b2", "b3", "pool")
_CCT = ("tokens", *(f"block{k}" for k in range(1, 8)), "pool")


@dataclass(frozen=True)
class ModelEntry:
    """A registered network.

    Attributes:
        name, title: its name and one line about it.
        takes: the samples it takes, `inputs` in words.
        splits: the layers behind which base and head can be divided, all but the last.
        split: where they are by default.
        builder: "module:function" under `pflrepro.models`, or of one's own (see `models.own`)
        options: what the function gets besides shape and classes.
        start: how initial weights are drawn, one of `STARTS`.
    """

    name: str
    title: str
    takes: Inputs
    splits: tuple[str, ...]
    split: str
    builder: str
    options: tuple[tuple[str, object], ...] = ()
    start: str = ""

    @property
    def inputs(self) -> str:
        """The samples it takes, in words."""
        return str(self.takes)

    def plan(self, shape: tuple[int, ...], classes: int) -> Plan:
        """Its named layers with fresh weights; draws from the global generator."""
        if is_own(self.name):
            plan = own_plan(self.name, shape, classes)
        else:
            module, _, function = self.builder.partition(":")
            build = getattr(import_module(f"pflrepro.models.{module}"), function)
            plan = build(shape, classes, **dict(self.options))
        if self.start == "he":
            from pflrepro.models.initialise import draw_as_he

            draw_as_he(plan)
        return plan


def _entry(
    name: str,
    title: str,
    takes: tuple[str, int],
    splits: tuple[str, ...],
    builder: str,
    split: str = "",
    **options: object,
) -> ModelEntry:
    return ModelEntry(name, title, Inputs(*takes), splits, split or splits[-1], builder, tuple(options.items()))


def _resnet18(name: str, title: str, least: int, **options: object) -> ModelEntry:
    return _entry(name, title, ("image", least), _RESNET18, "residual:resnet18", **options)


_ENTRIES = (
    _entry("mlp", "one hidden layer of 32", ("any", 1), ("fc1",), "networks:mlp"),
    _entry("cnn4", "the papers' four-layer CNN", ("image", 16), _LENET, "networks:cnn4"),
    _entry("cnn-digits", "two small convolutions, for the 8x8 digits", ("image", 8), _LENET, "networks:cnn_digits"),
    _entry("cnn-digits-bn", "cnn-digits with batch norm", ("image", 8), _LENET, "networks:cnn_digits", norm=True),
    _entry(
        "mlp3",
        "hidden layers of 1000, 500, 100, for Amazon Review",
        ("any", 1),
        ("fc1", "fc2", "fc3"),
        "networks:mlp",
        hidden=(1000, 500, 100),
    ),
    _entry(
        "fedpac-cnn4",
        "FedPAC's 4-layer CNN (pFedFDA: EMNIST)",
        ("image", 12),
        _LENET,
        "networks:fedpac",
        convolutions=2,
    ),
    _entry(
        "fedpac-cnn5",
        "FedPAC's 5-layer CNN (pFedFDA: CIFAR, Digit-5)",
        ("image", 16),
        ("conv1", "conv2", "conv3", "fc1"),
        "networks:fedpac",
        convolutions=3,
    ),
    _entry(
        "domainbed-cnn",
        "DomainBed's MNIST network with group norm (FedBR: RotatedMNIST)",
        ("image", 4),
        ("conv1", "conv2", "conv3", "conv4", "pool"),
        "networks:domainbed_cnn",
    ),
    _entry(
        "vgg11",
        "VGG11 without batch norm (FedBR: CIFAR-10, PACS)",
        ("image", 32),
        (*(f"conv{k}" for k in range(1, 9)), "pool"),
        "networks:vgg11",
    ),
    _resnet18("resnet18", "ResNet-18 with batch norm, as torchvision's (DBE, GPFL: Tiny-ImageNet)", 32),
    _resnet18("resnet18-small", "ResNet-18 with a 3x3 stem and no first pooling", 8, stem="small"),
    _resnet18("resnet18-gn", "ResNet-18 with group norm, 32 channels a group", 32, norm="each:32"),
    _resnet18("resnet18-gn-small", "resnet18-gn with a 3x3 stem and no first pooling", 8, norm="each:32", stem="small"),
    _resnet18("pfedfda-resnet18", "resnet18-gn with one scale and shift a group (pFedFDA)", 32, norm="shared:32"),
    _entry(
        "resnet30",
        "GRP-FED's ResNet-30 read as 30 convolutions in blocks",
        ("image", 8),
        (*_CIFAR, "fc1"),
        "residual:resnet_cifar",
        "pool",
        blocks=(5, 5, 5),
    ),
    _entry(
        "resnet20-gn",
        "ResNet-20 for CIFAR with group norm (in FedBR's code)",
        ("image", 8),
        _CIFAR,
        "residual:resnet_cifar",
        blocks=(3, 3, 3),
        norm="groups:2",
        hidden=False,
    ),
    _entry(
        "ecg-resnet",
        "GRP-FED's 5-layer 1-D ResNet (MIT-BIH)",
        ("signal", 8),
        ("conv", "b1", "b2", "pool", "fc1"),
        "residual:resnet_ecg",
        "pool",
    ),
    _entry("cct-7-3x1", "compact convolutional transformer (FedBR: CIFAR-100)", ("image", 8), _CCT, "transformer:cct"),
    _entry(
        "fasttext", "fastText, mean over all positions (AG News)", ("tokens", 1), ("embedding", "fc1"), "text:fasttext"
    ),
    _entry(
        "har-cnn",
        "the papers' CNN for human activities; its head is the whole dense block",
        ("signal", 28),
        ("conv1", "conv2", "fc1", "fc2"),
        "networks:har_cnn",
        "conv2",
    ),
)
MODELS = {entry.name: entry for entry in _ENTRIES}
STARTS = ("he",)


def find(name: str) -> tuple[ModelEntry, str]:
    """(entry, split) of a model name such as `cnn4`, `cnn4@conv2` or `cnn4+he@conv2`; `UserError` with the valid ones if there is none.

    `+he`: all weights of convolutions and linear layers from N(0, 2 / inputs of a unit), biases 0, in place of what the network
    starts with by itself.
    """
    if not isinstance(name, str):
        raise unknown("model", name, MODELS)
    model, at, split = name.partition("@")
    model, plus, start = model.partition("+")
    if is_own(model):
        own_function(model)  # refused here where there is none
        entry = ModelEntry(model, "a network of one's own", Inputs("any"), (), "", model)
    elif model not in MODELS:
        raise unknown("model", model, MODELS, "a network of your own: module:function")
    else:
        entry = MODELS[model]
    if plus:
        entry = replace(entry, start=check_word(f"start of {model}", start, STARTS))
    if at and not is_own(model):  # of one's own layers are known once it is built
        check_word(f"split of {model}", split, entry.splits)
    return entry, split or entry.split


def canonical(name: str) -> str:
    """The one spelling of a model name: without a split that is the model's own. `UserError` for an unknown one."""
    entry, split = find(name)
    plain = f"{entry.name}+{entry.start}" if entry.start else entry.name
    return plain if split == entry.split else f"{plain}@{split}"


def splits(name: str) -> tuple[str, ...]:
    """The layers behind which the model `name` can be divided into base and head, as in `cnn4@conv2`."""
    return find(name)[0].splits


def check_shape(name: str, shape: tuple[int, ...]) -> ModelEntry:
    """The entry of `name`; `UserError` if the model does not take samples of `shape`, naming those that do."""
    entry, _ = find(name)
    if not shape:
        raise UserError(
            "each sample is a single number (shape []), which no network takes; x[:, None] gives each the shape [1]"
        )
    if not entry.takes.fit(tuple(shape)):
        others = [other.name for other in MODELS.values() if other.takes.fit(tuple(shape))]
        raise UserError(
            f"{entry.name} takes {entry.inputs}, not samples of shape {list(shape)}; "
            f"models that take these: {', '.join(others) or '(none)'}"
        )
    return entry


def build_model(
    name: str, shape: tuple[int, ...], classes: int, seed: int, purpose: str = "weights/model"
) -> SplitModel:
    """The network `name` for samples of stored `shape` and `classes` logits, with initial weights drawn from `seed`.

    `purpose` names the stream of the seed. The numbers depend on the network, not on where it is split (`cnn4@conv2`).
    Raises `UserError` for an unknown name or split, or a shape that the network does not take. `module:function` names one's own, see
    `models.own`.

    Example:
        >>> network = build_model("cnn4", (1, 28, 28), 10, seed=0)
        >>> network.features, tuple(network.head.state_dict()["weight"].shape)
        (512, (10, 512))
    """
    from pflrepro.models.initialise import seeded
    from pflrepro.models.layers import assemble

    entry, split = check_shape(name, shape), find(name)[1]
    plan = seeded(seed, purpose, partial(entry.plan, tuple(shape), classes))
    if is_own(name):
        *layers, _ = plan
        split = check_word(f"split of {entry.name}", split or layers[-1], layers)
        check_cut(entry.name, plan, split)
        check_logits(entry.name, plan, tuple(shape), classes)
    return assemble(plan, split, tuple(shape))
