"""One colour and marker a method, the same in every picture; a picture's own method strong, the others muted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pflrepro.algorithms.registry import plain_parts
from pflrepro.style import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PALETTE, PURPLE, SKY, VERMILION, muted

# Colour -> methods with their markers. Methods that one table compares differ in colour as far as eight colours reach, and in the
# marker where they do not; what the papers propose has vermilion, or a blue disc.
_BY_COLOUR = {
    VERMILION: "dbe o, pfedfda s, fedbr ^, grp-fed D",
    BLUE: "gpfl o, fedcm s, mixup ^, fedpac D, apfl X",
    BLACK: "fedavg o, fedprox s, fedavgft v",
    GREY: "local o, feddecorr ^, fedbabu P, per-fedavg <",
    GREEN: "moon o, ditto s, fedfomo d, fedphp >, prbm X",
    PURPLE: "dann o, scaffold s, afl ^, fedrep v, pfedme >",
    ORANGE: "groupdro o, fedgen s, fedper ^, fedntd D, apple p, lg-fedavg <",
    SKY: "vhl o, fedmix s, fedproto ^, fedrod D, q-ffl X, mr v",
}
LOOKS = {
    name: (colour, marker)
    for colour, methods in _BY_COLOUR.items()
    for name, marker in (pair.split() for pair in methods.split(", "))
}
OTHER = (BLACK, "*")  # a method of the user's own


@dataclass(frozen=True)
class Look:
    """How a method is drawn.

    Attributes:
        weight: 1 the picture's own method, 0 its baselines, 0.5 where there are none.
    """

    colour: str
    marker: str
    weight: float = 0.5

    @property
    def ink(self) -> str:
        """The colour, a baseline's muted."""
        return self.colour if self.weight else muted(self.colour)

    @property
    def line(self) -> dict[str, Any]:
        """Matplotlib's settings of a line."""
        return {"color": self.ink, "lw": 0.9 + 0.9 * self.weight, "zorder": 2 + self.weight}


def look(method: str) -> Look:
    """The look of a method by its name; a plug-in's own on FedAvg, on another host its colour with the host's marker.

    Example:
        >>> look("dbe") == look("fedavg+dbe"), look("scaffold+dbe").marker == look("scaffold").marker
        (True, True)
    """
    host, *plugins = plain_parts(method)  # a variant looks as its method
    colour, marker = LOOKS.get(plugins[-1] if plugins else host, OTHER)
    return Look(colour, marker if host == "fedavg" else LOOKS.get(host, OTHER)[1])


def looks(methods: Sequence[str], strong: Collection[int] = ()) -> list[Look]:
    """The looks of a picture's methods, in their order, no two alike: of one that comes several times, the first has its look, or the
    first strong one, and the others get a free marker and colour.

    Args:
        strong: the places of the picture's own methods; without any, or where all are, nothing is muted.
    """
    plain = [look(method) for method in methods]
    pairs = ((colour, marker) for marker in MARKERS for colour in PALETTE)
    free = (Look(*pair) for pair in pairs if Look(*pair) not in plain)
    keeps = {}  # look -> the place that has it
    for place in [*sorted(strong), *range(len(methods))]:
        keeps.setdefault(plain[place], place)
    found = [own if keeps[own] == place else next(free, own) for place, own in enumerate(plain)]
    if 0 < len(set(strong)) < len(methods):
        return [replace(own, weight=float(place in strong)) for place, own in enumerate(found)]
    return found
