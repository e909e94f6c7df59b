"""Features in a plane: t-SNE of several shots, each with the number of what the eye is to see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pflrepro.data.datasets import DATASETS
from pflrepro.papers.measures import Evidence
from pflrepro.papers.model_measures import POINTS, separation
from pflrepro.papers.projection import Panel, projected
from pflrepro.papers.views.view import Shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Shot:
    """One panel: the features of a row's models in a column at a layer, before or after a further local training.

    Attributes:
        layer: see `metrics.representations.collect_layers`.
        title: by default row, layer and when.
    """

    row: str
    column: str
    layer: str = "features"
    after: bool = False
    title: str = ""


@dataclass(frozen=True)
class Planes(Shown):
    """One panel a shot, of the first seed; a shot without a run is left out.

    Shots of one run (layers, before and after local training) share a projection, so that points can be compared from panel to panel.
    Networks of several runs have no axes in common: each run has a projection of its own, drawn at the same size.

    Attributes:
        numbers: of `model_measures.SEPARATIONS`, beside each panel, of the features, not of the plane.
        colour: of the points, `class` (marker shape = client) or `client`.
        named: whether the colour bar has the classes' names, not their numbers.
        limit: samples a panel.
        name: of the figure, "" for the main one.
    """

    shots: tuple[Shot, ...]
    numbers: tuple[str, ...] = ("class separation",)
    colour: str = "class"
    named: bool = False
    limit: int = POINTS
    perplexity: float = 30.0
    name: str = ""
    of_cells: ClassVar = False

    def evidence(self, study: Any) -> dict[Shot, Evidence]:
        """The shots whose runs are there, with the run of the first seed."""
        found = {shot: study.evidence(shot.row, shot.column) for shot in self.shots}
        return {shot: evidence[0] for shot, evidence in found.items() if evidence}

    def measured(self, shot: Shot, evidence: Evidence) -> dict[str, float]:
        """The number of each kind for the samples of a panel."""
        return {kind: separation(evidence, kind, shot.layer, shot.after, self.limit) for kind in self.numbers}

    def title(self, study: Any, shot: Shot) -> str:
        """What a panel is called."""
        layer = "" if shot.layer == "features" else f", {shot.layer}"
        when = "after local training" if shot.after else "before local training"
        return shot.title or f"{study.artefact.row(shot.row).label}{layer}, {when}"

    def frame(self, study: Any) -> pd.DataFrame:
        """One line a shot and number."""
        import pandas as pd

        lines = [
            {
                "panel": self.title(study, shot),
                "row": shot.row,
                "column": shot.column,
                "layer": shot.layer,
                "after": shot.after,
                "round": evidence.state[1],
                "run": evidence.run.id,
                "number": kind,
                "value": value,
            }
            for shot, evidence in self.evidence(study).items()
            for kind, value in self.measured(shot, evidence).items()
        ]
        return pd.DataFrame(lines)

    def table(self, study: Any) -> pd.DataFrame | None:
        import pandas as pd

        found = self.evidence(study)
        lines = [
            {"": self.title(study, shot)} | {kind: _said(value) for kind, value in self.measured(shot, each).items()}
            for shot, each in found.items()
        ]
        return pd.DataFrame(lines) if lines else None

    def figures(self, study: Any) -> dict[str, Figure]:
        from pflrepro.viz.embedding import planes

        found = self.evidence(study)
        if not found:
            return {}
        panels: dict[Shot, Panel] = {}
        for shots in _by_run(found).values():
            looks = [(shot.layer, shot.after) for shot in shots]
            planes_of_run = projected(found[shots[0]], looks, self.limit, self.perplexity)
            panels |= zip(shots, planes_of_run, strict=True)
        titles = []
        for shot, evidence in found.items():
            numbers = (f"{kind} {_said(value)}" for kind, value in self.measured(shot, evidence).items())
            titles.append("\n".join((self.title(study, shot), *numbers)))
        shown = [panels[shot] for shot in found]
        names = DATASETS[next(iter(found.values())).run.experiment.data.dataset].class_names if self.named else ()
        return {self.name: planes(shown, [each.points for each in shown], titles, self.colour, names=names)}

    def notes(self, study: Any) -> list[str]:
        found = self.evidence(study)
        missing = [self.title(study, shot) for shot in self.shots if shot not in found]
        rounds = ", ".join(str(each) for each in sorted({evidence.state[1] for evidence in found.values()}))
        models = f"; models after round {rounds}" if rounds else ""
        runs = "; one projection a run" if len(_by_run(found)) > 1 else ""
        shapes = "; shape: client" if self.colour == "class" else ""
        said = (
            f"t-SNE (perplexity {self.perplexity:g}), at most {self.limit} test samples a panel, first seed{models}{runs}{shapes}; "
            "the numbers are of the features themselves, distances between islands of the picture mean little"
        )
        return [said, *([f"not run: {'; '.join(missing)}"] if missing else [])]


def _said(value: float) -> str:
    """Two decimals, of what is below 0.1 two digits: a ratio of 0.003 is not none."""
    return f"{value:.2f}" if abs(value) >= 0.1 or not value else f"{value:#.2g}"


def _by_run(found: Mapping[Shot, Evidence]) -> dict[str, list[Shot]]:
    """The shots of each run, in their order."""
    shots: dict[str, list[Shot]] = {}
    for shot, evidence in found.items():
        shots.setdefault(evidence.run.id, []).append(shot)
    return shots
