"""Networks by name; `build_model` gives one with its seeded initial weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pflrepro.errors import unknown

if TYPE_CHECKING:
    from pflrepro.models.split import SplitModel


@dataclass(frozen=True)
class ModelEntry:
    """A registered network: its name, one line about it, the inputs it takes."""

    name: str
    title: str
    inputs: str
    builder: str
    options: tuple[tuple[str, object], ...] = ()


MODELS = {
    entry.name: entry
    for entry in (
        ModelEntry("mlp", "one hidden layer of 32", "any", "mlp"),
        ModelEntry("cnn4", "the papers' four-layer CNN", "images of 16x16 and more", "cnn4"),
        ModelEntry("cnn-digits", "two small convolutions, for the 8x8 digits", "images of 8x8 and more", "cnn_digits"),
        ModelEntry(
            "cnn-digits-bn", "cnn-digits with batch norm", "images of 8x8 and more", "cnn_digits", (("norm", True),)
        ),
    )
}


def build_model(name: str, shape: tuple[int, ...], classes: int, seed: int) -> SplitModel:
    """The network `name` for inputs of `shape` and `classes` logits, PyTorch's default initialisation drawn from `seed`.

    Raises `UserError` for an unknown name or a shape that the network does not take.
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    from pflrepro.models import networks
    from pflrepro.models.initialise import seeded

    entry = MODELS[name]
    return seeded(
        seed, "weights/model", partial(getattr(networks, entry.builder), shape, classes, **dict(entry.options))
    )
