"""A study: an artefact at a scale, with its evidence.

    study = papers.study("dbe/table5", scale="fast", seeds=3)
    study.plan(); study.run(); study.frame; study.table(); study.show(); study.claims(); study.write("figures")

It trains nothing before `run`; everything else reads what the store holds. In a notebook it shows itself: what is trained, on which
data, with which options.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pflrepro.algorithms.registry import build_method, canonical_name
from pflrepro.errors import MissingData, UserError
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.run import run as train
from pflrepro.papers import outputs, showing
from pflrepro.papers.artefact import Artefact, Row
from pflrepro.papers.artefact import row as make_row
from pflrepro.papers.planning import Planned, plan
from pflrepro.papers.registry import find, select
from pflrepro.papers.studied import Studied
from pflrepro.papers.timing import Timings


class Study(Studied):
    """An artefact at a scale, to run and to look at; see `Studied` for what it holds.

    Attributes:
        artefact: its id, or one of one's own.
        also: methods of one's own beside the paper's, `module:Class` or registered names.
    """

    def __init__(self, artefact: str | Artefact, scale: str = "fast", *, also: Sequence[str] = (), **how: Any) -> None:
        paper = find(artefact)
        super().__init__(paper, scale, also=tuple(_own_row(name, paper) for name in also), **how)

    def plan(self) -> list[Planned]:
        """Every training that the artefact needs at this scale, what is there already, and what the rest may cost here."""
        return plan(self, Timings(self.store.root))

    def run(
        self, *, backend: str = "auto", device: str | None = None, workers: int | None = None, progress: bool = True
    ) -> list[Planned]:
        """Train what the store lacks; gives the plan as it stood before. What is there is not touched.

        Cells whose data are not at hand or whose parts are not in the package stay `not run`; if nothing at all can be run, the error
        says why.
        """
        planned = plan(self)
        todo = [entry for entry in planned if entry.state == "to run"]
        if planned and not todo and not any(entry.state == "done" for entry in planned):
            raise self._nothing(planned)
        how = {"backend": backend, "device": device or self.device, "workers": workers, "progress": progress}
        by_moments: dict[tuple[str | int, ...], list[Experiment]] = {}
        for entry in todo:
            by_moments.setdefault(entry.keep, []).append(entry.experiment)
        for keep, experiments in by_moments.items():
            train(experiments, store=self.store, data_root=self.data_root, keep=keep, **how)
        self.__dict__.pop("cells", None)
        self.__dict__.pop("outcomes", None)
        return planned

    def _nothing(self, planned: Sequence[Planned]) -> UserError:
        lacking = sorted({entry.reason for entry in planned if entry.state == "no data"})
        where = f"{self.artefact.id} at scale {self.scale.name}"
        if lacking:
            without = ", ".join(each.id for each in select(self.artefact.paper) if not each.trains)
            exact = f", and {without}" if without else ""
            return MissingData(f"{where}: {lacking[0]}; without data work --scale smoke{exact}")
        return UserError(f"nothing of {where} can be run: {'; '.join(sorted({entry.reason for entry in planned})[:3])}")

    def table(self) -> showing.Tables:
        """The tables of the artefact's views, as a notebook shows them."""
        return showing.Tables(self.caption(), self.tables())

    def show(self) -> showing.Pictures:
        """The pictures, as a notebook shows them."""
        return showing.Pictures(self.figures())

    def claims(self) -> showing.Tables:
        """The claims that could be checked with their tests, as a notebook shows them; `outcomes` has them as numbers."""
        found = [(showing.claims(self), [])] if self.outcomes else []
        return showing.Tables(f"claims: {self.counts}", found)

    def caption(self) -> str:
        """What stands under every number and picture: scale, data, seeds, rounds, rule."""
        return showing.caption(self)

    def write(self, out: str | Path = "figures") -> list[Path]:
        """Write `<out>/<paper>/<artefact>.{pdf,png,csv,md}`; gives the paths."""
        return outputs.write(self, out)

    def _repr_html_(self) -> str:
        return showing.page(self)


def study(artefact: str | Artefact, scale: str = "fast", **how: Any) -> Study:
    """`Study(artefact, scale, ...)`; `UserError` for an unknown artefact, scale or row.

    Example:
        >>> study("fedbr/table7", "paper").artefact.title
        'FedBR Table 7: parameters that travel, and simulation time'
    """
    return Study(artefact, scale, **how)


def _own_row(name: str, artefact: Artefact) -> Row:
    """A row for a method of one's own, `module:Class` or the name of a registered one; `UserError` where there is none."""
    known = canonical_name(name)
    build_method(known)
    key = known if known not in artefact.row_keys else f"own {known}"
    return make_row(name.rsplit(":", 1)[-1], known, key=key, note="not of the paper")
