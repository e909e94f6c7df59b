"""What the papers tune and do not print, chosen by us: one grid a method and data set, judged on samples that are held out.

Not a paper's tables. A fifth of every client's training part is tested on in place of the test part (`+validation=0.2`), by the
paper's measure, with one seed; for 40 rounds, or for all where that showed to be too few. The paper's tables use `Choice.chosen`:
the usual value, unless another one is better (p < 0.05, paired over clients); of several, the best, of equal ones the nearest to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pflrepro.papers.artefact import SMOKE, Artefact, Column, Row, column, fast, row
from pflrepro.papers.measures import ACCURACY, FDA_ACCURACY, Measure
from pflrepro.papers.settings import FMNIST_PRACTICAL, HAR_USERS, SCARCE_CIFAR100, Setting
from pflrepro.papers.views.sweep import Sweep, option
from pflrepro.papers.views.table import Table

HELD_OUT = 0.2


@dataclass(frozen=True)
class Choice:
    """One column: the values that were tried on one data set, and the one that the papers' tables use there.

    Attributes:
        setting: the papers', of whose training samples a fifth is held out here; measure: the papers', too.
        values: the grid; usual: the authors' value, the platform's author's or our default.
        chosen: what the committed table decides.
        data: data sets on which it holds; (): all of the paper's.
        fixed: other options that the paper prints.
    """

    key: str
    setting: Setting
    measure: Measure
    values: tuple[float, ...]
    usual: float
    chosen: float
    data: tuple[str, ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict)

    def column(self) -> Column:
        """Tested on held-out samples, by the paper's measure."""
        label = f"{self.setting.label}, a fifth held out"
        held_out = self.setting.with_(label, partition=f"{self.setting.partition}+validation={HELD_OUT:g}")
        moment = self.measure.rule.partition(",")[0]
        judged = replace(
            self.measure, title="validation accuracy", rule=f"{moment}, on training samples that are held out"
        )
        return column(self.key, held_out, judged, rows=[f"{value:g}" for value in self.values], options=self.fixed)


@dataclass(frozen=True)
class Tuning:
    """An option of a method whose best value the papers do not print.

    Attributes:
        method: as the papers print it.
        option: its name here; symbol: as the papers have it.
        rounds: so many; of APFL all 200: after 40 the value that is best at the end is the worst.
        source: whose grid it is.
    """

    method: str
    option: str
    symbol: str
    source: str
    choices: tuple[Choice, ...]
    rounds: int = 40

    @property
    def id(self) -> str:
        return f"results/tuning-{self.method.lower()}"

    def row(self, key: str) -> Row:
        """The method's row in a paper's tables, with what the column `key` decided."""
        choice = {each.key: each for each in self.choices}[key]
        chosen = {self.option: choice.chosen, **choice.fixed}
        where = f" on {key}" if choice.data else ""
        note = f"{self.symbol} = {choice.chosen:g}{where}, not printed, tuned by us ({self.id})"
        if choice.data:
            return row(self.method, note=note, by_data=dict.fromkeys(choice.data, chosen))
        return row(self.method, note=note, **chosen)

    def artefact(self) -> Artefact:
        """The table whose rows are the values, its columns the data sets."""
        values = sorted({value for choice in self.choices for value in choice.values})
        said = "; ".join(
            f"{choice.setting.label}: {self.symbol} = {choice.chosen:g} (usual {choice.usual:g})"
            for choice in self.choices
        )
        return Artefact(
            self.id,
            f"Our choice of {self.method}'s {self.symbol}",
            rows=tuple(
                row(f"{self.symbol} = {value:g}", self.method.lower(), key=f"{value:g}", **{self.option: value})
                for value in values
            ),
            columns=tuple(choice.column() for choice in self.choices),
            scales=(SMOKE, fast(self.rounds, f"the papers' settings, {self.rounds} rounds", every=20)),
            views=(Table(), Sweep(option(self.option), self.symbol, log=max(values) > 10 * min(values))),
            spread="clients",
            about=f"The grid for {self.method} {self.source}, of which no paper prints the choice. A fifth of every client's "
            f"training samples is tested on and does not train; the test part is not looked at. Chosen for {said}; by this rule: "
            "the usual value, unless another one is better (p < 0.05, paired over clients).",
        )


def _scarce(values: tuple[float, ...], usual: float, chosen: float, **fixed: int) -> Choice:
    """pFedFDA's setting of 50 samples a client, of which 40 train here; the choice is for all its data sets."""
    return Choice("cifar100", SCARCE_CIFAR100, FDA_ACCURACY, values, usual, chosen, fixed=fixed)


# DBE's and GPFL's tables; 40 rounds are too few for their other data.
_FMNIST = Choice(
    *("fmnist", FMNIST_PRACTICAL.share(0.25), ACCURACY, (0.1, 1.0, 2.0)), usual=1.0, chosen=1.0, data=("fmnist",)
)
DITTO = Tuning(
    *("Ditto", "proximal", "lambda", "[FDA C.2; off]"),
    (_scarce((0.05, 0.1, 0.5, 1.0, 2.0), 0.1, 0.1, personal_epochs=5), _FMNIST),
)
APFL = Tuning("APFL", "alpha", "alpha", "[FDA C.2]", (_scarce((0.25, 0.5, 0.75, 1.0), 0.5, 0.25),), rounds=200)
# With 1 nothing is learned: the features get shorter from round to round, until every answer is the same.
_HAR = Choice("har", HAR_USERS, ACCURACY, (0.01, 0.1, 1.0), usual=1.0, chosen=0.1, data=(HAR_USERS.dataset,))
MOON = Tuning("MOON", "mu", "mu", "[BR A]", (_HAR,))
FEDPAC = Tuning("FedPAC", "alignment", "lambda", "[FDA C.2]", (_scarce((0.1, 0.5, 1.0, 5.0, 10.0), 1.0, 1.0),))
TUNINGS = (DITTO, APFL, FEDPAC, MOON)
ARTEFACTS = tuple(each.artefact() for each in TUNINGS)
