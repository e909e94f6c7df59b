"""What pFedFDA tunes and does not print, chosen by us: one grid a method, judged on samples that neither train nor are tested on.

Not a paper's tables. A fifth of every client's training part is tested on in place of the test part (`+validation=0.2`), by the
paper's measure, with one seed; for a fifth of the paper's rounds, or for all where that showed to be too few. The paper's tables
use `Tuning.chosen`: the usual value, unless another one is better (p < 0.05, paired over clients); of several, the best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pflrepro.papers.artefact import SMOKE, Artefact, Row, column, fast, row
from pflrepro.papers.measures import FDA_ACCURACY
from pflrepro.papers.settings import SCARCE_CIFAR100
from pflrepro.papers.views.sweep import Sweep, option
from pflrepro.papers.views.table import Table

VALIDATED = SCARCE_CIFAR100.with_(
    "CIFAR100, 40 samples, 10 held out", partition=f"{SCARCE_CIFAR100.partition}+validation=0.2"
)
VALIDATION = replace(FDA_ACCURACY, title="validation accuracy")


@dataclass(frozen=True)
class Tuning:
    """The values of one option of a method that a paper tried, of which it does not print the best.

    Attributes:
        method: as the paper prints it.
        option: its name here; symbol: as the paper has it.
        values: the paper's grid.
        usual: the value of the authors' code.
        chosen: what the committed table decides.
        rounds: so many; of APFL all 200: after 40 the value that is best at the end is the worst.
        fixed: other options that the paper prints.
    """

    method: str
    option: str
    symbol: str
    values: tuple[float, ...]
    usual: float
    chosen: float
    rounds: int = 40
    fixed: Mapping[str, int] = field(default_factory=dict)

    @property
    def row(self) -> Row:
        """The method's row in the paper's tables."""
        note = f"{self.symbol} = {self.chosen:g}, not printed, tuned by us ({self.id})"
        return row(self.method, note=note, **{self.option: self.chosen}, **self.fixed)

    @property
    def id(self) -> str:
        return f"results/tuning-{self.method.lower()}"

    def artefact(self) -> Artefact:
        """The table whose rows are the values."""
        return Artefact(
            self.id,
            f"Our choice of {self.method}'s {self.symbol}",
            rows=tuple(
                row(
                    f"{self.symbol} = {value:g}",
                    self.method.lower(),
                    key=f"{value:g}",
                    **{self.option: value},
                    **self.fixed,
                )
                for value in self.values
            ),
            columns=(column("cifar100", VALIDATED, VALIDATION),),
            scales=(SMOKE, fast(self.rounds, f"pFedFDA's setting, {self.rounds} of its 200 rounds", every=20)),
            views=(Table(), Sweep(option(self.option), self.symbol, log=max(self.values) > 1)),
            spread="clients",
            about=f"pFedFDA's grid for {self.method} [FDA C.2], of which the paper does not print the choice. Of the 50 training "
            "samples a client 40 train and 10 are tested on; the test part is not looked at. "
            f"Chosen: {self.symbol} = {self.chosen:g}, by this rule: the authors' {self.usual:g}, unless another value is better "
            "(p < 0.05, paired over clients).",
        )


DITTO = Tuning("Ditto", "proximal", "lambda", (0.05, 0.1, 0.5, 1.0, 2.0), 0.1, 0.1, fixed={"personal_epochs": 5})
APFL = Tuning("APFL", "alpha", "alpha", (0.25, 0.5, 0.75, 1.0), 0.5, 0.25, rounds=200)
FEDPAC = Tuning("FedPAC", "alignment", "lambda", (0.1, 0.5, 1.0, 5.0, 10.0), 1.0, 1.0)
TUNINGS = (DITTO, APFL, FEDPAC)
ARTEFACTS = tuple(each.artefact() for each in TUNINGS)
