"""The learning check: every method of the package on embedded data, five seeds, beside Local.

Not a paper's table. It shows that each method learns under its default options, and which personalised ones fall behind training alone
on 1,797 digits. The labels and names come from the registry, so that a new method is a new row.
"""

from __future__ import annotations

from pflrepro.algorithms.entries import ALGORITHMS, ALIASES, METHOD_PLUGINS, PLUGINS
from pflrepro.papers.artefact import SMOKE, Artefact, Row, column, fast, row
from pflrepro.papers.claims import above
from pflrepro.papers.demo import PRACTICAL
from pflrepro.papers.views.points import Points
from pflrepro.papers.views.table import Table

_ON_DIGITS = {
    "fedavg+dbe": {"kappa": 5.0},  # as in the demo: the papers' 50 is for their CNN
    "fedgen": {"server_steps": 100},  # of 1,000, which would take ten times as long
    # GRP-FED's 10 makes steps so small that 50 rounds stay near the start (docs/learning_check.md)
    "q-ffl": {"q": 0.1},
}
_PERSONALISED = (
    *("fedavgft", "per-fedavg", "pfedme", "ditto", "apfl", "fedphp", "fedper", "fedrep", "lg-fedavg", "fedrod"),
    *("fedbabu", "fedfomo", "apple", "fedpac", "fedproto", "fedavg+dbe", "gpfl", "pfedfda", "grp-fed"),
)
_TITLES = {
    **{name: entry.title for name, entry in ALGORITHMS.items()},
    **{name: f"FedAvg+{PLUGINS[alias].title}" for alias, name in ALIASES.items() if alias in METHOD_PLUGINS},
}


def _row(name: str, label: str) -> Row:
    """A method with its default options, but for those above, which the page names."""
    options = _ON_DIGITS.get(name, {})
    return row(label, name, note=", ".join(f"{option} = {value:g}" for option, value in options.items()), **options)


METHODS = Artefact(
    "results/methods",
    "Learning check: all methods on digits",
    rows=tuple(_row(name, label) for name, label in _TITLES.items()),
    columns=(column("practical/digits", PRACTICAL),),
    scales=(SMOKE, fast(50, "all of digits, 20 clients, 50 rounds, tests every 5", seeds=5, every=5)),
    claims=tuple(
        above(name, "local", source="our own expectation: personalisation should not lose to training alone")
        for name in _PERSONALISED
    ),
    views=(Table(), Points()),
    about="All methods of the package with their default options (but for three: docs/learning_check.md) on real handwritten digits "
    "that need no download: a check that each learns, not a comparison (DBE's kappa is the better of two, nothing else was tuned).",
)
