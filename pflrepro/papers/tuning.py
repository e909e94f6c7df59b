"""What the papers tune and do not print, chosen by us: one grid a method, judged on samples that neither train nor are tested on.

Not a paper's tables. A fifth of every client's training part is tested on in its place (`+validation=0.2`), in a fifth of the paper's
rounds; the best value of the grid, by the paper's measure and one seed, is what `CHOSEN` says and the paper's tables use. The grids
are pFedFDA's own [FDA C.2], whose chosen values are lost in the text.
"""

from __future__ import annotations

from dataclasses import replace

from pflrepro.papers.artefact import SMOKE, Artefact, column, fast, row
from pflrepro.papers.measures import FDA_ACCURACY
from pflrepro.papers.settings import SCARCE_CIFAR100
from pflrepro.papers.views.sweep import Sweep, option
from pflrepro.papers.views.table import Table

# Of pFedFDA's protocol with 50 samples a client, which the paper calls extremely scarce; one choice for all its image sets.
VALIDATED = SCARCE_CIFAR100.with_(
    "CIFAR100, 40 samples, 10 held out", partition=f"{SCARCE_CIFAR100.partition}+validation=0.2"
)
ROUNDS = 40
VALIDATION = replace(FDA_ACCURACY, title="validation accuracy")


def _grid(method: str, name: str, symbol: str, values: tuple[float, ...], **fixed: int) -> Artefact:
    """A table of one method whose rows are the values of one option."""
    key = method.lower()
    return Artefact(
        f"results/tuning-{key}",
        f"Our choice of {method}'s {symbol}",
        rows=tuple(
            row(f"{symbol} = {value:g}", key, key=f"{symbol}-{value:g}", **{name: value}, **fixed) for value in values
        ),
        columns=(column("cifar100", VALIDATED, VALIDATION),),
        scales=(
            SMOKE,
            fast(ROUNDS, f"pFedFDA's setting with 40 training samples a client, {ROUNDS} of its 200 rounds", every=20),
        ),
        views=(Table(), Sweep(option(name), symbol, log=max(values) > 1)),
        spread="clients",
        about=f"pFedFDA's grid for {method} [FDA C.2], of which the paper does not print the choice, judged on 10 training samples "
        "a client that are held out. The test part is not looked at.",
    )


ARTEFACTS = (
    _grid("Ditto", "proximal", "lambda", (0.05, 0.1, 0.5, 1.0, 2.0), personal_epochs=5),
    _grid("APFL", "alpha", "alpha", (0.25, 0.5, 0.75, 1.0)),
    _grid("pFedMe", "lam", "lambda", (1.0, 5.0, 10.0, 15.0)),
    _grid("FedPAC", "alignment", "lambda", (0.1, 0.5, 1.0, 5.0, 10.0)),
)
