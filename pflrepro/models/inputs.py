"""Which samples a network takes: checked before anything is built, without a framework."""

from __future__ import annotations

from dataclasses import dataclass

_FORMS = {
    "image": "images [H, W] or [C, H, W]",
    "signal": "signals [L], [C, L] or [C, 1, L] with C < L",
    "tokens": "texts of [L] token ids",
    "any": "any shape",
}


@dataclass(frozen=True)
class Inputs:
    """A kind of sample (`image`, `signal`, `tokens`, `any`) and the least side of an image or length of a signal."""

    kind: str
    least: int = 1

    def __str__(self) -> str:
        more = {"image": f" of {self.least}x{self.least} and more", "signal": f" and L >= {self.least}"}
        return _FORMS[self.kind] + more.get(self.kind, "")

    def fit(self, shape: tuple[int, ...]) -> bool:
        """Whether samples of `shape` are taken."""
        if not shape or min(shape) < 1:
            return False
        if self.kind == "image":
            return len(shape) in (2, 3) and min(shape[-2:]) >= self.least
        if self.kind == "signal":
            middle = len(shape) < 3 or shape[1] == 1
            return len(shape) <= 3 and middle and shape[-1] >= self.least and (len(shape) == 1 or shape[0] < shape[-1])
        return self.kind == "any" or len(shape) == 1


def arriving(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one sample in a batch: a stored [H, W] gets a channel dimension, as in `Federation.batch`."""
    return (1, *shape) if len(shape) == 2 else tuple(shape)


def image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width) of an image [H, W] or [C, H, W]."""
    channels, height, width = arriving(shape)
    return channels, height, width


def signal(shape: tuple[int, ...]) -> tuple[int, int]:
    """(channels, length) of a signal [L], [C, L] or [C, 1, L]."""
    return (1 if len(shape) == 1 else shape[0]), shape[-1]
