"""FedBR Figures 2 and 3: the toy's numbers, its plane and its predictions, each a kept answer of the central model's run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.papers.measures import Evidence, Measure, Value
from pflrepro.papers.model_measures import LAST
from pflrepro.papers.projection import Panel
from pflrepro.papers.views.view import Shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pflrepro.simulation.simulation import Simulation

PANELS = ("F_g(X_1)", "F_1(X_1)", "F_1(X_2)")
LIMIT = 1000  # samples of X_1, and of X_2, in the plane
PERPLEXITY = 30.0
SAMPLE_OF = 8  # the class of Figure 3's one sample [FedBR section 3]


def bias(entry: str, title: str, unit: str = "", scale: float = 1.0) -> Measure:
    """A number of `representations.LocalBias` of the client with half of the classes."""

    def of(evidence: Evidence) -> Value:
        def take(simulation: Simulation) -> Mapping[str, Any]:
            from pflrepro.metrics.representations import local_bias
            from pflrepro.metrics.toy import half_of_the_classes

            return vars(local_bias(half_of_the_classes(simulation)))

        return Value(scale * float(evidence.reading("toy-bias", take)[entry][0]))

    return Measure(f"toy-{entry}", title, of, unit, 2, "", "", rule=LAST)


def predictions(study: Any) -> pd.DataFrame | None:
    """What F_1's classifier says, in percent of each class: its output for one sample of class 8, and its predictions for X_2."""
    import pandas as pd

    def take(simulation: Simulation) -> Mapping[str, Any]:
        from pflrepro.metrics.representations import prediction_shares
        from pflrepro.metrics.toy import before_and_after, half_of_the_classes
        from pflrepro.simulation.inspection import samples

        toy = half_of_the_classes(simulation)
        x, y = samples(toy)
        scores = before_and_after(toy)[1].scores(x)
        one = scores[(y == SAMPLE_OF).nonzero()[:1, 0]]
        classes = scores.shape[1]
        shares = prediction_shares(scores[y >= classes // 2], classes)[0]
        return {"one": prediction_shares(one, classes)[1], "shares": shares}

    evidence = study.evidence(study.artefact.rows[0].key, study.artefact.columns[0].key)
    if not evidence:
        return None
    found = evidence[0].reading("toy-predictions", take)
    titles = {
        f"(a) output for one sample of class {SAMPLE_OF}": "one",
        "(b) predictions for all samples of the other classes": "shares",
    }
    shown = pd.DataFrame({title: 100.0 * found[name] for title, name in titles.items()})
    own = len(shown) // 2
    return shown.set_axis([f"class {label}{', its own' if label < own else ''}" for label in shown.index])


@dataclass(frozen=True)
class ToyPlanes(Shown):
    """F_g(X_1), F_1(X_1) and F_1(X_2) in one t-SNE, of the first seed."""

    def panels(self, study: Any) -> list[Panel]:
        """One a title of `PANELS`; none where nothing was run."""

        def take(simulation: Simulation) -> Mapping[str, Any]:
            from pflrepro.metrics.representations import tsne
            from pflrepro.metrics.toy import before_and_after, half_of_the_classes
            from pflrepro.simulation.inspection import samples

            toy = half_of_the_classes(simulation)
            x, y = samples(toy)
            before, after = before_and_after(toy)
            own = y < toy.task.classes // 2
            shown = [(model, own.nonzero()[:LIMIT, 0]) for model in (before, after)]
            shown.append((after, (~own).nonzero()[:LIMIT, 0]))
            points = tsne([model.features(x[rows]) for model, rows in shown], PERPLEXITY)
            labels = [y[rows].cpu().numpy().astype(np.uint8) for _, rows in shown]
            sizes = [len(each) for each in labels]
            return {
                "points": np.concatenate(points).astype(np.float32),
                "labels": np.concatenate(labels),
                "sizes": sizes,
            }

        evidence = study.evidence(study.artefact.rows[0].key, study.artefact.columns[0].key)
        if not evidence:
            return []
        kept = evidence[0].reading("toy-plane", take, limit=LIMIT, perplexity=PERPLEXITY)
        ends = np.cumsum(kept["sizes"])[:-1]
        parts = (np.split(kept[name], ends) for name in ("points", "labels"))
        return [Panel(*pair, np.zeros(len(pair[1]), np.int64), 1) for pair in zip(*parts, strict=True)]

    def figures(self, study: Any) -> dict[str, Figure]:
        from pflrepro.viz.embedding import planes

        panels = self.panels(study)
        drawn = [panel.points for panel in panels]
        return {"": planes(panels, drawn, PANELS)} if panels else {}

    def notes(self, study: Any) -> list[str]:
        said = (
            f"t-SNE (perplexity {PERPLEXITY:g}) of the three panels together, at most {LIMIT} samples each, first seed"
        )
        return [f"{said}; F_g: the central model, F_1: after local training on X_1, the first half of the classes"]
