"""The learning check: every method of the package on embedded data, five seeds, beside Local.

Not a paper's table. It shows that each method learns under its default options, and which personalised ones fall behind training alone
on 1,797 digits. The labels and names come from the registry, so that a new method is a new row.
"""

from __future__ import annotations

from pflrepro.algorithms.registry import ALGORITHMS, ALIASES, METHOD_PLUGINS, PLUGINS
from pflrepro.papers.artefact import Artefact, Claim, Row, Scale
from pflrepro.papers.demo import PRACTICAL, SMOKE
from pflrepro.papers.fmnist import PAPER

_ON_DIGITS = {
    "fedavg+dbe": (("kappa", 5.0),),  # as in the demo: the papers' 50 is for their CNN
    "fedgen": (("server_steps", 100),),  # of 1,000, which would take ten times as long
    "q-ffl": (
        ("q", 0.1),
    ),  # GRP-FED's 10 makes steps so small that 50 rounds stay near the start (docs/learning_check.md)
}
_PERSONALISED = (
    *(
        "fedavgft",
        "per-fedavg",
        "pfedme",
        "ditto",
        "apfl",
        "fedphp",
        "fedper",
        "fedrep",
        "lg-fedavg",
        "fedrod",
        "fedbabu",
    ),
    *("fedfomo", "apple", "fedpac", "fedproto", "fedavg+dbe", "gpfl", "pfedfda", "grp-fed"),
)


def _row(label: str, algorithm: str) -> Row:
    options = _ON_DIGITS.get(algorithm)
    return Row(label, algorithm, options=((PRACTICAL.model, options),) if options else ())


METHODS = Artefact(
    id="results/methods",
    paper=PAPER,
    title="Learning check: all methods on digits",
    kind="table",
    notebook="results/methods.ipynb",
    rows=(
        *(_row(entry.title, name) for name, entry in ALGORITHMS.items()),
        *(_row(f"FedAvg+{PLUGINS[alias].title}", name) for alias, name in ALIASES.items() if alias in METHOD_PLUGINS),
    ),
    columns=(PRACTICAL,),
    scales=(
        SMOKE,
        Scale("fast", "all of digits, 20 clients, 50 rounds, 5 seeds", rounds=50, seeds=5),
    ),
    claims=tuple(
        Claim(name, "local", source="our own expectation: personalisation should not lose to training alone")
        for name in _PERSONALISED
    ),
    about="All methods of the package with their default options on real handwritten digits that need no download: a check that "
    "each learns, not a comparison (no option was tuned).",
    cost="smoke: a minute. fast: about a quarter of an hour on two CPU cores.",
    pictures=("points",),
)
