"""What the papers tune and do not print, chosen by us: one grid a method and data set, judged on samples that are held out.

Not a paper's tables. A fifth of every client's training part is tested on in place of the test part (`+validation=0.2`), by the
paper's measure, with one seed; for 40 rounds, or for all where that showed to be too few. The paper's tables use `Choice.chosen`:
the usual value, unless another one is better (p < 0.05, paired over clients); of several, the best, of equal ones the nearest to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pflrepro.papers.artefact import SMOKE, Artefact, Column, Row, column, fast, row
from pflrepro.papers.measures import ACCURACY, FDA_ACCURACY, Measure
from pflrepro.papers.settings import CIFAR100_PRACTICAL, FMNIST_PRACTICAL, HAR_USERS, SCARCE_CIFAR100, Setting
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
        return f"results/tuning-{self.method.lower().removeprefix('fedavg+')}"

    def row(self, *keys: str, **more: Any) -> Row:
        """The method's row in a paper's tables, with what the columns `keys` decided; `more`: as of `artefact.row`."""
        known, everywhere, where = {each.key: each for each in self.choices}, {}, {}
        by_data = dict(more.pop("by_data", {}))
        for choice in (known[key] for key in keys):
            chosen = {self.option: choice.chosen, **choice.fixed}
            by_data |= dict.fromkeys(choice.data, chosen)
            everywhere |= {} if choice.data else chosen
            where.setdefault(choice.chosen, []).append(choice.key if choice.data else "")
        said = (f"{value:g} on {', '.join(names)}".removesuffix(" on ") for value, names in where.items())
        note = f"{self.symbol} = {'; '.join(said)}, not printed, tuned by us ({self.id})"
        return row(self.method, note=note, by_data=by_data, **everywhere, **more)

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
            views=(Table(), Sweep(option(self.option), self.symbol, log=max(values) > 5 * min(values))),
            spread="clients",
            about=f"The grid for {self.method} {self.source}, of which no paper prints the choice. A fifth of every client's "
            f"training samples is tested on and does not train; the test part is not looked at. Chosen for {said}; by this rule: "
            "the usual value, unless another one is better (p < 0.05, paired over clients).",
        )


def _scarce(values: tuple[float, ...], usual: float, chosen: float, **fixed: int) -> Choice:
    """pFedFDA's setting of 50 samples a client, of which 40 train here; the choice is for all its data sets."""
    return Choice("cifar100-50", SCARCE_CIFAR100, FDA_ACCURACY, values, usual, chosen, fixed=fixed)


def _choice(key: str, setting: Setting, values: tuple[float, ...], usual: float, chosen: float) -> Choice:
    """A data set of DBE's and GPFL's tables."""
    return Choice(key, setting, ACCURACY, values, usual, chosen, data=(setting.dataset,))


# A quarter of the training samples, as at the tables' scale `fast`; HAR has few and is taken whole.
_FMNIST = ("fmnist", FMNIST_PRACTICAL.share(0.25))
_CIFAR100 = ("cifar100", CIFAR100_PRACTICAL.share(0.25))
_HAR = ("har", HAR_USERS)
_LAMBDAS = (0.1, 1.0, 2.0)
DITTO = Tuning(
    *("Ditto", "proximal", "lambda", "[FDA C.2; off]"),
    (
        _scarce((0.05, 0.1, 0.5, 1.0, 2.0), 0.1, 0.1, personal_epochs=5),
        _choice(*_FMNIST, _LAMBDAS, usual=1.0, chosen=1.0),
        _choice(*_CIFAR100, _LAMBDAS, usual=1.0, chosen=0.1),
        _choice(*_HAR, _LAMBDAS, usual=1.0, chosen=1.0),
    ),
)
FEDPROX = Tuning(
    *("FedProx", "mu", "mu", "[BR A]"),
    tuple(_choice(*where, (0.001, 0.01, 0.1), usual=0.001, chosen=0.001) for where in (_FMNIST, _CIFAR100, _HAR)),
)
APFL = Tuning("APFL", "alpha", "alpha", "[FDA C.2]", (_scarce((0.25, 0.5, 0.75, 1.0), 0.5, 0.25),), rounds=200)
MOON = Tuning(
    *("MOON", "mu", "mu", "[BR A]"),
    # With 1 nothing is learned: the features get shorter from round to round, until every answer is the same.
    (_choice(*_HAR, (0.01, 0.1, 1.0), usual=1.0, chosen=0.1),),
)
# For the other networks: 50 [DBE-code run script], 1 and 0.1 [recalled], of a grid of twelve. Until round 50 DBE is behind FedAvg.
DBE = Tuning(
    *("FedAvg+DBE", "kappa", "kappa", "[DBE App. C.2, recalled]"),
    (_choice(*_HAR, (1.0, 10.0, 50.0, 200.0), usual=50.0, chosen=50.0),),
    rounds=100,
)
# With 0.1, its author's for networks of the MNIST kind, nothing is learned: lambda times the rate is 1.5, and theta overshoots.
PFEDME = Tuning(
    *("pFedMe", "personal_rate", "eta_p", "[author]"),
    (_choice(*_HAR, (0.003, 0.01, 0.03, 0.1), usual=0.1, chosen=0.01),),
)
# With the platform's 0.005 the loss is no number after round 9. A round takes a minute on one core.
FEDGEN = Tuning(
    *("FedGen", "generator_rate", "generator rate", "[LIB]"),
    (_choice(*_HAR, (0.0005, 0.005), usual=0.005, chosen=0.0005),),
    rounds=20,
)
FEDPAC = Tuning("FedPAC", "alignment", "lambda", "[FDA C.2]", (_scarce((0.1, 0.5, 1.0, 5.0, 10.0), 1.0, 1.0),))
TUNINGS = (DITTO, FEDPROX, APFL, FEDPAC, MOON, DBE, PFEDME, FEDGEN)
ARTEFACTS = tuple(each.artefact() for each in TUNINGS)
